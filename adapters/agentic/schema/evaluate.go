package schema

import (
	"unicode/utf8"

	"github.com/forge-continuity/forge/adapters/pyjson"
)

// Accepts reports whether the schema accepts the value. The error is an *UnsupportedError: the evaluation went over its limits.
func (s *Schema) Accepts(value *pyjson.Value) (bool, error) {
	e := evaluation{s: s}
	ok := e.accepts(s.root, value, 0)
	if e.err != nil {
		return false, e.err
	}
	return ok, nil
}

type evaluation struct {
	s     *Schema
	steps int
	err   error
}

// accepts is true only if no limit was met; a limit makes the whole evaluation an error.
func (e *evaluation) accepts(schema, v *pyjson.Value, depth int) bool {
	e.steps++
	if depth > maxDepth || e.steps > maxSteps {
		e.err = &UnsupportedError{"", "evaluation over its limits"}
	}
	if e.err != nil {
		return false
	}
	if schema.Is(pyjson.Bool) {
		return schema.IsTrue()
	}
	if ref, ok := schema.Get("$ref").Str(); ok {
		target, _ := e.s.resolve(ref)
		if !e.accepts(target, v, depth+1) {
			return false
		}
	}
	if !e.general(schema, v, depth) {
		return false
	}
	switch v.Kind {
	case pyjson.Number:
		return e.number(schema, v)
	case pyjson.String:
		return e.text(schema, v)
	case pyjson.Array:
		return e.array(schema, v, depth)
	case pyjson.Object:
		return e.object(schema, v, depth)
	}
	return true
}

func (e *evaluation) general(schema, v *pyjson.Value, depth int) bool {
	if t := schema.Get("type"); t != nil && !hasType(t, v) {
		return false
	}
	if c := schema.Get("const"); c != nil && !equal(c, v) {
		return false
	}
	if enum := schema.Get("enum"); enum != nil {
		found := false
		for _, item := range enum.Items {
			found = found || equal(item, v)
		}
		if !found {
			return false
		}
	}
	if all := schema.Get("allOf"); all != nil {
		for _, sub := range all.Items {
			if !e.accepts(sub, v, depth+1) {
				return false
			}
		}
	}
	if some := schema.Get("anyOf"); some != nil && e.many(some, v, depth, 1) == 0 {
		return false
	}
	if single := schema.Get("oneOf"); single != nil && e.many(single, v, depth, 2) != 1 {
		return false
	}
	if not := schema.Get("not"); not != nil && e.accepts(not, v, depth+1) {
		return false
	}
	if cond := schema.Get("if"); cond != nil {
		branch := schema.Get("else")
		if e.accepts(cond, v, depth+1) {
			branch = schema.Get("then")
		}
		if branch != nil && !e.accepts(branch, v, depth+1) {
			return false
		}
	}
	return e.err == nil
}

// many counts the schemas that accept, up to a number that is enough.
func (e *evaluation) many(schemas, v *pyjson.Value, depth, enough int) int {
	n := 0
	for _, sub := range schemas.Items {
		if e.accepts(sub, v, depth+1) {
			if n++; n == enough {
				break
			}
		}
	}
	return n
}

func hasType(t, v *pyjson.Value) bool {
	if t.Is(pyjson.Array) {
		for _, item := range t.Items {
			if hasType(item, v) {
				return true
			}
		}
		return false
	}
	if t.Text == "integer" {
		n, ok := parseNumber(v)
		return ok && n.integer()
	}
	return t.Text == v.Kind.String()
}

// equal is equality of JSON Schema: numbers by value, objects without order.
func equal(a, b *pyjson.Value) bool {
	if a.Kind != b.Kind || len(a.Items) != len(b.Items) || len(a.Members) != len(b.Members) {
		return false
	}
	switch a.Kind {
	case pyjson.Number:
		x, _ := parseNumber(a)
		y, _ := parseNumber(b)
		return x.compare(y) == 0
	case pyjson.Array:
		for i := range a.Items {
			if !equal(a.Items[i], b.Items[i]) {
				return false
			}
		}
		return true
	case pyjson.Object:
		for _, m := range a.Members {
			if other := b.Get(m.Name); other == nil || !equal(m.Value, other) {
				return false
			}
		}
		return true
	}
	return a.Text == b.Text
}

func (e *evaluation) number(schema, v *pyjson.Value) bool {
	n, _ := parseNumber(v)
	for _, bound := range []struct {
		keyword string
		fits    func(int) bool
	}{
		{"minimum", func(c int) bool { return c >= 0 }}, {"maximum", func(c int) bool { return c <= 0 }},
		{"exclusiveMinimum", func(c int) bool { return c > 0 }}, {"exclusiveMaximum", func(c int) bool { return c < 0 }},
	} {
		if b, ok := parseNumber(schema.Get(bound.keyword)); ok && !bound.fits(n.compare(b)) {
			return false
		}
	}
	if step, ok := parseNumber(schema.Get("multipleOf")); ok {
		multiple, known := n.multipleOf(step)
		if !known {
			e.err = &UnsupportedError{"", "multipleOf of too many digits"}
		}
		return multiple
	}
	return true
}

// within checks a size against a pair of keywords.
func within(schema *pyjson.Value, size int, least, most string) bool {
	n := numberOf(size)
	if b, ok := parseNumber(schema.Get(least)); ok && n.compare(b) < 0 {
		return false
	}
	if b, ok := parseNumber(schema.Get(most)); ok && n.compare(b) > 0 {
		return false
	}
	return true
}

func (e *evaluation) text(schema, v *pyjson.Value) bool {
	if !within(schema, utf8.RuneCountInString(v.Text), "minLength", "maxLength") {
		return false
	}
	p, ok := schema.Get("pattern").Str()
	return !ok || e.s.patterns[p].MatchString(v.Text)
}

func (e *evaluation) array(schema, v *pyjson.Value, depth int) bool {
	if !within(schema, len(v.Items), "minItems", "maxItems") {
		return false
	}
	rest := 0
	if prefix := schema.Get("prefixItems"); prefix != nil {
		rest = min(len(prefix.Items), len(v.Items))
		for i := range rest {
			if !e.accepts(prefix.Items[i], v.Items[i], depth+1) {
				return false
			}
		}
	}
	if items := schema.Get("items"); items != nil {
		for _, item := range v.Items[rest:] {
			if !e.accepts(items, item, depth+1) {
				return false
			}
		}
	}
	if schema.Get("uniqueItems").IsTrue() {
		for i := range v.Items {
			for _, before := range v.Items[:i] {
				if e.steps++; e.steps > maxSteps {
					e.err = &UnsupportedError{"", "evaluation over its limits"}
					return false
				}
				if equal(before, v.Items[i]) {
					return false
				}
			}
		}
	}
	if contains := schema.Get("contains"); contains != nil {
		n := 0
		for _, item := range v.Items {
			if e.accepts(contains, item, depth+1) {
				n++
			}
		}
		if schema.Get("minContains") == nil && n == 0 || !within(schema, n, "minContains", "maxContains") {
			return false
		}
	}
	return e.err == nil
}

func (e *evaluation) object(schema, v *pyjson.Value, depth int) bool {
	if !within(schema, len(v.Members), "minProperties", "maxProperties") || !hasAll(v, schema.Get("required")) {
		return false
	}
	properties, patterns, more := schema.Get("properties"), schema.Get("patternProperties"), schema.Get("additionalProperties")
	nameSchema := schema.Get("propertyNames")
	for _, m := range v.Members {
		known := false
		if sub := properties.Get(m.Name); sub != nil {
			known = true
			if !e.accepts(sub, m.Value, depth+1) {
				return false
			}
		}
		if patterns != nil {
			for _, p := range patterns.Members {
				if e.s.patterns[p.Name].MatchString(m.Name) {
					known = true
					if !e.accepts(p.Value, m.Value, depth+1) {
						return false
					}
				}
			}
		}
		if !known && more != nil && !e.accepts(more, m.Value, depth+1) {
			return false
		}
		if nameSchema != nil && !e.accepts(nameSchema, pyjson.NewString(m.Name), depth+1) {
			return false
		}
		if !hasAll(v, schema.At("dependentRequired", m.Name)) {
			return false
		}
		if sub := schema.At("dependentSchemas", m.Name); sub != nil && !e.accepts(sub, v, depth+1) {
			return false
		}
	}
	return e.err == nil
}

func hasAll(v, names *pyjson.Value) bool {
	if names == nil {
		return true
	}
	for _, name := range names.Items {
		if v.Get(name.Text) == nil {
			return false
		}
	}
	return true
}
