package anthropic

import (
	"strings"
	"unicode/utf8"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/adapters/wire"
)

// Messages renders a history as the system prompt (a text, an array of blocks, or nil) and the messages of a request.
func Messages(a *wire.Ask) (*pyjson.Value, []*pyjson.Value, error) {
	messages, err := a.Messages()
	if err != nil {
		return nil, nil, err
	}
	messages = afterCompaction(a.Provider, messages)
	w := writer{a: a, declared: map[string]bool{}}
	for _, list := range []string{"function_tools", "output_tools"} {
		for _, def := range wire.Items(a.Params, list) {
			w.declared[wire.TextOf(def, "name")] = true
		}
	}
	first := true
	for _, m := range messages {
		if m.Request {
			standing := 0
			for first && standing < len(m.Parts) && wire.PartKind(m.Parts[standing]) == "system-prompt" {
				standing++
			}
			first = false
			err = w.request(m, standing)
		} else {
			err = w.response(m)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	w.dropUnpaired()
	w.placeSystem()
	if err := w.limitCachePoints(); err != nil {
		return nil, nil, err
	}
	system := strings.Join(w.system, "\n\n")
	instructions := a.InstructionParts(messages)
	if len(instructions) == 0 {
		if system == "" {
			return nil, w.encode(), nil
		}
		return pyjson.NewString(system), w.encode(), nil
	}
	blocks := pyjson.NewArray()
	if system != "" {
		blocks.Items = append(blocks.Items, textBlock(system))
	}
	for _, part := range instructions {
		blocks.Items = append(blocks.Items, textBlock(part.Content))
	}
	return blocks, w.encode(), nil
}

// afterCompaction drops what stands before the last compaction of this provider, except the standing prompt.
func afterCompaction(provider string, messages []*wire.Message) []*wire.Message {
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		for j := len(m.Parts) - 1; j >= 0 && !m.Request; j-- {
			part := m.Parts[j]
			if wire.PartKind(part) != wire.Compaction || wire.TextOf(part, "provider_name") != provider ||
				part.At("provider_details", "encrypted_content") == nil && wire.Present(part, "content") == nil {
				continue
			}
			tail := append([]*wire.Message{{Request: false, Parts: m.Parts[j:], V: m.V, Path: m.Path}}, messages[i+1:]...)
			opening, instructions := wire.Standing(messages[:i])
			if len(opening) == 0 && instructions == nil {
				return tail
			}
			return append([]*wire.Message{{Request: true, Parts: opening, V: wire.Obj("kind", "request", "instructions", orNull(instructions)), Path: m.Path}}, tail...)
		}
	}
	return messages
}

func orNull(v *pyjson.Value) *pyjson.Value {
	if v == nil {
		return pyjson.NewNull()
	}
	return v
}

func textBlock(text string) *pyjson.Value { return wire.Obj("text", text, "type", "text") }

type turn struct {
	role   string
	blocks []*pyjson.Value
}

type writer struct {
	a        *wire.Ask
	declared map[string]bool
	system   []string
	turns    []*turn
}

func (w *writer) encode() []*pyjson.Value {
	var out []*pyjson.Value
	for _, t := range w.turns {
		out = append(out, wire.Obj("role", t.role, "content", pyjson.NewArray(t.blocks...)))
	}
	return out
}

func (w *writer) add(role string, blocks []*pyjson.Value) {
	if len(blocks) > 0 {
		w.turns = append(w.turns, &turn{role, blocks})
	}
}

func (w *writer) request(m *wire.Message, standing int) error {
	var user, inline []*pyjson.Value
	for i, part := range m.Parts {
		path := m.Path + "/parts/" + itoa(i)
		switch kind := wire.PartKind(part); kind {
		case "system-prompt":
			if i < standing || !w.a.Profile.Flag("supports_inline_system_prompts") {
				w.system = append(w.system, wire.TextOf(part, "content"))
			} else {
				inline = append(inline, textBlock(wire.TextOf(part, "content")))
			}
		case "user-prompt":
			content := part.Get("content")
			items := content.Items
			if content.Is(pyjson.String) {
				items = []*pyjson.Value{content}
			}
			for j, item := range items {
				at := path + "/content/" + itoa(j)
				if wire.TextOf(item, "kind") == "cache-point" {
					if len(inline) > 0 {
						return wire.Fail(wire.Unsupported, at, "cache-point beside an inline system prompt")
					}
					if err := w.cache(user, wire.TextOf(item, "ttl"), at); err != nil {
						return err
					}
					continue
				}
				block, err := w.content(item, at)
				if err != nil {
					return err
				}
				if block != nil {
					user = append(user, block)
				}
			}
		case "tool-return":
			block, err := w.toolReturn(part, path)
			if err != nil {
				return err
			}
			user = append(user, block)
		case "retry-prompt":
			text := wire.RetryText(part)
			if wire.Present(part, "tool_name") == nil {
				user = append(user, textBlock(text))
				continue
			}
			id, err := callID(part, path)
			if err != nil {
				return err
			}
			user = append(user, wire.Obj("tool_use_id", id, "type", "tool_result", "content", text, "is_error", true))
		default:
			return wire.Fail(wire.Kind, path, kind)
		}
	}
	w.add("user", user)
	w.add("system", inline)
	return nil
}

func callID(part *pyjson.Value, path string) (string, error) {
	id := wire.TextOf(part, "tool_call_id")
	if id == "" {
		return "", wire.Fail(wire.NeedsID, path+"/tool_call_id", "a tool call without an id")
	}
	return id, nil
}

// cacheable are the blocks that a breakpoint of the cache may stand on.
const cacheable = " text tool_use server_tool_use image tool_result document tool_addition "

// cache puts a breakpoint on the last block of this turn, or of the turn before.
func (w *writer) cache(user []*pyjson.Value, ttl, path string) error {
	blocks := user
	if len(blocks) == 0 && len(w.turns) > 0 {
		blocks = w.turns[len(w.turns)-1].blocks
	}
	if len(blocks) == 0 || !strings.Contains(cacheable, " "+wire.TextOf(blocks[len(blocks)-1], "type")+" ") {
		return wire.Fail(wire.Refused, path, "cache-point without content before it")
	}
	last := len(blocks) - 1
	blocks[last] = blocks[last].With("cache_control", wire.Obj("type", "ephemeral", "ttl", ttl))
	return nil
}

// limitCachePoints refuses what the SDK would thin out: more than four breakpoints, or a longer one after a shorter.
func (w *writer) limitCachePoints() error {
	n, short := 0, false
	for _, t := range w.turns {
		for _, b := range t.blocks {
			if c := b.Get("cache_control"); c != nil {
				n++
				if wire.TextOf(c, "ttl") == "5m" {
					short = true
				} else if short {
					return wire.Fail(wire.Unsupported, "", "cache-points of several lifetimes")
				}
			}
		}
	}
	if n > 4 {
		return wire.Fail(wire.Unsupported, "", "more than four cache-points")
	}
	return nil
}

func (w *writer) content(item *pyjson.Value, path string) (*pyjson.Value, error) {
	text, isText := item.Str()
	if wire.TextOf(item, "kind") == "text-content" {
		text, isText = wire.TextOf(item, "content"), true
	}
	if isText {
		if text == "" {
			return nil, nil
		}
		return textBlock(text), nil
	}
	return w.file(item, path)
}

func (w *writer) file(item *pyjson.Value, path string) (*pyjson.Value, error) {
	media := wire.TextOf(item, "media_type")
	fileKind, _ := wire.FileKind(media)
	switch kind := wire.TextOf(item, "kind"); kind {
	case "uploaded-file":
		if wire.TextOf(item, "provider_name") != w.a.Provider {
			return nil, wire.Fail(wire.Refused, path, "a file of another provider")
		}
		source := wire.Obj("file_id", item.Get("file_id"), "type", "file")
		switch {
		case fileKind == "image":
			return wire.Obj("source", source, "type", "image"), nil
		case strings.HasPrefix(media, "text/"), strings.HasPrefix(media, "application/"):
			return wire.Obj("source", source, "type", "document"), nil
		}
		return nil, wire.Fail(wire.Refused, path, kind)
	case "binary":
		data, err := wire.Bytes(item, path)
		if err != nil {
			return nil, err
		}
		switch {
		case fileKind == "image":
			return wire.Obj("source", wire.Obj("data", wire.Base64Std(data), "media_type", media, "type", "base64"), "type", "image"), nil
		case media == "application/pdf":
			return wire.Obj("source", wire.Obj("data", wire.Base64Std(data), "media_type", media, "type", "base64"), "type", "document"), nil
		case media == "text/plain" && utf8.Valid(data):
			return wire.Obj("source", wire.Obj("data", string(data), "media_type", media, "type", "text"), "type", "document"), nil
		}
		return nil, wire.Fail(wire.Refused, path, kind)
	case "image-url", "document-url":
		if wire.Downloads(item) || kind == "document-url" && media == "text/plain" {
			return nil, wire.NeedsDownload(path)
		}
		source := wire.Obj("type", "url", "url", item.Get("url"))
		switch {
		case kind == "image-url":
			return wire.Obj("source", source, "type", "image"), nil
		case media == "application/pdf":
			return wire.Obj("source", source, "type", "document"), nil
		}
		return nil, wire.Fail(wire.Refused, path, kind)
	case "audio-url", "video-url":
		return nil, wire.Fail(wire.Refused, path, kind)
	default:
		return nil, wire.Fail(wire.Kind, path, kind)
	}
}

// found renders the result of a local search for tools as references, where tools are kept back on the wire; nil where not.
func (w *writer) found(part *pyjson.Value) *pyjson.Value {
	deferred := false
	for _, def := range wire.Items(w.a.Params, "function_tools") {
		deferred = deferred || def.Get("defer_loading").IsTrue()
	}
	if !deferred || wire.TextOf(part, "tool_kind") != "tool-search" {
		return nil
	}
	refs := pyjson.NewArray()
	for _, match := range wire.Items(part.Get("content"), "discovered_tools") {
		if w.declared[wire.TextOf(match, "name")] {
			refs.Items = append(refs.Items, wire.Obj("tool_name", match.Get("name"), "type", "tool_reference"))
		}
	}
	if len(refs.Items) == 0 {
		text := wire.TextOf(part.Get("content"), "message")
		if text == "" {
			text = "No matching tools found. The tools you need may not be available."
		}
		refs.Items = append(refs.Items, textBlock(text))
	}
	return refs
}

func (w *writer) toolReturn(part *pyjson.Value, path string) (*pyjson.Value, error) {
	id, err := callID(part, path)
	if err != nil {
		return nil, err
	}
	r, err := wire.NewReturn(part, path)
	if err != nil {
		return nil, err
	}
	if refs := w.found(part); refs != nil {
		return wire.Obj("tool_use_id", id, "type", "tool_result", "content", refs, "is_error", false), nil
	}
	content := pyjson.NewArray()
	for _, item := range r.Items(false, false) {
		if item.Is(pyjson.String) {
			content.Items = append(content.Items, textBlock(item.Text))
			continue
		}
		block, err := w.file(item, path+"/content")
		if err != nil {
			return nil, err
		}
		content.Items = append(content.Items, block)
	}
	if len(content.Items) == 0 {
		content = pyjson.NewString("")
	}
	return wire.Obj("tool_use_id", id, "type", "tool_result", "content", content, "is_error", r.Failed()), nil
}

func (w *writer) response(m *wire.Message) error {
	var blocks, carried []*pyjson.Value
	for i, part := range m.Parts {
		path := m.Path + "/parts/" + itoa(i)
		content := wire.TextOf(part, "content")
		own := wire.TextOf(part, "provider_name") == w.a.Provider
		switch kind := wire.PartKind(part); kind {
		case wire.Text:
			if content != "" {
				blocks = append(blocks, textBlock(content))
			}
		case wire.ToolCall:
			id, err := callID(part, path)
			if err != nil {
				return err
			}
			args, err := wire.Args(part.Get("args"), path+"/args")
			if err != nil {
				return err
			}
			blocks = append(blocks, wire.Obj("id", id, "type", "tool_use", "name", part.Get("tool_name"), "input", wire.Respell(args)))
		case wire.Thinking:
			sign := wire.TextOf(part, "signature")
			switch {
			case own && sign != "" && wire.TextOf(part, "id") == "redacted_thinking":
				blocks = append(blocks, wire.Obj("data", sign, "type", "redacted_thinking"))
			case own && sign != "":
				blocks = append(blocks, wire.Obj("thinking", content, "signature", sign, "type", "thinking"))
			case content == "":
			case w.a.Version == pydanticai.V2580 && w.a.Profile.Flag("mimics_assistant_message_formatting"):
				carried = append(carried, textBlock(wire.CarriedThinking(m, content)))
			default:
				tags := w.a.Profile.Tags()
				blocks = append(blocks, textBlock(tags[0]+"\n"+content+"\n"+tags[1]))
			}
		case wire.NativeCall:
			if !own {
				continue
			}
			block, err := w.nativeCall(part, path)
			if err != nil {
				return err
			}
			if block != nil {
				blocks = append(blocks, block)
			}
		case wire.NativeReturn:
			if !own {
				continue
			}
			block, err := w.nativeReturn(part, path)
			if err != nil {
				return err
			}
			if block != nil {
				blocks = append(blocks, block)
			}
		case wire.Compaction:
			if own {
				block := wire.Obj("content", orNull(part.Get("content")), "type", "compaction")
				if e := wire.Present(part.Get("provider_details"), "encrypted_content"); e != nil {
					block = block.With("encrypted_content", e)
				}
				blocks = append(blocks, block)
			}
		case wire.File:
		default:
			return wire.Fail(wire.Kind, path, kind)
		}
	}
	if len(carried) > 0 {
		at := len(w.turns)
		for at > 0 && w.turns[at-1].role == "system" {
			at--
		}
		w.turns = append(w.turns[:at], append([]*turn{{"user", carried}}, w.turns[at:]...)...)
	}
	w.add("assistant", blocks)
	return nil
}

func withCaller(block, part *pyjson.Value) *pyjson.Value {
	if c := part.At("provider_details", "anthropic_caller"); c.Is(pyjson.Object) {
		return block.With("caller", wire.Respell(c))
	}
	return block
}

// codeTool is _get_anthropic_code_execution_tool_name.
func codeTool(part *pyjson.Value) string {
	switch name := wire.TextOf(part.Get("provider_details"), "anthropic_tool_name"); name {
	case "code_execution", "bash_code_execution", "text_editor_code_execution":
		return name
	}
	if tool := wire.TextOf(part, "tool_name"); tool == "bash_code_execution" || tool == "text_editor_code_execution" {
		return tool
	}
	if wire.PartKind(part) == wire.NativeReturn {
		for _, name := range []string{"bash_code_execution", "text_editor_code_execution"} {
			if strings.HasPrefix(wire.TextOf(part.Get("content"), "type"), name) {
				return name
			}
		}
	}
	return "code_execution"
}

func (w *writer) bedrock() bool { return strings.Contains(w.a.BaseURL, "amazonaws.com") }

func (w *writer) nativeCall(part *pyjson.Value, path string) (*pyjson.Value, error) {
	id, err := callID(part, path)
	if err != nil {
		return nil, err
	}
	args, err := wire.Args(part.Get("args"), path+"/args")
	if err != nil {
		return nil, err
	}
	args = wire.Respell(args)
	tool := wire.TextOf(part, "tool_name")
	name := tool
	switch tool {
	case "web_search", "web_fetch":
	case "code_execution", "bash_code_execution", "text_editor_code_execution":
		name = codeTool(part)
	case "advisor":
		if !w.a.Request.Native("advisor") {
			return nil, nil
		}
	case "tool_search":
		key := "query"
		name = "tool_search_tool_bm25"
		if wire.TextOf(part.Get("provider_details"), "strategy") == "regex" || w.bedrock() {
			key, name = "pattern", "tool_search_tool_regex"
		}
		if queries := args.Get("queries"); queries != nil {
			var words []string
			for _, q := range queries.Items {
				if q.Is(pyjson.String) {
					words = append(words, q.Text)
				}
			}
			args = wire.Obj(key, strings.Join(words, " "))
		}
	default:
		server, ok := strings.CutPrefix(tool, "mcp_server:")
		if !ok && strings.HasPrefix(tool, "mcp_server") {
			return nil, wire.Fail(wire.Refused, path+"/tool_name", "an MCP server without a name")
		}
		if !ok || server == "" || !wire.Truthy(args.Get("tool_name")) || wire.Present(args, "tool_args") == nil {
			return nil, nil
		}
		return wire.Obj("id", id, "type", "mcp_tool_use", "server_name", server, "name", args.Get("tool_name"), "input", args.Get("tool_args")), nil
	}
	return withCaller(wire.Obj("id", id, "type", "server_tool_use", "name", name, "input", args), part), nil
}

func (w *writer) nativeReturn(part *pyjson.Value, path string) (*pyjson.Value, error) {
	id, err := callID(part, path)
	if err != nil {
		return nil, err
	}
	content := wire.Respell(orNull(part.Get("content")))
	object, list := content.Is(pyjson.Object), content.Is(pyjson.Array)
	result := func(kind string) *pyjson.Value {
		return wire.Obj("tool_use_id", id, "type", kind, "content", content)
	}
	switch tool := wire.TextOf(part, "tool_name"); {
	case (tool == "web_search" || tool == "web_search_tool_result") && (object || list):
		return withCaller(result("web_search_tool_result"), part), nil
	case (tool == "code_execution" || tool == "code_execution_tool_result" || tool == "bash_code_execution" || tool == "text_editor_code_execution") && (object || list):
		return result(codeTool(part) + "_tool_result"), nil
	case tool == "web_fetch" && object:
		return withCaller(result("web_fetch_tool_result"), part), nil
	case tool == "advisor":
		if w.a.Request.Native("advisor") && object {
			return result("advisor_tool_result"), nil
		}
	case wire.TextOf(part, "tool_kind") == "tool-search":
		inner := wire.Obj("type", "tool_search_tool_search_result")
		if code := wire.Present(part.Get("provider_details"), "error_code"); code != nil {
			inner = wire.Obj("type", "tool_search_tool_result_error", "error_code", code)
		} else {
			refs := pyjson.NewArray()
			for _, found := range wire.Items(content, "discovered_tools") {
				if w.declared[wire.TextOf(found, "name")] {
					refs.Items = append(refs.Items, wire.Obj("tool_name", found.Get("name"), "type", "tool_reference"))
				}
			}
			inner = inner.With("tool_references", refs)
		}
		return wire.Obj("tool_use_id", id, "type", "tool_search_tool_result", "content", inner), nil
	case strings.HasPrefix(tool, "mcp_server") && object:
		out, failed := content.Get("content"), content.Get("is_error")
		if out == nil || failed == nil || len(content.Members) != 2 {
			return nil, wire.Fail(wire.Shape, path+"/content", "result of an MCP server")
		}
		return wire.Obj("tool_use_id", id, "type", "mcp_tool_result", "content", out, "is_error", failed), nil
	}
	return nil, nil
}

func resultsOnly(blocks []*pyjson.Value) bool {
	for _, b := range blocks {
		if wire.TextOf(b, "type") != "tool_result" {
			return false
		}
	}
	return len(blocks) > 0
}

// dropUnpaired removes calls of the provider's own tools that have no result, unless nothing but results follows.
func (w *writer) dropUnpaired() {
	returned := map[string]bool{}
	for _, t := range w.turns {
		for _, b := range t.blocks {
			if id := b.Get("tool_use_id"); id != nil {
				returned[id.Text] = true
			}
		}
	}
	suffix := true
	for i := len(w.turns) - 1; i >= 0; i-- {
		t := w.turns[i]
		var kept []*pyjson.Value
		for _, b := range t.blocks {
			kind, name := wire.TextOf(b, "type"), wire.TextOf(b, "name")
			unpaired := (kind == "server_tool_use" || kind == "mcp_tool_use") && !returned[wire.TextOf(b, "id")]
			search := name == "tool_search_tool_bm25" || name == "tool_search_tool_regex"
			if unpaired && (!suffix || search) {
				continue
			}
			kept = append(kept, b)
		}
		if len(kept) == 0 && len(t.blocks) > 0 {
			w.turns = append(w.turns[:i], w.turns[i+1:]...)
			continue
		}
		t.blocks = kept
		suffix = suffix && t.role == "user" && resultsOnly(kept)
	}
}

// placeSystem moves system prompts of the conversation behind the user's turns and gives those without one an anchor.
func (w *writer) placeSystem() {
	for i := len(w.turns) - 1; i >= 0; i-- {
		if w.turns[i].role != "system" {
			continue
		}
		target := i + 1
		for target < len(w.turns) && w.turns[target].role == "user" {
			target++
		}
		if target == i+1 {
			continue
		}
		t := w.turns[i]
		rest := append(append([]*turn{}, w.turns[:i]...), w.turns[i+1:]...)
		w.turns = append(append(append([]*turn{}, rest[:target-1]...), t), rest[target-1:]...)
	}
	for i := len(w.turns) - 1; i >= 0; i-- {
		if w.turns[i].role == "system" && (i == 0 || w.turns[i-1].role == "assistant") {
			w.turns = append(w.turns[:i], append([]*turn{{"user", []*pyjson.Value{textBlock(".")}}}, w.turns[i:]...)...)
		}
	}
}

// Body returns the body of a Messages request as a JSON value. The error is a *wire.Error; what the SDK would send and this does
// not render is refused by name.
func Body(a *wire.Ask) (*pyjson.Value, error) {
	if err := a.RefuseSettings("max_tokens", "temperature", "top_p", "top_k", "stop_sequences", "timeout", "extra_headers", "tool_choice", "parallel_tool_calls",
		"anthropic_metadata", "anthropic_thinking", "anthropic_service_tier", "service_tier", "seed", "presence_penalty", "frequency_penalty", "logit_bias"); err != nil {
		return nil, err
	}
	if a.Setting("max_tokens") == nil {
		return nil, wire.Fail(wire.Unsupported, "/settings/max_tokens", "a limit that the SDK chooses")
	}
	p, err := a.Resolve()
	if err != nil {
		return nil, err
	}
	if p.Mode == "native" {
		return nil, wire.Fail(wire.Unsupported, "/params/output_mode", "native output")
	}
	system, messages, err := Messages(a)
	if err != nil {
		return nil, err
	}
	w := writer{a: a}
	body := wire.Obj("max_tokens", wire.Respell(a.Setting("max_tokens")), "messages", pyjson.NewArray(messages...), "system", system)
	if w.bedrock() {
		body = body.With("anthropic_version", pyjson.NewString("bedrock-2023-05-31"))
	} else {
		body = body.With("model", pyjson.NewString(a.Model)).With("stream", pyjson.NewBool(a.Stream))
	}
	put := func(setting, member string) {
		if v := a.Settings.Get(setting); v != nil {
			body = body.With(member, wire.Respell(v))
		}
	}
	put("stop_sequences", "stop_sequences")
	put("anthropic_metadata", "metadata")
	if !a.Profile.Flag("anthropic_disallows_sampling_settings") {
		for _, name := range []string{"temperature", "top_p", "top_k"} {
			if a.Setting(name) != nil {
				put(name, name)
			}
		}
	}
	thinking := a.Setting("anthropic_thinking")
	if wire.Truthy(thinking) {
		body = body.With("thinking", wire.Respell(thinking))
		if wire.TextOf(thinking, "type") == "enabled" && a.Profile.Flag("anthropic_disallows_budget_thinking") {
			return nil, wire.Fail(wire.Refused, "/settings/anthropic_thinking", "thinking with a budget")
		}
	}
	tier := wire.TextOf(a.Settings, "anthropic_service_tier")
	if tier == "" {
		tier = map[string]string{"auto": "auto", "default": "standard_only"}[wire.TextOf(a.Settings, "service_tier")]
	}
	if tier != "" {
		body = body.With("service_tier", pyjson.NewString(tier))
	}
	if err := w.tools(&body, p, thinking); err != nil {
		return nil, err
	}
	return w.fromHistory(body)
}

// fromHistory adds what earlier responses ask of later requests.
func (w *writer) fromHistory(body *pyjson.Value) (*pyjson.Value, error) {
	container := (*pyjson.Value)(nil)
	for i, m := range w.a.History.Items {
		details := m.Get("provider_details")
		if wire.TextOf(m, "kind") != "response" {
			continue
		}
		if wire.Truthy(details.Get("input_transformations")) && w.a.Profile.Flag("anthropic_binds_thinking_blocks") {
			return nil, wire.Fail(wire.Unsupported, "/"+itoa(i)+"/provider_details/input_transformations", "input_transformations")
		}
		if id := details.Get("container_id"); wire.Truthy(id) && wire.TextOf(m, "provider_name") == w.a.Provider {
			container = id
		}
		for j, part := range wire.Items(m, "parts") {
			if wire.PartKind(part) == wire.Compaction {
				if w.bedrock() {
					return nil, wire.Fail(wire.Unsupported, "/"+itoa(i)+"/parts/"+itoa(j), "compaction")
				}
				body = body.With("context_management", wire.Obj("edits", pyjson.NewArray(wire.Obj("type", "compact_20260112"))))
			}
		}
	}
	if container != nil {
		body = body.With("container", container)
	}
	return body, nil
}

func (w *writer) tools(body **pyjson.Value, p *wire.Params, thinking *pyjson.Value) error {
	c, err := w.a.Choice(p)
	if err != nil {
		return err
	}
	thinks := wire.TextOf(thinking, "type")
	if thinks != "enabled" && thinks != "adaptive" {
		if thinks = ""; !wire.Truthy(thinking) && w.a.Profile.Flag("thinking_enabled_by_default") {
			thinks = "adaptive"
		}
	}
	choice, defs := wire.Obj("type", c.Mode), p.Tools
	if c.Names != nil || c.Mode == "required" {
		can, err := w.canForce(thinks)
		if err != nil {
			return err
		}
		switch {
		case c.Names != nil && c.Mode == "required" && len(c.Names) == 1 && can:
			choice = wire.Obj("type", "tool", "name", c.Names[0])
		case c.Mode == "required" && can:
			choice, defs = wire.Obj("type", "any"), c.Only(defs)
		default:
			choice, defs = wire.Obj("type", "auto"), c.Only(defs)
		}
	}
	if parallel := w.a.Setting("parallel_tool_calls"); parallel != nil && wire.TextOf(choice, "type") != "none" {
		choice = choice.With("disable_parallel_tool_use", pyjson.NewBool(!wire.Truthy(parallel)))
	}
	tools := pyjson.NewArray()
	for _, def := range defs {
		path := "/params/" + wire.TextOf(def, "name")
		if def.Get("strict").IsTrue() {
			return wire.Fail(wire.Unsupported, path+"/strict", "strict")
		}
		schema := wire.Respell(def.Get("parameters_json_schema"))
		if w.a.Profile.Text("json_schema_transformer") != "" {
			if schema, err = (wire.SchemaRewrite{Each: wire.WithoutTitles}).Apply(schema, path); err != nil {
				return err
			}
		}
		tools.Items = append(tools.Items, wire.Obj("name", def.Get("name"), "description", wire.Description(def), "input_schema", schema))
	}
	if len(tools.Items) > 0 {
		*body = (*body).With("tools", tools).With("tool_choice", choice)
	}
	return nil
}

// canForce is Anthropic's own rule on top of CanForce: thinking with a budget takes no forced tool.
func (w *writer) canForce(thinks string) (bool, error) {
	can, err := w.a.CanForce(thinks == "adaptive")
	if thinks != "enabled" || err != nil || !w.a.Profile.On("supports_forced_tool_choice") {
		return can, err
	}
	v := w.a.Setting("tool_choice")
	if v.Is(pyjson.Array) && len(v.Items) > 0 || v.Is(pyjson.String) && v.Text == "required" {
		return false, wire.Fail(wire.Refused, "/settings/tool_choice", "forcing tools beside thinking")
	}
	return false, nil
}
