package custody_test

import (
	"slices"
	"testing"

	"github.com/forge-continuity/forge/kernel/budget"
	"github.com/forge-continuity/forge/kernel/custody"
	"github.com/forge-continuity/forge/models"
)

// Each condition on a fact stands for itself, also where no sequence of accepted facts leads to the state that needs it (C1 to C5;
// rules, invariants 6 and 25).
func TestEachConditionOfAFact(t *testing.T) {
	d, other := models.PlainDigest([]byte("d")), models.PlainDigest([]byte("other"))
	state := func(events ...models.Event) custody.State {
		var s custody.State
		for i, e := range events {
			s = s.Evolve(e, int64(i+1), models.Instant(i+1))
		}
		return s
	}
	request, kept := models.RequestIssued{Checkpoint: d, Request: 1, Wire: d, WireBlob: d, WireLength: 1}, models.ResponseKept{Request: 1, Response: d}
	consumed := models.ResponseConsumed{Calls: 2, Request: 1, Response: d}
	granted := models.CallGranted{Args: d, Class: models.ClassWrite, ID: d, Request: 1}
	intended := models.CallIntended{Request: 1}
	started := models.CommandStarted{Command: d, Number: 1, Position: -1}
	void := models.EffectReconciled{Outcome: models.OutcomeDidNotHappen, Request: 1, Seq: 1, Subject: models.SubjectRequest}
	b := budget.State{Limits: models.Limits{Commands: 9, InputTokens: 99, OutputTokens: 99, Requests: 9, SourceReads: 9, ToolCalls: 9, TotalTokens: 99}}
	for _, c := range []struct {
		name  string
		after custody.State
		fact  models.Fact
		code  models.Code
		what  string
	}{
		{"a refusal of no request", state(), models.RequestRefused{Report: d}, models.CodeFactOutOfOrder, ""},
		{"a refusal of a request that was settled as void", state(request, void), models.RequestRefused{Report: d, Request: 1}, models.CodeFactOutOfOrder, ""},
		{"a refusal in a settled turn", state(request, models.MigrationSettled{}), models.RequestRefused{Report: d, Request: 1}, models.CodeFactOutOfOrder, ""},
		{"a refusal of another request", state(request), models.RequestRefused{Report: d, Request: 2}, models.CodeFactOutOfOrder, ""},
		{"a refusal of it", state(request), models.RequestRefused{Report: d, Request: 1}, "", ""},
		{"a response to no request", state(), models.ResponseKept{Response: d}, models.CodeFactOutOfOrder, ""},
		{"a response after the consume", state(request, models.ResponseKept{Partial: true, Request: 1, Response: d}, consumed), kept, models.CodeFactOutOfOrder, ""},
		{"a consume of no response", state(request), models.ResponseConsumed{Request: 1}, models.CodeFactOutOfOrder, ""},
		{"a consume of another response", state(request, kept), models.ResponseConsumed{Request: 1, Response: other}, models.CodeFactOutOfOrder, ""},
		{"a grant before the consume", state(consumed, request), granted, models.CodeFactOutOfOrder, "a call is granted from a consumed response"},
		{"a grant in a settled turn", state(request, kept, consumed, models.MigrationSettled{}), granted, models.CodeFactOutOfOrder, ""},
		{"a result after the record that it was lost", state(request, kept, consumed, granted, intended, models.ToolUnknown{Request: 1}),
			models.CallReturned{Request: 1, Result: d}, models.CodeUnknownEffect, ""},
		{"a result of a call that was not granted", state(request, kept, consumed, granted), models.CallReturned{Position: 1, Request: 1, Result: d}, models.CodeFactOutOfOrder, "no such granted call"},
		{"a loss of a call that was not granted", state(request, kept, consumed, granted), models.ToolUnknown{Position: 1, Request: 1}, models.CodeFactOutOfOrder, "no such granted call"},
		{"a refusal of a call of another request", state(request, kept, consumed, granted), models.CallRefused{Request: 2, Validator: d}, models.CodeFactOutOfOrder, "no such granted call"},
		{"a start of a call of another request", state(request, kept, consumed, granted), models.CallIntended{Request: 2}, models.CodeFactOutOfOrder, "no such granted call"},
		{"a result of a call of another request", state(request, kept, consumed, granted, intended), models.CallReturned{Request: 2, Result: d}, models.CodeFactOutOfOrder, "no such granted call"},
		{"a loss of a call of another request", state(request, kept, consumed, granted, intended), models.ToolUnknown{Request: 2}, models.CodeFactOutOfOrder, "no such granted call"},
		{"a command after a loss that was settled", state(request, kept, consumed, granted, intended, models.ToolUnknown{Request: 1}, models.ReadonlyObservationWitnessed{}), started, "", ""},
		{"a command of a call that was not granted", state(request, kept, consumed, granted),
			models.CommandStarted{Command: d, Number: 1, Position: 1, Request: 1}, models.CodeFactOutOfOrder, "no such granted call"},
	} {
		r := c.after.Refuse(c.fact, models.ModeRequired, b)
		switch {
		case c.code == "" && r != nil, c.code != "" && r == nil:
			t.Errorf("%s: %v, want %q", c.name, r, c.code)
		case r != nil && (r.Code != c.code || c.what != "" && r.Detail("what") != c.what):
			t.Errorf("%s: %v, want %s %q", c.name, r, c.code, c.what)
		}
	}
	for name, c := range map[string]struct {
		s                  custody.State
		answered, rejected bool
	}{
		"a partial response":            {state(request, models.ResponseKept{Partial: true, Request: 1, Response: d}), false, false},
		"a whole one":                   {state(request, kept), true, false},
		"a rejected read":               {state(request, kept, consumed, granted, models.CallRefused{Request: 1, Validator: d}), true, true},
		"a rejected read, once settled": {state(request, kept, consumed, granted, models.CallRefused{Request: 1, Validator: d}, models.MigrationSettled{}), true, false},
	} {
		if c.s.Answered() != c.answered || c.s.RejectedRead() != c.rejected {
			t.Errorf("%s: answered %t, rejected %t", name, c.s.Answered(), c.s.RejectedRead())
		}
	}
	settled := state(request, kept, consumed, granted, intended, models.ReadonlyObservationWitnessed{})
	if e, ok := settled.Pending(5); ok || len(settled.AllPending()) != 0 || settled.Unknown() != 0 {
		t.Errorf("what a reviewed witness closed is pending: %+v", e)
	}
	second := started
	second.Number = 2
	s := state(started, second, models.CommandFinished{Number: 1, Receipt: d})
	if want := []custody.Command{{Number: 2, Seq: 2}}; !slices.Equal(s.Commands, want) {
		t.Errorf("running are %v, want %v", s.Commands, want)
	}
}

// A fact that must name something names it, whatever is recorded.
func TestFactsNameTheirContent(t *testing.T) {
	d := models.PlainDigest([]byte("d"))
	for _, f := range []models.Fact{
		models.CheckpointSaved{}, models.RequestIssued{WireBlob: d, WireLength: 1}, models.RequestIssued{Wire: d, WireLength: 1}, models.RequestIssued{Wire: d, WireBlob: d},
		models.ResponseKept{}, models.CallGranted{Args: d, Class: models.ClassWrite}, models.CallGranted{Class: models.ClassWrite, ID: d}, models.CallRefused{},
		models.CallReturned{}, models.CommandStarted{}, models.CommandFinished{}, models.RunCompleted{}, models.RunFailed{}, models.WorkerFailed{},
		models.RequestRefused{}, models.SourcePrepared{}, models.VerificationFinished{},
	} {
		if r := custody.Form(f); r == nil || r.Code != models.CodeRequestMalformed {
			t.Errorf("%s without its content: %v", f.Kind(), r)
		}
	}
}
