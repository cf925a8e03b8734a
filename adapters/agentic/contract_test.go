package agentic

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/adapters/pyjson"
)

// REC-08: the capture comes from the installed entry point. Whatever is edited in the stored contract's tools and texts has no effect
// on it, and the document names the entry point by the digest that the result has.
func TestContractIsCapturedFromTheEntryPoint(t *testing.T) {
	h, c := openHeld(t, "2.58.0"), loadCatalogue(t)
	result, want, refused := Contract(c, h.closed.Contract)
	if refused != nil || len(result.Holds) > 0 || result.Tools != 5 || result.EntryPoint != c.EntryPoint.Digest || result.Prompt != "1.0.1" {
		t.Fatalf("%+v %v", result, refused)
	}
	document := tree(t, want)
	if document.At("entry_point", "digest").Text != c.EntryPoint.Digest {
		t.Error("the document names another entry point")
	}
	for path, with := range map[string]func(*pyjson.Value) *pyjson.Value{
		"/tools/0/description": set(`"Edited by hand."`), "/tools/2/parameters_json_schema": set(`{}`), "/tools": set(`[]`),
		"/instructions": set(`[]`), "/grants": set(`[]`), "/output/output_mode": set(`"tool"`), "/_telemetry_mcp_url_ids": set(`["x"]`),
	} {
		_, got, refused := Contract(c, pyjson.Encode(edit(tree(t, h.closed.Contract), path, with)))
		if refused != nil || !bytes.Equal(got, want) {
			t.Errorf("%s edited in the stored contract changed the capture", path)
		}
	}
	// What is rendered is what the next request of a continuation shows, tool for tool, and one system message for each instruction.
	r := h.run(t)
	sent := tree(t, r.NextRequest)
	if !pyjson.Equal(sent.Get("tools"), document.At("rendered", "tools")) || document.At("rendered", "messages") != nil ||
		!pyjson.Equal(sent.Get("messages").Items[0], document.At("rendered", "instructions").Items[0]) {
		t.Error("captured tools or instructions are not those of the next request")
	}
	if !bytes.Equal(r.Contract, want) || r.Result.EntryPoint != c.EntryPoint.Digest {
		t.Error("a reconstruction captured another contract")
	}
	_, _, refused = Contract(c, []byte(`{}`))
	if refused == nil || refused.Code != "request_malformed" {
		t.Errorf("no contract: %v", refused)
	}
}

// SDK-19, REC-09, REC-11: one difference between the record's contract and what the installed entry point renders is
// contract_changed with its path. Model and settings are the run's own and stay.
func TestInstalledContractMustMatch(t *testing.T) {
	for _, version := range recordingVersions {
		h := openHeld(t, version)
		for path, with := range map[string]func(*pyjson.Value) *pyjson.Value{
			"/contract/tools/0/description":            set(`"List anything."`),
			"/contract/tools/3/parameters_json_schema": set(`{"type":"object"}`),
			"/contract/tools/4/return_schema":          set(`{"type":"null"}`),
			"/contract/tools/1/sequential":             set(`true`),
			"/contract/tools/1/toolset_id":             set(`"other"`),
			"/contract/instructions/0/content":         set(`"Do as you like."`),
			"/contract/instructions/0/dynamic":         set(`true`),
			"/contract/instructions":                   set(`[]`),
			"/contract/output/allow_text_output":       set(`false`),
			"/contract/grants": func(v *pyjson.Value) *pyjson.Value {
				return pyjson.NewArray(v.Items[1], v.Items[0], v.Items[2], v.Items[3], v.Items[4])
			},
			"/contract/tools": func(v *pyjson.Value) *pyjson.Value {
				return pyjson.NewArray(v.Items[1], v.Items[0], v.Items[2], v.Items[3], v.Items[4])
			},
		} {
			r := h.edit(t, path, with).run(t)
			wantHolds(t, path, r, "contract_changed")
			for _, hold := range r.Result.Holds {
				var d struct{ Path string }
				if err := json.Unmarshal(hold.Details, &d); err != nil || !strings.HasPrefix(d.Path, path) {
					t.Errorf("%s changed: path %s", path, d.Path)
				}
			}
		}
	}
}

// REC-11, REC-09: what the derivation itself may change is compared element by element, types and number text kept. Changing each of
// the others alone is named.
func TestChangedElsewhere(t *testing.T) {
	h := openHeld(t, "2.58.0")
	r, holds := projectedOf(t, h)
	if len(holds) > 0 {
		t.Fatal(canonHolds(holds))
	}
	projected, derived := r.target.root, tree(t, h.run(t).Derived)
	if path := changedElsewhere(projected, derived, 2); path != "" {
		t.Fatalf("the derivation itself differs at %s", path)
	}
	for path, with := range map[string]func(*pyjson.Value) *pyjson.Value{
		"/contract/tools": func(v *pyjson.Value) *pyjson.Value {
			return pyjson.NewArray(v.Items[1], v.Items[0], v.Items[2], v.Items[3], v.Items[4])
		},
		"/contract/grants":                         set(`["list_files"]`),
		"/contract/instructions/0/content":         set(`"x"`),
		"/contract/output/allow_text_output":       set(`false`),
		"/contract/tools/2/return_schema":          set(`{"x":1}`),
		"/contract/tools/2/strict":                 set(`true`),
		"/contract/tools/1/description":            set(`"x"`),
		"/contract/tools/3/parameters_json_schema": set(`{}`),
		"/contract/model/settings/temperature":     set(`0.20`),
		"/contract/model/name":                     set(`"other"`),
		"/limits/request_limit":                    set(`41`),
		"/limits/cost_limit":                       set(`"1"`),
		"/usage/requests":                          set(`1`),
		"/usage/cost":                              set(`"0"`),
		"/usage/input_tokens":                      set(`"1"`),
		"/history/0/timestamp":                     set(`null`),
		"/history/1/usage/input_tokens":            set(`1.0`),
		"/history/14/parts":                        set(`[]`),
		"/state/completed_rounds":                  set(`8`),
		"/versions/firefly_agentic":                set(`"26.10.2"`),
	} {
		if got := changedElsewhere(projected, edit(derived, path, with), 2); !strings.HasPrefix(got, path) {
			t.Errorf("%s changed: %q", path, got)
		}
	}
}

// REC-10: the registered texts are the only ones: with another successor in place of today's the derived contract is not what the
// entry point renders, and the catalogue that says so does not load.
func TestOnlyTheRegisteredSuccessor(t *testing.T) {
	text := string(catalogueBytes())
	at := strings.LastIndex(text, `"description": "Read one page of the evidence`)
	changed := text[:at] + strings.Replace(text[at:], "A page has at most 10 lines.", "A page has many lines.", 1)
	if _, err := LoadCatalogue([]byte(changed)); err == nil {
		t.Error("an entry point with another text than its prompt's loads")
	}
}
