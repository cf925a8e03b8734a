// Package pydanticai knows the JSON that Pydantic AI 2.55.0 and 2.58.0 write for message histories, usage, limits and tool
// definitions (ModelMessagesTypeAdapter, TypeAdapter of RunUsage, UsageLimits, ToolDefinition). It checks that a text would
// come out of that SDK as it went in, adds usage as the SDK adds it, and builds the messages that a continuation appends. The
// SDK itself is the judge: testdata/make.py asks it, and docs/decisions has what it writes by version.
//
// The package is pure and part of the sandbox's guest.
package pydanticai

import (
	"github.com/forge-continuity/forge/adapters/pyjson"
)

// Version is a release of Pydantic AI whose format is known here.
type Version string

// The known releases.
const (
	V2550 Version = "2.55.0"
	V2580 Version = "2.58.0"
)

// Known reports whether the format of v is known.
func (v Version) Known() bool { return v == V2550 || v == V2580 }

// Kinds of problem.
const (
	UnknownMember = "unknown_member" // the SDK would drop it
	UnknownKind   = "unknown_kind"   // of a message, a part, a content item or a tool
	Lost          = "lost"           // missing, of another type or spelled otherwise: the SDK would refuse or change it
)

// A Problem is one place in a text that would not survive decode and encode in the SDK.
type Problem struct {
	Kind string // of the constants above, or a Counter constant
	Path string // JSON Pointer from the checked value's own path
}

// maxProblems bounds the list; a text with so many is not read further.
const maxProblems = 64

// CheckHistory returns where a message history of this version would not survive decode and encode in the SDK. Usage counters
// inside are checked for form only; see CheckUsage.
func CheckHistory(v Version, history *pyjson.Value, path string) []Problem {
	c := checker{version: v}
	c.list(history, path, checkMessage)
	return c.problems
}

// CheckLimits does the same for UsageLimits.
func CheckLimits(v Version, limits *pyjson.Value, path string) []Problem {
	c := checker{version: v}
	c.object(limits, path, limitFields)
	return c.problems
}

// CheckTool does the same for one ToolDefinition.
func CheckTool(v Version, tool *pyjson.Value, path string) []Problem {
	c := checker{version: v}
	c.object(tool, path, toolFields)
	return c.problems
}

type checker struct {
	version  Version
	problems []Problem
}

func (c *checker) add(kind, path string) {
	if len(c.problems) < maxProblems {
		c.problems = append(c.problems, Problem{kind, path})
	}
}

// A check looks at one value and adds its problems.
type check func(c *checker, v *pyjson.Value, path string)

// A field is a declared member of an SDK class. Every one is always written, defaults too.
type field struct {
	name  string
	check check
	since Version // "" means both
}

func (c *checker) has(f field) bool { return f.since == "" || f.since == c.version }

// object wants exactly the fields of this version.
func (c *checker) object(v *pyjson.Value, path string, fields []field) {
	if !v.Is(pyjson.Object) {
		c.add(Lost, path)
		return
	}
	for _, f := range fields {
		if !c.has(f) {
			continue
		}
		at := path + "/" + f.name // the formats' own names need no escape
		if m := v.Get(f.name); m == nil {
			c.add(Lost, at)
		} else {
			f.check(c, m, at)
		}
	}
	for _, m := range v.Members {
		if !c.declares(fields, m.Name) {
			c.add(UnknownMember, path+pyjson.Pointer(m.Name))
		}
	}
}

func (c *checker) declares(fields []field, name string) bool {
	for _, f := range fields {
		if f.name == name {
			return c.has(f)
		}
	}
	return false
}

func (c *checker) list(v *pyjson.Value, path string, each check) {
	if !v.Is(pyjson.Array) {
		c.add(Lost, path)
		return
	}
	for i, item := range v.Items {
		each(c, item, path+pyjson.Pointer(itoa(i)))
	}
}

// A variant is one kind of message, part or content item.
type variant struct {
	kind   string
	fields []field
}

// oneOf picks the fields by the member called tag.
func (c *checker) oneOf(v *pyjson.Value, path, tag string, variants []variant) {
	kind, ok := v.Get(tag).Str()
	if !ok {
		c.add(UnknownKind, path+pyjson.Pointer(tag))
		return
	}
	for _, x := range variants {
		if x.kind == kind {
			c.object(v, path, x.fields)
			return
		}
	}
	c.add(UnknownKind, path+pyjson.Pointer(tag))
}

func checkMessage(c *checker, v *pyjson.Value, path string) {
	c.oneOf(v, path, "kind", []variant{{"request", requestFields}, {"response", responseFields}})
}

func fixed(text string) check {
	return func(c *checker, v *pyjson.Value, path string) {
		if s, ok := v.Str(); !ok || s != text {
			c.add(Lost, path)
		}
	}
}

func enum(texts ...string) check {
	return func(c *checker, v *pyjson.Value, path string) {
		s, ok := v.Str()
		for _, t := range texts {
			if ok && s == t {
				return
			}
		}
		c.add(Lost, path)
	}
}

func orNull(ch check) check {
	return func(c *checker, v *pyjson.Value, path string) {
		if !v.Is(pyjson.Null) {
			ch(c, v, path)
		}
	}
}

func listOf(ch check) check {
	return func(c *checker, v *pyjson.Value, path string) { c.list(v, path, ch) }
}

func ofKind(k pyjson.Kind) check {
	return func(c *checker, v *pyjson.Value, path string) {
		if !v.Is(k) {
			c.add(Lost, path)
		}
	}
}

var (
	str     = ofKind(pyjson.String)
	boolean = ofKind(pyjson.Bool)
	object  = ofKind(pyjson.Object)
)

func anything(*checker, *pyjson.Value, string) {}

func integer(c *checker, v *pyjson.Value, path string) {
	if !v.IsInteger() {
		c.add(Lost, path)
	}
}

// float wants a number that stays a float: the SDK writes 1 back as 1.0.
func float(c *checker, v *pyjson.Value, path string) {
	if !v.Is(pyjson.Number) || v.IsInteger() {
		c.add(Lost, path)
	}
}

func instant(c *checker, v *pyjson.Value, path string) {
	if s, ok := v.Str(); !ok || !isInstant(s) {
		c.add(Lost, path)
	}
}

// decimal wants a decimal number in a string, as str(Decimal) writes it.
func decimal(c *checker, v *pyjson.Value, path string) {
	if s, ok := v.Str(); !ok || !isDecimal(s) {
		c.add(Lost, path)
	}
}

// duration wants an ISO 8601 duration; which of its spellings pydantic writes is not checked further.
func duration(c *checker, v *pyjson.Value, path string) {
	s, ok := v.Str()
	if !ok || len(s) < 3 || s[0] != 'P' && s[:2] != "-P" {
		c.add(Lost, path)
	}
}

func base64Text(c *checker, v *pyjson.Value, path string) {
	if s, ok := v.Str(); !ok || !isURLBase64(s) {
		c.add(Lost, path)
	}
}

func forceDownload(c *checker, v *pyjson.Value, path string) {
	if !v.Is(pyjson.Bool) {
		fixed("allow-local")(c, v, path)
	}
}

var requestFields = []field{
	{name: "parts", check: listOf(checkRequestPart)},
	{name: "timestamp", check: orNull(instant)},
	{name: "instructions", check: orNull(str)},
	{name: "kind", check: fixed("request")},
	{name: "run_id", check: orNull(str)},
	{name: "conversation_id", check: orNull(str)},
	{name: "metadata", check: orNull(object)},
	{name: "state", check: enum("complete", "interrupted")},
}

var responseFields = []field{
	{name: "parts", check: listOf(checkResponsePart)},
	{name: "usage", check: checkRequestUsage},
	{name: "model_name", check: orNull(str)},
	{name: "timestamp", check: instant},
	{name: "kind", check: fixed("response")},
	{name: "provider_name", check: orNull(str)},
	{name: "provider_url", check: orNull(str)},
	{name: "provider_details", check: orNull(object)},
	{name: "provider_response_id", check: orNull(str)},
	{name: "finish_reason", check: orNull(enum("stop", "length", "content_filter", "tool_call", "error"))},
	{name: "run_id", check: orNull(str)},
	{name: "conversation_id", check: orNull(str)},
	{name: "metadata", check: orNull(object)},
	{name: "workspace_ref", check: orNull(func(c *checker, v *pyjson.Value, path string) { c.object(v, path, workspaceFields) })},
	{name: "history_digest", check: orNull(str), since: V2580},
	{name: "failed_attempts", check: orNull(listOf(func(c *checker, v *pyjson.Value, path string) { c.object(v, path, attemptFields) }))},
	{name: "state", check: enum("complete", "incomplete", "suspended", "interrupted")},
}

var workspaceFields = []field{{name: "provider", check: str}, {name: "id", check: str}}

var attemptFields = []field{
	{name: "model_name", check: str},
	{name: "provider_name", check: orNull(str)},
	{name: "outcome", check: enum("error", "rejected")},
	{name: "error", check: orNull(str)},
	{name: "timestamp", check: instant},
	{name: "duration", check: duration},
	{name: "usage", check: orNull(checkRequestUsage)},
}

// provenance are the members that most response parts end with.
var provenance = []field{
	{name: "id", check: orNull(str)},
	{name: "provider_name", check: orNull(str)},
	{name: "provider_details", check: orNull(object)},
}

func with(fields []field, more ...field) []field {
	return append(append([]field{}, fields...), more...)
}

func callFields(kind check) []field {
	return []field{
		{name: "tool_name", check: str},
		{name: "args", check: callArgs},
		{name: "tool_call_id", check: str},
		{name: "tool_kind", check: kind},
	}
}

func returnFields(kind check) []field {
	return []field{
		{name: "tool_name", check: str},
		{name: "content", check: returnContent},
		{name: "tool_call_id", check: str},
		{name: "tool_kind", check: kind},
		{name: "metadata", check: anything},
		{name: "timestamp", check: instant},
		{name: "outcome", check: enum("success", "failed", "denied", "interrupted")},
	}
}

var requestParts = []variant{
	{"system-prompt", []field{
		{name: "content", check: str},
		{name: "timestamp", check: instant},
		{name: "dynamic_ref", check: orNull(str)},
		{name: "scope", check: enum("conversation", "request"), since: V2580},
		{name: "metadata", check: orNull(object), since: V2580},
		{name: "part_kind", check: anything},
	}},
	{"user-prompt", []field{
		{name: "content", check: userContent},
		{name: "timestamp", check: instant},
		{name: "part_kind", check: anything},
	}},
	{"tool-return", with(returnFields(toolKind), field{name: "part_kind", check: anything})},
	{"retry-prompt", []field{
		{name: "content", check: retryContent},
		{name: "tool_name", check: orNull(str)},
		{name: "tool_call_id", check: str},
		{name: "timestamp", check: instant},
		{name: "part_kind", check: anything},
	}},
	{"tool-availability-delta", []field{
		{name: "tools_added", check: listOf(str)},
		{name: "tool_call_id", check: orNull(str)},
		{name: "part_kind", check: anything},
	}},
	{"speech", speechFields("user")},
}

var responseParts = []variant{
	{"text", with(provenance, field{name: "content", check: str}, field{name: "part_kind", check: anything})},
	{"thinking", with(provenance, field{name: "content", check: str}, field{name: "signature", check: orNull(str)}, field{name: "part_kind", check: anything})},
	{"tool-call", with(callFields(toolKind), with(provenance, field{name: "part_kind", check: anything})...)},
	{"builtin-tool-call", with(callFields(builtinKind), with(provenance, field{name: "part_kind", check: anything})...)},
	{"builtin-tool-return", with(returnFields(builtinKind), field{name: "provider_name", check: orNull(str)}, field{name: "provider_details", check: orNull(object)}, field{name: "part_kind", check: anything})},
	{"file", with(provenance, field{name: "content", check: binary}, field{name: "part_kind", check: anything})},
	{"compaction", with(provenance, field{name: "content", check: orNull(str)}, field{name: "part_kind", check: anything})},
	{"speech", speechFields("assistant")},
}

func speechFields(speaker string) []field {
	return with(provenance,
		field{name: "speaker", check: fixed(speaker)},
		field{name: "transcript", check: orNull(str)},
		field{name: "audio", check: orNull(binary)},
		field{name: "interrupted_at_ms", check: orNull(integer)},
		field{name: "part_kind", check: anything})
}

func checkRequestPart(c *checker, v *pyjson.Value, path string) {
	c.oneOf(v, path, "part_kind", requestParts)
	c.typedPart(v, path)
}

func checkResponsePart(c *checker, v *pyjson.Value, path string) {
	c.oneOf(v, path, "part_kind", responseParts)
	c.typedPart(v, path)
}

func toolKind(c *checker, v *pyjson.Value, path string) {
	if v.Is(pyjson.Null) {
		return
	}
	if s, ok := v.Str(); !ok || s != "tool-search" && s != "capability-load" {
		c.add(UnknownKind, path)
	}
}

// builtinKind is toolKind for what the provider runs itself, which has one typed kind only.
func builtinKind(c *checker, v *pyjson.Value, path string) {
	if s, _ := v.Str(); s == "capability-load" {
		c.add(UnknownKind, path)
		return
	}
	toolKind(c, v, path)
}

// typedPart checks what a tool_kind narrows: a fixed tool name, and the payload's members.
func (c *checker) typedPart(v *pyjson.Value, path string) {
	kind, ok := v.Get("tool_kind").Str()
	if !ok {
		return
	}
	part, _ := v.Get("part_kind").Str()
	t, ok := typedParts[[2]string{part, kind}]
	if !ok {
		return // toolKind has said so
	}
	fixed(t.name)(c, v.Get("tool_name"), path+"/tool_name")
	payload, at := v.Get("content"), path+"/content"
	if t.call {
		if payload, at = v.Get("args"), path+"/args"; payload.Is(pyjson.Null) || payload.Is(pyjson.String) {
			return
		}
	}
	c.object(fill(payload, t.optional), at, t.payload)
}

type typedPart struct {
	name     string
	call     bool
	payload  []field
	optional string // a member of the payload that may be absent
}

var (
	searchArgs   = []field{{name: "queries", check: listOf(str)}}
	searchResult = []field{
		{name: "discovered_tools", check: listOf(func(c *checker, v *pyjson.Value, path string) {
			c.object(v, path, []field{{name: "name", check: str}})
		})},
		{name: "message", check: str},
	}
	typedParts = map[[2]string]typedPart{
		{"tool-call", "tool-search"}:           {"search_tools", true, searchArgs, ""},
		{"tool-return", "tool-search"}:         {"search_tools", false, searchResult, "message"},
		{"builtin-tool-call", "tool-search"}:   {"tool_search", true, searchArgs, ""},
		{"builtin-tool-return", "tool-search"}: {"tool_search", false, searchResult, "message"},
		{"tool-call", "capability-load"}:       {"load_capability", true, []field{{name: "id", check: str}}, ""},
		{"tool-return", "capability-load"}:     {"load_capability", false, []field{{name: "instructions", check: str}}, "instructions"},
	}
)

// fill gives an absent optional member a value that passes as a string.
func fill(v *pyjson.Value, optional string) *pyjson.Value {
	if optional == "" || !v.Is(pyjson.Object) || v.Get(optional) != nil {
		return v
	}
	return v.With(optional, pyjson.NewString(""))
}

func callArgs(c *checker, v *pyjson.Value, path string) {
	switch v.Kind {
	case pyjson.String, pyjson.Object, pyjson.Null:
	default:
		c.add(Lost, path)
	}
}

func retryContent(c *checker, v *pyjson.Value, path string) {
	if v.Is(pyjson.String) {
		return
	}
	c.list(v, path, func(c *checker, v *pyjson.Value, path string) {
		if v.Is(pyjson.Object) && v.Get("ctx") == nil {
			v = v.With("ctx", pyjson.NewObject())
		}
		c.object(fill(v, "url"), path, []field{
			{name: "type", check: str},
			{name: "loc", check: listOf(func(c *checker, v *pyjson.Value, path string) {
				if !v.Is(pyjson.String) && !v.IsInteger() {
					c.add(Lost, path)
				}
			})},
			{name: "msg", check: str},
			{name: "input", check: anything},
			{name: "ctx", check: object},
			{name: "url", check: str},
		})
	})
}

// urlFields are those of the four kinds of URL. media_type and identifier are computed by the SDK and read back.
var urlFields = []field{
	{name: "url", check: str},
	{name: "force_download", check: forceDownload},
	{name: "vendor_metadata", check: orNull(object)},
	{name: "kind", check: anything},
	{name: "media_type", check: nonEmpty},
	{name: "identifier", check: nonEmpty},
}

var fileItems = []variant{
	{"image-url", urlFields},
	{"audio-url", urlFields},
	{"video-url", urlFields},
	{"document-url", urlFields},
	{"binary", []field{
		{name: "data", check: base64Text},
		{name: "media_type", check: nonEmpty},
		{name: "vendor_metadata", check: orNull(object)},
		{name: "kind", check: fixed("binary")},
		{name: "identifier", check: nonEmpty},
	}},
	{"uploaded-file", []field{
		{name: "file_id", check: str},
		{name: "provider_name", check: enum("anthropic", "openai", "google", "google-cloud", "google-gla", "google-vertex", "bedrock", "xai")},
		{name: "vendor_metadata", check: orNull(object)},
		{name: "kind", check: anything},
		{name: "media_type", check: nonEmpty},
		{name: "identifier", check: nonEmpty},
	}},
}

var userItems = append([]variant{
	{"text-content", []field{
		{name: "content", check: str},
		{name: "metadata", check: anything},
		{name: "kind", check: anything},
	}},
	{"cache-point", []field{
		{name: "kind", check: anything},
		{name: "ttl", check: enum("5m", "1h")},
	}},
}, fileItems...)

func nonEmpty(c *checker, v *pyjson.Value, path string) {
	if s, ok := v.Str(); !ok || s == "" {
		c.add(Lost, path)
	}
}

func binary(c *checker, v *pyjson.Value, path string) {
	c.oneOf(v, path, "kind", []variant{fileItems[4]})
}

func userContent(c *checker, v *pyjson.Value, path string) {
	if v.Is(pyjson.String) {
		return
	}
	c.list(v, path, func(c *checker, v *pyjson.Value, path string) {
		if !v.Is(pyjson.String) {
			c.oneOf(v, path, "kind", userItems)
		}
	})
}

// returnContent is any JSON, but an object that says it is a file must be one completely: the SDK would make it one, dropping
// and adding members. A problem has the path of the content as a whole, since names inside are content too.
func returnContent(c *checker, v *pyjson.Value, path string) {
	inside := checker{version: c.version}
	inside.file(v)
	if len(inside.problems) > 0 {
		c.add(Lost, path)
	}
}

func (c *checker) file(v *pyjson.Value) {
	if kind, ok := v.Get("kind").Str(); ok {
		for _, x := range fileItems {
			if x.kind == kind {
				c.object(v, "", x.fields)
				return
			}
		}
	}
	for _, item := range v.Items {
		c.file(item)
	}
	for _, m := range v.Members {
		c.file(m.Value)
	}
}

var limitFields = []field{
	{name: "cost_limit", check: orNull(decimal)},
	{name: "request_limit", check: orNull(integer)},
	{name: "tool_calls_limit", check: orNull(integer)},
	{name: "input_tokens_limit", check: orNull(integer)},
	{name: "output_tokens_limit", check: orNull(integer)},
	{name: "total_tokens_limit", check: orNull(integer)},
	{name: "per_request_input_tokens_limit", check: orNull(integer)},
	{name: "count_tokens_before_request", check: boolean},
}

var toolFields = []field{
	{name: "name", check: str},
	{name: "parameters_json_schema", check: object},
	{name: "description", check: orNull(str)},
	{name: "outer_typed_dict_key", check: orNull(str)},
	{name: "strict", check: orNull(boolean)},
	{name: "sequential", check: boolean},
	{name: "kind", check: enum("function", "output", "external", "unapproved")},
	{name: "metadata", check: orNull(object)},
	{name: "timeout", check: orNull(float)},
	{name: "defer_loading", check: boolean},
	{name: "unless_native", check: orNull(str)},
	{name: "with_native", check: orNull(str)},
	{name: "tool_kind", check: toolKind},
	{name: "return_schema", check: orNull(object)},
	{name: "include_return_schema", check: orNull(boolean)},
	{name: "toolset_id", check: orNull(str)},
	{name: "capability_id", check: orNull(str)},
}
