package world

import (
	"slices"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
)

// recovered is the request that a recovery names, and whether the command is one.
func recovered(c models.Command) (string, bool) {
	switch c := c.(type) {
	case models.RecoverNeverClaimed:
		return c.RequestID, true
	case models.RecoverRefusedBoundary:
		return c.RequestID, true
	case models.RecoverReadonlyObservation:
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
	c, r := kernel.RecoveryCandidate(w.State, "request-1", w.Env(actor, "candidate", models.RecoverNeverClaimed{RequestID: "request-1"}))
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

// Provider is the configuration that every world's continuation asks.
var Provider = models.ProviderDigest("https://provider.test/v1", "exec-1", "model-1", "principal-1", "epoch-1")

// Refused is the canonical run whose ticket request-1 was claimed, and whose first request the provider refused.
func Refused() *World {
	w := Continuing()
	w.RefuseNext()
	w.MustAppend(Failed())
	w.Tick(30)
	w.Policy(func(p *models.Policy) { p.AllowPreAdmissionRecovery = true })
	w.Review()
	return w
}

// RefuseNext issues the next request, and the provider refuses it.
func (w *World) RefuseNext() {
	facts := w.Asked()
	issued := facts[len(facts)-1].(models.RequestIssued)
	issued.Provider = Provider
	facts[len(facts)-1] = issued
	w.MustAppend(facts...)
	w.Tick(1)
	w.MustAppend(models.RequestRefused{Report: Blob("refused"), Request: issued.Request})
}

// Review makes the reports of what the world's provider did, and of its correction, as kept now.
func (w *World) Review() {
	report := func(kind, epoch string) models.Report {
		return models.Report{At: w.Now - 1, Digest: Plain("report " + kind), Executable: "exec-1", Kind: kind, ProviderEpoch: epoch, SourceRevision: "1"}
	}
	w.Reports = []models.Report{report(models.ReportSourceValidator, "epoch-1"), report(models.ReportExecutableProbe, "epoch-1"),
		report(models.ReportCorrectiveValidation, "epoch-2")}
}

// Reproduced is what the sandbox renders of the pending request: the very bytes.
func (w *World) Reproduced() *models.Reproduction {
	t := w.State.Custody.Turn
	return &models.Reproduction{Catalogue: w.Host.Catalogue, Checkpoint: t.Checkpoint, Length: t.WireLength, Module: w.Host.Module, Wire: t.Wire}
}

// Reviewed is the review of the refused request that stands.
func (w *World) Reviewed() models.Review {
	t := w.State.Custody.Turn
	return models.Review{
		Document: Blob("review"), Executable: "exec-1", ExecutableProbe: Plain("report executable_probe"), Provider: Provider,
		ProviderEpoch: "epoch-1", SourceRevision: "1", SourceValidator: Plain("report source_validator"), Wire: t.Wire, WireLength: t.WireLength,
	}
}

// BoundaryCandidate is what a reviewer of request-1 would see for a review.
func (w *World) BoundaryCandidate(actor string, review models.Review) models.RecoveryCandidate {
	c, r := kernel.BoundaryCandidate(w.State, "request-1", review, w.Env(actor, "candidate", models.RecoverRefusedBoundary{RequestID: "request-1", Review: review}))
	if r != nil {
		panic(r)
	}
	return c
}

// Boundary is the body of a refused-boundary recovery of request-1 that Dana would send after reading its candidate now.
func (w *World) Boundary(seconds models.Seconds) models.RecoverRefusedBoundary {
	review := w.Reviewed()
	return models.RecoverRefusedBoundary{
		AcknowledgeFiniteOwnershipLease: true, AcknowledgeNoOriginalResponseOrToolReplay: true, AcknowledgeReviewedProviderEpoch: true,
		AcknowledgeSameRequestAndBudgets: true, CandidateDigest: w.BoundaryCandidate(Dana, review).CandidateDigest, CorrectiveEpoch: "epoch-2",
		CorrectiveValidation: Plain("report corrective_validation"), RequestID: "request-1", Review: review, ValidForSeconds: seconds, Version: 1,
	}
}

// ProofObserved is the reconstruction that a sandbox would give for a turn with a lost evidence read.
func (w *World) ProofObserved() *models.Reconstruction {
	r := w.ProofTwo()
	r.Version, r.Contract = 1, models.Digest{}
	r.Derived, r.Proof, r.Witness = Blob("observed"), Blob("observed proof"), Blob("observed witness")
	for i, c := range r.Calls {
		if c.Class == models.ClassEvidenceRead {
			r.Closing[i].Result = models.ResultObservationUnavailable
		}
	}
	return r
}

// Lost is Refused with its ticket recovered and claimed again, one response consumed since, a list whose result is kept at 0 and
// an evidence read whose result could not be kept at 1, and the worker's failure. change edits the turn's facts.
func Lost(change ...func(facts []models.Fact) []models.Fact) *World {
	w := Refused()
	w.Must(Dana, "rec-b", w.Boundary(600))
	w.MustClaim(Worker)
	w.LoseRead(change...)
	w.Policy(func(p *models.Policy) { p.AllowReadonlyObservationRecovery = true })
	return w
}

// LoseRead plays the turn of Lost under the claim that stands.
func (w *World) LoseRead(change ...func(facts []models.Fact) []models.Fact) {
	w.MustAppend(w.Asked()...)
	w.MustAppend(w.Answered())
	w.MustAppend(w.Consumed(2))
	n := w.State.Custody.Turn.Request
	facts := []models.Fact{
		Granted(n, 0, models.ClassSourceObservation), Granted(n, 1, models.ClassEvidenceRead),
		models.CallIntended{Position: 0, Request: n}, models.CallIntended{Position: 1, Request: n},
		models.CallReturned{Position: 0, Request: n, Result: Blob("listed")}, models.ToolUnknown{Position: 1, Request: n}, Failed(),
	}
	for _, f := range change {
		facts = f(facts)
	}
	w.MustAppend(facts...)
	w.Tick(30)
}

// ObservationCandidate is what a reviewer of request-1 would see.
func (w *World) ObservationCandidate(actor string) models.RecoveryCandidate {
	c, r := kernel.ObservationCandidate(w.State, "request-1", w.Env(actor, "candidate", models.RecoverReadonlyObservation{RequestID: "request-1"}))
	if r != nil {
		panic(r)
	}
	return c
}

// Observation is the body of a read-only observation recovery of request-1 that Dana would send after reading its candidate now.
func (w *World) Observation(seconds models.Seconds) models.RecoverReadonlyObservation {
	return models.RecoverReadonlyObservation{
		AcknowledgeFiniteOwnershipLease: true, AcknowledgeNoOriginalCallbackReplay: true, AcknowledgeSameRequestAttemptAndBudgets: true,
		AcknowledgeUnavailableObservation: true, CandidateDigest: w.ObservationCandidate(Dana).CandidateDigest, RequestID: "request-1",
		ValidForSeconds: seconds, Version: 1,
	}
}
