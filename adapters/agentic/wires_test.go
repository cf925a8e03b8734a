package agentic

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forge-continuity/forge/adapters/pyjson"
)

// wireCase is one file of fixtures/wires: a held turn on one wire, recorded with the real SDK and the provider's own client.
type wireCase struct {
	Checkpoint json.RawMessage `json:"checkpoint"`
	ConsumedAt time.Time       `json:"consumed_at"`
	Derived    struct {
		History json.RawMessage `json:"history"`
		Usage   json.RawMessage `json:"usage"`
	} `json:"derived"`
	How      string `json:"how"`
	Next     string `json:"next_b64"`
	Response string `json:"response_b64"`
	Wire     string `json:"wire_b64"`
}

// openWire reads a case as the input of a reconstruction, of the registered source whose environment has every provider's client.
func openWire(t *testing.T, file string) (held, wireCase) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var c wireCase
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		t.Fatal(err)
	}
	h := openHeld(t, "2.55.0")
	root := tree(t, h.checkpoint)
	for _, m := range tree(t, c.Checkpoint).Members {
		root = root.With(m.Name, m.Value)
	}
	for _, s := range loadCatalogue(t).Sources {
		if s.DependencyEpoch == "agentic-26.10.1/pydantic-ai-2.55.0-providers" && s.PromptCatalog.Version == "1.0.0" {
			root = root.With("source_identity", pyjson.NewString(s.Identity)).With("dependency_epoch", pyjson.NewString(s.DependencyEpoch))
			h.params.Runtime = s.Runtime
		}
	}
	root = pyjson.Sorted(root)
	h.checkpoint, h.response = pyjson.Encode(root), decode64(t, c.Response)
	h.closed = Closure{Contract: pyjson.Encode(root.Get("contract")), Wire: decode64(t, c.Wire)}
	h.params.ConsumedAtUS = c.ConsumedAt.UnixMicro()
	count := func(name string) int64 { n, _ := root.At("usage", name).Int(); return n }
	rounds, _ := root.At("state", "completed_rounds").Int()
	h.params.Before = Before{CompletedRounds: rounds, InputTokens: count("input_tokens"), OutputTokens: count("output_tokens"), Requests: count("requests"), ToolCalls: count("tool_calls")}
	return h, c
}

func decode64(t *testing.T, text string) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (h held) runClosed(t *testing.T) *Reconstruction {
	t.Helper()
	r, refused := ReconstructWith(loadCatalogue(t), h.checkpoint, h.response, &h.closed, nil, h.params)
	if refused != nil {
		t.Fatalf("refused: %s %s", refused.Code, refused.Details)
	}
	return r
}

// A held turn on each wire, streamed and not, is continued with the message, the usage and the next request that the real SDK makes
// of it; the request before it is the one that was sent. REC-01, REC-05, SDK-06 as far as the wires go.
func TestEveryWire(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "fixtures", "wires", "*", "*.json"))
	if err != nil || len(files) < 14 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			h, c := openWire(t, file)
			r := h.runClosed(t)
			if len(r.Result.Holds) > 0 {
				t.Fatal(canonHolds(r.Result.Holds))
			}
			derived := tree(t, r.Derived)
			if d := diffs(pyjson.Sorted(tree(t, c.Derived.History)), derived.Get("history")); len(d) > 0 {
				t.Errorf("history differs from the SDK's at %v", d)
			}
			if d := diffs(tree(t, c.Derived.Usage), derived.Get("usage")); len(d) > 0 {
				t.Errorf("usage differs from the SDK's at %v", d)
			}
			want, m := decode64(t, c.Next), readModel(derived.Get("contract"))
			if !sentAs(m, r.NextRequest, want) {
				t.Errorf("next request differs from the SDK's at %v", diffs(pyjson.Respelled(tree(t, want)), tree(t, r.NextRequest)))
			}
			result, wire, refused := Reproduce(loadCatalogue(t), h.checkpoint)
			if refused != nil || len(result.Holds) > 0 || !sentAs(m, wire, h.closed.Wire) || result.SHA256 != sha256Hex(wire) || result.Length != int64(len(wire)) {
				t.Errorf("reproduced %+v", result)
			}
			if result.Exact != bytes.Equal(wire, h.closed.Wire) || result.Exact != (m.wire == wireChat && m.provider == "openai") {
				t.Errorf("%s says exact %v", m.wire, result.Exact)
			}
			// A request with one other value is not the one that was sent.
			other := h
			other.closed.Wire = bytes.Replace(other.closed.Wire, []byte("nightly build"), []byte("nightly built"), 1)
			wantHolds(t, "another wire", other.runClosed(t), "closure_incomplete")
		})
	}
}

// Wires that are not spoken here are refused by their name, before anything is served; so is a model whose profile is not known.
func TestWiresThatAreRefused(t *testing.T) {
	h := openHeld(t, "2.55.0")
	model := func(edits ...string) held {
		out := h
		for i := 0; i < len(edits); i += 2 {
			out = out.edit(t, "/contract/model/"+edits[i], set(edits[i+1]))
		}
		return out
	}
	for _, c := range []struct {
		h            held
		wire, reason string
	}{
		{model("provider", `"cohere"`), "cohere", "wire_not_supported"},
		{model("wire", `"cohere"`), "cohere", "wire_not_supported"},
		{model("provider", `"xai"`), "xai", "wire_not_supported"},
		{model("provider", `"Content of a run"`), "~", "wire_not_supported"},
		{model("provider", `"anthropic"`), "anthropic", "model_without_profile"},
		{model("wire", `"openai-responses"`), "openai-responses", "model_without_profile"},
		{model("provider", `"bedrock"`, "stream", "true"), "bedrock", "model_without_profile"},
	} {
		r := c.h.run(t)
		wantHolds(t, c.wire, r, "response_unparsable")
		wantDetail(t, c.wire, r, "response_unparsable", "wire", `"`+c.wire+`"`)
		wantDetail(t, c.wire, r, "response_unparsable", "reason", `"`+c.reason+`"`)
		if r.Result.Served != 0 {
			t.Errorf("%s: served", c.wire)
		}
		if _, wire, _ := Reproduce(loadCatalogue(t), c.h.checkpoint); wire != nil {
			t.Errorf("%s: a request was rendered", c.wire)
		}
	}
	wantHolds(t, "no Boolean", model("stream", `"yes"`).run(t), "checkpoint_not_canonical")
	wantHolds(t, "no text", model("wire", `1`).run(t), "checkpoint_not_canonical")
}

// What a wire's answer has beside text, thoughts and calls is held by its kind, and an answer that was cut is not taken.
func TestContentOfOtherWires(t *testing.T) {
	for name, c := range map[string]struct {
		from, to string
		want     string
	}{
		"anthropic":          {`{"type": "text", "text": "I look at the rest.", "citations": null}`, `{"type": "redacted_thinking", "data": "x"}`, ""},
		"bedrock":            {`"text": "I look at the rest."`, `"guardContent": {"text": {"text": "x"}}`, "held"},
		"google":             {`"text": "I look at the rest."`, `"inlineData": {"mimeType": "image/png", "data": "aGk="}`, "held"},
		"openai-responses":   {`"output_text"`, `"output_audio"`, "held"},
		"anthropic-streamed": {`message_stop`, `message_stopp`, "held"},
		"google-streamed":    {"data: ", "dat: ", "held"},
	} {
		h, _ := openWire(t, filepath.Join("..", "..", "fixtures", "wires", "2.55.0", name+".json"))
		changed := bytes.Replace(h.response, []byte(c.from), []byte(c.to), 1)
		if bytes.Equal(changed, h.response) {
			t.Errorf("%s: %s is not in the answer: %s", name, c.from, h.response)
			continue
		}
		h.response = changed
		r := h.runClosed(t)
		held := len(r.Result.Holds) == 1 && (r.Result.Holds[0].Code == "response_content_unsupported" || r.Result.Holds[0].Code == "response_unparsable")
		if held != (c.want == "held") {
			t.Errorf("%s: %s", name, canonHolds(r.Result.Holds))
		}
	}
	h, _ := openWire(t, filepath.Join("..", "..", "fixtures", "wires", "2.55.0", "bedrock-streamed.json"))
	h.response = h.response[:len(h.response)-30]
	wantHolds(t, "cut stream", h.runClosed(t), "response_unparsable")
}
