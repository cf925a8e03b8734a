package api

import (
	"net/http"

	"github.com/forge-continuity/forge/models"
)

// operation says of a route what its types do not: what it is for, what it takes and what it answers. Every refusal is a
// Problem, on every route, and is not listed.
type operation struct {
	summary string
	takes   any      // a value of the type of the body; nil for none
	params  []string // names of query parameters and headers, described in parameters
	answers map[int]any
}

// Bodies that are not JSON.
type (
	octets struct{} // any bytes
	lines  struct{} // JSON lines
	text   struct{}
	none   struct{} // an answer without a body
)

// Status answers /healthz and /readyz.
type Status struct {
	Status string `json:"status"`
}

// savedAs is how a command answers: its receipt first, and the same bytes for an identical repeat.
func savedAs(first int, receipt any) map[int]any {
	return map[int]any{first: receipt, http.StatusOK: receipt}
}

func ok(v any) map[int]any { return map[int]any{http.StatusOK: v} }

// operations describes every route of Routes, by method and path.
func operations() map[string]operation {
	const (
		v1   = "/api/v1"
		run  = v1 + "/runs/{run_id}"
		base = run + "/invalid-read-continuity"
	)
	appended := savedAs(http.StatusCreated, models.AppendReceipt{})
	changed := savedAs(http.StatusCreated, models.FactoryReceipt{})
	admitted := savedAs(http.StatusAccepted, models.ContinuityReceipt{})
	key := []string{"Idempotency-Key"}
	return map[string]operation{
		"GET /healthz":         {summary: "Whether this process answers.", answers: ok(Status{})},
		"GET /readyz":          {summary: "Whether this node should be sent new requests: its store answers and it is not draining.", answers: ok(Status{})},
		"GET /openapi.json":    {summary: "This document.", answers: ok(map[string]any{})},
		"GET /problems/{code}": {summary: "What a refusal code means and what to do: where the type of a problem leads.", answers: ok(text{})},

		"GET " + v1 + "/runs": {summary: "Run ids in order. Send next as after for the following page; it is empty at the end.",
			params: []string{"after", "limit"}, answers: ok(RunList{})},
		"PUT " + run: {summary: "Open a run: draws its salt and answers it, to its opener alone, also again.",
			answers: savedAs(http.StatusCreated, Opened{})},
		"GET " + run: {summary: "Where the run stands now, what holds it and what could be reconciled. Nothing is written.", answers: ok(RunShown{})},
		"PUT " + run + "/registration": {summary: "Freeze the run. The caller, who opened it, becomes its original actor; the command's id is the run's.",
			takes: models.RegisterRun{}, answers: appended},
		"PUT " + run + "/blobs/{digest}": {summary: "Keep content under its salted digest: by the opener before the first claim, afterwards by the live owner under its fence.",
			takes: octets{}, params: []string{"Forge-Fence"}, answers: map[int]any{http.StatusNoContent: none{}}},
		"GET " + run + "/blobs/{digest}": {summary: "Content as it was received. The access is recorded.", answers: ok(octets{})},
		"PUT " + run + "/claims/{claim_id}": {summary: "Claim the run under an id that the worker made and stored. While that claim lives the same id answers the same. " +
			"An ordinary claim is also how a clean run is resumed: after a release, or once the lease of a lost worker has lapsed.",
			takes: models.ClaimRun{}, answers: ok(Claimed{})},
		"PUT " + run + "/claims/{claim_id}/renewal": {summary: "Lengthen an ordinary lease under its fence, to at most the frozen provider timeout from now. A continuity lease is never lengthened.",
			takes: putRenewal{}, answers: ok(Renewed{})},
		"PUT " + run + "/batches/{command_id}":  {summary: "Report facts under the fence of the live claim: all of them or none.", takes: models.Append{}, answers: appended},
		"PUT " + run + "/releases/{command_id}": {summary: "Give the run back at a clean point: to any worker, or with a pool hand it to those workers alone.", takes: models.ReleaseRun{}, answers: appended},
		"PUT " + run + "/verifications/{command_id}": {summary: "Queue the verification of the newest completed round by hand, with the checks of the server's own scheduler; a refusal is recorded only there.",
			takes: models.AdmitVerification{}, answers: savedAs(http.StatusCreated, models.VerificationReceipt{})},
		"PUT " + run + "/retries/{command_id}": {summary: "Open the next attempt of a run that failed for good, within its allowance. Nothing spent is given back.", takes: models.RetryRun{}, answers: appended},
		"POST " + run + "/evidence": {summary: "Keep what was found out about something unknown in the run; answers the digest to name in a reconciliation. An hour later it is gone unless a row names it.",
			takes: octets{}, answers: map[int]any{http.StatusCreated: EvidenceKept{}}},
		"PUT " + run + "/reconciliations/{command_id}": {summary: "Settle one unknown effect, or an uncertain ticket, once, by a person. seq, subject and request_id are those that the run shows as unknown.",
			takes: models.Reconcile{}, answers: appended},
		"PUT " + run + "/cancellations/{command_id}": {summary: "Stop the run for good.", takes: models.CancelRun{}, answers: appended},
		"GET " + run + "/rows":                       {summary: "Rows of the run's journal, as they are hashed.", params: []string{"from", "limit"}, answers: ok(RowList{})},
		"GET " + run + "/export":                     {summary: "Everything that checking the run offline needs (forge verify).", answers: ok(lines{})},
		"GET " + run + "/checkpoints/{digest}/inspection": {summary: "A kept checkpoint record, exactly as it is stored, after its journal, row, digest, bounds, form and counters were checked and its text was screened for credentials. Nothing in the answer can be resumed; nothing is written.",
			answers: ok(models.Inspection{})},
		"GET " + run + "/checkpoints/{digest}/restore": {summary: "What an ordinary restore of this checkpoint would start from, decoded with the exact version of the installed SDK. A claim is what takes it; nothing is written.",
			answers: ok(models.Restore{})},
		"PUT " + run + "/credential-waivers/{command_id}": {summary: "Let one credential finding of one checkpoint pass once, after a person looked at it. It binds rule, path, digest and rule set; the next admission from that checkpoint spends it.",
			takes: models.WaiveCredential{}, answers: appended},
		"GET " + v1 + "/work": {summary: "What workers of the pool may claim, waiting for the first; 204 when there was none. Nothing is handed out.",
			params: []string{"pool", "wait_seconds"}, answers: map[int]any{http.StatusOK: WorkList{}, http.StatusNoContent: none{}}},

		"PUT " + v1 + "/invalid-read-continuity/policy": {summary: "Replace the continuity policy that has the revision named in the body.", takes: models.Policy{}, answers: ok(PolicyShown{})},
		"GET " + v1 + "/invalid-read-continuity/policy": {summary: "The continuity policy as it stands.", answers: ok(PolicyShown{})},
		"GET " + base + "/candidate":                    {summary: "What could be admitted now, and every hold. Nothing is written.", answers: ok(models.Candidate{})},
		"POST " + base + "/requests/{request_id}": {summary: "Admit the candidate that was read, once, as version 1. Accepted for dispatch only.",
			takes: postRequest{}, answers: admitted},
		"POST " + base + "/requests-v2/{request_id}": {summary: "Admit the candidate that was read, once, as version 2. Accepted for dispatch only.",
			takes: postRequestV2{}, answers: admitted},
		"GET " + base + "/requests/{request_id}": {summary: "The saved receipt of a request, byte for byte.", answers: ok(models.ContinuityReceipt{})},
		"GET " + base + "/requests/{request_id}/recovery-candidate": {summary: "Whether a request that no worker ever claimed could be queued again, and every hold. Nothing is written.",
			answers: ok(models.RecoveryCandidate{})},
		"POST " + base + "/requests/{request_id}/recoveries/{recovery_id}": {summary: "Queue a request that no worker ever claimed again, once.",
			takes: postRecovery{}, answers: savedAs(http.StatusAccepted, models.RecoveryReceipt{})},
		"GET " + base + "/requests/{request_id}/recovery": {summary: "The saved receipt of a request's never-claimed recovery, byte for byte.",
			answers: ok(models.RecoveryReceipt{})},
		"POST " + base + "/requests/{request_id}/rejected-boundary-candidate": {summary: "Inspect a reviewed provider refusal of a continuation's first request, and every hold. Nothing is saved.",
			takes: models.ReviewedProviderRejectionV1{}, answers: ok(models.RecoveryCandidate{})},
		"POST " + base + "/requests/{request_id}/rejected-boundary-recoveries/{recovery_id}": {summary: "Queue a continuation whose first request the provider refused again, once, on an administrator's review.",
			takes: postBoundary{}, answers: savedAs(http.StatusAccepted, models.RecoveryReceipt{})},
		"GET " + base + "/requests/{request_id}/rejected-boundary-recovery": {summary: "The saved receipt of a request's refused-boundary recovery, byte for byte.", answers: ok(models.RecoveryReceipt{})},
		"GET " + base + "/requests/{request_id}/readonly-observation-candidate": {summary: "A held turn whose evidence result was lost, as it could go on, and every hold. Nothing is written.",
			answers: ok(models.RecoveryCandidate{})},
		"POST " + base + "/requests/{request_id}/readonly-observation-recoveries/{recovery_id}": {summary: "Queue a continuation again, once, whose one consumed turn since its refusal recovery lost the result of an evidence read.",
			takes: postObservation{}, answers: savedAs(http.StatusAccepted, models.RecoveryReceipt{})},
		"GET " + base + "/requests/{request_id}/readonly-observation-recovery": {summary: "The saved receipt of a request's read-only observation recovery, byte for byte.", answers: ok(models.RecoveryReceipt{})},
		"PUT " + v1 + "/reports/{digest}": {summary: "Keep a report (forge-report/1) of the factory under its plain SHA-256, so that a review can pin it.",
			takes: octets{}, answers: map[int]any{http.StatusNoContent: none{}}},
		"GET " + v1 + "/reports/{digest}": {summary: "A kept report as it was received.", answers: ok(octets{})},

		"GET " + v1 + "/factory":               {summary: "The factory that the token belongs to, and the composition of the node that answers.", answers: ok(FactoryShown{})},
		"GET " + v1 + "/factory/rows":          {summary: "Rows of the factory's own journal.", params: []string{"from", "limit"}, answers: ok(RowList{})},
		"PUT " + v1 + "/principals/{id}":       {summary: "Set the roles of a principal, or remove it. replaces is the authority revision that was read.", takes: putPrincipal{}, params: key, answers: changed},
		"PUT " + v1 + "/records/{kind}/{name}": {summary: "Set a source, configuration or scope record.", takes: putRecord{}, params: key, answers: changed},
		"PUT " + v1 + "/profiles/{id}":         {summary: "Register a profile; its id must be new.", takes: models.Profile{}, params: key, answers: changed},
		"DELETE " + v1 + "/profiles/{id}":      {summary: "Retire a profile for good.", params: key, answers: changed},
		"POST " + v1 + "/tokens":               {summary: "Make a token; it is shown this once. Each call makes another one.", takes: postToken{}, answers: map[int]any{http.StatusCreated: TokenIssued{}}},
		"DELETE " + v1 + "/tokens/{id}":        {summary: "End a token.", answers: map[int]any{http.StatusNoContent: none{}}},
	}
}
