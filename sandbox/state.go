package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"time"

	"github.com/tetratelabs/wazero/api"
)

// errOutOfFuel unwinds a guest whose budget is spent. It never leaves the package.
var errOutOfFuel = errors.New("out of fuel")

const maxDiagnostics = 4 << 10

// state is what the host functions know about one instance. An instance has one phase of starting and one of a call;
// begin opens each. One goroutine uses it at a time.
type state struct {
	ctx      context.Context
	fuel     api.MutableGlobal // nil for unmetered modules
	budget   int64
	granted  int64 // of the budget, so far
	deadline time.Time

	seed  [32]byte
	block uint64 // of the random stream
	rest  []byte
	ticks uint64 // nanoseconds of the guest's clock

	diagnostics []byte
	memory      *linearMemory
}

type stateKey struct{}

func stateOf(ctx context.Context) *state { return ctx.Value(stateKey{}).(*state) }

// begin starts a phase: a budget, a deadline, and a seed from which time and chance follow.
func (s *state) begin(ctx context.Context, budget int64, deadline time.Duration, seed [32]byte) {
	s.ctx, s.budget, s.granted, s.deadline = ctx, budget, 0, time.Now().Add(deadline)
	s.seed, s.block, s.rest = seed, 0, nil
	s.ticks = clockStart
	s.diagnostics = nil
	if s.fuel != nil {
		s.fuel.Set(0)
	}
}

// used is the fuel charged in this phase; a guest stopped for want of fuel used all of it.
func (s *state) used() int64 {
	if s.fuel == nil {
		return 0
	}
	return min(s.budget, s.granted-int64(s.fuel.Get()))
}

// refuel is called by the module when its counter is below zero, and by host functions that have charged for their own
// work. It panics, which ends the call, when the budget is spent or time is over. How much is granted at a time has no
// influence on when the budget is spent.
func (s *state) refuel() {
	if s.fuel == nil {
		return
	}
	left := int64(s.fuel.Get())
	if left >= 0 {
		return
	}
	if err := s.ctx.Err(); err != nil {
		panic(err)
	}
	if time.Now().After(s.deadline) {
		panic(ErrWatchdog)
	}
	grant := min(max(fuelSlice, -left), s.budget-s.granted)
	if left+grant < 0 {
		panic(errOutOfFuel)
	}
	s.granted += grant
	s.fuel.Set(uint64(left + grant))
}

// charge takes fuel for n bytes of work done by the host, at the price of bulk instructions.
func (s *state) charge(n uint64) {
	if s.fuel == nil {
		return
	}
	s.fuel.Set(s.fuel.Get() - 1 - n/64)
	s.refuel()
}

// The guest's clock stands at clockStart when a phase begins, moves clockStep at each reading and as far as it sleeps.
// It never shows the time of the world, so that an answer cannot depend on it. Go's runtime wants time to be above zero.
const (
	clockStart = 1_000_000_000
	clockStep  = 1_000
)

func (s *state) now() uint64 {
	s.ticks += clockStep
	return s.ticks
}

// random fills p from SHA-256 in counter mode over the phase's seed.
func (s *state) random(p []byte) {
	for len(p) > 0 {
		if len(s.rest) == 0 {
			b := binary.BigEndian.AppendUint64(append([]byte("forge.guest.random/1"), s.seed[:]...), s.block)
			sum := sha256.Sum256(b)
			s.block++
			s.rest = sum[:]
		}
		n := copy(p, s.rest)
		p, s.rest = p[n:], s.rest[n:]
	}
}

func (s *state) report(w io.Writer) {
	if w != nil && len(s.diagnostics) > 0 {
		w.Write(s.diagnostics)
	}
}
