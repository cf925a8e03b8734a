package agentic

import (
	"github.com/forge-continuity/forge/adapters/openai"
	"github.com/forge-continuity/forge/adapters/pyjson"
)

// capture renders what would be sent next, keeps it as bytes, and reads the contract back from bytes that were rendered against a
// transport of its own (REC-05, REC-08, REC-11). Only the evidence tool's description and parameters may differ from what the
// stored contract renders to.
func (r *reconstruction) capture() {
	body := r.render(r.derived.Get("contract"), r.derived.Get("history"))
	if body == nil {
		return
	}
	if r.refused = r.transport.Capture(body); r.refused != nil {
		return
	}
	r.out.NextRequest = body
	// The stored history is the same in both renderings, so that contracts are all that can differ.
	before, after := r.rendered(r.checkpoint.contract()), r.rendered(r.derived.Get("contract"))
	if before == nil || after == nil {
		return
	}
	index := r.checkpoint.toolIndex(r.catalogue.Tools.EvidenceRead)
	plain := func(v *pyjson.Value) *pyjson.Value {
		tools := append([]*pyjson.Value{}, v.Get("tools").Items...)
		function := tools[index].Get("function").Without("description").Without("parameters")
		// Whether a schema is fit for the provider's strict mode follows from the schema.
		tools[index] = tools[index].With("function", function.Without("strict"))
		return v.With("tools", pyjson.NewArray(tools...))
	}
	if d := pyjson.Diff(plain(before), plain(after), 1); len(d) > 0 {
		r.hold("contract_changed", details{"path": plainPath("/request" + d[0].Path)})
		return
	}
	r.out.Contract = pyjson.Encode(object(
		"contract", r.derived.Get("contract"),
		"entry_point", object("name", pyjson.NewString(r.catalogue.EntryPoint.Name), "prompt", pyjson.NewString(r.catalogue.EntryPoint.Prompt)),
		"record", pyjson.NewString("agentic-contract/1"),
		"rendered", after.Without("messages").With("instructions", leading(after.Get("messages"), len(r.checkpoint.contract().Get("instructions").Items)))))
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

// rendered runs the entry point against a transport that only captures, and reads the captured bytes back.
func (r *reconstruction) rendered(contract *pyjson.Value) *pyjson.Value {
	body := r.render(contract, r.checkpoint.history())
	if body == nil {
		return nil
	}
	var second SealedTransport
	if r.refused = second.Capture(body); r.refused != nil {
		return nil
	}
	v, err := pyjson.Parse(second.Captured(), pyjson.Limits{Bytes: 2 * MaxRecordBytes, Depth: MaxRecordDepth, Nodes: MaxRecordNodes})
	if err != nil {
		r.hold("sandbox_stopped", details{"reason": "rendered request cannot be read back"})
		return nil
	}
	return v
}

// render returns the body of a request, or adds a hold where the request uses something that is not rendered here.
func (r *reconstruction) render(contract, history *pyjson.Value) []byte {
	model, output := contract.Get("model"), contract.Get("output")
	request := openai.Request{
		Version: r.checkpoint.Version, Model: model.Get("name").Text, Settings: model.Get("settings"), Tools: contract.Get("tools").Items,
		OutputTools: output.Get("output_tools").Items, AllowText: output.Get("allow_text_output").IsTrue(), History: history,
	}
	for _, i := range contract.Get("instructions").Items {
		request.Instructions = append(request.Instructions, i.Get("content").Text)
	}
	mode := output.Get("output_mode").Text
	if mode != "text" && mode != "tool" || output.Get("allow_image_output").IsTrue() {
		r.hold("sandbox_stopped", details{"reason": "request_not_rendered", "path": "/contract/output"})
		return nil
	}
	body, err := openai.Build(request)
	if err != nil {
		d := details{"reason": "request_not_rendered"}
		if no, ok := err.(*openai.UnsupportedError); ok {
			d["path"] = plainPath(no.Path)
		}
		r.hold("sandbox_stopped", d)
		return nil
	}
	return body
}
