package pydanticai

import "github.com/forge-continuity/forge/adapters/pyjson"

// Str returns a string, or null for "".
func Str(s string) *pyjson.Value {
	if s == "" {
		return pyjson.NewNull()
	}
	return pyjson.NewString(s)
}

func kind(name, value string) pyjson.Member {
	return pyjson.Member{Name: name, Value: pyjson.NewString(value)}
}

func m(name string, v *pyjson.Value) pyjson.Member { return pyjson.Member{Name: name, Value: v} }

// TextPart returns a text part of a response without provenance.
func TextPart(content string) *pyjson.Value {
	return pyjson.NewObject(m("content", pyjson.NewString(content)), m("id", pyjson.NewNull()),
		m("provider_name", pyjson.NewNull()), m("provider_details", pyjson.NewNull()), kind("part_kind", "text"))
}

// ThinkingPart returns a thinking part; id tells which member or tag of the response it came from.
func ThinkingPart(content, id, provider string) *pyjson.Value {
	return pyjson.NewObject(m("content", pyjson.NewString(content)), m("id", Str(id)), m("signature", pyjson.NewNull()),
		m("provider_name", Str(provider)), m("provider_details", pyjson.NewNull()), kind("part_kind", "thinking"))
}

// ToolCallPart returns a call; args is the text as received.
func ToolCallPart(tool, args, id string) *pyjson.Value {
	return pyjson.NewObject(kind("tool_name", tool), kind("args", args), kind("tool_call_id", id),
		m("tool_kind", pyjson.NewNull()), m("id", pyjson.NewNull()), m("provider_name", pyjson.NewNull()),
		m("provider_details", pyjson.NewNull()), kind("part_kind", "tool-call"))
}

// ToolReturnPart returns the result of a call at an instant (microseconds since 1970). outcome is "success" for the SDK's
// ordinary value.
func ToolReturnPart(tool, id string, content *pyjson.Value, outcome string, atUS int64) *pyjson.Value {
	return pyjson.NewObject(kind("tool_name", tool), m("content", content), kind("tool_call_id", id),
		m("tool_kind", pyjson.NewNull()), m("metadata", pyjson.NewNull()), kind("timestamp", FormatInstant(atUS)),
		kind("outcome", outcome), kind("part_kind", "tool-return"))
}

// Response is what a response message is made of; the rest has the SDK's defaults.
type Response struct {
	Parts           []*pyjson.Value
	Usage           *pyjson.Value
	ModelName       string
	AtUS            int64 // microseconds since 1970
	ProviderName    string
	ProviderURL     string
	ProviderDetails *pyjson.Value // object, or nil
	ResponseID      string        // "" is null
	FinishReason    string        // "" is null
	RunID           *pyjson.Value
	ConversationID  *pyjson.Value
}

// NewResponse returns the response message with exactly the fields that this version writes.
func NewResponse(v Version, r Response) *pyjson.Value {
	details := r.ProviderDetails
	if details == nil {
		details = pyjson.NewNull()
	}
	members := []pyjson.Member{
		m("parts", pyjson.NewArray(r.Parts...)), m("usage", r.Usage), m("model_name", Str(r.ModelName)),
		kind("timestamp", FormatInstant(r.AtUS)), kind("kind", "response"), m("provider_name", Str(r.ProviderName)),
		m("provider_url", Str(r.ProviderURL)), m("provider_details", details), m("provider_response_id", Str(r.ResponseID)),
		m("finish_reason", Str(r.FinishReason)), m("run_id", r.RunID), m("conversation_id", r.ConversationID),
		m("metadata", pyjson.NewNull()), m("workspace_ref", pyjson.NewNull()),
	}
	if v == V2580 {
		members = append(members, m("history_digest", pyjson.NewNull()))
	}
	members = append(members, m("failed_attempts", pyjson.NewNull()), kind("state", "complete"))
	return pyjson.NewObject(members...)
}

// NewRequest returns a request message that carries these parts.
func NewRequest(parts []*pyjson.Value, atUS int64, instructions, runID, conversationID *pyjson.Value) *pyjson.Value {
	return pyjson.NewObject(m("parts", pyjson.NewArray(parts...)), kind("timestamp", FormatInstant(atUS)),
		m("instructions", instructions), kind("kind", "request"), m("run_id", runID), m("conversation_id", conversationID),
		m("metadata", pyjson.NewNull()), kind("state", "complete"))
}

// NewRequestUsage returns the usage of one response: declared counters of the version default to 0, extra ones are written
// where the extraction found them. details may be nil.
func NewRequestUsage(v Version, counters []pyjson.Member, details *pyjson.Value) *pyjson.Value {
	u := pyjson.NewObject()
	for _, name := range declaredCounters(v) {
		u.Members = append(u.Members, m(name, pyjson.NewInt(0)))
	}
	if details == nil {
		details = pyjson.NewObject()
	}
	u.Members = append(u.Members, m("audio_seconds", pyjson.NewNumber("0.0")), m("details", details), m("cost", pyjson.NewNull()))
	for _, c := range counters {
		u = u.With(c.Name, c.Value)
	}
	return u
}

// A Call is a tool call of a response in a history, of the kind that the application runs.
type Call struct {
	Message int // index in the history
	Part    int // index in its parts
	Tool    string
	ID      string
	Args    *pyjson.Value // string, object or null
}

// Calls returns the tool calls of one message in order; a request has none.
func Calls(message *pyjson.Value, index int) []Call {
	var calls []Call
	if kind, _ := message.Get("kind").Str(); kind != "response" || message.Get("parts") == nil {
		return nil
	}
	for i, part := range message.Get("parts").Items {
		if kind, _ := part.Get("part_kind").Str(); kind == "tool-call" {
			tool, _ := part.Get("tool_name").Str()
			id, _ := part.Get("tool_call_id").Str()
			calls = append(calls, Call{index, i, tool, id, part.Get("args")})
		}
	}
	return calls
}

// IsRequest and IsResponse tell the two kinds of message apart.
func IsRequest(message *pyjson.Value) bool {
	k, _ := message.Get("kind").Str()
	return k == "request"
}

// IsResponse reports whether the message is a response.
func IsResponse(message *pyjson.Value) bool {
	k, _ := message.Get("kind").Str()
	return k == "response"
}
