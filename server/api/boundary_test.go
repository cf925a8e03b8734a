package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api"
	. "github.com/forge-continuity/forge/server/api/apitest"
)

// rowsOf is the kinds of a run's rows from a number on.
func rowsOf(t *testing.T, w *World, run string, from int64) (kinds []string) {
	t.Helper()
	list := Must[api.RowList](t, w, http.StatusOK, Call{As: Reader, Method: http.MethodGet, Path: fmt.Sprintf("/runs/%s/rows?limit=1000&from=%d", run, from)})
	for _, row := range list.Rows {
		kinds = append(kinds, row.Kind)
	}
	return kinds
}

// Whatever stops a continuation stops it at its claim and at the next append under its claim, by name and with no row, and for
// the tickets that met it no later change undoes that; the next ticket is judged anew. BOUND-01, BOUND-02, BOUND-03, BOUND-04, BOUND-05 (over the API), EPOCH-04 (records as they are).
func TestBoundariesStopExecution(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		disabled := *Enabled()
		disabled.Enabled = false
		n := 0
		record := func(kind string, digest models.Digest) func() {
			return func() {
				n++
				w.Change(t, fmt.Sprint("change-", n), models.PutRecord{Digest: digest, Kind: kind, Name: Record})
			}
		}
		other := models.PlainDigest([]byte("another"))
		roles := func(removed bool, list ...string) func() { return func() { w.SetRoles(t, Dana, removed, list...) } }
		both := []string{models.RoleAdministrator, models.RoleOperator}
		for _, c := range []struct {
			name        string
			cause, lift func()
			code        models.Code
		}{
			{"policy", func() { w.PutPolicy(t, disabled) }, func() { w.PutPolicy(t, *Enabled()) }, models.CodePolicyDisabled},
			{"source", record(models.RecordSource, other), record(models.RecordSource, RecordDigest(models.RecordSource)), models.CodeSourceChanged},
			{"configuration", record(models.RecordConfiguration, other), record(models.RecordConfiguration, RecordDigest(models.RecordConfiguration)), models.CodeConfigurationChanged},
			{"scope", record(models.RecordScope, other), record(models.RecordScope, RecordDigest(models.RecordScope)), models.CodeScopeChanged},
			{"authority", roles(false, models.RoleAdministrator), roles(false, both...), models.CodeAuthorityRevoked},
			{"profile", func() { w.Change(t, "retire", models.RetireProfile{ID: "profile-1"}) },
				func() { w.Change(t, "profile-2", models.RegisterProfile{Profile: w.Profile("profile-2")}) }, models.CodeProfileUnqualified},
			{"actor", roles(true), nil, models.CodeActorLost}, // and so nobody is left who could start another
		} {
			queued, claimed := w.Hold(t, c.name+"-queued"), w.Hold(t, c.name+"-claimed")
			queued.Admit(t, c.name+"-1")
			claimed.Admit(t, c.name+"-2")
			claimed.Claim(t, "claim-2")
			command := claimed.Blob(t, Worker, "a command")
			rows := len(rowsOf(t, w, queued.ID, 1)) + len(rowsOf(t, w, claimed.ID, 1))
			append := func() Answer {
				return put(t, w, Worker, "/runs/"+claimed.ID+"/batches/next", models.Append{Fence: claimed.Fence,
					Facts: []models.Fact{models.CommandStarted{Command: command, Number: HeldCommands + 1, Position: -1}}})
			}
			claim := func() Answer {
				return put(t, w, Worker, "/runs/"+queued.ID+"/claims/claim-2", models.ClaimRun{LeaseSeconds: 60})
			}
			c.cause()
			refused(t, append(), c.code)
			refused(t, claim(), c.code)
			if now := len(rowsOf(t, w, queued.ID, 1)) + len(rowsOf(t, w, claimed.ID, 1)); now != rows {
				t.Errorf("%s: %d rows, were %d", c.name, now, rows)
			}
			if c.lift == nil {
				continue
			}
			c.lift()
			refused(t, append(), c.code)
			refused(t, claim(), c.code)
		}
	})
}

// What ends an ordinary claim ends a continuation's in the same way: its own failure, a lost owner and a cancellation.
// BOUND-14; BOUND-08 (nothing queues the ticket again).
func TestEndsOfClaims(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		for _, continued := range []bool{false, true} {
			start := func(id string, seconds models.Seconds) (*Run, func() Answer) {
				var r *Run
				if continued {
					r = w.Hold(t, id)
					if a := r.Request(t, "request-"+id, Accept(r.Candidate(t), seconds)); a.Status != http.StatusAccepted {
						t.Fatalf("%d %s", a.Status, a.Body)
					}
					r.Claim(t, "claim-2")
				} else {
					r = w.Open(t, id)
					claimFor(t, w, r, "claim-1", seconds)
				}
				command := r.Blob(t, Worker, "a command")
				n := r.Show(t).Counters.Commands
				return r, func() Answer {
					return put(t, w, Worker, "/runs/"+id+"/batches/late", models.Append{Fence: r.Fence,
						Facts: []models.Fact{models.CommandStarted{Command: command, Number: n + 1, Position: -1}}})
				}
			}
			announced := func(id string) bool {
				return slices.ContainsFunc(work(t, w, ""), func(e api.WorkEntry) bool { return e.Run == id })
			}
			name := fmt.Sprintf("%t-", continued)

			failed, late := start(name+"failed", 600)
			failed.Fail(t)
			refused(t, late(), models.CodeFenceLost)
			if announced(failed.ID) == continued {
				t.Errorf("after a failure announced is %t", !continued)
			}

			lost, late := start(name+"lost", 2)
			lapse(t, lost)
			refused(t, late(), models.CodeLeaseExpired)
			refused(t, put(t, w, Worker, "/runs/"+lost.ID+"/releases/late", models.ReleaseRun{Fence: lost.Fence}), models.CodeLeaseExpired)
			if announced(lost.ID) == continued {
				t.Errorf("after a lost owner announced is %t", !continued)
			}

			cancelled, late := start(name+"cancelled", 600)
			accepted(t, w, Dana, "/runs/"+cancelled.ID+"/cancellations/stop", models.CancelRun{})
			refused(t, late(), models.CodeRunCancelled)
			refused(t, put(t, w, Worker, "/runs/"+cancelled.ID+"/claims/claim-9", models.ClaimRun{LeaseSeconds: 60}), models.CodeRunCancelled)
			refused(t, put(t, w, Operator, "/runs/"+cancelled.ID+"/retries/retry", models.RetryRun{}), models.CodeRunCancelled)
			if v := cancelled.Show(t); announced(cancelled.ID) || v.Position != "cancelled" || continued && v.Tickets[0].State != "closed" {
				t.Errorf("cancelled: %+v", v)
			}
		}
	})
}

// A failure before any claim can be reviewed by one person: the original actor, who administers the factory; the review names
// the request and the attempt that there are, and the window that is permitted. Reading it queues nothing.
// START-02, START-03, START-04, START-11 (another actor), over the API.
func TestWhoReviewsAFailedAdmission(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := w.Hold(t, "run-1")
		if a := r.Request(t, "request-1", Accept(r.Candidate(t), 1)); a.Status != http.StatusAccepted {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		review := func(as string) Answer {
			return w.Send(t, Call{As: as, Method: http.MethodGet, Path: r.Base() + "/requests/request-1/recovery-candidate"})
		}
		lapse(t, r)
		w.Change(t, "principal-both", models.PutPrincipal{ID: "both", Roles: []string{models.RoleAdministrator, models.RoleOperator}})
		w.Tokens["both"], _ = w.Token(t, Factory, "both", 3600)
		before := snapshot(t, w)
		for _, as := range []string{Administrator, Operator, Worker, Reader, Nobody} {
			refused(t, review(as), models.CodeRoleMissing)
		}
		other := Must[models.RecoveryCandidate](t, w, http.StatusOK, Call{As: "both", Method: http.MethodGet, Path: r.Base() + "/requests/request-1/recovery-candidate"})
		if other.Eligible || len(other.Holds) != 1 || other.Holds[0].Code != models.CodeActorNotOriginal {
			t.Errorf("another administrator: %+v", other.Holds)
		}
		own := Must[models.RecoveryCandidate](t, w, http.StatusOK, Call{As: Dana, Method: http.MethodGet, Path: r.Base() + "/requests/request-1/recovery-candidate"})
		if !own.Eligible || own.RequestID != "request-1" || own.Attempt != 1 || own.PermittedSeconds != models.MaxWindow || own.OriginalActor != Dana {
			t.Errorf("%+v", own)
		}
		unchanged(t, before, snapshot(t, w))
	})
}

// An admission says that it was accepted for dispatch, and nothing of it says that a model, a tool or a command ran: that is a
// later claim and later rows, each its own. START-13, START-14 (receipts and the run as shown), NOCLAIM-16 (admission).
func TestAdmissionIsNoExecution(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := w.Hold(t, "run-1")
		before := r.Show(t)
		receipt := r.Admit(t, "request-1")
		if receipt.State != "queued" || receipt.Establishes != models.Establishes || receipt.Counters != before.Counters {
			t.Errorf("%+v", receipt)
		}
		v := r.Show(t)
		if v.Position != "continuation_queued" || v.Lease.Owner != "" || v.Lease.ClaimID != "" || v.Lease.Live || v.Counters != before.Counters ||
			v.Tickets[0].State != "queued" || v.Tickets[0].Turns != 0 {
			t.Errorf("%+v", v)
		}
		if kinds := rowsOf(t, w, r.ID, receipt.SettlementSeq); !slices.Equal(kinds, []string{"migration.settled", "lease.granted"}) {
			t.Errorf("an admission wrote %v", kinds)
		}
		r.Claim(t, "claim-2")
		if v := r.Show(t); v.Position != "continuing" || v.Tickets[0].State != "claimed" || v.Counters != before.Counters {
			t.Errorf("%+v", v)
		}
		if kinds := rowsOf(t, w, r.ID, receipt.LeaseSeq+1); !slices.Equal(kinds, []string{"claim.taken"}) {
			t.Errorf("a claim wrote %v", kinds)
		}
		for _, word := range []string{"executed", "completed", "accepted work", "succeeded"} {
			saved := w.Send(t, Call{As: Dana, Method: http.MethodGet, Path: r.Base() + "/requests/request-1"})
			if strings.Contains(strings.ReplaceAll(string(saved.Body), "completed_rounds", ""), word) {
				t.Errorf("the receipt says %q: %s", word, saved.Body)
			}
		}
	})
}
