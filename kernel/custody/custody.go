// Package custody is the record of what happened to each request, response, call and command, reduced to what later
// decisions need: the turn that stands now, and a running digest over all of it.
//
// Invariants:
//
//	C1. A granted call ends in at most one of: refused before start, or an intent with at most one outcome. What was
//	    recorded never changes.
//	C2. An intent without an outcome is unknown, and stays so until native reconciliation or a reviewed witness.
//	C3. A response is consumed at most once (rules, invariant 6).
//	C4. A command row is one native execution row; the count of them is the command count (rules, invariant 5).
//	C5. Nothing is issued while something of the last turn is open or unknown (BOUND-06).
package custody

import (
	"github.com/forge-continuity/forge/kernel/budget"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// Call is one granted call of the turn's response.
type Call struct {
	Args       models.Digest `json:"args"`
	Class      string        `json:"class"`
	Cut        models.Digest `json:"cut"`
	Failed     bool          `json:"failed,omitzero"` // the outcome is an error result
	GrantSeq   int64         `json:"grant_seq"`
	ID         models.Digest `json:"id"`
	IntentSeq  int64         `json:"intent_seq"`
	LostSeq    int64         `json:"lost_seq"` // the record that the result could not be kept; the outcome stays unknown
	OutcomeSeq int64         `json:"outcome_seq"`
	Position   int64         `json:"position"`
	RefusedSeq int64         `json:"refused_seq"`
	Result     models.Digest `json:"result"`
	Tool       int64         `json:"tool"`
	Validator  models.Digest `json:"validator"`
}

// Unknown reports whether the call may have happened.
func (c Call) Unknown() bool { return c.IntentSeq > 0 && c.OutcomeSeq == 0 }

// Open reports whether the call still needs something: it has neither an outcome nor a closing result.
func (c Call) Open() bool { return c.OutcomeSeq == 0 }

// Command is a started command without its receipt.
type Command struct {
	Number int64 `json:"number"`
	Seq    int64 `json:"seq"`
}

// Turn is one request and what followed. Calls are sorted by position. Settled is set when a continuity settlement closed
// it, Void when a reconciliation found that the request has no response to wait for; Later is the first row after the consume that no rule accounts for (rules O6), 0 for none.
type Turn struct {
	CallCount     int64          `json:"call_count"`
	Calls         []Call         `json:"calls"`
	Checkpoint    models.Digest  `json:"checkpoint"`
	ConsumeSeq    int64          `json:"consume_seq"`
	ConsumedAt    models.Instant `json:"consumed_at"`
	Later         int64          `json:"later"`
	Partial       bool           `json:"partial"`
	Provider      models.Digest  `json:"provider,omitzero"`
	RefusedAt     models.Instant `json:"refused_at,omitzero"`
	RefusedSeq    int64          `json:"refused_seq,omitzero"` // the worker's fact that the provider refused the request
	Request       int64          `json:"request"`
	RequestSeq    int64          `json:"request_seq"`
	Response      models.Digest  `json:"response"`
	ResponseBytes int64          `json:"response_bytes"`
	ResponseSeq   int64          `json:"response_seq"`
	Settled       bool           `json:"settled"`
	Tokens        models.Tokens  `json:"tokens"`
	Void          bool           `json:"void"`
	Wire          models.Digest  `json:"wire"`
	WireBlob      models.Digest  `json:"wire_blob"`
	WireLength    int64          `json:"wire_length"`
}

// State is the turn that stands, the checkpoint that the next request must name, and what is open.
type State struct {
	Checkpoint    models.Digest `json:"checkpoint"`
	CheckpointSeq int64         `json:"checkpoint_seq"`
	CommandCount  int64         `json:"command_count"`
	Commands      []Command     `json:"commands"` // started, not finished, by number
	Digest        models.Digest `json:"digest"`   // running, over every custody row
	Turn          Turn          `json:"turn"`
}

// Unknown returns the row of the first effect whose outcome is unknown, 0 for none (C2).
func (s State) Unknown() int64 {
	for _, c := range s.Turn.Calls {
		if c.Unknown() && !s.Turn.Settled {
			return c.IntentSeq
		}
	}
	if len(s.Commands) > 0 {
		return s.Commands[0].Seq
	}
	return 0
}

// Clean reports whether nothing of the last turn is open: no request without its response consumed, no call without an
// outcome, no command without a receipt. A turn that a settlement closed is clean.
func (s State) Clean() bool {
	t := s.Turn
	if len(s.Commands) > 0 {
		return false
	}
	if t.Request == 0 || t.Settled || t.Void {
		return true
	}
	if t.ConsumeSeq == 0 || int64(len(t.Calls)) < t.CallCount {
		return false
	}
	for _, c := range t.Calls {
		if c.Open() {
			return false
		}
	}
	return true
}

// Answered reports whether no request waits for its response.
func (s State) Answered() bool {
	t := s.Turn
	return t.Request == 0 || t.Settled || t.Void || t.ResponseSeq > 0 && !t.Partial
}

// Known reports whether nothing may have happened without a record of it: a response came for each request, and no
// effect is unknown.
func (s State) Known() bool { return s.Answered() && s.Unknown() == 0 }

// RejectedRead reports whether a granted evidence read of the turn was refused before it started: the stop that
// continuity serves (PREVIEW-01).
func (s State) RejectedRead() bool {
	for _, c := range s.Turn.Calls {
		if c.RefusedSeq > 0 && !s.Turn.Settled {
			return true
		}
	}
	return false
}

func order(what string, details ...models.Detail) *models.Refusal {
	return models.Refuse(models.CodeFactOutOfOrder, append(details, models.D("what", what))...)
}

// Form refuses a fact that could follow nothing, whatever is recorded: request_malformed, which goes before everything.
func Form(f models.Fact) *models.Refusal {
	switch f := f.(type) {
	case models.CheckpointSaved:
		return required(f.Checkpoint, "checkpoint")
	case models.RequestIssued:
		if f.WireLength < 1 {
			return models.Refuse(models.CodeRequestMalformed, models.D("member", "wire_length"), models.D("what", "must be positive"))
		}
		if r := required(f.Wire, "wire"); r != nil {
			return r
		}
		return required(f.WireBlob, "wire_blob")
	case models.ResponseKept:
		if f.Length < 0 {
			return models.Refuse(models.CodeRequestMalformed, models.D("member", "length"), models.D("what", "must not be negative"))
		}
		return required(f.Response, "response")
	case models.ResponseConsumed:
		if f.Calls < 0 || f.Tokens.Input < 0 || f.Tokens.Output < 0 {
			return models.Refuse(models.CodeRequestMalformed, models.D("what", "counts must not be negative"))
		}
	case models.CallGranted:
		if f.Tool < -1 || !models.ValidClass(f.Class) {
			return models.Refuse(models.CodeRequestMalformed, models.D("what", "tool or class"))
		}
		if r := required(f.ID, "id"); r != nil {
			return r
		}
		return required(f.Args, "args")
	case models.CallRefused:
		return required(f.Validator, "validator")
	case models.CallReturned:
		return required(f.Result, "result")
	case models.CommandStarted:
		return required(f.Command, "command")
	case models.CommandFinished:
		return required(f.Receipt, "receipt")
	case models.RunCompleted:
		return required(f.Result, "result")
	case models.CallIntended, models.RoundCompleted, models.ToolUnknown:
	case models.RunFailed:
		return required(f.Report, "report")
	case models.WorkerFailed:
		return required(f.Report, "report")
	case models.RequestRefused:
		return required(f.Report, "report")
	case models.SourcePrepared:
		return required(f.Source, "source")
	case models.VerificationFinished:
		return required(f.Report, "report")
	default:
		panic("custody: fact " + f.Kind())
	}
	return nil
}

// Refuse says whether a well-formed fact may follow what is recorded. mode is the run's checkpoint mode and b its budget.
// Facts that only report are refused for order alone; effects also for the allowance (budget, B2).
func (s State) Refuse(f models.Fact, mode string, b budget.State) *models.Refusal {
	switch f := f.(type) {
	case models.CheckpointSaved:
		return s.refuseCompletion()
	case models.RequestIssued:
		return s.refuseRequest(f, mode, b)
	case models.ResponseKept:
		return s.refuseResponse(f)
	case models.RequestRefused:
		t := s.Turn
		if t.Request == 0 || t.Void || t.Settled || f.Request != t.Request || t.ResponseSeq != 0 || t.RefusedSeq != 0 {
			return order("a refusal follows its own request, once, and no byte of a response", models.D("request", f.Request))
		}
		return nil
	case models.ResponseConsumed:
		return s.refuseConsume(f)
	case models.CallGranted:
		return s.refuseGrant(f, b)
	case models.CallRefused:
		c, r := s.call(f.Request, f.Position)
		if r != nil {
			return r
		}
		if c.RefusedSeq != 0 || c.IntentSeq != 0 {
			return order("the call was refused or started before", models.D("position", f.Position))
		}
		return nil
	case models.CallIntended:
		return s.refuseIntent(f, b)
	case models.CallReturned:
		c, r := s.call(f.Request, f.Position)
		if r != nil {
			return r
		}
		if c.IntentSeq == 0 || c.OutcomeSeq != 0 {
			return order("an outcome follows its own intent, once", models.D("position", f.Position))
		}
		if c.LostSeq != 0 { // only reconciliation or a reviewed witness closes it (rules, invariant 25)
			return models.Refuse(models.CodeUnknownEffect, models.D("seq", c.LostSeq))
		}
		return nil
	case models.CommandStarted:
		return s.refuseCommand(f, b)
	case models.CommandFinished:
		for _, c := range s.Commands {
			if c.Number == f.Number {
				return nil
			}
		}
		return order("no such command is running", models.D("number", f.Number))
	case models.ToolUnknown:
		c, r := s.call(f.Request, f.Position)
		if r != nil {
			return r
		}
		if !c.Unknown() || c.LostSeq != 0 {
			return order("only a started call without an outcome can be unknown", models.D("position", f.Position))
		}
		return nil
	case models.RoundCompleted, models.RunCompleted, models.RunFailed:
		return s.refuseCompletion()
	case models.WorkerFailed:
		return nil
	case models.SourcePrepared, models.VerificationFinished:
		return order("no verification is under way")
	}
	panic("custody: fact " + f.Kind())
}

func required(d models.Digest, name string) *models.Refusal {
	if d.IsZero() {
		return models.Refuse(models.CodeRequestMalformed, models.D("member", name), models.D("what", "a digest is required"))
	}
	return nil
}

func (s State) refuseCompletion() *models.Refusal {
	if seq := s.Unknown(); seq > 0 {
		return models.Refuse(models.CodeUnknownEffect, models.D("seq", seq))
	}
	if !s.Clean() {
		return order("something of the last turn is open")
	}
	return nil
}

func (s State) refuseRequest(f models.RequestIssued, mode string, b budget.State) *models.Refusal {
	if r := s.refuseCompletion(); r != nil {
		return r
	}
	switch {
	case f.Request != b.Spent.Requests+1:
		return order("requests count from 1 without a gap", models.D("got", f.Request), models.D("want", b.Spent.Requests+1))
	case f.Checkpoint != s.Checkpoint:
		return order("the request names another checkpoint than the one that stands")
	case mode == models.ModeRequired && s.CheckpointSeq <= s.Turn.RequestSeq:
		return order("a checkpoint is saved before each request")
	}
	return b.Request()
}

func (s State) refuseResponse(f models.ResponseKept) *models.Refusal {
	t := s.Turn
	if t.Request == 0 || t.Void || f.Request != t.Request || t.ConsumeSeq != 0 || t.RefusedSeq != 0 || t.ResponseSeq != 0 && !t.Partial {
		return order("a response follows its own request, once", models.D("request", f.Request))
	}
	return nil
}

func (s State) refuseConsume(f models.ResponseConsumed) *models.Refusal {
	t := s.Turn
	switch {
	case t.ResponseSeq == 0 || t.Partial || t.ConsumeSeq != 0 || f.Request != t.Request || f.Response != t.Response:
		return order("a whole response is consumed once", models.D("request", f.Request))
	case f.Calls > models.MaxOpenCalls:
		return models.Refuse(models.CodeCallsFull, models.D("got", f.Calls), models.D("limit", int64(models.MaxOpenCalls)))
	}
	return nil
}

func (s State) refuseGrant(f models.CallGranted, b budget.State) *models.Refusal {
	t := s.Turn
	switch {
	case t.ConsumeSeq == 0 || t.Settled || f.Request != t.Request:
		return order("a call is granted from a consumed response", models.D("request", f.Request))
	case f.Position < 0 || f.Position >= t.CallCount:
		return order("no such call in the response", models.D("position", f.Position))
	}
	for _, c := range t.Calls {
		if c.Position == f.Position {
			return order("a call is granted once", models.D("position", f.Position))
		}
	}
	return b.ToolCall()
}

// refuseLost stops every further effect once a started call's result was lost: its outcome stays unknown (BOUND-06).
// Calls that merely run beside one another are not unknown to their owner.
func (s State) refuseLost() *models.Refusal {
	for _, c := range s.Turn.Calls {
		if c.LostSeq > 0 && c.Unknown() && !s.Turn.Settled {
			return models.Refuse(models.CodeUnknownEffect, models.D("seq", c.IntentSeq))
		}
	}
	return nil
}

func (s State) refuseIntent(f models.CallIntended, b budget.State) *models.Refusal {
	if r := s.refuseLost(); r != nil {
		return r
	}
	c, r := s.call(f.Request, f.Position)
	switch {
	case r != nil:
		return r
	case c.RefusedSeq != 0 || c.IntentSeq != 0:
		return order("the call was refused or started before", models.D("position", f.Position))
	case reads(c.Class):
		return b.SourceRead()
	}
	return nil
}

func reads(class string) bool {
	return class == models.ClassEvidenceRead || class == models.ClassSourceObservation
}

func (s State) refuseCommand(f models.CommandStarted, b budget.State) *models.Refusal {
	if r := s.refuseLost(); r != nil {
		return r
	}
	if f.Number != b.Spent.Commands+1 {
		return order("commands count from 1 without a gap", models.D("got", f.Number), models.D("want", b.Spent.Commands+1))
	}
	if f.Position != -1 {
		c, r := s.call(f.Request, f.Position)
		if r != nil {
			return r
		}
		if !c.Unknown() || c.Class != models.ClassCommand {
			return order("a command runs inside the intent of its call", models.D("position", f.Position))
		}
	}
	if len(s.Commands) >= models.MaxOpenCalls {
		return models.Refuse(models.CodeCallsFull, models.D("limit", int64(models.MaxOpenCalls)))
	}
	return b.Command()
}

func (s State) call(request, position int64) (Call, *models.Refusal) {
	if request == s.Turn.Request && !s.Turn.Settled {
		for _, c := range s.Turn.Calls {
			if c.Position == position {
				return c, nil
			}
		}
	}
	return Call{}, order("no such granted call", models.D("position", position))
}

// Recorded reports whether an event belongs to custody and so moves the running digest.
func Recorded(e models.Event) bool {
	switch e.(type) {
	case models.CheckpointSaved, models.RequestIssued, models.ResponseKept, models.ResponseConsumed, models.CallGranted,
		models.CallRefused, models.CallIntended, models.CallReturned, models.CommandStarted, models.CommandFinished,
		models.ToolUnknown, models.EffectReconciled, models.RequestRefused:
		return true
	}
	return false
}

// accounted is the closed list of what may follow a consume without being a later activity (rules O6).
func accounted(e models.Event) bool {
	switch e.(type) {
	case models.CallGranted, models.CallRefused, models.CallIntended, models.CallReturned, models.LeaseGranted,
		models.ClaimTaken, models.LeaseLapsed, models.WorkerFailed, models.MigrationSettled, models.ToolUnknown,
		models.ClaimReleased, models.StartupAnnotated, models.CredentialWaived, models.VerificationRefused:
		return true
	}
	return false
}

// Evolve folds one event that stands in row seq at the given time.
func (s State) Evolve(e models.Event, seq int64, at models.Instant) State {
	if Recorded(e) {
		s.Digest = models.Tagged(models.TagCustody, s.Digest[:], []byte(e.Kind()), canon.MustMarshal(e))
	}
	if s.Turn.ConsumeSeq > 0 && s.Turn.Later == 0 && !s.Turn.Settled && !accounted(e) {
		s.Turn.Later = seq
	}
	switch e := e.(type) {
	case models.CheckpointSaved:
		s.Checkpoint, s.CheckpointSeq = e.Checkpoint, seq
	case models.RequestIssued:
		s.Turn = Turn{Checkpoint: e.Checkpoint, Provider: e.Provider, Request: e.Request, RequestSeq: seq, Wire: e.Wire, WireBlob: e.WireBlob, WireLength: e.WireLength}
	case models.ResponseKept:
		s.Turn.Response, s.Turn.ResponseSeq, s.Turn.Partial, s.Turn.ResponseBytes = e.Response, seq, e.Partial, e.Length
	case models.ResponseConsumed:
		s.Turn.ConsumeSeq, s.Turn.ConsumedAt, s.Turn.CallCount, s.Turn.Tokens = seq, at, e.Calls, e.Tokens
	case models.CallGranted:
		s.Turn.Calls = insert(s.Turn.Calls, Call{Args: e.Args, Class: e.Class, Cut: e.Cut, GrantSeq: seq, ID: e.ID, Position: e.Position, Tool: e.Tool})
	case models.CallRefused:
		s.Turn.Calls = change(s.Turn.Calls, e.Position, func(c *Call) { c.RefusedSeq, c.Validator = seq, e.Validator })
	case models.CallIntended:
		s.Turn.Calls = change(s.Turn.Calls, e.Position, func(c *Call) { c.IntentSeq = seq })
	case models.CallReturned:
		s.Turn.Calls = change(s.Turn.Calls, e.Position, func(c *Call) { c.OutcomeSeq, c.Result, c.Failed = seq, e.Result, e.Failed })
	case models.CommandStarted:
		s.CommandCount++
		s.Commands = append(append([]Command(nil), s.Commands...), Command{Number: e.Number, Seq: seq})
	case models.CommandFinished:
		s.Commands = without(s.Commands, e.Number)
	case models.ToolUnknown:
		s.Turn.Calls = change(s.Turn.Calls, e.Position, func(c *Call) { c.LostSeq = seq })
	case models.EffectReconciled:
		s = s.reconcile(e, seq)
	case models.RequestRefused:
		s.Turn.RefusedSeq, s.Turn.RefusedAt = seq, at
	case models.ReadonlyObservationWitnessed:
		s.Turn.Settled = true
		s.Checkpoint, s.CheckpointSeq = e.Derived, seq
	case models.RefusalSettled:
		s.Turn.Settled, s.CheckpointSeq = true, seq
	case models.MigrationSettled:
		s.Turn.Settled = true
		s.Checkpoint, s.CheckpointSeq = e.Derived, seq
	}
	return s
}

// ReadStarts reports whether e starts a read, which the budget counts.
func (s State) ReadStarts(e models.Event) bool {
	i, ok := e.(models.CallIntended)
	if !ok {
		return false
	}
	c, r := s.call(i.Request, i.Position)
	return r == nil && reads(c.Class)
}

// The slices of a state are shared with older states, so each change copies.
func insert(calls []Call, c Call) []Call {
	out := make([]Call, 0, len(calls)+1)
	for len(calls) > 0 && calls[0].Position < c.Position {
		out, calls = append(out, calls[0]), calls[1:]
	}
	return append(append(out, c), calls...)
}

func change(calls []Call, position int64, f func(*Call)) []Call {
	out := append([]Call(nil), calls...)
	for i := range out {
		if out[i].Position == position {
			f(&out[i])
		}
	}
	return out
}

func without(commands []Command, number int64) []Command {
	var out []Command
	for _, c := range commands {
		if c.Number != number {
			out = append(out, c)
		}
	}
	return out
}
