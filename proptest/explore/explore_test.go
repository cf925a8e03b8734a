package explore_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/forge-continuity/forge/proptest/explore"
)

// TestExplore visits 5,000 states, or as many as FORGE_EXPLORE_STATES says.
func TestExplore(t *testing.T) {
	states := 5000
	if text := os.Getenv("FORGE_EXPLORE_STATES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("FORGE_EXPLORE_STATES: %v", err)
		}
		states = n
	}
	start := time.Now()
	found, err := explore.Explore(states)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d states, %d transitions, %d refusals, %d dead ends, %.0f states/s, exhausted: %v", found.States, found.Transitions,
		found.Refusals, found.DeadEnds, float64(found.States)/time.Since(start).Seconds(), found.Exhausted)
	t.Logf("positions %v", found.Positions)
	t.Logf("events %v", found.Kinds)
	t.Logf("refusals %v", found.Codes)
	for _, path := range found.Examples {
		t.Logf("dead end after %s", path)
	}
	if !found.Exhausted && found.States < states {
		t.Errorf("only %d states", found.States)
	}
}
