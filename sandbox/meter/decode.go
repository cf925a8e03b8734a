package meter

import (
	"bytes"
	"unicode/utf8"
)

// reader walks bytes of a module. The first error sticks and moves to the end: later reads answer zero, and the caller
// looks at err once.
type reader struct {
	data []byte
	pos  int
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = malformed(format, args...)
	}
	r.pos = len(r.data)
}

func (r *reader) more() bool { return r.err == nil && r.pos < len(r.data) }

func (r *reader) byte() byte {
	if r.pos >= len(r.data) {
		return r.cut()
	}
	r.pos++
	return r.data[r.pos-1]
}

func (r *reader) cut() byte {
	r.fail("cut at byte %d", r.pos)
	return 0
}

func (r *reader) bytes(n uint32) []byte {
	if r.err != nil || uint64(n) > uint64(len(r.data)-r.pos) {
		r.fail("%d bytes wanted at byte %d of %d", n, r.pos, len(r.data))
		return nil
	}
	r.pos += int(n)
	return r.data[r.pos-int(n) : r.pos]
}

// u32 reads an unsigned LEB128 number of at most five bytes.
func (r *reader) u32() uint32 {
	if r.pos < len(r.data) && r.data[r.pos] < 0x80 { // nearly always
		r.pos++
		return uint32(r.data[r.pos-1])
	}
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		v |= uint64(b&0x7f) << shift
		if b&0x80 == 0 {
			if v > 1<<32-1 {
				break
			}
			return uint32(v)
		}
	}
	r.fail("number over 32 bits before byte %d", r.pos)
	return 0
}

// signed skips a signed LEB128 number of at most size bytes and returns its value.
func (r *reader) signed(size int) int64 {
	var v int64
	for i := range size {
		b := r.byte()
		v |= int64(b&0x7f) << (7 * i)
		if b&0x80 == 0 {
			if shift := 7 * (i + 1); shift < 64 && b&0x40 != 0 {
				v |= -1 << shift
			}
			return v
		}
	}
	r.fail("signed number too long before byte %d", r.pos)
	return 0
}

// count reads the length of a vector whose elements take at least one byte each, so that no count asks for more memory
// than the file has bytes.
func (r *reader) count() int {
	n := r.u32()
	if uint64(n) > uint64(len(r.data)-r.pos) {
		r.fail("vector of %d at byte %d of %d", n, r.pos, len(r.data))
		return 0
	}
	return int(n)
}

func (r *reader) name() string {
	b := r.bytes(r.u32())
	if !utf8.Valid(b) {
		r.fail("name is not UTF-8 before byte %d", r.pos)
	}
	return string(b)
}

func (r *reader) valType() byte {
	t := r.byte()
	if t < F64 || t > I32 {
		r.fail("value type 0x%02x", t)
	}
	return t
}

func (r *reader) valTypes() []byte {
	out := make([]byte, r.count())
	for i := range out {
		out[i] = r.valType()
	}
	return out
}

func (r *reader) limits(what string) memoryType {
	var m memoryType
	switch flag := r.byte(); flag {
	case 0:
		m.min = r.u32()
	case 1:
		m.min, m.max, m.bounded = r.u32(), r.u32(), true
	default:
		r.fail("%s limits flag 0x%02x (shared or 64-bit memories are not accepted)", what, flag)
	}
	return m
}

// constExpr reads a constant expression up to and with its end.
func (r *reader) constExpr() []byte {
	from := r.pos
	for r.err == nil {
		switch op := r.byte(); op {
		case opEnd:
			return r.data[from:r.pos]
		case opI32Const:
			r.signed(5)
		case opI64Const:
			r.signed(10)
		case opF32Const:
			r.bytes(4)
		case opF64Const:
			r.bytes(8)
		case opGlobalGet:
			r.u32()
		default:
			r.fail("instruction 0x%02x in a constant expression", op)
		}
	}
	return nil
}

// decode reads a module. Sections must be in the order of the specification, each at most once.
func decode(wasm []byte) (*module, error) {
	if len(wasm) > MaxModuleBytes {
		return nil, malformed("%d bytes, the limit is %d", len(wasm), MaxModuleBytes)
	}
	if !bytes.HasPrefix(wasm, []byte("\x00asm\x01\x00\x00\x00")) {
		return nil, malformed("no magic and version 1")
	}
	m := &module{}
	top := &reader{data: wasm, pos: 8}
	last := 0
	for top.more() {
		id := top.byte()
		r := &reader{data: top.bytes(top.u32())}
		if top.err != nil {
			break
		}
		if id == sectionCustom {
			continue
		}
		if id > sectionDataCount {
			return nil, malformed("section %d", id)
		}
		if at := order(id); at <= last {
			return nil, malformed("section %d repeated or out of order", id)
		} else {
			last = at
		}
		m.section(id, r)
		if r.err == nil && r.pos != len(r.data) {
			r.fail("section %d has %d bytes after its content", id, len(r.data)-r.pos)
		}
		if r.err != nil {
			return nil, r.err
		}
	}
	if top.err != nil {
		return nil, top.err
	}
	if len(m.code) != len(m.funcs) {
		return nil, malformed("%d functions and %d bodies", len(m.funcs), len(m.code))
	}
	return m, nil
}

// order is the place of a section: the data count section stands before code.
func order(id byte) int {
	if id == sectionDataCount {
		return 2*sectionCode - 1
	}
	return 2 * int(id)
}

func (m *module) section(id byte, r *reader) {
	switch id {
	case sectionType:
		for range r.count() {
			if form := r.byte(); form != 0x60 {
				r.fail("type form 0x%02x", form)
			}
			m.types = append(m.types, funcType{params: r.valTypes(), results: r.valTypes()})
		}
	case sectionImport:
		for range r.count() {
			m.imports = append(m.imports, m.readImport(r))
		}
	case sectionFunction:
		for range r.count() {
			m.funcs = append(m.funcs, m.readType(r))
		}
	case sectionTable:
		m.tables = r.data
		for range r.count() {
			if t := r.byte(); t != 0x70 {
				r.fail("table of type 0x%02x", t)
			}
			if l := r.limits("table"); l.min > MaxTableElements {
				r.fail("table of %d elements, the limit is %d", l.min, MaxTableElements)
			}
		}
	case sectionMemory:
		n := r.count()
		if n > 1 {
			r.fail("%d memories", n)
		}
		if n == 1 {
			l := r.limits("memory")
			m.memory = &l
		}
	case sectionGlobal:
		for range r.count() {
			g := globalEntry{typ: r.valType(), mutable: r.byte() == 1}
			g.init = r.constExpr()
			m.globals = append(m.globals, g)
		}
	case sectionExport:
		seen := map[string]bool{}
		for range r.count() {
			e := exportEntry{name: r.name(), kind: r.byte(), index: r.u32()}
			if seen[e.name] {
				r.fail("two exports %q", e.name)
			}
			seen[e.name] = true
			m.exports = append(m.exports, e)
		}
	case sectionStart:
		i := r.u32()
		m.start = &i
	case sectionElement:
		for range r.count() {
			m.elements = append(m.elements, readSegment(r))
		}
	case sectionDataCount:
		m.dataCount = r.data
		r.u32()
	case sectionCode:
		for range r.count() {
			b := readBody(&reader{data: r.bytes(r.u32())}, r)
			m.code = append(m.code, b)
		}
	case sectionData:
		m.data = r.data
		for range r.count() {
			switch flag := r.u32(); flag {
			case 0:
				r.constExpr()
			case 1:
			case 2:
				r.u32()
				r.constExpr()
			default:
				r.fail("data segment flag %d", flag)
			}
			r.bytes(r.u32())
		}
	}
}

func (m *module) readType(r *reader) uint32 {
	t := r.u32()
	if r.err == nil && int64(t) >= int64(len(m.types)) {
		r.fail("type %d of %d", t, len(m.types))
	}
	return t
}

func (m *module) readImport(r *reader) importEntry {
	e := importEntry{module: r.name(), name: r.name(), kind: r.byte()}
	from := r.pos
	switch e.kind {
	case KindFunc:
		e.typ = m.readType(r)
	case KindTable:
		r.byte()
		r.limits("table")
	case KindMemory:
		r.limits("memory")
	case KindGlobal:
		r.valType()
		r.byte()
	default:
		r.fail("import of kind %d", e.kind)
	}
	if r.err == nil {
		e.desc = r.data[from:r.pos]
	}
	return e
}

func readSegment(r *reader) segment {
	from := r.pos
	flags := r.u32()
	if flags > 3 {
		r.fail("element segment of expressions")
	}
	if flags == 2 {
		r.u32()
	}
	if flags == 0 || flags == 2 {
		r.constExpr()
	}
	if flags != 0 {
		if kind := r.byte(); kind != 0 {
			r.fail("element kind %d", kind)
		}
	}
	if r.err != nil {
		return segment{}
	}
	s := segment{prefix: r.data[from:r.pos]}
	for range r.count() {
		s.funcs = append(s.funcs, r.u32())
	}
	return s
}

func readBody(b, section *reader) body {
	var out body
	total := uint64(0)
	for range b.count() {
		g := localGroup{count: b.u32(), typ: b.valType()}
		total += uint64(g.count)
		out.locals = append(out.locals, g)
	}
	if total > MaxLocals {
		b.fail("%d locals in a function, the limit is %d", total, MaxLocals)
	}
	if b.err != nil {
		section.fail("%v", b.err)
		return out
	}
	out.code = b.data[b.pos:]
	return out
}
