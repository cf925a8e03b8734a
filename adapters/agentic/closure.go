package agentic

import (
	"github.com/forge-continuity/forge/adapters/pyjson"
)

// Closure is what the journal and the run's registration say beside checkpoint and response. The record must say the same, or
// request, checkpoint and response are not one closed set (ELIG-02).
type Closure struct {
	Contract []byte // as registered
	Wire     []byte // of the request that the checkpoint was saved for
}

// Before is what the run had spent when that request was about to leave, by its rows.
type Before struct {
	CompletedRounds int64 `json:"completed_rounds"`
	InputTokens     int64 `json:"input_tokens"`
	OutputTokens    int64 `json:"output_tokens"`
	Requests        int64 `json:"requests"`
	ToolCalls       int64 `json:"tool_calls"` // granted: at least as many as the SDK counts, which counts those that succeeded
}

// Limits are the registered allowances that the SDK also knows.
type Limits struct {
	Attempts     int64 `json:"attempts"`
	Commands     int64 `json:"commands"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	Repairs      int64 `json:"repairs"`
	Requests     int64 `json:"requests"`
	SourceReads  int64 `json:"source_reads"`
	ToolCalls    int64 `json:"tool_calls"`
	TotalTokens  int64 `json:"total_tokens"`
}

// Pending renders the request that a checkpoint record is pending on, as the SDK that wrote it sends it. Holds say why it
// cannot be rendered here.
func Pending(catalogue *Catalogue, checkpoint []byte) ([]byte, []Hold) {
	r := reconstruction{catalogue: catalogue, record: checkpoint}
	if r.form(); r.checkpoint == nil || !r.wired(r.checkpoint) {
		return nil, r.out.Result.Holds
	}
	return r.render(r.checkpoint, r.checkpoint.contract(), r.checkpoint.history()), r.out.Result.Holds
}

// inForce is the contract that a record of this run must have: the registered one, or for a record that follows a derived one what
// the run's own transition made of it. Nil means a hold.
func (r *reconstruction) inForce(registered *pyjson.Value) *pyjson.Value {
	if r.origin == r.source && !r.checkpoint.root.Get("compatibility").Is(pyjson.Object) {
		return registered
	}
	index := -1
	for i, tool := range registered.Get("tools").Items {
		if name, _ := tool.Get("name").Str(); name == r.catalogue.Tools.EvidenceRead {
			index = i
		}
	}
	if index < 0 || !registered.Get("output").Get("output_tools").Is(pyjson.Array) {
		r.hold("closure_incomplete", details{"differs": "registered contract"})
		return nil
	}
	contract, _ := r.projectContract(registered)
	if len(r.out.Result.Holds) > 0 {
		return nil
	}
	return succeeded(contract, index, r.catalogue.Prompts[r.catalogue.EntryPoint.Prompt].ReadRunEvidence)
}

// closure lays the record beside the rows: the contract is the registered one, limits and usage are those of the run, and the
// request that the record renders is the one that was sent, byte for byte. A worker that saved another record than it used is
// found here, and not handed on.
func (r *reconstruction) closure() {
	if r.closed == nil {
		return
	}
	contract, err := pyjson.Parse(r.closed.Contract, pyjson.Limits{Bytes: MaxRecordBytes, Depth: MaxRecordDepth, Nodes: MaxRecordNodes})
	if err != nil {
		r.hold("closure_incomplete", details{"differs": "registered contract"})
		return
	}
	if contract = r.inForce(contract); contract == nil {
		return
	}
	if d := pyjson.Diff(contract, r.checkpoint.contract(), 1); len(d) > 0 {
		r.hold("contract_changed", details{"path": plainPath("/contract" + d[0].Path)})
		return
	}
	limits, usage, l, b := r.checkpoint.root.Get("limits"), r.checkpoint.usage(), r.params.Limits, r.params.Before
	for _, c := range []struct {
		in    *pyjson.Value
		name  string
		want  int64
		least int64 // 0 where it must be want itself
	}{
		{limits, "request_limit", l.Requests, l.Requests},
		{limits, "tool_calls_limit", l.ToolCalls, l.ToolCalls},
		{limits, "input_tokens_limit", l.InputTokens, l.InputTokens},
		{limits, "output_tokens_limit", l.OutputTokens, l.OutputTokens},
		{limits, "total_tokens_limit", l.TotalTokens, l.TotalTokens},
		{r.checkpoint.root.Get("state"), "completed_rounds", b.CompletedRounds, b.CompletedRounds},
		{usage, "requests", b.Requests, b.Requests},
		{usage, "input_tokens", b.InputTokens, b.InputTokens},
		{usage, "output_tokens", b.OutputTokens, b.OutputTokens},
		{usage, "tool_calls", b.ToolCalls, 0},
	} {
		if n, ok := c.in.Get(c.name).Int(); !ok || n > c.want || n < c.least {
			r.hold("closure_incomplete", details{"differs": c.name})
		}
	}
	if len(r.out.Result.Holds) > 0 {
		return
	}
	body := r.render(r.checkpoint, r.checkpoint.contract(), r.checkpoint.history())
	if body != nil && !sentAs(readModel(r.checkpoint.contract()), body, r.closed.Wire) {
		r.hold("closure_incomplete", details{"differs": "wire bytes"})
	}
}
