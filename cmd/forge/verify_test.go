package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/adapters/sqlite"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/fixtures/recordings"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// admitted exports the held run after an admission.
func admitted(t *testing.T) ([]byte, *composition) {
	t.Helper()
	ctx := context.Background()
	store, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "forge.db"))
	if err != nil {
		t.Fatal(err)
	}
	comp, err := compose(ctx, store, cacheDir(""), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ln, _, err := listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- comp.api.Serve(ln) }()
	t.Cleanup(func() { _, _ = stop(comp, served), comp.close() })
	people, err := demoPeople(ctx, comp.engine, demoFactory, "http://"+ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r, err := recordings.Held("2.55.0")
	if err != nil {
		t.Fatal(err)
	}
	s := &story{people: people, out: &bytes.Buffer{}, comp: comp, recording: r}
	if err := load.PutRecords(ctx, people.Administrator, r); err != nil {
		t.Fatal(err)
	}
	if _, err := load.Held(ctx, people.Operator, people.Worker, r, storyRun, load.Options{}); err != nil {
		t.Fatal(err)
	}
	view, err := people.Reader.Run(ctx, storyRun)
	if err != nil {
		t.Fatal(err)
	}
	s.atStop = view.Counters
	for _, act := range []func(context.Context) error{s.enable, s.admit} {
		if err := act(ctx); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if _, err := people.Reader.Export(ctx, storyRun, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), comp
}

func check(data []byte, sandbox engine.Sandbox) (engine.Verified, error) {
	bundle, err := parseBundle(bytes.NewReader(data), "export")
	if err != nil {
		return engine.Verified{}, err
	}
	return engine.Verify(context.Background(), bundle, sandbox)
}

func lineKind(line []byte) string {
	for _, kind := range []string{"blob", "factory_row", "receipt", "row"} {
		if bytes.HasPrefix(line, []byte(`{"`+kind+`":`)) {
			return kind
		}
	}
	return "header"
}

// other is a byte that could stand there just as well, so that the change is not only one of form.
func other(b byte) byte {
	switch {
	case '0' <= b && b <= '8', 'a' <= b && b <= 'e', 'A' <= b && b < 'Z', 'g' <= b && b < 'z':
		return b + 1
	case b == '9':
		return '0'
	case b == 'f':
		return 'a'
	}
	return b ^ 1
}

// A changed byte in any kind of line of an export file is found, and so is a line that is missing, twice or in another place.
func TestVerifyFindsChanges(t *testing.T) {
	data, comp := admitted(t)
	found, err := check(data, comp.sandbox)
	if err != nil || found.Reconstructions != 1 || found.BlobsErased != 0 {
		t.Fatalf("the export itself: %+v %v", found, err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	lines = lines[:len(lines)-1]
	starts, byKind := make([]int, len(lines)), map[string][]int{}
	for i, at := 0, 0; i < len(lines); i++ {
		starts[i], at = at, at+len(lines[i])
		byKind[lineKind(lines[i])] = append(byKind[lineKind(lines[i])], i)
	}
	random := rand.New(rand.NewPCG(1, 2))
	codes := map[models.Code]int{}
	for kind, list := range byKind {
		for range 30 {
			i := list[random.IntN(len(list))]
			at := starts[i] + random.IntN(len(lines[i])-1)
			changed := bytes.Clone(data)
			changed[at] = other(changed[at])
			_, err := check(changed, comp.sandbox)
			if err == nil {
				t.Errorf("%s line %d: byte %d from %q to %q is not found", kind, i+1, at-starts[i], data[at], changed[at])
			}
			codes[models.CodeOf(err)]++
		}
		if kind == "header" || kind == "blob" {
			continue
		}
		i := list[random.IntN(len(list))]
		join := func(parts ...[][]byte) []byte {
			var out []byte
			for _, p := range parts {
				out = append(out, bytes.Join(p, nil)...)
			}
			return out
		}
		for name, changed := range map[string][]byte{
			"missing": join(lines[:i], lines[i+1:]),
			"twice":   join(lines[:i+1], lines[i:]),
			"moved":   join(lines[:list[0]], lines[list[1]:list[1]+1], lines[list[0]:list[1]], lines[list[1]+1:]),
			"cut":     join(lines[:i], [][]byte{lines[i][:len(lines[i])/2], []byte("\n")}, lines[i+1:]),
		} {
			if _, err := check(changed, comp.sandbox); err == nil {
				t.Errorf("a %s line that is %s is not found", kind, name)
			}
		}
	}
	for code := range codes {
		if _, ok := models.Lookup(code); !ok {
			t.Errorf("%d changes are refused without a code: %q", codes[code], code)
		}
	}
	t.Logf("%d lines: %v; refused as %v", len(lines), kinds(byKind), codes)
}

func kinds(byKind map[string][]int) string {
	var out []string
	for kind, list := range byKind {
		out = append(out, fmt.Sprintf("%d %s", len(list), kind))
	}
	return strings.Join(out, ", ")
}

// EPOCH-09: both policy epochs, the old native references, profile and policy revision are bound in the settlement; changing
// any of them in an exported file is found by name.
func TestVerifyBindsTheEpochs(t *testing.T) {
	data, comp := admitted(t)
	at := bytes.Index(data, []byte(`"kind":"migration.settled"`))
	if at < 0 {
		t.Fatal("no settlement in the export")
	}
	for _, member := range []string{"selection", "mode", "acknowledgement", "policy_digest", "policy_revision", "old_checkpoint", "response",
		"custody", "journal", "graph", "profile", "profile_digest", "admission", "consume_seq"} {
		i := bytes.Index(data[at:], []byte(`"`+member+`":`))
		if i < 0 {
			t.Errorf("the settlement has no %s", member)
			continue
		}
		i += at + len(member) + 3
		if data[i] == '"' {
			i++
		}
		changed := bytes.Clone(data)
		changed[i] = other(changed[i])
		if _, err := check(changed, comp.sandbox); models.CodeOf(err) != models.CodeJournalBroken {
			t.Errorf("%s changed: %v", member, err)
		}
	}
}

// A blob that is not in the file is said to be erased; the rest still verifies.
func TestVerifySaysWhatWasErased(t *testing.T) {
	data, comp := admitted(t)
	var kept []byte
	dropped := 0
	for line := range bytes.Lines(data) {
		if lineKind(line) == "blob" {
			dropped++
			continue
		}
		kept = append(kept, line...)
	}
	found, err := check(kept, comp.sandbox)
	if err != nil || found.BlobsErased != int64(dropped) || found.Blobs != 0 || found.Reconstructions != 0 || found.Admissions != 1 {
		t.Errorf("%d blobs dropped: %+v %v", dropped, found, err)
	}
	whole, err := check(data, comp.sandbox)
	if err != nil || unchecked(whole) != nil || unchecked(found) == nil {
		t.Errorf("whole %v %v, without blobs %v", unchecked(whole), err, unchecked(found))
	}
}

// Each thing that the file lacks is said, and is no verification (REFUSED-11, REFUSED-26).
func TestNothingUncheckedIsVerified(t *testing.T) {
	whole := engine.Verified{Blobs: 9, Reports: 3, Reproductions: 1, RefusedRequests: 1, Admissions: 2, Reconstructions: 2}
	if err := unchecked(whole); err != nil {
		t.Error(err)
	}
	for what, lacks := range map[string]func(*engine.Verified){
		"1 of 2 admissions could not be reconstructed":        func(v *engine.Verified) { v.Reconstructions-- },
		"1 of 1 refused requests could not be rendered again": func(v *engine.Verified) { v.Reproductions-- },
		"1 of 3 reports are not there":                        func(v *engine.Verified) { v.Reports--; v.ReportsMissing++ },
		"1 of 9 blobs are not there":                          func(v *engine.Verified) { v.Blobs--; v.BlobsErased++ },
	} {
		v := whole
		lacks(&v)
		if err := unchecked(v); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("want %q, got %v", what, err)
		}
		if err := (&verifiedAll{checked: v}).err(); err == nil {
			t.Errorf("%s: all runs verified", what)
		}
	}
}
