// Package wire holds what the codecs of the model providers' wires share: strict reading of foreign JSON by declared shapes,
// server-sent events and the AWS event stream, the accumulation of streamed deltas as Pydantic AI's parts manager does it, and
// usage extraction by a pinned table of genai-prices. The codecs themselves are adapters/openai, anthropic, google and bedrock;
// fixtures/judge asks the real SDK whether they are right.
//
// Everything here is pure: no clock, no random number, no I/O. What the SDK draws or reads from a clock is an input (Options).
package wire

import (
	"errors"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
)

// Codes of Error. They are texts, so that a caller can pass them on.
const (
	Malformed   = "malformed"        // not strict JSON, events or frames
	OverLimit   = "over_limit"       // of bytes, depth or nodes
	Shape       = "unexpected_shape" // a member is missing or of another type than the provider documents
	Member      = "unknown_member"   // a member that this package does not know, and that carries content
	Kind        = "unknown_kind"     // of an item, block, event, or a value outside a closed list
	Truncated   = "truncated"        // a stream without its end
	Refused     = "sdk_refuses"      // the SDK raises on this answer
	Unsupported = "unsupported"      // known, and deliberately not done here
	Counters    = "counters"         // usage that cannot be counted exactly
	NeedsID     = "needs_id"         // the SDK would draw a random id, and Options give none
)

// Error says by code and place why an answer or a history is not taken. Reason is fixed text or a name of the format.
type Error struct {
	Code   string
	Path   string // JSON Pointer; in a stream the first step is the index of the event
	Reason string
}

func (e *Error) Error() string { return e.Code + " at " + e.Path + ": " + e.Reason }

// Fail returns an *Error.
func Fail(code, path, reason string) error { return &Error{code, path, reason} }

// Dropped is content that the SDK leaves out of the message, by place and name. It is never silent: a caller that speaks for
// the model must look at it.
type Dropped struct {
	Path string
	Name string
}

// V2330 is an SDK older than those that a checkpoint may come from. The codecs write its messages too, because the only large
// corpus of recorded exchanges was asserted with it; histories are not read from it.
const V2330 pydanticai.Version = "2.33.0"

// Old reports whether the version is V2330.
func (o Options) Old() bool { return o.Version == V2330 }

// Options is what the SDK has beside the answer itself.
type Options struct {
	Version  pydanticai.Version
	Provider string // the SDK's name for it, such as "openai" or "google-cloud"
	BaseURL  string // as provider_url has it; genai-prices looks at it
	Model    string // the model that was asked for
	Profile  Profile
	AtUS     int64 // local receipt, microseconds since 1970

	// NewID gives the ids that the SDK would draw, n counting from 0. nil refuses answers that need one.
	NewID func(n int) string

	Headers map[string]string // of the response, names in lower case; only those the SDK looks at
	Request Request           // of the request, what changes how the answer is read
}

// Request says what of the sent request changes how the SDK reads the answer.
type Request struct {
	NativeTools    []string          // kinds, such as "web_search" and "file_search"
	OutputTools    []string          // names
	ToolKinds      map[string]string // tool name to tool_kind, of function tools that have one
	RawAnnotations bool              // openai_include_raw_annotations
	RecordsHistory bool              // openai_previous_response_id is set: history_digest would be computed
}

// Native reports whether a native tool of this kind was sent.
func (r Request) Native(kinds ...string) bool {
	for _, have := range r.NativeTools {
		for _, want := range kinds {
			if have == want {
				return true
			}
		}
	}
	return false
}

// Response is an answer as the SDK parses it.
type Response struct {
	Parts           []*pyjson.Value
	Usage           Usage
	ModelName       string
	ProviderName    string
	ProviderURL     *string
	ProviderDetails *pyjson.Value // nil is null
	ResponseID      *string
	FinishReason    string // the SDK's word, "" is null
	State           string // "" is complete
	Dropped         []Dropped
}

// Message returns the response message with exactly the members that the version writes. runID and conversationID may be nil
// for null.
func (r *Response) Message(o Options, runID, conversationID *pyjson.Value) *pyjson.Value {
	null := func(v *pyjson.Value) *pyjson.Value {
		if v == nil {
			return pyjson.NewNull()
		}
		return v
	}
	m := pydanticai.NewResponse(o.Version, pydanticai.Response{
		Parts: r.Parts, Usage: r.Usage.Value(o.Version), ModelName: r.ModelName, AtUS: o.AtUS, ProviderName: r.ProviderName,
		ProviderDetails: r.ProviderDetails, FinishReason: r.FinishReason, RunID: null(runID), ConversationID: null(conversationID),
	})
	m = m.With("model_name", pyjson.NewString(r.ModelName)).With("provider_url", OptStr(r.ProviderURL)).With("provider_response_id", OptStr(r.ResponseID))
	if r.State != "" {
		m = m.With("state", pyjson.NewString(r.State))
	}
	if o.Old() {
		m = m.Without("workspace_ref").Without("failed_attempts").With("usage", m.Get("usage").Without("audio_seconds"))
	}
	return m
}

// OptStr returns a string, or null for nil.
func OptStr(s *string) *pyjson.Value {
	if s == nil {
		return pyjson.NewNull()
	}
	return pyjson.NewString(*s)
}

// Ptr returns a pointer to a copy of s.
func Ptr(s string) *string { return &s }

// Limits of one answer; 16 MiB is what the sandbox takes in.
var Limits = pyjson.Limits{Bytes: 16 << 20, Depth: 64, Nodes: 1 << 18}

// ParseJSON reads one strict JSON text; the error is an *Error with the path.
func ParseJSON(data []byte, path string) (*pyjson.Value, error) {
	v, err := pyjson.Parse(data, Limits)
	if err == nil {
		return v, nil
	}
	var limit *pyjson.LimitError
	if errors.As(err, &limit) {
		return nil, Fail(OverLimit, path, limit.Limit)
	}
	var syntax *pyjson.SyntaxError
	if errors.As(err, &syntax) {
		return nil, Fail(Malformed, path, syntax.Reason)
	}
	return nil, Fail(Malformed, path, "not JSON")
}

// IDs hands out the ids that the SDK would draw.
type IDs struct {
	next func(n int) string
	n    int
	err  error
}

// NewIDs starts a count for one answer.
func (o Options) NewIDs() *IDs { return &IDs{next: o.NewID} }

// New returns the next id; after the first failure Err is set.
func (g *IDs) New() string {
	if g.next == nil {
		if g.err == nil {
			g.err = Fail(NeedsID, "", "a tool call without an id")
		}
		return ""
	}
	g.n++
	return g.next(g.n - 1)
}

// Err is the refusal, if an id was needed and none can be had.
func (g *IDs) Err() error { return g.err }

// CountedID is a NewID for tests and comparisons: the SDK's prefix and the count in 32 hexadecimal digits.
func CountedID(n int) string {
	const hex = "0123456789abcdef"
	b := []byte("pyd_ai_00000000000000000000000000000000")
	for i := len(b) - 1; n > 0; i-- {
		b[i] = hex[n&15]
		n >>= 4
	}
	return string(b)
}

// Continue joins the answer of a later poll or continuation to one that was suspended, as merge_responses does.
func Continue(existing, next *Response) (*Response, error) {
	merged := *next
	same := existing.ResponseID != nil && *existing.ResponseID != "" && next.ResponseID != nil && *existing.ResponseID == *next.ResponseID
	if !same {
		merged.Usage = Usage{append([]Counter{}, existing.Usage.Counters...), append([]Counter{}, existing.Usage.Details...)}
		if err := merged.Usage.Add(next.Usage); err != nil {
			return nil, err
		}
		if existing.ModelName == "" || next.ModelName == "" || existing.ModelName == next.ModelName {
			merged.Parts = append(append([]*pyjson.Value{}, existing.Parts...), next.Parts...)
			if merged.ResponseID == nil || *merged.ResponseID == "" {
				merged.ResponseID = existing.ResponseID
			}
		}
	}
	if existing.ProviderDetails != nil && len(existing.ProviderDetails.Members) > 0 {
		merged.ProviderDetails = merge(existing.ProviderDetails, next.ProviderDetails)
	}
	merged.Dropped = append(append([]Dropped{}, existing.Dropped...), next.Dropped...)
	return &merged, nil
}
