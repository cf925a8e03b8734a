package kernel

import (
	"github.com/forge-continuity/forge/kernel/lease"
	"github.com/forge-continuity/forge/kernel/ticket"
	"github.com/forge-continuity/forge/models"
)

// outstanding refuses the generic ways on while a continuity ticket waits (NOCLAIM-19).
func (s State) outstanding() *models.Refusal {
	if t, ok := s.Tickets.Last(); ok && t.Outstanding() {
		return models.Refuse(models.CodeTicketOutstanding, models.D("request_id", t.RequestID), models.D("state", t.State))
	}
	return nil
}

// Renew lengthens an ordinary lease for its live owner, under the same fence: to at most the frozen provider timeout from
// now, and never past the active deadline. It changes the lease row only. A continuity lease is never lengthened (lease,
// L5), and no renewal shortens one.
func Renew(s State, fence int64, seconds models.Seconds, env models.Env) (models.Instant, *models.Refusal) {
	if _, ok := env.Factory.Principal(env.Actor); !ok {
		return 0, models.Refuse(models.CodeIdentityMissing)
	}
	if !env.Factory.Has(env.Actor, models.RoleWorker) {
		return 0, models.Refuse(models.CodeRoleMissing, models.D("role", models.RoleWorker))
	}
	if r := s.notRegistered(); r != nil {
		return 0, r
	}
	if seconds < 1 || seconds > models.MaxWindow {
		return 0, models.Refuse(models.CodeWindowInvalid, models.D("got", int64(seconds)), models.D("limit", int64(models.MaxWindow)))
	}
	if s.Lease.RequestID != "" {
		return 0, models.Refuse(models.CodeWindowInvalid, models.D("what", "a continuity lease is never lengthened"))
	}
	if r := Own(s, fence, env); r != nil {
		return 0, r
	}
	if r := s.over(); r != nil {
		return 0, r
	}
	end, r := lease.Window(env.At, min(seconds, s.Registration.ProviderTimeout), s.deadline())
	if r != nil {
		return 0, r
	}
	return max(end, env.LeaseExpires), nil
}

// release gives the run back where an ordinary claim may go on from; with a pool it is a handoff. A claimed ticket is
// never given back: nothing may queue it again (BOUND-08).
func (s State) release(c models.ReleaseRun, env models.Env) ([]models.Event, *models.Refusal) {
	if r := s.notRegistered(); r != nil {
		return nil, r
	}
	if c.Pool != "" && !models.ValidID(c.Pool) || c.Pool == models.VerificationPool {
		return nil, models.Refuse(models.CodeRequestMalformed, models.D("member", "pool"))
	}
	if r := Own(s, c.Fence, env); r != nil {
		return nil, r
	}
	if r := s.ended(); r != nil {
		return nil, r
	}
	if r := s.outstanding(); r != nil {
		return nil, r
	}
	if !s.Custody.Answered() {
		return nil, models.Refuse(models.CodeModelOutcomeUnknown, models.D("request", s.Custody.Turn.Request))
	}
	if seq := s.Custody.Unknown(); seq > 0 {
		return nil, models.Refuse(models.CodeUnknownEffect, models.D("seq", seq))
	}
	if !s.Claimable() {
		return nil, models.Refuse(models.CodeRunHeld, models.D("reason", "rejected_evidence_read"))
	}
	events := []models.Event{models.ClaimReleased(c)}
	return events, s.room(len(events))
}

// retry opens the next attempt of a failed run (design, What the spec presumes). Counters and limits stay.
func (s State) retry(env models.Env) ([]models.Event, *models.Refusal) {
	if r := s.notRegistered(); r != nil {
		return nil, r
	}
	if s.End == EndCancelled {
		return nil, s.ended()
	}
	if r := s.outstanding(); r != nil {
		return nil, r
	}
	if s.Attempt >= s.Budget.Limits.Attempts {
		return nil, models.Refuse(models.CodeAllowanceExhausted, models.D("allowance", "attempts"),
			models.D("limit", s.Budget.Limits.Attempts), models.D("spent", s.Attempt))
	}
	if s.End != EndFailed {
		return nil, models.Refuse(models.CodeRunNotFailed)
	}
	events := []models.Event{models.AttemptOpened{Attempt: s.Attempt + 1}}
	return events, s.room(len(events))
}

// annotate records the server's start while a ticket is outstanding (NOCLAIM-06, rules O34).
func (s State) annotate(c models.AnnotateStartup, env models.Env) ([]models.Event, *models.Refusal) {
	if !models.ValidID(c.Boot) {
		return nil, models.Refuse(models.CodeRequestMalformed, models.D("member", "boot"))
	}
	t, _ := s.Tickets.Last()
	if !t.Outstanding() {
		return nil, models.Refuse(models.CodeNotFound, models.D("what", "no outstanding ticket"))
	}
	events := []models.Event{models.StartupAnnotated{Boot: c.Boot, RequestID: t.RequestID}}
	return events, s.room(len(events))
}

// reconcile settles one unknown effect or one uncertain ticket, once, by a person with evidence (ELIG-16, BOUND-09). While
// a ticket is outstanding only that ticket can be settled; it is closed and never queued again (rules O36).
func (s State) reconcile(c models.Reconcile, env models.Env) ([]models.Event, *models.Refusal) {
	if r := s.notRegistered(); r != nil {
		return nil, r
	}
	if r := reconcileForm(c); r != nil {
		return nil, r
	}
	for _, a := range []struct {
		name  string
		given bool
	}{
		{"acknowledge_no_replay", c.AcknowledgeNoReplay},
		{"acknowledge_original_record_unchanged", c.AcknowledgeOriginalRecordUnchanged},
		{"acknowledge_original_use_charged", c.AcknowledgeOriginalUseCharged},
		{"acknowledge_unknown_outcome", c.AcknowledgeUnknownOutcome || c.Outcome != models.OutcomeChargedUnknown},
	} {
		if !a.given {
			return nil, models.Refuse(models.CodeAcknowledgementMissing, models.D("acknowledgement", a.name))
		}
	}
	if s.End == EndCancelled {
		return nil, s.ended()
	}
	if s.Lease.Executing(env.At, env.LeaseExpires) {
		return nil, models.Refuse(models.CodeClaimLive, models.D("expires_at", int64(env.LeaseExpires)))
	}
	events := s.lapse(env)
	for _, e := range events {
		s = Evolve(s, e, env.At, env.Actor)
	}
	done, r := s.unknown(c)
	if r != nil {
		return nil, r
	}
	if r := missing(env); r != nil {
		return nil, r
	}
	done.Evidence, done.Outcome, done.Result, done.ResultLength = c.Evidence, c.Outcome, c.Result, c.ResultLength
	return append(events, done), s.room(1) // a lapse is in s already
}

// reconcileForm refuses what no state could accept: evidence stands behind landed and did_not_happen, and only a landed
// effect has a result.
func reconcileForm(c models.Reconcile) *models.Refusal {
	bad := func(member string) *models.Refusal {
		return models.Refuse(models.CodeRequestMalformed, models.D("member", member))
	}
	switch c.Subject {
	case models.SubjectRequest, models.SubjectCall, models.SubjectCommand, models.SubjectTicket:
	default:
		return bad("subject")
	}
	if (c.Subject == models.SubjectTicket) != (c.RequestID != "") {
		return bad("request_id")
	}
	switch c.Outcome {
	case models.OutcomeLanded, models.OutcomeDidNotHappen:
		if c.Evidence.IsZero() {
			return bad("evidence")
		}
	case models.OutcomeChargedUnknown:
	default:
		return bad("outcome")
	}
	if hasResult := c.Outcome == models.OutcomeLanded && c.Subject != models.SubjectTicket; hasResult == c.Result.IsZero() {
		return bad("result")
	}
	if c.ResultLength < 0 || c.ResultLength > 0 && (c.Subject != models.SubjectRequest || c.Outcome != models.OutcomeLanded) {
		return bad("result_length")
	}
	return nil
}

// unknown finds what the command names among what is unknown. A claim that ended by time is recorded by now, and none is live.
func (s State) unknown(c models.Reconcile) (models.EffectReconciled, *models.Refusal) {
	nothing := models.Refuse(models.CodeNothingToReconcile, models.D("seq", c.Seq), models.D("subject", c.Subject))
	t, _ := s.Tickets.Last()
	waiting := t.Outstanding()
	if c.Subject == models.SubjectTicket {
		if !waiting || t.RequestID != c.RequestID || t.SettledSeq != c.Seq || t.State == ticket.Queued {
			return models.EffectReconciled{}, nothing
		}
		return models.EffectReconciled{RequestID: t.RequestID, Seq: c.Seq, Subject: c.Subject}, nil
	}
	if waiting {
		return models.EffectReconciled{}, s.outstanding()
	}
	e, _ := s.Custody.Pending(c.Seq)
	if e.Subject != c.Subject {
		return models.EffectReconciled{}, nothing
	}
	return e, nil
}
