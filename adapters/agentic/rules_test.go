package agentic

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/models/canon"
	"pgregory.net/rapid"
)

// The codes here are in the order of the refusal table, which the guest does not import.
func TestCodesAreInTheTablesOrder(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "REFUSALS.md"))
	if err != nil {
		t.Fatal(err)
	}
	at := -1
	for _, code := range codes {
		next := bytes.Index(page, []byte("[`"+code+"`]"))
		if next <= at {
			t.Errorf("%s is not in the table after the code before it", code)
		}
		at = next
	}
}

var zeros = strings.Repeat("0", 64)

// ELIG-03, ELIG-04, OBS-04, SDK-01, SDK-03, SDK-04, CRED-04, EPOCH-02: what is not registered is held by name, all of it at once.
func TestWhatIsNotRegistered(t *testing.T) {
	h := openHeld(t, "2.55.0")
	with := func(change func(*Params)) held {
		out := h
		change(&out.params)
		return out
	}
	for what, c := range map[string]struct {
		h    held
		want []string
	}{
		"runtime":         {with(func(p *Params) { p.Runtime = zeros }), []string{"runtime_unregistered"}},
		"no runtime":      {with(func(p *Params) { p.Runtime = "" }), []string{"runtime_unregistered"}},
		"validator":       {with(func(p *Params) { p.Validator = zeros }), []string{"validator_unregistered"}},
		"no validator":    {with(func(p *Params) { p.Validator = "" }), []string{"validator_unregistered"}},
		"reader":          {with(func(p *Params) { p.Reader = zeros }), []string{"reader_unregistered"}},
		"selection":       {with(func(p *Params) { p.Selection += "x" }), []string{"policy_epoch_unknown"}},
		"mode":            {with(func(p *Params) { p.Mode = "Required" }), []string{"policy_epoch_unknown"}},
		"acknowledgement": {with(func(p *Params) { p.Acknowledgement = "" }), []string{"policy_epoch_unknown"}},
		"all": {with(func(p *Params) { p.Runtime, p.Validator, p.Reader, p.Mode = "", zeros, zeros, "" }),
			[]string{"runtime_unregistered", "validator_unregistered", "reader_unregistered", "policy_epoch_unknown"}},
		"source":           {h.edit(t, "/source_identity", set(`"`+zeros+`"`)), []string{"source_unregistered", "sdk_pair_unsupported"}},
		"dependency epoch": {h.edit(t, "/dependency_epoch", set(`"agentic-26.10.1/other"`)), []string{"source_unregistered"}},
		"prompt digest":    {h.edit(t, "/prompt_catalog/digest", set(`"`+zeros+`"`)), []string{"source_unregistered"}},
		"prompt version":   {h.edit(t, "/prompt_catalog/version", set(`"1.0.1"`)), []string{"source_unregistered"}},
		"firefly version":  {h.edit(t, "/versions/firefly_agentic", set(`"26.10.2"`)), []string{"source_unregistered", "sdk_pair_unsupported"}},
		"sdk version":      {h.edit(t, "/versions/pydantic_ai", set(`"2.57.0"`)), []string{"unsupported_history_format", "sdk_pair_unsupported"}},
		"firefly of 2.58":  {openHeld(t, "2.58.0").edit(t, "/versions/firefly_agentic", set(`"26.10.0"`)), []string{"source_unregistered", "sdk_pair_unsupported"}},
		"record format":    {h.edit(t, "/record", set(`"agentic-checkpoint/2"`)), []string{"unsupported_history_format"}},
	} {
		r := c.h.run(t)
		wantHolds(t, what, r, c.want...)
		if r.Result.Served != 0 {
			t.Errorf("%s: the response was served", what)
		}
	}
	// SDK-03: one dependency version changed is another identity; a version number alone qualifies nothing (SDK-04).
	text := strings.Replace(string(catalogueBytes()), `"openai": "3.57.0"`, `"openai": "3.57.1"`, 1)
	if _, err := LoadCatalogue([]byte(text)); err == nil {
		t.Error("a source entry with another dependency kept its identity")
	}
	// Version 2 needs the reader that it pins; version 1 does not.
	none := with(func(p *Params) { p.Reader = "" })
	if r := none.run(t); len(r.Result.Holds) > 0 {
		t.Errorf("version 1 without a reader: %+v", r.Result.Holds)
	}
	wantHolds(t, "version 2 without a reader", none.variant(t, "sibling-list-files").run(t), "reader_unregistered")
}

// CRED-07, SDK-05: bounds before canonical form before structure, and nothing is derived.
func TestEncodedForm(t *testing.T) {
	h := openHeld(t, "2.55.0")
	text := string(h.checkpoint)
	for what, c := range map[string]struct {
		text string
		want string
	}{
		"a space":          {strings.Replace(text, ":", ": ", 1), "checkpoint_not_canonical"},
		"a newline":        {text + "\n", "checkpoint_not_canonical"},
		"cut":              {text[:len(text)-1], "checkpoint_not_canonical"},
		"another order":    {strings.Replace(text, `{"compatibility":null,`, `{`, 1)[:len(text)-len(`"compatibility":null,`)-1] + `,"compatibility":null}`, "checkpoint_not_canonical"},
		"a repeated name":  {strings.Replace(text, `"compatibility":null,`, `"compatibility":null,"compatibility":null,`, 1), "checkpoint_not_canonical"},
		"raw character":    {strings.Replace(text, `\u2014`, "—", 1), "checkpoint_not_canonical"},
		"number spelling":  {strings.Replace(text, `"temperature":0.2`, `"temperature":0.20`, 1), "checkpoint_not_canonical"},
		"no JSON":          {"checkpoint", "checkpoint_not_canonical"},
		"empty":            {"", "checkpoint_not_canonical"},
		"another value":    {"[]", "checkpoint_not_canonical"},
		"too large":        {text + strings.Repeat(" ", MaxRecordBytes), "record_out_of_bounds"},
		"too deep":         {strings.Repeat("[", MaxRecordDepth+1) + strings.Repeat("]", MaxRecordDepth+1), "record_out_of_bounds"},
		"too many values":  {"[" + strings.Repeat("0,", MaxRecordNodes) + "0]", "record_out_of_bounds"},
		"large and broken": {strings.Repeat("{", MaxRecordBytes+1), "record_out_of_bounds"},
	} {
		h.checkpoint = []byte(c.text)
		r := h.run(t)
		wantHolds(t, what, r, c.want)
		if _, holds := Inspect(loadCatalogue(t), h.checkpoint); len(holds) != 1 || holds[0].Code != c.want {
			t.Errorf("%s: inspection says %+v", what, holds)
		}
	}
}

// opaque are the places of a record whose insides are the application's or the provider's own.
var opaque = regexp.MustCompile(`^/contract/model/settings|/parameters_json_schema|/return_schema|/provider_details|/parts/\d+/content|/parts/\d+/metadata`)

// walk visits every value of a tree.
func walk(v *pyjson.Value, path string, visit func(path string, v *pyjson.Value)) {
	visit(path, v)
	for i, item := range v.Items {
		walk(item, path+"/"+itoa(i), visit)
	}
	for _, m := range v.Members {
		walk(m.Value, path+"/"+m.Name, visit)
	}
}

// SDK-18, SDK-22, SDK-23: a member added anywhere in the record is held with its path; SDK-06: so is one that is taken away.
func TestEveryMemberCounts(t *testing.T) {
	for _, version := range recordingVersions {
		h := openHeld(t, version)
		root := tree(t, h.checkpoint)
		c := loadCatalogue(t)
		added, removed := 0, 0
		walk(root, "", func(path string, v *pyjson.Value) {
			if v.Kind != pyjson.Object || opaque.MatchString(path) {
				return
			}
			changed := pyjson.Encode(edit(root, path, func(v *pyjson.Value) *pyjson.Value { return v.With("zz_added", pyjson.NewInt(1)) }))
			want := "checkpoint_field_unknown"
			if strings.Contains(path, "/usage") {
				want = "counter_unknown"
			}
			at := "/zz_added"
			if strings.HasSuffix(path, "/usage/details") { // names that a provider chose are not repeated
				at = fmt.Sprint("/member-", len(v.Members))
			}
			_, holds := ParseCheckpoint(changed, c)
			if len(holds) != 1 || holds[0].Code != want || !bytes.Contains(holds[0].Details, []byte(`"path":"`+path+at+`"`)) {
				t.Errorf("%s added at %s: %s", version, path, canonHolds(holds))
			}
			added++
			for _, m := range v.Members {
				at := path + "/" + m.Name
				optional := strings.Contains(at, "/usage/details/") || // O15: a permitted counter may be absent
					version == "2.55.0" && strings.HasSuffix(at, "/usage/output_reasoning_tokens") ||
					version == "2.58.0" && strings.HasPrefix(at, "/contract/tools/") && m.Name == "tool_kind" || // SDK-10: the projection adds it
					version == "2.58.0" && strings.HasPrefix(m.Name, "_telemetry_mcp_") // the projection holds it (O14)
				_, holds := ParseCheckpoint(pyjson.Encode(edit(root, at, remove)), c)
				if (len(holds) == 0) != optional {
					t.Errorf("%s removed %s: %s", version, at, canonHolds(holds))
				}
				removed++
			}
		})
		t.Logf("%s: %d members added, %d removed", version, added, removed)
	}
}

var recordingVersions = []string{"2.55.0", "2.58.0"}

func canonHolds(holds []Hold) string { return string(canon.MustMarshal(holds)) }

// SDK-20, SDK-22, SDK-23 and the counters of the consumed response.
func TestCountersOfRecordAndResponse(t *testing.T) {
	h := openHeld(t, "2.55.0")
	for path, cases := range map[string]map[string]string{
		"/usage/output_reasoning_tokens":           {"1.0": "counter_out_of_bounds", `"1"`: "counter_out_of_bounds", "true": "counter_out_of_bounds", "-1": "counter_out_of_bounds", "9223372036854775808": "counter_out_of_bounds"},
		"/usage/cache_write_1h_tokens":             {"1": "counter_out_of_bounds", "1.0": "counter_out_of_bounds"}, // above its parent, 0
		"/usage/requests":                          {"-1": "counter_out_of_bounds", "null": "counter_out_of_bounds"},
		"/usage/web_searches":                      {"1": "counter_unknown"},
		"/usage/details/odd_tokens":                {"1": "counter_unknown"},
		"/history/1/usage/output_reasoning_tokens": {"1.5": "counter_out_of_bounds"},
		"/history/1/usage/requests":                {"1": "checkpoint_field_unknown"},
		"/usage/cost":                              {`"0.50"`: "", `"free"`: "round_trip_loss", "0.5": "round_trip_loss"},
		"/limits/cost_limit":                       {`"0.5"`: "", "0": "round_trip_loss"},
		"/contract/model/base_url":                 {`"http://127.0.0.1:8918/v1/"`: "contract_changed"},
		"/usage/audio_seconds":                     {"0": "round_trip_loss"},
		"/limits/request_limit":                    {`"40"`: "round_trip_loss"},
	} {
		for value, want := range cases {
			if want == "" { // kept as it is spelled
				r := h.edit(t, path, set(value)).run(t)
				object, name, _ := strings.Cut(path[1:], "/")
				if got := tree(t, r.Derived).At(object, name); len(r.Result.Holds) > 0 || string(pyjson.Encode(got)) != value {
					t.Errorf("%s %s: holds %v", path, value, codesOf(r))
				}
				continue
			}
			wantHolds(t, path+" "+value, h.edit(t, path, set(value)).run(t), want)
		}
	}
	wantHolds(t, "missing", h.edit(t, "/usage/input_tokens", remove).run(t), "counter_missing")
	// Legal values of the two named counters come through unchanged and unadded (SDK-20, SDK-21).
	r := h.edit(t, "/usage/cache_write_1h_tokens", set("0")).run(t)
	usage := tree(t, r.Derived).Get("usage")
	if usage.Get("cache_write_1h_tokens").Text != "0" || usage.Get("output_reasoning_tokens").Text != "768" || usage.Get("output_tokens").Text != "1361" {
		t.Errorf("usage %s", pyjson.Encode(usage))
	}
	for path, cases := range map[string]map[string]string{
		"/usage/completion_tokens_details/reasoning_tokens": {"-1": "counter_out_of_bounds", "154": "counter_out_of_bounds"},
		"/usage/completion_tokens_details/odd":              {"1": "counter_unknown"},
		"/usage/web":                                        {"1": "counter_unknown"},
		"/usage/prompt_tokens":                              {"9223372036854775807": "counter_out_of_bounds"}, // the sum overflows
	} {
		for value, want := range cases {
			changed := h
			changed.response = pyjson.Encode(edit(tree(t, h.response), path, set(value)))
			wantHolds(t, path+" "+value, changed.run(t), want)
		}
	}
}

// ELIG-06 as far as the frozen contract tells: a call of a tool that was not granted.
func TestCallOutsideTheGrants(t *testing.T) {
	h := openHeld(t, "2.55.0")
	r := h.edit(t, "/contract/grants", set(`["list_files","run_command"]`)).run(t)
	wantHolds(t, "grants", r, "call_not_granted")
	wantDetail(t, "grants", r, "call_not_granted", "positions", "[0]")
}

// ELIG-07 to ELIG-09 by many texts: what is no object, what the schema rejects, what the validator accepts; the rest continues.
func TestQueries(t *testing.T) {
	h := openHeld(t, "2.55.0")
	for query, want := range map[string][]string{
		``: {"query_not_object"}, `{`: {"query_not_object"}, `null`: {"query_not_object"}, `[]`: {"query_not_object"}, `"{}"`: {"query_not_object"},
		`{"kind":"build_log","target":"x"} x`: {"query_not_object"},
		`{"kind":NaN,"target":"x"}`:           {"query_not_object"},
		`{}`:                                  {"query_outside_schema"},
		`{"kind":"build_log"}`:                {"query_outside_schema"},
		`{"kind":"other","target":"x"}`:       {"query_outside_schema"},
		`{"kind":"build_log","target":"x","page_size":"25"}`:             {"query_outside_schema"},
		`{"kind":"build_log","target":"x","page_size":101}`:              {"query_outside_schema"},
		`{"kind":"build_log","target":"x","more":1}`:                     {"query_outside_schema"},
		`{"kind":"build_log","target":"x"}`:                              {"query_valid"},
		`{"target":"x","kind":"build_log","page_size":10}`:               {"query_valid"},
		`{"kind":"build_log","target":"x","page_size":25,"page_size":5}`: {"query_valid"},
		`{"kind":"build_log","target":"x","page_size":25}`:               {},
		`{"kind":"build_log","target":"x","page_size":5.0}`:              {}, // an integer to the schema, none to the strict validator
		`{"kind":"build_log","target":"","page":1}`:                      {},
		`{"kind":"build_log","target":"x","page":1001}`:                  {},
		`{"kind":"build_log","target":"x","contains":""}`:                {},
	} {
		r := h.query(t, query).run(t)
		if len(want) > 0 {
			wantHolds(t, query, r, want...)
			continue
		}
		if len(r.Result.Holds) > 0 || r.Result.Version != 1 {
			t.Errorf("%s: %s", query, canonHolds(r.Result.Holds))
			continue
		}
		// OBS-20: the arguments stand in the derived history as the model wrote them.
		messages := tree(t, r.Derived).Get("history").Items
		if got := messages[len(messages)-2].Get("parts").Items[0].Get("args").Text; got != query {
			t.Errorf("%s became %s", query, got)
		}
	}
	// A frozen schema without a verdict accepts nothing.
	r := h.edit(t, "/contract/tools/2/parameters_json_schema/unevaluatedProperties", set("false")).run(t)
	wantHolds(t, "schema", r, "query_outside_schema")
	wantDetail(t, "schema", r, "query_outside_schema", "reason", `"schema_without_verdict"`)
}

// OBS-01, O7: version 2 has one sibling or more and not more than the constant.
func TestNumberOfObservations(t *testing.T) {
	h := openHeld(t, "2.55.0")
	for _, n := range []int{1, MaxObservations, MaxObservations + 1} {
		many := h
		many.response = pyjson.Encode(edit(tree(t, h.response), "/choices/0/message/tool_calls", func(v *pyjson.Value) *pyjson.Value {
			out := pyjson.NewArray(v.Items...)
			for i := range n {
				out.Items = append(out.Items, tree(t, []byte(`{"id":"call_x`+itoa(i)+`","type":"function","function":{"name":"list_files","arguments":"{\"path\":\".\"}"}}`)))
			}
			return out
		}))
		r := many.run(t)
		if n > MaxObservations {
			wantHolds(t, "too many", r, "sibling_unsupported")
			continue
		}
		if len(r.Result.Holds) > 0 || r.Result.Version != 2 || len(r.Result.Closing) != n+1 {
			t.Errorf("%d: %+v", n, r.Result)
		}
		if got := tree(t, r.Derived).At("usage", "tool_calls").Text; got != itoa(15+n+1) { // OBS-22
			t.Errorf("%d siblings: tool_calls %s", n, got)
		}
	}
}

// REC-01: what the parser rejects is response_unparsable.
func TestUnparsableResponses(t *testing.T) {
	h := openHeld(t, "2.55.0")
	whole := h.response
	for what, body := range map[string][]byte{
		"cut": whole[:len(whole)/2], "empty": nil, "html": []byte("<html></html>"), "error": []byte(`{"error":{"message":"x"}}`),
		"two values": append(bytes.Clone(whole), whole...), "no choices": []byte(`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[]}`),
		"repeated member": bytes.Replace(whole, []byte(`"model"`), []byte(`"model":"a","model"`), 1),
	} {
		h.response = body
		r := h.run(t)
		wantHolds(t, what, r, "response_unparsable")
		if r.Result.Served != 1 {
			t.Errorf("%s: served %d", what, r.Result.Served)
		}
	}
	h.response = whole
	wantHolds(t, "another provider", h.edit(t, "/contract/model/provider", set(`"anthropic"`)).run(t), "response_unparsable")
}

// SDK-24: of faults in several steps the earliest one shows, alone.
func TestEarlierFaultsHideLaterOnes(t *testing.T) {
	h := openHeld(t, "2.55.0")
	steps := []struct {
		code  string
		fault func(held) held
	}{
		{"record_out_of_bounds", func(h held) held { h.checkpoint = bytes.Repeat([]byte(" "), MaxRecordBytes+1); return h }},
		{"checkpoint_not_canonical", func(h held) held { h.checkpoint = append(bytes.Clone(h.checkpoint), ' '); return h }},
		{"checkpoint_field_unknown", func(h held) held { return h.edit(t, "/state/more", set("1")) }},
		{"runtime_unregistered", func(h held) held { h.params.Runtime = zeros; return h }},
		{"response_unparsable", func(h held) held { h.response = []byte("{"); return h }},
		{"response_content_unsupported", func(h held) held { return h.variant(t, "content-audio") }},
		{"evidence_call_not_single", func(h held) held { return h.variant(t, "two-evidence-calls") }},
		{"query_outside_schema", func(h held) held { return h.variant(t, "query-outside-schema") }},
		{"query_valid", func(h held) held { return h.variant(t, "query-valid") }},
		{"contract_changed", func(h held) held { return h.edit(t, "/contract/tools/2/description", set(`"x"`)) }},
	}
	for i, early := range steps {
		wantHolds(t, early.code, early.fault(h).run(t), early.code)
		for _, late := range steps[i+1:] {
			both := early.fault(late.fault(h))
			if i >= 4 && late.code != "contract_changed" {
				continue // both change the response
			}
			wantHolds(t, early.code+" and "+late.code, both.run(t), early.code)
		}
	}
}

// REC-12: only the instant of consumption and the stored identifiers decide the new metadata.
func TestNewMetadata(t *testing.T) {
	h := openHeld(t, "2.55.0")
	base := tree(t, h.run(t).Derived)
	h.params.ConsumedAtUS = 1700000000000000
	later := tree(t, h.run(t).Derived)
	if d := diffs(base, later); !slices.Equal(d, []string{"/compatibility/consumed_at", "/history/15/timestamp", "/history/16/parts/0/timestamp", "/history/16/timestamp"}) {
		t.Errorf("changed %v", d)
	}
	if got := later.Get("history").Items[15].Get("timestamp").Text; got != "2023-11-14T22:13:20Z" {
		t.Errorf("timestamp %s", got)
	}
	last := tree(t, h.checkpoint).Get("history").Items[14]
	for _, i := range []int{15, 16} {
		for _, name := range []string{"run_id", "conversation_id"} {
			if !pyjson.Equal(later.Get("history").Items[i].Get(name), last.Get(name)) {
				t.Errorf("message %d has another %s", i, name)
			}
		}
	}
}

// REC-05, ROBS-33's kind of check for version 2: the appended results are in the bytes of the next request, and those bytes are
// output only.
func TestNextRequestShowsTheResults(t *testing.T) {
	r := openHeld(t, "2.55.0").variant(t, "sibling-list-files").run(t)
	for _, text := range []string{`"content":"{\"reason\":\"original_read_result_not_retained\",\"status\":\"observation_unavailable\"}"`, `"content":"{\"status\":\"invalid_query\"}"`} {
		if n := bytes.Count(r.NextRequest, []byte(text)); n != 1 {
			t.Errorf("%s stands %d times in the next request", text, n)
		}
	}
}

// A request that this module does not render is held; what it would send is never guessed.
func TestRequestThatIsNotRendered(t *testing.T) {
	h := openHeld(t, "2.55.0")
	for path, value := range map[string]string{
		"/contract/output/output_mode":            `"native"`,
		"/contract/model/settings/thinking":       `"high"`,
		"/contract/tools/0/defer_loading":         `true`,
		"/history/0/parts/0/content":              `[{"kind":"cache-point","ttl":"5m"}]`,
		"/contract/model/settings/extra_body":     `{"a":1}`,
		"/contract/output/allow_image_output":     `true`,
		"/contract/tools/0/include_return_schema": `true`,
	} {
		r := h.edit(t, path, set(value)).run(t)
		wantHolds(t, path, r, "sandbox_stopped")
		wantDetail(t, path, r, "sandbox_stopped", "reason", `"request_not_rendered"`)
	}
}

// Nothing of a run's content is in the result: not from texts, names, ids or arguments, not through a hold.
func TestResultCarriesNoContent(t *testing.T) {
	const marker = "planted marker ✗ 7f3a"
	h := openHeld(t, "2.55.0")
	check := func(what string, h held) {
		r, refused := Reconstruct(loadCatalogue(t), h.checkpoint, h.response, h.params)
		text := ""
		if refused != nil {
			text = refused.Code + string(refused.Details)
		} else {
			text = string(canon.MustMarshal(r.Result))
		}
		for _, bad := range []string{marker, "planted", "7f3a", "command_output", "nightly"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s: the result carries %q: %s", what, bad, text)
			}
		}
	}
	planted := `"` + marker + `"`
	for _, name := range append(sortedVariants(), "") {
		v := h
		if name != "" {
			v = h.variant(t, name)
		}
		check(name, v)
		if name != "" && !slices.Contains([]string{"siblings-list-files", "reasoning-and-call", "custom-tool-call"}, name) {
			continue
		}
		root := tree(t, v.response)
		walk(root, "", func(path string, value *pyjson.Value) {
			if path == "" {
				return
			}
			changed := v
			changed.response = pyjson.Encode(edit(root, path, set(planted)))
			check(name+path, changed)
			if value.Kind == pyjson.Object {
				changed.response = pyjson.Encode(edit(root, path, func(v *pyjson.Value) *pyjson.Value { return v.With(marker, pyjson.NewString(marker)) }))
				check(name+path+" name", changed)
			}
		})
	}
	root := tree(t, h.checkpoint)
	n := 0
	walk(root, "", func(path string, value *pyjson.Value) {
		if path == "" || strings.Contains(path, "/history/") && !strings.HasPrefix(path, "/history/1/") && !strings.HasPrefix(path, "/history/2/") {
			return // messages of one shape say the same
		}
		n++
		changed := h
		changed.checkpoint = pyjson.Encode(edit(root, path, set(planted)))
		check(path, changed)
		if value.Kind == pyjson.Object {
			changed.checkpoint = pyjson.Encode(edit(root, path, func(v *pyjson.Value) *pyjson.Value { return v.With(marker, pyjson.NewString(marker)) }))
			check(path+" name", changed)
		}
	})
	t.Logf("%d places of the checkpoint", n)
}

func sortedVariants() []string {
	var names []string
	for name := range variants {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Whatever one change does to a record or a response, the answer is holds or a whole reconstruction, and the same one each time.
func oneChange(t *rapid.T) {
	h, err := readHeld(rapid.SampledFrom(recordingVersions).Draw(t, "version"))
	if err != nil {
		t.Fatal(err)
	}
	target := &h.checkpoint
	if rapid.Bool().Draw(t, "response") {
		target = &h.response
	}
	root, err := pyjson.Parse(*target, recordLimits)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	walk(root, "", func(path string, _ *pyjson.Value) { paths = append(paths, path) })
	path := rapid.SampledFrom(paths).Draw(t, "path")
	value := rapid.SampledFrom([]string{"null", "true", "0", "-1", "1.5", `""`, `"x"`, "[]", "{}", `[{}]`, `{"a":1}`, "9223372036854775807"}).Draw(t, "value")
	with := set(value)
	if path != "" && rapid.Bool().Draw(t, "delete") && !regexp.MustCompile(`/\d+$`).MatchString(path) {
		with = remove
	}
	*target = pyjson.Encode(edit(root, path, with))
	c, err := LoadCatalogue(catalogueBytes())
	if err != nil {
		t.Fatal(err)
	}
	first, refused := Reconstruct(c, h.checkpoint, h.response, h.params)
	if refused != nil {
		t.Fatalf("refused %s %s", refused.Code, refused.Details)
	}
	if (len(first.Result.Holds) == 0) != (first.Derived != nil && first.Witness != nil && first.Contract != nil && first.NextRequest != nil) {
		t.Fatalf("%+v", first.Result)
	}
	if len(first.Result.Holds) == 0 {
		if first.Result.Served != 1 || first.Result.Version == 0 || first.Result.FixedOutcomes != 1 {
			t.Fatalf("%+v", first.Result)
		}
		if _, holds := ParseCheckpoint(first.Derived, c); len(holds) > 0 {
			t.Fatalf("derived record: %s", canonHolds(holds))
		}
	}
	again, _ := Reconstruct(c, h.checkpoint, h.response, h.params)
	if !bytes.Equal(again.Derived, first.Derived) || !bytes.Equal(again.Witness, first.Witness) {
		t.Fatal("another answer")
	}
}

func TestOneChange(t *testing.T) { rapid.Check(t, oneChange) }

func FuzzOneChange(f *testing.F) { f.Fuzz(rapid.MakeFuzz(oneChange)) }
