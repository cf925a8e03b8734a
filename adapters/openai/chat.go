package openai

import (
	_ "embed"
	"strings"
	"sync"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/adapters/wire"
)

//go:embed chat.shapes
var chatShapesText string

var chatShapes = sync.OnceValue(func() *wire.Shapes { return wire.ParseShapes(chatShapesText) })

// dialect is what sets providers apart that are read by OpenAIChatModel or a model derived from it.
type dialect struct {
	finish     map[string]string // raw reasons and the SDK's word
	openrouter bool
}

var dialects = map[string]dialect{
	"openrouter": {finish: map[string]string{"stop": "stop", "length": "length", "tool_calls": "tool_call", "content_filter": "content_filter", "error": "error"}, openrouter: true},
	"zai": {finish: map[string]string{"stop": "stop", "length": "length", "tool_calls": "tool_call", "content_filter": "content_filter", "function_call": "tool_call",
		"sensitive": "content_filter", "model_context_window_exceeded": "length", "network_error": "error"}},
	"": {finish: map[string]string{"stop": "stop", "length": "length", "tool_calls": "tool_call", "content_filter": "content_filter", "function_call": "tool_call"}},
}

func dialectOf(provider string) dialect {
	if d, ok := dialects[provider]; ok {
		return d
	}
	return dialects[""]
}

// ParseChat reads a chat completion, not streamed, of any provider that the SDK reads by OpenAIChatModel: OpenAI and its
// imitators, OpenRouter, Z.AI, Ollama. Parse is the same for OpenAI alone, in the form that continuity holds on. The error is
// a *wire.Error.
func ParseChat(o wire.Options, body []byte) (*wire.Response, error) {
	v, dropped, err := checkedChat(body)
	if err != nil {
		return nil, err
	}
	d := dialectOf(o.Provider)
	ids := o.NewIDs()
	p := chatParser{o: o, d: d, ids: ids, dropped: dropped}
	choice := wire.Items(v, "choices")[0]
	message := choice.Get("message")
	if wire.Present(v, "moderation") != nil {
		return nil, wire.Fail(wire.Unsupported, "/moderation", "moderation")
	}
	raw, finish := wire.TextOf(choice, "finish_reason"), "stop"
	if m := wire.Present(choice, "finish_reason"); m != nil {
		var ok bool
		if finish, ok = d.finish[raw]; !ok {
			return nil, wire.Fail(wire.Kind, "/choices/0/finish_reason", "finish reason")
		}
	}
	details := pyjson.NewObject()
	if lp := wire.Items(choice.Get("logprobs"), "content"); len(lp) > 0 {
		details = details.With("logprobs", mapLogprobs(lp))
	}
	if raw != "" {
		details = details.With("finish_reason", pyjson.NewString(raw))
	}
	if d.openrouter {
		if wire.Present(v, "provider") == nil {
			return nil, wire.Fail(wire.Shape, "/provider", "missing")
		}
		details = openrouterDetails(details, v, choice)
		if len(wire.Items(message, "annotations")) > 0 {
			return nil, wire.Fail(wire.Unsupported, "/choices/0/message/annotations", "annotations")
		}
	} else {
		p.drop("/choices/0/message/annotations", "annotations", len(wire.Items(message, "annotations")) > 0)
	}
	if tier := wire.TextOf(v, "service_tier"); tier != "" && !o.Old() {
		details = details.With("service_tier", pyjson.NewString(tier))
	}
	parts, err := p.parts(message, "/choices/0/message")
	if err != nil {
		return nil, err
	}
	if refusal := wire.TextOf(message, "refusal"); refusal != "" {
		p.drop("/choices/0/message", "parts beside a refusal", len(parts) > 0)
		details = details.Without("finish_reason").With("refusal", pyjson.NewString(refusal))
		parts, finish = nil, "content_filter"
	} else if err := ids.Err(); err != nil {
		return nil, err
	}
	if t := v.Get("created"); wire.Truthy(t) {
		us, ok := wire.Instant(t)
		if !ok {
			return nil, wire.Fail(wire.Shape, "/created", "time expected")
		}
		details = details.With("timestamp", pyjson.NewString(pydanticai.FormatInstant(us)))
	}
	usage, err := chatUsage(o, d, wire.Present(v, "usage"), "/usage")
	if err != nil {
		return nil, err
	}
	r := &wire.Response{Parts: wire.EncodeParts(parts), Usage: usage, ModelName: wire.TextOf(v, "model"), FinishReason: finish,
		ProviderName: o.Provider, ProviderURL: &o.BaseURL, Dropped: p.dropped}
	if id := wire.TextOf(v, "id"); id != "" {
		r.ResponseID = &id
	}
	if len(details.Members) > 0 {
		r.ProviderDetails = details
	}
	return r, nil
}

// checkedChat reads a completion whose first choice is there; further choices are noted as dropped.
func checkedChat(body []byte) (*pyjson.Value, []wire.Dropped, error) {
	v, err := wire.ParseJSON(body, "")
	if err != nil {
		return nil, nil, err
	}
	if wire.Truthy(v.Get("error")) {
		return nil, nil, wire.Fail(wire.Refused, "/error", "error")
	}
	c := chatShapes().Checker()
	if err := c.Check(v, "Completion", ""); err != nil {
		return nil, nil, err
	}
	switch n := len(wire.Items(v, "choices")); {
	case n == 0:
		return nil, nil, wire.Fail(wire.Refused, "/choices", "no choice")
	case n > 1:
		c.Dropped = append(c.Dropped, wire.Dropped{Path: "/choices/1", Name: "choice"})
	}
	return v, c.Dropped, nil
}

type chatParser struct {
	o       wire.Options
	d       dialect
	ids     *wire.IDs
	dropped []wire.Dropped
}

func (p *chatParser) drop(path, name string, content bool) {
	if content && len(p.dropped) < 64 {
		p.dropped = append(p.dropped, wire.Dropped{Path: path, Name: name})
	}
}

func (p *chatParser) parts(message *pyjson.Value, path string) ([]*wire.Part, error) {
	var parts []*wire.Part
	system := &p.o.Provider
	taken := ""
	if list := wire.Items(message, "reasoning_details"); p.d.openrouter && len(list) > 0 {
		for _, detail := range list {
			parts = append(parts, reasoningDetail(detail, p.o.Provider))
		}
		taken = "reasoning" // says the same in one text
	} else {
		p.drop(path+"/reasoning_details", "reasoning_details", len(list) > 0)
		for _, name := range []string{p.o.Profile.Text("openai_chat_thinking_field"), "reasoning", "reasoning_content"} {
			if text := wire.TextOf(message, name); text != "" && name != "" && taken == "" {
				taken = name
				parts = append(parts, &wire.Part{Kind: wire.Thinking, Content: text, ID: wire.Ptr(name), Provider: system})
			}
		}
	}
	for _, name := range []string{"reasoning", "reasoning_content"} {
		p.drop(path+"/"+name, name, name != taken && wire.TextOf(message, name) != "" && wire.TextOf(message, name) != wire.TextOf(message, taken))
	}
	if c := wire.Present(message, "content"); c.Is(pyjson.Array) {
		return nil, wire.Fail(wire.Shape, path+"/content", "text expected")
	}
	for _, part := range splitTags(wire.TextOf(message, "content"), p.o.Profile.Tags()) {
		if part.Kind == wire.Thinking {
			part.ID, part.Provider = wire.Ptr("content"), system
		}
		parts = append(parts, part)
	}
	for i, call := range wire.Items(message, "tool_calls") {
		part, err := p.call(call, path+"/tool_calls/"+itoa(i))
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	p.drop(path+"/executed_tools", "executed_tools", len(wire.Items(message, "executed_tools")) > 0)
	return parts, nil
}

func (p *chatParser) call(call *pyjson.Value, path string) (*wire.Part, error) {
	id, ok := call.Get("id").Str()
	if !ok || wire.TextOf(call, "type") == "" {
		return nil, wire.Fail(wire.Shape, path, "id and type expected")
	}
	if id == "" {
		id = p.ids.New()
	}
	args := wire.Present(call.Get("function"), "arguments")
	if args == nil && !p.d.openrouter || args != nil && args.Kind != pyjson.String {
		return nil, wire.Fail(wire.Shape, path+"/function/arguments", "text expected")
	}
	part := &wire.Part{Kind: wire.ToolCall, Tool: wire.TextOf(call.Get("function"), "name"), Args: args, CallID: id}
	if extra := wire.Present(call, "extra_content"); wire.Truthy(extra) {
		if p.o.Version != pydanticai.V2580 {
			p.drop(path+"/extra_content", "extra_content", true)
		} else {
			part.Provider, part.Details = &p.o.Provider, wire.Obj("extra_content", wire.Respell(extra))
		}
	}
	return part, nil
}

// splitTags makes parts of a text with thinking between tags, as split_content_into_text_and_thinking does.
func splitTags(content string, tags [2]string) []*wire.Part {
	var parts []*wire.Part
	for {
		before, rest, found := strings.Cut(content, tags[0])
		if !found {
			break
		}
		if before != "" {
			parts = append(parts, &wire.Part{Kind: wire.Text, Content: before})
		}
		thought, after, closed := strings.Cut(rest, tags[1])
		if !closed {
			return append(parts, &wire.Part{Kind: wire.Text, Content: rest})
		}
		parts = append(parts, &wire.Part{Kind: wire.Thinking, Content: thought})
		content = after
	}
	if content != "" {
		parts = append(parts, &wire.Part{Kind: wire.Text, Content: content})
	}
	return parts
}

func reasoningDetail(v *pyjson.Value, provider string) *wire.Part {
	p := &wire.Part{Kind: wire.Thinking, ID: wire.PtrOf(v, "id"), Provider: &provider,
		Details: wire.Obj("format", orNull(v.Get("format")), "index", orNull(v.Get("index")), "type", v.Get("type"))}
	switch wire.TextOf(v, "type") {
	case "reasoning.text":
		p.Content, p.Sign = wire.TextOf(v, "text"), wire.PtrOf(v, "signature")
	case "reasoning.summary":
		p.Content = wire.TextOf(v, "summary")
	case "reasoning.encrypted":
		p.Sign = wire.Ptr(wire.TextOf(v, "data"))
	}
	return p
}

func openrouterDetails(details, v, choice *pyjson.Value) *pyjson.Value {
	details = details.With("downstream_provider", orNull(v.Get("provider")))
	if native := wire.TextOf(choice, "native_finish_reason"); native != "" {
		details = details.With("finish_reason", pyjson.NewString(native))
	}
	return openrouterUsageDetails(details, v)
}

func openrouterUsageDetails(details, v *pyjson.Value) *pyjson.Value {
	usage := wire.Present(v, "usage")
	if usage == nil {
		return details
	}
	dump := chatShapes().Dump(usage, "Usage", wire.Dump{})
	if cost := dump.Get("cost"); wire.Truthy(cost) {
		details = details.With("cost", cost)
	}
	if c := dump.Get("cost_details"); c.Is(pyjson.Object) {
		for _, name := range []string{"upstream_inference_cost", "upstream_inference_prompt_cost", "upstream_inference_completions_cost"} {
			details = details.With(name, c.Get(name))
		}
	}
	if byok := dump.Get("is_byok"); byok.Is(pyjson.Bool) {
		details = details.With("is_byok", byok)
	}
	use := pyjson.NewObject()
	for _, name := range []string{"tool_calls_requested", "tool_calls_executed", "web_search_requests"} {
		if n := wire.Present(dump.Get("server_tool_use_details"), name); n != nil {
			use = use.With(name, n)
		}
	}
	if len(use.Members) > 0 {
		details = details.With("server_tool_use", use)
	}
	return details
}

// notCounts are members of a usage that are declared as something else than a count.
var notCounts = []string{"prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "total_tokens"}

// chatUsage is _map_usage of a completion or chunk; nil is no usage.
func chatUsage(o wire.Options, d dialect, use *pyjson.Value, path string) (wire.Usage, error) {
	var u wire.Usage
	if use == nil {
		return u, nil
	}
	counters, err := wire.Extract(o, "openai", "chat", wire.Obj("usage", use))
	if err != nil {
		return u, err
	}
	u.Counters = counters
	except := notCounts
	if d.openrouter {
		except = append(append([]string{}, notCounts...), "cost")
	}
	if u.Details, err = wire.IntDetails(use, path, nil, except...); err != nil {
		return u, err
	}
	if completion := wire.Present(use, "completion_tokens_details"); completion != nil {
		for i, m := range completion.Members {
			if m.Value.Kind != pyjson.Null && !m.Value.IsInteger() && !m.Value.Is(pyjson.Bool) {
				return u, wire.Fail(wire.Counters, path+"/completion_tokens_details"+pyjson.Place(i), "not a count")
			}
		}
		if u.Details, err = wire.IntDetails(completion, path+"/completion_tokens_details", u.Details); err != nil {
			return u, err
		}
	}
	if written := wire.Present(wire.Present(use, "prompt_tokens_details"), "cache_write_tokens"); written != nil {
		n, err := count(written, path+"/prompt_tokens_details/cache_write_tokens")
		if err != nil {
			return u, err
		}
		u.Set("cache_write_tokens", n)
	}
	return u, nil
}
