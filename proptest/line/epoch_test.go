package line

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api/apitest"
)

// recovering is a stage on SQLite with every recovery's switch on.
func recovering(t *testing.T) *stage {
	policy := apitest.Enabled()
	policy.AllowPreAdmissionRecovery, policy.AllowReadonlyObservationRecovery = true, true
	return setUp(t, stores[0].open(t), "2.55.0", apitest.Options{Policy: policy})
}

// The receipt shows the epoch that the run was started under and the policy revision now in force; the proof keeps the identity of the
// validator that judged the query then. EPOCH-08, CRED-01.
func TestReceiptShowsBothEpochs(t *testing.T) {
	s := recovering(t)
	c := s.held(t, "run-1", load.Options{})
	saved, err := s.dana.RequestContinuity(t.Context(), "run-1", "req-1", apitest.Accept(c, 600))
	if err != nil {
		t.Fatal(err)
	}
	r := saved.Receipt
	if want := (models.Epoch{Acknowledgement: s.recording.Acknowledgement, Mode: s.recording.Mode, Selection: s.recording.Selection}); r.HistoricEpoch != want || want.Mode == "" {
		t.Errorf("historic epoch %+v, want %+v", r.HistoricEpoch, want)
	}
	if r.CurrentEpoch.PolicyRevision != c.PolicyRevision || r.CurrentEpoch.PolicyDigest != c.PolicyDigest || c.PolicyRevision == 0 {
		t.Errorf("current epoch %+v", r.CurrentEpoch)
	}
	if proof := s.blob(t, "run-1", r.Proof); !bytes.Contains(proof, []byte(`"validator":"`+s.recording.Validator+`"`)) {
		t.Errorf("the proof names another validator: %s", proof)
	}
}

// What a run was adopted under is its first row: neither that row nor its digest differs after an admission, a refused-boundary and a
// read-only observation recovery. EPOCH-01.
func TestAdoptionStays(t *testing.T) {
	s := recovering(t)
	ctx := t.Context()
	c := s.held(t, "run-1", load.Options{})
	first, digest := s.rows(t, "run-1")[0], s.show(t, "run-1").Registered
	same := func(when string, named models.Digest) {
		t.Helper()
		now := s.rows(t, "run-1")[0]
		if now.Hash != first.Hash || string(now.Payload) != string(first.Payload) || s.show(t, "run-1").Registered != digest || named != digest {
			t.Errorf("%s: the adoption changed", when)
		}
	}
	admitted, err := s.dana.RequestContinuity(ctx, "run-1", "req-1", apitest.Accept(c, 600))
	if err != nil {
		t.Fatal(err)
	}
	same("admission", admitted.Receipt.Registration)
	review, err := load.Refuse(ctx, s.dana, s.worker, s.recording, "run-1", "claim-2", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, settled := s.settle(t, "run-1", review)
	same("refused-boundary recovery", settled.Receipt.Registration)
	if err := load.Lose(ctx, s.worker, s.recording, "run-1", "claim-3"); err != nil {
		t.Fatal(err)
	}
	o, err := s.dana.ReadonlyObservationCandidate(ctx, "run-1", "req-1")
	if err != nil {
		t.Fatal(err)
	}
	lost, err := s.dana.RequestReadonlyObservationRecovery(ctx, "run-1", "req-1", "rec-2", forge.ReadonlyObservationRecoveryInputV1{
		AcknowledgeFiniteOwnershipLease: true, AcknowledgeNoOriginalCallbackReplay: true, AcknowledgeSameRequestAttemptAndBudgets: true,
		AcknowledgeUnavailableObservation: true, CandidateDigest: o.CandidateDigest, ValidForSeconds: 600})
	if err != nil {
		t.Fatal(err)
	}
	same("read-only observation recovery", lost.Receipt.Registration)
}

// After a claim alone nothing says that a provider took anything: no turn, no counter, no request row, and no such word in what the
// API shows of run and receipt. REFUSED-01.
func TestClaimIsNoRequest(t *testing.T) {
	s := recovering(t)
	ctx := t.Context()
	c := s.held(t, "run-1", load.Options{})
	if _, err := s.dana.RequestContinuity(ctx, "run-1", "req-1", apitest.Accept(c, 600)); err != nil {
		t.Fatal(err)
	}
	before := len(s.rows(t, "run-1"))
	claimed, err := s.worker.Claim(ctx, "run-1", "claim-2", 600)
	if err != nil {
		t.Fatal(err)
	}
	view := s.show(t, "run-1")
	if view.Counters != c.Counters || claimed.Claim.Counters != c.Counters || view.Tickets[0].Turns != 0 {
		t.Errorf("%+v, %d turns", view.Counters, view.Tickets[0].Turns)
	}
	for _, r := range s.rows(t, "run-1")[before:] {
		if r.Kind != "claim.taken" {
			t.Errorf("a claim makes a row %s", r.Kind)
		}
	}
	saved, err := s.dana.Continuity(ctx, "run-1", "req-1")
	if err != nil {
		t.Fatal(err)
	}
	shown, err := json.Marshal(view)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(shown), string(saved.Body)} {
		for _, word := range []string{"requested", "provider accepted", "executed", "dispatched"} {
			if strings.Contains(strings.ToLower(text), word) {
				t.Errorf("a claim alone is shown as %q", word)
			}
		}
	}
}

// The source tree of the run, as it is now, has no part in what is made of its record: the reconstruction for a candidate with the tree
// at hand, and the one anew for the admission with it changed and gone, are the same to the byte. OBS-13.
func TestPresentFilesAreNotAsked(t *testing.T) {
	policy := apitest.Enabled()
	policy.AllowUnavailableSourceObservations = true
	s := setUp(t, stores[0].open(t), "2.55.0", apitest.Options{Policy: policy})
	workspace, err := filepath.Abs("../../fixtures/agent/workspace")
	if err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	if err := os.CopyFS(tree, os.DirFS(workspace)); err != nil {
		t.Fatal(err)
	}
	t.Chdir(tree)
	c := s.held(t, "run-1", load.Options{Variant: "siblings-list-files"})
	files, err := os.ReadDir(tree)
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if err := os.RemoveAll(filepath.Join(tree, f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(tree, "other.txt"), []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	saved, err := s.dana.RequestContinuity(t.Context(), "run-1", "req-1", acceptTwo(c, 600))
	if err != nil || saved.Receipt.Derived != c.Derived || c.Derived.IsZero() {
		t.Fatal(err, saved.Receipt.Derived, c.Derived)
	}
	if derived := s.blob(t, "run-1", saved.Receipt.Derived); bytes.Contains(derived, []byte("other.txt")) || bytes.Count(derived, []byte(unavailable)) != 3 {
		t.Error("a present file stands in the derived record")
	}
}
