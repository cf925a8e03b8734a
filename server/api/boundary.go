package api

import (
	"net/http"

	"github.com/gofiber/fiber/v2"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// postBoundary is RejectedBoundaryRecoveryInputV1. Like postRequest it keeps what a rule judges by value as text; the correction
// may be absent, which is refused by its own code.
type postBoundary struct {
	FiniteLease          canon.Raw                          `json:"acknowledge_finite_ownership_lease,omitzero"`
	NoReplay             canon.Raw                          `json:"acknowledge_no_original_response_or_tool_replay,omitzero"`
	ReviewedEpoch        canon.Raw                          `json:"acknowledge_reviewed_provider_epoch,omitzero"`
	SameRequest          canon.Raw                          `json:"acknowledge_same_request_and_budgets,omitzero"`
	CandidateDigest      models.Digest                      `json:"candidate_digest"`
	CorrectiveEpoch      string                             `json:"corrective_epoch,omitzero"`
	CorrectiveValidation models.Digest                      `json:"corrective_validation_digest,omitzero"`
	Review               models.ReviewedProviderRejectionV1 `json:"review"`
	ValidForSeconds      *models.Seconds                    `json:"valid_for_seconds,omitzero"`
	Version              *int64                             `json:"version,omitzero"`
}

// boundaryCandidate inspects a review and admits nothing: 200, and no row (REFUSED-20).
func (s *Server) boundaryCandidate(q *request) error {
	run, id, err := q.ids("run_id", "request_id")
	if err != nil {
		return err
	}
	var review models.ReviewedProviderRejectionV1
	if err := q.decode(&review); err != nil {
		return err
	}
	c, err := s.engine.BoundaryCandidate(q.ctx, q.caller, run, id, review)
	if err != nil {
		return err
	}
	return q.json(http.StatusOK, c)
}

// recoverRefusedBoundary submits the one reviewed action under the caller's own id: 202 at first, 200 with the same bytes for an
// identical repeat.
func (s *Server) recoverRefusedBoundary(q *request) error {
	run, id, err := q.ids("run_id", "request_id")
	if err != nil {
		return err
	}
	action, err := q.id("recovery_id")
	if err != nil {
		return err
	}
	var body postBoundary
	if err := q.decode(&body); err != nil {
		return err
	}
	if body.Version != nil && *body.Version != 1 {
		return malformed("version")
	}
	if err := present(map[string]models.Digest{"candidate_digest": body.CandidateDigest}); err != nil {
		return err
	}
	a, err := s.engine.RecoverRefusedBoundary(q.ctx, q.caller, run, action, models.RecoverRefusedBoundary{
		AcknowledgeFiniteOwnershipLease:           acknowledged(body.FiniteLease),
		AcknowledgeNoOriginalResponseOrToolReplay: acknowledged(body.NoReplay),
		AcknowledgeReviewedProviderEpoch:          acknowledged(body.ReviewedEpoch),
		AcknowledgeSameRequestAndBudgets:          acknowledged(body.SameRequest),
		CandidateDigest:                           body.CandidateDigest, CorrectiveEpoch: body.CorrectiveEpoch,
		CorrectiveValidation: body.CorrectiveValidation, RequestID: id, ValidForSeconds: window(body.ValidForSeconds), Version: 1,
	}, body.Review)
	if err != nil {
		return err
	}
	return q.receipt(http.StatusAccepted, a)
}

// putReport keeps a report of the factory under its plain digest, so that a review can pin it.
func (s *Server) putReport(q *request) error {
	digest, err := q.digest("digest")
	if err != nil {
		return err
	}
	if err := s.engine.PutReport(q.ctx, q.caller, digest, q.body); err != nil {
		return err
	}
	return q.none()
}

func (s *Server) getReport(q *request) error {
	digest, err := q.digest("digest")
	if err != nil {
		return err
	}
	data, err := s.engine.Report(q.ctx, q.caller, digest)
	if err != nil {
		return err
	}
	return q.bytes(http.StatusOK, fiber.MIMEOctetStream, data)
}
