package agentic

import (
	"strings"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/models/guestabi"
)

// Captured is what the installed entry point rendered.
type Captured struct {
	EntryPoint string `json:"entry_point"` // its digest in the catalogue
	Holds      []Hold `json:"holds"`
	Prompt     string `json:"prompt"`
	Tools      int64  `json:"tools"`
}

// Contract runs the installed entry point by itself, against a sealed transport of its own, and returns the contract that it was
// seen to render: agentic-contract/1, canonical, nil with holds (REC-08). Of the stored contract only the provider configuration is
// read, in the format of the SDK version that is installed; the tools and texts in it have no effect.
func Contract(catalogue *Catalogue, stored []byte) (Captured, []byte, *guestabi.Refusal) {
	r := reconstruction{catalogue: catalogue}
	r.out.Result.Holds = []Hold{}
	out := Captured{EntryPoint: catalogue.EntryPoint.Digest, Prompt: catalogue.EntryPoint.Prompt}
	v, err := pyjson.Parse(stored, recordLimits)
	if err != nil || !v.At("model", "settings").Is(pyjson.Object) {
		return out, nil, malformed("contract", "no contract with a model")
	}
	document, _ := r.enter(v)
	if r.refused != nil {
		return out, nil, r.refused
	}
	out.Holds = r.out.Result.Holds
	if document == nil {
		return out, nil, nil
	}
	out.Tools = int64(len(document.At("contract", "tools").Items))
	return out, pyjson.Encode(document), nil
}

func callContract(frames map[string][]byte, params canon.Raw) (*output, *guestabi.Refusal) {
	if err := canon.Unmarshal(params, &struct{}{}); err != nil {
		return nil, malformed("params", "contract takes none")
	}
	catalogue, err := catalogueOf(frames["catalogue"])
	if err != nil {
		return nil, malformed("catalogue", "not a catalogue that this module can use")
	}
	result, document, refused := Contract(catalogue, frames["contract"])
	if refused != nil {
		return nil, refused
	}
	out := &output{result: result}
	if document != nil {
		out.add("contract", document)
	}
	return out, nil
}

// installed is the contract of the entry point with a run's provider configuration.
func (r *reconstruction) installed(model *pyjson.Value) *pyjson.Value {
	return pyjson.Sorted(r.catalogue.EntryPoint.contract.With("model", model))
}

// enter renders one request of the installed contract against a second sealed transport, reads it back from the captured bytes, and
// returns the document of what was rendered, and the rendering. Nil means that there are holds.
func (r *reconstruction) enter(stored *pyjson.Value) (document, rendered *pyjson.Value) {
	installed := r.installed(stored.Get("model"))
	if rendered = r.rendered(installed); rendered == nil {
		return nil, nil
	}
	point := r.catalogue.EntryPoint
	plain := rendered
	if m := readModel(installed); m.wire == wireChat {
		plain = plain.With("instructions", leading(rendered.Get("messages"), len(installed.Get("instructions").Items)))
	}
	return object(
		"contract", installed,
		"entry_point", object("digest", pyjson.NewString(point.Digest), "name", pyjson.NewString(point.Name), "prompt", pyjson.NewString(point.Prompt)),
		"record", pyjson.NewString("agentic-contract/1"),
		"rendered", r.withoutConversation(plain, installed)), rendered
}

func (r *reconstruction) withoutConversation(body, contract *pyjson.Value) *pyjson.Value {
	speaks, _ := readModel(contract).codec()
	return body.Without(speaks.conversation)
}

// leading returns the system messages that a request begins with, at most n.
func leading(messages *pyjson.Value, n int) *pyjson.Value {
	out := pyjson.NewArray()
	for _, m := range messages.Items {
		if m.Get("role").Text != "system" || len(out.Items) == n {
			break
		}
		out.Items = append(out.Items, m)
	}
	return out
}

// rendered renders a request of nothing but a contract against a transport that only captures, and reads the captured bytes back.
func (r *reconstruction) rendered(contract *pyjson.Value) *pyjson.Value {
	c := &Checkpoint{root: object("contract", contract), Version: pydanticai.Version(r.catalogue.today().PydanticAI)}
	if !r.wired(c) {
		return nil
	}
	ask := object("content", pyjson.NewString("."), "part_kind", pyjson.NewString("user-prompt"), "timestamp", pyjson.NewString(pydanticai.FormatInstant(0)))
	null := pyjson.NewNull()
	body := r.render(c, contract, pyjson.NewArray(pydanticai.NewRequest([]*pyjson.Value{ask}, 0, null, null, null)))
	if body == nil {
		return nil
	}
	return r.capturedBy(new(SealedTransport), body)
}

// capturedBy hands a request to a transport and reads back what that captured.
func (r *reconstruction) capturedBy(transport *SealedTransport, body []byte) *pyjson.Value {
	if r.refused = transport.Capture(body); r.refused != nil {
		return nil
	}
	v, err := pyjson.Parse(transport.Captured(), pyjson.Limits{Bytes: 2 * MaxRecordBytes, Depth: MaxRecordDepth, Nodes: MaxRecordNodes})
	if err != nil {
		r.hold("sandbox_stopped", details{"reason": "rendered request cannot be read back"})
		return nil
	}
	return v
}

// capture renders what would be sent next and keeps it as bytes (REC-05), and compares what the installed entry point renders with
// the derived contract: element by element, and as rendered. The evidence tool's description and parameters are the registered
// successors; everything else is what the record had (REC-08, REC-09, REC-11, SDK-19).
func (r *reconstruction) capture() {
	derived := r.derived.Get("contract")
	body := r.render(r.target, derived, r.derived.Get("history"))
	if body == nil {
		return
	}
	if r.refused = r.transport.Capture(body); r.refused != nil {
		return
	}
	r.out.NextRequest = body
	if path := changedElsewhere(r.target.root, r.derived, r.target.toolIndex(r.catalogue.Tools.EvidenceRead)); path != "" {
		r.hold("contract_changed", details{"path": plainPath(path)})
		return
	}
	document, rendered := r.enter(derived)
	if document == nil {
		return
	}
	if d := pyjson.Diff(derived, document.Get("contract"), 1); len(d) > 0 {
		r.hold("contract_changed", details{"path": plainPath("/contract" + d[0].Path), "with": "installed"})
		return
	}
	if own := r.rendered(derived); own == nil {
		return
	} else if d := pyjson.Diff(own, rendered, 1); len(d) > 0 {
		r.hold("contract_changed", details{"path": plainPath("/request" + d[0].Path), "with": "installed"})
		return
	}
	r.out.Result.EntryPoint = r.catalogue.EntryPoint.Digest
	r.out.Contract = pyjson.Encode(document)
}

// changedElsewhere compares a projected record with the one derived from it, as canonical JSON with types and number text kept, and
// returns the path of the first difference that is none of those permitted, "" for none. Permitted are the evidence tool's
// description and parameters (REC-10), what stands behind the stored history, the usage that the consumed response was added to,
// and the members that say where a record comes from.
func changedElsewhere(projected, derived *pyjson.Value, evidence int) string {
	for _, member := range []string{"state", "limits", "record", "versions"} {
		if d := pyjson.Diff(projected.Get(member), derived.Get(member), 1); len(d) > 0 {
			return "/" + member + d[0].Path
		}
	}
	stored, history := projected.Get("history"), derived.Get("history")
	if n := len(stored.Items); len(history.Items) < n {
		return "/history"
	} else if d := pyjson.Diff(stored, pyjson.NewArray(history.Items[:n]...), 1); len(d) > 0 {
		return "/history" + d[0].Path
	}
	before, after := projected.Get("usage"), derived.Get("usage")
	for _, m := range before.Members {
		now := after.Get(m.Name)
		a, counted := m.Value.Int()
		b, still := now.Int()
		if counted != still || counted && b < a || !counted && m.Name != "details" && m.Name != "audio_seconds" && !pyjson.Equal(m.Value, now) {
			return "/usage" + pyjson.Pointer(m.Name)
		}
	}
	permitted := "/tools/" + itoa(evidence) + "/"
	for _, d := range pyjson.Diff(projected.Get("contract"), derived.Get("contract"), MaxRecordNodes) {
		rest, inside := strings.CutPrefix(d.Path, permitted)
		if step, _, _ := strings.Cut(rest, "/"); !inside || step != "description" && step != "parameters_json_schema" {
			return "/contract" + d.Path
		}
	}
	return ""
}
