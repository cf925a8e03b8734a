package api_test

import (
	"net/http"
	"testing"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	. "github.com/forge-continuity/forge/server/api/apitest"
)

func init() { optional["acknowledge_unavailable_source_observations"] = true }

// acceptTwo is the version-2 body that takes a candidate as it was read.
func acceptTwo(c models.Candidate, seconds models.Seconds) models.RequestContinuity {
	body := Accept(c, seconds)
	body.AcknowledgeUnavailableSourceObservations, body.Version = true, 2
	return body
}

// continuityCalls are sample requests of the continuity routes but for version 1.
func continuityCalls(r *Run, candidate models.Candidate) map[string]Call {
	const base = "/api/v1/runs/{run_id}/invalid-read-continuity"
	return map[string]Call{
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
