package agentic

import (
	"bytes"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/adapters/pyjson"
)

// A record that says something else than the journal and the registration beside it is held, and nothing is derived from it.
// ELIG-02 (bound to the others), PREVIEW-03, OBS-23, REC-09, REC-11 (the registered contract).
func TestRecordBesideTheJournal(t *testing.T) {
	number := func(n int64) func(*pyjson.Value) *pyjson.Value {
		return func(*pyjson.Value) *pyjson.Value { return pyjson.NewInt(n) }
	}
	text := func(s string) func(*pyjson.Value) *pyjson.Value {
		return func(*pyjson.Value) *pyjson.Value { return pyjson.NewString(s) }
	}
	null := func(*pyjson.Value) *pyjson.Value { return pyjson.NewNull() }
	record := func(path string, with func(*pyjson.Value) *pyjson.Value) func(*testing.T, *held) {
		return func(t *testing.T, h *held) { *h = h.edit(t, path, with) }
	}
	for name, c := range map[string]struct {
		change func(*testing.T, *held)
		code   string
	}{
		"no limits":          {record("/limits/request_limit", null), "closure_incomplete"},
		"wider limits":       {record("/limits/tool_calls_limit", number(1_000_000)), "closure_incomplete"},
		"requests forgotten": {record("/usage/requests", number(0)), "closure_incomplete"},
		"tokens forgotten":   {record("/usage/input_tokens", number(20_000)), "closure_incomplete"},
		"calls invented":     {record("/usage/tool_calls", number(99)), "closure_incomplete"},
		"rounds invented":    {record("/state/completed_rounds", number(700)), "closure_incomplete"},
		"rounds forgotten":   {record("/state/completed_rounds", number(0)), "closure_incomplete"},
		"another prompt":     {record("/history/0/parts/0/content", text("do something else")), "closure_incomplete"},
		"another model":      {record("/contract/model/name", text("gpt-other")), "contract_changed"},
		"another tool":       {record("/contract/tools/0/description", text("other")), "contract_changed"},
		"other instructions": {record("/contract/instructions/0/content", text("other")), "contract_changed"},
		"wire never sent":    {func(_ *testing.T, h *held) { h.closed.Wire = []byte("never sent") }, "closure_incomplete"},
		"another contract":   {func(_ *testing.T, h *held) { h.closed.Contract = []byte("{}") }, "contract_changed"},
		"no contract":        {func(_ *testing.T, h *held) { h.closed.Contract = []byte("{") }, "closure_incomplete"},
		"an older record": {func(t *testing.T, h *held) {
			turn, err := h.rec.Turn(3)
			if err != nil {
				t.Fatal(err)
			}
			h.checkpoint = turn.Checkpoint
		}, "closure_incomplete"},
	} {
		t.Run(name, func(t *testing.T) {
			h := openHeld(t, "2.55.0")
			c.change(t, &h)
			r := runClosed(t, h)
			if len(r.Result.Holds) == 0 || r.Result.Holds[0].Code != c.code || r.Derived != nil {
				t.Fatalf("holds %+v, want %s", r.Result.Holds, c.code)
			}
			if d := string(r.Result.Holds[0].Details); c.code == "contract_changed" && !strings.Contains(d, `"path":"/contract`) {
				t.Fatalf("details %s name no path", d)
			}
		})
	}
	h := openHeld(t, "2.55.0")
	if r := runClosed(t, h); len(r.Result.Holds) > 0 {
		t.Fatalf("as recorded: %+v", r.Result.Holds)
	}
}

// Every recorded checkpoint renders to the bytes that were sent from it.
func TestPendingIsTheWire(t *testing.T) {
	for _, version := range []string{"2.55.0", "2.58.0"} {
		h := openHeld(t, version)
		for n := int64(1); n <= h.rec.HeldRequest(); n++ {
			turn, err := h.rec.Turn(n)
			if err != nil {
				t.Fatal(err)
			}
			got, holds := Pending(loadCatalogue(t), turn.Checkpoint)
			if len(holds) > 0 || !bytes.Equal(got, turn.Wire) {
				t.Errorf("%s request %d: %d bytes, sent %d, holds %v", version, n, len(got), len(turn.Wire), holds)
			}
		}
	}
}

func runClosed(t *testing.T, h held) *Reconstruction {
	t.Helper()
	r, refused := ReconstructWith(loadCatalogue(t), h.checkpoint, h.response, &h.closed, nil, h.params)
	if refused != nil {
		t.Fatalf("refused: %s %s", refused.Code, refused.Details)
	}
	return r
}
