package api_test

import (
	"bytes"
	"io"
	"maps"

	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/server/api"
	. "github.com/forge-continuity/forge/server/api/apitest"
	"github.com/forge-continuity/forge/server/engine"
)

// put sends a command of the run as the principal.
func put(t *testing.T, w *World, as, path string, body any) Answer {
	t.Helper()
	return w.Send(t, Call{As: as, Method: http.MethodPut, Path: path, Body: body})
}

// accepted asks for a receipt, and for the same bytes again as a repeat.
func accepted(t *testing.T, w *World, as, path string, body any) models.AppendReceipt {
	t.Helper()
	first, again := put(t, w, as, path, body), put(t, w, as, path, body)
	var receipt models.AppendReceipt
	if err := canon.Unmarshal(first.Body, &receipt); err != nil || first.Status != http.StatusCreated || again.Status != http.StatusOK || !bytes.Equal(first.Body, again.Body) {
		t.Fatalf("%s: %d %s then %d %s", path, first.Status, first.Body, again.Status, again.Body)
	}
	return receipt
}

// work is what is announced to a pool.
func work(t *testing.T, w *World, pool string) []api.WorkEntry {
	t.Helper()
	path := "/work"
	if pool != "" {
		path += "?pool=" + pool
	}
	a := w.Send(t, Call{As: Worker, Method: http.MethodGet, Path: path})
	if a.Status == http.StatusNoContent {
		return nil
	}
	var list api.WorkList
	if err := canon.Unmarshal(a.Body, &list); err != nil || a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	return list.Runs
}

// lapse waits until the run's lease is over by the server's clock.
func lapse(t *testing.T, r *Run) {
	t.Helper()
	waitUntil(t, func() bool { v := r.Show(t); return v.Now >= v.Lease.ExpiresAt })
}

// claimFor claims the run for so many seconds.
func claimFor(t *testing.T, w *World, r *Run, claim string, seconds models.Seconds) {
	t.Helper()
	out := Must[api.Claimed](t, w, http.StatusOK, Call{As: Worker, Method: http.MethodPut, Path: "/runs/" + r.ID + "/claims/" + claim, Body: models.ClaimRun{LeaseSeconds: seconds}})
	var receipt models.ClaimReceipt
	if err := canon.Unmarshal(out.Claim, &receipt); err != nil {
		t.Fatal(err)
	}
	r.Fence = receipt.Fence
}

// A run that its owner gives back is for any worker, or for those of the pool that it names; the old fence is over.
// FLOW-19 (nobody owns it in between), FLOW-21 (the next fence).
func TestReleaseAndHandoff(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		r := w.Open(t, "run-1")
		r.Claim(t, "claim-1")
		accepted(t, w, Worker, "/runs/run-1/releases/release-1", models.ReleaseRun{Fence: 1, Pool: "gpu"})
		if list := work(t, w, ""); len(list) != 0 {
			t.Errorf("announced to everybody: %+v", list)
		}
		if list := work(t, w, "gpu"); !slices.Equal(list, []api.WorkEntry{{Pool: "gpu", Run: "run-1"}}) {
			t.Errorf("announced to the pool: %+v", list)
		}
		if v := r.Show(t); v.Pool != "gpu" || v.Position != "queued" || v.Lease.Live {
			t.Errorf("%+v", v)
		}
		refused(t, put(t, w, Worker, "/runs/run-1/claims/claim-2", models.ClaimRun{LeaseSeconds: 60}), models.CodeNotInPool)
		refused(t, put(t, w, Worker, "/runs/run-1/claims/claim-2", models.ClaimRun{LeaseSeconds: 60, Pool: "cpu"}), models.CodeNotInPool)
		refused(t, put(t, w, Worker, "/runs/run-1/releases/release-2", models.ReleaseRun{Fence: 1}), models.CodeFenceLost)
		refused(t, put(t, w, Worker, "/runs/run-1/releases/release-1", models.ReleaseRun{Fence: 1}), models.CodeRequestConflict)
		if a := put(t, w, Worker, "/runs/run-1/claims/claim-2", models.ClaimRun{LeaseSeconds: 60, Pool: "gpu"}); a.Status != http.StatusOK {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		r.Fence = 2
		accepted(t, w, Worker, "/runs/run-1/releases/release-3", models.ReleaseRun{Fence: 2})
		for _, pool := range []string{"", "gpu", "cpu"} {
			if list := work(t, w, pool); !slices.Equal(list, []api.WorkEntry{{Run: "run-1"}}) {
				t.Errorf("announced to pool %q: %+v", pool, list)
			}
		}
		// With something open there is nothing to hand over.
		claimFor(t, w, r, "claim-3", 600)
		r.Append(t, models.CommandStarted{Command: r.Blob(t, Worker, "a command"), Number: 1, Position: -1})
		refused(t, put(t, w, Worker, "/runs/run-1/releases/release-4", models.ReleaseRun{Fence: 3}), models.CodeUnknownEffect)
	})
}

// The lease of a lost worker lapses: at a clean point the run is announced and claimed again without a person, and the lapse
// is a row of the claim that met it; where something may have happened it is neither. BOUND-02 (the ordinary lease), FLOW-21.
func TestLapsedRuns(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		clean, unclean := w.Open(t, "clean"), w.Open(t, "unclean")
		claimFor(t, w, clean, "claim-1", 2)
		clean.Commands(t, 1)
		claimFor(t, w, unclean, "claim-1", 2)
		unclean.Append(t, models.CommandStarted{Command: unclean.Blob(t, Worker, "a command"), Number: 1, Position: -1})
		if list := work(t, w, ""); len(list) != 0 {
			t.Fatalf("announced while it is claimed: %+v", list)
		}
		lapse(t, unclean)
		if list := work(t, w, ""); !slices.Equal(list, []api.WorkEntry{{Run: "clean"}}) {
			t.Fatalf("announced: %+v", list)
		}
		refused(t, put(t, w, Worker, "/runs/unclean/claims/claim-2", models.ClaimRun{LeaseSeconds: 60}), models.CodeUnknownEffect)
		batch := models.Append{Fence: 1, Facts: []models.Fact{models.CommandStarted{Command: models.PlainDigest(nil), Number: 2, Position: -1}}}
		refused(t, put(t, w, Worker, "/runs/clean/batches/late", batch), models.CodeLeaseExpired)
		claimFor(t, w, clean, "claim-2", 600)
		refused(t, put(t, w, Worker, "/runs/clean/batches/late", batch), models.CodeFenceLost)
		rows := Must[api.RowList](t, w, http.StatusOK, Call{As: Reader, Method: http.MethodGet, Path: "/runs/clean/rows"}).Rows
		var kinds []string
		for _, row := range rows[len(rows)-3:] {
			kinds = append(kinds, row.Kind)
		}
		if !slices.Equal(kinds, []string{"lease.lapsed", "lease.granted", "claim.taken"}) || clean.Show(t).Lease.Fence != 2 {
			t.Errorf("the claim appended %v", kinds)
		}
		if v := unclean.Show(t); v.Position != "held" || len(v.Holds) != 1 || v.Holds[0].Code != models.CodeUnknownEffect || len(v.Unknown) != 1 {
			t.Errorf("%s %+v %+v", v.Position, v.Holds, v.Unknown)
		}
	})
}

// evidence uploads what was found out and returns its digest.
func evidence(t *testing.T, w *World, run, content string) models.Digest {
	t.Helper()
	return Must[api.EvidenceKept](t, w, http.StatusCreated, Call{As: Operator, Method: http.MethodPost, Path: "/runs/" + run + "/evidence", Body: content}).Digest
}

// settlement is a reconciliation of what the run shows as unknown, with every acknowledgement.
func settlement(u api.UnknownShown, outcome string) models.Reconcile {
	return models.Reconcile{
		AcknowledgeNoReplay: true, AcknowledgeOriginalRecordUnchanged: true, AcknowledgeOriginalUseCharged: true,
		AcknowledgeUnknownOutcome: outcome == models.OutcomeChargedUnknown, Outcome: outcome, RequestID: u.RequestID, Seq: u.Seq, Subject: u.Subject,
	}
}

// An operator settles what is unknown once: with evidence that nobody but the server digests, under acknowledgements that are
// each asked for, and never twice. The original rows stay. ELIG-16, FLOW-11 (the acknowledgements are true), BOUND-09.
func TestReconcileOverTheAPI(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		r := w.Open(t, "run-1")
		claimFor(t, w, r, "claim-1", 600)
		post := Call{As: Operator, Method: http.MethodPost, Path: "/runs/run-1/evidence", Body: "seen"}
		refused(t, w.Send(t, post), models.CodeClaimLive)
		r.Append(t, models.CommandStarted{Command: r.Blob(t, Worker, "a command"), Number: 1, Position: -1}, models.WorkerFailed{Report: r.Blob(t, Worker, "gone")})
		before := r.Show(t)
		u := before.Unknown[0]
		if len(before.Unknown) != 1 || u.Subject != models.SubjectCommand || u.Number != 1 {
			t.Fatalf("%+v", before.Unknown)
		}
		path := "/runs/run-1/reconciliations/"
		c := settlement(u, models.OutcomeDidNotHappen)
		refused(t, put(t, w, Operator, path+"one", c), models.CodeRequestMalformed) // no evidence
		c.Evidence = models.PlainDigest([]byte("nobody uploaded this"))
		refused(t, put(t, w, Operator, path+"one", c), models.CodeBlobMissing)
		c.Evidence = evidence(t, w, "run-1", "the process table, without it")
		if c.Evidence != models.SaltedBlob(r.Salt, []byte("the process table, without it")) {
			t.Error("the digest is not that of the content under the run's salt")
		}
		refused(t, w.Send(t, Call{As: Worker, Method: http.MethodPost, Path: post.Path, Body: "x"}), models.CodeRoleMissing)
		for _, change := range []func(*models.Reconcile){
			func(c *models.Reconcile) { c.AcknowledgeNoReplay = false },
			func(c *models.Reconcile) { c.AcknowledgeOriginalRecordUnchanged = false },
			func(c *models.Reconcile) { c.AcknowledgeOriginalUseCharged = false },
			func(c *models.Reconcile) {
				c.Outcome, c.Evidence, c.AcknowledgeUnknownOutcome = models.OutcomeChargedUnknown, models.Digest{}, false
			},
		} {
			changed := c
			change(&changed)
			refused(t, put(t, w, Operator, path+"one", changed), models.CodeAcknowledgementMissing)
		}
		other := c
		other.Seq++
		refused(t, put(t, w, Operator, path+"one", other), models.CodeNothingToReconcile)
		accepted(t, w, Operator, path+"one", c)
		refused(t, put(t, w, Operator, path+"two", c), models.CodeNothingToReconcile)
		refused(t, put(t, w, Dana, path+"one", c), models.CodeRequestConflict)
		after := r.Show(t)
		if after.Counters != before.Counters || after.Position != "queued" || len(after.Unknown) != 0 || len(after.Holds) != 0 {
			t.Errorf("%+v", after)
		}
		refused(t, w.Send(t, post), models.CodeNothingToReconcile)
		claimFor(t, w, r, "claim-2", 600)
	})
}

// A run that failed for good gets its next attempt from an operator, as far as the allowance goes, and nothing is given back.
// FLOW-28, FLOW-42.
func TestRetryOverTheAPI(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		r := w.Open(t, "run-1", func(g *models.Registration) { g.Limits.Attempts = 2 })
		claimFor(t, w, r, "claim-1", 600)
		r.Commands(t, 3)
		refused(t, put(t, w, Operator, "/runs/run-1/retries/retry-1", models.RetryRun{}), models.CodeRunNotFailed)
		r.Append(t, models.RunFailed{Report: r.Blob(t, Worker, "it cannot be done")})
		if v := r.Show(t); v.Position != "failed" || len(work(t, w, "")) != 0 {
			t.Errorf("%+v", v)
		}
		refused(t, put(t, w, Worker, "/runs/run-1/claims/claim-2", models.ClaimRun{LeaseSeconds: 60}), models.CodeRunFinished)
		accepted(t, w, Operator, "/runs/run-1/retries/retry-1", models.RetryRun{})
		if v := r.Show(t); v.Position != "queued" || v.Counters.Attempt != 2 || v.Counters.Commands != 3 || len(work(t, w, "")) != 1 {
			t.Errorf("%+v", v)
		}
		claimFor(t, w, r, "claim-2", 600)
		r.Append(t, models.RunFailed{Report: r.Blob(t, Worker, "again")})
		refused(t, put(t, w, Operator, "/runs/run-1/retries/retry-2", models.RetryRun{}), models.CodeAllowanceExhausted)
	})
}

// While a ticket is outstanding the generic ways on refuse by its name and add no row. NOCLAIM-19 (API), EPOCH-07 (claims).
func TestGenericWaysOnWaitForTickets(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := w.Hold(t, "run-1")
		r.Admit(t, "request-1")
		u := api.UnknownShown{Seq: 1, Subject: models.SubjectCommand}
		check := func(fence int64, codes ...models.Code) {
			t.Helper()
			before := snapshot(t, w)
			for i, a := range []Answer{
				put(t, w, Operator, "/runs/run-1/retries/x", models.RetryRun{}),
				put(t, w, Worker, "/runs/run-1/releases/x", models.ReleaseRun{Fence: fence}),
				put(t, w, Operator, "/runs/run-1/reconciliations/x", settlement(u, models.OutcomeChargedUnknown)),
			} {
				refused(t, a, codes[i])
			}
			unchanged(t, before, snapshot(t, w))
		}
		check(1, models.CodeTicketOutstanding, models.CodeFenceLost, models.CodeTicketOutstanding)
		r.Claim(t, "claim-2")
		check(2, models.CodeTicketOutstanding, models.CodeTicketOutstanding, models.CodeClaimLive)
	})
}

// A server that starts notes it once in every run that has an outstanding ticket, in its own name and nobody else's.
// NOCLAIM-06 (the annotation), FLOW-20 (the server owns nothing).
func TestAnnotateStartup(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		w.Hold(t, "held")
		waiting, done := w.Hold(t, "waiting"), w.Hold(t, "done")
		waiting.Admit(t, "request-1")
		done.Admit(t, "request-2")
		done.Claim(t, "claim-2")
		done.Append(t, models.RunCompleted{Result: done.Blob(t, Worker, "done"), Round: 1})
		for _, step := range []struct {
			boot string
			want int
		}{{"boot-1", 1}, {"boot-1", 0}, {"boot-2", 1}} {
			if n, err := w.Engine.AnnotateStartup(t.Context(), step.boot); n != step.want || err != nil {
				t.Fatalf("boot %s noted %d, want %d: %v", step.boot, n, step.want, err)
			}
		}
		rows := Must[api.RowList](t, w, http.StatusOK, Call{As: Reader, Method: http.MethodGet, Path: "/runs/waiting/rows"}).Rows
		var boots []string
		for _, row := range rows {
			if row.Kind == "startup.annotated" {
				boots = append(boots, row.Actor+" "+string(row.Payload))
			}
		}
		if !slices.Equal(boots, []string{`_server {"boot":"boot-1","request_id":"request-1"}`, `_server {"boot":"boot-2","request_id":"request-1"}`}) {
			t.Errorf("%q", boots)
		}
		waiting.Claim(t, "claim-2")
	})
}

// What was uploaded and no row names is swept, and its batch is told; what a row names stays. The hour is that of the store's
// clock, so the test's sweep has none.
func TestSweep(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		r := w.Open(t, "run-1")
		r.Claim(t, "claim-1")
		loose := r.Blob(t, Worker, "loose")
		if n, err := w.Engine.Sweep(t.Context()); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		time.Sleep(2 * time.Millisecond)
		if n, err := w.Store.Sweep(t.Context(), Factory, 0); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		batch := models.Append{Fence: 1, Facts: []models.Fact{models.CommandStarted{Command: loose, Number: 1, Position: -1}}}
		refused(t, put(t, w, Worker, "/runs/run-1/batches/b", batch), models.CodeBlobMissing)
		r.Blob(t, Worker, "loose")
		accepted(t, w, Worker, "/runs/run-1/batches/b", batch)
		time.Sleep(2 * time.Millisecond)
		if n, err := w.Store.Sweep(t.Context(), Factory, 0); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		if a := w.Send(t, Call{As: Reader, Method: http.MethodGet, Path: "/runs/run-1/blobs/" + loose.String()}); a.Status != http.StatusOK {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	})
}

// The list of runs is read to its end by its cursor, each run once, while others are opened.
func TestRunsByCursor(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		var want []string
		for i := range 23 {
			id := fmt.Sprintf("run-%02d", i)
			want = append(want, id)
			Must[api.Opened](t, w, http.StatusCreated, Call{As: Dana, Method: http.MethodPut, Path: "/runs/" + id})
		}
		for _, limit := range []int{1, 7, 23, 24} {
			var got []string
			for after := ""; ; {
				list := Must[api.RunList](t, w, http.StatusOK, Call{As: Reader, Method: http.MethodGet, Path: fmt.Sprintf("/runs?limit=%d%s", limit, after)})
				got = append(got, list.Runs...)
				if list.Next == "" {
					break
				}
				if list.Next != got[len(got)-1] {
					t.Fatalf("next is %s after %v", list.Next, list.Runs)
				}
				after = "&after=" + list.Next
				Must[api.Opened](t, w, http.StatusOK, Call{As: Dana, Method: http.MethodPut, Path: "/runs/run-00"})
			}
			if !slices.Equal(got, want) {
				t.Errorf("by %d: %v", limit, got)
			}
		}
	})
}

// Two hundred broken bodies for each route: 400, or 413 above its limit, nothing written, nothing echoed. A route that takes no
// body refuses every one of them; content comes under its digest, which is looked at first. Evidence is any bytes at all, so
// nothing but too many of them is broken.
func TestTwoHundredBodies(t *testing.T) {
	w := Start(t, openSQLite(t), &Fake{}, Options{Policy: Enabled()}) // no body comes as far as the store
	w.Seen = conforms(t)
	r := held(t, w)
	w.Open(t, "fresh") // whose opener puts content without a claim
	before := snapshot(t, w)
	for _, route := range api.Routes() {
		if strings.HasSuffix(route.Path, "/evidence") {
			continue
		}
		c := valid(t, w, r, route)
		c.As = Dana
		if slices.Contains(route.Roles, models.RoleWorker) && !slices.Contains(route.Roles, models.RoleOperator) {
			c.As = Worker
		}
		if strings.Contains(route.Path, "/blobs/") {
			c.Path = strings.Replace(c.Path, "/run-1/", "/fresh/", 1)
		}
		good := []byte(`{"some":"body","other":[1,2,3]}`)
		if route.Limit > 0 {
			request, err := w.Request(c)
			if err != nil {
				t.Fatal(err)
			}
			if good, err = io.ReadAll(request.Body); err != nil {
				t.Fatal(err)
			}
		}
		content := strings.Contains(route.Path, "/blobs/") || strings.Contains(route.Path, "/reports/")
		forms := spoil(good)
		if json.Valid(good) {
			maps.Copy(forms, bad(t, good, max(route.Limit, int64(len(good)+1))))
		}
		if len(forms) < 200 {
			t.Errorf("%s %s has %d bad bodies", route.Method, route.Path, len(forms))
		}
		for what, form := range forms {
			if form == "" && route.Limit == 0 {
				continue // which is what the route takes
			}
			c.Body = form
			a, err := w.Try(c)
			if err != nil && len(form) > int(route.Limit) {
				continue // the server closes on bytes that it does not read
			} else if err != nil {
				t.Fatal(err)
			}
			want := models.CodeRequestMalformed
			switch {
			case route.Limit == 0:
			case len(form) > int(route.Limit):
				want = models.CodePayloadTooLarge
			case content:
				want = models.CodeBlobMismatch
			}
			if a.Code() != want || strings.Contains(string(a.Body), marker) {
				t.Errorf("%s %s, %s: %d %.300s\nfor %.300q", route.Method, route.Path, what, a.Status, a.Body, form)
			}
		}
	}
	unchanged(t, before, snapshot(t, w))
	if lines := w.Log.Lines(marker); len(lines) > 0 {
		t.Errorf("the log repeats the input: %q", lines)
	}
}

// spoil makes many small faults in a good body: cut at a byte, a byte that JSON has no place for put in, a member too many.
func spoil(good []byte) map[string]string {
	forms := map[string]string{}
	for n := 1; n < len(good) && n <= 60; n++ {
		at := n * len(good) / min(len(good), 61)
		if at < len(good) {
			forms[fmt.Sprint("cut at ", at)] = string(good[:at])
		}
	}
	for b := range 256 {
		if b == ' ' || b == '\t' || b == '\r' || b == '\n' || json.Valid(append([]byte{byte(b)}, good...)) {
			continue
		}
		forms[fmt.Sprint("byte ", b, " first")] = string([]byte{byte(b)}) + string(good)
		if b != '}' && b != ']' {
			forms[fmt.Sprint("byte ", b, " last")] = string(good) + string([]byte{byte(b)})
		}
	}
	for i := range 20 {
		forms[fmt.Sprint("member ", i)] = with(string(good), fmt.Sprint(marker, i), fmt.Sprintf(`[%d,"%s"]`, i, marker))
	}
	return forms
}

// An examination of the store finds nothing in a sound one, and names what was changed behind its back.
func TestDoctor(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := w.Hold(t, "run-1")
		r.Admit(t, "request-1")
		w.Open(t, "run-2")
		Must[api.Opened](t, w, http.StatusCreated, Call{As: Dana, Method: http.MethodPut, Path: "/runs/empty"})
		examine := func() (faults []string, runs int) {
			err := w.Engine.Doctor(t.Context(), func(f engine.Finding) {
				if f.Run != "" {
					runs++
				}
				if f.Fault != nil {
					faults = append(faults, f.Run+": "+f.Fault.Error())
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			return faults, runs
		}
		if faults, runs := examine(); len(faults) > 0 || runs != 3 {
			t.Fatalf("%d runs, %v", runs, faults)
		}
		// A write as a broken program would make it: no row, another note, the lease kept.
		err := w.Store.Append(t.Context(), engine.Locks{Factory: Factory, Run: "run-1"}, func(l engine.Loaded) (*engine.Write, error) {
			return &engine.Write{Lease: l.Lease, Outstanding: "request-2"}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if faults, _ := examine(); len(faults) != 1 || !strings.HasPrefix(faults[0], "run-1: journal_broken") {
			t.Errorf("%v", faults)
		}
	})
}

// A run belongs to principals, never to a token: with the token that claimed it revoked, the same worker goes on with
// another, and another worker with a good token does not.
func TestTokenRotationLosesNoRun(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		old, id := w.Token(t, Factory, Worker, 3600)
		r := w.Open(t, "run-1")
		w.Tokens[Worker], old = old, w.Tokens[Worker]
		r.Claim(t, "claim-1")
		command := r.Blob(t, Worker, "a command")
		if a := w.Send(t, Call{As: Dana, Method: http.MethodDelete, Path: "/tokens/" + id}); a.Status != http.StatusNoContent {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		batch := models.Append{Fence: 1, Facts: []models.Fact{models.CommandStarted{Command: command, Number: 1, Position: -1}}}
		refused(t, put(t, w, Worker, "/runs/run-1/batches/b", batch), models.CodeIdentityMissing)
		w.Tokens[Worker] = old
		accepted(t, w, Worker, "/runs/run-1/batches/b", batch)
		w.Change(t, "principal-second", models.PutPrincipal{ID: "second", Roles: []string{models.RoleWorker}})
		w.Tokens["second"], _ = w.Token(t, Factory, "second", 3600)
		finish := models.Append{Fence: 1, Facts: []models.Fact{models.CommandFinished{Number: 1, Receipt: command}}}
		refused(t, put(t, w, "second", "/runs/run-1/batches/c", finish), models.CodeFenceLost)
		refused(t, put(t, w, "second", "/runs/run-1/batches/b", batch), models.CodeRequestConflict)
	})
}

// A pool is an id, once, in the query as in the body.
func TestStrictPools(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		w.Open(t, "run-1")
		for _, query := range []string{"pool=", "pool=a%2Fb", "pool=a&pool=b", "pool=a%00", "Pool=a", "pool=" + strings.Repeat("a", 65)} {
			refused(t, w.Send(t, Call{As: Worker, Method: http.MethodGet, Path: "/work?" + query}), models.CodeRequestMalformed)
		}
		for _, pool := range []string{"a/b", "", strings.Repeat("a", 65), "a b"} {
			a := put(t, w, Worker, "/runs/run-1/claims/claim-1", fmt.Sprintf(`{"lease_seconds":60,"pool":%q}`, pool))
			refused(t, a, models.CodeRequestMalformed) // none is the member left out
		}
	})
}
