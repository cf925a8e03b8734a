package kernel_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/kernel/custody"
	"github.com/forge-continuity/forge/kernel/ticket"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/proptest/world"
)

// workflow is a recovery's own world, in which nothing holds it, and its candidate.
type workflow struct {
	command   func(*world.World) models.Command
	candidate func(*world.World, kernel.State, models.Env) (models.RecoveryCandidate, *models.Refusal)
	world     func() *world.World
}

var workflows = map[string]workflow{
	models.WorkflowNeverClaimed: {
		func(w *world.World) models.Command { return w.Recovery(600) },
		func(w *world.World, s kernel.State, env models.Env) (models.RecoveryCandidate, *models.Refusal) {
			return kernel.RecoveryCandidate(s, "request-1", env)
		}, world.FailedUnclaimed},
	models.WorkflowRefusedBoundary: {
		func(w *world.World) models.Command { return w.Boundary(600) },
		func(w *world.World, s kernel.State, env models.Env) (models.RecoveryCandidate, *models.Refusal) {
			return kernel.BoundaryCandidate(s, "request-1", w.Reviewed(), env)
		}, world.Refused},
	models.WorkflowReadonlyObservation: {
		func(w *world.World) models.Command { return w.Observation(600) },
		func(w *world.World, s kernel.State, env models.Env) (models.RecoveryCandidate, *models.Refusal) {
			return kernel.ObservationCandidate(s, "request-1", env)
		}, func() *world.World { return world.Lost() }},
}

// alone are the holds of a candidate that has one thing wrong, as words: code, then details that are looked for.
func alone(t *testing.T, w *world.World, name string, change func(*kernel.State, *models.Env)) []*models.Refusal {
	t.Helper()
	f := workflows[name]
	env, s := w.Env(world.Dana, "candidate", f.command(w)), w.State
	s.Custody.Turn.Calls, s.Tickets.Tickets = slices.Clone(s.Custody.Turn.Calls), slices.Clone(s.Tickets.Tickets)
	if change != nil {
		change(&s, &env)
	}
	c, r := f.candidate(w, s, env)
	if r != nil {
		t.Fatalf("%s: %v", name, r)
	}
	if c.Eligible != (len(c.Holds) == 0) {
		t.Errorf("%s: eligible %t with %v", name, c.Eligible, c.Holds)
	}
	return c.Holds
}

// tells checks that the holds are these and no others, each a code and some of its details as name=value.
func tells(t *testing.T, what string, holds []*models.Refusal, want ...string) {
	t.Helper()
	ok := len(holds) == len(want)
	for i := 0; ok && i < len(want); i++ {
		words := strings.Split(want[i], "; ")
		ok = words[0] == string(holds[i].Code)
		for _, w := range words[1:] {
			name, value, _ := strings.Cut(w, "=")
			ok = ok && holds[i].Detail(name) == value
		}
	}
	if !ok {
		t.Errorf("%s: holds %v, want %q", what, holds, want)
	}
}

// Every hold of a recovery's candidate is told for itself where everything else is right, and nothing is told that is right.
// NOCLAIM-02, NOCLAIM-03, REFUSED-05, REFUSED-14, ROBS-05 to ROBS-10, ROBS-16; custody C1, C2; ticket T3, T4; rules, invariants 23 to 25.
func TestEachHoldOfARecoveryAlone(t *testing.T) {
	const never, boundary, lost = models.WorkflowNeverClaimed, models.WorkflowRefusedBoundary, models.WorkflowReadonlyObservation
	type change = func(*kernel.State, *models.Env)
	history := func(f func(*models.TicketHistory)) change {
		return func(_ *kernel.State, env *models.Env) {
			h := *env.History
			f(&h)
			env.History = &h
		}
	}
	proof := func(f func(*models.Reconstruction)) change {
		return func(_ *kernel.State, env *models.Env) { f(env.Reconstruction) }
	}
	call := func(i int, f func(*custody.Call)) change {
		return func(s *kernel.State, _ *models.Env) { f(&s.Custody.Turn.Calls[i]) }
	}
	turn := func(f func(*custody.Turn)) change {
		return func(s *kernel.State, _ *models.Env) { f(&s.Custody.Turn) }
	}
	type line struct {
		workflow, name string
		change         change
		want           []string
	}
	lines := []line{
		{boundary, "no claim in the rows", history(func(h *models.TicketHistory) { h.Claims = 0 }), []string{"claim_history_incomplete; claims=0"}},
		{boundary, "history of another request", history(func(h *models.TicketHistory) { h.Request = "other" }), []string{"claim_history_incomplete"}},
		{boundary, "no settlement in the rows", history(func(h *models.TicketHistory) { h.Settled = 0 }), []string{"ticket_changed", "claim_history_incomplete"}},
		{boundary, "no lease in the rows", history(func(h *models.TicketHistory) { h.Granted = 0 }), []string{"ticket_changed", "claim_history_incomplete"}},
		{boundary, "a gap", history(func(h *models.TicketHistory) { h.Gap = 7 }), []string{"claim_history_incomplete; seq=7"}},
		{boundary, "no provider in the request", turn(func(u *custody.Turn) { u.Provider = models.Digest{} }), []string{"review_evidence_mismatch; differs=provider"}},
		{boundary, "another source revision", func(s *kernel.State, _ *models.Env) { s.Registration.Source.Revision = 2 }, []string{"review_evidence_mismatch; differs=source_revision"}},

		{boundary, "a hold of the sandbox, and so no request", func(_ *kernel.State, env *models.Env) {
			env.Reproduction = &models.Reproduction{Holds: []models.SandboxHold{{Code: models.CodeResponseUnparsable}}}
		}, []string{"response_unparsable"}},
		{boundary, "made under another catalogue", func(_ *kernel.State, env *models.Env) { env.Reproduction.Catalogue = world.Plain("x") }, []string{"sandbox_stopped; reason=no reproduction"}},
		{never, "history of another request", history(func(h *models.TicketHistory) { h.Request = "other" }), []string{"claim_history_incomplete; missing=admission; seq=0"}},
		{never, "no settlement in the rows", history(func(h *models.TicketHistory) { h.Settled = 0 }), []string{"ticket_changed", "claim_history_incomplete; missing=admission"}},
		{never, "no lease in the rows", history(func(h *models.TicketHistory) { h.Granted = 0 }), []string{"ticket_changed", "claim_history_incomplete; missing=admission"}},
		{never, "a gap", history(func(h *models.TicketHistory) { h.Gap = 7 }), []string{"claim_history_incomplete; missing=row; seq=7"}},
		{never, "settled in another row", history(func(h *models.TicketHistory) { h.Settled-- }), []string{"ticket_changed; what=seal"}},
		{never, "granted in another row", history(func(h *models.TicketHistory) { h.Granted-- }), []string{"ticket_changed; what=seal"}},
		{never, "history not read, and no failure", func(s *kernel.State, env *models.Env) {
			env.History = nil
			s.Tickets.Tickets[0].State = ticket.Closed
			s.Lease.Granted = false
		}, []string{"claim_history_incomplete; missing=failure"}},

		{lost, "no refusal recovery, and the history not read", func(s *kernel.State, env *models.Env) { s.Tickets.Tickets[0].RefusedBoundary, env.History = "", nil },
			[]string{"refusal_recovery_missing"}},
		{lost, "one claim in the rows", history(func(h *models.TicketHistory) { h.Claims = 1 }), []string{"refusal_recovery_missing"}},
		{lost, "no settlement in the rows", history(func(h *models.TicketHistory) { h.Settled = 0 }), []string{"ticket_changed", "refusal_recovery_missing"}},
		{lost, "a gap", history(func(h *models.TicketHistory) { h.Gap = 7 }), []string{"refusal_recovery_missing"}},
		{lost, "not consumed", turn(func(u *custody.Turn) { u.ConsumeSeq = 0 }), []string{"observation_turn_unsupported; consumed=false"}},
		{lost, "a partial response", turn(func(u *custody.Turn) { u.Partial = true }), []string{"observation_turn_unsupported; consumed=true"}},
		{lost, "a command without its receipt", func(s *kernel.State, _ *models.Env) { s.Custody.Commands = []custody.Command{{Number: 12, Seq: 77}} },
			[]string{"unknown_effect; seq=77; class=command; writable=true"}},
		{lost, "fewer grants than calls", func(s *kernel.State, env *models.Env) {
			s.Custody.Turn.Calls, env.Reconstruction = s.Custody.Turn.Calls[:2], nil
			s.Custody.Turn.CallCount = 3
		}, []string{"observation_custody_incomplete; lacks=grant; position=2"}},
		{lost, "the evidence read was refused", call(1, func(c *custody.Call) { c.RefusedSeq = 5 }), []string{"observation_turn_unsupported; position=1"}},
		{lost, "the evidence read never started", call(1, func(c *custody.Call) { c.IntentSeq = 0 }), []string{"observation_custody_incomplete; position=1; lacks=intent"}},
		{lost, "the list never started", call(0, func(c *custody.Call) { c.IntentSeq = 0 }), []string{"observation_custody_incomplete; position=0; lacks=intent"}},
		{lost, "no evidence read", func(s *kernel.State, env *models.Env) {
			s.Custody.Turn.Calls, s.Custody.Turn.CallCount, env.Reconstruction = s.Custody.Turn.Calls[:1], 1, nil
		}, []string{"observation_turn_unsupported; evidence_reads=0; observations=1"}},
		{lost, "two evidence reads", func(s *kernel.State, env *models.Env) {
			again := s.Custody.Turn.Calls[1]
			again.Position = 2
			s.Custody.Turn.Calls, s.Custody.Turn.CallCount, env.Reconstruction = append(s.Custody.Turn.Calls, again), 3, nil
		}, []string{"observation_turn_unsupported; evidence_reads=2; observations=1"}},
		{lost, "two lists", func(s *kernel.State, env *models.Env) {
			again := s.Custody.Turn.Calls[0]
			again.Position = 2
			s.Custody.Turn.Calls, s.Custody.Turn.CallCount, env.Reconstruction = append(s.Custody.Turn.Calls, again), 3, nil
		}, []string{"observation_turn_unsupported; evidence_reads=1; observations=2"}},
		{lost, "fewer calls in the response", proof(func(r *models.Reconstruction) { r.Calls, r.Closing = r.Calls[:1], r.Closing[:1] }),
			[]string{"observation_custody_incomplete; lacks=usage and calls of this response"}},
		{lost, "a call that was not granted", proof(func(r *models.Reconstruction) {
			seen, closed := r.Calls[0], r.Closing[0]
			seen.Position, closed.Position = 2, 2
			r.Calls, r.Closing = append(r.Calls, seen), append(r.Closing, closed)
		}), []string{"call_not_granted; position=2", "observation_custody_incomplete; lacks=usage and calls of this response"}},
		{lost, "another tool", proof(func(r *models.Reconstruction) { r.Calls[1].Tool++ }), []string{"observation_custody_incomplete; position=1; lacks=grant of this call"}},
		{lost, "another class", proof(func(r *models.Reconstruction) { r.Calls[0].Class = models.ClassPureRead }), []string{"observation_custody_incomplete; position=0; lacks=grant of this call"}},
		{lost, "a hold, and so no proof", proof(func(r *models.Reconstruction) {
			*r = models.Reconstruction{Holds: []models.SandboxHold{{Code: models.CodeResponseUnparsable}}}
		}), []string{"response_unparsable"}},
		{lost, "another catalogue", proof(func(r *models.Reconstruction) { r.Catalogue = world.Plain("x") }), []string{"sandbox_stopped; reason=no proof of the installed code"}},
		{lost, "another checkpoint", proof(func(r *models.Reconstruction) { r.Checkpoint = world.Blob("x") }), []string{"sandbox_stopped; reason=of another turn"}},
		{lost, "nothing derived", proof(func(r *models.Reconstruction) { r.Derived = models.Digest{} }), []string{"sandbox_stopped; reason=a digest is missing"}},
		{lost, "no witness", proof(func(r *models.Reconstruction) { r.Witness = models.Digest{} }), []string{"sandbox_stopped; reason=a digest is missing"}},
		{lost, "no proof", proof(func(r *models.Reconstruction) { r.Proof = models.Digest{} }), []string{"sandbox_stopped; reason=a digest is missing"}},
		{lost, "one closing result too many", proof(func(r *models.Reconstruction) { r.Closing = append(r.Closing, r.Closing[0]) }), []string{"sandbox_stopped; reason=another closing result"}},
		{lost, "no calls and no holds", proof(func(r *models.Reconstruction) { r.Calls, r.Closing = nil, nil }), []string{"sandbox_stopped; reason=another closing result"}},
	}
	for _, name := range []string{never, boundary, lost} {
		lines = append(lines,
			line{name, "nothing", nil, nil},
			line{name, "the rows count otherwise", func(_ *kernel.State, env *models.Env) { env.Recount.Commands++ }, []string{"journal_broken"}},
			line{name, "a time budget that is not known", func(s *kernel.State, _ *models.Env) { s.Registration.TimeBudget = "lunar" }, []string{"time_budget_unsupported"}},
			line{name, "no request left", func(s *kernel.State, _ *models.Env) { s.Budget.Limits.Requests = s.Budget.Spent.Requests }, []string{"allowance_exhausted; allowance=requests"}},
			line{name, "a run that has ended", func(s *kernel.State, _ *models.Env) { s.End = kernel.EndCompleted }, []string{"run_not_held; ended=true; executing=false"}},
			line{name, "a live claim", func(s *kernel.State, env *models.Env) {
				s.Lease.Granted, s.Lease.Live, s.Lease.RequestID, env.LeaseExpires = false, true, "", env.At+1
				s.Tickets.Tickets[0].State = map[string]string{never: ticket.FailedUnclaimed, boundary: ticket.Refused, lost: ticket.ObservationLost}[name]
			}, []string{"run_not_held; ended=false; executing=true", "claim_live; executing=true; queued=false"}},
		)
	}
	for _, l := range lines {
		w := workflows[l.workflow].world()
		tells(t, l.workflow+", "+l.name, alone(t, w, l.workflow, l.change), l.want...)
	}
}

// A request that names no provider is not the one of a review that names none either. REFUSED-12.
func TestNoProviderIsNoMatch(t *testing.T) {
	w := world.Refused()
	env, review, s := w.Env(world.Dana, "candidate", w.Boundary(600)), w.Reviewed(), w.State
	review.Provider, s.Custody.Turn.Provider = models.Digest{}, models.Digest{}
	c, r := kernel.BoundaryCandidate(s, "request-1", review, env)
	if r != nil {
		t.Fatal(r)
	}
	tells(t, "no provider", c.Holds, "review_evidence_mismatch; differs=provider")
}

// A candidate shows the profile of its ticket and what the sandbox proved. A ticket that was queued again, and one that failed once
// more, show that the one recovery was used, and no uncertainty beside it.
// NOCLAIM-18, ROBS-26; ticket T4.
func TestACandidateAndItsRecoveredTicket(t *testing.T) {
	for name, f := range workflows {
		w := f.world()
		c, _ := f.candidate(w, w.State, w.Env(world.Dana, "candidate", f.command(w)))
		if stored := w.FactoryState.Profiles[0]; c.Profile != "p1" || c.ProfileDigest != stored.Digest || len(c.Qualifications) != len(stored.Profile.Qualifications) {
			t.Errorf("%s: profile %s %v", name, c.Profile, c.ProfileDigest)
		}
		if proof := w.ProofObserved(); name == models.WorkflowReadonlyObservation &&
			(c.Derived != proof.Derived || c.Proof != proof.Proof || c.Witness != proof.Witness || !slices.Equal(c.Closing, proof.Closing) || c.Unknown.IsZero()) {
			t.Errorf("%+v shows another proof than %+v", c, proof)
		}
		w.Must(world.Dana, "rec-1", f.command(w))
		tells(t, name+", queued again", alone(t, w, name, nil), "recovery_recorded; recovery_id=rec-1", "claim_live; queued=true")
	}
	boundary := world.Refused()
	boundary.Must(world.Dana, "rec-1", boundary.Boundary(600))
	boundary.MustClaim(world.Worker)
	boundary.RefuseNext()
	boundary.MustAppend(world.Failed())
	tells(t, "refused again", alone(t, boundary, models.WorkflowRefusedBoundary, nil), "recovery_recorded")
	lost := world.Lost()
	lost.Must(world.Dana, "rec-1", lost.Observation(600))
	lost.MustClaim(world.Worker)
	w := lost
	w.LoseRead()
	tells(t, "lost again", alone(t, w, models.WorkflowReadonlyObservation, nil), "recovery_recorded")
}

// What the ticket's own profile lacks is told also where another one covers the node. BOUND-04 (a recovery).
func TestRecoveryTellsOfAnEndedProfileBesideACurrentOne(t *testing.T) {
	for name, f := range workflows {
		w := f.world()
		w.MustFactory(world.Root, models.RegisterProfile{Profile: w.Profile("p2")})
		w.MustFactory(world.Root, models.RetireProfile{ID: "p1"})
		tells(t, name, alone(t, w, name, nil), "profile_unqualified; profile=p1")
	}
}

// What each recovery's submission is refused for, apart from what its candidate shows: nothing is written (K3).
func TestSubmissionOfEachRecovery(t *testing.T) {
	for name, f := range workflows {
		try := func(change func(*world.World, *models.Env)) (events []models.Event, r *models.Refusal) {
			w := f.world()
			c := f.command(w)
			env := w.Env(world.Dana, "rec", c)
			change(w, &env)
			return kernel.Decide(w.State, "rec", c, env)
		}
		is2 := func(what string, r *models.Refusal, code models.Code) {
			t.Helper()
			if r == nil || r.Code != code {
				t.Errorf("%s, %s: %v, want %s", name, what, r, code)
			}
		}
		_, r := try(func(w *world.World, env *models.Env) { w.State = kernel.State{Factory: world.Factory, Run: world.Run} })
		is2("not registered", r, models.CodeNotFound)
		if r.Detail("run") != world.Run {
			t.Errorf("%s, not registered: %v", name, r)
		}
		_, r = try(func(w *world.World, env *models.Env) { w.State.Tickets.Tickets = nil })
		is2("no such request", r, models.CodeNotFound)
		_, r = try(func(w *world.World, env *models.Env) { env.Recount = nil })
		is2("rows not counted", r, models.CodeReconstructionMissing)
		_, r = try(func(w *world.World, env *models.Env) { env.History = nil })
		is2("history not read", r, models.CodeReconstructionMissing)
		_, r = try(func(w *world.World, env *models.Env) {
			env.History, w.State.Budget.Limits.Requests = nil, w.State.Budget.Spent.Requests
		})
		is2("history not read, and no request left, which is told later", r, models.CodeReconstructionMissing)
		_, r = try(func(w *world.World, env *models.Env) { env.Missing = []models.Digest{world.Blob("gone")} })
		is2("a blob that is not kept", r, models.CodeBlobMissing)
		_, r = try(func(w *world.World, env *models.Env) {
			w.State.Head.Seq = models.MaxRows - 3
			env.Recount.Head = w.State.Head
		})
		if r != nil && r.Code == models.CodeDigestStale { // the head is in the digests: they are read anew
			w := f.world()
			w.Trust = true
			w.State.Head.Seq = models.MaxRows - 3
			h := f.command(w)
			env := w.Env(world.Dana, "rec", h)
			_, r = kernel.Decide(w.State, "rec", h, env)
		}
		is2("no room", r, models.CodeRunFull)
		for _, seconds := range []models.Seconds{0, models.MaxWindow + 1} {
			w := f.world()
			w.Policy(func(p *models.Policy) { p.Enabled = false })
			var c models.Command
			switch b := f.command(w).(type) {
			case models.RecoverNeverClaimed:
				b.ValidForSeconds = seconds
				c = b
			case models.RecoverRefusedBoundary:
				b.ValidForSeconds = seconds
				c = b
			case models.RecoverReadonlyObservation:
				b.ValidForSeconds = seconds
				c = b
			}
			refused(t, w.Do(world.Dana, "rec", c), models.CodeWindowInvalid, "limit", fmt.Sprint(models.MaxWindow))
		}
	}
	b := world.Refused()
	refusal := b.Boundary(600)
	other := refusal
	other.Version = 2
	refused(t, b.Do(world.Dana, "rec", other), models.CodeRequestMalformed, "member", "version")
	unrendered := b.Env(world.Dana, "rec", refusal)
	unrendered.Reproduction = nil
	_, none := kernel.Decide(b.State, "rec", refusal, unrendered)
	is(t, none, models.CodeReconstructionMissing)
	b.Reports[2].At = b.Now + 1
	refused(t, b.Do(world.Dana, "rec", refusal), models.CodeCorrectiveValidationMissing, "lacks", "report made after the refusal")

	w := world.Lost()
	body := w.Observation(600)
	body.Version = 2
	refused(t, w.Do(world.Dana, "rec", body), models.CodeRequestMalformed, "member", "version")
	env := w.Env(world.Dana, "rec", w.Observation(600))
	env.Reconstruction = nil
	without, r := kernel.ObservationCandidate(w.State, "request-1", env)
	if r != nil {
		t.Fatal(r)
	}
	body = w.Observation(600)
	body.CandidateDigest = without.CandidateDigest
	_, r = kernel.Decide(w.State, "rec", body, env)
	is(t, r, models.CodeReconstructionMissing)
}

// What the rows say of a request when one of them cannot be read: a gap there. An admission is two rows, both readable. NOCLAIM-02,
// BOUND-07.
func TestRowsThatCannotBeRead(t *testing.T) {
	w := world.Queued()
	i := len(w.Rows) - 2
	rows := slices.Clone(w.Rows)
	rows[5].Payload = []byte("{")
	if h := kernel.HistoryOf(slices.Values(rows), "request-1"); h.Gap != 6 || h.Settled != int64(i+1) {
		t.Errorf("%+v", h)
	}
	failed := world.FailedUnclaimed()
	lapse := failed.Must(world.Dana, "rec-1", failed.Recovery(600)).Rows[0].Seq
	failed.MustClaim(world.Worker2)
	failed.Tick(700)
	failed.Must(world.Omar, "settle", failed.SettleTicket()) // records that the claim lapsed, which is no failure before one
	if h := kernel.HistoryOf(slices.Values(failed.Rows), "request-1"); h.Failed != lapse || h.Claims != 1 {
		t.Errorf("%+v, want the failure in row %d", h, lapse)
	}
	if h := kernel.HistoryOf(slices.Values(failed.Rows), "request-2"); h.Failed != 0 {
		t.Errorf("%+v of a request that is not there", h)
	}
	whole, _ := w.State.Tickets.Last()
	if got := kernel.AdmissionOf(w.Rows[i:]); got != whole.Identity() {
		t.Fatalf("%v", got)
	}
	for n := range 2 {
		if got := kernel.AdmissionOf(w.Rows[i : i+n]); !got.IsZero() {
			t.Errorf("%d rows make %v", n, got)
		}
	}
	if got := kernel.AdmissionOf(w.Rows[i-1:]); !got.IsZero() {
		t.Errorf("three rows make %v", got)
	}
	unread := reseal(slices.Clone(w.Rows), i+1, func(r *models.Row) { r.Kind = "lease.given" })
	if got := kernel.AdmissionOf(unread[i:]); !got.IsZero() {
		t.Errorf("a row of no known kind makes %v", got)
	}
}

// A ticket is no refused or lost one because it is held, nor because it had that recovery. REFUSED-02, ROBS-05.
func TestWhatIsUncertainIsToldSo(t *testing.T) {
	uncertain := func(what string, w *world.World, name string, want bool) {
		t.Helper()
		holds := alone(t, w, name, nil)
		if slices.ContainsFunc(holds, func(r *models.Refusal) bool { return r.Code == models.CodeTicketUncertain }) != want {
			t.Errorf("%s, %s: holds %v", what, name, holds)
		}
	}
	twice := world.FailedUnclaimed()
	twice.Must(world.Dana, "rec-1", twice.Recovery(600))
	twice.Tick(700)
	for _, name := range []string{models.WorkflowRefusedBoundary, models.WorkflowReadonlyObservation} {
		uncertain("failed unclaimed twice", twice, name, true)
	}
	boundary := world.Refused()
	boundary.Must(world.Dana, "rec-1", boundary.Boundary(600))
	boundary.MustClaim(world.Worker)
	boundary.Tick(700)
	uncertain("recovered, claimed and over", boundary, models.WorkflowRefusedBoundary, true)
	lost := world.Lost()
	lost.Must(world.Dana, "rec-1", lost.Observation(600))
	lost.MustClaim(world.Worker)
	lost.Tick(700)
	uncertain("recovered, claimed and over", lost, models.WorkflowReadonlyObservation, true)

	claimed := world.Continuing()
	claimed.Tick(700)
	tells(t, "claimed and over", alone(t, claimed, models.WorkflowNeverClaimed, nil), "ticket_claimed; claims=1", "ticket_uncertain")
	rows := slices.Clone(claimed.Rows)
	rows[5].Payload, rows[9].Payload = []byte("{"), []byte("{")
	if h := kernel.HistoryOf(slices.Values(rows), "request-1"); h.Gap != 6 {
		t.Errorf("the first gap is row 6, told is %d", h.Gap)
	}
}
