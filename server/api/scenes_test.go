package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	. "github.com/forge-continuity/forge/server/api/apitest"
)

// refuseRequest records that the provider refused the next request of the worker that holds the claim, and that the worker
// stopped, and returns the review of it without reports.
func refuseRequest(t *testing.T, r *Run, checkpoint models.Digest, request int64) models.ReviewedProviderRejectionV1 {
	t.Helper()
	what := review()
	r.Append(t, models.RequestIssued{Checkpoint: checkpoint, Request: request, Wire: what.Wire, WireBlob: r.Blob(t, Worker, "wire"), WireLength: what.WireLength,
		Provider: models.ProviderDigest(what.Endpoint, what.Executable, what.Model, what.Principal, what.ProviderEpoch)})
	r.Append(t, models.RequestRefused{Report: r.Blob(t, Worker, "refused: 422"), Request: request})
	r.Fail(t)
	return what
}

// reports keeps those of a review and names them in it, and returns that of the correction.
func reports(t *testing.T, w *World, what *models.ReviewedProviderRejectionV1) models.Digest {
	t.Helper()
	put := func(kind, epoch string) models.Digest {
		data := canon.MustMarshal(map[string]any{"at_us": time.Now().UnixMicro(), "executable_identity": what.Executable, "format": models.ReportFormat,
			"found": "zero", "kind": kind, "provider_epoch": epoch, "source_revision": what.SourceRevision})
		digest := models.PlainDigest(data)
		for range 2 {
			if a := w.Send(t, Call{As: Administrator, Method: http.MethodPut, Path: "/reports/" + digest.String(), Body: data}); a.Status != http.StatusNoContent {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
		}
		if a := w.Send(t, Call{As: Reader, Method: http.MethodGet, Path: "/reports/" + digest.String()}); string(a.Body) != string(data) {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		return digest
	}
	what.SourceValidator, what.ExecutableProbe = put(models.ReportSourceValidator, what.ProviderEpoch), put(models.ReportExecutableProbe, what.ProviderEpoch)
	return put(models.ReportCorrectiveValidation, "epoch-2")
}

// boundaryBody takes the candidate of a refused boundary as it stands, as members.
func boundaryBody(t *testing.T, w *World, path string, what models.ReviewedProviderRejectionV1, correction models.Digest) map[string]any {
	t.Helper()
	c := Must[models.RecoveryCandidate](t, w, http.StatusOK, Call{As: Dana, Method: http.MethodPost, Path: path + "/rejected-boundary-candidate", Body: what})
	if !c.Eligible {
		t.Fatalf("%v", c.Holds)
	}
	return map[string]any{
		"acknowledge_finite_ownership_lease": true, "acknowledge_no_original_response_or_tool_replay": true,
		"acknowledge_reviewed_provider_epoch": true, "acknowledge_same_request_and_budgets": true, "candidate_digest": c.CandidateDigest,
		"corrective_epoch": "epoch-2", "corrective_validation_digest": correction, "review": what, "valid_for_seconds": 600,
	}
}

// loseEvidence consumes a response with a list_files call, whose result is kept, and an evidence read, whose result is not, and
// the worker stops.
func loseEvidence(t *testing.T, r *Run, checkpoint models.Digest, request int64) {
	t.Helper()
	tokens := models.Tokens{Input: 5, Output: 6}
	calls := []FakeCall{{Args: `{}`, Class: models.ClassSourceObservation, ID: "call-8"}, {Args: `{}`, Class: models.ClassEvidenceRead, ID: "call-9"}}
	response := Response(tokens, calls...)
	kept := r.Blob(t, Worker, string(response))
	facts := []models.Fact{
		models.RequestIssued{Checkpoint: checkpoint, Request: request, Wire: models.PlainDigest([]byte("wire")), WireBlob: r.Blob(t, Worker, "wire"), WireLength: 4},
		models.ResponseKept{Length: int64(len(response)), Request: request, Response: kept},
		models.ResponseConsumed{Calls: 2, Request: request, Response: kept, Tokens: tokens},
	}
	for i, c := range calls {
		facts = append(facts, models.CallGranted{Args: models.SaltedBlob(r.Salt, []byte(c.Args)), Class: c.Class, Cut: models.PlainDigest([]byte("cut")),
			ID: models.SaltedBlob(r.Salt, []byte(c.ID)), Position: int64(i), Request: request}, models.CallIntended{Position: int64(i), Request: request})
	}
	r.Append(t, append(facts, models.CallReturned{Position: 0, Request: request, Result: r.Blob(t, Worker, `["a"]`)},
		models.ToolUnknown{Position: 1, Request: request})...)
	r.Fail(t)
}

// observationBody takes the candidate of a lost observation as it stands, as members.
func observationBody(t *testing.T, w *World, path string) map[string]any {
	t.Helper()
	c := Must[models.RecoveryCandidate](t, w, http.StatusOK, Call{As: Dana, Method: http.MethodGet, Path: path + "/readonly-observation-candidate"})
	if !c.Eligible {
		t.Fatalf("%v", c.Holds)
	}
	return map[string]any{
		"acknowledge_finite_ownership_lease": true, "acknowledge_no_original_callback_replay": true,
		"acknowledge_same_request_attempt_and_budgets": true, "acknowledge_unavailable_observation": true, "candidate_digest": c.CandidateDigest,
		"valid_for_seconds": 600,
	}
}

// submit sends a recovery of the request at path, and asks for its receipt.
func submit(t *testing.T, w *World, path string, body any) {
	t.Helper()
	if a := w.Send(t, Call{As: Dana, Method: http.MethodPost, Path: path, Body: body}); a.Status != http.StatusAccepted {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
}
