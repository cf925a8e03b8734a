package main

import (
	"runtime/debug"

	"github.com/forge-continuity/forge/adapters/agentic"
	"github.com/forge-continuity/forge/adapters/agentic/catalogue"
)

// What runs here runs before a call waits for the instance.
func init() {
	// An instance serves one call and is thrown away: collecting is work for nobody, unless the memory that an instance may have
	// (sandbox.MaxMemory) runs out.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(192 << 20)
	// The catalogue of this release. A call that brings another one has it read then.
	agentic.Prepare(catalogue.Bytes())
}
