package wire

import (
	"crypto/sha256"
	"math/big"
	"sort"
	"strings"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
)

// Message is a message of a history on its way into a request.
type Message struct {
	Request bool
	Parts   []*pyjson.Value
	V       *pyjson.Value // the whole message as it was read; its parts may be older than Parts
	Path    string        // of the message in the history it came from; one that the SDK makes has that of its neighbour
}

// Kind returns a part's part_kind.
func PartKind(part *pyjson.Value) string { return TextOf(part, "part_kind") }

// Provider returns provider_name, "" for null.
func (m *Message) Provider() string { return TextOf(m.V, "provider_name") }

// History splits a history into messages. Versions whose form is known (pydanticai.Version.Known) are checked for it: a member
// or kind that the SDK would drop or refuse is an error here.
func History(v pydanticai.Version, history *pyjson.Value) ([]*Message, error) {
	if !history.Is(pyjson.Array) {
		return nil, Fail(Shape, "", "array of messages expected")
	}
	if v.Known() {
		if problems := pydanticai.CheckHistory(v, history, ""); len(problems) > 0 {
			code := map[string]string{pydanticai.UnknownMember: Member, pydanticai.UnknownKind: Kind}[problems[0].Kind]
			if code == "" {
				code = Shape
			}
			return nil, Fail(code, problems[0].Path, problems[0].Kind)
		}
	}
	var out []*Message
	for i, m := range history.Items {
		path := "/" + itoa(i)
		kind := TextOf(m, "kind")
		if kind != "request" && kind != "response" || !m.Get("parts").Is(pyjson.Array) {
			return nil, Fail(Kind, path+"/kind", "message")
		}
		out = append(out, &Message{kind == "request", Items(m, "parts"), m, path})
	}
	return out, nil
}

// Encode returns the messages as a history again.
func Encode(messages []*Message) *pyjson.Value {
	out := pyjson.NewArray()
	for _, m := range messages {
		out.Items = append(out.Items, m.V.With("parts", pyjson.NewArray(m.Parts...)))
	}
	return out
}

func isResult(part *pyjson.Value) bool {
	kind := PartKind(part)
	return kind == "tool-return" || kind == "retry-prompt" && Present(part, "tool_name") != nil
}

// Interrupted is the content of the result that the SDK makes for a call that has none.
const Interrupted = "The tool call was interrupted before a result was produced."

// Clean is _clean_message_history: results of calls that nobody made go, calls without a result get one that says so (those of
// the last response only with repairLast), and neighbours of one kind become one message.
func Clean(v pydanticai.Version, messages []*Message, repairLast bool) []*Message {
	return mergeNeighbours(v, repairDangling(v, dropOrphans(messages), repairLast))
}

func dropOrphans(messages []*Message) []*Message {
	seen := map[string]bool{}
	var out []*Message
	for i, m := range messages {
		var kept []*pyjson.Value
		for _, part := range m.Parts {
			if PartKind(part) == ToolCall {
				seen[TextOf(part, "tool_call_id")] = true
			}
		}
		for _, part := range m.Parts {
			if !isResult(part) || seen[TextOf(part, "tool_call_id")] {
				kept = append(kept, part)
			}
		}
		if len(kept) == len(m.Parts) {
			out = append(out, m)
		} else if len(kept) > 0 || m.Request && i == len(messages)-1 {
			out = append(out, &Message{m.Request, kept, m.V, m.Path})
		}
	}
	return out
}

// dangling returns the calls that no later request answers, by the index of their response.
func dangling(messages []*Message) map[int][]*pyjson.Value {
	type call struct {
		index int
		part  *pyjson.Value
	}
	open := map[string][]call{}
	var order []string
	out := map[int][]*pyjson.Value{}
	for i, m := range messages {
		for _, part := range m.Parts {
			id := TextOf(part, "tool_call_id")
			switch {
			case !m.Request && PartKind(part) == ToolCall:
				pending, known := open[id]
				if !known {
					order = append(order, id)
				}
				if n := len(pending); n > 0 && pending[n-1].index != i {
					for _, p := range pending {
						out[p.index] = append(out[p.index], p.part)
					}
					pending = nil
				}
				open[id] = append(pending, call{i, part})
			case m.Request && isResult(part) && len(open[id]) > 0:
				open[id] = open[id][1:]
			}
		}
	}
	for _, id := range order {
		for _, c := range open[id] {
			out[c.index] = append(out[c.index], c.part)
		}
	}
	return out
}

func newRequest(parts []*pyjson.Value, path string) *Message {
	null := pyjson.NewNull()
	v := pyjson.NewObject(pyjson.Member{Name: "parts", Value: pyjson.NewArray()}, pyjson.Member{Name: "timestamp", Value: null},
		pyjson.Member{Name: "instructions", Value: null}, pyjson.Member{Name: "kind", Value: pyjson.NewString("request")},
		pyjson.Member{Name: "run_id", Value: null}, pyjson.Member{Name: "conversation_id", Value: null},
		pyjson.Member{Name: "metadata", Value: null}, pyjson.Member{Name: "state", Value: pyjson.NewString("complete")})
	return &Message{true, parts, v, path}
}

func repairDangling(v pydanticai.Version, messages []*Message, repairLast bool) []*Message {
	open := dangling(messages)
	if !repairLast {
		for i := len(messages) - 1; i >= 0; i-- {
			if !messages[i].Request {
				delete(open, i)
				break
			}
		}
	}
	if len(open) == 0 {
		return messages
	}
	var out []*Message
	var made []*pyjson.Value
	for i, m := range messages {
		switch {
		case !m.Request:
			if len(made) > 0 {
				out = append(out, newRequest(made, m.Path))
				made = nil
			}
			for _, call := range open[i] {
				kind := pyjson.NewNull()
				if v == pydanticai.V2580 {
					kind = call.Get("tool_kind")
				}
				made = append(made, Obj("tool_name", call.Get("tool_name"), "content", Interrupted, "tool_call_id", call.Get("tool_call_id"),
					"tool_kind", kind, "metadata", Obj("pydantic_ai_synthesized_tool_return", true), "timestamp", m.V.Get("timestamp"),
					"outcome", "interrupted", "part_kind", "tool-return"))
			}
		case len(made) > 0:
			at := 0
			for j, part := range m.Parts {
				if isResult(part) {
					at = j + 1
				}
			}
			parts := append(append(append([]*pyjson.Value{}, m.Parts[:at]...), made...), m.Parts[at:]...)
			m, made = &Message{true, parts, m.V, m.Path}, nil
		}
		out = append(out, m)
	}
	if len(made) > 0 {
		out = append(out, newRequest(made, messages[len(messages)-1].Path))
	}
	return out
}

func mergeNeighbours(v pydanticai.Version, messages []*Message) []*Message {
	var out []*Message
	for _, m := range messages {
		var last *Message
		if len(out) > 0 {
			last = out[len(out)-1]
		}
		switch {
		case last == nil || last.Request != m.Request:
			out = append(out, m)
		case m.Request:
			a, b := TextOf(last.V, "instructions"), TextOf(m.V, "instructions")
			if a != "" && b != "" && a != b {
				out = append(out, m)
				continue
			}
			parts := append(append([]*pyjson.Value{}, last.Parts...), m.Parts...)
			sort.SliceStable(parts, func(i, j int) bool { return resultRank(parts[i]) < resultRank(parts[j]) })
			merged := newRequest(parts, last.Path)
			instructions := last.V.Get("instructions")
			if a == "" {
				instructions = m.V.Get("instructions")
			}
			timestamp := m.V.Get("timestamp")
			if Present(m.V, "timestamp") == nil {
				timestamp = last.V.Get("timestamp")
			}
			merged.V = merged.V.With("instructions", orNull(instructions)).With("timestamp", orNull(timestamp)).With("metadata", sdkMetadata(v, last.V, m.V))
			out[len(out)-1] = merged
		default:
			for _, name := range []string{"provider_response_id", "provider_name", "model_name"} {
				if Present(last.V, name) != nil || Present(m.V, name) != nil {
					last = nil
					break
				}
			}
			if last == nil {
				out = append(out, m)
				continue
			}
			out[len(out)-1] = &Message{false, append(append([]*pyjson.Value{}, last.Parts...), m.Parts...), last.V, last.Path}
		}
	}
	return out
}

func resultRank(part *pyjson.Value) int {
	if kind := PartKind(part); kind == "tool-return" || kind == "retry-prompt" {
		return 0
	}
	return 1
}

// sdkMetadata keeps what the SDK itself keeps in the metadata of two requests that become one; the application's is lost.
func sdkMetadata(v pydanticai.Version, a, b *pyjson.Value) *pyjson.Value {
	const key = "__pydantic_ai__"
	first, second := a.At("metadata", key), b.At("metadata", key)
	if v == V2330 || !first.Is(pyjson.Object) && !second.Is(pyjson.Object) {
		return pyjson.NewNull()
	}
	return Obj(key, merge(first, second))
}

// Prepare does to a cleaned history what Model.prepare_messages does, and cleans again. It refuses, by name, parts of live
// speech and of tools that are added on the way.
func Prepare(o Options, messages []*Message) ([]*Message, error) {
	loads := false
	for _, m := range messages {
		for i, part := range m.Parts {
			path := m.Path + "/parts/" + itoa(i)
			switch kind := PartKind(part); kind {
			case "speech", "tool-availability-delta":
				return nil, Fail(Unsupported, path, kind)
			case "system-prompt":
				if TextOf(part, "scope") == "request" {
					return nil, Fail(Unsupported, path+"/scope", "request")
				}
			case "tool-return":
				loads = loads || TextOf(part, "tool_name") == "load_capability"
				if loads && TextOf(part, "tool_name") == "search_tools" && o.Profile.Text("tool_addition_mode") != "" {
					return nil, Fail(Unsupported, path, "tools added through a capability")
				}
			}
		}
	}
	standing := standingPrompts(messages)
	messages = localToolSearch(o, messages)
	if !o.Profile.Flag("supports_inline_system_prompts") {
		messages = wrapSystemPrompts(messages, standing)
	}
	if o.Version == pydanticai.V2580 {
		messages = orderResults(messages)
		if n, ok := o.Profile.Number("tool_call_id_length"); ok {
			var err error
			if messages, err = fitCallIDs(messages, n); err != nil {
				return nil, err
			}
		}
	}
	return Clean(o.Version, messages, true), nil
}

func standingPrompts(messages []*Message) int {
	for _, m := range messages {
		if m.Request {
			for i, part := range m.Parts {
				if PartKind(part) != "system-prompt" {
					return i
				}
			}
			return len(m.Parts)
		}
	}
	return 0
}

// localToolSearch turns searches for tools that another provider ran into ordinary calls and results.
func localToolSearch(o Options, messages []*Message) []*Message {
	var out []*Message
	for _, m := range messages {
		foreign := func(part *pyjson.Value) bool {
			return TextOf(part, "tool_kind") == "tool-search" && !(o.Profile.Flag("native_tool_search") && TextOf(part, "provider_name") == o.Provider)
		}
		changed, emitted := false, false
		var held []*pyjson.Value
		flush := func() {
			v := m.V
			if emitted {
				v = v.With("provider_response_id", pyjson.NewNull())
			}
			out = append(out, &Message{false, held, v, m.Path})
			held, emitted = nil, true
		}
		for _, part := range m.Parts {
			switch kind := PartKind(part); {
			case !m.Request && kind == NativeCall && foreign(part):
				held = append(held, Obj("tool_name", "search_tools", "args", part.Get("args"), "tool_call_id", part.Get("tool_call_id"),
					"tool_kind", "tool-search", "id", pyjson.NewNull(), "provider_name", pyjson.NewNull(), "provider_details", pyjson.NewNull(),
					"part_kind", ToolCall))
				changed = true
			case !m.Request && kind == NativeReturn && foreign(part):
				if len(held) > 0 {
					flush()
				}
				out = append(out, newRequest([]*pyjson.Value{Obj("tool_name", "search_tools", "content", part.Get("content"), "tool_call_id",
					part.Get("tool_call_id"), "tool_kind", "tool-search", "metadata", part.Get("metadata"), "timestamp", part.Get("timestamp"),
					"outcome", part.Get("outcome"), "part_kind", "tool-return")}, m.Path))
				changed = true
			default:
				held = append(held, part)
			}
		}
		switch {
		case !changed:
			out = append(out, m)
		case len(held) > 0:
			flush()
		}
	}
	return out
}

func wrapSystemPrompts(messages []*Message, standing int) []*Message {
	first := true
	var out []*Message
	for _, m := range messages {
		if !m.Request {
			out = append(out, m)
			continue
		}
		start := 0
		if first {
			start, first = standing, false
		}
		parts := append([]*pyjson.Value{}, m.Parts...)
		for i, part := range parts {
			if i >= start && PartKind(part) == "system-prompt" {
				parts[i] = Obj("content", "<system>"+TextOf(part, "content")+"</system>", "timestamp", part.Get("timestamp"), "part_kind", "user-prompt")
			}
		}
		out = append(out, &Message{true, parts, m.V, m.Path})
	}
	return out
}

// orderResults puts the results of the calls of the message before into the order of the calls.
func orderResults(messages []*Message) []*Message {
	var out []*Message
	for n, m := range messages {
		if n > 0 && m.Request && !messages[n-1].Request {
			order := map[string]int{}
			for _, part := range messages[n-1].Parts {
				if id := TextOf(part, "tool_call_id"); PartKind(part) == ToolCall {
					if _, ok := order[id]; !ok {
						order[id] = len(order)
					}
				}
			}
			var slots []int
			var results []*pyjson.Value
			for i, part := range m.Parts {
				if _, ok := order[TextOf(part, "tool_call_id")]; ok && resultRank(part) == 0 {
					slots, results = append(slots, i), append(results, part)
				}
			}
			sort.SliceStable(results, func(i, j int) bool {
				return order[TextOf(results[i], "tool_call_id")] < order[TextOf(results[j], "tool_call_id")]
			})
			parts := append([]*pyjson.Value{}, m.Parts...)
			for i, slot := range slots {
				parts[slot] = results[i]
			}
			m = &Message{true, parts, m.V, m.Path}
		}
		out = append(out, m)
	}
	return out
}

// fitCallIDs gives calls and their results ids of exactly n letters and digits, as _fit_tool_call_ids does.
func fitCallIDs(messages []*Message, n int) ([]*Message, error) {
	fitted, taken := map[string]string{}, map[string]bool{}
	fit := func(id string) string {
		if f, ok := fitted[id]; ok {
			return f
		}
		f := id
		if len(id) != n || strings.ContainsFunc(id, func(r rune) bool { return !('0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z') }) {
			f = hashedID(id, n)
		}
		for attempt := 1; taken[f]; attempt++ {
			f = hashedID(id+"#"+itoa(attempt), n)
		}
		fitted[id], taken[f] = f, true
		return f
	}
	if n < 4 {
		return nil, Fail(Unsupported, "", "tool_call_id_length")
	}
	var out []*Message
	for _, m := range messages {
		parts := append([]*pyjson.Value{}, m.Parts...)
		for i, part := range parts {
			if kind := PartKind(part); kind == ToolCall || kind == "tool-return" || kind == "retry-prompt" {
				parts[i] = part.With("tool_call_id", pyjson.NewString(fit(TextOf(part, "tool_call_id"))))
			}
		}
		out = append(out, &Message{m.Request, parts, m.V, m.Path})
	}
	return out, nil
}

func hashedID(id string, n int) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	sum := sha256.Sum256([]byte(id))
	number, base, digit := new(big.Int).SetBytes(sum[:]), big.NewInt(62), new(big.Int)
	var b strings.Builder
	for range n {
		number.DivMod(number, base, digit)
		b.WriteByte(digits[digit.Int64()])
	}
	return b.String()
}
