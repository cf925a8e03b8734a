package agentic

import (
	"bytes"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/adapters/pyjson"
)

// lostRead is the turn after the held run's continuation: the derived record, and a response with list_files at 0 and a valid
// evidence query at 1.
func lostRead(t *testing.T) (held, ObserveParams) {
	t.Helper()
	h := openHeld(t, "2.55.0")
	derived := h.run(t).Derived
	h = h.variant(t, "sibling-list-files")
	h.checkpoint = derived
	h.response = bytes.ReplaceAll(bytes.ReplaceAll(h.response, []byte(`page_size\":25`), []byte(`page_size\":10`)), []byte("call_"), []byte("call_later_"))
	p := h.params
	return h, ObserveParams{p.Acknowledgement, p.ConsumedAtUS, p.Mode, p.Reader, p.Runtime, p.Selection, p.Validator}
}

func observeRun(t *testing.T, h held, p ObserveParams, outcomes map[int][]byte) *Reconstruction {
	t.Helper()
	r, refused := Observe(loadCatalogue(t), h.checkpoint, h.response, outcomes, p)
	if refused != nil {
		t.Fatalf("refused: %s %s", refused.Code, refused.Details)
	}
	return r
}

// The list's own result stands as it was kept, the evidence read is unavailable, and nothing else of the record changes but the
// usage, once. ROBS-12, ROBS-13, ROBS-33 (the next request's bytes contain it); OBS-20 to OBS-22 for this turn.
func TestObserve(t *testing.T) {
	h, p := lostRead(t)
	kept := []byte(`{"entries":["a"],"status":"ok"}`)
	r := observeRun(t, h, p, map[int][]byte{0: kept})
	if len(r.Result.Holds) > 0 || r.Result.Served != 1 {
		t.Fatalf("%+v", r.Result)
	}
	if want := []Closing{{0, "retained"}, {1, "observation_unavailable"}}; len(r.Result.Closing) != 2 || r.Result.Closing[0] != want[0] || r.Result.Closing[1] != want[1] {
		t.Errorf("%+v", r.Result.Closing)
	}
	before, after := tree(t, h.checkpoint), tree(t, r.Derived)
	for _, d := range diffs(before, after) {
		if !strings.HasPrefix(d, "/history/") && !strings.HasPrefix(d, "/usage/") && !strings.HasPrefix(d, "/compatibility/") {
			t.Errorf("changed: %s", d)
		}
	}
	messages := after.Get("history").Items
	parts := messages[len(messages)-1].Get("parts").Items
	if c := pyjson.Encode(parts[0].Get("content")); !bytes.Equal(c, kept) {
		t.Errorf("list result %s", c)
	}
	const unavailable = `{"reason":"original_read_result_not_retained","status":"observation_unavailable"}`
	if c := pyjson.Encode(parts[1].Get("content")); string(c) != unavailable || parts[1].Get("outcome").Text != "interrupted" {
		t.Errorf("evidence result %s", c)
	}
	if n := len(messages) - len(before.Get("history").Items); n != 2 {
		t.Errorf("%d messages added", n)
	}
	if !bytes.Contains(r.NextRequest, []byte("original_read_result_not_retained")) {
		t.Error("the next request does not show the unavailable observation")
	}
	if bytes.Contains(r.Witness, kept) {
		t.Error("the witness repeats content")
	}
	calls := func(v *pyjson.Value) int64 { n, _ := v.At("usage", "tool_calls").Int(); return n }
	if calls(after) != calls(before)+2 {
		t.Errorf("tool calls %d after %d", calls(after), calls(before))
	}
	again := observeRun(t, h, p, map[int][]byte{0: kept})
	if !bytes.Equal(again.Derived, r.Derived) || !bytes.Equal(again.Witness, r.Witness) {
		t.Error("another run gives other bytes")
	}
}

// Other shapes are held by name. ROBS-07, ROBS-08, ROBS-10.
func TestObserveShapes(t *testing.T) {
	h, p := lostRead(t)
	wantHolds(t, "list without its result", observeRun(t, h, p, nil), "observation_turn_unsupported")
	wantHolds(t, "evidence with a result", observeRun(t, h, p, map[int][]byte{0: []byte(`1`), 1: []byte(`1`)}), "observation_custody_incomplete")
	for variant, code := range map[string]string{
		"two-evidence-calls": "observation_turn_unsupported", "no-evidence-call": "observation_turn_unsupported",
		"siblings-list-files": "observation_turn_unsupported", "sibling-write-file": "call_writable", "sibling-run-command": "sibling_unsupported",
		"sibling-unknown-tool": "call_unknown", "duplicate-call-id": "duplicate_call_id",
	} {
		other := h.variant(t, variant)
		r := observeRun(t, other, p, nil)
		found := false
		for _, c := range codesOf(r) {
			found = found || c == code
		}
		if !found || r.Derived != nil {
			t.Errorf("%s: %v, want %s", variant, codesOf(r), code)
		}
	}
	original := openHeld(t, "2.55.0")
	original.response = h.response
	wantHolds(t, "a record that no continuation left", observeRun(t, original, p, map[int][]byte{0: []byte(`1`)}), "source_unregistered")
}

// A change in any of the six is found with its path, types and absence included. ROBS-16, ROBS-17, ROBS-18.
func TestReviewedDiffers(t *testing.T) {
	h, p := lostRead(t)
	r := observeRun(t, h, p, map[int][]byte{0: []byte(`1`)})
	want := tree(t, r.Derived)
	next := tree(t, r.NextRequest)
	before := next
	if path := reviewedDiffers(want, want, before, next, "messages"); path != "" {
		t.Fatalf("equal records differ at %s", path)
	}
	n := len(want.Get("history").Items)
	response := "/history/" + itoa(n-2)
	for _, c := range []struct {
		path string
		with func(*pyjson.Value) *pyjson.Value
	}{
		{"/history/0", set(`{}`)}, {response + "/model_name", set(`"other"`)}, {response + "/usage/input_tokens", set(`"1"`)},
		{response + "/usage/details", set(`{"x":1}`)}, {response + "/provider_details", remove}, {"/state/completed_rounds", set(`true`)},
		{"/state/completed_rounds", set(`1.0`)}, {"/limits/cost_limit", set(`1`)}, {"/limits/cost_limit", remove}, {"/usage/requests", set(`99`)},
		{"/usage/cost", set(`"0.1"`)}, {"/usage/cost", remove}, {"/contract/model/name", set(`"other"`)}, {"/contract/tools/0", set(`null`)},
	} {
		path := reviewedDiffers(want, edit(want, c.path, c.with), before, next, "messages")
		if !strings.HasPrefix(path, strings.Join(strings.SplitN(c.path, "/", 3)[:2], "/")) {
			t.Errorf("%s changed: %q", c.path, path)
		}
	}
	for _, path := range []string{"/model", "/messages/0", "/tools/0"} {
		if got := reviewedDiffers(want, want, before, edit(next, path, set(`null`)), "messages"); !strings.HasPrefix(got, "/request/") {
			t.Errorf("request %s changed: %q", path, got)
		}
	}
	if got := reviewedDiffers(want, want, before, next.With("messages", pyjson.NewArray()), "messages"); got != "/request/messages" {
		t.Errorf("no messages: %q", got)
	}
}
