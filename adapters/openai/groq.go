package openai

import (
	"strings"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/adapters/wire"
)

var groqFinish = map[string]string{"stop": "stop", "length": "length", "tool_calls": "tool_call", "content_filter": "content_filter", "function_call": "tool_call"}

// groqFloats are members of Groq's usage that are declared as times, not counts.
var groqFloats = []string{"prompt_tokens", "completion_tokens", "total_tokens", "completion_time", "prompt_time", "queue_time", "total_time"}

// ParseGroq reads a chat completion of Groq, not streamed, as GroqModel._process_response does. An answer with status 400 whose
// error is a failed tool use becomes a response too, as in the SDK; every other status is refused.
func ParseGroq(o wire.Options, status int, body []byte) (*wire.Response, error) {
	ids := o.NewIDs()
	if status == 400 {
		v, err := wire.ParseJSON(body, "")
		if err != nil {
			return nil, err
		}
		part, err := groqFailed(v, ids)
		if err != nil {
			return nil, err
		}
		r := &wire.Response{ModelName: o.Model, ProviderName: o.Provider, ProviderURL: &o.BaseURL, FinishReason: "error"}
		if part != nil {
			r.Parts = wire.EncodeParts([]*wire.Part{part})
		}
		return r, ids.Err()
	}
	if status != 200 {
		return nil, wire.Fail(wire.Refused, "", "status")
	}
	v, dropped, err := checkedChat(body)
	if err != nil {
		return nil, err
	}
	p := chatParser{o: o, ids: ids, dropped: dropped}
	choice := wire.Items(v, "choices")[0]
	message, path := choice.Get("message"), "/choices/0/message"
	for _, name := range []string{"refusal", "reasoning_content", "reasoning_details", "annotations"} {
		p.drop(path+"/"+name, name, wire.Truthy(message.Get(name)))
	}
	p.drop("/choices/0/logprobs", "logprobs", wire.Truthy(choice.Get("logprobs").Get("content")))
	p.drop("/service_tier", "service_tier", false)
	var parts []*wire.Part
	if r := wire.Present(message, "reasoning"); r != nil {
		parts = append(parts, &wire.Part{Kind: wire.Thinking, Content: r.Text})
	}
	for i, tool := range wire.Items(message, "executed_tools") {
		call, ret, err := groqTool(o, tool, path+"/executed_tools/"+itoa(i), "", ids)
		if err != nil {
			return nil, err
		}
		parts = append(parts, call, ret)
	}
	more, err := plainParts(message, path, o, ids)
	if err != nil {
		return nil, err
	}
	parts = append(parts, more...)
	raw := wire.TextOf(choice, "finish_reason")
	finish, known := groqFinish[raw]
	if !known {
		return nil, wire.Fail(wire.Kind, "/choices/0/finish_reason", "finish reason")
	}
	details := wire.Obj("finish_reason", raw)
	if details, err = withCreated(details, v); err != nil {
		return nil, err
	}
	usage, err := groqUsage(o, wire.TextOf(v, "model"), wire.Present(v, "usage"), "/usage")
	if err != nil {
		return nil, err
	}
	return &wire.Response{Parts: wire.EncodeParts(parts), Usage: usage, ModelName: wire.TextOf(v, "model"), ResponseID: wire.PtrOf(v, "id"),
		ProviderName: o.Provider, ProviderURL: &o.BaseURL, ProviderDetails: details, FinishReason: finish, Dropped: p.dropped}, ids.Err()
}

func withCreated(details, v *pyjson.Value) (*pyjson.Value, error) {
	if t := v.Get("created"); wire.Truthy(t) {
		us, ok := wire.Instant(t)
		if !ok {
			return nil, wire.Fail(wire.Shape, "/created", "time expected")
		}
		details = details.With("timestamp", pyjson.NewString(pydanticai.FormatInstant(us)))
	}
	return details, nil
}

// plainParts makes the text and calls of a message of the models that give them no provenance.
func plainParts(message *pyjson.Value, path string, o wire.Options, ids *wire.IDs) ([]*wire.Part, error) {
	var parts []*wire.Part
	c := wire.Present(message, "content")
	if c != nil && c.Kind != pyjson.String {
		return nil, wire.Fail(wire.Shape, path+"/content", "text expected")
	}
	parts = splitTags(wire.TextOf(message, "content"), o.Profile.Tags())
	for i, call := range wire.Items(message, "tool_calls") {
		where := path + "/tool_calls/" + itoa(i)
		id, ok := call.Get("id").Str()
		args := wire.Present(call.Get("function"), "arguments")
		if !ok || id == "" || !args.Is(pyjson.String) || wire.Truthy(call.Get("extra_content")) {
			return nil, wire.Fail(wire.Shape, where, "id and text arguments expected")
		}
		parts = append(parts, &wire.Part{Kind: wire.ToolCall, Tool: wire.TextOf(call.Get("function"), "name"), Args: args, CallID: id})
	}
	return parts, ids.Err()
}

// groqTool makes the call and return of a search that Groq ran itself.
func groqTool(o wire.Options, tool *pyjson.Value, path, id string, ids *wire.IDs) (call, ret *wire.Part, err error) {
	if wire.TextOf(tool, "type") != "search" {
		return nil, nil, wire.Fail(wire.Kind, path+"/type", "executed tool")
	}
	results := orNull(tool.Get("output"))
	if found := wire.Present(tool, "search_results"); wire.Truthy(found.Get("images")) || wire.Truthy(found.Get("results")) {
		results = chatShapes().Dump(found, "SearchResults", wire.Dump{})
	}
	args, err := wire.ParseJSON([]byte(wire.TextOf(tool, "arguments")), path+"/arguments")
	if err != nil {
		return nil, nil, err
	}
	if !args.Is(pyjson.Object) && !args.Is(pyjson.String) && !args.Is(pyjson.Null) {
		return nil, nil, wire.Fail(wire.Shape, path+"/arguments", "object expected")
	}
	if id == "" {
		id = ids.New()
	}
	call = &wire.Part{Kind: wire.NativeCall, Tool: "web_search", Args: wire.Respell(args), CallID: id, Provider: &o.Provider}
	ret = &wire.Part{Kind: wire.NativeReturn, Tool: "web_search", Value: results, CallID: id, Provider: &o.Provider, AtUS: o.AtUS}
	return call, ret, nil
}

func groqUsage(o wire.Options, _ string, use *pyjson.Value, path string) (wire.Usage, error) {
	var u wire.Usage
	if use == nil {
		return u, nil
	}
	counters, err := wire.Extract(o, "groq", "default", wire.Obj("usage", use))
	if err != nil {
		return u, err
	}
	u.Counters = counters
	if u.Details, err = wire.IntDetails(use, path, nil, groqFloats...); err != nil {
		return u, err
	}
	if completion := wire.Present(use, "completion_tokens_details"); completion != nil {
		u.Details, err = wire.IntDetails(completion, path+"/completion_tokens_details", u.Details)
	}
	return u, err
}

// groqFailed makes a part of what the model tried when Groq answers that a tool use failed. nil is an empty attempt.
func groqFailed(v *pyjson.Value, ids *wire.IDs) (*wire.Part, error) {
	e := v
	if inner := v.Get("error"); inner.Is(pyjson.Object) {
		e = inner
	}
	failed, ok := e.Get("failed_generation").Str()
	if _, message := e.Get("message").Str(); !ok || !message || wire.TextOf(e, "type") != "invalid_request_error" || wire.TextOf(e, "code") != "tool_use_failed" {
		return nil, wire.Fail(wire.Refused, "/error", "error")
	}
	if failed == "" {
		return nil, nil
	}
	g, err := wire.ParseJSON([]byte(failed), "/error/failed_generation")
	if err != nil {
		if t := strings.TrimSpace(failed); strings.HasPrefix(t, "{") && strings.HasSuffix(t, "}") {
			// Not strict JSON, and perhaps still JSON for the SDK.
			if _, err := pyjson.ParseLastWins([]byte(failed), wire.Limits); err == nil || strings.ContainsAny(failed, "\\\u0000") {
				return nil, wire.Fail(wire.Unsupported, "/error/failed_generation", "JSON that readers take in different ways")
			}
		}
		return &wire.Part{Kind: wire.Text, Content: failed}, nil
	}
	name, isName := g.Get("name").Str()
	if args := g.Get("arguments"); isName && args.Is(pyjson.Object) {
		return &wire.Part{Kind: wire.ToolCall, Tool: name, Args: wire.Respell(args), CallID: ids.New()}, nil
	}
	return &wire.Part{Kind: wire.Text, Content: failed}, nil
}

// ParseGroqStream reads a whole stream of Groq's chunks, as GroqStreamedResponse does.
func ParseGroqStream(o wire.Options, body []byte) (*wire.Response, error) {
	ids := o.NewIDs()
	m := wire.NewManager(ids, o.Request.ToolKinds)
	r := &wire.Response{ProviderName: o.Provider, ProviderURL: &o.BaseURL}
	details := pyjson.NewObject()
	toolID, n, thinking, finished := "", 0, false, false
	tags := o.Profile.Tags()
	var lost []wire.Dropped
	chunk := func(v *pyjson.Value, path string, first bool) error {
		if first {
			r.ModelName = wire.TextOf(v, "model")
			us, ok := wire.Instant(v.Get("created"))
			if !ok {
				return wire.Fail(wire.Shape, "/created", "time expected")
			}
			details = details.With("timestamp", pyjson.NewString(pydanticai.FormatInstant(us)))
		}
		if wire.TextOf(v.Get("x_groq"), "error") != "" {
			return wire.Fail(wire.Unsupported, "/x_groq/error", "error")
		}
		u, err := groqUsage(o, r.ModelName, wire.Present(wire.Present(v, "x_groq"), "usage"), path+"/x_groq/usage")
		if err == nil {
			err = r.Usage.Add(u)
		}
		if err != nil {
			return err
		}
		if id := wire.TextOf(v, "id"); id != "" {
			r.ResponseID = &id
		}
		choices := wire.Items(v, "choices")
		if len(choices) == 0 {
			return nil
		}
		choice := choices[0]
		if raw := wire.TextOf(choice, "finish_reason"); raw != "" {
			finish, known := groqFinish[raw]
			if !known {
				return wire.Fail(wire.Kind, "/choices/0/finish_reason", "finish reason")
			}
			finished = true
			details = details.With("finish_reason", pyjson.NewString(raw))
			r.FinishReason = finish
		}
		delta := wire.Present(choice, "delta")
		if delta == nil {
			return wire.Fail(wire.Shape, "/choices/0/delta", "missing")
		}
		for _, name := range []string{"refusal", "reasoning_content", "reasoning_details", "annotations"} {
			if wire.Truthy(delta.Get(name)) {
				lost = append(lost, wire.Dropped{Path: path + "/choices/0/delta/" + name, Name: name})
			}
		}
		if text := wire.PtrOf(delta, "reasoning"); text != nil {
			if !thinking {
				n++
				thinking = true
			}
			if _, err := m.Think("reasoning-"+itoa(n), wire.ThinkingDelta{Content: text}); err != nil {
				return err
			}
		} else {
			thinking = false
		}
		for i, tool := range wire.Items(delta, "executed_tools") {
			call, ret, err := groqTool(o, tool, "/choices/0/delta/executed_tools/"+itoa(i), toolID, ids)
			if err != nil {
				return err
			}
			vendor := "executed_tools-" + tool.Get("index").Text
			if wire.Truthy(ret.Value) {
				toolID = ""
				m.Put(vendor+"-return", ret)
			} else {
				toolID = call.CallID
				m.Put(vendor+"-call", call)
			}
		}
		if c := wire.Present(delta, "content"); c != nil {
			content, ok := c.Str()
			if !ok {
				return wire.Fail(wire.Shape, "/choices/0/delta/content", "text expected")
			}
			if content != "" {
				if _, _, err := m.Text("content", wire.TextDelta{Content: content, Tags: &tags, SkipLead: o.Profile.Flag("ignore_streamed_leading_whitespace")}); err != nil {
					return err
				}
			}
		}
		return plainCalls(m, delta)
	}
	failed := false
	fail := func(v *pyjson.Value, path string) error {
		part, err := groqFailed(v, ids)
		if err != nil {
			return err
		}
		failed = true
		switch {
		case part == nil:
		case part.Kind == wire.ToolCall:
			m.WholeCall("tool_use_failed", part)
		default:
			_, _, err = m.Text("tool_use_failed", wire.TextDelta{Content: part.Content, Tags: &tags, SkipLead: o.Profile.Flag("ignore_streamed_leading_whitespace")})
		}
		return err
	}
	dropped, err := eachChunk(body, chunk, fail)
	if err != nil {
		return nil, err
	}
	if !finished && !failed {
		return nil, wire.Fail(wire.Truncated, "", "no finish reason")
	}
	if r.Parts, err = m.Encode(); err != nil {
		return nil, err
	}
	r.Dropped = dedupe(append(dropped, lost...))
	if len(details.Members) > 0 {
		r.ProviderDetails = details
	}
	return r, ids.Err()
}

// plainCalls applies the tool call deltas of the models that give them no provenance.
func plainCalls(m *wire.Manager, delta *pyjson.Value) error {
	for i, call := range wire.Items(delta, "tool_calls") {
		where := "/choices/0/delta/tool_calls/" + itoa(i)
		index := wire.Present(call, "index")
		if index == nil {
			return wire.Fail(wire.Shape, where+"/index", "missing")
		}
		d := wire.CallDelta{CallID: wire.PtrOf(call, "id")}
		if f := wire.Present(call, "function"); f != nil {
			d.Tool, d.Args = wire.PtrOf(f, "name"), wire.Present(f, "arguments")
			if d.Args != nil && d.Args.Kind != pyjson.String {
				return wire.Fail(wire.Shape, where+"/function/arguments", "text expected")
			}
		}
		if wire.Truthy(call.Get("extra_content")) {
			return wire.Fail(wire.Unsupported, where+"/extra_content", "extra_content")
		}
		if _, err := m.Call("call "+index.Text, d); err != nil {
			return err
		}
	}
	return nil
}
