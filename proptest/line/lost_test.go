package line

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api/apitest"
)

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
		s.settle(t, "run-1", s.refuse(t, "run-1", "claim-2", nil))
		if err := load.Lose(ctx, s.worker, s.recording, "run-1", "claim-3"); err != nil {
			t.Fatal(err)
		}
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
		if bytes.Count(derived, []byte(unavailable)) != 1 || bytes.Count(derived, []byte(load.Listed)) != 1 || first.Receipt.Derived == admitted.Receipt.Derived {
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
