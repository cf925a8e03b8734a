package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/models"
	. "github.com/forge-continuity/forge/server/api/apitest"
)

// snapshot writes out everything that a request could have written, in both factories: rows by hash, runs with state and
// lease, queue and pending count.
func snapshot(t *testing.T, w *World) string {
	t.Helper()
	ctx := t.Context()
	var b strings.Builder
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, factory := range []string{Factory, OtherFactory} {
		runs, err := w.Store.Runs(ctx, factory, "", 1000)
		check(err)
		for _, run := range append([]string{""}, runs...) {
			if run != "" {
				info, err := w.Store.Run(ctx, factory, run)
				check(err)
				fmt.Fprintf(&b, "%s %s opener %s lease %d state %s\n", factory, run, info.Opener, info.Lease, models.PlainDigest(info.Cached.State))
			}
			rows, err := w.Store.Rows(ctx, factory, run, 1, 1000)
			check(err)
			for _, r := range rows {
				fmt.Fprintf(&b, "%s %q %d %s %s\n", factory, run, r.Seq, r.Kind, r.Hash)
			}
		}
		work, err := w.Store.Work(ctx, factory, "", 1000)
		check(err)
		pending, err := w.Store.Pending(ctx, factory)
		check(err)
		fmt.Fprintf(&b, "%s queue %v pending %d\n", factory, work, pending)
	}
	return b.String()
}

// unchanged compares two snapshots and shows the lines that differ.
func unchanged(t *testing.T, before, after string) {
	t.Helper()
	if before == after {
		return
	}
	for line := range strings.Lines(before) {
		if !strings.Contains(after, line) {
			t.Errorf("gone: %s", line)
		}
	}
	for line := range strings.Lines(after) {
		if !strings.Contains(before, line) {
			t.Errorf("new: %s", line)
		}
	}
	t.FailNow()
}

// count counts the run's rows of a kind.
func count(t *testing.T, w *World, run string, kind models.Event) int {
	t.Helper()
	rows, err := w.Store.Rows(t.Context(), Factory, run, 1, 1000)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range rows {
		if r.Kind == kind.Kind() {
			n++
		}
	}
	return n
}
