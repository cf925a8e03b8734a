package anthropic

import (
	"strings"

	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/adapters/wire"
)

// ParseStream reads a whole event stream, as AnthropicStreamedResponse does. A stream without message_stop is wire.Truncated.
func ParseStream(o wire.Options, body []byte) (*wire.Response, error) {
	events, err := wire.Events(body)
	if err != nil {
		return nil, err
	}
	ids := o.NewIDs()
	s := &stream{p: parser{o: o, calls: map[string]*wire.Part{}}, m: wire.NewManager(ids, o.Request.ToolKinds), details: pyjson.NewObject(),
		open: map[string]*pyjson.Value{}, seen: map[string]bool{}, ignored: map[string]bool{}}
	s.r.State = "complete"
	for i, e := range events {
		path := "/" + itoa(i)
		if e.Name == "ping" {
			continue
		}
		v, err := wire.ParseJSON([]byte(e.Data), path)
		if err != nil {
			return nil, err
		}
		if e.Name == "error" || wire.TextOf(v, "type") == "error" {
			return nil, wire.Fail(wire.Refused, path+"/error", "error")
		}
		if e.Name != wire.TextOf(v, "type") {
			return nil, wire.Fail(wire.Malformed, path, "name of the event")
		}
		c := shapes().Checker()
		if err := c.Check(v, "BetaRawMessageStreamEvent", path); err != nil {
			return nil, err
		}
		s.p.dropped = append(s.p.dropped, c.Dropped...)
		if s.ended || s.begun == (e.Name == "message_start") {
			return nil, wire.Fail(wire.Malformed, path, "event out of order")
		}
		if err := s.event(v, path); err != nil {
			return nil, at(err, path)
		}
	}
	if !s.ended || len(s.open) > 0 || s.details.Get("finish_reason") == nil {
		return nil, wire.Fail(wire.Truncated, "", "no end of the message")
	}
	if err := ids.Err(); err != nil {
		return nil, err
	}
	if s.r.Parts, err = s.m.Encode(); err != nil {
		return nil, err
	}
	if len(s.details.Members) > 0 {
		s.r.ProviderDetails = s.details
	}
	s.r.ProviderName, s.r.ProviderURL = o.Provider, &o.BaseURL
	seen := map[string]bool{}
	for _, d := range s.p.dropped {
		if !seen[d.Name] {
			seen[d.Name] = true
			s.r.Dropped = append(s.r.Dropped, d)
		}
	}
	return &s.r, nil
}

func at(err error, path string) error {
	if e, ok := err.(*wire.Error); ok && !strings.HasPrefix(e.Path, path) {
		return wire.Fail(e.Code, path+e.Path, e.Reason)
	}
	return err
}

type stream struct {
	p       parser
	m       *wire.Manager
	r       wire.Response
	details *pyjson.Value
	begun   bool
	ended   bool
	open    map[string]*pyjson.Value // blocks by index
	seen    map[string]bool
	ignored map[string]bool
}

func (s *stream) event(v *pyjson.Value, path string) (err error) {
	switch wire.TextOf(v, "type") {
	case "message_start":
		s.begun = true
		m := v.Get("message")
		if len(wire.Items(m, "content")) > 0 || wire.Present(m, "stop_reason") != nil || wire.Present(m, "stop_details") != nil {
			return wire.Fail(wire.Unsupported, "/message", "content at the start")
		}
		s.r.ModelName, s.r.ResponseID = wire.TextOf(m, "model"), wire.PtrOf(m, "id")
		if s.r.Usage, err = s.p.usage(wire.Usage{}, m.Get("usage"), true, path+"/message/usage"); err != nil {
			return err
		}
		s.details, err = s.p.details(s.details, m, "/message")
		return err
	case "content_block_start":
		index := v.Get("index").Text
		if s.seen[index] {
			return wire.Fail(wire.Malformed, "/index", "a block twice")
		}
		s.seen[index] = true
		s.open[index] = v.Get("content_block")
		return s.start(index, v.Get("content_block"))
	case "content_block_delta":
		index := v.Get("index").Text
		if s.open[index] == nil {
			return wire.Fail(wire.Malformed, "/index", "a delta without its block")
		}
		if s.ignored[index] {
			return nil
		}
		return s.delta(index, v.Get("delta"))
	case "content_block_stop":
		index := v.Get("index").Text
		block := s.open[index]
		if block == nil {
			return wire.Fail(wire.Malformed, "/index", "the end of no block")
		}
		delete(s.open, index)
		return s.stop(index, block)
	case "message_delta":
		if s.r.Usage, err = s.p.usage(s.r.Usage, v.Get("usage"), false, path+"/usage"); err != nil {
			return err
		}
		if wire.Truthy(v.Get("input_transformations")) {
			return wire.Fail(wire.Unsupported, "/input_transformations", "input_transformations")
		}
		d := v.Get("delta")
		if raw := wire.TextOf(d, "stop_reason"); raw != "" {
			s.details = s.details.With("finish_reason", pyjson.NewString(raw))
			s.r.FinishReason, s.r.State = finishReasons[raw], "complete"
			if raw == "pause_turn" {
				s.r.State = "suspended"
			}
		}
		s.details, err = s.p.details(s.details, d, "/delta")
		return err
	case "message_stop":
		s.ended = true
	}
	return nil
}

func (s *stream) start(index string, b *pyjson.Value) error {
	provider := &s.p.o.Provider
	switch kind := wire.TextOf(b, "type"); kind {
	case "text":
		if text := wire.TextOf(b, "text"); text != "" {
			_, _, err := s.m.Text(index, wire.TextDelta{Content: text})
			return err
		}
		return nil
	case "thinking":
		_, err := s.m.Think(index, wire.ThinkingDelta{Content: wire.PtrOf(b, "thinking"), Sign: wire.PtrOf(b, "signature"), Provider: provider})
		return err
	case "redacted_thinking":
		_, err := s.m.Think(index, wire.ThinkingDelta{ID: wire.Ptr("redacted_thinking"), Sign: wire.PtrOf(b, "data"), Provider: provider})
		return err
	case "tool_use":
		d := wire.CallDelta{Tool: wire.PtrOf(b, "name"), CallID: wire.PtrOf(b, "id")}
		if input := b.Get("input"); len(input.Members) > 0 {
			d.Args = wire.Respell(input)
		}
		_, err := s.m.Call(index, d)
		return err
	case "server_tool_use":
		if !s.p.enabled(wire.TextOf(b, "name")) {
			s.ignored[index] = true
			s.p.drop("/content_block", "server_tool_use")
			return nil
		}
		part, err := s.p.block(b, "/content_block")
		if err != nil {
			return err
		}
		if len(b.Get("input").Members) == 0 {
			part.Args = nil
		}
		s.m.Put(index, part)
		return nil
	case "mcp_tool_use":
		part, err := s.p.block(b, "/content_block")
		if err != nil {
			return err
		}
		text, ok := strings.CutSuffix(string(pyjson.Compact(part.Args, nil)), "{}}")
		if !ok || !strings.HasSuffix(text, `"tool_args":`) {
			return wire.Fail(wire.Refused, "/content_block/input", "arguments before their deltas")
		}
		part.Args = nil
		s.m.Put(index, part)
		_, err = s.m.Call(index, wire.CallDelta{Args: pyjson.NewString(text)})
		return err
	default:
		part, err := s.p.block(b, "/content_block")
		if err != nil {
			return err
		}
		s.m.Put(index, part)
		return nil
	}
}

// deltasOf says which deltas a block may have.
var deltasOf = map[string]string{
	"text": "text_delta citations_delta", "thinking": "thinking_delta signature_delta", "tool_use": "input_json_delta",
	"server_tool_use": "input_json_delta", "mcp_tool_use": "input_json_delta", "compaction": "compaction_delta",
}

func (s *stream) delta(index string, d *pyjson.Value) (err error) {
	kind := wire.TextOf(d, "type")
	if !strings.Contains(deltasOf[wire.TextOf(s.open[index], "type")], kind) {
		return wire.Fail(wire.Malformed, "/delta/type", "a delta of another kind of block")
	}
	provider := &s.p.o.Provider
	switch kind {
	case "text_delta":
		_, _, err = s.m.Text(index, wire.TextDelta{Content: wire.TextOf(d, "text")})
	case "thinking_delta":
		_, err = s.m.Think(index, wire.ThinkingDelta{Content: wire.PtrOf(d, "thinking"), Provider: provider})
	case "signature_delta":
		_, err = s.m.Think(index, wire.ThinkingDelta{Sign: wire.PtrOf(d, "signature"), Provider: provider})
	case "input_json_delta":
		_, err = s.m.Call(index, wire.CallDelta{Args: d.Get("partial_json")})
	case "compaction_delta":
		if wire.TextOf(d, "content") != "" {
			part := &wire.Part{Kind: wire.Compaction, Value: d.Get("content"), Provider: provider}
			if e := wire.Present(d, "encrypted_content"); e != nil {
				part.Details = wire.Obj("encrypted_content", e)
			}
			s.m.Put(index, part)
		} else if wire.Present(d, "encrypted_content") != nil {
			return wire.Fail(wire.Unsupported, "/delta", "encrypted content without content")
		}
	}
	return err
}

func (s *stream) stop(index string, b *pyjson.Value) error {
	if s.ignored[index] {
		return nil
	}
	switch wire.TextOf(b, "type") {
	case "mcp_tool_use":
		_, err := s.m.Call(index, wire.CallDelta{Args: pyjson.NewString("}")})
		return err
	case "server_tool_use":
		part := s.m.Get(index)
		if part == nil || part.ToolKind != "tool-search" || part.Args.Is(pyjson.Object) {
			return nil
		}
		var args *pyjson.Value
		if text, _ := part.Args.Str(); text != "" {
			var err error
			if args, err = wire.ParseJSON([]byte(text), "/content_block/input"); err != nil {
				return err
			}
		}
		part.Args = searchArgs(args, wire.TextOf(part.Details, "strategy"))
	}
	return nil
}
