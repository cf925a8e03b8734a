package openai

import (
	"bytes"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/adapters/wire"
)

// huggingFinish has the reasons the SDK knows; any other is kept as it came, and the SDK's word is null.
var huggingFinish = map[string]string{"length": "length", "eos_token": "stop", "stop_sequence": "stop", "stop": "stop", "tool_calls": "tool_call"}

func huggingCreated(v *pyjson.Value) (*pyjson.Value, error) {
	n, ok := v.Get("created").Int()
	if !ok || n < 0 || n > 20_000_000_000 {
		return nil, wire.Fail(wire.Shape, "/created", "time expected")
	}
	return pyjson.NewString(pydanticai.FormatInstant(n * 1_000_000)), nil
}

func huggingUsage(use *pyjson.Value, path string) (wire.Usage, error) {
	var u wire.Usage
	if use == nil {
		return u, nil
	}
	for _, c := range [][2]string{{"prompt_tokens", "input_tokens"}, {"completion_tokens", "output_tokens"}} {
		n, err := count(use.Get(c[0]), path+"/"+c[0])
		if err != nil {
			return u, err
		}
		u.Set(c[1], n)
	}
	return u, nil
}

// ParseHuggingFace reads a chat completion of the Hugging Face router, not streamed, as HuggingFaceModel._process_response does.
func ParseHuggingFace(o wire.Options, body []byte) (*wire.Response, error) {
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
	ids := o.NewIDs()
	parts, err := plainParts(message, path, o, ids)
	if err != nil {
		return nil, err
	}
	raw := wire.TextOf(choice, "finish_reason")
	if raw == "" {
		return nil, wire.Fail(wire.Shape, "/choices/0/finish_reason", "missing")
	}
	details := wire.Obj("finish_reason", raw)
	if wire.Truthy(v.Get("created")) {
		at, err := huggingCreated(v)
		if err != nil {
			return nil, err
		}
		details = details.With("timestamp", at)
	}
	usage, err := huggingUsage(wire.Present(v, "usage"), "/usage")
	if err != nil {
		return nil, err
	}
	return &wire.Response{Parts: wire.EncodeParts(parts), Usage: usage, ModelName: wire.TextOf(v, "model"), ResponseID: wire.PtrOf(v, "id"),
		ProviderName: o.Provider, ProviderURL: &o.BaseURL, ProviderDetails: details, FinishReason: huggingFinish[raw], Dropped: p.dropped}, ids.Err()
}

// ParseHuggingFaceStream reads a whole stream of chunks, as HuggingFaceStreamedResponse does.
func ParseHuggingFaceStream(o wire.Options, body []byte) (*wire.Response, error) {
	if bytes.ContainsAny(body, "\u0085\u2028\u2029") {
		return nil, wire.Fail(wire.Refused, "", "a character at which the client ends a line")
	}
	ids := o.NewIDs()
	m := wire.NewManager(ids, o.Request.ToolKinds)
	r := &wire.Response{ProviderName: o.Provider, ProviderURL: &o.BaseURL}
	details := pyjson.NewObject()
	finished := false
	tags := o.Profile.Tags()
	var lost []wire.Dropped
	dropped, err := eachChunk(body, func(v *pyjson.Value, path string, first bool) error {
		if first {
			at, err := huggingCreated(v)
			if err != nil {
				return err
			}
			r.ModelName = wire.TextOf(v, "model")
			details = details.With("timestamp", at)
		}
		u, err := huggingUsage(wire.Present(v, "usage"), path+"/usage")
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
			finished = true
			details = details.With("finish_reason", pyjson.NewString(raw))
			r.FinishReason = huggingFinish[raw]
		}
		delta := wire.Present(choice, "delta")
		if delta == nil {
			return wire.Fail(wire.Shape, "/choices/0/delta", "missing")
		}
		for _, name := range []string{"refusal", "reasoning", "reasoning_content", "reasoning_details", "annotations", "executed_tools"} {
			if wire.Truthy(delta.Get(name)) {
				lost = append(lost, wire.Dropped{Path: path + "/choices/0/delta/" + name, Name: name})
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
	r.ProviderDetails = details
	r.Dropped = dedupe(append(dropped, lost...))
	return r, ids.Err()
}
