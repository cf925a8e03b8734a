package kernel

import (
	"fmt"
	"slices"

	"github.com/forge-continuity/forge/kernel/custody"
	"github.com/forge-continuity/forge/kernel/lease"
	"github.com/forge-continuity/forge/kernel/policy"
	"github.com/forge-continuity/forge/kernel/profile"
	"github.com/forge-continuity/forge/kernel/ticket"
	"github.com/forge-continuity/forge/models"
)

// Decide answers a command for a run: events to append, one refusal, or neither (the saved receipt stands). id is the
// command's own id: the claim id, the request id, or that of the batch.
func Decide(s State, id string, c models.Command, env models.Env) ([]models.Event, *models.Refusal) {
	if r := admit(env.Factory.Rules, id, c, env); r != nil || env.Saved == models.SavedSame {
		return nil, r
	}
	if r := behind(env.At, max(s.HeadAt, env.Factory.HeadAt)); r != nil {
		return nil, r
	}
	switch c := c.(type) {
	case models.RegisterRun:
		return s.register(c, env)
	case models.ClaimRun:
		return s.claim(id, c, env)
	case models.Append:
		return s.append(c, env)
	case models.RequestContinuity:
		return s.requestContinuity(id, c, env)
	case models.CancelRun:
		return s.cancel(env)
	case models.ReleaseRun:
		return s.release(c, env)
	case models.Reconcile:
		return s.reconcile(c, env)
	case models.RetryRun:
		return s.retry(env)
	case models.AnnotateStartup:
		return s.annotate(c, env)
	case models.AdmitVerification:
		return s.admitVerification(c, env)
	case models.RecoverNeverClaimed:
		return s.recoverNeverClaimed(id, c, env)
	case models.RecoverRefusedBoundary:
		return s.recoverRefusedBoundary(id, c, env)
	case models.RecoverReadonlyObservation:
		return s.recoverReadonlyObservation(id, c, env)
	case models.WaiveCredential:
		return s.waive(c, env)
	case models.CreateFactory, models.PutPolicy, models.RegisterProfile, models.RetireProfile, models.PutPrincipal,
		models.PutRecord, models.ActivateRules:
	}
	panic(fmt.Sprintf("kernel.Decide: command %T", c))
}

// RoleFor is the role that a command asks for.
func RoleFor(c models.Command) string {
	switch c.(type) {
	case models.RegisterRun, models.RequestContinuity, models.CancelRun, models.Reconcile, models.RetryRun,
		models.AdmitVerification, models.RecoverNeverClaimed, models.RecoverRefusedBoundary, models.RecoverReadonlyObservation:
		return models.RoleOperator
	case models.AnnotateStartup:
		return "server"
	case models.ClaimRun, models.Append, models.ReleaseRun:
		return models.RoleWorker
	case models.CreateFactory, models.PutPolicy, models.RegisterProfile, models.RetireProfile, models.PutPrincipal,
		models.PutRecord, models.ActivateRules, models.WaiveCredential:
		return models.RoleAdministrator
	}
	panic(fmt.Sprintf("kernel.RoleFor: command %T", c))
}

// alsoFor is a role that a command asks for beside RoleFor, "" for none: a recovery is for a factory administrator with
// execution authority.
func alsoFor(c models.Command) string {
	switch c.(type) {
	case models.RecoverNeverClaimed, models.RecoverRefusedBoundary, models.RecoverReadonlyObservation:
		return models.RoleAdministrator
	}
	return ""
}

// admit is what every command passes first, in the order of the table: identity, then an identical repeat (K4), role, and
// other content under a used id.
func admit(rules int64, id string, c models.Command, env models.Env) *models.Refusal {
	_, starts := c.(models.AnnotateStartup)
	_, verifies := c.(models.AdmitVerification)
	ours := (starts || verifies) && env.Actor == models.ServerActor
	if _, ok := env.Factory.Principal(env.Actor); !ok && !ours {
		return models.Refuse(models.CodeIdentityMissing)
	}
	switch {
	case env.Saved == models.SavedSame:
		return nil
	case !models.ValidID(id):
		return models.Refuse(models.CodeRequestMalformed, models.D("member", "id"))
	case !ours && !env.Factory.Has(env.Actor, RoleFor(c)):
		return models.Refuse(models.CodeRoleMissing, models.D("role", RoleFor(c)))
	case alsoFor(c) != "" && !env.Factory.Has(env.Actor, alsoFor(c)):
		return models.Refuse(models.CodeRoleMissing, models.D("role", alsoFor(c)))
	case env.Saved == models.SavedOther:
		return models.Refuse(models.CodeRequestConflict, models.D("id", id))
	case !knows(rules):
		return models.Refuse(models.CodeRulesNewer, models.D("rules", rules))
	}
	return nil
}

// behind refuses a time before that of the journals it stands on: no row is older than the one before it, nor than the
// factory's row that it names. The shell has already put up with MaxClockLag.
func behind(at, head models.Instant) *models.Refusal {
	if at < head {
		return models.Refuse(models.CodeClockBehind, models.D("behind_us", int64(head-at)))
	}
	return nil
}

func (s State) register(c models.RegisterRun, env models.Env) ([]models.Event, *models.Refusal) {
	g := c.Registration
	bad := func(member string) *models.Refusal {
		return models.Refuse(models.CodeRequestMalformed, models.D("member", member))
	}
	switch {
	case !models.ValidID(s.Run):
		return nil, bad("run")
	case !models.ValidLabel(g.Mode):
		return nil, bad("mode")
	case !models.ValidLabel(g.Selection):
		return nil, bad("selection")
	case !models.ValidLabel(g.Acknowledgement):
		return nil, bad("acknowledgement")
	case !models.ValidID(g.TimeBudget):
		return nil, bad("time_budget")
	case g.ActiveDeadline < 0, g.TimeBudget == models.TimeBudgetNone && g.ActiveDeadline != 0,
		g.TimeBudget == models.TimeBudgetAbsolute && g.ActiveDeadline == 0:
		return nil, bad("active_deadline")
	case g.CompletedRounds < 0:
		return nil, bad("completed_rounds")
	case g.Attempt < 1 || g.Attempt > g.Limits.Attempts:
		return nil, bad("attempt")
	case g.Verification.Commands < 0, (g.Verification.Commands == 0) != g.Verification.List.IsZero():
		return nil, bad("verification")
	case g.Task.IsZero():
		return nil, bad("task")
	case g.Contract.IsZero():
		return nil, bad("contract")
	case g.Runtime.IsZero() || g.Validator.IsZero() || g.Reader.IsZero():
		return nil, bad("runtime, validator or reader")
	}
	l := g.Limits
	for _, n := range []int64{l.Attempts, l.Commands, l.InputTokens, l.OutputTokens, l.Repairs, l.Requests, l.SourceReads, l.ToolCalls, l.TotalTokens} {
		if n < 0 {
			return nil, bad("limits")
		}
	}
	switch {
	case g.ProviderTimeout < 1 || g.ProviderTimeout > models.MaxWindow:
		return nil, models.Refuse(models.CodeWindowInvalid, models.D("member", "provider_timeout_seconds"), models.D("limit", int64(models.MaxWindow)))
	case !s.Registered.IsZero():
		return nil, models.Refuse(models.CodeRunExists, models.D("run", s.Run))
	}
	s.Registration = g
	if list := append(s.changes(env), otherRevisions(g, env.Factory)...); len(list) > 0 {
		sortHolds(list)
		return nil, list[0]
	}
	if r := missing(env); r != nil {
		return nil, r
	}
	return []models.Event{models.RunRegistered{Actor: env.Actor, Registration: g}}, nil
}

// otherRevisions lists where a registration names another revision of a record than the one that stands. Later a newer revision
// with the same content is no change.
func otherRevisions(g models.Registration, f models.Factory) []*models.Refusal {
	var list []*models.Refusal
	for _, x := range []struct {
		code   models.Code
		kind   string
		frozen models.Frozen
	}{
		{models.CodeSourceChanged, models.RecordSource, g.Source},
		{models.CodeConfigurationChanged, models.RecordConfiguration, g.Configuration},
		{models.CodeScopeChanged, models.RecordScope, g.Scope},
	} {
		if now, _ := f.Record(x.kind, x.frozen.Record); now.Revision != x.frozen.Revision {
			list = append(list, models.Refuse(x.code, models.D("record", x.frozen.Record), models.D("got", x.frozen.Revision), models.D("want", now.Revision)))
		}
	}
	return list
}

// changed is the first of changes.
func (s State) changed(env models.Env) *models.Refusal {
	if list := s.changes(env); len(list) > 0 {
		return list[0]
	}
	return nil
}

// changes compares the frozen source, configuration and scope with the factory's records as they are now (FLOW-18,
// BOUND-03).
func (s State) changes(env models.Env) []*models.Refusal {
	g := s.Registration
	var list []*models.Refusal
	for _, f := range []struct {
		code   models.Code
		kind   string
		frozen models.Frozen
	}{
		{models.CodeSourceChanged, models.RecordSource, g.Source},
		{models.CodeConfigurationChanged, models.RecordConfiguration, g.Configuration},
		{models.CodeScopeChanged, models.RecordScope, g.Scope},
	} {
		now, ok := env.Factory.Record(f.kind, f.frozen.Record)
		if !ok || now.Digest != f.frozen.Digest {
			list = append(list, models.Refuse(f.code, models.D("record", f.frozen.Record), models.D("frozen", f.frozen.Digest), models.D("current", now.Digest)))
		}
	}
	return list
}

func missing(env models.Env) *models.Refusal {
	if len(env.Missing) > 0 {
		return models.Refuse(models.CodeBlobMissing, models.D("digest", env.Missing[0]), models.D("count", len(env.Missing)))
	}
	return nil
}

func (s State) notRegistered() *models.Refusal {
	if s.Registered.IsZero() {
		return models.Refuse(models.CodeNotFound, models.D("run", s.Run))
	}
	return nil
}

func (s State) ended() *models.Refusal {
	switch s.End {
	case EndCancelled:
		return models.Refuse(models.CodeRunCancelled)
	case EndCompleted, EndFailed:
		return models.Refuse(models.CodeRunFinished, models.D("end", s.End))
	}
	return nil
}

func (s State) claim(id string, c models.ClaimRun, env models.Env) ([]models.Event, *models.Refusal) {
	if r := s.notRegistered(); r != nil {
		return nil, r
	}
	if c.Pool != "" && !models.ValidID(c.Pool) {
		return nil, models.Refuse(models.CodeRequestMalformed, models.D("member", "pool"))
	}
	if c.LeaseSeconds < 1 || c.LeaseSeconds > models.MaxWindow {
		return nil, models.Refuse(models.CodeWindowInvalid, models.D("got", int64(c.LeaseSeconds)), models.D("limit", int64(models.MaxWindow)))
	}
	waits := s.Verification.State == models.VerificationStateAdmitted
	if r := s.ended(); r != nil && !(waits && s.End == EndCompleted) {
		return nil, r
	}
	if s.Lease.Executing(env.At, env.LeaseExpires) {
		return nil, models.Refuse(models.CodeClaimLive, models.D("expires_at", int64(env.LeaseExpires)))
	}
	if t, ok := s.Tickets.Last(); ok && t.Outstanding() {
		return s.claimTicket(id, t, env)
	}
	if !s.Custody.Answered() {
		return nil, models.Refuse(models.CodeModelOutcomeUnknown, models.D("request", s.Custody.Turn.Request))
	}
	if seq := s.Custody.Unknown(); seq > 0 {
		return nil, models.Refuse(models.CodeUnknownEffect, models.D("seq", seq))
	}
	if r := s.timeBudget(); r != nil {
		return nil, r
	}
	end, r := lease.Window(env.At, min(c.LeaseSeconds, s.Registration.ProviderTimeout), s.deadline())
	if r != nil {
		return nil, r
	}
	if !waits && !s.Claimable() {
		return nil, models.Refuse(models.CodeRunHeld, models.D("reason", "rejected_evidence_read"))
	}
	pool := s.Pool
	if waits {
		pool = models.VerificationPool
	}
	if pool != "" && c.Pool != pool {
		return nil, models.Refuse(models.CodeNotInPool, models.D("pool", pool))
	}
	events := s.lapse(env)
	seconds := env.At.Until(end)
	events = append(events, models.LeaseGranted{ExpiresAt: end, Seconds: seconds},
		models.ClaimTaken{ClaimID: id, ExpiresAt: end, Fence: s.Lease.Fence + 1})
	return events, s.room(len(events))
}

// lapse records a lease that ended by time, for the first command after its expiry.
func (s State) lapse(env models.Env) []models.Event {
	if e, ok := s.Lease.Lapsed(env.At, env.LeaseExpires); ok {
		return []models.Event{e}
	}
	return nil
}

// claimTicket gives the queued ticket to the caller, after the checks of this moment (START-01). A ticket that was claimed
// before, or whose lease is over, is never claimed again (BOUND-02, BOUND-08).
func (s State) claimTicket(id string, t ticket.Ticket, env models.Env) ([]models.Event, *models.Refusal) {
	switch {
	case t.State == ticket.Queued && !s.Lease.Waiting(env.At):
		return nil, models.Refuse(models.CodeLeaseExpired, models.D("expired_at", int64(s.Lease.ExpiresAt)))
	case t.State == ticket.Claimed || t.State == ticket.Uncertain:
		return nil, models.Refuse(models.CodeTicketUncertain, models.D("request_id", t.RequestID))
	case t.State != ticket.Queued:
		return nil, models.Refuse(models.CodeTicketOutstanding, models.D("request_id", t.RequestID))
	}
	if r := s.executionHold(t, env); r != nil {
		return nil, r
	}
	events := []models.Event{models.ClaimTaken{ClaimID: id, ExpiresAt: s.Lease.ExpiresAt, Fence: s.Lease.Fence + 1, RequestID: t.RequestID}}
	return events, s.room(len(events))
}

// executionHold is what stops a ticket at its claim and at every append under it, the first in order (BOUND-01 to 07).
func (s State) executionHold(t ticket.Ticket, env models.Env) *models.Refusal {
	f := env.Factory
	list := []*models.Refusal{policy.Disabled(f.Policy), profile.Still(f, t.Profile, env.Host), s.original(env, false), s.changed(env)}
	if a := env.Admission; a != nil && *a != t.Identity() {
		list = append(list, models.Refuse(models.CodeTicketChanged, models.D("request_id", t.RequestID), models.D("what", "admission")))
	}
	if t.Version == 2 {
		list = append(list, policy.ObservationsOff(f.Policy))
	}
	if t.RefusedBoundary != "" {
		list = append(list, policy.PreAdmissionOff(f.Policy))
	}
	if t.ReadonlyObservation != "" {
		// As written, any other revision of the policy stops this ticket, and the actor must still administer (ROBS-31, rules O46).
		list = append(list, policy.ReadonlyOff(f.Policy), s.original(env, true))
		if t.RecoveryRevision != f.Policy.Revision {
			list = append(list, models.Refuse(models.CodeDigestStale, models.D("digest", "policy"), models.D("got", f.Policy.Revision), models.D("want", t.RecoveryRevision)))
		}
	}
	list = slices.DeleteFunc(append(list, s.stopped(t, f)...), func(r *models.Refusal) bool { return r == nil })
	if len(list) == 0 {
		return nil
	}
	sortHolds(list)
	return list[0]
}

// stopped lists what stopped holding since the ticket's lease was granted, also where it was put back since: whoever met the
// stop does not go on by itself (rules, invariant 16).
func (s State) stopped(t ticket.Ticket, f models.Factory) []*models.Refusal {
	since, on, g := s.Lease.GrantedAt, s.Lease.GrantedOn, s.Registration
	var list []*models.Refusal
	add := func(kind, name string, code models.Code) {
		if f.MovedSince(kind, name, on) {
			list = append(list, models.Refuse(code, models.D("since", since)))
		}
	}
	add(models.MovedPolicy, "", models.CodePolicyDisabled)
	if t.Version == 2 {
		add(models.MovedObservations, "", models.CodeSettingOff)
	}
	if t.RefusedBoundary != "" {
		add(models.MovedPreAdmission, "", models.CodeSettingOff)
	}
	if narrowest, ok := f.NarrowedSince(on); ok && f.Policy.Enabled && !f.MovedSince(models.MovedPolicy, "", on) {
		list = append(list, narrowed(since.Until(s.Lease.ExpiresAt), narrowest))
	}
	add(models.MovedActor, s.OriginalActor, models.CodeAuthorityRevoked)
	if t.ReadonlyObservation != "" {
		add(models.MovedAdministrator, s.OriginalActor, models.CodeAuthorityRevoked)
	}
	add(models.RecordSource, g.Source.Record, models.CodeSourceChanged)
	add(models.RecordConfiguration, g.Configuration.Record, models.CodeConfigurationChanged)
	add(models.RecordScope, g.Scope.Record, models.CodeScopeChanged)
	return list
}

// narrowed refuses a ticket whose lease is longer than the policy permitted at some time since: the window is what it relies on
// (rules O46).
func narrowed(lease, window models.Seconds) *models.Refusal {
	if lease <= window {
		return nil
	}
	return models.Refuse(models.CodeWindowInvalid, models.D("got", int64(lease)), models.D("limit", int64(window)),
		models.D("what", "the policy was narrowed below the window of this ticket"))
}

// Own refuses a write by anybody but the live owner under the live fence, and by an owner that lost its right to work since it
// claimed: putting the role back does not give the claim back.
func Own(s State, fence int64, env models.Env) *models.Refusal {
	if s.Lease.Live && env.Factory.MovedSince(models.MovedWorker, env.Actor, s.Lease.ClaimedOn) {
		return models.Refuse(models.CodeFenceLost, models.D("fence", fence), models.D("current", s.Lease.Fence),
			models.D("what", "its owner lost the right to work since it claimed"))
	}
	return s.Lease.Own(env.Actor, fence, env.At, env.LeaseExpires)
}

// original checks the original execution actor: still there, and still allowed to execute (BOUND-05). administer asks for
// that role too.
func (s State) original(env models.Env, administer bool) *models.Refusal {
	if _, ok := env.Factory.Principal(s.OriginalActor); !ok {
		return models.Refuse(models.CodeActorLost, models.D("actor", s.OriginalActor))
	}
	if !env.Factory.Has(s.OriginalActor, models.RoleOperator) || administer && !env.Factory.Has(s.OriginalActor, models.RoleAdministrator) {
		return models.Refuse(models.CodeAuthorityRevoked, models.D("actor", s.OriginalActor))
	}
	return nil
}

// timeBudget refuses a protocol that is not known (FLOW-27).
func (s State) timeBudget() *models.Refusal {
	switch s.Registration.TimeBudget {
	case models.TimeBudgetNone, models.TimeBudgetAbsolute:
		return nil
	}
	return models.Refuse(models.CodeTimeBudgetUnsupported, models.D("protocol", s.Registration.TimeBudget))
}

func (s State) deadline() models.Instant {
	if s.Registration.TimeBudget == models.TimeBudgetAbsolute {
		return s.Registration.ActiveDeadline
	}
	return 0
}

// permitted is the window that a lease granted at this moment could have whole: what may be asked for, cut by the active deadline
// (rules O28). It moves with the clock, so it is shown and is in no digest (O22).
func (s State) permitted(env models.Env) models.Seconds {
	limit := policy.Permitted(env.Factory.Policy, s.Registration.ProviderTimeout)
	if d := s.deadline(); d != 0 {
		limit = min(limit, models.Seconds(max(d-env.At, 0)/1_000_000))
	}
	return limit
}

// reserved is how many rows of a journal are a cancellation's alone.
const reserved = 2

// room refuses rows over the bound of a journal.
func (s State) room(rows int) *models.Refusal {
	if s.Head.Seq+int64(rows) > models.MaxRows-reserved {
		return models.Refuse(models.CodeRunFull, models.D("limit", int64(models.MaxRows)))
	}
	return nil
}

func (s State) append(c models.Append, env models.Env) ([]models.Event, *models.Refusal) {
	if r := s.notRegistered(); r != nil {
		return nil, r
	}
	if limit := rulesets[env.Factory.Rules-1].maxFacts; len(c.Facts) < 1 || len(c.Facts) > limit {
		return nil, models.Refuse(models.CodeRequestMalformed, models.D("member", "facts"), models.D("limit", limit))
	}
	for i, f := range c.Facts {
		if r := custody.Form(f); r != nil {
			return nil, r.With(models.D("fact", i))
		}
	}
	if r := Own(s, c.Fence, env); r != nil {
		return nil, r
	}
	if t, ok := s.Tickets.Last(); ok && t.State == ticket.Claimed {
		if r := s.executionHold(t, env); r != nil {
			return nil, r
		}
	}
	if r := s.over(); r != nil {
		return nil, r
	}
	if r := s.room(len(c.Facts)); r != nil {
		return nil, r
	}
	var events []models.Event
	for i, f := range c.Facts {
		if r := s.fact(f, env); r != nil {
			return nil, r.With(models.D("fact", i))
		}
		s = Evolve(s, f, env.At, env.Actor)
		events = append(events, f)
	}
	return events, missing(env)
}

// fact judges one fact of a batch against the state that the facts before it left.
func (s State) fact(f models.Fact, env models.Env) *models.Refusal {
	if !s.Lease.Live { // each end of a run ends the claim
		return models.Refuse(models.CodeFactOutOfOrder, models.D("what", "nothing follows the end of a claim"))
	}
	if s.verifies() {
		return s.verificationFact(f, env)
	}
	if r := s.Custody.Refuse(f, s.Registration.Mode, s.Budget); r != nil {
		return r
	}
	switch f := f.(type) {
	case models.RequestIssued:
		if t, ok := s.Tickets.Last(); ok && t.State == ticket.Claimed && t.Turns == 0 && f.Checkpoint != t.Start() {
			return models.Refuse(models.CodeFactOutOfOrder, models.D("what", "a continuation's first request starts from the derived checkpoint"))
		}
	case models.RoundCompleted:
		return s.nextRound(f.Round)
	case models.RunCompleted:
		return s.nextRound(f.Round)
	}
	return nil
}

func (s State) nextRound(round int64) *models.Refusal {
	if round != s.Rounds+1 {
		return models.Refuse(models.CodeFactOutOfOrder, models.D("what", "rounds count without a gap"), models.D("want", s.Rounds+1))
	}
	return nil
}

func (s State) cancel(env models.Env) ([]models.Event, *models.Refusal) {
	if r := s.notRegistered(); r != nil {
		return nil, r
	}
	if r := s.ended(); r != nil && s.End != EndFailed {
		return nil, r
	}
	return append(s.lapse(env), models.RunCancelled{}), nil
}
