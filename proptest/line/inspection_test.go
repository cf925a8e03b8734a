package line

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forge-continuity/forge/adapters/secrets"
	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/fixtures/recordings"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api/apitest"
	"github.com/forge-continuity/forge/server/engine"
)

// screening is the real rule set, which remembers what it was given.
type screening struct {
	*secrets.Screener
	mu   sync.Mutex
	seen [][]byte
}

func (s *screening) Screen(text []byte) []models.Finding {
	s.mu.Lock()
	s.seen = append(s.seen, bytes.Clone(text))
	s.mu.Unlock()
	return s.Screener.Screen(text)
}

var rules = sync.OnceValues(secrets.New)

// inspecting runs a test on every store with the policy enabled and the real screening.
func inspecting(t *testing.T, version string, test func(*testing.T, *stage, *screening)) {
	t.Helper()
	set, err := rules()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			seen := &screening{Screener: set}
			test(t, setUp(t, s.open(t), version, apitest.Options{Policy: apitest.Enabled(), Screener: seen}), seen)
		})
	}
}

// plant puts a text in the place of words of the user's that checkpoints, wire bytes and task have.
func plant(text string) func(string, []byte) []byte {
	return func(_ string, data []byte) []byte {
		return bytes.ReplaceAll(data, []byte("Find out why"), []byte(text))
	}
}

const (
	key  = "ghp_b8107e28a54da81906d1db852bd00a37f3d0" // the form of a key, made for this test
	word = "/history/0/parts/0/content"
)

// turn is the checkpoint that the held turn's request was sent from.
func (s *stage) turn(t *testing.T, run string) models.Digest {
	t.Helper()
	d, ok := models.Digest{}, false
	for _, r := range s.rows(t, run) {
		if e, err := models.DecodeEvent(r.Kind, r.Payload); err == nil {
			if e, is := e.(models.CheckpointSaved); is {
				d, ok = e.Checkpoint, true
			}
		}
	}
	if !ok {
		t.Fatal("no checkpoint")
	}
	return d
}

func (s *stage) as(t *testing.T, principal string) *forge.Client {
	return s.dana.WithToken(s.Tokens[principal])
}

// A reader gets a kept record of a known epoch as it is stored, to the byte, with every member of it; the very text that is stored
// was screened; and reading it restores, renews and authorises nothing, while the same run may be held. Without an identity, and
// for a worker, there is no answer. The text is of use to no route that restores.
// CRED-05, CRED-08 (the text itself), CRED-09, CRED-10, CRED-12, CRED-13, SDK-25, CRED-11 (after inspection).
func TestInspection(t *testing.T) {
	inspecting(t, "2.58.0", func(t *testing.T, s *stage, seen *screening) {
		held := s.held(t, "run-1", load.Options{Registration: func(g *models.Registration) { g.Runtime = models.PlainDigest([]byte("another runtime")) }})
		checkpoint := s.turn(t, "run-1")
		stored, err := s.dana.Blob(t.Context(), "run-1", checkpoint)
		if err != nil {
			t.Fatal(err)
		}
		before, show := s.rows(t, "run-1"), s.show(t, "run-1")
		seen.seen = nil
		got, err := s.as(t, apitest.Reader).Inspect(t.Context(), "run-1", checkpoint)
		if err != nil {
			t.Fatal(err)
		}
		if got.Text != string(stored) || got.PydanticAI != "2.58.0" || got.RuleSet != seen.RuleSet() || !slices.Equal(got.Checks, models.InspectionChecks) {
			t.Errorf("%d bytes, %s, %s, %v", len(got.Text), got.PydanticAI, got.RuleSet, got.Checks)
		}
		if len(seen.seen) != 1 || string(seen.seen[0]) != string(stored) {
			t.Errorf("screened %d texts, not the one stored", len(seen.seen))
		}
		if held.Eligible || !has(held, models.CodeRuntimeUnregistered) {
			t.Errorf("what can be inspected is not held: %v", codes(held))
		}
		if len(s.rows(t, "run-1")) != len(before) || s.show(t, "run-1").Lease != show.Lease || s.show(t, "run-1").Head != show.Head {
			t.Error("an inspection moved something")
		}
		_, err = s.worker.Inspect(t.Context(), "run-1", checkpoint)
		problem(t, err, models.CodeRoleMissing)
		_, err = s.dana.WithToken("none").Inspect(t.Context(), "run-1", checkpoint)
		problem(t, err, models.CodeIdentityMissing)
		_, err = s.as(t, apitest.Reader).Inspect(t.Context(), "run-1", held.SourceDigest)
		problem(t, err, models.CodeNotFound)
		_, err = s.dana.Restore(t.Context(), "run-1", checkpoint)
		problem(t, err, models.CodeRestoreVersionMismatch)
		// The answer is no record of a run: no route takes it, and as a blob it is another one, which no row names.
		if checkpoint == models.PlainDigest([]byte(got.Text)) {
			t.Error("the text alone names the record")
		}
	})
}

// show is the run as dana sees it.
func (s *stage) show(t *testing.T, run string) forge.RunView {
	t.Helper()
	v, err := s.dana.Run(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	v.Now = 0
	return v
}

// Each fault of a record is refused by name and before the next check: a record of an unknown epoch, one that is not canonical, one
// over its bound, one with a counter out of bounds, and only last a credential. A credential in a faulty record is not looked for.
// CRED-05 (an unknown epoch), CRED-07, CRED-08 (after the structure).
func TestInspectionFaults(t *testing.T) {
	set, err := rules()
	if err != nil {
		t.Fatal(err)
	}
	seen := &screening{Screener: set}
	s := setUp(t, stores[0].open(t), "2.55.0", apitest.Options{Policy: apitest.Enabled(), Screener: seen})
	replace := func(from, to string) func(string, []byte) []byte {
		return func(step string, data []byte) []byte {
			if step != "checkpoint" {
				return data
			}
			return bytes.Replace(plant(key)("", data), []byte(from), []byte(to), 1)
		}
	}
	for name, c := range map[string]struct {
		change func(string, []byte) []byte
		want   models.Code
	}{
		"epoch":     {replace(`"pydantic_ai":"2.55.0"`, `"pydantic_ai":"9.9.9"`), models.CodeUnsupportedHistoryFormat},
		"canonical": {replace(`"completed_rounds":`, `"completed_rounds": `), models.CodeCheckpointNotCanonical},
		"bound": {func(step string, data []byte) []byte {
			if step != "checkpoint" {
				return data
			}
			return bytes.Replace(data, []byte("Find out why"), bytes.Repeat([]byte("x"), 8<<20), 1)
		}, models.CodeRecordOutOfBounds},
		"counter": {replace(`"requests":1`, `"requests":-1`), models.CodeCounterOutOfBounds},
		"secret":  {replace("nothing of this", ""), models.CodeCredentialFound},
	} {
		t.Run(name, func(t *testing.T) {
			run := "run-" + name
			if _, err := load.Held(t.Context(), s.dana, s.worker, s.recording, run, load.Options{Content: c.change, Stop: load.After("checkpoint", 2)}); err != nil {
				t.Fatal(err)
			}
			seen.seen = nil
			_, err := s.as(t, apitest.Reader).Inspect(t.Context(), run, s.turn(t, run))
			p := problem(t, err, c.want)
			if strings.Contains(err.Error(), "b8107e28") {
				t.Error(err)
			}
			if c.want == models.CodeCredentialFound {
				if p.Detail("rule") != "github-pat" || p.Detail("path") != word {
					t.Error(p.Details)
				}
			} else if slices.ContainsFunc(seen.seen, func(text []byte) bool { return len(text) > 100 }) { // the words of the refusal are short
				t.Error("a faulty record was screened")
			}
		})
	}
}

// A candidate whose record is not the one it should be says so; nothing is looked for in it. CRED-08 (after the structure).
func TestFaultyCandidateIsNotScreened(t *testing.T) {
	set, err := rules()
	if err != nil {
		t.Fatal(err)
	}
	seen := &screening{Screener: set}
	s := setUp(t, stores[0].open(t), "2.55.0", apitest.Options{Policy: apitest.Enabled(), Screener: seen})
	spaced := func(step string, data []byte) []byte {
		data = plant(key)(step, data)
		if step == "checkpoint" {
			data = bytes.Replace(data, []byte(`"completed_rounds":`), []byte(`"completed_rounds": `), 1)
		}
		return data
	}
	if _, err := load.Held(t.Context(), s.dana, s.worker, s.recording, "run-1", load.Options{Content: spaced}); err != nil {
		t.Fatal(err)
	}
	seen.seen = nil
	c := s.candidate(t, "run-1")
	if !has(c, models.CodeCheckpointNotCanonical) || has(c, models.CodeCredentialFound) {
		t.Errorf("%v", codes(c))
	}
	if slices.ContainsFunc(seen.seen, func(text []byte) bool { return bytes.Contains(text, []byte(`"history":`)) }) {
		t.Error("a faulty record was screened")
	}
}

// A key in the history holds the run, is told by rule and place and never by value, and stands before what later steps find. An
// administrator's waiver binds rule, place, digest and rule set, is a row, and is spent by the one admission that rests on it.
// CRED-08, SDK-24 (credentials before migration).
func TestCredentialAndWaiver(t *testing.T) {
	inspecting(t, "2.55.0", func(t *testing.T, s *stage, seen *screening) {
		ctx := t.Context()
		if _, err := load.Held(ctx, s.dana, s.worker, s.recording, "run-1", load.Options{Content: plant(key)}); err != nil {
			t.Fatal(err)
		}
		c := s.candidate(t, "run-1")
		if got := codes(c); !slices.Equal(got, []models.Code{models.CodeCredentialFound}) {
			t.Fatalf("%v", got)
		}
		hold := c.Holds[0]
		if hold.Detail("rule") != "github-pat" || hold.Detail("path") != word || strings.Contains(hold.Error(), key) {
			t.Errorf("%v", hold)
		}
		_, err := s.dana.RequestContinuity(ctx, "run-1", "request-1", apitest.Accept(c, 600))
		problem(t, err, models.CodeCredentialFound)
		checkpoint := s.turn(t, "run-1")
		_, err = s.as(t, apitest.Reader).Inspect(ctx, "run-1", checkpoint)
		problem(t, err, models.CodeCredentialFound)

		waiver := models.WaiveCredential{Blob: checkpoint, Path: word, Rule: "github-pat", RuleSet: seen.RuleSet()}
		waive := func(id string, change func(*models.WaiveCredential)) error {
			w := waiver
			if change != nil {
				change(&w)
			}
			_, err := s.admin.WaiveCredential(ctx, "run-1", id, w)
			return err
		}
		before := len(s.rows(t, "run-1"))
		_, err = s.operator.WaiveCredential(ctx, "run-1", "waive-0", waiver)
		problem(t, err, models.CodeRoleMissing)
		problem(t, waive("waive-0", func(w *models.WaiveCredential) { w.Path = "/history/1" }), models.CodeNotFound)
		problem(t, waive("waive-0", func(w *models.WaiveCredential) { w.Rule = "jwt" }), models.CodeNotFound)
		problem(t, waive("waive-0", func(w *models.WaiveCredential) { w.Rule = key + " " }), models.CodeRequestMalformed)
		problem(t, waive("waive-0", func(w *models.WaiveCredential) { w.RuleSet = checkpoint }), models.CodeDigestStale)
		problem(t, waive("waive-0", func(w *models.WaiveCredential) { w.Blob = seen.RuleSet() }), models.CodeNotFound)
		if len(s.rows(t, "run-1")) != before {
			t.Fatal("a refusal wrote something")
		}
		if err := waive("waive-1", nil); err != nil {
			t.Fatal(err)
		}
		problem(t, waive("waive-2", nil), models.CodeRequestConflict)
		if rows := s.rows(t, "run-1"); rows[len(rows)-1].Kind != "credential.waived" || bytes.Contains(rows[len(rows)-1].Payload, []byte(key)) {
			t.Errorf("%s %s", rows[len(rows)-1].Kind, rows[len(rows)-1].Payload)
		}
		got, err := s.as(t, apitest.Reader).Inspect(ctx, "run-1", checkpoint)
		if err != nil || !strings.Contains(got.Text, key) || len(got.Waived) != 1 {
			t.Fatalf("%v %v", err, got.Waived)
		}
		if c = s.candidate(t, "run-1"); !c.Eligible {
			t.Fatalf("%v", codes(c))
		}
		saved, err := s.dana.RequestContinuity(ctx, "run-1", "request-1", apitest.Accept(c, 600))
		if err != nil || !slices.Equal(saved.Receipt.Waived, []models.Finding{{Path: word, Rule: "github-pat"}}) {
			t.Fatal(err, saved.Receipt.Waived)
		}
		// One use: the same record is refused again, and a verifier with the rule set finds what the row says.
		_, err = s.as(t, apitest.Reader).Inspect(ctx, "run-1", checkpoint)
		problem(t, err, models.CodeCredentialFound)
		var file bytes.Buffer
		if _, err := s.as(t, apitest.Reader).Export(ctx, "run-1", &file); err != nil {
			t.Fatal(err)
		}
		b, err := engine.ReadBundle(&file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := engine.Verify(ctx, b, sandbox(t), nothing{seen}); err == nil {
			t.Error("a verifier that finds nothing agrees")
		}
		if v, err := engine.Verify(ctx, b, sandbox(t), seen); err != nil || v.Reconstructions != 1 {
			t.Error(v, err)
		}
	})
}

// nothing claims a rule set and finds nothing.
type nothing struct{ *screening }

func (nothing) Screen([]byte) []models.Finding { return nil }

// Ordinary restore is strict: it wants the exact version, replays no consumed response, revives no claim that ended and takes no
// held run, and its answers are the same with continuity enabled, disabled or with no profile at all, before and after an admission.
// CRED-11, EPOCH-03, EPOCH-06, EPOCH-07, START-06 (its route), NOCLAIM-19 (restore).
func TestOrdinaryRestore(t *testing.T) {
	s := setUp(t, stores[0].open(t), "2.55.0", apitest.Options{})
	ctx := t.Context()
	clean, err := load.Held(ctx, s.dana, s.worker, s.recording, "run-clean", load.Options{Stop: load.After("checkpoint", 3)})
	if err != nil {
		t.Fatal(err)
	}
	s.held(t, "run-held", load.Options{})
	other, err := recordings.Held("2.58.0")
	if err != nil {
		t.Fatal(err)
	}
	if err := load.PutRecords(ctx, s.admin, other); err != nil {
		t.Fatal(err)
	}
	if _, err := load.Held(ctx, s.dana, s.worker, other, "run-other", load.Options{}); err != nil {
		t.Fatal(err)
	}
	_, err = s.worker.Release(ctx, "run-clean", "release", clean.Fence, "")
	if err != nil {
		t.Fatal(err)
	}
	first := s.rows(t, "run-clean")
	var earliest models.Digest
	for _, r := range first {
		if e, err := models.DecodeEvent(r.Kind, r.Payload); err == nil {
			if e, is := e.(models.CheckpointSaved); is {
				earliest = e.Checkpoint
				break
			}
		}
	}
	answers := func() []models.Code {
		var out []models.Code
		for _, one := range []struct {
			run        string
			checkpoint models.Digest
		}{{"run-clean", s.turn(t, "run-clean")}, {"run-clean", earliest}, {"run-held", s.turn(t, "run-held")}, {"run-other", s.turn(t, "run-other")}} {
			got, err := s.dana.Restore(ctx, one.run, one.checkpoint)
			if err == nil && (got.Checkpoint != one.checkpoint || got.PydanticAI != "2.55.0") {
				t.Errorf("%+v", got)
			}
			out = append(out, models.CodeOf(asRefusal(err)))
		}
		return out
	}
	want := []models.Code{"", models.CodeRestoreRefused, models.CodeRestoreRefused, models.CodeRestoreVersionMismatch}
	check := func(when string) {
		t.Helper()
		if got := answers(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	check("disabled")
	s.PutPolicy(t, *apitest.Enabled())
	check("enabled")
	c := s.candidate(t, "run-held")
	if !c.Eligible {
		t.Fatalf("%v", codes(c))
	}
	saved, err := s.dana.RequestContinuity(ctx, "run-held", "request-1", apitest.Accept(c, 600))
	if err != nil {
		t.Fatal(err)
	}
	check("after an admission")
	_, err = s.dana.Restore(ctx, "run-held", saved.Receipt.OldCheckpoint)
	problem(t, err, models.CodeRestoreRefused)
	s.Change(t, "retire", models.RetireProfile{ID: "profile-1"})
	check("without a profile")
}

func asRefusal(err error) error {
	if p, ok := err.(*forge.Problem); ok {
		return models.Refuse(p.Code)
	}
	return err
}
