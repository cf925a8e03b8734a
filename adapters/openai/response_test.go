package openai

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
)

var (
	wide     = pyjson.Limits{Bytes: 1 << 24, Depth: 128, Nodes: 1 << 20}
	versions = []pydanticai.Version{pydanticai.V2550, pydanticai.V2580}
)

// counters permits every name that the bodies in testdata lead to.
var counters = pydanticai.Counters{
	Permitted: []string{"input_tokens", "cache_write_tokens", "cache_read_tokens", "output_tokens", "input_audio_tokens",
		"cache_audio_read_tokens", "output_audio_tokens", "output_reasoning_tokens", "cache_write_1h_tokens"},
	DetailsPermitted: []string{"reasoning_tokens", "audio_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens", "odd",
		"text_tokens", "web", "flag"},
}

const official = "https://api.openai.com/v1/"

func parseJSON(t testing.TB, data []byte) *pyjson.Value {
	t.Helper()
	v, err := pyjson.Parse(data, wide)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// message is the response message without its local time, as the SDK's answers in testdata have it.
func message(v pydanticai.Version, r *Response, baseURL string) *pyjson.Value {
	return pydanticai.NewResponse(v, pydanticai.Response{
		Parts: r.Parts, Usage: r.Usage, ModelName: r.ModelName, ProviderName: ProviderName, ProviderURL: baseURL,
		ProviderDetails: r.ProviderDetails, ResponseID: r.ResponseID, FinishReason: r.FinishReason,
		RunID: pyjson.NewNull(), ConversationID: pyjson.NewNull(),
	}).Without("timestamp")
}

func replace(root *pyjson.Value, path string, value *pyjson.Value) *pyjson.Value {
	if path == "" {
		return value
	}
	step, rest, found := strings.Cut(path[1:], "/")
	if found {
		rest = "/" + rest
	}
	if root.Kind == pyjson.Array {
		out := pyjson.NewArray()
		for i, item := range root.Items {
			if itoa(i) == step {
				item = replace(item, rest, value)
			}
			if item != nil {
				out.Items = append(out.Items, item)
			}
		}
		return out
	}
	if v := replace(root.Get(step), rest, value); v != nil {
		return root.With(step, v)
	}
	return root.Without(step)
}

// REC-01: what this parser takes as supported is what the SDK makes of the body, to the member; what the SDK refuses is never
// taken. The SDK takes more: bodies that it coerces or drops parts of.
func TestResponsesOfTheSDK(t *testing.T) {
	for _, version := range versions {
		data := parseJSON(t, read(t, "responses-"+string(version)+".json"))
		taken, stricter := 0, 0
		for _, c := range data.Get("cases").Items {
			name, path, change := c.Items[0].Text, c.Items[1].Text, c.Items[2].Text
			index, _ := c.Items[3].Int()
			want := data.Get("results").Items[index]
			body := data.Get("bodies").Get(name)
			switch change {
			case "":
			case "delete":
				body = replace(body, path, nil)
			default:
				body = replace(body, path, parseJSON(t, []byte(change)))
			}
			r, err := Parse(version, official, pyjson.Encode(body))
			if err != nil || len(r.Unsupported) > 0 {
				if err == nil && want.Is(pyjson.Object) && onlyDropped(r) {
					// The parts are still the SDK's, so that a hold can show them.
					if d := pyjson.Diff(message(version, r, official), want, 1); len(d) > 0 {
						t.Errorf("%s %s%s %s: %v: %v", version, name, path, change, r.Unsupported, d)
					}
				}
				if want.Is(pyjson.Object) {
					stricter++
				}
				continue
			}
			taken++
			if !want.Is(pyjson.Object) {
				t.Errorf("%s %s%s %s: taken, the SDK answers %s", version, name, path, change, want.Text)
				continue
			}
			if d := pyjson.Diff(message(version, r, official), want, 3); len(d) > 0 && len(pydanticai.CheckUsage(version, r.Usage, false, counters, "")) == 0 {
				t.Errorf("%s %s%s %s: %v", version, name, path, change, d)
			}
		}
		t.Logf("%s: %d cases, %d taken, %d stricter than the SDK", version, len(data.Get("cases").Items), taken, stricter)
		if taken < 200 {
			t.Errorf("only %d cases taken", taken)
		}
	}
}

// onlyDropped reports whether the unsupported content is content that the SDK drops silently.
func onlyDropped(r *Response) bool {
	for _, u := range r.Unsupported {
		switch u.Kind {
		case "refusal", "audio", "function_call", "annotations", "choice", "reasoning", "member":
		default:
			return false
		}
	}
	return true
}

// ELIG-12: content that is not carried is named by kind and place.
func TestUnsupportedContentIsNamed(t *testing.T) {
	bodies := parseJSON(t, read(t, "responses-2.55.0.json")).Get("bodies")
	const msg = "/choices/0/message"
	for name, want := range map[string]Unsupported{
		"refusal": {msg + "/refusal", "refusal"}, "audio": {msg + "/audio", "audio"},
		"function_call": {msg + "/function_call", "function_call"}, "custom": {msg + "/tool_calls/0", "custom_tool_call"},
		"annotations": {msg + "/annotations", "annotations"}, "two choices": {"/choices/1", "choice"},
		"reasoning both": {msg + "/reasoning_content", "reasoning"}, "reasoning object": {msg + "/reasoning", "reasoning"},
	} {
		r, err := Parse(pydanticai.V2550, official, pyjson.Encode(bodies.Get(name)))
		if err != nil || len(r.Unsupported) != 1 || r.Unsupported[0] != want {
			t.Errorf("%s: %v %v", name, r, err)
		}
	}
	text := bodies.Get("text")
	// A name that the provider made up may say anything: its place stands for it.
	made := replace(text, "/patient_1234_is_ill", parseJSON(t, []byte(`"x"`)))
	if r, err := Parse(pydanticai.V2550, official, pyjson.Encode(made)); err != nil || len(r.Unsupported) != 1 ||
		!strings.HasPrefix(r.Unsupported[0].Path, "/member-") || r.Unsupported[0].Kind != "member" {
		t.Errorf("a made-up name: %v %v", r, err)
	}
	for path, kind := range map[string]string{
		msg + "/images": "member", "/choices/0/content_filter_results": "member", "/citations": "member", "/moderation": "moderation",
		"/choices/0/logprobs": "logprobs",
	} {
		r, err := Parse(pydanticai.V2550, official, pyjson.Encode(replace(text, path, parseJSON(t, []byte(`[{"a":1}]`)))))
		if err != nil || len(r.Unsupported) != 1 || r.Unsupported[0] != (Unsupported{path, kind}) {
			t.Errorf("%s: %v %v", path, r, err)
		}
		for _, harmless := range []string{"null", "5", "false", "[]", `""`} {
			if strings.HasSuffix(path, "logprobs") || strings.HasSuffix(path, "moderation") {
				continue
			}
			if r, err := Parse(pydanticai.V2550, official, pyjson.Encode(replace(text, path, parseJSON(t, []byte(harmless))))); err != nil || len(r.Unsupported) > 0 {
				t.Errorf("%s %s: %v %v", path, harmless, r, err)
			}
		}
	}
	if r, err := Parse(pydanticai.V2550, "https://api.x.ai/v1/", pyjson.Encode(text)); err != nil || len(r.Unsupported) != 1 || r.Unsupported[0].Kind != "provider_url" {
		t.Errorf("usage rules of another provider: %v %v", r, err)
	}
}

// REC-01: a text that was cut, repeats a member or is no JSON gives an error, never a response.
func TestBrokenBodies(t *testing.T) {
	body := pyjson.Encode(parseJSON(t, read(t, "responses-2.55.0.json")).Get("bodies").Get("calls"))
	for i := range body {
		if _, err := Parse(pydanticai.V2550, official, body[:i]); err == nil {
			t.Fatalf("taken when cut at %d", i)
		}
	}
	for _, text := range []string{
		strings.Replace(string(body), `"id":"chatcmpl-1"`, `"id":"chatcmpl-1","id":"chatcmpl-2"`, 1),
		strings.Replace(string(body), `"arguments":`, `"arguments":"{}","arguments":`, 1),
		string(body) + "{}", "\ufeff" + string(body), "<html>", "", "null", "[]", `"x"`,
	} {
		var parse *ParseError
		if _, err := Parse(pydanticai.V2550, official, []byte(text)); !errors.As(err, &parse) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, m := range parseJSON(f, read(f, "responses-2.55.0.json")).Get("bodies").Members {
		f.Add(pyjson.Encode(m.Value))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, version := range versions {
			r, err := Parse(version, official, body)
			if err != nil || len(r.Unsupported) > 0 {
				continue
			}
			m := message(version, r, official).With("timestamp", pyjson.NewString(pydanticai.FormatInstant(0)))
			for _, problem := range pydanticai.CheckHistory(version, pyjson.NewArray(m), "") {
				if !strings.HasPrefix(problem.Path, "/0/usage") {
					t.Fatalf("%q: %v", body, problem)
				}
			}
		}
	})
}
