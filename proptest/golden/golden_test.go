package golden_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/proptest/world"
	"github.com/forge-continuity/forge/server/engine"
)

var update = flag.Bool("update", false, "rewrite golden files")

const journals = "../../fixtures/journals"

// golden are the journals that the current rules write, by file name.
var golden = map[string]func() *world.World{"finished": world.Finished, "everything": world.Everything}

// What the current rules write is what stands in their folder: a difference is a change of a format or of a rule.
func TestGoldenJournalsAreWrittenAsBefore(t *testing.T) {
	for name, make := range golden {
		file := filepath.Join(journals, fmt.Sprint(kernel.CurrentRules()), name+".jsonl")
		var out bytes.Buffer
		if err := engine.WriteBundle(&out, bundle(t, make())); err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(out.Bytes(), want) {
			continue
		}
		got, old := bytes.Split(out.Bytes(), []byte("\n")), bytes.Split(want, []byte("\n"))
		for i := range got {
			if i >= len(old) || !bytes.Equal(got[i], old[i]) {
				t.Errorf("%s differs from line %d on:\n%s", file, i+1, got[i])
				break
			}
		}
	}
}

// Every journal that was ever committed verifies for ever, its receipts included (design, The kernel). The admissions in
// them name a module that does not exist; that a reconstruction gives the same again is shown elsewhere.
func TestCommittedJournalsVerify(t *testing.T) {
	files, err := filepath.Glob(journals + "/*/*.jsonl")
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b, err := engine.ReadBundle(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		found, err := engine.Verify(context.Background(), b, nil)
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if found.Rows == 0 || found.Receipts == 0 {
			t.Errorf("%s: %+v", file, found)
		}
	}
}

// bundle is a world as an export file has it: receipts in the order of their commands, blobs erased.
func bundle(t *testing.T, w *world.World) engine.Bundle {
	b := engine.Bundle{Factory: world.Factory, Run: world.Run, Salt: [32]byte{1}, FactoryRows: w.FactoryRows, Rows: w.Rows}
	for _, r := range w.Rows {
		if r.I > 0 {
			continue
		}
		c, err := models.DecodeCommand(r.CommandName, r.Command)
		if err != nil {
			t.Fatal(err)
		}
		space := engine.SpaceCommand
		switch c.(type) {
		case models.RegisterRun:
			space = engine.SpaceRun
		case models.ClaimRun:
			space = engine.SpaceClaim
		case models.RequestContinuity:
			space = engine.SpaceRequest
		}
		s := w.Receipts[space+"/"+r.CommandID]
		b.Receipts = append(b.Receipts, engine.Receipt{Key: engine.Key{Space: space, ID: r.CommandID}, Digest: s.Digest, Actor: r.Actor, Body: s.Body})
	}
	if i := slices.IndexFunc(b.Receipts, func(r engine.Receipt) bool { return len(r.Body) == 0 }); i >= 0 {
		t.Fatalf("no receipt under %s", b.Receipts[i].Key.ID)
	}
	return b
}
