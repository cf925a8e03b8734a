package pyjson

import (
	"strconv"
	"unicode/utf8"
)

// Limits bound a text before it becomes a tree. Every one of them must be positive.
type Limits struct {
	Bytes int // length of the text
	Depth int // nesting of arrays and objects: [] is 1
	Nodes int // values, names not counted: memory is about 100 bytes for each
}

// maxDigits is where CPython refuses to convert a decimal integer (sys.int_info.default_max_str_digits).
const maxDigits = 4300

// SyntaxError reports a text that is not one strict JSON value: RFC 8259, names unique within an object, valid UTF-8, no lone
// surrogates, numbers that CPython can hold.
type SyntaxError struct {
	Offset int    // of the byte that does not fit
	Reason string // fixed text, never a part of the input
}

func (e *SyntaxError) Error() string {
	return "not strict JSON at byte " + strconv.Itoa(e.Offset) + ": " + e.Reason
}

// LimitError reports a text over one of its Limits.
type LimitError struct {
	Limit string // "bytes", "depth" or "nodes"
	Bound int
}

func (e *LimitError) Error() string {
	return "JSON text over its limit of " + strconv.Itoa(e.Bound) + " " + e.Limit
}

// Parse reads one JSON value, which must be the whole text (white space around it is accepted). The error is a *SyntaxError
// or a *LimitError. The tree copies what it keeps; data may be reused.
func Parse(data []byte, limits Limits) (*Value, error) {
	p := parser{limits: limits}
	return p.parse(data)
}

// ParseLastWins is Parse for a text in which a repeated member name is no error: the last value counts, in the place of the
// first, as in CPython and pydantic. Use it only for what those readers took, never for evidence.
func ParseLastWins(data []byte, limits Limits) (*Value, error) {
	p := parser{limits: limits, lastWins: true}
	return p.parse(data)
}

type parser struct {
	s        string
	i        int
	nodes    int
	limits   Limits
	lastWins bool
	err      error

	spelling bool // note where a number is not spelled as CPython spells its value
	foreign  int  // 1 + offset of the first such number

	// Values come out of slabs, and items and members wait on two stacks until their number is known: in the sandbox a small
	// allocation costs more than reading the bytes it is for.
	slab    []Value
	items   []*Value
	members []Member
}

// slabSize is the number of values that are allocated at once.
const slabSize = 128

func (p *parser) new(k Kind, text string) *Value {
	if len(p.slab) == 0 {
		// Not more than the text can still hold, at two bytes a value.
		p.slab = make([]Value, min(slabSize, (len(p.s)-p.i)/2+1))
	}
	v := &p.slab[0]
	p.slab = p.slab[1:]
	v.Kind, v.Text = k, text
	return v
}

func (p *parser) parse(data []byte) (*Value, error) {
	if len(data) > p.limits.Bytes {
		return nil, &LimitError{"bytes", p.limits.Bytes}
	}
	p.s = string(data)
	p.space()
	v := p.value(0)
	if p.err != nil {
		return nil, p.err
	}
	p.space()
	if p.i != len(p.s) {
		return nil, &SyntaxError{p.i, "text after the value"}
	}
	return v, nil
}

func (p *parser) fail(at int, reason string) *Value {
	if p.err == nil {
		p.err = &SyntaxError{at, reason}
	}
	return nil
}

func (p *parser) space() {
	for p.i < len(p.s) {
		switch p.s[p.i] {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return
		}
	}
}

func (p *parser) peek() byte {
	if p.i < len(p.s) {
		return p.s[p.i]
	}
	return 0
}

// value reads one value; depth is the number of arrays and objects around it. It returns nil after an error.
func (p *parser) value(depth int) *Value {
	p.nodes++
	if p.nodes > p.limits.Nodes {
		p.err = &LimitError{"nodes", p.limits.Nodes}
		return nil
	}
	switch c := p.peek(); {
	case c == '{' || c == '[':
		if depth+1 > p.limits.Depth {
			p.err = &LimitError{"depth", p.limits.Depth}
			return nil
		}
		p.i++
		if c == '{' {
			return p.object(depth + 1)
		}
		return p.array(depth + 1)
	case c == '"':
		text, ok := p.str()
		if !ok {
			return nil
		}
		return p.new(String, text)
	case c == '-' || '0' <= c && c <= '9':
		return p.number()
	case c == 't':
		return p.word("true", Bool)
	case c == 'f':
		return p.word("false", Bool)
	case c == 'n':
		return p.word("null", Null)
	}
	if p.i >= len(p.s) {
		return p.fail(p.i, "text ends where a value belongs")
	}
	return p.fail(p.i, "not the start of a value")
}

func (p *parser) word(w string, k Kind) *Value {
	if len(p.s)-p.i < len(w) || p.s[p.i:p.i+len(w)] != w {
		return p.fail(p.i, "not the start of a value")
	}
	p.i += len(w)
	if k == Null {
		w = ""
	}
	return p.new(k, w)
}

func (p *parser) array(depth int) *Value {
	v := p.new(Array, "")
	p.space()
	if p.peek() == ']' {
		p.i++
		return v
	}
	from := len(p.items)
	for {
		p.space()
		item := p.value(depth)
		if item == nil {
			return nil
		}
		p.items = append(p.items, item)
		p.space()
		switch p.peek() {
		case ',':
			p.i++
		case ']':
			p.i++
			v.Items = append(make([]*Value, 0, len(p.items)-from), p.items[from:]...)
			p.items = p.items[:from]
			return v
		default:
			return p.fail(p.i, "comma or end of array expected")
		}
	}
}

// manyMembers is where a linear search for duplicates would start to cost more than a set.
const manyMembers = 12

func (p *parser) object(depth int) *Value {
	v := p.new(Object, "")
	var seen map[string]int // name to index
	p.space()
	if p.peek() == '}' {
		p.i++
		return v
	}
	from := len(p.members)
	for {
		p.space()
		at := p.i
		if p.peek() != '"' {
			return p.fail(p.i, "member name expected")
		}
		name, ok := p.str()
		if !ok {
			return nil
		}
		own := p.members[from:]
		if seen == nil && len(own) == manyMembers {
			seen = make(map[string]int, 4*manyMembers)
			for i, m := range own {
				seen[m.Name] = i
			}
		}
		before := -1
		if seen != nil {
			if i, dup := seen[name]; dup {
				before = i
			} else {
				seen[name] = len(own)
			}
		} else {
			for i := range own {
				if own[i].Name == name {
					before = i
				}
			}
		}
		if before >= 0 && !p.lastWins {
			return p.fail(at, "duplicate member name")
		}
		p.space()
		if p.peek() != ':' {
			return p.fail(p.i, "colon expected")
		}
		p.i++
		p.space()
		val := p.value(depth)
		if val == nil {
			return nil
		}
		if before >= 0 {
			p.members[from+before].Value = val
		} else {
			p.members = append(p.members, Member{name, val})
		}
		p.space()
		switch p.peek() {
		case ',':
			p.i++
		case '}':
			p.i++
			v.Members = append(make([]Member, 0, len(p.members)-from), p.members[from:]...)
			p.members = p.members[:from]
			return v
		default:
			return p.fail(p.i, "comma or end of object expected")
		}
	}
}

func (p *parser) digits() int {
	start := p.i
	for p.i < len(p.s) && '0' <= p.s[p.i] && p.s[p.i] <= '9' {
		p.i++
	}
	return p.i - start
}

func (p *parser) number() *Value {
	start := p.i
	if p.peek() == '-' {
		p.i++
	}
	first := p.i
	n := p.digits()
	if n == 0 {
		return p.fail(p.i, "digit expected")
	}
	if n > 1 && p.s[first] == '0' {
		return p.fail(first, "leading zero")
	}
	integer := true
	if p.peek() == '.' {
		integer = false
		p.i++
		if p.digits() == 0 {
			return p.fail(p.i, "digit expected")
		}
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		integer = false
		p.i++
		if c := p.peek(); c == '+' || c == '-' {
			p.i++
		}
		if p.digits() == 0 {
			return p.fail(p.i, "digit expected")
		}
	}
	text := p.s[start:p.i]
	if integer && n > maxDigits {
		return p.fail(start, "integer longer than 4300 digits")
	}
	if !integer {
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return p.fail(start, "number outside the range of a double")
		}
	}
	if p.spelling && p.foreign == 0 && PythonNumber(text) != text {
		p.foreign = start + 1
	}
	return p.new(Number, text)
}

// str reads a string at p.i, which is a quotation mark.
func (p *parser) str() (string, bool) {
	start := p.i
	p.i++
	var buf []byte // set once an escape was seen
	from := p.i
	for {
		if p.i = plain(p.s, p.i); p.i == len(p.s) {
			break
		}
		switch c := p.s[p.i]; {
		case c == '"':
			text := p.s[from:p.i]
			p.i++
			if buf != nil {
				return string(append(buf, text...)), true
			}
			return text, true
		case c == '\\':
			buf = append(buf, p.s[from:p.i]...)
			var ok bool
			if buf, ok = p.escape(buf); !ok {
				return "", false
			}
			from = p.i
		case c < 0x20:
			p.fail(p.i, "control character in a string")
			return "", false
		case c == 0x7f:
			p.i++
		default:
			r, size := utf8.DecodeRuneInString(p.s[p.i:])
			if r == utf8.RuneError && size == 1 {
				p.fail(p.i, "invalid UTF-8")
				return "", false
			}
			p.i += size
		}
	}
	p.fail(start, "string without end")
	return "", false
}

func (p *parser) escape(buf []byte) ([]byte, bool) {
	at := p.i
	p.i++
	c := p.peek()
	p.i++
	switch c {
	case '"', '\\', '/':
		return append(buf, c), true
	case 'b':
		return append(buf, '\b'), true
	case 'f':
		return append(buf, '\f'), true
	case 'n':
		return append(buf, '\n'), true
	case 'r':
		return append(buf, '\r'), true
	case 't':
		return append(buf, '\t'), true
	case 'u':
		r, ok := p.hex4()
		if !ok {
			p.fail(at, "four hexadecimal digits expected")
			return nil, false
		}
		if 0xdc00 <= r && r < 0xe000 {
			p.fail(at, "lone surrogate")
			return nil, false
		}
		if 0xd800 <= r && r < 0xdc00 {
			if len(p.s)-p.i < 6 || p.s[p.i] != '\\' || p.s[p.i+1] != 'u' {
				p.fail(at, "lone surrogate")
				return nil, false
			}
			p.i += 2
			low, ok := p.hex4()
			if !ok || low < 0xdc00 || low >= 0xe000 {
				p.fail(at, "lone surrogate")
				return nil, false
			}
			r = 0x10000 + (r-0xd800)<<10 + (low - 0xdc00)
		}
		return utf8.AppendRune(buf, r), true
	}
	p.fail(at, "unknown escape")
	return nil, false
}

func (p *parser) hex4() (rune, bool) {
	if len(p.s)-p.i < 4 {
		return 0, false
	}
	var r rune
	for n := 0; n < 4; n++ {
		c := p.s[p.i+n]
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	p.i += 4
	return r, true
}
