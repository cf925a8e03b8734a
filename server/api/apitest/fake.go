package apitest

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/server/engine"
)

// Fake stands in for the sealed reconstruction where only the API is looked at. Its responses are documents of its own,
// as Response makes them; what it derives from them is a pure function of the frames, like the real one's.
type Fake struct {
	mu    sync.Mutex
	calls int
	// Hold, when set, is found in every response in place of a proof.
	Hold models.Code
}

var _ engine.Sandbox = (*Fake)(nil)

// Key is what Screen takes for a credential.
const Key = "APITEST-KEY"

// Screen is a rule set of one rule, for the word Key anywhere.
type Screen struct{}

var _ engine.Screener = Screen{}

// RuleSet implements engine.Screener.
func (Screen) RuleSet() models.Digest { return models.PlainDigest([]byte("apitest rules")) }

// Screen implements engine.Screener.
func (Screen) Screen(text []byte) []models.Finding {
	if !bytes.Contains(text, []byte(Key)) {
		return nil
	}
	return []models.Finding{{Rule: "apitest-key"}}
}

// FakeCall is one tool call of a Fake response.
type FakeCall struct {
	Args  string `json:"args"`
	Class string `json:"class"`
	ID    string `json:"id"`
	Tool  int64  `json:"tool"`
}

type fakeResponse struct {
	Calls []FakeCall `json:"calls"`
	Usage fakeUsage  `json:"usage"`
}

type fakeUsage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
}

// Response returns the bytes of a response that Fake can read.
func Response(t models.Tokens, calls ...FakeCall) []byte {
	return canon.MustMarshal(fakeResponse{Calls: calls, Usage: fakeUsage{t.Input, t.Output}})
}

// Calls is how often a function was called.
func (f *Fake) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// Module implements engine.Sandbox.
func (f *Fake) Module() models.Digest { return models.PlainDigest([]byte("fake module")) }

// Catalogue implements engine.Sandbox.
func (f *Fake) Catalogue() ([]byte, models.Digest) {
	data := []byte("fake catalogue")
	return data, models.PlainDigest(data)
}

// Call implements engine.Sandbox: the function reconstruct, for one evidence read (version 1) or one with source
// observations beside it (version 2).
func (f *Fake) Call(_ context.Context, function string, frames []engine.Frame, params any) (engine.Sealed, error) {
	f.mu.Lock()
	f.calls++
	f.mu.Unlock()
	sealed := engine.Sealed{Frames: frames}
	if function == "inspect" {
		return engine.Sealed{Result: []byte(`{"dependency_epoch":"fake","history_messages":1,"source_identity":"fake",` +
			`"usage":{"input_tokens":0,"output_tokens":0,"requests":0,"tool_calls":0},"versions":{"firefly_agentic":"26.10.1","pydantic_ai":"2.55.0"}}`)}, nil
	}
	if function == "reproduce" { // the fake's pending requests are named by their checkpoint
		return engine.Sealed{Result: []byte(`{"exact":true,"holds":[],"length":4,"served":0}`), Frames: []engine.Frame{{Name: "wire", Data: []byte("wire")}}}, nil
	}
	observes := function == "observe" // a lost evidence read, with a list whose own result is kept
	if function != "reconstruct" && !observes {
		return engine.Sealed{}, fmt.Errorf("fake sandbox: no function %q", function)
	}
	var r fakeResponse
	if err := canon.Unmarshal(sealed.Frame("response"), &r); err != nil {
		return engine.Sealed{}, models.Refuse(models.CodeResponseUnparsable)
	}
	type (
		call struct {
			Class    string `json:"class"`
			Position int64  `json:"position"`
			Tool     int64  `json:"tool_index"`
		}
		hold struct {
			Code    models.Code       `json:"code"`
			Details map[string]string `json:"details"`
		}
	)
	result := struct {
		Calls         []call                 `json:"calls"`
		Closing       []models.ClosingResult `json:"closing"`
		FixedOutcomes int64                  `json:"fixed_outcomes"`
		History       int64                  `json:"history_messages"`
		Holds         []hold                 `json:"holds"`
		Served        int64                  `json:"served"`
		Usage         fakeUsage              `json:"usage"`
		Version       int64                  `json:"version"`
	}{FixedOutcomes: 1, History: 3, Served: 1, Usage: r.Usage, Version: 1}
	var out []engine.Frame
	for i, c := range r.Calls {
		position := int64(i)
		result.Calls = append(result.Calls, call{Class: c.Class, Position: position, Tool: c.Tool})
		closing := models.ClosingResult{Position: position, Result: models.ResultInvalidQuery}
		if c.Class == models.ClassSourceObservation {
			closing.Result, result.Version = models.ResultObservationUnavailable, 2
		}
		if observes {
			result.Version = 1
			if closing.Result = models.ResultObservationUnavailable; c.Class == models.ClassSourceObservation {
				closing.Result = models.ResultRetained
			}
		}
		result.Closing = append(result.Closing, closing)
		out = append(out, engine.Frame{Name: fmt.Sprintf("call_%d_id", i), Data: []byte(c.ID)},
			engine.Frame{Name: fmt.Sprintf("call_%d_args", i), Data: []byte(c.Args)})
	}
	if f.Hold != "" {
		result.Holds, result.Version, result.Closing = []hold{{f.Hold, map[string]string{"found": "by the fake"}}}, 0, nil
		return engine.Sealed{Result: canon.MustMarshal(result), Frames: out}, nil
	}
	sum := models.Tagged("fake", sealed.Frame("catalogue"), sealed.Frame("checkpoint"), sealed.Frame("response"), canon.MustMarshal(params))
	for _, name := range []string{"derived", "witness", "contract"} {
		out = append(out, engine.Frame{Name: name, Data: []byte(name + " " + sum.String())})
	}
	return engine.Sealed{Result: canon.MustMarshal(result), Frames: out}, nil
}
