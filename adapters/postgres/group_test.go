package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forge-continuity/forge/adapters/postgres/pgtest"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// gather waits until n appends wait, then takes them as one group.
func (s *Store) gather(n int) []*part {
	for {
		s.groups.mu.Lock()
		there := len(s.groups.waiting)
		s.groups.mu.Unlock()
		if there == n {
			return s.groups.take()
		}
		time.Sleep(time.Millisecond)
	}
}

// Of a group each part gets the answer that is its own: one that decide refuses, one whose caller panics or goes away, one
// whose run another node holds or nobody opened, and one that the database refuses, which takes the whole transaction with
// it. All others are durable, and each is judged on its own run.
func TestGroupServesEachAlone(t *testing.T) {
	for _, taken := range []bool{false, true} {
		t.Run(fmt.Sprintf("taken=%t", taken), func(t *testing.T) { groupServesEachAlone(t, taken) })
	}
}

func groupServesEachAlone(t *testing.T, taken bool) {
	at := pgtest.Open(t)
	s := open(t, at)
	create(t, s, "f", "good", "fine", "refused", "panics", "gone", "held", "taken")
	put := func(ctx context.Context, run string, edit func(*engine.Write) error) error {
		locks := engine.Locks{Factory: "f", Run: run}
		return s.Append(ctx, locks, func(l engine.Loaded) (*engine.Write, error) {
			w := row(locks, l, "id-"+run+strconv.FormatInt(l.Run.Head.Seq, 10))
			if edit != nil {
				if err := edit(w); err != nil {
					return nil, err
				}
			}
			return w, nil
		})
	}
	once := func(w *engine.Write) error { w.Once = []engine.Once{{Kind: "k", Key: "1"}}; return nil }
	for _, run := range []string{"good", "taken"} {
		if err := put(t.Context(), run, once); err != nil {
			t.Fatal(err)
		}
	}
	outside, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = outside.Close(context.Background()) }()
	if _, err := outside.Exec(t.Context(), `BEGIN; SELECT FROM runs WHERE run = 'held' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}

	idle(t, s)
	s.groups.mu.Lock()
	s.groups.most = 0 // nobody leads but this test
	s.groups.mu.Unlock()
	var mu sync.Mutex
	answers := map[string]any{}
	var all sync.WaitGroup
	start := func(run string, ctx context.Context, edit func(*engine.Write) error) {
		all.Go(func() {
			var answer any = errors.New("no answer")
			defer func() {
				if p := recover(); p != nil {
					answer = p
				}
				mu.Lock()
				defer mu.Unlock()
				answers[run] = answer
			}()
			answer = put(ctx, run, edit)
		})
	}
	refusal := errors.New("refused")
	gone, leave := context.WithCancel(t.Context())
	n := 7
	start("good", t.Context(), nil)
	start("fine", t.Context(), nil)
	start("refused", t.Context(), func(*engine.Write) error { return refusal })
	start("panics", t.Context(), func(*engine.Write) error { panic("test") })
	start("gone", gone, func(*engine.Write) error { leave(); return nil })
	start("held", t.Context(), nil)
	start("none", t.Context(), nil)
	if taken {
		n++
		start("taken", t.Context(), once)
	}
	parts := s.gather(n)
	if len(parts) != n {
		t.Fatalf("a group of %d, want %d", len(parts), n)
	}
	s.serve(parts)
	// The held run was not waited for: everybody else has an answer.
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		mu.Lock()
		there := len(answers)
		mu.Unlock()
		if there == n-1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d answers while one run is held: %v", there, answers)
		}
	}
	if _, err := outside.Exec(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	for run, want := range map[string]error{"good": nil, "fine": nil, "refused": refusal, "gone": context.Canceled, "held": nil, "none": engine.ErrNotFound} {
		if got, _ := answers[run].(error); !errors.Is(got, want) || (want == nil) != (answers[run] == nil) {
			t.Errorf("%s: %v, want %v", run, answers[run], want)
		}
	}
	if answers["refused"] != refusal || answers["panics"] != "test" {
		t.Errorf("refused %v, panics %v", answers["refused"], answers["panics"])
	}
	if got, _ := answers["taken"].(error); taken && !errors.Is(got, engine.ErrTaken) {
		t.Errorf("taken: %v", answers["taken"])
	}
	for run, want := range map[string]int{"good": 2, "fine": 1, "refused": 0, "panics": 0, "gone": 0, "held": 1, "taken": 1} {
		if rows, err := s.Rows(t.Context(), "f", run, 1, 10); err != nil || len(rows) != want {
			t.Errorf("run %s has %d rows, want %d (%v)", run, len(rows), want, err)
		}
	}
}

// idle waits until no group is on its way.
func idle(t *testing.T, s *Store) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		s.groups.mu.Lock()
		leaders := s.groups.leaders
		s.groups.mu.Unlock()
		if leaders == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a group is still on its way")
		}
	}
}

// One run has one place in a group, and none while another group holds it; the order of arrival is kept.
func TestGroupTakesEachRunOnce(t *testing.T) {
	g := &groups{busy: map[[2]string]bool{}}
	p := func(run string) *part { return &part{locks: engine.Locks{Factory: "f", Run: run}} }
	for _, run := range []string{"b", "a", "b", "c", "a"} {
		g.waiting = append(g.waiting, p(run))
	}
	show := func(parts []*part) string {
		text := ""
		for _, p := range parts {
			text += p.locks.Run
		}
		return text
	}
	if got := show(g.take()); got != "abc" {
		t.Errorf("first group %q", got)
	}
	g.waiting = append(g.waiting, p("d"))
	if got := show(g.take()); got != "d" || show(g.waiting) != "ba" {
		t.Errorf("second group %q, %q wait", got, show(g.waiting))
	}
	for range 2 * maxGroup {
		g.waiting = append(g.waiting, p("x"+strconv.Itoa(len(g.waiting))))
	}
	if got := len(g.take()); got != maxGroup {
		t.Errorf("a group of %d", got)
	}
}

// Everything that takes a lock, on two nodes and on few runs and factories: no transaction is ever ended by the server for
// a deadlock, since locks are taken in one order and a group waits for none.
func TestNoDeadlock(t *testing.T) {
	at := pgtest.Open(t)
	a, b := open(t, at), open(t, at)
	a.groups.most, b.groups.most = 1, 1 // so that groups are large
	factories, runs := []string{"f", "g", "h"}, []string{"r", "s", "t", "u"}
	for _, f := range factories {
		create(t, a, f, runs...)
	}
	var next sync.Mutex
	id := 0
	draw := func() string { next.Lock(); defer next.Unlock(); id++; return "id-" + strconv.Itoa(id) }
	var all sync.WaitGroup
	errs := make(chan error, 1000)
	for worker := range 32 {
		s := []*Store{a, b}[worker%2]
		all.Go(func() {
			for range 40 {
				f, r := factories[rand.IntN(len(factories))], runs[rand.IntN(len(runs))]
				locks := engine.Locks{Factory: f, Run: r}
				write := func(l engine.Loaded) (*engine.Write, error) { return row(locks, l, draw()), nil }
				var err error
				switch rand.IntN(12) {
				case 0:
					locks.Run, locks.Exclusive = "", true
					err = s.Append(t.Context(), locks, write)
				case 1, 2:
					locks.Queue = true
					err = s.Append(t.Context(), locks, func(l engine.Loaded) (*engine.Write, error) {
						w, err := write(l)
						w.Queue = &engine.QueueEntry{Run: r, Request: "q", Expires: 1 << 60}
						w.Blobs = []engine.Blob{{Digest: models.PlainDigest([]byte{1}), Data: []byte{1}}}
						return w, err
					})
				case 3:
					err = s.PutBlob(t.Context(), f, r, engine.Blob{Digest: models.PlainDigest([]byte{byte(rand.IntN(3))}), Data: []byte{1}}, 1<<40)
				case 4:
					_, err = s.Sweep(t.Context(), f, 0)
				default:
					err = s.Append(t.Context(), locks, write)
				}
				if err != nil {
					errs <- err
				}
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	if n := a.ended.Load() + b.ended.Load(); n != 0 {
		t.Errorf("the server ended %d transactions", n)
	}
}
