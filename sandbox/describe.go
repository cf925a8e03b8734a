package sandbox

import (
	"crypto/sha256"

	"github.com/forge-continuity/forge/sandbox/meter"
)

// Description is what a module's bytes say, before any of it is compiled or runs.
type Description struct {
	Digest  [32]byte
	Bytes   int
	Imports []string // module.name, in the module's order
	Exports []string
	Memory  int64  // bytes to begin with
	Metered bool   // every charge is in place
	Refused string // why a host would not have it, "" where it would, as far as this tells
}

// Describe reads a module. It compiles and runs nothing.
func Describe(wasm []byte) Description {
	d := Description{Digest: sha256.Sum256(wasm), Bytes: len(wasm)}
	if refused := admit(wasm, false); refused != nil {
		d.Refused = string(refused.Reason) + ": " + refused.Detail
	}
	facts, err := meter.Check(wasm)
	if err != nil {
		return d
	}
	for _, n := range facts.Imports {
		d.Imports = append(d.Imports, n.Module+"."+n.Name)
	}
	for _, n := range facts.Exports {
		d.Exports = append(d.Exports, n.Name)
	}
	d.Memory, d.Metered = int64(facts.MinPages)*pageBytes, facts.Unmetered == ""
	return d
}
