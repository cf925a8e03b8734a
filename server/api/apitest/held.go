package apitest

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/server/api"
	"github.com/forge-continuity/forge/server/engine"
)

// Run is a run that Hold recorded, with what a worker needs to go on.
type Run struct {
	ID         string
	Salt       [32]byte
	Fence      int64
	Checkpoint models.Digest
	w          *World
	commands   int64
	batches    int64
}

// Commands that Hold records, of CommandLimit (spec, Operator flow: the ledger at 11 of 22).
const (
	HeldCommands = 11
	CommandLimit = 22
)

// Registration is what Hold registers, before its blobs are named.
func Registration() models.Registration {
	frozen := func(kind string) models.Frozen {
		return models.Frozen{Record: Record, Revision: 1, Digest: RecordDigest(kind)}
	}
	return models.Registration{
		Acknowledgement: "reviewed", Attempt: 1, Configuration: frozen(models.RecordConfiguration),
		Limits: models.Limits{Attempts: 3, Commands: CommandLimit, InputTokens: 100_000, OutputTokens: 100_000, Repairs: 3, Requests: 50,
			SourceReads: 50, ToolCalls: 50, TotalTokens: 200_000},
		Mode: models.ModeRequired, ProviderTimeout: models.MaxWindow, Reader: models.PlainDigest([]byte("reader")),
		Runtime: models.PlainDigest([]byte("runtime")), Scope: frozen(models.RecordScope), Selection: "original",
		Source: frozen(models.RecordSource), TimeBudget: models.TimeBudgetNone, Validator: models.PlainDigest([]byte("validator")),
	}
}

// Open opens a run as Dana and registers it through the API.
func (w *World) Open(tb testing.TB, id string, change ...func(*models.Registration)) *Run {
	tb.Helper()
	r := w.Opened(tb, Must[api.Opened](tb, w, http.StatusCreated, Call{As: Dana, Method: http.MethodPut, Path: "/runs/" + id}))
	Must[models.AppendReceipt](tb, w, http.StatusCreated, Call{As: Dana, Method: http.MethodPut, Path: "/runs/" + id + "/registration",
		Body: models.RegisterRun{Registration: r.Registration(tb, change...)}})
	return r
}

// Opened is a run that was opened and is not registered.
func (w *World) Opened(tb testing.TB, o api.Opened) *Run {
	tb.Helper()
	salt, err := hex.DecodeString(o.Salt)
	if err != nil {
		tb.Fatal(err)
	}
	return &Run{ID: o.Run, Salt: [32]byte(salt), w: w}
}

// Registration is what Open registers: its blobs are put as Dana, and its records are named as they stand.
func (r *Run) Registration(tb testing.TB, change ...func(*models.Registration)) models.Registration {
	tb.Helper()
	g := Registration()
	f, err := r.w.Engine.Factory(tb.Context(), engine.Caller{Factory: Factory, Principal: Dana}, models.RoleOperator)
	if err != nil {
		tb.Fatal(err)
	}
	for _, frozen := range []struct {
		kind string
		of   *models.Frozen
	}{{models.RecordConfiguration, &g.Configuration}, {models.RecordScope, &g.Scope}, {models.RecordSource, &g.Source}} {
		now, _ := f.Record(frozen.kind, Record)
		frozen.of.Revision = now.Revision
	}
	g.Task, g.Contract = r.Blob(tb, Dana, "the task"), r.Blob(tb, Dana, "the contract")
	for _, f := range change {
		f(&g)
	}
	return g
}

// Claim takes the run as Worker.
func (r *Run) Claim(tb testing.TB, claim string) models.ClaimReceipt {
	tb.Helper()
	out := Must[api.Claimed](tb, r.w, http.StatusOK, Call{As: Worker, Method: http.MethodPut, Path: "/runs/" + r.ID + "/claims/" + claim,
		Body: models.ClaimRun{LeaseSeconds: 600}})
	var receipt models.ClaimReceipt
	if err := canon.Unmarshal(out.Claim, &receipt); err != nil {
		tb.Fatal(err)
	}
	r.Fence = receipt.Fence
	return receipt
}

// Blob puts content of the run as the principal and returns its digest.
func (r *Run) Blob(tb testing.TB, as, content string) models.Digest {
	tb.Helper()
	d := models.SaltedBlob(r.Salt, []byte(content))
	a := r.w.Send(tb, Call{As: as, Method: http.MethodPut, Path: "/runs/" + r.ID + "/blobs/" + d.String(), Body: content,
		Header: map[string]string{"Forge-Fence": strconv.FormatInt(r.Fence, 10)}})
	if a.Status != http.StatusNoContent {
		tb.Fatalf("put blob: %d %s", a.Status, a.Body)
	}
	return d
}

// Append reports facts as Worker in a batch of its own.
func (r *Run) Append(tb testing.TB, facts ...models.Fact) models.AppendReceipt {
	tb.Helper()
	r.batches++
	return Must[models.AppendReceipt](tb, r.w, http.StatusCreated, Call{As: Worker, Method: http.MethodPut,
		Path: fmt.Sprintf("/runs/%s/batches/batch-%d", r.ID, r.batches), Body: models.Append{Facts: facts, Fence: r.Fence}})
}

// Commands runs n more commands.
func (r *Run) Commands(tb testing.TB, n int) {
	tb.Helper()
	var facts []models.Fact
	for range n {
		r.commands++
		facts = append(facts,
			models.CommandStarted{Command: r.Blob(tb, Worker, fmt.Sprintf("command %d", r.commands)), Number: r.commands, Position: -1},
			models.CommandFinished{Number: r.commands, Receipt: r.Blob(tb, Worker, fmt.Sprintf("receipt %d", r.commands))})
	}
	r.Append(tb, facts...)
}

// EvidenceCall is the call that Hold's response makes.
var EvidenceCall = FakeCall{Args: `{"query":{}}`, Class: models.ClassEvidenceRead, ID: "call-1"}

// Turn sends one request and consumes a response with these calls, each of them granted; an evidence read is rejected
// before it starts, as the validator would.
func (r *Run) Turn(tb testing.TB, request int64, calls ...FakeCall) {
	tb.Helper()
	tokens := models.Tokens{Input: 700, Output: 30}
	wire := fmt.Sprintf("wire bytes of request %d", request)
	response := Response(tokens, calls...)
	r.Checkpoint = r.Blob(tb, Worker, fmt.Sprintf("checkpoint before request %d", request))
	kept := r.Blob(tb, Worker, string(response))
	facts := []models.Fact{
		models.CheckpointSaved{Checkpoint: r.Checkpoint},
		models.RequestIssued{Checkpoint: r.Checkpoint, Request: request, Wire: models.PlainDigest([]byte(wire)),
			WireBlob: r.Blob(tb, Worker, wire), WireLength: int64(len(wire))},
		models.ResponseKept{Length: int64(len(response)), Request: request, Response: kept},
		models.ResponseConsumed{Calls: int64(len(calls)), Request: request, Response: kept, Tokens: tokens},
	}
	for i, c := range calls {
		position := int64(i)
		facts = append(facts, models.CallGranted{Args: models.SaltedBlob(r.Salt, []byte(c.Args)), Class: c.Class,
			Cut: models.PlainDigest([]byte("cut")), ID: models.SaltedBlob(r.Salt, []byte(c.ID)), Position: position, Request: request, Tool: c.Tool})
		if c.Class == models.ClassEvidenceRead {
			facts = append(facts, models.CallRefused{Position: position, Request: request, Validator: Registration().Validator})
		}
	}
	r.Append(tb, facts...)
}

// Fail ends the claim as a worker that gives up.
func (r *Run) Fail(tb testing.TB) {
	tb.Helper()
	r.Append(tb, models.WorkerFailed{Report: r.Blob(tb, Worker, "the worker gave up")})
}

// Hold records, through the API and for a Fake sandbox, a run that stopped where continuity serves: eleven commands, one
// consumed response whose single evidence read was rejected before it started, and a worker that gave up.
func (w *World) Hold(tb testing.TB, id string, change ...func(*models.Registration)) *Run {
	tb.Helper()
	return w.HoldWith(tb, id, []FakeCall{EvidenceCall}, change...)
}

// HoldWith is Hold with other calls in the response.
func (w *World) HoldWith(tb testing.TB, id string, calls []FakeCall, change ...func(*models.Registration)) *Run {
	tb.Helper()
	r := w.Open(tb, id, change...)
	r.Claim(tb, "claim-1")
	r.Commands(tb, HeldCommands)
	r.Turn(tb, 1, calls...)
	r.Fail(tb)
	return r
}

// Candidate reads the run's candidate as Dana.
func (r *Run) Candidate(tb testing.TB) models.Candidate {
	tb.Helper()
	return Must[models.Candidate](tb, r.w, http.StatusOK, Call{As: Dana, Method: http.MethodGet, Path: r.Base() + "/candidate"})
}

// Base is the path of the run's continuity routes.
func (r *Run) Base() string { return "/runs/" + r.ID + "/invalid-read-continuity" }

// Accept is the version-1 request body that takes a candidate as it was read.
func Accept(c models.Candidate, seconds models.Seconds) models.RequestContinuity {
	return models.RequestContinuity{
		AcknowledgeNoNewGrant: true, AcknowledgeOriginalConsumption: true, AcknowledgeRenewedSameAttemptLease: true,
		CandidateDigest: c.CandidateDigest, JournalDigest: c.JournalDigest, PolicyDigest: c.PolicyDigest, RunDigest: c.RunDigest,
		ValidForSeconds: seconds, Version: 1,
	}
}

// Request posts a body under a request id as Dana.
func (r *Run) Request(tb testing.TB, id string, body any) Answer {
	tb.Helper()
	return r.w.Send(tb, Call{As: Dana, Method: http.MethodPost, Path: r.Base() + "/requests/" + id, Body: body})
}

// Admit reads the candidate and admits it.
func (r *Run) Admit(tb testing.TB, id string) models.ContinuityReceipt {
	tb.Helper()
	a := r.Request(tb, id, Accept(r.Candidate(tb), 600))
	var receipt models.ContinuityReceipt
	if err := canon.Unmarshal(a.Body, &receipt); err != nil || a.Status != http.StatusAccepted {
		tb.Fatalf("admit: %d %s", a.Status, a.Body)
	}
	return receipt
}

// Show reads the run as Dana.
func (r *Run) Show(tb testing.TB) api.RunShown {
	tb.Helper()
	return Must[api.RunShown](tb, r.w, http.StatusOK, Call{As: Dana, Method: http.MethodGet, Path: "/runs/" + r.ID})
}
