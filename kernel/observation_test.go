package kernel_test

import (
	"slices"
	"testing"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/proptest/world"
)

// Version 2 from candidate to claim: nothing moves but settlement, lease and queue, and the reads stay unknown in the journal.
// OBS-01 (such a response), OBS-02 (no row says how the read ended), OBS-23, OBS-29.
func TestVersionTwoIsAdmitted(t *testing.T) {
	w := world.Observing(2)
	c := w.Candidate(world.Dana)
	if !c.Eligible || c.Version != 2 {
		t.Fatalf("version %d, holds %v", c.Version, c.Holds)
	}
	before := w.State
	a := w.Must(world.Dana, "r2", w.RequestTwo(600))
	if got := kinds(a.Events); !slices.Equal(got, []string{"migration.settled", "lease.granted"}) {
		t.Fatalf("events %v", got)
	}
	m := a.Events[0].(models.MigrationSettled)
	want := []models.ClosingResult{{Position: 0, Result: "invalid_query"}, {Position: 1, Result: "observation_unavailable"}, {Position: 2, Result: "observation_unavailable"}}
	if m.Version != 2 || !slices.Equal(m.Closing, want) {
		t.Fatalf("settled %+v", m)
	}
	if w.State.Counters() != before.Counters() || w.State.Budget.Limits != w.State.Registration.Limits {
		t.Errorf("counters %+v, were %+v", w.State.Counters(), before.Counters())
	}
	for _, call := range w.State.Custody.Turn.Calls[1:] {
		if call.OutcomeSeq != 0 || call.RefusedSeq != 0 || !call.Unknown() {
			t.Errorf("the read at %d is known now: %+v", call.Position, call)
		}
	}
	accepted(t, w.Claim(world.Worker2))
	verify(t, w)
}

// No call of the settled turn is started, answered or given up again under the continuation's claim, by whatever a worker sends: not the
// rejected read, not a covered one. OBS-12.
func TestNothingOfTheSettledTurnRunsAgain(t *testing.T) {
	w := world.Observing(2, 1)
	request := w.State.Custody.Turn.Request
	w.Must(world.Dana, "r2", w.RequestTwo(600))
	w.MustClaim(world.Worker2)
	check := unmoved(t, w)
	for position := range int64(3) {
		for _, f := range []models.Fact{
			models.CallIntended{Position: position, Request: request}, models.ToolUnknown{Position: position, Request: request},
			models.CallReturned{Position: position, Request: request, Result: world.Blob("again")},
			models.CallRefused{Position: position, Request: request, Validator: w.State.Registration.Validator},
			world.Granted(request, position, models.ClassSourceObservation),
		} {
			refused(t, w.Append(f), models.CodeFactOutOfOrder)
		}
	}
	refused(t, w.Append(models.CommandStarted{Command: world.Blob("c"), Number: w.State.Budget.Spent.Commands + 1, Position: 1, Request: request}), models.CodeFactOutOfOrder)
	check()
}

// Every acknowledgement of version 2 is needed, version 1's too. OBS-08 (refused, and nothing is written), OBS-24 (of the nine,
// digests and acknowledgements).
func TestVersionTwoNeedsItsAcknowledgements(t *testing.T) {
	w := world.Observing(1)
	check := unmoved(t, w)
	for name, change := range map[string]func(*models.RequestContinuity){
		"acknowledge_unavailable_source_observations": func(c *models.RequestContinuity) { c.AcknowledgeUnavailableSourceObservations = false },
		"acknowledge_no_new_grant":                    func(c *models.RequestContinuity) { c.AcknowledgeNoNewGrant = false },
		"acknowledge_original_consumption":            func(c *models.RequestContinuity) { c.AcknowledgeOriginalConsumption = false },
		"acknowledge_renewed_same_attempt_lease":      func(c *models.RequestContinuity) { c.AcknowledgeRenewedSameAttemptLease = false },
	} {
		c := w.RequestTwo(600)
		change(&c)
		refused(t, w.Do(world.Dana, "r", c), models.CodeAcknowledgementMissing, "acknowledgement", name)
	}
	for name, change := range map[string]func(*models.RequestContinuity){
		"candidate": func(c *models.RequestContinuity) { c.CandidateDigest[0] ^= 1 },
		"journal":   func(c *models.RequestContinuity) { c.JournalDigest[0] ^= 1 },
		"policy":    func(c *models.RequestContinuity) { c.PolicyDigest[0] ^= 1 },
		"run":       func(c *models.RequestContinuity) { c.RunDigest[0] ^= 1 },
	} {
		c := w.RequestTwo(600)
		change(&c)
		refused(t, w.Do(world.Dana, "r", c), models.CodeDigestStale, "digest", name)
	}
	check()
	accepted(t, w.Do(world.Dana, "r", w.RequestTwo(600)))
}

// Versions must match both ways (rules O9). OBS-10.
func TestVersionsMatch(t *testing.T) {
	w := world.Observing(1)
	refused(t, w.Do(world.Dana, "r", w.Request(600)), models.CodeVersionMismatch, "request", "1", "proof", "2")
	one := world.Held()
	one.Policy(func(p *models.Policy) { p.AllowUnavailableSourceObservations = true })
	refused(t, one.Do(world.Dana, "r", one.RequestTwo(600)), models.CodeVersionMismatch, "request", "2", "proof", "1")
	// The id is one space with version 1's, and the graph has one ticket (FLOW-14).
	accepted(t, w.Do(world.Dana, "r", w.RequestTwo(600)))
	refused(t, w.Do(world.Dana, "r", w.Request(600)), models.CodeRequestConflict)
	refused(t, w.Do(world.Dana, "other", w.RequestTwo(600)), models.CodeGraphHasTicket, "request_id", "r")
}

// The switch is off by default and does nothing by itself; without the policy it does not count. OBS-06, OBS-07, OBS-09.
func TestTheSwitchOfVersionTwo(t *testing.T) {
	w := world.Observing(1)
	if models.DefaultPolicy().AllowUnavailableSourceObservations {
		t.Error("on by default")
	}
	w.Policy(func(p *models.Policy) { p.AllowUnavailableSourceObservations = false })
	refused(t, w.Do(world.Dana, "r", w.RequestTwo(600)), models.CodeSettingOff, "setting", "allow_unavailable_source_observations")
	a := w.DoFactory(world.Omar, "p", models.PutPolicy{Policy: world.Enabled(), Replaces: w.FactoryState.Policy.Revision})
	refused(t, a, models.CodeRoleMissing)
	run, queue := w.State.Head, kernel.Queue(w.State)
	w.Policy(func(p *models.Policy) { p.AllowUnavailableSourceObservations = true })
	if w.State.Head != run || kernel.Queue(w.State) != nil || queue != nil {
		t.Error("the switch moved the run")
	}
	w.Policy(func(p *models.Policy) { p.Enabled = false })
	refused(t, w.Do(world.Dana, "r", w.RequestTwo(600)), models.CodePolicyDisabled)
}

// Turning the switch off later stops the ticket too (rules O11). BOUND-01 (a version-2 ticket), OBS-28.
func TestTheSwitchStopsATicket(t *testing.T) {
	w := world.Observing(1)
	w.Must(world.Dana, "r", w.RequestTwo(600))
	off := w.Clone()
	off.Policy(func(p *models.Policy) { p.AllowUnavailableSourceObservations = false })
	refused(t, off.Claim(world.Worker2), models.CodeSettingOff)
	w.MustClaim(world.Worker2)
	w.Policy(func(p *models.Policy) { p.AllowUnavailableSourceObservations = false })
	refused(t, w.Append(world.Failed()), models.CodeSettingOff)
}

// The current checks are those of version 1. OBS-28.
func TestVersionTwoPassesTheCurrentChecks(t *testing.T) {
	for code, change := range map[models.Code]func(*world.World){
		models.CodeSourceChanged:        func(w *world.World) { w.Record(models.RecordSource, "moved") },
		models.CodeConfigurationChanged: func(w *world.World) { w.Record(models.RecordConfiguration, "moved") },
		models.CodeProfileUnqualified:   func(w *world.World) { w.MustFactory(world.Root, models.RetireProfile{ID: "p1"}) },
		models.CodeRoleMissing:          func(w *world.World) { w.Roles(world.Dana, models.RoleAdministrator) },
	} {
		w := world.Observing(1)
		body := w.RequestTwo(600)
		change(w)
		check := unmoved(t, w)
		refused(t, w.Do(world.Dana, "r", body), code)
		check()
	}
	w := world.Observing(1)
	refused(t, w.Do(world.Omar, "r", w.RequestTwo(600)), models.CodeActorNotOriginal)
	refused(t, w.Do(world.Dana, "r", w.RequestTwo(3601)), models.CodeWindowInvalid)
}

// What a listed call's rows lack, or say of another call, is named. OBS-01 (without a grant row), OBS-03, OBS-05, OBS-15.
func TestObservationCustody(t *testing.T) {
	base := world.Observing(2, 2)
	held2 := func(change func(*models.Reconstruction), code models.Code, details ...string) {
		t.Helper()
		w := base.Clone()
		w.Rebuild = func(w *world.World) *models.Reconstruction {
			r := w.ProofTwo()
			change(r)
			return r
		}
		held(t, w.Candidate(world.Dana), code, details...)
	}
	const incomplete = models.CodeObservationCustodyIncomplete
	held2(func(r *models.Reconstruction) { r.Calls[1].ID = world.Blob("other") }, incomplete, "lacks", "grant of this call", "position", "1")
	held2(func(r *models.Reconstruction) { r.Calls[1].Args = world.Blob("other") }, incomplete, "lacks", "grant of this call")
	held2(func(r *models.Reconstruction) { r.Outcomes[0].Result = world.Blob("result 5.1") }, incomplete, "lacks", "outcome of this call", "position", "2")
	held2(func(r *models.Reconstruction) { r.Outcomes[0].Position = 1 }, incomplete, "lacks", "outcome of this call")
	held2(func(r *models.Reconstruction) { r.Outcomes = nil }, incomplete, "lacks", "outcome of this call")

	for lacks, facts := range map[string]func(n int64) []models.Fact{
		"source cut": func(n int64) []models.Fact {
			g := world.Granted(n, 1, models.ClassSourceObservation)
			g.Cut = models.Digest{}
			return []models.Fact{g, models.CallIntended{Position: 1, Request: n}}
		},
		"intent": func(n int64) []models.Fact { return []models.Fact{world.Granted(n, 1, models.ClassSourceObservation)} },
		"a successful outcome": func(n int64) []models.Fact {
			return []models.Fact{world.Granted(n, 1, models.ClassSourceObservation), models.CallIntended{Position: 1, Request: n},
				models.CallReturned{Failed: true, Position: 1, Request: n, Result: world.Blob("error")}}
		},
	} {
		w := world.Executing()
		w.MustAppend(w.Asked()...)
		w.MustAppend(w.Answered())
		w.MustAppend(w.Consumed(2))
		n := w.State.Custody.Turn.Request
		w.MustAppend(world.Granted(n, 0, models.ClassEvidenceRead), models.CallRefused{Request: n, Validator: w.State.Registration.Validator})
		w.MustAppend(append(facts(n), world.Failed())...)
		w.Rebuild = (*world.World).ProofTwo
		held(t, w.Candidate(world.Dana), incomplete, "lacks", lacks)
	}

	// A call of the response without a grant row.
	w := world.Executing()
	w.MustAppend(w.Asked()...)
	w.MustAppend(w.Answered())
	w.MustAppend(w.Consumed(2))
	n := w.State.Custody.Turn.Request
	w.MustAppend(world.Granted(n, 0, models.ClassEvidenceRead), models.CallRefused{Request: n, Validator: w.State.Registration.Validator}, world.Failed())
	w.Rebuild = func(w *world.World) *models.Reconstruction {
		r := w.ProofTwo()
		g := world.Granted(n, 1, models.ClassSourceObservation)
		r.Version, r.Calls = 2, append(r.Calls, models.SeenCall{Args: g.Args, Class: g.Class, ID: g.ID, Position: 1, Tool: g.Tool})
		return r
	}
	held(t, w.Candidate(world.Dana), models.CodeCallNotGranted, "position", "1")
}

// Cut, grant and raw response are bound: another one makes another candidate. OBS-03.
func TestObservationIsBound(t *testing.T) {
	of := func(change func(*models.CallGranted, *models.ResponseKept)) models.Digest {
		w := world.Executing()
		w.MustAppend(w.Asked()...)
		kept := w.Answered()
		n := kept.Request
		g := world.Granted(n, 1, models.ClassSourceObservation)
		change(&g, &kept)
		w.MustAppend(kept)
		w.MustAppend(w.Consumed(2))
		w.MustAppend(world.Granted(n, 0, models.ClassEvidenceRead), models.CallRefused{Request: n, Validator: w.State.Registration.Validator},
			g, models.CallIntended{Position: 1, Request: n}, world.Failed())
		w.Policy(func(p *models.Policy) { p.AllowUnavailableSourceObservations = true })
		w.Rebuild = (*world.World).ProofTwo
		return w.Candidate(world.Dana).CandidateDigest
	}
	same := of(func(*models.CallGranted, *models.ResponseKept) {})
	for name, change := range map[string]func(*models.CallGranted, *models.ResponseKept){
		"id":       func(g *models.CallGranted, _ *models.ResponseKept) { g.ID = world.Blob("x") },
		"args":     func(g *models.CallGranted, _ *models.ResponseKept) { g.Args = world.Blob("x") },
		"cut":      func(g *models.CallGranted, _ *models.ResponseKept) { g.Cut = world.Plain("x") },
		"grant":    func(g *models.CallGranted, _ *models.ResponseKept) { g.Tool = 3 },
		"response": func(_ *models.CallGranted, k *models.ResponseKept) { k.Response = world.Blob("x") },
	} {
		if of(change) == same {
			t.Errorf("another %s gives the same candidate", name)
		}
	}
}

// A kept result is reused if another sibling is unavailable; where nothing is unavailable there is no version 2 (rules O7).
func TestRetainedSibling(t *testing.T) {
	w := world.Observing(2, 2)
	a := w.Must(world.Dana, "r", w.RequestTwo(600))
	m := a.Events[0].(models.MigrationSettled)
	if want := []models.ClosingResult{{Position: 0, Result: "invalid_query"}, {Position: 1, Result: "observation_unavailable"}, {Position: 2, Result: "retained"}}; !slices.Equal(m.Closing, want) {
		t.Errorf("closing %+v", m.Closing)
	}
	verify(t, w)
	refused(t, world.Observing(1, 1).Do(world.Dana, "r", world.Observing(1, 1).RequestTwo(600)), models.CodeSandboxStopped)
	// OBS-14: the sandbox cannot put one result in the place of another.
	for _, change := range []func(*models.Reconstruction){
		func(r *models.Reconstruction) { r.Closing[1].Result = models.ResultRetained },
		func(r *models.Reconstruction) { r.Closing[2].Result = models.ResultObservationUnavailable },
		func(r *models.Reconstruction) { r.Closing[0].Result = models.ResultObservationUnavailable },
	} {
		w := world.Observing(2, 2)
		w.Rebuild = func(w *world.World) *models.Reconstruction {
			r := w.ProofTwo()
			change(r)
			return r
		}
		refused(t, w.Do(world.Dana, "r", w.RequestTwo(600)), models.CodeSandboxStopped, "reason", "another closing result")
	}
}
