// Package budget counts what a run has spent against its lifetime limits.
//
// Invariants:
//
//	B1. No spent counter ever falls (rules, invariant 2).
//	B2. An effect over a limit is refused before it starts; a fact that the live owner reports is counted even where it
//	    overran, and closes the next intent (rules, invariant 3).
//	B3. Limits equal those at registration.
package budget

import "github.com/forge-continuity/forge/models"

// Spent is what was counted so far, one counter for each limit that a run's rows move.
type Spent struct {
	Commands     int64 `json:"commands"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	Requests     int64 `json:"requests"`
	SourceReads  int64 `json:"source_reads"`
	ToolCalls    int64 `json:"tool_calls"`
}

// State is limits and what was spent of them.
type State struct {
	Limits models.Limits `json:"limits"`
	Spent  Spent         `json:"spent"`
}

// Request refuses a model request over the request limit or once a token limit is used up.
func (s State) Request() *models.Refusal {
	switch l, n := s.Limits, s.Spent; {
	case n.Requests >= l.Requests:
		return exhausted("requests", l.Requests, n.Requests)
	case n.InputTokens >= l.InputTokens:
		return exhausted("input_tokens", l.InputTokens, n.InputTokens)
	case n.OutputTokens >= l.OutputTokens:
		return exhausted("output_tokens", l.OutputTokens, n.OutputTokens)
	case total(n) >= l.TotalTokens:
		return exhausted("total_tokens", l.TotalTokens, total(n))
	}
	return nil
}

// ToolCall refuses a grant over the tool-call limit.
func (s State) ToolCall() *models.Refusal {
	if s.Spent.ToolCalls >= s.Limits.ToolCalls {
		return exhausted("tool_calls", s.Limits.ToolCalls, s.Spent.ToolCalls)
	}
	return nil
}

// SourceRead refuses the start of a read over the source-read limit.
func (s State) SourceRead() *models.Refusal {
	if s.Spent.SourceReads >= s.Limits.SourceReads {
		return exhausted("source_reads", s.Limits.SourceReads, s.Spent.SourceReads)
	}
	return nil
}

// Command refuses a command over the command limit, such as the twenty-third of 22 (FLOW-42).
func (s State) Command() *models.Refusal {
	if s.Spent.Commands >= s.Limits.Commands {
		return exhausted("commands", s.Limits.Commands, s.Spent.Commands)
	}
	return nil
}

// Evolve counts an event. Counters stop at the top of their range, so that a hostile report cannot wrap one (B1).
func (s State) Evolve(e models.Event) State {
	switch e := e.(type) {
	case models.RunRegistered:
		s.Limits = e.Registration.Limits
	case models.RequestIssued:
		s.Spent.Requests = add(s.Spent.Requests, 1)
	case models.ResponseConsumed:
		s.Spent.InputTokens = add(s.Spent.InputTokens, e.Tokens.Input)
		s.Spent.OutputTokens = add(s.Spent.OutputTokens, e.Tokens.Output)
	case models.CallGranted:
		s.Spent.ToolCalls = add(s.Spent.ToolCalls, 1)
	case models.CommandStarted:
		s.Spent.Commands = add(s.Spent.Commands, 1)
	}
	return s
}

// Read counts a read that starts; which calls are reads is known to custody.
func (s State) Read() State {
	s.Spent.SourceReads = add(s.Spent.SourceReads, 1)
	return s
}

func exhausted(name string, limit, spent int64) *models.Refusal {
	return models.Refuse(models.CodeAllowanceExhausted, models.D("allowance", name), models.D("limit", limit), models.D("spent", spent))
}

func total(n Spent) int64 { return add(n.InputTokens, n.OutputTokens) }

func add(a, b int64) int64 {
	if sum := a + b; sum >= a {
		return sum
	}
	return 1<<63 - 1
}
