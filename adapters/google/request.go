package google

import (
	"encoding/base64"
	"strings"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/adapters/wire"
)

// skipValidator is the signature that stands for none on the first call of a turn.
const skipValidator = "skip_thought_signature_validator"

// Contents renders a history as the system instruction (nil for none) and the contents of a generateContent request.
func Contents(a *wire.Ask) (*pyjson.Value, []*pyjson.Value, error) {
	messages, err := a.Messages()
	if err != nil {
		return nil, nil, err
	}
	w := writer{a: a}
	for _, m := range messages {
		if m.Request {
			err = w.request(m)
		} else {
			err = w.response(m)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if len(w.out) == 0 || wire.TextOf(w.out[0], "role") == "model" {
		w.out = append([]*pyjson.Value{content("user", wire.Obj("text", ""))}, w.out...)
	}
	for _, part := range a.InstructionParts(messages) {
		w.system = append(w.system, wire.Obj("text", part.Content))
	}
	if len(w.system) == 0 {
		return nil, w.out, nil
	}
	return content("user", w.system...), w.out, nil
}

func content(role string, parts ...*pyjson.Value) *pyjson.Value {
	return wire.Obj("parts", pyjson.NewArray(parts...), "role", role)
}

type writer struct {
	a      *wire.Ask
	system []*pyjson.Value
	out    []*pyjson.Value
}

func (w *writer) cloud() bool { return (&parser{o: w.a.Options}).cloud() }

// own reports whether a provider's name means this one: both APIs have an older name.
func (w *writer) own(provider string) bool {
	if w.cloud() {
		return provider == "google-cloud" || provider == "google-vertex"
	}
	return provider == "google" || provider == "google-gla"
}

func (w *writer) request(m *wire.Message) error {
	var parts, media []*pyjson.Value
	for i, part := range m.Parts {
		path := m.Path + "/parts/" + itoa(i)
		switch kind := wire.PartKind(part); kind {
		case "system-prompt":
			w.system = append(w.system, wire.Obj("text", part.Get("content")))
		case "user-prompt":
			c := part.Get("content")
			if c.Is(pyjson.String) {
				parts = append(parts, wire.Obj("text", c))
				continue
			}
			for j, item := range c.Items {
				at := path + "/content/" + itoa(j)
				switch kind := wire.TextOf(item, "kind"); {
				case item.Is(pyjson.String):
					parts = append(parts, wire.Obj("text", item))
				case kind == "text-content":
					parts = append(parts, wire.Obj("text", item.Get("content")))
				case kind == "cache-point":
				default:
					file, err := w.file(item, at, true)
					if err != nil {
						return err
					}
					parts = append(parts, file)
				}
			}
		case "tool-return":
			response, framed, err := w.toolReturn(part, path)
			if err != nil {
				return err
			}
			parts, media = append(parts, response), append(media, framed...)
		case "retry-prompt":
			text := wire.RetryText(part)
			if wire.Present(part, "tool_name") == nil {
				parts = append(parts, wire.Obj("text", text))
			} else {
				parts = append(parts, functionResponse(part, wire.Obj("error", text), nil))
			}
		default:
			return wire.Fail(wire.Kind, path, kind)
		}
	}
	if len(media) > 0 {
		at := 0
		for i, p := range parts {
			if p.Get("functionResponse") != nil {
				at = i + 1
			}
		}
		parts = append(append(append([]*pyjson.Value{}, parts[:at]...), media...), parts[at:]...)
	}
	var turn []*pyjson.Value
	for _, p := range parts {
		if len(turn) > 0 && turn[len(turn)-1].Get("functionResponse") != nil && p.Get("functionResponse") == nil {
			w.out = append(w.out, content("user", turn...))
			turn = nil
		}
		turn = append(turn, p)
	}
	if len(turn) > 0 {
		w.out = append(w.out, content("user", turn...))
	}
	return nil
}

func functionResponse(part, response *pyjson.Value, files []*pyjson.Value) *pyjson.Value {
	r := wire.Obj("name", part.Get("tool_name"), "response", response, "id", part.Get("tool_call_id"))
	if len(files) > 0 {
		r = r.With("parts", pyjson.NewArray(files...))
	}
	return wire.Obj("functionResponse", r)
}

func (w *writer) toolReturn(part *pyjson.Value, path string) (*pyjson.Value, []*pyjson.Value, error) {
	r, err := wire.NewReturn(part, path)
	if err != nil {
		return nil, nil, err
	}
	var files, framed []*pyjson.Value
	refs := pyjson.NewArray()
	for _, file := range r.Files {
		at := path + "/content"
		if w.a.Profile.Has("google_supported_mime_types_in_tool_returns", wire.TextOf(file, "media_type")) {
			mapped, err := w.file(file, at, false)
			if err != nil {
				return nil, nil, err
			}
			files = append(files, mapped)
			continue
		}
		if w.a.Old() {
			return nil, nil, wire.Fail(wire.Unsupported, at, "a file in the result of a tool")
		}
		mapped, err := w.file(file, at, true)
		if err != nil {
			return nil, nil, err
		}
		open, closing := wire.FileFrame(part, file)
		refs.Items = append(refs.Items, pyjson.NewString("See file "+wire.TextOf(file, "identifier")+"."))
		framed = append(framed, wire.Obj("text", open), mapped, wire.Obj("text", closing))
	}
	response := r.Object(false)
	if r.Failed() {
		response = wire.Obj("error", r.Text(false))
	} else if len(refs.Items) > 0 {
		response = wire.Obj("output", pyjson.NewArray(append([]*pyjson.Value{response}, refs.Items...)...))
	}
	return functionResponse(part, response, files), framed, nil
}

// file renders a file; whole says that it may carry what belongs to a whole part.
func (w *writer) file(item *pyjson.Value, path string, whole bool) (*pyjson.Value, error) {
	if wire.Truthy(item.Get("vendor_metadata")) && whole {
		return nil, wire.Fail(wire.Unsupported, path+"/vendor_metadata", "vendor_metadata")
	}
	media, url := item.Get("media_type"), wire.TextOf(item, "url")
	switch kind := wire.TextOf(item, "kind"); kind {
	case "binary":
		data, err := wire.Bytes(item, path)
		if err != nil {
			return nil, err
		}
		member := "inlineData"
		if !whole {
			member = "inline_data"
		}
		return wire.Obj(member, wire.Obj("data", wire.Base64Std(data), "mime_type", media)), nil
	case "uploaded-file":
		id := wire.TextOf(item, "file_id")
		if !w.own(wire.TextOf(item, "provider_name")) || w.cloud() && !strings.HasPrefix(id, "gs://") || !w.cloud() && !strings.HasPrefix(id, "https://") {
			return nil, wire.Fail(wire.Refused, path, "a file of another provider")
		}
		return fileData(id, media, whole), nil
	case "video-url", "image-url", "audio-url", "document-url":
		direct := kind == "video-url" && (isYouTube(url) || strings.HasPrefix(url, "gs://") && w.cloud())
		if !direct && (wire.Downloads(item) || !w.cloud() && !strings.HasPrefix(url, "https://generativelanguage.googleapis.com/v1beta/files")) {
			return nil, wire.NeedsDownload(path)
		}
		return fileData(url, media, whole), nil
	default:
		return nil, wire.Fail(wire.Kind, path, kind)
	}
}

// fileData has the member names that Google's client leaves as they are.
func fileData(uri string, media *pyjson.Value, whole bool) *pyjson.Value {
	if !whole {
		return wire.Obj("file_data", wire.Obj("file_uri", uri, "mime_type", media))
	}
	return wire.Obj("fileData", wire.Obj("file_uri", uri, "mime_type", media))
}

func isYouTube(url string) bool {
	_, rest, ok := strings.Cut(url, "://")
	host, _, _ := strings.Cut(rest, "/")
	host = strings.ToLower(host)
	return ok && (host == "youtu.be" || host == "youtube.com" || host == "www.youtube.com" || host == "m.youtube.com")
}

func (w *writer) response(m *wire.Message) error {
	var parts []*pyjson.Value
	var pending *string // the signature of a thought, for the part that follows it
	first := true       // no call yet
	for i, part := range m.Parts {
		path := m.Path + "/parts/" + itoa(i)
		provider := wire.TextOf(part, "provider_name")
		sign, err := w.signature(part, m, path)
		if err != nil {
			return err
		}
		if sign == nil && pending != nil {
			if sign, err = decodeSignature(*pending, path); err != nil {
				return err
			}
		}
		pending = nil
		var out *pyjson.Value
		switch kind := wire.PartKind(part); kind {
		case wire.ToolCall:
			args, err := wire.Args(part.Get("args"), path+"/args")
			if err != nil {
				return err
			}
			out = wire.Obj("functionCall", wire.Obj("name", part.Get("tool_name"), "args", wire.Respell(args), "id", part.Get("tool_call_id")))
			if sign == nil && first {
				sign = []byte(skipValidator)
			}
			first = false
		case wire.Text:
			out = wire.Obj("text", part.Get("content"))
		case wire.Thinking:
			if s := wire.TextOf(part, "signature"); w.own(provider) && s != "" {
				pending = &s
			}
			if wire.TextOf(part, "content") != "" {
				out = wire.Obj("text", part.Get("content"), "thought", true)
			}
		case wire.NativeCall, wire.NativeReturn:
			if w.own(provider) {
				if out, err = w.native(part, kind == wire.NativeCall, path); err != nil {
					return err
				}
			}
		case wire.File:
			data, err := wire.Bytes(part.Get("content"), path+"/content")
			if err != nil {
				return err
			}
			out = wire.Obj("inlineData", wire.Obj("data", wire.Base64Std(data), "mime_type", part.At("content", "media_type")))
		case wire.Compaction:
		default:
			return wire.Fail(wire.Kind, path, kind)
		}
		if out == nil {
			continue
		}
		if sign != nil {
			out = out.With("thoughtSignature", pyjson.NewString(base64.URLEncoding.EncodeToString(sign)))
		}
		parts = append(parts, out)
	}
	if len(parts) > 0 {
		w.out = append(w.out, content("model", parts...))
	}
	return nil
}

func (w *writer) signature(part *pyjson.Value, m *wire.Message, path string) ([]byte, error) {
	raw := wire.TextOf(part.Get("provider_details"), "thought_signature")
	if raw == "" || !w.own(m.Provider()) && !w.own(wire.TextOf(part, "provider_name")) {
		return nil, nil
	}
	return decodeSignature(raw, path)
}

func decodeSignature(raw, path string) ([]byte, error) {
	data, ok := wire.Base64(raw)
	if !ok {
		return nil, wire.Fail(wire.Unsupported, path, "a signature that is no strict base64")
	}
	return data, nil
}

// native renders a part of the provider's own tools; nil for one that only the client could have made.
func (w *writer) native(part *pyjson.Value, call bool, path string) (*pyjson.Value, error) {
	tool, id := wire.TextOf(part, "tool_name"), wire.TextOf(part, "tool_call_id")
	value := orNull(part.Get("content"))
	if call {
		args, err := wire.Args(part.Get("args"), path+"/args")
		if err != nil {
			return nil, err
		}
		value = args
	}
	value = wire.Respell(value)
	if tool == "media_processing" && w.a.Version == pydanticai.V2580 {
		return nil, nil
	}
	if tool == "code_execution" && value.Is(pyjson.Object) {
		if call {
			return wire.Obj("executableCode", value), known(value, path, "code", "language", "id")
		}
		return wire.Obj("codeExecutionResult", value), known(value, path, "outcome", "output", "id")
	}
	kind := ""
	for name, k := range nativeTools {
		if k == tool {
			kind = name
		}
	}
	if kind == "" {
		return nil, wire.Fail(wire.Refused, path+"/tool_name", "a tool that Google has not")
	}
	if !w.a.Profile.Flag("google_supports_tool_combination") || w.cloud() || strings.HasPrefix(id, "pyd_ai_") {
		return nil, nil
	}
	if call {
		return wire.Obj("toolCall", wire.Obj("id", id, "tool_type", kind, "args", value)), nil
	}
	if !value.Is(pyjson.Object) {
		value = wire.Obj("result", value)
	}
	if tool == "web_search" && !w.a.Old() {
		value = value.Without("sources")
	}
	return wire.Obj("toolResponse", wire.Obj("id", id, "tool_type", kind, "response", value)), nil
}

func orNull(v *pyjson.Value) *pyjson.Value {
	if v == nil {
		return pyjson.NewNull()
	}
	return v
}

// known refuses members that Google's client does not know in a typed object.
func known(v *pyjson.Value, path string, names ...string) error {
next:
	for _, m := range v.Members {
		for _, n := range names {
			if m.Name == n && m.Value.Is(pyjson.String) {
				continue next
			}
		}
		return wire.Fail(wire.Member, path+pyjson.Pointer(m.Name), "code execution")
	}
	return nil
}

// Body returns the body of a generateContent request as a JSON value. The error is a *wire.Error; what the SDK would send and
// this does not render is refused by name.
func Body(a *wire.Ask) (*pyjson.Value, error) {
	if err := a.RefuseSettings("max_tokens", "temperature", "top_p", "top_k", "stop_sequences", "presence_penalty", "frequency_penalty", "seed", "timeout",
		"extra_headers", "tool_choice", "parallel_tool_calls", "logit_bias"); err != nil {
		return nil, err
	}
	p, err := a.Resolve()
	if err != nil {
		return nil, err
	}
	if p.Mode == "native" {
		return nil, wire.Fail(wire.Unsupported, "/params/output_mode", "native output")
	}
	system, contents, err := Contents(a)
	if err != nil {
		return nil, err
	}
	body := wire.Obj("contents", pyjson.NewArray(contents...), "systemInstruction", system)
	modalities := pyjson.NewArray(pyjson.NewString("TEXT"))
	if a.Profile.Flag("supports_image_output") {
		modalities.Items = append(modalities.Items, pyjson.NewString("IMAGE"))
		if !p.AllowText {
			modalities.Items = modalities.Items[1:]
		}
	}
	config := wire.Obj("responseModalities", modalities)
	for _, s := range [][2]string{{"temperature", "temperature"}, {"top_p", "topP"}, {"top_k", "topK"}, {"max_tokens", "maxOutputTokens"},
		{"stop_sequences", "stopSequences"}, {"presence_penalty", "presencePenalty"}, {"frequency_penalty", "frequencyPenalty"}, {"seed", "seed"}} {
		v := a.Setting(s[0])
		switch whole := s[0] == "max_tokens" || s[0] == "seed"; {
		case v == nil:
			continue
		case whole && !v.IsInteger():
			return nil, wire.Fail(wire.Unsupported, "/settings/"+s[0], "integer expected")
		case !whole && v.IsInteger(): // the client declares it as a float
			v = pyjson.NewNumber(v.Text + ".0")
		}
		config = config.With(s[1], wire.Respell(v))
	}
	body = body.With("generationConfig", config)
	return withTools(a, p, body)
}

func withTools(a *wire.Ask, p *wire.Params, body *pyjson.Value) (*pyjson.Value, error) {
	c, err := a.Choice(p)
	if err != nil {
		return nil, err
	}
	defs, allowed := p.Tools, pyjson.NewArray()
	if c.Names != nil && c.Mode == "auto" {
		defs = c.Only(defs)
	} else if c.Names != nil {
		for _, def := range c.Only(defs) {
			allowed.Items = append(allowed.Items, def.Get("name"))
		}
	}
	if len(defs) == 0 {
		return body, nil
	}
	mode := map[string]string{"auto": "AUTO", "none": "NONE", "required": "ANY"}[c.Mode]
	tools, loose := pyjson.NewArray(), false
	for _, def := range defs {
		path := "/params/" + wire.TextOf(def, "name")
		schema := wire.Respell(def.Get("parameters_json_schema"))
		switch t := a.Profile.Text("json_schema_transformer"); t {
		case "":
		case "GoogleJsonSchemaTransformer":
			if schema, err = (wire.SchemaRewrite{Each: rewriteSchema}).Apply(schema, path); err != nil {
				return nil, err
			}
		default:
			return nil, wire.Fail(wire.Unsupported, path, t)
		}
		loose = loose || def.Get("strict").IsFalse()
		tools.Items = append(tools.Items, wire.Obj("name", def.Get("name"), "description", wire.Description(def), "parameters_json_schema", schema))
	}
	if mode == "AUTO" && a.Profile.Flag("google_supports_strict_tool_definition") && !loose {
		mode = "VALIDATED"
	}
	calling := wire.Obj("mode", mode)
	if len(allowed.Items) > 0 {
		name := "allowedFunctionNames"
		if (&writer{a: a}).cloud() {
			name = "allowed_function_names"
		}
		calling = calling.With(name, allowed)
	}
	return body.With("tools", pyjson.NewArray(wire.Obj("functionDeclarations", tools))).With("toolConfig", wire.Obj("functionCallingConfig", calling)), nil
}

// rewriteSchema is GoogleJsonSchemaTransformer.transform.
func rewriteSchema(s *pyjson.Value) (*pyjson.Value, error) {
	s = s.Without("$schema")
	if c := wire.Present(s, "const"); c != nil {
		s = s.With("enum", pyjson.NewArray(c))
		if s.Get("type") == nil {
			switch {
			case c.Is(pyjson.String):
				s = s.With("type", pyjson.NewString("string"))
			case c.Is(pyjson.Bool):
				s = s.With("type", pyjson.NewString("boolean"))
			case c.IsInteger():
				s = s.With("type", pyjson.NewString("integer"))
			case c.Is(pyjson.Number):
				s = s.With("type", pyjson.NewString("number"))
			}
		}
	}
	s = s.Without("const").Without("discriminator").Without("examples")
	if options := wire.Items(s, "anyOf"); len(options) > 0 {
		folds := true
		for _, o := range options {
			folds = folds && len(wire.Items(o, "enum")) == 1
		}
		if folds {
			return nil, wire.Fail(wire.Unsupported, "/params", "a union of single values")
		}
	}
	s = s.Without("title")
	if f := s.Get("format"); wire.TextOf(s, "type") == "string" && f != nil {
		s = s.Without("format")
		if wire.Truthy(f) {
			text := "Format: " + f.Text
			if d := wire.TextOf(s, "description"); d != "" {
				text = d + " (format: " + f.Text + ")"
			}
			s = s.With("description", pyjson.NewString(text))
		}
	}
	return s.Without("exclusiveMinimum").Without("exclusiveMaximum"), nil
}
