package sandbox

import (
	"bytes"
	"fmt"

	"github.com/forge-continuity/forge/models/guestabi"
	"github.com/forge-continuity/forge/sandbox/meter"
)

// exportInitialize is the reactor's start, called once per instance before anything else.
const exportInitialize = "_initialize"

// exported are the functions that a module must have (docs/guest-abi.md).
var exported = []struct {
	name            string
	params, results []byte
}{
	{exportInitialize, nil, nil},
	{guestabi.ExportABI, nil, []byte{meter.I32}},
	{guestabi.ExportAlloc, []byte{meter.I32}, []byte{meter.I32}},
	{guestabi.ExportCall, []byte{meter.I32, meter.I32}, []byte{meter.I64}},
}

// admit looks at a module before any of it is compiled. Only functions on the list of meter.Allowed, with the very types
// there, may be imported; nothing of the module runs before the host has granted fuel (REC-02, REC-05).
func admit(wasm []byte, unmetered bool) *ModuleError {
	facts, err := meter.Check(wasm)
	if err != nil {
		return &ModuleError{ModuleMalformed, err.Error()}
	}
	for _, im := range facts.Imports {
		if im.Kind != meter.KindFunc || !meter.Listed(im.Module, im.Name, im.Params, im.Results) {
			return &ModuleError{ModuleImport, fmt.Sprintf("%.100q.%.100q", im.Module, im.Name)}
		}
	}
	for _, want := range exported {
		got, ok := facts.Export(want.name)
		if !ok || got.Kind != meter.KindFunc || !bytes.Equal(got.Params, want.params) || !bytes.Equal(got.Results, want.results) {
			return &ModuleError{ModuleExport, want.name}
		}
	}
	if m, ok := facts.Export("memory"); !ok || m.Kind != meter.KindMemory || !facts.Memory {
		return &ModuleError{ModuleMemory, "no memory is exported"}
	}
	if facts.MinPages > MaxMemory/pageBytes {
		return &ModuleError{ModuleMemory, fmt.Sprintf("%d pages to begin with, the limit is %d", facts.MinPages, MaxMemory/pageBytes)}
	}
	if facts.Start {
		return &ModuleError{ModuleStart, "a start function"}
	}
	if facts.Unmetered != "" && !unmetered {
		return &ModuleError{ModuleNotMetered, facts.Unmetered}
	}
	return nil
}
