package agentic

import (
	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/models/guestabi"
)

// ObserveParams are the parameters of observe, as those of reconstruct.
type ObserveParams struct {
	Acknowledgement string `json:"acknowledgement"`
	ConsumedAtUS    int64  `json:"consumed_at_us"`
	Mode            string `json:"mode"`
	Reader          string `json:"reader"`
	Runtime         string `json:"runtime"`
	Selection       string `json:"selection"`
	Validator       string `json:"validator"`
}

// Observe derives the checkpoint that follows a consumed response of a continuation whose evidence read gave a result that could
// not be kept. The record is a derived one, under the entry point's own prompt; the evidence call is closed as unavailable, and a
// list_files call beside it by its retained outcome, which must be there. Nothing else of the record changes: what is handed on is
// compared with the record and the response, whole (ROBS-12, 13, 16 to 18).
func Observe(catalogue *Catalogue, checkpoint, response []byte, outcomes map[int][]byte, p ObserveParams) (*Reconstruction, *guestabi.Refusal) {
	if p.ConsumedAtUS <= 0 || p.ConsumedAtUS > pydanticai.MaxInstantUS {
		return nil, malformed("consumed_at_us", "not an instant")
	}
	r := reconstruction{catalogue: catalogue, record: checkpoint, transport: Seal(response), outcomes: outcomes, params: Params{
		Acknowledgement: p.Acknowledgement, ConsumedAtUS: p.ConsumedAtUS, Mode: p.Mode, Reader: p.Reader, Runtime: p.Runtime,
		Selection: p.Selection, Validator: p.Validator}}
	r.out.Result = Result{Calls: []ResultCall{}, Closing: []Closing{}, Holds: []Hold{}}
	for _, step := range []func(){r.form, r.continued, r.project, r.parse, r.content, r.observed, r.arguments, r.counters, r.observe} {
		step()
		if r.refused != nil {
			return nil, r.refused
		}
		if len(r.out.Result.Holds) > 0 {
			sortHolds(r.out.Result.Holds)
			r.out.Derived, r.out.Witness, r.out.NextRequest = nil, nil, nil
			r.out.Result.Closing = []Closing{}
			break
		}
	}
	r.out.Result.Served = int64(r.transport.Served())
	return &r.out, nil
}

// continued is registered for a record that follows a derived one, and for no other.
func (r *reconstruction) continued() {
	if r.registered(); !r.checkpoint.root.Get("compatibility").Is(pyjson.Object) {
		r.hold("source_unregistered", details{"path": "/compatibility"})
	}
}

// observed finds the shape: one evidence read, and at most one list_files call with its retained outcome (ROBS-07, ROBS-08, ROBS-10).
func (r *reconstruction) observed() {
	r.calls()
	evidence, lists := 0, 0
	for _, class := range r.classes {
		switch class {
		case classEvidence:
			evidence++
		case classObservation:
			lists++
		}
	}
	// What reconstruct says of its own versions is not asked here; what stands in the way of both is.
	var holds []Hold
	for _, h := range r.out.Result.Holds {
		switch h.Code {
		case "evidence_call_not_single", "sibling_present":
		default:
			holds = append(holds, h)
		}
	}
	r.out.Result.Holds = holds
	if evidence != 1 || lists > 1 || lists != len(r.retained) {
		r.hold("observation_turn_unsupported", details{"evidence_reads": evidence, "observations": lists, "retained": len(r.retained)})
	}
	r.out.Result.Version = 1
}

// closingObserved closes the evidence read as unavailable and a list by its own outcome.
func (r *reconstruction) closingObserved(i int) (content *pyjson.Value, outcome, result string) {
	if kept, ok := r.retained[i]; ok {
		return kept, "success", resultRetained
	}
	content, outcome = fixedResult(resultUnavailable)
	return content, outcome, resultUnavailable
}

func (r *reconstruction) observe() {
	c, at, response := r.target, r.params.ConsumedAtUS, r.answer.message
	last := c.last()
	var closing []*pyjson.Value
	lines := pyjson.NewArray()
	for i, call := range r.found {
		content, outcome, result := r.closingObserved(i)
		closing = append(closing, pydanticai.ToolReturnPart(call.Tool, call.ID, content, outcome, at))
		r.out.Result.Closing = append(r.out.Result.Closing, Closing{int64(i), result})
		line := object("outcome", pyjson.NewString(outcome), "position", pyjson.NewInt(int64(i)), "result", pyjson.NewString(result),
			"tool_call_id", pyjson.NewString(call.ID))
		if result == resultRetained {
			line = line.With("content_sha256", pyjson.NewString(sha256Hex(r.outcomes[i])))
		}
		lines.Items = append(lines.Items, line)
	}
	request := pydanticai.NewRequest(closing, at, last.Get("instructions"), last.Get("run_id"), last.Get("conversation_id"))
	usage, problem := pydanticai.AddUsage(c.usage(), r.answer.usage(), int64(len(r.found)))
	if problem != nil {
		r.hold("counter_out_of_bounds", details{"path": plainPath("/usage" + problem.Path)})
		return
	}
	history := pyjson.NewArray(append(append([]*pyjson.Value{}, c.history().Items...), response, request)...)
	r.out.Result.HistoryMessages = int64(len(history.Items))
	want := c.root.With("history", history).With("usage", usage)
	r.derived = pyjson.Sorted(want.With("compatibility", r.compatibility()))
	r.out.Derived = pyjson.Encode(r.derived)
	got, h := parseRecord(r.out.Derived)
	if h != nil {
		r.out.Result.Holds = append(r.out.Result.Holds, *h)
		return
	}
	sent, after := r.render(c, c.contract(), c.history()), r.render(c, r.derived.Get("contract"), r.derived.Get("history"))
	if sent == nil || after == nil {
		return
	}
	before := r.capturedBy(new(SealedTransport), sent)
	if before == nil {
		return
	}
	if r.refused = r.transport.Capture(after); r.refused != nil {
		return
	}
	next, err := pyjson.Parse(after, pyjson.Limits{Bytes: 2 * MaxRecordBytes, Depth: MaxRecordDepth, Nodes: MaxRecordNodes})
	if err != nil {
		r.hold("sandbox_stopped", details{"reason": "rendered request cannot be read back"})
		return
	}
	speaks, _ := readModel(c.contract()).codec()
	if path := reviewedDiffers(want, got, before, next, speaks.conversation); path != "" {
		r.hold("reviewed_history_differs", details{"path": plainPath(path)})
		return
	}
	r.out.NextRequest = after
	s := pyjson.NewString
	r.out.Witness = pyjson.Encode(object(
		"closing", lines, "consumed_at_us", pyjson.NewInt(at), "derived_sha256", s(sha256Hex(r.out.Derived)),
		"history", object("appended_sha256", s(sha256Hex(pyjson.Encode(pyjson.NewArray(response, request)))),
			"prefix_messages", pyjson.NewInt(int64(len(c.history().Items))), "prefix_sha256", s(sha256Hex(pyjson.Encode(c.history())))),
		"original_sha256", s(r.original()), "reader", s(r.params.Reader), "record", s("agentic-observation-witness/1"),
		"response_sha256", s(sha256Hex(r.transport.response)), "source_identity", s(r.source.Identity),
		"usage", object("after", usage, "before", c.usage(), "response", r.answer.usage())))
}

// reviewedDiffers compares what is handed on with what was reviewed, as canonical JSON with types and number text kept: message
// history, state, limits, usage and contract of the records, and of the requests everything but the messages that were added. It
// returns the path of the first difference, "" for none (ROBS-16 to 18).
func reviewedDiffers(want, got, before, next *pyjson.Value, conversation string) string {
	for _, member := range []string{"history", "state", "limits", "usage", "contract"} {
		a, b := want.Get(member), got.Get(member)
		if a == nil || b == nil {
			if a != b {
				return "/" + member
			}
			continue
		}
		if d := pyjson.Diff(a, b, 1); len(d) > 0 {
			return "/" + member + d[0].Path
		}
	}
	sent, then := before.Get(conversation), next.Get(conversation)
	if !sent.Is(pyjson.Array) || !then.Is(pyjson.Array) || len(then.Items) < len(sent.Items) {
		return "/request/" + conversation
	}
	prefix := next.With(conversation, pyjson.NewArray(then.Items[:len(sent.Items)]...))
	if d := pyjson.Diff(before, prefix, 1); len(d) > 0 {
		return "/request" + d[0].Path
	}
	return ""
}

// callObserve is the guest's function.
func callObserve(frames map[string][]byte, params canon.Raw) (*output, *guestabi.Refusal) {
	var p ObserveParams
	if err := canon.Unmarshal(params, &p); err != nil {
		return nil, malformed("params", "not the parameters of observe")
	}
	catalogue, err := catalogueOf(frames["catalogue"])
	if err != nil {
		return nil, malformed("catalogue", "not a catalogue that this module can use")
	}
	r, refused := Observe(catalogue, frames["checkpoint"], frames["response"], outcomesOf(frames), p)
	if refused != nil {
		return nil, refused
	}
	out := &output{result: r.Result}
	for _, f := range []struct {
		name string
		data []byte
	}{{"derived", r.Derived}, {"witness", r.Witness}, {"next_request", r.NextRequest}} {
		if f.data != nil {
			out.add(f.name, f.data)
		}
	}
	for i := range r.IDs {
		out.add("call_"+itoa(i)+"_id", r.IDs[i])
		out.add("call_"+itoa(i)+"_args", r.Args[i])
	}
	return out, nil
}
