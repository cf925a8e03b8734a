package openai

import (
	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/adapters/wire"
)

var mistralFinish = map[string]string{"stop": "stop", "length": "length", "model_length": "length", "error": "error", "tool_calls": "tool_call"}

// mistralContent is _map_content: the text, nil for none, and the thoughts.
func mistralContent(message *pyjson.Value) (*string, []string) {
	c := wire.Present(message, "content")
	if c == nil {
		return nil, nil
	}
	if c.Kind == pyjson.String {
		if c.Text == "" {
			return nil, nil
		}
		return &c.Text, nil
	}
	var text *string
	var thoughts []string
	for _, chunk := range c.Items {
		if wire.TextOf(chunk, "type") == "text" {
			now := ""
			if text != nil {
				now = *text
			}
			text = wire.Ptr(now + wire.TextOf(chunk, "text"))
			continue
		}
		for _, thought := range wire.Items(chunk, "thinking") {
			thoughts = append(thoughts, wire.TextOf(thought, "text"))
		}
	}
	return text, thoughts
}

func mistralUsage(o wire.Options, use *pyjson.Value, path string) (wire.Usage, error) {
	var u wire.Usage
	if use == nil {
		return u, nil
	}
	for i, m := range use.Members {
		switch m.Name {
		case "prompt_tokens", "completion_tokens", "total_tokens":
		default:
			if m.Value.Kind != pyjson.Null {
				return u, wire.Fail(wire.Member, path+pyjson.Place(i), "usage")
			}
		}
	}
	counters, err := wire.Extract(o, "mistral", "default", wire.Obj("usage", use))
	u.Counters = counters
	return u, err
}

// mistralCall returns a call's name, arguments and id, checked.
func mistralCall(call *pyjson.Value, path string) (*wire.Part, error) {
	id, ok := call.Get("id").Str()
	args := wire.Present(call.Get("function"), "arguments")
	if !ok || id == "" || args == nil {
		return nil, wire.Fail(wire.Shape, path, "id and arguments expected")
	}
	return &wire.Part{Kind: wire.ToolCall, Tool: wire.TextOf(call.Get("function"), "name"), Args: wire.Respell(args), CallID: id}, nil
}

// ParseMistral reads a chat completion of Mistral, not streamed, as MistralModel._process_response does.
func ParseMistral(o wire.Options, body []byte) (*wire.Response, error) {
	v, dropped, err := checkedChat(body)
	if err != nil {
		return nil, err
	}
	choice := wire.Items(v, "choices")[0]
	message, path := choice.Get("message"), "/choices/0/message"
	p := chatParser{dropped: dropped}
	for _, name := range []string{"refusal", "reasoning", "reasoning_content", "reasoning_details", "annotations", "executed_tools"} {
		p.drop(path+"/"+name, name, wire.Truthy(message.Get(name)))
	}
	p.drop("/choices/0/logprobs", "logprobs", wire.Truthy(choice.Get("logprobs").Get("content")))
	var parts []*wire.Part
	text, thoughts := mistralContent(message)
	for _, t := range thoughts {
		parts = append(parts, &wire.Part{Kind: wire.Thinking, Content: t})
	}
	if text != nil && *text != "" {
		parts = append(parts, &wire.Part{Kind: wire.Text, Content: *text})
	}
	for i, call := range wire.Items(message, "tool_calls") {
		part, err := mistralCall(call, path+"/tool_calls/"+itoa(i))
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	raw := wire.TextOf(choice, "finish_reason")
	finish, known := mistralFinish[raw]
	if !known {
		return nil, wire.Fail(wire.Kind, "/choices/0/finish_reason", "finish reason")
	}
	details, err := withCreated(wire.Obj("finish_reason", raw), v)
	if err != nil {
		return nil, err
	}
	if wire.Present(v, "created") == nil || wire.Present(v, "usage") == nil {
		return nil, wire.Fail(wire.Shape, "", "created and usage expected")
	}
	usage, err := mistralUsage(o, wire.Present(v, "usage"), "/usage")
	if err != nil {
		return nil, err
	}
	return &wire.Response{Parts: wire.EncodeParts(parts), Usage: usage, ModelName: wire.TextOf(v, "model"), ResponseID: wire.PtrOf(v, "id"),
		ProviderName: o.Provider, ProviderURL: &o.BaseURL, ProviderDetails: details, FinishReason: finish, Dropped: p.dropped}, nil
}

// ParseMistralStream reads a whole stream of Mistral's chunks, as MistralStreamedResponse does. Output tools, which the SDK
// looks for in streamed text, are not done.
func ParseMistralStream(o wire.Options, body []byte) (*wire.Response, error) {
	if len(o.Request.OutputTools) > 0 {
		return nil, wire.Fail(wire.Unsupported, "", "output tools in a stream")
	}
	ids := o.NewIDs()
	m := wire.NewManager(ids, o.Request.ToolKinds)
	r := &wire.Response{ProviderName: o.Provider, ProviderURL: &o.BaseURL}
	details := pyjson.NewObject()
	finished := false
	var lost []wire.Dropped
	dropped, err := eachChunk(body, func(v *pyjson.Value, path string, first bool) error {
		if first {
			r.ModelName = wire.TextOf(v, "model")
			if t := v.Get("created"); wire.Truthy(t) {
				us, ok := wire.Instant(t)
				if !ok {
					return wire.Fail(wire.Shape, "/created", "time expected")
				}
				details = details.With("timestamp", pyjson.NewString(pydanticai.FormatInstant(us)))
			}
		}
		u, err := mistralUsage(o, wire.Present(v, "usage"), path+"/usage")
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
		for i, c := range choices {
			if wire.Present(c, "delta") == nil || c.Get("finish_reason") == nil {
				return wire.Fail(wire.Shape, path+"/choices/"+itoa(i), "delta and finish reason expected")
			}
		}
		choice := choices[0]
		if raw := wire.TextOf(choice, "finish_reason"); raw != "" {
			finish, known := mistralFinish[raw]
			if !known || raw == "model_length" {
				return wire.Fail(wire.Kind, "/choices/0/finish_reason", "finish reason")
			}
			finished = true
			details = details.With("finish_reason", pyjson.NewString(raw))
			r.FinishReason = finish
		}
		delta := choice.Get("delta")
		for _, name := range []string{"refusal", "reasoning", "reasoning_content", "reasoning_details", "annotations", "executed_tools"} {
			if wire.Truthy(delta.Get(name)) {
				lost = append(lost, wire.Dropped{Path: path + "/choices/0/delta/" + name, Name: name})
			}
		}
		text, thoughts := mistralContent(delta)
		for i := range thoughts {
			if _, err := m.Think("thinking", wire.ThinkingDelta{Content: &thoughts[i]}); err != nil {
				return err
			}
		}
		if text != nil && *text != "" {
			if _, _, err := m.Text("content", wire.TextDelta{Content: *text}); err != nil {
				return err
			}
		}
		for i, call := range wire.Items(delta, "tool_calls") {
			where := "/choices/0/delta/tool_calls/" + itoa(i)
			f := wire.Present(call, "function")
			args := wire.Present(f, "arguments")
			id := wire.TextOf(call, "id")
			if _, ok := f.Get("name").Str(); !ok || args == nil || id == "" {
				return wire.Fail(wire.Shape, where, "id, name and arguments expected")
			}
			if m.Get("call "+itoa(i)) != nil {
				// The SDK would put this call in the place of the earlier one.
				return wire.Fail(wire.Unsupported, where, "a call in the place of another")
			}
			m.WholeCall("call "+itoa(i), &wire.Part{Tool: wire.TextOf(f, "name"), Args: wire.Respell(args), CallID: id})
		}
		return nil
	}, refuseError)
	if err != nil {
		return nil, err
	}
	if !finished {
		return nil, wire.Fail(wire.Truncated, "", "no finish reason")
	}
	if r.Parts, err = m.Encode(); err != nil {
		return nil, err
	}
	if len(details.Members) > 0 {
		r.ProviderDetails = details
	}
	r.Dropped = dedupe(append(dropped, lost...))
	return r, ids.Err()
}
