package openai

import (
	"strings"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/adapters/wire"
)

// ParseResponsesStream reads a whole event stream of the Responses API, as OpenAIResponsesStreamedResponse does. A stream
// without its final event is wire.Truncated.
func ParseResponsesStream(o wire.Options, body []byte) (*wire.Response, error) {
	events, err := wire.Events(body)
	if err != nil {
		return nil, err
	}
	ids := o.NewIDs()
	s := &responsesStream{p: responsesParser{o: o}, m: wire.NewManager(ids, o.Request.ToolKinds), phase: map[string]string{},
		listed: map[string]bool{}, args: map[string]string{}, final: map[string]bool{}, details: pyjson.NewObject(), last: -1}
	s.r.ModelName = o.Model
	for i, e := range events {
		path := "/" + itoa(i)
		if strings.HasPrefix(e.Data, "[DONE]") {
			break
		}
		if s.ended {
			return nil, wire.Fail(wire.Malformed, path, "an event after the last")
		}
		v, err := wire.ParseJSON([]byte(e.Data), path)
		if err != nil {
			return nil, err
		}
		if wire.Truthy(v.Get("error")) {
			return nil, wire.Fail(wire.Refused, path+"/error", "error")
		}
		c := responsesShapes().Checker()
		if err := c.Check(v, "ResponseStreamEvent", path); err != nil {
			return nil, err
		}
		if t := wire.TextOf(v, "type"); e.Name != "" && e.Name != t {
			return nil, wire.Fail(wire.Malformed, path, "name of the event")
		} else if seq := wire.Present(v, "sequence_number"); seq != nil {
			n, ok := seq.Int()
			if !ok || n <= s.last {
				return nil, wire.Fail(wire.Malformed, path+"/sequence_number", "not rising")
			}
			s.last = n
		}
		s.p.dropped = append(s.p.dropped, c.Dropped...)
		if err := s.event(v, path, i == 0); err != nil {
			return nil, at(err, path)
		}
	}
	if !s.ended {
		return nil, wire.Fail(wire.Truncated, "", "no final event")
	}
	if err := ids.Err(); err != nil {
		return nil, err
	}
	if s.refusal != "" {
		s.details = s.details.With("refusal", pyjson.NewString(s.refusal))
	}
	if len(s.details.Members) > 0 {
		s.r.ProviderDetails = s.details
	}
	if s.r.Parts, err = s.m.Encode(); err != nil {
		return nil, err
	}
	s.r.Usage, s.r.ProviderName, s.r.ProviderURL, s.r.State = s.usage, o.Provider, &o.BaseURL, s.state
	s.r.Dropped = dedupe(s.p.dropped)
	return &s.r, nil
}

// at puts the event in front of a path that lacks it.
func at(err error, path string) error {
	if e, ok := err.(*wire.Error); ok && !strings.HasPrefix(e.Path, path) {
		return wire.Fail(e.Code, path+e.Path, e.Reason)
	}
	return err
}

// dedupe keeps one of each name: a stream says the same thing in its deltas and in its final event.
func dedupe(list []wire.Dropped) []wire.Dropped {
	var out []wire.Dropped
	seen := map[string]bool{}
	for _, d := range list {
		if !seen[d.Name] {
			seen[d.Name] = true
			out = append(out, d)
		}
	}
	return out
}

type responsesStream struct {
	p       responsesParser
	m       *wire.Manager
	r       wire.Response
	usage   wire.Usage
	details *pyjson.Value
	state   string
	last    int64
	ended   bool
	refused bool
	refusal string

	phase   map[string]string // by item, not yet given to its text
	listed  map[string]bool   // MCP tool lists that have come
	pending []string          // tool searches without a call id
	args    map[string]string // of function calls, by item
	final   map[string]bool   // function calls whose arguments are complete
}

func (s *responsesStream) set(name string, v *pyjson.Value) { s.details = s.details.With(name, v) }

func (s *responsesStream) event(v *pyjson.Value, path string, first bool) error {
	kind := wire.TextOf(v, "type")
	if first {
		if err := s.first(v, kind); err != nil {
			return err
		}
	}
	r := v.Get("response")
	if r != nil {
		if err := s.p.unsupported(r, path+"/response"); err != nil {
			return err
		}
		if wire.Present(r, "background").IsTrue() {
			s.set("background", pyjson.NewBool(true))
		}
	}
	item := v.Get("item")
	itemID := wire.TextOf(v, "item_id")
	if v.Get("item_id") != nil && itemID == "" {
		return wire.Fail(wire.Shape, path+"/item_id", "an empty id")
	}
	provider := wire.Ptr(s.p.o.Provider)
	switch kind {
	case "response.completed", "response.failed", "response.incomplete":
		return s.terminal(kind, r, path)
	case "response.created":
		s.setState(r)
		if id := wire.TextOf(r, "id"); id != "" {
			s.r.ResponseID = &id
		}
		s.conversation(r)
	case "response.in_progress", "response.queued":
		s.setState(r)
		return s.add(r, path)
	case "response.output_item.added":
		return s.added(item, path+"/item")
	case "response.output_item.done":
		return s.done(item, path+"/item")
	case "response.function_call_arguments.delta":
		now, ok := s.args[itemID]
		if !ok || s.final[itemID] {
			return wire.Fail(wire.Malformed, "", "arguments for a call that is not open")
		}
		s.args[itemID] = now + wire.TextOf(v, "delta")
		_, err := s.m.Call(itemID, wire.CallDelta{Args: v.Get("delta")})
		return err
	case "response.function_call_arguments.done":
		return s.finish(itemID, wire.TextOf(v, "arguments"))
	case "response.reasoning_summary_part.added", "response.reasoning_summary_text.delta":
		vendor := itemID
		if n, _ := v.Get("summary_index").Int(); n != 0 {
			vendor += "-" + v.Get("summary_index").Text
		}
		text := wire.PtrOf(v, "delta")
		if kind == "response.reasoning_summary_part.added" {
			text = wire.PtrOf(v.Get("part"), "text")
		}
		_, err := s.m.Think(vendor, wire.ThinkingDelta{Content: text, ID: &itemID, Provider: provider})
		return err
	case "response.reasoning_text.delta":
		n, ok := v.Get("content_index").Int()
		if !ok || n < 0 || n > 1<<10 {
			return wire.Fail(wire.Shape, path+"/content_index", "index")
		}
		_, err := s.m.Think(itemID, wire.ThinkingDelta{ID: &itemID, Provider: provider, Update: func(details *pyjson.Value) *pyjson.Value {
			raw := pyjson.NewArray(append([]*pyjson.Value{}, wire.Items(details, "raw_content")...)...)
			for int64(len(raw.Items)) <= n {
				raw.Items = append(raw.Items, pyjson.NewString(""))
			}
			raw.Items[n] = pyjson.NewString(raw.Items[n].Text + wire.TextOf(v, "delta"))
			return withDetail(details, "raw_content", raw)
		}})
		return err
	case "response.output_text.delta":
		var details *pyjson.Value
		if phase, ok := s.phase[itemID]; ok {
			delete(s.phase, itemID)
			details = wire.Obj("phase", phase)
		}
		_, _, err := s.m.Text(itemID, wire.TextDelta{Content: wire.TextOf(v, "delta"), ID: &itemID, Provider: provider, Details: details})
		return err
	case "response.output_text.done":
		var details *pyjson.Value
		if lp := wire.Items(v, "logprobs"); len(lp) > 0 {
			details = withDetail(details, "logprobs", mapLogprobs(lp))
		}
		if phase, ok := s.phase[itemID]; ok {
			details = withDetail(details, "phase", pyjson.NewString(phase))
		}
		if part := s.m.Get(itemID); wire.TextOf(v, "text") != "" && (part == nil || part.Content != wire.TextOf(v, "text")) {
			return wire.Fail(wire.Malformed, "", "text differs from its deltas")
		}
		if details != nil && wire.TextOf(v, "text") != "" {
			_, _, err := s.m.Text(itemID, wire.TextDelta{Provider: provider, Details: details})
			return err
		}
	case "response.output_text.annotation.added":
		if s.p.o.Request.RawAnnotations {
			return wire.Fail(wire.Unsupported, "", "raw annotations")
		}
	case "response.refusal.delta":
		s.refused, s.r.FinishReason = true, "content_filter"
		s.refusal += wire.TextOf(v, "delta")
	case "response.refusal.done":
		s.refused, s.r.FinishReason = true, "content_filter"
		s.refusal = wire.TextOf(v, "refusal")
	case "response.code_interpreter_call_code.delta":
		text := pyjson.Compact(v.Get("delta"), nil)
		_, err := s.m.Call(itemID+"-call", wire.CallDelta{Args: pyjson.NewString(string(text[1 : len(text)-1]))})
		return err
	case "response.code_interpreter_call_code.done":
		_, err := s.m.Call(itemID+"-call", wire.CallDelta{Args: pyjson.NewString(`"}`)})
		return err
	case "response.mcp_call_arguments.delta":
		_, err := s.m.Call(itemID+"-call", wire.CallDelta{Args: v.Get("delta")})
		return err
	case "response.mcp_call_arguments.done":
		_, err := s.m.Call(itemID+"-call", wire.CallDelta{Args: pyjson.NewString("}")})
		return err
	case "response.image_generation_call.partial_image":
		format := v.Get("output_format")
		if format == nil {
			format = pyjson.NewString("png")
		}
		file, err := s.p.image(v.Get("partial_image_b64"), format, itemID, path)
		if err != nil {
			return err
		}
		s.m.Put(itemID+"-file", file)
	case "error":
		return wire.Fail(wire.Refused, path, "error")
	}
	return nil
}

func (s *responsesStream) first(v *pyjson.Value, kind string) error {
	if kind == "error" {
		return wire.Fail(wire.Refused, "", "error")
	}
	if kind != "response.created" {
		// Only a resumed background stream begins so.
		return wire.Fail(wire.Unsupported, "", "a stream that does not begin with response.created")
	}
	r := v.Get("response")
	s.r.ModelName = wire.TextOf(r, "model")
	if t := r.Get("created_at"); wire.Truthy(t) {
		us, ok := wire.Instant(t)
		if !ok {
			return wire.Fail(wire.Shape, "/response/created_at", "time expected")
		}
		s.set("timestamp", pyjson.NewString(pydanticai.FormatInstant(us)))
	}
	if s.p.o.Profile.Flag("openai_responses_tool_call_ids_are_response_scoped") {
		s.r.ResponseID = wire.PtrOf(r, "id")
	}
	return nil
}

func (s *responsesStream) setState(r *pyjson.Value) {
	s.state = stateOf(wire.TextOf(r, "status"), s.details.Get("background") != nil)
}

func (s *responsesStream) conversation(r *pyjson.Value) {
	if c := wire.Present(r, "conversation"); c != nil {
		s.set("conversation_id", pyjson.NewString(wire.TextOf(c, "id")))
	}
}

func (s *responsesStream) add(r *pyjson.Value, path string) error {
	u, err := s.p.usage(r, path+"/response")
	if err != nil {
		return err
	}
	return s.usage.Add(u)
}

func (s *responsesStream) terminal(kind string, r *pyjson.Value, path string) error {
	s.ended = true
	if m := wire.TextOf(r, "model"); m != "" {
		s.r.ModelName = m
	}
	if s.r.ResponseID == nil || *s.r.ResponseID == "" {
		s.r.ResponseID = wire.PtrOf(r, "id")
	} else if *s.r.ResponseID != wire.TextOf(r, "id") {
		return wire.Fail(wire.Malformed, path+"/response/id", "another response")
	}
	if t := r.Get("created_at"); wire.Truthy(t) && s.details.Get("timestamp") == nil {
		us, ok := wire.Instant(t)
		if !ok {
			return wire.Fail(wire.Shape, path+"/response/created_at", "time expected")
		}
		s.set("timestamp", pyjson.NewString(pydanticai.FormatInstant(us)))
	}
	if tier := wire.TextOf(r, "service_tier"); tier != "" && !s.p.o.Old() {
		s.set("service_tier", pyjson.NewString(tier))
	}
	if wire.Present(r, "error") != nil {
		return wire.Fail(wire.Refused, path+"/response/error", "error")
	}
	if kind == "response.completed" {
		for _, item := range wire.Items(r, "output") {
			if id := wire.TextOf(item, "id"); wire.TextOf(item, "type") == "mcp_list_tools" && !s.listed[id] {
				_, ret := s.p.mcpListTools(item)
				s.m.Put(id+"-return", ret)
				s.listed[id] = true
			}
		}
		if err := s.complete(r, path); err != nil {
			return err
		}
		s.conversation(r)
	}
	if err := s.add(r, path); err != nil {
		return err
	}
	s.setState(r)
	raw := ""
	switch kind {
	case "response.completed":
		raw = wire.TextOf(r, "status")
		if d := wire.Present(r, "incomplete_details"); d != nil {
			raw = wire.TextOf(d, "reason")
		}
	case "response.failed":
		raw = "failed"
	case "response.incomplete":
		raw = wire.TextOf(r.Get("incomplete_details"), "reason")
	}
	if raw != "" && !s.refused {
		s.set("finish_reason", pyjson.NewString(raw))
		s.r.FinishReason = responsesFinish[raw]
	}
	return nil
}

// complete compares what was streamed with the output of the final event: a delta that got lost would show here.
func (s *responsesStream) complete(r *pyjson.Value, path string) error {
	for i, item := range wire.Items(r, "output") {
		id := wire.TextOf(item, "id")
		where := path + "/response/output/" + itoa(i)
		switch wire.TextOf(item, "type") {
		case "message":
			text := ""
			for _, c := range wire.Items(item, "content") {
				text += wire.TextOf(c, "text")
			}
			if part := s.m.Get(id); text != "" && (part == nil || part.Content != text) {
				return wire.Fail(wire.Malformed, where, "text differs from its deltas")
			}
		case "function_call":
			if s.m.Get(id) == nil || s.args[id] != wire.TextOf(item, "arguments") {
				return wire.Fail(wire.Malformed, where, "call differs from its deltas")
			}
		case "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call":
			if s.m.Get(id+"-return") == nil {
				return wire.Fail(wire.Malformed, where, "an item that was not streamed")
			}
		}
	}
	return nil
}

func (s *responsesStream) responseID() string {
	if s.r.ResponseID != nil {
		return *s.r.ResponseID
	}
	return ""
}

func (s *responsesStream) added(item *pyjson.Value, path string) error {
	id := wire.TextOf(item, "id")
	without := func(p *wire.Part) *wire.Part { p.Args = nil; return p }
	switch kind := wire.TextOf(item, "type"); kind {
	case "function_call":
		if id == "" {
			return wire.Fail(wire.Shape, path+"/id", "text expected")
		}
		s.args[id] = wire.TextOf(item, "arguments")
		s.m.WholeCall(id, s.p.functionCall(item, s.responseID()))
	case "message":
		if phase := wire.TextOf(item, "phase"); phase != "" {
			s.phase[id] = phase
		}
	case "web_search_call":
		call, _ := s.p.webSearch(item)
		s.m.Put(id+"-call", without(call))
	case "file_search_call":
		call, _ := s.p.fileSearch(item)
		s.m.Put(id+"-call", without(call))
	case "tool_search_call":
		client := wire.TextOf(item, "execution") == "client"
		call, err := s.p.searchCall(item, path, client)
		if err != nil {
			return err
		}
		if client {
			s.m.WholeCall(id, without(call))
			return nil
		}
		if wire.Present(item, "call_id") == nil {
			s.pending = append(s.pending, call.CallID)
		}
		s.m.Put(id+"-call", without(call))
	case "code_interpreter_call":
		call, _, _, err := s.p.codeInterpreter(item, path)
		if err != nil {
			return err
		}
		text, ok := strings.CutSuffix(string(pyjson.Compact(call.Args, nil)), `"}`)
		if !ok || !strings.HasSuffix(text, `"code":"`) {
			return wire.Fail(wire.Refused, path+"/code", "code before its deltas")
		}
		s.m.Put(id+"-call", without(call))
		_, err = s.m.Call(id+"-call", wire.CallDelta{Args: pyjson.NewString(text)})
		return err
	case "image_generation_call":
		call, _, _, err := s.p.imageGeneration(item, path)
		if err != nil {
			return err
		}
		s.m.Put(id+"-call", call)
	case "mcp_call":
		call, _, err := s.p.mcpCall(item, path)
		if err != nil {
			return err
		}
		text, ok := strings.CutSuffix(string(pyjson.Compact(call.Args, nil)), `{}}`)
		if !ok || !strings.HasSuffix(text, `"tool_args":`) {
			return wire.Fail(wire.Refused, path+"/arguments", "arguments before their deltas")
		}
		s.m.Put(id+"-call", without(call))
		_, err = s.m.Call(id+"-call", wire.CallDelta{Args: pyjson.NewString(text)})
		return err
	case "mcp_list_tools":
		call, _ := s.p.mcpListTools(item)
		s.m.Put(id+"-call", call)
	case "compaction":
		s.m.Put(id, s.p.compaction(item))
	case "reasoning", "tool_search_output":
	default:
		return wire.Fail(wire.Kind, path+"/type", kind)
	}
	return nil
}

func (s *responsesStream) done(item *pyjson.Value, path string) error {
	id := wire.TextOf(item, "id")
	switch kind := wire.TextOf(item, "type"); kind {
	case "function_call":
		if id == "" {
			return wire.Fail(wire.Shape, path+"/id", "text expected")
		}
		if part := s.m.Get(id); part == nil || part.Kind != wire.ToolCall {
			s.args[id] = wire.TextOf(item, "arguments")
			s.m.WholeCall(id, s.p.functionCall(item, s.responseID()))
			s.final[id] = true
			return nil
		}
		return s.finish(id, wire.TextOf(item, "arguments"))
	case "message":
		text := ""
		for _, c := range wire.Items(item, "content") {
			text += wire.TextOf(c, "text")
		}
		if part := s.m.Get(id); text != "" && (part == nil || part.Content != text) {
			return wire.Fail(wire.Malformed, path, "text differs from its deltas")
		}
	case "reasoning":
		if sign := wire.TextOf(item, "encrypted_content"); sign != "" {
			_, err := s.m.Think(id, wire.ThinkingDelta{ID: &id, Sign: &sign, Provider: wire.Ptr(s.p.o.Provider)})
			return err
		}
	case "code_interpreter_call":
		_, ret, files, err := s.p.codeInterpreter(item, path)
		if err != nil {
			return err
		}
		for i, f := range files {
			s.m.Put(id+"-file-"+itoa(i), f)
		}
		s.m.Put(id+"-return", ret)
	case "web_search_call":
		call, ret := s.p.webSearch(item)
		if _, err := s.m.Call(id+"-call", wire.CallDelta{Args: call.Args}); err != nil {
			return err
		}
		s.m.Put(id+"-return", ret)
	case "file_search_call":
		call, ret := s.p.fileSearch(item)
		if _, err := s.m.Call(id+"-call", wire.CallDelta{Args: call.Args}); err != nil {
			return err
		}
		s.m.Put(id+"-return", ret)
	case "tool_search_call":
		client := wire.TextOf(item, "execution") == "client"
		call, err := s.p.searchCall(item, path, client)
		if err != nil {
			return err
		}
		if client {
			_, err = s.m.Call(id, wire.CallDelta{Args: pyjson.NewString(string(pyjson.Compact(call.Args, nil))), CallID: &call.CallID})
			return err
		}
		_, err = s.m.Call(id+"-call", wire.CallDelta{Args: call.Args, Details: call.Details})
		return err
	case "tool_search_output":
		if wire.TextOf(item, "execution") != "server" {
			return nil
		}
		callID, given := item.Get("call_id").Str()
		callID, s.pending = matchSearch(callID, given, s.pending)
		if callID == "" && !given {
			callID = id
		}
		s.m.Put(id+"-return", s.p.searchReturn(callID, item))
	case "image_generation_call":
		_, ret, file, err := s.p.imageGeneration(item, path)
		if err != nil {
			return err
		}
		if file != nil {
			s.m.Put(id+"-file", file)
		}
		s.m.Put(id+"-return", ret)
	case "mcp_call":
		_, ret, err := s.p.mcpCall(item, path)
		if err != nil {
			return err
		}
		s.m.Put(id+"-return", ret)
	case "mcp_list_tools":
		_, ret := s.p.mcpListTools(item)
		s.m.Put(id+"-return", ret)
		s.listed[id] = true
	case "compaction":
		s.m.Put(id, s.p.compaction(item))
	default:
		return wire.Fail(wire.Kind, path+"/type", kind)
	}
	return nil
}

// finish takes the complete arguments of a function call. Where they differ from the deltas the SDK warns and keeps the
// deltas; here that is a refusal.
func (s *responsesStream) finish(id, final string) error {
	part := s.m.Get(id)
	if s.final[id] || final == "" || part == nil || part.Kind != wire.ToolCall {
		if s.args[id] != final {
			return wire.Fail(wire.Malformed, "", "arguments differ from their deltas")
		}
		return nil
	}
	received := s.args[id]
	s.final[id] = true
	if received == final {
		return nil
	}
	rest, ok := strings.CutPrefix(final, received)
	if !ok {
		return wire.Fail(wire.Malformed, "", "arguments differ from their deltas")
	}
	s.args[id] = final
	_, err := s.m.Call(id, wire.CallDelta{Args: pyjson.NewString(rest)})
	return err
}
