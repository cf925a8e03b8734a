package agentic

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/adapters/pyjson"
)

var update = flag.Bool("update", false, "write the golden files of fixtures/migrated anew")

// migratedDir holds what becomes of records of 2.58.0. fixtures/record/migrated.py asks the real 2.55.0 about every one.
var migratedDir = filepath.Join("..", "..", "fixtures", "migrated")

// null and empty telemetry members, and the records that are edited from the recorded one: the recording has only the plain state.
var migrations = map[string]func(testing.TB, held) held{
	"held":                func(_ testing.TB, h held) held { return h },
	"siblings-list-files": func(t testing.TB, h held) held { return h.variant(t, "siblings-list-files") },
	"reasoning-and-call":  func(t testing.TB, h held) held { return h.variant(t, "reasoning-and-call") },
	"absent-and-unknown": func(t testing.TB, h held) held {
		h = h.edit(t, "/contract/_telemetry_mcp_url_ids", set("null")).edit(t, "/contract/_telemetry_mcp_url_tool_names", set("null"))
		return h.edit(t, "/contract/tools/1/tool_kind", remove).edit(t, "/contract/tools/2/tool_kind", remove)
	},
	"counters-and-cost": func(t testing.TB, h held) held {
		h = h.edit(t, "/usage/cache_write_tokens", set("30")).edit(t, "/usage/cache_write_1h_tokens", set("20"))
		h = h.edit(t, "/history/1/usage/cache_write_tokens", set("30")).edit(t, "/history/1/usage/cache_write_1h_tokens", set("20"))
		h = h.edit(t, "/usage/cost", set(`"0.01250"`)).edit(t, "/history/1/usage/cost", set(`"0.01250"`))
		return h.edit(t, "/limits/cost_limit", set(`"1.50"`))
	},
	"system-prompt": func(t testing.TB, h held) held {
		return h.edit(t, "/history/0/parts", func(v *pyjson.Value) *pyjson.Value {
			part := tree(t, []byte(`{"content":"Be brief.","dynamic_ref":null,"metadata":null,"part_kind":"system-prompt","scope":"conversation","timestamp":"2026-12-01T22:39:29.600000Z"}`))
			return pyjson.NewArray(append([]*pyjson.Value{part}, v.Items...)...)
		})
	},
}

// The golden files are what the module derives; only they go to the real SDK.
func TestGoldenMigrations(t *testing.T) {
	if *update {
		if err := os.RemoveAll(migratedDir); err != nil {
			t.Fatal(err)
		}
	}
	for name, from := range migrations {
		h := from(t, openHeld(t, "2.58.0"))
		r := h.run(t)
		if len(r.Result.Holds) > 0 {
			t.Errorf("%s: holds %s", name, canonHolds(r.Result.Holds))
			continue
		}
		files := map[string][]byte{"source.json": h.checkpoint, "response.json": h.response, "derived.json": r.Derived,
			"witness.json": r.Witness, "next-request.wire": r.NextRequest}
		for file, data := range files {
			path := filepath.Join(migratedDir, name, file)
			if *update {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(path); err != nil || !bytes.Equal(want, data) {
				t.Errorf("%s of %s differs from what the real SDK was asked about (%v); -update and run fixtures/record/migrated.sh", file, name, err)
			}
		}
	}
}

// projectedOf runs a record of 2.58.0 up to the end of the projection.
func projectedOf(t testing.TB, h held) (*reconstruction, []Hold) {
	t.Helper()
	r := &reconstruction{catalogue: loadCatalogue(t), params: h.params, record: h.checkpoint, transport: Seal(h.response)}
	for _, step := range []func(){r.form, r.registered, r.project} {
		if step(); len(r.out.Result.Holds) > 0 {
			return r, r.out.Result.Holds
		}
	}
	return r, nil
}

// SDK-08: canonical source and projected record differ in the three places alone, and in the two members of messages that the target
// does not have (decision 0001); SDK-07: the stored bytes are not touched. SDK-13: the metadata is the catalogue entry's identity.
func TestProjectionChangesOnlyItsPlaces(t *testing.T) {
	h := openHeld(t, "2.58.0").edit(t, "/contract/tools/0/tool_kind", remove)
	stored := bytes.Clone(h.checkpoint)
	r, holds := projectedOf(t, h)
	if len(holds) > 0 {
		t.Fatal(canonHolds(holds))
	}
	var other []string
	for _, path := range diffs(tree(t, stored), r.target.root) {
		if !strings.HasPrefix(path, "/history/") || !strings.HasSuffix(path, "/history_digest") {
			other = append(other, path)
		}
	}
	if want := []string{"/contract/_telemetry_mcp_url_ids", "/contract/_telemetry_mcp_url_tool_names", "/contract/_telemetry_mcp_url_toolset_ids",
		"/contract/tools/0/tool_kind", "/dependency_epoch", "/source_identity", "/versions/pydantic_ai"}; !slices.Equal(other, want) {
		t.Errorf("changed %q", other)
	}
	whole := h.run(t)
	if !bytes.Equal(stored, h.checkpoint) {
		t.Error("the stored checkpoint changed")
	}
	derived, c := tree(t, whole.Derived), loadCatalogue(t)
	way := c.transition(c.source(h.rec.SourceIdentity))
	to := c.source(way.To)
	compatibility := derived.Get("compatibility")
	if compatibility.Get("transition").Text != way.Identity || compatibility.Get("source_identity").Text != way.From ||
		compatibility.Get("derived_from").Text != sha256Hex(stored) || tree(t, whole.Witness).Get("transition").Text != way.Identity {
		t.Errorf("compatibility %s", pyjson.Encode(compatibility))
	}
	if derived.At("versions", "pydantic_ai").Text != "2.55.0" || derived.Get("source_identity").Text != to.Identity ||
		derived.Get("dependency_epoch").Text != to.DependencyEpoch || way.Projection != Project2580 {
		t.Error("the derived record does not name the target")
	}
	if _, holds := ParseCheckpoint(whole.Derived, c); len(holds) > 0 { // SDK-06: nothing in it that 2.55.0 would not write back
		t.Errorf("derived record: %s", canonHolds(holds))
	}
}

const (
	urlIDs     = "/contract/_telemetry_mcp_url_ids"
	toolNames  = "/contract/_telemetry_mcp_url_tool_names"
	toolsetIDs = "/contract/_telemetry_mcp_url_toolset_ids"
)

// SDK-09, SDK-14, SDK-16: the four combinations of null and [] migrate, leave the derived contract, and give four witnesses that
// return the exact values with a hash that recomputes.
func TestProvenanceStates(t *testing.T) {
	h, seen := openHeld(t, "2.58.0"), map[string]bool{}
	for _, ids := range []string{"null", "[]"} {
		for _, names := range []string{"null", "[]"} {
			r := h.edit(t, urlIDs, set(ids)).edit(t, toolNames, set(names)).run(t)
			if len(r.Result.Holds) > 0 {
				t.Fatalf("%s %s: %s", ids, names, canonHolds(r.Result.Holds))
			}
			p := tree(t, r.Witness).Get("projection")
			want := `{"_telemetry_mcp_url_ids":` + ids + `,"_telemetry_mcp_url_tool_names":` + names + `,"_telemetry_mcp_url_toolset_ids":[]}`
			if got := string(pyjson.Encode(p.Get("provenance"))); got != want || p.Get("provenance_sha256").Text != sha256Hex([]byte(want)) {
				t.Errorf("witness has %s, %s", got, p.Get("provenance_sha256").Text)
			}
			if bytes.Contains(r.Derived, []byte("_telemetry_")) {
				t.Error("the derived record has provenance")
			}
			seen[sha256Hex(pyjson.Encode(p))] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("%d different witnesses of 4", len(seen))
	}
}

// SDK-15, SDK-17, O14: what is neither null nor [] in its place, and what is not there, is held by name.
func TestProvenanceThatIsHeld(t *testing.T) {
	h := openHeld(t, "2.58.0")
	bad := map[string][]string{urlIDs: nil, toolNames: nil, toolsetIDs: {"null"}}
	for path, more := range bad {
		for _, value := range append([]string{`["x"]`, `{}`, `""`, `false`, `0`, `[null]`, `[[]]`}, more...) {
			r := h.edit(t, path, set(value)).run(t)
			wantHolds(t, path+" "+value, r, "provenance_unsupported")
			wantDetail(t, path+" "+value, r, "provenance_unsupported", "path", `"`+path+`"`)
			if r.Result.Served != 0 {
				t.Error("the response was served before the migration")
			}
		}
		wantHolds(t, path+" absent", h.edit(t, path, remove).run(t), "provenance_unsupported")
	}
	// A record of the target has none: there it is an unknown member (SDK-18).
	other := openHeld(t, "2.55.0")
	wantHolds(t, "2.55.0 with provenance", other.edit(t, urlIDs, set("[]")).run(t), "checkpoint_field_unknown")
}

// SDK-10, SDK-11, SDK-12, O16: function tools end with a null tool_kind, the witness tells whether it was there, and others refuse;
// on a definition of another kind it is untouched and may not be added.
func TestToolKinds(t *testing.T) {
	h := openHeld(t, "2.58.0")
	plain := h.run(t)
	less := h.edit(t, "/contract/tools/1/tool_kind", remove).run(t)
	for _, r := range []*Reconstruction{plain, less} {
		for i, tool := range tree(t, r.Derived).At("contract", "tools").Items {
			if !tool.Get("tool_kind").Is(pyjson.Null) {
				t.Errorf("tool %d has tool_kind %v", i, tool.Get("tool_kind"))
			}
		}
	}
	kinds := func(r *Reconstruction) string {
		return string(pyjson.Encode(tree(t, r.Witness).At("projection", "tool_kind_present")))
	}
	if a, b := kinds(plain), kinds(less); a == b || !strings.Contains(b, `{"path":"/contract/tools/1","present":false}`) || strings.Contains(a, "false") {
		t.Errorf("witnesses %s\n%s", a, b)
	}
	for _, value := range []string{`"tool-search"`, `"capability-load"`, `"inventory.lookup"`, `""`, `1`, `false`, `[]`, `{}`} {
		for _, version := range recordingVersions {
			r := openHeld(t, version).edit(t, "/contract/tools/1/tool_kind", set(value)).run(t)
			wantHolds(t, version+" "+value, r, "tool_kind_unsupported")
			wantDetail(t, value, r, "tool_kind_unsupported", "path", `"/contract/tools/1/tool_kind"`)
		}
	}
	wantHolds(t, "absent in 2.55.0, which always writes it", openHeld(t, "2.55.0").edit(t, "/contract/tools/1/tool_kind", remove).run(t), "round_trip_loss")
	output := func(change func(*pyjson.Value) *pyjson.Value) held {
		return h.edit(t, "/contract/output/output_tools", func(*pyjson.Value) *pyjson.Value {
			tool := tree(t, h.checkpoint).At("contract", "tools").Items[0]
			return pyjson.NewArray(change(tool.With("kind", pyjson.NewString("output")).With("name", pyjson.NewString("final_result"))))
		})
	}
	if _, holds := projectedOf(t, output(func(v *pyjson.Value) *pyjson.Value { return v })); len(holds) > 0 {
		t.Errorf("an output tool with null: %s", canonHolds(holds))
	}
	_, holds := projectedOf(t, output(func(v *pyjson.Value) *pyjson.Value { return v.Without("tool_kind") }))
	if len(holds) != 1 || holds[0].Code != "round_trip_loss" {
		t.Errorf("an output tool without: %s", canonHolds(holds))
	}
	r, _ := projectedOf(t, output(func(v *pyjson.Value) *pyjson.Value { return v.With("tool_kind", pyjson.NewString("tool-search")) }))
	if got := r.target.contract().At("output", "output_tools").Items[0].Get("tool_kind").Text; got != "tool-search" {
		t.Errorf("an output tool's tool_kind became %q", got)
	}
}

// SDK-06: what 2.55.0 would drop of a 2.58.0 history is held with its path; where it says nothing it leaves and is counted.
func TestWhatTheTargetWouldLose(t *testing.T) {
	h := openHeld(t, "2.58.0")
	for path, value := range map[string]string{
		"/history/1/history_digest":           `"` + zeros + `"`,
		"/history/0/parts/0/scope":            `"request"`,
		"/history/0/parts/0/metadata":         `{"a":1}`,
		"/history/1/parts/0/tool_kind":        `"inventory.lookup"`,
		"/history/1/usage/audio_seconds":      `1`,
		"/usage/cost":                         `0`,
		"/limits/count_tokens_before_request": `null`,
	} {
		from := h
		if strings.Contains(path, "/history/0/") {
			from = migrations["system-prompt"](t, h)
		}
		r := from.edit(t, path, set(value)).run(t)
		if path == "/history/1/parts/0/tool_kind" {
			if got := codesOf(r); !slices.Equal(got, []string{"checkpoint_field_unknown"}) { // nor does this module know the kind
				t.Errorf("%s: %v", path, got)
			}
			continue
		}
		wantHolds(t, path, r, "round_trip_loss")
		wantDetail(t, path, r, "round_trip_loss", "path", `"`+path+`"`)
	}
	p := tree(t, migrations["system-prompt"](t, h).run(t).Witness).Get("projection")
	if p.Get("history_digest_null").Text != "7" || p.Get("system_prompt_defaults").Text != "2" {
		t.Errorf("projection %s", pyjson.Encode(p))
	}
}

// SDK-20 to SDK-23 for a record of 2.58.0: both named counters are mandatory there, come through exactly, and are added to nothing.
func TestCountersOfAMigration(t *testing.T) {
	h := openHeld(t, "2.58.0")
	for _, name := range []string{"output_reasoning_tokens", "cache_write_1h_tokens"} {
		for _, usage := range []string{"/usage/", "/history/1/usage/"} {
			for _, value := range []string{"1.0", `"1"`, "true", "-1", "9223372036854775808", "null"} {
				want := "counter_out_of_bounds"
				r := h.edit(t, usage+name, set(value)).run(t)
				if got := codesOf(r); !slices.Contains(got, want) && !slices.Contains(got, "round_trip_loss") {
					t.Errorf("%s%s %s: %v", usage, name, value, got)
				}
			}
		}
		wantHolds(t, name+" missing", h.edit(t, "/usage/"+name, remove).run(t), "counter_missing")
	}
	wantHolds(t, "unlisted", h.edit(t, "/usage/cache_write_5m_tokens", set("1")).run(t), "counter_unknown")
	big := migrations["counters-and-cost"](t, h)
	before, after := tree(t, big.checkpoint).Get("usage"), tree(t, big.run(t).Derived).Get("usage")
	added := tree(t, big.run(t).Witness).At("usage", "response")
	for _, name := range []string{"output_tokens", "input_tokens", "cache_write_tokens", "cache_write_1h_tokens", "output_reasoning_tokens"} {
		a, _ := before.Get(name).Int()
		b, _ := after.Get(name).Int()
		plus, _ := added.Get(name).Int()
		if b != a+plus {
			t.Errorf("%s: %d and %d became %d", name, a, plus, b)
		}
	}
	if after.Get("cache_write_1h_tokens").Text != "20" || after.Get("cost").Text != "0.01250" {
		t.Errorf("usage %s", pyjson.Encode(after))
	}
}

// SDK-02, SDK-04: without its reviewed transition the same record is held, whatever its versions say; and so is every other pair.
func TestOtherPairsAreHeld(t *testing.T) {
	var document map[string]json.RawMessage
	if err := json.Unmarshal(catalogueBytes(), &document); err != nil {
		t.Fatal(err)
	}
	var ways []Transition
	if err := json.Unmarshal(document["transitions"], &ways); err != nil {
		t.Fatal(err)
	}
	ways = slices.DeleteFunc(ways, func(w Transition) bool { return w.Projection == Project2580 })
	document["transitions"], _ = json.Marshal(ways)
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	c, err := LoadCatalogue(text)
	if err != nil {
		t.Fatal(err)
	}
	h := openHeld(t, "2.58.0")
	r, refused := Reconstruct(c, h.checkpoint, h.response, h.params)
	if refused != nil {
		t.Fatal(refused.Code)
	}
	wantHolds(t, "2.58.0 without a transition", r, "sdk_pair_unsupported")
	wantDetail(t, "2.58.0", r, "sdk_pair_unsupported", "pydantic_ai", `"2.58.0"`)
	if r.Result.Served != 0 {
		t.Error("the response was served to a parser")
	}
}

// A continued run stops again: its record belongs to the target, its registration still to the source. The second derivation keeps
// the SDK transition and binds the record before it; what does not descend from the run's own source is held (SDK-03, SDK-04).
func TestSecondContinuation(t *testing.T) {
	for _, version := range recordingVersions {
		first := openHeld(t, version)
		second := first
		second.checkpoint = first.run(t).Derived
		second = second.edit(t, "/state/completed_rounds", set("9"))
		second = second.query(t, `{"kind":"command_output","target":"nightly","page":1.0}`)
		second.response = bytes.ReplaceAll(second.response, []byte("call_PZ"), []byte("call_QZ"))
		r := second.run(t)
		if len(r.Result.Holds) > 0 {
			if first.response = nil; slices.Equal(codesOf(r), []string{"duplicate_call_id"}) {
				second.response = bytes.Replace(second.response, []byte(`"id":"call_`), []byte(`"id":"call_second_`), 1)
				r = second.run(t)
			}
		}
		if len(r.Result.Holds) > 0 {
			t.Fatalf("%s: %s", version, canonHolds(r.Result.Holds))
		}
		before, after := tree(t, second.checkpoint), tree(t, r.Derived)
		if d := diffs(before.Get("compatibility"), after.Get("compatibility")); !slices.Equal(d, []string{"/derived_from"}) {
			t.Errorf("%s: compatibility changed at %v", version, d)
		}
		if d := diffs(before.Get("contract"), after.Get("contract")); len(d) > 0 {
			t.Errorf("%s: contract changed at %v", version, d)
		}
		if len(tree(t, r.Witness).Get("contract_changes").Items) != 0 {
			t.Error("the witness names a change of the contract")
		}
		for path, value := range map[string]string{
			"/compatibility/transition": zeros, "/compatibility/source_identity": zeros, "/compatibility/prompt_from": "1.0.1",
			"/compatibility/prompt_to": "1.0.0",
		} {
			wantHolds(t, path, second.edit(t, path, set(`"`+value+`"`)).run(t), "source_unregistered")
		}
		other := second
		other.params.Runtime = openHeld(t, map[string]string{"2.55.0": "2.58.0", "2.58.0": "2.55.0"}[version]).params.Runtime
		wantHolds(t, "runtime of the other source", other.run(t), "runtime_unregistered")
		// The closure: the contract in force is what the registered one became.
		closed := second
		closed.closed.Wire, _ = Pending(loadCatalogue(t), closed.checkpoint)
		u := before.Get("usage")
		count := func(name string) int64 { n, _ := u.Get(name).Int(); return n }
		rounds, _ := before.At("state", "completed_rounds").Int()
		closed.params.Before = Before{CompletedRounds: rounds, InputTokens: count("input_tokens"), OutputTokens: count("output_tokens"), Requests: count("requests"), ToolCalls: count("tool_calls")}
		again, refused := ReconstructWith(loadCatalogue(t), closed.checkpoint, closed.response, &closed.closed, nil, closed.params)
		if refused != nil || len(again.Result.Holds) > 0 || !bytes.Equal(again.Derived, r.Derived) {
			t.Fatalf("%s: %s", version, canonHolds(again.Result.Holds))
		}
		closed.closed.Contract = pyjson.Encode(edit(tree(t, closed.closed.Contract), "/tools/0/description", set(`"x"`)))
		again, _ = ReconstructWith(loadCatalogue(t), closed.checkpoint, closed.response, &closed.closed, nil, closed.params)
		wantHolds(t, "another registered contract", again, "contract_changed")
	}
}
