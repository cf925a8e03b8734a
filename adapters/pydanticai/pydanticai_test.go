package pydanticai

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forge-continuity/forge/adapters/pyjson"
	"pgregory.net/rapid"
)

var wide = pyjson.Limits{Bytes: 1 << 24, Depth: 128, Nodes: 1 << 20}

func parse(t testing.TB, text string) *pyjson.Value {
	t.Helper()
	v, err := pyjson.Parse([]byte(text), wide)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func base(t testing.TB, v Version) *pyjson.Value {
	b, err := os.ReadFile(filepath.Join("testdata", "base-"+string(v)+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(b))
}

var counters = Counters{
	Mandatory: []string{"input_tokens", "cache_write_tokens", "cache_read_tokens", "output_tokens", "input_audio_tokens",
		"cache_audio_read_tokens", "output_audio_tokens"},
	Permitted:        []string{"output_reasoning_tokens", "cache_write_1h_tokens"},
	DetailsPermitted: []string{"reasoning_tokens"},
}

func problems(v Version, kind string, value *pyjson.Value) []Problem {
	switch kind {
	case "history":
		return CheckHistory(v, value, "")
	case "run_usage":
		return CheckUsage(v, value, true, counters, "")
	case "limits":
		return CheckLimits(v, value, "")
	}
	return CheckTool(v, value, "")
}

// change returns a copy of root in which fn replaced the value at the path; fn gets nil for an absent one and returns nil to
// delete.
func change(root *pyjson.Value, path string, fn func(*pyjson.Value) *pyjson.Value) *pyjson.Value {
	if path == "" {
		return fn(root)
	}
	step, rest, found := strings.Cut(path[1:], "/")
	if found {
		rest = "/" + rest
	}
	step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
	if root.Kind == pyjson.Array {
		out := pyjson.NewArray(append([]*pyjson.Value{}, root.Items...)...)
		for i := range out.Items {
			if itoa(i) == step {
				out.Items[i] = change(out.Items[i], rest, fn)
			}
		}
		return out
	}
	if v := change(root.Get(step), rest, fn); v != nil {
		return root.With(step, v)
	}
	return root.Without(step)
}

// SDK-06, SDK-18: whatever the real SDK would refuse or write back otherwise has a problem here. What the SDK keeps may be
// refused here only in the places listed, where this package is stricter on purpose.
func TestVerdictsOfTheSDK(t *testing.T) {
	for _, version := range []Version{V2550, V2580} {
		texts := base(t, version)
		for _, m := range texts.Members {
			if p := problems(version, m.Name, m.Value); len(p) > 0 {
				t.Fatalf("%s %s: %v", version, m.Name, p)
			}
		}
		f, err := os.Open(filepath.Join("testdata", "verdicts-"+string(version)+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(f)
		n := 0
		for lines.Scan() {
			var place struct {
				Kind  string   `json:"kind"`
				Path  string   `json:"path"`
				Same  []string `json:"same"`
				Other []string `json:"other"`
			}
			if err := json.Unmarshal(lines.Bytes(), &place); err != nil {
				t.Fatal(err)
			}
			for i, op := range append(place.Same, place.Other...) {
				changed := change(texts.Get(place.Kind), place.Path, func(v *pyjson.Value) *pyjson.Value {
					switch op {
					case "delete":
						return nil
					case "add":
						return v.With("zz_added", pyjson.NewInt(1))
					}
					return parse(t, op)
				})
				n++
				found := problems(version, place.Kind, changed)
				same := i < len(place.Same)
				if !same && len(found) == 0 {
					t.Errorf("%s %s%s %s: the SDK does not keep it, no problem found", version, place.Kind, place.Path, op)
				}
				if same && len(found) > 0 && !stricter(place.Kind, place.Path, op) {
					t.Errorf("%s %s%s %s: the SDK keeps it, but %v", version, place.Kind, place.Path, op, found)
				}
			}
		}
		f.Close()
		if lines.Err() != nil || n < 5000 {
			t.Fatalf("%d changes, %v", n, lines.Err())
		}
	}
}

// stricter lists where a text that the SDK keeps is refused.
func stricter(kind, path, op string) bool {
	switch {
	case kind == "run_usage": // SDK-20 to 23: bounds and the list of counters are the catalogue's, not the SDK's
		return true
	case strings.HasPrefix(path, "/2/parts/0/content/a/0"): // half a file in a tool result stays a plain object in the SDK
		return true
	case strings.HasSuffix(path, "/media_type") && op == `""`:
		return true
	case strings.HasSuffix(path, "/tool_kind"): // 2.58.0 lets applications register kinds, which are not known here
		return true
	case path == "/2/parts/4/outcome" || path == "/2/parts/5/outcome":
		return true
	}
	return false
}

// FormatInstant writes what the standard library writes in pydantic's form, and what it writes is an instant.
func formatInstant(t *rapid.T) {
	us := rapid.Int64Range(MinInstantUS, MaxInstantUS).Draw(t, "us")
	if rapid.Bool().Draw(t, "whole") {
		us -= us % 1000000
	}
	layout := "2006-01-02T15:04:05.000000Z"
	if us%1000000 == 0 {
		layout = "2006-01-02T15:04:05Z"
	}
	got := FormatInstant(us)
	if want := time.UnixMicro(us).UTC().Format(layout); got != want {
		t.Fatalf("%d: got %s want %s", us, got, want)
	}
	if !isInstant(got) {
		t.Fatalf("%s is not an instant", got)
	}
}

func TestFormatInstant(t *testing.T) { rapid.Check(t, formatInstant) }

func FuzzFormatInstant(f *testing.F) { f.Fuzz(rapid.MakeFuzz(formatInstant)) }

// OBS-21, OBS-22, SDK-21: a response and its calls are added once, as RunUsage.incr adds them; parts do not flow into parents.
func TestAddUsageAsTheSDK(t *testing.T) {
	for _, version := range []Version{V2550, V2580} {
		f, err := os.Open(filepath.Join("testdata", "adds-"+string(version)+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(f)
		n := 0
		for ; lines.Scan(); n++ {
			v := parse(t, lines.Text())
			before := pyjson.Encode(v)
			got, problem := AddUsage(v.Get("run"), v.Get("request"), 2)
			if problem != nil || !pyjson.Equal(got, v.Get("sum")) {
				t.Errorf("%s %s: %v %v", version, lines.Text(), problem, pyjson.Diff(got, v.Get("sum"), 3))
			}
			if string(pyjson.Encode(v)) != string(before) {
				t.Fatal("the inputs changed")
			}
		}
		f.Close()
		if lines.Err() != nil || n != 100 {
			t.Fatalf("%d lines, %v", n, lines.Err())
		}
	}
}

func TestAddUsageRefusesOverflow(t *testing.T) {
	usage := base(t, V2550).Get("run_usage").With("output_tokens", pyjson.NewInt(1<<63-1))
	request := NewRequestUsage(V2550, []pyjson.Member{{Name: "output_tokens", Value: pyjson.NewInt(1)}}, nil)
	if _, problem := AddUsage(usage, request, 0); problem == nil || *problem != (Problem{CounterOutOfBounds, "/output_tokens"}) {
		t.Fatalf("got %v", problem)
	}
}

// SDK-20, SDK-22, SDK-23, CRED-07.
func TestCounters(t *testing.T) {
	usage := base(t, V2550).Get("run_usage").With("cache_write_tokens", pyjson.NewInt(4)).With("cache_write_1h_tokens", pyjson.NewInt(4))
	if p := CheckUsage(V2550, usage, true, counters, ""); len(p) > 0 {
		t.Fatal(p)
	}
	for _, name := range []string{"output_reasoning_tokens", "cache_write_1h_tokens", "input_tokens", "requests", "tool_calls"} {
		for _, text := range []string{"1.0", `"1"`, "true", "-1", "9223372036854775808", "1e0", "null"} {
			want := []Problem{{CounterOutOfBounds, "/" + name}}
			if got := CheckUsage(V2550, usage.With(name, parse(t, text)), true, counters, ""); len(got) != 1 || got[0] != want[0] {
				t.Errorf("%s %s: %v", name, text, got)
			}
		}
	}
	for name, want := range map[string]Problem{
		"output_reasoning_tokens": {CounterOutOfBounds, "/output_reasoning_tokens"}, // above output_tokens
		"cache_write_1h_tokens":   {CounterOutOfBounds, "/cache_write_1h_tokens"},   // above cache_write_tokens
		"web_searches":            {CounterUnknown, "/web_searches"},
	} {
		if got := CheckUsage(V2550, usage.With(name, pyjson.NewInt(6)), true, counters, ""); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	for _, name := range append(append([]string{}, counters.Mandatory...), "requests", "tool_calls") {
		if got := CheckUsage(V2550, usage.Without(name), true, counters, ""); len(got) == 0 || got[0] != (Problem{CounterMissing, "/" + name}) {
			t.Errorf("%s: %v", name, got)
		}
	}
	for _, name := range counters.Permitted { // absent stays absent
		if got := CheckUsage(V2550, usage.Without(name), true, counters, ""); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	details := usage.Get("details").With("odd_tokens", pyjson.NewInt(1))
	if got := CheckUsage(V2550, usage.With("details", details), true, counters, ""); len(got) != 1 || got[0] != (Problem{CounterUnknown, fmt.Sprint("/details/member-", len(details.Members)-1)}) {
		t.Errorf("details: %v", got)
	}
	if got := CheckUsage(V2550, usage, false, counters, ""); len(got) != 2 {
		t.Errorf("a request has no requests and tool_calls: %v", got)
	}
}

// What the builders write is what the SDK of that version keeps, to the member.
func TestBuiltMessagesAreWholeMessages(t *testing.T) {
	for _, version := range []Version{V2550, V2580} {
		s := pyjson.NewString
		response := NewResponse(version, Response{
			Parts: []*pyjson.Value{TextPart("a"), ThinkingPart("b", "reasoning", "openai"), ToolCallPart("t", "{}", "id")},
			Usage: NewRequestUsage(version, []pyjson.Member{{Name: "input_tokens", Value: pyjson.NewInt(1)}}, nil), ModelName: "m",
			AtUS: 1, ProviderName: "openai", FinishReason: "tool_call", RunID: s("r"), ConversationID: s("c"),
		})
		request := NewRequest([]*pyjson.Value{ToolReturnPart("t", "id", pyjson.NewObject(), "success", 1)}, 2, pyjson.NewNull(), s("r"), s("c"))
		history := pyjson.NewArray(response, request)
		if p := CheckHistory(version, history, ""); len(p) > 0 {
			t.Errorf("%s: %v", version, p)
		}
		other := map[Version]Version{V2550: V2580, V2580: V2550}[version]
		if p := CheckHistory(other, history, ""); len(p) == 0 {
			t.Errorf("%s: passes as %s too", version, other)
		}
		if calls := Calls(response, 0); len(calls) != 1 || calls[0].ID != "id" || calls[0].Part != 2 {
			t.Errorf("%v", calls)
		}
	}
}

// Unknown kinds and members are refused by path, in either version.
func TestUnknownIsNamed(t *testing.T) {
	for _, version := range []Version{V2550, V2580} {
		history := base(t, version).Get("history")
		for path, want := range map[string]Problem{
			"/0/kind":                       {UnknownKind, "/0/kind"},
			"/0/parts/0/part_kind":          {UnknownKind, "/0/parts/0/part_kind"},
			"/0/parts/1/content/2/kind":     {UnknownKind, "/0/parts/1/content/2/kind"},
			"/1/parts/0/part_kind":          {UnknownKind, "/1/parts/0/part_kind"},
			"/1/zz~1z":                      {UnknownMember, "/1/zz~1z"},
			"/1/parts/2/zz":                 {UnknownMember, "/1/parts/2/zz"},
			"/2/parts/0/content/a/0/zz":     {Lost, "/2/parts/0/content"}, // names inside are content
			"/1/usage/total_tokens":         {UnknownMember, "/1/usage/total_tokens"},
			"/1/failed_attempts/0/zz":       {UnknownMember, "/1/failed_attempts/0/zz"},
			"/0/parts/1/content/1/metadatA": {UnknownMember, "/0/parts/1/content/1/metadatA"},
		} {
			changed := change(history, path, func(*pyjson.Value) *pyjson.Value { return pyjson.NewString("new-kind") })
			if got := CheckHistory(version, changed, ""); len(got) != 1 || got[0] != want {
				t.Errorf("%s %s: %v", version, path, got)
			}
		}
	}
}
