package api_test

import (
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/server/api"
	. "github.com/forge-continuity/forge/server/api/apitest"
)

func init() {
	for _, name := range []string{"unavailable_source_observations", "never_claimed", "original_consumption_and_budgets", "same_request_and_attempt",
		"finite_ownership_lease", "no_original_response_or_tool_replay", "reviewed_provider_epoch", "same_request_and_budgets",
		"no_original_callback_replay", "same_request_attempt_and_budgets", "unavailable_observation"} {
		optional["acknowledge_"+name] = true
	}
	optional["screening"] = true
	optional["corrective_epoch"], optional["corrective_validation_digest"] = true, true
}

// review is a sample of what an administrator reviewed.
func review() models.ReviewedProviderRejectionV1 {
	return models.ReviewedProviderRejectionV1{
		Endpoint: "https://provider.test/v1", Executable: "exec-1", ExecutableProbe: models.PlainDigest([]byte("probe")), Model: "model-1",
		Principal: "principal-1", ProviderEpoch: "epoch-1", SourceRevision: "1", SourceValidator: models.PlainDigest([]byte("validator")),
		Wire: models.PlainDigest([]byte("wire")), WireLength: 4,
	}
}

const sampleReport = `{"at_us":1,"executable_identity":"exec-1","format":"forge-report/1","kind":"executable_probe","provider_epoch":"epoch-1","source_revision":"1"}`

// allowed reports whether somebody with these roles, or somebody of the test's world who adds the rest, is let in.
func allowed(route api.Route, has []string) bool {
	if !route.All {
		return may(has, route.Roles)
	}
	for _, role := range route.Roles {
		if !slices.Contains(has, role) {
			return false
		}
	}
	return true
}

// acceptTwo is the version-2 body that takes a candidate as it was read.
func acceptTwo(c models.Candidate, seconds models.Seconds) models.RequestContinuity {
	body := Accept(c, seconds)
	body.AcknowledgeUnavailableSourceObservations, body.Version = true, 2
	return body
}

// continuityCalls are sample requests of the continuity routes but for version 1.
func continuityCalls(r *Run, candidate models.Candidate) map[string]Call {
	const base = "/api/v1/runs/{run_id}/invalid-read-continuity"
	digests := map[string]any{"candidate_digest": candidate.CandidateDigest, "journal_digest": candidate.JournalDigest,
		"policy_digest": candidate.PolicyDigest, "run_digest": candidate.RunDigest, "valid_for_seconds": 60, "version": 1}
	with := func(acknowledgements ...string) map[string]any {
		body := maps.Clone(digests)
		for _, name := range acknowledgements {
			body["acknowledge_"+name] = true
		}
		return body
	}
	boundary := with("finite_ownership_lease", "no_original_response_or_tool_replay", "reviewed_provider_epoch", "same_request_and_budgets")
	for _, name := range []string{"journal_digest", "policy_digest", "run_digest"} {
		delete(boundary, name)
	}
	observation := with("finite_ownership_lease", "no_original_callback_replay", "same_request_attempt_and_budgets", "unavailable_observation")
	for _, name := range []string{"journal_digest", "policy_digest", "run_digest"} {
		delete(observation, name)
	}
	boundary["review"], boundary["corrective_epoch"], boundary["corrective_validation_digest"] = review(), "epoch-2", candidate.RunDigest
	report := models.PlainDigest([]byte(sampleReport)).String()
	return map[string]Call{
		"PUT /api/v1/reports/{digest}":                                          {Path: "/reports/" + report, Body: sampleReport},
		"GET /api/v1/reports/{digest}":                                          {Path: "/reports/" + report},
		"GET " + base + "/requests/{request_id}/readonly-observation-candidate": {},
		"GET " + base + "/requests/{request_id}/readonly-observation-recovery":  {},
		"POST " + base + "/requests/{request_id}/readonly-observation-recoveries/{recovery_id}": {Body: observation,
			Path: r.Base() + "/requests/request-1/readonly-observation-recoveries/recovery-9"},
		"GET " + base + "/requests/{request_id}/rejected-boundary-recovery":   {},
		"POST " + base + "/requests/{request_id}/rejected-boundary-candidate": {Body: review()},
		"POST " + base + "/requests/{request_id}/rejected-boundary-recoveries/{recovery_id}": {Body: boundary,
			Path: r.Base() + "/requests/request-1/rejected-boundary-recoveries/recovery-9"},
		"GET " + base + "/requests/{request_id}/recovery-candidate": {},
		"GET " + base + "/requests/{request_id}/recovery":           {},
		"POST " + base + "/requests/{request_id}/recoveries/{recovery_id}": {Path: r.Base() + "/requests/request-1/recoveries/recovery-9",
			Body: with("never_claimed", "original_consumption_and_budgets", "renewed_same_attempt_lease", "same_request_and_attempt")},
		"POST " + base + "/requests-v2/{request_id}": {Path: r.Base() + "/requests-v2/request-2", Body: acceptTwo(candidate, 60)},
	}
}

// observing holds a run whose response has one rejected evidence read and one list_files call without an outcome.
func observing(t *testing.T, w *World, id string) *Run {
	t.Helper()
	r := w.Open(t, id)
	r.Claim(t, "claim-1")
	r.Commands(t, HeldCommands)
	r.Turn(t, 1, EvidenceCall, FakeCall{Args: `{"path":"."}`, Class: models.ClassSourceObservation, ID: "call-2"})
	r.Append(t, models.CallIntended{Position: 1, Request: 1})
	r.Fail(t)
	return r
}

// Version 2 has a route of its own, needs its version and the Boolean true, and is read back where version 1 is.
// OBS-06 (GET of a fresh policy), OBS-08, OBS-10, OBS-24, OBS-25; FLOW-14 (one of the other version).
func TestVersionTwo(t *testing.T) {
	policy := Enabled()
	policy.AllowUnavailableSourceObservations = true
	each(t, Options{Policy: policy}, func(t *testing.T, w *World) {
		r := observing(t, w, "run-1")
		c := r.Candidate(t)
		if c.Version != 2 || !c.Eligible {
			t.Fatalf("version %d, %v", c.Version, c.Holds)
		}
		send := func(id string, body any) Answer {
			return w.Send(t, Call{As: Dana, Method: http.MethodPost, Path: r.Base() + "/requests-v2/" + id, Body: body})
		}
		var members map[string]any
		if err := canon.Decode(canon.MustMarshal(acceptTwo(c, 600)), &members); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, w)
		with := func(name string, value any) map[string]any {
			out := map[string]any{}
			for k, v := range members {
				out[k] = v
			}
			if out[name] = value; value == nil {
				delete(out, name)
			}
			return out
		}
		for _, value := range []any{nil, false, 1, "true"} {
			wantCode(t, send("r", with("acknowledge_unavailable_source_observations", value)), models.CodeAcknowledgementMissing)
		}
		for _, name := range []string{"acknowledge_no_new_grant", "acknowledge_original_consumption", "acknowledge_renewed_same_attempt_lease"} {
			wantCode(t, send("r", with(name, nil)), models.CodeAcknowledgementMissing)
		}
		for _, value := range []any{nil, 1, 3} {
			wantCode(t, send("r", with("version", value)), models.CodeRequestMalformed)
		}
		for _, name := range []string{"candidate_digest", "journal_digest", "policy_digest", "run_digest"} {
			wantCode(t, send("r", with(name, nil)), models.CodeRequestMalformed)
			wantCode(t, send("r", with(name, models.PlainDigest([]byte("x")).String())), models.CodeDigestStale)
		}
		wantCode(t, r.Request(t, "r", Accept(c, 600)), models.CodeVersionMismatch)
		wantCode(t, r.Request(t, "r", members), models.CodeRequestMalformed) // the route of version 1 takes no version-2 body
		if after := snapshot(t, w); after != before {
			t.Fatal("a refusal wrote something")
		}
		first := send("r", members)
		again := send("r", members)
		read := w.Send(t, Call{As: Dana, Method: http.MethodGet, Path: r.Base() + "/requests/r"})
		if first.Status != http.StatusAccepted || again.Status != http.StatusOK || read.Status != http.StatusOK ||
			string(first.Body) != string(again.Body) || string(first.Body) != string(read.Body) {
			t.Fatalf("%d %s\n%d %s\n%d %s", first.Status, first.Body, again.Status, again.Body, read.Status, read.Body)
		}
		wantCode(t, r.Request(t, "r", Accept(c, 600)), models.CodeRequestConflict)
		wantCode(t, r.Request(t, "other", Accept(c, 600)), models.CodeGraphHasTicket)
		wantCode(t, send("other", members), models.CodeGraphHasTicket)
	})
}

func wantCode(t *testing.T, a Answer, code models.Code) {
	t.Helper()
	if a.Code() != code {
		t.Fatalf("%d %s, want %s", a.Status, a.Body, code)
	}
}

// recoveryBody is the body that takes a recovery candidate as it was read, as members.
func recoveryBody(c models.RecoveryCandidate, seconds models.Seconds) map[string]any {
	return map[string]any{
		"acknowledge_never_claimed": true, "acknowledge_original_consumption_and_budgets": true, "acknowledge_renewed_same_attempt_lease": true,
		"acknowledge_same_request_and_attempt": true, "candidate_digest": c.CandidateDigest, "journal_digest": c.JournalDigest,
		"policy_digest": c.PolicyDigest, "run_digest": c.RunDigest, "valid_for_seconds": seconds,
	}
}

// A ticket that lapsed unclaimed: its candidate writes nothing, each member of the body is needed by name, the answer is saved
// under the request, and no other action replaces it. NOCLAIM-08, NOCLAIM-09, NOCLAIM-11, NOCLAIM-13, START-03, START-07, START-08.
func TestNeverClaimedRecovery(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := w.Hold(t, "run-1")
		if a := r.Request(t, "request-1", Accept(r.Candidate(t), 1)); a.Status != http.StatusAccepted {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		path := r.Base() + "/requests/request-1"
		time.Sleep(1100 * time.Millisecond)
		candidate := func() models.RecoveryCandidate {
			return Must[models.RecoveryCandidate](t, w, http.StatusOK, Call{As: Dana, Method: http.MethodGet, Path: path + "/recovery-candidate"})
		}
		send := func(id string, body any) Answer {
			return w.Send(t, Call{As: Dana, Method: http.MethodPost, Path: path + "/recoveries/" + id, Body: body})
		}
		saved := func() Answer { return w.Send(t, Call{As: Dana, Method: http.MethodGet, Path: path + "/recovery"}) }
		before := snapshot(t, w)
		c := candidate()
		if !c.Eligible || c.PermittedSeconds != models.MaxWindow || c.RequestID != "request-1" || c.Attempt != 1 || c.Counters.Commands != HeldCommands {
			t.Fatalf("%+v", c)
		}
		wantCode(t, saved(), models.CodeNotFound)
		body := recoveryBody(c, 600)
		for name := range body {
			code := models.CodeRequestMalformed
			if len(name) > 12 && name[:12] == "acknowledge_" {
				code = models.CodeAcknowledgementMissing
				for _, value := range []any{false, 1, "true"} {
					other := maps.Clone(body)
					other[name] = value
					wantCode(t, send("rec-1", other), code)
				}
			}
			if name == "valid_for_seconds" {
				code = models.CodeWindowInvalid
			}
			less := maps.Clone(body)
			delete(less, name)
			wantCode(t, send("rec-1", less), code)
			if _, ok := body[name].(models.Digest); ok {
				less[name] = models.PlainDigest([]byte("stale"))
				wantCode(t, send("rec-1", less), models.CodeDigestStale)
			}
		}
		if snapshot(t, w) != before {
			t.Fatal("something was written")
		}
		first := send("rec-1", body)
		again := send("rec-1", body)
		read := saved()
		if first.Status != http.StatusAccepted || again.Status != http.StatusOK || read.Status != http.StatusOK ||
			string(first.Body) != string(again.Body) || string(first.Body) != string(read.Body) {
			t.Fatalf("%d %s\n%d %s\n%d %s", first.Status, first.Body, again.Status, again.Body, read.Status, read.Body)
		}
		after := snapshot(t, w)
		wantCode(t, send("rec-2", body), models.CodeRecoveryRecorded)
		wantCode(t, send("rec-2", recoveryBody(candidate(), 600)), models.CodeRecoveryRecorded)
		body["valid_for_seconds"] = 601
		wantCode(t, send("rec-1", body), models.CodeRequestConflict)
		if snapshot(t, w) != after {
			t.Fatal("something was written")
		}
		receipt := r.Claim(t, "claim-2")
		if receipt.RequestID != "request-1" {
			t.Fatalf("%+v", receipt)
		}
		wantCode(t, w.Send(t, Call{As: Dana, Method: http.MethodGet, Path: r.Base() + "/requests/none/recovery-candidate"}), models.CodeNotFound)
	})
}

// A refused first request over the API: the candidate inspects a review and writes nothing, the submission lacks nothing by name,
// the action is saved and read back, and no other replaces it. REFUSED-03 (GET of a fresh policy, setting_off), REFUSED-12 and
// REFUSED-13 (absent members), REFUSED-15 (the receipt), REFUSED-20, REFUSED-21, REFUSED-22, REFUSED-24, REFUSED-25.
func TestRefusedBoundary(t *testing.T) {
	policy := Enabled()
	policy.AllowPreAdmissionRecovery = true
	each(t, Options{Policy: policy}, func(t *testing.T, w *World) {
		r := w.Hold(t, "run-1")
		admitted := r.Admit(t, "request-1")
		r.Claim(t, "claim-2")
		what := refuseRequest(t, r, admitted.Derived, 2)
		path := r.Base() + "/requests/request-1"
		candidate := func() models.RecoveryCandidate {
			return Must[models.RecoveryCandidate](t, w, http.StatusOK, Call{As: Dana, Method: http.MethodPost, Path: path + "/rejected-boundary-candidate", Body: what})
		}
		send := func(id string, body any) Answer {
			return w.Send(t, Call{As: Dana, Method: http.MethodPost, Path: path + "/rejected-boundary-recoveries/" + id, Body: body})
		}
		before := snapshot(t, w)
		c := candidate() // no report is kept yet
		if c.Eligible || c.Holds[0].Code != models.CodeRefusalNotReviewed {
			t.Fatalf("%v", c.Holds)
		}
		if snapshot(t, w) != before {
			t.Fatal("a candidate wrote something")
		}
		correction := reports(t, w, &what)
		before = snapshot(t, w)
		body := boundaryBody(t, w, path, what, correction)
		for name := range body {
			less := maps.Clone(body)
			delete(less, name)
			code := models.CodeRequestMalformed
			switch {
			case len(name) > 12 && name[:12] == "acknowledge_":
				code = models.CodeAcknowledgementMissing
				for _, value := range []any{false, 1, "true"} {
					other := maps.Clone(body)
					other[name] = value
					wantCode(t, send("rec-1", other), code)
				}
			case name == "valid_for_seconds":
				code = models.CodeWindowInvalid
			case len(name) > 11 && name[:11] == "corrective_":
				code = models.CodeCorrectiveValidationMissing
			}
			wantCode(t, send("rec-1", less), code)
		}
		var members map[string]any
		if err := canon.Decode(canon.MustMarshal(what), &members); err != nil {
			t.Fatal(err)
		}
		for name := range members {
			less, other := maps.Clone(body), maps.Clone(members)
			delete(other, name)
			less["review"] = other
			wantCode(t, send("rec-1", less), models.CodeRequestMalformed)
		}
		if snapshot(t, w) != before {
			t.Fatal("something was written")
		}
		wantCode(t, w.Send(t, Call{As: Dana, Method: http.MethodGet, Path: path + "/rejected-boundary-recovery"}), models.CodeNotFound)
		first, again := send("rec-1", body), send("rec-1", body)
		read := w.Send(t, Call{As: Dana, Method: http.MethodGet, Path: path + "/rejected-boundary-recovery"})
		if first.Status != http.StatusAccepted || again.Status != http.StatusOK || string(first.Body) != string(again.Body) || string(first.Body) != string(read.Body) {
			t.Fatalf("%d %s\n%d %s\n%d %s", first.Status, first.Body, again.Status, again.Body, read.Status, read.Body)
		}
		after := snapshot(t, w)
		wantCode(t, send("rec-2", body), models.CodeRecoveryRecorded)
		body["valid_for_seconds"] = 601
		wantCode(t, send("rec-1", body), models.CodeRequestConflict)
		wantCode(t, w.Send(t, Call{As: Dana, Method: http.MethodPost, Path: path + "/recoveries/rec-1", Body: recoveryBody(c, 600)}), models.CodeRequestConflict)
		if snapshot(t, w) != after {
			t.Fatal("something was written")
		}
		if receipt := r.Claim(t, "claim-3"); receipt.RequestID != "request-1" || receipt.Checkpoint != admitted.Derived {
			t.Fatalf("%+v", receipt)
		}
		off := *Enabled()
		w.PutPolicy(t, off)
		wantCode(t, send("rec-3", body), models.CodeRecoveryRecorded)
	})
}

// A lost evidence observation over the API, after a refusal recovery: the candidate writes nothing, each acknowledgement must be the
// Boolean true, the action is saved, read back and not replaced. ROBS-03, ROBS-19, ROBS-20, ROBS-21, ROBS-23, ROBS-24, ROBS-25,
// ROBS-26, ROBS-27; ROBS-02 (the provider action for this turn).
func TestReadonlyObservation(t *testing.T) {
	policy := Enabled()
	policy.AllowPreAdmissionRecovery, policy.AllowReadonlyObservationRecovery = true, true
	each(t, Options{Policy: policy}, func(t *testing.T, w *World) {
		r := w.Hold(t, "run-1")
		admitted := r.Admit(t, "request-1")
		path := r.Base() + "/requests/request-1"
		send := func(route string, body any) Answer {
			return w.Send(t, Call{As: Dana, Method: http.MethodPost, Path: path + "/" + route, Body: body})
		}
		r.Claim(t, "claim-2")
		what := refuseRequest(t, r, admitted.Derived, 2)
		provider := boundaryBody(t, w, path, what, reports(t, w, &what))
		submit(t, w, path+"/rejected-boundary-recoveries/rec-1", provider)
		r.Claim(t, "claim-3")
		loseEvidence(t, r, admitted.Derived, 3)

		before := snapshot(t, w)
		body := observationBody(t, w, path)
		with := func(name string, value any) map[string]any {
			out := maps.Clone(body)
			if out[name] = value; value == nil {
				delete(out, name)
			}
			return out
		}
		for name := range body {
			if len(name) > 12 && name[:12] == "acknowledge_" {
				for _, value := range []any{nil, false, 1, "true"} {
					wantCode(t, send("readonly-observation-recoveries/rec-2", with(name, value)), models.CodeAcknowledgementMissing)
				}
			}
		}
		wantCode(t, send("readonly-observation-recoveries/rec-2", with("unknown", 1)), models.CodeRequestMalformed)
		wantCode(t, send("readonly-observation-recoveries/rec-2", with("candidate_digest", nil)), models.CodeRequestMalformed)
		wantCode(t, send("readonly-observation-recoveries/rec-2", with("candidate_digest", models.PlainDigest([]byte("x")))), models.CodeDigestStale)
		wantCode(t, send("readonly-observation-recoveries/rec-2", with("valid_for_seconds", nil)), models.CodeWindowInvalid)
		wantCode(t, send("readonly-observation-recoveries/rec-1", body), models.CodeRequestConflict) // one space of ids for the three workflows
		wantCode(t, send("rejected-boundary-recoveries/rec-9", provider), models.CodeRecoveryRecorded)
		if snapshot(t, w) != before {
			t.Fatal("something was written")
		}
		first, again := send("readonly-observation-recoveries/rec-2", body), send("readonly-observation-recoveries/rec-2", body)
		read := w.Send(t, Call{As: Dana, Method: http.MethodGet, Path: path + "/readonly-observation-recovery"})
		if first.Status != http.StatusAccepted || again.Status != http.StatusOK || string(first.Body) != string(again.Body) || string(first.Body) != string(read.Body) {
			t.Fatalf("%d %s\n%d %s\n%d %s", first.Status, first.Body, again.Status, again.Body, read.Status, read.Body)
		}
		after := snapshot(t, w)
		wantCode(t, send("readonly-observation-recoveries/rec-3", body), models.CodeRecoveryRecorded)
		wantCode(t, send("readonly-observation-recoveries/rec-2", with("valid_for_seconds", 601)), models.CodeRequestConflict)
		if snapshot(t, w) != after {
			t.Fatal("something was written")
		}
		if receipt := r.Claim(t, "claim-4"); receipt.Checkpoint == admitted.Derived || receipt.RequestID != "request-1" {
			t.Fatalf("%+v", receipt)
		}
	})
}
