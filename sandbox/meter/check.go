package meter

import (
	"bytes"
	"fmt"
	"slices"
)

// Name is an import or export: for functions with its type, for globals with Params holding the one value type.
type Name struct {
	Module, Name    string // Module is empty for exports
	Kind            byte
	Params, Results []byte
	Mutable         bool // globals
}

// Facts is what Check finds in a module.
type Facts struct {
	Imports  []Name
	Exports  []Name
	Memory   bool   // it has a memory of its own
	MinPages uint32 // of that memory, 64 KiB each
	Start    bool   // it has a start function
	// Unmetered says why the module is not metered; it is empty when every charge is in place.
	Unmetered string
}

// Export finds an export by name.
func (f Facts) Export(name string) (Name, bool) {
	for _, e := range f.Exports {
		if e.Name == name {
			return e, true
		}
	}
	return Name{}, false
}

// Check reads a module and reports on it. The error is ErrMalformed, for bytes outside the accepted subset.
//
// A module is metered when it exports forge_fuel as its own mutable i64 global starting at 0, imports forge.refuel, has
// exactly the instructions that Meter writes at each function entry, after each loop head and before each bulk
// instruction, and writes forge_fuel nowhere else. That the instructions are well typed is wazero's to check.
func Check(wasm []byte) (Facts, error) {
	m, err := decode(wasm)
	if err != nil {
		return Facts{}, err
	}
	facts := Facts{Start: m.start != nil, Memory: m.memory != nil}
	if m.memory != nil {
		facts.MinPages = m.memory.min
	}
	for _, im := range m.imports {
		n := Name{Module: im.module, Name: im.name, Kind: im.kind}
		if im.kind == KindFunc {
			n.Params, n.Results = m.types[im.typ].params, m.types[im.typ].results
		}
		facts.Imports = append(facts.Imports, n)
	}
	for _, e := range m.exports {
		n := Name{Name: e.name, Kind: e.kind}
		switch e.kind {
		case KindFunc:
			t, err := m.typeOf(e.index)
			if err != nil {
				return Facts{}, err
			}
			n.Params, n.Results = t.params, t.results
		case KindGlobal:
			if g, ok := m.ownGlobal(e.index); ok {
				n.Params, n.Mutable = []byte{g.typ}, g.mutable
			}
		}
		facts.Exports = append(facts.Exports, n)
	}
	if facts.Unmetered, err = m.unmetered(); err != nil {
		return Facts{}, err
	}
	return facts, nil
}

func (m *module) ownGlobal(index uint32) (globalEntry, bool) {
	at := int64(index) - int64(m.importedGlobals())
	if at < 0 || at >= int64(len(m.globals)) {
		return globalEntry{}, false
	}
	return m.globals[at], true
}

// unmetered walks every function, whatever it finds first, so that code outside the subset is always an error.
func (m *module) unmetered() (why string, err error) {
	fuel, refuel := int64(-1), int64(-1)
	for _, e := range m.exports {
		if e.name == FuelGlobal && e.kind == KindGlobal {
			fuel = int64(e.index)
		}
	}
	n := int64(0)
	for _, im := range m.imports {
		if im.kind != KindFunc {
			continue
		}
		if im.module == RefuelModule && im.name == RefuelName {
			refuel = n
		}
		n++
	}
	switch g, ok := m.ownGlobal(uint32(max(fuel, 0))); {
	case fuel < 0:
		why = "no export " + FuelGlobal
	case !ok || g.typ != I64 || !g.mutable || !bytes.Equal(g.init, []byte{opI64Const, 0, opEnd}):
		why = FuelGlobal + " is not a mutable i64 starting at 0"
	case refuel < 0:
		why = "no import " + RefuelModule + "." + RefuelName
	}
	for i := range m.code {
		if why != "" {
			err = walk(m.code[i].code, func(instruction) error { return nil })
		} else if why, err = m.unmeteredFunction(i, uint32(fuel), uint32(refuel)); why != "" {
			why = fmt.Sprintf("function %d: %s", int(m.importedFuncs())+i, why)
		}
		if err != nil {
			return "", err
		}
	}
	return why, nil
}

// unmeteredFunction strips the charges that stand where they must and meters what is left again: the function is metered
// exactly when that gives the same bytes. meterFunction refuses what touches the fuel global by itself.
func (m *module) unmeteredFunction(n int, fuel, refuel uint32) (why string, err error) {
	f := m.code[n]
	bare, bulk, err := stripCharges(f.code, fuel, refuel)
	if err != nil {
		return "", err
	}
	locals := f.locals
	if bulk && len(locals) > 0 && locals[len(locals)-1] == (localGroup{1, I32}) {
		locals = locals[:len(locals)-1]
	}
	again := &module{types: m.types, funcs: m.funcs[n : n+1], code: []body{{locals: locals, code: bare}}}
	if err := again.meterFunction(0, fuel, refuel); err != nil {
		return err.Error(), nil
	}
	if !bytes.Equal(again.code[0].code, f.code) || !slices.Equal(again.code[0].locals, f.locals) {
		return "a charge is missing", nil
	}
	return "", nil
}

// stripCharges takes out every sequence of instructions that Meter could have written, wherever it stands, and says
// whether one of them charged for a bulk instruction.
func stripCharges(code []byte, fuel, refuel uint32) (bare []byte, bulk bool, err error) {
	fixed := append(appendU32([]byte{opGlobalGet}, fuel), opI64Const)
	tail := settle(nil, fuel, refuel)
	bare = make([]byte, 0, len(code))
	done, covered := 0, 0
	err = walk(code, func(i instruction) error {
		if i.start < covered {
			return nil
		}
		if i.op != opGlobalGet && i.op != opLocalTee {
			return nil
		}
		r := &reader{data: code, pos: i.start}
		isBulk := false
		switch {
		case bytes.HasPrefix(code[i.start:], fixed):
			r.pos += len(fixed)
			r.signed(10)
		case i.op == opLocalTee:
			r.pos++
			whole := bulkCharge(fuel, refuel, r.u32())
			head := whole[:len(whole)-len(tail)]
			if !bytes.HasPrefix(code[i.start:], head) {
				return nil
			}
			r.pos, isBulk = i.start+len(head), true
		default:
			return nil
		}
		if r.err != nil || !bytes.HasPrefix(code[r.pos:], tail) {
			return nil
		}
		bare = append(bare, code[done:i.start]...)
		covered = r.pos + len(tail)
		done, bulk = covered, bulk || isBulk
		return nil
	})
	return append(bare, code[done:]...), bulk, err
}
