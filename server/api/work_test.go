package api_test

import (
	"net/http"
	"slices"
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
