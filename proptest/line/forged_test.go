package line

import (
	"bytes"
	"slices"
	"testing"

	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api/apitest"
	"github.com/forge-continuity/forge/server/engine"
)

// A record that somebody wrote anew around another reconstruction is consistent in every hash and decision, and does not
// verify: the sandbox makes the reconstruction again and all of it is compared. It was enough to forge what was not compared:
// a valid query was once admitted over an empty checkpoint. ELIG-09, EPOCH-09, OBS-21, REC-11.
func TestForgedReconstruction(t *testing.T) {
	s := setUp(t, stores[0].open(t), "2.55.0", apitest.Options{Policy: apitest.Enabled()})
	c := s.held(t, "run-1", load.Options{})
	if _, err := s.dana.RequestContinuity(t.Context(), "run-1", "req-1", apitest.Accept(c, 600)); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if _, err := s.dana.Export(t.Context(), "run-1", &file); err != nil {
		t.Fatal(err)
	}
	b, err := engine.ReadBundle(&file)
	if err != nil {
		t.Fatal(err)
	}
	other := models.PlainDigest([]byte("other"))
	for name, change := range map[string]func(*models.Reconstruction){
		"as it was": nil,
		"proof":     func(r *models.Reconstruction) { r.Proof = other },
		"contract":  func(r *models.Reconstruction) { r.Contract = other },
		"derived":   func(r *models.Reconstruction) { r.Derived = other },
		"witness":   func(r *models.Reconstruction) { r.Witness = other },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := engine.Verify(t.Context(), resealed(t, b, change), sandbox(t))
			if (change == nil) != (err == nil) {
				t.Fatal(err)
			}
			if r, ok := engine.IsRefusal(err); change != nil && (!ok || r.Code != models.CodeJournalBroken) {
				t.Fatal(err)
			}
		})
	}
	t.Run("unnamed blob", func(t *testing.T) {
		broken := b
		broken.Blobs = slices.Clone(b.Blobs)
		broken.Blobs = append(broken.Blobs, engine.Blob{Digest: models.SaltedBlob(b.Salt, []byte("more")), Data: []byte("more")})
		if _, err := engine.Verify(t.Context(), broken, sandbox(t)); err == nil {
			t.Fatal("a blob that no row names is accepted")
		}
	})
}

// resealed decides the admission of a bundle again with a changed reconstruction, and seals rows and receipt anew.
func resealed(t *testing.T, b engine.Bundle, change func(*models.Reconstruction)) engine.Bundle {
	t.Helper()
	history, r := kernel.ReplayFactory(slices.Values(b.FactoryRows))
	if r != nil {
		t.Fatal(r)
	}
	last := b.Rows[len(b.Rows)-1]
	first := len(b.Rows) - int(last.N)
	s, r := kernel.Replay(slices.Values(b.Rows[:first]), history)
	if r != nil {
		t.Fatal(r)
	}
	row := b.Rows[first]
	env, err := models.OpenEnv(row.Env)
	if err != nil {
		t.Fatal(err)
	}
	if env.Factory, r = history.At(env.FactoryHead); r != nil {
		t.Fatal(r)
	}
	text, err := models.DecodeCommand(row.CommandName, row.Command)
	if err != nil {
		t.Fatal(err)
	}
	c := text.(models.RequestContinuity)
	if change != nil {
		change(env.Reconstruction)
		c.CandidateDigest = kernel.Candidate(s, env).CandidateDigest
	}
	events, r := kernel.Decide(s, row.CommandID, c, env)
	if r != nil {
		t.Fatal(r)
	}
	rows, after, err := kernel.Rows(s, row.CommandID, c, env, events)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := models.CommandDigest(env.Actor, c)
	if err != nil {
		t.Fatal(err)
	}
	out := b
	out.Rows = append(slices.Clone(b.Rows[:first]), rows...)
	out.Receipts = slices.Clone(b.Receipts)
	receipt := &out.Receipts[len(out.Receipts)-1]
	receipt.Digest, receipt.Body = digest, kernel.Receipt(after, c, rows, events)
	// What the rows no longer name would be found by itself.
	named := map[models.Digest]bool{}
	for _, r := range out.Rows {
		for _, d := range r.Blobs {
			named[d] = true
		}
	}
	out.Blobs = slices.DeleteFunc(slices.Clone(b.Blobs), func(x engine.Blob) bool { return !named[x.Digest] })
	return out
}
