// Package schema decides whether a JSON Schema (2020-12) accepts a value: no coercion, no defaults, no remote references,
// format as annotation only. A keyword that it does not know makes the schema unusable instead of being ignored, so a verdict is
// never one about half a schema. It works on pyjson trees with exact decimal numbers.
//
// santhosh-tekuri/jsonschema is the judge in the tests, and not here: in the sandbox its metaschemas cost 40 ms for every
// instance, ten times what the rest of the guest takes to start.
package schema

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/forge-continuity/forge/adapters/pyjson"
)

// UnsupportedError says why a schema gives no verdict.
type UnsupportedError struct {
	Path   string // JSON Pointer into the schema
	Reason string // fixed text
}

func (e *UnsupportedError) Error() string { return "schema " + e.Path + ": " + e.Reason }

// Limits of one evaluation.
const (
	maxDepth = 512     // nesting of schemas, references included
	maxSteps = 1 << 20 // schema applied to a value
)

// Schema is a checked schema. It may be used at once by several goroutines.
type Schema struct {
	root     *pyjson.Value
	at       map[string]*pyjson.Value // every subschema by JSON Pointer
	patterns map[string]*regexp.Regexp
}

// Compile checks a schema. The error is an *UnsupportedError.
func Compile(root *pyjson.Value) (*Schema, error) {
	s := &Schema{root: root, at: map[string]*pyjson.Value{}, patterns: map[string]*regexp.Regexp{}}
	if err := s.check(root, "", 0); err != nil {
		return nil, err
	}
	for path, sub := range s.at {
		if ref, ok := sub.Get("$ref").Str(); ok {
			if _, ok := s.resolve(ref); !ok {
				return nil, &UnsupportedError{path + "/$ref", "reference to no schema of this document"}
			}
		}
	}
	return s, nil
}

func (s *Schema) resolve(ref string) (*pyjson.Value, bool) {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok || strings.Contains(pointer, "%") {
		return nil, false
	}
	sub, ok := s.at[pointer]
	return sub, ok
}

type shape uint8

const (
	ignored     shape = iota // annotations
	one                      // a schema
	list                     // a nonempty array of schemas
	byName                   // an object of schemas
	byPattern                // the same, names are patterns
	count                    // a nonnegative integer
	numeric                  // a number
	positive                 // a number above 0
	boolean                  // true or false
	pattern                  // a regular expression
	names                    // an array of unique strings
	namesByName              // an object of those
	types                    // a type or a nonempty array of unique types
	values                   // an array
	any                      // any value
	reference                // a string
)

var keywords = map[string]shape{
	"title": ignored, "description": ignored, "default": ignored, "examples": ignored, "deprecated": ignored, "readOnly": ignored,
	"writeOnly": ignored, "$comment": ignored, "format": ignored, "contentEncoding": ignored, "contentMediaType": ignored,
	"discriminator": ignored, // OpenAPI's hint, which pydantic writes beside oneOf
	"not":           one, "if": one, "then": one, "else": one, "items": one, "contains": one, "additionalProperties": one, "propertyNames": one,
	"allOf": list, "anyOf": list, "oneOf": list, "prefixItems": list,
	"properties": byName, "$defs": byName, "dependentSchemas": byName, "patternProperties": byPattern,
	"minLength": count, "maxLength": count, "minItems": count, "maxItems": count, "minContains": count, "maxContains": count,
	"minProperties": count, "maxProperties": count,
	"minimum": numeric, "maximum": numeric, "exclusiveMinimum": numeric, "exclusiveMaximum": numeric, "multipleOf": positive,
	"uniqueItems": boolean, "pattern": pattern, "required": names, "dependentRequired": namesByName, "type": types, "enum": values,
	"const": any, "$ref": reference,
}

func (s *Schema) check(v *pyjson.Value, path string, depth int) *UnsupportedError {
	no := func(at, reason string) *UnsupportedError { return &UnsupportedError{at, reason} }
	if depth > maxDepth {
		return no(path, "nested too deeply")
	}
	s.at[path] = v
	if v.Is(pyjson.Bool) {
		return nil
	}
	if !v.Is(pyjson.Object) {
		return no(path, "neither object nor Boolean")
	}
	for _, m := range v.Members {
		at, x := path+pyjson.Pointer(m.Name), m.Value
		if m.Name == "$schema" && depth == 0 {
			if uri, _ := x.Str(); strings.TrimSuffix(uri, "#") != "https://json-schema.org/draft/2020-12/schema" {
				return no(at, "another dialect")
			}
			continue
		}
		k, known := keywords[m.Name]
		if !known {
			return no(at, "unknown keyword")
		}
		bad := false
		switch k {
		case one:
			if err := s.check(x, at, depth+1); err != nil {
				return err
			}
		case list:
			bad = !x.Is(pyjson.Array) || len(x.Items) == 0
			for i, item := range x.Items {
				if err := s.check(item, at+"/"+strconv.Itoa(i), depth+1); err != nil {
					return err
				}
			}
		case byName, byPattern:
			bad = !x.Is(pyjson.Object)
			for _, sub := range x.Members {
				if err := s.check(sub.Value, at+pyjson.Pointer(sub.Name), depth+1); err != nil {
					return err
				}
				bad = bad || k == byPattern && !s.compile(sub.Name)
			}
		case count:
			n, ok := parseNumber(x)
			bad = !ok || n.negative && !n.zero() || !n.integer()
		case numeric:
			_, ok := parseNumber(x)
			bad = !ok
		case positive:
			n, ok := parseNumber(x)
			bad = !ok || n.negative || n.zero()
		case boolean:
			bad = !x.Is(pyjson.Bool)
		case pattern:
			text, ok := x.Str()
			bad = !ok || !s.compile(text)
		case names:
			bad = !uniqueNames(x)
		case namesByName:
			bad = !x.Is(pyjson.Object)
			for _, sub := range x.Members {
				bad = bad || !uniqueNames(sub.Value)
			}
		case types:
			bad = !typeNames(x)
		case values:
			bad = !x.Is(pyjson.Array)
		case reference:
			bad = !x.Is(pyjson.String)
		}
		if bad {
			return no(at, "value does not fit the keyword")
		}
	}
	return nil
}

// compile keeps a pattern. What ECMA 262 and Go read differently is refused.
func (s *Schema) compile(text string) bool {
	for i := 0; i+1 < len(text); i++ {
		if text[i] == '\\' {
			i++
			if strings.IndexByte("sSbBzAZQECpPaxuck0123456789", text[i]) >= 0 {
				return false
			}
		}
	}
	if strings.Contains(text, "(?") || strings.Contains(text, "[:") || strings.Contains(text, "[^]") || strings.Contains(text, "[]") {
		return false
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return false
	}
	s.patterns[text] = re
	return true
}

func uniqueNames(v *pyjson.Value) bool {
	if !v.Is(pyjson.Array) {
		return false
	}
	for i, item := range v.Items {
		if !item.Is(pyjson.String) {
			return false
		}
		for _, before := range v.Items[:i] {
			if before.Text == item.Text {
				return false
			}
		}
	}
	return true
}

func typeNames(v *pyjson.Value) bool {
	if v.Is(pyjson.String) {
		v = pyjson.NewArray(v)
	}
	if !uniqueNames(v) || len(v.Items) == 0 {
		return false
	}
	for _, item := range v.Items {
		switch item.Text {
		case "null", "boolean", "number", "integer", "string", "array", "object":
		default:
			return false
		}
	}
	return true
}
