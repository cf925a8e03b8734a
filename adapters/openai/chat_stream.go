package openai

import (
	"strings"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/adapters/wire"
)

// eachChunk reads an event stream of chat completion chunks, checked. fail is called with the error object of an event that
// carries one; it ends the stream. A stream needs its [DONE].
func eachChunk(body []byte, do func(v *pyjson.Value, path string, first bool) error, fail func(v *pyjson.Value, path string) error) ([]wire.Dropped, error) {
	events, err := wire.Events(body)
	if err != nil {
		return nil, err
	}
	var dropped []wire.Dropped
	for i, e := range events {
		path := "/" + itoa(i)
		if strings.HasPrefix(e.Data, "[DONE]") {
			if e.Data != "[DONE]" || i != len(events)-1 {
				return nil, wire.Fail(wire.Malformed, path, "something after the end")
			}
			if i == 0 {
				return nil, wire.Fail(wire.Refused, path, "an empty stream")
			}
			return dedupe(dropped), nil
		}
		v, err := wire.ParseJSON([]byte(e.Data), path)
		if err != nil {
			return nil, err
		}
		if wire.Truthy(v.Get("error")) || e.Name == "error" {
			if i != len(events)-1 {
				return nil, wire.Fail(wire.Malformed, path, "something after an error")
			}
			return dedupe(dropped), fail(v, path)
		}
		if e.Name != "" {
			return nil, wire.Fail(wire.Kind, path, "a named event")
		}
		c := chatShapes().Checker()
		if err := c.Check(v, "CompletionChunk", path); err != nil {
			return nil, err
		}
		choices := wire.Items(v, "choices")
		if len(choices) > 1 {
			return nil, wire.Fail(wire.Unsupported, path+"/choices/1", "choice")
		}
		if len(choices) == 1 {
			if n, ok := choices[0].Get("index").Int(); !ok || n != 0 {
				return nil, wire.Fail(wire.Unsupported, path+"/choices/0/index", "choice")
			}
		}
		dropped = append(dropped, c.Dropped...)
		if err := do(v, path, i == 0); err != nil {
			return nil, at(err, path)
		}
	}
	return nil, wire.Fail(wire.Truncated, "", "no [DONE]")
}

func refuseError(_ *pyjson.Value, path string) error {
	return wire.Fail(wire.Refused, path+"/error", "error")
}

// ParseChatStream reads a whole stream of chunks of the providers of ParseChat, as OpenAIStreamedResponse does.
func ParseChatStream(o wire.Options, body []byte) (*wire.Response, error) {
	ids := o.NewIDs()
	s := &chatStream{o: o, d: dialectOf(o.Provider), m: wire.NewManager(ids, o.Request.ToolKinds), details: pyjson.NewObject()}
	s.r.ModelName = o.Model
	dropped, err := eachChunk(body, s.chunk, refuseError)
	if err != nil {
		return nil, err
	}
	if !s.finished && !s.refused {
		return nil, wire.Fail(wire.Truncated, "", "no finish reason")
	}
	if err := ids.Err(); err != nil {
		return nil, err
	}
	if s.refusal != "" {
		s.set("refusal", pyjson.NewString(s.refusal))
	}
	if len(s.logprobs) > 0 {
		s.set("logprobs", pyjson.NewArray(s.logprobs...))
	}
	if len(s.details.Members) > 0 {
		s.r.ProviderDetails = s.details
	}
	if s.r.Parts, err = s.m.Encode(); err != nil {
		return nil, err
	}
	s.r.Usage = s.usage
	s.r.ProviderName, s.r.ProviderURL = o.Provider, &o.BaseURL
	s.r.Dropped = dedupe(append(dropped, s.dropped...))
	return &s.r, nil
}

type chatStream struct {
	o        wire.Options
	d        dialect
	m        *wire.Manager
	r        wire.Response
	usage    wire.Usage
	details  *pyjson.Value
	dropped  []wire.Dropped
	logprobs []*pyjson.Value
	timed    bool
	finished bool
	refused  bool
	refusal  string

	content, reasoning int // generations of the two kinds of text
	held               string
	awaiting           bool
}

func (s *chatStream) set(name string, v *pyjson.Value) { s.details = s.details.With(name, v) }

func (s *chatStream) chunk(v *pyjson.Value, path string, first bool) error {
	if wire.Present(v, "moderation") != nil {
		return wire.Fail(wire.Unsupported, "/moderation", "moderation")
	}
	if s.d.openrouter && wire.Present(v, "created") == nil {
		return wire.Fail(wire.Shape, "/created", "missing")
	}
	if t := v.Get("created"); !s.timed && wire.Truthy(t) {
		us, ok := wire.Instant(t)
		if !ok {
			return wire.Fail(wire.Shape, "/created", "time expected")
		}
		s.timed = true
		s.set("timestamp", pyjson.NewString(pydanticai.FormatInstant(us)))
	}
	u, err := chatUsage(s.o, s.d, wire.Present(v, "usage"), path+"/usage")
	if err == nil {
		err = s.usage.Add(u)
	}
	if err != nil {
		return err
	}
	if id := wire.TextOf(v, "id"); id != "" {
		if s.r.ResponseID != nil && *s.r.ResponseID != id {
			return wire.Fail(wire.Malformed, "/id", "another response")
		}
		s.r.ResponseID = &id
	}
	if m := wire.TextOf(v, "model"); m != "" {
		s.r.ModelName = m
	}
	if tier := wire.TextOf(v, "service_tier"); tier != "" && !s.o.Old() {
		s.set("service_tier", pyjson.NewString(tier))
	}
	if s.d.openrouter && (!s.o.Old() || len(wire.Items(v, "choices")) > 0) {
		s.details = openrouterUsageDetails(s.details, v)
	}
	choices := wire.Items(v, "choices")
	if len(choices) == 0 {
		return nil
	}
	choice := choices[0]
	if s.d.openrouter && (wire.Present(choice, "delta") == nil || wire.Present(choice, "finish_reason") != nil && wire.TextOf(choice, "finish_reason") == "") {
		return wire.Fail(wire.Shape, "/choices/0", "delta and finish reason expected") // this dialect is read strictly
	}
	raw := wire.TextOf(choice, "finish_reason")
	finish, known := s.d.finish[raw]
	if raw != "" && !known {
		return wire.Fail(wire.Kind, "/choices/0/finish_reason", "finish reason")
	}
	s.finished = s.finished || raw != ""
	delta := wire.Present(choice, "delta")
	if delta == nil {
		return nil
	}
	if refusal := wire.TextOf(delta, "refusal"); refusal != "" {
		s.refused, s.r.FinishReason = true, "content_filter"
		s.refusal += refusal
		if wire.TextOf(delta, "content") != "" || len(wire.Items(delta, "tool_calls")) > 0 {
			s.dropped = append(s.dropped, wire.Dropped{Path: path + "/choices/0/delta", Name: "parts beside a refusal"})
		}
		return nil
	}
	if raw != "" && !s.refused {
		s.r.FinishReason = finish
	}
	if lp := wire.Items(choice.Get("logprobs"), "content"); len(lp) > 0 {
		s.logprobs = append(s.logprobs, mapLogprobs(lp).Items...)
	}
	if raw != "" && !s.refused {
		s.set("finish_reason", pyjson.NewString(raw))
	}
	if s.d.openrouter {
		s.set("downstream_provider", orNull(v.Get("provider")))
		if native := wire.TextOf(choice, "native_finish_reason"); native != "" {
			if s.refused {
				return wire.Fail(wire.Unsupported, "/choices/0/native_finish_reason", "finish reason beside a refusal")
			}
			s.set("finish_reason", pyjson.NewString(native))
		}
	}
	if len(wire.Items(delta, "annotations")) > 0 {
		if s.d.openrouter {
			return wire.Fail(wire.Unsupported, "/choices/0/delta/annotations", "annotations")
		}
		s.dropped = append(s.dropped, wire.Dropped{Path: path + "/choices/0/delta/annotations", Name: "annotations"})
	}
	if len(wire.Items(delta, "executed_tools")) > 0 {
		return wire.Fail(wire.Unsupported, "/choices/0/delta/executed_tools", "executed_tools")
	}
	if err := s.think(delta, path); err != nil {
		return err
	}
	if err := s.text(delta); err != nil {
		return err
	}
	return s.calls(delta, path)
}

// advance moves to the next part of a kind when another kind begins.
func (s *chatStream) advance(source string) {
	if source != "reasoning" {
		s.reasoning++
		s.awaiting = false
	}
	if source != "content" {
		if p := s.m.Get(s.contentID()); p != nil && p.Kind == wire.Text {
			s.content++
			s.awaiting = source == "reasoning"
		}
	}
}

func (s *chatStream) contentID() string { return "content " + itoa(s.content) }

func (s *chatStream) think(delta *pyjson.Value, path string) error {
	drop := func(name string) {
		s.dropped = append(s.dropped, wire.Dropped{Path: path + "/choices/0/delta/" + name, Name: name})
	}
	if s.d.openrouter {
		list := wire.Items(delta, "reasoning_details")
		for i, detail := range list {
			p := reasoningDetail(detail, s.o.Provider)
			at := itoa(i)
			if n := wire.Present(detail, "index"); n != nil {
				at = n.Text
			}
			if _, err := s.m.Think("reasoning_detail_"+wire.TextOf(detail, "type")+"_"+at,
				wire.ThinkingDelta{Content: &p.Content, ID: p.ID, Sign: p.Sign, Provider: p.Provider, Details: p.Details}); err != nil {
				return err
			}
		}
		for _, name := range []string{"reasoning", "reasoning_content"} {
			if wire.TextOf(delta, name) != "" && len(list) == 0 {
				drop(name)
			}
		}
		return nil
	}
	if len(wire.Items(delta, "reasoning_details")) > 0 {
		drop("reasoning_details")
	}
	taken := ""
	for _, name := range []string{s.o.Profile.Text("openai_chat_thinking_field"), "reasoning", "reasoning_content"} {
		text := wire.TextOf(delta, name)
		if name == "" || text == "" || name == taken {
			continue
		}
		if taken != "" {
			drop(name)
			continue
		}
		taken = name
		started, err := s.m.Think("reasoning "+name+" "+itoa(s.reasoning), wire.ThinkingDelta{Content: &text, ID: wire.Ptr(name), Provider: &s.o.Provider})
		if err != nil {
			return err
		}
		if started != nil {
			s.advance("reasoning")
		}
	}
	return nil
}

func (s *chatStream) text(delta *pyjson.Value) error {
	c := wire.Present(delta, "content")
	if c == nil {
		return nil
	}
	content, ok := c.Str()
	if !ok {
		return wire.Fail(wire.Shape, "/choices/0/delta/content", "text expected")
	}
	if content == "" {
		return nil
	}
	tags := s.o.Profile.Tags()
	started, emitted, err := s.m.Text(s.contentID(), wire.TextDelta{Content: content, Tags: &tags, SkipLead: s.o.Profile.Flag("ignore_streamed_leading_whitespace")})
	if err != nil {
		return err
	}
	if started != nil {
		s.advance("content")
		if started.Kind == wire.Thinking {
			started.ID, started.Provider = wire.Ptr("content"), &s.o.Provider
		} else if s.held != "" {
			started.Content = s.held + started.Content
			s.held = ""
		}
	}
	if !emitted && wire.IsSpace(content) && s.awaiting {
		s.held += content
	}
	return nil
}

func (s *chatStream) calls(delta *pyjson.Value, path string) error {
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
		if extra := wire.Present(call, "extra_content"); wire.Truthy(extra) {
			if s.o.Version == pydanticai.V2580 {
				d.Provider, d.Details = &s.o.Provider, wire.Obj("extra_content", wire.Respell(extra))
			} else {
				s.dropped = append(s.dropped, wire.Dropped{Path: path + where + "/extra_content", Name: "extra_content"})
			}
		}
		started, err := s.m.Call("call "+index.Text, d)
		if err != nil {
			return err
		}
		if started != nil {
			s.advance("tool")
		}
	}
	return nil
}
