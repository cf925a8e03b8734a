package kernel

import (
	"github.com/forge-continuity/forge/kernel/ticket"
	"github.com/forge-continuity/forge/models"
)

// Unknown lists what a reconciliation could settle at this instant, each as the event that would settle it, by the row that
// it rests on: while a ticket is outstanding that ticket alone, once it is neither queued nor claimed (rules O36). expires
// is the lease expiry in force. Nothing can be settled while a claim is live.
func Unknown(s State, at, expires models.Instant) []models.EffectReconciled {
	if s.End == EndCancelled || s.Lease.Executing(at, expires) {
		return nil
	}
	s = s.after(at, expires)
	if t, ok := s.Tickets.Last(); ok && t.Outstanding() {
		if t.State == ticket.Queued {
			return nil
		}
		return []models.EffectReconciled{{RequestID: t.RequestID, Seq: t.SettledSeq, Subject: models.SubjectTicket}}
	}
	return s.Custody.AllPending()
}

// after is the state once a lease that has ended by time is recorded as lapsed.
func (s State) after(at, expires models.Instant) State {
	if e, ok := s.Lease.Lapsed(at, expires); ok {
		s = Evolve(s, e, at, "")
	}
	return s
}

// Tickets are the run's tickets as they stand at this instant: of a lease that has ended by time the row may still be missing, and
// none is shown as waiting or claimed that nobody can have any more.
func Tickets(s State, at, expires models.Instant) []ticket.Ticket {
	return s.after(at, expires).Tickets.Tickets
}

// Holds says what keeps a run that nobody works on from being claimed at this instant, in the order of the table, each with
// the row that it rests on; none where a worker may claim it, has claimed it, or where the run has ended. It is for people:
// a claim is decided by Decide. Of env it reads the moment, the factory and the host.
func Holds(s State, env models.Env, expires models.Instant) []*models.Refusal {
	at := env.At
	if s.Registered.IsZero() || s.End != "" || s.Lease.Executing(at, expires) {
		return nil
	}
	s = s.after(at, expires)
	if t, ok := s.Tickets.Last(); ok && t.Outstanding() {
		switch t.State {
		case ticket.Queued:
			if r := s.executionHold(t, env); r != nil {
				return []*models.Refusal{r}
			}
			return nil
		case ticket.Claimed, ticket.Uncertain:
			return []*models.Refusal{models.Refuse(models.CodeTicketUncertain, models.D("request_id", t.RequestID), models.D("seq", t.SettledSeq))}
		}
		return []*models.Refusal{models.Refuse(models.CodeTicketOutstanding, models.D("request_id", t.RequestID), models.D("seq", t.SettledSeq),
			models.D("state", t.State))}
	}
	var list []*models.Refusal
	for _, e := range s.Custody.AllPending() {
		if e.Subject == models.SubjectRequest {
			list = append(list, models.Refuse(models.CodeModelOutcomeUnknown, models.D("request", e.Request), models.D("seq", e.Seq)))
			continue
		}
		list = append(list, models.Refuse(models.CodeUnknownEffect, models.D("seq", e.Seq), models.D("subject", e.Subject)))
	}
	if r := s.timeBudget(); r != nil {
		list = append(list, r)
	} else if d := s.deadline(); d != 0 && at >= d {
		list = append(list, models.Refuse(models.CodeDeadlinePassed, models.D("deadline", int64(d))))
	}
	if s.Custody.Known() && !s.Claimable() {
		list = append(list, models.Refuse(models.CodeRunHeld, models.D("reason", "rejected_evidence_read")))
	}
	return list
}
