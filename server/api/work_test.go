package api_test

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forge-continuity/forge/models"
	. "github.com/forge-continuity/forge/server/api/apitest"
	"github.com/forge-continuity/forge/server/engine"
)

// What holds a ticket keeps it from being announced, as it keeps it from being claimed, and does not keep what stands behind it. A
// stop is for good, so putting the old value back announces nothing; a recovery, which is a new admission, does. BOUND-01, BOUND-04.
func TestStoppedTicketIsNotAnnounced(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		disabled := *Enabled()
		disabled.Enabled = false
		worker := engine.Caller{Factory: Factory, Principal: Worker}
		first := func(limit int64) (runs []string) {
			t.Helper()
			entries, err := w.Engine.Work(t.Context(), worker, "", 0, limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				runs = append(runs, e.Run)
			}
			return runs
		}
		var behind []string
		for _, c := range []struct {
			name        string
			cause, lift func()
		}{
			{"policy", func() { w.PutPolicy(t, disabled) }, func() { w.PutPolicy(t, *Enabled()) }},
			{"authority", func() { w.SetRoles(t, Dana, false, models.RoleAdministrator) },
				func() { w.SetRoles(t, Dana, false, models.RoleAdministrator, models.RoleOperator) }},
			{"profile", func() { w.Change(t, "retire", models.RetireProfile{ID: "profile-1"}) },
				func() { w.Change(t, "profile-2", models.RegisterProfile{Profile: w.Profile("profile-2")}) }},
		} {
			one, two := w.Hold(t, c.name+"-1"), w.Hold(t, c.name+"-2")
			one.Admit(t, c.name+"-request-1")
			two.Admit(t, c.name+"-request-2")
			if got := first(10); !slices.Contains(got, one.ID) || !slices.Contains(got, two.ID) {
				t.Fatalf("%s: before the stop %v is announced", c.name, got)
			}
			w.Open(t, c.name+"-behind") // younger than the tickets, of which there are more than are asked for
			behind = append(behind, c.name+"-behind")
			c.cause()
			for _, limit := range []int64{1, 2, 10} {
				if got := first(limit); !slices.Equal(got, behind[:min(len(behind), int(limit))]) {
					t.Errorf("%s, limit %d: after the stop %v is announced", c.name, limit, got)
				}
			}
			c.lift()
			if got := first(10); !slices.Equal(got, behind) {
				t.Errorf("%s: after the stop was lifted %v is announced", c.name, got)
			}
			if a := put(t, w, Worker, "/runs/"+one.ID+"/claims/claim-2", models.ClaimRun{LeaseSeconds: 60}); a.Code() == "" {
				t.Errorf("%s: claimed: %s", c.name, a.Body)
			}
		}

		// A ticket that met a stop lapses, and its recovery is admitted under what is now.
		again := w.Hold(t, "again")
		if a := again.Request(t, "again-request", Accept(again.Candidate(t), soon)); a.Status != http.StatusAccepted {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		w.PutPolicy(t, disabled)
		w.PutPolicy(t, *Enabled())
		if got := first(100); slices.Contains(got, "again") {
			t.Errorf("after the policy was off and on %v is announced", got)
		}
		lapse(t, again)
		path := again.Base() + "/requests/again-request"
		review := Must[models.RecoveryCandidate](t, w, http.StatusOK, Call{As: Dana, Method: http.MethodGet, Path: path + "/recovery-candidate"})
		submit(t, w, path+"/recoveries/recover-1", recoveryBody(review, 600))
		if got := first(100); !slices.Contains(got, "again") {
			t.Errorf("after its recovery %v is announced", got)
		}
	})
}

// A poll that meets nothing but a stopped ticket goes on waiting, and answers with what comes.
func TestPollWaitsBesideAStoppedTicket(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := w.Hold(t, "stopped")
		r.Admit(t, "request-1")
		disabled := *Enabled()
		disabled.Enabled = false
		w.PutPolicy(t, disabled)
		got := make(chan []engine.QueueEntry)
		go func() {
			entries, err := w.Engine.Work(t.Context(), engine.Caller{Factory: Factory, Principal: Worker}, "", time.Minute, 1)
			if err != nil {
				t.Error(err)
			}
			got <- entries
		}()
		w.Open(t, "next")
		if entries := <-got; len(entries) != 1 || entries[0].Run != "next" {
			t.Errorf("answered %v", entries)
		}
	})
}

// hooked is a store that counts looks at runs, and is seen before each look at what waits.
type hooked struct {
	engine.Store
	before func()
	looks  atomic.Int64
}

func (h *hooked) Work(ctx context.Context, factory, pool string, limit int64) ([]engine.QueueEntry, error) {
	if h.before != nil {
		h.before()
	}
	return h.Store.Work(ctx, factory, pool, limit)
}

func (h *hooked) Run(ctx context.Context, factory, run string) (engine.RunInfo, error) {
	h.looks.Add(1)
	return h.Store.Run(ctx, factory, run)
}

func (h *hooked) Stand(ctx context.Context, factory, run string) (engine.Standing, error) {
	h.looks.Add(1)
	return h.Store.Stand(ctx, factory, run)
}

// anotherBuild is setState that leaves alone what stands beside a run that waits.
func anotherBuild(t *testing.T, w *World, run string, change func([]byte) []byte) {
	t.Helper()
	work, err := w.Store.Work(t.Context(), Factory, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	err = w.Store.Append(t.Context(), engine.Locks{Factory: Factory, Run: run, Exclusive: run == ""}, func(l engine.Loaded) (*engine.Write, error) {
		if run == "" {
			return &engine.Write{State: change(slices.Clone(l.Factory.State)), Rules: l.Factory.Rules}, nil
		}
		out := &engine.Write{State: change(slices.Clone(l.Run.State)), Rules: l.Run.Rules, Lease: l.Lease}
		for _, entry := range work {
			if entry.Run == run {
				out.Queue, out.Outstanding = &entry, entry.Request
			}
		}
		return out, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Cached states that a node of another build writes while a poll is on its way are mended by the poll too; and the tickets that a stop
// left in front of everything are judged once, not at every poll.
func TestPollBesideANodeOfAnotherBuild(t *testing.T) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			h := &hooked{Store: s.open(t)}
			w := Start(t, h, &Fake{}, Options{Policy: Enabled()})
			r := w.Hold(t, "waits")
			r.Admit(t, "request-1")
			poll := func() []engine.QueueEntry {
				t.Helper()
				entries, err := w.Engine.Work(t.Context(), engine.Caller{Factory: Factory, Principal: Worker}, "", 0, 1)
				if err != nil {
					t.Fatal(err)
				}
				return entries
			}
			for what, change := range older {
				for _, runs := range [][]string{{""}, {"waits"}, {"", "waits"}} {
					w.SetRoles(t, Reader, false, models.RoleReader)
					w.SetRoles(t, Reader, false) // the factory moves on, so the ticket is judged anew
					h.before = func() {
						h.before = nil
						for _, run := range runs {
							anotherBuild(t, w, run, change)
						}
					}
					if got := poll(); len(got) != 1 || got[0].Run != "waits" {
						t.Fatalf("%s of %q: %v is announced", what, runs, got)
					}
				}
			}

			disabled := *Enabled()
			disabled.Enabled = false
			w.PutPolicy(t, disabled)
			for i := range 3 {
				before := h.looks.Load()
				if got := poll(); len(got) != 0 {
					t.Fatalf("%v is announced", got)
				}
				if n := h.looks.Load() - before; i > 0 && n > 0 {
					t.Errorf("poll %d looked at %d runs", i, n)
				}
			}
		})
	}
}
