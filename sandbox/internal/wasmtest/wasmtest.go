// Package wasmtest assembles small WebAssembly modules for the tests of the sandbox, byte by byte, so that no assembler
// is needed. It checks nothing: hostile and broken modules are what it is for.
package wasmtest

import (
	"encoding/binary"
	"slices"
)

// Value types.
const (
	I32 byte = 0x7f
	I64 byte = 0x7e
)

// Types is a list of value types.
type Types []byte

// Module is a module being built. Imports must be added before functions.
type Module struct {
	types, imports, funcs, exports, globals, bodies, datas, elements [][]byte

	memory, table, start []byte

	funcImports int
}

// Type adds a function type and returns its index.
func (m *Module) Type(params, results Types) uint32 {
	t := append([]byte{0x60}, vec(params)...)
	t = append(t, vec(results)...)
	if i := slices.IndexFunc(m.types, func(u []byte) bool { return string(t) == string(u) }); i >= 0 {
		return uint32(i)
	}
	m.types = append(m.types, t)
	return uint32(len(m.types) - 1)
}

// Import adds a function import and returns its function index.
func (m *Module) Import(module, name string, params, results Types) uint32 {
	m.ImportRaw(module, name, 0, U32(m.Type(params, results)))
	m.funcImports++
	return uint32(m.funcImports - 1)
}

// ImportRaw adds an import of any kind with its description as bytes.
func (m *Module) ImportRaw(module, name string, kind byte, desc []byte) {
	m.imports = append(m.imports, slices.Concat(str(module), str(name), []byte{kind}, desc))
}

// Func adds a function with locals (one group per type) and code, and returns its function index.
func (m *Module) Func(params, results, locals Types, code ...[]byte) uint32 {
	body := U32(uint32(len(locals)))
	for _, l := range locals {
		body = append(body, 1, l)
	}
	return m.FuncRaw(params, results, append(append(body, slices.Concat(code...)...), 0x0b))
}

// FuncRaw adds a function whose whole body (locals, code, end) is given.
func (m *Module) FuncRaw(params, results Types, body []byte) uint32 {
	m.funcs = append(m.funcs, U32(m.Type(params, results)))
	m.bodies = append(m.bodies, vec(body))
	return uint32(m.funcImports + len(m.funcs) - 1)
}

// Memory declares the memory in pages and exports it.
func (m *Module) Memory(min uint32) {
	m.memory = append([]byte{1, 0}, U32(min)...)
	m.Export("memory", 2, 0)
}

// Table declares a table of functions with these elements.
func (m *Module) Table(size uint32, funcs ...uint32) {
	m.table = append([]byte{1, 0x70, 0}, U32(size)...)
	e := append([]byte{0}, I32Const(0)...)
	e = append(e, 0x0b)
	e = append(e, U32(uint32(len(funcs)))...)
	for _, f := range funcs {
		e = append(e, U32(f)...)
	}
	m.elements = append(m.elements, e)
}

// Global adds a mutable global and returns its index. init is a constant instruction.
func (m *Module) Global(typ byte, init []byte) uint32 {
	m.globals = append(m.globals, slices.Concat([]byte{typ, 1}, init, []byte{0x0b}))
	return uint32(len(m.globals) - 1)
}

// Export names a function (kind 0), memory (2) or global (3).
func (m *Module) Export(name string, kind byte, index uint32) {
	m.exports = append(m.exports, slices.Concat(str(name), []byte{kind}, U32(index)))
}

// Data adds an active data segment.
func (m *Module) Data(offset int32, data []byte) {
	m.datas = append(m.datas, slices.Concat([]byte{0}, I32Const(offset), []byte{0x0b}, vec(data)))
}

// Start sets the start function.
func (m *Module) Start(f uint32) { m.start = U32(f) }

// Bytes returns the file.
func (m *Module) Bytes() []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	section := func(id byte, content []byte) {
		if len(content) > 0 {
			out = append(append(out, id), vec(content)...)
		}
	}
	list := func(id byte, entries [][]byte) {
		if len(entries) > 0 {
			section(id, append(U32(uint32(len(entries))), slices.Concat(entries...)...))
		}
	}
	list(1, m.types)
	list(2, m.imports)
	list(3, m.funcs)
	section(4, m.table)
	section(5, m.memory)
	list(6, m.globals)
	list(7, m.exports)
	section(8, m.start)
	list(9, m.elements)
	list(10, m.bodies)
	list(11, m.datas)
	return out
}

// U32 is an unsigned LEB128 number.
func U32(v uint32) []byte { return binary.AppendUvarint(nil, uint64(v)) }

// S64 is a signed LEB128 number.
func S64(v int64) []byte {
	var out []byte
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

func vec(b []byte) []byte { return append(U32(uint32(len(b))), b...) }

func str(s string) []byte { return vec([]byte(s)) }

// Op is instructions without immediates.
func Op(code ...byte) []byte { return code }

// One function per instruction with immediates.
func I32Const(v int32) []byte    { return append([]byte{0x41}, S64(int64(v))...) }
func I64Const(v int64) []byte    { return append([]byte{0x42}, S64(v)...) }
func LocalGet(i uint32) []byte   { return append([]byte{0x20}, U32(i)...) }
func LocalSet(i uint32) []byte   { return append([]byte{0x21}, U32(i)...) }
func LocalTee(i uint32) []byte   { return append([]byte{0x22}, U32(i)...) }
func GlobalGet(i uint32) []byte  { return append([]byte{0x23}, U32(i)...) }
func GlobalSet(i uint32) []byte  { return append([]byte{0x24}, U32(i)...) }
func Call(f uint32) []byte       { return append([]byte{0x10}, U32(f)...) }
func Br(depth uint32) []byte     { return append([]byte{0x0c}, U32(depth)...) }
func BrIf(depth uint32) []byte   { return append([]byte{0x0d}, U32(depth)...) }
func MemoryGrow() []byte         { return []byte{0x40, 0} }
func MemoryFill() []byte         { return []byte{0xfc, 11, 0} }
func MemoryCopy() []byte         { return []byte{0xfc, 10, 0, 0} }
func Load8(off uint32) []byte    { return append([]byte{0x2d, 0}, U32(off)...) }
func Store8(off uint32) []byte   { return append([]byte{0x3a, 0}, U32(off)...) }
func I32Store(off uint32) []byte { return append([]byte{0x36, 2}, U32(off)...) }

// Loop, Block and If take no values and give none.
func Loop(code ...[]byte) []byte  { return block(0x03, code) }
func Block(code ...[]byte) []byte { return block(0x02, code) }
func If(code ...[]byte) []byte    { return block(0x04, code) }

func block(op byte, code [][]byte) []byte {
	return append(append([]byte{op, 0x40}, slices.Concat(code...)...), 0x0b)
}
