package api

import (
	"net/http"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// postObservation is ReadonlyObservationRecoveryInputV1. Like postRequest it keeps what a rule judges by value as text.
type postObservation struct {
	FiniteLease     canon.Raw       `json:"acknowledge_finite_ownership_lease,omitzero"`
	NoReplay        canon.Raw       `json:"acknowledge_no_original_callback_replay,omitzero"`
	SameRequest     canon.Raw       `json:"acknowledge_same_request_attempt_and_budgets,omitzero"`
	Unavailable     canon.Raw       `json:"acknowledge_unavailable_observation,omitzero"`
	CandidateDigest models.Digest   `json:"candidate_digest"`
	ValidForSeconds *models.Seconds `json:"valid_for_seconds,omitzero"`
	Version         *int64          `json:"version,omitzero"`
}

func (s *Server) observationCandidate(q *request) error {
	run, id, err := q.ids("run_id", "request_id")
	if err != nil {
		return err
	}
	if _, err := q.query(); err != nil {
		return err
	}
	c, err := s.engine.ObservationCandidate(q.ctx, q.caller, run, id)
	if err != nil {
		return err
	}
	return q.json(http.StatusOK, c)
}

// recoverReadonlyObservation submits the one reviewed action under the caller's own id: 202 at first, 200 with the same bytes for
// an identical repeat.
func (s *Server) recoverReadonlyObservation(q *request) error {
	run, id, err := q.ids("run_id", "request_id")
	if err != nil {
		return err
	}
	action, err := q.id("recovery_id")
	if err != nil {
		return err
	}
	var body postObservation
	if err := q.decode(&body); err != nil {
		return err
	}
	if body.Version != nil && *body.Version != 1 {
		return malformed("version")
	}
	if err := present(map[string]models.Digest{"candidate_digest": body.CandidateDigest}); err != nil {
		return err
	}
	return s.admit(q, run, action, models.RecoverReadonlyObservation{
		AcknowledgeFiniteOwnershipLease:         acknowledged(body.FiniteLease),
		AcknowledgeNoOriginalCallbackReplay:     acknowledged(body.NoReplay),
		AcknowledgeSameRequestAttemptAndBudgets: acknowledged(body.SameRequest),
		AcknowledgeUnavailableObservation:       acknowledged(body.Unavailable),
		CandidateDigest:                         body.CandidateDigest, RequestID: id, ValidForSeconds: window(body.ValidForSeconds), Version: 1,
	})
}
