package api_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api"
	. "github.com/forge-continuity/forge/server/api/apitest"
	"github.com/forge-continuity/forge/server/engine"
)

// losing is a store whose answer to one commit is lost: what was written stands, and nobody is told.
type losing struct {
	engine.Store
	next atomic.Bool
}

func (l *losing) Append(ctx context.Context, locks engine.Locks, decide func(engine.Loaded) (*engine.Write, error)) error {
	err := l.Store.Append(ctx, locks, decide)
	if err == nil && l.next.Swap(false) {
		return fmt.Errorf("the connection was cut: %w", engine.ErrUnavailable)
	}
	return err
}

// step is a command as it is sent, with other content under its id, and with its content under another id.
type step struct {
	name         string
	as           string
	method       string
	path, id     string
	body, other  any
	elsewhere    models.Code // what another id with the same content is answered; "" where it is another action
	otherContent models.Code // what the id with other content is answered, request_conflict unless said otherwise
	back         string      // where the saved answer is read back
}

// exactly sends a step whose answer is lost after the commit and shows that it happened once: the identical repeat has the saved
// answer and adds nothing, other content under its id is a conflict, and its content under another id is a second action only where
// that is meant.
func exactly(t *testing.T, w *World, store *losing, s step) Answer {
	t.Helper()
	call := func(id string, body any) Answer {
		return w.Send(t, Call{As: s.as, Method: s.method, Path: s.path + id, Body: body})
	}
	store.next.Store(true)
	if a := call(s.id, s.body); a.Status != http.StatusServiceUnavailable || store.next.Load() {
		t.Fatalf("%s: cut after its commit: %d %s", s.name, a.Status, a.Body)
	}
	stands := snapshot(t, w)
	if s.back != "" {
		read := w.Send(t, Call{As: s.as, Method: http.MethodGet, Path: s.back})
		again := call(s.id, s.body)
		if read.Status != http.StatusOK || !bytes.Equal(read.Body, again.Body) {
			t.Errorf("%s: read back %d %s, repeated %s", s.name, read.Status, read.Body, again.Body)
		}
	}
	a := call(s.id, s.body)
	if a.Status != http.StatusOK {
		t.Fatalf("%s: the identical repeat: %d %s", s.name, a.Status, a.Body)
	}
	if snapshot(t, w) != stands {
		t.Errorf("%s: the repeat wrote something", s.name)
	}
	conflict := s.otherContent
	if conflict == "" {
		conflict = models.CodeRequestConflict
	}
	if s.other != nil {
		refused(t, call(s.id, s.other), conflict)
	}
	if s.elsewhere != "" {
		refused(t, call(s.id+"-other", s.body), s.elsewhere)
	}
	if snapshot(t, w) != stands {
		t.Errorf("%s: a refusal wrote something", s.name)
	}
	return a
}

// Each route that changes something, with its answer lost after the commit, repeated, changed, and sent under another id. FLOW-12,
// FLOW-13, FLOW-14, OBS-25, NOCLAIM-11, NOCLAIM-13; rules, invariants 8 to 10.
func TestLostResponses(t *testing.T) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			store := &losing{Store: s.open(t)}
			w := Start(t, store, &Fake{}, Options{Policy: Enabled()})
			put, post := http.MethodPut, http.MethodPost
			r := w.Hold(t, "run-1")
			body := Accept(r.Candidate(t), 1)
			longer := body
			longer.ValidForSeconds = 2
			exactly(t, w, store, step{name: "request", as: Dana, method: post, path: r.Base() + "/requests/", id: "request-1", body: body, other: longer,
				elsewhere: models.CodeGraphHasTicket, back: r.Base() + "/requests/request-1"})
			refused(t, r.Request(t, "request-2", body), models.CodeGraphHasTicket)

			time.Sleep(1100 * time.Millisecond)
			path := r.Base() + "/requests/request-1"
			c := Must[models.RecoveryCandidate](t, w, http.StatusOK, Call{As: Dana, Method: http.MethodGet, Path: path + "/recovery-candidate"})
			recovery := map[string]any{"acknowledge_never_claimed": true, "acknowledge_same_request_and_attempt": true,
				"acknowledge_original_consumption_and_budgets": true, "acknowledge_renewed_same_attempt_lease": true, "candidate_digest": c.CandidateDigest,
				"journal_digest": c.JournalDigest, "policy_digest": c.PolicyDigest, "run_digest": c.RunDigest, "valid_for_seconds": 600}
			other := map[string]any{}
			for k, v := range recovery {
				other[k] = v
			}
			other["valid_for_seconds"] = 601
			exactly(t, w, store, step{name: "recovery", as: Dana, method: post, path: path + "/recoveries/", id: "recovery-1", body: recovery, other: other,
				elsewhere: models.CodeRecoveryRecorded, back: path + "/recovery"})

			exactly(t, w, store, step{name: "claim", as: Worker, method: put, path: "/runs/run-1/claims/", id: "claim-9",
				body: models.ClaimRun{LeaseSeconds: 60}, other: models.ClaimRun{LeaseSeconds: 61}, elsewhere: models.CodeClaimLive})
			fence := r.Show(t).Lease.Fence
			r.Fence = fence
			report, second := r.Blob(t, Worker, "stopped"), r.Blob(t, Worker, "otherwise")
			fails := func(d models.Digest) models.Append {
				return models.Append{Facts: []models.Fact{models.WorkerFailed{Report: d}}, Fence: fence}
			}
			exactly(t, w, store, step{name: "batch", as: Worker, method: put, path: "/runs/run-1/batches/", id: "batch-9", body: fails(report), other: fails(second),
				elsewhere: models.CodeFenceLost})
			show := r.Show(t)
			settle := models.Reconcile{AcknowledgeNoReplay: true, AcknowledgeOriginalRecordUnchanged: true, AcknowledgeOriginalUseCharged: true,
				AcknowledgeUnknownOutcome: true, Outcome: models.OutcomeChargedUnknown, RequestID: "request-1", Seq: show.Unknown[0].Seq, Subject: models.SubjectTicket}
			otherwise := settle
			otherwise.Seq++
			exactly(t, w, store, step{name: "reconciliation", as: Operator, method: put, path: "/runs/run-1/reconciliations/", id: "settle-1", body: settle,
				other: otherwise, elsewhere: models.CodeNothingToReconcile})
			exactly(t, w, store, step{name: "cancellation", as: Operator, method: put, path: "/runs/run-1/cancellations/", id: "cancel-1", body: models.CancelRun{},
				elsewhere: models.CodeRunCancelled})

			fresh := w.Open(t, "run-2")
			fresh.Claim(t, "claim-1")
			release := func(pool string) models.ReleaseRun {
				return models.ReleaseRun{Fence: fresh.Show(t).Lease.Fence, Pool: pool}
			}
			exactly(t, w, store, step{name: "release", as: Worker, method: put, path: "/runs/run-2/releases/", id: "release-1", body: release(""), other: release("gpu"),
				elsewhere: models.CodeFenceLost})
		})
	}
}

// A round is verified over the API: the server queues it, a worker of the pool takes it, and the run shows what came of it. Beside a
// ticket one record is left and nothing more, also after a restart; by hand it can still be asked for, by an operator. BOUND-10,
// BOUND-11, BOUND-12 (across a restart), BOUND-13.
func TestVerificationOverTheAPI(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		frozen := func(g *models.Registration) { g.Verification = models.Verification{Commands: 1, List: g.Task} }
		schedule := func(e *engine.Engine, queued, refused int) {
			t.Helper()
			if q, r, err := e.ScheduleVerifications(t.Context()); q != queued || r != refused || err != nil {
				t.Fatalf("queued %d, refused %d: %v", q, r, err)
			}
		}
		r := w.Open(t, "run-1", frozen)
		r.Claim(t, "claim-1")
		schedule(w.Engine, 0, 0)
		r.Append(t, models.RunCompleted{Result: r.Blob(t, Worker, "done"), Round: r.Show(t).Counters.CompletedRounds + 1})
		if v := r.Show(t).Verification; v == nil || !v.Due {
			t.Fatalf("%+v", v)
		}
		schedule(w.Engine, 1, 0)
		schedule(w.Engine, 0, 0)
		work := Must[api.WorkList](t, w, http.StatusOK, Call{As: Worker, Method: http.MethodGet, Path: "/work?pool=" + models.VerificationPool})
		if len(work.Runs) != 1 || work.Runs[0].Run != "run-1" || work.Runs[0].Pool != models.VerificationPool {
			t.Fatalf("%+v", work)
		}
		claim := func(pool string) Answer {
			return w.Send(t, Call{As: Worker, Method: http.MethodPut, Path: "/runs/run-1/claims/verify-" + pool + "1", Body: models.ClaimRun{LeaseSeconds: 60, Pool: pool}})
		}
		refused(t, claim(""), models.CodeNotInPool)
		if a := claim(models.VerificationPool); a.Status != http.StatusOK {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		show := r.Show(t)
		r.Fence = show.Lease.Fence
		r.Append(t, models.SourcePrepared{Source: show.Registration.Source.Digest},
			models.CommandStarted{Command: r.Blob(t, Worker, "go test"), Number: show.Counters.Commands + 1, Position: -1})
		r.Append(t, models.CommandFinished{Number: show.Counters.Commands + 1, Receipt: r.Blob(t, Worker, "ok")},
			models.VerificationFinished{Passed: true, Report: r.Blob(t, Worker, "all passed")})
		if v := r.Show(t); v.Verification.State != models.VerificationStateFinished || !v.Verification.Passed || v.Counters.Commands != show.Counters.Commands+1 || v.End != "completed" {
			t.Errorf("%+v", v.Verification)
		}

		held := w.Hold(t, "run-2", frozen)
		if v := held.Show(t).Verification; v.Due { // no round of it is completed
			t.Fatalf("%+v", v)
		}
		hand := func(as string, round int64) Answer {
			return w.Send(t, Call{As: as, Method: http.MethodPut, Path: fmt.Sprintf("/runs/run-2/verifications/hand-%d", round), Body: models.AdmitVerification{Round: round}})
		}
		refused(t, hand(Operator, 3), models.CodeVerificationNotDue)
		refused(t, hand(Reader, 3), models.CodeRoleMissing)

		rounds := w.Open(t, "run-3", frozen)
		rounds.Claim(t, "claim-1")
		rounds.Append(t, models.RoundCompleted{Round: rounds.Show(t).Counters.CompletedRounds + 1})
		rounds.Turn(t, 1, EvidenceCall)
		rounds.Fail(t)
		schedule(w.Engine, 0, 0) // it waits for a person, and nothing is spoiled
		rounds.Admit(t, "request-3")
		before := rowsOf(t, w, "run-3", 1)
		schedule(w.Engine, 0, 1)
		after := rowsOf(t, w, "run-3", 1)
		if len(after) != len(before)+1 || after[len(after)-1] != "verification.refused" {
			t.Fatalf("appended %v", after[len(before):])
		}
		restarted := engine.New(w.Store, &Fake{}, Build, slog.New(slog.DiscardHandler))
		schedule(restarted, 0, 0)
		if v := rounds.Show(t).Verification; !v.Stopped || v.Due || len(rowsOf(t, w, "run-3", 1)) != len(after) {
			t.Errorf("%+v", v)
		}
		a := w.Send(t, Call{As: Operator, Method: http.MethodPut, Path: "/runs/run-3/verifications/hand", Body: models.AdmitVerification{Round: rounds.Show(t).Counters.CompletedRounds}})
		refused(t, a, models.CodeTicketOutstanding)
	})
}
