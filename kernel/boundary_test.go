package kernel_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/kernel/ticket"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/proptest/world"
)

// heldBoundary checks a hold of the candidate for a review, and that a submission on it answers the first hold and writes nothing.
func heldBoundary(t *testing.T, w *world.World, review func(*models.Review), code models.Code, details ...string) {
	t.Helper()
	check := unmoved(t, w)
	body := w.Boundary(600)
	if review != nil {
		review(&body.Review)
	}
	c := w.BoundaryCandidate(world.Dana, body.Review)
	i := slices.IndexFunc(c.Holds, func(h *models.Refusal) bool { return h.Code == code })
	if i < 0 || c.Eligible {
		t.Fatalf("eligible %t, holds %v, want %s", c.Eligible, c.Holds, code)
	}
	is(t, c.Holds[i], code, details...)
	body.CandidateDigest = c.CandidateDigest
	refused(t, w.Do(world.Dana, "rec", body), c.Holds[0].Code)
	check()
}

// The first request of a continuation was refused; on a review the ticket is queued once more, the request stays counted, and a
// later claim carries the pending graph on. REFUSED-05 to REFUSED-08 (the accepted case), REFUSED-15 (the receipt's words),
// REFUSED-17, REFUSED-28, REFUSED-29, REFUSED-30 (the claim carries on), REFUSED-31, REFUSED-32; rules, invariants 12, 23, 27.
func TestRefusedBoundaryIsRecovered(t *testing.T) {
	w := world.Refused()
	before, rows := w.State, slices.Clone(w.Rows)
	old, _ := before.Tickets.Last()
	if old.State != ticket.Refused {
		t.Fatalf("ticket %+v", old)
	}
	refused(t, w.Claim(world.Worker), models.CodeTicketOutstanding)
	c := w.BoundaryCandidate(world.Dana, w.Reviewed())
	if !c.Eligible || c.Workflow != models.WorkflowRefusedBoundary || c.Reproduced != before.Custody.Turn.Wire {
		t.Fatalf("%+v", c)
	}
	if w.State.Head != before.Head {
		t.Fatal("the candidate wrote something")
	}
	a := w.Must(world.Dana, "rec-1", w.Boundary(600))
	if got := kinds(a.Events); !slices.Equal(got, []string{"refusal.settled", "request.requeued", "lease.granted"}) {
		t.Fatalf("events %v", got)
	}
	for i, r := range rows {
		if w.Rows[i].Hash != r.Hash {
			t.Fatalf("row %d changed", i+1)
		}
	}
	now, _ := w.State.Tickets.Last()
	if now.Seal != old.Seal || now.Derived != old.Derived || now.Claims != old.Claims || len(w.State.Tickets.Tickets) != 1 {
		t.Errorf("ticket %+v, was %+v", now, old)
	}
	if w.State.Counters() != before.Counters() {
		t.Errorf("counters %+v, were %+v", w.State.Counters(), before.Counters())
	}
	var receipt models.RecoveryReceipt
	if err := canon.Unmarshal(a.Receipt, &receipt); err != nil {
		t.Fatal(err)
	}
	if receipt.ReviewedBy != models.ReviewedBy || receipt.Review.SourceValidator.IsZero() || receipt.CorrectiveEpoch != "epoch-2" ||
		strings.Contains(string(a.Receipt), "verified") || receipt.Establishes != models.Establishes || receipt.Review.Wire != before.Custody.Turn.Wire {
		t.Errorf("receipt %s", a.Receipt)
	}
	refused(t, w.Do(world.Dana, "rec-2", w.Boundary(600)), models.CodeRecoveryRecorded, "recovery_id", "rec-1")
	w.MustClaim(world.Worker)
	requests := w.State.Budget.Spent.Requests
	w.Turn(world.Call{Class: models.ClassCommand, Commands: 1})
	if n := w.State.Budget.Spent.Requests; n != requests+1 || requests != before.Budget.Spent.Requests {
		t.Errorf("%d requests, had %d", n, requests)
	}
	w.MustAppend(models.RoundCompleted{Round: w.State.Rounds + 1})
	verify(t, w)
}

// A claim proves no acceptance and a refusal after it is not the never-claimed case. REFUSED-04.
func TestRefusedIsNotNeverClaimed(t *testing.T) {
	heldRecovery(t, world.Refused(), models.CodeTicketClaimed)
}

// The switch is its own, off by default, whatever the others; turned off later it stops the ticket. REFUSED-03, BOUND-01 (a
// recovered ticket).
func TestTheSwitchOfTheRefusedBoundary(t *testing.T) {
	w := world.Refused()
	if models.DefaultPolicy().AllowPreAdmissionRecovery {
		t.Error("on by default")
	}
	off := w.Clone()
	off.Policy(func(p *models.Policy) {
		p.AllowPreAdmissionRecovery, p.AllowReadonlyObservationRecovery, p.AllowUnavailableSourceObservations = false, true, true
	})
	heldBoundary(t, off, nil, models.CodeSettingOff, "setting", "allow_pre_admission_recovery")
	w.Must(world.Dana, "rec-1", w.Boundary(600))
	later := w.Clone()
	later.Policy(func(p *models.Policy) { p.AllowPreAdmissionRecovery = false })
	refused(t, later.Claim(world.Worker), models.CodeSettingOff)
	w.MustClaim(world.Worker)
	w.Policy(func(p *models.Policy) { p.AllowPreAdmissionRecovery = false })
	refused(t, w.Append(world.Failed()), models.CodeSettingOff)
}

// What the history must show, and what may not be in it. REFUSED-02, REFUSED-05, REFUSED-07, REFUSED-08, REFUSED-09.
func TestRefusedBoundaryHistory(t *testing.T) {
	on := func(w *world.World) *world.World {
		w.Tick(30)
		w.Policy(func(p *models.Policy) { p.AllowPreAdmissionRecovery = true })
		w.Review()
		return w
	}
	// Without the worker's failure its outcome is unknown, and so it is without its record of a refusal.
	w := world.Continuing()
	w.RefuseNext()
	w.Tick(700)
	heldBoundary(t, on(w), nil, models.CodeTicketUncertain)
	w = world.Continuing()
	w.MustAppend(w.Asked()...)
	w.MustAppend(world.Failed())
	heldBoundary(t, on(w), nil, models.CodeTicketUncertain)
	heldBoundary(t, w, nil, models.CodeRefusalNotReviewed)
	// A second request.
	w = world.Continuing()
	w.Turn(world.Call{Class: models.ClassPureRead})
	w.MustAppend(models.RoundCompleted{Round: w.State.Rounds + 1})
	w.RefuseNext()
	w.MustAppend(world.Failed())
	heldBoundary(t, on(w), nil, models.CodeNotFirstRequest, "requests", "2")
	heldBoundary(t, w, nil, models.CodePendingCheckpointDiffers)
	// A command between the claim and the refusal.
	w = world.Continuing()
	n := w.State.Budget.Spent.Commands + 1
	a := w.MustAppend(models.CommandStarted{Command: world.Blob("c"), Number: n, Position: -1}, models.CommandFinished{Number: n, Receipt: world.Blob("r")})
	w.RefuseNext()
	w.MustAppend(world.Failed())
	heldBoundary(t, on(w), nil, models.CodeLaterActivity, "seq", models.D("seq", a.Rows[0].Seq).Value)
	// A changed source.
	w = world.Refused()
	w.Record(models.RecordSource, "moved")
	heldBoundary(t, w, nil, models.CodeSourceChanged)
	// Without its claim row the chain is not whole.
	w = world.Refused()
	w.Trust = true
	i := slices.IndexFunc(w.Rows, func(r models.Row) bool { return r.Kind == "claim.taken" && r.Seq > 40 })
	w.Rows = slices.Delete(slices.Clone(w.Rows), i, i+1)
	heldBoundary(t, w, nil, models.CodeClaimHistoryIncomplete)
	// No byte of a response stands beside a refusal, before or after it.
	w = world.Continuing()
	w.RefuseNext()
	refused(t, w.Append(w.Answered()), models.CodeFactOutOfOrder)
	refused(t, w.Append(models.RequestRefused{Report: world.Blob("r"), Request: w.State.Custody.Turn.Request}), models.CodeFactOutOfOrder)
	w = world.Continuing()
	w.MustAppend(w.Asked()...)
	partial := w.Answered()
	partial.Partial = true
	w.MustAppend(partial)
	refused(t, w.Append(models.RequestRefused{Report: world.Blob("r"), Request: partial.Request}), models.CodeFactOutOfOrder)
}

// For an ordinary run the worker's word changes nothing: the outcome of the request is unknown.
func TestRefusalOfAnOrdinaryRun(t *testing.T) {
	w := world.Executing()
	w.RefuseNext()
	w.MustAppend(world.Failed())
	refused(t, w.Claim(world.Worker), models.CodeModelOutcomeUnknown)
	held(t, w.Candidate(world.Dana), models.CodeModelOutcomeUnknown)
}

// The review must say what the journal says, on reports that are kept and match. REFUSED-11, REFUSED-12, REFUSED-13, REFUSED-14.
func TestReview(t *testing.T) {
	w := world.Refused()
	for differs, change := range map[string]func(*models.Review){
		"wire_digest":     func(r *models.Review) { r.Wire[0] ^= 1 },
		"wire_length":     func(r *models.Review) { r.WireLength++ },
		"provider":        func(r *models.Review) { r.Provider[0] ^= 1 },
		"source_revision": func(r *models.Review) { r.SourceRevision = "2" },
	} {
		heldBoundary(t, w, change, models.CodeReviewEvidenceMismatch)
		c := w.Boundary(600).Review
		change(&c)
		candidate := w.BoundaryCandidate(world.Dana, c)
		if differs != "source_revision" { // which the reports contradict too
			i := slices.IndexFunc(candidate.Holds, func(h *models.Refusal) bool { return h.Code == models.CodeReviewEvidenceMismatch })
			is(t, candidate.Holds[i], models.CodeReviewEvidenceMismatch, "differs", differs)
		}
	}
	for i := range 2 {
		for _, change := range []func(*models.Report){
			func(r *models.Report) { r.ProviderEpoch = "epoch-0" }, func(r *models.Report) { r.Executable = "exec-0" },
			func(r *models.Report) { r.SourceRevision = "9" },
		} {
			other := w.Clone()
			other.Reports = slices.Clone(w.Reports)
			change(&other.Reports[i])
			heldBoundary(t, other, nil, models.CodeReviewEvidenceMismatch)
		}
		gone := w.Clone()
		gone.Reports = slices.Delete(slices.Clone(w.Reports), i, i+1)
		heldBoundary(t, gone, nil, models.CodeRefusalNotReviewed)
	}
	for name, change := range map[string]func(*models.Review){
		"admissions": func(r *models.Review) { r.Admissions = 1 }, "jobs": func(r *models.Review) { r.Jobs = 1 },
		"provider_dispatches": func(r *models.Review) { r.ProviderDispatches = 1 }, "tool_callbacks": func(r *models.Review) { r.ToolCallbacks = 1 },
	} {
		heldBoundary(t, w, change, models.CodeReviewCountsNotZero, "count", name)
	}
	for member, change := range map[string]func(*models.Review){
		"admissions": func(r *models.Review) { r.Admissions = -1 }, "provider_epoch": func(r *models.Review) { r.ProviderEpoch = "" },
		"executable_identity": func(r *models.Review) { r.Executable = "" }, "wire_digest": func(r *models.Review) { r.Wire = models.Digest{} },
		"source_validator_report_digest": func(r *models.Review) { r.SourceValidator = models.Digest{} },
	} {
		body := w.Boundary(600)
		change(&body.Review)
		refused(t, w.Do(world.Dana, "rec", body), models.CodeRequestMalformed, "member", "review."+member)
	}
	silent := world.Continuing() // the worker did not say which provider it asked
	silent.MustAppend(silent.Asked()...)
	silent.MustAppend(models.RequestRefused{Report: world.Blob("r"), Request: silent.State.Custody.Turn.Request}, world.Failed())
	silent.Policy(func(p *models.Policy) { p.AllowPreAdmissionRecovery = true })
	silent.Review()
	heldBoundary(t, silent, nil, models.CodeReviewEvidenceMismatch, "differs", "provider")
}

// The sandbox must render the very bytes, of the ticket's checkpoint, serving nothing. REFUSED-06, REFUSED-26, REFUSED-27.
func TestReproduction(t *testing.T) {
	for _, c := range []struct {
		change func(*models.Reproduction)
		code   models.Code
	}{
		{func(r *models.Reproduction) { r.Wire[0] ^= 1 }, models.CodeWireBytesDiffer},
		{func(r *models.Reproduction) { r.Length++ }, models.CodeWireBytesDiffer},
		{func(r *models.Reproduction) { r.Served = 1 }, models.CodeSandboxStopped},
		{func(r *models.Reproduction) { r.Module = world.Plain("x") }, models.CodeSandboxStopped},
		{func(r *models.Reproduction) { r.Checkpoint = world.Blob("x") }, models.CodeSandboxStopped},
		{func(r *models.Reproduction) { r.Holds = []models.SandboxHold{{Code: models.CodeContractChanged}} }, models.CodeContractChanged},
	} {
		w := world.Refused()
		w.Reproduce = func(w *world.World) *models.Reproduction {
			r := w.Reproduced()
			c.change(r)
			return r
		}
		heldBoundary(t, w, nil, c.code)
	}
	w := world.Refused()
	w.Trust = true
	list := slices.Clone(w.State.Tickets.Tickets)
	list[0].Derived[0] ^= 1
	w.State.Tickets.Tickets = list
	heldBoundary(t, w, nil, models.CodePendingCheckpointDiffers)
}

// The correction is validated by a report of another epoch, made after the refusal; what proves the old refusal does not count.
// REFUSED-16, REFUSED-18.
func TestCorrection(t *testing.T) {
	w := world.Refused()
	check := unmoved(t, w)
	for lacks, change := range map[string]func(*models.RecoverRefusedBoundary){
		"corrective_epoch":                   func(c *models.RecoverRefusedBoundary) { c.CorrectiveEpoch = "" },
		"another epoch than the refused one": func(c *models.RecoverRefusedBoundary) { c.CorrectiveEpoch = "epoch-1" },
		"corrective_validation_digest":       func(c *models.RecoverRefusedBoundary) { c.CorrectiveValidation = models.Digest{} },
		"report":                             func(c *models.RecoverRefusedBoundary) { c.CorrectiveValidation = c.Review.SourceValidator },
		"report of that epoch":               func(c *models.RecoverRefusedBoundary) { c.CorrectiveEpoch = "epoch-3" },
	} {
		body := w.Boundary(600)
		change(&body)
		refused(t, w.Do(world.Dana, "rec", body), models.CodeCorrectiveValidationMissing, "lacks", lacks)
	}
	body := w.Boundary(600)
	w.Reports[2].At = w.State.Custody.Turn.RefusedAt
	refused(t, w.Do(world.Dana, "rec", body), models.CodeCorrectiveValidationMissing, "lacks", "report made after the refusal")
	check()
}

// Each acknowledgement, the digest and the window are needed; the actor is the original one with both roles. REFUSED-10, REFUSED-25.
func TestBoundaryBody(t *testing.T) {
	w := world.Refused()
	check := unmoved(t, w)
	for name, change := range map[string]func(*models.RecoverRefusedBoundary){
		"acknowledge_reviewed_provider_epoch":             func(c *models.RecoverRefusedBoundary) { c.AcknowledgeReviewedProviderEpoch = false },
		"acknowledge_no_original_response_or_tool_replay": func(c *models.RecoverRefusedBoundary) { c.AcknowledgeNoOriginalResponseOrToolReplay = false },
		"acknowledge_same_request_and_budgets":            func(c *models.RecoverRefusedBoundary) { c.AcknowledgeSameRequestAndBudgets = false },
		"acknowledge_finite_ownership_lease":              func(c *models.RecoverRefusedBoundary) { c.AcknowledgeFiniteOwnershipLease = false },
	} {
		body := w.Boundary(600)
		change(&body)
		refused(t, w.Do(world.Dana, "rec", body), models.CodeAcknowledgementMissing, "acknowledgement", name)
	}
	body := w.Boundary(600)
	body.CandidateDigest[0] ^= 1
	refused(t, w.Do(world.Dana, "rec", body), models.CodeDigestStale, "digest", "candidate")
	for _, seconds := range []models.Seconds{0, -1, 1801} {
		refused(t, w.Do(world.Dana, "rec", w.Boundary(seconds)), models.CodeWindowInvalid)
	}
	check()
	w.Roles(world.Root, models.RoleAdministrator, models.RoleOperator)
	refused(t, w.Do(world.Root, "rec", w.Boundary(600)), models.CodeActorNotOriginal)
	body = w.Boundary(600)
	w.Roles(world.Dana, models.RoleOperator)
	refused(t, w.Do(world.Dana, "rec", body), models.CodeRoleMissing, "role", models.RoleAdministrator)
	c := w.BoundaryCandidate(world.Root, body.Review)
	if !slices.ContainsFunc(c.Holds, func(h *models.Refusal) bool { return h.Code == models.CodeAuthorityRevoked }) {
		t.Errorf("holds %v", c.Holds)
	}
}

// A second refusal stays held: nothing is queued, and the action is spent. REFUSED-17, REFUSED-19.
func TestSecondRefusalIsHeld(t *testing.T) {
	w := world.Refused()
	w.Must(world.Dana, "rec-1", w.Boundary(600))
	w.MustClaim(world.Worker)
	w.RefuseNext()
	w.MustAppend(world.Failed())
	w.Review()
	if kernel.Queue(w.State) != nil {
		t.Error("queued again")
	}
	last, _ := w.State.Tickets.Last()
	if last.State != ticket.Held {
		t.Errorf("ticket %+v", last)
	}
	heldBoundary(t, w, nil, models.CodeRecoveryRecorded)
	refused(t, w.Claim(world.Worker2), models.CodeTicketOutstanding)
	// Queued again and lapsed, its history holds a claim (rules O38).
	w = world.Refused()
	w.Must(world.Dana, "rec-1", w.Boundary(600))
	w.Tick(700)
	heldRecovery(t, w, models.CodeTicketClaimed)
	verify(t, w)
}
