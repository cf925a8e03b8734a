package kernel_test

import (
	"slices"
	"testing"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/kernel/ticket"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/proptest/world"
)

// heldObservation checks a hold of the candidate, and that a submission answers the first hold and writes nothing.
func heldObservation(t *testing.T, w *world.World, code models.Code, details ...string) {
	t.Helper()
	check := unmoved(t, w)
	c := w.ObservationCandidate(world.Dana)
	i := slices.IndexFunc(c.Holds, func(h *models.Refusal) bool { return h.Code == code })
	if i < 0 || c.Eligible {
		t.Fatalf("eligible %t, holds %v, want %s", c.Eligible, c.Holds, code)
	}
	is(t, c.Holds[i], code, details...)
	refused(t, w.Do(world.Dana, "rec-o", w.Observation(600)), c.Holds[0].Code)
	check()
}

// The reviewed turn goes on once, on the same ticket, with a derived checkpoint and a binding of its own; the unknown read stays
// unknown. ROBS-01, ROBS-04, ROBS-11, ROBS-14, ROBS-15, ROBS-19, ROBS-20, ROBS-28, ROBS-29, ROBS-30, ROBS-32, ROBS-34, FLOW-38;
// rules, invariants 10, 12, 23, 25.
func TestLostObservationIsRecovered(t *testing.T) {
	w := world.Lost()
	before, rows := w.State, slices.Clone(w.Rows)
	old, _ := before.Tickets.Last()
	if old.State != ticket.ObservationLost {
		t.Fatalf("ticket %+v", old)
	}
	refused(t, w.Claim(world.Worker), models.CodeTicketOutstanding)
	c := w.ObservationCandidate(world.Dana)
	if !c.Eligible || w.State.Head != before.Head {
		t.Fatalf("holds %v", c.Holds)
	}
	a := w.Must(world.Dana, "rec-o", w.Observation(600))
	if got := kinds(a.Events); !slices.Equal(got, []string{"readonly_observation_recovery", "request.requeued", "lease.granted"}) {
		t.Fatalf("events %v", got)
	}
	for i, r := range rows {
		if w.Rows[i].Hash != r.Hash {
			t.Fatalf("row %d changed", i+1)
		}
	}
	witness := a.Events[0].(models.ReadonlyObservationWitnessed)
	unknown := w.Rows[witness.UnknownSeq-1]
	if unknown.Kind != "agentic_tool_unknown" || witness.Unknown != unknown.Hash {
		t.Errorf("the witness names %s %v", unknown.Kind, witness.Unknown)
	}
	now, _ := w.State.Tickets.Last()
	if now.Seal != old.Seal || now.Derived != old.Derived || len(w.State.Tickets.Tickets) != 1 || w.State.Counters() != before.Counters() ||
		w.State.Attempt != before.Attempt || w.State.End != before.End {
		t.Errorf("ticket %+v, was %+v", now, old)
	}
	for _, call := range w.State.Custody.Turn.Calls {
		if call.Class == models.ClassEvidenceRead && (call.OutcomeSeq != 0 || !call.Unknown()) {
			t.Errorf("the unknown read is known now: %+v", call)
		}
	}
	var receipt models.RecoveryReceipt
	if err := canon.Unmarshal(a.Receipt, &receipt); err != nil {
		t.Fatal(err)
	}
	if receipt.Derived == now.Derived || receipt.Derived != witness.Derived || receipt.Binding == kernel.Binding(old) || receipt.Binding != kernel.Binding(now) ||
		receipt.State != ticket.Queued || receipt.Establishes != models.Establishes || receipt.RequestID != "request-1" {
		t.Errorf("receipt %s", a.Receipt)
	}
	b := w.Claim(world.Worker2)
	accepted(t, b)
	var claimed models.ClaimReceipt
	if err := canon.Unmarshal(b.Receipt, &claimed); err != nil {
		t.Fatal(err)
	}
	if claimed.Checkpoint != witness.Derived || claimed.Binding != receipt.Binding {
		t.Errorf("claimed %+v", claimed)
	}
	n := w.State.Budget.Spent.Requests + 1
	refused(t, w.Append(models.RequestIssued{Checkpoint: now.Derived, Request: n, Wire: world.Plain("w"), WireBlob: world.Blob("w"), WireLength: 1}), models.CodeFactOutOfOrder)
	w.Turn(world.Call{Class: models.ClassCommand, Commands: 2})
	w.MustAppend(models.RoundCompleted{Round: w.State.Rounds + 1})
	if got := w.State.Counters(); got.Commands != before.Counters().Commands+2 {
		t.Errorf("counters %+v", got)
	}
	verify(t, w)
}

// One action: identical reads back, other content is a conflict, another id changes nothing, and a second loss stays held.
// ROBS-02 (the spent action), ROBS-26, ROBS-27.
func TestObservationIsOneAction(t *testing.T) {
	w := world.Lost()
	// The provider action is spent and admits nothing here.
	boundary := w.Boundary(600)
	refused(t, w.Do(world.Dana, "rec-b2", boundary), models.CodeRecoveryRecorded, "recovery_id", "rec-b")
	body := w.Observation(600)
	first := w.Must(world.Dana, "rec-o", body)
	check := unmoved(t, w)
	again := w.Do(world.Dana, "rec-o", body)
	if !again.Repeat || string(again.Receipt) != string(first.Receipt) {
		t.Fatal("repeat", again.Refusal)
	}
	other := body
	other.ValidForSeconds++
	refused(t, w.Do(world.Dana, "rec-o", other), models.CodeRequestConflict)
	refused(t, w.Do(world.Dana, "rec-o2", w.Observation(600)), models.CodeRecoveryRecorded, "recovery_id", "rec-o")
	check()
	w.MustClaim(world.Worker)
	w.LoseRead()
	last, _ := w.State.Tickets.Last()
	if last.State != ticket.Held || kernel.Queue(w.State) != nil {
		t.Errorf("ticket %+v", last)
	}
	if c := w.ObservationCandidate(world.Dana); len(c.Holds) == 0 || c.Holds[0].Code != models.CodeRecoveryRecorded {
		t.Errorf("holds %v", c.Holds)
	}
	refused(t, w.Do(world.Dana, "rec-o2", w.Observation(600)), models.CodeRecoveryRecorded)
}

// The switch is its own and grants nothing; off again it stops the ticket. ROBS-03, ROBS-04, BOUND-01.
func TestTheSwitchOfTheObservation(t *testing.T) {
	w := world.Lost()
	if models.DefaultPolicy().AllowReadonlyObservationRecovery {
		t.Error("on by default")
	}
	w.Policy(func(p *models.Policy) { p.AllowReadonlyObservationRecovery = false })
	heldObservation(t, w, models.CodeSettingOff, "setting", "allow_readonly_observation_recovery")
	head := w.State.Head
	w.Policy(func(p *models.Policy) { p.AllowReadonlyObservationRecovery = true })
	if w.State.Head != head || kernel.Queue(w.State) != nil {
		t.Error("the switch moved the run")
	}
}

// The history must hold the earlier claim and the refusal recovery. ROBS-05.
func TestObservationNeedsTheRefusalRecovery(t *testing.T) {
	w := world.Continuing()
	w.LoseRead()
	w.Policy(func(p *models.Policy) { p.AllowReadonlyObservationRecovery = true })
	heldObservation(t, w, models.CodeRefusalRecoveryMissing)
	heldObservation(t, w, models.CodeTicketUncertain)
	w = world.Lost()
	w.Trust = true
	i := slices.IndexFunc(w.Rows, func(r models.Row) bool { return r.Kind == "claim.taken" && r.Seq > 40 })
	w.Rows = slices.Delete(slices.Clone(w.Rows), i, i+1)
	heldObservation(t, w, models.CodeRefusalRecoveryMissing)
}

// What the turn may be, and what its rows must show. ROBS-06, ROBS-07, ROBS-08, ROBS-09, ROBS-10.
func TestObservationTurn(t *testing.T) {
	without := func(match func(models.Fact) bool) func([]models.Fact) []models.Fact {
		return func(facts []models.Fact) []models.Fact { return slices.DeleteFunc(slices.Clone(facts), match) }
	}
	swap := func(i int, f models.Fact) func([]models.Fact) []models.Fact {
		return func(facts []models.Fact) []models.Fact {
			facts = slices.Clone(facts)
			facts[i] = f
			return facts
		}
	}
	n := world.Lost().State.Custody.Turn.Request
	noCut := world.Granted(n, 0, models.ClassSourceObservation)
	noCut.Cut = models.Digest{}
	for name, c := range map[string]struct {
		change func([]models.Fact) []models.Fact
		code   models.Code
	}{
		"list without its result": {without(func(f models.Fact) bool { return f.Kind() == "call.returned" }), models.CodeObservationTurnUnsupported},
		"list with an error":      {swap(4, models.CallReturned{Failed: true, Position: 0, Request: n, Result: world.Blob("e")}), models.CodeObservationTurnUnsupported},
		"evidence with a result":  {swap(5, models.CallReturned{Position: 1, Request: n, Result: world.Blob("e")}), models.CodeObservationTurnUnsupported},
		"two lists":               {swap(1, world.Granted(n, 1, models.ClassSourceObservation)), models.CodeObservationTurnUnsupported},
		"two evidence reads":      {swap(0, world.Granted(n, 0, models.ClassEvidenceRead)), models.CodeObservationTurnUnsupported},
		"no record of the loss":   {without(func(f models.Fact) bool { return f.Kind() == "agentic_tool_unknown" }), models.CodeObservationCustodyIncomplete},
		"list never granted": {func(facts []models.Fact) []models.Fact {
			return []models.Fact{facts[1], facts[3], facts[5], facts[6]}
		}, models.CodeObservationCustodyIncomplete},
		"no source cut":  {swap(0, noCut), models.CodeObservationCustodyIncomplete},
		"a write":        {swap(0, world.Granted(n, 0, models.ClassWrite)), models.CodeCallWritable},
		"a network call": {swap(0, world.Granted(n, 0, models.ClassNetwork)), models.CodeSiblingUnsupported},
		"a command":      {swap(0, world.Granted(n, 0, models.ClassCommand)), models.CodeSiblingUnsupported},
		"an unknown":     {swap(0, world.Granted(n, 0, models.ClassUnknown)), models.CodeCallUnknown},
	} {
		t.Run(name, func(t *testing.T) { heldObservation(t, world.Lost(c.change), c.code) })
	}
	// No consumed response since, and two of them.
	none := world.Refused()
	none.Must(world.Dana, "rec-b", none.Boundary(600))
	none.MustClaim(world.Worker)
	none.MustAppend(none.Asked()...)
	none.MustAppend(none.Answered(), world.Failed())
	none.Policy(func(p *models.Policy) { p.AllowReadonlyObservationRecovery = true })
	heldObservation(t, none, models.CodeObservationTurnUnsupported)
	two := world.Refused()
	two.Must(world.Dana, "rec-b", two.Boundary(600))
	two.MustClaim(world.Worker)
	two.Round(world.Call{Class: models.ClassPureRead})
	two.LoseRead()
	two.Policy(func(p *models.Policy) { p.AllowReadonlyObservationRecovery = true })
	heldObservation(t, two, models.CodeObservationTurnUnsupported)
	// A later row.
	later := world.Lost()
	later.Trust = true
	later.State = kernel.Evolve(later.State, models.RoundCompleted{Round: 9}, later.Now, world.Worker)
	heldObservation(t, later, models.CodeLaterActivity, "seq", models.D("seq", later.State.Head.Seq).Value)
	// The owner lost: never this workflow (rules O49).
	lost := world.Refused()
	lost.Must(world.Dana, "rec-b", lost.Boundary(600))
	lost.MustClaim(world.Worker)
	lost.LoseRead(without(func(f models.Fact) bool { return f.Kind() == "worker.failed" }))
	lost.Tick(700)
	lost.Policy(func(p *models.Policy) { p.AllowReadonlyObservationRecovery = true })
	heldObservation(t, lost, models.CodeTicketUncertain)
}

// What the sandbox found is laid beside the rows. ROBS-09, ROBS-12 (the outcome of that very call), ROBS-13, ROBS-16 (its hold).
func TestObservationProof(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*models.Reconstruction)
		code   models.Code
	}{
		"id":       {func(r *models.Reconstruction) { r.Calls[1].ID = world.Blob("x") }, models.CodeObservationCustodyIncomplete},
		"args":     {func(r *models.Reconstruction) { r.Calls[1].Args = world.Blob("x") }, models.CodeObservationCustodyIncomplete},
		"result":   {func(r *models.Reconstruction) { r.Outcomes[0].Result = world.Blob("x") }, models.CodeObservationCustodyIncomplete},
		"none":     {func(r *models.Reconstruction) { r.Outcomes = nil }, models.CodeObservationCustodyIncomplete},
		"tokens":   {func(r *models.Reconstruction) { r.Tokens.Input++ }, models.CodeObservationCustodyIncomplete},
		"closing":  {func(r *models.Reconstruction) { r.Closing[1].Result = models.ResultRetained }, models.CodeSandboxStopped},
		"module":   {func(r *models.Reconstruction) { r.Module = world.Plain("x") }, models.CodeSandboxStopped},
		"served":   {func(r *models.Reconstruction) { r.Served = 2 }, models.CodeSandboxStopped},
		"response": {func(r *models.Reconstruction) { r.Response = world.Blob("x") }, models.CodeSandboxStopped},
		"compared": {func(r *models.Reconstruction) {
			r.Holds = []models.SandboxHold{{Code: models.CodeReviewedHistoryDiffers, Details: []models.Detail{models.D("path", "/usage")}}}
		}, models.CodeReviewedHistoryDiffers},
	} {
		t.Run(name, func(t *testing.T) {
			w := world.Lost()
			w.Observe = func(w *world.World) *models.Reconstruction {
				r := w.ProofObserved()
				c.change(r)
				return r
			}
			heldObservation(t, w, c.code)
		})
	}
}

// Digest, window and each acknowledgement are needed, and the original actor with both roles. ROBS-23, ROBS-24, ROBS-25 (the
// kernel's part).
func TestObservationBody(t *testing.T) {
	w := world.Lost()
	check := unmoved(t, w)
	for name, change := range map[string]func(*models.RecoverReadonlyObservation){
		"acknowledge_unavailable_observation":          func(c *models.RecoverReadonlyObservation) { c.AcknowledgeUnavailableObservation = false },
		"acknowledge_no_original_callback_replay":      func(c *models.RecoverReadonlyObservation) { c.AcknowledgeNoOriginalCallbackReplay = false },
		"acknowledge_same_request_attempt_and_budgets": func(c *models.RecoverReadonlyObservation) { c.AcknowledgeSameRequestAttemptAndBudgets = false },
		"acknowledge_finite_ownership_lease":           func(c *models.RecoverReadonlyObservation) { c.AcknowledgeFiniteOwnershipLease = false },
	} {
		body := w.Observation(600)
		change(&body)
		refused(t, w.Do(world.Dana, "rec-o", body), models.CodeAcknowledgementMissing, "acknowledgement", name)
	}
	body := w.Observation(600)
	body.CandidateDigest[0] ^= 1
	refused(t, w.Do(world.Dana, "rec-o", body), models.CodeDigestStale, "digest", "candidate")
	refused(t, w.Do(world.Dana, "rec-o", w.Observation(0)), models.CodeWindowInvalid)
	refused(t, w.Do(world.Dana, "rec-o", w.Observation(1801)), models.CodeWindowInvalid)
	refused(t, w.Do(world.Omar, "rec-o", w.Observation(600)), models.CodeRoleMissing, "role", models.RoleAdministrator)
	check()
}

// Everything is checked anew before the claim and at each append, an unrelated policy revision too. ROBS-31 (rules O46), BOUND-03.
func TestObservationTicketIsCheckedAnew(t *testing.T) {
	for name, c := range map[string]struct {
		code   models.Code
		change func(*world.World)
	}{
		"policy revision": {models.CodeDigestStale, func(w *world.World) { w.Policy(func(p *models.Policy) { p.MaxPendingTickets++ }) }},
		"profile":         {models.CodeProfileUnqualified, func(w *world.World) { w.MustFactory(world.Root, models.RetireProfile{ID: "p1"}) }},
		"source":          {models.CodeSourceChanged, func(w *world.World) { w.Record(models.RecordSource, "moved") }},
		"configuration":   {models.CodeConfigurationChanged, func(w *world.World) { w.Record(models.RecordConfiguration, "moved") }},
		"administrator":   {models.CodeAuthorityRevoked, func(w *world.World) { w.Roles(world.Dana, models.RoleOperator) }},
		"operator":        {models.CodeAuthorityRevoked, func(w *world.World) { w.Roles(world.Dana, models.RoleAdministrator) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := world.Lost()
			w.Must(world.Dana, "rec-o", w.Observation(600))
			before := w.Clone()
			c.change(before)
			refused(t, before.Claim(world.Worker), c.code)
			w.MustClaim(world.Worker)
			c.change(w)
			refused(t, w.Append(world.Failed()), c.code)
		})
	}
}

// A result lost under an earlier claim says nothing about a later one: a worker that stops there without an answer leaves the ticket
// uncertain. It was held as lost a second time.
func TestALostResultIsOfItsOwnClaim(t *testing.T) {
	w := world.Lost()
	w.Must(world.Dana, "rec-o", w.Observation(600))
	w.MustClaim(world.Worker)
	w.MustAppend(w.Asked()...)
	w.MustAppend(world.Failed())
	if last, _ := w.State.Tickets.Last(); last.State != ticket.Uncertain {
		t.Errorf("ticket %+v", last)
	}
	refused(t, w.Claim(world.Worker2), models.CodeTicketUncertain)
	verify(t, w)
}
