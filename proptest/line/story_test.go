package line

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api/apitest"
	"github.com/forge-continuity/forge/server/engine"
)

// problem asserts a refusal by code.
func problem(t *testing.T, err error, code models.Code) *forge.Problem {
	t.Helper()
	var p *forge.Problem
	if !errors.As(err, &p) || p.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	return p
}

func (s *stage) rows(t *testing.T, run string) []models.Row {
	t.Helper()
	rows, err := s.Engine.Rows(t.Context(), engine.Caller{Factory: apitest.Factory, Principal: apitest.Dana}, run, 1, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func kinds(rows []models.Row) []string {
	var list []string
	for _, r := range rows {
		list = append(list, r.Kind)
	}
	return list
}

// The held run of a required-checkpoint worker is continued, from candidate to completion.
// PREVIEW-01, PREVIEW-02 (the store's part), PREVIEW-03, FLOW-07, FLOW-12, FLOW-13, FLOW-14, FLOW-23, FLOW-24, FLOW-25,
// FLOW-28, FLOW-29, FLOW-30, FLOW-31, FLOW-37, FLOW-38, FLOW-39, FLOW-40, FLOW-42, REC-03, REC-06, REC-07.
func TestHeldRunIsContinued(t *testing.T) {
	each(t, "2.55.0", func(t *testing.T, s *stage) {
		ctx := t.Context()
		c := s.held(t, "run-1", load.Options{})
		if !c.Eligible || c.Version != 1 || c.Proof.IsZero() {
			t.Fatalf("candidate %+v", c)
		}
		if c.Counters.Commands != 11 || c.Counters.Limits.Commands != 22 {
			t.Fatalf("counters %+v", c.Counters)
		}
		before, frozen := s.rows(t, "run-1"), s.show(t, "run-1")
		// What a run is (task, source, user, configuration, limits) is as it was registered, wherever it is told (PREVIEW-03).
		same := func(when string, told models.Digest, view forge.RunView) {
			t.Helper()
			if told != frozen.Registered || view.Registered != frozen.Registered || view.RunDigest != frozen.RunDigest ||
				*view.Registration != *frozen.Registration || view.OriginalActor != frozen.OriginalActor || view.Counters.Limits != frozen.Counters.Limits {
				t.Errorf("%s: %s %+v, was %s %+v", when, told, view.Registration, frozen.Registered, frozen.Registration)
			}
		}
		pending, err := s.Store.Pending(ctx, apitest.Factory)
		if err != nil || pending != 0 {
			t.Fatal(pending, err)
		}

		body := apitest.Accept(c, 600)
		first, err := s.dana.RequestContinuity(ctx, "run-1", "req-1", body)
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.dana.RequestContinuity(ctx, "run-1", "req-1", body)
		if err != nil {
			t.Fatal(err)
		}
		read, err := s.dana.Continuity(ctx, "run-1", "req-1")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Body, again.Body) || !bytes.Equal(first.Body, read.Body) {
			t.Fatal("the receipt differs on repeat or read-back")
		}
		_, err = s.dana.RequestContinuity(ctx, "run-1", "req-2", body)
		problem(t, err, models.CodeGraphHasTicket)

		admitted := s.rows(t, "run-1")
		added := admitted[len(before):]
		if !slices.Equal(kinds(added), []string{"migration.settled", "lease.granted"}) || added[0].Seq+1 != added[1].Seq {
			t.Fatalf("admission appended %v", kinds(added))
		}
		for i := range before {
			if before[i].Hash != admitted[i].Hash {
				t.Fatalf("row %d changed", i+1)
			}
		}
		if added[0].Hash != first.Receipt.SettlementHash || added[1].Hash != first.Receipt.LeaseHash {
			t.Fatal("the receipt names other rows")
		}
		same("admission", first.Receipt.Registration, s.show(t, "run-1"))
		if first.Receipt.OriginalActor != frozen.OriginalActor || first.Receipt.OldCheckpoint != s.turn(t, "run-1") {
			t.Errorf("receipt of %s from %s", first.Receipt.OriginalActor, first.Receipt.OldCheckpoint)
		}
		if first.Receipt.Counters != c.Counters {
			t.Fatalf("admission moved a counter: %+v, was %+v", first.Receipt.Counters, c.Counters)
		}
		if pending, _ = s.Store.Pending(ctx, apitest.Factory); pending != 1 {
			t.Fatalf("%d pending", pending)
		}

		stub, url := s.provider(t)
		w := &load.Continuer{Client: s.worker, Endpoint: url}
		claimed, err := w.Claim(ctx, s.recording, "run-1", "claim-2", 600)
		if err != nil {
			t.Fatal(err)
		}
		if claimed.Claim.Checkpoint != first.Receipt.Derived || claimed.Claim.RequestID != "req-1" {
			t.Fatalf("claimed %+v", claimed.Claim)
		}
		same("claim", claimed.Claim.Registration, s.show(t, "run-1"))
		var last load.Turn
		for last.Text == "" {
			if last, err = w.Turn(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Complete(ctx, last.Text); err != nil {
			t.Fatal(err)
		}
		if n := stub.Requests(); n != 2 {
			t.Fatalf("%d requests reached the provider, want 2 new ones", n)
		}
		view, err := s.dana.Run(ctx, "run-1")
		if err != nil {
			t.Fatal(err)
		}
		same("completion", view.Registered, view)
		all := s.rows(t, "run-1")
		completions := int64(0)
		for _, k := range kinds(all[len(admitted):]) {
			if k == "round.completed" || k == "run.completed" {
				completions++
			}
		}
		if view.Counters.Commands != 13 || view.Counters.CompletedRounds != c.Counters.CompletedRounds+completions || view.Counters.Attempt != c.Attempt {
			t.Fatalf("counters %+v after %d completions", view.Counters, completions)
		}
		if n := len(slices.DeleteFunc(kinds(all), func(k string) bool { return k != "response.consumed" })); int64(n) != view.Counters.Requests {
			t.Fatalf("%d consume rows for %d requests", n, view.Counters.Requests)
		}
		if n := len(slices.DeleteFunc(kinds(all), func(k string) bool { return k != "command.started" })); n != 13 {
			t.Fatalf("%d native execution rows", n)
		}
		s.verify(t, "run-1", 1)

		if again, err = s.dana.Continuity(ctx, "run-1", "req-1"); err != nil || !bytes.Equal(first.Body, again.Body) {
			t.Fatal("the receipt changed after completion", err)
		}
	})
}

// verify exports the run and checks the file offline.
func (s *stage) verify(t *testing.T, run string, reconstructions int64) {
	t.Helper()
	var file bytes.Buffer
	if _, err := s.dana.Export(t.Context(), run, &file); err != nil {
		t.Fatal(err)
	}
	b, err := engine.ReadBundle(&file)
	if err != nil {
		t.Fatal(err)
	}
	v, err := engine.Verify(t.Context(), b, sandbox(t))
	if err != nil || v.Reconstructions != reconstructions || v.BlobsErased != 0 {
		t.Fatalf("%+v %v", v, err)
	}
}

// The wire bytes of the continuation's first request are those that the real SDK sent when it was resumed from the same
// derived history. REC-05 (the next request is bytes only), FLOW-31.
func TestNextRequestIsTheSDKs(t *testing.T) {
	s := setUp(t, stores[0].open(t), "2.55.0", apitest.Options{Policy: apitest.Enabled()})
	c := s.held(t, "run-1", load.Options{})
	if _, err := s.dana.RequestContinuity(t.Context(), "run-1", "req-1", apitest.Accept(c, 600)); err != nil {
		t.Fatal(err)
	}
	_, url := s.provider(t)
	w := &load.Continuer{Client: s.worker, Endpoint: url}
	if _, err := w.Claim(t.Context(), s.recording, "run-1", "claim-2", 600); err != nil {
		t.Fatal(err)
	}
	got, err := w.Next()
	if err != nil {
		t.Fatal(err)
	}
	want, err := s.recording.File("next-request.wire")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

// The twenty-third command of 22 is refused before it starts, and its side effect is absent. FLOW-41, FLOW-42.
func TestTwentyThirdCommand(t *testing.T) {
	each(t, "2.55.0", func(t *testing.T, s *stage) {
		ctx := t.Context()
		c := s.held(t, "run-1", load.Options{})
		if _, err := s.dana.RequestContinuity(ctx, "run-1", "req-1", apitest.Accept(c, 600)); err != nil {
			t.Fatal(err)
		}
		claimed, err := s.worker.Claim(ctx, "run-1", "claim-2", 600)
		if err != nil {
			t.Fatal(err)
		}
		w := load.Recorder{Client: s.worker, Run: "run-1", Salt: claimed.Salt, Fence: claimed.Claim.Fence, Prefix: "more"}
		ran := 0
		command := func(n int64) error {
			text, err := w.Put(ctx, []byte("make"))
			if err != nil {
				return err
			}
			receipt, err := w.Put(ctx, []byte("done"))
			if err != nil {
				return err
			}
			if err := w.Record(ctx, "command_started", models.CommandStarted{Command: text, Number: n, Position: -1}); err != nil {
				return err
			}
			ran++ // the effect, only once its start is recorded
			return w.Record(ctx, "command_finished", models.CommandFinished{Number: n, Receipt: receipt})
		}
		for n := int64(12); n <= 22; n++ {
			if err := command(n); err != nil {
				t.Fatalf("command %d: %v", n, err)
			}
		}
		problem(t, command(23), models.CodeAllowanceExhausted)
		if ran != 11 {
			t.Fatalf("%d commands ran", ran)
		}
		view, err := s.dana.Run(ctx, "run-1")
		if err != nil || view.Counters.Commands != 22 {
			t.Fatalf("%+v %v", view.Counters, err)
		}
	})
}

// A pair without a reviewed transition is held. SDK-02 (the pair), ELIG-03, ELIG-04.
func TestOtherSDKIsHeld(t *testing.T) {
	s := setUp(t, stores[0].open(t), "2.58.0", apitest.Options{Policy: apitest.Enabled()})
	c := s.held(t, "run-1", load.Options{Checkpoint: func(data []byte) []byte {
		return bytes.Replace(data, []byte(`"firefly_agentic":"26.10.1"`), []byte(`"firefly_agentic":"26.10.2"`), 1)
	}})
	if !slices.Equal(codes(c), []models.Code{models.CodeSourceUnregistered, models.CodeSDKPairUnsupported}) {
		t.Fatalf("holds %v", codes(c))
	}
	_, err := s.dana.RequestContinuity(t.Context(), "run-1", "req-1", apitest.Accept(c, 600))
	problem(t, err, models.CodeSourceUnregistered)
	for name, change := range map[models.Code]func(*models.Registration){
		models.CodeRuntimeUnregistered:   func(g *models.Registration) { g.Runtime = models.PlainDigest([]byte("another runtime")) },
		models.CodeValidatorUnregistered: func(g *models.Registration) { g.Validator = models.PlainDigest([]byte("another validator")) },
		models.CodePolicyEpochUnknown:    func(g *models.Registration) { g.Selection += "x" },
	} {
		c := s.held(t, "run-"+strings.ReplaceAll(string(name), "_", "-"), load.Options{Registration: change})
		if !has(c, name) {
			t.Errorf("%s is not among %v", name, codes(c))
		}
	}
}

// No profile, one for other code, and one without the qualifications of retained work. PREVIEW-05, PREVIEW-06, BOUND-17 (a
// profile that stands on host tests alone).
func TestProfileAndQualifications(t *testing.T) {
	for _, c := range []struct {
		name    string
		options apitest.Options
		code    models.Code
		names   string
	}{
		{"none", apitest.Options{Profile: func(models.Profile) models.Profile { return models.Profile{} }}, models.CodeProfileUnqualified, ""},
		{"other module", apitest.Options{Profile: func(p models.Profile) models.Profile {
			p.Module = models.PlainDigest([]byte("other"))
			return p
		}}, models.CodeProfileMismatch, ""},
		{"other catalogue", apitest.Options{Profile: func(p models.Profile) models.Profile {
			p.Catalogue = models.PlainDigest([]byte("other"))
			return p
		}}, models.CodeProfileMismatch, ""},
		{"retained without sdk", apitest.Options{Retained: true, Profile: func(p models.Profile) models.Profile { return apitest.Qualify(p) }}, models.CodeProfileUnqualified, ""},
		{"retained without postgres", apitest.Options{Retained: true, Profile: func(p models.Profile) models.Profile {
			return apitest.Qualify(p, "controller", "sdk", "store-sqlite")
		}}, models.CodeQualificationMissing, "postgres"},
		{"retained without controller", apitest.Options{Retained: true, Profile: func(p models.Profile) models.Profile {
			return apitest.Qualify(p, "postgres", "sdk", "store-sqlite")
		}}, models.CodeQualificationMissing, "controller"},
		{"retained without its store", apitest.Options{Retained: true, Profile: func(p models.Profile) models.Profile {
			return apitest.Qualify(p, "controller", "postgres", "sdk")
		}}, models.CodeQualificationMissing, "store-sqlite"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.Policy = apitest.Enabled()
			s := setUp(t, stores[0].open(t), "2.55.0", c.options)
			candidate := s.held(t, "run-1", load.Options{})
			before := len(s.rows(t, "run-1"))
			_, err := s.dana.RequestContinuity(t.Context(), "run-1", "req-1", apitest.Accept(candidate, 600))
			p := problem(t, err, c.code)
			if got := p.Detail("qualification"); got != c.names {
				t.Errorf("names %q, want %q", got, c.names)
			}
			if after := len(s.rows(t, "run-1")); after != before {
				t.Errorf("%d rows, were %d", after, before)
			}
		})
	}
	s := setUp(t, stores[0].open(t), "2.55.0", apitest.Options{Retained: true, Policy: apitest.Enabled(), Profile: func(p models.Profile) models.Profile {
		return apitest.Qualify(p, "controller", "postgres", "sdk", "store-sqlite")
	}})
	if c := s.held(t, "run-1", load.Options{}); !c.Eligible || c.Fixture {
		t.Errorf("with every qualification: %v", codes(c))
	}
}

// An operator other than the original actor may read the candidate and is told so, and cannot admit. FLOW-06, EPOCH-05 (the
// original execution actor).
func TestOnlyTheOriginalActorAdmits(t *testing.T) {
	s := setUp(t, stores[0].open(t), "2.55.0", apitest.Options{Policy: apitest.Enabled()})
	s.held(t, "run-1", load.Options{})
	c, err := s.operator.Candidate(t.Context(), "run-1")
	if err != nil || !slices.Equal(codes(c), []models.Code{models.CodeActorNotOriginal}) {
		t.Fatalf("%v %v", codes(c), err)
	}
	_, err = s.operator.RequestContinuity(t.Context(), "run-1", "req-1", apitest.Accept(c, 600))
	problem(t, err, models.CodeActorNotOriginal)
	_, err = s.worker.Candidate(t.Context(), "run-1")
	if p := problem(t, err, models.CodeRoleMissing); p.Status != http.StatusForbidden {
		t.Fatal(p.Status)
	}
}
