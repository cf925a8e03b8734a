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

// heldRecovery checks a hold of the recovery candidate of request-1, and that a submission answers a refusal and writes nothing.
func heldRecovery(t *testing.T, w *world.World, code models.Code, details ...string) {
	t.Helper()
	check := unmoved(t, w)
	c := w.RecoveryCandidate(world.Dana)
	i := slices.IndexFunc(c.Holds, func(h *models.Refusal) bool { return h.Code == code })
	if i < 0 || c.Eligible {
		t.Fatalf("eligible %t, holds %v, want %s", c.Eligible, c.Holds, code)
	}
	is(t, c.Holds[i], code, details...)
	refused(t, w.Do(world.Dana, "rec", w.Recovery(600)), c.Holds[0].Code)
	check()
}

// A request that lapsed unclaimed is queued again once, under its own id: lapse, witness, event and lease in adjacent rows.
// NOCLAIM-01 (the old id), NOCLAIM-14 (settlement, seal, ticket and failed row), NOCLAIM-15, NOCLAIM-16 (the receipt's words),
// NOCLAIM-17, FLOW-38 (recovery); rules, invariants 4, 10, 12 and 24.
func TestNeverClaimedIsRecovered(t *testing.T) {
	w := world.FailedUnclaimed()
	before, rows := w.State, slices.Clone(w.Rows)
	old, _ := before.Tickets.Last()
	c := w.RecoveryCandidate(world.Dana)
	if !c.Eligible || c.State != ticket.FailedUnclaimed || c.PermittedSeconds != 1800 || c.Counters.Commands != 11 {
		t.Fatalf("candidate %+v", c)
	}
	if w.State.Head != before.Head {
		t.Fatal("reading the candidate wrote something")
	}
	a := w.Must(world.Dana, "rec-1", w.Recovery(600))
	if got := kinds(a.Events); !slices.Equal(got, []string{"lease.lapsed", "never_claimed_recovery", "request.requeued", "lease.granted"}) {
		t.Fatalf("events %v", got)
	}
	for i, r := range rows {
		if w.Rows[i].Hash != r.Hash {
			t.Fatalf("row %d changed", i+1)
		}
	}
	now, _ := w.State.Tickets.Last()
	if now.Seal != old.Seal || now.SettledSeq != old.SettledSeq || now.GrantSeq != old.GrantSeq || now.Derived != old.Derived || now.Graph != old.Graph ||
		len(w.State.Tickets.Tickets) != len(before.Tickets.Tickets) || w.State.Custody.Checkpoint != before.Custody.Checkpoint {
		t.Errorf("ticket %+v, was %+v", now, old)
	}
	if w.State.Counters() != before.Counters() || w.State.Attempt != before.Attempt || w.State.Registration != before.Registration {
		t.Error("a counter, the attempt or a limit moved")
	}
	if e := kernel.Queue(w.State); e == nil || e.Request != "request-1" || e.Expires != w.Now.Add(600) {
		t.Errorf("queue %+v", e)
	}
	var receipt models.RecoveryReceipt
	if err := canon.Unmarshal(a.Receipt, &receipt); err != nil {
		t.Fatal(err)
	}
	if receipt.State != ticket.Queued || receipt.Establishes != models.Establishes || receipt.WitnessSeq+1 != receipt.EventSeq || receipt.EventSeq+1 != receipt.LeaseSeq ||
		receipt.RequestID != "request-1" || receipt.FailedSeq != a.Rows[0].Seq || receipt.Workflow != models.WorkflowNeverClaimed || receipt.Seal != old.Seal {
		t.Errorf("receipt %+v", receipt)
	}
	b := w.Claim(world.Worker2)
	accepted(t, b)
	if taken := b.Events[len(b.Events)-1].(models.ClaimTaken); taken.RequestID != "request-1" {
		t.Errorf("claimed %+v", taken)
	}
	verify(t, w)
}

// The same action reads back, the same id with other content is a conflict, and another action changes nothing. NOCLAIM-13,
// START-08, START-12 (another id once it had landed); rules, invariant 9.
func TestRecoveryIsOneAction(t *testing.T) {
	w := world.FailedUnclaimed()
	body := w.Recovery(600)
	first := w.Must(world.Dana, "rec-1", body)
	check := unmoved(t, w)
	again := w.Do(world.Dana, "rec-1", body)
	if !again.Repeat || string(again.Receipt) != string(first.Receipt) {
		t.Fatalf("repeat %t %v", again.Repeat, again.Refusal)
	}
	other := body
	other.ValidForSeconds = 601
	refused(t, w.Do(world.Dana, "rec-1", other), models.CodeRequestConflict)
	refused(t, w.Do(world.Root, "rec-1", body), models.CodeRoleMissing)
	refused(t, w.Do(world.Dana, "rec-2", w.Recovery(600)), models.CodeRecoveryRecorded, "recovery_id", "rec-1")
	check()
	// A second failure stays held: NOCLAIM-01.
	w.Tick(700)
	c := w.RecoveryCandidate(world.Dana)
	if c.Eligible || c.State != ticket.Held {
		t.Fatalf("state %s, holds %v", c.State, c.Holds)
	}
	heldRecovery(t, w, models.CodeRecoveryRecorded)
	if len(c.Holds) != 1 { // its history is whole: that was told beside the real hold
		t.Errorf("holds %v", c.Holds)
	}
	refused(t, w.Claim(world.Worker2), models.CodeLeaseExpired)
}

// A claimed request, whatever became of it, is not for this workflow; nor is one that still waits. NOCLAIM-18, NOCLAIM-02 (a
// claim row).
func TestClaimedIsNotNeverClaimed(t *testing.T) {
	w := world.Continuing()
	heldRecovery(t, w, models.CodeTicketClaimed, "claims", "1")
	w.Tick(700)
	heldRecovery(t, w, models.CodeTicketClaimed)
	heldRecovery(t, w, models.CodeTicketUncertain)
	heldRecovery(t, world.Queued(), models.CodeClaimLive)
	w = world.Continuing()
	w.MustAppend(world.Failed())
	heldRecovery(t, w, models.CodeTicketClaimed)
	_, r := kernel.RecoveryCandidate(w.State, "none", w.Env(world.Dana, "c", models.RecoverNeverClaimed{}))
	is(t, r, models.CodeNotFound)
}

// The rows count, not the ticket's view: with its claims blanked and its state written back, a claim row still holds. NOCLAIM-03.
func TestBlankedViewProvesNothing(t *testing.T) {
	w := world.Continuing()
	w.Tick(700)
	w.Must(models.ServerActor, "boot", models.AnnotateStartup{Boot: "b"})
	w.Trust = true
	list := slices.Clone(w.State.Tickets.Tickets)
	list[0].Claims, list[0].State = 0, ticket.FailedUnclaimed
	w.State.Tickets.Tickets = list
	w.State.Lease.Owner, w.State.Lease.ClaimID, w.State.Lease.Live, w.State.Lease.Fence = "", "", false, 1
	heldRecovery(t, w, models.CodeTicketClaimed, "claims", "1")
}

// A gap in the history, or an admission that is not in it, proves nothing. NOCLAIM-02.
func TestGapInTheHistory(t *testing.T) {
	w := world.FailedUnclaimed()
	w.Trust = true
	for _, drop := range []int{5, len(w.Rows) - 2} {
		g := w.Clone()
		g.Trust = true
		g.Rows = slices.Delete(slices.Clone(w.Rows), drop, drop+1)
		heldRecovery(t, g, models.CodeClaimHistoryIncomplete)
	}
}

// What the ticket was admitted on must still be so: its seal recomputes, and the checkpoint's bytes are there. BOUND-07 (at a
// recovery), NOCLAIM-05 (the checkpoint).
func TestChangedTicketIsNotRecovered(t *testing.T) {
	w := world.FailedUnclaimed()
	w.Trust = true
	list := slices.Clone(w.State.Tickets.Tickets)
	list[0].Seal[0] ^= 1
	w.State.Tickets.Tickets = list
	heldRecovery(t, w, models.CodeTicketChanged, "what", "seal")
	w = world.FailedUnclaimed()
	gone := models.Digest{}
	w.KeptCheckpoint = &gone
	heldRecovery(t, w, models.CodeTicketChanged, "what", "checkpoint")
}

// The server's own note stays and does not stand in the way; any other row after the failure does, by its number. NOCLAIM-06,
// NOCLAIM-07.
func TestWhatMayFollowTheFailure(t *testing.T) {
	w := world.FailedUnclaimed()
	note := w.Must(models.ServerActor, "boot", models.AnnotateStartup{Boot: "b"})
	w.Must(world.Dana, "rec-1", w.Recovery(600))
	if i := note.Rows[0].Seq - 1; w.Rows[i].Hash != note.Rows[0].Hash {
		t.Error("the note changed")
	}
	verify(t, w)

	w = world.FailedUnclaimed()
	w.Trust = true
	lapse := models.LeaseLapsed{ExpiresAt: w.State.Lease.ExpiresAt, RequestID: "request-1"}
	w.State = kernel.Evolve(w.State, lapse, w.Now, world.Dana)
	w.State = kernel.Evolve(w.State, models.StartupAnnotated{Boot: "b", RequestID: "request-1"}, w.Now, models.ServerActor)
	if c := w.RecoveryCandidate(world.Dana); !c.Eligible {
		t.Fatalf("after a note: %v", c.Holds)
	}
	w.State = kernel.Evolve(w.State, models.RoundCompleted{Round: 9}, w.Now, world.Worker)
	seq := w.State.Head.Seq
	w.State = kernel.Evolve(w.State, models.StartupAnnotated{Boot: "c", RequestID: "request-1"}, w.Now, models.ServerActor)
	heldRecovery(t, w, models.CodeLaterActivity, "seq", models.D("seq", seq).Value)
}

// Each thing that the review covers has its own code, also between review and submission. NOCLAIM-05, START-11, FLOW-26.
func TestRecoveryReviewsWhatMustBeUnchanged(t *testing.T) {
	absolute := func(g *models.Registration) {
		g.TimeBudget, g.ActiveDeadline = models.TimeBudgetAbsolute, world.Start.Add(3000)
	}
	for name, c := range map[string]struct {
		code   models.Code
		change func(*world.World)
	}{
		"source":        {models.CodeSourceChanged, func(w *world.World) { w.Record(models.RecordSource, "moved") }},
		"configuration": {models.CodeConfigurationChanged, func(w *world.World) { w.Record(models.RecordConfiguration, "moved") }},
		"scope":         {models.CodeScopeChanged, func(w *world.World) { w.Record(models.RecordScope, "moved") }},
		"profile":       {models.CodeProfileUnqualified, func(w *world.World) { w.MustFactory(world.Root, models.RetireProfile{ID: "p1"}) }},
		"code":          {models.CodeProfileMismatch, func(w *world.World) { w.Host.Module = world.Plain("other") }},
		"policy off":    {models.CodePolicyDisabled, func(w *world.World) { w.Policy(func(p *models.Policy) { p.Enabled = false }) }},
		"actor":         {models.CodeActorLost, func(w *world.World) { w.Roles(world.Dana) }},
		"cancelled":     {models.CodeRunCancelled, func(w *world.World) { w.Must(world.Omar, "cancel", models.CancelRun{}) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := world.FailedUnclaimed()
			body := w.Recovery(600)
			c.change(w)
			check := unmoved(t, w)
			candidate := w.RecoveryCandidate(world.Dana)
			if !slices.ContainsFunc(candidate.Holds, func(h *models.Refusal) bool { return h.Code == c.code }) {
				t.Fatalf("holds %v", candidate.Holds)
			}
			if name == "actor" {
				refused(t, w.Do(world.Dana, "rec", body), models.CodeIdentityMissing)
			} else {
				refused(t, w.Do(world.Dana, "rec", body), c.code)
			}
			check()
		})
	}
	w := world.FailedUnclaimed()
	body := w.Recovery(600)
	w.Policy(func(p *models.Policy) { p.MaxPendingTickets = 77 })
	refused(t, w.Do(world.Dana, "rec", body), models.CodeDigestStale, "digest", "policy")
	w = world.Held(absolute)
	w.Admit("request-1")
	w.Tick(4000)
	heldRecovery(t, w, models.CodeDeadlinePassed)
	if c := w.RecoveryCandidate(world.Dana); c.PermittedSeconds != 0 { // NOCLAIM-08
		t.Errorf("%d s where none is left", c.PermittedSeconds)
	}
}

// NOCLAIM-04: another administrator, and the original one without the role; others see that the authority is gone.
func TestOnlyTheOriginalAdministratorRecovers(t *testing.T) {
	w := world.FailedUnclaimed()
	w.Roles(world.Root, models.RoleAdministrator, models.RoleOperator)
	refused(t, w.Do(world.Root, "rec", w.Recovery(600)), models.CodeActorNotOriginal)
	refused(t, w.Do(world.Omar, "rec", w.Recovery(600)), models.CodeRoleMissing, "role", models.RoleAdministrator)
	body := w.Recovery(600)
	w.Roles(world.Dana, models.RoleOperator)
	refused(t, w.Do(world.Dana, "rec", body), models.CodeRoleMissing, "role", models.RoleAdministrator)
	c := w.RecoveryCandidate(world.Root)
	if !slices.ContainsFunc(c.Holds, func(h *models.Refusal) bool { return h.Code == models.CodeAuthorityRevoked }) {
		t.Errorf("holds %v", c.Holds)
	}
	w.MustFactory(world.Root, models.PutPrincipal{ID: world.Dana, Replaces: 2, Roles: []string{models.RoleAdministrator}})
	refused(t, w.Do(world.Dana, "rec", body), models.CodeRoleMissing, "role", models.RoleOperator)
}

// Every digest, every acknowledgement and the window are needed. NOCLAIM-09, START-07.
func TestRecoveryBody(t *testing.T) {
	w := world.FailedUnclaimed()
	check := unmoved(t, w)
	try := func(change func(*models.RecoverNeverClaimed)) world.Answer {
		c := w.Recovery(600)
		change(&c)
		return w.Do(world.Dana, "rec", c)
	}
	for name, change := range map[string]func(*models.RecoverNeverClaimed){
		"acknowledge_never_claimed":                    func(c *models.RecoverNeverClaimed) { c.AcknowledgeNeverClaimed = false },
		"acknowledge_same_request_and_attempt":         func(c *models.RecoverNeverClaimed) { c.AcknowledgeSameRequestAndAttempt = false },
		"acknowledge_original_consumption_and_budgets": func(c *models.RecoverNeverClaimed) { c.AcknowledgeOriginalConsumptionAndBudgets = false },
		"acknowledge_renewed_same_attempt_lease":       func(c *models.RecoverNeverClaimed) { c.AcknowledgeRenewedSameAttemptLease = false },
	} {
		refused(t, try(change), models.CodeAcknowledgementMissing, "acknowledgement", name)
	}
	for name, change := range map[string]func(*models.RecoverNeverClaimed){
		"candidate": func(c *models.RecoverNeverClaimed) { c.CandidateDigest[0] ^= 1 },
		"journal":   func(c *models.RecoverNeverClaimed) { c.JournalDigest[0] ^= 1 },
		"policy":    func(c *models.RecoverNeverClaimed) { c.PolicyDigest[0] ^= 1 },
		"run":       func(c *models.RecoverNeverClaimed) { c.RunDigest[0] ^= 1 },
	} {
		refused(t, try(change), models.CodeDigestStale, "digest", name)
	}
	for _, seconds := range []models.Seconds{0, -1, 1801, 7201} {
		refused(t, try(func(c *models.RecoverNeverClaimed) { c.ValidForSeconds = seconds }), models.CodeWindowInvalid)
	}
	refused(t, try(func(c *models.RecoverNeverClaimed) { c.Version = 2 }), models.CodeRequestMalformed)
	refused(t, try(func(c *models.RecoverNeverClaimed) { c.RequestID = "other" }), models.CodeNotFound)
	w.Pending = 500
	refused(t, try(func(*models.RecoverNeverClaimed) {}), models.CodePendingTicketsReached)
	w.Pending = 0
	check()
	accepted(t, try(func(*models.RecoverNeverClaimed) {}))
}

// While the ticket is outstanding the generic ways on refuse, before and after a recovery. NOCLAIM-19, START-06 (the route's
// answer).
func TestGenericWaysDoNotPassAFailedTicket(t *testing.T) {
	w := world.FailedUnclaimed()
	w.Must(models.ServerActor, "boot", models.AnnotateStartup{Boot: "b"})
	try := func() {
		t.Helper()
		check := unmoved(t, w)
		refused(t, w.Do(world.Dana, "retry", models.RetryRun{}), models.CodeTicketOutstanding)
		refused(t, w.Do(world.Dana, "settle", world.Settle(models.SubjectCall, 1, models.OutcomeDidNotHappen)), models.CodeTicketOutstanding)
		check()
	}
	try()
	w.Must(world.Dana, "rec-1", w.Recovery(600))
	try()
	w.MustClaim(world.Worker2)
	refused(t, w.Do(world.Worker2, "release", models.ReleaseRun{Fence: w.State.Lease.Fence}), models.CodeTicketOutstanding)
	refused(t, w.Do(world.Worker2, "handoff", models.ReleaseRun{Fence: w.State.Lease.Fence, Pool: "gpu"}), models.CodeTicketOutstanding)
}

// Both are told: that no profile covers the node, and that the ticket's own has ended. The second was left out beside the first.
func TestRecoveryTellsOfTheTicketsOwnProfileToo(t *testing.T) {
	w := world.FailedUnclaimed()
	w.MustFactory(world.Root, models.RegisterProfile{Profile: w.Profile("p2")})
	w.MustFactory(world.Root, models.RetireProfile{ID: "p1"})
	w.Host.Module = world.Plain("newer module")
	var got []models.Code
	for _, h := range w.RecoveryCandidate(world.Dana).Holds {
		got = append(got, h.Code)
	}
	if want := []models.Code{models.CodeProfileUnqualified, models.CodeProfileMismatch}; !slices.Equal(got, want) {
		t.Errorf("holds %v, want %v", got, want)
	}
}
