package agentic

import (
	"slices"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/models/guestabi"
)

// MaxObservations bounds the unavailable reads beside one evidence read (O7). The recorded agents never sent more than four calls
// at once.
const MaxObservations = 16

// Params of reconstruct. Hashes are 64 hex digits; the three strings are those of the run's registration.
type Params struct {
	Acknowledgement string `json:"acknowledgement"`
	Before          Before `json:"before"`
	ConsumedAtUS    int64  `json:"consumed_at_us"` // native consumption instant, microseconds since 1970 UTC
	Limits          Limits `json:"limits"`
	Mode            string `json:"mode"`
	Reader          string `json:"reader"` // "" where none is named: then no version-2 proof is made
	Runtime         string `json:"runtime"`
	Selection       string `json:"selection"`
	Validator       string `json:"validator"`
}

// Result is the result of reconstruct. Positions count the tool calls of the response from 0.
type Result struct {
	Calls           []ResultCall `json:"calls"`
	Closing         []Closing    `json:"closing"`
	EntryPoint      string       `json:"entry_point,omitzero"` // digest of the one whose contract was captured, absent with holds
	FixedOutcomes   int64        `json:"fixed_outcomes"`       // 1 once the fixed validation outcome is accounted (REC-06)
	HistoryMessages int64        `json:"history_messages"`     // of the derived history, or of the stored one with holds
	Holds           []Hold       `json:"holds"`
	Served          int64        `json:"served"`  // how often the response was served
	Usage           ResultUsage  `json:"usage"`   // of the response
	Version         int64        `json:"version"` // of the proof: 1, 2, or 0 for neither
}

// ResultCall is one call: its tool as index in the frozen contract (-1 for none there) and its class.
type ResultCall struct {
	Class     string `json:"class"`
	Position  int64  `json:"position"`
	ToolIndex int64  `json:"tool_index"`
}

// Closing is a result that was appended: one of the two fixed ones, or the retained outcome of that very call.
type Closing struct {
	Position int64  `json:"position"`
	Result   string `json:"result"` // invalid_query, observation_unavailable or retained
}

// ResultUsage is what the provider counted for the response.
type ResultUsage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
}

// Reconstruction is what Reconstruct makes. The byte slices are nil while there are holds.
type Reconstruction struct {
	Result      Result
	Derived     []byte // checkpoint record, canonical
	Witness     []byte // what was changed, and why, canonical
	Contract    []byte // captured contract, canonical
	NextRequest []byte // the request that would follow, as the SDK would send it
	IDs, Args   [][]byte
}

// Reconstruct derives the checkpoint that follows a consumed response whose evidence query is known to be rejected. It is a pure
// function of its arguments; stored bytes are never changed. Steps, each hiding what is faulty in later ones: form of the record;
// registered identities and SDK pair; the closure with the journal; the SDK projection; the parser, served once; content kinds; calls;
// arguments against frozen schemas; the pinned validator; counters and contract.
func Reconstruct(catalogue *Catalogue, checkpoint, response []byte, p Params) (*Reconstruction, *guestabi.Refusal) {
	return ReconstructWith(catalogue, checkpoint, response, nil, nil, p)
}

// ReconstructWith is Reconstruct with the retained outcomes of some of the calls, by position: for each such call the outcome
// stands in the derived history in place of a fixed result (OBS-15, O7). An outcome is the canonical JSON value that the worker
// kept of a successful call; only a pure source observation may have one here. With a closure the record is also held against the
// journal; the guest's function always has one.
func ReconstructWith(catalogue *Catalogue, checkpoint, response []byte, closed *Closure, outcomes map[int][]byte, p Params) (*Reconstruction, *guestabi.Refusal) {
	if p.ConsumedAtUS <= 0 || p.ConsumedAtUS > pydanticai.MaxInstantUS {
		return nil, malformed("consumed_at_us", "not an instant")
	}
	r := reconstruction{catalogue: catalogue, params: p, record: checkpoint, transport: Seal(response), closed: closed, outcomes: outcomes}
	r.out.Result = Result{Calls: []ResultCall{}, Closing: []Closing{}, Holds: []Hold{}}
	for _, step := range []func(){r.form, r.registered, r.closure, r.project, r.parse, r.content, r.calls, r.arguments, r.validator, r.counters, r.derive, r.capture} {
		step()
		if r.refused != nil {
			return nil, r.refused
		}
		if len(r.out.Result.Holds) > 0 {
			sortHolds(r.out.Result.Holds)
			r.out.Derived, r.out.Witness, r.out.Contract, r.out.NextRequest = nil, nil, nil, nil
			r.out.Result.Closing, r.out.Result.FixedOutcomes, r.out.Result.EntryPoint = []Closing{}, 0, ""
			break
		}
	}
	r.out.Result.Served = int64(r.transport.Served())
	return &r.out, nil
}

type reconstruction struct {
	catalogue *Catalogue
	params    Params
	record    []byte
	transport *SealedTransport
	closed    *Closure
	outcomes  map[int][]byte

	checkpoint *Checkpoint // as stored
	source     *Source     // that the record belongs to
	origin     *Source     // that the run was registered under: another one once it was continued
	transition *Transition // from source
	target     *Checkpoint // the record after the SDK projection
	projected  projected
	answer     *consumed
	found      []pydanticai.Call
	classes    []string
	retained   map[int]*pyjson.Value // parsed outcomes, by position
	derived    *pyjson.Value
	out        Reconstruction
	refused    *guestabi.Refusal

	recordDigest string // original keeps it
}

func (r *reconstruction) hold(code string, d details) {
	r.out.Result.Holds = append(r.out.Result.Holds, newHold(code, d))
}

func (r *reconstruction) form() {
	checkpoint, holds := ParseCheckpoint(r.record, r.catalogue)
	r.checkpoint, r.out.Result.Holds = checkpoint, append(r.out.Result.Holds, holds...)
	if len(holds) == 1 && holds[0].Code == "unsupported_history_format" {
		// Nothing else of the record can be judged, but its versions can: a pair that is not the reviewed one (SDK-02).
		root, _ := parseRecord(r.record)
		format, _ := root.Get("record").Str()
		sdk, _ := root.At("versions", "pydantic_ai").Str()
		agentic, _ := root.At("versions", "firefly_agentic").Str()
		if format == RecordFormat {
			r.hold("sdk_pair_unsupported", details{"firefly_agentic": knownVersion(agentic), "pydantic_ai": knownVersion(sdk)})
		}
	}
	if checkpoint != nil {
		r.out.Result.HistoryMessages = int64(len(checkpoint.history().Items))
	}
}

// registered compares the record and the run's registration with the catalogue (ELIG-03, 04, OBS-04, SDK-01 to 04, EPOCH-02).
func (r *reconstruction) registered() {
	c, p := r.checkpoint, r.params
	r.source = r.catalogue.source(c.SourceIdentity)
	r.transition = r.catalogue.transition(r.source)
	if r.source == nil {
		r.hold("source_unregistered", details{"path": "/source_identity"})
	} else {
		for _, m := range []struct {
			path string
			same bool
		}{
			{"/versions/firefly_agentic", c.FireflyAgentic == r.source.FireflyAgentic},
			{"/versions/pydantic_ai", string(c.Version) == r.source.PydanticAI},
			{"/dependency_epoch", c.DependencyEpoch == r.source.DependencyEpoch},
			{"/prompt_catalog", c.Prompt == r.source.PromptCatalog},
			{"/compatibility", r.descends()},
		} {
			if !m.same {
				r.hold("source_unregistered", details{"path": m.path})
				break
			}
		}
		if r.origin != nil && p.Runtime != r.origin.Runtime {
			r.hold("runtime_unregistered", nil)
		}
	}
	if r.catalogue.validator(p.Validator) == nil || r.source != nil && !contains(r.source.Validators, p.Validator) {
		r.hold("validator_unregistered", details{"what": "validator"})
	}
	if p.Reader != "" && (!r.catalogue.hasReader(p.Reader) || r.source != nil && !contains(r.source.Readers, p.Reader)) {
		r.hold("reader_unregistered", nil)
	}
	if !r.catalogue.knowsEpoch(p.Selection, p.Mode, p.Acknowledgement) {
		r.hold("policy_epoch_unknown", nil)
	}
	// A version number alone qualifies nothing, and an unregistered source has no transition.
	if r.transition == nil || c.FireflyAgentic != r.source.FireflyAgentic || string(c.Version) != r.source.PydanticAI {
		r.hold("sdk_pair_unsupported", details{"firefly_agentic": knownVersion(c.FireflyAgentic), "pydantic_ai": string(c.Version)})
	}
	if len(r.out.Result.Holds) == 0 {
		r.wired(c)
	}
}

// descends finds the source that the run was registered under: the record's own, or for a record that follows a derived one that
// of the transition which its compatibility metadata names, and which must lead here.
func (r *reconstruction) descends() bool {
	r.origin = nil
	v := r.checkpoint.root.Get("compatibility")
	if !v.Is(pyjson.Object) {
		r.origin = r.source
		return true
	}
	t := r.catalogue.transitionNamed(v.Get("transition").Text)
	if t == nil || t.To != r.source.Identity || t.From != v.Get("source_identity").Text {
		return false
	}
	from := r.catalogue.source(t.From)
	if v.Get("prompt_from").Text != from.PromptCatalog.Version || v.Get("prompt_to").Text != r.source.PromptCatalog.Version {
		return false
	}
	r.origin = from
	return true
}

// knownVersion shows a version only if it has the form of one: the text is the record's.
func knownVersion(s string) string {
	if plainPath(s) != s || len(s) > 32 {
		return "~"
	}
	return s
}

// parse serves the response to the parser of the target's SDK version, once.
func (r *reconstruction) parse() {
	raw, refused := r.transport.Receive()
	if refused != nil {
		r.refused = refused
		return
	}
	if r.answer = r.read(raw); r.answer == nil {
		return
	}
	count := func(name string) int64 { n, _ := r.answer.usage().Get(name).Int(); return n }
	r.out.Result.Usage = ResultUsage{count("input_tokens"), count("output_tokens")}
}

func (r *reconstruction) content() {
	if len(r.answer.unsupported) == 0 {
		return
	}
	first := r.answer.unsupported[0]
	d := details{"kind": first.Kind, "path": plainPath(first.Path)}
	var more []string
	for _, u := range r.answer.unsupported[1:] {
		more = append(more, u.Kind)
	}
	if more != nil {
		d["more_kinds"] = more
	}
	r.hold("response_content_unsupported", d)
}

// calls finds the shape: one evidence read alone is version 1, with list_files only beside it version 2 (ELIG-05, 10, 11, OBS-01,
// 16, 17, 19).
func (r *reconstruction) calls() {
	r.found = pydanticai.Calls(r.answer.message, 0)
	used := map[string]bool{}
	for i, m := range r.target.history().Items {
		for _, call := range pydanticai.Calls(m, i) {
			used[call.ID] = true
		}
	}
	at := map[string][]int{} // positions by code
	evidence, observations := 0, 0
	for i, call := range r.found {
		index := r.checkpoint.toolIndex(call.Tool)
		class := r.catalogue.class(call.Tool)
		if index < 0 {
			class = classUnknown
		}
		r.classes = append(r.classes, class)
		r.out.Result.Calls = append(r.out.Result.Calls, ResultCall{class, int64(i), int64(index)})
		r.out.IDs = append(r.out.IDs, []byte(call.ID))
		r.out.Args = append(r.out.Args, argsText(call))
		switch class {
		case classEvidence:
			evidence++
		case classObservation:
			observations++
		case classUnknown:
			at["call_unknown"] = append(at["call_unknown"], i)
		case classWrite:
			at["call_writable"] = append(at["call_writable"], i)
		}
		if used[call.ID] {
			at["duplicate_call_id"] = append(at["duplicate_call_id"], i)
		}
		used[call.ID] = true
		if index >= 0 && !r.checkpoint.granted(call.Tool) {
			at["call_not_granted"] = append(at["call_not_granted"], i)
		}
	}
	if evidence != 1 {
		r.hold("evidence_call_not_single", details{"found": evidence})
	} else {
		for i, class := range r.classes {
			if class == classEvidence || class == classObservation {
				continue
			}
			at["sibling_present"] = append(at["sibling_present"], i)
			if class != classUnknown && class != classWrite {
				at["sibling_unsupported"] = append(at["sibling_unsupported"], i)
			}
		}
		if observations > MaxObservations {
			r.hold("sibling_unsupported", details{"found": observations, "limit": MaxObservations})
		}
	}
	shaped := evidence == 1 && evidence+observations == len(r.found)
	r.retain(at)
	if shaped && observations > 0 && len(r.retained) == observations {
		shaped = false // nothing is unavailable, which is neither version (O7)
		for i, class := range r.classes {
			if class == classObservation {
				at["sibling_present"] = append(at["sibling_present"], i)
			}
		}
	}
	for _, code := range codes {
		if len(at[code]) > 0 {
			r.hold(code, details{"positions": at[code]})
		}
	}
	switch {
	case !shaped:
	case observations == 0:
		r.out.Result.Version = 1
	default:
		r.out.Result.Version = 2
		if r.params.Reader == "" {
			r.hold("reader_unregistered", nil)
		}
	}
}

// argsText is the text of a call's arguments as a worker grants them: the provider's own where it is one, else the record form of the
// value (clients/python, _arguments).
func argsText(call pydanticai.Call) []byte {
	switch {
	case call.Args.Is(pyjson.String):
		return []byte(call.Args.Text)
	case call.Args.Is(pyjson.Null):
		return nil
	}
	return pyjson.Encode(call.Args)
}

// retain reads the retained outcomes. One that is not of a source observation of this response, or no canonical value, is a hold:
// nothing else may take its place (OBS-14, OBS-15).
func (r *reconstruction) retain(at map[string][]int) {
	const code = "observation_custody_incomplete"
	r.retained = map[int]*pyjson.Value{}
	var positions []int
	for i := range r.outcomes {
		positions = append(positions, i)
	}
	slices.Sort(positions)
	for _, i := range positions {
		value, err := pyjson.ParseCanonical(r.outcomes[i], recordLimits)
		if i >= len(r.classes) || r.classes[i] != classObservation || err != nil {
			at[code] = append(at[code], i)
			continue
		}
		r.retained[i] = value
	}
}

// arguments judges each call's arguments by the frozen schema of its tool (ELIG-07, 08, OBS-18).
func (r *reconstruction) arguments() {
	for i, call := range r.found {
		value, ok := parseQuery(argsText(call))
		isObject := ok && value.Is(pyjson.Object)
		code := "sibling_arguments_invalid"
		if r.classes[i] == classEvidence {
			code = "query_outside_schema"
			if !isObject {
				r.hold("query_not_object", details{"position": i})
				continue
			}
		}
		if !isObject {
			r.hold(code, details{"position": i})
			continue
		}
		frozen := r.checkpoint.tools()[r.out.Result.Calls[i].ToolIndex].Get("parameters_json_schema")
		if _, hold := schemaAccepts(frozen, value, code, details{"position": i}); hold != nil {
			r.out.Result.Holds = append(r.out.Result.Holds, hold.Hold)
		}
	}
}

// validator holds a query that the pinned validator accepts (ELIG-09).
func (r *reconstruction) validator() {
	rule := r.catalogue.validator(r.params.Validator).Rule
	for i, call := range r.found {
		if r.classes[i] == classEvidence && rule.Accepts(argsText(call)) {
			r.hold("query_valid", details{"position": i})
		}
	}
}

// counters judges the response's usage, which was not in the record (SDK-20 to 23). A retained cost stays as it is in the run's usage
// and in the stored messages; the new response has none, because no price is ever computed here.
func (r *reconstruction) counters() {
	c := recordChecker{catalogue: r.catalogue, places: map[string][]string{}}
	c.problems(pydanticai.CheckUsage(r.target.Version, r.answer.usage(), false, r.catalogue.source(r.target.SourceIdentity).counters(), "/response/usage"))
	r.out.Result.Holds = append(r.out.Result.Holds, c.holds()...)
}

// callReconstruct is the guest's function.
func callReconstruct(frames map[string][]byte, params canon.Raw) (*output, *guestabi.Refusal) {
	var p Params
	if err := canon.Unmarshal(params, &p); err != nil {
		return nil, malformed("params", "not the parameters of reconstruct")
	}
	catalogue, err := catalogueOf(frames["catalogue"])
	if err != nil {
		return nil, malformed("catalogue", "not a catalogue that this module can use")
	}
	r, refused := ReconstructWith(catalogue, frames["checkpoint"], frames["response"],
		&Closure{Contract: frames["contract"], Wire: frames["wire"]}, outcomesOf(frames), p)
	if refused != nil {
		return nil, refused
	}
	out := &output{result: r.Result}
	for _, f := range []struct {
		name string
		data []byte
	}{{"derived", r.Derived}, {"witness", r.Witness}, {"contract", r.Contract}, {"next_request", r.NextRequest}} {
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
