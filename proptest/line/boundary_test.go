package line

import (
	"bytes"
	"slices"
	"testing"

	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api/apitest"
)

// refuse is load.Refuse by the stage's worker.
func (s *stage) refuse(t *testing.T, run, claim string, sent func([]byte) []byte) models.ReviewedProviderRejectionV1 {
	t.Helper()
	review, err := load.Refuse(t.Context(), s.dana, s.worker, s.recording, run, claim, sent)
	if err != nil {
		t.Fatal(err)
	}
	return review
}

// reports is load.PutReports by the stage's administrator.
func (s *stage) reports(t *testing.T, review *models.ReviewedProviderRejectionV1) models.Digest {
	t.Helper()
	correction, err := load.PutReports(t.Context(), s.admin, review)
	if err != nil {
		t.Fatal(err)
	}
	return correction
}

// settle recovers the refused request of req-1 under rec-1 and returns the receipt.
func (s *stage) settle(t *testing.T, run string, review models.ReviewedProviderRejectionV1) (forge.RejectedBoundaryRecoveryInputV1, forge.Saved[models.RecoveryReceipt]) {
	t.Helper()
	correction := s.reports(t, &review)
	c, err := s.dana.RejectedBoundaryCandidate(t.Context(), run, "req-1", review)
	if err != nil || !c.Eligible {
		t.Fatalf("%v %v", c.Holds, err)
	}
	body := forge.RejectedBoundaryRecoveryInputV1{
		AcknowledgeFiniteOwnershipLease: true, AcknowledgeNoOriginalResponseOrToolReplay: true, AcknowledgeReviewedProviderEpoch: true,
		AcknowledgeSameRequestAndBudgets: true, CandidateDigest: c.CandidateDigest, CorrectiveEpoch: load.CorrectiveEpoch, CorrectiveValidation: correction,
		Review: review, ValidForSeconds: 600,
	}
	saved, err := s.dana.RequestRejectedBoundaryRecovery(t.Context(), run, "req-1", "rec-1", body)
	if err != nil {
		t.Fatal(err)
	}
	return body, saved
}

// boundary is a stage on every store with every recovery's switch on.
func boundary(t *testing.T, test func(*testing.T, *stage)) {
	t.Helper()
	policy := apitest.Enabled()
	policy.AllowPreAdmissionRecovery, policy.AllowReadonlyObservationRecovery = true, true
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			test(t, setUp(t, store.open(t), "2.55.0", apitest.Options{Policy: policy}))
		})
	}
}

// The continuation's first request is refused, reviewed, reproduced byte for byte in the real sandbox, recovered once, and the
// pending graph carried to the end. REFUSED-22, REFUSED-26 (the receipt's length and digest), REFUSED-28, REFUSED-29, REFUSED-30,
// REFUSED-31, REFUSED-32, FLOW-31.
func TestRefusedBoundaryIsRecovered(t *testing.T) {
	boundary(t, func(t *testing.T, s *stage) {
		ctx := t.Context()
		c := s.held(t, "run-1", load.Options{})
		admitted, err := s.dana.RequestContinuity(ctx, "run-1", "req-1", apitest.Accept(c, 600))
		if err != nil {
			t.Fatal(err)
		}
		review := s.refuse(t, "run-1", "claim-2", nil)
		rows := s.rows(t, "run-1")
		body, first := s.settle(t, "run-1", review)
		again, err := s.dana.RequestRejectedBoundaryRecovery(ctx, "run-1", "req-1", "rec-1", body)
		if err != nil || !bytes.Equal(first.Body, again.Body) {
			t.Fatal("repeat", err)
		}
		read, err := s.dana.RejectedBoundaryRecovery(ctx, "run-1", "req-1")
		if err != nil || !bytes.Equal(first.Body, read.Body) {
			t.Fatal("read back", err)
		}
		if r := first.Receipt.Review; r.Wire != review.Wire || r.WireLength != review.WireLength || first.Receipt.Seal != admitted.Receipt.Seal {
			t.Fatalf("%+v", first.Receipt)
		}
		all := s.rows(t, "run-1")
		if got := kinds(all[len(rows):]); !slices.Equal(got, []string{"refusal.settled", "request.requeued", "lease.granted"}) {
			t.Fatalf("appended %v", got)
		}
		if document := s.blob(t, "run-1", first.Receipt.Review.Document); !bytes.Contains(document, []byte(review.Endpoint)) {
			t.Fatalf("review %s", document)
		}
		for _, row := range all {
			if bytes.Contains(row.Payload, []byte(review.Endpoint)) || bytes.Contains(row.Command, []byte(review.Endpoint)) {
				t.Fatalf("row %d carries a text of the review", row.Seq)
			}
		}
		stub, url := s.provider(t)
		w := &load.Continuer{Client: s.worker, Endpoint: url}
		claimed, err := w.Claim(ctx, s.recording, "run-1", "claim-3", 600)
		if err != nil || claimed.Claim.Checkpoint != admitted.Receipt.Derived || claimed.Claim.Counters.Requests != c.Counters.Requests+1 {
			t.Fatalf("%+v %v", claimed.Claim, err)
		}
		var last load.Turn
		for last.Text == "" {
			if last, err = w.Turn(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Complete(ctx, last.Text); err != nil || stub.Requests() != 2 {
			t.Fatal(err, stub.Requests())
		}
		view, err := s.dana.Run(ctx, "run-1")
		if err != nil || view.Counters.Requests != c.Counters.Requests+3 {
			t.Fatalf("%+v %v", view.Counters, err)
		}
		s.verify(t, "run-1", 1)
	})
}

// One changed wire byte is found by the real sandbox. REFUSED-26.
func TestOtherWireBytes(t *testing.T) {
	policy := apitest.Enabled()
	policy.AllowPreAdmissionRecovery = true
	s := setUp(t, stores[0].open(t), "2.55.0", apitest.Options{Policy: policy})
	c := s.held(t, "run-1", load.Options{})
	if _, err := s.dana.RequestContinuity(t.Context(), "run-1", "req-1", apitest.Accept(c, 600)); err != nil {
		t.Fatal(err)
	}
	review := s.refuse(t, "run-1", "claim-2", func(b []byte) []byte { return append(bytes.Clone(b), ' ') })
	s.reports(t, &review)
	got, err := s.dana.RejectedBoundaryCandidate(t.Context(), "run-1", "req-1", review)
	if err != nil || got.Eligible || got.Holds[0].Code != models.CodeWireBytesDiffer {
		t.Fatalf("%v %v", got.Holds, err)
	}
}
