package kernel

import (
	"slices"

	"github.com/forge-continuity/forge/kernel/lease"
	"github.com/forge-continuity/forge/models"
)

// Verification is where the automatic verification of the run's newest round stands. Round is the round that was last entered,
// State one of models.VerificationState, "" before the first.
//
// Invariants:
//
//	V1. Nothing of a verification is recorded while a continuity ticket is outstanding, but the one refusal (BOUND-10).
//	V2. A run has at most one recorded refusal, and is not scheduled after it (BOUND-11, BOUND-12).
//	V3. Its commands are rows of the run's own ledger, counted and bounded like every other (C4, B2).
//	V4. A verification whose claim ended without an outcome is not taken up again by itself.
type Verification struct {
	Commands int64  `json:"commands"`
	Failures int64  `json:"failures"` // commands that finished with another exit code than 0
	Passed   bool   `json:"passed"`
	Prepared bool   `json:"prepared"`
	Round    int64  `json:"round"`
	Started  int64  `json:"started"`
	State    string `json:"state"`
	Stopped  bool   `json:"stopped"` // a refusal ended automatic scheduling
}

// Verifiable reports whether automatic verification is to enter now: a round was completed since the last one, nobody works on the
// run, and either nothing of its last turn is open, or a ticket is outstanding, which will be refused. A turn that waits for a
// person without a ticket is left alone: commands after its consume would be what holds it (rules O6). The round of a verification
// that waits or is under way is entered already.
func Verifiable(s State) bool {
	v, g := s.Verification, s.Registration
	switch {
	case g.Verification == (models.Verification{}), s.End != "" && s.End != EndCompleted, v.Stopped, s.Lease.Live:
		return false
	case s.Rounds <= max(g.CompletedRounds, v.Round):
		return false
	}
	t, ok := s.Tickets.Last()
	return ok && t.Outstanding() || s.Custody.Clean()
}

// verifies reports whether the claim that stands is of a verification.
func (s State) verifies() bool {
	return s.Verification.State == models.VerificationStateClaimed && s.Lease.Live
}

// over is ended, but a completed run is verified under its claim.
func (s State) over() *models.Refusal {
	if s.End == EndCompleted && s.verifies() {
		return nil
	}
	return s.ended()
}

// verificationHolds is what stands against a verification as it enters the policy epoch in force, in the order of the table.
// Continuity custody is among them, so nothing is prepared and no command runs beside an outstanding ticket (BOUND-10).
func (s State) verificationHolds(env models.Env) []*models.Refusal {
	list := append([]*models.Refusal{s.original(env, false), s.outstanding(), s.timeBudget()}, s.changes(env)...)
	_, r := lease.Window(env.At, 1, s.deadline())
	list = append(list, r)
	if l, n := s.Budget.Limits.Commands, s.Budget.Spent.Commands; l-n < s.Registration.Verification.Commands {
		list = append(list, models.Refuse(models.CodeAllowanceExhausted, models.D("allowance", "commands"), models.D("limit", l), models.D("spent", n)))
	}
	list = slices.DeleteFunc(list, func(r *models.Refusal) bool { return r == nil })
	sortHolds(list)
	return list
}

// admitVerification enters the verification of the newest round, or leaves the record of its refusal.
func (s State) admitVerification(c models.AdmitVerification, env models.Env) ([]models.Event, *models.Refusal) {
	if r := s.notRegistered(); r != nil {
		return nil, r
	}
	if c.Round < 1 {
		return nil, models.Refuse(models.CodeRequestMalformed, models.D("member", "round"))
	}
	if s.End == EndCancelled || s.End == EndFailed {
		return nil, s.ended()
	}
	if s.Lease.Executing(env.At, env.LeaseExpires) {
		return nil, models.Refuse(models.CodeClaimLive, models.D("expires_at", int64(env.LeaseExpires)))
	}
	events := s.lapse(env)
	after := s.lapsed(env)
	automatic := env.Actor == models.ServerActor
	t, ticketed := after.Tickets.Last()
	v, g := after.Verification, after.Registration
	what := ""
	switch {
	case g.Verification == (models.Verification{}):
		what = "the run has no verification commands"
	case automatic && v.Stopped:
		what = "a refusal ended automatic scheduling"
	case v.State == models.VerificationStateAdmitted:
		what = "it waits for a worker already"
	case c.Round != after.Rounds || after.Rounds <= g.CompletedRounds:
		what = "another round is the newest"
	case c.Round == v.Round && (automatic || v.State == models.VerificationStateFinished):
		what = "that round was entered before"
	case !(ticketed && t.Outstanding()) && !after.Custody.Clean():
		what = "something of the last turn is open"
	}
	if what != "" {
		return nil, models.Refuse(models.CodeVerificationNotDue, models.D("round", after.Rounds), models.D("what", what))
	}
	epoch := models.CurrentEpoch{PolicyDigest: env.Factory.PolicyDigest, PolicyRevision: env.Factory.Policy.Revision}
	switch holds := after.verificationHolds(env); {
	case len(holds) > 0 && !automatic:
		return nil, holds[0]
	case len(holds) > 0:
		events = append(events, models.VerificationRefused{Code: holds[0].Code, CurrentEpoch: epoch, Details: holds[0].Details, Round: c.Round})
	default:
		events = append(events, models.VerificationAdmitted{Commands: g.Verification.Commands, CurrentEpoch: epoch, List: g.Verification.List, Round: c.Round})
	}
	return events, s.room(len(events))
}

// verificationFact judges a fact under a verification's claim: source, then the list's commands one by one, then the outcome. A
// verification neither asks a model nor calls a tool, and nobody else prepares or ends one.
func (s State) verificationFact(f models.Fact, env models.Env) *models.Refusal {
	v := s.Verification
	order := func(what string) *models.Refusal {
		return models.Refuse(models.CodeFactOutOfOrder, models.D("what", what))
	}
	switch f := f.(type) {
	case models.SourcePrepared:
		if v.Prepared {
			return order("the source is prepared once")
		}
		if now := s.changed(env); now != nil {
			return now
		}
		if frozen := s.Registration.Source; f.Source != frozen.Digest {
			return models.Refuse(models.CodeSourceChanged, models.D("record", frozen.Record), models.D("frozen", frozen.Digest), models.D("current", f.Source))
		}
		return nil
	case models.CommandStarted:
		switch {
		case !v.Prepared:
			return order("the source is prepared before the first command")
		case f.Position != -1:
			return order("no call runs a verification's command")
		case v.Started >= v.Commands:
			return order("the list has no further command")
		}
		return s.Custody.Refuse(f, s.Registration.Mode, s.Budget)
	case models.CommandFinished:
		return s.Custody.Refuse(f, s.Registration.Mode, s.Budget)
	case models.VerificationFinished:
		switch {
		case !v.Prepared:
			return order("the source is prepared before the outcome")
		case len(s.Custody.Commands) > 0:
			return models.Refuse(models.CodeUnknownEffect, models.D("seq", s.Custody.Commands[0].Seq))
		case f.Passed && (v.Started < v.Commands || v.Failures > 0):
			return order("a verification passes when every command of the list has finished with exit code 0")
		}
		return nil
	case models.WorkerFailed:
		return nil
	}
	return order("a verification prepares the source, runs its commands and ends")
}

// evolve folds an event of a verification.
func (v Verification) evolve(e models.Event) Verification {
	claimed := v.State == models.VerificationStateClaimed
	switch e := e.(type) {
	case models.VerificationAdmitted:
		return Verification{Commands: e.Commands, Round: e.Round, State: models.VerificationStateAdmitted, Stopped: v.Stopped}
	case models.VerificationRefused:
		return Verification{Round: e.Round, State: models.VerificationStateRefused, Stopped: true}
	case models.ClaimTaken:
		if v.State == models.VerificationStateAdmitted {
			v.State = models.VerificationStateClaimed
		}
	case models.SourcePrepared:
		v.Prepared = true
	case models.CommandStarted:
		if claimed {
			v.Started++
		}
	case models.CommandFinished:
		if claimed && e.ExitCode != 0 {
			v.Failures++
		}
	case models.VerificationFinished:
		v.State, v.Passed = models.VerificationStateFinished, e.Passed
	case models.WorkerFailed, models.LeaseLapsed, models.ClaimReleased, models.RunCancelled:
		if s := []string{models.VerificationStateClaimed, models.VerificationStateAdmitted}; slices.Contains(s, v.State) {
			v.State = models.VerificationStateLost
		}
	}
	return v
}

// verificationReceipt says what became of an admission: its event is the last row.
func verificationReceipt(rows []models.Row, events []models.Event) models.VerificationReceipt {
	last := rows[len(rows)-1]
	r := models.VerificationReceipt{At: last.At, Hash: last.Hash, Seq: last.Seq, State: models.VerificationStateAdmitted}
	switch e := events[len(events)-1].(type) {
	case models.VerificationAdmitted:
		r.Round = e.Round
	case models.VerificationRefused:
		r.Round, r.Code, r.State = e.Round, e.Code, models.VerificationStateRefused
	}
	return r
}
