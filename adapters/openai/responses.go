package openai

import (
	_ "embed"
	"strings"
	"sync"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/adapters/wire"
)

//go:embed responses.shapes
var responsesShapesText string

var responsesShapes = sync.OnceValue(func() *wire.Shapes { return wire.ParseShapes(responsesShapesText) })

var responsesFinish = map[string]string{
	"max_output_tokens": "length", "content_filter": "content_filter", "completed": "stop", "cancelled": "error", "failed": "error",
}

// ParseResponses reads an answer of the Responses API, not streamed, as OpenAIResponsesModel._process_response does. The error
// is a *wire.Error.
func ParseResponses(o wire.Options, body []byte) (*wire.Response, error) {
	v, err := wire.ParseJSON(body, "")
	if err != nil {
		return nil, err
	}
	c := responsesShapes().Checker()
	if err := c.Check(v, "Response", ""); err != nil {
		return nil, err
	}
	p := responsesParser{o: o, dropped: c.Dropped}
	r, err := p.response(v)
	if err != nil {
		return nil, err
	}
	r.Dropped = p.dropped
	return r, nil
}

type responsesParser struct {
	o       wire.Options
	dropped []wire.Dropped
}

// unsupportedResponse refuses what is known and not done here.
func (p *responsesParser) unsupported(v *pyjson.Value, path string) error {
	for _, name := range []string{"moderation", "prompt_cache_diagnostics"} {
		if wire.Present(v, name) != nil {
			return wire.Fail(wire.Unsupported, path+"/"+name, name)
		}
	}
	if p.o.Request.RecordsHistory {
		return wire.Fail(wire.Unsupported, path, "history_digest")
	}
	return nil
}

func (p *responsesParser) response(v *pyjson.Value) (*wire.Response, error) {
	if wire.Present(v, "error") != nil {
		return nil, wire.Fail(wire.Refused, "/error", "error")
	}
	if err := p.unsupported(v, ""); err != nil {
		return nil, err
	}
	id := wire.TextOf(v, "id")
	var parts []*wire.Part
	refusal := (*string)(nil)
	pairs := searchOutputs(v)
	for i, item := range wire.Items(v, "output") {
		path := "/output/" + itoa(i)
		more, refused, err := p.item(item, path, id, pairs)
		if err != nil {
			return nil, err
		}
		if refused != nil {
			refusal = refused
		}
		parts = append(parts, more...)
	}
	details := pyjson.NewObject()
	finish := ""
	status := wire.TextOf(v, "status")
	raw := status
	if d := wire.Present(v, "incomplete_details"); d != nil {
		raw = wire.TextOf(d, "reason")
	}
	if raw != "" {
		details = details.With("finish_reason", pyjson.NewString(raw))
		finish = responsesFinish[raw]
	}
	details, err := p.commonDetails(details, v)
	if err != nil {
		return nil, err
	}
	if refusal != nil {
		p.drop("/output", "parts beside a refusal", len(parts) > 0)
		parts, finish = nil, "content_filter"
		details = details.Without("finish_reason").With("refusal", pyjson.NewString(*refusal))
	}
	usage, err := p.usage(v, "")
	if err != nil {
		return nil, err
	}
	r := &wire.Response{Parts: wire.EncodeParts(parts), Usage: usage, ModelName: wire.TextOf(v, "model"), ResponseID: &id,
		FinishReason: finish, ProviderName: p.o.Provider, ProviderURL: &p.o.BaseURL, State: stateOf(status, wire.Present(v, "background").IsTrue())}
	if len(details.Members) > 0 {
		r.ProviderDetails = details
	}
	return r, nil
}

func (p *responsesParser) drop(path, name string, content bool) {
	if content {
		p.dropped = append(p.dropped, wire.Dropped{Path: path, Name: name})
	}
}

func (p *responsesParser) commonDetails(details, v *pyjson.Value) (*pyjson.Value, error) {
	if at := v.Get("created_at"); wire.Truthy(at) {
		us, ok := wire.Instant(at)
		if !ok {
			return nil, wire.Fail(wire.Shape, "/created_at", "time expected")
		}
		details = details.With("timestamp", pyjson.NewString(pydanticai.FormatInstant(us)))
	}
	if c := wire.Present(v, "conversation"); c != nil {
		details = details.With("conversation_id", pyjson.NewString(wire.TextOf(c, "id")))
	}
	if wire.Present(v, "background").IsTrue() {
		details = details.With("background", pyjson.NewBool(true))
	}
	if tier := wire.TextOf(v, "service_tier"); tier != "" && !p.o.Old() {
		details = details.With("service_tier", pyjson.NewString(tier))
	}
	return details, nil
}

func stateOf(status string, background bool) string {
	if status == "queued" || status == "in_progress" {
		if background {
			return "suspended"
		}
		return "incomplete"
	}
	return "complete"
}

// item returns the parts of one output item, and a refusal.
func (p *responsesParser) item(item *pyjson.Value, path, responseID string, pairs searchPairs) ([]*wire.Part, *string, error) {
	system := wire.Ptr(p.o.Provider)
	switch kind := wire.TextOf(item, "type"); kind {
	case "reasoning":
		return reasoningParts(item, system), nil, nil
	case "message":
		var parts []*wire.Part
		var refusal *string
		for _, content := range wire.Items(item, "content") {
			if wire.TextOf(content, "type") == "refusal" {
				refusal = wire.PtrOf(content, "refusal")
				continue
			}
			text := wire.TextOf(content, "text")
			if text == "" && !p.o.Old() {
				continue
			}
			var details *pyjson.Value
			if logprobs := wire.Items(content, "logprobs"); len(logprobs) > 0 {
				details = wire.Obj("logprobs", mapLogprobs(logprobs))
			}
			if p.o.Request.RawAnnotations && len(wire.Items(content, "annotations")) > 0 {
				return nil, nil, wire.Fail(wire.Unsupported, path, "raw annotations")
			}
			if phase := wire.Present(item, "phase"); phase != nil {
				details = withDetail(details, "phase", phase)
			}
			parts = append(parts, &wire.Part{Kind: wire.Text, Content: text, ID: wire.PtrOf(item, "id"), Provider: system, Details: details})
		}
		return parts, refusal, nil
	case "function_call":
		part := p.functionCall(item, responseID)
		return []*wire.Part{part}, nil, nil
	case "code_interpreter_call":
		call, ret, files, err := p.codeInterpreter(item, path)
		if err != nil {
			return nil, nil, err
		}
		return append(append([]*wire.Part{call}, files...), ret), nil, nil
	case "web_search_call":
		call, ret := p.webSearch(item)
		return []*wire.Part{call, ret}, nil, nil
	case "file_search_call":
		call, ret := p.fileSearch(item)
		return []*wire.Part{call, ret}, nil, nil
	case "image_generation_call":
		call, ret, file, err := p.imageGeneration(item, path)
		if err != nil {
			return nil, nil, err
		}
		parts := []*wire.Part{call}
		if file != nil {
			parts = append(parts, file)
		}
		return append(parts, ret), nil, nil
	case "mcp_call":
		call, ret, err := p.mcpCall(item, path)
		return []*wire.Part{call, ret}, nil, err
	case "mcp_list_tools":
		call, ret := p.mcpListTools(item)
		return []*wire.Part{call, ret}, nil, nil
	case "compaction":
		return []*wire.Part{p.compaction(item)}, nil, nil
	case "tool_search_call":
		if wire.TextOf(item, "execution") == "client" {
			call, err := p.searchCall(item, path, true)
			return []*wire.Part{call}, nil, err
		}
		call, err := p.searchCall(item, path, false)
		if err != nil {
			return nil, nil, err
		}
		parts := []*wire.Part{call}
		if output := pairs.outputs[call.CallID]; output != nil {
			parts = append(parts, p.searchReturn(call.CallID, output))
		}
		return parts, nil, nil
	case "tool_search_output":
		if wire.TextOf(item, "execution") == "server" && !pairs.paired[wire.TextOf(item, "id")] {
			id := wire.TextOf(item, "call_id")
			if id == "" {
				id = wire.TextOf(item, "id")
			}
			return []*wire.Part{p.searchReturn(id, item)}, nil, nil
		}
		p.drop(path, "tool_search_output", wire.TextOf(item, "execution") != "server")
		return nil, nil, nil
	default:
		return nil, nil, wire.Fail(wire.Kind, path+"/type", kind)
	}
}

func withDetail(details *pyjson.Value, name string, v *pyjson.Value) *pyjson.Value {
	if details == nil {
		details = pyjson.NewObject()
	}
	return details.With(name, v)
}

func reasoningParts(item *pyjson.Value, system *string) []*wire.Part {
	var raw *pyjson.Value
	if contents := wire.Items(item, "content"); len(contents) > 0 {
		raw = pyjson.NewArray()
		for _, c := range contents {
			raw.Items = append(raw.Items, c.Get("text"))
		}
	}
	var details *pyjson.Value
	if raw != nil {
		details = wire.Obj("raw_content", raw)
	}
	id, sign := wire.PtrOf(item, "id"), wire.PtrOf(item, "encrypted_content")
	var parts []*wire.Part
	summary := wire.Items(item, "summary")
	for _, s := range summary {
		parts = append(parts, &wire.Part{Kind: wire.Thinking, Content: wire.TextOf(s, "text"), ID: id, Sign: sign, Provider: system, Details: details})
		sign, details = nil, nil
	}
	if len(summary) == 0 && (sign != nil && *sign != "" || details != nil) {
		parts = append(parts, &wire.Part{Kind: wire.Thinking, ID: id, Sign: sign, Provider: system, Details: details})
	}
	return parts
}

func (p *responsesParser) callID(id, responseID string) string {
	if p.o.Profile.Flag("openai_responses_tool_call_ids_are_response_scoped") {
		return responseID + ":" + id
	}
	return id
}

func (p *responsesParser) functionCall(item *pyjson.Value, responseID string) *wire.Part {
	part := &wire.Part{Kind: wire.ToolCall, Tool: wire.TextOf(item, "name"), Args: item.Get("arguments"),
		CallID: p.callID(wire.TextOf(item, "call_id"), responseID), ID: wire.PtrOf(item, "id"), Provider: wire.Ptr(p.o.Provider)}
	if ns := wire.TextOf(item, "namespace"); ns != "" {
		part.Details = wire.Obj("namespace", ns)
	}
	return part
}

func (p *responsesParser) native(kind, tool string, item *pyjson.Value) *wire.Part {
	return &wire.Part{Kind: kind, Tool: tool, CallID: wire.TextOf(item, "id"), Provider: wire.Ptr(p.o.Provider), AtUS: p.o.AtUS}
}

func (p *responsesParser) codeInterpreter(item *pyjson.Value, path string) (call, ret *wire.Part, files []*wire.Part, err error) {
	result := wire.Obj("status", item.Get("status"))
	logs := pyjson.NewArray()
	for i, out := range wire.Items(item, "outputs") {
		if wire.TextOf(out, "type") == "logs" {
			logs.Items = append(logs.Items, out.Get("logs"))
			continue
		}
		head, data, ok := strings.Cut(wire.TextOf(out, "url"), ",")
		media, isBase64 := strings.CutSuffix(strings.TrimPrefix(head, "data:"), ";base64")
		bytes, good := wire.Base64(data)
		if !ok || !isBase64 || !good || !strings.HasPrefix(head, "data:image/") {
			return nil, nil, nil, wire.Fail(wire.Unsupported, path+"/outputs/"+itoa(i)+"/url", "image that is no data URI")
		}
		files = append(files, &wire.Part{Kind: wire.File, Value: wire.Binary(bytes, media), ID: wire.PtrOf(item, "id")})
	}
	if len(logs.Items) > 0 {
		result = result.With("logs", logs)
	}
	call, ret = p.native(wire.NativeCall, "code_execution", item), p.native(wire.NativeReturn, "code_execution", item)
	call.Args = wire.Obj("container_id", item.Get("container_id"), "code", wire.TextOf(item, "code"))
	ret.Value = result
	return call, ret, files, nil
}

func (p *responsesParser) webSearch(item *pyjson.Value) (call, ret *wire.Part) {
	call, ret = p.native(wire.NativeCall, "web_search", item), p.native(wire.NativeReturn, "web_search", item)
	call.ID = wire.PtrOf(item, "id")
	ret.Value = wire.Obj("status", item.Get("status"))
	if action := wire.Present(item, "action"); action != nil {
		shape := map[string]string{"search": "ActionSearch", "open_page": "ActionOpenPage", "find_in_page": "ActionFind"}[wire.TextOf(action, "type")]
		call.Args = responsesShapes().Dump(action, shape, wire.Dump{ExcludeNone: true})
		if sources := call.Args.Get("sources"); sources != nil {
			call.Args = call.Args.Without("sources")
			if len(sources.Items) > 0 {
				ret.Value = ret.Value.With("sources", withoutNulls(sources))
			}
		}
	}
	return call, ret
}

func withoutNulls(list *pyjson.Value) *pyjson.Value {
	out := pyjson.NewArray()
	for _, item := range list.Items {
		kept := pyjson.NewObject()
		for _, m := range item.Members {
			if m.Value.Kind != pyjson.Null {
				kept.Members = append(kept.Members, m)
			}
		}
		out.Items = append(out.Items, kept)
	}
	return out
}

func (p *responsesParser) fileSearch(item *pyjson.Value) (call, ret *wire.Part) {
	call, ret = p.native(wire.NativeCall, "file_search", item), p.native(wire.NativeReturn, "file_search", item)
	call.ID = wire.PtrOf(item, "id")
	call.Args = wire.Obj("queries", item.Get("queries"))
	ret.Value = wire.Obj("status", item.Get("status"))
	if results := wire.Present(item, "results"); results != nil {
		list := pyjson.NewArray()
		for _, r := range results.Items {
			list.Items = append(list.Items, responsesShapes().Dump(r, "Result", wire.Dump{}))
		}
		ret.Value = ret.Value.With("results", list)
	}
	return call, ret
}

func (p *responsesParser) imageGeneration(item *pyjson.Value, path string) (call, ret, file *wire.Part, err error) {
	call, ret = p.native(wire.NativeCall, "image_generation", item), p.native(wire.NativeReturn, "image_generation", item)
	result := wire.Obj("status", item.Get("status"))
	for _, name := range []string{"background", "quality", "size", "revised_prompt"} {
		if s := wire.TextOf(item, name); s != "" {
			result = result.With(name, pyjson.NewString(s))
		}
	}
	if data := wire.TextOf(item, "result"); data != "" {
		if file, err = p.image(item.Get("result"), item.Get("output_format"), wire.TextOf(item, "id"), path); err != nil {
			return nil, nil, nil, err
		}
		result = result.With("status", pyjson.NewString("completed"))
	}
	ret.Value = result
	return call, ret, file, nil
}

func (p *responsesParser) image(data, format *pyjson.Value, id, path string) (*wire.Part, error) {
	bytes, ok := wire.Base64(data.Text)
	if !ok {
		return nil, wire.Fail(wire.Shape, path+"/result", "base64 expected")
	}
	f, ok := format.Str()
	if !ok {
		// The SDK would write the media type image/None.
		return nil, wire.Fail(wire.Unsupported, path+"/output_format", "image without a format")
	}
	return &wire.Part{Kind: wire.File, Value: wire.Binary(bytes, "image/"+f), ID: &id}, nil
}

func (p *responsesParser) mcpCall(item *pyjson.Value, path string) (call, ret *wire.Part, err error) {
	tool := "mcp_server:" + wire.TextOf(item, "server_label")
	call, ret = p.native(wire.NativeCall, tool, item), p.native(wire.NativeReturn, tool, item)
	args := pyjson.NewObject()
	if text := wire.TextOf(item, "arguments"); text != "" {
		if args, err = wire.ParseJSON([]byte(text), path+"/arguments"); err != nil {
			return nil, nil, err
		}
		args = wire.Respell(args)
	}
	call.Args = wire.Obj("action", "call_tool", "tool_name", item.Get("name"), "tool_args", args)
	e := orNull(item.Get("error"))
	if e.Is(pyjson.Object) {
		want := map[string][]string{"mcp_protocol_error": {"code", "message", "type"}, "http_error": {"code", "message", "type"},
			"mcp_tool_execution_error": {"content", "type"}}[wire.TextOf(e, "type")]
		for _, name := range want {
			if e.Get(name) == nil {
				want = nil
				break
			}
		}
		if want == nil || len(want) != len(e.Members) || e.Get("code") != nil && !e.Get("code").IsInteger() {
			return nil, nil, wire.Fail(wire.Unsupported, path+"/error", "error of an MCP call")
		}
	} else if e.Kind != pyjson.Null && e.Kind != pyjson.String {
		return nil, nil, wire.Fail(wire.Shape, path+"/error", "text or object expected")
	}
	ret.Value = wire.Obj("output", orNull(item.Get("output")), "error", wire.Respell(e))
	return call, ret, nil
}

func orNull(v *pyjson.Value) *pyjson.Value {
	if v == nil {
		return pyjson.NewNull()
	}
	return v
}

func (p *responsesParser) mcpListTools(item *pyjson.Value) (call, ret *wire.Part) {
	tool := "mcp_server:" + wire.TextOf(item, "server_label")
	call, ret = p.native(wire.NativeCall, tool, item), p.native(wire.NativeReturn, tool, item)
	call.Args = wire.Obj("action", "list_tools")
	dump := responsesShapes().Dump(item, "McpListTools", wire.Dump{})
	ret.Value = wire.Obj("tools", dump.Get("tools"), "error", dump.Get("error"))
	return call, ret
}

func (p *responsesParser) compaction(item *pyjson.Value) *wire.Part {
	return &wire.Part{Kind: wire.Compaction, ID: wire.PtrOf(item, "id"), Provider: wire.Ptr(p.o.Provider),
		Details: responsesShapes().Dump(item, "ResponseCompactionItem", wire.Dump{})}
}

func (p *responsesParser) searchCall(item *pyjson.Value, path string, client bool) (*wire.Part, error) {
	args := item.Get("arguments")
	queries := pyjson.NewArray()
	switch {
	case !args.Is(pyjson.Object):
		return nil, wire.Fail(wire.Refused, path+"/arguments", "not an object")
	case len(args.Members) == 0:
	case args.Get("queries").Is(pyjson.Array), args.Get("paths").Is(pyjson.Array):
		list := args.Get("queries")
		if !list.Is(pyjson.Array) {
			list = args.Get("paths")
		}
		for _, q := range list.Items {
			if q.Is(pyjson.String) {
				queries.Items = append(queries.Items, q)
			}
		}
		p.drop(path+"/arguments", "arguments", len(args.Members) > 1 || len(queries.Items) != len(list.Items))
	default:
		return nil, wire.Fail(wire.Refused, path+"/arguments", "neither queries nor paths")
	}
	id := wire.TextOf(item, "call_id")
	if id == "" {
		id = wire.TextOf(item, "id")
	}
	part := &wire.Part{Kind: wire.NativeCall, Tool: "tool_search", Args: wire.Obj("queries", queries), CallID: id, ToolKind: "tool-search",
		ID: wire.PtrOf(item, "id"), Provider: wire.Ptr(p.o.Provider)}
	if client {
		part.Kind, part.Tool = wire.ToolCall, "search_tools"
		return part, nil
	}
	part.Details = wire.Obj("call_id", orNull(item.Get("call_id")), "execution", item.Get("execution"), "status", item.Get("status"))
	return part, nil
}

func (p *responsesParser) searchReturn(callID string, item *pyjson.Value) *wire.Part {
	found := pyjson.NewArray()
	for i, tool := range wire.Items(item, "tools") {
		if wire.TextOf(tool, "type") == "function" {
			found.Items = append(found.Items, wire.Obj("name", tool.Get("name")))
		} else {
			p.drop("/tools/"+itoa(i), "tool", true)
		}
	}
	return &wire.Part{Kind: wire.NativeReturn, Tool: "tool_search", Value: wire.Obj("discovered_tools", found), CallID: callID,
		ToolKind: "tool-search", Provider: wire.Ptr(p.o.Provider), AtUS: p.o.AtUS,
		Details: wire.Obj("id", item.Get("id"), "call_id", orNull(item.Get("call_id")), "execution", item.Get("execution"), "status", item.Get("status"))}
}

// searchPairs joins the outputs of the provider's own tool search to its calls.
type searchPairs struct {
	outputs map[string]*pyjson.Value // by call id
	paired  map[string]bool          // ids of outputs
}

func searchOutputs(v *pyjson.Value) searchPairs {
	pairs := searchPairs{map[string]*pyjson.Value{}, map[string]bool{}}
	var pending []string
	server := map[string]bool{}
	items := wire.Items(v, "output")
	for _, item := range items {
		if wire.TextOf(item, "type") == "tool_search_call" && wire.TextOf(item, "execution") == "server" {
			id := wire.TextOf(item, "call_id")
			if wire.Present(item, "call_id") == nil {
				pending = append(pending, wire.TextOf(item, "id"))
			}
			if id == "" {
				id = wire.TextOf(item, "id")
			}
			server[id] = true
		}
	}
	for _, item := range items {
		if wire.TextOf(item, "type") != "tool_search_output" || wire.TextOf(item, "execution") != "server" {
			continue
		}
		id, given := item.Get("call_id").Str()
		if given && !server[id] {
			continue
		}
		if id, pending = matchSearch(id, given, pending); id != "" || given {
			pairs.outputs[id] = item
		}
	}
	for _, item := range pairs.outputs {
		pairs.paired[wire.TextOf(item, "id")] = true
	}
	return pairs
}

func matchSearch(id string, given bool, pending []string) (string, []string) {
	if given {
		for i, p := range pending {
			if p == id {
				return id, append(append([]string{}, pending[:i]...), pending[i+1:]...)
			}
		}
		return id, pending
	}
	if len(pending) > 0 {
		return pending[0], pending[1:]
	}
	return "", pending
}

// usage is _map_usage of a Responses answer.
func (p *responsesParser) usage(v *pyjson.Value, path string) (wire.Usage, error) {
	var u wire.Usage
	searches := int64(0)
	if status := wire.TextOf(v, "status"); status != "in_progress" && status != "queued" && !p.o.Old() {
		if n, ok := v.At("tool_usage", "web_search", "num_requests").Int(); ok {
			searches = n
		} else {
			for i, item := range wire.Items(v, "output") {
				if wire.TextOf(item, "type") == "web_search_call" && wire.Present(item, "action") == nil {
					return u, wire.Fail(wire.Refused, path+"/output/"+itoa(i)+"/action", "a search without an action")
				}
				if wire.TextOf(item, "type") == "web_search_call" && wire.TextOf(item.Get("action"), "type") == "search" {
					searches++
				}
			}
		}
	}
	use := wire.Present(v, "usage")
	if use == nil {
		if searches != 0 {
			u.Set("web_searches", searches)
			u.SetDetail("web_search_requests", searches)
		}
		return u, nil
	}
	counters, err := wire.Extract(p.o, "openai", "responses", wire.Obj("usage", use))
	if err != nil {
		return u, err
	}
	u.Counters = counters
	if u.Details, err = wire.IntDetails(use, path+"/usage", nil, "prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "total_tokens"); err != nil {
		return u, err
	}
	reasoning, err := count(use.At("output_tokens_details", "reasoning_tokens"), path+"/usage/output_tokens_details/reasoning_tokens")
	if err != nil {
		return u, err
	}
	u.SetDetail("reasoning_tokens", reasoning)
	if searches != 0 {
		u.SetDetail("web_search_requests", searches)
		u.Set("web_searches", searches)
	}
	if written := use.At("input_tokens_details", "cache_write_tokens"); written.Is(pyjson.Number) {
		n, err := count(written, path+"/usage/input_tokens_details/cache_write_tokens")
		if err != nil {
			return u, err
		}
		u.Set("cache_write_tokens", n)
	}
	return u, nil
}

// count reads a count; absent and null are 0.
func count(v *pyjson.Value, path string) (int64, error) {
	if v == nil || v.Kind == pyjson.Null {
		return 0, nil
	}
	n, ok := v.Int()
	if !ok || n < 0 {
		return 0, wire.Fail(wire.Counters, path, "not from 0 to 2^63-1")
	}
	return n, nil
}

func mapLogprobs(list []*pyjson.Value) *pyjson.Value {
	num := func(v *pyjson.Value) *pyjson.Value {
		if v.IsInteger() {
			return pyjson.NewNumber(pyjson.PythonNumber(v.Text + ".0"))
		}
		return orNull(v)
	}
	one := func(v *pyjson.Value) *pyjson.Value {
		return wire.Obj("token", orNull(v.Get("token")), "bytes", orNull(v.Get("bytes")), "logprob", wire.Respell(num(v.Get("logprob"))))
	}
	out := pyjson.NewArray()
	for _, lp := range list {
		top := pyjson.NewArray()
		for _, t := range wire.Items(lp, "top_logprobs") {
			top.Items = append(top.Items, one(t))
		}
		out.Items = append(out.Items, one(lp).With("top_logprobs", top))
	}
	return out
}
