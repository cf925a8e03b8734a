package line

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api/apitest"
	"github.com/forge-continuity/forge/server/engine"
)

func (s *stage) bundle(t *testing.T, run string) engine.Bundle {
	t.Helper()
	var file bytes.Buffer
	if _, err := s.dana.Export(t.Context(), run, &file); err != nil {
		t.Fatal(err)
	}
	b, err := engine.ReadBundle(&file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// liar answers that the pending request renders to the bytes that it is told.
type liar struct {
	engine.Sandbox
	wire *[]byte
}

func (l liar) Call(ctx context.Context, function string, frames []engine.Frame, params any) (engine.Sealed, error) {
	sealed, err := l.Sandbox.Call(ctx, function, frames, params)
	if function == "reproduce" && err == nil && *l.wire != nil {
		sealed.Frames = []engine.Frame{{Name: "wire", Data: *l.wire}}
	}
	return sealed, err
}

// A bundle carries the reports that a refused-boundary recovery rests on, and verification renders the request again: reports that
// say something else, that have another digest, that nothing rests on, and a node that only said that the request renders so, are
// found without a server. REFUSED-11, REFUSED-26 (offline).
func TestRefusedBoundaryVerifiesOffline(t *testing.T) {
	policy := apitest.Enabled()
	policy.AllowPreAdmissionRecovery = true
	recovered := func(t *testing.T, wire func([]byte) []byte) engine.Bundle {
		var told []byte
		s := setUpOn(t, stores[0].open(t), liar{sandbox(t), &told}, "2.55.0", apitest.Options{Policy: policy})
		c := s.held(t, "run-1", load.Options{})
		if _, err := s.dana.RequestContinuity(t.Context(), "run-1", "req-1", apitest.Accept(c, 600)); err != nil {
			t.Fatal(err)
		}
		s.settle(t, "run-1", s.refuse(t, "run-1", "claim-2", func(b []byte) []byte {
			if out := wire(b); !bytes.Equal(out, b) {
				told = out
				return out
			}
			return b
		}))
		return s.bundle(t, "run-1")
	}
	whole := recovered(t, bytes.Clone)
	v, err := engine.Verify(t.Context(), whole, sandbox(t))
	if err != nil || v.Reproductions != 1 || v.Reports != 3 || v.ReportsMissing != 0 {
		t.Fatalf("%+v %v", v, err)
	}
	lacks := whole
	lacks.Reports = whole.Reports[1:]
	if v, err := engine.Verify(t.Context(), lacks, sandbox(t)); err != nil || v.ReportsMissing != 1 || v.Reports != 2 {
		t.Fatalf("%+v %v", v, err)
	}
	edited := bytes.Replace(whole.Reports[0].Data, []byte("epoch-1"), []byte("epoch-3"), 1)
	for name, reports := range map[string][]engine.Blob{
		"another digest":     {{Digest: whole.Reports[0].Digest, Data: edited}},
		"nothing rests on":   append(slices.Clone(whole.Reports), engine.Blob{Digest: models.PlainDigest(edited), Data: edited}),
		"twice":              append(slices.Clone(whole.Reports), whole.Reports[0]),
		"something not told": {{Digest: models.PlainDigest([]byte("{}")), Data: []byte("{}")}},
	} {
		b := whole
		b.Reports = reports
		_, err := engine.Verify(t.Context(), b, sandbox(t))
		if r, ok := engine.IsRefusal(err); !ok || r.Code != models.CodeBlobMismatch {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = engine.Verify(t.Context(), recovered(t, func(b []byte) []byte { return append(bytes.Clone(b), ' ') }), sandbox(t))
	if r, ok := engine.IsRefusal(err); !ok || r.Code != models.CodeJournalBroken || r.Detail("what") != "reproducing the request again gives something else" {
		t.Fatalf("a request that does not render so: %v", err)
	}
}

// counting counts the calls of each function.
type counting struct {
	engine.Sandbox
	calls map[string]int
}

func (c counting) Call(ctx context.Context, function string, frames []engine.Frame, params any) (engine.Sealed, error) {
	c.calls[function]++
	return c.Sandbox.Call(ctx, function, frames, params)
}

// A candidate that is read again while nothing moved asks the sandbox once. What does change is judged at each read: policy,
// profile, records, people, and the head with a turn of its own. An admission reconstructs anew (rules O19), and its digests are
// those that were read.
func TestCandidateIsRecalled(t *testing.T) {
	calls := map[string]int{}
	s := setUpOn(t, stores[0].open(t), counting{sandbox(t), calls}, "2.55.0", apitest.Options{Policy: apitest.Enabled()})
	ctx := t.Context()
	first := s.held(t, "run-1", load.Options{})
	again := s.candidate(t, "run-1")
	if !first.Eligible || first.CandidateDigest != again.CandidateDigest || calls["reconstruct"] != 1 {
		t.Fatalf("%v, %d calls", again.Holds, calls["reconstruct"])
	}
	p, err := s.admin.Policy(ctx)
	if err != nil {
		t.Fatal(err)
	}
	next := p.Policy
	next.MaxPendingTickets++
	if _, err := s.admin.PutPolicy(ctx, next); err != nil {
		t.Fatal(err)
	}
	moved := s.candidate(t, "run-1")
	if moved.PolicyDigest == first.PolicyDigest || moved.CandidateDigest == first.CandidateDigest || moved.Derived != first.Derived || calls["reconstruct"] != 1 {
		t.Fatalf("after another policy: %+v, %d calls", moved, calls["reconstruct"])
	}
	_, err = s.dana.RequestContinuity(ctx, "run-1", "req-0", apitest.Accept(first, 600))
	problem(t, err, models.CodeDigestStale)
	f, err := s.admin.Factory(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, stored := range f.Profiles {
		if _, err := s.admin.RetireProfile(ctx, "retire-"+stored.Profile.ID, stored.Profile.ID); err != nil {
			t.Fatal(err)
		}
	}
	if c := s.candidate(t, "run-1"); c.Eligible || !has(c, models.CodeProfileUnqualified) || calls["reconstruct"] != 1 {
		t.Fatalf("after the profile: %v", c.Holds)
	}
	if _, err := s.admin.PutProfile(ctx, "profile-2", load.FixtureProfile("p2", f.Host)); err != nil {
		t.Fatal(err)
	}
	second := s.candidate(t, "run-1")
	if !second.Eligible || second.ProfileDigest == first.ProfileDigest || second.CandidateDigest == moved.CandidateDigest {
		t.Fatalf("after another profile: %v", second.Holds)
	}
	// Another run of the same bytes has another salt, another turn of its own.
	if other := s.held(t, "run-2", load.Options{}); calls["reconstruct"] != 2 || other.Derived == second.Derived {
		t.Fatalf("%d calls", calls["reconstruct"])
	}
	admitted, err := s.dana.RequestContinuity(ctx, "run-1", "req-1", apitest.Accept(second, 600))
	if err != nil || calls["reconstruct"] != 3 || admitted.Receipt.Derived != second.Derived {
		t.Fatalf("%v, %d calls", err, calls["reconstruct"])
	}
	if c := s.candidate(t, "run-1"); c.Eligible || c.JournalDigest == second.JournalDigest || !has(c, models.CodeTicketOutstanding) {
		t.Fatalf("after the admission: %v", c.Holds)
	}
}

// Bytes that are gone or changed are noticed though the sandbox answered for them before: custody is read each time. ELIG-02,
// SDK-05 (a candidate that is read again).
func TestRecalledCandidateReadsCustody(t *testing.T) {
	store := &forgetful{Store: stores[0].open(t)}
	s := setUpOn(t, store, sandbox(t), "2.55.0", apitest.Options{Policy: apitest.Enabled()})
	if c := s.held(t, "run-1", load.Options{}); !c.Eligible {
		t.Fatal(c.Holds)
	}
	store.gone = true
	if c := s.candidate(t, "run-1"); c.Eligible || !has(c, models.CodeClosureIncomplete) {
		t.Fatalf("holds %v", c.Holds)
	}
}

type forgetful struct {
	engine.Store
	gone bool
}

func (f *forgetful) Blob(ctx context.Context, factory, run string, d models.Digest) ([]byte, error) {
	if f.gone {
		return nil, engine.ErrNotFound
	}
	return f.Store.Blob(ctx, factory, run, d)
}
