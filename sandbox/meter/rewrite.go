package meter

import (
	"bytes"
	"slices"
	"strings"
)

// Names that a metered module adds. The host sets the global and answers the import; nothing else in the module may
// write the one, and nothing needs to call the other.
const (
	FuelGlobal   = "forge_fuel"
	RefuelModule = "forge"
	RefuelName   = "refuel"
)

// A unit is charged for each function entry and loop head, one more for every 4096 bytes of instructions in that function
// or loop, and one for every 64 bytes or table elements of a bulk instruction, rounded down. Code runs forwards between
// two charges, so a unit never stands for more work than 4096 bytes of instructions (about a microsecond), and in real
// code stands for a few nanoseconds; 64 bytes is what memory.copy moves in about the time of one loop turn.
const (
	codeShift = 12
	bulkShift = 6
)

func weight(size int) int64 { return 1 + int64(size)>>codeShift }

// WASI is the module name of every other import that a sealed module may have.
const WASI = "wasi_snapshot_preview1"

// Import is one name on the allowlist with its type in value types (I32, I64).
type Import struct {
	Module, Name    string
	Params, Results []byte
}

// Allowed is the whole list of what a module may import: time and chance, which the host answers as functions of the
// input, standard error, which it drops, giving up, and fuel. No name on it reaches a file, a socket, an argument or the
// environment (REC-02).
var Allowed = []Import{
	{RefuelModule, RefuelName, nil, nil},
	{WASI, "clock_time_get", []byte{I32, I64, I32}, []byte{I32}},
	{WASI, "fd_write", []byte{I32, I32, I32, I32}, []byte{I32}},
	{WASI, "poll_oneoff", []byte{I32, I32, I32, I32}, []byte{I32}},
	{WASI, "proc_exit", []byte{I32}, nil},
	{WASI, "random_get", []byte{I32, I32}, []byte{I32}},
	{WASI, "sched_yield", nil, []byte{I32}},
}

// Listed says whether an import of this module, name and type is on the allowlist.
func Listed(module, name string, params, results []byte) bool {
	return slices.ContainsFunc(Allowed, func(a Import) bool {
		return a.Module == module && a.Name == name && slices.Equal(a.Params, params) && slices.Equal(a.Results, results)
	})
}

// WASI error numbers that stand-ins answer.
const (
	errnoBadf  = 8
	errnoNosys = 52
)

// Seal replaces every WASI function import that is not on the allowlist by a function inside the module, and returns the
// new module and the names replaced. Argument and environment lists are empty, every descriptor is unknown (errno 8),
// and everything else is not there (errno 52). Functions of another module name, and imports that are not functions, are
// an error. Custom sections, which hold names and build details, are dropped, and data segments that lie close together
// are joined, which halves the time an instance takes to start.
func Seal(wasm []byte) (sealed []byte, replaced []string, err error) {
	m, err := decode(wasm)
	if err != nil {
		return nil, nil, err
	}
	// Kept imports come first, then the module's own functions, then the stand-ins.
	var kept []importEntry
	var standIns []importEntry
	index := make([]uint32, 0, len(m.imports))
	for _, im := range m.imports {
		if im.kind != KindFunc {
			return nil, nil, malformed("import %s.%s is not a function", im.module, im.name)
		}
		t := m.types[im.typ]
		if Listed(im.module, im.name, t.params, t.results) {
			index = append(index, uint32(len(kept)))
			kept = append(kept, im)
			continue
		}
		if im.module != WASI || !slices.Equal(t.results, []byte{I32}) {
			return nil, nil, malformed("import %s.%s cannot be replaced", im.module, im.name)
		}
		index = append(index, uint32(len(m.imports)+len(m.funcs)+len(standIns)))
		standIns = append(standIns, im)
		replaced = append(replaced, im.name)
	}
	before, dropped := uint32(len(m.imports)), uint32(len(standIns))
	m.imports = kept
	err = m.reindex(func(i uint32) uint32 {
		if i >= before {
			return i - dropped
		}
		if index[i] < uint32(len(kept)) {
			return index[i]
		}
		return index[i] - dropped
	})
	if err != nil {
		return nil, nil, err
	}
	for _, im := range standIns {
		m.funcs = append(m.funcs, im.typ)
		m.code = append(m.code, body{code: standIn(im.name, m.types[im.typ])})
	}
	m.joinData()
	slices.Sort(replaced)
	return m.encode(), slices.Compact(replaced), nil
}

// standIn is the code of a function that answers in the place of a WASI call.
func standIn(name string, t funcType) []byte {
	var code []byte
	errno := byte(errnoNosys)
	switch {
	case (name == "args_sizes_get" || name == "environ_sizes_get") && bytes.Equal(t.params, []byte{I32, I32}):
		for p := range byte(2) {
			code = append(code, opLocalGet, p, opI32Const, 0, 0x36, 2, 0) // i32.store, aligned, offset 0
		}
		errno = 0
	case name == "args_get" || name == "environ_get":
		errno = 0
	case strings.HasPrefix(name, "fd_"):
		errno = errnoBadf
	}
	return append(code, opI32Const, errno, opEnd)
}

// Meter adds the charges. The module gets the import forge.refuel and the exported global forge_fuel, an i64 that starts
// at 0; each charge subtracts from it and calls forge.refuel while it is below zero. So nothing runs before the host has
// answered once, the host decides in slices how much may run, and the same input reaches the same count every time.
// The answer of a metered module is that of the module it was made from. A module that has the export already is an
// error, and so is one with a start function, which would run before the host can look.
func Meter(wasm []byte) ([]byte, error) {
	m, err := decode(wasm)
	if err != nil {
		return nil, err
	}
	if m.start != nil {
		return nil, malformed("a start function")
	}
	if slices.ContainsFunc(m.exports, func(e exportEntry) bool { return e.name == FuelGlobal }) {
		return nil, malformed("already metered")
	}
	refuel := m.importedFuncs()
	m.imports = append(m.imports, importEntry{
		module: RefuelModule, name: RefuelName, kind: KindFunc, typ: m.typeIndex(funcType{}),
	})
	err = m.reindex(func(i uint32) uint32 {
		if i >= refuel {
			return i + 1
		}
		return i
	})
	if err != nil {
		return nil, err
	}
	fuel := m.importedGlobals() + uint32(len(m.globals))
	for n := range m.code {
		if err := m.meterFunction(n, fuel, refuel); err != nil {
			return nil, err
		}
	}
	m.globals = append(m.globals, globalEntry{typ: I64, mutable: true, init: []byte{opI64Const, 0, opEnd}})
	m.exports = append(m.exports, exportEntry{name: FuelGlobal, kind: KindGlobal, index: fuel})
	return m.encode(), nil
}

func (m *module) meterFunction(n int, fuel, refuel uint32) error {
	f := &m.code[n]
	loops, err := loopSizes(f.code)
	if err != nil {
		return err
	}
	length := localCount(m.types[m.funcs[n]], f.locals)
	bulk := bulkCharge(fuel, refuel, length)
	out := append(make([]byte, 0, 2*len(f.code)), charge(fuel, refuel, weight(len(f.code)))...)
	done, usesLength := 0, false
	err = walk(f.code, func(i instruction) error {
		switch {
		case i.op == opLoop:
			out = append(append(out, f.code[done:i.end]...), charge(fuel, refuel, weight(loops[0]))...)
			done, loops = i.end, loops[1:]
		case i.bulk():
			out = append(append(out, f.code[done:i.start]...), bulk...)
			done, usesLength = i.start, true
		case (i.op == opGlobalGet || i.op == opGlobalSet) && i.index >= fuel:
			return malformed("global %d of %d", i.index, fuel)
		}
		return nil
	})
	if err != nil {
		return err
	}
	f.code = append(out, f.code[done:]...)
	if usesLength {
		f.locals = append(slices.Clone(f.locals), localGroup{count: 1, typ: I32})
	}
	return nil
}

// loopSizes returns the bytes of instructions inside each loop, in the order the loops begin, with the loop's own end.
func loopSizes(code []byte) ([]int, error) {
	var sizes []int
	var open []int // for each open block the loop's place in sizes, or -1
	err := walk(code, func(i instruction) error {
		switch i.op {
		case opBlock, opIf:
			open = append(open, -1)
		case opLoop:
			open = append(open, len(sizes))
			sizes = append(sizes, -i.end)
		case opEnd:
			if n := len(open) - 1; n >= 0 {
				if open[n] >= 0 {
					sizes[open[n]] += i.end
				}
				open = open[:n]
			}
		}
		return nil
	})
	return sizes, err
}

func localCount(t funcType, groups []localGroup) uint32 {
	n := uint32(len(t.params))
	for _, g := range groups {
		n += g.count
	}
	return n
}

// settle is the second half of every charge: store what is left, and ask the host when that is below zero.
func settle(out []byte, fuel, refuel uint32) []byte {
	out = append(out, opI64Sub)
	out = appendU32(append(out, opGlobalSet), fuel)
	out = appendU32(append(out, opGlobalGet), fuel)
	out = append(out, opI64Const, 0, opI64LtS, opIf, 0x40)
	out = appendU32(append(out, opCall), refuel)
	return append(out, opEnd)
}

// charge takes a fixed number of units.
func charge(fuel, refuel uint32, units int64) []byte {
	out := appendU32([]byte{opGlobalGet}, fuel)
	return settle(appendS64(append(out, opI64Const), units), fuel, refuel)
}

// bulkCharge takes the length on top of the stack, shifted, and leaves the stack as it was.
func bulkCharge(fuel, refuel, length uint32) []byte {
	out := appendU32([]byte{opLocalTee}, length)
	out = appendU32(append(out, opGlobalGet), fuel)
	out = appendU32(append(out, opLocalGet), length)
	out = append(out, opI64ExtendU, opI64Const, bulkShift, opI64ShrU)
	return settle(out, fuel, refuel)
}
