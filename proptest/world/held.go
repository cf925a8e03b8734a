package world

import (
	"fmt"

	"github.com/forge-continuity/forge/models"
)

// CommandLimit is the command allowance of every run here; Held has used 11 of it.
const CommandLimit = 22

// Registration is that of a run in required-checkpoint mode without a time budget, on the records as they are now.
func (w *World) Registration() models.Registration {
	frozen := func(kind string) models.Frozen {
		r, _ := w.FactoryState.Record(kind, "main")
		return models.Frozen{Record: "main", Revision: r.Revision, Digest: r.Digest}
	}
	return models.Registration{
		Acknowledgement: "required-checkpoint-mode-acknowledged", Attempt: 1, CompletedRounds: 2,
		Configuration: frozen(models.RecordConfiguration), Contract: Blob("contract"),
		Limits: models.Limits{
			Attempts: 3, Commands: CommandLimit, InputTokens: 200_000, OutputTokens: 20_000, Repairs: 2, Requests: 40,
			SourceReads: 30, ToolCalls: 60, TotalTokens: 220_000,
		},
		Mode: models.ModeRequired, ProviderTimeout: 1800, Reader: Plain("reader"), Runtime: Plain("runtime"),
		Scope: frozen(models.RecordScope), Selection: "original-selection", Source: frozen(models.RecordSource), Task: Blob("task"),
		TimeBudget: models.TimeBudgetNone, Validator: Plain("validator"),
	}
}

// Register registers the run by Dana, with a change where there is one.
func (w *World) Register(changes ...func(*models.Registration)) {
	g := w.Registration()
	for _, change := range changes {
		change(&g)
	}
	w.Must(Dana, "registration", models.RegisterRun{Registration: g})
}

// Claim takes the run for a worker, for the whole provider timeout.
func (w *World) Claim(worker string) Answer {
	return w.Do(worker, "claim-"+w.NextID(), models.ClaimRun{LeaseSeconds: w.State.Registration.ProviderTimeout})
}

// MustClaim is Claim that has to be accepted.
func (w *World) MustClaim(worker string) {
	if a := w.Claim(worker); a.Refusal != nil {
		panic(a.Refusal)
	}
}

// Call is one call of a response: its class, and whether it is refused before start. Commands is how many commands run
// inside it.
type Call struct {
	Class    string
	Refused  bool
	Commands int64
}

// tool is the index of a class's tool in the frozen contract.
func tool(class string) int64 {
	switch class {
	case models.ClassSourceObservation:
		return 0
	case models.ClassEvidenceRead:
		return 1
	case models.ClassCommand:
		return 2
	}
	return -1
}

// Granted is the grant of the call at position of the turn's response.
func Granted(request, position int64, class string) models.CallGranted {
	g := models.CallGranted{
		Args: Blob(fmt.Sprintf("args %d.%d", request, position)), Class: class, ID: Blob(fmt.Sprintf("id %d.%d", request, position)),
		Position: position, Request: request, Tool: tool(class),
	}
	if class == models.ClassSourceObservation || class == models.ClassEvidenceRead {
		g.Cut = Plain("cut")
	}
	return g
}

// Asked is the request after the checkpoint that stands, or after a new one where the mode needs it.
func (w *World) Asked() []models.Fact {
	c, next := w.State.Custody, w.State.Budget.Spent.Requests+1
	var facts []models.Fact
	checkpoint := c.Checkpoint
	if c.CheckpointSeq <= c.Turn.RequestSeq {
		checkpoint = Blob(fmt.Sprintf("checkpoint %d", next))
		facts = append(facts, models.CheckpointSaved{Checkpoint: checkpoint})
	}
	wire := fmt.Sprintf("wire %d", next)
	return append(facts, models.RequestIssued{Checkpoint: checkpoint, Request: next, Wire: Plain(wire), WireBlob: Blob(wire), WireLength: 1000 + next})
}

// Answered is the response to the request that stands.
func (w *World) Answered() models.ResponseKept {
	n := w.State.Custody.Turn.Request
	return models.ResponseKept{Length: 500 + n, Request: n, Response: Blob(fmt.Sprintf("response %d", n))}
}

// Consumed is its consumption, with so many calls.
func (w *World) Consumed(calls int64) models.ResponseConsumed {
	t := w.State.Custody.Turn
	return models.ResponseConsumed{Calls: calls, Request: t.Request, Response: t.Response, Tokens: models.Tokens{Input: 900 + t.Request, Output: 40 + t.Request}}
}

// Turn plays one turn up to the outcomes of its calls: request, response, consume, then each call.
func (w *World) Turn(calls ...Call) {
	w.MustAppend(w.Asked()...)
	w.Tick(2)
	w.MustAppend(w.Answered())
	w.MustAppend(w.Consumed(int64(len(calls))))
	request := w.State.Custody.Turn.Request
	var facts []models.Fact
	for i, c := range calls {
		facts = append(facts, Granted(request, int64(i), c.Class))
	}
	if len(facts) > 0 {
		w.MustAppend(facts...)
	}
	for i, c := range calls {
		w.Play(request, int64(i), c)
	}
}

// Play plays one granted call to its end.
func (w *World) Play(request, position int64, c Call) {
	if c.Refused {
		w.MustAppend(models.CallRefused{Position: position, Request: request, Validator: w.State.Registration.Validator})
		return
	}
	w.MustAppend(models.CallIntended{Position: position, Request: request})
	for range c.Commands {
		n := w.State.Budget.Spent.Commands + 1
		w.MustAppend(models.CommandStarted{Command: Blob(fmt.Sprintf("command %d", n)), Number: n, Position: position, Request: request})
		w.Tick(1)
		w.MustAppend(models.CommandFinished{Number: n, Receipt: Blob(fmt.Sprintf("receipt %d", n))})
	}
	w.MustAppend(models.CallReturned{Position: position, Request: request, Result: Blob(fmt.Sprintf("result %d.%d", request, position))})
}

// Round plays a turn and completes it.
func (w *World) Round(calls ...Call) {
	w.Turn(calls...)
	w.MustAppend(models.RoundCompleted{Round: w.State.Rounds + 1})
}

// Failed is the worker's own report that it stops.
func Failed() models.WorkerFailed { return models.WorkerFailed{Report: Blob("report")} }

// Executing is a claimed run with four completed rounds and 11 of 22 commands used, about to send its fifth request.
func Executing(changes ...func(*models.Registration)) *World {
	w := New(true)
	w.Start(changes...)
	return w
}

// Start registers the run of a fresh world and plays it up to where Executing is.
func (w *World) Start(changes ...func(*models.Registration)) {
	w.Tick(1)
	w.Register(changes...)
	w.Tick(1)
	w.MustClaim(Worker)
	w.Round(Call{Class: models.ClassSourceObservation}, Call{Class: models.ClassEvidenceRead})
	w.Round(Call{Class: models.ClassCommand, Commands: 4})
	w.Round(Call{Class: models.ClassSourceObservation}, Call{Class: models.ClassCommand, Commands: 3})
	w.Round(Call{Class: models.ClassCommand, Commands: 4})
}

// Held is the canonical run: registered by Dana, claimed by a worker, four rounds with 11 of 22 commands, then a consumed
// response whose single evidence read was granted and refused before it started, and the worker's own failure.
func Held(changes ...func(*models.Registration)) *World {
	w := Executing(changes...)
	w.Stop()
	return w
}

// Stop plays the stop that continuity serves.
func (w *World) Stop() {
	w.Turn(Call{Class: models.ClassEvidenceRead, Refused: true})
	w.Tick(1)
	w.MustAppend(Failed())
	w.Tick(60)
}

// ProofOne is the reconstruction that a sandbox would give for a turn with one rejected evidence read: version 1.
func (w *World) ProofOne() *models.Reconstruction {
	t := w.State.Custody.Turn
	r := &models.Reconstruction{
		Catalogue: w.Host.Catalogue, Checkpoint: t.Checkpoint, Module: w.Host.Module, Response: t.Response, Served: 1,
		Tokens: t.Tokens, Version: 1, Contract: Blob("captured contract"), Derived: Blob(fmt.Sprintf("derived %d", t.Request)),
		Proof: Blob(fmt.Sprintf("proof %d", t.Request)), Witness: Blob(fmt.Sprintf("witness %d", t.Request)),
		Closing: []models.ClosingResult{{Position: 0, Result: models.ResultInvalidQuery}},
	}
	for _, c := range t.Calls {
		r.Calls = append(r.Calls, models.SeenCall{Args: c.Args, Class: c.Class, ID: c.ID, Position: c.Position, Tool: c.Tool})
	}
	return r
}

// Sandbox replaces the reconstruction by ProofOne with a change.
func (w *World) Sandbox(change func(*models.Reconstruction)) {
	w.Rebuild = func(w *World) *models.Reconstruction {
		r := w.ProofOne()
		change(r)
		return r
	}
}

// Request is the body that Dana would send after reading the candidate now: every digest and acknowledgement right.
func (w *World) Request(seconds models.Seconds) models.RequestContinuity {
	c := w.Candidate(Dana)
	return models.RequestContinuity{
		AcknowledgeNoNewGrant: true, AcknowledgeOriginalConsumption: true, AcknowledgeRenewedSameAttemptLease: true,
		CandidateDigest: c.CandidateDigest, JournalDigest: c.JournalDigest, PolicyDigest: c.PolicyDigest, RunDigest: c.RunDigest,
		ValidForSeconds: seconds, Version: 1,
	}
}

// Admit admits the held run by Dana for 600 seconds.
func (w *World) Admit(id string) Answer { return w.Must(Dana, id, w.Request(600)) }

// Queued is Held with its ticket admitted.
func Queued() *World {
	w := Held()
	w.Admit("request-1")
	w.Tick(5)
	return w
}

// Continuing is Queued with the ticket claimed by another worker.
func Continuing() *World {
	w := Queued()
	w.MustClaim(Worker2)
	w.Tick(1)
	return w
}
