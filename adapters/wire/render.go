package wire

import (
	"errors"
	"regexp"
	"strings"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
)

// IsFile reports whether the SDK reads a value inside the result of a tool as a file.
func IsFile(v *pyjson.Value) bool {
	switch TextOf(v, "kind") {
	case "image-url", "audio-url", "video-url", "document-url", "binary", "uploaded-file":
		return v.Get("url") != nil || v.Get("media_type") != nil || v.Get("file_id") != nil
	}
	return false
}

// hidesFile reports whether there is a file further inside: the SDK writes it into the text in its own member order.
func hidesFile(v *pyjson.Value) bool {
	for _, item := range v.Items {
		if IsFile(item) || hidesFile(item) {
			return true
		}
	}
	for _, m := range v.Members {
		if IsFile(m.Value) || hidesFile(m.Value) {
			return true
		}
	}
	return false
}

// Return is the result of a tool on its way into a request.
type Return struct {
	part  *pyjson.Value
	Rest  []*pyjson.Value // what is no file
	Files []*pyjson.Value
	List  bool // the content is an array
}

// NewReturn takes a tool-return part apart. path is that of the part.
func NewReturn(part *pyjson.Value, path string) (*Return, error) {
	r := &Return{part: part}
	content := orNull(part.Get("content"))
	switch {
	case IsFile(content):
		r.Files = []*pyjson.Value{content}
	case content.Is(pyjson.Array):
		r.List = true
		for _, item := range content.Items {
			if IsFile(item) {
				r.Files = append(r.Files, item)
			} else {
				r.Rest = append(r.Rest, item)
			}
		}
	default:
		r.Rest = []*pyjson.Value{content}
	}
	for _, item := range r.Rest {
		if hidesFile(item) {
			return nil, Fail(Unsupported, path+"/content", "a file inside a value")
		}
	}
	return r, nil
}

// Failed reports whether the tool reported a failure.
func (r *Return) Failed() bool { return TextOf(r.part, "outcome") == "failed" }

// value is _unwrap_data; nil is None.
func (r *Return) value() *pyjson.Value {
	switch {
	case len(r.Rest) == 0:
		return nil
	case len(r.Rest) == 1 && (!r.List || len(r.Files) > 0):
		if r.Rest[0].Kind == pyjson.Null {
			return nil
		}
		return r.Rest[0]
	}
	return pyjson.NewArray(r.Rest...)
}

// JSON writes a value as pydantic does, in one line.
func JSON(v *pyjson.Value) string { return string(pyjson.Compact(v, pyjson.PydanticNumber)) }

// Text is model_response_str: a text as it is, nothing for None, the rest as JSON. wrap puts a failure into {"error": ...}.
func (r *Return) Text(wrap bool) string {
	text := ""
	switch v := r.value(); {
	case v == nil:
	case v.Is(pyjson.String):
		text = v.Text
	default:
		text = JSON(v)
	}
	if wrap && r.Failed() {
		return JSON(Obj("error", text))
	}
	return text
}

// Object is model_response_object.
func (r *Return) Object(wrap bool) *pyjson.Value {
	if wrap && r.Failed() {
		return Obj("error", r.Text(false))
	}
	switch v := r.value(); {
	case v == nil:
		return pyjson.NewObject()
	case v.Is(pyjson.Object):
		return Respell(v)
	default:
		return Obj("return_value", Respell(v))
	}
}

// Items is content_items: files as they are, texts as they are, the rest as values (asJSON) or as JSON text.
func (r *Return) Items(asJSON, wrap bool) []*pyjson.Value {
	if wrap && r.Failed() {
		first := r.Object(true)
		if !asJSON {
			first = pyjson.NewString(r.Text(true))
		}
		return append([]*pyjson.Value{first}, r.Files...)
	}
	items := []*pyjson.Value{orNull(r.part.Get("content"))}
	if r.List {
		items = items[0].Items
	}
	var out []*pyjson.Value
	for _, item := range items {
		switch {
		case IsFile(item), item.Is(pyjson.String):
			out = append(out, item)
		case asJSON:
			out = append(out, Respell(item))
		default:
			out = append(out, pyjson.NewString(JSON(item)))
		}
	}
	return out
}

// TextAndFiles is model_response_str_and_user_content: the text that goes into the result, and the user content that has the
// files it speaks of.
func (r *Return) TextAndFiles(v pydanticai.Version, wrap bool) (string, []*pyjson.Value) {
	if len(r.Files) == 0 {
		return r.Text(wrap), nil
	}
	texts := pyjson.NewArray()
	var content []*pyjson.Value
	for _, item := range r.Items(false, false) {
		if !IsFile(item) {
			texts.Items = append(texts.Items, item)
			continue
		}
		id := TextOf(item, "identifier")
		texts.Items = append(texts.Items, pyjson.NewString("See file "+id+"."))
		if v == V2330 {
			content = append(content, pyjson.NewString("This is file "+id+":"), item)
			continue
		}
		open, closing := FileFrame(r.part, item)
		content = append(content, pyjson.NewString(open), item, pyjson.NewString(closing))
	}
	switch {
	case wrap && r.Failed():
		list := pyjson.NewArray(Obj("error", r.Text(false)))
		for _, file := range r.Files {
			list.Items = append(list.Items, pyjson.NewString("See file "+TextOf(file, "identifier")+"."))
		}
		return JSON(list), content
	case r.List:
		return JSON(texts), content
	}
	return texts.Items[0].Text, content
}

// FileFrame returns the texts that stand around a file of a tool's result where it goes beside the result.
func FileFrame(part, file *pyjson.Value) (open, closing string) {
	return `<tool_result tool_name="` + escapeHTML(TextOf(part, "tool_name")) + `" tool_call_id="` + escapeHTML(TextOf(part, "tool_call_id")) +
		`" file_id="` + escapeHTML(TextOf(file, "identifier")) + `">`, "</tool_result>"
}

// escapeHTML is Python's html.escape.
func escapeHTML(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;").Replace(s)
}

// RetryText is what a model reads of a retry-prompt part.
func RetryText(part *pyjson.Value) string {
	content, bound := part.Get("content"), Present(part, "tool_name") != nil
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
			if !bound && len(Items(e, "loc")) <= 1 {
				e = e.Without("input")
			}
			list.Items = append(list.Items, e)
		}
		plural := "s"
		if len(content.Items) == 1 {
			plural = ""
		}
		text = itoa(len(content.Items)) + " validation error" + plural + ":\n```json\n" + string(pyjson.Indent2(list, pyjson.PydanticNumber)) + "\n```"
	}
	return text + "\n\nFix the errors and try again."
}

// argumentLimits bound the text of arguments that is looked into.
var argumentLimits = pyjson.Limits{Bytes: 16 << 20, Depth: 128, Nodes: 1 << 18}

// Args is args_as_dict: an object as it is, the object that a text holds, {} for nothing, {"INVALID_JSON": text} for the rest.
// It refuses a text that pydantic's reader and this one may take in different ways.
func Args(args *pyjson.Value, path string) (*pyjson.Value, error) {
	switch {
	case args.Is(pyjson.Object):
		return args, nil
	case !args.Is(pyjson.String) || args.Text == "":
		return pyjson.NewObject(), nil
	}
	v, err := pyjson.ParseLastWins([]byte(args.Text), argumentLimits)
	var limit *pyjson.LimitError
	if errors.As(err, &limit) || err != nil && (strings.Contains(args.Text, "NaN") || strings.Contains(args.Text, "Infinity") || strings.ContainsAny(args.Text, "eE")) {
		return nil, Fail(Unsupported, path, "arguments that readers may take in different ways")
	}
	if err == nil && v.Is(pyjson.Object) {
		return v, nil
	}
	return Obj("INVALID_JSON", args), nil
}

// ArgsText is args_as_json_str: the versions before 2.58 keep the text of an object, 2.58 writes it again.
func ArgsText(v pydanticai.Version, args *pyjson.Value, path string) (string, error) {
	dict, err := Args(args, path)
	if err != nil {
		return "", err
	}
	if v != pydanticai.V2580 && args.Is(pyjson.String) && args.Text != "" && dict.Get("INVALID_JSON") != args {
		return args.Text, nil
	}
	return JSON(dict), nil
}

// Formats of media types, as file names and providers know them.
var (
	documentFormats = map[string]string{"application/pdf": "pdf", "text/plain": "txt", "text/csv": "csv",
		"application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
		"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":       "xlsx",
		"text/html": "html", "text/markdown": "md", "application/msword": "doc", "application/vnd.ms-excel": "xls"}
	audioFormats = map[string]string{"audio/mpeg": "mp3", "audio/wav": "wav", "audio/flac": "flac", "audio/ogg": "oga", "audio/aiff": "aiff", "audio/aac": "aac"}
	imageFormats = map[string]string{"image/jpeg": "jpeg", "image/png": "png", "image/gif": "gif", "image/webp": "webp"}
	videoFormats = map[string]string{"video/x-matroska": "mkv", "video/quicktime": "mov", "video/mp4": "mp4", "video/webm": "webm",
		"video/x-flv": "flv", "video/mpeg": "mpeg", "video/x-ms-wmv": "wmv", "video/3gpp": "three_gp"}
)

// FileKind is "image", "audio", "video", "document" or "" for a media type, and the SDK's format of it, "" for none.
func FileKind(mediaType string) (kind, format string) {
	switch {
	case strings.HasPrefix(mediaType, "audio/"):
		return "audio", audioFormats[mediaType]
	case strings.HasPrefix(mediaType, "image/"):
		return "image", imageFormats[mediaType]
	case strings.HasPrefix(mediaType, "video/"):
		return "video", videoFormats[mediaType]
	}
	if format := documentFormats[mediaType]; format != "" {
		return "document", format
	}
	return "", ""
}

// TextLike reports whether files of a media type are put into a prompt as text.
func TextLike(mediaType string) bool {
	m, _, _ := strings.Cut(mediaType, ";")
	m = strings.TrimSpace(m)
	switch m {
	case "application/json", "application/xml", "application/x-yaml", "application/yaml", "application/toml":
		return true
	}
	return strings.HasPrefix(m, "text/") || strings.HasSuffix(m, "+json") || strings.HasSuffix(m, "+xml")
}

// Inlined is a text file inside a prompt.
func Inlined(text, mediaType, identifier string) string {
	return `-----BEGIN FILE id="` + identifier + `" type="` + mediaType + "\"-----\n" + text + "\n-----END FILE id=\"" + identifier + `"-----`
}

// Bytes returns the bytes of a binary content item.
func Bytes(item *pyjson.Value, path string) ([]byte, error) {
	data, err := urlBase64(TextOf(item, "data"))
	if err != nil {
		return nil, Fail(Shape, path+"/data", "base64 expected")
	}
	return data, nil
}

// DataURI is data_uri of a binary content item.
func DataURI(item *pyjson.Value, path string) (string, error) {
	data, err := Bytes(item, path)
	if err != nil {
		return "", err
	}
	return "data:" + TextOf(item, "media_type") + ";base64," + Base64Std(data), nil
}

// Downloads reports whether the SDK would fetch the file of a URL item before it sends the request.
func Downloads(item *pyjson.Value) bool { return Truthy(item.Get("force_download")) }

// NeedsDownload refuses a file that would have to be fetched.
func NeedsDownload(path string) error {
	return Fail(Unsupported, path, "a file that has to be fetched")
}

// closeTag is what would end a carried thought before its time.
var closeTag = regexp.MustCompile(`(?i)<(\s*/\s*assistant_thinking[\s/>])`)

// CarriedThinking is the text of a thought that goes back in a user's turn, for models that would imitate it in their own
// (2.58.0: render_replayed_thinking).
func CarriedThinking(m *Message, content string) string {
	open := "<assistant_thinking"
	for _, a := range [][2]string{{"model", TextOf(m.V, "model_name")}, {"provider", m.Provider()}} {
		if a[1] != "" {
			open += " " + a[0] + `="` + escapeHTML(a[1]) + `"`
		}
	}
	return open + ">\n" + closeTag.ReplaceAllString(content, "&lt;$1") + "\n</assistant_thinking>"
}

// Standing returns the standing system prompts of the first request and the last instructions, nil for none: what stays when
// the messages before a compaction go.
func Standing(messages []*Message) (opening []*pyjson.Value, instructions *pyjson.Value) {
	first := true
	for _, m := range messages {
		if !m.Request {
			continue
		}
		for _, part := range m.Parts {
			if !first || PartKind(part) != "system-prompt" {
				break
			}
			opening = append(opening, part)
		}
		first = false
		if v := Present(m.V, "instructions"); v != nil {
			instructions = v
		}
	}
	return opening, instructions
}
