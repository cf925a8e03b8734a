package kernel_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/kernel/policy"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/proptest/world"
	"pgregory.net/rapid"
)

// FLOW-01
func TestOnlyAnAdministratorSetsThePolicy(t *testing.T) {
	w := world.New(true)
	put := models.PutPolicy{Policy: world.Enabled(), Replaces: 1}
	put.Policy.Revision = 0
	for _, who := range []string{world.Omar, world.Rita, world.Worker} {
		check := unmoved(t, w)
		refused(t, w.DoFactory(who, "p", put), models.CodeRoleMissing, "role", "administrator")
		check()
	}
	refused(t, w.DoFactory("stranger", "p", put), models.CodeIdentityMissing)
	w.Roles(world.Dana, models.RoleOperator)
	refused(t, w.DoFactory(world.Dana, "p", put), models.CodeRoleMissing)
	if got := w.FactoryState.Policy.Revision; got != 1 {
		t.Errorf("revision %d", got)
	}
	accepted(t, w.DoFactory(world.Root, "p", put))
}

// FLOW-02
func TestPolicyIsVersioned(t *testing.T) {
	w := world.New(true)
	w.Policy(func(p *models.Policy) { p.MaxTicketsPerRun = 60 })
	w.Policy(func(p *models.Policy) { p.MaxTicketsPerRun = 70 })
	if got := w.FactoryState.Policy.Revision; got != 3 {
		t.Fatalf("revision %d", got)
	}
	for _, replaces := range []int64{0, 1, 2, 4, -1} {
		p := world.Enabled()
		refused(t, w.DoFactory(world.Root, "p", models.PutPolicy{Policy: p, Replaces: replaces}), models.CodeRevisionStale, "want", "3")
	}
	p := world.Enabled()
	p.Revision = 2
	refused(t, w.DoFactory(world.Root, "p", models.PutPolicy{Policy: p, Replaces: 3}), models.CodeRequestMalformed, "member", "revision")
	p.Revision, p.Version = 0, 2
	refused(t, w.DoFactory(world.Root, "p", models.PutPolicy{Policy: p, Replaces: 3}), models.CodeRequestMalformed, "member", "version")

	// Earlier revisions stay readable in the journal, and rows and receipts name theirs.
	seen := map[int64]int64{}
	for _, r := range w.FactoryRows {
		if e, err := models.DecodeEvent(r.Kind, r.Payload); err == nil {
			if put, ok := e.(models.PolicyPut); ok {
				seen[put.Policy.Revision] = put.Policy.MaxTicketsPerRun
			}
		}
	}
	if len(seen) != 4 || seen[1] != 50 || seen[2] != 60 || seen[3] != 70 {
		t.Errorf("revisions in the journal: %v", seen)
	}
	w = world.Queued()
	var r models.ContinuityReceipt
	if err := canon.Unmarshal(w.Receipts["request/request-1"].Body, &r); err != nil {
		t.Fatal(err)
	}
	if r.CurrentEpoch != (models.CurrentEpoch{PolicyDigest: w.FactoryState.PolicyDigest, PolicyRevision: 1}) {
		t.Errorf("receipt names policy %v", r.CurrentEpoch)
	}
}

// FLOW-03, FLOW-32, and the defaults of OBS-06, REFUSED-03 and ROBS-03
func TestFreshPolicy(t *testing.T) {
	w := world.Empty()
	w.MustFactory(world.Root, models.CreateFactory{Fixture: true})
	want := models.Policy{Version: 1, MaxTicketsPerRun: 50, MaxPendingTickets: 500}
	if w.FactoryState.Policy != want {
		t.Errorf("fresh policy %+v", w.FactoryState.Policy)
	}
	w = world.Held()
	w.Policy(func(p *models.Policy) {
		*p = models.Policy{Version: 1, Revision: p.Revision, MaxTicketsPerRun: 50, MaxPendingTickets: 500}
	})
	check := unmoved(t, w)
	held(t, w.Candidate(world.Dana), models.CodePolicyDisabled)
	refused(t, w.Do(world.Dana, "r", w.Request(600)), models.CodePolicyDisabled)
	check()
}

// FLOW-04
func TestWindowAndBoundsAreMembersOfThePolicy(t *testing.T) {
	text := string(canon.MustMarshal(models.DefaultPolicy()))
	for _, member := range []string{`"max_valid_for_seconds":0`, `"max_tickets_per_run":50`, `"max_pending_tickets":500`} {
		if !strings.Contains(text, member) {
			t.Errorf("%s lacks %s", text, member)
		}
	}
}

// FLOW-05 at the kernel: what stands is what was put, with the revision made and a digest over both.
func TestPolicyReadsBackAsPut(t *testing.T) {
	w := world.New(true)
	p := models.Policy{
		AllowPreAdmissionRecovery: true, AllowReadonlyObservationRecovery: true, AllowUnavailableSourceObservations: true, Enabled: true,
		MaxPendingTickets: 7, MaxTicketsPerRun: 3, MaxValidForSeconds: 42, Version: 1,
	}
	accepted(t, w.DoFactory(world.Root, "p", models.PutPolicy{Policy: p, Replaces: 1}))
	p.Revision = 2
	if w.FactoryState.Policy != p || w.FactoryState.PolicyDigest != policy.Digest(world.Factory, p) {
		t.Errorf("stands %+v", w.FactoryState.Policy)
	}
	q := p
	q.Revision = 3
	if policy.Digest(world.Factory, q) == policy.Digest(world.Factory, p) || policy.Digest("other", p) == policy.Digest(world.Factory, p) {
		t.Error("the digest does not cover revision and factory")
	}
	f, r := w.History().At(kernel.FactoryHead(w.FactoryState))
	if r != nil || f.Policy != p {
		t.Errorf("replayed %+v, %v", f.Policy, r)
	}
}

// FLOW-07 and FLOW-15: six parts, holds in order of precedence, each with its two sentences.
func TestCandidateShowsSixParts(t *testing.T) {
	w := world.Held()
	c := w.Candidate(world.Dana)
	if c.PolicyRevision != 1 || c.PolicyDigest != w.FactoryState.PolicyDigest || c.Proof.IsZero() || c.Profile != "p1" ||
		c.SourceDigest.IsZero() || c.CustodyDigest != w.State.Custody.Digest || c.Holds == nil && len(c.Holds) != 0 {
		t.Errorf("candidate %s", canon.MustMarshal(c))
	}
	if c.PermittedSeconds != 1800 || c.ConsumedGraph.IsZero() || c.Counters != w.State.Counters() || c.RunDigest != w.State.RunDigest() {
		t.Errorf("candidate %s", canon.MustMarshal(c))
	}

	w = siblings()
	w.State.Registration.Mode, w.State.Registration.TimeBudget = "best-effort", "sliding"
	w.State.Budget.Limits.Requests = 0
	w.Policy(func(p *models.Policy) { p.Enabled = false })
	w.MustFactory(world.Root, models.RetireProfile{ID: "p1"})
	w.Record(models.RecordSource, "moved")
	w.Record(models.RecordConfiguration, "moved")
	w.Record(models.RecordScope, "moved")
	w.Roles(world.Dana, models.RoleAdministrator)
	w.Sandbox(func(r *models.Reconstruction) {
		r.Version = 0
		for _, code := range []models.Code{models.CodeContractChanged, models.CodeQueryValid, models.CodeSourceUnregistered, models.CodeSiblingPresent} {
			r.Holds = append(r.Holds, models.SandboxHold{Code: code})
		}
	})
	w.Roles(world.Omar, models.RoleAdministrator, models.RoleOperator)
	c = w.Candidate(world.Omar)
	want := []models.Code{
		models.CodePolicyDisabled, models.CodeProfileUnqualified, models.CodeActorNotOriginal, models.CodeAuthorityRevoked,
		models.CodeCheckpointModeUnsupported, models.CodeJournalBroken, models.CodeUnknownEffect,
		models.CodeSourceChanged, models.CodeConfigurationChanged, models.CodeScopeChanged, models.CodeSourceUnregistered,
		models.CodeSiblingPresent, models.CodeQueryValid, models.CodeContractChanged, models.CodeTimeBudgetUnsupported, models.CodeAllowanceExhausted,
	}
	if got := holds(c); !slices.Equal(got, want) {
		t.Errorf("holds\n%v\nwant\n%v", got, want)
	}
	for i, h := range c.Holds {
		if h.Message == "" || h.Next == "" {
			t.Errorf("%s says nothing", h.Code)
		}
		if i > 0 && models.Precedence(c.Holds[i-1].Code) > models.Precedence(h.Code) {
			t.Errorf("%s stands after %s", h.Code, c.Holds[i-1].Code)
		}
	}
	refused(t, w.Do(world.Omar, "r", w.Request(600)), want[0])
}

// FLOW-08
func TestCandidateClaimsNothing(t *testing.T) {
	w := world.Held()
	before := w.State.Encode()
	check := unmoved(t, w)
	env := w.Env(world.Dana, "candidate", models.RequestContinuity{})
	for range 1000 {
		kernel.Candidate(w.State, env)
	}
	check()
	if !bytes.Equal(before, w.State.Encode()) || w.State.Lease.Live {
		t.Error("a read changed the state")
	}
}

// FLOW-09
func TestEachDigestIsExact(t *testing.T) {
	w := world.Held()
	for name, change := range map[string]func(*models.RequestContinuity){
		"candidate": func(c *models.RequestContinuity) { c.CandidateDigest[3] ^= 1 },
		"run":       func(c *models.RequestContinuity) { c.RunDigest[3] ^= 1 },
		"journal":   func(c *models.RequestContinuity) { c.JournalDigest[3] ^= 1 },
		"policy":    func(c *models.RequestContinuity) { c.PolicyDigest[3] ^= 1 },
	} {
		for _, none := range []bool{false, true} {
			c := w.Request(600)
			change(&c)
			if none {
				c = without(c, name)
			}
			check := unmoved(t, w)
			refused(t, w.Do(world.Dana, "r", c), models.CodeDigestStale, "digest", name)
			check()
		}
	}
	// The candidate digest is compared last of all: another hold answers first.
	c := w.Request(600)
	c.CandidateDigest = models.Digest{}
	w.Pending = 500
	refused(t, w.Do(world.Dana, "r", c), models.CodePendingTicketsReached)
	w.Pending = 0
	accepted(t, w.Do(world.Dana, "r", w.Request(600)))
}

func without(c models.RequestContinuity, digest string) models.RequestContinuity {
	switch digest {
	case "candidate":
		c.CandidateDigest = models.Digest{}
	case "run":
		c.RunDigest = models.Digest{}
	case "journal":
		c.JournalDigest = models.Digest{}
	case "policy":
		c.PolicyDigest = models.Digest{}
	}
	return c
}

// What the candidate digest covers (rules O22): each part changes it.
func TestCandidateDigestCoversEachPart(t *testing.T) {
	base := world.Held().Candidate(world.Dana).CandidateDigest
	seen := map[models.Digest]string{base: "the canonical run"}
	for name, change := range map[string]func(*world.World){
		"proof":    func(w *world.World) { w.Sandbox(func(r *models.Reconstruction) { r.Proof = world.Blob("x") }) },
		"derived":  func(w *world.World) { w.Sandbox(func(r *models.Reconstruction) { r.Derived = world.Blob("x") }) },
		"contract": func(w *world.World) { w.Sandbox(func(r *models.Reconstruction) { r.Contract = world.Blob("x") }) },
		"witness":  func(w *world.World) { w.Sandbox(func(r *models.Reconstruction) { r.Witness = world.Blob("x") }) },
		"closing":  func(w *world.World) { w.Sandbox(func(r *models.Reconstruction) { r.Closing[0].Position = 1 }) },
		"version":  func(w *world.World) { w.Sandbox(func(r *models.Reconstruction) { r.Version = 2 }) },
		"module":   func(w *world.World) { w.Host.Module = world.Plain("x") },
		"catalogue": func(w *world.World) {
			w.Host.Catalogue = world.Plain("x")
		},
		"policy": func(w *world.World) { w.Policy(func(p *models.Policy) { p.MaxTicketsPerRun = 9 }) },
		"profile": func(w *world.World) {
			p := w.Profile("p2")
			w.MustFactory(world.Root, models.RetireProfile{ID: "p1"})
			w.MustFactory(world.Root, models.RegisterProfile{Profile: p})
		},
		"journal": func(w *world.World) { w.State.Head.Hash = world.Plain("x") },
		"custody": func(w *world.World) { w.State.Custody.Digest = world.Plain("x") },
		"source":  func(w *world.World) { w.State.Registration.Source.Revision = 9 },
		"run":     func(w *world.World) { w.State.Registered = world.Plain("x") },
		"attempt": func(w *world.World) { w.State.Attempt = 2 },
		"graph":   func(w *world.World) { w.State.Custody.Turn.ConsumeSeq++ },
	} {
		w := world.Held()
		change(w)
		d := w.Candidate(world.Dana).CandidateDigest
		if other, ok := seen[d]; ok {
			t.Errorf("the digest of %s is that of %s", name, other)
		}
		seen[d] = name
	}
}

// FLOW-10
func TestWindowOfTheRequestIsBounded(t *testing.T) {
	w := world.Held()
	for _, seconds := range []models.Seconds{0, -1, 1801, 7201, 1 << 40, -1 << 62} {
		check := unmoved(t, w)
		refused(t, w.Do(world.Dana, "r", w.Request(seconds)), models.CodeWindowInvalid, "limit", "1800")
		check()
	}
	accepted(t, w.Do(world.Dana, "r", w.Request(1800)))
	// With the policy off, the bound of the protocol is still judged first.
	w = world.Held()
	w.Policy(func(p *models.Policy) { p.Enabled = false })
	for _, seconds := range []models.Seconds{0, 7201} {
		refused(t, w.Do(world.Dana, "r", w.Request(seconds)), models.CodeWindowInvalid, "limit", "7200")
	}
	for _, seconds := range []models.Seconds{1, 7200} {
		refused(t, w.Do(world.Dana, "r", w.Request(seconds)), models.CodePolicyDisabled)
	}
}

// FLOW-11
func TestEveryAcknowledgementIsNeeded(t *testing.T) {
	for mask := range 7 {
		w := world.Held()
		c := w.Request(600)
		c.AcknowledgeNoNewGrant, c.AcknowledgeOriginalConsumption, c.AcknowledgeRenewedSameAttemptLease = mask&1 != 0, mask&2 != 0, mask&4 != 0
		want := "acknowledge_renewed_same_attempt_lease"
		switch {
		case mask&1 == 0:
			want = "acknowledge_no_new_grant"
		case mask&2 == 0:
			want = "acknowledge_original_consumption"
		}
		check := unmoved(t, w)
		refused(t, w.Do(world.Dana, "r", c), models.CodeAcknowledgementMissing, "acknowledgement", want)
		check()
	}
}

// FLOW-13, the saved half
func TestIdenticalRequestHasItsReceipt(t *testing.T) {
	w := world.Held()
	body := w.Request(600)
	first := w.Do(world.Dana, "r", body)
	accepted(t, first)
	check := unmoved(t, w)
	again := w.Do(world.Dana, "r", body)
	if !again.Repeat || !bytes.Equal(again.Receipt, first.Receipt) {
		t.Fatalf("repeat: %+v", again)
	}
	check()
	// As a fact about the past it is answered whatever has become of policy, profile, role and lease since.
	w.Policy(func(p *models.Policy) { p.Enabled = false })
	w.MustFactory(world.Root, models.RetireProfile{ID: "p1"})
	w.Roles(world.Dana, models.RoleReader)
	w.Tick(100_000)
	if again = w.Do(world.Dana, "r", body); !again.Repeat || !bytes.Equal(again.Receipt, first.Receipt) {
		t.Fatalf("repeat after everything changed: %+v", again)
	}
	w.Roles(world.Dana)
	refused(t, w.Do(world.Dana, "r", body), models.CodeIdentityMissing)

	w = world.Held()
	accepted(t, w.Do(world.Dana, "r", body))
	check = unmoved(t, w)
	other := body
	other.ValidForSeconds = 599
	refused(t, w.Do(world.Dana, "r", other), models.CodeRequestConflict, "id", "r")
	refused(t, w.Do(world.Omar, "r", body), models.CodeRequestConflict)
	refused(t, w.Do(world.Rita, "r", body), models.CodeRoleMissing)
	check()
}

// FLOW-14
func TestGraphHasOneTicketEver(t *testing.T) {
	w := world.Queued()
	check := unmoved(t, w)
	held(t, w.Candidate(world.Dana), models.CodeGraphHasTicket, "request_id", "request-1")
	refused(t, w.Do(world.Dana, "request-2", w.Request(600)), models.CodeGraphHasTicket, "request_id", "request-1")
	check()
	for _, later := range []func(*world.World){
		func(w *world.World) { w.Tick(10_000) },
		func(w *world.World) { w.MustClaim(world.Worker2); w.MustAppend(world.Failed()) },
		func(w *world.World) { w.Must(world.Dana, "cancel", models.CancelRun{}) },
	} {
		w := world.Queued()
		later(w)
		refused(t, w.Do(world.Dana, "request-2", w.Request(600)), models.CodeGraphHasTicket)
	}
}

// A later stop of the same run is another graph and may have its own ticket once the first has ended (rules O31).
func TestLaterGraphGetsItsOwnTicket(t *testing.T) {
	w := world.Continuing()
	w.Stop()
	accepted(t, w.Do(world.Dana, "request-2", w.Request(600)))
	if n := len(w.State.Tickets.Tickets); n != 2 {
		t.Errorf("%d tickets", n)
	}
	verify(t, w)
}

// FLOW-17
func TestOnlyAHeldRun(t *testing.T) {
	running := world.Executing()
	running.Turn(world.Call{Class: models.ClassEvidenceRead, Refused: true})
	held(t, running.Candidate(world.Dana), models.CodeRunNotHeld, "executing", "true")
	refused(t, running.Do(world.Dana, "r", running.Request(600)), models.CodeRunNotHeld)

	done := world.Executing()
	done.Turn()
	done.MustAppend(models.RunCompleted{Result: world.Blob("result"), Round: 7})
	held(t, done.Candidate(world.Dana), models.CodeRunNotHeld, "ended", "true")
	refused(t, done.Do(world.Dana, "r", done.Request(600)), models.CodeRunNotHeld)

	gone := world.Held()
	gone.Must(world.Omar, "cancel", models.CancelRun{})
	held(t, gone.Candidate(world.Dana), models.CodeRunCancelled)
	refused(t, gone.Do(world.Dana, "r", gone.Request(600)), models.CodeRunCancelled)

	none := world.New(true)
	refused(t, none.Do(world.Dana, "r", models.RequestContinuity{Version: 1}), models.CodeNotFound)
}

// FLOW-17, the attempt: what was read of an earlier attempt is named as such.
func TestExactAttempt(t *testing.T) {
	w := world.Executing()
	first := w.State.RunDigest()
	w.MustAppend(models.RunFailed{Report: world.Blob("r")})
	w.Must(world.Dana, "retry", models.RetryRun{})
	w.MustClaim(world.Worker)
	w.Stop()
	c := w.Request(600)
	c.RunDigest = first
	check := unmoved(t, w)
	refused(t, w.Do(world.Dana, "r", c), models.CodeAttemptMismatch, "attempt", "2")
	c.RunDigest = world.Plain("x")
	refused(t, w.Do(world.Dana, "r", c), models.CodeDigestStale, "digest", "run")
	check()
	accepted(t, w.Do(world.Dana, "r", w.Request(600)))
	if m := w.Candidate(world.Dana); m.Attempt != 2 {
		t.Errorf("attempt %d", m.Attempt)
	}
}

// The original actor alone admits (rules O20); FLOW-16 and EPOCH-05 at the kernel.
func TestOnlyTheOriginalActorAdmits(t *testing.T) {
	w := world.Held()
	check := unmoved(t, w)
	held(t, w.Candidate(world.Omar), models.CodeActorNotOriginal)
	refused(t, w.Do(world.Omar, "r", w.Request(600)), models.CodeActorNotOriginal)
	refused(t, w.Do(world.Rita, "r", w.Request(600)), models.CodeRoleMissing)
	refused(t, w.Do("stranger", "r", w.Request(600)), models.CodeIdentityMissing)
	check()
	w.Roles(world.Dana, models.RoleAdministrator)
	refused(t, w.Do(world.Dana, "r", w.Request(600)), models.CodeRoleMissing)
	held(t, w.Candidate(world.Omar), models.CodeAuthorityRevoked)
	w.Roles(world.Dana)
	held(t, w.Candidate(world.Omar), models.CodeActorLost)
}

// FLOW-18
func TestSourceAndConfigurationAreUnchanged(t *testing.T) {
	for kind, code := range changedCodes {
		w := world.Held()
		w.Record(kind, "moved")
		check := unmoved(t, w)
		held(t, w.Candidate(world.Dana), code, "record", "main")
		refused(t, w.Do(world.Dana, "r", w.Request(600)), code)
		check()
		w.Record(kind, kind) // back to what the run froze
		accepted(t, w.Do(world.Dana, "r", w.Request(600)))
	}
	// A run is registered on the records as they are.
	for kind, code := range changedCodes {
		w := world.New(true)
		g := w.Registration()
		w.Record(kind, "moved")
		refused(t, w.Do(world.Dana, "registration", models.RegisterRun{Registration: g}), code)
	}
}

var changedCodes = map[string]models.Code{
	models.RecordSource: models.CodeSourceChanged, models.RecordConfiguration: models.CodeConfigurationChanged,
	models.RecordScope: models.CodeScopeChanged,
}

// FLOW-19
func TestNoNativeClaimIsQueuedOrExecuting(t *testing.T) {
	queued := world.New(true)
	queued.Register()
	held(t, queued.Candidate(world.Dana), models.CodeClaimLive, "queued", "true")
	refused(t, queued.Do(world.Dana, "r", queued.Request(600)), models.CodeClaimLive)

	executing := world.Executing()
	executing.Turn(world.Call{Class: models.ClassEvidenceRead, Refused: true})
	held(t, executing.Candidate(world.Dana), models.CodeClaimLive, "executing", "true")

	ticket := world.Queued()
	held(t, ticket.Candidate(world.Dana), models.CodeClaimLive, "queued", "true")
	held(t, ticket.Candidate(world.Dana), models.CodeTicketOutstanding)
	ticket.Tick(600) // nobody may claim it any more
	if got := holds(ticket.Candidate(world.Dana)); slices.Contains(got, models.CodeClaimLive) || !slices.Contains(got, models.CodeTicketOutstanding) {
		t.Errorf("holds %v", got)
	}
}

// FLOW-20, FLOW-23, FLOW-24
func TestAdmissionQueuesAndClaimsNothing(t *testing.T) {
	w := world.Held()
	fence, head := w.State.Lease.Fence, w.State.Head.Seq
	a := w.Admit("r")
	if got := kinds(a.Events); !slices.Equal(got, []string{"migration.settled", "lease.granted"}) {
		t.Fatalf("rows %v", got)
	}
	if a.Rows[0].Seq != head+1 || a.Rows[1].Seq != head+2 || a.Rows[0].Cmd != a.Rows[1].Cmd || a.Rows[0].N != 2 {
		t.Errorf("rows %d and %d of %d", a.Rows[0].Seq, a.Rows[1].Seq, a.Rows[0].N)
	}
	l := w.State.Lease
	if l.Live || !l.Granted || l.Owner != world.Worker || l.Fence != fence || l.RequestID != "r" {
		t.Errorf("lease %+v", l)
	}
	entry := kernel.Queue(w.State)
	if entry == nil || entry.Request != "r" || entry.Expires != w.Now.Add(600) {
		t.Errorf("queue entry %+v", entry)
	}
	if kernel.Queue(world.Held().State) != nil || kernel.Queue(world.Continuing().State) != nil {
		t.Error("a queue entry without a queued ticket")
	}
	refused(t, w.Do(world.Worker, "b", models.Append{Facts: []models.Fact{world.Failed()}, Fence: fence}), models.CodeFenceLost)
	verify(t, w)
}

// FLOW-21
func TestContinuationKeepsOwnershipChecks(t *testing.T) {
	w := world.Continuing()
	l := w.State.Lease
	facts := w.Asked()
	check := unmoved(t, w)
	refused(t, w.Do(world.Worker, "b", models.Append{Facts: facts, Fence: l.Fence - 1}), models.CodeFenceLost)
	refused(t, w.Do(world.Worker, "b", models.Append{Facts: facts, Fence: l.Fence}), models.CodeFenceLost)
	refused(t, w.Do(world.Worker2, "b", models.Append{Facts: facts, Fence: l.Fence + 1}), models.CodeFenceLost)
	refused(t, w.Do(world.Worker2, "b", models.Append{Facts: facts}), models.CodeFenceLost)
	refused(t, w.Do(world.Dana, "b", models.Append{Facts: facts, Fence: l.Fence}), models.CodeRoleMissing)
	refused(t, w.Claim(world.Worker), models.CodeClaimLive)
	check()
	accepted(t, w.Do(world.Worker2, "b", models.Append{Facts: facts, Fence: l.Fence}))
}

// FLOW-25
func TestOldClaimStaysAsItWas(t *testing.T) {
	w := world.Held()
	before := slices.Clone(w.Rows)
	w.Admit("r")
	for i := range before {
		if before[i].Hash != w.Rows[i].Hash || !bytes.Equal(before[i].Payload, w.Rows[i].Payload) || before[i].At != w.Rows[i].At {
			t.Fatalf("row %d changed", i+1)
		}
	}
}

// FLOW-26, for every combination of policy window, frozen timeout, active deadline and request.
func leaseWindow(t *rapid.T) {
	window := rapid.Int64Range(1, 7200).Draw(t, "policy window")
	timeout := rapid.Int64Range(1, 7200).Draw(t, "provider timeout")
	asked := rapid.OneOf(rapid.Int64Range(1, min(window, timeout)), rapid.Int64Range(-1, 8000)).Draw(t, "valid for")
	left := rapid.OneOf(rapid.Int64Range(-2_000_000, 2_000_000), rapid.Map(rapid.Int64Range(-10, 8000), func(s int64) int64 { return s * 1_000_000 })).Draw(t, "deadline left in µs")
	absolute := rapid.Bool().Draw(t, "has a deadline")
	w := template.Clone()
	w.Policy(func(p *models.Policy) { p.MaxValidForSeconds = models.Seconds(window) })
	w.State.Registration.ProviderTimeout = models.Seconds(timeout)
	deadline := w.Now + models.Instant(left)
	if absolute {
		w.State.Registration.TimeBudget, w.State.Registration.ActiveDeadline = models.TimeBudgetAbsolute, deadline
	}
	env := w.Env(world.Dana, "r", models.RequestContinuity{})
	events, r := kernel.Decide(w.State, "r", w.Request(models.Seconds(asked)), env)
	switch {
	case asked < 1 || asked > min(window, timeout, 7200):
		is(t, r, models.CodeWindowInvalid, "limit", fmt.Sprint(min(window, timeout)))
	case absolute && left <= 0:
		is(t, r, models.CodeDeadlinePassed)
	case r != nil:
		t.Fatalf("refused %v", r)
	default:
		want := w.Now.Add(models.Seconds(asked))
		if absolute && deadline < want {
			want = deadline
		}
		got := events[len(events)-1].(models.LeaseGranted)
		if got.ExpiresAt != want || got.ExpiresAt <= w.Now || got.Seconds != models.Seconds((want-w.Now)/1_000_000) {
			t.Fatalf("lease %+v, want until %d", got, want)
		}
	}
}

var template = func() *world.World {
	w := world.Held()
	w.Trust = true
	return w
}()

func TestLeaseWindow(t *testing.T) { rapid.Check(t, leaseWindow) }
func FuzzLeaseWindow(f *testing.F) { f.Fuzz(rapid.MakeFuzz(leaseWindow)) }

// FLOW-26 and FLOW-22: an ordinary claim has the same bounds but for the policy, which cannot lengthen it.
func TestOrdinaryClaimKeepsItsOwnBounds(t *testing.T) {
	deadline := world.Start.Add(1000)
	w := world.New(true)
	w.Policy(func(p *models.Policy) { p.MaxValidForSeconds = 7200 })
	w.Register(func(g *models.Registration) {
		g.TimeBudget, g.ActiveDeadline, g.ProviderTimeout = models.TimeBudgetAbsolute, deadline, 300
	})
	claim := func(seconds models.Seconds) world.Answer {
		return w.Clone().Do(world.Worker, "c", models.ClaimRun{LeaseSeconds: seconds})
	}
	for _, seconds := range []models.Seconds{0, -1, 7201} {
		refused(t, claim(seconds), models.CodeWindowInvalid)
	}
	if g := claim(7200).Events[0].(models.LeaseGranted); g.ExpiresAt != w.Now.Add(300) || g.Seconds != 300 {
		t.Errorf("timeout: %+v", g)
	}
	if g := claim(20).Events[0].(models.LeaseGranted); g.ExpiresAt != w.Now.Add(20) {
		t.Errorf("asked: %+v", g)
	}
	w.Now = deadline.Add(-100)
	if g := claim(7200).Events[0].(models.LeaseGranted); g.ExpiresAt != deadline || g.Seconds != 100 {
		t.Errorf("deadline: %+v", g)
	}
	w.Now = deadline
	refused(t, claim(7200), models.CodeDeadlinePassed)
}

// FLOW-26: the candidate shows that no active time remains, from the very instant on.
func TestCandidateShowsAPassedDeadline(t *testing.T) {
	deadline := world.Start.Add(2000)
	w := world.Held(func(g *models.Registration) { g.TimeBudget, g.ActiveDeadline = models.TimeBudgetAbsolute, deadline })
	whole := w.Candidate(world.Dana)
	for left, want := range map[models.Instant]models.Seconds{1900_000_000: 1800, 1800_000_000: 1800, 1799_999_999: 1799, 22_755_000: 22, 1: 0} {
		w.Now = deadline - left
		c := w.Candidate(world.Dana)
		if !c.Eligible {
			t.Errorf("held by %v", holds(c))
		}
		// The window of this moment, in no digest (O22, O28).
		if c.PermittedSeconds != want || c.CandidateDigest != whole.CandidateDigest {
			t.Errorf("%d us before the end: %d s, want %d", left, c.PermittedSeconds, want)
		}
	}
	w.Now = deadline
	held(t, w.Candidate(world.Dana), models.CodeDeadlinePassed)
	if c := w.Candidate(world.Dana); c.PermittedSeconds != 0 {
		t.Errorf("%d s after the end", c.PermittedSeconds)
	}
	refused(t, w.Do(world.Dana, "r", w.Request(600)), models.CodeDeadlinePassed)
}

// FLOW-27
func TestUnknownTimeBudgetRefuses(t *testing.T) {
	w := world.New(true)
	w.Register(func(g *models.Registration) { g.TimeBudget = "sliding" })
	held(t, w.Candidate(world.Dana), models.CodeTimeBudgetUnsupported, "protocol", "sliding")
	refused(t, w.Claim(world.Worker), models.CodeTimeBudgetUnsupported)
	w = world.Held()
	w.State.Registration.TimeBudget, w.Trust = "sliding", true
	refused(t, w.Do(world.Dana, "r", w.Request(600)), models.CodeTimeBudgetUnsupported)
}

// FLOW-28, FLOW-29, FLOW-38, FLOW-40
func TestAdmissionMovesNoCounter(t *testing.T) {
	w := world.Held()
	before, limits := w.State.Counters(), w.State.Registration.Limits
	if before.Commands != 11 || before.Limits.Commands != 22 || before.CompletedRounds != 6 {
		t.Fatalf("the canonical run stands at %+v", before)
	}
	for range 3 {
		w.Candidate(world.Dana)
	}
	body := w.Request(600)
	w.Must(world.Dana, "r", body)
	w.Do(world.Dana, "r", body)
	if w.State.Counters() != before || w.State.Registration.Limits != limits || w.State.Registration.Attempt != 1 {
		t.Errorf("after admission %+v", w.State.Counters())
	}
	var r models.ContinuityReceipt
	if err := canon.Unmarshal(w.Receipts["request/r"].Body, &r); err != nil || r.Counters != before {
		t.Errorf("receipt says %+v, %v", r.Counters, err)
	}
	w.MustClaim(world.Worker2)
	if w.State.Counters() != before {
		t.Errorf("after the claim %+v", w.State.Counters())
	}
}

// FLOW-30
func TestProgressIsACompletionRow(t *testing.T) {
	w := world.Continuing()
	rounds := w.State.Rounds
	w.Turn(world.Call{Class: models.ClassCommand, Commands: 2})
	if w.State.Rounds != rounds {
		t.Fatal("a turn alone advanced the rounds")
	}
	for _, round := range []int64{rounds, rounds + 2, 0, -1} {
		refused(t, w.Append(models.RoundCompleted{Round: round}), models.CodeFactOutOfOrder)
		refused(t, w.Append(models.RunCompleted{Round: round, Result: world.Blob("r")}), models.CodeFactOutOfOrder)
	}
	w.MustAppend(models.RoundCompleted{Round: rounds + 1})
	if w.State.Rounds != rounds+1 {
		t.Error("the completion row did not count")
	}
	w.MustAppend(models.RunCompleted{Round: rounds + 2, Result: world.Blob("r")})
	if ticket, _ := w.State.Tickets.Last(); w.State.Rounds != rounds+2 || w.State.End != kernel.EndCompleted || ticket.State != "completed" || w.State.Lease.Live {
		t.Errorf("rounds %d, end %q, ticket %q", w.State.Rounds, w.State.End, ticket.State)
	}
	refused(t, w.Claim(world.Worker), models.CodeRunFinished)
	verify(t, w)

	// Nothing completes while something is open.
	for name, facts := range map[string]func(*world.World){
		"request":  func(w *world.World) { w.MustAppend(w.Asked()...) },
		"response": func(w *world.World) { w.MustAppend(w.Asked()...); w.MustAppend(w.Answered()) },
		"calls": func(w *world.World) {
			w.MustAppend(w.Asked()...)
			w.MustAppend(w.Answered())
			w.MustAppend(w.Consumed(1))
		},
		"refused": func(w *world.World) { w.Turn(world.Call{Class: models.ClassEvidenceRead, Refused: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := world.Executing()
			facts(w)
			refused(t, w.Append(models.RoundCompleted{Round: 7}), models.CodeFactOutOfOrder)
			refused(t, w.Append(models.RunCompleted{Round: 7, Result: world.Blob("r")}), models.CodeFactOutOfOrder)
			refused(t, w.Append(models.CheckpointSaved{Checkpoint: world.Blob("c")}), models.CodeFactOutOfOrder)
		})
	}
}

// FLOW-31
func TestContinuationStartsFromTheDerivedCheckpoint(t *testing.T) {
	w := world.Queued()
	ticket, _ := w.State.Tickets.Last()
	a := w.Claim(world.Worker2)
	accepted(t, a)
	var r models.ClaimReceipt
	if err := canon.Unmarshal(a.Receipt, &r); err != nil {
		t.Fatal(err)
	}
	if r.Checkpoint != ticket.Derived || r.RequestID != "request-1" || r.Binding != kernel.Binding(ticket) || r.Attempt != 1 || r.Run != world.Run {
		t.Errorf("claim receipt %+v", r)
	}
	refused(t, w.Append(models.RequestIssued{Checkpoint: world.Blob("checkpoint 5"), Request: 6, Wire: world.Plain("w"), WireBlob: world.Blob("w"), WireLength: 1}), models.CodeFactOutOfOrder)
	// Nor from a checkpoint that the worker saves beside it.
	other := w.Clone()
	other.MustAppend(models.CheckpointSaved{Checkpoint: world.Blob("new brief")})
	refused(t, other.Append(other.Asked()...), models.CodeFactOutOfOrder)
	accepted(t, w.Append(w.Asked()...))
	if w.State.Custody.Turn.Checkpoint != ticket.Derived {
		t.Errorf("the request stands on %v", w.State.Custody.Turn.Checkpoint)
	}
	// The second request of the continuation stands on its own checkpoint again.
	w.MustAppend(w.Answered())
	w.MustAppend(w.Consumed(0))
	accepted(t, w.Append(w.Asked()...))
}

// FLOW-33
func TestCountsArePositive(t *testing.T) {
	w := world.New(true)
	put := func(tickets, pending int64) world.Answer {
		p := w.FactoryState.Policy
		p.MaxTicketsPerRun, p.MaxPendingTickets = tickets, pending
		return w.DoFactory(world.Root, w.NextID(), models.PutPolicy{Policy: p, Replaces: p.Revision})
	}
	accepted(t, put(51, 501))
	accepted(t, put(1, 1))
	refused(t, put(0, 500), models.CodeRequestMalformed, "member", "max_tickets_per_run")
	refused(t, put(50, 0), models.CodeRequestMalformed, "member", "max_pending_tickets")
	refused(t, put(-1, 500), models.CodeRequestMalformed)
	refused(t, put(50, -1), models.CodeRequestMalformed)
	for _, text := range []string{`1.5`, `"60"`, `true`, `null`} {
		body := bytes.Replace(canon.MustMarshal(models.PutPolicy{Policy: world.Enabled()}), []byte(`"max_tickets_per_run":50`), []byte(`"max_tickets_per_run":`+text), 1)
		if c, err := models.DecodeCommand("put_policy", body); err == nil {
			t.Errorf("%s became %+v", body, c)
		}
	}
}

// FLOW-34 and FLOW-32: the bounds as Decide sees them; that they hold under concurrency is the store's to show.
func TestTicketBounds(t *testing.T) {
	w := world.Held()
	w.Pending = 500
	check := unmoved(t, w)
	refused(t, w.Do(world.Dana, "r", w.Request(600)), models.CodePendingTicketsReached, "limit", "500")
	check()
	w.Pending = 499
	accepted(t, w.Clone().Do(world.Dana, "r", w.Request(600)))
	w.Policy(func(p *models.Policy) { p.MaxPendingTickets = 501 })
	w.Pending = 501
	refused(t, w.Do(world.Dana, "r", w.Request(600)), models.CodePendingTicketsReached, "limit", "501")
	w.Pending = 500
	accepted(t, w.Do(world.Dana, "r", w.Request(600)))

	// All tickets that the run ever had count, ended ones too (rules O27).
	w = world.Held()
	w.Policy(func(p *models.Policy) { p.MaxTicketsPerRun = 3 })
	for i := range 3 {
		w.Admit(fmt.Sprintf("r%d", i))
		w.MustClaim(world.Worker)
		w.Stop()
	}
	check = unmoved(t, w)
	refused(t, w.Do(world.Dana, "r3", w.Request(600)), models.CodeTicketsPerRunReached, "limit", "3")
	check()
	w.Policy(func(p *models.Policy) { p.MaxTicketsPerRun = 4 })
	accepted(t, w.Do(world.Dana, "r3", w.Request(600)))
	verify(t, w)
}

// FLOW-35
func TestQueueCapacityIsNoAllowance(t *testing.T) {
	w := world.Queued()
	before := w.State.Encode()
	w.Policy(func(p *models.Policy) { p.MaxTicketsPerRun, p.MaxPendingTickets = 1000, 10_000 })
	if !bytes.Equal(before, w.State.Encode()) {
		t.Error("the run changed")
	}
	w.MustClaim(world.Worker2)
	if w.State.Budget.Limits != world.Held().State.Budget.Limits {
		t.Error("limits changed")
	}
}

// FLOW-36
func TestWindowIsAtMost7200(t *testing.T) {
	w := world.New(true)
	put := func(seconds models.Seconds, enabled bool) world.Answer {
		p := w.FactoryState.Policy
		p.MaxValidForSeconds, p.Enabled = seconds, enabled
		return w.DoFactory(world.Root, w.NextID(), models.PutPolicy{Policy: p, Replaces: p.Revision})
	}
	accepted(t, put(7200, true))
	accepted(t, put(1, true))
	accepted(t, put(0, false))
	refused(t, put(7201, true), models.CodeWindowInvalid, "limit", "7200")
	refused(t, put(7201, false), models.CodeWindowInvalid)
	refused(t, put(-1, false), models.CodeWindowInvalid)
	refused(t, put(0, true), models.CodeWindowInvalid)

	w = world.Held(func(g *models.Registration) { g.ProviderTimeout = 7200 })
	w.Policy(func(p *models.Policy) { p.MaxValidForSeconds = 7200 })
	w.Tick(7200)
	refused(t, w.Do(world.Dana, "r", w.Request(7201)), models.CodeWindowInvalid)
	accepted(t, w.Do(world.Dana, "r", w.Request(7200)))
}

// FLOW-37
func TestCommandsAreCountedFromRows(t *testing.T) {
	w := world.Held()
	rows := int64(0)
	for _, r := range w.Rows {
		if r.Kind == "command.started" {
			rows++
		}
	}
	if n := w.Recount(); rows != 11 || n.Commands != rows || w.State.Counters().Commands != rows || w.State.Custody.CommandCount != rows {
		t.Errorf("%d rows, recount %d, counters %d", rows, n.Commands, w.State.Counters().Commands)
	}
}

// FLOW-39, FLOW-41, FLOW-42 and REC-07
func TestElevenThirteenTwentyTwo(t *testing.T) {
	w := world.Held()
	var receipts []models.Digest
	for _, r := range w.Rows {
		if r.Kind == "command.finished" {
			receipts = append(receipts, r.Blobs[0])
		}
	}
	w.Admit("r")
	w.MustClaim(world.Worker2)
	w.Turn(world.Call{Class: models.ClassCommand, Commands: 2})
	if got := w.State.Counters().Commands; got != 13 {
		t.Fatalf("%d commands", got)
	}
	for i, n := 0, 0; i < len(w.Rows); i++ {
		if w.Rows[i].Kind == "command.finished" && n < 11 {
			if w.Rows[i].Blobs[0] != receipts[n] {
				t.Errorf("receipt %d changed", n+1)
			}
			n++
		}
	}
	w.MustAppend(models.RoundCompleted{Round: w.State.Rounds + 1})
	w.Turn(world.Call{Class: models.ClassCommand, Commands: 9})
	if got := w.State.Counters().Commands; got != 22 {
		t.Fatalf("%d commands", got)
	}
	check := unmoved(t, w)
	refused(t, w.Append(models.CommandStarted{Command: world.Blob("c"), Number: 23, Position: -1}), models.CodeAllowanceExhausted, "allowance", "commands", "limit", "22", "spent", "22")
	check()
	verify(t, w)
}

// REC-03
func TestOneConsumeRow(t *testing.T) {
	w := world.Queued()
	consumed := func() (n int) {
		for _, r := range w.Rows {
			if e, err := models.DecodeEvent(r.Kind, r.Payload); err == nil {
				if c, ok := e.(models.ResponseConsumed); ok && c.Request == 5 {
					n++
				}
			}
		}
		return n
	}
	again := models.ResponseConsumed{Calls: 1, Request: 5, Response: world.Blob("response 5"), Tokens: models.Tokens{Input: 1, Output: 1}}
	w.MustClaim(world.Worker2)
	refused(t, w.Append(again), models.CodeFactOutOfOrder)
	w.MustAppend(w.Asked()...)
	refused(t, w.Append(again), models.CodeFactOutOfOrder)
	if n := consumed(); n != 1 {
		t.Errorf("%d consume rows", n)
	}
}

// An admission needs a whole proof by the code that is installed; a version alone is none.
func TestProofIsWhole(t *testing.T) {
	for name, change := range map[string]func(*models.Reconstruction){
		"version":          func(r *models.Reconstruction) { r.Version = 0 },
		"not served":       func(r *models.Reconstruction) { r.Served = 0 },
		"served twice":     func(r *models.Reconstruction) { r.Served = 2 }, // REC-01
		"another module":   func(r *models.Reconstruction) { r.Module = world.Plain("x") },
		"catalogue":        func(r *models.Reconstruction) { r.Catalogue = world.Plain("x") },
		"no calls":         func(r *models.Reconstruction) { r.Calls = nil },
		"no closing":       func(r *models.Reconstruction) { r.Closing = nil },
		"two closings":     func(r *models.Reconstruction) { r.Closing = append(r.Closing, r.Closing[0]) },
		"another closing":  func(r *models.Reconstruction) { r.Closing[0].Result = models.ResultObservationUnavailable },
		"another position": func(r *models.Reconstruction) { r.Closing[0].Position = 1 },
		"contract":         func(r *models.Reconstruction) { r.Contract = models.Digest{} },
		"derived":          func(r *models.Reconstruction) { r.Derived = models.Digest{} },
		"proof":            func(r *models.Reconstruction) { r.Proof = models.Digest{} },
		"witness":          func(r *models.Reconstruction) { r.Witness = models.Digest{} },
	} {
		t.Run(name, func(t *testing.T) {
			w := world.Held()
			w.Sandbox(change)
			check := unmoved(t, w)
			refused(t, w.Do(world.Dana, "r", w.Request(600)), models.CodeSandboxStopped)
			check()
		})
	}
	// Two evidence reads that the sandbox lets through, and a single call of another class.
	for _, calls := range [][]world.Call{
		{{Class: models.ClassEvidenceRead, Refused: true}, {Class: models.ClassEvidenceRead, Refused: true}},
		{{Class: models.ClassSourceObservation, Refused: true}},
	} {
		w := world.Executing()
		w.Turn(calls...)
		w.MustAppend(world.Failed())
		refused(t, w.Do(world.Dana, "r", w.Request(600)), models.CodeSandboxStopped, "reason", "not the single evidence read")
	}
	// Without a reconstruction or a recount nothing is admitted: the answer is a 503 and not a refusal of the run.
	w := world.Held()
	for _, drop := range []func(*models.Env){func(e *models.Env) { e.Reconstruction = nil }, func(e *models.Env) { e.Recount = nil }} {
		env := w.Env(world.Dana, "r", models.RequestContinuity{})
		drop(&env)
		_, r := kernel.Decide(w.State, "r", w.Request(600), env)
		is(t, r, models.CodeReconstructionMissing)
	}
	w.Missing = []models.Digest{world.Blob("derived 5")}
	refused(t, w.Do(world.Dana, "r", w.Request(600)), models.CodeBlobMissing)
}

// Asked before the costly steps, an admission answers what is checked that early and nothing that they might outrank.
func TestEarlyAnswers(t *testing.T) {
	ask := func(w *world.World, change func(*models.RequestContinuity)) *models.Refusal {
		env := w.Env(world.Dana, "r", models.RequestContinuity{})
		env.Recount, env.Reconstruction = nil, nil
		c := w.Request(600)
		change(&c)
		events, r := kernel.Decide(w.State, "r", c, env)
		if r == nil {
			t.Fatalf("admitted %v", kinds(events))
		}
		return r
	}
	asIs := func(*models.RequestContinuity) {}
	is(t, ask(world.Held(), asIs), models.CodeReconstructionMissing)
	is(t, ask(world.Queued(), asIs), models.CodeGraphHasTicket)
	is(t, ask(world.Held(), func(c *models.RequestContinuity) { c.JournalDigest = models.Digest{} }), models.CodeDigestStale, "digest", "journal")
	is(t, ask(world.Held(), func(c *models.RequestContinuity) { c.CandidateDigest = models.Digest{} }), models.CodeReconstructionMissing)
	w := world.Continuing()
	w.MustAppend(w.Asked()...)
	w.MustAppend(w.Answered())
	w.MustAppend(world.Failed())
	is(t, ask(w, asIs), models.CodeClaimLive) // not consume_missing, which only the rows folded again may say
	w = world.Held()
	w.Record(models.RecordScope, "moved")
	is(t, ask(w, asIs), models.CodeScopeChanged)
	w = world.Executing()
	w.MustAppend(w.Asked()...)
	w.MustAppend(world.Failed())
	is(t, ask(w, asIs), models.CodeReconstructionMissing) // model_outcome_unknown comes later
	w = world.Held()
	w.Pending = 500
	is(t, ask(w, asIs), models.CodeReconstructionMissing)
}

// A hold that this build cannot judge is a hold all the same, and no panic.
func TestHoldsFromOutsideNeverPanic(t *testing.T) {
	w := world.Held()
	w.Sandbox(func(r *models.Reconstruction) { r.Holds = []models.SandboxHold{{Code: "made_up"}} })
	held(t, w.Candidate(world.Dana), models.CodeSandboxStopped, "reason", "unknown hold")
	w.Sandbox(func(r *models.Reconstruction) {
		r.Holds = []models.SandboxHold{{Code: models.CodeQueryValid, Details: []models.Detail{models.D("a", 1), models.D("a", 2)}}}
	})
	held(t, w.Candidate(world.Dana), models.CodeQueryValid)
}
