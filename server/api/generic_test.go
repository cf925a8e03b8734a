package api_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api"
	. "github.com/forge-continuity/forge/server/api/apitest"
)

// constants are the texts of the constants that a file of the kernel declares with that prefix of their names, and no unexported one.
func constants(t *testing.T, file, prefix string) []string {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(tree, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 && spec.Names[0].IsExported() && strings.HasPrefix(spec.Names[0].Name, prefix) {
			if value, ok := spec.Values[0].(*ast.BasicLit); ok && value.Kind == token.STRING {
				text, err := strconv.Unquote(value.Value)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, text)
			}
		}
		return true
	})
	if len(out) < 5 {
		t.Fatalf("%s declares %q: the reading itself does not work", file, out)
	}
	return out
}

// generic is a run in some state, and what each generic way on is answered there. Resume is the ordinary claim, handoff the release to
// a pool, restore the ordinary one of the run's checkpoint. taken stands where the way is open: it is not gone here, and other tests
// go it.
type generic struct {
	name                                       string
	position, ticket                           string // as the run shows them, "" for no ticket
	make                                       func(t *testing.T, w *World, r *Run)
	waits                                      bool // until the lease is over
	verified                                   bool // with automatic verification, for which a round is due
	retry, resume, handoff, reconcile, restore models.Code
}

const taken models.Code = ""

// soon is when a lease ends that a line waits for, in seconds.
const soon = 2

func (g generic) ways() map[string]models.Code {
	return map[string]models.Code{"retry": g.retry, "resume": g.resume, "handoff": g.handoff, "reconcile": g.reconcile, "restore": g.restore}
}

// generics: every state of a ticket that the kernel has, and every position of a run. While a ticket is outstanding no generic way is
// open but the claim of a waiting one, which is the ticket's own.
var generics = func() []generic {
	const (
		outstanding, uncertain = models.CodeTicketOutstanding, models.CodeTicketUncertain
		lost, live, none       = models.CodeFenceLost, models.CodeClaimLive, models.CodeNothingToReconcile
		finished, cancelled    = models.CodeRunFinished, models.CodeRunCancelled
		replays                = models.CodeRestoreRefused
	)
	admit := func(seconds models.Seconds) func(*testing.T, *World, *Run) {
		return func(t *testing.T, w *World, r *Run) {
			t.Helper()
			submit(t, w, r.Base()+"/requests/request-"+r.ID, Accept(r.Candidate(t), seconds))
		}
	}
	then := func(steps ...func(*testing.T, *World, *Run)) func(*testing.T, *World, *Run) {
		return func(t *testing.T, w *World, r *Run) {
			t.Helper()
			for _, step := range steps {
				step(t, w, r)
			}
		}
	}
	hold := func(t *testing.T, _ *World, r *Run) {
		r.Claim(t, "claim-1")
		r.Commands(t, 1)
		r.Turn(t, 1, EvidenceCall)
		r.Fail(t)
	}
	claim := func(t *testing.T, _ *World, r *Run) { r.Claim(t, fmt.Sprint("claim-", r.Fence+1)) }
	short := func(t *testing.T, w *World, r *Run) { claimFor(t, w, r, "claim-1", soon) }
	saved := func(t *testing.T, _ *World, r *Run) {
		r.Checkpoint = r.Blob(t, Worker, "a checkpoint")
		r.Append(t, models.CheckpointSaved{Checkpoint: r.Checkpoint})
	}
	fail := func(t *testing.T, _ *World, r *Run) { r.Fail(t) }
	complete := func(t *testing.T, _ *World, r *Run) {
		r.Append(t, models.RunCompleted{Result: r.Blob(t, Worker, "done"), Round: r.Show(t).Counters.CompletedRounds + 1})
	}
	failed := func(t *testing.T, _ *World, r *Run) {
		r.Append(t, models.RunFailed{Report: r.Blob(t, Worker, "it cannot be done")})
	}
	cancel := func(t *testing.T, w *World, r *Run) {
		accepted(t, w, Operator, "/runs/"+r.ID+"/cancellations/stop", models.CancelRun{})
	}
	opened := func(t *testing.T, _ *World, r *Run) {
		r.Append(t, models.CommandStarted{Command: r.Blob(t, Worker, "make"), Number: r.Show(t).Counters.Commands + 1, Position: -1})
	}
	refuse := func(t *testing.T, w *World, r *Run) {
		v := r.Show(t)
		refuseRequest(t, r, v.Tickets[0].Derived, v.Counters.Requests+1)
	}
	reviewed := func(t *testing.T, w *World, r *Run) {
		v := r.Show(t)
		what := refuseRequest(t, r, v.Tickets[0].Derived, v.Counters.Requests+1)
		path := r.Base() + "/requests/request-" + r.ID
		correction := reports(t, w, &what)
		submit(t, w, path+"/rejected-boundary-recoveries/recovery-"+r.ID, boundaryBody(t, w, path, what, correction))
	}
	lose := func(t *testing.T, _ *World, r *Run) {
		v := r.Show(t)
		loseEvidence(t, r, v.Tickets[0].Derived, v.Counters.Requests+1)
	}
	turn := func(t *testing.T, _ *World, r *Run) {
		v := r.Show(t)
		n, wire := v.Counters.Requests+1, "further wire bytes"
		response := Response(models.Tokens{Input: 1, Output: 1}, EvidenceCall)
		kept := r.Blob(t, Worker, string(response))
		r.Append(t, models.RequestIssued{Checkpoint: v.Tickets[0].Derived, Request: n, Wire: models.PlainDigest([]byte(wire)), WireBlob: r.Blob(t, Worker, wire), WireLength: int64(len(wire))},
			models.ResponseKept{Length: int64(len(response)), Request: n, Response: kept},
			models.ResponseConsumed{Calls: 1, Request: n, Response: kept, Tokens: models.Tokens{Input: 1, Output: 1}},
			models.CallGranted{Args: models.SaltedBlob(r.Salt, []byte(EvidenceCall.Args)), Class: EvidenceCall.Class, ID: models.SaltedBlob(r.Salt, []byte("call-2")), Request: n},
			models.CallRefused{Request: n, Validator: Registration().Validator})
	}
	settle := func(t *testing.T, w *World, r *Run) {
		accepted(t, w, Operator, "/runs/"+r.ID+"/reconciliations/settle", settlement(r.Show(t).Unknown[0], models.OutcomeChargedUnknown))
	}
	return []generic{
		{name: "waiting", position: "queued", make: then(),
			retry: models.CodeRunNotFailed, resume: taken, handoff: lost, reconcile: none, restore: taken},
		{name: "working", position: "executing", make: claim,
			retry: models.CodeRunNotFailed, resume: live, handoff: taken, reconcile: live, restore: taken},
		{name: "owner-gone", position: "queued", make: short, waits: true,
			retry: models.CodeRunNotFailed, resume: taken, handoff: models.CodeLeaseExpired, reconcile: none, restore: taken},
		{name: "effect-open", position: "held", make: then(short, saved, opened), waits: true,
			retry: models.CodeRunNotFailed, resume: models.CodeUnknownEffect, handoff: models.CodeLeaseExpired, reconcile: taken, restore: replays},
		{name: "rejected", position: "held", make: hold,
			retry: models.CodeRunNotFailed, resume: models.CodeRunHeld, handoff: lost, reconcile: none, restore: replays},
		{name: "done", position: "completed", make: then(claim, saved, complete),
			retry: models.CodeRunNotFailed, resume: finished, handoff: lost, reconcile: none, restore: finished},
		{name: "given-up", position: "failed", make: then(claim, saved, failed),
			retry: taken, resume: finished, handoff: lost, reconcile: none, restore: finished},
		{name: "cancelled", position: "cancelled", make: then(claim, saved, cancel),
			retry: cancelled, resume: cancelled, handoff: cancelled, reconcile: cancelled, restore: cancelled},

		{name: "ticket-queued", position: "continuation_queued", ticket: "queued", make: then(hold, admit(600)),
			retry: outstanding, resume: taken, handoff: lost, reconcile: outstanding, restore: replays},
		{name: "ticket-lapsed", position: "held", ticket: "failed_unclaimed", make: then(hold, admit(soon)), waits: true,
			retry: outstanding, resume: models.CodeLeaseExpired, handoff: lost, reconcile: outstanding, restore: replays},
		{name: "ticket-claimed", position: "continuing", ticket: "claimed", make: then(hold, admit(600), claim),
			retry: outstanding, resume: live, handoff: outstanding, reconcile: live, restore: replays},
		{name: "ticket-owner-gone", position: "held", ticket: "uncertain", make: then(hold, admit(soon), claim), waits: true,
			retry: outstanding, resume: uncertain, handoff: models.CodeLeaseExpired, reconcile: outstanding, restore: replays},
		{name: "ticket-uncertain", position: "held", ticket: "uncertain", make: then(hold, admit(600), claim, fail),
			retry: outstanding, resume: uncertain, handoff: lost, reconcile: outstanding, restore: replays},
		{name: "ticket-refused", position: "held", ticket: "refused", make: then(hold, admit(600), claim, refuse),
			retry: outstanding, resume: outstanding, handoff: lost, reconcile: outstanding, restore: replays},
		{name: "ticket-refused-again", position: "held", ticket: "held", make: then(hold, admit(600), claim, reviewed, claim, refuse),
			retry: outstanding, resume: outstanding, handoff: lost, reconcile: outstanding, restore: replays},
		{name: "ticket-observation-lost", position: "held", ticket: "observation_lost", make: then(hold, admit(600), claim, reviewed, claim, lose),
			retry: outstanding, resume: outstanding, handoff: lost, reconcile: outstanding, restore: replays},
		{name: "ticket-failed-unclaimed", position: "held", ticket: "failed_unclaimed", waits: true, verified: true,
			make: func(t *testing.T, w *World, r *Run) {
				r.Claim(t, "claim-1")
				r.Append(t, models.RoundCompleted{Round: r.Show(t).Counters.CompletedRounds + 1})
				r.Turn(t, 1, EvidenceCall)
				r.Fail(t)
				admit(soon)(t, w, r)
			},
			retry: outstanding, resume: outstanding, handoff: lost, reconcile: outstanding, restore: replays},
		{name: "ticket-completed", position: "completed", ticket: "completed", make: then(hold, admit(600), claim, complete),
			retry: models.CodeRunNotFailed, resume: finished, handoff: lost, reconcile: none, restore: replays},
		{name: "ticket-ended", position: "held", ticket: "ended", make: then(hold, admit(600), claim, turn, fail),
			retry: models.CodeRunNotFailed, resume: models.CodeRunHeld, handoff: lost, reconcile: none, restore: replays},
		{name: "ticket-settled", position: "held", ticket: "closed", make: then(hold, admit(600), claim, fail, settle),
			retry: models.CodeRunNotFailed, resume: models.CodeRunHeld, handoff: lost, reconcile: none, restore: replays},
		{name: "ticket-cancelled", position: "cancelled", ticket: "closed", make: then(hold, admit(600), cancel),
			retry: cancelled, resume: cancelled, handoff: lost, reconcile: cancelled, restore: replays},
	}
}()

// In every state of a ticket and at every position of a run, retry, resume, handoff, reconciliation and ordinary restore are each
// refused by name and write nothing, unless the way is open there; while a ticket is outstanding none is but the claim of a waiting
// one. The list of states is the kernel's: one that stands in no line here fails. NOCLAIM-19, EPOCH-07, START-06 (its route), BOUND-08.
func TestGenericWaysOnInEveryState(t *testing.T) {
	tickets := constants(t, "../../kernel/ticket/ticket.go", "")
	positions := constants(t, "../../kernel/position.go", "Position")
	policy := Enabled()
	policy.AllowPreAdmissionRecovery, policy.AllowReadonlyObservationRecovery = true, true
	for _, state := range tickets {
		if !slices.ContainsFunc(generics, func(g generic) bool { return g.ticket == state }) {
			t.Errorf("no line has a ticket that is %s", state)
		}
	}
	for _, position := range positions {
		if position != "opened" && !slices.ContainsFunc(generics, func(g generic) bool { return g.position == position }) {
			t.Errorf("no line has a run that is %s", position)
		}
	}
	each(t, Options{Policy: policy}, func(t *testing.T, w *World) {
		runs := map[string]*Run{}
		for _, g := range generics {
			runs[g.name] = w.Open(t, g.name, func(r *models.Registration) {
				if g.verified {
					r.Verification = models.Verification{Commands: 1, List: r.Task}
				}
			})
			g.make(t, w, runs[g.name])
		}
		for _, g := range generics {
			if g.waits {
				lapse(t, runs[g.name])
			}
		}
		// The one event that records a lapse and changes nothing else: a verification that is refused beside a ticket.
		if _, n, err := w.Engine.ScheduleVerifications(t.Context()); n != 1 || err != nil {
			t.Fatalf("%d refused: %v", n, err)
		}
		// A run that was opened and no more has nothing of it all.
		runs["opened"] = w.Opened(t, Must[api.Opened](t, w, http.StatusCreated, Call{As: Dana, Method: http.MethodPut, Path: "/runs/opened"}))
		nothing := models.CodeNotFound
		for _, g := range append(slices.Clone(generics), generic{name: "opened", position: "opened", retry: nothing, resume: nothing, handoff: nothing, reconcile: nothing, restore: nothing}) {
			r := runs[g.name]
			v := r.Show(t)
			state := ""
			if len(v.Tickets) > 0 {
				state = v.Tickets[0].State
			}
			if v.Position != g.position || state != g.ticket {
				t.Errorf("%s: it is %s, its ticket %q, want %s, %q", g.name, v.Position, state, g.position, g.ticket)
				continue
			}
			before := snapshot(t, w)
			path := "/runs/" + r.ID
			calls := map[string]Call{
				"retry":   {As: Operator, Method: http.MethodPut, Path: path + "/retries/generic", Body: models.RetryRun{}},
				"resume":  {As: Worker, Method: http.MethodPut, Path: path + "/claims/generic", Body: models.ClaimRun{LeaseSeconds: 60}},
				"handoff": {As: Worker, Method: http.MethodPut, Path: path + "/releases/generic", Body: models.ReleaseRun{Fence: max(r.Fence, 1), Pool: "gpu"}},
				"reconcile": {As: Operator, Method: http.MethodPut, Path: path + "/reconciliations/generic",
					Body: settlement(api.UnknownShown{Seq: 1, Subject: models.SubjectCommand}, models.OutcomeChargedUnknown)},
				"restore": {As: Operator, Method: http.MethodGet, Path: path + "/checkpoints/" + r.Checkpoint.String() + "/restore"},
			}
			for way, code := range g.ways() {
				if code == taken {
					continue
				}
				if a := w.Send(t, calls[way]); a.Code() != code {
					t.Errorf("%s: %s is answered %d %s, want %s", g.name, way, a.Status, a.Body, code)
				}
			}
			unchanged(t, before, snapshot(t, w))
			if slices.Contains([]string{"queued", "claimed", "failed_unclaimed", "uncertain", "refused", "observation_lost", "held"}, g.ticket) {
				for way, code := range g.ways() {
					if code == taken && !(way == "resume" && g.ticket == "queued") {
						t.Errorf("%s: %s is open beside a ticket", g.name, way)
					}
				}
			}
		}
	})
}
