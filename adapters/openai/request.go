package openai

import (
	"errors"
	"strings"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
)

// Request is what the SDK would be given for one model request. Everything in it is as a checkpoint record has it.
type Request struct {
	Version      pydanticai.Version
	Model        string
	Settings     *pyjson.Value   // object
	Instructions []string        // one system message each, in order
	Tools        []*pyjson.Value // tool definitions, in order
	OutputTools  []*pyjson.Value
	AllowText    bool          // whether the model may answer with text
	Stream       bool          // whether the answer is asked for in chunks
	History      *pyjson.Value // ends with the request that is to be sent
}

// UnsupportedError says where a request uses something that this builder does not render. The request may be a good one.
type UnsupportedError struct {
	Path string // JSON Pointer from the Request: /settings/..., /tools/..., /history/..., /model
}

func (e *UnsupportedError) Error() string {
	return "request not rendered: " + e.Path + " is not supported"
}

// Build returns the body that OpenAIChatModel and its client send for the request, byte for byte. Object members inside tool
// results, arguments and schemas keep the order they have in the Request. The error is an *UnsupportedError.
func Build(r Request) ([]byte, error) {
	b := builder{Request: r}
	body := b.body()
	if b.err != nil {
		return nil, b.err
	}
	return pyjson.Compact(body, pyjson.PythonNumber), nil
}

type builder struct {
	Request
	err *UnsupportedError
}

func (b *builder) unsupported(path string) {
	if b.err == nil {
		b.err = &UnsupportedError{path}
	}
}

// settingMembers maps settings to members of the body, in the order in which the client writes the body's members. Settings
// that stay out of the body have "".
var settingMembers = []struct{ setting, member string }{
	{"frequency_penalty", "frequency_penalty"},
	{"logit_bias", "logit_bias"},
	{"openai_logprobs", "logprobs"},
	{"max_tokens", "max_completion_tokens"},
	{"parallel_tool_calls", "parallel_tool_calls"},
	{"openai_prediction", "prediction"},
	{"presence_penalty", "presence_penalty"},
	{"openai_prompt_cache_key", "prompt_cache_key"},
	{"openai_prompt_cache_retention", "prompt_cache_retention"},
	{"openai_reasoning_effort", "reasoning_effort"},
	{"seed", "seed"},
	{"stop_sequences", "stop"},
	{"openai_store", "store"},
	{"", "stream_options"},
	{"temperature", "temperature"},
	{"", "tool_choice"},
	{"", "tools"},
	{"openai_top_logprobs", "top_logprobs"},
	{"top_p", "top_p"},
	{"openai_user", "user"},
}

// sampling are dropped while a model reasons.
var sampling = []string{"temperature", "top_p", "presence_penalty", "frequency_penalty", "logit_bias", "openai_logprobs", "openai_top_logprobs"}

func (b *builder) body() *pyjson.Value {
	settings := b.settings()
	tools, choice := b.tools()
	body := pyjson.NewObject(pyjson.Member{Name: "model", Value: pyjson.NewString(b.Model)}, pyjson.Member{Name: "stream", Value: pyjson.NewBool(b.Stream)})
	for _, name := range []string{"openai_service_tier", "service_tier"} {
		if tier, ok := settings.Get(name).Str(); ok && tier != "" {
			body = body.With("service_tier", pyjson.NewString(tier))
			break
		}
	}
	body = body.With("messages", b.messages())
	for _, s := range settingMembers {
		value := settings.Get(s.setting)
		switch {
		case s.member == "stream_options":
			value = nil
			if b.Stream {
				value = pyjson.NewObject(pyjson.Member{Name: "include_usage", Value: pyjson.NewBool(true)})
			}
		case s.member == "tool_choice" && len(tools) > 0:
			value = pyjson.NewString(choice)
		case s.member == "tools" && len(tools) > 0:
			value = pyjson.NewArray(tools...)
		case s.setting == "openai_reasoning_effort" && !truthy(value), s.setting == "parallel_tool_calls" && len(tools) == 0:
			value = nil
		}
		if value != nil {
			body = body.With(s.member, value)
		}
	}
	return body
}

func truthy(v *pyjson.Value) bool {
	return v != nil && v.Kind != pyjson.Null && !v.IsFalse() && (v.Kind != pyjson.String || v.Text != "")
}

// settings refuses those that change more than one member of the body, and drops sampling where the SDK does.
func (b *builder) settings() *pyjson.Value {
	settings := b.Settings
	if settings == nil || settings.Kind == pyjson.Null {
		return pyjson.NewObject()
	}
next:
	for _, m := range settings.Members {
		switch m.Name {
		case "timeout", "service_tier", "openai_service_tier":
			continue
		case "tool_choice":
			if s, ok := m.Value.Str(); m.Value.Is(pyjson.Null) || ok && s == "auto" {
				continue
			}
		}
		for _, s := range settingMembers {
			if s.setting == m.Name {
				continue next
			}
		}
		b.unsupported("/settings" + pyjson.Pointer(m.Name))
	}
	byDefault, canStop := reasoning(b.Model)
	if byDefault || canStop {
		active := byDefault
		if effort, ok := settings.Get("openai_reasoning_effort").Str(); ok {
			active = effort != "none"
		}
		if active || !canStop {
			for _, name := range sampling {
				settings = settings.Without(name)
			}
		}
	}
	return settings
}

// reasoning tells whether a model reasons when nothing is said, and whether it can be told not to. The first matching prefix
// counts; the table is that of both SDK releases.
func reasoning(model string) (byDefault, canStop bool) {
	for _, m := range []struct {
		prefix             string
		byDefault, canStop bool
	}{
		{"gpt-6-astra", true, false}, {"gpt-6.1-sol", true, false}, {"gpt-6-sol", true, true}, {"gpt-6-luna", true, true},
		{"gpt-5.6", true, true}, {"gpt-5.5-pro", true, false}, {"gpt-5.5", true, true}, {"gpt-5.4-pro", true, false},
		{"gpt-5.4", false, true}, {"gpt-5.3-chat", true, false}, {"gpt-5.3", false, true}, {"gpt-5.2-pro", true, false},
		{"gpt-5.2-chat", true, false}, {"gpt-5.2", false, true}, {"gpt-5.1-codex", true, false}, {"gpt-5.1-chat", true, false},
		{"gpt-5.1", false, true}, {"gpt-5-chat", false, false}, {"gpt-5", true, false}, {"o1", true, false}, {"o3", true, false},
		{"o4", true, false},
	} {
		if strings.HasPrefix(model, m.prefix) {
			return m.byDefault, m.canStop
		}
	}
	return false, false
}

// tools returns the rendered tools and the tool choice that goes with them.
func (b *builder) tools() ([]*pyjson.Value, string) {
	var tools []*pyjson.Value
	for i, def := range b.Tools {
		tools = append(tools, b.tool(def, "/tools"+pyjson.Pointer(itoa(i))))
	}
	for i, def := range b.OutputTools {
		tools = append(tools, b.tool(def, "/output_tools"+pyjson.Pointer(itoa(i))))
	}
	if b.AllowText {
		return tools, "auto"
	}
	return tools, "required"
}

func (b *builder) tool(def *pyjson.Value, path string) *pyjson.Value {
	for _, name := range []string{"unless_native", "with_native", "include_return_schema"} {
		if truthy(def.Get(name)) {
			b.unsupported(path + "/" + name)
		}
	}
	if def.Get("defer_loading").IsTrue() {
		b.unsupported(path + "/defer_loading")
	}
	t := transformer{strict: def.Get("strict"), compatible: true}
	parameters := t.walk(def.Get("parameters_json_schema"))
	if t.unsupported {
		b.unsupported(path + "/parameters_json_schema")
	}
	name, description := def.Get("name"), def.Get("description")
	if !description.Is(pyjson.String) {
		description = pyjson.NewString("")
	}
	function := pyjson.NewObject(pyjson.Member{Name: "name", Value: name}, pyjson.Member{Name: "description", Value: description},
		pyjson.Member{Name: "parameters", Value: parameters})
	if t.strict.IsTrue() || !t.strict.Is(pyjson.Bool) && t.compatible {
		function = function.With("strict", pyjson.NewBool(true))
	}
	return pyjson.NewObject(pyjson.Member{Name: "type", Value: pyjson.NewString("function")}, pyjson.Member{Name: "function", Value: function})
}

func role(name string, content *pyjson.Value) *pyjson.Value {
	return pyjson.NewObject(pyjson.Member{Name: "role", Value: pyjson.NewString(name)}, pyjson.Member{Name: "content", Value: content})
}

// messages maps the history. Instructions stand after the leading system prompts.
func (b *builder) messages() *pyjson.Value {
	if strings.HasPrefix(b.Model, "o1-mini") {
		b.unsupported("/model") // takes no system role
	}
	var out []*pyjson.Value
	open := map[string]bool{} // calls of the last response
	for i, message := range b.History.Items {
		path := "/history" + pyjson.Pointer(itoa(i))
		if state, _ := message.Get("state").Str(); state != "complete" || i > 0 && pydanticai.IsRequest(message) == pydanticai.IsRequest(b.History.Items[i-1]) {
			b.unsupported(path) // the SDK would close or merge something first
		}
		if pydanticai.IsRequest(message) {
			out = append(out, b.request(message, path, open)...)
			if len(open) > 0 {
				b.unsupported(path)
			}
			continue
		}
		if len(message.Get("parts").Items) == 0 {
			continue
		}
		if m := b.response(message, path, open); m != nil {
			out = append(out, m)
		}
	}
	if n := len(b.History.Items); n == 0 || !pydanticai.IsRequest(b.History.Items[n-1]) {
		b.unsupported("/history")
	}
	if b.Version == pydanticai.V2580 {
		backfill(out)
	}
	leading := 0
	for leading < len(out) && out[leading].Get("role").Text == "system" {
		leading++
	}
	var system []*pyjson.Value
	for _, text := range b.Instructions {
		system = append(system, role("system", pyjson.NewString(text)))
	}
	return pyjson.NewArray(append(out[:leading:leading], append(system, out[leading:]...)...)...)
}

// backfill gives calls after the last user message an empty reasoning member where the request sends exactly one of the two.
func backfill(messages []*pyjson.Value) {
	sent, lastUser := map[string]bool{}, -1
	for i, m := range messages {
		switch m.Get("role").Text {
		case "assistant":
			for _, name := range []string{"reasoning", "reasoning_content"} {
				if m.Get(name) != nil {
					sent[name] = true
				}
			}
		case "user":
			lastUser = i
		}
	}
	if len(sent) != 1 {
		return
	}
	for name := range sent {
		for i := lastUser + 1; i < len(messages); i++ {
			if m := messages[i]; m.Get("role").Text == "assistant" && m.Get("tool_calls") != nil && m.Get(name) == nil {
				messages[i] = m.With(name, pyjson.NewString(""))
			}
		}
	}
}

func (b *builder) request(message *pyjson.Value, path string, open map[string]bool) []*pyjson.Value {
	var out []*pyjson.Value
	for i, part := range message.Get("parts").Items {
		at := path + "/parts" + pyjson.Pointer(itoa(i))
		kind, _ := part.Get("part_kind").Str()
		switch kind {
		case "system-prompt":
			if scope := part.Get("scope"); scope != nil && scope.Text != "conversation" {
				b.unsupported(at + "/scope")
			}
			out = append(out, role("system", part.Get("content")))
		case "user-prompt":
			out = append(out, role("user", b.userContent(part.Get("content"), at+"/content")))
		case "tool-return":
			out = append(out, b.toolMessage(part, at, open, b.returnText(part, at)))
		case "retry-prompt":
			if part.Get("tool_name").Is(pyjson.Null) {
				out = append(out, role("user", pyjson.NewString(retryText(part))))
			} else {
				out = append(out, b.toolMessage(part, at, open, retryText(part)))
			}
		default:
			b.unsupported(at)
		}
	}
	return out
}

func (b *builder) toolMessage(part *pyjson.Value, path string, open map[string]bool, text string) *pyjson.Value {
	id, _ := part.Get("tool_call_id").Str()
	if !open[id] {
		b.unsupported(path) // the SDK would drop it
	}
	delete(open, id)
	return pyjson.NewObject(pyjson.Member{Name: "role", Value: pyjson.NewString("tool")},
		pyjson.Member{Name: "tool_call_id", Value: pyjson.NewString(id)}, pyjson.Member{Name: "content", Value: pyjson.NewString(text)})
}

func (b *builder) userContent(v *pyjson.Value, path string) *pyjson.Value {
	if v.Is(pyjson.String) {
		return v
	}
	out := pyjson.NewArray()
	for i, item := range v.Items {
		text := item
		if kind, _ := item.Get("kind").Str(); kind == "text-content" {
			text = item.Get("content")
		} else if kind == "image-url" && item.Get("force_download").IsFalse() && item.Get("vendor_metadata").Is(pyjson.Null) {
			url := pyjson.NewObject(pyjson.Member{Name: "url", Value: item.Get("url")})
			out.Items = append(out.Items, pyjson.NewObject(pyjson.Member{Name: "image_url", Value: url}, pyjson.Member{Name: "type", Value: pyjson.NewString("image_url")}))
			continue
		}
		if !text.Is(pyjson.String) {
			b.unsupported(path + pyjson.Pointer(itoa(i)))
			continue
		}
		out.Items = append(out.Items, pyjson.NewObject(pyjson.Member{Name: "text", Value: text}, pyjson.Member{Name: "type", Value: pyjson.NewString("text")}))
	}
	return out
}

// returnText is the text of a tool result: a string as it is, null and an empty array as nothing, the rest as compact JSON.
func (b *builder) returnText(part *pyjson.Value, path string) string {
	content := part.Get("content")
	text := ""
	switch {
	case content.Is(pyjson.Null), content.Is(pyjson.Array) && len(content.Items) == 0:
	case content.Is(pyjson.String):
		text = content.Text
	default:
		if holdsFile(content) {
			b.unsupported(path + "/content")
		}
		text = string(pyjson.Compact(content, pyjson.PydanticNumber))
	}
	if outcome, _ := part.Get("outcome").Str(); outcome == "failed" {
		return string(pyjson.Compact(pyjson.NewObject(pyjson.Member{Name: "error", Value: pyjson.NewString(text)}), nil))
	}
	return text
}

// holdsFile reports whether the SDK would read a part of the content back as a file.
func holdsFile(v *pyjson.Value) bool {
	switch kind, _ := v.Get("kind").Str(); kind {
	case "image-url", "audio-url", "video-url", "document-url", "binary", "uploaded-file":
		return true
	}
	for _, item := range v.Items {
		if holdsFile(item) {
			return true
		}
	}
	for _, m := range v.Members {
		if holdsFile(m.Value) {
			return true
		}
	}
	return false
}

func retryText(part *pyjson.Value) string {
	content, bound := part.Get("content"), !part.Get("tool_name").Is(pyjson.Null)
	var text string
	if content.Is(pyjson.String) {
		text = content.Text
		if !bound {
			text = "Validation feedback:\n" + text
		}
	} else {
		list := pyjson.NewArray()
		for _, e := range content.Items {
			e = e.Without("ctx")
			if !bound && len(e.Get("loc").Items) <= 1 {
				e = e.Without("input")
			}
			list.Items = append(list.Items, e)
		}
		plural := "s"
		if len(content.Items) == 1 {
			plural = ""
		}
		text = itoa(len(content.Items)) + " validation error" + plural + ":\n```json\n" +
			string(pyjson.Indent2(list, pyjson.PydanticNumber)) + "\n```"
	}
	return text + "\n\nFix the errors and try again."
}

func (b *builder) response(message *pyjson.Value, path string, open map[string]bool) *pyjson.Value {
	var texts []string
	var calls []*pyjson.Value
	var fields []pyjson.Member // thinking by the member it came from
	for i, part := range message.Get("parts").Items {
		at := path + "/parts" + pyjson.Pointer(itoa(i))
		content, _ := part.Get("content").Str()
		kind, _ := part.Get("part_kind").Str()
		switch kind {
		case "text":
			texts = append(texts, content)
		case "thinking":
			id, _ := part.Get("id").Str()
			if provider, _ := part.Get("provider_name").Str(); id != "" && id != "content" && provider == ProviderName {
				fields = appendField(fields, id, content)
			} else {
				texts = append(texts, "<think>\n"+content+"\n</think>")
			}
		case "tool-call":
			id, _ := part.Get("tool_call_id").Str()
			if id == "" || open[id] || truthy(part.Get("provider_details")) {
				b.unsupported(at)
			}
			open[id] = true
			function := pyjson.NewObject(pyjson.Member{Name: "name", Value: part.Get("tool_name")},
				pyjson.Member{Name: "arguments", Value: pyjson.NewString(b.arguments(part.Get("args"), at+"/args"))})
			calls = append(calls, pyjson.NewObject(pyjson.Member{Name: "id", Value: pyjson.NewString(id)},
				pyjson.Member{Name: "type", Value: pyjson.NewString("function")}, pyjson.Member{Name: "function", Value: function}))
		default:
			b.unsupported(at)
		}
	}
	if len(texts) == 0 && len(calls) == 0 {
		return nil
	}
	m := pyjson.NewObject(append([]pyjson.Member{{Name: "role", Value: pyjson.NewString("assistant")}}, fields...)...)
	if len(texts) > 0 {
		m = m.With("content", pyjson.NewString(strings.Join(texts, "\n\n")))
	} else {
		m = m.With("content", pyjson.NewNull())
	}
	if len(calls) > 0 {
		m = m.With("tool_calls", pyjson.NewArray(calls...))
	}
	return m
}

func appendField(fields []pyjson.Member, name, content string) []pyjson.Member {
	for i := range fields {
		if fields[i].Name == name {
			fields[i].Value = pyjson.NewString(fields[i].Value.Text + "\n\n" + content)
			return fields
		}
	}
	return append(fields, pyjson.Member{Name: name, Value: pyjson.NewString(content)})
}

// argumentLimits bound the text of arguments that is looked into.
var argumentLimits = pyjson.Limits{Bytes: 16 << 20, Depth: 128, Nodes: 1 << 18}

// arguments renders a call's arguments as args_as_json_str does: 2.55.0 keeps the text of an object, 2.58.0 writes it again
// compactly; what is no object is wrapped.
func (b *builder) arguments(args *pyjson.Value, path string) string {
	switch {
	case args.Is(pyjson.Object) && len(args.Members) > 0:
		return string(pyjson.Compact(args, pyjson.PydanticNumber))
	case !args.Is(pyjson.String) || args.Text == "":
		return "{}"
	}
	v, err := pyjson.ParseLastWins([]byte(args.Text), argumentLimits)
	var limit *pyjson.LimitError
	if errors.As(err, &limit) || err != nil && (strings.Contains(args.Text, "NaN") || strings.Contains(args.Text, "Infinity") || strings.ContainsAny(args.Text, "eE")) {
		b.unsupported(path) // pydantic's reader takes some numbers that this one does not
	}
	if err == nil && v.Is(pyjson.Object) {
		if b.Version == pydanticai.V2580 {
			return string(pyjson.Compact(v, pyjson.PydanticNumber))
		}
		return args.Text
	}
	return string(pyjson.Compact(pyjson.NewObject(pyjson.Member{Name: "INVALID_JSON", Value: args}), nil))
}
