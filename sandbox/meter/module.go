// Package meter rewrites WebAssembly modules for the sandbox and checks what it rewrote.
//
// Seal replaces imported WASI functions that the sandbox does not offer by functions inside the module which say so. Meter
// makes the module count its own work: a global, forge_fuel, falls at every function entry, loop head and bulk
// instruction, and when it is below zero the module calls the one function it may import from the host for this,
// forge.refuel. Check reads any module and says what it imports, exports and asks for, and whether every one of those
// charges is in place; the host runs nothing that Check does not call metered, so it need not trust who built it.
//
// The parser knows the binary format of the core specification 1.0 with sign extension, saturating conversion, bulk
// memory and multi-value: what Go's wasip1 compiler emits, and little more. Everything else (threads, vectors, reference
// types, tail calls, exceptions, several memories) is refused by name, since an instruction that is not understood
// cannot be counted.
package meter

import (
	"errors"
	"fmt"
	"slices"
)

// ErrMalformed reports bytes that are not a module in the accepted subset of the binary format.
var ErrMalformed = errors.New("not an accepted WebAssembly module")

// Limits on a module. The first is about eight times the module this project ships; the second is the number of the
// WebAssembly JavaScript interface; the third keeps a table, which costs a word per element before any code runs, small.
const (
	MaxModuleBytes   = 64 << 20
	MaxLocals        = 50_000
	MaxTableElements = 1 << 20
)

// Section ids of the binary format (core specification, 5.5.2). The data count section stands between element and code.
const (
	sectionCustom = iota
	sectionType
	sectionImport
	sectionFunction
	sectionTable
	sectionMemory
	sectionGlobal
	sectionExport
	sectionStart
	sectionElement
	sectionCode
	sectionData
	sectionDataCount
)

// Kinds of imports and exports.
const (
	KindFunc = iota
	KindTable
	KindMemory
	KindGlobal
)

// Value types as the binary format spells them.
const (
	I32 byte = 0x7f
	I64 byte = 0x7e
	F32 byte = 0x7d
	F64 byte = 0x7c
)

type funcType struct{ params, results []byte }

func (t funcType) equal(u funcType) bool {
	return slices.Equal(t.params, u.params) && slices.Equal(t.results, u.results)
}

type importEntry struct {
	module, name string
	kind         byte
	typ          uint32 // functions only
	desc         []byte // the whole description, for the other kinds
}

type exportEntry struct {
	name  string
	kind  byte
	index uint32
}

type globalEntry struct {
	typ     byte
	mutable bool
	init    []byte // constant expression, with its end
}

type localGroup struct {
	count uint32
	typ   byte
}

type body struct {
	locals []localGroup
	code   []byte // instructions, with the closing end
}

// segment is one element segment of function indices: prefix and suffix are kept as they were read.
type segment struct {
	prefix []byte // flags, table, offset expression and kind
	funcs  []uint32
}

// module holds the sections that the rewriters touch, decoded, and the others as bytes. Custom sections are dropped.
type module struct {
	types     []funcType
	imports   []importEntry
	funcs     []uint32 // type of each defined function
	tables    []byte
	memory    *memoryType
	globals   []globalEntry
	exports   []exportEntry
	start     *uint32
	elements  []segment
	dataCount []byte
	code      []body
	data      []byte
}

type memoryType struct {
	min, max uint32 // pages of 64 KiB
	bounded  bool   // max is given
}

// importedFuncs is the number of function indices that imports take.
func (m *module) importedFuncs() (n uint32) {
	for _, i := range m.imports {
		if i.kind == KindFunc {
			n++
		}
	}
	return n
}

func (m *module) importedGlobals() (n uint32) {
	for _, i := range m.imports {
		if i.kind == KindGlobal {
			n++
		}
	}
	return n
}

// typeOf returns the type of function index i, imported or defined.
func (m *module) typeOf(i uint32) (funcType, error) {
	n := uint32(0)
	for _, im := range m.imports {
		if im.kind != KindFunc {
			continue
		}
		if n == i {
			return m.types[im.typ], nil
		}
		n++
	}
	if int64(i)-int64(n) >= int64(len(m.funcs)) {
		return funcType{}, malformed("function %d of %d", i, int(n)+len(m.funcs))
	}
	return m.types[m.funcs[i-n]], nil
}

// typeIndex finds or adds a function type.
func (m *module) typeIndex(t funcType) uint32 {
	for i, u := range m.types {
		if t.equal(u) {
			return uint32(i)
		}
	}
	m.types = append(m.types, t)
	return uint32(len(m.types) - 1)
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}
