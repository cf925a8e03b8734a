package line

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/fixtures/provider"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api/apitest"
)

const listed = `{"entries":["a","b"],"status":"ok"}`

// lose claims the recovered continuation, takes a response with list_files at 0 and an evidence read at 1, keeps the list's result
// and loses the other, and stops.
func (s *stage) lose(t *testing.T, run, claim string) {
	t.Helper()
	ctx := t.Context()
	script, err := provider.Variant("sibling-list-files")
	if err != nil {
		t.Fatal(err)
	}
	response := bytes.ReplaceAll(bytes.ReplaceAll(script.Turns[provider.HeldTurn].Body, []byte(`page_size\":25`), []byte(`page_size\":10`)), []byte("call_"), []byte("call_later_"))
	w := &load.Continuer{Client: s.worker}
	claimed, err := w.Claim(ctx, s.recording, run, claim, 600)
	if err != nil {
		t.Fatal(err)
	}
	wire, err := w.Next()
	if err != nil {
		t.Fatal(err)
	}
	rec := load.Recorder{Client: s.worker, Run: run, Salt: claimed.Salt, Fence: claimed.Claim.Fence, Prefix: claim}
	put := func(data []byte) models.Digest {
		d, err := rec.Put(ctx, data)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	var answer struct {
		Choices []struct {
			Message struct {
				Calls []struct {
					ID       string `json:"id"`
					Function struct {
						Name      string `json:"name"`
						Arguments string `json:"arguments"`
					} `json:"function"`
				} `json:"tool_calls"`
			} `json:"message"`
		} `json:"choices"`
		Usage struct {
			Prompt     int64 `json:"prompt_tokens"`
			Completion int64 `json:"completion_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(response, &answer); err != nil {
		t.Fatal(err)
	}
	n, kept := claimed.Claim.Counters.Requests+1, put(response)
	facts := []models.Fact{
		models.RequestIssued{Checkpoint: claimed.Claim.Checkpoint, Request: n, Wire: models.PlainDigest(wire), WireBlob: put(wire), WireLength: int64(len(wire))},
		models.ResponseKept{Length: int64(len(response)), Request: n, Response: kept},
		models.ResponseConsumed{Calls: 2, Request: n, Response: kept, Tokens: models.Tokens{Input: answer.Usage.Prompt, Output: answer.Usage.Completion}},
	}
	for i, c := range answer.Choices[0].Message.Calls {
		g := models.CallGranted{Args: claimed.Salt.Digest([]byte(c.Function.Arguments)), Class: models.ClassEvidenceRead, ID: claimed.Salt.Digest([]byte(c.ID)),
			Position: int64(i), Request: n, Tool: 2}
		if c.Function.Name == "list_files" {
			g.Class, g.Tool, g.Cut = models.ClassSourceObservation, 0, models.PlainDigest([]byte("cut"))
		}
		facts = append(facts, g, models.CallIntended{Position: int64(i), Request: n})
	}
	facts = append(facts, models.CallReturned{Position: 0, Request: n, Result: put([]byte(listed))}, models.ToolUnknown{Position: 1, Request: n},
		models.WorkerFailed{Report: put([]byte("the result of the evidence read could not be kept"))})
	if err := rec.Record(ctx, "all", facts...); err != nil {
		t.Fatal(err)
	}
}

// The whole way: admitted, refused, recovered on review, an evidence result lost, recovered on review with the derived checkpoint
// of the real sandbox, and the next request shows what is not known. ROBS-05, ROBS-11, ROBS-12, ROBS-13, ROBS-21, ROBS-26 to
// ROBS-30, ROBS-33, FLOW-38.
func TestLostObservationIsRecovered(t *testing.T) {
	boundary(t, func(t *testing.T, s *stage) {
		ctx := t.Context()
		c := s.held(t, "run-1", load.Options{})
		admitted, err := s.dana.RequestContinuity(ctx, "run-1", "req-1", apitest.Accept(c, 600))
		if err != nil {
			t.Fatal(err)
		}
		s.settle(t, "run-1", s.refuse(t, "run-1", "claim-2", same))
		s.lose(t, "run-1", "claim-3")
		rows := s.rows(t, "run-1")
		got, err := s.dana.ReadonlyObservationCandidate(ctx, "run-1", "req-1")
		if err != nil || !got.Eligible {
			t.Fatalf("%v %v", got.Holds, err)
		}
		body := forge.ReadonlyObservationRecoveryInputV1{
			AcknowledgeFiniteOwnershipLease: true, AcknowledgeNoOriginalCallbackReplay: true, AcknowledgeSameRequestAttemptAndBudgets: true,
			AcknowledgeUnavailableObservation: true, CandidateDigest: got.CandidateDigest, ValidForSeconds: 600,
		}
		first, err := s.dana.RequestReadonlyObservationRecovery(ctx, "run-1", "req-1", "rec-2", body)
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.dana.RequestReadonlyObservationRecovery(ctx, "run-1", "req-1", "rec-2", body)
		if err != nil || !bytes.Equal(first.Body, again.Body) {
			t.Fatal("repeat", err)
		}
		read, err := s.dana.ReadonlyObservationRecovery(ctx, "run-1", "req-1")
		if err != nil || !bytes.Equal(first.Body, read.Body) {
			t.Fatal("read back", err)
		}
		_, err = s.dana.RequestReadonlyObservationRecovery(ctx, "run-1", "req-1", "rec-3", body)
		problem(t, err, models.CodeRecoveryRecorded)
		all := s.rows(t, "run-1")
		if appended := kinds(all[len(rows):]); !slices.Equal(appended, []string{"readonly_observation_recovery", "request.requeued", "lease.granted"}) {
			t.Fatalf("appended %v", appended)
		}
		for i, row := range rows {
			if all[i].Hash != row.Hash {
				t.Fatalf("row %d changed", i+1)
			}
		}
		derived := s.blob(t, "run-1", first.Receipt.Derived)
		if bytes.Count(derived, []byte(unavailable)) != 1 || bytes.Count(derived, []byte(listed)) != 1 || first.Receipt.Derived == admitted.Receipt.Derived {
			t.Fatalf("derived %.300s", derived)
		}
		if first.Receipt.Counters.Commands != 11 || first.Receipt.Seal != admitted.Receipt.Seal {
			t.Fatalf("%+v", first.Receipt)
		}
		w := &load.Continuer{Client: s.worker}
		claimed, err := w.Claim(ctx, s.recording, "run-1", "claim-4", 600)
		if err != nil || claimed.Claim.Checkpoint != first.Receipt.Derived || claimed.Claim.Binding != first.Receipt.Binding {
			t.Fatalf("%+v %v", claimed.Claim, err)
		}
		seen := make(chan []byte, 1)
		server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			seen <- b
			rw.WriteHeader(http.StatusTeapot)
		}))
		t.Cleanup(server.Close)
		w.Endpoint = server.URL
		if _, err := w.Turn(ctx); err == nil {
			t.Fatal("the stub answered")
		}
		if wire := <-seen; !bytes.Contains(wire, []byte("original_read_result_not_retained")) {
			t.Errorf("the next request does not show the unavailable observation: %.300s", wire)
		}
		s.verify(t, "run-1", 2)
	})
}
