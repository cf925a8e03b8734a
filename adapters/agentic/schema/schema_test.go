package schema

import (
	"bytes"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

var wide = pyjson.Limits{Bytes: 1 << 24, Depth: 128, Nodes: 1 << 20}

func parse(t testing.TB, text string) *pyjson.Value {
	t.Helper()
	v, err := pyjson.Parse([]byte(text), wide)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// judge asks the library.
func judge(text, value string) (bool, error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return false, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("mem:schema", doc); err != nil {
		return false, err
	}
	s, err := c.Compile("mem:schema")
	if err != nil {
		return false, err
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
	if err != nil {
		return false, err
	}
	return s.Validate(v) == nil, nil
}

func decide(t testing.TB, text, value string) (bool, error) {
	s, err := Compile(parse(t, text))
	if err != nil {
		return false, err
	}
	return s.Accepts(parse(t, value))
}

// ELIG-08: without coercion or defaults.
func TestNoCoercionNoDefaults(t *testing.T) {
	const page = `{"type":"object","properties":{"page":{"type":"integer","minimum":1,"default":1},"name":{"type":"string"}},"required":["page"]}`
	for value, want := range map[string]bool{
		`{"page":1}`: true, `{"page":1.0}`: true, `{"page":1e1}`: true, `{"page":"1"}`: false, `{"page":true}`: false, `{}`: false, `{"page":0}`: false,
		`{"page":1.5}`: false, `{"page":null}`: false, `{"page":1,"name":1}`: false, `[]`: false, `"page"`: false,
		`{"page":123456789012345678901234567890}`: true, `{"page":0.9999999999999999999999}`: false,
	} {
		if got, err := decide(t, page, value); err != nil || got != want {
			t.Errorf("%s: %v %v", value, got, err)
		}
		if got, err := judge(page, value); err != nil || got != want {
			t.Errorf("the judge: %s: %v %v", value, got, err)
		}
	}
}

// A schema that is not understood whole gives no verdict.
func TestUnsupportedSchemas(t *testing.T) {
	for text, path := range map[string]string{
		`{"properties":{"a":{"unevaluatedProperties":false}}}`: "/properties/a/unevaluatedProperties",
		`{"$id":"x"}`: "/$id", `{"$ref":"http://x.test/s"}`: "/$ref", `{"$ref":"#/$defs/none"}`: "/$ref", `{"type":"text"}`: "/type",
		`{"$schema":"http://json-schema.org/draft-07/schema#"}`: "/$schema", `{"pattern":"(?=a)"}`: "/pattern", `{"pattern":"\\s"}`: "/pattern",
		`{"items":[{}]}`: "/items", `5`: "", `{"minLength":-1}`: "/minLength", `{"allOf":[]}`: "/allOf", `{"if":5}`: "/if",
		`{"multipleOf":0}`: "/multipleOf", `{"minimum":"1"}`: "/minimum", `{"required":["a","a"]}`: "/required",
	} {
		_, err := Compile(parse(t, text))
		no, ok := err.(*UnsupportedError)
		if !ok || no.Path != path {
			t.Errorf("%s: %v, want %q", text, err, path)
		}
	}
	for _, text := range []string{`{"$ref":"#"}`, `{"allOf":[{"$ref":"#"}]}`} {
		if _, err := decide(t, text, "1"); err == nil {
			t.Errorf("%s: a verdict", text)
		}
	}
}

// drawSchema draws a schema of the keywords that are known here.
func drawSchema(t *rapid.T, depth int) *pyjson.Value {
	if rapid.IntRange(0, 9).Draw(t, "bool") == 0 {
		return pyjson.NewBool(rapid.Bool().Draw(t, "which"))
	}
	s := pyjson.NewObject()
	add := func(name string, v *pyjson.Value) { s = s.With(name, v) }
	number := func() *pyjson.Value { return pyjson.NewNumber(rapid.SampledFrom(numbers).Draw(t, "n")) }
	small := func() *pyjson.Value { return pyjson.NewInt(rapid.Int64Range(0, 3).Draw(t, "small")) }
	sub := func() *pyjson.Value { return drawSchema(t, depth-1) }
	list := func() *pyjson.Value {
		out := pyjson.NewArray()
		for range rapid.IntRange(1, 3).Draw(t, "len") {
			out.Items = append(out.Items, sub())
		}
		return out
	}
	subs := func(names []string) *pyjson.Value {
		out := pyjson.NewObject()
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID[string]).Draw(t, "names") {
			out = out.With(name, sub())
		}
		return out
	}
	words := func() *pyjson.Value {
		out := pyjson.NewArray()
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(memberNames), 0, 2, rapid.ID[string]).Draw(t, "words") {
			out.Items = append(out.Items, pyjson.NewString(name))
		}
		return out
	}
	all := []string{"type", "const", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
		"minItems", "maxItems", "uniqueItems", "required", "minProperties", "maxProperties", "dependentRequired", "title"}
	if depth > 0 {
		all = append(all, "properties", "additionalProperties", "patternProperties", "propertyNames", "items", "prefixItems", "contains", "minContains",
			"maxContains", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "properties", "items")
	}
	for _, k := range rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, 4, rapid.ID[string]).Draw(t, "keywords") {
		switch k {
		case "type":
			add(k, pyjson.NewString(rapid.SampledFrom([]string{"null", "boolean", "number", "integer", "string", "array", "object"}).Draw(t, "type")))
		case "const":
			add(k, drawValue(t, 1))
		case "enum":
			add(k, pyjson.NewArray(drawValue(t, 1), drawValue(t, 1)))
		case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
			add(k, number())
		case "multipleOf":
			add(k, pyjson.NewNumber(rapid.SampledFrom([]string{"1", "0.5", "3", "1e-3", "2.50", "10"}).Draw(t, "step")))
		case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains":
			add(k, small())
		case "pattern":
			add(k, pyjson.NewString(rapid.SampledFrom([]string{"^a", "b$", "^[a-c]*$", "é", "."}).Draw(t, "pattern")))
		case "uniqueItems":
			add(k, pyjson.NewBool(rapid.Bool().Draw(t, "unique")))
		case "required":
			add(k, words())
		case "dependentRequired":
			add(k, pyjson.NewObject(pyjson.Member{Name: "a", Value: words()}))
		case "title":
			add(k, pyjson.NewString("t"))
		case "properties", "dependentSchemas":
			add(k, subs(memberNames))
		case "patternProperties":
			add(k, subs([]string{"^a", "b", "é"}))
		case "allOf", "anyOf", "oneOf", "prefixItems":
			add(k, list())
		default:
			add(k, sub())
		}
	}
	return s
}

var (
	numbers     = []string{"0", "-0", "1", "1.0", "-1", "2", "2.5", "3", "10", "1e1", "100", "0.5", "0.001", "1e-3", "-2.5", "9007199254740993", "9007199254740992", "1e20"}
	memberNames = []string{"a", "b", "ab", "é", ""}
)

func drawValue(t *rapid.T, depth int) *pyjson.Value {
	kinds := []pyjson.Kind{pyjson.Null, pyjson.Bool, pyjson.Number, pyjson.Number, pyjson.String}
	if depth > 0 {
		kinds = append(kinds, pyjson.Array, pyjson.Object, pyjson.Object)
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case pyjson.Null:
		return pyjson.NewNull()
	case pyjson.Bool:
		return pyjson.NewBool(rapid.Bool().Draw(t, "b"))
	case pyjson.Number:
		return pyjson.NewNumber(rapid.SampledFrom(numbers).Draw(t, "number"))
	case pyjson.String:
		return pyjson.NewString(rapid.SampledFrom([]string{"", "a", "b", "ab", "abc", "é", "😀a", "1"}).Draw(t, "string"))
	case pyjson.Array:
		v := pyjson.NewArray()
		for range rapid.IntRange(0, 3).Draw(t, "n") {
			v.Items = append(v.Items, drawValue(t, depth-1))
		}
		return v
	}
	v := pyjson.NewObject()
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(memberNames), 0, 3, rapid.ID[string]).Draw(t, "members") {
		v.Members = append(v.Members, pyjson.Member{Name: name, Value: drawValue(t, depth-1)})
	}
	return v
}

// Every verdict is the library's.
func agrees(t *rapid.T) {
	schema, value := pyjson.Compact(drawSchema(t, 2), nil), pyjson.Compact(drawValue(t, 2), nil)
	s, err := pyjson.Parse(schema, wide)
	if err != nil {
		t.Fatal(err)
	}
	v, err := pyjson.Parse(value, wide)
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := Compile(s)
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	before := pyjson.Compact(v, nil)
	got, err := compiled.Accepts(v)
	if err != nil {
		t.Fatalf("%s %s: %v", schema, value, err)
	}
	want, err := judge(string(schema), string(value))
	if err != nil {
		t.Fatalf("%s %s: the judge: %v", schema, value, err)
	}
	if got != want {
		t.Fatalf("%s %s: %v, the judge says %v", schema, value, got, want)
	}
	if !bytes.Equal(before, pyjson.Compact(v, nil)) {
		t.Fatal("the value changed")
	}
}

func TestAgreesWithTheLibrary(t *testing.T) { rapid.Check(t, agrees) }

func FuzzAgreesWithTheLibrary(f *testing.F) { f.Fuzz(rapid.MakeFuzz(agrees)) }

func TestReferences(t *testing.T) {
	const tree = `{"$defs":{"node":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["next"]}},"$ref":"#/$defs/node","maxProperties":1}`
	for _, value := range []string{`{"next":null}`, `{"next":{"next":null}}`, `{"next":{"next":{}}}`, `{"next":1}`, `{"next":null,"x":1}`, `{}`} {
		got, err := decide(t, tree, value)
		want, jerr := judge(tree, value)
		if err != nil || jerr != nil || got != want {
			t.Errorf("%s: %v %v, the judge %v %v", value, got, err, want, jerr)
		}
	}
}
