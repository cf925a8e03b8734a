// Package anthropic reads and writes Anthropic's Messages wire as Pydantic AI's AnthropicModel does: answers, streamed and not,
// to response messages, and histories to request bodies. fixtures/judge asks the real SDK whether it is right. The package is
// pure.
package anthropic

import (
	_ "embed"
	"strconv"
	"sync"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/adapters/wire"
)

//go:embed messages.shapes
var shapesText string

var shapes = sync.OnceValue(func() *wire.Shapes { return wire.ParseShapes(shapesText) })

func itoa(n int) string { return strconv.Itoa(n) }

var finishReasons = map[string]string{
	"compaction": "stop", "end_turn": "stop", "max_tokens": "length", "model_context_window_exceeded": "length",
	"stop_sequence": "stop", "tool_use": "tool_call", "pause_turn": "", "refusal": "content_filter",
}

// resultBlocks are the blocks that hold what a tool of the provider gave back.
var resultBlocks = map[string]struct{ shape, tool, codeTool string }{
	"web_search_tool_result":                 {"BetaWebSearchToolResultBlock", "web_search", ""},
	"web_fetch_tool_result":                  {"BetaWebFetchToolResultBlock", "web_fetch", ""},
	"code_execution_tool_result":             {"BetaCodeExecutionToolResultBlock", "code_execution", ""},
	"bash_code_execution_tool_result":        {"BetaBashCodeExecutionToolResultBlock", "code_execution", "bash_code_execution"},
	"text_editor_code_execution_tool_result": {"BetaTextEditorCodeExecutionToolResultBlock", "code_execution", "text_editor_code_execution"},
	"advisor_tool_result":                    {"BetaAdvisorToolResultBlock", "advisor", ""},
	"tool_search_tool_result":                {"BetaToolSearchToolResultBlock", "tool_search", ""},
}

// Parse reads an answer, not streamed, as AnthropicModel._process_response does. The error is a *wire.Error.
func Parse(o wire.Options, body []byte) (*wire.Response, error) {
	v, err := wire.ParseJSON(body, "")
	if err != nil {
		return nil, err
	}
	c := shapes().Checker()
	if err := c.Check(v, "BetaMessage", ""); err != nil {
		return nil, err
	}
	p := parser{o: o, dropped: c.Dropped, calls: map[string]*wire.Part{}}
	blocks := wire.Items(v, "content")
	answered := map[string]bool{}
	for _, b := range blocks {
		if _, ok := resultBlocks[wire.TextOf(b, "type")]; ok {
			answered[wire.TextOf(b, "tool_use_id")] = true
		}
	}
	var parts []*wire.Part
	for i, b := range blocks {
		path := "/content/" + itoa(i)
		if wire.TextOf(b, "type") == "server_tool_use" && !p.enabled(wire.TextOf(b, "name")) && !answered[wire.TextOf(b, "id")] {
			p.drop(path, "server_tool_use")
			continue
		}
		part, err := p.block(b, path)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	details := pyjson.NewObject()
	finish, state := "", "complete"
	if raw := wire.TextOf(v, "stop_reason"); raw != "" {
		details, finish = details.With("finish_reason", pyjson.NewString(raw)), finishReasons[raw]
		if raw == "pause_turn" {
			state = "suspended"
		}
	}
	if details, err = p.details(details, v, ""); err != nil {
		return nil, err
	}
	usage, err := p.usage(wire.Usage{}, v.Get("usage"), true, "/usage")
	if err != nil {
		return nil, err
	}
	r := &wire.Response{Parts: wire.EncodeParts(parts), Usage: usage, ModelName: wire.TextOf(v, "model"), ResponseID: wire.PtrOf(v, "id"),
		ProviderName: o.Provider, ProviderURL: &o.BaseURL, FinishReason: finish, State: state, Dropped: p.dropped}
	if len(details.Members) > 0 {
		r.ProviderDetails = details
	}
	return r, nil
}

type parser struct {
	o       wire.Options
	dropped []wire.Dropped
	calls   map[string]*wire.Part // of MCP servers, by id
}

func (p *parser) drop(path, name string) {
	if len(p.dropped) < 64 {
		p.dropped = append(p.dropped, wire.Dropped{Path: path, Name: name})
	}
}

// enabled reports whether the provider's own tool of this wire name was sent with the request.
func (p *parser) enabled(name string) bool {
	r := p.o.Request
	switch name {
	case "web_search", "web_fetch", "advisor":
		return r.Native(name)
	case "code_execution", "bash_code_execution", "text_editor_code_execution":
		return r.Native("code_execution") || p.o.Profile.Flag("anthropic_supports_dynamic_filtering") && r.Native("web_search", "web_fetch")
	case "tool_search_tool_regex", "tool_search_tool_bm25":
		return r.Native("tool_search")
	}
	return false
}

// details takes what a message or a message_delta says beside its content.
func (p *parser) details(details, v *pyjson.Value, path string) (*pyjson.Value, error) {
	for _, name := range []string{"input_transformations", "diagnostics"} {
		if wire.Truthy(v.Get(name)) {
			return nil, wire.Fail(wire.Unsupported, path+"/"+name, name)
		}
	}
	if stop := wire.Present(v, "stop_details"); stop != nil {
		if s := wire.PtrOf(stop, "explanation"); s != nil {
			details = details.With("refusal", pyjson.NewString(*s))
		}
		if s := wire.PtrOf(stop, "category"); s != nil {
			details = details.With("refusal_category", pyjson.NewString(*s))
		}
	}
	if c := wire.Present(v, "container"); c != nil {
		details = details.With("container_id", c.Get("id"))
	}
	return details, nil
}

func emptyIsNull(v *pyjson.Value) *pyjson.Value {
	if len(v.Members) == 0 {
		return nil
	}
	return v
}

// callerDetails is what is kept of a caller that is not the model itself.
func callerDetails(details, block *pyjson.Value) *pyjson.Value {
	if c := wire.Present(block, "caller"); c != nil && wire.TextOf(c, "type") != "direct" {
		details = details.With("anthropic_caller", c)
	}
	return details
}

// block makes the part of one content block.
func (p *parser) block(b *pyjson.Value, path string) (*wire.Part, error) {
	provider := &p.o.Provider
	kind := wire.TextOf(b, "type")
	switch kind {
	case "text":
		return &wire.Part{Kind: wire.Text, Content: wire.TextOf(b, "text")}, nil
	case "thinking":
		return &wire.Part{Kind: wire.Thinking, Content: wire.TextOf(b, "thinking"), Sign: wire.PtrOf(b, "signature"), Provider: provider}, nil
	case "redacted_thinking":
		return &wire.Part{Kind: wire.Thinking, ID: wire.Ptr("redacted_thinking"), Sign: wire.PtrOf(b, "data"), Provider: provider}, nil
	case "tool_use":
		return &wire.Part{Kind: wire.ToolCall, Tool: wire.TextOf(b, "name"), Args: wire.Respell(b.Get("input")), CallID: wire.TextOf(b, "id")}, nil
	case "server_tool_use":
		return p.serverCall(b)
	case "mcp_tool_use":
		part := &wire.Part{Kind: wire.NativeCall, Tool: "mcp_server:" + wire.TextOf(b, "server_name"), CallID: wire.TextOf(b, "id"), Provider: provider,
			Args: wire.Obj("action", "call_tool", "tool_name", b.Get("name"), "tool_args", wire.Respell(b.Get("input")))}
		p.calls[part.CallID] = part
		return part, nil
	case "mcp_tool_result":
		dump := shapes().Dump(b, "BetaMCPToolResultBlock", wire.Dump{})
		tool := "mcp_server"
		if call := p.calls[wire.TextOf(b, "tool_use_id")]; call != nil {
			tool = call.Tool
		}
		return &wire.Part{Kind: wire.NativeReturn, Tool: tool, Value: wire.Obj("content", dump.Get("content"), "is_error", dump.Get("is_error")),
			CallID: wire.TextOf(b, "tool_use_id"), Provider: provider, AtUS: p.o.AtUS}, nil
	case "compaction":
		part := &wire.Part{Kind: wire.Compaction, Value: wire.Present(b, "content"), Provider: provider}
		if e := wire.Present(b, "encrypted_content"); e != nil {
			part.Details = wire.Obj("encrypted_content", e)
		}
		return part, nil
	}
	result, ok := resultBlocks[kind]
	if !ok {
		return nil, wire.Fail(wire.Kind, path+"/type", kind)
	}
	part := &wire.Part{Kind: wire.NativeReturn, Tool: result.tool, CallID: wire.TextOf(b, "tool_use_id"), Provider: provider, AtUS: p.o.AtUS}
	switch kind {
	case "tool_search_tool_result":
		part.ToolKind = "tool-search"
		content := b.Get("content")
		found := pyjson.NewArray()
		if wire.TextOf(content, "type") == "tool_search_tool_search_result" {
			for _, ref := range wire.Items(content, "tool_references") {
				found.Items = append(found.Items, wire.Obj("name", ref.Get("tool_name")))
			}
		} else {
			part.Details = wire.Obj("error_code", content.Get("error_code"), "error_message", wire.OptStr(wire.PtrOf(content, "error_message")))
		}
		part.Value = wire.Obj("discovered_tools", found)
		return part, nil
	case "web_search_tool_result", "web_fetch_tool_result":
		part.Details = emptyIsNull(callerDetails(pyjson.NewObject(), b))
	}
	part.Value = shapes().Dump(b, result.shape, wire.Dump{}).Get("content")
	if result.codeTool != "" {
		part.Details = wire.Obj("anthropic_tool_name", result.codeTool)
	}
	return part, nil
}

func (p *parser) serverCall(b *pyjson.Value) (*wire.Part, error) {
	name := wire.TextOf(b, "name")
	args := wire.Respell(b.Get("input"))
	if len(args.Members) == 0 {
		args = nil
	}
	details := pyjson.NewObject()
	part := &wire.Part{Kind: wire.NativeCall, CallID: wire.TextOf(b, "id"), Provider: &p.o.Provider, Args: args}
	switch name {
	case "web_search", "web_fetch", "code_execution", "advisor":
		part.Tool = name
		part.Details = emptyIsNull(callerDetails(details, b))
	case "bash_code_execution", "text_editor_code_execution":
		part.Tool = "code_execution"
		part.Details = callerDetails(details.With("anthropic_tool_name", pyjson.NewString(name)), b)
	case "tool_search_tool_regex", "tool_search_tool_bm25":
		strategy := "bm25"
		if name == "tool_search_tool_regex" {
			strategy = "regex"
		}
		part.Tool, part.ToolKind = "tool_search", "tool-search"
		part.Args = searchArgs(args, strategy)
		part.Details = callerDetails(details.With("strategy", pyjson.NewString(strategy)), b)
	}
	return part, nil
}

// searchArgs is _normalize_tool_search_args.
func searchArgs(args *pyjson.Value, strategy string) *pyjson.Value {
	key := map[string]string{"regex": "pattern", "bm25": "query"}[strategy]
	raw := args.Get(key)
	if raw == nil {
		raw = pyjson.NewString("")
	}
	queries := pyjson.NewArray()
	if raw.Is(pyjson.String) {
		queries.Items = append(queries.Items, raw)
	}
	return wire.Obj("queries", queries)
}

var tokenKeys = []string{"input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"}

// usage is _map_usage: of a message (whole), or of a message_delta on top of what was there.
func (p *parser) usage(existing wire.Usage, use *pyjson.Value, whole bool, path string) (wire.Usage, error) {
	var u wire.Usage
	u.Details = append(u.Details, existing.Details...)
	var err error
	num := func(v *pyjson.Value, at string) int64 {
		if v == nil || v.Kind == pyjson.Null {
			return 0
		}
		n, ok := v.Int()
		if (!ok || n < 0) && err == nil {
			err = wire.Fail(wire.Counters, path+at, "not from 0 to 2^63-1")
		}
		return n
	}
	for _, key := range tokenKeys {
		if v := wire.Present(use, key); v != nil {
			u.SetDetail(key, num(v, "/"+key))
		}
	}
	if whole && !p.o.Old() {
		if n := num(use.Get("cache_creation").Get("ephemeral_1h_input_tokens"), "/cache_creation"); n != 0 {
			u.SetDetail("ephemeral_1h_input_tokens", n)
		}
	}
	if n := num(use.Get("output_tokens_details").Get("thinking_tokens"), "/output_tokens_details"); n != 0 {
		u.SetDetail("thinking_tokens", n)
	}
	if n := num(use.Get("server_tool_use").Get("web_search_requests"), "/server_tool_use"); n != 0 && !p.o.Old() {
		u.SetDetail("web_search_requests", n)
	}
	iterations := wire.Items(use, "iterations")
	var compaction, advisor []*pyjson.Value
	for _, it := range iterations {
		switch wire.TextOf(it, "type") {
		case "compaction":
			compaction = append(compaction, it)
		case "advisor_message":
			advisor = append(advisor, it)
		}
	}
	if len(compaction)+len(advisor) > 0 {
		u.SetDetail("message_iterations", int64(len(iterations)-len(compaction)-len(advisor)))
	}
	sum := func(prefix string, list []*pyjson.Value) {
		if len(list) == 0 {
			return
		}
		u.SetDetail(prefix+"_iterations", int64(len(list)))
		for _, key := range tokenKeys {
			var total wire.Usage
			for _, it := range list {
				if e := total.Add(wire.Usage{Counters: []wire.Counter{{Name: key, N: num(it.Get(key), "/iterations")}}}); e != nil && err == nil {
					err = e
				}
			}
			if n := total.Get(key); n != 0 {
				u.SetDetail(prefix+"_"+key, n)
			}
		}
	}
	sum("compaction", compaction)
	if len(compaction) > 0 {
		total := int64(0)
		for _, it := range compaction {
			total += num(it.Get("cache_creation").Get("ephemeral_1h_input_tokens"), "/iterations")
		}
		if total != 0 && !p.o.Old() {
			u.SetDetail("compaction_ephemeral_1h_input_tokens", total)
		}
	}
	sum("advisor", advisor)
	if err != nil {
		return u, err
	}
	if n, ok := u.Detail("ephemeral_1h_input_tokens"); ok {
		written, _ := u.Detail("cache_creation_input_tokens")
		if n = min(n, written); n != 0 {
			u.SetDetail("ephemeral_1h_input_tokens", n)
		} else {
			u.RemoveDetail("ephemeral_1h_input_tokens")
		}
	}
	flat := pyjson.NewObject()
	for _, d := range u.Details {
		flat = flat.With(d.Name, pyjson.NewInt(d.N))
	}
	for _, key := range tokenKeys {
		if n, _ := u.Detail("compaction_" + key); n != 0 {
			now, _ := u.Detail(key)
			flat = flat.With(key, pyjson.NewInt(now+n))
		}
	}
	if n, _ := u.Detail("web_search_requests"); n != 0 {
		flat = flat.With("server_tool_use", wire.Obj("web_search_requests", pyjson.NewInt(n)))
	}
	hour, _ := u.Detail("ephemeral_1h_input_tokens")
	more, _ := u.Detail("compaction_ephemeral_1h_input_tokens")
	if hour+more != 0 {
		flat = flat.With("cache_creation", wire.Obj("ephemeral_1h_input_tokens", pyjson.NewInt(hour+more)))
	}
	if u.Counters, err = wire.Extract(p.o, "anthropic", "default", wire.Obj("usage", flat)); err != nil {
		return u, err
	}
	if n, _ := u.Detail("thinking_tokens"); n != 0 && p.o.Version == pydanticai.V2580 {
		u.Set("output_reasoning_tokens", n)
	}
	return u, nil
}
