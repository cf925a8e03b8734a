package wire

import (
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
)

// Part is one part of a response while it is put together. Kind is its part_kind.
type Part struct {
	Kind     string
	Content  string        // text and thinking
	Value    *pyjson.Value // content of a return, a file or a compaction; nil is null
	Tool     string
	Args     *pyjson.Value // string, object or nil for null
	CallID   string
	ToolKind string // "" is null
	ID       *string
	Sign     *string // signature of a thinking part
	Provider *string
	Details  *pyjson.Value // object, or nil for null; {} stays {}
	AtUS     int64         // of a return

	// incomplete is a call whose tool name has not come yet: the SDK leaves it out.
	incomplete bool
	hasName    bool
	hasCallID  bool
}

// Kinds of part.
const (
	Text         = "text"
	Thinking     = "thinking"
	ToolCall     = "tool-call"
	NativeCall   = "builtin-tool-call"
	NativeReturn = "builtin-tool-return"
	File         = "file"
	Compaction   = "compaction"
)

func orNull(v *pyjson.Value) *pyjson.Value {
	if v == nil {
		return pyjson.NewNull()
	}
	return v
}

// Encode returns the part as the SDK writes it.
func (p *Part) Encode() *pyjson.Value {
	m := func(name string, v *pyjson.Value) pyjson.Member { return pyjson.Member{Name: name, Value: v} }
	s := pyjson.NewString
	kind := func() *pyjson.Value {
		if p.ToolKind == "" {
			return pyjson.NewNull()
		}
		return s(p.ToolKind)
	}
	id, provider, details := m("id", OptStr(p.ID)), m("provider_name", OptStr(p.Provider)), m("provider_details", orNull(p.Details))
	tag := m("part_kind", s(p.Kind))
	switch p.Kind {
	case Text:
		return pyjson.NewObject(m("content", s(p.Content)), id, provider, details, tag)
	case Thinking:
		return pyjson.NewObject(m("content", s(p.Content)), id, m("signature", OptStr(p.Sign)), provider, details, tag)
	case ToolCall, NativeCall:
		return pyjson.NewObject(m("tool_name", s(p.Tool)), m("args", orNull(p.Args)), m("tool_call_id", s(p.CallID)),
			m("tool_kind", kind()), id, provider, details, tag)
	case NativeReturn:
		return pyjson.NewObject(m("tool_name", s(p.Tool)), m("content", orNull(p.Value)), m("tool_call_id", s(p.CallID)),
			m("tool_kind", kind()), m("metadata", pyjson.NewNull()), m("timestamp", s(pydanticai.FormatInstant(p.AtUS))),
			m("outcome", s("success")), provider, details, tag)
	case File, Compaction:
		return pyjson.NewObject(m("content", orNull(p.Value)), id, provider, details, tag)
	}
	panic("wire: part of kind " + p.Kind)
}

// EncodeParts encodes all that the SDK keeps.
func EncodeParts(parts []*Part) []*pyjson.Value {
	out := make([]*pyjson.Value, 0, len(parts))
	for _, p := range parts {
		if !p.incomplete {
			out = append(out, p.Encode())
		}
	}
	return out
}

// Binary returns a binary content item of these bytes.
func Binary(data []byte, mediaType string) *pyjson.Value {
	sum := sha1.Sum(data)
	return pyjson.NewObject(
		pyjson.Member{Name: "data", Value: pyjson.NewString(base64.URLEncoding.EncodeToString(data))},
		pyjson.Member{Name: "media_type", Value: pyjson.NewString(mediaType)},
		pyjson.Member{Name: "vendor_metadata", Value: pyjson.NewNull()},
		pyjson.Member{Name: "kind", Value: pyjson.NewString("binary")},
		pyjson.Member{Name: "identifier", Value: pyjson.NewString(hex.EncodeToString(sum[:])[:6])},
	)
}

// Base64 decodes strict standard base64.
func Base64(text string) ([]byte, bool) {
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	return data, err == nil
}
