package agentic

import (
	"bytes"
	"testing"

	"github.com/forge-continuity/forge/adapters/pyjson"
)

// with runs the reconstruction with retained outcomes.
func (h held) with(t testing.TB, outcomes map[int][]byte) *Reconstruction {
	t.Helper()
	r, refused := ReconstructWith(loadCatalogue(t), h.checkpoint, h.response, nil, outcomes, h.params)
	if refused != nil {
		t.Fatalf("refused: %s %s", refused.Code, refused.Details)
	}
	return r
}

// A sibling's own retained outcome stands in the derived history as it was kept, and the others stay unavailable (rules O7).
// OBS-14: under no other id. OBS-22: each call is charged once, however it is closed.
func TestRetainedOutcome(t *testing.T) {
	h := openHeld(t, "2.55.0").variant(t, "siblings-list-files")
	kept := []byte(`{"entries":["a","b"],"n":1.5}`)
	plain, r := h.run(t), h.with(t, map[int][]byte{2: kept})
	if len(r.Result.Holds) > 0 || r.Result.Version != 2 {
		t.Fatalf("%+v", r.Result)
	}
	parts := func(r *Reconstruction) []*pyjson.Value {
		messages := tree(t, r.Derived).Get("history").Items
		return messages[len(messages)-1].Get("parts").Items
	}
	got, before := parts(r), parts(plain)
	for i := range got {
		if i != 2 && !bytes.Equal(pyjson.Encode(got[i]), pyjson.Encode(before[i])) {
			t.Errorf("result %d changed: %s", i, pyjson.Encode(got[i]))
		}
	}
	if c := pyjson.Encode(got[2].Get("content")); !bytes.Equal(c, kept) || got[2].Get("outcome").Text != "success" {
		t.Errorf("content %s, outcome %s", c, got[2].Get("outcome").Text)
	}
	if n := bytes.Count(r.Derived, kept); n != 1 {
		t.Errorf("the outcome stands %d times", n)
	}
	if bytes.Contains(r.Witness, kept) {
		t.Error("the witness repeats content")
	}
	if a, b := tree(t, r.Derived).Get("usage"), tree(t, plain.Derived).Get("usage"); len(diffs(a, b)) > 0 {
		t.Error("usage differs with the way a call is closed")
	}
	if r.Result.Closing[2] != (Closing{2, "retained"}) {
		t.Errorf("%+v", r.Result.Closing)
	}
}

// With every sibling's result kept nothing is unavailable, and the siblings hold the run (rules O7).
func TestEverySiblingRetained(t *testing.T) {
	h := openHeld(t, "2.55.0").variant(t, "sibling-list-files")
	r := h.with(t, map[int][]byte{0: []byte(`[]`)})
	wantHolds(t, "all retained", r, "sibling_present")
	if r.Result.Version != 0 {
		t.Errorf("version %d", r.Result.Version)
	}
}

// An outcome that is not that of a source observation of this response, or no canonical value, is not used. OBS-15.
func TestForeignOutcome(t *testing.T) {
	h := openHeld(t, "2.55.0").variant(t, "siblings-list-files")
	for what, outcomes := range map[string]map[int][]byte{
		"of the evidence call": {1: []byte(`{}`)},
		"of no call":           {9: []byte(`{}`)},
		"not canonical":        {2: []byte(`{ }`)},
		"not JSON":             {2: []byte(`no`)},
	} {
		wantHolds(t, what, h.with(t, outcomes), "observation_custody_incomplete")
	}
}

// The frames of outcomes are named by position, each once, and by no other function.
func TestOutcomeFrames(t *testing.T) {
	for name, ok := range map[string]bool{"outcome_0": true, "outcome_12": true, "outcome_012": false, "outcome_": false, "outcome_-1": false, "outcome": false, "x": false} {
		if _, got := outcomePosition(name); got != ok {
			t.Errorf("%s: %t", name, got)
		}
	}
	if (functions["inspect"]).outcome("outcome_0") {
		t.Error("inspect takes outcomes")
	}
}
