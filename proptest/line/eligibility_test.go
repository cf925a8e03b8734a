package line

import (
	"strings"
	"testing"

	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api/apitest"
)

// Each variant is the held run with another last answer, recorded through the real SDK. The candidate names what stands in
// its way, and admission answers the first of it.
// ELIG-05, ELIG-07, ELIG-08, ELIG-09, ELIG-10, ELIG-11, ELIG-12; with every switch of the policy on.
func TestVariants(t *testing.T) {
	policy := apitest.Enabled()
	policy.AllowUnavailableSourceObservations = true
	s := setUp(t, stores[0].open(t), "2.55.0", apitest.Options{Policy: policy})
	want := map[string]models.Code{
		"no-call":              models.CodeEvidenceCallNotSingle,
		"no-evidence-call":     models.CodeEvidenceCallNotSingle,
		"two-evidence-calls":   models.CodeEvidenceCallNotSingle,
		"query-array":          models.CodeQueryNotObject,
		"query-null":           models.CodeQueryNotObject,
		"query-string":         models.CodeQueryNotObject,
		"query-truncated":      models.CodeQueryNotObject,
		"query-outside-schema": models.CodeQueryOutsideSchema,
		"query-valid":          models.CodeQueryValid,
		"sibling-read-file":    models.CodeSiblingPresent,
		"sibling-unknown-tool": models.CodeCallUnknown,
		"sibling-write-file":   models.CodeCallWritable,
		"sibling-run-command":  models.CodeSiblingUnsupported,
		"refusal":              models.CodeResponseContentUnsupported,
		"content-audio":        models.CodeResponseContentUnsupported,
		"custom-tool-call":     models.CodeConsumeMissing, // the SDK stops before it takes such a response
		"two-choices":          models.CodeResponseContentUnsupported,
		"query-empty":          models.CodeQueryNotObject,
		"duplicate-call-id":    models.CodeDuplicateCallID,
		"reused-call-id":       models.CodeDuplicateCallID,
	}
	for _, variant := range recorded(t, s) {
		t.Run(variant, func(t *testing.T) {
			run := "run-" + variant
			if _, err := load.Held(t.Context(), s.dana, s.worker, s.recording, run, load.Options{Variant: variant}); err != nil {
				t.Fatal(err)
			}
			c := s.candidate(t, run)
			t.Logf("version %d, holds %v", c.Version, codes(c))
			code, held := want[variant]
			if held && !has(c, code) {
				t.Fatalf("%s is not among %v", code, codes(c))
			}
			saved, err := s.dana.RequestContinuity(t.Context(), run, "req-"+variant, apitest.Accept(c, 600))
			switch {
			case c.Version == 2 && !has(c, models.CodeClaimLive): // before every hold that only the sandbox or a recount shows
				problem(t, err, models.CodeVersionMismatch)
			case len(c.Holds) > 0:
				problem(t, err, codes(c)[0])
			case err != nil || held || saved.Receipt.Version != 1:
				t.Fatal(err, saved.Receipt)
			}
		})
	}
}

func recorded(t *testing.T, s *stage) []string {
	t.Helper()
	names, err := s.recording.Variants()
	if err != nil || len(names) < 20 {
		t.Fatal(names, err)
	}
	return names
}

// last applies an edit to the facts of the last response only.
func last(request int64, edit func(models.Fact) []models.Fact) func(string, []models.Fact) []models.Fact {
	return func(_ string, facts []models.Fact) []models.Fact {
		var out []models.Fact
		for _, f := range facts {
			if requestOf(f) == request {
				out = append(out, edit(f)...)
			} else {
				out = append(out, f)
			}
		}
		return out
	}
}

func requestOf(f models.Fact) int64 {
	switch f := f.(type) {
	case models.ResponseKept:
		return f.Request
	case models.ResponseConsumed:
		return f.Request
	case models.CallGranted:
		return f.Request
	case models.CallRefused:
		return f.Request
	}
	return 0
}

const heldRequest = 8 // of the recording

// What the rows leave out or say otherwise holds the run by name.
// ELIG-02, ELIG-06, ELIG-13, ELIG-14, ELIG-15, ELIG-16 (until it is reconciled), PREVIEW-01 (another mode).
func TestCustodyHolds(t *testing.T) {
	s := setUp(t, stores[0].open(t), "2.55.0", apitest.Options{Policy: apitest.Enabled()})
	nothing := func(models.Fact) []models.Fact { return nil }
	for _, c := range []struct {
		name    string
		options load.Options
		code    models.Code
	}{
		{"no response kept", load.Options{Facts: last(heldRequest, nothing)}, models.CodeModelOutcomeUnknown},
		{"response partial", load.Options{Facts: last(heldRequest, func(f models.Fact) []models.Fact {
			if f, ok := f.(models.ResponseKept); ok {
				f.Partial = true
				return []models.Fact{f}
			}
			return nil
		})}, models.CodeModelOutcomeUnknown},
		{"not consumed", load.Options{Facts: last(heldRequest, func(f models.Fact) []models.Fact {
			if f.Kind() == "response.kept" {
				return []models.Fact{f}
			}
			return nil
		})}, models.CodeConsumeMissing},
		{"not granted", load.Options{Facts: last(heldRequest, func(f models.Fact) []models.Fact {
			if k := f.Kind(); k == "call.granted" || k == "call.refused" {
				return nil
			}
			return []models.Fact{f}
		})}, models.CodeCallNotGranted},
		{"another call granted", load.Options{Facts: last(heldRequest, func(f models.Fact) []models.Fact {
			if g, ok := f.(models.CallGranted); ok {
				g.Args = models.PlainDigest([]byte("other arguments"))
				return []models.Fact{g}
			}
			return []models.Fact{f}
		})}, models.CodeClosureIncomplete},
		{"other usage", load.Options{Facts: last(heldRequest, func(f models.Fact) []models.Fact {
			if f, ok := f.(models.ResponseConsumed); ok {
				f.Tokens.Output++
				return []models.Fact{f}
			}
			return []models.Fact{f}
		})}, models.CodeClosureIncomplete},
		{"a grant too many", load.Options{Facts: last(heldRequest, func(f models.Fact) []models.Fact {
			switch f := f.(type) {
			case models.ResponseConsumed:
				f.Calls = 2
				return []models.Fact{f}
			case models.CallGranted:
				more := f
				more.Position = 1
				return []models.Fact{f, more}
			}
			return []models.Fact{f}
		})}, models.CodeLaterActivity},
		{"started and not refused", load.Options{Facts: last(heldRequest, func(f models.Fact) []models.Fact {
			if f, ok := f.(models.CallRefused); ok {
				return []models.Fact{models.CallIntended{Position: f.Position, Request: f.Request}}
			}
			return []models.Fact{f}
		})}, models.CodeUnknownEffect},
		{"never refused", load.Options{Facts: last(heldRequest, func(f models.Fact) []models.Fact {
			if f.Kind() == "call.refused" {
				return nil
			}
			return []models.Fact{f}
		})}, models.CodeClaimLive},
		{"another mode", load.Options{Registration: func(g *models.Registration) { g.Mode = "optional" }}, models.CodeCheckpointModeUnsupported},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := "run-" + strings.ReplaceAll(c.name, " ", "-")
			got := s.held(t, run, c.options)
			if !has(got, c.code) {
				t.Fatalf("%s is not among %v", c.code, codes(got))
			}
			before := len(s.rows(t, run))
			_, err := s.dana.RequestContinuity(t.Context(), run, "req-"+run, apitest.Accept(got, 600))
			problem(t, err, codes(got)[0])
			if n := len(s.rows(t, run)); n != before {
				t.Fatalf("a refusal appended %d rows", n-before)
			}
		})
	}
}

// A command after the consume is later activity, named by its row. ELIG-14.
func TestLaterCommand(t *testing.T) {
	s := setUp(t, stores[0].open(t), "2.55.0", apitest.Options{Policy: apitest.Enabled()})
	var digest models.Digest
	c := s.held(t, "run-1", load.Options{Facts: func(_ string, facts []models.Fact) []models.Fact {
		for _, f := range facts {
			switch f := f.(type) {
			case models.CommandStarted:
				digest = f.Command
			case models.CallRefused:
				return append(facts, models.CommandStarted{Command: digest, Number: 12, Position: -1}, models.CommandFinished{Number: 12, Receipt: digest})
			}
		}
		return facts
	}})
	rows := s.rows(t, "run-1")
	seq := int64(0)
	for _, r := range rows {
		if r.Kind == "command.started" {
			seq = r.Seq
		}
	}
	for _, h := range c.Holds {
		if h.Code == models.CodeLaterActivity && h.Detail("seq") == models.D("seq", seq).Value {
			return
		}
	}
	t.Fatalf("no later_activity at row %d in %v", seq, c.Holds)
}

// With the log line and no closure the run stays held; with the closure and another log line it is eligible. ELIG-15.
func TestLogLineIsNoEvidence(t *testing.T) {
	s := setUp(t, stores[0].open(t), "2.55.0", apitest.Options{Policy: apitest.Enabled()})
	if c := s.held(t, "run-1", load.Options{Facts: last(heldRequest, func(f models.Fact) []models.Fact {
		if k := f.Kind(); k == "call.refused" || k == "call.granted" {
			return nil
		}
		return []models.Fact{f}
	})}); c.Eligible {
		t.Fatal("eligible by a log line alone")
	}
	if c := s.held(t, "run-2", load.Options{}); !c.Eligible {
		t.Fatal(codes(c))
	}
}
