package meter

import "encoding/binary"

func appendVec(out []byte, n int) []byte { return binary.AppendUvarint(out, uint64(n)) }

func appendU32(out []byte, v uint32) []byte { return binary.AppendUvarint(out, uint64(v)) }

// appendS64 writes a signed LEB128 number.
func appendS64(out []byte, v int64) []byte {
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

func appendName(out []byte, s string) []byte { return append(appendVec(out, len(s)), s...) }

func appendLimits(out []byte, l memoryType) []byte {
	if !l.bounded {
		return appendU32(append(out, 0), l.min)
	}
	return appendU32(appendU32(append(out, 1), l.min), l.max)
}

// encode writes the module. Sections without entries are left out.
func (m *module) encode() []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	section := func(id byte, entries int, content []byte) {
		if entries == 0 {
			return
		}
		out = append(out, id)
		out = appendVec(out, len(content))
		out = append(out, content...)
	}
	b := appendVec(nil, len(m.types))
	for _, t := range m.types {
		b = append(b, 0x60)
		b = append(appendVec(b, len(t.params)), t.params...)
		b = append(appendVec(b, len(t.results)), t.results...)
	}
	section(sectionType, len(m.types), b)

	b = appendVec(nil, len(m.imports))
	for _, i := range m.imports {
		b = append(appendName(appendName(b, i.module), i.name), i.kind)
		if i.kind == KindFunc {
			b = appendU32(b, i.typ)
		} else {
			b = append(b, i.desc...)
		}
	}
	section(sectionImport, len(m.imports), b)

	b = appendVec(nil, len(m.funcs))
	for _, t := range m.funcs {
		b = appendU32(b, t)
	}
	section(sectionFunction, len(m.funcs), b)
	section(sectionTable, len(m.tables), m.tables)
	if m.memory != nil {
		section(sectionMemory, 1, appendLimits([]byte{1}, *m.memory))
	}

	b = appendVec(nil, len(m.globals))
	for _, g := range m.globals {
		b = append(b, g.typ, 0)
		if g.mutable {
			b[len(b)-1] = 1
		}
		b = append(b, g.init...)
	}
	section(sectionGlobal, len(m.globals), b)

	b = appendVec(nil, len(m.exports))
	for _, e := range m.exports {
		b = appendU32(append(appendName(b, e.name), e.kind), e.index)
	}
	section(sectionExport, len(m.exports), b)
	if m.start != nil {
		section(sectionStart, 1, appendU32(nil, *m.start))
	}

	b = appendVec(nil, len(m.elements))
	for _, s := range m.elements {
		b = appendVec(append(b, s.prefix...), len(s.funcs))
		for _, f := range s.funcs {
			b = appendU32(b, f)
		}
	}
	section(sectionElement, len(m.elements), b)
	section(sectionDataCount, len(m.dataCount), m.dataCount)

	b = appendVec(nil, len(m.code))
	for _, f := range m.code {
		one := appendVec(nil, len(f.locals))
		for _, l := range f.locals {
			one = append(appendU32(one, l.count), l.typ)
		}
		one = append(one, f.code...)
		b = append(appendVec(b, len(one)), one...)
	}
	section(sectionCode, len(m.code), b)
	section(sectionData, len(m.data), m.data)
	return out
}
