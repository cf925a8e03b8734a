package agentic

import (
	"bytes"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/models/guestabi"
)

type namedFrame struct {
	name string
	data []byte
}

func message(t testing.TB, function string, params any, frames ...namedFrame) []byte {
	t.Helper()
	request := guestabi.Request{ABI: guestabi.Version, Function: function, Frames: []string{}, Params: canon.MustMarshal(params)}
	var data [][]byte
	for _, f := range frames {
		request.Frames, data = append(request.Frames, f.name), append(data, f.data)
	}
	m, err := guestabi.Encode(request, data)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func reconstructMessage(t testing.TB, h held) []byte {
	return message(t, "reconstruct", h.params, namedFrame{"catalogue", catalogueBytes()}, namedFrame{"checkpoint", h.checkpoint}, namedFrame{"response", h.response},
		namedFrame{"wire", h.closed.Wire}, namedFrame{"contract", h.closed.Contract})
}

// answer decodes an answer of Call.
func answer(t testing.TB, data []byte) (guestabi.Response, map[string][]byte) {
	t.Helper()
	var r guestabi.Response
	frames, err := guestabi.Decode(data, &r)
	if err != nil || len(frames) != len(r.Frames) || r.ABI != guestabi.Version || (r.Refusal == nil) == (r.Result == nil) {
		t.Fatalf("%v in %.200q", err, data)
	}
	byName := map[string][]byte{}
	for i, name := range r.Frames {
		byName[name] = frames[i]
	}
	return r, byName
}

func TestCallReconstruct(t *testing.T) {
	h := openHeld(t, "2.55.0")
	r, frames := answer(t, Call(reconstructMessage(t, h)))
	want := h.run(t)
	var result Result
	if err := canon.Unmarshal(r.Result, &result); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"derived": want.Derived, "witness": want.Witness, "contract": want.Contract,
		"next_request": want.NextRequest, "call_0_id": want.IDs[0], "call_0_args": want.Args[0]} {
		if !bytes.Equal(frames[name], data) {
			t.Errorf("frame %s differs", name)
		}
	}
	if len(frames) != 6 || result.Version != 1 || result.Served != 1 {
		t.Errorf("%v %+v", r.Frames, result)
	}
}

func TestCallInspect(t *testing.T) {
	for version, transition := range map[string]string{"2.55.0": "", "2.58.0": ""} {
		_ = transition
		h := openHeld(t, version)
		r, _ := answer(t, Call(message(t, "inspect", struct{}{}, namedFrame{"catalogue", catalogueBytes()}, namedFrame{"checkpoint", h.checkpoint})))
		var got Inspection
		if err := canon.Unmarshal(r.Result, &got); err != nil {
			t.Fatal(err)
		}
		if got.Versions.PydanticAI != version || got.SourceIdentity != h.rec.SourceIdentity || got.Usage.Requests != 7 || got.Usage.ToolCalls != 15 || got.HistoryMessages != 15 {
			t.Errorf("%s: %+v", version, got)
		}
	}
}

func TestCallValidate(t *testing.T) {
	h := openHeld(t, "2.55.0")
	schema := loadCatalogue(t).Prompts["1.0.0"].ReadRunEvidence.ParametersJSONSchema
	ask := func(query string) []byte {
		return Call(message(t, "validate", validateParams{h.rec.Validator}, namedFrame{"catalogue", catalogueBytes()}, namedFrame{"query", []byte(query)},
			namedFrame{"schema", schema}))
	}
	for query, want := range map[string]Verdict{
		`{"kind":"build_log","target":"x"}`:                  {true, true, true},
		`{"kind":"build_log","target":"x","page_size":25}`:   {true, true, false},
		`{"kind":"build_log","target":"x","page_size":1.0}`:  {true, true, false},
		`{"kind":"build_log","target":"x","page_size":"1"}`:  {true, false, false},
		`{"kind":"build_log","target":"x","page_size":1000}`: {true, false, false},
		`[]`: {false, false, false},
		`{"`: {false, false, false},
	} {
		r, _ := answer(t, ask(query))
		var got Verdict
		if err := canon.Unmarshal(r.Result, &got); err != nil || got != want {
			t.Errorf("%s: %+v %v", query, got, err)
		}
	}
	r, _ := answer(t, Call(message(t, "validate", validateParams{strings.Repeat("0", 64)}, namedFrame{"catalogue", catalogueBytes()},
		namedFrame{"query", []byte("{}")}, namedFrame{"schema", schema})))
	if r.Refusal == nil || r.Refusal.Code != "validator_unregistered" { // CRED-04
		t.Errorf("%+v", r)
	}
}

// A message that is none, or of another shape, is request_malformed; nothing panics out of Call.
func TestCallRefusesBadMessages(t *testing.T) {
	h := openHeld(t, "2.55.0")
	good := reconstructMessage(t, h)
	frame := func(names ...string) (list []namedFrame) {
		for _, n := range names {
			list = append(list, namedFrame{n, []byte("{}")})
		}
		return list
	}
	for what, m := range map[string][]byte{
		"empty": nil, "cut": good[:len(good)-1], "cut header": good[:9], "text": []byte("hello there"),
		"unknown function": message(t, "restore", struct{}{}), "no frames": message(t, "inspect", struct{}{}),
		"a frame too many": message(t, "inspect", struct{}{}, frame("catalogue", "checkpoint", "response")...),
		"a frame twice":    message(t, "inspect", struct{}{}, frame("catalogue", "catalogue")...),
		"bad catalogue":    message(t, "inspect", struct{}{}, frame("catalogue", "checkpoint")...),
		"params":           message(t, "inspect", map[string]int{"a": 1}, frame("catalogue", "checkpoint")...),
		"no params":        message(t, "reconstruct", struct{}{}, frame("catalogue", "checkpoint", "response", "wire", "contract")...),
		"instant": message(t, "reconstruct", Params{ConsumedAtUS: 0}, namedFrame{"catalogue", catalogueBytes()}, namedFrame{"checkpoint", nil}, namedFrame{"response", nil},
			namedFrame{"wire", nil}, namedFrame{"contract", nil}),
	} {
		r, frames := answer(t, Call(m))
		if r.Refusal == nil || r.Refusal.Code != "request_malformed" || len(frames) > 0 {
			t.Errorf("%s: %+v", what, r)
		}
	}
	var request guestabi.Request
	frames, err := guestabi.Decode(good, &request)
	if err != nil {
		t.Fatal(err)
	}
	request.ABI = 2
	m, _ := guestabi.Encode(request, frames)
	if r, _ := answer(t, Call(m)); r.Refusal == nil || r.Refusal.Code != "request_malformed" {
		t.Errorf("another ABI: %+v", r)
	}
}

// A panic inside is a refusal outside.
func TestPanicIsARefusal(t *testing.T) {
	functions["panics"] = entry{run: func(map[string][]byte, canon.Raw) (*output, *guestabi.Refusal) { panic("inside") }}
	defer delete(functions, "panics")
	r, _ := answer(t, Call(message(t, "panics", struct{}{})))
	if r.Refusal == nil || r.Refusal.Code != "sandbox_stopped" || string(r.Refusal.Details) != `{"reason":"panic"}` {
		t.Errorf("%+v", r)
	}
}

// FuzzCall feeds messages, FuzzResponse bodies for the recorded checkpoint: whatever comes, the answer is a message and no panic
// was inside. Seeds are small, because the fuzzer takes long to minimize large ones.
func FuzzCall(f *testing.F) {
	f.Add(message(f, "inspect", struct{}{}, namedFrame{"catalogue", []byte("{}")}, namedFrame{"checkpoint", []byte(`{"a":1}`)}))
	f.Add(message(f, "validate", validateParams{zeros}, namedFrame{"catalogue", []byte("{}")}, namedFrame{"query", nil}, namedFrame{"schema", nil}))
	f.Fuzz(func(t *testing.T, m []byte) { noPanic(t, m) })
}

func FuzzResponse(f *testing.F) {
	h := openHeld(f, "2.55.0")
	f.Add(h.response)
	f.Fuzz(func(t *testing.T, body []byte) {
		h := h
		h.response = body
		noPanic(t, reconstructMessage(t, h))
	})
}

func noPanic(t *testing.T, m []byte) {
	r, _ := answer(t, Call(m))
	if r.Refusal != nil && r.Refusal.Code == "sandbox_stopped" && string(r.Refusal.Details) == `{"reason":"panic"}` {
		t.Fatal("a panic inside")
	}
}
