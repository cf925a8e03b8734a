// Package pyjson reads and writes other people's JSON without losing anything that JSON can tell: member order, the source
// text of every number, and types. Encode writes exactly what CPython's
//
//	json.dumps(obj, ensure_ascii=True, sort_keys=True, separators=(',', ':'), allow_nan=False)
//
// writes, except that numbers keep their source text; that is the form of a checkpoint record (docs/FORMATS.md, "Checkpoint
// record"). Vectors made by CPython: fixtures/vectors/pyjson/. The package is pure and is part of the sandbox's guest, so it
// imports nothing that reaches a file, an environment or a socket.
package pyjson

import "strconv"

// Kind is the JSON type of a Value. The zero Kind is no JSON type.
type Kind uint8

// The JSON types.
const (
	Null Kind = iota + 1
	Bool
	Number
	String
	Array
	Object
)

// String returns the name that JSON Schema gives the type.
func (k Kind) String() string {
	switch k {
	case Null:
		return "null"
	case Bool:
		return "boolean"
	case Number:
		return "number"
	case String:
		return "string"
	case Array:
		return "array"
	case Object:
		return "object"
	}
	return "none"
}

// Value is one JSON value. A nil *Value means "absent", never null. Trees may share branches, so a Value that another tree
// may hold is never changed in place; With and Without return new objects.
type Value struct {
	Kind    Kind
	Text    string   // String: the text, valid UTF-8; Number: source text; Bool: "true" or "false"
	Items   []*Value // Array
	Members []Member // Object, in source order, names unique
}

// Member is one name and value of an object.
type Member struct {
	Name  string
	Value *Value
}

// NewNull, NewBool, NewString, NewInt, NewNumber, NewArray and NewObject make values. NewNumber's text must be a JSON number.
func NewNull() *Value { return &Value{Kind: Null} }

// NewBool returns true or false.
func NewBool(b bool) *Value {
	if b {
		return &Value{Kind: Bool, Text: "true"}
	}
	return &Value{Kind: Bool, Text: "false"}
}

// NewString returns a string; s must be valid UTF-8.
func NewString(s string) *Value { return &Value{Kind: String, Text: s} }

// NewInt returns an integer in its one spelling.
func NewInt(n int64) *Value { return &Value{Kind: Number, Text: strconv.FormatInt(n, 10)} }

// NewNumber returns a number with this source text.
func NewNumber(text string) *Value { return &Value{Kind: Number, Text: text} }

// NewArray returns an array of the items.
func NewArray(items ...*Value) *Value { return &Value{Kind: Array, Items: items} }

// NewObject returns an object of the members, in this order. Names must be unique.
func NewObject(members ...Member) *Value { return &Value{Kind: Object, Members: members} }

// Is reports whether v is present and of kind k.
func (v *Value) Is(k Kind) bool { return v != nil && v.Kind == k }

// IsTrue and IsFalse report the two values of a Bool.
func (v *Value) IsTrue() bool { return v.Is(Bool) && v.Text == "true" }

// IsFalse reports whether v is false.
func (v *Value) IsFalse() bool { return v.Is(Bool) && v.Text == "false" }

// Get returns the member called name, or nil if v is no object or has none.
func (v *Value) Get(name string) *Value {
	if v == nil {
		return nil
	}
	for i := range v.Members {
		if v.Members[i].Name == name {
			return v.Members[i].Value
		}
	}
	return nil
}

// At returns the value at the path of member names, or nil.
func (v *Value) At(names ...string) *Value {
	for _, n := range names {
		v = v.Get(n)
	}
	return v
}

// Str returns the text of a string and whether v is one.
func (v *Value) Str() (string, bool) {
	if !v.Is(String) {
		return "", false
	}
	return v.Text, true
}

// Int returns the value of an integer within int64 and whether v is one. 1.0, 1e0 and -0 are not integers here: types and
// number text count.
func (v *Value) Int() (int64, bool) {
	if !v.Is(Number) || !isInteger(v.Text) || v.Text == "-0" {
		return 0, false
	}
	n, err := strconv.ParseInt(v.Text, 10, 64)
	return n, err == nil
}

// IsInteger reports whether v is a number without fraction and exponent, of any size.
func (v *Value) IsInteger() bool { return v.Is(Number) && isInteger(v.Text) }

// With returns a copy of the object v in which the member name has the value; a new member comes last.
func (v *Value) With(name string, value *Value) *Value {
	members := make([]Member, len(v.Members), len(v.Members)+1)
	copy(members, v.Members)
	for i := range members {
		if members[i].Name == name {
			members[i].Value = value
			return &Value{Kind: Object, Members: members}
		}
	}
	return &Value{Kind: Object, Members: append(members, Member{name, value})}
}

// Without returns a copy of the object v that lacks the member.
func (v *Value) Without(name string) *Value {
	members := make([]Member, 0, len(v.Members))
	for _, m := range v.Members {
		if m.Name != name {
			members = append(members, m)
		}
	}
	return &Value{Kind: Object, Members: members}
}

func isInteger(text string) bool {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c == '.' || c == 'e' || c == 'E' {
			return false
		}
	}
	return true
}
