package openai

import (
	"strings"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/adapters/wire"
)

// ResponsesInput renders a history as the instructions (nil for none) and the input items of a Responses request.
func ResponsesInput(a *wire.Ask) (*string, []*pyjson.Value, error) {
	messages, err := a.Messages()
	if err != nil {
		return nil, nil, err
	}
	if a.Setting("openai_previous_response_id") != nil || a.Setting("openai_conversation_id") != nil {
		return nil, nil, wire.Fail(wire.Unsupported, "/settings", "a conversation that the provider keeps")
	}
	if n := len(messages); n > 0 && !messages[n-1].Request && wire.TextOf(messages[n-1].V, "state") == "suspended" && messages[n-1].Provider() == a.Provider {
		return nil, nil, wire.Fail(wire.Unsupported, messages[n-1].Path, "a response that is still being made")
	}
	w := responsesWriter{a: a, system: "system", searchIDs: map[string]bool{}, sendIDs: a.Profile.Flag("openai_supports_encrypted_reasoning_content"),
		scoped: a.Profile.Flag("openai_responses_tool_call_ids_are_response_scoped"), clientSearch: a.Request.Native("tool_search")}
	if v := a.Setting("openai_send_reasoning_ids"); v != nil {
		w.sendIDs = wire.Truthy(v)
	}
	if r := a.Profile.Text("openai_system_prompt_role"); r != "" {
		w.system = r
	}
	messages = afterCompaction(a.Provider, messages)
	for i, m := range messages {
		if m.Request {
			err = w.request(m)
		} else {
			err = w.response(messages, i)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return a.Instructions(messages), w.out, nil
}

// afterCompaction drops what stands before the last compaction that this provider can read, except the standing prompt.
func afterCompaction(provider string, messages []*wire.Message) []*wire.Message {
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		for j := len(m.Parts) - 1; j >= 0 && !m.Request; j-- {
			part := m.Parts[j]
			if wire.PartKind(part) != wire.Compaction || wire.TextOf(part, "provider_name") != provider || part.At("provider_details", "encrypted_content") == nil {
				continue
			}
			tail := append([]*wire.Message{{Request: false, Parts: m.Parts[j:], V: m.V, Path: m.Path}}, messages[i+1:]...)
			opening, instructions := wire.Standing(messages[:i])
			if wire.Truthy(part.At("provider_details", "pydantic_ai_standing_prompt_planted")) {
				opening = nil
			}
			if len(opening) == 0 && instructions == nil {
				return tail
			}
			return append([]*wire.Message{{Request: true, Parts: opening, V: wire.Obj("kind", "request", "instructions", orNull(instructions)), Path: m.Path}}, tail...)
		}
	}
	return messages
}

type responsesWriter struct {
	a            *wire.Ask
	system       string
	sendIDs      bool
	scoped       bool
	clientSearch bool
	searchIDs    map[string]bool
	out          []*pyjson.Value
	responseID   *string // that scopes call ids
}

func (w *responsesWriter) add(v *pyjson.Value) { w.out = append(w.out, v) }

// callID splits a stored call id into the provider's and, in older histories, the item's.
func (w *responsesWriter) callID(part *pyjson.Value, path string, responseID *string) (string, string, error) {
	id := wire.TextOf(part, "tool_call_id")
	if id == "" {
		return "", "", wire.Fail(wire.NeedsID, path+"/tool_call_id", "a tool call without an id")
	}
	id, item, _ := strings.Cut(id, "|")
	if w.scoped && responseID != nil {
		id = strings.TrimPrefix(id, *responseID+":")
	}
	return id, item, nil
}

func (w *responsesWriter) request(m *wire.Message) error {
	for i, part := range m.Parts {
		path := m.Path + "/parts/" + itoa(i)
		switch kind := wire.PartKind(part); kind {
		case "system-prompt":
			w.add(role(w.system, part.Get("content")))
		case "user-prompt":
			content := part.Get("content")
			if !content.Is(pyjson.String) {
				var err error
				if content, err = w.content(content.Items, path+"/content"); err != nil {
					return err
				}
			}
			w.add(role("user", content))
		case "tool-return":
			id, _, err := w.callID(part, path, w.responseID)
			if err != nil {
				return err
			}
			if wire.TextOf(part, "tool_kind") == "tool-search" {
				if w.searchIDs[id] {
					w.add(w.searchOutput(part, pyjson.NewString(id), "client", "completed"))
					continue
				}
				for _, def := range wire.Items(w.a.Params, "function_tools") {
					if def.Get("defer_loading").IsTrue() && !w.clientSearch {
						return wire.Fail(wire.Unsupported, path, "tools that a search found")
					}
				}
			}
			output, err := w.output(part, path)
			if err != nil {
				return err
			}
			w.add(wire.Obj("type", "function_call_output", "call_id", id, "output", output))
		case "retry-prompt":
			text := wire.RetryText(part)
			if wire.Present(part, "tool_name") == nil {
				w.add(role("user", pyjson.NewArray(wire.Obj("type", "input_text", "text", text))))
				continue
			}
			id, _, err := w.callID(part, path, w.responseID)
			if err != nil {
				return err
			}
			w.add(wire.Obj("type", "function_call_output", "call_id", id, "output", text))
		default:
			return wire.Fail(wire.Kind, path, kind)
		}
	}
	return nil
}

func (w *responsesWriter) content(items []*pyjson.Value, path string) (*pyjson.Value, error) {
	out := pyjson.NewArray()
	for i, item := range items {
		at := path + "/" + itoa(i)
		switch kind := wire.TextOf(item, "kind"); {
		case item.Is(pyjson.String):
			out.Items = append(out.Items, wire.Obj("text", item, "type", "input_text"))
		case kind == "text-content":
			out.Items = append(out.Items, wire.Obj("text", item.Get("content"), "type", "input_text"))
		case kind == "cache-point":
			if w.a.Profile.Flag("openai_supports_prompt_cache_breakpoints") {
				return nil, wire.Fail(wire.Unsupported, at, "cache-point")
			}
		default:
			file, err := w.file(item, at)
			if err != nil {
				return nil, err
			}
			out.Items = append(out.Items, file)
		}
	}
	return out, nil
}

func (w *responsesWriter) file(item *pyjson.Value, path string) (*pyjson.Value, error) {
	detail := pyjson.NewString("auto")
	if d := item.At("vendor_metadata", "detail"); d != nil {
		detail = d
	}
	url, media := item.Get("url"), wire.TextOf(item, "media_type")
	fileKind, format := wire.FileKind(media)
	switch kind := wire.TextOf(item, "kind"); kind {
	case "binary":
		uri, err := wire.DataURI(item, path)
		if err != nil {
			return nil, err
		}
		switch fileKind {
		case "image":
			return wire.Obj("image_url", uri, "type", "input_image", "detail", detail), nil
		case "document":
			return wire.Obj("type", "input_file", "file_data", uri, "filename", "filename."+format), nil
		}
		return nil, wire.Fail(wire.Refused, path, kind)
	case "image-url", "audio-url", "document-url":
		if wire.Downloads(item) {
			return nil, wire.NeedsDownload(path)
		}
		if kind == "image-url" {
			return wire.Obj("image_url", url, "type", "input_image", "detail", detail), nil
		}
		return wire.Obj("type", "input_file", "file_url", url), nil
	case "uploaded-file":
		if wire.TextOf(item, "provider_name") != w.a.Provider {
			return nil, wire.Fail(wire.Refused, path, "a file of another provider")
		}
		if fileKind == "image" {
			return wire.Obj("type", "input_image", "file_id", item.Get("file_id"), "detail", detail), nil
		}
		return wire.Obj("type", "input_file", "file_id", item.Get("file_id")), nil
	case "video-url":
		return nil, wire.Fail(wire.Refused, path, kind)
	default:
		return nil, wire.Fail(wire.Kind, path, kind)
	}
}

func (w *responsesWriter) output(part *pyjson.Value, path string) (*pyjson.Value, error) {
	r, err := wire.NewReturn(part, path)
	if err != nil {
		return nil, err
	}
	if len(r.Files) == 0 {
		return pyjson.NewString(r.Text(true)), nil
	}
	out := pyjson.NewArray()
	for _, item := range r.Items(false, true) {
		if item.Is(pyjson.String) {
			out.Items = append(out.Items, wire.Obj("type", "input_text", "text", item))
			continue
		}
		file, err := w.file(item, path+"/content")
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, file)
	}
	return out, nil
}

func (w *responsesWriter) searchOutput(part, id *pyjson.Value, execution, status string) *pyjson.Value {
	tools := pyjson.NewArray()
	for _, found := range wire.Items(part.Get("content"), "discovered_tools") {
		for _, def := range wire.Items(w.a.Params, "function_tools") {
			if wire.TextOf(def, "name") == wire.TextOf(found, "name") {
				if tool, err := responsesTool(w.a, def); err == nil {
					if def.Get("defer_loading").IsTrue() {
						tool = tool.With("defer_loading", pyjson.NewBool(true))
					}
					tools.Items = append(tools.Items, tool)
				}
			}
		}
	}
	return wire.Obj("type", "tool_search_output", "execution", execution, "tools", tools, "call_id", id, "status", status)
}

// open are items of one response that later parts still add to.
type open struct {
	message, reasoning int // index in out, -1 for none
	native             map[string]int
}

func (w *responsesWriter) response(messages []*wire.Message, index int) error {
	m := messages[index]
	same := m.Provider() == w.a.Provider
	o := open{-1, -1, map[string]int{}}
	parts := m.Parts
	if !w.a.Profile.On("openai_responses_supports_interleaved_function_calls") {
		parts = groupCalls(w.a.Version, messages, index, w.clientSearch)
	}
	for i, part := range parts {
		path := m.Path + "/parts/" + itoa(i)
		provider := wire.TextOf(part, "provider_name")
		own := provider == w.a.Provider || provider == "" && m.Provider() == w.a.Provider
		sameResponse := m.Provider() == w.a.Provider || m.Provider() == "" && provider == w.a.Provider
		same = same || sameResponse
		send := w.sendIDs && own
		switch kind := wire.PartKind(part); kind {
		case wire.Text:
			w.text(part, &o, send)
		case wire.Thinking:
			w.thinking(part, &o, send)
		case wire.ToolCall:
			scope := (*string)(nil)
			if sameResponse {
				scope = wire.PtrOf(m.V, "provider_response_id")
			}
			if err := w.call(part, path, scope, send); err != nil {
				return err
			}
		case wire.NativeCall:
			if err := w.nativeCall(part, path, &o, own, send); err != nil {
				return err
			}
		case wire.NativeReturn:
			w.nativeReturn(part, &o, own, send)
		case wire.Compaction:
			if provider == w.a.Provider && part.At("provider_details", "encrypted_content") != nil {
				w.add(wire.Obj("id", orNull(part.Get("id")), "encrypted_content", part.At("provider_details", "encrypted_content"), "type", "compaction"))
			}
		case wire.File:
		default:
			return wire.Fail(wire.Kind, path, kind)
		}
	}
	w.responseID = nil
	if w.scoped && same {
		w.responseID = wire.PtrOf(m.V, "provider_response_id")
	}
	return nil
}

func (w *responsesWriter) text(part *pyjson.Value, o *open, send bool) {
	id := wire.TextOf(part, "id")
	phase := wire.TextOf(part.Get("provider_details"), "phase")
	if !w.a.Profile.Flag("openai_supports_phase") || wire.TextOf(part, "provider_name") != w.a.Provider || phase != "commentary" && phase != "final_answer" {
		phase = ""
	}
	var item *pyjson.Value
	if id != "" && send {
		if o.message < 0 || wire.TextOf(w.out[o.message], "id") != id {
			o.message = len(w.out)
			w.add(wire.Obj("role", "assistant", "id", id, "content", pyjson.NewArray(), "type", "message", "status", "completed"))
		}
		item = w.out[o.message]
		piece := wire.Obj("text", part.Get("content"), "type", "output_text", "annotations", pyjson.NewArray())
		item = item.With("content", pyjson.NewArray(append(append([]*pyjson.Value{}, item.Get("content").Items...), piece)...))
		if phase != "" {
			item = item.With("phase", pyjson.NewString(phase))
		}
		w.out[o.message] = item
		return
	}
	item = role("assistant", part.Get("content"))
	if phase != "" {
		item = item.With("phase", pyjson.NewString(phase))
	}
	w.add(item)
}

func (w *responsesWriter) thinking(part *pyjson.Value, o *open, send bool) {
	id, content, sign := wire.TextOf(part, "id"), wire.TextOf(part, "content"), wire.TextOf(part, "signature")
	var raw []*pyjson.Value
	mine := wire.TextOf(part, "provider_name") == w.a.Provider
	if mine {
		raw = wire.Items(part.Get("provider_details"), "raw_content")
	}
	chat := id == "content" || id == "reasoning" || id == "reasoning_content"
	if id == "" || chat && sign == "" && len(raw) == 0 || !send && len(raw) == 0 {
		tags := w.a.Profile.Tags()
		w.add(role("assistant", pyjson.NewString(tags[0]+"\n"+content+"\n"+tags[1])))
		return
	}
	signature := pyjson.NewNull()
	if sign != "" && mine && w.a.Profile.Flag("openai_supports_encrypted_reasoning_content") {
		signature = pyjson.NewString(sign)
	}
	if (o.reasoning < 0 || wire.TextOf(w.out[o.reasoning], "id") != id) && (signature.Kind != pyjson.Null || content != "" || len(raw) > 0) {
		o.reasoning = len(w.out)
		w.add(wire.Obj("id", id, "summary", pyjson.NewArray(), "encrypted_content", signature, "type", "reasoning"))
	}
	if content != "" {
		item := w.out[o.reasoning]
		summary := append(append([]*pyjson.Value{}, item.Get("summary").Items...), wire.Obj("text", content, "type", "summary_text"))
		w.out[o.reasoning] = item.With("summary", pyjson.NewArray(summary...))
	}
	if len(raw) > 0 {
		list := pyjson.NewArray()
		for _, text := range raw {
			list.Items = append(list.Items, wire.Obj("text", text, "type", "reasoning_text"))
		}
		w.out[o.reasoning] = w.out[o.reasoning].With("content", list)
	}
}

func (w *responsesWriter) call(part *pyjson.Value, path string, scope *string, send bool) error {
	callID, id, err := w.callID(part, path, scope)
	if err != nil {
		return err
	}
	if id == "" {
		id = wire.TextOf(part, "id")
	}
	if w.clientSearch && wire.TextOf(part, "tool_kind") == "tool-search" {
		w.searchIDs[callID] = true
		args, err := wire.Args(part.Get("args"), path+"/args")
		if err != nil {
			return err
		}
		item := wire.Obj("type", "tool_search_call", "execution", "client", "arguments", wire.Respell(args), "call_id", callID, "status", "completed")
		if id != "" && send {
			item = item.With("id", pyjson.NewString(id))
		}
		w.add(item)
		return nil
	}
	args, err := wire.ArgsText(w.a.Version, part.Get("args"), path+"/args")
	if err != nil {
		return err
	}
	item := wire.Obj("name", part.Get("tool_name"), "arguments", args, "call_id", callID, "type", "function_call")
	if w.a.Profile.Flag("openai_responses_requires_function_call_status_none") {
		item = item.With("status", pyjson.NewNull())
	}
	if id != "" && send {
		item = item.With("id", pyjson.NewString(id))
	}
	if ns := part.At("provider_details", "namespace"); wire.Truthy(ns) && wire.TextOf(part, "provider_name") == w.a.Provider {
		item = item.With("namespace", ns)
	}
	w.add(item)
	return nil
}

func (w *responsesWriter) nativeCall(part *pyjson.Value, path string, o *open, own, send bool) error {
	tool, callID, id := wire.TextOf(part, "tool_name"), wire.TextOf(part, "tool_call_id"), wire.TextOf(part, "id")
	if id == "" {
		id = callID
	}
	args, err := wire.Args(part.Get("args"), path+"/args")
	if err != nil {
		return err
	}
	args = wire.Respell(args)
	if own && tool == "tool_search" && callID != "" {
		search, status := searchReplay(part)
		item := wire.Obj("call_id", search, "arguments", args, "type", "tool_search_call", "execution", "server", "status", status)
		if send && wire.TextOf(part, "id") != "" {
			item = item.With("id", pyjson.NewString(id))
		}
		w.add(item)
		return nil
	}
	if !send || callID == "" {
		return nil
	}
	switch server, isMCP := strings.CutPrefix(tool, "mcp_server:"); {
	case tool == "code_execution" && wire.Truthy(args.Get("container_id")):
		o.native[tool] = len(w.out)
		w.add(wire.Obj("id", callID, "code", orNull(args.Get("code")), "container_id", args.Get("container_id"), "outputs", pyjson.NewNull(),
			"status", "completed", "type", "code_interpreter_call"))
	case tool == "web_search" && len(args.Members) > 0:
		action := pyjson.NewObject()
		for _, m := range args.Members {
			if m.Value.Kind != pyjson.Null {
				action.Members = append(action.Members, m)
			}
		}
		o.native[tool] = len(w.out)
		w.add(wire.Obj("id", id, "action", action, "status", "completed", "type", "web_search_call"))
	case tool == "file_search" && len(args.Members) > 0:
		queries := args.Get("queries")
		if queries == nil {
			queries = pyjson.NewArray()
		}
		o.native[tool] = len(w.out)
		w.add(wire.Obj("id", id, "queries", queries, "status", "completed", "type", "file_search_call"))
	case tool == "image_generation":
		if !w.storeOff() {
			w.add(wire.Obj("id", callID, "type", "image_generation_call"))
		}
	case isMCP && server != "":
		switch {
		case wire.TextOf(args, "action") == "list_tools":
			w.add(wire.Obj("id", callID, "type", "mcp_list_tools", "server_label", server, "tools", pyjson.NewArray()))
		case wire.TextOf(args, "action") == "call_tool" && wire.Truthy(args.Get("tool_name")) && wire.Present(args, "tool_args") != nil:
			w.add(wire.Obj("id", callID, "server_label", server, "name", args.Get("tool_name"), "arguments", wire.JSON(args.Get("tool_args")),
				"error", pyjson.NewNull(), "output", pyjson.NewNull(), "type", "mcp_call"))
		}
	}
	return nil
}

func (w *responsesWriter) storeOff() bool {
	return w.a.Profile.Flag("openai_responses_requires_store_false") || w.a.Setting("openai_store").IsFalse()
}

func (w *responsesWriter) nativeReturn(part *pyjson.Value, o *open, own, send bool) {
	details := part.Get("provider_details")
	id := wire.TextOf(details, "id")
	if own && wire.TextOf(part, "tool_kind") == "tool-search" && id != "" {
		search, status := searchReplay(part)
		item := w.searchOutput(part, search, "server", status)
		if send {
			item = item.With("id", pyjson.NewString(id))
		}
		w.add(item)
		return
	}
	if status := part.Get("content").Get("status"); send && wire.Truthy(status) {
		if at, ok := o.native[wire.TextOf(part, "tool_name")]; ok {
			w.out[at] = w.out[at].With("status", status)
		}
	}
}

func searchReplay(part *pyjson.Value) (*pyjson.Value, string) {
	details := part.Get("provider_details")
	id := details.Get("call_id")
	if id == nil || id.Kind != pyjson.Null && id.Kind != pyjson.String {
		id = part.Get("tool_call_id")
	}
	status := wire.TextOf(details, "status")
	if status != "in_progress" && status != "incomplete" {
		status = "completed"
	}
	return id, status
}

// groupCalls puts the settled calls of a response behind the rest, for providers that take them only so.
func groupCalls(v pydanticai.Version, messages []*wire.Message, index int, clientSearch bool) []*pyjson.Value {
	parts := messages[index].Parts
	open := map[string]int{}
	searches := map[string]string{}
	isSearch := func(part *pyjson.Value) bool {
		if v == wire.V2330 {
			return clientSearch && wire.TextOf(part, "tool_name") == "search_tools"
		}
		return clientSearch && wire.TextOf(part, "tool_kind") == "tool-search"
	}
	for _, part := range parts {
		switch wire.PartKind(part) {
		case wire.NativeCall, wire.NativeReturn, wire.Compaction:
			return parts
		case wire.ToolCall:
			if isSearch(part) {
				searches[wire.TextOf(part, "tool_call_id")] = wire.TextOf(part, "tool_name")
			} else {
				open[wire.TextOf(part, "tool_call_id")]++
			}
		}
	}
	for _, m := range messages[index+1:] {
		if !m.Request {
			break
		}
		for _, part := range m.Parts {
			id, kind := wire.TextOf(part, "tool_call_id"), wire.PartKind(part)
			tool := wire.TextOf(part, "tool_name")
			settles := kind == "tool-return" && !isSearch(part) || kind == "retry-prompt" && tool != "" && searches[id] != tool
			if settles && open[id] > 0 {
				open[id]--
			}
		}
	}
	for _, n := range open {
		if n > 0 {
			return parts
		}
	}
	var out, rest, calls []*pyjson.Value
	flush := func() {
		out = append(append(out, rest...), calls...)
		rest, calls = nil, nil
	}
	for _, part := range parts {
		switch {
		case wire.PartKind(part) != wire.ToolCall:
			rest = append(rest, part)
		case isSearch(part):
			flush()
			out = append(out, part)
		default:
			calls = append(calls, part)
		}
	}
	flush()
	return out
}

var responsesSettings = []setting{{"max_tokens", "max_output_tokens"}, {"temperature", "temperature"}, {"top_p", "top_p"}, {"openai_top_logprobs", "top_logprobs"},
	{"openai_store", "store"}, {"openai_user", "user"}, {"openai_prompt_cache_key", "prompt_cache_key"}, {"openai_prompt_cache_retention", "prompt_cache_retention"},
	{"openai_background", "background"}, {"openai_truncation", "truncation"}}

func responsesTool(a *wire.Ask, tool *pyjson.Value) (*pyjson.Value, error) {
	parameters, strict, err := schemaOf(a, tool)
	if err != nil {
		return nil, err
	}
	strict = strict && a.Profile.On("openai_supports_strict_tool_definition")
	return wire.Obj("name", tool.Get("name"), "parameters", parameters, "type", "function", "description", orNull(tool.Get("description")), "strict", strict), nil
}

// ResponsesBody returns the body of a Responses request as a JSON value. The error is a *wire.Error; what the SDK would send and
// this does not render is refused by name.
func ResponsesBody(a *wire.Ask) (*pyjson.Value, error) {
	names := settingNames(responsesSettings, "openai_reasoning_*", "service_tier", "openai_service_tier", "openai_send_reasoning_ids",
		"openai_include_*", "openai_logprobs", "openai_text_verbosity", "openai_prompt_cache_diagnostics", "presence_penalty", "frequency_penalty",
		"logit_bias", "seed", "stop_sequences", "top_k")
	if err := a.RefuseSettings(names...); err != nil {
		return nil, err
	}
	p, err := a.Resolve()
	if err != nil {
		return nil, err
	}
	if p.Mode == "native" || wire.Truthy(a.Setting("openai_include_raw_annotations")) {
		return nil, wire.Fail(wire.Unsupported, "/params/output_mode", "native output")
	}
	instructions, input, err := ResponsesInput(a)
	if err != nil {
		return nil, err
	}
	if len(input) == 0 {
		input = append(input, role("user", pyjson.NewString("")))
	}
	c, err := a.Choice(p)
	if err != nil {
		return nil, err
	}
	choice := pyjson.NewString(c.Mode)
	if c.Names != nil || c.Mode == "required" {
		can, err := a.CanForce(thinks(a))
		switch {
		case err != nil:
			return nil, err
		case len(c.Names) == 1 && c.Mode == "required" && can:
			choice = wire.Obj("type", "function", "name", c.Names[0])
		case c.Names != nil:
			return nil, wire.Fail(wire.Unsupported, "/settings/tool_choice", "a choice of several tools")
		case !can:
			choice = pyjson.NewString("auto")
		}
	}
	full := a
	a = withoutSampling(a)
	body := wire.Obj("model", a.Model, "input", pyjson.NewArray(input...), "stream", a.Stream)
	if instructions != nil {
		body = body.With("instructions", pyjson.NewString(*instructions))
	}
	for _, s := range responsesSettings {
		body = s.put(a, body)
	}
	if a.Profile.Flag("openai_responses_requires_store_false") {
		body = body.With("store", pyjson.NewBool(false))
	}
	for _, name := range []string{"openai_service_tier", "service_tier"} {
		if tier := a.Setting(name); wire.Truthy(tier) {
			body = body.With("service_tier", tier)
			break
		}
	}
	var tools []*pyjson.Value
	for _, def := range p.Tools {
		tool, err := responsesTool(a, def)
		if err != nil {
			return nil, err
		}
		tools = append(tools, tool)
	}
	if len(tools) > 0 {
		body = body.With("tools", pyjson.NewArray(tools...)).With("tool_choice", choice)
		body = setting{"parallel_tool_calls", "parallel_tool_calls"}.put(a, body)
	}
	if v := full.Setting("openai_text_verbosity"); wire.Truthy(v) {
		body = body.With("text", wire.Obj("verbosity", v))
	}
	if r := reasoningOf(full); len(r.Members) > 0 {
		body = body.With("reasoning", r)
	}
	if include := includes(full); len(include.Items) > 0 {
		body = body.With("include", include)
	}
	return compared(full, body), nil
}

func reasoningOf(a *wire.Ask) *pyjson.Value {
	out := pyjson.NewObject()
	set := func(name string, v *pyjson.Value) {
		if wire.Truthy(v) {
			out = out.With(name, v)
		}
	}
	set("effort", a.Setting("openai_reasoning_effort"))
	if a.Profile.Flag("openai_responses_supports_reasoning_mode") {
		set("mode", a.Setting("openai_reasoning_mode"))
	}
	all := a.Profile.Flag("openai_responses_supports_reasoning_context")
	if context := a.Setting("openai_reasoning_context"); context == nil {
		if all {
			out = out.With("context", pyjson.NewString("all_turns"))
		}
	} else if context.Text == "all_turns" && all || context.Text != "all_turns" && a.Profile.Flag("openai_supports_reasoning") {
		out = out.With("context", context)
	}
	set("summary", a.Setting("openai_reasoning_summary"))
	return out
}

func includes(a *wire.Ask) *pyjson.Value {
	out := pyjson.NewArray()
	if a.Profile.Flag("openai_supports_encrypted_reasoning_content") {
		out.Items = append(out.Items, pyjson.NewString("reasoning.encrypted_content"))
	}
	for _, s := range []setting{{"openai_include_code_execution_outputs", "code_interpreter_call.outputs"}, {"openai_include_web_search_sources", "web_search_call.action.sources"},
		{"openai_include_file_search_results", "file_search_call.results"}, {"openai_logprobs", "message.output_text.logprobs"}} {
		if wire.Truthy(a.Setting(s.name)) {
			out.Items = append(out.Items, pyjson.NewString(s.member))
		}
	}
	return out
}

// compared names the last response of this provider, for models whose cache can be looked into.
func compared(a *wire.Ask, body *pyjson.Value) *pyjson.Value {
	if v := a.Settings.Get("openai_prompt_cache_diagnostics"); v != nil && !wire.Truthy(v) || !a.Profile.Flag("openai_responses_supports_prompt_cache_diagnostics") {
		return body
	}
	for i := len(a.History.Items) - 1; i >= 0; i-- {
		m := a.History.Items[i]
		if wire.TextOf(m, "kind") == "response" && wire.TextOf(m, "provider_name") == a.Provider {
			if id := wire.TextOf(m, "provider_response_id"); strings.HasPrefix(id, "resp_") && !wire.Truthy(m.At("provider_details", "compaction")) {
				return body.With("prompt_cache_options", wire.Obj("comparison_response_id", id))
			}
			return body
		}
	}
	return body
}
