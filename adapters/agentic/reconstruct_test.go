package agentic

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/adapters/agentic/catalogue"
	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/fixtures/recordings"
	"github.com/forge-continuity/forge/models/canon"
)

// held is the input of a reconstruction: a recorded run at its death.
type held struct {
	rec        *recordings.Recording
	checkpoint []byte
	response   []byte
	closed     Closure
	params     Params
}

func openHeld(t testing.TB, version string) held {
	t.Helper()
	h, err := readHeld(version)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func readHeld(version string) (held, error) {
	rec, err := recordings.Held(version)
	if err != nil {
		return held{}, err
	}
	turn, err := rec.Turn(rec.HeldRequest())
	if err != nil {
		return held{}, err
	}
	h := held{rec: rec, checkpoint: turn.Checkpoint, response: turn.Response, closed: Closure{Contract: turn.Contract, Wire: turn.Wire}}
	return h, canon.Unmarshal(canon.MustMarshal(turn.Params), &h.params)
}

func (h held) file(t testing.TB, name string) []byte {
	t.Helper()
	data, err := h.rec.File(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (h held) run(t testing.TB) *Reconstruction {
	t.Helper()
	r, refused := Reconstruct(loadCatalogue(t), h.checkpoint, h.response, h.params)
	if refused != nil {
		t.Fatalf("refused: %s %s", refused.Code, refused.Details)
	}
	return r
}

func tree(t testing.TB, data []byte) *pyjson.Value {
	t.Helper()
	v, err := pyjson.Parse(data, pyjson.Limits{Bytes: 1 << 25, Depth: 200, Nodes: 1 << 21})
	if err != nil {
		t.Fatalf("%.60s: %v", data, err)
	}
	return v
}

// edit replaces the value at a path of names and indexes in the checkpoint; nil deletes a member.
func (h held) edit(t testing.TB, path string, with func(*pyjson.Value) *pyjson.Value) held {
	t.Helper()
	h.checkpoint = pyjson.Encode(edit(tree(t, h.checkpoint), path, with))
	return h
}

func edit(v *pyjson.Value, path string, with func(*pyjson.Value) *pyjson.Value) *pyjson.Value {
	if path == "" {
		return with(v)
	}
	step, rest, found := strings.Cut(path[1:], "/")
	if found {
		rest = "/" + rest
	}
	if v.Is(pyjson.Array) {
		out := pyjson.NewArray(slices.Clone(v.Items)...)
		for i := range out.Items {
			if itoa(i) == step {
				out.Items[i] = edit(out.Items[i], rest, with)
			}
		}
		return out
	}
	if x := edit(v.Get(step), rest, with); x != nil {
		return v.With(step, x)
	}
	return v.Without(step)
}

func set(text string) func(*pyjson.Value) *pyjson.Value {
	return func(*pyjson.Value) *pyjson.Value {
		v, err := pyjson.Parse([]byte(text), recordLimits)
		if err != nil {
			panic(err)
		}
		return v
	}
}

func remove(*pyjson.Value) *pyjson.Value { return nil }

// variant replaces the response by one of the scripted answers.
func (h held) variant(t testing.TB, name string) held {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "fixtures", "provider", "script", "variants", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	h.response = data
	return h
}

// query replaces the arguments of the recorded evidence call.
func (h held) query(t testing.TB, args string) held {
	t.Helper()
	h.response = pyjson.Encode(edit(tree(t, h.response), "/choices/0/message/tool_calls/0/function/arguments",
		func(*pyjson.Value) *pyjson.Value { return pyjson.NewString(args) }))
	return h
}

func codesOf(r *Reconstruction) []string {
	list := []string{}
	for _, h := range r.Result.Holds {
		list = append(list, h.Code)
	}
	return list
}

// wantHolds checks the exact holds and that nothing was derived.
func wantHolds(t testing.TB, what string, r *Reconstruction, want ...string) {
	t.Helper()
	if got := codesOf(r); !slices.Equal(got, want) {
		t.Errorf("%s: holds %v, want %v", what, got, want)
	}
	if r.Derived != nil || r.Witness != nil || r.Contract != nil || r.NextRequest != nil || len(r.Result.Closing) > 0 || r.Result.FixedOutcomes != 0 {
		t.Errorf("%s: something was derived beside the holds", what)
	}
	if r.Result.Served > 1 {
		t.Errorf("%s: served %d times", what, r.Result.Served)
	}
}

// wantDetail checks one detail of the first hold with this code.
func wantDetail(t testing.TB, what string, r *Reconstruction, code, name, want string) {
	t.Helper()
	for _, h := range r.Result.Holds {
		if h.Code == code {
			var d map[string]json.RawMessage
			if err := json.Unmarshal(h.Details, &d); err != nil || string(d[name]) != want {
				t.Errorf("%s: %s of %s is %s, want %s", what, name, code, d[name], want)
			}
			return
		}
	}
	t.Errorf("%s: no hold %s", what, code)
}

func diffs(a, b *pyjson.Value) (paths []string) {
	for _, d := range pyjson.Diff(a, b, 100) {
		paths = append(paths, d.Path)
	}
	slices.Sort(paths)
	return paths
}

// The held run continues: REC-01 (served once), REC-04, REC-06, REC-10, OBS-20 to OBS-22, SDK-07, SDK-08 and SDK-13 in their parts
// that the guest decides. The judge is the real SDK: history, usage and the bytes of the next request.
func TestHeldRun(t *testing.T) {
	h := openHeld(t, "2.55.0")
	stored := bytes.Clone(h.checkpoint)
	r := h.run(t)
	if len(r.Result.Holds) > 0 {
		t.Fatalf("holds %+v", r.Result.Holds)
	}
	if r.Result.Served != 1 || r.Result.Version != 1 || r.Result.FixedOutcomes != 1 {
		t.Errorf("result %+v", r.Result)
	}
	if !slices.Equal(r.Result.Closing, []Closing{{0, "invalid_query"}}) || !slices.Equal(r.Result.Calls, []ResultCall{{"evidence_read", 0, 2}}) {
		t.Errorf("result %+v", r.Result)
	}
	want := tree(t, h.file(t, "expected-derived.json"))
	derived, original := tree(t, r.Derived), tree(t, stored)
	if d := diffs(want.Get("history"), derived.Get("history")); len(d) > 0 {
		t.Errorf("history differs from the SDK's at %v", d)
	}
	if d := diffs(want.Get("usage"), derived.Get("usage")); len(d) > 0 {
		t.Errorf("usage differs from the SDK's at %v", d)
	}
	if wire := h.file(t, "next-request.wire"); !bytes.Equal(r.NextRequest, wire) {
		i := 0
		for i < len(wire) && i < len(r.NextRequest) && wire[i] == r.NextRequest[i] {
			i++
		}
		t.Errorf("next request differs from the SDK's at byte %d: %.80s", i, r.NextRequest[i:])
	}
	if r.Result.HistoryMessages != int64(len(want.Get("history").Items)) {
		t.Errorf("%d messages", r.Result.HistoryMessages)
	}

	// OBS-20: the stored prefix is the same, value for value and in text; SDK-07: the stored bytes are untouched.
	prefix := pyjson.NewArray(derived.Get("history").Items[:len(original.Get("history").Items)]...)
	if !bytes.Equal(pyjson.Encode(prefix), pyjson.Encode(original.Get("history"))) || !bytes.Equal(stored, h.checkpoint) {
		t.Error("the stored history changed")
	}
	// SDK-08, REC-10: nothing else changes than what is permitted.
	rest := func(v *pyjson.Value) *pyjson.Value { return v.Without("history").Without("usage") }
	if d := diffs(rest(original), rest(derived)); !slices.Equal(d, []string{
		"/compatibility",
		"/contract/tools/2/description",
		"/contract/tools/2/parameters_json_schema/properties/contains/default",
		"/contract/tools/2/parameters_json_schema/properties/contains/maxLength",
		"/contract/tools/2/parameters_json_schema/properties/contains/minLength",
		"/contract/tools/2/parameters_json_schema/properties/page/default",
		"/contract/tools/2/parameters_json_schema/properties/page/maximum",
		"/contract/tools/2/parameters_json_schema/properties/page_size/default",
		"/contract/tools/2/parameters_json_schema/properties/page_size/maximum",
		"/contract/tools/2/parameters_json_schema/properties/target/maxLength",
		"/contract/tools/2/parameters_json_schema/properties/target/minLength",
		"/prompt_catalog/digest", "/prompt_catalog/version", "/source_identity", // whose record it is now
	}) {
		t.Errorf("changed: %q", d)
	}
	if c, way := derived.Get("compatibility"), loadCatalogue(t).Transitions[0]; c.Get("transition").Text != way.Identity ||
		c.Get("derived_from").Text != sha256Hex(stored) || c.Get("source_identity").Text != h.rec.SourceIdentity ||
		way.From != h.rec.SourceIdentity || derived.Get("source_identity").Text != way.To {
		t.Errorf("compatibility %s", pyjson.Encode(c))
	}
	// The derived record is itself a record that this module and the next worker can read.
	if _, holds := ParseCheckpoint(r.Derived, loadCatalogue(t)); len(holds) > 0 {
		t.Errorf("derived record: %+v", holds)
	}
	if r.Result.Usage.InputTokens != 4188 || r.Result.Usage.OutputTokens != 153 {
		t.Errorf("usage of the response %+v", r.Result.Usage)
	}
}

// REC-10: today's envelope has page size default and maximum ten, and the derived contract has it by the registered digests.
func TestDerivedContractIsTheRegisteredOne(t *testing.T) {
	h := openHeld(t, "2.55.0")
	r := h.run(t)
	tool := tree(t, r.Derived).At("contract", "tools").Items[2]
	size := tool.At("parameters_json_schema", "properties", "page_size")
	if size.Get("default").Text != "10" || size.Get("maximum").Text != "10" {
		t.Errorf("page size %s", pyjson.Encode(size))
	}
	prompt := loadCatalogue(t).Prompts["1.0.1"]
	if tool.Get("description").Text != prompt.ReadRunEvidence.Description || !pyjson.Equal(tool.Get("parameters_json_schema"), prompt.ReadRunEvidence.schema) {
		t.Error("not the registered text and schema")
	}
	witness, contract := tree(t, r.Witness), tree(t, r.Contract)
	if got := witness.At("contract_changes").Items[1].Get("to_sha256").Text; got != sha256Hex(pyjson.Encode(prompt.ReadRunEvidence.schema)) {
		t.Errorf("witness names schema %s", got)
	}
	if witness.Get("original_sha256").Text != sha256Hex(h.checkpoint) || witness.Get("response_sha256").Text != sha256Hex(h.response) ||
		witness.Get("derived_sha256").Text != sha256Hex(r.Derived) {
		t.Error("witness names other bytes")
	}
	// What was captured is what the next request says.
	if sent := tree(t, r.NextRequest); !pyjson.Equal(sent.Get("tools"), contract.At("rendered", "tools")) {
		t.Error("captured tools are not those of the next request")
	}
	for from, code := range map[string]string{
		"/contract/tools/2/description":                                    "contract_changed",
		"/contract/tools/2/parameters_json_schema/properties/page/minimum": "contract_changed",
	} {
		value := set(`"Read anything."`)
		if strings.HasSuffix(from, "minimum") {
			value = set("0")
		}
		changed := h.edit(t, from, value).run(t)
		wantHolds(t, from, changed, code)
		wantDetail(t, from, changed, code, "path", `"/contract/tools/2/`+strings.Split(from, "/")[4]+`"`)
	}
}

// variants is what each recorded answer leads to, in either SDK's recording.
var variants = map[string][]string{
	"content-audio":                     {"response_content_unsupported"},           // ELIG-12
	"custom-tool-call":                  {"response_content_unsupported"},           // ELIG-12
	"refusal":                           {"response_content_unsupported"},           // ELIG-12
	"two-choices":                       {"response_content_unsupported"},           // ELIG-12
	"no-call":                           {"evidence_call_not_single"},               // ELIG-05
	"no-evidence-call":                  {"evidence_call_not_single"},               // ELIG-05
	"two-evidence-calls":                {"evidence_call_not_single"},               // ELIG-05
	"duplicate-call-id":                 {"duplicate_call_id"},                      // OBS-17
	"reused-call-id":                    {"duplicate_call_id"},                      // OBS-17, O8
	"query-array":                       {"query_not_object"},                       // ELIG-07
	"query-null":                        {"query_not_object"},                       // ELIG-07
	"query-string":                      {"query_not_object"},                       // ELIG-07
	"query-truncated":                   {"query_not_object"},                       // ELIG-07
	"query-empty":                       {"query_not_object"},                       // ELIG-07
	"query-outside-schema":              {"query_outside_schema"},                   // ELIG-08
	"query-valid":                       {"query_valid"},                            // ELIG-09
	"sibling-unknown-tool":              {"call_unknown", "sibling_present"},        // ELIG-10, ELIG-11
	"sibling-write-file":                {"call_writable", "sibling_present"},       // ELIG-10, ELIG-11
	"sibling-run-command":               {"sibling_unsupported", "sibling_present"}, // ELIG-10, OBS-19
	"sibling-read-file":                 {"sibling_unsupported", "sibling_present"}, // ELIG-10, OBS-16
	"sibling-list-files-outside-schema": {"sibling_arguments_invalid"},              // OBS-18
	"query-duplicate-member":            {},                                         // version 1: the last counts for SDK and validator alike
	"text-and-call":                     {},                                         // O4
	"reasoning-and-call":                {},                                         // O4
	"sibling-list-files":                {},                                         // OBS-01: version 2
	"siblings-list-files":               {},                                         // OBS-01: version 2
}

// Every recorded variant of the last answer has its holds, and what continues is what the SDK's own classes make.
func TestVariants(t *testing.T) {
	h := openHeld(t, "2.55.0")
	names, err := h.rec.Variants()
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != len(variants) {
		t.Errorf("%d variants recorded, %d expected", len(names), len(variants))
	}
	for _, name := range names {
		want, known := variants[name]
		if !known {
			t.Errorf("variant %s has no expectation", name)
			continue
		}
		r := h.variant(t, name).run(t)
		if len(want) > 0 {
			wantHolds(t, name, r, want...)
			continue
		}
		if len(r.Result.Holds) > 0 {
			t.Errorf("%s: holds %+v", name, r.Result.Holds)
			continue
		}
		data, err := h.rec.VariantFile(name, "expected-derived.json")
		if err != nil {
			t.Fatal(err)
		}
		expected, derived := tree(t, data), tree(t, r.Derived)
		messages := derived.Get("history").Items
		appended := pyjson.NewArray(messages[len(messages)-2:]...)
		if d := diffs(expected.Get("appended"), appended); len(d) > 0 {
			t.Errorf("%s: appended messages differ from the SDK's at %v", name, d)
		}
		if d := diffs(expected.Get("usage"), derived.Get("usage")); len(d) > 0 {
			t.Errorf("%s: usage differs from the SDK's at %v", name, d)
		}
		version, results := int64(1), 0
		for _, c := range r.Result.Closing {
			if c.Result == "observation_unavailable" {
				version = 2
				results++
			}
		}
		if r.Result.Version != version || r.Result.FixedOutcomes != 1 || len(r.Result.Closing) != len(r.Result.Calls) {
			t.Errorf("%s: %+v", name, r.Result)
		}
		// OBS-11: the fixed value stands once per affected call and nowhere else.
		const unavailable = `{"reason":"original_read_result_not_retained","status":"observation_unavailable"}`
		if n := bytes.Count(r.Derived, []byte(unavailable)); n != results {
			t.Errorf("%s: the unavailable result stands %d times for %d calls", name, n, results)
		}
		// REC-04: one invalid_query, under the evidence call's id.
		if n := bytes.Count(r.Derived, []byte(`"content":{"status":"invalid_query"}`)); n != 1 {
			t.Errorf("%s: %d results invalid_query", name, n)
		}
	}
}

// The parser makes of every variant what the real model makes of it, where that model accepts it.
func TestVariantsParseAsTheSDK(t *testing.T) {
	h := openHeld(t, "2.55.0")
	compared := 0
	for name, want := range variants {
		data, err := h.rec.VariantFile(name, "parsed.json")
		if err != nil || len(want) > 0 && want[0] == "response_content_unsupported" {
			continue
		}
		rc := reconstruction{catalogue: loadCatalogue(t), params: h.params, record: h.checkpoint, transport: Seal(h.variant(t, name).response)}
		rc.form()
		rc.registered()
		rc.project()
		rc.parse()
		rc.calls()
		rc.out.Result.Holds = nil
		rc.derive()
		messages := rc.derived.Get("history").Items
		if d := diffs(tree(t, data), messages[len(messages)-2]); len(d) > 0 {
			t.Errorf("%s: %v", name, d)
		}
		compared++
	}
	if compared < 20 {
		t.Errorf("%d variants compared", compared)
	}
}

// REC-12, invariant 22: a hundred reconstructions give equal bytes, through the message format too.
func TestSameInputSameBytes(t *testing.T) {
	for _, name := range []string{"", "siblings-list-files", "sibling-write-file"} {
		h := openHeld(t, "2.55.0")
		if name != "" {
			h = h.variant(t, name)
		}
		message := reconstructMessage(t, h)
		first := Call(message)
		for range 100 {
			if !bytes.Equal(Call(bytes.Clone(message)), first) {
				t.Fatalf("%s: another answer", name)
			}
		}
	}
}

// REC-01: a second serving and an attempt to send are sandbox_stopped; capturing ends after one request.
func TestSealedTransport(t *testing.T) {
	transport := Seal([]byte("x"))
	if b, refused := transport.Receive(); refused != nil || string(b) != "x" || transport.Served() != 1 {
		t.Fatalf("%q %v", b, refused)
	}
	_, second := transport.Receive()
	send := transport.Send([]byte("y"))
	if first := transport.Capture([]byte("z")); first != nil {
		t.Fatal(first)
	}
	again := transport.Capture([]byte("z"))
	_, empty := new(SealedTransport).Receive()
	for _, c := range []struct {
		code, reason string
		got          string
	}{
		{"sandbox_stopped", "second_serving", second.Code + string(second.Details)},
		{"sandbox_stopped", "attempt_to_send", send.Code + string(send.Details)},
		{"sandbox_stopped", "attempt_to_send", again.Code + string(again.Details)},
		{"sandbox_stopped", "attempt_to_receive", empty.Code + string(empty.Details)},
	} {
		if c.got != c.code+`{"reason":"`+c.reason+`"}` {
			t.Errorf("got %s", c.got)
		}
	}
	if transport.Served() != 1 || string(transport.Captured()) != "z" {
		t.Error("transport changed")
	}
}

func catalogueBytes() []byte { return catalogue.Bytes() }
