package api_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/models"
	. "github.com/forge-continuity/forge/server/api/apitest"
	"github.com/forge-continuity/forge/server/engine"
)

// changedRows is a store that answers rows as somebody changed them behind its back.
type changedRows struct {
	engine.Store
	change func(*models.Row)
}

func (s *changedRows) Rows(ctx context.Context, factory, run string, from, limit int64) ([]models.Row, error) {
	rows, err := s.Store.Rows(ctx, factory, run, from, limit)
	for i := range rows {
		if s.change != nil && run != "" {
			s.change(&rows[i])
		}
	}
	return rows, err
}

// A record is told only where the chain holds and its row's own fields fit; otherwise there is no content. CRED-06.
func TestInspectionNeedsAWholeJournal(t *testing.T) {
	store := &changedRows{Store: openSQLite(t)}
	w := Start(t, store, &Fake{}, Options{Policy: Enabled()})
	r := w.Hold(t, "run-1")
	inspect := func() Answer {
		return w.Send(t, Call{As: Reader, Method: http.MethodGet, Path: "/runs/run-1/checkpoints/" + r.Checkpoint.String() + "/inspection"})
	}
	if a := inspect(); a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	other := models.PlainDigest([]byte("another blob"))
	for name, change := range map[string]func(*models.Row){
		"actor": func(row *models.Row) { row.Actor = "somebody" },
		"time":  func(row *models.Row) { row.At++ },
		"payload": func(row *models.Row) {
			row.Payload = bytes.Replace(row.Payload, []byte(`"number":3`), []byte(`"number":4`), 1)
		},
		"blobs":    func(row *models.Row) { row.Blobs = []models.Digest{other} },
		"previous": func(row *models.Row) { row.Prev = other },
		"gap": func(row *models.Row) {
			if row.Seq == 5 {
				row.Seq = 6
			}
		},
	} {
		store.change = change
		if a := inspect(); a.Code() != models.CodeJournalBroken || strings.Contains(string(a.Body), "checkpoint before") {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	seen := map[int64]int{} // the rows are read for their chain, and again for the record
	store.change = func(row *models.Row) {
		if seen[row.Seq]++; seen[row.Seq] > 1 {
			row.Blobs = []models.Digest{other}
		}
	}
	if a := inspect(); a.Code() != models.CodeJournalBroken || strings.Contains(string(a.Body), "checkpoint before") {
		t.Errorf("between two readings: %d %s", a.Status, a.Body)
	}
	store.change = nil
	if a := inspect(); a.Status != http.StatusOK {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// changedBlobs is a store whose kept bytes somebody changed.
type changedBlobs struct {
	engine.Store
	change func([]byte) []byte
}

func (s *changedBlobs) Blob(ctx context.Context, factory, run string, digest models.Digest) ([]byte, error) {
	data, err := s.Store.Blob(ctx, factory, run, digest)
	if err == nil && s.change != nil {
		data = s.change(data)
	}
	return data, err
}

// Bytes that are not those of their digest are told to nobody, whatever else holds of them, and are not looked through for
// credentials. CRED-07 (the hash).
func TestInspectionComparesTheDigest(t *testing.T) {
	store := &changedBlobs{Store: openSQLite(t)}
	w := Start(t, store, &Fake{}, Options{Policy: Enabled()})
	r := w.Hold(t, "run-1")
	for name, change := range map[string]func([]byte) []byte{
		"a byte":  func(b []byte) []byte { return append(bytes.Clone(b), ' ') },
		"a key":   func(b []byte) []byte { return append(bytes.Clone(b), Key...) },
		"nothing": func([]byte) []byte { return nil },
	} {
		store.change = change
		a := w.Send(t, Call{As: Reader, Method: http.MethodGet, Path: "/runs/run-1/checkpoints/" + r.Checkpoint.String() + "/inspection"})
		if a.Code() != models.CodeCheckpointDigestMismatch || strings.Contains(string(a.Body), "checkpoint before") {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
}

// A waiver is answered once more for an identical repeat, and the same id takes no other content; while a worker is at it or a
// ticket is outstanding there is none. The key itself is in no answer, row or log line.
func TestWaiverIsOneCommand(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := w.Open(t, "run-1")
		r.Claim(t, "claim-1")
		r.Checkpoint = r.Blob(t, Worker, "a record with "+Key+" in it")
		r.Append(t, models.CheckpointSaved{Checkpoint: r.Checkpoint})
		waiver := models.WaiveCredential{Blob: r.Checkpoint, Rule: "apitest-key", RuleSet: Screen{}.RuleSet()}
		waive := func(id string, body models.WaiveCredential) Answer {
			return w.Send(t, Call{As: Administrator, Method: http.MethodPut, Path: "/runs/run-1/credential-waivers/" + id, Body: body})
		}
		inspect := func() Answer {
			return w.Send(t, Call{As: Reader, Method: http.MethodGet, Path: "/runs/run-1/checkpoints/" + r.Checkpoint.String() + "/inspection"})
		}
		wantCode(t, waive("waive-1", waiver), models.CodeClaimLive)
		wantCode(t, inspect(), models.CodeCredentialFound)
		r.Fail(t)
		first := waive("waive-1", waiver)
		again := waive("waive-1", waiver)
		if first.Status != http.StatusCreated || again.Status != http.StatusOK || string(first.Body) != string(again.Body) {
			t.Fatalf("%d %s\n%d %s", first.Status, first.Body, again.Status, again.Body)
		}
		other := waiver
		other.Rule = "another-key"
		wantCode(t, waive("waive-1", other), models.CodeRequestConflict)
		if a := inspect(); a.Status != http.StatusOK {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		if strings.Contains(snapshot(t, w), Key) || len(w.Log.Lines(Key)) > 0 {
			t.Error("the key stands in a row or a log line")
		}
	})
}

// The proof of an admission names the validator that the run was registered with, whichever the node would take today. CRED-01.
func TestProofNamesTheRegisteredValidator(t *testing.T) {
	w := Start(t, openSQLite(t), &Fake{}, Options{Policy: Enabled()})
	r := w.Hold(t, "run-1")
	receipt := r.Admit(t, "request-1")
	proof := w.Send(t, Call{As: Dana, Method: http.MethodGet, Path: "/runs/run-1/blobs/" + receipt.Proof.String()})
	if want := `"validator":"` + r.Show(t).Registration.Validator.String() + `"`; proof.Status != http.StatusOK || !strings.Contains(string(proof.Body), want) {
		t.Errorf("%d %s, want %s", proof.Status, proof.Body, want)
	}
}
