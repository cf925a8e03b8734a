package agentic

import (
	"github.com/forge-continuity/forge/adapters/openai"
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
	c, at := r.checkpoint, r.params.ConsumedAtUS
	last := c.last()
	run, conversation := last.Get("run_id"), last.Get("conversation_id")
	response := pydanticai.NewResponse(c.Version, pydanticai.Response{
		Parts: r.response.Parts, Usage: r.response.Usage, ModelName: r.response.ModelName, AtUS: at, ProviderName: openai.ProviderName,
		ProviderURL: c.contract().At("model", "base_url").Text, ProviderDetails: r.response.ProviderDetails,
		ResponseID: r.response.ResponseID, FinishReason: r.response.FinishReason, RunID: run, ConversationID: conversation,
	})
	var closing []*pyjson.Value
	for i, call := range r.found {
		content, outcome, result := r.closingOf(i)
		if result == resultInvalidQuery {
			r.out.Result.FixedOutcomes++
		}
		closing = append(closing, pydanticai.ToolReturnPart(call.Tool, call.ID, content, outcome, at))
		r.out.Result.Closing = append(r.out.Result.Closing, Closing{int64(i), result})
	}
	request := pydanticai.NewRequest(closing, at, last.Get("instructions"), run, conversation)
	usage, problem := pydanticai.AddUsage(c.usage(), r.response.Usage, int64(len(r.found)))
	if problem != nil {
		r.hold("counter_out_of_bounds", details{"path": plainPath("/usage" + problem.Path)})
		return
	}
	contract := r.migrateContract()
	if contract == nil {
		return
	}
	to := r.catalogue.EntryPoint.Prompt
	history := pyjson.NewArray(append(append([]*pyjson.Value{}, c.history().Items...), response, request)...)
	r.out.Result.HistoryMessages = int64(len(history.Items))
	// Sorted, because the next worker reads the record and not this tree.
	r.derived = pyjson.Sorted(c.root.
		With("history", history).
		With("usage", usage).
		With("contract", contract).
		With("prompt_catalog", object("digest", pyjson.NewString(r.catalogue.Prompts[to].Digest), "version", pyjson.NewString(to))).
		With("compatibility", object(
			"consumed_at", pyjson.NewString(pydanticai.FormatInstant(at)),
			"derived_from", pyjson.NewString(sha256Hex(r.record)),
			"prompt_from", pyjson.NewString(c.Prompt.Version),
			"prompt_to", pyjson.NewString(to),
			"source_identity", pyjson.NewString(r.source.Identity),
			"transition", pyjson.NewString(*r.source.Transition))))
	r.out.Derived = pyjson.Encode(r.derived)
	// What is handed on must be readable as a record again, within the same bounds (SDK-06, CRED-07).
	if _, h := parseRecord(r.out.Derived); h != nil {
		r.out.Result.Holds = append(r.out.Result.Holds, *h)
		return
	}
	r.out.Witness = pyjson.Encode(r.witness(response, request))
}

// object makes an object of names and values in turn.
func object(pairs ...any) *pyjson.Value {
	o := pyjson.NewObject()
	for i := 0; i < len(pairs); i += 2 {
		o.Members = append(o.Members, pyjson.Member{Name: pairs[i].(string), Value: pairs[i+1].(*pyjson.Value)})
	}
	return o
}

// migrateContract returns the contract with the evidence tool's schema and description replaced by the registered successors. The
// old ones must be the registered ones of the source's prompt (O5, REC-10); otherwise there is a hold and no contract.
func (r *reconstruction) migrateContract() *pyjson.Value {
	contract := r.checkpoint.contract()
	index := r.checkpoint.toolIndex(r.catalogue.Tools.EvidenceRead)
	path := "/contract/tools/" + itoa(index)
	tool := contract.Get("tools").Items[index]
	// The response will name the contract's address as the one that answered; the last one that answered must be it.
	for i := len(r.checkpoint.history().Items) - 1; i >= 0; i-- {
		if m := r.checkpoint.history().Items[i]; pydanticai.IsResponse(m) {
			if url, ok := m.Get("provider_url").Str(); ok && url != contract.At("model", "base_url").Text {
				r.hold("contract_changed", details{"path": "/contract/model/base_url"})
			}
			break
		}
	}
	from := r.catalogue.Prompts[r.source.PromptCatalog.Version].ReadRunEvidence
	to := r.catalogue.Prompts[r.catalogue.EntryPoint.Prompt].ReadRunEvidence
	if d, ok := tool.Get("description").Str(); !ok || d != from.Description {
		r.hold("contract_changed", details{"path": path + "/description"})
	}
	if !pyjson.Equal(tool.Get("parameters_json_schema"), from.schema) {
		r.hold("contract_changed", details{"path": path + "/parameters_json_schema"})
	}
	if len(r.out.Result.Holds) > 0 {
		return nil
	}
	tools := append([]*pyjson.Value{}, contract.Get("tools").Items...)
	tools[index] = tool.With("description", pyjson.NewString(to.Description)).With("parameters_json_schema", to.schema)
	return contract.With("tools", pyjson.NewArray(tools...))
}

// witness says what the derived record changes and why, by digest where outsiders compare and by value where the value is fixed.
func (r *reconstruction) witness(response, request *pyjson.Value) *pyjson.Value {
	s := pyjson.NewString
	index := r.checkpoint.toolIndex(r.catalogue.Tools.EvidenceRead)
	path := "/contract/tools/" + itoa(index)
	from := r.catalogue.Prompts[r.source.PromptCatalog.Version].ReadRunEvidence
	to := r.catalogue.Prompts[r.catalogue.EntryPoint.Prompt].ReadRunEvidence
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
	kinds := pyjson.NewArray()
	for _, tool := range r.checkpoint.tools() {
		kinds.Items = append(kinds.Items, pyjson.NewBool(tool.Get("tool_kind") != nil))
	}
	stored := r.checkpoint.history()
	return object(
		"closing", closing,
		"contract_changes", pyjson.NewArray(
			change(path+"/description", sha256Hex([]byte(from.Description)), sha256Hex([]byte(to.Description))),
			change(path+"/parameters_json_schema", sha256Hex(pyjson.Encode(from.schema)), sha256Hex(pyjson.Encode(to.schema)))),
		"consumed_at_us", pyjson.NewInt(r.params.ConsumedAtUS),
		"derived_sha256", s(sha256Hex(r.out.Derived)),
		"entry_point", object("name", s(r.catalogue.EntryPoint.Name), "prompt", s(r.catalogue.EntryPoint.Prompt)),
		"history", object("appended_sha256", s(sha256Hex(pyjson.Encode(pyjson.NewArray(response, request)))),
			"prefix_messages", pyjson.NewInt(int64(len(stored.Items))), "prefix_sha256", s(sha256Hex(pyjson.Encode(stored)))),
		"original_sha256", s(sha256Hex(r.record)),
		"projection", object("provenance", object(), "tool_kind_present", kinds),
		"reader", s(r.params.Reader),
		"record", s("agentic-witness/1"),
		"response_sha256", s(sha256Hex(r.transport.response)),
		"runtime", s(r.params.Runtime),
		"source_identity", s(r.source.Identity),
		"transition", s(*r.source.Transition),
		"usage", object("after", r.derived.Get("usage"), "before", r.checkpoint.usage(), "response", r.response.Usage),
		"validator", s(r.params.Validator),
		"version", pyjson.NewInt(r.out.Result.Version),
	)
}
