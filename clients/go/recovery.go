package forge

import (
	"context"
	"net/http"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

func requestPath(run, request string, rest ...string) string {
	return runPath(run, append([]string{"invalid-read-continuity", "requests", request}, rest...)...)
}

// RecoveryCandidate reads what a recovery of a request that failed before a worker claim would queue again. It changes nothing.
func (c *Client) RecoveryCandidate(ctx context.Context, run, request string) (models.RecoveryCandidate, error) {
	return read[models.RecoveryCandidate](ctx, c, requestPath(run, request, "recovery-candidate"), nil)
}

// RequestRecovery submits the one recovery of a request that no worker ever claimed. recovery is the caller's own id, made and
// stored before this is sent: after ErrUncertain read Recovery, and choose no other.
func (c *Client) RequestRecovery(ctx context.Context, run, request, recovery string, body models.RecoverNeverClaimed) (Saved[models.RecoveryReceipt], error) {
	text, err := canon.Marshal(struct {
		AcknowledgeNeverClaimed                  bool           `json:"acknowledge_never_claimed"`
		AcknowledgeOriginalConsumptionAndBudgets bool           `json:"acknowledge_original_consumption_and_budgets"`
		AcknowledgeRenewedSameAttemptLease       bool           `json:"acknowledge_renewed_same_attempt_lease"`
		AcknowledgeSameRequestAndAttempt         bool           `json:"acknowledge_same_request_and_attempt"`
		CandidateDigest                          models.Digest  `json:"candidate_digest"`
		JournalDigest                            models.Digest  `json:"journal_digest"`
		PolicyDigest                             models.Digest  `json:"policy_digest"`
		RunDigest                                models.Digest  `json:"run_digest"`
		ValidForSeconds                          models.Seconds `json:"valid_for_seconds"`
		Version                                  int64          `json:"version"`
	}{body.AcknowledgeNeverClaimed, body.AcknowledgeOriginalConsumptionAndBudgets, body.AcknowledgeRenewedSameAttemptLease,
		body.AcknowledgeSameRequestAndAttempt, body.CandidateDigest, body.JournalDigest, body.PolicyDigest, body.RunDigest,
		body.ValidForSeconds, body.Version})
	if err != nil {
		return Saved[models.RecoveryReceipt]{}, err
	}
	return save[models.RecoveryReceipt](ctx, c, call{method: http.MethodPost, path: requestPath(run, request, "recoveries", recovery), body: text})
}

// Recovery reads the saved recovery of a request back: what to do after ErrUncertain.
func (c *Client) Recovery(ctx context.Context, run, request string) (Saved[models.RecoveryReceipt], error) {
	return save[models.RecoveryReceipt](ctx, c, call{method: http.MethodGet, path: requestPath(run, request, "recovery")})
}
