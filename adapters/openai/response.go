// Package openai reads and writes OpenAI chat completions, not streamed, as Pydantic AI 2.55.0 and 2.58.0 do with the OpenAI
// client: raw response bytes to the parts, usage and details of a response message (OpenAIChatModel._process_response), and a
// history to the bytes of the next request (_map_messages, _map_tool_definition). The SDK is the judge: testdata/make.py asks
// it. The package is pure and part of the sandbox's guest.
package openai

import (
	"errors"
	"slices"
	"strings"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
)

// ProviderName is how the SDK names the provider in what it writes.
const ProviderName = "openai"

// Limits of a response body. 16 MiB is what the sandbox takes in.
var bodyLimits = pyjson.Limits{Bytes: 16 << 20, Depth: 64, Nodes: 1 << 18}

// Response is a consumed answer as the SDK parses it.
type Response struct {
	Parts           []*pyjson.Value
	Usage           *pyjson.Value
	ModelName       string
	ProviderDetails *pyjson.Value // nil for none
	ResponseID      string        // "" for none
	FinishReason    string        // the SDK's word
	Unsupported     []Unsupported // why the parts are not all that the answer says
}

// Unsupported is content that the parser would drop, or that continuity does not carry.
type Unsupported struct {
	Path string // JSON Pointer into the body
	Kind string // refusal, audio, annotations, function_call, custom_tool_call, unknown_tool_call, choice, moderation, logprobs, reasoning, call_without_id, member, provider_url
}

// ParseError says why the SDK would not take the body at all, or why this parser is not sure that it would. Reason is fixed
// text.
type ParseError struct {
	Path   string
	Reason string
}

func (e *ParseError) Error() string { return "chat completion " + e.Path + ": " + e.Reason }

// Parse reads a response body. It is stricter than the SDK: one JSON text without repeated members, and JSON types as the API
// documents them, without coercion. baseURL is the client's base URL; usage of providers that the SDK reads by other rules is
// unsupported. The error is a *ParseError.
func Parse(version pydanticai.Version, baseURL string, body []byte) (*Response, error) {
	root, err := pyjson.Parse(body, bodyLimits)
	if err != nil {
		var syntax *pyjson.SyntaxError
		if errors.As(err, &syntax) {
			return nil, &ParseError{"", syntax.Reason}
		}
		return nil, &ParseError{"", "over a limit of size or depth"}
	}
	p := parser{version: version}
	r := p.response(root)
	if p.err != nil {
		return nil, p.err
	}
	if otherUsageRules(baseURL) {
		p.unsupported("", "provider_url")
	}
	r.Unsupported = p.found
	return r, nil
}

type parser struct {
	version pydanticai.Version
	found   []Unsupported
	err     *ParseError
}

func (p *parser) fail(path, reason string) {
	if p.err == nil {
		p.err = &ParseError{path, reason}
	}
}

func (p *parser) unsupported(path, kind string) {
	if len(p.found) < 64 {
		p.found = append(p.found, Unsupported{path, kind})
	}
}

// present returns the member unless it is absent or null.
func present(v *pyjson.Value, name string) *pyjson.Value {
	if m := v.Get(name); m != nil && m.Kind != pyjson.Null {
		return m
	}
	return nil
}

// text returns a string member; null and absent are "", unless it is required.
func (p *parser) text(v *pyjson.Value, path, name string, required bool) string {
	m := present(v, name)
	if m == nil {
		if required {
			p.fail(path+"/"+name, "string expected")
		}
		return ""
	}
	s, ok := m.Str()
	if !ok {
		p.fail(path+"/"+name, "string expected")
	}
	return s
}

// integer returns a required integer member.
func (p *parser) integer(v *pyjson.Value, path, name string) *pyjson.Value {
	m := v.Get(name)
	if !m.IsInteger() {
		p.fail(path+"/"+name, "integer expected")
		return pyjson.NewInt(0)
	}
	return m
}

// extensions are members with content that imitators of the API are known to add, so that a hold may name them.
var extensions = []string{"citations", "content_filter_results", "images", "prompt_filter_results", "search_results"}

// others names members that are not known and could carry content: not null, a number, a Boolean or empty. A name that a provider
// made up may be content itself: its place stands for it.
func (p *parser) others(v *pyjson.Value, path string, known ...string) {
next:
	for i, m := range v.Members {
		for _, k := range known {
			if m.Name == k {
				continue next
			}
		}
		switch x := m.Value; {
		case x.Kind == pyjson.String && x.Text != "", len(x.Items) > 0, len(x.Members) > 0:
			at := pyjson.Place(i)
			if slices.Contains(extensions, m.Name) {
				at = pyjson.Pointer(m.Name)
			}
			p.unsupported(path+at, "member")
		}
	}
}

func (p *parser) response(v *pyjson.Value) *Response {
	if !v.Is(pyjson.Object) {
		p.fail("", "object expected")
		return nil
	}
	p.others(v, "", "id", "object", "created", "model", "choices", "usage", "service_tier", "system_fingerprint", "metadata", "moderation")
	r := &Response{ResponseID: p.text(v, "", "id", true), ModelName: p.text(v, "", "model", true)}
	if r.ModelName == "" {
		p.fail("/model", "empty")
	}
	if p.text(v, "", "object", true) != "chat.completion" {
		p.fail("/object", "not a chat completion")
	}
	tier := p.text(v, "", "service_tier", false)
	p.text(v, "", "system_fingerprint", false)
	if present(v, "moderation") != nil {
		p.unsupported("/moderation", "moderation")
	}
	choices := v.Get("choices")
	if !choices.Is(pyjson.Array) || len(choices.Items) == 0 {
		p.fail("/choices", "choices expected")
		return nil
	}
	if len(choices.Items) > 1 {
		p.unsupported("/choices/1", "choice")
	}
	choice := choices.Items[0]
	if !choice.Is(pyjson.Object) {
		p.fail("/choices/0", "object expected")
		return nil
	}
	p.others(choice, "/choices/0", "index", "finish_reason", "message", "logprobs")
	p.integer(choice, "/choices/0", "index")
	raw := p.finishReason(choice, r)
	if logprobs := present(choice, "logprobs"); logprobs != nil {
		p.unsupported("/choices/0/logprobs", "logprobs")
	}
	refusal := p.message(choice.Get("message"), "/choices/0/message", r)
	p.usage(v, r)

	details := pyjson.NewObject()
	if raw != "" && refusal == "" {
		details = details.With("finish_reason", pyjson.NewString(raw))
	}
	if tier != "" {
		details = details.With("service_tier", pyjson.NewString(tier))
	}
	if refusal != "" {
		details = details.With("refusal", pyjson.NewString(refusal))
		r.Parts, r.FinishReason = nil, "content_filter"
	}
	if at, ok := p.created(v); ok {
		details = details.With("timestamp", pyjson.NewString(pydanticai.FormatInstant(at)))
	}
	if len(details.Members) > 0 {
		r.ProviderDetails = details
	}
	return r
}

// finishReason sets the SDK's word and returns the provider's, "" for none.
func (p *parser) finishReason(choice *pyjson.Value, r *Response) string {
	if present(choice, "finish_reason") == nil {
		r.FinishReason = "stop"
		return ""
	}
	raw := p.text(choice, "/choices/0", "finish_reason", true)
	switch raw {
	case "stop", "length", "content_filter":
		r.FinishReason = raw
	case "tool_calls", "function_call":
		r.FinishReason = "tool_call"
	default:
		p.fail("/choices/0/finish_reason", "unknown finish reason")
	}
	return raw
}

// created returns the provider's time in microseconds since 1970. As in pydantic, a number over 2e10 counts milliseconds.
func (p *parser) created(v *pyjson.Value) (int64, bool) {
	if present(v, "created") == nil {
		return 0, false
	}
	n, ok := v.Get("created").Int()
	const seconds = 20_000_000_000
	switch {
	case !ok || n < -seconds || n > 253402300799999:
		p.fail("/created", "time expected")
		return 0, false
	case n == 0:
		return 0, false
	case n > seconds:
		return n * 1000, true
	}
	return n * 1_000_000, true
}

// message appends the parts and returns the refusal.
func (p *parser) message(v *pyjson.Value, path string, r *Response) string {
	if !v.Is(pyjson.Object) {
		p.fail(path, "object expected")
		return ""
	}
	p.others(v, path, "role", "content", "refusal", "annotations", "audio", "function_call", "tool_calls", "reasoning", "reasoning_content")
	if p.text(v, path, "role", true) != "assistant" {
		p.fail(path+"/role", "not the assistant")
	}
	for _, name := range []string{"audio", "function_call"} {
		if present(v, name) != nil {
			p.unsupported(path+"/"+name, name)
		}
	}
	if a := present(v, "annotations"); a != nil {
		if !a.Is(pyjson.Array) {
			p.fail(path+"/annotations", "array expected")
		} else if len(a.Items) > 0 {
			p.unsupported(path+"/annotations", "annotations")
		}
	}
	p.thinking(v, path, r)
	r.Parts = append(r.Parts, splitThinking(p.text(v, path, "content", false))...)
	if calls := present(v, "tool_calls"); calls != nil {
		if !calls.Is(pyjson.Array) {
			p.fail(path+"/tool_calls", "array expected")
			return ""
		}
		for i, call := range calls.Items {
			p.call(call, path+"/tool_calls"+pyjson.Pointer(itoa(i)), r)
		}
	}
	refusal := p.text(v, path, "refusal", false)
	if refusal != "" {
		p.unsupported(path+"/refusal", "refusal")
	}
	return refusal
}

// thinking takes the first of the two members that reasoning may stand in; the SDK would drop the second, and what is no text.
func (p *parser) thinking(v *pyjson.Value, path string, r *Response) {
	taken := false
	for _, name := range []string{"reasoning", "reasoning_content"} {
		m := present(v, name)
		switch s, ok := m.Str(); {
		case m == nil || ok && s == "":
		case !ok || taken:
			p.unsupported(path+"/"+name, "reasoning")
		default:
			taken = true
			r.Parts = append(r.Parts, pydanticai.ThinkingPart(s, name, ProviderName))
		}
	}
}

// splitThinking makes parts of a content: text, and thinking between <think> and </think>.
func splitThinking(content string) []*pyjson.Value {
	var parts []*pyjson.Value
	for {
		before, rest, found := strings.Cut(content, "<think>")
		if !found {
			break
		}
		if before != "" {
			parts = append(parts, pydanticai.TextPart(before))
		}
		thought, after, closed := strings.Cut(rest, "</think>")
		if !closed {
			// As in the SDK: the tag is lost and what follows is text, even if it is empty.
			return append(parts, pydanticai.TextPart(rest))
		}
		parts = append(parts, pydanticai.ThinkingPart(thought, "content", ProviderName))
		content = after
	}
	if content != "" {
		parts = append(parts, pydanticai.TextPart(content))
	}
	return parts
}

func (p *parser) call(v *pyjson.Value, path string, r *Response) {
	if !v.Is(pyjson.Object) {
		p.fail(path, "object expected")
		return
	}
	switch kind := p.text(v, path, "type", true); kind {
	case "function":
	case "custom":
		p.unsupported(path, "custom_tool_call")
		return
	default:
		p.unsupported(path, "unknown_tool_call")
		return
	}
	p.others(v, path, "id", "type", "function")
	function := v.Get("function")
	if !function.Is(pyjson.Object) {
		p.fail(path+"/function", "object expected")
		return
	}
	p.others(function, path+"/function", "name", "arguments")
	id := p.text(v, path, "id", true)
	if id == "" {
		// The SDK would draw a random id.
		p.unsupported(path+"/id", "call_without_id")
	}
	name, args := p.text(function, path+"/function", "name", true), p.text(function, path+"/function", "arguments", true)
	r.Parts = append(r.Parts, pydanticai.ToolCallPart(name, args, id))
}
