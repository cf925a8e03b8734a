package wire

import (
	"strings"
	"unicode"

	"github.com/forge-continuity/forge/adapters/pyjson"
)

// Manager accumulates streamed deltas into parts, as pydantic_ai._parts_manager does. A vendor id names a part that later
// deltas belong to; "" stands for None, where the latest part of the right kind is continued.
type Manager struct {
	parts  []*Part
	vendor map[string]int
	kinds  map[string]string
	ids    *IDs
	args   map[int]*strings.Builder
	text   map[int]*strings.Builder
}

// NewManager starts an answer. kinds gives tool_kind by tool name.
func NewManager(ids *IDs, kinds map[string]string) *Manager {
	return &Manager{vendor: map[string]int{}, kinds: kinds, ids: ids, args: map[int]*strings.Builder{}, text: map[int]*strings.Builder{}}
}

// Parts returns what there is, texts joined.
func (m *Manager) Parts() []*Part {
	for i := range m.parts {
		m.settle(i)
	}
	return m.parts
}

// Encode returns the parts as the SDK writes them. It fails on a call that never got its name: the SDK would leave it out.
func (m *Manager) Encode() ([]*pyjson.Value, error) {
	for _, p := range m.Parts() {
		if p.incomplete {
			return nil, Fail(Unsupported, "", "a tool call without a name")
		}
	}
	return EncodeParts(m.parts), nil
}

// settle puts the buffered text of a part into it.
func (m *Manager) settle(i int) {
	if b := m.text[i]; b != nil {
		m.parts[i].Content = b.String()
		delete(m.text, i)
	}
	if b := m.args[i]; b != nil {
		m.parts[i].Args = pyjson.NewString(b.String())
		delete(m.args, i)
	}
}

// Get returns the part of a vendor id, or nil.
func (m *Manager) Get(vendor string) *Part {
	i, ok := m.vendor[vendor]
	if !ok {
		return nil
	}
	m.settle(i)
	return m.parts[i]
}

func (m *Manager) add(p *Part, vendor string) int {
	m.parts = append(m.parts, p)
	if vendor != "" {
		m.vendor[vendor] = len(m.parts) - 1
	}
	return len(m.parts) - 1
}

func (m *Manager) find(vendor string, kinds ...string) (int, bool, error) {
	i := -1
	if vendor == "" {
		i = len(m.parts) - 1
	} else if at, ok := m.vendor[vendor]; ok {
		i = at
	}
	if i < 0 {
		return -1, false, nil
	}
	for _, k := range kinds {
		if m.parts[i].Kind == k {
			return i, true, nil
		}
	}
	if vendor == "" {
		return -1, false, nil
	}
	return -1, false, Fail(Refused, "", "a delta for a part of another kind")
}

func buffer(set map[int]*strings.Builder, i int, now, delta string) {
	if delta == "" {
		return
	}
	b := set[i]
	if b == nil {
		b = &strings.Builder{}
		b.WriteString(now)
		set[i] = b
	}
	b.WriteString(delta)
}

// merge lays the members of more over those of details; nothing at all is nil.
func merge(details, more *pyjson.Value) *pyjson.Value {
	out := pyjson.NewObject()
	for _, from := range []*pyjson.Value{details, more} {
		if from != nil {
			for _, m := range from.Members {
				out = out.With(m.Name, m.Value)
			}
		}
	}
	if len(out.Members) == 0 {
		return nil
	}
	return out
}

// A TextDelta is what may come with a piece of text.
type TextDelta struct {
	Content  string
	ID       *string
	Provider *string
	Details  *pyjson.Value
	Tags     *[2]string // of thinking inside the text
	SkipLead bool       // no part is started by white space
}

// Text applies a piece of text. started is the part it began, if any; emitted tells whether anything was done.
func (m *Manager) Text(vendor string, d TextDelta) (started *Part, emitted bool, err error) {
	i, found := -1, false
	if vendor == "" {
		i, found, _ = m.find("", Text)
	} else if at, ok := m.vendor[vendor]; ok {
		p := m.parts[at]
		switch {
		case d.Tags != nil && p.Kind == Thinking:
			if d.Content == d.Tags[1] {
				delete(m.vendor, vendor)
				return nil, false, nil
			}
			m.settleMeta(p, d.Provider, d.Details)
			buffer(m.text, at, p.Content, d.Content)
			return nil, true, nil
		case p.Kind == Text:
			i, found = at, true
		default:
			return nil, false, Fail(Refused, "", "a text delta for a part of another kind")
		}
	}
	if d.Tags != nil && d.Content == d.Tags[0] {
		delete(m.vendor, vendor)
		p := &Part{Kind: Thinking, Provider: d.Provider, Details: d.Details}
		m.add(p, vendor)
		return p, true, nil
	}
	if !found {
		if d.SkipLead && isSpace(d.Content) {
			return nil, false, nil
		}
		p := &Part{Kind: Text, Content: d.Content, ID: d.ID, Provider: d.Provider, Details: d.Details}
		m.add(p, vendor)
		return p, true, nil
	}
	m.settleMeta(m.parts[i], d.Provider, d.Details)
	buffer(m.text, i, m.parts[i].Content, d.Content)
	return nil, true, nil
}

// settleMeta is the metadata half of a text or thinking delta: a provider that is new or other, and details laid over.
func (m *Manager) settleMeta(p *Part, provider *string, details *pyjson.Value) {
	if provider != nil && *provider == "" {
		provider = nil
	}
	if provider != nil {
		p.Provider = provider
	}
	if details != nil || p.Details != nil {
		p.Details = merge(p.Details, details)
	}
}

// isSpace is Python's str.isspace, true for "" here.
func isSpace(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !isSpaceRune(r) })
}

func isSpaceRune(r rune) bool { return r >= 0x1c && r <= 0x1f || unicode.IsSpace(r) }

// IsSpace reports Python's str.isspace.
func IsSpace(s string) bool { return s != "" && isSpace(s) }

// A ThinkingDelta is a piece of thinking; Content and Sign are nil when the provider sent none.
type ThinkingDelta struct {
	Content  *string
	ID       *string
	Sign     *string
	Provider *string
	Details  *pyjson.Value
	Update   func(*pyjson.Value) *pyjson.Value // instead of Details: makes them from those so far
}

// Think applies a piece of thinking.
func (m *Manager) Think(vendor string, d ThinkingDelta) (started *Part, err error) {
	i, found, err := m.find(vendor, Thinking)
	if err != nil {
		return nil, err
	}
	if !found {
		if d.Content == nil && d.Sign == nil && d.Details == nil && d.Update == nil {
			return nil, Fail(Refused, "", "thinking without content")
		}
		details := d.Details
		if d.Update != nil {
			details = d.Update(nil)
		}
		p := &Part{Kind: Thinking, ID: d.ID, Sign: d.Sign, Provider: d.Provider, Details: details}
		if d.Content != nil {
			p.Content = *d.Content
		}
		m.add(p, vendor)
		return p, nil
	}
	p := m.parts[i]
	if d.Content == nil && d.Sign == nil && d.Provider == nil && d.Details == nil && d.Update == nil {
		return nil, nil
	}
	if d.Sign != nil {
		p.Sign = d.Sign
	}
	if d.Provider != nil {
		p.Provider = d.Provider
	}
	switch {
	case d.Update != nil:
		p.Details = merge(p.Details, d.Update(p.Details))
	case d.Details != nil || p.Details != nil:
		p.Details = merge(p.Details, d.Details)
	}
	if d.Content != nil {
		buffer(m.text, i, p.Content, *d.Content)
	}
	return nil, nil
}

// A CallDelta is a piece of a tool call. Tool and CallID are nil when the provider sent none.
type CallDelta struct {
	Tool     *string
	Args     *pyjson.Value // string, object or nil
	CallID   *string
	Provider *string
	Details  *pyjson.Value
}

// Call applies a piece of a tool call.
func (m *Manager) Call(vendor string, d CallDelta) (started *Part, err error) {
	if d.Args.Is(pyjson.Null) {
		d.Args = nil
	}
	i, found := -1, false
	if vendor != "" || d.Tool == nil {
		if i, found, err = m.find(vendor, ToolCall, NativeCall); err != nil {
			return nil, err
		}
	}
	if !found {
		p := &Part{Kind: ToolCall, Args: d.Args, Provider: d.Provider, Details: d.Details}
		if d.CallID != nil {
			p.CallID, p.hasCallID = *d.CallID, *d.CallID != ""
		}
		if d.Tool != nil {
			p.Tool, p.hasName = *d.Tool, true
			m.complete(p)
		} else {
			p.incomplete = true
		}
		m.add(p, vendor)
		if p.incomplete {
			return nil, nil
		}
		return p, nil
	}
	p := m.parts[i]
	if d.Tool != nil && *d.Tool != "" {
		p.Tool += *d.Tool
		p.hasName = true
	}
	if d.Args != nil {
		switch d.Args.Kind {
		case pyjson.String:
			if p.Args.Is(pyjson.Object) {
				return nil, Fail(Refused, "", "text arguments after an object")
			}
			now := ""
			if p.Args != nil {
				now = p.Args.Text
			}
			if d.Args.Text == "" && p.Args == nil && m.args[i] == nil {
				p.Args = pyjson.NewString("")
			}
			buffer(m.args, i, now, d.Args.Text)
		case pyjson.Object:
			m.settle(i)
			if p.Args.Is(pyjson.String) {
				return nil, Fail(Refused, "", "an object of arguments after text")
			}
			out := pyjson.NewObject()
			for _, from := range []*pyjson.Value{p.Args, d.Args} {
				if from != nil {
					for _, a := range from.Members {
						out = out.With(a.Name, a.Value)
					}
				}
			}
			p.Args = out
		default:
			return nil, Fail(Shape, "", "arguments of a call")
		}
	}
	if d.CallID != nil && *d.CallID != "" {
		p.CallID, p.hasCallID = *d.CallID, true
	}
	if d.Provider != nil && *d.Provider != "" {
		p.Provider = d.Provider
	}
	if d.Details != nil && len(d.Details.Members) > 0 {
		p.Details = merge(p.Details, d.Details)
	}
	if p.incomplete && p.hasName {
		p.incomplete = false
		m.complete(p)
		return p, nil
	}
	if p.Kind == ToolCall {
		p.ToolKind = m.kindOf(p)
	}
	return nil, nil
}

func (m *Manager) complete(p *Part) {
	if !p.hasCallID {
		p.CallID = m.ids.New()
	}
	p.ToolKind = m.kindOf(p)
}

func (m *Manager) kindOf(p *Part) string {
	if p.ToolKind != "" {
		return p.ToolKind
	}
	return m.kinds[p.Tool]
}

// WholeCall sets a complete tool call, replacing one that is there.
func (m *Manager) WholeCall(vendor string, p *Part) {
	if p.CallID == "" {
		p.CallID = m.ids.New()
	}
	p.Kind, p.hasName, p.hasCallID = ToolCall, true, true
	p.ToolKind = m.kindOf(p)
	m.Put(vendor, p)
}

// Put sets a complete part: in place of one of the same kind with this vendor id, else at the end.
func (m *Manager) Put(vendor string, p *Part) {
	if vendor == "" {
		m.add(p, "")
		return
	}
	i, ok := m.vendor[vendor]
	if ok && m.parts[i].Kind == p.Kind {
		delete(m.text, i)
		delete(m.args, i)
		m.parts[i] = p
		return
	}
	m.add(p, vendor)
}
