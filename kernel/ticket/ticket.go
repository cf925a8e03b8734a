// Package ticket keeps what was admitted: one ticket for each consumed graph, ever.
//
// Invariants:
//
//	T1. A consumed graph has at most one ticket, whatever ids, versions and races (rules, invariant 8).
//	T2. A ticket is outstanding until its claim has ended with a known outcome or it was reconciled natively; claimed or
//	    uncertain it is never queued again by the system (rules O31, invariant 23).
//	T3. The seal recomputes: nothing that a ticket was admitted on has changed (BOUND-07).
//	T4. A ticket has at most one recovery of each kind, and only a recovery queues it again (rules, invariants 10 and 23).
//	T5. A never-claimed recovery stands on no claim at all (rules, invariant 24).
package ticket

import (
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// States of a ticket (rules, section 6).
const (
	Queued          = "queued"
	Claimed         = "claimed"
	FailedUnclaimed = "failed_unclaimed"
	Uncertain       = "uncertain"
	Refused         = "refused"
	ObservationLost = "observation_lost"
	Held            = "held" // failed again, or in a way that nothing but a native reconciliation may close
	Completed       = "completed"
	Ended           = "ended"
	Closed          = "closed"
)

// Ticket is one admission. Claims counts the workers that took it, Turns the requests issued under its claim. FailedSeq is the
// row of its last failure, Later the first row after that failure which no rule accounts for, Other the first one under its last
// claim that is more than a request, its refusal and the worker's failure, RefusedTurn the turn of that claim whose request the
// provider refused; 0 for none. NeverClaimed and RefusedBoundary are the ids of its one recovery of each kind (T4).
//
// LostTurn is the turn of the last claim in which a started call's result could not be kept. Carried is the checkpoint of a
// read-only observation recovery, which the next claim starts from in place of Derived, Witness that recovery's event digest, and
// RecoveryRevision the policy revision that it was reviewed under.
type Ticket struct {
	Carried             models.Digest `json:"carried,omitzero"`
	Claims              int64         `json:"claims,omitzero"`
	Derived             models.Digest `json:"derived"`
	FailedSeq           int64         `json:"failed_seq,omitzero"`
	Fixture             bool          `json:"fixture"`
	GrantSeq            int64         `json:"grant_seq"`
	Graph               models.Digest `json:"graph"`
	Later               int64         `json:"later,omitzero"`
	LostTurn            int64         `json:"lost_turn,omitzero"`
	NeverClaimed        string        `json:"never_claimed,omitzero"`
	Other               int64         `json:"other,omitzero"`
	PolicyRevision      int64         `json:"policy_revision"`
	Profile             string        `json:"profile"`
	ReadonlyObservation string        `json:"readonly_observation,omitzero"`
	RecoveryRevision    int64         `json:"recovery_revision,omitzero"`
	RefusedBoundary     string        `json:"refused_boundary,omitzero"`
	RefusedTurn         int64         `json:"refused_turn,omitzero"`
	RequestID           string        `json:"request_id"`
	Seal                models.Digest `json:"seal"`
	SettledSeq          int64         `json:"settled_seq"`
	State               string        `json:"state"`
	Turns               int64         `json:"turns"`
	Version             int64         `json:"version"`
	Witness             models.Digest `json:"witness,omitzero"`
}

// Outstanding reports whether generic ways on must wait for this ticket (T2).
func (t Ticket) Outstanding() bool {
	switch t.State {
	case Queued, Claimed, FailedUnclaimed, Held, ObservationLost, Refused, Uncertain:
		return true
	}
	return false
}

// Recovery is the id of the ticket's one recovery of that workflow, "" for none (T4).
func (t Ticket) Recovery(workflow string) string {
	switch workflow {
	case models.WorkflowNeverClaimed:
		return t.NeverClaimed
	case models.WorkflowRefusedBoundary:
		return t.RefusedBoundary
	case models.WorkflowReadonlyObservation:
		return t.ReadonlyObservation
	}
	return ""
}

// Start is the checkpoint that the next claim's first request starts from.
func (t Ticket) Start() models.Digest {
	if !t.Carried.IsZero() {
		return t.Carried
	}
	return t.Derived
}

// Identity names what an admission made of the ticket and nothing may change afterwards, its seal included (T3).
func (t Ticket) Identity() models.Digest {
	return models.Tagged(models.TagTicket, canon.MustMarshal(struct {
		Derived        models.Digest `json:"derived"`
		Fixture        bool          `json:"fixture"`
		GrantSeq       int64         `json:"grant_seq"`
		Graph          models.Digest `json:"graph"`
		PolicyRevision int64         `json:"policy_revision"`
		Profile        string        `json:"profile"`
		RequestID      string        `json:"request_id"`
		Seal           models.Digest `json:"seal"`
		SettledSeq     int64         `json:"settled_seq"`
		Version        int64         `json:"version"`
	}{t.Derived, t.Fixture, t.GrantSeq, t.Graph, t.PolicyRevision, t.Profile, t.RequestID, t.Seal, t.SettledSeq, t.Version}))
}

// State is every ticket of the run in order of admission.
type State struct {
	Tickets []Ticket `json:"tickets"`
}

// Last returns the newest ticket.
func (s State) Last() (Ticket, bool) {
	if len(s.Tickets) == 0 {
		return Ticket{}, false
	}
	return s.Tickets[len(s.Tickets)-1], true
}

// Find returns the ticket with this request id.
func (s State) Find(requestID string) (Ticket, bool) {
	for _, t := range s.Tickets {
		if t.RequestID == requestID {
			return t, true
		}
	}
	return Ticket{}, false
}

// ForGraph returns the ticket of a consumed graph (T1).
func (s State) ForGraph(graph models.Digest) (Ticket, bool) {
	for _, t := range s.Tickets {
		if t.Graph == graph {
			return t, true
		}
	}
	return Ticket{}, false
}

// Graph names a consumed graph: run, attempt, request, response and the row that consumed it.
func Graph(factory, run string, attempt, request int64, response models.Digest, consumeSeq int64) models.Digest {
	return models.Tagged(models.TagGraph, canon.MustMarshal(struct {
		Attempt    int64         `json:"attempt"`
		ConsumeSeq int64         `json:"consume_seq"`
		Factory    string        `json:"factory"`
		Request    int64         `json:"request"`
		Response   models.Digest `json:"response"`
		Run        string        `json:"run"`
	}{attempt, consumeSeq, factory, request, response, run}))
}

// Seal is the admission seal: who asked what, the two rows of the admission, and the derived checkpoint (rules O37).
func Seal(admission models.Digest, actor string, settled, granted models.Event, derived models.Digest) models.Digest {
	return models.Tagged(models.TagSeal, admission[:], []byte(actor), canon.MustMarshal(settled), canon.MustMarshal(granted), derived[:])
}

// Evolve folds one event; settled is the event of the row before when e is the lease of an admission, and known tells
// whether everything that happened so far has a known outcome.
func (s State) Evolve(e models.Event, seq int64, actor string, settled *models.MigrationSettled, known bool) State {
	if !quiet(e) {
		s = s.every(func(t *Ticket) {
			if (t.State == FailedUnclaimed || t.State == Refused || t.State == ObservationLost) && t.Later == 0 {
				t.Later = seq
			}
			if t.State == Claimed && t.Other == 0 && !boundary(e) {
				t.Other = seq
			}
		})
	}
	switch e := e.(type) {
	case models.MigrationSettled:
		s.Tickets = append(append([]Ticket(nil), s.Tickets...), Ticket{
			Derived: e.Derived, Fixture: e.Fixture, Graph: e.Graph, PolicyRevision: e.CurrentEpoch.PolicyRevision,
			Profile: e.Profile, RequestID: e.RequestID, SettledSeq: seq, State: Queued, Version: e.Version,
		})
	case models.LeaseGranted:
		if settled != nil {
			s = s.change(e.RequestID, func(t *Ticket) {
				t.GrantSeq, t.Seal = seq, Seal(settled.Admission, actor, *settled, e, settled.Derived)
			})
		}
	case models.ClaimTaken:
		s = s.change(e.RequestID, func(t *Ticket) {
			t.State, t.Claims, t.Turns, t.Other, t.RefusedTurn, t.LostTurn, t.Later = Claimed, t.Claims+1, 0, 0, 0, 0, 0
		})
	case models.LeaseLapsed:
		s = s.change(e.RequestID, func(t *Ticket) {
			t.State, t.FailedSeq = Uncertain, seq
			switch {
			case e.Fence != 0:
			case t.Claims == 0 && t.NeverClaimed == "":
				t.State = FailedUnclaimed
			default:
				t.State = Held
			}
		})
	case models.NeverClaimedWitnessed:
		s = s.change(e.RequestID, func(t *Ticket) { t.NeverClaimed = e.RecoveryID })
	case models.RequestRequeued:
		s = s.change(e.RequestID, func(t *Ticket) { t.State = Queued })
	case models.RequestIssued:
		s = s.live(func(t *Ticket) { t.Turns++ })
	case models.RequestRefused:
		s = s.live(func(t *Ticket) { t.RefusedTurn = t.Turns })
	case models.ToolUnknown:
		s = s.live(func(t *Ticket) { t.LostTurn = t.Turns })
	case models.ReadonlyObservationWitnessed:
		s = s.change(e.RequestID, func(t *Ticket) {
			t.ReadonlyObservation, t.Carried, t.RecoveryRevision = e.RecoveryID, e.Derived, e.CurrentEpoch.PolicyRevision
			t.Witness = models.Tagged(models.TagRecovery, canon.MustMarshal(e))
		})
	case models.RefusalSettled:
		s = s.change(e.RequestID, func(t *Ticket) { t.RefusedBoundary = e.RecoveryID })
	case models.WorkerFailed:
		s = s.live(func(t *Ticket) {
			t.State, t.FailedSeq = Uncertain, seq
			switch {
			case t.Turns > 0 && known:
				t.State = Ended
			case t.RefusedTurn > 0 && t.RefusedTurn == t.Turns && t.RefusedBoundary == "":
				t.State = Refused
			case t.RefusedTurn > 0 && t.RefusedTurn == t.Turns:
				t.State = Held // a repeated refusal
			case t.LostTurn > 0 && t.LostTurn == t.Turns && t.RefusedBoundary != "" && t.ReadonlyObservation == "":
				t.State = ObservationLost
			case t.LostTurn > 0 && t.LostTurn == t.Turns && t.ReadonlyObservation != "":
				t.State = Held // lost again
			}
		})
	case models.RunFailed:
		s = s.live(func(t *Ticket) { t.State = Ended })
	case models.EffectReconciled:
		if e.Subject == models.SubjectTicket {
			s = s.change(e.RequestID, func(t *Ticket) { t.State = Closed })
		}
	case models.RunCompleted:
		s = s.live(func(t *Ticket) { t.State = Completed })
	case models.RunCancelled:
		s = s.every(func(t *Ticket) {
			if t.Outstanding() {
				t.State = Closed
			}
		})
	}
	return s
}

// boundary events are all that may stand between a claim and the refusal of its first request (REFUSED-07).
func boundary(e models.Event) bool {
	switch e.(type) {
	case models.ClaimTaken, models.CheckpointSaved, models.RequestIssued, models.RequestRefused, models.WorkerFailed, models.LeaseLapsed:
		return true
	}
	return false
}

// quiet events may stand after a failure without being a later activity: the server's own note of its start, and what a
// recovery, a reconciliation, a cancellation or a refused verification appends (NOCLAIM-06, NOCLAIM-07).
func quiet(e models.Event) bool {
	switch e.(type) {
	case models.StartupAnnotated, models.NeverClaimedWitnessed, models.RefusalSettled, models.ReadonlyObservationWitnessed,
		models.RequestRequeued, models.EffectReconciled, models.RunCancelled, models.VerificationRefused:
		return true
	}
	return false
}

func (s State) live(f func(*Ticket)) State {
	return s.every(func(t *Ticket) {
		if t.State == Claimed {
			f(t)
		}
	})
}

func (s State) change(requestID string, f func(*Ticket)) State {
	if requestID == "" {
		return s
	}
	return s.every(func(t *Ticket) {
		if t.RequestID == requestID {
			f(t)
		}
	})
}

func (s State) every(f func(*Ticket)) State {
	out := append([]Ticket(nil), s.Tickets...)
	for i := range out {
		f(&out[i])
	}
	return State{Tickets: out}
}
