package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/forge-continuity/forge/adapters/postgres/pgtest"
	"github.com/forge-continuity/forge/server/engine"
)

// Who waits on one node is woken by an entry that appears through another, and by nothing else: not by other appends, not
// by other factories' entries, not by an entry that stays.
func TestWorkIsAnnouncedAcrossNodes(t *testing.T) {
	at := pgtest.Open(t)
	a, b := open(t, at), open(t, at)
	create(t, a, "f", "r", "s")
	create(t, a, "g", "r")
	news, stop := b.Announced("f")
	defer stop()
	put := func(factory, run, id string, q *engine.QueueEntry) {
		t.Helper()
		locks := engine.Locks{Factory: factory, Run: run}
		err := a.Append(t.Context(), locks, func(l engine.Loaded) (*engine.Write, error) {
			w := row(locks, l, id)
			w.Queue = q
			return w, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// The first entry is told once the node listens.
	woken := false
	for i := 0; !woken; i++ {
		put("f", "r", "first-"+time.Now().Format(time.RFC3339Nano), &engine.QueueEntry{Run: "r", Expires: 1 << 60})
		put("f", "r", "gone-"+time.Now().Format(time.RFC3339Nano), nil)
		select {
		case <-news:
			woken = true
		case <-time.After(100 * time.Millisecond):
		}
		if i == 300 {
			t.Fatal("nobody was woken")
		}
	}
	quiet, heard := b.Announced("g")
	defer heard()
	// settled returns once everything before it was told, and whether anybody who waits on f was woken.
	n := 0
	settled := func() bool {
		n++
		put("g", "r", fmt.Sprintf("again-%d", n), &engine.QueueEntry{Run: "r", Request: fmt.Sprint(n), Expires: 1 << 60})
		<-quiet
		select {
		case <-news:
			return true
		default:
			return false
		}
	}
	settled()
	put("f", "r", "here", &engine.QueueEntry{Run: "r", Expires: 1 << 60})
	if !settled() {
		t.Error("an entry appeared and nobody was woken")
	}
	put("f", "r", "stays", &engine.QueueEntry{Run: "r", Expires: 1 << 60})
	put("f", "s", "other", nil)
	put("f", "r", "gone", nil)
	if settled() {
		t.Error("woken for nothing")
	}
}
