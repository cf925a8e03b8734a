package agentic

import (
	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
)

// projected is what the SDK projection took away or set, for the witness.
type projected struct {
	provenance *pyjson.Value // the members that were left out, with their exact values
	kinds      *pyjson.Value // for each static function tool whether tool_kind was there
	digests    int64         // null history_digest members left out
	defaults   int64         // default scopes and null metadata of system prompts left out
}

// project makes the record one of the transition's target (spec, Historical SDK migration). Only three places change: the MCP
// telemetry members of the contract leave, each static function tool ends with a null tool_kind, and the members that say which
// source a record belongs to name the target. What the target's SDK would not write back is a hold: nothing is lost silently. The
// two members of messages that the target does not have leave too where they say nothing, as decision 0001 explains.
func (r *reconstruction) project() {
	c := r.checkpoint
	contract, p := r.projectContract(c.contract())
	r.projected = p
	if len(r.out.Result.Holds) > 0 {
		return
	}
	history := c.history()
	if r.transition.Projection == Project2580 {
		history = r.projectHistory(history)
	}
	to := r.catalogue.source(r.transition.To)
	root := c.root.With("contract", contract).With("history", history).With("source_identity", pyjson.NewString(to.Identity)).
		With("dependency_epoch", pyjson.NewString(to.DependencyEpoch)).
		With("versions", object("firefly_agentic", pyjson.NewString(to.FireflyAgentic), "pydantic_ai", pyjson.NewString(to.PydanticAI)))
	if r.transition.Projection == ProjectNone { // the same format, which form has checked
		target := *c
		target.root, target.SourceIdentity, target.DependencyEpoch = root, to.Identity, to.DependencyEpoch
		r.target = &target
		return
	}
	check := recordChecker{catalogue: r.catalogue, places: map[string][]string{}}
	r.target = check.check(root)
	// A member that the target does not have would be dropped by it.
	for _, path := range check.places["checkpoint_field_unknown"] {
		check.add("round_trip_loss", path)
	}
	delete(check.places, "checkpoint_field_unknown")
	r.out.Result.Holds = append(r.out.Result.Holds, check.holds()...)
}

// projectContract leaves out the source's telemetry members and settles tool_kind (SDK-09 to SDK-12, SDK-14 to SDK-17).
func (r *reconstruction) projectContract(contract *pyjson.Value) (*pyjson.Value, projected) {
	p := projected{provenance: object(), kinds: pyjson.NewArray()}
	places := recordChecker{places: map[string][]string{}}
	for _, member := range r.origin.Provenance {
		v := contract.Get(member.Member)
		if v == nil && r.origin != r.source {
			continue // a record of the target has none
		}
		if !member.permits(v) {
			places.add("provenance_unsupported", "/contract"+pyjson.Pointer(member.Member))
			continue
		}
		p.provenance = p.provenance.With(member.Member, v)
		contract = contract.Without(member.Member)
	}
	settle := func(tools *pyjson.Value, path string) *pyjson.Value {
		out := pyjson.NewArray()
		for i, tool := range tools.Items {
			if kind, _ := tool.Get("kind").Str(); kind == "function" {
				at := path + pyjson.Pointer(itoa(i))
				v := tool.Get("tool_kind")
				if v != nil && !v.Is(pyjson.Null) {
					places.add("tool_kind_unsupported", at+"/tool_kind")
				}
				p.kinds.Items = append(p.kinds.Items, object("path", pyjson.NewString(at), "present", pyjson.NewBool(v != nil)))
				tool = tool.With("tool_kind", pyjson.NewNull())
			}
			out.Items = append(out.Items, tool)
		}
		return out
	}
	contract = contract.With("tools", settle(contract.Get("tools"), "/contract/tools"))
	output := contract.Get("output")
	contract = contract.With("output", output.With("output_tools", settle(output.Get("output_tools"), "/contract/output/output_tools")))
	r.out.Result.Holds = append(r.out.Result.Holds, places.holds()...)
	return contract, p
}

// permits reports whether a telemetry member has one of its states: null (unknown) or [] (a collector found none). Absent is
// neither (O14).
func (p Provenance) permits(v *pyjson.Value) bool {
	state := ""
	switch {
	case v.Is(pyjson.Null):
		state = "null"
	case v.Is(pyjson.Array) && len(v.Items) == 0:
		state = "empty"
	}
	return contains(p.Allowed, state)
}

// projectHistory leaves out what only 2.58.0 writes and what says nothing: a null history_digest, and the default scope and null
// metadata of a system prompt. Other values stay, and the target's check holds on them.
func (r *reconstruction) projectHistory(history *pyjson.Value) *pyjson.Value {
	out := pyjson.NewArray()
	for _, message := range history.Items {
		if pydanticai.IsResponse(message) && message.Get("history_digest").Is(pyjson.Null) {
			message = message.Without("history_digest")
			r.projected.digests++
		}
		if pydanticai.IsRequest(message) {
			message = message.With("parts", r.projectParts(message.Get("parts")))
		}
		out.Items = append(out.Items, message)
	}
	return out
}

func (r *reconstruction) projectParts(parts *pyjson.Value) *pyjson.Value {
	out := pyjson.NewArray()
	for _, part := range parts.Items {
		if kind, _ := part.Get("part_kind").Str(); kind == "system-prompt" {
			plain := part
			if scope, _ := part.Get("scope").Str(); scope == "conversation" {
				plain = plain.Without("scope")
			}
			if part.Get("metadata").Is(pyjson.Null) {
				plain = plain.Without("metadata")
			}
			r.projected.defaults += int64(len(part.Members) - len(plain.Members))
			part = plain
		}
		out.Items = append(out.Items, part)
	}
	return out
}

// projection is what the witness says of it: the exact values that left with a hash that recomputes, and what was there of each
// tool (SDK-09, SDK-11, SDK-16).
func (r *reconstruction) projection() *pyjson.Value {
	p := r.projected
	return object(
		"history_digest_null", pyjson.NewInt(p.digests),
		"name", pyjson.NewString(r.transition.Projection),
		"provenance", p.provenance,
		"provenance_sha256", pyjson.NewString(sha256Hex(pyjson.Encode(p.provenance))),
		"system_prompt_defaults", pyjson.NewInt(p.defaults),
		"tool_kind_present", p.kinds)
}
