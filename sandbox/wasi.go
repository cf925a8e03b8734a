package sandbox

import (
	"context"

	"github.com/forge-continuity/forge/sandbox/meter"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"
)

// WASI error numbers (wasi_snapshot_preview1, errno).
const (
	errnoSuccess = 0
	errnoBadf    = 8
	errnoFault   = 21
	errnoInval   = 28
	errnoNotsup  = 58
)

// Bounds of single WASI calls. Go's runtime stays far below: one or two buffers a write, 48 bytes a read of chance.
const (
	maxVectors       = 64
	maxRandom        = 1 << 20
	maxSubscriptions = 64
)

// hostFunctions are the answers to meter.Allowed, by name. Each gets the parameters in stack and leaves the result there.
var hostFunctions = map[string]func(s *state, m api.Memory, stack []uint64) uint32{
	"clock_time_get": clockTimeGet,
	"fd_write":       fdWrite,
	"poll_oneoff":    pollOneoff,
	"random_get":     randomGet,
	"sched_yield":    func(*state, api.Memory, []uint64) uint32 { return errnoSuccess },
	"proc_exit":      func(_ *state, _ api.Memory, stack []uint64) uint32 { panic(sys.NewExitError(uint32(stack[0]))) },
	meter.RefuelName: func(s *state, _ api.Memory, _ []uint64) uint32 { s.refuel(); return 0 },
}

// instantiateHost gives the runtime the modules that guests may import from.
func instantiateHost(ctx context.Context, rt wazero.Runtime) error {
	builders := map[string]wazero.HostModuleBuilder{}
	for _, im := range meter.Allowed {
		b, ok := builders[im.Module]
		if !ok {
			b = rt.NewHostModuleBuilder(im.Module)
			builders[im.Module] = b
		}
		f, hasResult := hostFunctions[im.Name], len(im.Results) > 0
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, m api.Module, stack []uint64) {
			errno := f(stateOf(ctx), m.Memory(), stack)
			if hasResult {
				stack[0] = uint64(errno)
			}
		}), im.Params, im.Results).Export(im.Name)
	}
	for _, b := range builders {
		if _, err := b.Instantiate(ctx); err != nil {
			return err
		}
	}
	return nil
}

// clockTimeGet(id, precision, out *u64): every clock is the one of the state.
func clockTimeGet(s *state, m api.Memory, stack []uint64) uint32 {
	s.charge(0)
	if !m.WriteUint64Le(uint32(stack[2]), s.now()) {
		return errnoFault
	}
	return errnoSuccess
}

// randomGet(out, size).
func randomGet(s *state, m api.Memory, stack []uint64) uint32 {
	if uint32(stack[1]) > maxRandom {
		return errnoInval
	}
	s.charge(64 * uint64(uint32(stack[1]))) // SHA-256 outside costs about as much per byte as a loop turn inside
	p, ok := m.Read(uint32(stack[0]), uint32(stack[1]))
	if !ok {
		return errnoFault
	}
	s.random(p)
	return errnoSuccess
}

// fdWrite(fd, vectors, count, out *u32) takes everything written to standard output and error and keeps the first 4 KiB.
func fdWrite(s *state, m api.Memory, stack []uint64) uint32 {
	fd, at, count := uint32(stack[0]), uint32(stack[1]), uint32(stack[2])
	if fd != 1 && fd != 2 {
		return errnoBadf
	}
	if count > maxVectors {
		return errnoInval
	}
	s.charge(uint64(count) * 64)
	total := uint32(0)
	for i := range count {
		vector, ok := m.Read(at+8*i, 8)
		if !ok {
			return errnoFault
		}
		p, ok := m.Read(le32(vector), le32(vector[4:]))
		if !ok {
			return errnoFault
		}
		total += uint32(len(p))
		keep := min(len(p), maxDiagnostics-len(s.diagnostics))
		s.diagnostics = append(s.diagnostics, p[:keep]...)
	}
	if !m.WriteUint32Le(uint32(stack[3]), total) {
		return errnoFault
	}
	return errnoSuccess
}

// pollOneoff(subscriptions, events, count, out *u32): sleeping moves the guest's clock and takes no time. Nothing else
// can be waited for.
func pollOneoff(s *state, m api.Memory, stack []uint64) uint32 {
	in, out, count := uint32(stack[0]), uint32(stack[1]), uint32(stack[2])
	if count == 0 || count > maxSubscriptions {
		return errnoInval
	}
	s.charge(uint64(count) * 64)
	subs, ok := m.Read(in, count*48)
	if !ok {
		return errnoFault
	}
	events, ok := m.Read(out, count*32)
	if !ok {
		return errnoFault
	}
	const tagClock, absolute = 0, 1
	first := ^uint64(0) // the earliest instant waited for
	at := func(i uint32) uint64 {
		sub := subs[i*48:]
		when := le64(sub[24:])
		if sub[40]&absolute == 0 && when+s.ticks > s.ticks {
			when += s.ticks
		}
		return when
	}
	for i := range count {
		if subs[i*48+8] != tagClock {
			return errnoNotsup
		}
		first = min(first, at(i))
	}
	n := uint32(0)
	// Subscriptions and events may overlap, so the ones that are due are collected before any event is written.
	var due [][8]byte
	for i := range count {
		if at(i) <= max(first, s.ticks) {
			due = append(due, [8]byte(subs[i*48:]))
		}
	}
	s.ticks = max(s.ticks, first)
	for _, user := range due {
		e := events[n*32 : n*32+32]
		clear(e)
		copy(e, user[:])
		n++
	}
	if !m.WriteUint32Le(uint32(stack[3]), n) {
		return errnoFault
	}
	return errnoSuccess
}

func le32(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

func le64(b []byte) uint64 { return uint64(le32(b)) | uint64(le32(b[4:]))<<32 }
