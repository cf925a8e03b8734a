package openai

import (
	"strings"
	"unicode/utf8"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/adapters/wire"
)

// ChatMessages renders a history as the messages of a chat completions request, for the providers of ParseChat and for groq,
// mistral and huggingface. Build renders a part of the same for api.openai.com, byte for byte; where both do, they agree.
func ChatMessages(a *wire.Ask) ([]*pyjson.Value, error) {
	messages, err := a.Messages()
	if err != nil {
		return nil, err
	}
	w := chatWriter{a: a, system: "system"}
	switch a.Provider {
	case "groq", "mistral", "huggingface":
		w.style = a.Provider
	case "openrouter":
		w.style = "openrouter"
	}
	if r := a.Profile.Text("openai_system_prompt_role"); r != "" && w.style != "groq" && w.style != "mistral" && w.style != "huggingface" {
		w.system = r
	}
	for _, m := range messages {
		if m.Request {
			err = w.request(m)
		} else {
			err = w.response(m)
		}
		if err != nil {
			return nil, err
		}
	}
	w.backfill(messages)
	leading := 0
	for leading < len(w.out) && wire.TextOf(w.out[leading], "role") == w.system {
		leading++
	}
	var system []*pyjson.Value
	for _, part := range a.InstructionParts(messages) {
		m := role(w.system, pyjson.NewString(part.Content))
		if w.style == "huggingface" {
			m = withNulls(m)
		}
		system = append(system, m)
	}
	out := append(append(append([]*pyjson.Value{}, w.out[:leading]...), system...), w.out[leading:]...)
	if !a.Profile.On("openai_chat_supports_multiple_system_messages") && (w.system == "system" || w.system == "developer") && w.style != "groq" {
		out = mergeLeading(out, w.system)
	}
	if w.style == "mistral" {
		out = answerTools(out)
	}
	return out, nil
}

type chatWriter struct {
	a      *wire.Ask
	style  string // "" is OpenAI's
	system string
	out    []*pyjson.Value
}

func (w *chatWriter) add(m *pyjson.Value) {
	if w.style == "huggingface" {
		m = withNulls(m)
	}
	w.out = append(w.out, m)
}

// withNulls adds what Hugging Face's client writes for everything that is not said.
func withNulls(m *pyjson.Value) *pyjson.Value {
	names := []string{"content", "tool_calls", "name"}
	if m.Get("reasoning") != nil {
		names = names[:2]
	}
	for _, name := range names {
		if m.Get(name) == nil {
			m = m.With(name, pyjson.NewNull())
		}
	}
	return m
}

// mergeLeading joins the leading system messages for models that take one only.
func mergeLeading(out []*pyjson.Value, system string) []*pyjson.Value {
	var texts []string
	for _, m := range out {
		if wire.TextOf(m, "role") != system {
			break
		}
		texts = append(texts, wire.TextOf(m, "content"))
	}
	if len(texts) < 2 {
		return out
	}
	return append([]*pyjson.Value{role(system, pyjson.NewString(strings.Join(texts, "\n\n")))}, out[len(texts):]...)
}

// answerTools puts an OK of the assistant between a tool's result and a user's message: Mistral takes none directly.
func answerTools(out []*pyjson.Value) []*pyjson.Value {
	var all []*pyjson.Value
	for i, m := range out {
		all = append(all, m)
		if wire.TextOf(m, "role") == "tool" && i+1 < len(out) && wire.TextOf(out[i+1], "role") == "user" {
			all = append(all, wire.Obj("role", "assistant", "content", pyjson.NewArray(wire.Obj("type", "text", "text", "OK")), "prefix", false))
		}
	}
	return all
}

// backfill gives calls an empty thinking member where the request has one elsewhere.
func (w *chatWriter) backfill(messages []*wire.Message) {
	if w.style != "" && w.style != "openrouter" {
		return
	}
	field, mode := w.a.Profile.Text("openai_chat_thinking_field"), w.a.Profile.Text("openai_chat_send_back_thinking_parts")
	if mode == "field" {
		thinks := false
		for _, m := range messages {
			for _, part := range m.Parts {
				thinks = thinks || wire.PartKind(part) == wire.Thinking
			}
		}
		for i, m := range w.out {
			if thinks && field != "" && wire.TextOf(m, "role") == "assistant" && m.Get("tool_calls") != nil && m.Get(field) == nil {
				w.out[i] = m.With(field, pyjson.NewString(""))
			}
		}
		return
	}
	if (mode == "" || mode == "auto") && w.a.Version == pydanticai.V2580 {
		sent, last := map[string]bool{}, -1
		for i, m := range w.out {
			switch wire.TextOf(m, "role") {
			case "user":
				last = i
			case "assistant":
				for _, name := range []string{field, "reasoning", "reasoning_content"} {
					if name != "" && m.Get(name) != nil {
						sent[name] = true
					}
				}
			}
		}
		for name := range sent {
			for i := last + 1; i < len(w.out) && len(sent) == 1; i++ {
				if m := w.out[i]; wire.TextOf(m, "role") == "assistant" && m.Get("tool_calls") != nil && m.Get(name) == nil {
					w.out[i] = m.With(name, pyjson.NewString(""))
				}
			}
		}
	}
}

func (w *chatWriter) request(m *wire.Message) error {
	var files []*pyjson.Value
	for i, part := range m.Parts {
		path := m.Path + "/parts/" + itoa(i)
		switch kind := wire.PartKind(part); kind {
		case "system-prompt":
			w.add(role(w.system, part.Get("content")))
		case "user-prompt":
			content, err := w.content(part.Get("content"), path+"/content")
			if err != nil {
				return err
			}
			w.add(role("user", content))
		case "tool-return":
			r, err := wire.NewReturn(part, path)
			if err != nil {
				return err
			}
			text, content := r.TextAndFiles(w.a.Version, true)
			files = append(files, content...)
			if err := w.result(part, path, text); err != nil {
				return err
			}
		case "retry-prompt":
			if wire.Present(part, "tool_name") == nil {
				w.add(role("user", pyjson.NewString(wire.RetryText(part))))
			} else if err := w.result(part, path, wire.RetryText(part)); err != nil {
				return err
			}
		default:
			return wire.Fail(wire.Kind, path, kind)
		}
	}
	if len(files) > 0 {
		content, err := w.content(pyjson.NewArray(files...), m.Path)
		if err != nil {
			return err
		}
		w.add(role("user", content))
	}
	return nil
}

func (w *chatWriter) result(part *pyjson.Value, path, text string) error {
	id := wire.TextOf(part, "tool_call_id")
	if id == "" {
		return wire.Fail(wire.NeedsID, path+"/tool_call_id", "a tool call without an id")
	}
	m := wire.Obj("role", "tool", "tool_call_id", id, "content", text)
	if w.style == "huggingface" && wire.PartKind(part) == "tool-return" {
		m = m.With("reasoning", pyjson.NewNull())
	}
	w.add(m)
	return nil
}

func (w *chatWriter) content(v *pyjson.Value, path string) (*pyjson.Value, error) {
	if v.Is(pyjson.String) {
		return v, nil
	}
	out := pyjson.NewArray()
	for i, item := range v.Items {
		at := path + "/" + itoa(i)
		if wire.TextOf(item, "kind") == "cache-point" {
			if w.style == "openrouter" || w.style == "" && w.a.Profile.Flag("openai_supports_prompt_cache_breakpoints") {
				return nil, wire.Fail(wire.Unsupported, at, "cache-point")
			}
			continue
		}
		mapped, err := w.item(item, at)
		if err != nil {
			return nil, err
		}
		if w.style == "huggingface" {
			for _, name := range []string{"text", "image_url"} {
				if mapped.Get(name) == nil {
					mapped = mapped.With(name, pyjson.NewNull())
				}
			}
		}
		out.Items = append(out.Items, mapped)
	}
	return out, nil
}

func textItem(text string) *pyjson.Value { return wire.Obj("text", text, "type", "text") }

func (w *chatWriter) item(item *pyjson.Value, path string) (*pyjson.Value, error) {
	if item.Is(pyjson.String) {
		return textItem(item.Text), nil
	}
	kind, media := wire.TextOf(item, "kind"), wire.TextOf(item, "media_type")
	fileKind, format := wire.FileKind(media)
	switch kind {
	case "text-content":
		return textItem(wire.TextOf(item, "content")), nil
	case "image-url":
		if wire.Downloads(item) && w.style != "huggingface" {
			return nil, wire.NeedsDownload(path)
		}
		return w.image(item, wire.TextOf(item, "url")), nil
	case "binary":
		uri, err := wire.DataURI(item, path)
		if err != nil {
			return nil, err
		}
		switch {
		case wire.TextLike(media) && (w.style == "" || w.style == "openrouter" || w.style == "mistral"):
			data, _ := wire.Bytes(item, path)
			if !utf8.Valid(data) {
				return nil, wire.Fail(wire.Refused, path, "text that is no UTF-8")
			}
			return textItem(wire.Inlined(string(data), media, wire.TextOf(item, "identifier"))), nil
		case fileKind == "image":
			return w.image(item, uri), nil
		case w.style == "mistral" && media == "application/pdf":
			return wire.Obj("document_url", uri, "type", "document_url"), nil
		case w.style != "" && w.style != "openrouter":
		case fileKind == "audio" && (format == "wav" || format == "mp3"):
			data := uri
			if w.a.Profile.Text("openai_chat_audio_input_encoding") != "uri" {
				_, data, _ = strings.Cut(uri, ",")
			}
			return wire.Obj("input_audio", wire.Obj("data", data, "format", format), "type", "input_audio"), nil
		case fileKind == "document" && w.a.Profile.On("openai_chat_supports_document_input"):
			return wire.Obj("file", wire.Obj("file_data", uri, "filename", "filename."+format), "type", "file"), nil
		}
	case "document-url":
		switch url := wire.TextOf(item, "url"); {
		case w.style == "mistral" && media == "application/pdf" && !wire.Downloads(item):
			return wire.Obj("document_url", url, "type", "document_url"), nil
		case w.style == "mistral" && (wire.TextLike(media) || media == "application/pdf"):
			return nil, wire.NeedsDownload(path)
		case w.style != "" && w.style != "openrouter":
		case !wire.Downloads(item) && w.a.Profile.Flag("openai_chat_supports_file_urls"):
			if fileKind != "document" {
				return nil, wire.Fail(wire.Refused, path, "document of an unknown type")
			}
			return wire.Obj("file", wire.Obj("file_data", url, "filename", "filename."+format), "type", "file"), nil
		default:
			return nil, wire.NeedsDownload(path)
		}
	case "audio-url":
		if w.style == "" || w.style == "openrouter" {
			return nil, wire.NeedsDownload(path)
		}
	case "uploaded-file":
		if w.style == "" && wire.TextOf(item, "provider_name") == w.a.Provider && !strings.HasPrefix(media, "image/") {
			return wire.Obj("file", wire.Obj("file_id", item.Get("file_id")), "type", "file"), nil
		}
	case "video-url":
		if w.style == "openrouter" {
			if wire.Downloads(item) {
				return nil, wire.NeedsDownload(path)
			}
			return wire.Obj("type", "video_url", "video_url", wire.Obj("url", item.Get("url"))), nil
		}
	default:
		return nil, wire.Fail(wire.Kind, path, kind)
	}
	return nil, wire.Fail(wire.Refused, path, kind)
}

func (w *chatWriter) image(item *pyjson.Value, url string) *pyjson.Value {
	image := wire.Obj("url", url)
	if metadata := wire.Present(item, "vendor_metadata"); wire.Truthy(metadata) && w.style != "huggingface" {
		detail := metadata.Get("detail")
		if detail == nil {
			detail = pyjson.NewString("auto")
		}
		image = image.With("detail", detail)
	}
	return wire.Obj("image_url", image, "type", "image_url")
}

func (w *chatWriter) response(m *wire.Message) error {
	var texts, thoughts []string
	var calls []*pyjson.Value
	var fields []pyjson.Member // thinking by the member it came from
	details := pyjson.NewArray()
	tags := w.a.Profile.Tags()
	for i, part := range m.Parts {
		path := m.Path + "/parts/" + itoa(i)
		content, id := wire.TextOf(part, "content"), wire.TextOf(part, "id")
		tagged := tags[0] + "\n" + content + "\n" + tags[1]
		switch kind := wire.PartKind(part); kind {
		case wire.Text:
			texts = append(texts, content)
		case wire.Thinking:
			own := wire.TextOf(part, "provider_name") == w.a.Provider
			field := w.a.Profile.Text("openai_chat_thinking_field")
			switch mode := w.a.Profile.Text("openai_chat_send_back_thinking_parts"); {
			case w.style == "mistral":
				thoughts = append(thoughts, content)
			case w.style == "groq", w.style == "huggingface":
				texts = append(texts, tagged)
			case w.style == "openrouter" && own:
				d, err := intoReasoningDetail(part, path)
				if err != nil {
					return err
				}
				if d != nil {
					details.Items = append(details.Items, d)
				}
			case mode == "field":
				if field != "" {
					fields = appendField(fields, field, content)
				}
			case mode != "tags" && id != "" && id != "content" && own && (field == "" || id == field):
				fields = appendField(fields, id, content)
			default:
				texts = append(texts, tagged)
			}
		case wire.ToolCall:
			call, err := w.call(part, path)
			if err != nil {
				return err
			}
			calls = append(calls, call)
		case wire.NativeCall, wire.NativeReturn, wire.File, wire.Compaction:
		default:
			return wire.Fail(wire.Kind, path, kind)
		}
	}
	out := wire.Obj("role", "assistant")
	switch w.style {
	case "mistral":
		chunks := pyjson.NewArray()
		if len(thoughts) > 0 {
			thinking := pyjson.NewArray()
			for _, t := range thoughts {
				thinking.Items = append(thinking.Items, textItem(t))
			}
			chunks.Items = append(chunks.Items, wire.Obj("type", "thinking", "thinking", thinking))
		}
		for _, t := range texts {
			chunks.Items = append(chunks.Items, textItem(t))
		}
		if len(chunks.Items) == 0 && len(calls) == 0 {
			return nil
		}
		w.add(wire.Obj("role", "assistant", "content", chunks, "tool_calls", pyjson.NewArray(calls...), "prefix", false))
		return nil
	case "groq", "huggingface":
		if len(texts) > 0 {
			out = out.With("content", pyjson.NewString(strings.Join(texts, "\n\n")))
		}
	default:
		if len(texts) == 0 && len(calls) == 0 && len(details.Items) == 0 {
			return nil
		}
		if len(texts)+len(calls) > 0 {
			out.Members = append(out.Members, fields...)
		}
		out = out.With("content", pyjson.NewNull())
		if len(texts) > 0 {
			out = out.With("content", pyjson.NewString(strings.Join(texts, "\n\n")))
		}
	}
	if len(calls) > 0 {
		out = out.With("tool_calls", pyjson.NewArray(calls...))
	}
	if len(details.Items) > 0 {
		out = out.With("reasoning_details", details)
	}
	w.add(out)
	return nil
}

func (w *chatWriter) call(part *pyjson.Value, path string) (*pyjson.Value, error) {
	id := wire.TextOf(part, "tool_call_id")
	if id == "" {
		return nil, wire.Fail(wire.NeedsID, path+"/tool_call_id", "a tool call without an id")
	}
	args := part.Get("args")
	function := wire.Obj("name", part.Get("tool_name"))
	if w.style == "mistral" && w.a.Version != pydanticai.V2580 {
		if !wire.Truthy(args) {
			args = pyjson.NewObject()
		}
		function = function.With("arguments", wire.Respell(args))
	} else {
		text, err := wire.ArgsText(w.a.Version, args, path+"/args")
		if err != nil {
			return nil, err
		}
		function = function.With("arguments", pyjson.NewString(text))
	}
	call := wire.Obj("id", id, "type", "function", "function", function)
	switch w.style {
	case "mistral":
		return call.With("index", pyjson.NewInt(0)), nil
	case "huggingface":
		// The client's own type of a call has no arguments: they do not leave.
		return call.With("function", wire.Obj("name", part.Get("tool_name"), "parameters", pyjson.NewNull(), "description", pyjson.NewNull())), nil
	}
	if extra := part.At("provider_details", "extra_content"); wire.Truthy(extra) && w.a.Version == pydanticai.V2580 &&
		wire.TextOf(part, "provider_name") == w.a.Provider && (w.style == "" || w.style == "openrouter") {
		call = call.With("extra_content", wire.Respell(extra))
	}
	return call, nil
}

// intoReasoningDetail is the other direction of reasoningDetail; nil for a part that did not come from one.
func intoReasoningDetail(part *pyjson.Value, path string) (*pyjson.Value, error) {
	d := wire.Present(part, "provider_details")
	if d == nil {
		return nil, nil
	}
	if f, i := wire.Present(d, "format"), wire.Present(d, "index"); f != nil && f.Kind != pyjson.String || i != nil && !i.IsInteger() {
		return nil, wire.Fail(wire.Shape, path+"/provider_details", "reasoning detail")
	}
	kind := wire.TextOf(d, "type")
	out := wire.Obj("id", orNull(part.Get("id")), "format", orNull(d.Get("format")), "index", orNull(d.Get("index")), "type", kind)
	switch kind {
	case "reasoning.text":
		return out.With("text", part.Get("content")).With("signature", orNull(part.Get("signature"))), nil
	case "reasoning.summary":
		return out.With("summary", part.Get("content")), nil
	case "reasoning.encrypted":
		if s := wire.Present(part, "signature"); s != nil {
			return out.With("data", s), nil
		}
	}
	return nil, wire.Fail(wire.Refused, path+"/provider_details", "reasoning detail")
}
