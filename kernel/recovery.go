package kernel

import (
	"iter"
	"slices"

	"github.com/forge-continuity/forge/kernel/journal"
	"github.com/forge-continuity/forge/kernel/lease"
	"github.com/forge-continuity/forge/kernel/policy"
	"github.com/forge-continuity/forge/kernel/profile"
	"github.com/forge-continuity/forge/kernel/ticket"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// HistoryOf reads what the rows say of a request, from the first row on. It trusts no state: every claim row counts, and a row
// that is missing or cannot be read is a gap (NOCLAIM-02, NOCLAIM-03). Checkpoint is the caller's to set.
func HistoryOf(rows iter.Seq[models.Row], requestID string) models.TicketHistory {
	h := models.TicketHistory{Request: requestID}
	var settled *models.MigrationSettled
	next := int64(1)
	for row := range rows {
		e, err := models.DecodeEvent(row.Kind, row.Payload)
		if h.Gap == 0 && (row.Seq != next || err != nil) {
			h.Gap = next
		}
		next = row.Seq + 1
		before := settled
		settled = nil
		switch e := e.(type) {
		case models.MigrationSettled:
			if e.RequestID == requestID {
				h.Settled, settled = row.Seq, &e
			}
		case models.LeaseGranted:
			if before != nil && e.RequestID == requestID {
				h.Granted, h.Seal = row.Seq, ticket.Seal(before.Admission, row.Actor, *before, e, before.Derived)
			}
		case models.ClaimTaken:
			if e.RequestID == requestID {
				h.Claims++
			}
		case models.ToolUnknown:
			h.Lost = row.Hash
		case models.LeaseLapsed:
			if e.RequestID == requestID && e.Fence == 0 {
				h.Failed = row.Seq
			}
		}
	}
	return h
}

// AdmissionOf folds the two rows of an admission and returns the identity of the ticket that they make, zero where they are
// not such rows, or not those that were sealed (BOUND-07).
func AdmissionOf(rows []models.Row) models.Digest {
	if len(rows) != 2 {
		return models.Digest{}
	}
	var s ticket.State
	var settled *models.MigrationSettled
	for _, row := range rows {
		e, err := models.DecodeEvent(row.Kind, row.Payload)
		if err != nil || journal.RowHash(row) != row.Hash {
			return models.Digest{}
		}
		s = s.Evolve(e, row.Seq, row.Actor, settled, true)
		settled = nil
		if m, ok := e.(models.MigrationSettled); ok {
			settled = &m
		}
	}
	t, _ := s.Last()
	return t.Identity()
}

// lapsed is the state once a lease that has ended by time is recorded, as the first event of the command that meets it.
func (s State) lapsed(env models.Env) State {
	for _, e := range s.lapse(env) {
		s = Evolve(s, e, env.At, env.Actor)
	}
	return s
}

// recoveryHolds are those that the three recoveries share: policy, profile, people, the run as a whole, the ticket as the rows
// have it, and what has changed since. s is the state with a lapsed lease recorded; head is the one before.
func (s State) recoveryHolds(head State, t ticket.Ticket, env models.Env, add func(*models.Refusal)) {
	f := env.Factory
	add(policy.Disabled(f.Policy))
	_, r := profile.Select(f, env.Host)
	add(r)
	if own := profile.Still(f, t.Profile, env.Host); own != nil && (r == nil || own.Code != r.Code) {
		add(own)
	}
	if env.Actor != s.OriginalActor {
		add(models.Refuse(models.CodeActorNotOriginal, models.D("original_actor", s.OriginalActor)))
	}
	add(s.original(env, true))
	if s.End == EndCancelled {
		add(s.ended())
	}
	if done := s.End == EndCompleted || s.End == EndFailed; done || s.Lease.Live {
		add(models.Refuse(models.CodeRunNotHeld, models.D("ended", done), models.D("executing", s.Lease.Live)))
	}
	if s.Lease.Live || t.State == ticket.Queued {
		add(models.Refuse(models.CodeClaimLive, models.D("executing", s.Lease.Live), models.D("queued", !s.Lease.Live)))
	}
	add(head.journalHold(env.Recount))
	if h := env.History; h != nil {
		if h.Seal != t.Seal || h.Settled != t.SettledSeq || h.Granted != t.GrantSeq {
			add(models.Refuse(models.CodeTicketChanged, models.D("request_id", t.RequestID), models.D("what", "seal")))
		} else if h.Checkpoint != s.Custody.Checkpoint {
			add(models.Refuse(models.CodeTicketChanged, models.D("request_id", t.RequestID), models.D("what", "checkpoint")))
		}
	}
	for _, r := range s.changes(env) {
		add(r)
	}
	add(s.timeBudget())
	if _, r := lease.Window(env.At, 1, s.deadline()); r != nil {
		add(r)
	}
	add(s.Budget.Request())
}

// neverClaimedHolds are what stands between a failed request and its one recovery (NOCLAIM-01 to 07, 18).
func (s State) neverClaimedHolds(t ticket.Ticket, env models.Env, add func(*models.Refusal)) {
	if t.NeverClaimed != "" {
		add(models.Refuse(models.CodeRecoveryRecorded, models.D("recovery_id", t.NeverClaimed)))
	}
	h := env.History
	claims := t.Claims
	if h != nil {
		claims = max(claims, h.Claims)
	}
	if claims > 0 {
		add(models.Refuse(models.CodeTicketClaimed, models.D("claims", claims), models.D("request_id", t.RequestID)))
	}
	if t.State == ticket.Uncertain {
		add(models.Refuse(models.CodeTicketUncertain, models.D("request_id", t.RequestID)))
	}
	missing := ""
	switch {
	case h == nil:
	case h.Request != t.RequestID || h.Settled == 0 || h.Granted == 0:
		missing = "admission"
	case h.Gap > 0:
		missing = "row"
	}
	again := t.State == ticket.Held && t.NeverClaimed != "" // it failed once more: its failures are in the rows
	if missing == "" && claims == 0 && t.State != ticket.FailedUnclaimed && t.State != ticket.Queued && !again {
		missing = "failure"
	}
	if missing != "" {
		details := []models.Detail{models.D("missing", missing)}
		if h != nil {
			details = append(details, models.D("seq", h.Gap))
		}
		add(models.Refuse(models.CodeClaimHistoryIncomplete, details...))
	}
	if t.Later > 0 {
		add(models.Refuse(models.CodeLaterActivity, models.D("seq", t.Later)))
	}
}

// RecoveryCandidate computes what a never-claimed recovery of the request would queue again, and every hold. It changes nothing.
// The refusal is not_found.
func RecoveryCandidate(s State, requestID string, env models.Env) (models.RecoveryCandidate, *models.Refusal) {
	return s.candidate(models.WorkflowNeverClaimed, requestID, env, func(after State, t ticket.Ticket, add func(*models.Refusal)) {
		after.neverClaimedHolds(t, env, add)
	}, nil)
}

// candidate is what every workflow's candidate has, with the holds of its own and what else it shows.
func (s State) candidate(workflow, requestID string, env models.Env, own func(State, ticket.Ticket, func(*models.Refusal)),
	show func(*models.RecoveryCandidate)) (models.RecoveryCandidate, *models.Refusal) {
	if _, ok := s.Tickets.Find(requestID); !ok {
		return models.RecoveryCandidate{}, models.Refuse(models.CodeNotFound, models.D("request_id", requestID))
	}
	after := s.lapsed(env)
	t, _ := after.Tickets.Find(requestID)
	var holds []*models.Refusal
	add := func(r *models.Refusal) {
		if r != nil {
			holds = append(holds, r)
		}
	}
	after.recoveryHolds(s, t, env, add)
	own(after, t, add)
	sortHolds(holds)
	p := env.Factory.Policy
	c := models.RecoveryCandidate{
		Attempt: s.Attempt, Checkpoint: s.Custody.Checkpoint, Counters: s.Counters(), CustodyDigest: s.Custody.Digest,
		Eligible: len(holds) == 0, FailedSeq: t.FailedSeq, Fixture: env.Factory.Fixture, Holds: holds, JournalDigest: s.Head.Digest(),
		OriginalActor: s.OriginalActor, PermittedSeconds: s.permitted(env),
		PolicyDigest: env.Factory.PolicyDigest, PolicyRevision: p.Revision, RequestID: requestID, Run: s.Run, RunDigest: s.RunDigest(),
		Seal: t.Seal, SettlementSeq: t.SettledSeq, SourceDigest: models.Tagged(models.TagSource, canon.MustMarshal(s.Registration.Source)),
		State: t.State, TicketVersion: t.Version, Workflow: workflow,
	}
	if i := slices.IndexFunc(env.Factory.Profiles, func(p models.StoredProfile) bool { return p.Profile.ID == t.Profile }); i >= 0 {
		stored := env.Factory.Profiles[i]
		c.Profile, c.ProfileDigest, c.Qualifications = stored.Profile.ID, stored.Digest, stored.Profile.Qualifications
	}
	if show != nil {
		show(&c)
	}
	c.CandidateDigest = recoveryDigest(c)
	return c, nil
}

// recoveryDigest covers workflow, request, attempt, what was spent, the ticket's seal, the checkpoint to start from, and the
// digests of run, journal, custody, policy, profile and source, and what was reviewed: nothing that moves with the clock. Whether a lapsed lease is
// recorded already does move the journal.
func recoveryDigest(c models.RecoveryCandidate) models.Digest {
	return models.Tagged(models.TagRecovery, canon.MustMarshal(struct {
		Attempt    int64                  `json:"attempt"`
		Checkpoint models.Digest          `json:"checkpoint"`
		Counters   models.Counters        `json:"counters"`
		Closing    []models.ClosingResult `json:"closing,omitzero"`
		Custody    models.Digest          `json:"custody_digest"`
		Derived    models.Digest          `json:"derived_checkpoint,omitzero"`
		Journal    models.Digest          `json:"journal_digest"`
		Policy     models.Digest          `json:"policy_digest"`
		Profile    models.Digest          `json:"profile_digest"`
		Proof      models.Digest          `json:"proof_digest,omitzero"`
		Request    string                 `json:"request_id"`
		Review     *models.Review         `json:"review,omitzero"`
		Run        models.Digest          `json:"run_digest"`
		Seal       models.Digest          `json:"seal"`
		Settlement int64                  `json:"settlement_seq"`
		Source     models.Digest          `json:"source_digest"`
		Unknown    models.Digest          `json:"unknown,omitzero"`
		Witness    models.Digest          `json:"witness,omitzero"`
		Workflow   string                 `json:"workflow"`
	}{c.Attempt, c.Checkpoint, c.Counters, c.Closing, c.CustodyDigest, c.Derived, c.JournalDigest, c.PolicyDigest, c.ProfileDigest, c.Proof, c.RequestID, c.Review, c.RunDigest,
		c.Seal, c.SettlementSeq, c.SourceDigest, c.Unknown, c.Witness, c.Workflow}))
}

// acknowledgement is one that an action needs, and whether it was given.
type acknowledgement struct {
	name  string
	given bool
}

// recovering is what every recovery submits: its workflow, the request, the digests that were read and the acknowledgements.
type recovering struct {
	workflow, requestID string
	candidate           models.Digest
	digests             []*models.Refusal // of those named, the ones that are not current
	seconds             models.Seconds
	acknowledgements    []acknowledgement
}

// recover judges a submission: the candidate's own holds, what the body lacks, and last the candidate digest.
func (s State) recover(c recovering, candidate models.RecoveryCandidate, env models.Env) *models.Refusal {
	list := slices.Clone(candidate.Holds)
	add := func(r *models.Refusal) {
		if r != nil {
			list = append(list, r)
		}
	}
	for _, a := range c.acknowledgements {
		if !a.given {
			add(models.Refuse(models.CodeAcknowledgementMissing, models.D("acknowledgement", a.name)))
			break
		}
	}
	f := env.Factory
	add(windowOf(f.Policy, s.Registration.ProviderTimeout, c.seconds))
	for _, r := range c.digests {
		add(r)
	}
	if env.Pending >= f.Policy.MaxPendingTickets {
		add(models.Refuse(models.CodePendingTicketsReached, models.D("limit", f.Policy.MaxPendingTickets)))
	}
	sortHolds(list)
	unprepared := env.Recount == nil || env.History == nil
	if unprepared {
		list = slices.DeleteFunc(list, func(r *models.Refusal) bool { return !early(r.Code) })
	}
	if len(list) > 0 {
		return list[0]
	}
	if unprepared {
		return models.Refuse(models.CodeReconstructionMissing)
	}
	return stale("candidate", c.candidate, candidate.CandidateDigest)
}

// requeue appends what every recovery appends after its witness: the request's event and the finite lease.
func (s State) requeue(id string, c recovering, witness models.Event, env models.Env) ([]models.Event, *models.Refusal) {
	end, r := lease.Window(env.At, c.seconds, s.deadline())
	if r != nil {
		return nil, r
	}
	events := append(s.lapse(env), witness, models.RequestRequeued{RecoveryID: id, RequestID: c.requestID, Workflow: c.workflow},
		models.LeaseGranted{ExpiresAt: end, RequestID: c.requestID, Seconds: env.At.Until(end)})
	if r := missing(env); r != nil {
		return nil, r
	}
	return events, s.room(len(events))
}

// windowOf refuses seconds outside the window that is permitted, or where the policy is off outside any.
func windowOf(p models.Policy, timeout, seconds models.Seconds) *models.Refusal {
	if p.Enabled {
		return policy.Window(p, timeout, seconds)
	}
	if seconds < 1 || seconds > models.MaxWindow {
		return models.Refuse(models.CodeWindowInvalid, models.D("got", int64(seconds)), models.D("limit", int64(models.MaxWindow)))
	}
	return nil
}

// recoverNeverClaimed queues a request again that no worker ever claimed: the witness, the request's event and a new finite
// lease in adjacent rows (NOCLAIM-15).
func (s State) recoverNeverClaimed(id string, c models.RecoverNeverClaimed, env models.Env) ([]models.Event, *models.Refusal) {
	if r := s.notRegistered(); r != nil {
		return nil, r
	}
	if c.Version != 1 {
		return nil, models.Refuse(models.CodeRequestMalformed, models.D("member", "version"))
	}
	body := recovering{
		workflow: models.WorkflowNeverClaimed, requestID: c.RequestID, candidate: c.CandidateDigest, seconds: c.ValidForSeconds,
		digests: []*models.Refusal{stale("run", c.RunDigest, s.RunDigest()), stale("journal", c.JournalDigest, s.Head.Digest()),
			stale("policy", c.PolicyDigest, env.Factory.PolicyDigest)},
		acknowledgements: []acknowledgement{
			{"acknowledge_never_claimed", c.AcknowledgeNeverClaimed},
			{"acknowledge_same_request_and_attempt", c.AcknowledgeSameRequestAndAttempt},
			{"acknowledge_original_consumption_and_budgets", c.AcknowledgeOriginalConsumptionAndBudgets},
			{"acknowledge_renewed_same_attempt_lease", c.AcknowledgeRenewedSameAttemptLease},
		},
	}
	candidate, r := RecoveryCandidate(s, c.RequestID, env)
	if r != nil {
		return nil, r
	}
	if r := s.recover(body, candidate, env); r != nil {
		return nil, r
	}
	admission, err := models.CommandDigest(env.Actor, c)
	if err != nil {
		panic(err)
	}
	failed := candidate.FailedSeq
	return s.requeue(id, body, models.NeverClaimedWitnessed{
		Admission: admission, Attempt: s.Attempt, Candidate: candidate.CandidateDigest, Checkpoint: candidate.Checkpoint,
		CurrentEpoch: models.CurrentEpoch{PolicyDigest: candidate.PolicyDigest, PolicyRevision: candidate.PolicyRevision}, FailedSeq: failed,
		Fixture: candidate.Fixture, Journal: candidate.JournalDigest, Profile: candidate.Profile, ProfileDigest: candidate.ProfileDigest,
		RecoveryID: id, RequestID: c.RequestID, Seal: candidate.Seal, SettledSeq: candidate.SettlementSeq,
	}, env)
}

// recoveryReceipt finds the witness among the rows; the request's event and the lease are the two rows after it.
func recoveryReceipt(s State, seconds models.Seconds, rows []models.Row, events []models.Event) models.RecoveryReceipt {
	for i, e := range events {
		event, ok := e.(models.RequestRequeued)
		if !ok {
			continue
		}
		granted := events[i+1].(models.LeaseGranted)
		r := models.RecoveryReceipt{
			AdmittedAt: rows[i].At, Counters: s.Counters(), Establishes: models.Establishes, EventHash: rows[i].Hash, EventSeq: rows[i].Seq,
			ExpiresAt: granted.ExpiresAt, LeaseHash: rows[i+1].Hash, LeaseSeq: rows[i+1].Seq, OriginalActor: s.OriginalActor,
			RecoveryID: event.RecoveryID, Registration: s.Registered, RequestID: event.RequestID, Run: s.Run, State: ticket.Queued,
			ValidForSeconds: seconds, Version: 1, WitnessHash: rows[i-1].Hash, WitnessSeq: rows[i-1].Seq, Workflow: event.Workflow,
		}
		switch w := events[i-1].(type) {
		case models.NeverClaimedWitnessed:
			r.Attempt, r.Candidate, r.Checkpoint, r.CurrentEpoch, r.FailedSeq, r.Fixture = w.Attempt, w.Candidate, w.Checkpoint, w.CurrentEpoch, w.FailedSeq, w.Fixture
			r.Journal, r.Profile, r.ProfileDigest, r.Seal, r.SettlementSeq = w.Journal, w.Profile, w.ProfileDigest, w.Seal, w.SettledSeq
		case models.RefusalSettled:
			r.Attempt, r.Candidate, r.Checkpoint, r.CurrentEpoch, r.FailedSeq, r.Fixture = w.Attempt, w.Candidate, w.Checkpoint, w.CurrentEpoch, w.FailedSeq, w.Fixture
			r.Journal, r.Profile, r.ProfileDigest, r.Seal, r.SettlementSeq = w.Journal, w.Profile, w.ProfileDigest, w.Seal, w.SettledSeq
			r.Review, r.ReviewedBy, r.CorrectiveEpoch, r.CorrectiveValidation = &w.Review, models.ReviewedBy, w.CorrectiveEpoch, w.CorrectiveValidation
		case models.ReadonlyObservationWitnessed:
			r.Attempt, r.Candidate, r.Checkpoint, r.CurrentEpoch, r.FailedSeq, r.Fixture = w.Attempt, w.Candidate, w.Checkpoint, w.CurrentEpoch, w.FailedSeq, w.Fixture
			r.Journal, r.Profile, r.ProfileDigest, r.Seal, r.SettlementSeq = w.Journal, w.Profile, w.ProfileDigest, w.Seal, w.SettledSeq
			r.Closing, r.Derived, r.Unknown, r.WitnessBlob = w.Closing, w.Derived, w.Unknown, w.Witness
			if t, ok := s.Tickets.Find(w.RequestID); ok {
				r.Binding = Binding(t)
			}
		}
		return r
	}
	panic("kernel: recovery without its event")
}
