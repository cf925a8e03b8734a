package line

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api/apitest"
)

// acceptTwo is the version-2 body that takes a candidate as it was read.
func acceptTwo(c models.Candidate, seconds models.Seconds) models.RequestContinuity {
	body := apitest.Accept(c, seconds)
	body.AcknowledgeUnavailableSourceObservations, body.Version = true, 2
	return body
}

// observing is a stage on every store with the switch of version 2 on.
func observing(t *testing.T, test func(*testing.T, *stage)) {
	t.Helper()
	policy := apitest.Enabled()
	policy.AllowUnavailableSourceObservations = true
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			test(t, setUp(t, s.open(t), "2.55.0", apitest.Options{Policy: policy}))
		})
	}
}

const unavailable = `{"reason":"original_read_result_not_retained","status":"observation_unavailable"}`

// A recorded stop with three unfinished list_files calls beside the rejected query is continued under version 2, to the end.
// OBS-01 (the proof), OBS-04 (the proof shows the pinned reader), OBS-11, OBS-20, OBS-21, OBS-22, OBS-23, OBS-29, FLOW-14 (two ids).
func TestVersionTwoIsContinued(t *testing.T) {
	observing(t, func(t *testing.T, s *stage) {
		ctx := t.Context()
		c := s.held(t, "run-1", load.Options{Variant: "siblings-list-files"})
		if !c.Eligible || c.Version != 2 {
			t.Fatalf("version %d, holds %v", c.Version, codes(c))
		}
		_, err := s.dana.RequestContinuity(ctx, "run-1", "req-1", apitest.Accept(c, 600))
		problem(t, err, models.CodeVersionMismatch)
		first, err := s.dana.RequestContinuity(ctx, "run-1", "req-1", acceptTwo(c, 600))
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.dana.Continuity(ctx, "run-1", "req-1")
		if err != nil || !bytes.Equal(first.Body, again.Body) {
			t.Fatalf("read back: %v", err)
		}
		_, err = s.dana.RequestContinuity(ctx, "run-1", "req-2", acceptTwo(c, 600))
		problem(t, err, models.CodeGraphHasTicket)
		if first.Receipt.Counters != c.Counters || first.Receipt.Version != 2 || len(first.Receipt.Closing) != 4 {
			t.Fatalf("%+v", first.Receipt)
		}

		original, derived := s.blob(t, "run-1", first.Receipt.OldCheckpoint), s.blob(t, "run-1", first.Receipt.Derived)
		if n := bytes.Count(derived, []byte(unavailable)); n != 3 {
			t.Fatalf("the unavailable result stands %d times", n)
		}
		if prefix := original[bytes.Index(original, []byte(`"history":[`)):bytes.Index(original, []byte(`],"limits"`))]; !bytes.Contains(derived, prefix) {
			t.Fatal("the stored history is not a prefix of the derived one")
		}
		if proof := s.blob(t, "run-1", first.Receipt.Proof); !bytes.Contains(proof, []byte(`"reader":"`+s.recording.Reader+`"`)) {
			t.Fatalf("the proof names another reader: %s", proof)
		}

		_, url := s.provider(t)
		w := &load.Continuer{Client: s.worker, Endpoint: url}
		claimed, err := w.Claim(ctx, s.recording, "run-1", "claim-2", 600)
		if err != nil || claimed.Claim.TicketVersion != 2 || claimed.Claim.Checkpoint != first.Receipt.Derived {
			t.Fatalf("%+v %v", claimed.Claim, err)
		}
		var last load.Turn
		for last.Text == "" {
			if last, err = w.Turn(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Complete(ctx, last.Text); err != nil {
			t.Fatal(err)
		}
		// OBS-02, OBS-12: no row says that a covered read ended, or started again.
		rows := s.rows(t, "run-1")
		for _, r := range rows {
			for position := range 4 {
				at := fmt.Sprintf(`"position":%d,"request":%d`, position, heldRequest)
				if r.Seq > first.Receipt.SettlementSeq && bytes.Contains(r.Payload, []byte(at)) {
					t.Errorf("row %d: %s %s", r.Seq, r.Kind, r.Payload)
				}
			}
			if r.Kind == "call.returned" && bytes.Contains(r.Payload, fmt.Appendf(nil, `"request":%d,`, heldRequest)) {
				t.Errorf("row %d: %s", r.Seq, r.Payload)
			}
		}
		s.verify(t, "run-1", 1)
	})
}

func (s *stage) blob(t *testing.T, run string, digest models.Digest) []byte {
	t.Helper()
	data, err := s.dana.Blob(t.Context(), run, digest)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// One sibling's own kept outcome is reused as it is, and offline verification reconstructs it. OBS-14: it stands once, under its
// own id. OBS-15 (exact original custody).
func TestRetainedSiblingIsReused(t *testing.T) {
	observing(t, func(t *testing.T, s *stage) {
		var kept models.Digest
		c := s.held(t, "run-1", load.Options{Variant: "siblings-list-files", Facts: func(_ string, facts []models.Fact) []models.Fact {
			for _, f := range facts {
				switch f := f.(type) {
				case models.CallReturned:
					kept = f.Result // a retained value of this run
				case models.CallIntended:
					if f.Request == heldRequest && f.Position == 2 {
						return append(facts, models.CallReturned{Position: 2, Request: heldRequest, Result: kept})
					}
				}
			}
			return facts
		}})
		if !c.Eligible || c.Version != 2 || !slices.Contains(c.Closing, models.ClosingResult{Position: 2, Result: models.ResultRetained}) {
			t.Fatalf("version %d, closing %v, holds %v", c.Version, c.Closing, codes(c))
		}
		a, err := s.dana.RequestContinuity(t.Context(), "run-1", "req-1", acceptTwo(c, 600))
		if err != nil {
			t.Fatal(err)
		}
		derived := s.blob(t, "run-1", a.Receipt.Derived)
		appended := derived[:bytes.Index(derived, []byte(`],"limits"`))]
		appended = appended[bytes.LastIndex(appended, []byte(`"parts":[`)):]
		if n := bytes.Count(appended, s.blob(t, "run-1", kept)); n != 1 {
			t.Errorf("the kept result stands %d times in %s", n, appended)
		}
		if n := bytes.Count(appended, []byte(unavailable)); n != 2 {
			t.Errorf("the unavailable result stands %d times", n)
		}
		s.verify(t, "run-1", 1)
	})
}

// With every result kept there is nothing unavailable: neither version admits the run (rules O7). A sibling outside the frozen
// schema holds: OBS-18. Off by default: OBS-06.
func TestVersionTwoHolds(t *testing.T) {
	observing(t, func(t *testing.T, s *stage) {
		var kept models.Digest
		c := s.held(t, "run-1", load.Options{Variant: "sibling-list-files", Facts: func(_ string, facts []models.Fact) []models.Fact {
			for _, f := range facts {
				switch f := f.(type) {
				case models.CallReturned:
					kept = f.Result
				case models.CallIntended:
					if f.Request == heldRequest {
						return append(facts, models.CallReturned{Position: f.Position, Request: heldRequest, Result: kept})
					}
				}
			}
			return facts
		}})
		if !has(c, models.CodeSiblingPresent) || c.Version != 0 {
			t.Errorf("version %d, holds %v", c.Version, codes(c))
		}
		if c := s.held(t, "run-2", load.Options{Variant: "sibling-list-files-outside-schema"}); !has(c, models.CodeSiblingArgumentsInvalid) {
			t.Errorf("holds %v", codes(c))
		}
		s.PutPolicy(t, *apitest.Enabled())
		c = s.held(t, "run-3", load.Options{Variant: "sibling-list-files"})
		_, err := s.dana.RequestContinuity(t.Context(), "run-3", "req-3", acceptTwo(c, 600))
		if p := problem(t, err, models.CodeSettingOff); p.Detail("setting") != "allow_unavailable_source_observations" {
			t.Errorf("%+v", p)
		}
	})
}
