package kernel_test

import (
	"slices"
	"testing"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/proptest/world"
)

// BenchmarkAppend decides, seals and folds a batch of one fact.
func BenchmarkAppend(b *testing.B) {
	w := world.Executing()
	s := w.State
	c := models.Append{Facts: []models.Fact{models.CommandStarted{Command: world.Blob("c"), Number: 12, Position: -1}}, Fence: s.Lease.Fence}
	env := w.Env(world.Worker, "b", c)
	b.ReportAllocs()
	for b.Loop() {
		events, r := kernel.Decide(s, "b", c, env)
		if r != nil {
			b.Fatal(r)
		}
		if _, _, err := kernel.Rows(s, "b", c, env, events); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
}

// BenchmarkRequestContinuity decides, seals and folds an admission; reconstruction and recount are given.
func BenchmarkRequestContinuity(b *testing.B) {
	w := world.Held()
	c := w.Request(600)
	env := w.Env(world.Dana, "r", c)
	b.ReportAllocs()
	for b.Loop() {
		events, r := kernel.Decide(w.State, "r", c, env)
		if r != nil {
			b.Fatal(r)
		}
		if _, _, err := kernel.Rows(w.State, "r", c, env, events); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
}

// BenchmarkReplay verifies the canonical run from its first row.
func BenchmarkReplay(b *testing.B) {
	w := world.Held()
	history := w.History()
	b.ReportAllocs()
	for b.Loop() {
		if _, r := kernel.Replay(slices.Values(w.Rows), history); r != nil {
			b.Fatal(r)
		}
	}
	b.ReportMetric(float64(b.N)*float64(len(w.Rows))/b.Elapsed().Seconds(), "rows/s")
}
