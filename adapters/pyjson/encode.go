package pyjson

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Encode returns the canonical text: members sorted by code point, no white space, ASCII only, numbers in their source text.
func Encode(v *Value) []byte { return appendCanonical(make([]byte, 0, 1024), v) }

func appendCanonical(b []byte, v *Value) []byte {
	switch v.Kind {
	case Null:
		return append(b, "null"...)
	case Bool, Number:
		return append(b, v.Text...)
	case String:
		return appendString(b, v.Text, true)
	case Array:
		b = append(b, '[')
		for i, item := range v.Items {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendCanonical(b, item)
		}
		return append(b, ']')
	case Object:
		members := v.Members
		// UTF-8 sorts as code points do, and so do Python's strings.
		if !slices.IsSortedFunc(members, compareMembers) {
			members = slices.Clone(members)
			slices.SortFunc(members, compareMembers)
		}
		b = append(b, '{')
		for i, m := range members {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, m.Name, true)
			b = append(b, ':')
			b = appendCanonical(b, m.Value)
		}
		return append(b, '}')
	}
	panic("pyjson: value without a kind")
}

func compareMembers(a, b Member) int { return strings.Compare(a.Name, b.Name) }

// Compact returns the text in member order, without white space, other characters than ASCII as they are: what
// json.dumps(obj, ensure_ascii=False, separators=(',', ':')) and pydantic's dump_json write. number, if not nil, gives the
// spelling of each number; nil keeps source text.
func Compact(v *Value, number func(text string) string) []byte { return appendCompact(nil, v, number) }

func appendCompact(b []byte, v *Value, number func(string) string) []byte {
	switch v.Kind {
	case Null:
		return append(b, "null"...)
	case Number:
		if number != nil {
			return append(b, number(v.Text)...)
		}
		return append(b, v.Text...)
	case Bool:
		return append(b, v.Text...)
	case String:
		return appendString(b, v.Text, false)
	case Array:
		b = append(b, '[')
		for i, item := range v.Items {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendCompact(b, item, number)
		}
		return append(b, ']')
	case Object:
		b = append(b, '{')
		for i, m := range v.Members {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, m.Name, false)
			b = append(b, ':')
			b = appendCompact(b, m.Value, number)
		}
		return append(b, '}')
	}
	panic("pyjson: value without a kind")
}

// Indent2 returns the text as pydantic's dump_json(indent=2) writes it, numbers spelled by number.
func Indent2(v *Value, number func(text string) string) []byte {
	return appendIndent(nil, v, number, 0)
}

func appendIndent(b []byte, v *Value, number func(string) string, depth int) []byte {
	line := func(b []byte, depth int) []byte {
		b = append(b, '\n')
		for range depth {
			b = append(b, "  "...)
		}
		return b
	}
	switch {
	case v.Kind == Array && len(v.Items) > 0:
		b = append(b, '[')
		for i, item := range v.Items {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendIndent(line(b, depth+1), item, number, depth+1)
		}
		return append(line(b, depth), ']')
	case v.Kind == Object && len(v.Members) > 0:
		b = append(b, '{')
		for i, m := range v.Members {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(line(b, depth+1), m.Name, false)
			b = appendIndent(append(b, ": "...), m.Value, number, depth+1)
		}
		return append(line(b, depth), '}')
	}
	return appendCompact(b, v, number)
}

const hexDigits = "0123456789abcdef"

func appendString(b []byte, s string, ascii bool) []byte {
	b = append(b, '"')
	from := 0
	for i := plain(s, 0); i < len(s); i = plain(s, i) {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if ascii {
				b = append(b, s[from:i]...)
				if r >= 0x10000 {
					r -= 0x10000
					b = appendEscape(b, 0xd800+r>>10)
					b = appendEscape(b, 0xdc00+r&0x3ff)
				} else {
					b = appendEscape(b, r)
				}
				from = i + size
			}
			i += size
			continue
		}
		// CPython's ASCII form escapes DEL too.
		if c >= 0x20 && c != '"' && c != '\\' && (c != 0x7f || !ascii) {
			i++
			continue
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = appendEscape(b, rune(c))
		}
		i++
		from = i
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}

func appendEscape(b []byte, r rune) []byte {
	return append(b, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// CanonicalError reports a text that is strict JSON, but not the text CPython would write for its value.
type CanonicalError struct {
	Offset int // of the first byte that differs, or of the number that CPython would spell otherwise
}

func (e *CanonicalError) Error() string {
	return "not canonical at byte " + strconv.Itoa(e.Offset)
}

// ParseCanonical reads a text that must be in the canonical form: re-encoding gives the same bytes, and every number is
// spelled as CPython spells its value. The error is a *SyntaxError, a *LimitError or a *CanonicalError.
func ParseCanonical(data []byte, limits Limits) (*Value, error) {
	p := parser{limits: limits, spelling: true}
	v, err := p.parse(data)
	if err != nil {
		return nil, err
	}
	again := Encode(v)
	if !bytes.Equal(again, data) {
		n := min(len(again), len(data))
		for i := range n {
			if again[i] != data[i] {
				n = i
				break
			}
		}
		return nil, &CanonicalError{n}
	}
	if p.foreign > 0 {
		return nil, &CanonicalError{p.foreign - 1}
	}
	return v, nil
}

// Respelled returns the value with every number as PythonNumber writes it.
func Respelled(v *Value) *Value {
	switch v.Kind {
	case Number:
		return NewNumber(PythonNumber(v.Text))
	case Array:
		out := NewArray()
		for _, item := range v.Items {
			out.Items = append(out.Items, Respelled(item))
		}
		return out
	case Object:
		out := NewObject()
		for _, m := range v.Members {
			out.Members = append(out.Members, Member{Name: m.Name, Value: Respelled(m.Value)})
		}
		return out
	}
	return v
}

// PythonNumber returns the text that CPython's json.dumps writes after json.loads has read this number: repr of the int or
// float.
func PythonNumber(text string) string {
	if isInteger(text) {
		if text == "-0" {
			return "0"
		}
		return text
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	sci := strconv.FormatFloat(f, 'e', -1, 64)
	if exp := exponent(sci); exp < -4 || exp >= 16 {
		return sci
	}
	return withPoint(strconv.FormatFloat(f, 'f', -1, 64))
}

// PydanticNumber returns the text that pydantic's dump_json writes after it has read this number: the same digits as
// CPython, but exponents are not padded and begin below 1e-5.
func PydanticNumber(text string) string {
	if isInteger(text) {
		if text == "-0" {
			return "0"
		}
		return text
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	sci := strconv.FormatFloat(f, 'e', -1, 64)
	if exp := exponent(sci); f != 0 && (exp < -5 || exp >= 16) {
		sign := ""
		if exp > 0 {
			sign = "+"
		}
		return sci[:strings.IndexByte(sci, 'e')] + "e" + sign + strconv.Itoa(exp)
	}
	return withPoint(strconv.FormatFloat(f, 'f', -1, 64))
}

func exponent(sci string) int {
	exp, _ := strconv.Atoi(sci[strings.IndexByte(sci, 'e')+1:])
	return exp
}

func withPoint(text string) string {
	if strings.IndexByte(text, '.') < 0 {
		return text + ".0"
	}
	return text
}

// Sorted returns the value with the members of every object in canonical order, as they are after a record was read back.
func Sorted(v *Value) *Value {
	switch v.Kind {
	case Array:
		out := &Value{Kind: Array, Items: make([]*Value, len(v.Items))}
		for i, item := range v.Items {
			out.Items[i] = Sorted(item)
		}
		return out
	case Object:
		out := &Value{Kind: Object, Members: make([]Member, len(v.Members))}
		for i, m := range v.Members {
			out.Members[i] = Member{m.Name, Sorted(m.Value)}
		}
		slices.SortFunc(out.Members, compareMembers)
		return out
	}
	return v
}
