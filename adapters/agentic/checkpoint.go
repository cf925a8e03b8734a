package agentic

import (
	"errors"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
)

// RecordFormat is the record that this package reads and writes.
const RecordFormat = "agentic-checkpoint/1"

// Bounds of an encoded record (CRED-07). A recorded run of 50 rounds is about 200 KB with 10^4 values; the guest's 256 MiB
// hold a tree of 2^20 values.
const (
	MaxRecordBytes = 8 << 20
	MaxRecordDepth = 128
	MaxRecordNodes = 1 << 20
)

var recordLimits = pyjson.Limits{Bytes: MaxRecordBytes, Depth: MaxRecordDepth, Nodes: MaxRecordNodes}

// Checkpoint is a pending checkpoint whose form was checked: canonical, every member known and of its type, history, usage,
// limits and tools as the SDK of its version would write them back. The tree is not to be changed.
type Checkpoint struct {
	root *pyjson.Value

	FireflyAgentic  string
	Version         pydanticai.Version
	SourceIdentity  string
	DependencyEpoch string
	Prompt          PromptRef
}

func (c *Checkpoint) history() *pyjson.Value  { return c.root.Get("history") }
func (c *Checkpoint) usage() *pyjson.Value    { return c.root.Get("usage") }
func (c *Checkpoint) contract() *pyjson.Value { return c.root.Get("contract") }
func (c *Checkpoint) tools() []*pyjson.Value  { return c.contract().Get("tools").Items }

// last is the request that was about to be sent.
func (c *Checkpoint) last() *pyjson.Value { return c.history().Items[len(c.history().Items)-1] }

// ParseCheckpoint reads a record in the order bounds, canonical form, format, structure. With holds the checkpoint is nil. All
// holds of the first faulty step are returned, in order of precedence.
func ParseCheckpoint(data []byte, catalogue *Catalogue) (*Checkpoint, []Hold) {
	root, hold := parseRecord(data)
	if hold != nil {
		return nil, []Hold{*hold}
	}
	c := recordChecker{catalogue: catalogue, places: map[string][]string{}}
	checkpoint := c.check(root)
	if holds := c.holds(); len(holds) > 0 {
		return nil, holds
	}
	return checkpoint, nil
}

// parseRecord checks bounds and canonical form.
func parseRecord(data []byte) (*pyjson.Value, *Hold) {
	root, err := pyjson.ParseCanonical(data, recordLimits)
	var limit *pyjson.LimitError
	var syntax *pyjson.SyntaxError
	var form *pyjson.CanonicalError
	var hold Hold
	switch {
	case err == nil:
		return root, nil
	case errors.As(err, &limit):
		hold = newHold("record_out_of_bounds", details{"limit": limit.Limit, "bound": limit.Bound})
	case errors.As(err, &syntax):
		hold = newHold("checkpoint_not_canonical", details{"offset": syntax.Offset, "reason": syntax.Reason})
	case errors.As(err, &form):
		hold = newHold("checkpoint_not_canonical", details{"offset": form.Offset, "reason": "not the canonical spelling"})
	default:
		panic("agentic: unknown error of pyjson")
	}
	return nil, &hold
}

// recordChecker collects the places of each fault, so that a hold names all of them at once.
type recordChecker struct {
	catalogue *Catalogue
	places    map[string][]string // by code
	format    *Hold
}

// maxPlaces bounds the paths that one hold names.
const maxPlaces = 16

func (c *recordChecker) add(code, path string) {
	if list := c.places[code]; len(list) < maxPlaces {
		c.places[code] = append(list, plainPath(path))
	}
}

func (c *recordChecker) holds() []Hold {
	var holds []Hold
	if c.format != nil {
		holds = append(holds, *c.format)
	}
	for _, code := range codes {
		paths := c.places[code]
		if len(paths) == 0 {
			continue
		}
		d := details{"path": paths[0]}
		if len(paths) > 1 {
			d["more_paths"] = paths[1:]
		}
		holds = append(holds, newHold(code, d))
	}
	return holds
}

func (c *recordChecker) problems(list []pydanticai.Problem) {
	for _, p := range list {
		switch p.Kind {
		case pydanticai.UnknownMember, pydanticai.UnknownKind:
			c.add("checkpoint_field_unknown", p.Path)
		case pydanticai.Lost:
			c.add("round_trip_loss", p.Path)
		default:
			c.add(p.Kind, p.Path) // counters: the kind is the code
		}
	}
}

// member returns a member that must be there with this type; a fault is checkpoint_not_canonical with its path.
func (c *recordChecker) member(v *pyjson.Value, path, name string, kind pyjson.Kind) *pyjson.Value {
	m := v.Get(name)
	if !m.Is(kind) {
		c.add("checkpoint_not_canonical", path+pyjson.Pointer(name))
		return &pyjson.Value{Kind: kind}
	}
	return m
}

func (c *recordChecker) text(v *pyjson.Value, path, name string) string {
	return c.member(v, path, name, pyjson.String).Text
}

// only names every member that is not known.
func (c *recordChecker) only(v *pyjson.Value, path string, known ...string) {
	for _, m := range v.Members {
		if !contains(known, m.Name) {
			c.add("checkpoint_field_unknown", path+pyjson.Pointer(m.Name))
		}
	}
}

func (c *recordChecker) check(root *pyjson.Value) *Checkpoint {
	if !root.Is(pyjson.Object) {
		c.add("checkpoint_not_canonical", "")
		return nil
	}
	versions := root.Get("versions")
	sdk, _ := versions.Get("pydantic_ai").Str()
	if record, _ := root.Get("record").Str(); record != RecordFormat || !pydanticai.Version(sdk).Known() {
		path := "/versions/pydantic_ai"
		if record != RecordFormat {
			path = "/record"
		}
		h := newHold("unsupported_history_format", details{"path": path})
		c.format = &h
		return nil // without the format nothing else in it can be judged
	}
	c.only(root, "", "record", "versions", "source_identity", "dependency_epoch", "prompt_catalog", "compatibility", "contract", "history",
		"usage", "limits", "state")
	c.only(versions, "/versions", "firefly_agentic", "pydantic_ai")
	prompt := c.member(root, "", "prompt_catalog", pyjson.Object)
	c.only(prompt, "/prompt_catalog", "version", "digest")
	p := &Checkpoint{
		root: root, FireflyAgentic: c.text(versions, "/versions", "firefly_agentic"), Version: pydanticai.Version(sdk),
		SourceIdentity: c.text(root, "", "source_identity"), DependencyEpoch: c.text(root, "", "dependency_epoch"),
		Prompt: PromptRef{Version: c.text(prompt, "/prompt_catalog", "version"), Digest: c.text(prompt, "/prompt_catalog", "digest")},
	}
	source := c.catalogue.sourceLike(p.SourceIdentity, sdk)
	if source == nil {
		h := newHold("unsupported_history_format", details{"path": "/versions/pydantic_ai"})
		c.format = &h
		return nil
	}
	c.compatibility(root.Get("compatibility"))
	c.contract(p, c.member(root, "", "contract", pyjson.Object), source)
	c.history(p, c.member(root, "", "history", pyjson.Array), source)
	c.problems(pydanticai.CheckUsage(p.Version, root.Get("usage"), true, source.counters(), "/usage"))
	c.problems(pydanticai.CheckLimits(p.Version, root.Get("limits"), "/limits"))
	state := c.member(root, "", "state", pyjson.Object)
	c.only(state, "/state", "completed_rounds")
	if n, ok := state.Get("completed_rounds").Int(); !ok || n < 0 {
		c.add("checkpoint_not_canonical", "/state/completed_rounds")
	}
	return p
}

// compatibility is null in an original; in a record that follows a derived one it is what derive wrote.
func (c *recordChecker) compatibility(v *pyjson.Value) {
	const path = "/compatibility"
	if v.Is(pyjson.Null) {
		return
	}
	if !v.Is(pyjson.Object) {
		c.add("checkpoint_not_canonical", path)
		return
	}
	c.only(v, path, "transition", "source_identity", "derived_from", "consumed_at", "prompt_from", "prompt_to")
	for _, name := range []string{"transition", "source_identity", "derived_from", "consumed_at", "prompt_from", "prompt_to"} {
		c.text(v, path, name)
	}
}

func (c *recordChecker) contract(p *Checkpoint, v *pyjson.Value, source *Source) {
	const path = "/contract"
	known := []string{"model", "instructions", "tools", "grants", "output"}
	for _, member := range source.Provenance {
		known = append(known, member.Member) // what may be in it is the projection's question
	}
	c.only(v, path, known...)
	model := c.member(v, path, "model", pyjson.Object)
	c.only(model, path+"/model", "provider", "name", "base_url", "settings", "wire", "stream")
	for _, name := range []string{"provider", "name", "base_url"} {
		c.text(model, path+"/model", name)
	}
	if model.Get("wire") != nil { // absent: the provider's ordinary one
		c.text(model, path+"/model", "wire")
	}
	if model.Get("stream") != nil { // absent: not streamed
		c.member(model, path+"/model", "stream", pyjson.Bool)
	}
	c.member(model, path+"/model", "settings", pyjson.Object)
	for i, item := range c.member(v, path, "instructions", pyjson.Array).Items {
		at := path + "/instructions" + pyjson.Pointer(itoa(i))
		c.only(item, at, "content", "dynamic")
		c.text(item, at, "content")
		c.member(item, at, "dynamic", pyjson.Bool)
	}
	names := c.toolList(p, v, path, "tools")
	granted := map[string]bool{}
	for i, item := range c.member(v, path, "grants", pyjson.Array).Items {
		if name, ok := item.Str(); !ok || granted[name] || !names[name] {
			c.add("checkpoint_not_canonical", path+"/grants"+pyjson.Pointer(itoa(i)))
		} else {
			granted[name] = true
		}
	}
	output := c.member(v, path, "output", pyjson.Object)
	c.only(output, path+"/output", "output_mode", "output_tools", "output_object", "allow_text_output", "allow_image_output")
	c.text(output, path+"/output", "output_mode")
	c.toolList(p, output, path+"/output", "output_tools")
	if o := output.Get("output_object"); !o.Is(pyjson.Null) && !o.Is(pyjson.String) {
		c.add("checkpoint_not_canonical", path+"/output/output_object")
	}
	c.member(output, path+"/output", "allow_text_output", pyjson.Bool)
	c.member(output, path+"/output", "allow_image_output", pyjson.Bool)
}

// toolList checks tool definitions, whose names are unique, and returns the names.
func (c *recordChecker) toolList(p *Checkpoint, v *pyjson.Value, path, name string) map[string]bool {
	names := map[string]bool{}
	for i, tool := range c.member(v, path, name, pyjson.Array).Items {
		at := path + pyjson.Pointer(name) + pyjson.Pointer(itoa(i))
		judged := tool
		if kind, _ := tool.Get("kind").Str(); kind == "function" && (tool.Get("tool_kind") != nil || p.Version == pydanticai.V2580) {
			judged = tool.With("tool_kind", pyjson.NewNull()) // its value is the projection's question (SDK-10 to SDK-12)
		}
		c.problems(pydanticai.CheckTool(p.Version, judged, at))
		if s, ok := tool.Get("name").Str(); ok {
			if names[s] {
				c.add("checkpoint_not_canonical", at+"/name")
			}
			names[s] = true
		}
	}
	return names
}

// history must end with the request that was about to be sent.
func (c *recordChecker) history(p *Checkpoint, v *pyjson.Value, source *Source) {
	found := pydanticai.CheckHistory(p.Version, v, "/history")
	c.problems(found)
	if len(found) > 0 {
		return // usage inside is judged only in messages that are understood
	}
	for i, message := range v.Items {
		if pydanticai.IsResponse(message) {
			c.problems(pydanticai.CheckUsage(p.Version, message.Get("usage"), false, source.counters(), "/history"+pyjson.Pointer(itoa(i))+"/usage"))
		}
	}
	n := len(v.Items)
	if n == 0 || !pydanticai.IsRequest(v.Items[n-1]) || v.Items[n-1].Get("state").Text != "complete" {
		c.add("checkpoint_not_canonical", "/history")
	}
}

// toolIndex returns where a tool stands in the frozen contract, or -1.
func (c *Checkpoint) toolIndex(name string) int {
	for i, tool := range c.tools() {
		if s, _ := tool.Get("name").Str(); s == name {
			return i
		}
	}
	return -1
}

func (c *Checkpoint) granted(name string) bool {
	for _, item := range c.contract().Get("grants").Items {
		if item.Text == name {
			return true
		}
	}
	return false
}
