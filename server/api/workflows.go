package api

import (
	"net/http"

	"github.com/gofiber/fiber/v2"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// postRequestV2 is the body of a version-2 request: that of version 1, and the acknowledgement of version 2.
type postRequestV2 struct {
	postRequest
	Observations canon.Raw `json:"acknowledge_unavailable_source_observations,omitzero"`
}

// postRecovery is the body of a never-claimed recovery. Like postRequest it keeps what a rule judges by value as text.
type postRecovery struct {
	NeverClaimed          canon.Raw       `json:"acknowledge_never_claimed,omitzero"`
	ConsumptionAndBudgets canon.Raw       `json:"acknowledge_original_consumption_and_budgets,omitzero"`
	RenewedSameAttempt    canon.Raw       `json:"acknowledge_renewed_same_attempt_lease,omitzero"`
	SameRequest           canon.Raw       `json:"acknowledge_same_request_and_attempt,omitzero"`
	CandidateDigest       models.Digest   `json:"candidate_digest"`
	JournalDigest         models.Digest   `json:"journal_digest"`
	PolicyDigest          models.Digest   `json:"policy_digest"`
	RunDigest             models.Digest   `json:"run_digest"`
	ValidForSeconds       *models.Seconds `json:"valid_for_seconds,omitzero"`
	Version               *int64          `json:"version,omitzero"`
}

func (s *Server) recoveryCandidate(q *request) error {
	run, id, err := q.ids("run_id", "request_id")
	if err != nil {
		return err
	}
	if _, err := q.query(); err != nil {
		return err
	}
	c, err := s.engine.RecoveryCandidate(q.ctx, q.caller, run, id)
	if err != nil {
		return err
	}
	return q.json(http.StatusOK, c)
}

// recoverNeverClaimed submits the one never-claimed recovery under the caller's own id: 202 at first, 200 with the same bytes
// for an identical repeat.
func (s *Server) recoverNeverClaimed(q *request) error {
	run, id, err := q.ids("run_id", "request_id")
	if err != nil {
		return err
	}
	action, err := q.id("recovery_id")
	if err != nil {
		return err
	}
	var body postRecovery
	if err := q.decode(&body); err != nil {
		return err
	}
	if body.Version != nil && *body.Version != 1 {
		return malformed("version")
	}
	if err := present(map[string]models.Digest{"candidate_digest": body.CandidateDigest, "journal_digest": body.JournalDigest,
		"policy_digest": body.PolicyDigest, "run_digest": body.RunDigest}); err != nil {
		return err
	}
	return s.admit(q, run, action, models.RecoverNeverClaimed{
		AcknowledgeNeverClaimed:                  acknowledged(body.NeverClaimed),
		AcknowledgeOriginalConsumptionAndBudgets: acknowledged(body.ConsumptionAndBudgets),
		AcknowledgeRenewedSameAttemptLease:       acknowledged(body.RenewedSameAttempt),
		AcknowledgeSameRequestAndAttempt:         acknowledged(body.SameRequest),
		CandidateDigest:                          body.CandidateDigest, JournalDigest: body.JournalDigest, PolicyDigest: body.PolicyDigest,
		RequestID: id, RunDigest: body.RunDigest, ValidForSeconds: window(body.ValidForSeconds), Version: 1,
	})
}

// present refuses a digest that stands for none.
func present(digests map[string]models.Digest) error {
	for name, d := range digests {
		if d.IsZero() {
			return malformed(name)
		}
	}
	return nil
}

// saved reads the saved receipt of a request's recovery back, byte for byte.
func saved(workflow string) func(*Server, *request) error {
	return func(s *Server, q *request) error {
		run, id, err := q.ids("run_id", "request_id")
		if err != nil {
			return err
		}
		if _, err := q.query(); err != nil {
			return err
		}
		r, err := s.engine.Recovery(q.ctx, q.caller, run, id, workflow)
		if err != nil {
			return err
		}
		return q.bytes(http.StatusOK, fiber.MIMEApplicationJSON, r.Body)
	}
}
