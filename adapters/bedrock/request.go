package bedrock

import (
	"strings"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/adapters/wire"
)

// Messages renders a history as the system blocks and the messages of a Converse request.
func Messages(a *wire.Ask) (system, messages []*pyjson.Value, err error) {
	history, err := a.Messages()
	if err != nil {
		return nil, nil, err
	}
	w := writer{a: a}
	for _, m := range history {
		if m.Request {
			err = w.request(m)
		} else {
			err = w.response(m)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	w.flush()
	w.merge()
	for _, part := range a.InstructionParts(history) {
		w.system = append(w.system, wire.Obj("text", part.Content))
	}
	if len(w.turns) == 0 || w.turns[0].role != "user" && !a.Profile.Flag("bedrock_supports_leading_assistant_message") {
		w.turns = append([]*turn{{"user", []*pyjson.Value{wire.Obj("text", ".")}}}, w.turns...)
	}
	for _, t := range w.turns {
		messages = append(messages, wire.Obj("role", t.role, "content", pyjson.NewArray(t.blocks...)))
	}
	return w.system, messages, nil
}

type turn struct {
	role   string
	blocks []*pyjson.Value
}

type writer struct {
	a         *wire.Ask
	system    []*pyjson.Value
	turns     []*turn
	media     []*pyjson.Value // of tool results, for a turn of their own
	documents int
}

func (w *writer) add(role string, blocks ...*pyjson.Value) {
	w.turns = append(w.turns, &turn{role, blocks})
}

func (w *writer) flush() {
	if len(w.media) > 0 {
		w.add("user", w.media...)
		w.media = nil
	}
}

// colocates reports whether blocks of a kind may stand beside a tool's result.
func (w *writer) colocates(kind string) bool {
	return w.a.Profile.Has("bedrock_tool_result_colocatable_content", kind, "text", "image", "document", "video")
}

// merge joins neighbouring turns of the user; where a result must not stand beside what follows, a word of the assistant parts
// them.
func (w *writer) merge() {
	var out []*turn
	for _, t := range w.turns {
		var last *turn
		if len(out) > 0 {
			last = out[len(out)-1]
		}
		if last != nil && t.role == "user" && last.role == "user" {
			merged := append(append([]*pyjson.Value{}, last.blocks...), t.blocks...)
			result, apart := false, false
			for _, b := range merged {
				if b.Get("toolResult") != nil {
					result = true
				} else if b.Get("cachePoint") == nil && !w.colocates(b.Members[0].Name) {
					apart = true
				}
			}
			if !result || !apart {
				last.blocks = merged
				continue
			}
			out = append(out, &turn{"assistant", []*pyjson.Value{wire.Obj("text", ".")}})
		}
		out = append(out, t)
	}
	w.turns = out
}

func (w *writer) request(m *wire.Message) error {
	for i, part := range m.Parts {
		path := m.Path + "/parts/" + itoa(i)
		switch kind := wire.PartKind(part); kind {
		case "system-prompt":
			if text := part.Get("content"); text.Text != "" {
				w.system = append(w.system, wire.Obj("text", text))
			}
		case "user-prompt":
			w.flush()
			blocks, err := w.prompt(part.Get("content"), path+"/content")
			if err != nil {
				return err
			}
			if len(blocks) > 0 {
				w.add("user", blocks...)
			}
		case "tool-return":
			if err := w.toolReturn(part, path); err != nil {
				return err
			}
		case "retry-prompt":
			text := wire.Obj("text", wire.RetryText(part))
			if wire.Present(part, "tool_name") == nil {
				w.flush()
				w.add("user", text)
				continue
			}
			w.add("user", w.result(part, "error", text))
		default:
			return wire.Fail(wire.Kind, path, kind)
		}
	}
	return nil
}

func (w *writer) result(part *pyjson.Value, status string, content ...*pyjson.Value) *pyjson.Value {
	r := wire.Obj("toolUseId", part.Get("tool_call_id"), "content", pyjson.NewArray(content...))
	if w.a.Profile.On("bedrock_supports_tool_result_status") {
		r = r.With("status", pyjson.NewString(status))
	}
	return wire.Obj("toolResult", r)
}

func (w *writer) prompt(v *pyjson.Value, path string) ([]*pyjson.Value, error) {
	if v.Is(pyjson.String) {
		return []*pyjson.Value{wire.Obj("text", v)}, nil
	}
	var out []*pyjson.Value
	document, text := false, false
	for i, item := range v.Items {
		at := path + "/" + itoa(i)
		switch kind := wire.TextOf(item, "kind"); {
		case item.Is(pyjson.String):
			out = append(out, wire.Obj("text", item))
		case kind == "text-content":
			out = append(out, wire.Obj("text", item.Get("content")))
		case kind == "cache-point":
			if w.a.Profile.Flag("bedrock_supports_prompt_caching") {
				return nil, wire.Fail(wire.Unsupported, at, "cache-point")
			}
		default:
			block, _, err := w.file(item, at)
			if err != nil {
				return nil, err
			}
			out = append(out, block)
		}
	}
	for _, b := range out {
		document, text = document || b.Get("document") != nil, text || b.Get("text") != nil
	}
	if document && !text {
		out = append([]*pyjson.Value{wire.Obj("text", "See attached document(s).")}, out...)
	}
	return out, nil
}

// file renders a file as a block and says of which kind.
func (w *writer) file(item *pyjson.Value, path string) (*pyjson.Value, string, error) {
	fileKind, format := wire.FileKind(wire.TextOf(item, "media_type"))
	var source *pyjson.Value
	switch kind := wire.TextOf(item, "kind"); kind {
	case "binary":
		data, err := wire.Bytes(item, path)
		if err != nil {
			return nil, "", err
		}
		source = wire.Obj("bytes", wire.Base64Std(data))
	case "image-url", "document-url", "video-url", "uploaded-file":
		url := wire.TextOf(item, "url")
		if kind == "uploaded-file" {
			if url = wire.TextOf(item, "file_id"); wire.TextOf(item, "provider_name") != w.a.Provider || !strings.HasPrefix(url, "s3://") {
				return nil, "", wire.Fail(wire.Refused, path, "a file of another provider")
			}
		}
		if !strings.HasPrefix(url, "s3://") {
			return nil, "", wire.NeedsDownload(path)
		}
		if strings.ContainsAny(url, "?#;%") {
			return nil, "", wire.Fail(wire.Unsupported, path, "an S3 address with a query")
		}
		source = wire.Obj("s3Location", wire.Obj("uri", url))
		if kind != "uploaded-file" {
			fileKind = strings.TrimSuffix(kind, "-url")
			if format == "" {
				_, format, _ = strings.Cut(wire.TextOf(item, "media_type"), "/")
			}
		}
	case "audio-url":
		return nil, "", wire.Fail(wire.Refused, path, kind)
	default:
		return nil, "", wire.Fail(wire.Kind, path, kind)
	}
	if format == "" || fileKind == "" || fileKind == "audio" {
		return nil, "", wire.Fail(wire.Refused, path, "a file of this type")
	}
	block := wire.Obj("format", format, "source", source)
	if fileKind == "document" {
		w.documents++
		block = wire.Obj("name", "Document "+itoa(w.documents), "format", format, "source", source)
	}
	return wire.Obj(fileKind, block), fileKind, nil
}

func (w *writer) toolReturn(part *pyjson.Value, path string) error {
	r, err := wire.NewReturn(part, path)
	if err != nil {
		return err
	}
	asJSON := w.a.Profile.Text("bedrock_tool_result_format") == "json"
	items := r.Items(asJSON, false)
	var content, beside []*pyjson.Value
	if r.Failed() && !w.a.Profile.On("bedrock_supports_tool_result_status") {
		content, items = append(content, wire.Obj("text", r.Text(true))), r.Files
	}
	for _, item := range items {
		if !wire.IsFile(item) {
			if item.Is(pyjson.String) {
				content = append(content, wire.Obj("text", item))
			} else {
				content = append(content, wire.Obj("json", item))
			}
			continue
		}
		block, kind, err := w.file(item, path+"/content")
		if err != nil {
			return err
		}
		if wire.TextOf(item, "kind") == "uploaded-file" || w.a.Profile.Has("bedrock_supported_media_kinds_in_tool_returns", kind, "image") {
			content = append(content, block)
			continue
		}
		content = append(content, wire.Obj("text", "See file "+wire.TextOf(item, "identifier")+"."))
		open, closing := wire.FileFrame(part, item)
		framed := []*pyjson.Value{wire.Obj("text", open), block, wire.Obj("text", closing)}
		if w.a.Old() {
			framed = []*pyjson.Value{wire.Obj("text", "This is file "+wire.TextOf(item, "identifier")+":"), block}
		}
		if w.colocates(kind) {
			beside = append(beside, framed...)
		} else {
			w.media = append(w.media, framed...)
		}
	}
	if len(content) == 0 { // only of an empty list
		if asJSON {
			content = append(content, wire.Obj("json", pyjson.NewArray()))
		} else {
			content = append(content, wire.Obj("text", "[]"))
		}
	}
	status := "success"
	if r.Failed() {
		status = "error"
	}
	w.add("user", append([]*pyjson.Value{w.result(part, status, content...)}, beside...)...)
	return nil
}

func (w *writer) response(m *wire.Message) error {
	w.flush()
	var blocks, carried []*pyjson.Value
	for i, part := range m.Parts {
		path := m.Path + "/parts/" + itoa(i)
		own := wire.TextOf(part, "provider_name") == w.a.Provider
		content := wire.TextOf(part, "content")
		switch kind := wire.PartKind(part); kind {
		case wire.Text:
			blocks = append(blocks, wire.Obj("text", content))
		case wire.Thinking:
			sign := wire.TextOf(part, "signature")
			switch {
			case own && sign != "" && w.a.Profile.Flag("bedrock_send_back_thinking_parts"):
				reasoning := wire.Obj("reasoningText", wire.Obj("text", content, "signature", sign))
				if wire.TextOf(part, "id") == "redacted_content" {
					reasoning = wire.Obj("redactedContent", wire.Base64Std([]byte(sign)))
				}
				blocks = append(blocks, wire.Obj("reasoningContent", reasoning))
			case w.a.Version == pydanticai.V2580 && w.a.Profile.Flag("mimics_assistant_message_formatting"):
				if content != "" {
					carried = append(carried, wire.Obj("text", wire.CarriedThinking(m, content)))
				}
			default:
				tags := w.a.Profile.Tags()
				blocks = append(blocks, wire.Obj("text", tags[0]+"\n"+content+"\n"+tags[1]))
			}
		case wire.NativeCall, wire.NativeReturn:
			if !own || wire.TextOf(part, "tool_name") != "code_execution" {
				continue
			}
			block, err := codeBlock(part, kind, path)
			if err != nil {
				return err
			}
			blocks = append(blocks, block)
		case wire.ToolCall:
			args, err := wire.Args(part.Get("args"), path+"/args")
			if err != nil {
				return err
			}
			id := wire.TextOf(part, "tool_call_id")
			if id == "" {
				return wire.Fail(wire.NeedsID, path+"/tool_call_id", "a tool call without an id")
			}
			blocks = append(blocks, wire.Obj("toolUse", wire.Obj("toolUseId", id, "name", sanitize(wire.TextOf(part, "tool_name")), "input", wire.Respell(args))))
		case wire.File, wire.Compaction:
		default:
			return wire.Fail(wire.Kind, path, kind)
		}
	}
	if len(carried) > 0 {
		w.add("user", carried...)
	}
	if len(blocks) > 0 {
		w.add("assistant", blocks...)
	}
	return nil
}

func codeBlock(part *pyjson.Value, kind, path string) (*pyjson.Value, error) {
	id := wire.TextOf(part, "tool_call_id")
	if id == "" {
		return nil, wire.Fail(wire.NeedsID, path+"/tool_call_id", "a tool call without an id")
	}
	if kind == wire.NativeCall {
		args, err := wire.Args(part.Get("args"), path+"/args")
		if err != nil {
			return nil, err
		}
		return wire.Obj("toolUse", wire.Obj("toolUseId", id, "name", "nova_code_interpreter", "input", wire.Respell(args), "type", "server_tool_use")), nil
	}
	content := part.Get("content")
	if content == nil {
		content = pyjson.NewNull()
	}
	r := wire.Obj("toolUseId", id, "content", pyjson.NewArray(wire.Obj("json", wire.Respell(content))), "type", "nova_code_interpreter_result")
	if status := part.At("provider_details", "status"); status != nil {
		if !status.Is(pyjson.String) {
			return nil, wire.Fail(wire.Refused, path+"/provider_details/status", "text expected")
		}
		r = r.With("status", status)
	}
	return wire.Obj("toolResult", r), nil
}

// sanitize replaces what Bedrock does not take in a tool's name.
func sanitize(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
}

// nonEmpty are the texts and blobs of a request that the client refuses when they are empty (members of Converse with a minimum in
// botocore's service model); * is every item.
var nonEmpty = []string{"messages/*/content/*/image/source/bytes", "messages/*/content/*/document/name", "messages/*/content/*/document/source/bytes",
	"messages/*/content/*/video/source/bytes", "messages/*/content/*/audio/source/bytes", "messages/*/content/*/toolUse/toolUseId",
	"messages/*/content/*/toolUse/name", "messages/*/content/*/toolResult/toolUseId", "messages/*/content/*/toolResult/content/*/document/name",
	"system/*/text", "inferenceConfig/stopSequences/*", "toolConfig/tools/*/toolSpec/name", "toolConfig/toolChoice/tool/name"}

// checked refuses a body that the client would not send.
func checked(body *pyjson.Value) (*pyjson.Value, error) {
	for _, path := range nonEmpty {
		if at := emptyAt(body, strings.Split(path, "/"), ""); at != "" {
			return nil, wire.Fail(wire.Refused, at, "empty")
		}
	}
	for _, name := range []string{"maxTokens", "temperature", "topP"} {
		if v := body.At("inferenceConfig", name); v.Is(pyjson.Number) && (strings.HasPrefix(v.Text, "-") || name == "maxTokens" && !wire.Truthy(v)) {
			return nil, wire.Fail(wire.Refused, "/inferenceConfig/"+name, "below its minimum")
		}
	}
	return body, nil
}

// emptyAt returns where an empty text stands at the path, "" for nowhere.
func emptyAt(v *pyjson.Value, path []string, at string) string {
	switch {
	case v == nil:
	case len(path) == 0:
		if v.Is(pyjson.String) && v.Text == "" {
			return at
		}
	case path[0] == "*":
		for i, item := range v.Items {
			if found := emptyAt(item, path[1:], at+"/"+itoa(i)); found != "" {
				return found
			}
		}
	default:
		return emptyAt(v.Get(path[0]), path[1:], at+"/"+path[0])
	}
	return ""
}

// Body returns the body of a Converse or ConverseStream request as a JSON value; the model is a part of the address. The error
// is a *wire.Error; what the SDK would send and this does not render is refused by name.
func Body(a *wire.Ask) (*pyjson.Value, error) {
	if err := a.RefuseSettings("max_tokens", "temperature", "top_p", "top_k", "stop_sequences", "timeout", "extra_headers", "tool_choice", "parallel_tool_calls",
		"seed", "presence_penalty", "frequency_penalty", "logit_bias"); err != nil {
		return nil, err
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
	config := pyjson.NewObject()
	noSampling := a.Profile.Flag("anthropic_disallows_sampling_settings") || a.Profile.Flag("bedrock_disallows_sampling_settings")
	for _, s := range [][2]string{{"max_tokens", "maxTokens"}, {"temperature", "temperature"}, {"top_p", "topP"}, {"stop_sequences", "stopSequences"}} {
		v := a.Setting(s[0])
		if v == nil || noSampling && (s[0] == "temperature" || s[0] == "top_p") || !wire.Truthy(v) && (s[0] == "max_tokens" || s[0] == "stop_sequences") {
			continue
		}
		config = config.With(s[1], wire.Respell(v))
	}
	body := wire.Obj("messages", pyjson.NewArray(messages...), "system", pyjson.NewArray(system...), "inferenceConfig", config)
	if k := a.Setting("top_k"); k != nil && !noSampling {
		switch a.Profile.Text("bedrock_top_k_variant") {
		case "anthropic":
			body = body.With("additionalModelRequestFields", wire.Obj("top_k", wire.Respell(k)))
		case "nova":
			body = body.With("additionalModelRequestFields", wire.Obj("inferenceConfig", wire.Obj("topK", wire.Respell(k))))
		}
	}
	if body, err = withTools(a, p, body); err != nil {
		return nil, err
	}
	return checked(body)
}

func withTools(a *wire.Ask, p *wire.Params, body *pyjson.Value) (*pyjson.Value, error) {
	c, err := a.Choice(p)
	if err != nil {
		return nil, err
	}
	takesChoice := a.Profile.Flag("bedrock_supports_tool_choice")
	can, err := a.CanForce(a.Profile.Flag("thinking_enabled_by_default"))
	if err != nil {
		return nil, err
	}
	can = can && takesChoice
	if v := a.Setting("tool_choice"); !takesChoice && (wire.TextOf(a.Settings, "tool_choice") == "required" || v.Is(pyjson.Array) && len(v.Items) > 0) {
		return nil, wire.Fail(wire.Refused, "/settings/tool_choice", "forcing tools")
	}
	choice, defs := wire.Obj("auto", pyjson.NewObject()), p.Tools
	switch {
	case c.Mode == "none":
		if a.Version == pydanticai.V2580 && len(defs) > 0 {
			return nil, wire.Fail(wire.Unsupported, "/settings/tool_choice", "tools that must not be called")
		}
		return body, nil
	case c.Names != nil && c.Mode == "required" && len(c.Names) == 1 && can:
		choice = wire.Obj("tool", wire.Obj("name", c.Names[0]))
	case c.Names != nil:
		if defs = c.Only(defs); c.Mode == "required" && can {
			choice = wire.Obj("any", pyjson.NewObject())
		}
	case c.Mode == "required" && can:
		choice = wire.Obj("any", pyjson.NewObject())
	}
	tools := pyjson.NewArray()
	for _, def := range defs {
		path := "/params/" + wire.TextOf(def, "name")
		if def.Get("strict").IsTrue() {
			return nil, wire.Fail(wire.Unsupported, path+"/strict", "strict")
		}
		schema := wire.Respell(def.Get("parameters_json_schema"))
		rewrite := wire.SchemaRewrite{Each: wire.WithoutTitles}
		switch t := a.Profile.Text("json_schema_transformer"); t {
		case "BedrockJsonSchemaTransformer":
		case "InlineDefsJsonSchemaTransformer":
			rewrite = wire.SchemaRewrite{Inline: true, Deeper: a.Version == pydanticai.V2580}
		case "":
			rewrite = wire.SchemaRewrite{}
		default:
			return nil, wire.Fail(wire.Unsupported, path, t)
		}
		if a.Profile.Text("json_schema_transformer") != "" {
			if schema, err = rewrite.Apply(schema, path); err != nil {
				return nil, err
			}
		}
		spec := wire.Obj("name", def.Get("name"), "inputSchema", wire.Obj("json", schema))
		if d := wire.Description(def); d != "" {
			spec = spec.With("description", pyjson.NewString(d))
		}
		tools.Items = append(tools.Items, wire.Obj("toolSpec", spec))
	}
	if len(tools.Items) == 0 {
		return body, nil
	}
	toolConfig := wire.Obj("tools", tools)
	if takesChoice {
		toolConfig = toolConfig.With("toolChoice", choice)
	}
	return body.With("toolConfig", toolConfig), nil
}
