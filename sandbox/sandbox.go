// Package sandbox runs guest modules: pure functions of sealed input, compiled to WebAssembly, that no provider, file,
// clock or neighbour can reach (docs/guest-abi.md; design, The sandbox). It is the host on wazero; sandbox/guest is the
// module this project ships, sandbox/meter makes modules count their work, sandbox/module pins the build.
//
// The same module, function, parameters and frames give the same answer, byte for byte and fuel unit for fuel unit, in
// every process and on every machine. Answers that depend on the machine (it was busy, it was slow) are errors, never
// refusals, and save nothing.
package sandbox

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/models/guestabi"
)

// Limits of every call. Input and output are guestabi.MaxInput and guestabi.MaxOutput, 16 MiB each.
const (
	// MaxMemory is the linear memory a module may have, in bytes.
	MaxMemory = 256 << 20
	pageBytes = 64 << 10

	// initialFuel is what starting an instance may use. A Go guest of this project uses about 30,000.
	initialFuel = 50_000_000

	// fuelSlice is how much runs between two looks at the clock: about a millisecond of ordinary code. Code made by wazero
	// cannot be interrupted by the Go scheduler (its RATIONALE.md), so this is also how long a guest can hold up a garbage
	// collection of the whole server.
	fuelSlice = 100_000
)

// Defaults for zero members of Config.
const (
	// DefaultFuel lets a guest parse and write some 15 MB of JSON, at 35 to 70 units a byte. It is spent in 3 to 15 s.
	DefaultFuel = 1_000_000_000
	// DefaultDeadline is well above what DefaultFuel takes with all processors busy.
	DefaultDeadline = 60 * time.Second
	// DefaultQueue is how many calls may wait for an instance before the next one is told ErrBusy.
	DefaultQueue = 64
)

// Config are the limits of one Host. The zero value means the defaults.
type Config struct {
	// Fuel is the budget of one call in units (docs/guest-abi.md, Fuel). It is part of the meaning of an answer: two
	// hosts agree on out_of_fuel only when they give the same.
	Fuel int64
	// Deadline is the wall-clock watchdog of one call.
	Deadline time.Duration
	// Concurrency is the number of instances in use at once; it is never more than GOMAXPROCS.
	Concurrency int
	// Queue is the number of calls that may wait; a negative number means none.
	Queue int
	// Warm is the number of instances kept ready; 0 means Concurrency, a negative number none.
	Warm int
	// CacheDir keeps compiled machine code between processes. Whoever can write there can run code in this process, so
	// it must be the server's own. Empty means no cache on disk.
	CacheDir string
	// Diagnostics gets what guests write to standard output and error, at most 4 KiB a call. It may hold content of a
	// run: it is for a developer's terminal, never for a log. It must allow use from many goroutines. Nil drops it.
	Diagnostics io.Writer

	unmetered bool // benchmarks: run a module without charges
}

func (c Config) withDefaults() Config {
	if c.Fuel == 0 {
		c.Fuel = DefaultFuel
	}
	if c.Deadline == 0 {
		c.Deadline = DefaultDeadline
	}
	if most := runtime.GOMAXPROCS(0); c.Concurrency <= 0 || c.Concurrency > most {
		c.Concurrency = most
	}
	switch {
	case c.Queue == 0:
		c.Queue = DefaultQueue
	case c.Queue < 0:
		c.Queue = 0
	}
	switch {
	case c.Warm == 0:
		c.Warm = c.Concurrency
	case c.Warm < 0:
		c.Warm = 0
	}
	return c
}

// Frame is one named run of bytes that goes in or comes out of a guest. The host owns neither copy nor name.
type Frame struct {
	Name  string
	Bytes []byte
}

// Digest is the plain SHA-256 of the frame's bytes, taken outside the guest.
func (f Frame) Digest() [32]byte { return sha256.Sum256(f.Bytes) }

// Result is the answer of a guest function that did not refuse.
type Result struct {
	Frames []Frame
	// ResultJSON is the guest's result, canonical forge-cjson/1.
	ResultJSON []byte
	// FuelUsed is the same number for the same input, always.
	FuelUsed int64
}

// Frame finds an output frame by name.
func (r Result) Frame(name string) (Frame, bool) {
	for _, f := range r.Frames {
		if f.Name == name {
			return f, true
		}
	}
	return Frame{}, false
}

// CodeStopped is the code of every failure inside (rules, section 5): limits, traps, and answers that are no answer.
const CodeStopped = "sandbox_stopped"

// Reasons in the details of sandbox_stopped that the host finds. A guest may give others of its own.
const (
	ReasonOutOfFuel       = "out_of_fuel"
	ReasonMemory          = "memory"
	ReasonTrap            = "trap"
	ReasonStackOverflow   = "stack_overflow"
	ReasonExit            = "exit"
	ReasonInputTooLarge   = "input_too_large"
	ReasonOutputTooLarge  = "output_too_large"
	ReasonMalformedOutput = "malformed_output"
)

// Refusal is a typed "no": the guest's own, with a code of the refusal table, or the host's sandbox_stopped. The same
// input gives the same one. Details are a canonical JSON object of facts, never content of a run.
type Refusal struct {
	Code    string
	Details canon.Raw
}

// Error implements error. It holds the code, and the details only when the host made them.
func (r *Refusal) Error() string {
	if r.Code == CodeStopped {
		return fmt.Sprintf("%s %s", r.Code, r.Details)
	}
	return r.Code
}

// Is matches by code.
func (r *Refusal) Is(target error) bool {
	other, ok := target.(*Refusal)
	return ok && other.Code == r.Code
}

func stopped(reason string) *Refusal {
	return &Refusal{Code: CodeStopped, Details: canon.MustMarshal(map[string]string{"reason": reason})}
}

// Errors that say nothing about the input. The caller answers 503 and saves nothing.
var (
	// ErrBusy reports that the queue for an instance is full.
	ErrBusy = errors.New("sandbox is busy")
	// ErrWatchdog reports that a call ran longer than Config.Deadline.
	ErrWatchdog = errors.New("sandbox call passed its wall-clock limit")
	// ErrClosed reports a call after Close.
	ErrClosed = errors.New("sandbox is closed")
)

// ModuleReason says why New refused a module.
type ModuleReason string

// Reasons for refusing a module.
const (
	ModuleMalformed  ModuleReason = "malformed"         // not a module, or instructions outside the accepted subset
	ModuleImport     ModuleReason = "import_refused"    // an import off the allowlist
	ModuleExport     ModuleReason = "export_missing"    // an export of the ABI is absent or of another type
	ModuleMemory     ModuleReason = "memory"            // no memory of its own, or more than MaxMemory to begin with
	ModuleStart      ModuleReason = "start_function"    // code that runs before the host can look
	ModuleNotMetered ModuleReason = "not_metered"       // a charge is missing, or fuel is written elsewhere
	ModuleCompile    ModuleReason = "compile"           // wazero found it invalid
	ModuleInitialize ModuleReason = "initialize_failed" // the first instance did not start
	ModuleABI        ModuleReason = "abi_mismatch"      // forge_abi answers another number
)

// ModuleError is New's refusal of a module.
type ModuleError struct {
	Reason ModuleReason
	Detail string
}

// Error implements error.
func (e *ModuleError) Error() string { return fmt.Sprintf("refuse module: %s: %s", e.Reason, e.Detail) }

// Is matches by reason.
func (e *ModuleError) Is(target error) bool {
	other, ok := target.(*ModuleError)
	return ok && other.Reason == e.Reason
}

// The ABI number travels as an int64 in headers and as an i32 from the export.
const abiVersion = guestabi.Version
