package postgres

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/forge-continuity/forge/adapters/postgres/pgtest"
	"github.com/forge-continuity/forge/server/engine"
)

// Of a group whose only write the database refuses, that write alone is told so: who repeats a command has its saved answer.
func TestARepeatIsServedBesideARefusedWrite(t *testing.T) {
	s := open(t, pgtest.Open(t))
	create(t, s, "f", "repeat", "taken")
	put := func(run, id string) error {
		locks := engine.Locks{Factory: "f", Run: run, Receipt: engine.Key{Factory: "f", Space: engine.SpaceCommand, Run: run, ID: id}}
		return s.Append(t.Context(), locks, func(l engine.Loaded) (*engine.Write, error) {
			if l.Saved != nil {
				return nil, nil
			}
			w := row(locks, l, id)
			w.Once = []engine.Once{{Kind: "k", Key: "1"}}
			return w, nil
		})
	}
	for _, run := range []string{"repeat", "taken"} {
		if err := put(run, "first"); err != nil {
			t.Fatal(err)
		}
	}
	idle(t, s)
	s.groups.mu.Lock()
	s.groups.most = 0 // nobody leads but this test
	s.groups.mu.Unlock()
	var repeat, taken error
	var all sync.WaitGroup
	all.Go(func() { repeat = put("repeat", "first") })
	all.Go(func() { taken = put("taken", "second") })
	s.serve(s.gather(2))
	all.Wait()
	if repeat != nil || !errors.Is(taken, engine.ErrTaken) {
		t.Errorf("the repeat: %v; the write: %v", repeat, taken)
	}
}

// A full group over several factories, each part with once-only keys and an entry in the queue that it ends, and one of them that is
// refused: all others are durable, with their keys and without their entries.
func TestFullGroupServesEachAlone(t *testing.T) {
	s := open(t, pgtest.Open(t))
	factories := []string{"f", "g", "h"}
	runs := make([]string, 9)
	for i := range runs {
		runs[i] = fmt.Sprintf("r%d", i)
	}
	for _, f := range factories {
		create(t, s, f, runs...)
	}
	put := func(f, run string, keys int, queue bool) error {
		locks := engine.Locks{Factory: f, Run: run}
		return s.Append(t.Context(), locks, func(l engine.Loaded) (*engine.Write, error) {
			w := row(locks, l, fmt.Sprint("id-", l.Run.Head.Seq))
			for i := range keys {
				w.Once = append(w.Once, engine.Once{Kind: "k", Key: fmt.Sprint(l.Run.Head.Seq, ".", i)})
			}
			if run == "r4" && f == "g" {
				w.Once = []engine.Once{{Kind: "k", Key: "same"}}
			}
			if queue {
				w.Queue = &engine.QueueEntry{Run: run}
			}
			return w, nil
		})
	}
	for _, f := range factories {
		for i, run := range runs {
			if err := put(f, run, i, true); err != nil {
				t.Fatal(err)
			}
		}
	}
	idle(t, s)
	s.groups.mu.Lock()
	s.groups.most = 0
	s.groups.mu.Unlock()
	var mu sync.Mutex
	answers := map[string]error{}
	var all sync.WaitGroup
	for _, f := range factories {
		for i, run := range runs {
			all.Go(func() {
				err := put(f, run, i, false)
				mu.Lock()
				defer mu.Unlock()
				answers[f+run] = err
			})
		}
	}
	s.serve(s.gather(len(factories) * len(runs)))
	all.Wait()
	for _, f := range factories {
		work, err := s.Work(t.Context(), f, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		for i, run := range runs {
			info, err := s.Run(t.Context(), f, run)
			if err != nil {
				t.Fatal(err)
			}
			var keys int
			if err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM once_keys WHERE factory = $1 AND run = $2`, f, run).Scan(&keys); err != nil {
				t.Fatal(err)
			}
			want, seq, had := 2*i, int64(2), error(nil)
			if f == "g" && run == "r4" {
				want, seq, had = 1, 1, engine.ErrTaken
			}
			if !errors.Is(answers[f+run], had) || had == nil && answers[f+run] != nil || info.Cached.Head.Seq != seq || keys != want {
				t.Errorf("%s %s: %v, %d rows, %d keys", f, run, answers[f+run], info.Cached.Head.Seq, keys)
			}
		}
		if left := map[string]int{"g": 1}[f]; len(work) != left {
			t.Errorf("%s: %v waits", f, work)
		}
	}
}
