package agentic

import (
	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
)

// What may be appended: the two fixed results (REC-04, OBS-11) or the retained outcome of that very call (OBS-15).
const (
	resultInvalidQuery = "invalid_query"
	resultUnavailable  = "observation_unavailable"
	resultRetained     = "retained"
	unavailableReason  = "original_read_result_not_retained"
)

// closingOf returns the value and outcome that close the call at a position, and the name of that result.
func (r *reconstruction) closingOf(i int) (content *pyjson.Value, outcome, result string) {
	if kept, ok := r.retained[i]; ok {
		return kept, "success", resultRetained
	}
	result = resultUnavailable
	if r.classes[i] == classEvidence {
		result = resultInvalidQuery
	}
	content, outcome = fixedResult(result)
	return content, outcome, result
}

// fixedResult returns the JSON value of a result and the outcome that the SDK records with it (O10).
func fixedResult(result string) (content *pyjson.Value, outcome string) {
	status := pyjson.Member{Name: "status", Value: pyjson.NewString(result)}
	if result == resultInvalidQuery {
		return pyjson.NewObject(status), "success"
	}
	return pyjson.NewObject(status, pyjson.Member{Name: "reason", Value: pyjson.NewString(unavailableReason)}), "interrupted"
}

// derive appends the response and one request with the fixed results, catches the usage up once, and makes the two permitted
// changes of the contract (OBS-20 to 22, REC-10, REC-12). New metadata comes from the instant of consumption and the identifiers
// of the last stored message.
func (r *reconstruction) derive() {
	c, at := r.target, r.params.ConsumedAtUS
	last := c.last()
	var closing []*pyjson.Value
	for i, call := range r.found {
		content, outcome, result := r.closingOf(i)
		if result == resultInvalidQuery {
			r.out.Result.FixedOutcomes++
		}
		closing = append(closing, pydanticai.ToolReturnPart(call.Tool, call.ID, content, outcome, at))
		r.out.Result.Closing = append(r.out.Result.Closing, Closing{int64(i), result})
	}
	request := pydanticai.NewRequest(closing, at, last.Get("instructions"), last.Get("run_id"), last.Get("conversation_id"))
	usage, problem := pydanticai.AddUsage(c.usage(), r.answer.usage(), int64(len(r.found)))
	if problem != nil {
		r.hold("counter_out_of_bounds", details{"path": plainPath("/usage" + problem.Path)})
		return
	}
	r.answered()
	contract := r.successor(c.contract())
	if contract == nil {
		return
	}
	to := r.catalogue.source(r.transition.To).PromptCatalog
	history := pyjson.NewArray(append(append([]*pyjson.Value{}, c.history().Items...), r.answer.message, request)...)
	r.out.Result.HistoryMessages = int64(len(history.Items))
	// Sorted, because the next worker reads the record and not this tree.
	r.derived = pyjson.Sorted(c.root.
		With("history", history).
		With("usage", usage).
		With("contract", contract).
		With("prompt_catalog", object("digest", pyjson.NewString(to.Digest), "version", pyjson.NewString(to.Version))).
		With("compatibility", r.compatibility()))
	r.out.Derived = pyjson.Encode(r.derived)
	// What is handed on must be readable as a record again, within the same bounds (SDK-06, CRED-07).
	if _, h := parseRecord(r.out.Derived); h != nil {
		r.out.Result.Holds = append(r.out.Result.Holds, *h)
		return
	}
	r.out.Witness = pyjson.Encode(r.witness(r.answer.message, request))
}

// compatibility names the registered SDK transition (SDK-13). A record that already follows a derived one keeps its own: the SDK that
// the run was registered under stays the same, however often it is continued.
func (r *reconstruction) compatibility() *pyjson.Value {
	s := pyjson.NewString
	kept := r.target.root.Get("compatibility")
	if !kept.Is(pyjson.Object) {
		kept = object("prompt_from", s(r.source.PromptCatalog.Version), "prompt_to", s(r.catalogue.EntryPoint.Prompt),
			"source_identity", s(r.source.Identity), "transition", s(r.transition.Identity))
	}
	return kept.With("consumed_at", s(pydanticai.FormatInstant(r.params.ConsumedAtUS))).With("derived_from", s(r.original()))
}

// original is the digest of the stored record, which several places name.
func (r *reconstruction) original() string {
	if r.recordDigest == "" {
		r.recordDigest = sha256Hex(r.record)
	}
	return r.recordDigest
}

// object makes an object of names and values in turn.
func object(pairs ...any) *pyjson.Value {
	o := pyjson.NewObject()
	for i := 0; i < len(pairs); i += 2 {
		o.Members = append(o.Members, pyjson.Member{Name: pairs[i].(string), Value: pairs[i+1].(*pyjson.Value)})
	}
	return o
}

// answered checks that the address which answered last is the contract's: the new message will name it.
func (r *reconstruction) answered() {
	c := r.target
	for i := len(c.history().Items) - 1; i >= 0; i-- {
		if m := c.history().Items[i]; pydanticai.IsResponse(m) {
			if url, ok := m.Get("provider_url").Str(); ok && url != r.answer.message.Get("provider_url").Text {
				r.hold("contract_changed", details{"path": "/contract/model/base_url"})
			}
			return
		}
	}
}

// successor returns a contract with the evidence tool's schema and description replaced by the registered successors. The old ones
// must be the registered ones of the source's prompt (O5, REC-10); otherwise there is a hold and no contract.
func (r *reconstruction) successor(contract *pyjson.Value) *pyjson.Value {
	index := r.checkpoint.toolIndex(r.catalogue.Tools.EvidenceRead)
	path := "/contract/tools/" + itoa(index)
	tool := contract.Get("tools").Items[index]
	from, to := r.prompts()
	if d, ok := tool.Get("description").Str(); !ok || d != from.Description {
		r.hold("contract_changed", details{"path": path + "/description"})
	}
	if !pyjson.Equal(tool.Get("parameters_json_schema"), from.schema) {
		r.hold("contract_changed", details{"path": path + "/parameters_json_schema"})
	}
	if len(r.out.Result.Holds) > 0 {
		return nil
	}
	return succeeded(contract, index, to)
}

// prompts are the registered texts of the evidence tool, before and after.
func (r *reconstruction) prompts() (from, to PromptElement) {
	return r.catalogue.Prompts[r.source.PromptCatalog.Version].ReadRunEvidence, r.catalogue.Prompts[r.catalogue.EntryPoint.Prompt].ReadRunEvidence
}

func succeeded(contract *pyjson.Value, index int, to PromptElement) *pyjson.Value {
	tools := append([]*pyjson.Value{}, contract.Get("tools").Items...)
	tools[index] = tools[index].With("description", pyjson.NewString(to.Description)).With("parameters_json_schema", to.schema)
	return contract.With("tools", pyjson.NewArray(tools...))
}

// witness says what the derived record changes and why, by digest where outsiders compare and by value where the value is fixed.
func (r *reconstruction) witness(response, request *pyjson.Value) *pyjson.Value {
	s := pyjson.NewString
	index := r.checkpoint.toolIndex(r.catalogue.Tools.EvidenceRead)
	path := "/contract/tools/" + itoa(index)
	from, to := r.prompts()
	change := func(path, from, to string) *pyjson.Value {
		return object("from_sha256", s(from), "path", s(path), "to_sha256", s(to))
	}
	closing := pyjson.NewArray()
	for i, c := range r.out.Result.Closing {
		content, outcome, result := r.closingOf(i)
		line := object("content", content, "outcome", s(outcome), "position", pyjson.NewInt(c.Position), "tool_call_id", s(r.found[i].ID))
		if result == resultRetained {
			// By digest: the value is content of the run, and stands in the derived record.
			line = line.Without("content").With("content_sha256", s(sha256Hex(r.outcomes[i])))
		}
		closing.Items = append(closing.Items, line)
	}
	stored := r.checkpoint.history()
	prefix := sha256Hex(pyjson.Encode(stored))
	projected := prefix
	if r.target.history() != stored {
		projected = sha256Hex(pyjson.Encode(r.target.history()))
	}
	var changes []*pyjson.Value
	if r.source.PromptCatalog.Version != r.catalogue.EntryPoint.Prompt {
		changes = append(changes,
			change(path+"/description", sha256Hex([]byte(from.Description)), sha256Hex([]byte(to.Description))),
			change(path+"/parameters_json_schema", sha256Hex(pyjson.Encode(from.schema)), sha256Hex(pyjson.Encode(to.schema))))
	}
	return object(
		"closing", closing,
		"contract_changes", pyjson.NewArray(changes...),
		"consumed_at_us", pyjson.NewInt(r.params.ConsumedAtUS),
		"derived_sha256", s(sha256Hex(r.out.Derived)),
		"entry_point", object("digest", s(r.catalogue.EntryPoint.Digest), "name", s(r.catalogue.EntryPoint.Name), "prompt", s(r.catalogue.EntryPoint.Prompt)),
		"history", object("appended_sha256", s(sha256Hex(pyjson.Encode(pyjson.NewArray(response, request)))),
			"prefix_messages", pyjson.NewInt(int64(len(stored.Items))), "prefix_sha256", s(prefix), "projected_prefix_sha256", s(projected)),
		"original_sha256", s(r.original()),
		"projection", r.projection(),
		"reader", s(r.params.Reader),
		"record", s("agentic-witness/1"),
		"response_sha256", s(sha256Hex(r.transport.response)),
		"runtime", s(r.params.Runtime),
		"source_identity", s(r.source.Identity),
		"transition", s(r.transition.Identity),
		"usage", object("after", r.derived.Get("usage"), "before", r.checkpoint.usage(), "response", r.answer.usage()),
		"validator", s(r.params.Validator),
		"version", pyjson.NewInt(r.out.Result.Version),
	)
}
