package conformance

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/forge-continuity/forge/server/engine"
)

// The model itself passes the suite that it is the model of.
func TestNaive(t *testing.T) {
	n := newNaive(sound)
	Run(t, func(*testing.T) engine.Store { return n.open() })
}

// A store with one fault fails, and by the check that is about it.
func TestFaultsAreFound(t *testing.T) {
	for f, name := range map[fault]string{
		losesUpdates:   "no update of a run is lost",
		halfWrites:     "a write that is taken leaves nothing",
		doubleReserves: "a count under the queue lock is never exceeded",
		staleClock:     "an append waits for the one before it and reads the clock then",
		staleState:     "a command that saw the old factory is earlier than the change",
		sharesBlobs:    "blobs are kept once, per run",
		foldsCase:      "ids are case-sensitive",
		textBytes:      "bytes are kept as they are",
		mergesWorlds:   "factories are worlds of their own",
		ignoresCancel:  "a canceled call writes nothing",
		aliases:        "what decide was given is its own",
		sortsWork:      "work is listed oldest first",
		keepsLapsed:    "pending counts tickets that have not lapsed",
		repeatsOnce:    "a write that is taken leaves nothing",
		reopensRuns:    "one of many openers opens",
		acceptsGaps:    "a write that does not follow leaves nothing",
		forgetsLease:   "a lease is changed without a row",
		oneSpace:       "the receipt asked for is loaded",
		holdsOnPanic:   "a panic in decide releases the locks",
		revokesAll:     "factories are worlds of their own",
		wrapsErrors:    "decide may refuse or have nothing to write",
		needsPeople:    "a run whose lease lapsed at a clean point is announced",
		mixesPools:     "a handed-over run is announced to its pool",
		forgetsTickets: "runs with an outstanding ticket are listed",
		sweepsNamed:    "blobs that no row names are swept",
		sweepsFresh:    "blobs that no row names are swept",
		fillsDisks:     "the content of a run is bounded",
		keepsTokens:    "the tokens of a principal that goes are revoked with the write",
		forgetsRuns:    "an append to the factory knows the newest time of its runs",
		keepsState:     "a cached state is replaced without a row",
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			n := newNaive(f)
			nodes := Nodes{A: n.open(), B: n.open(), Open: func() (engine.Store, error) { return n.open(), nil }}
			for _, c := range Checks() {
				if c.Name != name {
					continue
				}
				limit := time.Minute
				if f == holdsOnPanic { // the one that hangs
					limit = 2 * time.Second
				}
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				err := c.Run(ctx, nodes)
				if err == nil {
					t.Fatalf("%q passes", name)
				}
				t.Logf("%q: %s", name, strings.SplitN(err.Error(), "\n", 2)[0])
				return
			}
			t.Fatalf("no check %q", name)
		})
	}
}
