package kernel_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/proptest/world"
)

// turn is an executing run whose fifth response is consumed, with one granted call of each class named.
func turn(classes ...string) (*world.World, int64) {
	w := world.Executing()
	w.MustAppend(w.Asked()...)
	w.MustAppend(w.Answered())
	w.MustAppend(w.Consumed(int64(len(classes))))
	n := w.State.Custody.Turn.Request
	for i, class := range classes {
		w.MustAppend(world.Granted(n, int64(i), class))
	}
	return w, n
}

// C1: what was recorded of a call never changes, and each step follows its own.
func TestCallGoesOneWay(t *testing.T) {
	v := world.Plain("validator")
	w, n := turn(models.ClassWrite, models.ClassWrite)
	intent, outcome := models.CallIntended{Request: n}, models.CallReturned{Request: n, Result: world.Blob("r")}
	refusal, lost := models.CallRefused{Request: n, Validator: v}, models.ToolUnknown{Request: n}
	refused(t, w.Append(outcome), models.CodeFactOutOfOrder)
	refused(t, w.Append(lost), models.CodeFactOutOfOrder)
	w.MustAppend(intent)
	for _, f := range []models.Fact{intent, refusal} {
		refused(t, w.Append(f), models.CodeFactOutOfOrder, "position", "0")
	}
	known := w.Clone()
	known.MustAppend(outcome)
	for _, f := range []models.Fact{intent, outcome, refusal, lost} {
		refused(t, known.Append(f), models.CodeFactOutOfOrder)
	}
	gone := w.Clone()
	gone.MustAppend(lost)
	refused(t, gone.Append(lost), models.CodeFactOutOfOrder)
	second := models.CallRefused{Request: n, Position: 1, Validator: v}
	w.MustAppend(second)
	for _, f := range []models.Fact{models.CallIntended{Request: n, Position: 1}, second, models.CallReturned{Request: n, Position: 1, Result: world.Blob("r")}} {
		refused(t, w.Append(f), models.CodeFactOutOfOrder, "position", "1")
	}
	for _, f := range []models.Fact{
		world.Granted(n, 0, models.ClassWrite), world.Granted(n, 2, models.ClassWrite), world.Granted(n, -1, models.ClassWrite),
		world.Granted(n+1, 1, models.ClassWrite), models.CallIntended{Request: n, Position: 7}, models.CallIntended{Request: n + 1},
		models.CallReturned{Request: n, Position: 7, Result: world.Blob("r")}, models.CallRefused{Request: n, Position: 7, Validator: v},
		models.ToolUnknown{Request: n, Position: 7},
	} {
		refused(t, w.Append(f), models.CodeFactOutOfOrder)
	}
	verify(t, w)
}

// C3, C5 and the order of request, response and consume.
func TestTurnGoesOneWay(t *testing.T) {
	w := world.Executing()
	next := w.Asked()
	n := int64(5)
	response := models.ResponseKept{Length: 1, Request: n, Response: world.Blob("r")}
	consume := models.ResponseConsumed{Request: n, Response: world.Blob("r"), Calls: 1}
	for _, f := range []models.Fact{response, consume, world.Granted(n, 0, models.ClassWrite), next[1]} {
		refused(t, w.Append(f), models.CodeFactOutOfOrder)
	}
	w.MustAppend(next[0])
	ask := next[1].(models.RequestIssued)
	for _, change := range []func(*models.RequestIssued){
		func(r *models.RequestIssued) { r.Request = 4 }, func(r *models.RequestIssued) { r.Request = 6 },
		func(r *models.RequestIssued) { r.Checkpoint = world.Blob("another") }, func(r *models.RequestIssued) { r.Checkpoint = models.Digest{} },
	} {
		f := ask
		change(&f)
		refused(t, w.Append(f), models.CodeFactOutOfOrder)
	}
	w.MustAppend(ask)
	for _, f := range []models.Fact{ask, consume, next[0]} {
		refused(t, w.Append(f), models.CodeFactOutOfOrder)
	}
	other := response
	other.Request = 4
	refused(t, w.Append(other), models.CodeFactOutOfOrder)
	// A cut stream is no response: it may be followed by the whole one, never be consumed.
	partial := response
	partial.Partial = true
	w.MustAppend(partial)
	refused(t, w.Append(consume), models.CodeFactOutOfOrder)
	w.MustAppend(response)
	refused(t, w.Append(response), models.CodeFactOutOfOrder)
	refused(t, w.Append(partial), models.CodeFactOutOfOrder)
	for _, change := range []func(*models.ResponseConsumed){
		func(c *models.ResponseConsumed) { c.Request = 4 }, func(c *models.ResponseConsumed) { c.Response = world.Blob("another") },
	} {
		f := consume
		change(&f)
		refused(t, w.Append(f), models.CodeFactOutOfOrder)
	}
	many := consume
	many.Calls = 129
	refused(t, w.Append(many), models.CodeCallsFull, "limit", "128")
	w.MustAppend(consume)
	for _, f := range []models.Fact{consume, response, ask, next[0]} {
		refused(t, w.Append(f), models.CodeFactOutOfOrder)
	}
	verify(t, w)

	// In the required mode a checkpoint goes before each request; in another mode the last one may serve again.
	for _, mode := range []string{models.ModeRequired, "best-effort"} {
		w := world.Executing(func(g *models.Registration) { g.Mode = mode })
		again := w.Append(models.RequestIssued{Checkpoint: w.State.Custody.Checkpoint, Request: 5, Wire: world.Plain("w"), WireBlob: world.Blob("w"), WireLength: 1})
		if mode == models.ModeRequired {
			refused(t, again, models.CodeFactOutOfOrder)
		} else {
			accepted(t, again)
		}
	}
}

func TestCommandsCountWithoutAGap(t *testing.T) {
	w, n := turn(models.ClassCommand, models.ClassWrite)
	start := models.CommandStarted{Command: world.Blob("c"), Number: 12, Position: -1}
	for _, number := range []int64{0, 11, 13} {
		f := start
		f.Number = number
		refused(t, w.Append(f), models.CodeFactOutOfOrder, "want", "12")
	}
	inside := start
	inside.Position, inside.Request = 0, n
	refused(t, w.Append(inside), models.CodeFactOutOfOrder) // not before its intent
	w.MustAppend(models.CallIntended{Request: n}, models.CallIntended{Request: n, Position: 1})
	for _, position := range []int64{1, 2, -2} {
		f := inside
		f.Position = position
		refused(t, w.Append(f), models.CodeFactOutOfOrder)
	}
	w.MustAppend(inside)
	w.MustAppend(models.CallReturned{Request: n, Result: world.Blob("r")})
	inside.Number = 13
	refused(t, w.Append(inside), models.CodeFactOutOfOrder) // nor after its outcome
	refused(t, w.Append(models.CommandFinished{Number: 13, Receipt: world.Blob("r")}), models.CodeFactOutOfOrder)
	w.MustAppend(models.CommandFinished{Number: 12, Receipt: world.Blob("r")})
	refused(t, w.Append(models.CommandFinished{Number: 12, Receipt: world.Blob("r")}), models.CodeFactOutOfOrder)

	w = world.New(true)
	w.Register(func(g *models.Registration) { g.Limits.Commands = 200 })
	w.MustClaim(world.Worker)
	for i := range int64(128) {
		w.MustAppend(models.CommandStarted{Command: world.Blob("c"), Number: i + 1, Position: -1})
	}
	refused(t, w.Append(models.CommandStarted{Command: world.Blob("c"), Number: 129, Position: -1}), models.CodeCallsFull)
}

// Where a worker can die (design, section 3): what an ordinary claim may go on from, and what it may not.
func TestWhereAWorkerCanDie(t *testing.T) {
	for name, c := range map[string]struct {
		world func() *world.World
		code  models.Code // "" is an ordinary claim
	}{
		"nothing open":     {func() *world.World { return world.Executing() }, ""},
		"checkpoint saved": {func() *world.World { w := world.Executing(); w.MustAppend(w.Asked()[0]); return w }, ""},
		"request issued":   {func() *world.World { w := world.Executing(); w.MustAppend(w.Asked()...); return w }, models.CodeModelOutcomeUnknown},
		"response kept": {func() *world.World {
			w := world.Executing()
			w.MustAppend(w.Asked()...)
			w.MustAppend(w.Answered())
			return w
		}, ""},
		"granted, no start": {func() *world.World { w, _ := turn(models.ClassWrite); return w }, ""},
		"rejected read": {func() *world.World {
			w, n := turn(models.ClassEvidenceRead)
			w.MustAppend(models.CallRefused{Request: n, Validator: world.Plain("validator")})
			return w
		}, models.CodeRunHeld},
		"intent of a read": {func() *world.World {
			w, n := turn(models.ClassPureRead)
			w.MustAppend(models.CallIntended{Request: n})
			return w
		}, models.CodeUnknownEffect},
		"intent of a write": {func() *world.World {
			w, n := turn(models.ClassWrite)
			w.MustAppend(models.CallIntended{Request: n})
			return w
		}, models.CodeUnknownEffect},
		"command started": {func() *world.World {
			w := world.Executing()
			w.MustAppend(models.CommandStarted{Command: world.Blob("c"), Number: 12, Position: -1})
			return w
		}, models.CodeUnknownEffect},
		"outcomes kept": {func() *world.World { w := world.Executing(); w.Turn(world.Call{Class: models.ClassWrite}); return w }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := c.world()
			if e := kernel.Queue(w.State); e != nil {
				t.Error("queued while it is claimed")
			}
			if until := kernel.Reclaimable(w.State); (until != 0) != (c.code == "") || until != 0 && until != kernel.Forever {
				t.Errorf("reclaimable until %d", until)
			}
			released := w.Clone().Do(world.Worker, "release", models.ReleaseRun{Fence: 1})
			if h := w.Holds(); len(h) > 0 || kernel.Unknown(w.State, w.Now, w.Lease) != nil {
				t.Errorf("while it is claimed: %v", h)
			}
			w.Tick(10_000) // the owner is gone
			shown, code := w.Holds(), models.Code("")
			if len(shown) > 0 {
				code = shown[0].Code
			}
			unknown := c.code == models.CodeModelOutcomeUnknown || c.code == models.CodeUnknownEffect
			if code != c.code || (len(kernel.Unknown(w.State, w.Now, w.Lease)) > 0) != unknown {
				t.Errorf("holds %v, unknown %v", shown, kernel.Unknown(w.State, w.Now, w.Lease))
			}
			a := w.Claim(world.Worker2)
			if c.code == "" {
				accepted(t, a)
				accepted(t, released)
				if got := kinds(a.Events); !slices.Equal(got, []string{"lease.lapsed", "lease.granted", "claim.taken"}) {
					t.Errorf("rows %v", got)
				}
				if w.State.Lease.Fence != 2 || w.State.Lease.Owner != world.Worker2 {
					t.Errorf("lease %+v", w.State.Lease)
				}
			} else {
				refused(t, a, c.code)
				refused(t, released, c.code)
			}
			verify(t, w)
		})
	}
}

func TestReleaseHandsOver(t *testing.T) {
	w := world.Executing()
	refused(t, w.Do(world.Worker, "release", models.ReleaseRun{Fence: 2}), models.CodeFenceLost)
	refused(t, w.Do(world.Worker2, "release", models.ReleaseRun{Fence: 1}), models.CodeFenceLost)
	refused(t, w.Do(world.Worker, "release", models.ReleaseRun{Fence: 1, Pool: "a b"}), models.CodeRequestMalformed, "member", "pool")
	w.Must(world.Worker, "release", models.ReleaseRun{Fence: 1, Pool: "gpu"})
	if e := kernel.Queue(w.State); e == nil || e.Pool != "gpu" {
		t.Errorf("queue %+v", e)
	}
	refused(t, w.Append(w.Asked()...), models.CodeFenceLost)
	refused(t, w.Claim(world.Worker2), models.CodeNotInPool, "pool", "gpu")
	refused(t, w.Do(world.Worker2, "c", models.ClaimRun{LeaseSeconds: 10, Pool: "cpu"}), models.CodeNotInPool)
	refused(t, w.Do(world.Worker2, "c", models.ClaimRun{LeaseSeconds: 10, Pool: "g p u"}), models.CodeRequestMalformed, "member", "pool")
	accepted(t, w.Do(world.Worker2, "c", models.ClaimRun{LeaseSeconds: 10, Pool: "gpu"}))
	w.Must(world.Worker2, "release-2", models.ReleaseRun{Fence: 2})
	// What was handed to nobody in particular is for the workers of any pool.
	accepted(t, w.Do(world.Worker, "claim-cpu", models.ClaimRun{LeaseSeconds: 10, Pool: "cpu"}))
	w.Must(world.Omar, "cancel", models.CancelRun{})
	refused(t, w.Do(world.Worker, "release-3", models.ReleaseRun{Fence: 3}), models.CodeRunCancelled)
	verify(t, w)

	// A claimed ticket is never given back (BOUND-08).
	w = world.Continuing()
	refused(t, w.Do(world.Worker2, "release", models.ReleaseRun{Fence: 2}), models.CodeTicketOutstanding)
}

// FLOW-26 for renewal: to at most the frozen timeout from now, never past the active deadline, never shorter.
func TestRenewal(t *testing.T) {
	deadline := world.Start.Add(3000)
	w := world.Executing(func(g *models.Registration) { g.TimeBudget, g.ActiveDeadline = models.TimeBudgetAbsolute, deadline })
	renew := func(who string, fence int64, seconds models.Seconds) (models.Instant, *models.Refusal) {
		return kernel.Renew(w.State, fence, seconds, w.Env(who, "", models.Append{}))
	}
	for _, seconds := range []models.Seconds{0, -1, 7201} {
		_, r := renew(world.Worker, 1, seconds)
		is(t, r, models.CodeWindowInvalid)
	}
	_, r := renew(world.Worker, 2, 10)
	is(t, r, models.CodeFenceLost)
	_, r = renew(world.Worker2, 1, 10)
	is(t, r, models.CodeFenceLost)
	_, r = renew(world.Rita, 1, 10)
	is(t, r, models.CodeRoleMissing)
	_, r = renew("stranger", 1, 10)
	is(t, r, models.CodeIdentityMissing)
	if end, r := renew(world.Worker, 1, 1); r != nil || end != w.Lease {
		t.Errorf("shortened to %d, %v", end, r)
	}
	w.Tick(600)
	if end, r := renew(world.Worker, 1, 7200); r != nil || end != w.Now.Add(1800) {
		t.Errorf("timeout: %d, %v", end, r)
	}
	w.Now = w.Lease - 1
	if end, r := renew(world.Worker, 1, 7200); r != nil || end != deadline {
		t.Errorf("deadline: %d, %v", end, r)
	}
	w.Now = w.Lease
	_, r = renew(world.Worker, 1, 10)
	is(t, r, models.CodeLeaseExpired)
	w.Lease, w.Now = deadline+1, deadline // a row that says more than it may
	_, r = renew(world.Worker, 1, 10)
	is(t, r, models.CodeDeadlinePassed)

	w = world.Continuing()
	_, r = kernel.Renew(w.State, 2, 10, w.Env(world.Worker2, "", models.Append{}))
	is(t, r, models.CodeWindowInvalid)
	w = world.New(true)
	_, r = kernel.Renew(w.State, 0, 10, w.Env(world.Worker, "", models.Append{}))
	is(t, r, models.CodeNotFound)
	w = world.Executing()
	w.Must(world.Omar, "cancel", models.CancelRun{})
	_, r = kernel.Renew(w.State, 1, 10, w.Env(world.Worker, "", models.Append{}))
	is(t, r, models.CodeRunCancelled)
}

var settle = world.Settle

// ELIG-16, the reconciled half: what is unknown stays so until a person settles it, once, and the rows stay.
func TestReconciliationSettlesOneUnknown(t *testing.T) {
	outcomes := []string{models.OutcomeLanded, models.OutcomeDidNotHappen, models.OutcomeChargedUnknown}
	for _, subject := range []string{models.SubjectRequest, models.SubjectCall, models.SubjectCommand} {
		for _, outcome := range outcomes {
			t.Run(subject+" "+outcome, func(t *testing.T) {
				var w *world.World
				var seq int64
				switch subject {
				case models.SubjectRequest:
					w = world.Executing()
					w.MustAppend(w.Asked()...)
					seq = w.State.Custody.Turn.RequestSeq
				case models.SubjectCall:
					var n int64
					w, n = turn(models.ClassWrite)
					seq = w.MustAppend(models.CallIntended{Request: n}).Rows[0].Seq
				case models.SubjectCommand:
					w = world.Executing()
					seq = w.MustAppend(models.CommandStarted{Command: world.Blob("c"), Number: 12, Position: -1}).Rows[0].Seq
				}
				c := settle(subject, seq, outcome)
				refused(t, w.Do(world.Dana, "x", c), models.CodeClaimLive)
				w.Tick(10_000)
				before, counters := slices.Clone(w.Rows), w.State.Counters()
				stuck := w.Claim(world.Worker2)
				if stuck.Refusal == nil {
					t.Fatal("claimed with an unknown effect")
				}
				refused(t, w.Do(world.Worker2, "x", c), models.CodeRoleMissing)
				for _, wrong := range []int64{0, seq - 1, seq + 1, 1 << 60} {
					f := c
					f.Seq = wrong
					refused(t, w.Do(world.Dana, "x", f), models.CodeNothingToReconcile)
				}
				for _, other := range []string{models.SubjectRequest, models.SubjectCall, models.SubjectCommand} {
					if other != subject {
						refused(t, w.Do(world.Dana, "x", settle(other, seq, outcome)), models.CodeNothingToReconcile)
					}
				}
				refused(t, w.Do(world.Dana, "x", func() models.Reconcile { f := settle(models.SubjectTicket, seq, outcome); f.RequestID = "r"; return f }()), models.CodeNothingToReconcile)
				a := w.Must(world.Omar, "x", c)
				if got := kinds(a.Events); !slices.Equal(got, []string{"lease.lapsed", "effect.reconciled"}) {
					t.Errorf("rows %v", got)
				}
				refused(t, w.Do(world.Dana, "y", c), models.CodeNothingToReconcile)
				for i := range before {
					if before[i].Hash != w.Rows[i].Hash {
						t.Fatalf("row %d changed", i+1)
					}
				}
				if w.State.Counters() != counters {
					t.Errorf("counters moved: %+v", w.State.Counters())
				}
				accepted(t, w.Claim(world.Worker2))
				turn := w.State.Custody.Turn
				switch {
				case subject == models.SubjectRequest && outcome == models.OutcomeLanded:
					w.MustAppend(models.ResponseConsumed{Request: turn.Request, Response: world.Blob("found result")})
				case subject == models.SubjectRequest:
					refused(t, w.Append(w.Answered()), models.CodeFactOutOfOrder)
					accepted(t, w.Append(w.Asked()...))
				case subject == models.SubjectCall && outcome == models.OutcomeDidNotHappen:
					w.MustAppend(models.CallIntended{Request: turn.Request}, models.CallReturned{Request: turn.Request, Result: world.Blob("r")})
				case subject == models.SubjectCall:
					refused(t, w.Append(models.CallReturned{Request: turn.Request, Result: world.Blob("r")}), models.CodeFactOutOfOrder)
					accepted(t, w.Append(w.Asked()...))
				case subject == models.SubjectCommand:
					refused(t, w.Append(models.CommandFinished{Number: 12, Receipt: world.Blob("r")}), models.CodeFactOutOfOrder)
					accepted(t, w.Append(models.CommandStarted{Command: world.Blob("c"), Number: 13, Position: -1}))
				}
				verify(t, w)
			})
		}
	}
}

func TestReconciliationIsWellFormed(t *testing.T) {
	w := world.Executing()
	w.MustAppend(w.Asked()...)
	seq := w.State.Custody.Turn.RequestSeq
	w.Tick(10_000)
	for name, c := range map[string]struct {
		change func(*models.Reconcile)
		member string
	}{
		"subject":           {func(c *models.Reconcile) { c.Subject = "weather" }, "subject"},
		"request id":        {func(c *models.Reconcile) { c.RequestID = "r" }, "request_id"},
		"no request id":     {func(c *models.Reconcile) { c.Subject = models.SubjectTicket }, "request_id"},
		"outcome":           {func(c *models.Reconcile) { c.Outcome = "" }, "outcome"},
		"no evidence":       {func(c *models.Reconcile) { c.Evidence = models.Digest{} }, "evidence"},
		"no result":         {func(c *models.Reconcile) { c.Result = models.Digest{} }, "result"},
		"result of nothing": {func(c *models.Reconcile) { c.Outcome = models.OutcomeDidNotHappen }, "result"},
		"length":            {func(c *models.Reconcile) { c.ResultLength = -1 }, "result_length"},
		"length of a call":  {func(c *models.Reconcile) { c.Subject = models.SubjectCall }, "result_length"},
	} {
		t.Run(name, func(t *testing.T) {
			f := settle(models.SubjectRequest, seq, models.OutcomeLanded)
			c.change(&f)
			refused(t, w.Do(world.Dana, "x", f), models.CodeRequestMalformed, "member", c.member)
		})
	}
	for name, change := range map[string]func(*models.Reconcile){
		"acknowledge_no_replay":                 func(c *models.Reconcile) { c.AcknowledgeNoReplay = false },
		"acknowledge_original_record_unchanged": func(c *models.Reconcile) { c.AcknowledgeOriginalRecordUnchanged = false },
		"acknowledge_original_use_charged":      func(c *models.Reconcile) { c.AcknowledgeOriginalUseCharged = false },
		"acknowledge_unknown_outcome":           func(c *models.Reconcile) { c.AcknowledgeUnknownOutcome = false },
	} {
		f := settle(models.SubjectRequest, seq, models.OutcomeChargedUnknown)
		change(&f)
		refused(t, w.Do(world.Dana, "x", f), models.CodeAcknowledgementMissing, "acknowledgement", name)
	}
	w.Missing = []models.Digest{world.Blob("evidence")}
	refused(t, w.Do(world.Dana, "x", settle(models.SubjectRequest, seq, models.OutcomeLanded)), models.CodeBlobMissing)
	w.Missing = nil
	w.Must(world.Omar, "cancel", models.CancelRun{})
	refused(t, w.Do(world.Dana, "x", settle(models.SubjectRequest, seq, models.OutcomeLanded)), models.CodeRunCancelled)
}

// BOUND-09 and BOUND-08: a claimed ticket whose owner is lost is closed by name and never queued again (rules O36).
func TestUncertainTicketIsClosedByName(t *testing.T) {
	ticketOf := func(w *world.World) (int64, string) {
		ticket, _ := w.State.Tickets.Last()
		return ticket.SettledSeq, ticket.State
	}
	w := world.Continuing()
	w.MustAppend(w.Asked()...)
	request := w.State.Custody.Turn.RequestSeq
	seq, _ := ticketOf(w)
	c := settle(models.SubjectTicket, seq, models.OutcomeChargedUnknown)
	c.RequestID = "request-1"
	refused(t, w.Do(world.Dana, "x", c), models.CodeClaimLive)
	w.Tick(10_000)
	refused(t, w.Claim(world.Worker), models.CodeTicketUncertain)
	refused(t, w.Do(world.Dana, "x", settle(models.SubjectRequest, request, models.OutcomeDidNotHappen)), models.CodeTicketOutstanding)
	other := c
	other.RequestID = "request-2"
	refused(t, w.Do(world.Dana, "x", other), models.CodeNothingToReconcile)
	other = c
	other.Seq++
	refused(t, w.Do(world.Dana, "x", other), models.CodeNothingToReconcile)
	w.Must(world.Dana, "x", c)
	if _, state := ticketOf(w); state != "closed" || kernel.Queue(w.State) != nil {
		t.Errorf("ticket %s, queue %+v", state, kernel.Queue(w.State))
	}
	// What is unknown below the ticket is settled next, and then an ordinary claim goes on.
	refused(t, w.Claim(world.Worker), models.CodeModelOutcomeUnknown)
	w.Must(world.Dana, "y", settle(models.SubjectRequest, request, models.OutcomeDidNotHappen))
	accepted(t, w.Claim(world.Worker))
	verify(t, w)

	// A queued ticket within its window is not uncertain; past it, it is closed the same way, and its settled turn is
	// nobody else's to carry on.
	w = world.Queued()
	refused(t, w.Do(world.Dana, "x", c), models.CodeNothingToReconcile)
	w.Tick(10_000)
	w.Must(world.Dana, "x", c)
	refused(t, w.Claim(world.Worker), models.CodeRunHeld)
	if kernel.Queue(w.State) != nil {
		t.Error("queued again")
	}
	verify(t, w)
}

// NOCLAIM-19 for retry, handoff and the generic half of reconcile (the two above); resume is the ordinary claim.
func TestRetryOpensAnotherAttempt(t *testing.T) {
	w := world.Executing()
	refused(t, w.Do(world.Dana, "retry", models.RetryRun{}), models.CodeRunNotFailed)
	refused(t, w.Append(w.Asked()[0], w.Asked()[1], models.RunFailed{Report: world.Blob("r")}), models.CodeFactOutOfOrder)
	w.MustAppend(models.RunFailed{Report: world.Blob("r")})
	refused(t, w.Claim(world.Worker), models.CodeRunFinished, "end", "failed")
	held(t, w.Candidate(world.Dana), models.CodeRunNotHeld, "ended", "true")
	counters, limits, digest := w.State.Counters(), w.State.Budget.Limits, w.State.RunDigest()
	refused(t, w.Do(world.Worker, "retry", models.RetryRun{}), models.CodeRoleMissing)
	w.Must(world.Dana, "retry", models.RetryRun{})
	counters.Attempt++
	if w.State.Counters() != counters || w.State.Budget.Limits != limits || w.State.RunDigest() == digest {
		t.Errorf("after retry %+v", w.State.Counters())
	}
	for attempt := 2; attempt < 3; attempt++ {
		w.MustClaim(world.Worker)
		w.MustAppend(models.RunFailed{Report: world.Blob("r")})
		w.Must(world.Dana, "retry-"+strconv.Itoa(attempt), models.RetryRun{})
	}
	w.MustClaim(world.Worker)
	w.MustAppend(models.RunFailed{Report: world.Blob("r")})
	refused(t, w.Do(world.Dana, "retry-3", models.RetryRun{}), models.CodeAllowanceExhausted, "allowance", "attempts", "limit", "3")
	verify(t, w)
	w.Must(world.Dana, "cancel", models.CancelRun{})
	refused(t, w.Do(world.Dana, "retry-4", models.RetryRun{}), models.CodeRunCancelled)

	for _, w := range []*world.World{world.Queued(), world.Continuing()} {
		check := unmoved(t, w)
		refused(t, w.Do(world.Dana, "retry", models.RetryRun{}), models.CodeTicketOutstanding)
		check()
	}
}

// NOCLAIM-06, the row: only the server writes it, only while a ticket is outstanding, and it is no later activity.
func TestServerAnnotatesItsStart(t *testing.T) {
	w := world.Queued()
	for _, who := range []string{world.Dana, world.Root, world.Worker} {
		refused(t, w.Do(who, "boot", models.AnnotateStartup{Boot: "b1"}), models.CodeRoleMissing)
	}
	refused(t, w.Do(models.ServerActor, "boot", models.AnnotateStartup{Boot: "a b"}), models.CodeRequestMalformed, "member", "boot")
	refused(t, w.Do(models.ServerActor, "boot", models.CancelRun{}), models.CodeIdentityMissing)
	a := w.Must(models.ServerActor, "boot", models.AnnotateStartup{Boot: "b1"})
	if a.Events[0] != (models.StartupAnnotated{Boot: "b1", RequestID: "request-1"}) || w.State.Custody.Turn.Later != 0 {
		t.Errorf("%+v, later %d", a.Events[0], w.State.Custody.Turn.Later)
	}
	accepted(t, w.Claim(world.Worker2))
	verify(t, w)
	refused(t, world.Held().Do(models.ServerActor, "boot", models.AnnotateStartup{Boot: "b1"}), models.CodeNotFound)
}

// A run that nobody could claim is not announced: past its active deadline, or under a time-budget protocol that is not
// known. A continuity claim that lapses is never for an ordinary one (BOUND-08). FLOW-27.
func TestAnnouncedUntil(t *testing.T) {
	absolute := func(g *models.Registration) {
		g.TimeBudget, g.ActiveDeadline = models.TimeBudgetAbsolute, world.Start+900_000_000
	}
	w := world.Executing(absolute)
	if until := kernel.Reclaimable(w.State); until != world.Start+900_000_000 {
		t.Errorf("reclaimable until %d", until)
	}
	w.Must(world.Worker, "release", models.ReleaseRun{Fence: 1})
	if e := kernel.Queue(w.State); e == nil || e.Expires != world.Start+900_000_000 || kernel.Reclaimable(w.State) != 0 {
		t.Errorf("queue %+v", e)
	}
	other := world.New(true)
	other.Register(func(g *models.Registration) { g.TimeBudget = "sundial" })
	if e := kernel.Queue(other.State); e != nil {
		t.Errorf("queue %+v", e)
	}
	if until := kernel.Reclaimable(world.Continuing().State); until != 0 {
		t.Errorf("a continuity claim is reclaimable until %d", until)
	}
}

// A queued ticket that a claim would be refused for is shown with that reason, as long as it is so. FLOW-15, BOUND-01 (shown).
func TestStoppedTicketIsShown(t *testing.T) {
	for name, c := range map[string]struct {
		code   models.Code
		change func(*world.World)
	}{
		"policy off, and on again": {models.CodePolicyDisabled, func(w *world.World) {
			w.Policy(func(p *models.Policy) { p.Enabled = false })
			w.Policy(func(p *models.Policy) { p.Enabled = true })
		}},
		"source":  {models.CodeSourceChanged, func(w *world.World) { w.Record(models.RecordSource, "moved") }},
		"profile": {models.CodeProfileUnqualified, func(w *world.World) { w.MustFactory(world.Root, models.RetireProfile{ID: "p1"}) }},
	} {
		w := world.Held()
		w.Admit("request-1")
		if h := w.Holds(); len(h) > 0 {
			t.Fatalf("%s: held before: %v", name, h)
		}
		w.Tick(1)
		c.change(w)
		w.Tick(1)
		h := w.Holds()
		if len(h) != 1 || h[0].Code != c.code {
			t.Errorf("%s: shown %v", name, h)
		}
		refused(t, w.Clone().Do(world.Worker, "claim", models.ClaimRun{LeaseSeconds: 60}), c.code)
	}
}

// What holds a run and what a reconciliation could settle, as people are shown it. BOUND-08, BOUND-09, NOCLAIM-18 (shown).
func TestHoldsAndUnknown(t *testing.T) {
	codes := func(w *world.World) (list []models.Code) {
		for _, h := range w.Holds() {
			list = append(list, h.Code)
		}
		return list
	}
	check := func(what string, w *world.World, unknown int, want ...models.Code) {
		t.Helper()
		if got := codes(w); !slices.Equal(got, want) {
			t.Errorf("%s: holds %v, want %v", what, got, want)
		}
		if got := kernel.Unknown(w.State, w.Now, w.Lease); len(got) != unknown {
			t.Errorf("%s: unknown %+v", what, got)
		}
	}
	check("opened", world.New(true), 0)
	check("held", world.Held(), 0, models.CodeRunHeld)
	queued := world.Queued()
	check("queued ticket", queued, 0)
	queued.Tick(100_000)
	check("lapsed ticket", queued, 1, models.CodeTicketOutstanding)
	claimed := world.Continuing()
	check("claimed ticket", claimed, 0)
	claimed.Tick(100_000)
	check("uncertain ticket", claimed, 1, models.CodeTicketUncertain)
	u := kernel.Unknown(claimed.State, claimed.Now, claimed.Lease)[0]
	c := models.Reconcile{Subject: u.Subject, Seq: u.Seq, RequestID: u.RequestID, Outcome: models.OutcomeChargedUnknown,
		AcknowledgeNoReplay: true, AcknowledgeOriginalRecordUnchanged: true, AcknowledgeOriginalUseCharged: true, AcknowledgeUnknownOutcome: true}
	claimed.Must(world.Omar, "settle", c)
	check("settled ticket", claimed, 0, models.CodeRunHeld)

	w := world.Executing()
	w.MustAppend(models.CommandStarted{Command: world.Blob("a"), Number: 12, Position: -1}, models.CommandStarted{Command: world.Blob("b"), Number: 13, Position: -1})
	w.Tick(100_000)
	check("two commands", w, 2, models.CodeUnknownEffect, models.CodeUnknownEffect)
	w.Must(world.Omar, "cancel", models.CancelRun{})
	check("cancelled", w, 0)
	late := world.Executing(func(g *models.Registration) {
		g.TimeBudget, g.ActiveDeadline = models.TimeBudgetAbsolute, world.Start.Add(900)
	})
	late.Tick(100_000)
	check("past its deadline", late, 0, models.CodeDeadlinePassed)
	other := world.New(true)
	other.Register(func(g *models.Registration) { g.TimeBudget = "sundial" })
	check("unknown time budget", other, 0, models.CodeTimeBudgetUnsupported)
}
