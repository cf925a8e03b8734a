package wire

import (
	"strings"

	"github.com/forge-continuity/forge/adapters/pyjson"
)

// Shapes are the declared types of one provider's answers, read from a text:
//
//	Message {
//	  id: str                      # required
//	  content: [Block]             # a list
//	  usage?: Usage                # may be absent or null
//	  data?!: str                  # may be absent, not null
//	  stop(stop_reason): str|null  # the Python name of a member, where the SDK writes that one
//	  metadata?: {any} ~           # known, and of no interest beyond its type
//	  citations?: [any] -citations # known, and left out by the SDK: noted as Dropped when not empty
//	}
//	Block = TextBlock | ToolUse    # told apart by the constants of their members
//
// Types are str, int, num, bool, any, null, constants in quotation marks, [list], {map of any name} and declared names, joined
// by |. A # begins a comment. A member that is not declared is refused if it carries content.
type Shapes struct {
	objects map[string]*object
	aliases map[string]*shapeType
}

type object struct {
	name   string
	fields []shapeField
}

type shapeField struct {
	name, python string
	optional     bool
	notNull      bool
	typ          *shapeType
	dropped      string
}

type shapeType struct {
	kind  string // str int num bool any null const list map name union
	text  string
	items []*shapeType
}

// ParseShapes reads the text. It panics on a text that is not in the form: it is part of the program.
func ParseShapes(text string) *Shapes {
	s := &Shapes{objects: map[string]*object{}, aliases: map[string]*shapeType{}}
	var now *object
	for n, line := range strings.Split(text, "\n") {
		if i := strings.Index(line, "#"); i >= 0 {
			line = line[:i]
		}
		line = strings.TrimSpace(line)
		bad := func() { panic("wire: shape line " + pyjson.Pointer(line) + " " + string(rune('0'+n%10))) }
		switch {
		case line == "":
		case now == nil && strings.HasSuffix(line, "{"):
			now = &object{name: strings.TrimSpace(strings.TrimSuffix(line, "{"))}
			s.objects[now.name] = now
		case now == nil:
			name, expr, ok := strings.Cut(line, "=")
			if !ok {
				bad()
			}
			s.aliases[strings.TrimSpace(name)] = parseShapeType(expr)
		case line == "}":
			now = nil
		default:
			head, expr, ok := strings.Cut(line, ":")
			if !ok {
				bad()
			}
			f := shapeField{name: strings.TrimSpace(head)}
			f.name, f.notNull = strings.CutSuffix(f.name, "!")
			f.name, f.optional = strings.CutSuffix(f.name, "?")
			f.name, f.python, _ = strings.Cut(f.name, "(")
			f.python = strings.TrimSuffix(f.python, ")")
			if f.python == "" {
				f.python = f.name
			}
			expr = strings.TrimSpace(expr)
			if i := strings.LastIndex(expr, " -"); i >= 0 {
				f.dropped, expr = strings.TrimSpace(expr[i+2:]), expr[:i]
			}
			f.typ = parseShapeType(strings.TrimSuffix(expr, "~"))
			now.fields = append(now.fields, f)
		}
	}
	return s
}

func parseShapeType(text string) *shapeType {
	var parts []string
	depth, from, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == '|' && depth == 0:
			parts, from = append(parts, text[from:i]), i+1
		}
	}
	parts = append(parts, text[from:])
	if len(parts) > 1 {
		t := &shapeType{kind: "union"}
		for _, p := range parts {
			t.items = append(t.items, parseShapeType(p))
		}
		return t
	}
	text = strings.TrimSpace(text)
	switch {
	case strings.HasPrefix(text, "["):
		return &shapeType{kind: "list", items: []*shapeType{parseShapeType(text[1 : len(text)-1])}}
	case strings.HasPrefix(text, "{"):
		return &shapeType{kind: "map", items: []*shapeType{parseShapeType(text[1 : len(text)-1])}}
	case strings.HasPrefix(text, `"`):
		return &shapeType{kind: "const", text: text[1 : len(text)-1]}
	}
	switch text {
	case "str", "int", "num", "bool", "any", "null":
		return &shapeType{kind: text}
	}
	return &shapeType{kind: "name", text: text}
}

// A Checker reads values by shapes and keeps the first failure and what the SDK drops.
type Checker struct {
	shapes  *Shapes
	err     *Error
	Dropped []Dropped
}

// Checker starts one.
func (s *Shapes) Checker() *Checker { return &Checker{shapes: s} }

// Err returns the first failure.
func (c *Checker) Err() error {
	if c.err == nil {
		return nil
	}
	return c.err
}

func (c *Checker) fail(code, path, reason string) {
	if c.err == nil {
		c.err = &Error{code, path, reason}
	}
}

// Check reads a value of a declared name.
func (c *Checker) Check(v *pyjson.Value, name, path string) error {
	c.check(v, &shapeType{kind: "name", text: name}, path)
	return c.Err()
}

func (c *Checker) check(v *pyjson.Value, t *shapeType, path string) {
	if c.err != nil {
		return
	}
	switch t.kind {
	case "any":
	case "str", "bool", "null":
		if !v.Is(map[string]pyjson.Kind{"str": pyjson.String, "bool": pyjson.Bool, "null": pyjson.Null}[t.kind]) {
			c.fail(Shape, path, t.kind+" expected")
		}
	case "int":
		if !v.IsInteger() {
			c.fail(Shape, path, "integer expected")
		}
	case "num":
		if !v.Is(pyjson.Number) {
			c.fail(Shape, path, "number expected")
		}
	case "const":
		if s, ok := v.Str(); !ok {
			c.fail(Shape, path, "text expected")
		} else if s != t.text {
			c.fail(Kind, path, name(s))
		}
	case "list":
		if !v.Is(pyjson.Array) {
			c.fail(Shape, path, "array expected")
			return
		}
		for i, item := range v.Items {
			c.check(item, t.items[0], path+"/"+itoa(i))
		}
	case "map":
		if !v.Is(pyjson.Object) {
			c.fail(Shape, path, "object expected")
			return
		}
		for i, m := range v.Members {
			c.check(m.Value, t.items[0], path+pyjson.Place(i))
		}
	case "union":
		if one := c.pick(v, t.items, path); one != nil {
			c.check(v, one, path)
		}
	case "name":
		if o := c.shapes.objects[t.text]; o != nil {
			c.object(v, o, path)
		} else if a := c.shapes.aliases[t.text]; a != nil {
			c.check(v, a, path)
		} else {
			panic("wire: no shape " + t.text)
		}
	}
}

func (c *Checker) object(v *pyjson.Value, o *object, path string) {
	if !v.Is(pyjson.Object) {
		c.fail(Shape, path, "object expected")
		return
	}
	for i := range o.fields {
		f := &o.fields[i]
		m := v.Get(f.name)
		at := path + pyjson.Pointer(f.name)
		if m == nil {
			if !f.optional {
				c.fail(Shape, at, "missing")
			}
			continue
		}
		if f.optional && !f.notNull && m.Kind == pyjson.Null {
			continue
		}
		c.check(m, f.typ, at)
		if f.dropped != "" && hasContent(m) && len(c.Dropped) < 64 {
			c.Dropped = append(c.Dropped, Dropped{at, f.dropped})
		}
	}
	for i, m := range v.Members {
		if o.field(m.Name) == nil && hasContent(m.Value) {
			c.fail(Member, path+pyjson.Place(i), o.name)
		}
	}
}

func (o *object) field(name string) *shapeField {
	for i := range o.fields {
		if o.fields[i].name == name {
			return &o.fields[i]
		}
	}
	return nil
}

// hasContent tells content from markers: a text, or anything nested, that is not empty.
func hasContent(v *pyjson.Value) bool {
	switch v.Kind {
	case pyjson.String:
		return v.Text != ""
	case pyjson.Array:
		return len(v.Items) > 0
	case pyjson.Object:
		for _, m := range v.Members {
			if hasContent(m.Value) {
				return true
			}
		}
	}
	return false
}

// pick chooses the alternative of a union that v says it is.
func (c *Checker) pick(v *pyjson.Value, items []*shapeType, path string) *shapeType {
	kindOf := func(t *shapeType) *shapeType {
		for t.kind == "name" && c.shapes.objects[t.text] == nil {
			if t = c.shapes.aliases[t.text]; t == nil {
				panic("wire: no shape in a union")
			}
		}
		return t
	}
	var objects []*shapeType
	var flat []*shapeType
	for _, t := range items {
		if k := kindOf(t); k.kind == "union" {
			flat = append(flat, k.items...)
		} else {
			flat = append(flat, k)
		}
	}
	consts := 0
	for _, t := range flat {
		t = kindOf(t)
		switch {
		case t.kind == "any":
			return t
		case t.kind == "const":
			consts++
			if v.Is(pyjson.String) && v.Text == t.text {
				return t
			}
		case t.kind == "name" && v.Is(pyjson.Object):
			objects = append(objects, t)
		case t.kind == "map" && v.Is(pyjson.Object), t.kind == "list" && v.Is(pyjson.Array), t.kind == "str" && v.Is(pyjson.String),
			t.kind == "bool" && v.Is(pyjson.Bool), t.kind == "null" && v.Is(pyjson.Null), t.kind == "num" && v.Is(pyjson.Number),
			t.kind == "int" && v.IsInteger():
			return t
		}
	}
	if consts > 0 && v.Is(pyjson.String) {
		c.fail(Kind, path, name(v.Text))
		return nil
	}
	for _, t := range objects {
		if c.saysItIs(v, c.shapes.objects[t.text]) {
			return t
		}
	}
	if len(objects) == 0 {
		c.fail(Shape, path, "another type expected")
		return nil
	}
	if s, ok := v.Get("type").Str(); ok {
		c.fail(Kind, path+"/type", name(s))
	} else {
		c.fail(Kind, path, "nothing says which kind")
	}
	return nil
}

// saysItIs compares the constants of an object's members.
func (c *Checker) saysItIs(v *pyjson.Value, o *object) bool {
	said := false
	for _, f := range o.fields {
		var consts []*shapeType
		switch {
		case f.typ.kind == "const":
			consts = []*shapeType{f.typ}
		case f.typ.kind == "union" && f.typ.items[0].kind == "const":
			consts = f.typ.items
		default:
			continue
		}
		if f.name != "type" && f.name != "object" {
			continue
		}
		s, ok := v.Get(f.name).Str()
		match := false
		for _, k := range consts {
			match = match || ok && k.kind == "const" && s == k.text
		}
		if !match {
			return false
		}
		said = true
	}
	if said {
		return true
	}
	for _, f := range o.fields {
		if !f.optional && v.Get(f.name) == nil {
			return false
		}
	}
	return true
}

// name shortens what came from outside to what a name of the format can be.
func name(s string) string {
	if len(s) > 64 {
		s = s[:64]
	}
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' || r == '/' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '?'
	}, s)
}

// A Dump is how a model is written, as pydantic's model_dump arguments say.
type Dump struct {
	ExcludeNone bool
	Python      bool // Python names instead of the wire's
	Strict      bool // ints in number members become floats, as validation makes them
}

// Dump writes a checked value of a declared name: declared members that are absent become null, number text is Python's.
func (s *Shapes) Dump(v *pyjson.Value, name string, how Dump) *pyjson.Value {
	return s.dump(v, &shapeType{kind: "name", text: name}, how)
}

func (s *Shapes) dump(v *pyjson.Value, t *shapeType, how Dump) *pyjson.Value {
	switch {
	case t.kind == "list" && v.Is(pyjson.Array):
		out := pyjson.NewArray()
		for _, item := range v.Items {
			out.Items = append(out.Items, s.dump(item, t.items[0], how))
		}
		return out
	case t.kind == "map" && v.Is(pyjson.Object):
		out := pyjson.NewObject()
		for _, m := range v.Members {
			out.Members = append(out.Members, pyjson.Member{Name: m.Name, Value: s.dump(m.Value, t.items[0], how)})
		}
		return out
	case t.kind == "num" && v.IsInteger():
		return pyjson.NewNumber(pyjson.PythonNumber(v.Text + ".0"))
	case t.kind == "union":
		if one := s.Checker().pick(v, t.items, ""); one != nil {
			return s.dump(v, one, how)
		}
	case t.kind == "name":
		if a := s.aliases[t.text]; a != nil {
			return s.dump(v, a, how)
		}
		if v.Is(pyjson.Object) {
			return s.dumpObject(v, s.objects[t.text], how)
		}
	}
	return Respell(v)
}

func (s *Shapes) dumpObject(v *pyjson.Value, o *object, how Dump) *pyjson.Value {
	out := pyjson.NewObject()
	for _, f := range o.fields {
		key := f.name
		if how.Python {
			key = f.python
		}
		m := v.Get(f.name)
		if m == nil || m.Kind == pyjson.Null {
			if !how.ExcludeNone {
				out = out.With(key, pyjson.NewNull())
			}
			continue
		}
		out = out.With(key, s.dump(m, f.typ, how))
	}
	for _, m := range v.Members {
		if o.field(m.Name) == nil && !(how.ExcludeNone && m.Value.Kind == pyjson.Null) {
			out = out.With(m.Name, Respell(m.Value))
		}
	}
	return out
}

// Respell spells every number as CPython does after reading it: what is left of a number's text once the SDK has it.
func Respell(v *pyjson.Value) *pyjson.Value {
	switch v.Kind {
	case pyjson.Number:
		if text := pyjson.PythonNumber(v.Text); text != v.Text {
			return pyjson.NewNumber(text)
		}
	case pyjson.Array:
		for i, item := range v.Items {
			if r := Respell(item); r != item {
				out := pyjson.NewArray(append([]*pyjson.Value{}, v.Items...)...)
				for j := i; j < len(out.Items); j++ {
					out.Items[j] = Respell(out.Items[j])
				}
				return out
			}
		}
	case pyjson.Object:
		for i, m := range v.Members {
			if r := Respell(m.Value); r != m.Value {
				out := pyjson.NewObject(append([]pyjson.Member{}, v.Members...)...)
				for j := i; j < len(out.Members); j++ {
					out.Members[j].Value = Respell(out.Members[j].Value)
				}
				return out
			}
		}
	}
	return v
}
