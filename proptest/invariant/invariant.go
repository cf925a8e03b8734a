// Package invariant checks what one accepted command may do to a run: the numbered invariants that stand at the top of the
// kernel's machines, and those of the continuity rules (section 7) that a single step shows.
package invariant

import (
	"fmt"
	"slices"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/kernel/ticket"
	"github.com/forge-continuity/forge/models"
)

// Step checks the way from one state to the next. env is what Decide read.
func Step(old, now kernel.State, c models.Command, env models.Env, events []models.Event) error {
	for _, check := range []func(kernel.State, kernel.State, models.Command, models.Env, []models.Event) error{spent, owned, settled, recovered, tickets, progress, verified} {
		if err := check(old, now, c, env, events); err != nil {
			return fmt.Errorf("%w: %s gave %d events\nfrom %s\nto   %s", err, c.Verb(), len(events), old.Encode(), now.Encode())
		}
	}
	return nil
}

func spent(old, now kernel.State, _ models.Command, _ models.Env, _ []models.Event) error {
	a, b, l := old.Budget.Spent, now.Budget.Spent, now.Budget.Limits
	switch {
	case b.Commands < a.Commands || b.InputTokens < a.InputTokens || b.OutputTokens < a.OutputTokens || b.Requests < a.Requests ||
		b.SourceReads < a.SourceReads || b.ToolCalls < a.ToolCalls || now.Attempt < old.Attempt:
		return fmt.Errorf("B1: spent %+v after %+v", b, a)
	case b.Commands > l.Commands || b.Requests > l.Requests || b.SourceReads > l.SourceReads || b.ToolCalls > l.ToolCalls || now.Attempt > l.Attempts:
		return fmt.Errorf("B2: spent %+v of %+v", b, l)
	case l != now.Registration.Limits || !old.Registered.IsZero() && old.Registration != now.Registration:
		return fmt.Errorf("B3: limits or registration changed")
	case b.Commands != now.Custody.CommandCount:
		return fmt.Errorf("C4: %d command rows, %d counted", now.Custody.CommandCount, b.Commands)
	}
	return nil
}

// owned: claims, fences, and who may write.
func owned(old, now kernel.State, c models.Command, env models.Env, events []models.Event) error {
	claims := int64(0)
	for _, e := range events {
		if taken, ok := e.(models.ClaimTaken); ok {
			claims++
			if taken.ExpiresAt <= env.At {
				return fmt.Errorf("L4: a claim that was over when it began")
			}
			if old.Lease.Executing(env.At, env.LeaseExpires) {
				return fmt.Errorf("L1: a claim beside a live one")
			}
		}
	}
	_, asked := c.(models.ClaimRun)
	if now.Lease.Fence != old.Lease.Fence+claims || asked != (claims == 1) {
		return fmt.Errorf("L1, L4: fence %d after %d and %d claims", now.Lease.Fence, old.Lease.Fence, claims)
	}
	batch, ok := c.(models.Append)
	if !ok {
		return nil
	}
	l := old.Lease
	verified := old.End == kernel.EndCompleted && old.Verification.State == models.VerificationStateClaimed
	if !l.Live || env.At >= l.InForce(env.LeaseExpires) || env.Actor != l.Owner || batch.Fence != l.Fence || old.End != "" && !verified {
		return fmt.Errorf("L3, K6: an append without ownership")
	}
	if t, ok := old.Tickets.Last(); ok && t.State == ticket.Claimed {
		f := env.Factory
		i := slices.IndexFunc(f.Profiles, func(p models.StoredProfile) bool { return p.Profile.ID == t.Profile })
		source, _ := f.Record(models.RecordSource, old.Registration.Source.Record)
		if !f.Policy.Enabled || !f.Has(old.OriginalActor, models.RoleOperator) || f.Profiles[i].Retired ||
			f.Profiles[i].Profile.Module != env.Host.Module || source.Digest != old.Registration.Source.Digest {
			return fmt.Errorf("K6: an effect after what stops a ticket")
		}
	}
	return nil
}

// settled: what an admission is.
func settled(old, now kernel.State, c models.Command, env models.Env, events []models.Event) error {
	i := slices.IndexFunc(events, func(e models.Event) bool { return e.Kind() == "migration.settled" })
	asked, ok := c.(models.RequestContinuity)
	if ok != (i >= 0) {
		return fmt.Errorf("K5: a settlement without a request, or a request without one")
	}
	if i < 0 {
		return nil
	}
	m := events[i].(models.MigrationSettled)
	entry := kernel.Queue(now)
	if i != len(events)-2 || entry == nil || entry.Request != m.RequestID {
		return fmt.Errorf("K5: settlement, lease in the next row, queue entry")
	}
	lease, ok := events[i+1].(models.LeaseGranted)
	if !ok || lease.RequestID != m.RequestID || now.Lease.Live {
		return fmt.Errorf("K5: settlement, lease in the next row, nobody's")
	}
	f, g := env.Factory, old.Registration
	end := env.At.Add(min(f.Policy.MaxValidForSeconds, g.ProviderTimeout, models.MaxWindow))
	if g.TimeBudget == models.TimeBudgetAbsolute {
		end = min(end, g.ActiveDeadline)
	}
	switch {
	case lease.ExpiresAt > end || lease.ExpiresAt <= env.At:
		return fmt.Errorf("L5: lease until %d, at most %d", lease.ExpiresAt, end)
	case old.Counters() != now.Counters():
		return fmt.Errorf("K7: the admission moved a counter")
	case !f.Policy.Enabled:
		return fmt.Errorf("P3: admitted with the policy disabled")
	case !slices.ContainsFunc(f.Profiles, func(p models.StoredProfile) bool {
		return !p.Retired && p.Profile.Module == env.Host.Module && p.Profile.Catalogue == env.Host.Catalogue
	}):
		return fmt.Errorf("F1: admitted without a current profile of the installed code")
	case !asked.AcknowledgeNoNewGrant || !asked.AcknowledgeOriginalConsumption || !asked.AcknowledgeRenewedSameAttemptLease ||
		m.Version != asked.Version || asked.AcknowledgeUnavailableSourceObservations != (m.Version == 2):
		return fmt.Errorf("rules, invariant 18: an acknowledgement is missing")
	case int64(len(now.Tickets.Tickets)) > f.Policy.MaxTicketsPerRun || env.Pending+1 > f.Policy.MaxPendingTickets:
		return fmt.Errorf("rules, invariant 19: admitted over a bound")
	case env.Actor != old.OriginalActor || unknown(old, m.Version) || old.End != "" || old.Lease.Executing(env.At, env.LeaseExpires):
		return fmt.Errorf("admitted what was not held")
	}
	return nil
}

// recovered: what a recovery is: its witness, the request's event and the lease in adjacent rows, and the queue's entry; nothing is
// spent and nobody owns it (rules, invariants 12, 13, 17 and 18).
func recovered(old, now kernel.State, c models.Command, env models.Env, events []models.Event) error {
	i := slices.IndexFunc(events, func(e models.Event) bool { return e.Kind() == "request.requeued" })
	p := env.Factory.Policy
	witness, acknowledged, on := "", false, true
	switch c := c.(type) {
	case models.RecoverNeverClaimed:
		witness = "never_claimed_recovery"
		acknowledged = c.AcknowledgeNeverClaimed && c.AcknowledgeOriginalConsumptionAndBudgets && c.AcknowledgeRenewedSameAttemptLease && c.AcknowledgeSameRequestAndAttempt
	case models.RecoverRefusedBoundary:
		witness, on = "refusal.settled", p.AllowPreAdmissionRecovery
		acknowledged = c.AcknowledgeFiniteOwnershipLease && c.AcknowledgeNoOriginalResponseOrToolReplay && c.AcknowledgeReviewedProviderEpoch && c.AcknowledgeSameRequestAndBudgets
	case models.RecoverReadonlyObservation:
		witness, on = "readonly_observation_recovery", p.AllowReadonlyObservationRecovery
		acknowledged = c.AcknowledgeFiniteOwnershipLease && c.AcknowledgeNoOriginalCallbackReplay && c.AcknowledgeSameRequestAttemptAndBudgets && c.AcknowledgeUnavailableObservation
	}
	if witness == "" {
		if i >= 0 {
			return fmt.Errorf("rules, invariant 23: queued again by %s", c.Verb())
		}
		return nil
	}
	if i < 1 || i != len(events)-2 || events[i-1].Kind() != witness {
		return fmt.Errorf("rules, invariant 12: witness, request's event, lease")
	}
	lease, ok := events[i+1].(models.LeaseGranted)
	entry, g := kernel.Queue(now), old.Registration
	end := env.At.Add(min(p.MaxValidForSeconds, g.ProviderTimeout, models.MaxWindow))
	if g.TimeBudget == models.TimeBudgetAbsolute {
		end = min(end, g.ActiveDeadline)
	}
	switch {
	case !ok || now.Lease.Live || entry == nil || entry.Request != lease.RequestID:
		return fmt.Errorf("rules, invariant 12: a finite lease, nobody's, and the queue's entry")
	case lease.ExpiresAt > end || lease.ExpiresAt <= env.At:
		return fmt.Errorf("L5: lease until %d, at most %d", lease.ExpiresAt, end)
	case old.Counters() != now.Counters():
		return fmt.Errorf("K7: the recovery moved a counter")
	case !p.Enabled || !on:
		return fmt.Errorf("P3: recovered with the policy disabled or the switch off")
	case !acknowledged:
		return fmt.Errorf("rules, invariant 18: an acknowledgement is missing")
	case env.Actor != old.OriginalActor || !env.Factory.Has(env.Actor, models.RoleAdministrator) || !env.Factory.Has(env.Actor, models.RoleOperator):
		return fmt.Errorf("recovered by somebody else")
	}
	return nil
}

// unknown reports whether an effect is unknown that an admission of this version does not cover: version 2 covers source
// observations, and nothing else ever is (ELIG-16).
func unknown(s kernel.State, version int64) bool {
	for _, c := range s.Custody.Turn.Calls {
		if c.Unknown() && !s.Custody.Turn.Settled && (version != 2 || c.Class != models.ClassSourceObservation) {
			return true
		}
	}
	return len(s.Custody.Commands) > 0
}

// moves are the ways of a ticket (rules, section 6), as far as this version goes.
func move(from, to string) bool {
	switch from {
	case to:
		return true
	case ticket.Queued:
		return to == ticket.Claimed || to == ticket.FailedUnclaimed || to == ticket.Held || to == ticket.Closed
	case ticket.Claimed:
		return to == ticket.Uncertain || to == ticket.Refused || to == ticket.ObservationLost || to == ticket.Held || to == ticket.Completed || to == ticket.Ended || to == ticket.Closed
	case ticket.FailedUnclaimed, ticket.ObservationLost, ticket.Refused:
		return to == ticket.Queued || to == ticket.Closed
	case ticket.Held, ticket.Uncertain:
		return to == ticket.Closed
	}
	return false
}

func tickets(old, now kernel.State, c models.Command, _ models.Env, _ []models.Event) error {
	list := now.Tickets.Tickets
	for i, t := range list {
		if slices.ContainsFunc(list[:i], func(u ticket.Ticket) bool { return u.Graph == t.Graph || u.RequestID == t.RequestID }) {
			return fmt.Errorf("T1: two tickets for one graph or id")
		}
		if t.Outstanding() && i < len(list)-1 {
			return fmt.Errorf("T2: an older ticket is outstanding")
		}
		if i >= len(old.Tickets.Tickets) {
			continue
		}
		was := old.Tickets.Tickets[i]
		if !move(was.State, t.State) {
			return fmt.Errorf("T2: a ticket went from %s to %s", was.State, t.State)
		}
		if was.RefusedBoundary != "" && was.RefusedBoundary != t.RefusedBoundary ||
			was.ReadonlyObservation != "" && (was.ReadonlyObservation != t.ReadonlyObservation || was.Carried != t.Carried || was.Witness != t.Witness) {
			return fmt.Errorf("T4: %+v after %+v", t, was)
		}
		if was.NeverClaimed != "" && was.NeverClaimed != t.NeverClaimed || t.Claims < was.Claims || t.NeverClaimed != "" && was.NeverClaimed == "" && was.Claims > 0 {
			return fmt.Errorf("T4, T5: %+v after %+v", t, was)
		}
		was.State, was.Turns, was.Claims, was.FailedSeq, was.Later, was.NeverClaimed, was.Other, was.RefusedBoundary, was.RefusedTurn,
			was.Carried, was.LostTurn, was.ReadonlyObservation, was.RecoveryRevision, was.Witness = t.State, t.Turns, t.Claims, t.FailedSeq, t.Later, t.NeverClaimed, t.Other, t.RefusedBoundary, t.RefusedTurn,
			t.Carried, t.LostTurn, t.ReadonlyObservation, t.RecoveryRevision, t.Witness
		if was != t {
			return fmt.Errorf("T3: a ticket changed: %+v", t)
		}
	}
	if e := kernel.Queue(now); e != nil && e.Request != "" {
		if last, _ := now.Tickets.Last(); last.State != ticket.Queued || last.RequestID != e.Request {
			return fmt.Errorf("T2: %s is queued as %s", e.Request, last.State)
		}
	}
	if last, ok := old.Tickets.Last(); ok && last.Outstanding() {
		switch c.(type) {
		case models.RetryRun, models.ReleaseRun, models.RequestContinuity:
			return fmt.Errorf("rules, invariant 26: %s while a ticket is outstanding", c.Verb())
		}
	}
	return nil
}

// progress: rounds move with completions alone, and a response is consumed once.
func progress(old, now kernel.State, _ models.Command, _ models.Env, events []models.Event) error {
	completions := int64(0)
	for _, e := range events {
		switch e := e.(type) {
		case models.RoundCompleted, models.RunCompleted:
			completions++
		case models.ResponseConsumed:
			if old.Custody.Turn.Request == e.Request && old.Custody.Turn.ConsumeSeq > 0 {
				return fmt.Errorf("C3: response %d consumed again", e.Request)
			}
		}
	}
	if !old.Registered.IsZero() && now.Rounds != old.Rounds+completions {
		return fmt.Errorf("rules, invariant 28: rounds %d after %d and %d completions", now.Rounds, old.Rounds, completions)
	}
	if old.End == kernel.EndCancelled || old.End == kernel.EndCompleted && !verification(old, events) {
		return fmt.Errorf("something follows the end")
	}
	return nil
}

// verification reports whether the events are those of an automatic verification, which may follow a completion: its admission or
// refusal, its claim, and facts under that claim.
func verification(old kernel.State, events []models.Event) bool {
	state := old.Verification.State
	for _, e := range events {
		switch e.(type) {
		case models.VerificationAdmitted, models.VerificationRefused, models.LeaseLapsed:
		case models.LeaseGranted, models.ClaimTaken:
			if state != models.VerificationStateAdmitted {
				return false
			}
		case models.EffectReconciled:
			return old.Custody.Unknown() > 0
		default:
			if state != models.VerificationStateClaimed {
				return false
			}
		}
	}
	return true
}

// verified: automatic verification records nothing beside a ticket but its one refusal, is not entered by the scheduler after it,
// and moves no progress (V1, V2).
func verified(old, now kernel.State, c models.Command, env models.Env, events []models.Event) error {
	_, asked := c.(models.AdmitVerification)
	t, ok := old.Tickets.Last()
	for _, e := range events {
		switch e.(type) {
		case models.VerificationAdmitted:
			if ok && t.Outstanding() {
				return fmt.Errorf("V1: a verification beside an outstanding ticket")
			}
		case models.VerificationRefused:
			if env.Actor != models.ServerActor || old.Verification.Stopped {
				return fmt.Errorf("V2: a second refusal, or one of a person's")
			}
		case models.SourcePrepared, models.VerificationFinished:
			if old.Verification.State != models.VerificationStateClaimed {
				return fmt.Errorf("V1: verified without a claim of it")
			}
		default:
			continue
		}
		if _, fact := c.(models.Append); !asked && !fact {
			return fmt.Errorf("V1: %s by %s", e.Kind(), c.Verb())
		}
	}
	if asked && env.Actor == models.ServerActor && old.Verification.Stopped {
		return fmt.Errorf("V2: scheduled after a refusal")
	}
	if old.Verification.Stopped && !now.Verification.Stopped || now.Rounds < old.Rounds {
		return fmt.Errorf("V2: the refusal was forgotten")
	}
	if asked && (old.Counters() != now.Counters() || old.Custody.Turn.Response != now.Custody.Turn.Response) {
		return fmt.Errorf("BOUND-13: entering a verification moved a counter or the response")
	}
	return nil
}
