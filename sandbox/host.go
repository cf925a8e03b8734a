package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/models/guestabi"
	"github.com/forge-continuity/forge/sandbox/meter"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"
)

// Host runs one module. Its methods may be called from many goroutines.
type Host struct {
	config   Config
	digest   [32]byte
	runtime  wazero.Runtime
	cache    wazero.CompilationCache
	compiled wazero.CompiledModule

	slots   chan struct{} // one token per instance in use
	waiting atomic.Int64
	warm    chan *instance

	closing chan struct{}
	closed  sync.Once
	filling sync.WaitGroup
}

// instance has run _initialize and nothing else. It serves one call and is closed.
type instance struct {
	module api.Module
	state  *state
}

// New checks and compiles a metered module and starts one instance to prove that it runs. A module it will not have is a
// *ModuleError; other errors are of the machine. Close frees what it holds.
func New(ctx context.Context, wasm []byte, config Config) (*Host, error) {
	if refused := admit(wasm, config.unmetered); refused != nil {
		return nil, refused
	}
	h := &Host{config: config.withDefaults(), digest: sha256.Sum256(wasm), closing: make(chan struct{})}
	rc := wazero.NewRuntimeConfig().WithDebugInfoEnabled(false).WithCoreFeatures(features)
	if config.CacheDir != "" {
		cache, err := wazero.NewCompilationCacheWithDir(config.CacheDir)
		if err != nil {
			return nil, fmt.Errorf("open sandbox compilation cache: %w", err)
		}
		h.cache = cache
		rc = rc.WithCompilationCache(cache)
	}
	h.runtime = wazero.NewRuntimeWithConfig(ctx, rc)
	if err := h.open(ctx, wasm); err != nil {
		return nil, errors.Join(err, h.free(ctx))
	}
	h.slots = make(chan struct{}, h.config.Concurrency)
	if h.config.Warm > 0 {
		h.warm = make(chan *instance, h.config.Warm)
		h.filling.Add(1)
		go h.fill()
	}
	return h, nil
}

// features is what meter accepts. Bulk memory comes with reference types in wazero; meter refuses their instructions.
const features = api.CoreFeaturesV2 &^ api.CoreFeatureSIMD

func (h *Host) open(ctx context.Context, wasm []byte) error {
	if err := instantiateHost(ctx, h.runtime); err != nil {
		return fmt.Errorf("make sandbox host functions: %w", err)
	}
	var err error
	h.compiled, err = h.runtime.CompileModule(experimental.WithCompilationWorkers(ctx, runtime.GOMAXPROCS(0)), wasm)
	if err != nil {
		return &ModuleError{ModuleCompile, err.Error()}
	}
	first, err := h.prepare(ctx)
	if err != nil {
		if isMachine(err) {
			return err
		}
		return &ModuleError{ModuleInitialize, err.Error()}
	}
	defer first.close(ctx)
	answer, err := first.module.ExportedFunction(guestabi.ExportABI).Call(first.context(ctx))
	if err != nil {
		return &ModuleError{ModuleInitialize, first.state.classify(err).Error()}
	}
	if got := int32(answer[0]); got != abiVersion {
		return &ModuleError{ModuleABI, fmt.Sprintf("it speaks %d, this host %d", got, abiVersion)}
	}
	return nil
}

// Digest is the SHA-256 of the module as given to New.
func (h *Host) Digest() [32]byte { return h.digest }

// Close waits for running calls, then frees everything. Later calls answer ErrClosed.
func (h *Host) Close(ctx context.Context) error {
	var err error
	h.closed.Do(func() {
		close(h.closing)
		for range cap(h.slots) {
			h.slots <- struct{}{}
		}
		h.filling.Wait()
		for len(h.warm) > 0 {
			(<-h.warm).close(ctx)
		}
		err = h.free(ctx)
	})
	return err
}

func (h *Host) free(ctx context.Context) error {
	err := h.runtime.Close(ctx)
	if h.cache != nil {
		err = errors.Join(err, h.cache.Close(ctx))
	}
	return err
}

// fill keeps instances ready until the host closes. One that cannot be made now is tried again a little later; calls make
// their own meanwhile and report the error.
func (h *Host) fill() {
	defer h.filling.Done()
	ctx := context.Background()
	for {
		i, err := h.prepare(ctx)
		if err != nil {
			select {
			case <-h.closing:
				return
			case <-time.After(100 * time.Millisecond):
				continue
			}
		}
		select {
		case h.warm <- i:
		case <-h.closing:
			i.close(ctx)
			return
		}
	}
}

// prepare makes an instance and runs _initialize. Chance in this phase comes from the module's digest: whatever the guest
// draws while starting is part of the module.
func (h *Host) prepare(ctx context.Context) (*instance, error) {
	memory, err := newLinearMemory()
	if err != nil {
		return nil, &machineError{err}
	}
	i := &instance{state: &state{memory: memory}}
	ctx = i.context(ctx)
	i.module, err = h.runtime.InstantiateModule(experimental.WithMemoryAllocator(ctx, memory), h.compiled,
		wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		memory.Free()
		return nil, fmt.Errorf("instantiate module: %w", err)
	}
	if !h.config.unmetered {
		i.state.fuel = i.module.ExportedGlobal(meter.FuelGlobal).(api.MutableGlobal)
	}
	i.state.begin(ctx, initialFuel, h.config.Deadline, h.digest)
	if _, err := i.module.ExportedFunction(exportInitialize).Call(ctx); err != nil {
		err = i.state.classify(err)
		i.close(ctx)
		return nil, err
	}
	return i, nil
}

func (i *instance) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, stateKey{}, i.state)
}

func (i *instance) close(ctx context.Context) {
	i.module.Close(ctx)
	i.state.memory.Free()
}

// Call runs one guest function. params is anything canon.Marshal takes; nil stands for {}. Frames go in under their
// names, in order.
//
// An answer that follows from the input alone is a Result or a *Refusal: the guest's own, or sandbox_stopped with one of
// the reasons above. ErrBusy, ErrWatchdog, ErrClosed and the error of ctx say nothing about the input.
func (h *Host) Call(ctx context.Context, function string, frames []Frame, params any) (Result, error) {
	message, err := encode(function, frames, params)
	if err != nil {
		return Result{}, err
	}
	if len(message) > guestabi.MaxInput {
		return Result{}, stopped(ReasonInputTooLarge)
	}
	if err := h.acquire(ctx); err != nil {
		return Result{}, err
	}
	defer func() { <-h.slots }()
	i, err := h.take(ctx)
	if err != nil {
		return Result{}, err
	}
	defer i.close(ctx)
	i.state.begin(ctx, h.config.Fuel, h.config.Deadline, sha256.Sum256(message))
	output, err := i.run(ctx, message)
	i.state.report(h.config.Diagnostics)
	if err != nil {
		return Result{}, err
	}
	result, refusal := decode(output)
	if refusal != nil {
		return Result{}, refusal
	}
	result.FuelUsed = i.state.used()
	return result, nil
}

// acquire waits for the right to use an instance, in a queue of bounded length.
func (h *Host) acquire(ctx context.Context) error {
	select {
	case <-h.closing:
		return ErrClosed
	default:
	}
	select {
	case h.slots <- struct{}{}:
		return nil
	default:
	}
	if h.waiting.Add(1) > int64(h.config.Queue) {
		h.waiting.Add(-1)
		return ErrBusy
	}
	defer h.waiting.Add(-1)
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-h.closing:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Host) take(ctx context.Context) (*instance, error) {
	select {
	case i := <-h.warm:
		return i, nil
	default:
		return h.prepare(ctx)
	}
}

// run gives the message to the guest and returns a copy of its answer.
func (i *instance) run(ctx context.Context, message []byte) ([]byte, error) {
	ctx = i.context(ctx)
	answer, err := i.module.ExportedFunction(guestabi.ExportAlloc).Call(ctx, uint64(len(message)))
	if err != nil {
		return nil, i.state.classify(err)
	}
	ptr := uint32(answer[0])
	if ptr == 0 || !i.module.Memory().Write(ptr, message) {
		return nil, stopped(ReasonMalformedOutput)
	}
	answer, err = i.module.ExportedFunction(guestabi.ExportCall).Call(ctx, uint64(ptr), uint64(len(message)))
	if err != nil {
		return nil, i.state.classify(err)
	}
	ptr, size := uint32(answer[0]>>32), uint32(answer[0])
	if size > guestabi.MaxOutput {
		return nil, stopped(ReasonOutputTooLarge)
	}
	output, ok := i.module.Memory().Read(ptr, size)
	if !ok {
		return nil, stopped(ReasonMalformedOutput)
	}
	return bytes.Clone(output), nil
}

// machineError marks a failure of this machine rather than of the module.
type machineError struct{ error }

func (e *machineError) Unwrap() error { return e.error }

func isMachine(err error) bool {
	var m *machineError
	return errors.As(err, &m) || errors.Is(err, ErrWatchdog) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded)
}

// classify turns wazero's error into ours. Its text, which may quote the guest, goes no further.
func (s *state) classify(err error) error {
	switch {
	case errors.Is(err, ErrWatchdog):
		return ErrWatchdog
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return s.ctx.Err()
	case errors.Is(err, errOutOfFuel):
		return stopped(ReasonOutOfFuel)
	case s.memory.refused:
		return stopped(ReasonMemory)
	}
	var exit *sys.ExitError
	if errors.As(err, &exit) {
		return &Refusal{Code: CodeStopped, Details: canon.MustMarshal(struct {
			Reason string `json:"reason"`
			Status int64  `json:"status"`
		}{ReasonExit, int64(exit.ExitCode())})}
	}
	if stackOverflow(err) {
		return stopped(ReasonStackOverflow)
	}
	return stopped(ReasonTrap)
}
