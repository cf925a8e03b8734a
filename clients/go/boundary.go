package forge

import (
	"context"
	"net/http"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// RejectedBoundaryRecoveryInputV1 is the body of a refused-boundary recovery: the exact candidate, the review again, the validated
// correction, a bounded window and four acknowledgements.
type RejectedBoundaryRecoveryInputV1 struct {
	AcknowledgeFiniteOwnershipLease           bool                               `json:"acknowledge_finite_ownership_lease"`
	AcknowledgeNoOriginalResponseOrToolReplay bool                               `json:"acknowledge_no_original_response_or_tool_replay"`
	AcknowledgeReviewedProviderEpoch          bool                               `json:"acknowledge_reviewed_provider_epoch"`
	AcknowledgeSameRequestAndBudgets          bool                               `json:"acknowledge_same_request_and_budgets"`
	CandidateDigest                           models.Digest                      `json:"candidate_digest"`
	CorrectiveEpoch                           string                             `json:"corrective_epoch,omitzero"`
	CorrectiveValidation                      models.Digest                      `json:"corrective_validation_digest,omitzero"`
	Review                                    models.ReviewedProviderRejectionV1 `json:"review"`
	ValidForSeconds                           models.Seconds                     `json:"valid_for_seconds"`
	Version                                   int64                              `json:"version,omitzero"`
}

// RejectedBoundaryCandidate inspects a reviewed provider refusal. It saves nothing.
func (c *Client) RejectedBoundaryCandidate(ctx context.Context, run, request string, review models.ReviewedProviderRejectionV1) (models.RecoveryCandidate, error) {
	text, err := canon.Marshal(review)
	if err != nil {
		return models.RecoveryCandidate{}, err
	}
	out, err := save[models.RecoveryCandidate](ctx, c, call{method: http.MethodPost, path: requestPath(run, request, "rejected-boundary-candidate"), body: text})
	return out.Receipt, err
}

// RequestRejectedBoundaryRecovery submits the one reviewed action. recovery is the caller's own id, made and stored before this is
// sent: after ErrUncertain read RejectedBoundaryRecovery, and choose no other.
func (c *Client) RequestRejectedBoundaryRecovery(ctx context.Context, run, request, recovery string, body RejectedBoundaryRecoveryInputV1) (Saved[models.RecoveryReceipt], error) {
	text, err := canon.Marshal(body)
	if err != nil {
		return Saved[models.RecoveryReceipt]{}, err
	}
	return save[models.RecoveryReceipt](ctx, c, call{method: http.MethodPost, path: requestPath(run, request, "rejected-boundary-recoveries", recovery), body: text})
}

// RejectedBoundaryRecovery reads the saved action back.
func (c *Client) RejectedBoundaryRecovery(ctx context.Context, run, request string) (Saved[models.RecoveryReceipt], error) {
	return save[models.RecoveryReceipt](ctx, c, call{method: http.MethodGet, path: requestPath(run, request, "rejected-boundary-recovery")})
}

// Report reads a kept report of the factory.
func (c *Client) Report(ctx context.Context, digest models.Digest) ([]byte, error) {
	_, data, err := c.do(ctx, call{method: http.MethodGet, path: "/reports/" + digest.String()})
	return data, err
}

// PutReport keeps a report of the factory and returns the plain digest that names it in a review.
func (c *Client) PutReport(ctx context.Context, data []byte) (models.Digest, error) {
	digest := models.PlainDigest(data)
	_, _, err := c.do(ctx, call{method: http.MethodPut, path: "/reports/" + digest.String(), body: data, kind: "application/json"})
	return digest, err
}
