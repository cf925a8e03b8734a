package world

import (
	"slices"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
)

// recovered is the request that a recovery names, and whether the command is one.
func recovered(c models.Command) (string, bool) {
	if c, ok := c.(models.RecoverNeverClaimed); ok {
		return c.RequestID, true
	}
	return "", false
}

// TicketHistory is what the rows say of a request; the checkpoint to start from is kept unless KeptCheckpoint says otherwise.
func (w *World) TicketHistory(requestID string) *models.TicketHistory {
	h := kernel.HistoryOf(slices.Values(w.Rows), requestID)
	h.Checkpoint = w.State.Custody.Checkpoint
	if w.KeptCheckpoint != nil {
		h.Checkpoint = *w.KeptCheckpoint
	}
	return &h
}

// FailedUnclaimed is a run whose ticket request-1 lapsed before any worker took it. The lapse is not recorded yet.
func FailedUnclaimed() *World {
	w := Queued()
	w.Tick(700)
	return w
}

// RecoveryCandidate is what a reader of the recovery candidate of request-1 would see.
func (w *World) RecoveryCandidate(actor string) models.RecoveryCandidate {
	c, r := kernel.RecoveryCandidate(w.State, models.WorkflowNeverClaimed, "request-1", w.Env(actor, "candidate", models.RecoverNeverClaimed{RequestID: "request-1"}))
	if r != nil {
		panic(r)
	}
	return c
}

// Recovery is the body of a never-claimed recovery of request-1 that Dana would send after reading its candidate now.
func (w *World) Recovery(seconds models.Seconds) models.RecoverNeverClaimed {
	c := w.RecoveryCandidate(Dana)
	return models.RecoverNeverClaimed{
		AcknowledgeNeverClaimed: true, AcknowledgeOriginalConsumptionAndBudgets: true, AcknowledgeRenewedSameAttemptLease: true,
		AcknowledgeSameRequestAndAttempt: true, CandidateDigest: c.CandidateDigest, JournalDigest: c.JournalDigest,
		PolicyDigest: c.PolicyDigest, RequestID: "request-1", RunDigest: c.RunDigest, ValidForSeconds: seconds, Version: 1,
	}
}
