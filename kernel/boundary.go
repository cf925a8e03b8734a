package kernel

import (
	"slices"
	"strconv"

	"github.com/forge-continuity/forge/kernel/policy"
	"github.com/forge-continuity/forge/kernel/ticket"
	"github.com/forge-continuity/forge/models"
)

// BoundaryCandidate computes what a refused-boundary recovery would queue again on this review, and every hold but those of the
// correction, which is named at submission. It changes and saves nothing (REFUSED-20). The refusal is not_found, or
// request_malformed for a review that no journal could match.
func BoundaryCandidate(s State, requestID string, review models.Review, env models.Env) (models.RecoveryCandidate, *models.Refusal) {
	if member := review.Malformed(); member != "" {
		return models.RecoveryCandidate{}, models.Refuse(models.CodeRequestMalformed, models.D("member", "review."+member))
	}
	return s.candidate(models.WorkflowRefusedBoundary, requestID, env, func(after State, t ticket.Ticket, add func(*models.Refusal)) {
		after.boundaryHolds(t, review, env, add)
	}, func(c *models.RecoveryCandidate) {
		c.Review = &review
		if r := env.Reproduction; r != nil {
			c.Reproduced, c.ReproducedLength = r.Wire, r.Length
		}
	})
}

// boundaryHolds are what stands between a refused first request and its one recovery (REFUSED-02 to 14, 19, 26).
func (s State) boundaryHolds(t ticket.Ticket, review models.Review, env models.Env, add func(*models.Refusal)) {
	if t.RefusedBoundary != "" {
		add(models.Refuse(models.CodeRecoveryRecorded, models.D("recovery_id", t.RefusedBoundary)))
	}
	add(policy.PreAdmissionOff(env.Factory.Policy))
	turn := s.Custody.Turn
	if h := env.History; h != nil && (h.Claims == 0 || h.Request != t.RequestID || h.Settled == 0 || h.Granted == 0 || h.Gap > 0) {
		add(models.Refuse(models.CodeClaimHistoryIncomplete, models.D("claims", h.Claims), models.D("seq", h.Gap)))
	}
	switch {
	case t.State == ticket.Refused, t.State == ticket.Queued, t.RefusedBoundary != "" && t.State == ticket.Held:
	default:
		add(models.Refuse(models.CodeTicketUncertain, models.D("request_id", t.RequestID), models.D("state", t.State)))
	}
	if t.Turns > 1 {
		add(models.Refuse(models.CodeNotFirstRequest, models.D("requests", t.Turns)))
	}
	for _, seq := range []int64{t.Other, t.Later} {
		if seq > 0 {
			add(models.Refuse(models.CodeLaterActivity, models.D("seq", seq)))
			break
		}
	}
	// A source that was changed and put back lies there too: which of the two the request was refused on, nobody can tell.
	if g := s.Registration.Source; env.Factory.MovedSince(models.RecordSource, g.Record, s.Lease.GrantedOn) {
		add(models.Refuse(models.CodeLaterActivity, models.D("record", g.Record), models.D("since", s.Lease.GrantedAt)))
	}
	if turn.Checkpoint != t.Derived {
		add(models.Refuse(models.CodePendingCheckpointDiffers, models.D("got", turn.Checkpoint), models.D("want", t.Derived)))
	}
	if turn.RefusedSeq == 0 {
		add(models.Refuse(models.CodeRefusalNotReviewed, models.D("missing", "the worker's record of a refusal")))
	}
	s.reviewHolds(review, env, add)
	s.reproductionHolds(env, add)
}

// reviewHolds lays the review beside the journal and the kept reports (REFUSED-11 to 14).
func (s State) reviewHolds(review models.Review, env models.Env, add func(*models.Refusal)) {
	turn := s.Custody.Turn
	differs := ""
	switch {
	case review.Wire != turn.Wire:
		differs = "wire_digest"
	case review.WireLength != turn.WireLength:
		differs = "wire_length"
	case turn.Provider.IsZero() || review.Provider != turn.Provider:
		differs = "provider"
	case review.SourceRevision != strconv.FormatInt(s.Registration.Source.Revision, 10):
		differs = "source_revision"
	}
	if env.History != nil { // reports are read with the costly steps
		for _, want := range []struct {
			kind   string
			digest models.Digest
		}{{models.ReportSourceValidator, review.SourceValidator}, {models.ReportExecutableProbe, review.ExecutableProbe}} {
			report, ok := reportOf(env.Reports, want.digest, want.kind)
			if !ok {
				add(models.Refuse(models.CodeRefusalNotReviewed, models.D("missing", want.kind), models.D("digest", want.digest)))
			} else if report.ProviderEpoch != review.ProviderEpoch || report.Executable != review.Executable || report.SourceRevision != review.SourceRevision {
				differs = want.kind
			}
		}
	}
	if differs != "" {
		add(models.Refuse(models.CodeReviewEvidenceMismatch, models.D("differs", differs)))
	}
	for _, n := range []struct {
		name  string
		count int64
	}{{"admissions", review.Admissions}, {"jobs", review.Jobs}, {"provider_dispatches", review.ProviderDispatches}, {"tool_callbacks", review.ToolCallbacks}} {
		if n.count > 0 {
			add(models.Refuse(models.CodeReviewCountsNotZero, models.D("count", n.name)))
			break
		}
	}
}

func reportOf(reports []models.Report, digest models.Digest, kind string) (models.Report, bool) {
	i := slices.IndexFunc(reports, func(r models.Report) bool { return r.Digest == digest && r.Kind == kind })
	if i < 0 {
		return models.Report{}, false
	}
	return reports[i], true
}

// reproductionHolds compares the request as it was sent with the one that the sandbox renders from the pending checkpoint, which
// it does without any response (REFUSED-26, REFUSED-27).
func (s State) reproductionHolds(env models.Env, add func(*models.Refusal)) {
	r := env.Reproduction
	if r == nil {
		return
	}
	for _, h := range r.Holds {
		add(reported(h))
	}
	turn := s.Custody.Turn
	switch {
	case len(r.Holds) > 0:
	case r.Served != 0 || r.Module != env.Host.Module || r.Catalogue != env.Host.Catalogue || r.Checkpoint != turn.Checkpoint:
		add(models.Refuse(models.CodeSandboxStopped, models.D("reason", "no reproduction"), models.D("served", r.Served)))
	case r.Wire != turn.Wire || r.Length != turn.WireLength:
		add(models.Refuse(models.CodeWireBytesDiffer, models.D("sent", turn.Wire), models.D("reproduced", r.Wire)))
	}
}

// corrected refuses an action without a validated correction: a report of another epoch, made after the refusal. What proves the
// old refusal shows nothing about today's provider (REFUSED-16, REFUSED-18).
func (s State) corrected(c models.RecoverRefusedBoundary, env models.Env) *models.Refusal {
	lacks := ""
	report, ok := reportOf(env.Reports, c.CorrectiveValidation, models.ReportCorrectiveValidation)
	switch {
	case !models.ValidLabel(c.CorrectiveEpoch):
		lacks = "corrective_epoch"
	case c.CorrectiveEpoch == c.Review.ProviderEpoch:
		lacks = "another epoch than the refused one"
	case c.CorrectiveValidation.IsZero():
		lacks = "corrective_validation_digest"
	case env.History == nil: // reports are read with the costly steps
	case !ok:
		lacks = "report"
	case report.ProviderEpoch != c.CorrectiveEpoch:
		lacks = "report of that epoch"
	case report.At <= s.Custody.Turn.RefusedAt || report.At > env.At:
		lacks = "report made after the refusal"
	}
	if lacks != "" {
		return models.Refuse(models.CodeCorrectiveValidationMissing, models.D("lacks", lacks))
	}
	return nil
}

// recoverRefusedBoundary queues the ticket again on the reviewed refusal of its first request: the refusal settlement, the
// request's event as the action's receipt, and a new finite lease in adjacent rows (REFUSED-28).
func (s State) recoverRefusedBoundary(id string, c models.RecoverRefusedBoundary, env models.Env) ([]models.Event, *models.Refusal) {
	if r := s.notRegistered(); r != nil {
		return nil, r
	}
	if c.Version != 1 {
		return nil, models.Refuse(models.CodeRequestMalformed, models.D("member", "version"))
	}
	body := recovering{
		workflow: models.WorkflowRefusedBoundary, requestID: c.RequestID, candidate: c.CandidateDigest, seconds: c.ValidForSeconds,
		digests: []*models.Refusal{s.corrected(c, env)},
		acknowledgements: []acknowledgement{
			{"acknowledge_reviewed_provider_epoch", c.AcknowledgeReviewedProviderEpoch},
			{"acknowledge_no_original_response_or_tool_replay", c.AcknowledgeNoOriginalResponseOrToolReplay},
			{"acknowledge_same_request_and_budgets", c.AcknowledgeSameRequestAndBudgets},
			{"acknowledge_finite_ownership_lease", c.AcknowledgeFiniteOwnershipLease},
		},
	}
	candidate, r := BoundaryCandidate(s, c.RequestID, c.Review, env)
	if r != nil {
		return nil, r
	}
	if r := s.recover(body, candidate, env); r != nil {
		return nil, r
	}
	if env.Reproduction == nil {
		return nil, models.Refuse(models.CodeReconstructionMissing)
	}
	admission, err := models.CommandDigest(env.Actor, c)
	if err != nil {
		panic(err)
	}
	turn := s.Custody.Turn
	return s.requeue(id, body, models.RefusalSettled{
		Admission: admission, Attempt: s.Attempt, Candidate: candidate.CandidateDigest, Checkpoint: candidate.Checkpoint,
		CorrectiveEpoch: c.CorrectiveEpoch, CorrectiveValidation: c.CorrectiveValidation,
		CurrentEpoch: models.CurrentEpoch{PolicyDigest: candidate.PolicyDigest, PolicyRevision: candidate.PolicyRevision},
		FailedSeq:    candidate.FailedSeq, Fixture: candidate.Fixture, Journal: candidate.JournalDigest, Module: env.Host.Module,
		Profile: candidate.Profile, ProfileDigest: candidate.ProfileDigest, RecoveryID: id, RefusedSeq: turn.RefusedSeq, Request: turn.Request,
		RequestID: c.RequestID, Review: c.Review, Seal: candidate.Seal, SettledSeq: candidate.SettlementSeq,
	}, env)
}
