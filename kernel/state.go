// Package kernel decides. Given a state, a command and the facts of its surroundings it answers with events, with one
// refusal, or with neither, which means that this id was answered before and the saved receipt stands. It does no I/O,
// reads no clock and draws nothing at random; everything that it knows is in its arguments.
//
// Invariants of the whole (rules, section 7, numbers in brackets); those of each machine stand in its own package:
//
//	K1. State is a cache: folding all rows again gives the same bytes (1).
//	K2. Deciding again under a row's own rules gives that row's own events (1).
//	K3. A refused command changes nothing (29).
//	K4. An id has one content and one receipt; a repeat adds no row (9).
//	K5. Settlement, ownership lease in the next row, and queue entry exist all three or not at all (11).
//	K6. No effect row follows expiry, revocation, cancellation, actor loss, a detected change or an unknown effect under
//	    that claim (16).
//	K7. Limits, attempt and completed rounds are the same before and after an admission (2, 28).
package kernel

import (
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
	"github.com/forge-continuity/forge/kernel/budget"
	"github.com/forge-continuity/forge/kernel/custody"
	"github.com/forge-continuity/forge/kernel/lease"
	"github.com/forge-continuity/forge/kernel/ticket"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// How a run ended; empty while it has not.
const (
	EndCompleted = "completed"
	EndCancelled = "cancelled"
	EndFailed    = "failed" // retry may open another attempt
)

// State is everything about a run that decisions need, constant in the length of its journal apart from the tickets,
// which the policy bounds. The zero value, with Factory and Run set, is a run that is opened and not registered.
type State struct {
	Attempt       int64                    `json:"attempt"`
	Budget        budget.State             `json:"budget"`
	Cmd           int64                    `json:"cmd"`
	Custody       custody.State            `json:"custody"`
	End           string                   `json:"end"`
	Factory       string                   `json:"factory"`
	Head          models.Head              `json:"head"`
	HeadAt        models.Instant           `json:"head_at"`
	Lease         lease.State              `json:"lease"`
	OriginalActor string                   `json:"original_actor"`
	Pool          string                   `json:"pool"` // workers that a handoff names, empty for any
	Registered    models.Digest            `json:"registered"`
	Registration  models.Registration      `json:"registration"`
	Rounds        int64                    `json:"rounds"`
	Rules         int64                    `json:"rules"`
	Run           string                   `json:"run"`
	Settling      *models.MigrationSettled `json:"settling,omitzero"`
	Tickets       ticket.State             `json:"tickets"`
	Verification  Verification             `json:"verification,omitzero"`
	Waivers       []models.Waiver          `json:"waivers,omitzero"`
}

// Encode returns the canonical bytes that a store caches.
func (s State) Encode() []byte { return canon.MustMarshal(s) }

// DecodeState reads what Encode wrote, all of it: one that lacks a member, as one of an older build may, is an error, and its rows
// are folded again.
func DecodeState(b []byte) (State, error) {
	var s State
	err := canon.DecodeStored(b, &s)
	return s, err
}

// Fingerprint is xxhash64 of the encoded state in hex: equal across stores and processes, never evidence.
func Fingerprint(s State) string { return strconv.FormatUint(xxhash.Sum64(s.Encode()), 16) }

// Counters returns what was spent beside the limits.
func (s State) Counters() models.Counters {
	n := s.Budget.Spent
	return models.Counters{
		Attempt: s.Attempt, Commands: n.Commands, CompletedRounds: s.Rounds, InputTokens: n.InputTokens,
		Limits: s.Budget.Limits, OutputTokens: n.OutputTokens, Requests: n.Requests, SourceReads: n.SourceReads,
		ToolCalls: n.ToolCalls,
	}
}

// Graph returns the digest of the turn that stands, once its response was consumed.
func (s State) Graph() (models.Digest, bool) {
	t := s.Custody.Turn
	if t.ConsumeSeq == 0 {
		return models.Digest{}, false
	}
	return ticket.Graph(s.Factory, s.Run, s.Attempt, t.Request, t.Response, t.ConsumeSeq), true
}

// RunDigest names registration and attempt (rules O22).
func (s State) RunDigest() models.Digest {
	return models.Tagged(models.TagRun, []byte(s.Factory), []byte(s.Run), s.Registered[:], []byte(strconv.FormatInt(s.Attempt, 10)))
}

// Claimable reports whether an ordinary claim may go on from the point that stands (design, Where a worker can die):
// everything that happened is known, no call waits for a person, and no settlement stands that only its own ticket may
// carry on.
func (s State) Claimable() bool {
	return s.Custody.Known() && !s.Custody.RejectedRead() && !s.Custody.Turn.Settled
}

// Queue returns the entry that announces the run, or nil where no worker may claim it now.
func Queue(s State) *Entry {
	if s.Lease.Live {
		return nil
	}
	if s.Verification.State == models.VerificationStateAdmitted {
		return &Entry{Pool: models.VerificationPool, Expires: s.deadline()}
	}
	if s.End != "" {
		return nil
	}
	if t, ok := s.Tickets.Last(); ok && t.Outstanding() {
		if t.State == ticket.Queued {
			return &Entry{Request: t.RequestID, Expires: s.Lease.ExpiresAt}
		}
		return nil
	}
	if s.Claimable() && s.timeBudget() == nil { // before its registration a run has none that is known
		return &Entry{Pool: s.Pool, Expires: s.deadline()}
	}
	return nil
}

// Forever is an instant that does not come.
const Forever models.Instant = 1<<63 - 1

// Reclaimable says until when, once the lease in force has lapsed, an ordinary claim may go on from here without a person
// (design, Where a worker can die): the active deadline, Forever where the run has none, and 0 where no ordinary claim may. An
// ordinary claim that is live stands beside no outstanding ticket and in a run whose time budget is known: it was refused otherwise.
func Reclaimable(s State) models.Instant {
	switch {
	case s.End != "" || !s.Lease.Live || s.Lease.RequestID != "" || !s.Claimable():
		return 0
	case s.deadline() != 0:
		return s.deadline()
	}
	return Forever
}

// Entry announces work: ordinary, or a ticket, with the instant at which nobody may claim it any more, 0 for none.
type Entry struct {
	Request string
	Expires models.Instant
	Pool    string
}

// Evolve folds one event that stands in the next row, at that row's time and by its actor. It is total over the events
// that Decide can produce. The hash of the row, and the row of the factory's journal
// that a lease was granted and claimed on, are the caller's to set (Fold does).
func Evolve(s State, e models.Event, at models.Instant, actor string) State {
	seq := s.Head.Seq + 1
	s.Head, s.HeadAt = models.Head{Seq: seq}, at
	settled := s.Settling
	s.Settling = nil
	if s.Custody.ReadStarts(e) {
		s.Budget = s.Budget.Read()
	}
	s.Budget = s.Budget.Evolve(e)
	s.Custody = s.Custody.Evolve(e, seq, at)
	s.Lease = s.Lease.Evolve(e, actor)
	if _, ok := e.(models.LeaseGranted); ok {
		s.Lease.GrantedAt = at
	}
	s.Tickets = s.Tickets.Evolve(e, seq, actor, settled, s.Custody.Known())
	verification := s.Verification
	s.Verification = verification.evolve(e)
	switch e := e.(type) {
	case models.RunRegistered:
		s.OriginalActor, s.Registration, s.Rounds, s.Attempt = e.Actor, e.Registration, e.Registration.CompletedRounds, e.Registration.Attempt
		s.Registered = models.Tagged(models.TagRegistration, canon.MustMarshal(e))
	case models.MigrationSettled:
		s.Settling = &e
		s.Waivers = spend(s.Waivers, e, seq)
	case models.CredentialWaived:
		s.Waivers = append(slices.Clone(s.Waivers), models.Waiver{Blob: e.Blob, Finding: models.Finding{Path: e.Path, Rule: e.Rule}, RuleSet: e.RuleSet, Seq: seq})
	case models.RoundCompleted:
		s.Rounds = e.Round
	case models.RunCompleted:
		s.Rounds, s.End = e.Round, EndCompleted
	case models.RunCancelled:
		s.End = EndCancelled
	case models.RunFailed:
		s.End = EndFailed
	case models.AttemptOpened:
		s.Attempt, s.End = e.Attempt, ""
	case models.ClaimTaken:
		if verification.State != models.VerificationStateAdmitted { // workers that verify leave a handoff as it is
			s.Pool = ""
		}
	case models.ClaimReleased:
		s.Pool = e.Pool
	}
	return s
}

// Fold folds a sealed row whose event was decoded; factory is the row of the factory's journal that its command names.
func Fold(s State, r models.Row, e models.Event, factory int64) State {
	s = Evolve(s, e, r.At, r.Actor)
	switch e.(type) {
	case models.LeaseGranted:
		s.Lease.GrantedOn = factory
	case models.ClaimTaken:
		s.Lease.ClaimedOn = factory
	}
	s.Head.Hash, s.Factory, s.Run, s.Rules = r.Hash, r.Factory, r.Run, r.Rules
	if r.I == 0 {
		s.Cmd = r.Cmd
	}
	return s
}
