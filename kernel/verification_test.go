package kernel_test

import (
	"slices"
	"testing"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/proptest/world"
)

// completed is a run of so many verification commands that ended with a completion.
func completed(commands int64) *world.World {
	w := world.Executing(world.Verified(commands))
	w.Turn()
	w.MustAppend(models.RunCompleted{Result: world.Blob("result"), Round: w.State.Rounds + 1})
	w.Tick(1)
	return w
}

// A completed run is verified by the scheduler's entry, a worker of its pool, its source, its commands, its outcome: rows of the
// run's own ledger. BOUND-10 (where nothing is outstanding), BOUND-13, BOUND-14 (the allowance).
func TestCompletedRunIsVerified(t *testing.T) {
	w := completed(2)
	if !kernel.Verifiable(w.State) {
		t.Fatal("not due")
	}
	before := w.State
	a := w.Schedule()
	accepted(t, a)
	if got := kinds(a.Events); !slices.Equal(got, []string{"verification.admitted"}) {
		t.Fatalf("%v", got)
	}
	var receipt models.VerificationReceipt
	if err := canon.Unmarshal(a.Receipt, &receipt); err != nil || receipt.State != "admitted" || receipt.Round != before.Rounds || receipt.Seq != w.State.Head.Seq {
		t.Fatalf("%+v %v", receipt, err)
	}
	if e := kernel.Queue(w.State); e == nil || e.Pool != models.VerificationPool || kernel.Verifiable(w.State) {
		t.Fatalf("queue %+v", e)
	}
	if again := w.Schedule(); !again.Repeat {
		t.Fatalf("entered twice: %v", again.Refusal)
	}
	held(t, w.Candidate(world.Dana), models.CodeClaimLive, "queued", "true")
	refused(t, w.Claim(world.Worker), models.CodeNotInPool, "pool", models.VerificationPool)
	accepted(t, w.ClaimVerification())
	if kernel.Position(w.State, w.Now, w.Lease) != "completed" {
		t.Error("a verified run is not completed any more")
	}
	// In order: source, commands of the list and no more, outcome; nothing else.
	refused(t, w.Append(w.Ran(0)...), models.CodeFactOutOfOrder)
	refused(t, w.Append(models.VerificationFinished{Report: world.Blob("r")}), models.CodeFactOutOfOrder)
	refused(t, w.Append(models.SourcePrepared{Source: world.Plain("other")}), models.CodeSourceChanged)
	moved := w.Clone()
	moved.Record(models.RecordSource, "moved")
	refused(t, moved.Append(moved.Prepared()), models.CodeSourceChanged)
	w.MustAppend(w.Prepared())
	refused(t, w.Append(w.Prepared()), models.CodeFactOutOfOrder)
	for _, f := range append(w.Asked(), models.RoundCompleted{Round: w.State.Rounds + 1}, models.RunCompleted{Result: world.Blob("r"), Round: w.State.Rounds + 1},
		models.CommandStarted{Command: world.Blob("c"), Number: w.State.Budget.Spent.Commands + 1, Position: 0, Request: w.State.Custody.Turn.Request}) {
		refused(t, w.Append(f), models.CodeFactOutOfOrder)
	}
	w.MustAppend(w.Ran(0)...)
	refused(t, w.Append(models.VerificationFinished{Passed: true, Report: world.Blob("r")}), models.CodeFactOutOfOrder)
	w.MustAppend(w.Ran(0)[0])
	refused(t, w.Append(models.VerificationFinished{Report: world.Blob("r")}), models.CodeUnknownEffect)
	w.MustAppend(models.CommandFinished{Number: w.State.Budget.Spent.Commands, Receipt: world.Blob("r")})
	refused(t, w.Append(w.Ran(0)...), models.CodeFactOutOfOrder)
	w.MustAppend(models.VerificationFinished{Passed: true, Report: world.Blob("r")})
	v := w.State.Verification
	if v.State != models.VerificationStateFinished || !v.Passed || v.Round != before.Rounds || w.State.Lease.Live || kernel.Verifiable(w.State) || kernel.Queue(w.State) != nil {
		t.Errorf("%+v", v)
	}
	if n := w.State.Budget.Spent.Commands; n != before.Budget.Spent.Commands+2 || w.State.Rounds != before.Rounds || w.State.End != "completed" {
		t.Errorf("%d commands, round %d", n, w.State.Rounds)
	}
	refused(t, w.Do(world.Dana, "hand", models.AdmitVerification{Round: w.State.Rounds}), models.CodeVerificationNotDue)
	verify(t, w)

	failed := completed(1)
	failed.Verify(1)
	if v := failed.State.Verification; v.Passed || v.State != models.VerificationStateFinished {
		t.Errorf("%+v", v)
	}
	claimed := completed(1)
	claimed.Schedule()
	claimed.ClaimVerification()
	claimed.MustAppend(claimed.Prepared())
	claimed.MustAppend(claimed.Ran(3)...)
	refused(t, claimed.Append(models.VerificationFinished{Passed: true, Report: world.Blob("r")}), models.CodeFactOutOfOrder)
	verify(t, failed)
}

// outstanding are worlds with a ticket that is outstanding, by its state, of a run that has verification commands and rounds that
// were never verified.
func outstanding(t *testing.T) map[string]*world.World {
	t.Helper()
	held := func() *world.World {
		w := world.Executing(world.Verified(1))
		w.Stop()
		w.Admit("request-1")
		w.Tick(5)
		return w
	}
	claimed := held()
	claimed.MustClaim(world.Worker2)
	refusedTicket := claimed.Clone()
	refusedTicket.RefuseNext()
	refusedTicket.MustAppend(world.Failed())
	uncertain := claimed.Clone()
	uncertain.MustAppend(world.Failed())
	failed := held()
	failed.Tick(700)
	dead := claimed.Clone()
	dead.Tick(700)
	recovered := refusedTicket.Clone()
	recovered.Tick(30)
	recovered.Policy(func(p *models.Policy) { p.AllowPreAdmissionRecovery, p.AllowReadonlyObservationRecovery = true, true })
	recovered.Review()
	recovered.Must(world.Dana, "rec-b", recovered.Boundary(600))
	again := recovered.Clone()
	again.MustClaim(world.Worker2)
	again.RefuseNext()
	again.MustAppend(world.Failed())
	lost := recovered.Clone()
	lost.MustClaim(world.Worker2)
	lost.LoseRead()
	return map[string]*world.World{"queued": held(), "failed_unclaimed": failed, "refused": refusedTicket, "uncertain": uncertain,
		"claimed and over": dead, "requeued": recovered, "held": again, "observation_lost": lost}
}

// Beside an outstanding ticket the scheduler leaves one record and nothing else, and never comes again: not for the run's next
// round either. What the record stands beside is as it was, and the ticket's own recovery stays open to it. BOUND-10, BOUND-11,
// BOUND-12, BOUND-13; NOCLAIM-07 (the record is no later activity).
func TestVerificationIsRefusedBesideATicket(t *testing.T) {
	for state, w := range outstanding(t) {
		t.Run(state, func(t *testing.T) {
			if !w.State.Lease.Live && !kernel.Verifiable(w.State) {
				t.Fatal("not due")
			}
			before := w.State
			a := w.Schedule()
			accepted(t, a)
			last := a.Events[len(a.Events)-1].(models.VerificationRefused)
			if last.Code != models.CodeTicketOutstanding || last.CurrentEpoch.PolicyRevision != w.FactoryState.Policy.Revision {
				t.Fatalf("%+v", last)
			}
			for _, e := range a.Events[:len(a.Events)-1] {
				if e.Kind() != "lease.lapsed" {
					t.Fatalf("appended %v", kinds(a.Events))
				}
			}
			turn := before.Custody.Turn
			if now := w.State; now.Custody.Turn.Response != turn.Response || now.Custody.Digest != before.Custody.Digest || now.Counters() != before.Counters() ||
				!now.Verification.Stopped || kernel.Verifiable(now) {
				t.Errorf("%+v", now.Verification)
			}
			if again := w.Schedule(); !again.Repeat || string(again.Receipt) != string(a.Receipt) {
				t.Errorf("again: %v", again.Refusal)
			}
			check := unmoved(t, w)
			refused(t, w.Do(models.ServerActor, "verification-other", models.AdmitVerification{Round: w.State.Rounds}), models.CodeVerificationNotDue)
			refused(t, w.Do(world.Dana, "hand", models.AdmitVerification{Round: w.State.Rounds}), models.CodeTicketOutstanding)
			check()
			verify(t, w)
		})
	}
	w := outstanding(t)["failed_unclaimed"]
	accepted(t, w.Schedule())
	if c := w.RecoveryCandidate(world.Dana); !c.Eligible {
		t.Fatalf("after the record: %v", c.Holds)
	}
	w.Must(world.Dana, "rec-1", w.Recovery(600))
	w.MustClaim(world.Worker2)
	w.Turn()
	w.MustAppend(models.RunCompleted{Result: world.Blob("r"), Round: w.State.Rounds + 1})
	if kernel.Verifiable(w.State) {
		t.Fatal("scheduled after a refusal")
	}
	refused(t, w.Schedule(), models.CodeVerificationNotDue)
	// By hand it may still be done.
	accepted(t, w.Do(world.Omar, "hand", models.AdmitVerification{Round: w.State.Rounds}))
	accepted(t, w.ClaimVerification())
	verify(t, w)
}

// Everything else that stands against it is recorded by its own code, in the order of the table; by hand it is answered and saves
// nothing. BOUND-11, BOUND-03, BOUND-05.
func TestVerificationIsRefusedByName(t *testing.T) {
	for name, c := range map[string]struct {
		code   models.Code
		change func(*world.World)
	}{
		"source":        {models.CodeSourceChanged, func(w *world.World) { w.Record(models.RecordSource, "moved") }},
		"configuration": {models.CodeConfigurationChanged, func(w *world.World) { w.Record(models.RecordConfiguration, "moved") }},
		"scope":         {models.CodeScopeChanged, func(w *world.World) { w.Record(models.RecordScope, "moved") }},
		"actor":         {models.CodeActorLost, func(w *world.World) { w.Roles(world.Dana) }},
		"authority":     {models.CodeAuthorityRevoked, func(w *world.World) { w.Roles(world.Dana, models.RoleAdministrator) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := completed(1)
			c.change(w)
			check := unmoved(t, w)
			refused(t, w.Do(world.Omar, "hand", models.AdmitVerification{Round: w.State.Rounds}), c.code)
			check()
			a := w.Schedule()
			accepted(t, a)
			if r := a.Events[0].(models.VerificationRefused); r.Code != c.code {
				t.Fatalf("%+v", r)
			}
			verify(t, w)
		})
	}
	w := completed(12) // 11 of 22 are used
	a := w.Schedule()
	if r := a.Events[0].(models.VerificationRefused); r.Code != models.CodeAllowanceExhausted {
		t.Errorf("%+v", r)
	}
	w = world.Executing(world.Verified(1), func(g *models.Registration) {
		g.TimeBudget, g.ActiveDeadline = models.TimeBudgetAbsolute, world.Start.Add(1000)
	})
	w.Turn()
	w.MustAppend(models.RunCompleted{Result: world.Blob("r"), Round: w.State.Rounds + 1})
	w.Tick(1000)
	a = w.Schedule()
	if r := a.Events[0].(models.VerificationRefused); r.Code != models.CodeDeadlinePassed {
		t.Errorf("%+v", r)
	}
}

// When it is due: after a completed round, with nobody at work and nothing of the last turn open; a turn that waits for a person is
// left alone, for commands would be what holds it.
func TestWhenVerificationIsDue(t *testing.T) {
	none := world.Executing()
	none.Turn()
	none.MustAppend(models.RunCompleted{Result: world.Blob("r"), Round: none.State.Rounds + 1})
	refused(t, none.Schedule(), models.CodeVerificationNotDue, "what", "the run has no verification commands")
	live := world.Executing(world.Verified(1))
	refused(t, live.Schedule(), models.CodeClaimLive)
	held := world.Executing(world.Verified(1))
	held.Stop()
	fresh := world.New(true)
	fresh.Register(world.Verified(1))
	refused(t, fresh.Schedule(), models.CodeVerificationNotDue)
	for name, w := range map[string]*world.World{"none": none, "live": live, "held": held, "fresh": fresh} {
		if kernel.Verifiable(w.State) {
			t.Errorf("%s is due", name)
		}
	}
	refused(t, held.Schedule(), models.CodeVerificationNotDue, "what", "something of the last turn is open")
	if c := held.Candidate(world.Dana); !c.Eligible {
		t.Errorf("holds %v", c.Holds)
	}
	refused(t, held.Do(world.Dana, "v", models.AdmitVerification{Round: 1}), models.CodeVerificationNotDue, "what", "another round is the newest")
	refused(t, held.Do(world.Dana, "v", models.AdmitVerification{}), models.CodeRequestMalformed)
	refused(t, held.Do(world.Rita, "v", models.AdmitVerification{Round: 1}), models.CodeRoleMissing)
	refused(t, held.Do(world.Worker, "v", models.AdmitVerification{Round: 1}), models.CodeRoleMissing)
	cancelled := completed(1)
	cancelled.State.End = kernel.EndCancelled
	refused(t, cancelled.Schedule(), models.CodeRunCancelled)

	// Between rounds the run is verified, handed back where it was, and goes on.
	w := world.Executing(world.Verified(1))
	w.Must(world.Worker, "release", models.ReleaseRun{Fence: w.State.Lease.Fence, Pool: "gpu"})
	accepted(t, w.Schedule())
	refused(t, w.Do(world.Dana, "r", w.Request(600)), models.CodeClaimLive)
	accepted(t, w.ClaimVerification())
	refused(t, w.Do(world.Worker2, "give", models.ReleaseRun{Fence: w.State.Lease.Fence, Pool: models.VerificationPool}), models.CodeRequestMalformed)
	w.MustAppend(w.Prepared())
	w.MustAppend(w.Ran(0)...)
	w.MustAppend(models.VerificationFinished{Passed: true, Report: world.Blob("r")})
	if e := kernel.Queue(w.State); e == nil || e.Pool != "gpu" {
		t.Errorf("queue %+v", e)
	}
	accepted(t, w.Do(world.Worker, "on", models.ClaimRun{LeaseSeconds: 600, Pool: "gpu"}))
	w.Round()
	w.MustAppend(world.Failed())
	if !kernel.Verifiable(w.State) {
		t.Error("the next round is not due")
	}
	for _, f := range []models.Fact{w.Prepared(), models.VerificationFinished{Report: world.Blob("r")}} {
		live := world.Executing(world.Verified(1))
		refused(t, live.Append(f), models.CodeFactOutOfOrder)
	}
	verify(t, w)
}

// A verification whose owner is lost is not taken up again by itself, its open command stays unknown until a person settles it, and
// cancellation ends it: the boundaries of every other claim. BOUND-08, BOUND-14, BOUND-02, BOUND-04.
func TestVerificationKeepsTheBoundaries(t *testing.T) {
	w := completed(2)
	accepted(t, w.Schedule())
	accepted(t, w.ClaimVerification())
	w.MustAppend(w.Prepared())
	w.MustAppend(w.Ran(0)[0])
	open := w.State.Head.Seq
	end, r := kernel.Renew(w.State, w.State.Lease.Fence, 900, w.Env(world.Worker2, "n", models.Append{}))
	if r != nil || end != w.Now.Add(900) {
		t.Fatalf("renewed to %d: %v", end, r)
	}
	w.Now = w.Lease
	refused(t, w.Append(models.CommandFinished{Number: w.State.Budget.Spent.Commands, Receipt: world.Blob("r")}), models.CodeLeaseExpired)
	if kernel.Queue(w.State) != nil || kernel.Reclaimable(w.State) != 0 || kernel.Verifiable(w.State) {
		t.Error("announced again")
	}
	if again := w.Schedule(); !again.Repeat {
		t.Errorf("%v", again.Refusal)
	}
	refused(t, w.Do(world.Dana, "hand", models.AdmitVerification{Round: w.State.Rounds}), models.CodeVerificationNotDue)
	w.Must(world.Omar, "settle", world.Settle(models.SubjectCommand, open, models.OutcomeChargedUnknown))
	if w.State.Verification.State != models.VerificationStateLost || kernel.Verifiable(w.State) {
		t.Errorf("%+v", w.State.Verification)
	}
	accepted(t, w.Do(world.Dana, "hand-2", models.AdmitVerification{Round: w.State.Rounds}))
	accepted(t, w.ClaimVerification())
	w.MustAppend(world.Failed())
	if w.State.Verification.State != models.VerificationStateLost || kernel.Verifiable(w.State) {
		t.Errorf("%+v", w.State.Verification)
	}
	verify(t, w)

	w = world.Executing(world.Verified(1))
	w.MustAppend(world.Failed())
	accepted(t, w.Schedule())
	accepted(t, w.ClaimVerification())
	w.Must(world.Omar, "cancel", models.CancelRun{})
	refused(t, w.Append(w.Prepared()), models.CodeRunCancelled)
	verify(t, w)
}

// A registration's list and its length stand together.
func TestVerificationList(t *testing.T) {
	w := world.New(true)
	for _, v := range []models.Verification{{Commands: 1}, {List: world.Blob("l")}, {Commands: -1, List: world.Blob("l")}} {
		g := w.Registration()
		g.Verification = v
		refused(t, w.Do(world.Dana, "registration", models.RegisterRun{Registration: g}), models.CodeRequestMalformed, "member", "verification")
	}
	a := w.Do(world.Dana, "registration", models.RegisterRun{Registration: func() models.Registration {
		g := w.Registration()
		world.Verified(3)(&g)
		return g
	}()})
	accepted(t, a)
	if !slices.Contains(a.Rows[0].Blobs, world.Blob("verification list")) {
		t.Error("the list is no blob of the row")
	}
}
