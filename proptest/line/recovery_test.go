package line

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api/apitest"
)

// recover is the body that takes a recovery candidate as it was read.
func recover(c models.RecoveryCandidate, seconds models.Seconds) models.RecoverNeverClaimed {
	return models.RecoverNeverClaimed{
		AcknowledgeNeverClaimed: true, AcknowledgeOriginalConsumptionAndBudgets: true, AcknowledgeRenewedSameAttemptLease: true,
		AcknowledgeSameRequestAndAttempt: true, CandidateDigest: c.CandidateDigest, JournalDigest: c.JournalDigest,
		PolicyDigest: c.PolicyDigest, RunDigest: c.RunDigest, ValidForSeconds: seconds, Version: 1,
	}
}

// An admission whose second passes unclaimed is recovered once and then carried to the end by a worker.
// NOCLAIM-01, NOCLAIM-11, NOCLAIM-13, NOCLAIM-14, NOCLAIM-15, NOCLAIM-17, FLOW-31, FLOW-38.
func TestNeverClaimedIsRecovered(t *testing.T) {
	each(t, "2.55.0", func(t *testing.T, s *stage) {
		ctx := t.Context()
		c := s.held(t, "run-1", load.Options{})
		admitted, err := s.dana.RequestContinuity(ctx, "run-1", "req-1", apitest.Accept(c, 1))
		if err != nil {
			t.Fatal(err)
		}
		rows := s.rows(t, "run-1")
		time.Sleep(1100 * time.Millisecond)
		_, err = s.worker.Claim(ctx, "run-1", "claim-late", 600)
		problem(t, err, models.CodeLeaseExpired)
		r, err := s.dana.RecoveryCandidate(ctx, "run-1", "req-1")
		if err != nil || !r.Eligible || r.Counters != c.Counters {
			t.Fatalf("%v %v", r.Holds, err)
		}
		first, err := s.dana.RequestRecovery(ctx, "run-1", "req-1", "rec-1", recover(r, 600))
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.dana.RequestRecovery(ctx, "run-1", "req-1", "rec-1", recover(r, 600))
		if err != nil || !bytes.Equal(first.Body, again.Body) {
			t.Fatal("repeat", err)
		}
		read, err := s.dana.Recovery(ctx, "run-1", "req-1")
		if err != nil || !bytes.Equal(first.Body, read.Body) {
			t.Fatal("read back", err)
		}
		_, err = s.dana.RequestRecovery(ctx, "run-1", "req-1", "rec-2", recover(r, 600))
		problem(t, err, models.CodeRecoveryRecorded)
		all := s.rows(t, "run-1")
		if got := kinds(all[len(rows):]); !slices.Equal(got, []string{"lease.lapsed", "never_claimed_recovery", "request.requeued", "lease.granted"}) {
			t.Fatalf("appended %v", got)
		}
		for i, row := range rows {
			if all[i].Hash != row.Hash {
				t.Fatalf("row %d changed", i+1)
			}
		}
		saved, err := s.dana.Continuity(ctx, "run-1", "req-1")
		if err != nil || !bytes.Equal(saved.Body, admitted.Body) || first.Receipt.Seal != admitted.Receipt.Seal || first.Receipt.Counters != c.Counters {
			t.Fatalf("the admission changed: %v", err)
		}
		if n, err := s.Store.Pending(ctx, apitest.Factory); err != nil || n != 1 {
			t.Fatalf("%d pending, %v", n, err)
		}
		stub, url := s.provider(t)
		w := &load.Continuer{Client: s.worker, Endpoint: url}
		claimed, err := w.Claim(ctx, s.recording, "run-1", "claim-2", 600)
		if err != nil || claimed.Claim.Checkpoint != admitted.Receipt.Derived || claimed.Claim.RequestID != "req-1" {
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
		s.verify(t, "run-1", 1)
	})
}
