// Package bedrock reads and writes Amazon Bedrock's Converse wire as Pydantic AI's BedrockConverseModel does: answers, streamed
// and not, to response messages, and histories to request bodies. fixtures/judge asks the real SDK whether it is right. The
// package is pure.
package bedrock

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/adapters/wire"
)

//go:embed converse.shapes
var shapesText string

var shapes = sync.OnceValue(func() *wire.Shapes { return wire.ParseShapes(shapesText) })

func itoa(n int) string { return strconv.Itoa(n) }

var finishReasons = map[string]string{
	"content_filtered": "content_filter", "end_turn": "stop", "guardrail_intervened": "content_filter", "max_tokens": "length",
	"model_context_window_exceeded": "length", "stop_sequence": "stop", "malformed_model_output": "error", "malformed_tool_use": "error",
	"tool_use": "tool_call",
}

// RequestIDHeader is the header that provider_response_id comes from.
const RequestIDHeader = "x-amzn-requestid"

// Parse reads an answer of Converse, as BedrockConverseModel._process_response does after botocore. The error is a *wire.Error.
func Parse(o wire.Options, body []byte) (*wire.Response, error) {
	v, err := wire.ParseJSON(body, "")
	if err != nil {
		return nil, err
	}
	c := shapes().Checker()
	if err := c.Check(v, "ConverseResponse", ""); err != nil {
		return nil, err
	}
	if wire.Present(v, "trace") != nil {
		return nil, wire.Fail(wire.Unsupported, "/trace", "trace")
	}
	var parts []*wire.Part
	for i, block := range wire.Items(v.At("output", "message"), "content") {
		part, err := parse(o, block, "/output/message/content/"+itoa(i))
		if err != nil {
			return nil, err
		}
		if part != nil {
			parts = append(parts, part)
		}
	}
	usage, err := usage(o, v.Get("usage"), "/usage")
	if err != nil {
		return nil, err
	}
	raw := wire.TextOf(v, "stopReason")
	return &wire.Response{Parts: wire.EncodeParts(parts), Usage: usage, ModelName: o.Model, ResponseID: requestID(o), ProviderName: o.Provider,
		ProviderURL: &o.BaseURL, ProviderDetails: wire.Obj("finish_reason", raw), FinishReason: finishReasons[raw], Dropped: c.Dropped}, nil
}

func requestID(o wire.Options) *string {
	if id, ok := o.Headers[RequestIDHeader]; ok {
		return &id
	}
	return nil
}

// one checks that a tagged union says exactly one thing and returns which.
func one(v *pyjson.Value, path string) (string, error) {
	name := ""
	for _, m := range v.Members {
		if m.Value.Kind == pyjson.Null {
			continue
		}
		if name != "" {
			return "", wire.Fail(wire.Shape, path, "two things in one block")
		}
		name = m.Name
	}
	if name == "" {
		return "", wire.Fail(wire.Shape, path, "an empty block")
	}
	return name, nil
}

func redacted(v *pyjson.Value, path string) (*string, error) {
	bytes, ok := wire.Base64(wire.TextOf(v, "redactedContent"))
	if !ok || !utf8.Valid(bytes) || len(bytes) == 0 {
		return nil, wire.Fail(wire.Shape, path+"/redactedContent", "base64 of text expected")
	}
	return wire.Ptr(string(bytes)), nil
}

// parse makes the part of a content block, nil for an empty text.
func parse(o wire.Options, block *pyjson.Value, path string) (*wire.Part, error) {
	kind, err := one(block, path)
	if err != nil {
		return nil, err
	}
	provider := &o.Provider
	switch kind {
	case "reasoningContent":
		r := block.Get(kind)
		which, err := one(r, path+"/reasoningContent")
		if err != nil {
			return nil, err
		}
		if which == "redactedContent" {
			sign, err := redacted(r, path+"/reasoningContent")
			if err != nil {
				return nil, err
			}
			return &wire.Part{Kind: wire.Thinking, ID: wire.Ptr("redacted_content"), Sign: sign, Provider: provider}, nil
		}
		text := r.Get("reasoningText")
		part := &wire.Part{Kind: wire.Thinking, Content: wire.TextOf(text, "text"), Sign: wire.PtrOf(text, "signature")}
		if part.Sign != nil && *part.Sign != "" {
			part.Provider = provider
		}
		return part, nil
	case "text":
		if text := wire.TextOf(block, "text"); text != "" {
			return &wire.Part{Kind: wire.Text, Content: text}, nil
		}
		return nil, nil
	case "toolUse":
		t := block.Get(kind)
		part := &wire.Part{Kind: wire.ToolCall, Tool: wire.TextOf(t, "name"), Args: wire.Respell(t.Get("input")), CallID: wire.TextOf(t, "toolUseId"),
			ToolKind: o.Request.ToolKinds[wire.TextOf(t, "name")]}
		if wire.TextOf(t, "type") == "server_tool_use" {
			if part.Tool != "nova_code_interpreter" {
				return nil, wire.Fail(wire.Kind, path+"/toolUse/name", "server tool")
			}
			part.Kind, part.Tool, part.Provider = wire.NativeCall, "code_execution", provider
		}
		return part, nil
	case "toolResult":
		t := block.Get(kind)
		part := &wire.Part{Kind: wire.NativeReturn, Tool: "code_execution", CallID: wire.TextOf(t, "toolUseId"), Provider: provider, AtUS: o.AtUS,
			Details: pyjson.NewObject()}
		switch content := wire.Items(t, "content"); len(content) {
		case 0:
		case 1:
			part.Value = wire.Respell(content[0].Get("json"))
		default:
			return nil, wire.Fail(wire.Unsupported, path+"/toolResult/content/1", "more than one result")
		}
		if s := wire.PtrOf(t, "status"); s != nil {
			part.Details = wire.Obj("status", *s)
		}
		return part, nil
	}
	return nil, wire.Fail(wire.Kind, path, kind)
}

func usage(o wire.Options, v *pyjson.Value, path string) (wire.Usage, error) {
	var u wire.Usage
	known := pyjson.NewObject()
	for _, m := range v.Members {
		switch m.Name {
		case "inputTokens", "outputTokens", "totalTokens", "cacheReadInputTokens", "cacheWriteInputTokens", "cacheDetails":
			known.Members = append(known.Members, m) // botocore knows no others
		}
	}
	var err error
	u.Counters, err = wire.Extract(o, "bedrock", "default", wire.Obj("usage", known))
	if e, ok := err.(*wire.Error); ok {
		err = wire.Fail(e.Code, path, e.Reason)
	}
	return u, err
}

// ParseStream reads a whole answer of ConverseStream as the binary AWS event stream, as BedrockStreamedResponse does.
func ParseStream(o wire.Options, body []byte) (*wire.Response, error) {
	frames, err := wire.Frames(body)
	if err != nil {
		return nil, err
	}
	return ParseFrames(o, frames)
}

// ParseFrames is ParseStream for decoded messages. A stream without messageStop and metadata is wire.Truncated.
func ParseFrames(o wire.Options, frames []wire.Frame) (*wire.Response, error) {
	ids := o.NewIDs()
	s := &stream{o: o, m: wire.NewManager(ids, o.Request.ToolKinds), details: pyjson.NewObject(), tools: map[string]string{},
		returns: map[string]*wire.Part{}, open: map[string]bool{}, done: map[string]bool{}}
	for i, f := range frames {
		path := "/" + itoa(i)
		if f.Exception {
			return nil, wire.Fail(wire.Refused, path, "exception")
		}
		v, err := wire.ParseJSON(f.Payload, path)
		if err != nil {
			return nil, err
		}
		switch f.Type {
		case "messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata":
		default:
			return nil, wire.Fail(wire.Kind, path, "event type")
		}
		c := shapes().Checker()
		if err := c.Check(v, f.Type, path); err != nil {
			return nil, err
		}
		s.r.Dropped = append(s.r.Dropped, c.Dropped...)
		if (i == 0) != (f.Type == "messageStart") || s.counted || s.stopped && f.Type != "metadata" {
			return nil, wire.Fail(wire.Malformed, path, "event out of order")
		}
		if err := s.event(f.Type, v, path); err != nil {
			if e, ok := err.(*wire.Error); ok && !strings.HasPrefix(e.Path, path) {
				return nil, wire.Fail(e.Code, path+e.Path, e.Reason)
			}
			return nil, err
		}
	}
	if !s.stopped || !s.counted || len(s.open) > 0 {
		return nil, wire.Fail(wire.Truncated, "", "no end of the message")
	}
	if err := ids.Err(); err != nil {
		return nil, err
	}
	parts, err := s.m.Encode()
	if err != nil {
		return nil, err
	}
	s.r.Parts = parts
	s.r.ModelName, s.r.ProviderName, s.r.ProviderURL, s.r.ResponseID, s.r.ProviderDetails = o.Model, o.Provider, &o.BaseURL, requestID(o), s.details
	return &s.r, nil
}

type stream struct {
	o       wire.Options
	m       *wire.Manager
	r       wire.Response
	details *pyjson.Value
	tools   map[string]string
	returns map[string]*wire.Part
	open    map[string]bool
	done    map[string]bool
	stopped bool
	counted bool
}

func (s *stream) event(kind string, v *pyjson.Value, path string) error {
	index := ""
	if n := v.Get("contentBlockIndex"); n != nil {
		index = n.Text
		if s.done[index] {
			return wire.Fail(wire.Malformed, "/contentBlockIndex", "a block after its end")
		}
	}
	provider := &s.o.Provider
	switch kind {
	case "messageStop":
		if len(s.open) > 0 {
			return wire.Fail(wire.Malformed, "", "an open block at the end")
		}
		s.stopped = true
		raw := wire.TextOf(v, "stopReason")
		s.details = s.details.With("finish_reason", pyjson.NewString(raw))
		s.r.FinishReason = finishReasons[raw]
	case "metadata":
		if !s.stopped {
			return wire.Fail(wire.Malformed, "", "event out of order")
		}
		s.counted = true
		if wire.Present(v, "trace") != nil {
			return wire.Fail(wire.Unsupported, "/trace", "trace")
		}
		u, err := usage(s.o, v.Get("usage"), path+"/usage")
		if err != nil {
			return err
		}
		return s.r.Usage.Add(u)
	case "contentBlockStart":
		if s.open[index] {
			return wire.Fail(wire.Malformed, "/contentBlockIndex", "a block twice")
		}
		s.open[index] = true
		start := v.Get("start")
		which, err := one(start, "/start")
		if err != nil {
			return err
		}
		t := start.Get(which)
		id := wire.TextOf(t, "toolUseId")
		if which == "toolResult" {
			part := &wire.Part{Kind: wire.NativeReturn, Tool: "code_execution", CallID: id, Provider: provider, AtUS: s.o.AtUS, Details: pyjson.NewObject()}
			if st := wire.PtrOf(t, "status"); st != nil {
				part.Details = wire.Obj("status", *st)
			}
			s.returns[index] = part
			return nil
		}
		s.tools[index] = id
		if wire.TextOf(t, "type") == "server_tool_use" {
			if wire.TextOf(t, "name") != "nova_code_interpreter" {
				return wire.Fail(wire.Kind, "/start/toolUse/name", "server tool")
			}
			s.m.Put(index, &wire.Part{Kind: wire.NativeCall, Tool: "code_execution", CallID: id, Provider: provider})
			return nil
		}
		_, err = s.m.Call(index, wire.CallDelta{Tool: wire.PtrOf(t, "name"), CallID: &id})
		return err
	case "contentBlockDelta":
		s.open[index] = true
		return s.delta(index, v.Get("delta"))
	case "contentBlockStop":
		if part := s.returns[index]; part != nil {
			s.m.Put(index, part)
		}
		delete(s.open, index)
		s.done[index] = true
	}
	return nil
}

func (s *stream) delta(index string, d *pyjson.Value) error {
	which, err := one(d, "/delta")
	if err != nil {
		return err
	}
	provider := &s.o.Provider
	id, isTool := s.tools[index]
	if isTool != (which == "toolUse") || (s.returns[index] != nil) != (which == "toolResult") {
		return wire.Fail(wire.Malformed, "/delta", "a delta of another kind of block")
	}
	switch which {
	case "reasoningContent":
		r := d.Get(which)
		part, err := one(r, "/delta/reasoningContent")
		if err != nil {
			return err
		}
		if part == "redactedContent" {
			sign, err := redacted(r, "/delta/reasoningContent")
			if err != nil {
				return err
			}
			if s.m.Get(index) != nil {
				return wire.Fail(wire.Unsupported, "/delta/reasoningContent", "redacted content in pieces")
			}
			_, err = s.m.Think(index, wire.ThinkingDelta{ID: wire.Ptr("redacted_content"), Sign: sign, Provider: provider})
			return err
		}
		t := wire.ThinkingDelta{Content: wire.PtrOf(r, "text"), Sign: wire.PtrOf(r, "signature")}
		if t.Sign != nil && *t.Sign != "" {
			t.Provider = provider
		}
		_, err = s.m.Think(index, t)
		return err
	case "text":
		if text := wire.TextOf(d, "text"); text != "" {
			_, _, err = s.m.Text(index, wire.TextDelta{Content: text, SkipLead: s.o.Profile.Flag("ignore_streamed_leading_whitespace")})
		}
		return err
	case "toolUse":
		_, err = s.m.Call(index, wire.CallDelta{Args: d.Get("toolUse").Get("input"), CallID: &id})
		return err
	}
	content := wire.Items(d, "toolResult")
	if len(content) > 1 || s.returns[index].Value != nil {
		return wire.Fail(wire.Unsupported, "/delta/toolResult", "more than one result")
	}
	if len(content) == 1 {
		s.returns[index].Value = wire.Respell(content[0].Get("json"))
	}
	return nil
}
