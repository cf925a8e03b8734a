package wire

import (
	"strings"

	"github.com/forge-continuity/forge/adapters/pyjson"
)

// SchemaRewrite is a JsonSchemaTransformer of the SDK: a walk over a JSON schema that may put definitions in place of their
// references and does something to each schema on the way up.
type SchemaRewrite struct {
	Inline   bool // references become what they refer to
	Nullable bool // a union of one schema and null becomes that schema with nullable
	Deeper   bool // propertyNames and contains are walked too
	Each     func(schema *pyjson.Value) (*pyjson.Value, error)
}

// Apply rewrites a schema. Recursive definitions, and references elsewhere than to $defs, are refused.
func (r SchemaRewrite) Apply(schema *pyjson.Value, path string) (*pyjson.Value, error) {
	w := schemaWalk{SchemaRewrite: r, defs: schema.Get("$defs"), path: path}
	out := w.node(schema.Without("$defs"))
	if !r.Inline && w.defs != nil && len(w.defs.Members) > 0 {
		out = out.With("$defs", w.members(w.defs))
	}
	return out, w.err
}

type schemaWalk struct {
	SchemaRewrite
	defs  *pyjson.Value
	stack []string
	path  string
	err   error
}

func (w *schemaWalk) fail(reason string) *pyjson.Value {
	if w.err == nil {
		w.err = Fail(Unsupported, w.path, reason)
	}
	return pyjson.NewObject()
}

func (w *schemaWalk) members(v *pyjson.Value) *pyjson.Value {
	out := pyjson.NewObject()
	for _, m := range v.Members {
		out.Members = append(out.Members, pyjson.Member{Name: m.Name, Value: w.node(m.Value)})
	}
	return out
}

func (w *schemaWalk) list(v *pyjson.Value) *pyjson.Value {
	out := pyjson.NewArray()
	for _, item := range v.Items {
		out.Items = append(out.Items, w.node(item))
	}
	return out
}

func (w *schemaWalk) node(s *pyjson.Value) *pyjson.Value {
	if s.Is(pyjson.Bool) || w.err != nil {
		return s
	}
	if !s.Is(pyjson.Object) {
		return w.fail("schema that is no object")
	}
	if ref := TextOf(s, "$ref"); w.Inline && ref != "" {
		return w.reference(s, ref)
	}
	kind := Present(s, "type")
	switch {
	case kind == nil:
		for _, name := range []string{"allOf", "anyOf", "oneOf"} {
			s = w.union(s, name)
		}
	case kind.Text == "object" && kind.Is(pyjson.String):
		for _, name := range []string{"properties", "patternProperties"} {
			if v := s.Get(name); Truthy(v) {
				s = s.With(name, w.members(v))
			}
		}
		for _, name := range []string{"additionalProperties", "propertyNames"} {
			if v := s.Get(name); v.Is(pyjson.Object) && (name != "propertyNames" || w.Deeper) {
				s = s.With(name, w.node(v))
			}
		}
	case kind.Text == "array" && kind.Is(pyjson.String):
		if v := s.Get("prefixItems"); Truthy(v) {
			s = s.With("prefixItems", w.list(v))
		}
		if v := s.Get("items"); v.Is(pyjson.Array) {
			s = s.With("items", w.list(v))
		} else if v.Is(pyjson.Object) && len(v.Members) > 0 {
			s = s.With("items", w.node(v))
		}
		if v := s.Get("contains"); w.Deeper && v.Is(pyjson.Object) {
			s = s.With("contains", w.node(v))
		}
	}
	if kind != nil {
		for _, name := range []string{"allOf", "anyOf", "oneOf"} {
			if v := s.Get(name); Truthy(v) {
				s = s.With(name, w.list(v))
			}
		}
	}
	if w.Each == nil || w.err != nil {
		return s
	}
	out, err := w.Each(s)
	if err != nil {
		w.err = err
		return s
	}
	return out
}

func (w *schemaWalk) reference(s *pyjson.Value, ref string) *pyjson.Value {
	key, ok := strings.CutPrefix(ref, "#/$defs/")
	def := w.defs.Get(key)
	if !ok || !def.Is(pyjson.Object) || strings.ContainsAny(key, "/~%") {
		return w.fail("a reference")
	}
	for _, open := range w.stack {
		if open == key {
			return w.fail("a recursive schema")
		}
	}
	for _, m := range s.Members {
		if m.Name != "$ref" {
			def = def.With(m.Name, m.Value)
		}
	}
	w.stack = append(w.stack, key)
	out := w.node(def)
	w.stack = w.stack[:len(w.stack)-1]
	return out
}

func isNullType(v *pyjson.Value) bool {
	return len(v.Members) == 1 && TextOf(v, "type") == "null"
}

func (w *schemaWalk) union(s *pyjson.Value, name string) *pyjson.Value {
	members := s.Get(name)
	if members == nil {
		return s
	}
	handled, rest := w.list(members), s.Without(name)
	if w.Nullable && len(handled.Items) == 2 {
		a, b := handled.Items[0], handled.Items[1]
		switch {
		case isNullType(a) && isNullType(b):
			handled = pyjson.NewArray(a)
		case isNullType(a) && b.Is(pyjson.Object):
			handled = pyjson.NewArray(b.With("nullable", pyjson.NewBool(true)))
		case isNullType(b) && a.Is(pyjson.Object):
			handled = pyjson.NewArray(a.With("nullable", pyjson.NewBool(true)))
		}
	}
	if len(handled.Items) == 1 && handled.Items[0].Is(pyjson.Object) {
		out := handled.Items[0]
		for _, m := range rest.Members {
			out = out.With(m.Name, m.Value)
		}
		return out
	}
	return rest.With(name, handled)
}

// WithoutTitles drops $schema and title everywhere.
func WithoutTitles(s *pyjson.Value) (*pyjson.Value, error) {
	return s.Without("title").Without("$schema"), nil
}
