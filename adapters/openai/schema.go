package openai

import (
	"strings"

	"github.com/forge-continuity/forge/adapters/pyjson"
)

// transformer rewrites a tool's parameter schema as OpenAIJsonSchemaTransformer does, in the same member order.
type transformer struct {
	strict      *pyjson.Value // true, false, or null: then compatible says what it becomes
	compatible  bool
	unsupported bool // the schema needs a rewrite that is not known here
}

func (t *transformer) walk(schema *pyjson.Value) *pyjson.Value {
	if !schema.Is(pyjson.Object) || schema.Get("$ref") != nil || schema.Get("definitions") != nil {
		t.unsupported = true
		return pyjson.NewObject()
	}
	defs := schema.Get("$defs")
	out := t.handle(schema.Without("$defs"))
	if defs != nil && len(defs.Members) > 0 {
		out = out.With("$defs", t.each(defs))
	}
	return out
}

// each handles every member of an object of schemas.
func (t *transformer) each(v *pyjson.Value) *pyjson.Value {
	if !v.Is(pyjson.Object) {
		t.unsupported = true
		return pyjson.NewObject()
	}
	out := pyjson.NewObject()
	for _, m := range v.Members {
		out.Members = append(out.Members, pyjson.Member{Name: m.Name, Value: t.handle(m.Value)})
	}
	return out
}

func (t *transformer) list(v *pyjson.Value) *pyjson.Value {
	if !v.Is(pyjson.Array) {
		t.unsupported = true
		return pyjson.NewArray()
	}
	out := pyjson.NewArray()
	for _, item := range v.Items {
		out.Items = append(out.Items, t.handle(item))
	}
	return out
}

var unions = []string{"allOf", "anyOf", "oneOf"}

func (t *transformer) handle(schema *pyjson.Value) *pyjson.Value {
	if schema.Is(pyjson.Bool) {
		return schema
	}
	if !schema.Is(pyjson.Object) {
		t.unsupported = true
		return pyjson.NewObject()
	}
	kind := schema.Get("type")
	if kind == nil || kind.Kind == pyjson.Null {
		for _, union := range unions {
			schema = t.union(schema, union)
		}
		return t.transform(schema)
	}
	switch kind.Text {
	case "object":
		if kind.Kind == pyjson.String {
			schema = t.object(schema)
		}
	case "array":
		if kind.Kind == pyjson.String {
			schema = t.array(schema)
		}
	}
	for _, union := range unions {
		if members := schema.Get(union); members != nil && len(members.Items) > 0 {
			schema = schema.With(union, t.list(members))
		}
	}
	return t.transform(schema)
}

func (t *transformer) object(schema *pyjson.Value) *pyjson.Value {
	if v := schema.Get("properties"); v != nil && (!v.Is(pyjson.Object) || len(v.Members) > 0) {
		schema = schema.With("properties", t.each(v))
	}
	if v := schema.Get("additionalProperties"); v.Is(pyjson.Object) {
		schema = schema.With("additionalProperties", t.handle(v))
	}
	if v := schema.Get("patternProperties"); v != nil && v.Kind != pyjson.Null {
		schema = schema.With("patternProperties", t.each(v))
	}
	return schema
}

func (t *transformer) array(schema *pyjson.Value) *pyjson.Value {
	if v := schema.Get("prefixItems"); v != nil && len(v.Items) > 0 {
		schema = schema.With("prefixItems", t.list(v))
	}
	switch v := schema.Get("items"); {
	case v.Is(pyjson.Array):
		schema = schema.With("items", t.list(v))
	case v.Is(pyjson.Object) && len(v.Members) > 0:
		schema = schema.With("items", t.handle(v))
	}
	return schema
}

func (t *transformer) union(schema *pyjson.Value, name string) *pyjson.Value {
	members := schema.Get(name)
	if members == nil {
		return schema
	}
	handled, rest := t.list(members), schema.Without(name)
	if len(handled.Items) == 1 && handled.Items[0].Is(pyjson.Object) {
		out := handled.Items[0]
		for _, m := range rest.Members {
			out = out.With(m.Name, m.Value)
		}
		return out
	}
	return rest.With(name, handled)
}

var incompatible = []string{"minLength", "maxLength", "patternProperties", "unevaluatedProperties", "propertyNames", "minProperties",
	"maxProperties", "unevaluatedItems", "contains", "minContains", "maxContains", "uniqueItems"}

var formats = []string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}

var typeBearing = []string{"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"}

func (t *transformer) transform(schema *pyjson.Value) *pyjson.Value {
	strict, open := t.strict.IsTrue(), !t.strict.Is(pyjson.Bool)
	unfit := func() {
		if open {
			t.compatible = false
		}
	}
	schema = schema.Without("title").Without("$schema").Without("discriminator")
	if schema.Get("default") != nil {
		if strict {
			schema = schema.Without("default")
		}
		unfit()
	}
	if ref := schema.Get("$ref"); truthy(ref) {
		if strings.HasPrefix(ref.Text, "#/") && !topLevel(ref.Text) {
			unfit()
		}
		if len(schema.Members) > 1 {
			schema = schema.Without("$ref").With("anyOf", pyjson.NewArray(pyjson.NewObject(pyjson.Member{Name: "$ref", Value: ref})))
		}
	}
	fits := true
	for _, name := range incompatible {
		fits = fits && schema.Get(name) == nil
	}
	if format := schema.Get("format"); truthy(format) {
		fits = fits && contains(formats, format.Text)
	}
	if pattern, ok := schema.Get("pattern").Str(); ok {
		fits = fits && !lookaround(pattern)
	}
	if !fits {
		t.unsupported = t.unsupported || strict // the SDK moves these into the description, in Python's spelling
		unfit()
	}
	if one := schema.Get("oneOf"); one != nil {
		if strict {
			schema = schema.Without("oneOf").With("anyOf", one)
		} else {
			t.compatible = false
		}
	}
	switch kind, _ := schema.Get("type").Str(); kind {
	case "object":
		schema = t.closeObject(schema, strict, open)
	case "array":
		items := schema.Get("items")
		typed := false
		for _, name := range typeBearing {
			typed = typed || items.Get(name) != nil
		}
		if !typed && (schema.Get("prefixItems") == nil || len(schema.Get("prefixItems").Items) == 0) {
			t.unsupported = t.unsupported || strict // the SDK raises
			unfit()
		}
	}
	return schema
}

func (t *transformer) closeObject(schema *pyjson.Value, strict, open bool) *pyjson.Value {
	if schema.Get("properties") == nil {
		schema = schema.With("properties", pyjson.NewObject())
	}
	properties := schema.Get("properties").Members
	switch {
	case strict:
		required := pyjson.NewArray()
		for _, m := range properties {
			required.Items = append(required.Items, pyjson.NewString(m.Name))
		}
		return schema.With("additionalProperties", pyjson.NewBool(false)).With("required", required)
	case !open:
		return schema
	}
	if more := schema.Get("additionalProperties"); more != nil && more.Kind != pyjson.Null && !more.IsFalse() {
		t.compatible = false
	} else {
		schema = schema.With("additionalProperties", pyjson.NewBool(false))
	}
	required := schema.Get("required")
	if required == nil {
		t.compatible = false
		return schema
	}
	for _, m := range properties {
		found := false
		for _, name := range required.Items {
			found = found || name.Is(pyjson.String) && name.Text == m.Name
		}
		t.compatible = t.compatible && found
	}
	return schema
}

// topLevel reports whether a reference names a definition directly under $defs or definitions.
func topLevel(ref string) bool {
	for _, prefix := range []string{"#/$defs/", "#/definitions/"} {
		if name, ok := strings.CutPrefix(ref, prefix); ok {
			return name != "" && !strings.Contains(name, "/")
		}
	}
	return false
}

func lookaround(pattern string) bool {
	for i := 0; i < len(pattern); i++ {
		if pattern[i] == '\\' {
			i++
			continue
		}
		for _, token := range []string{"(?=", "(?!", "(?<=", "(?<!"} {
			if strings.HasPrefix(pattern[i:], token) {
				return true
			}
		}
	}
	return false
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
