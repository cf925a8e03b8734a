// Package google reads and writes Google's generateContent wire as Pydantic AI's GoogleModel does: answers, streamed and not, to
// response messages, and histories to request bodies. fixtures/judge asks the real SDK whether it is right. The package is pure.
package google

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/adapters/wire"
)

//go:embed generate.shapes
var shapesText string

var shapes = sync.OnceValue(func() *wire.Shapes { return wire.ParseShapes(shapesText) })

func itoa(n int) string { return strconv.Itoa(n) }

// finishReasons has every reason of the SDK's map; "" is null.
var finishReasons = map[string]string{
	"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "content_filter", "RECITATION": "content_filter", "LANGUAGE": "error",
	"BLOCKLIST": "content_filter", "PROHIBITED_CONTENT": "content_filter", "SPII": "content_filter", "MALFORMED_FUNCTION_CALL": "error",
	"IMAGE_SAFETY": "content_filter", "UNEXPECTED_TOOL_CALL": "error", "IMAGE_PROHIBITED_CONTENT": "content_filter", "NO_IMAGE": "error",
}

var nativeTools = map[string]string{"GOOGLE_SEARCH_WEB": "web_search", "URL_CONTEXT": "web_fetch", "FILE_SEARCH": "file_search"}

// Parse reads an answer, not streamed, as GoogleModel._process_response does. The error is a *wire.Error.
func Parse(o wire.Options, body []byte) (*wire.Response, error) {
	v, err := wire.ParseJSON(body, "")
	if err != nil {
		return nil, err
	}
	c := shapes().Checker()
	if wire.Truthy(v.Get("error")) {
		return nil, wire.Fail(wire.Refused, "/error", "error")
	}
	if err := c.Check(v, "GenerateContentResponse", ""); err != nil {
		return nil, err
	}
	ids := o.NewIDs()
	p := parser{o: o, ids: ids, dropped: c.Dropped}
	candidate := p.candidate(v, "")
	details := pyjson.NewObject()
	finish := ""
	if raw := wire.TextOf(candidate, "finishReason"); raw != "" {
		details = details.With("finish_reason", pyjson.NewString(raw))
		if ratings := wire.Items(candidate, "safetyRatings"); len(ratings) > 0 {
			details = details.With("safety_ratings", safetyRatings(ratings))
		}
		finish = finishReasons[raw]
	} else if feedback := wire.Present(v, "promptFeedback"); candidate == nil && wire.TextOf(feedback, "blockReason") != "" {
		details, finish = blocked(details, feedback), "content_filter"
	}
	if details, err = p.common(details, v, true); err != nil {
		return nil, err
	}
	if err := p.unsupported(candidate, ""); err != nil {
		return nil, err
	}
	usage, err := p.usage(nil, v, "")
	if err != nil {
		return nil, err
	}
	parts, err := p.parts(candidate)
	if err != nil {
		return nil, err
	}
	r := &wire.Response{Parts: wire.EncodeParts(parts), Usage: usage, ModelName: o.Model, ResponseID: wire.PtrOf(v, "responseId"),
		ProviderName: o.Provider, ProviderURL: &o.BaseURL, FinishReason: finish, Dropped: p.dropped}
	if m := wire.TextOf(v, "modelVersion"); m != "" {
		r.ModelName = m
	}
	if len(details.Members) > 0 {
		r.ProviderDetails = details
	}
	return r, ids.Err()
}

type parser struct {
	o       wire.Options
	ids     *wire.IDs
	stream  bool
	dropped []wire.Dropped
}

func (p *parser) drop(path, name string, content bool) {
	if content && len(p.dropped) < 64 {
		p.dropped = append(p.dropped, wire.Dropped{Path: path, Name: name})
	}
}

// candidate returns the first candidate, nil for none; others are noted.
func (p *parser) candidate(v *pyjson.Value, path string) *pyjson.Value {
	list := wire.Items(v, "candidates")
	if len(list) == 0 {
		return nil
	}
	p.drop(path+"/candidates/1", "candidate", len(list) > 1)
	return list[0]
}

// cloud reports whether this is Google Cloud, whose answers the client reads in another way.
func (p *parser) cloud() bool {
	return p.o.Provider == "google-cloud" || p.o.Provider == "google-vertex"
}

func (p *parser) unsupported(candidate *pyjson.Value, path string) error {
	if wire.Present(candidate, "logprobsResult") != nil {
		return wire.Fail(wire.Unsupported, path+"/candidates/0/logprobsResult", "logprobs")
	}
	return nil
}

// common takes what every answer and chunk may say.
func (p *parser) common(details, v *pyjson.Value, created bool) (*pyjson.Value, error) {
	if t := wire.PtrOf(v, "createTime"); t != nil && created && p.cloud() {
		text, ok := timestamp(*t)
		if !ok {
			return nil, wire.Fail(wire.Shape, "/createTime", "time expected")
		}
		details = details.With("timestamp", pyjson.NewString(text))
	}
	if tier := p.o.Headers["x-gemini-service-tier"]; tier != "" {
		details = details.With("service_tier", pyjson.NewString(strings.ToLower(tier)))
	}
	if t := wire.TextOf(wire.Present(v, "usageMetadata"), "trafficType"); t != "" {
		details = details.With("traffic_type", pyjson.NewString(t))
	}
	return details, nil
}

// timestamp reads RFC 3339 in UTC with up to nine digits of fraction and returns it as pydantic writes it; digits after the
// sixth are cut off, as pydantic does.
func timestamp(s string) (string, bool) {
	text, ok := strings.CutSuffix(s, "Z")
	if !ok || len(text) < 19 {
		return "", false
	}
	whole, fraction := text[:19], text[19:]
	if fraction != "" {
		if fraction[0] != '.' || len(fraction) < 2 || len(fraction) > 10 {
			return "", false
		}
		fraction = fraction[1:]
		for len(fraction) < 6 {
			fraction += "0"
		}
		fraction = "." + fraction[:6]
		if fraction == ".000000" {
			fraction = ""
		}
	}
	if out := whole + fraction + "Z"; pydanticai.IsInstant(out) {
		return out, true
	}
	return "", false
}

func safetyRatings(list []*pyjson.Value) *pyjson.Value {
	out := pyjson.NewArray()
	for _, r := range list {
		out.Items = append(out.Items, shapes().Dump(r, "SafetyRating", wire.Dump{}))
	}
	return out
}

func blocked(details, feedback *pyjson.Value) *pyjson.Value {
	details = details.With("block_reason", feedback.Get("blockReason"))
	if m := wire.TextOf(feedback, "blockReasonMessage"); m != "" {
		details = details.With("block_reason_message", pyjson.NewString(m))
	}
	if ratings := wire.Items(feedback, "safetyRatings"); len(ratings) > 0 {
		details = details.With("safety_ratings", safetyRatings(ratings))
	}
	return details
}

// parts is _process_response_from_parts.
func (p *parser) parts(candidate *pyjson.Value) ([]*wire.Part, error) {
	raw := wire.Items(wire.Present(candidate, "content"), "parts")
	grounding := wire.Present(candidate, "groundingMetadata")
	var out []*wire.Part
	native := hasNative(raw)
	if !native && p.o.Old() {
		out = append(out, p.grounding(grounding, nil)...)
	}
	if !native {
		out = append(out, p.urlContext(wire.Present(candidate, "urlContextMetadata"))...)
	} else {
		p.drop("/candidates/0/urlContextMetadata", "url_context", wire.Truthy(candidate.Get("urlContextMetadata").Get("urlMetadata")))
	}
	codeID := ""
	var searches []string
	var lastWeb *wire.Part
	for i, v := range raw {
		path := "/candidates/0/content/parts/" + itoa(i)
		kind, err := partKind(v, path)
		if err != nil {
			return nil, err
		}
		part, details, err := p.part(v, kind, path, &codeID)
		if err != nil {
			return nil, err
		}
		if part == nil {
			continue
		}
		if details != nil {
			part.Provider = &p.o.Provider
			part.Details = details
		}
		switch {
		case part.Kind == wire.NativeReturn && part.Tool == "web_search":
			lastWeb = part
		case part.Kind == wire.NativeReturn:
			fillFileSearch(part, grounding)
		case part.Kind == wire.NativeCall && part.Tool == "file_search":
			searches = append(searches, part.CallID)
		}
		out = append(out, part)
	}
	if p.o.Old() {
		return out, nil
	}
	if lastWeb != nil {
		fillSources(lastWeb, grounding)
	}
	if !native {
		out = append(out, p.grounding(grounding, searches)...)
	} else {
		p.drop("/candidates/0/groundingMetadata", "grounding", lastWeb == nil && wire.Truthy(grounding.Get("webSearchQueries")))
	}
	return out, nil
}

// hasNative reports whether the parts tell of the provider's own tools.
func hasNative(parts []*pyjson.Value) bool {
	for _, v := range parts {
		if wire.Present(v, "toolCall") != nil || wire.Present(v, "toolResponse") != nil {
			return true
		}
	}
	return false
}

var dataKinds = []string{"executableCode", "codeExecutionResult", "text", "functionCall", "toolCall", "toolResponse", "inlineData", "functionResponse", "fileData"}

// partKind says what a part holds: exactly one thing, or nothing but a signature ("").
func partKind(v *pyjson.Value, path string) (string, error) {
	kind := ""
	for _, k := range dataKinds {
		if wire.Present(v, k) != nil {
			if kind != "" {
				return "", wire.Fail(wire.Shape, path+"/"+k, "two kinds in a part")
			}
			kind = k
		}
	}
	if kind == "" && wire.TextOf(v, "thoughtSignature") == "" {
		return "", wire.Fail(wire.Refused, path, "an empty part")
	}
	return kind, nil
}

// part makes one part and its signature's details; nil is a part that the SDK leaves out.
func (p *parser) part(v *pyjson.Value, kind, path string, codeID *string) (*wire.Part, *pyjson.Value, error) {
	var details *pyjson.Value
	if sign := wire.TextOf(v, "thoughtSignature"); sign != "" {
		bytes, ok := wire.Base64(sign)
		if !ok || len(bytes) == 0 {
			return nil, nil, wire.Fail(wire.Shape, path+"/thoughtSignature", "base64 expected")
		}
		details = wire.Obj("thought_signature", wire.Base64Std(bytes))
	}
	provider := &p.o.Provider
	switch kind {
	case "":
		if p.o.Version != pydanticai.V2580 {
			return nil, nil, wire.Fail(wire.Refused, path, "a part of nothing but a signature")
		}
		for _, m := range v.Members {
			if m.Name != "thoughtSignature" && m.Value.Kind != pyjson.Null {
				return nil, nil, wire.Fail(wire.Refused, path+pyjson.Pointer(m.Name), "beside nothing but a signature")
			}
		}
		p.drop(path, "thought_signature", true)
		return nil, nil, nil
	case "executableCode":
		code := v.Get(kind)
		id := p.ids.New()
		if p.o.Request.Native("file_search") && (!p.o.Old() || p.stream) {
			if query, ok := fileSearchQuery(wire.TextOf(code, "code")); ok {
				return &wire.Part{Kind: wire.NativeCall, Tool: "file_search", CallID: id, Args: wire.Obj("query", query), Provider: provider}, details, nil
			}
		}
		*codeID = id
		return &wire.Part{Kind: wire.NativeCall, Tool: "code_execution", CallID: id, Provider: provider,
			Args: shapes().Dump(code, "ExecutableCode", wire.Dump{ExcludeNone: true})}, details, nil
	case "codeExecutionResult":
		if *codeID == "" {
			return nil, nil, wire.Fail(wire.Refused, path, "a result without its code")
		}
		return &wire.Part{Kind: wire.NativeReturn, Tool: "code_execution", CallID: *codeID, Provider: provider, AtUS: p.o.AtUS,
			Value: shapes().Dump(v.Get(kind), "CodeExecutionResult", wire.Dump{ExcludeNone: true})}, details, nil
	case "text":
		text := wire.TextOf(v, "text")
		if text == "" && details == nil {
			return nil, nil, nil
		}
		if wire.Present(v, "thought").IsTrue() {
			return &wire.Part{Kind: wire.Thinking, Content: text}, details, nil
		}
		return &wire.Part{Kind: wire.Text, Content: text}, details, nil
	case "functionCall":
		f := v.Get(kind)
		name, ok := f.Get("name").Str()
		if !ok {
			return nil, nil, wire.Fail(wire.Shape, path+"/functionCall/name", "missing")
		}
		if wire.Truthy(f.Get("willContinue")) || len(wire.Items(f, "partialArgs")) > 0 {
			return nil, nil, wire.Fail(wire.Unsupported, path+"/functionCall", "a call in pieces")
		}
		part := &wire.Part{Kind: wire.ToolCall, Tool: name, ToolKind: p.o.Request.ToolKinds[name]}
		if args := wire.Present(f, "args"); args != nil {
			part.Args = wire.Respell(args)
		}
		if id := wire.PtrOf(f, "id"); id != nil {
			if *id == "" {
				return nil, nil, wire.Fail(wire.Shape, path+"/functionCall/id", "an empty id")
			}
			part.CallID = *id
		} else {
			part.CallID = p.ids.New()
		}
		return part, details, nil
	case "toolCall", "toolResponse":
		t := v.Get(kind)
		tool, ok := nativeTools[wire.TextOf(t, "toolType")]
		if !ok {
			return nil, nil, wire.Fail(wire.Kind, path+"/"+kind+"/toolType", "tool type")
		}
		id := wire.TextOf(t, "id")
		if id == "" {
			id = p.ids.New()
		}
		if kind == "toolCall" {
			part := &wire.Part{Kind: wire.NativeCall, Tool: tool, CallID: id, Provider: provider}
			if args := wire.Present(t, "args"); args != nil {
				part.Args = wire.Respell(args)
			}
			return part, details, nil
		}
		part := &wire.Part{Kind: wire.NativeReturn, Tool: tool, CallID: id, Provider: provider, AtUS: p.o.AtUS}
		if r := wire.Present(t, "response"); r != nil {
			part.Value = wire.Respell(r)
		}
		return part, details, nil
	case "inlineData":
		data := v.Get(kind)
		bytes, ok := wire.Base64(wire.TextOf(data, "data"))
		media := wire.TextOf(data, "mimeType")
		if !ok || len(bytes) == 0 || media == "" {
			return nil, nil, wire.Fail(wire.Shape, path+"/inlineData", "data and type expected")
		}
		return &wire.Part{Kind: wire.File, Value: wire.Binary(bytes, media)}, details, nil
	}
	return nil, nil, wire.Fail(wire.Refused, path+"/"+kind, kind)
}

// fileSearchQuery finds file_search.query(query="...") in code, as the SDK's pattern does.
func fileSearchQuery(code string) (string, bool) {
	const head = "file_search.query(query="
	for {
		i := strings.Index(code, head)
		if i < 0 {
			return "", false
		}
		code = code[i+len(head):]
		if code == "" || code[0] != '"' && code[0] != '\'' {
			continue
		}
		quote := code[0]
		end := -1
		for j := 1; j < len(code); j++ {
			if code[j] == '\\' {
				if j+1 >= len(code) || code[j+1] == '\n' {
					break
				}
				j++
				continue
			}
			if code[j] == quote {
				end = j
				break
			}
		}
		if end < 0 || !strings.HasPrefix(code[end+1:], ")") {
			continue
		}
		query := code[1:end]
		query = strings.ReplaceAll(query, `\\`, `\`)
		query = strings.ReplaceAll(query, `\"`, `"`)
		return strings.ReplaceAll(query, `\'`, `'`), true
	}
}

func sources(grounding *pyjson.Value) *pyjson.Value {
	out := pyjson.NewArray()
	for _, chunk := range wire.Items(grounding, "groundingChunks") {
		if web := wire.Present(chunk, "web"); web != nil {
			out.Items = append(out.Items, shapes().Dump(web, "GroundingChunkWeb", wire.Dump{Python: true}))
		}
	}
	return out
}

func fillSources(part *wire.Part, grounding *pyjson.Value) {
	if list := sources(grounding); len(list.Items) > 0 {
		content := part.Value
		if !content.Is(pyjson.Object) {
			content = pyjson.NewObject()
		}
		part.Value = content.With("sources", list)
	}
}

func contexts(grounding *pyjson.Value) *pyjson.Value {
	out := pyjson.NewArray()
	for _, chunk := range wire.Items(grounding, "groundingChunks") {
		if c := wire.Present(chunk, "retrievedContext"); c != nil {
			out.Items = append(out.Items, shapes().Dump(c, "GroundingChunkRetrievedContext", wire.Dump{Python: true, ExcludeNone: true}))
		}
	}
	return out
}

func fillFileSearch(part *wire.Part, grounding *pyjson.Value) {
	if part.Tool != "file_search" || part.Value != nil {
		return
	}
	if list := contexts(grounding); len(list.Items) > 0 {
		part.Value = list
	}
}

// grounding makes parts of searches that only the grounding metadata tells of.
func (p *parser) grounding(grounding *pyjson.Value, searches []string) []*wire.Part {
	var out []*wire.Part
	provider := &p.o.Provider
	if p.o.Old() {
		out = p.webGrounding(grounding)
	}
	if list := contexts(grounding); len(list.Items) > 0 {
		if len(searches) == 0 {
			id := p.ids.New()
			out = append(out, &wire.Part{Kind: wire.NativeCall, Tool: "file_search", CallID: id, Args: pyjson.NewObject(), Provider: provider})
			searches = []string{id}
		}
		for _, id := range searches {
			out = append(out, &wire.Part{Kind: wire.NativeReturn, Tool: "file_search", CallID: id, Value: list, Provider: provider, AtUS: p.o.AtUS})
		}
	}
	if !p.o.Old() {
		out = append(out, p.webGrounding(grounding)...)
	}
	return out
}

func (p *parser) webGrounding(grounding *pyjson.Value) []*wire.Part {
	var out []*wire.Part
	provider := &p.o.Provider
	if queries := wire.Present(grounding, "webSearchQueries"); queries != nil && len(queries.Items) > 0 {
		id := p.ids.New()
		ret := &wire.Part{Kind: wire.NativeReturn, Tool: "web_search", CallID: id, Provider: provider, AtUS: p.o.AtUS}
		if len(wire.Items(grounding, "groundingChunks")) > 0 {
			ret.Value = sources(grounding)
		}
		out = append(out, &wire.Part{Kind: wire.NativeCall, Tool: "web_search", CallID: id, Args: wire.Obj("queries", queries), Provider: provider}, ret)
	}
	return out
}

func (p *parser) urlContext(meta *pyjson.Value) []*wire.Part {
	list := wire.Items(meta, "urlMetadata")
	if len(list) == 0 {
		return nil
	}
	id := p.ids.New()
	urls, dump := pyjson.NewArray(), pyjson.NewArray()
	for _, m := range list {
		if u := wire.TextOf(m, "retrievedUrl"); u != "" {
			urls.Items = append(urls.Items, pyjson.NewString(u))
		}
		dump.Items = append(dump.Items, shapes().Dump(m, "UrlMetadata", wire.Dump{Python: true}))
	}
	call := &wire.Part{Kind: wire.NativeCall, Tool: "web_fetch", CallID: id, Provider: &p.o.Provider}
	if len(urls.Items) > 0 {
		call.Args = wire.Obj("urls", urls)
	}
	return []*wire.Part{call, {Kind: wire.NativeReturn, Tool: "web_fetch", CallID: id, Value: dump, Provider: &p.o.Provider, AtUS: p.o.AtUS}}
}

// usage is _metadata_as_usage and _set_web_search_usage, on top of what earlier chunks said.
func (p *parser) usage(existing *wire.Usage, v *pyjson.Value, path string) (wire.Usage, error) {
	u, err := p.metadata(existing, wire.Present(v, "usageMetadata"), path+"/usageMetadata")
	if err != nil {
		return u, err
	}
	if p.o.Old() {
		return u, nil
	}
	queries := map[string]bool{}
	source := false
	for _, c := range wire.Items(v, "candidates") {
		g := wire.Present(c, "groundingMetadata")
		for _, q := range wire.Items(g, "webSearchQueries") {
			if !wire.IsSpace(q.Text) && q.Text != "" {
				queries[q.Text] = true
			}
		}
		for _, chunk := range wire.Items(g, "groundingChunks") {
			source = source || wire.TextOf(chunk.Get("web"), "uri") != ""
		}
	}
	if len(queries) > 0 {
		u.SetDetail("web_search_requests", int64(len(queries)))
		searches := int64(len(queries))
		if p.o.Profile.Flag("google_web_search_billed_per_prompt") {
			searches = 0
			if source {
				searches = 1
			}
		}
		if searches > 0 {
			u.Set("web_searches", searches)
		}
	}
	return u, nil
}

func (p *parser) metadata(existing *wire.Usage, m *pyjson.Value, path string) (wire.Usage, error) {
	var u wire.Usage
	if existing != nil {
		u = wire.Usage{Counters: append([]wire.Counter{}, existing.Counters...), Details: append([]wire.Counter{}, existing.Details...)}
	}
	anything := false
	for _, name := range []string{"promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount",
		"promptTokensDetails", "cacheTokensDetails", "candidatesTokensDetails", "toolUsePromptTokensDetails"} {
		anything = anything || wire.Truthy(m.Get(name))
	}
	if m == nil || !anything && !p.o.Old() {
		return u, nil
	}
	count := func(v *pyjson.Value, at string) (int64, error) {
		n, ok := v.Int()
		if !ok || n < 0 {
			return 0, wire.Fail(wire.Counters, path+at, "not from 0 to 2^63-1")
		}
		return n, nil
	}
	for _, c := range [][2]string{{"cachedContentTokenCount", "cached_content_tokens"}, {"thoughtsTokenCount", "thoughts_tokens"}, {"toolUsePromptTokenCount", "tool_use_prompt_tokens"}} {
		if v := wire.Present(m, c[0]); wire.Truthy(v) {
			n, err := count(v, "/"+c[0])
			if err != nil {
				return u, err
			}
			u.SetDetail(c[1], n)
		}
	}
	for _, c := range [][2]string{{"promptTokensDetails", "prompt"}, {"cacheTokensDetails", "cache"}, {"candidatesTokensDetails", "candidates"}, {"toolUsePromptTokensDetails", "tool_use_prompt"}} {
		seen := map[string]bool{}
		for _, d := range wire.Items(m, c[0]) {
			modality := wire.TextOf(d, "modality")
			if seen[modality] {
				return u, wire.Fail(wire.Counters, path+"/"+c[0], "a modality twice")
			}
			seen[modality] = true
			if modality == "" || !wire.Truthy(d.Get("tokenCount")) {
				continue
			}
			n, err := count(d.Get("tokenCount"), "/"+c[0])
			if err != nil {
				return u, err
			}
			u.SetDetail(strings.ToLower(modality)+"_"+c[1]+"_tokens", n)
		}
	}
	counters, err := wire.Extract(p.o, "google", "default", wire.Obj("usageMetadata", m))
	if err != nil {
		return u, err
	}
	old := u
	u.Counters = counters
	if existing != nil {
		for _, name := range []string{"input_tokens", "cache_write_tokens", "cache_read_tokens", "output_tokens", "input_audio_tokens", "cache_audio_read_tokens", "output_audio_tokens"} {
			if u.Get(name) == 0 {
				u.Set(name, old.Get(name))
			}
		}
	}
	return u, nil
}
