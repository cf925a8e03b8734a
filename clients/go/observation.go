package forge

import (
	"context"
	"net/http"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// ReadonlyObservationRecoveryInputV1 is the body of a read-only observation recovery.
type ReadonlyObservationRecoveryInputV1 struct {
	AcknowledgeFiniteOwnershipLease         bool           `json:"acknowledge_finite_ownership_lease"`
	AcknowledgeNoOriginalCallbackReplay     bool           `json:"acknowledge_no_original_callback_replay"`
	AcknowledgeSameRequestAttemptAndBudgets bool           `json:"acknowledge_same_request_attempt_and_budgets"`
	AcknowledgeUnavailableObservation       bool           `json:"acknowledge_unavailable_observation"`
	CandidateDigest                         models.Digest  `json:"candidate_digest"`
	ValidForSeconds                         models.Seconds `json:"valid_for_seconds"`
	Version                                 int64          `json:"version,omitzero"`
}

// ReadonlyObservationCandidate reads the held turn whose evidence result was lost. It changes nothing.
func (c *Client) ReadonlyObservationCandidate(ctx context.Context, run, request string) (models.RecoveryCandidate, error) {
	return read[models.RecoveryCandidate](ctx, c, requestPath(run, request, "readonly-observation-candidate"), nil)
}

// RequestReadonlyObservationRecovery submits the one reviewed action. recovery is the caller's own id, made and stored before this
// is sent: after ErrUncertain read ReadonlyObservationRecovery, and choose no other.
func (c *Client) RequestReadonlyObservationRecovery(ctx context.Context, run, request, recovery string, body ReadonlyObservationRecoveryInputV1) (Saved[models.RecoveryReceipt], error) {
	text, err := canon.Marshal(body)
	if err != nil {
		return Saved[models.RecoveryReceipt]{}, err
	}
	return save[models.RecoveryReceipt](ctx, c, call{method: http.MethodPost, path: requestPath(run, request, "readonly-observation-recoveries", recovery), body: text})
}

// ReadonlyObservationRecovery reads the saved action back.
func (c *Client) ReadonlyObservationRecovery(ctx context.Context, run, request string) (Saved[models.RecoveryReceipt], error) {
	return save[models.RecoveryReceipt](ctx, c, call{method: http.MethodGet, path: requestPath(run, request, "readonly-observation-recovery")})
}
