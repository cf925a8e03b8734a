package kernel_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/proptest/world"
)

// A ticket that failed before any claim is nobody's to claim: only a recovery may queue it again (NOCLAIM-18).
func TestFailedTicketIsNotClaimed(t *testing.T) {
	w := world.Queued()
	w.State.Tickets.Tickets[0].State = "failed_unclaimed"
	refused(t, w.Claim(world.Worker2), models.CodeTicketOutstanding, "request_id", "request-1")
}

// Setting something again replaces it: a second entry under one name would hide the first.
func TestNothingStandsTwice(t *testing.T) {
	w := world.New(true)
	principals, records := len(w.FactoryState.Principals), len(w.FactoryState.Records)
	w.Roles(world.Omar, models.RoleReader)
	w.Record(models.RecordSource, "moved")
	if len(w.FactoryState.Principals) != principals || len(w.FactoryState.Records) != records {
		t.Errorf("%d principals, %d records", len(w.FactoryState.Principals), len(w.FactoryState.Records))
	}
}

// A cached state that lacks a member is folded anew, never read as zero.
func TestCacheIsWhole(t *testing.T) {
	w := world.Held()
	for _, text := range []string{`{}`, `{"attempt":2}`, ``, `null`} {
		if s, err := kernel.DecodeState([]byte(text)); err == nil {
			t.Errorf("state %q became %+v", text, s)
		}
		if f, err := kernel.DecodeFactory([]byte(text)); err == nil {
			t.Errorf("factory %q became %+v", text, f)
		}
	}
	if _, err := kernel.DecodeState(w.State.Encode()); err != nil {
		t.Error(err)
	}
	if _, err := kernel.DecodeFactory(kernel.EncodeFactory(w.FactoryState)); err != nil {
		t.Error(err)
	}
}

// BOUND-06: once a result was lost nothing else is started, neither a call nor a command; what runs may still report.
func TestNothingStartsAfterALostResult(t *testing.T) {
	w, n := turn(models.ClassPureRead, models.ClassWrite, models.ClassWrite)
	w.MustAppend(models.CallIntended{Request: n}, models.CallIntended{Position: 1, Request: n}, models.ToolUnknown{Request: n})
	for _, f := range []models.Fact{
		models.CallIntended{Position: 2, Request: n}, models.CommandStarted{Command: world.Blob("c"), Number: 12, Position: -1},
		models.RequestIssued{Checkpoint: w.State.Custody.Checkpoint, Request: n + 1, Wire: world.Plain("w"), WireBlob: world.Blob("w"), WireLength: 1},
	} {
		check := unmoved(t, w)
		refused(t, w.Append(f), models.CodeUnknownEffect)
		check()
	}
	w.MustAppend(models.CallReturned{Position: 1, Request: n, Result: world.Blob("r")})
	seq := w.State.Custody.Unknown()
	w.MustAppend(world.Failed())
	w.Must(world.Omar, "settle", world.Settle(models.SubjectCall, seq, models.OutcomeChargedUnknown))
	w.MustClaim(world.Worker2)
	accepted(t, w.Append(models.CallIntended{Position: 2, Request: n}))
	verify(t, w)
}

// Where a run stands (rules, section 6).
func TestPosition(t *testing.T) {
	cancelled := world.Held()
	cancelled.Must(world.Omar, "cancel", models.CancelRun{})
	failed := world.Executing()
	failed.MustAppend(models.RunFailed{Report: world.Blob("r")})
	registered := world.New(true)
	registered.Register()
	lapsed := world.Queued()
	lapsed.Tick(600)
	uncertain := world.Continuing()
	uncertain.Tick(600)
	gone := world.Executing()
	gone.Tick(10_000)
	running := world.Executing()
	running.Turn(world.Call{Class: models.ClassEvidenceRead, Refused: true})
	for want, w := range map[string]*world.World{
		"opened": world.New(true), "queued": registered, "executing": world.Executing(), "held": world.Held(), "continuation_queued": world.Queued(),
		"continuing": world.Continuing(), "completed": world.Finished(), "cancelled": cancelled, "failed": failed,
	} {
		if got := kernel.Position(w.State, w.Now, w.Lease); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, c := range []struct {
		w    *world.World
		want string
	}{{lapsed, "held"}, {uncertain, "held"}, {gone, "queued"}, {running, "executing"}} {
		if got := kernel.Position(c.w.State, c.w.Now, c.w.Lease); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// A factory's journal, sealed anew after a change, is judged by deciding again as a run's is (K2).
func TestFactoryDecidesAgain(t *testing.T) {
	w := world.New(true)
	last := len(w.FactoryRows) - 1 // the policy
	for name, change := range map[string]func(*models.Row){
		"payload": func(r *models.Row) {
			r.Payload = bytes.Replace(r.Payload, []byte(`"max_tickets_per_run":50`), []byte(`"max_tickets_per_run":51`), 1)
		},
		"command": func(r *models.Row) {
			r.Command = bytes.Replace(r.Command, []byte(`"replaces":0`), []byte(`"replaces":1`), 1)
		},
		"run":    func(r *models.Row) { r.Run = "run-1" },
		"blobs":  func(r *models.Row) { r.Blobs = []models.Digest{world.Plain("x")} },
		"not it": func(r *models.Row) { r.Payload = []byte("{") },
	} {
		rows := reseal(w.FactoryRows, last, change)
		if rows[last].Hash == w.FactoryRows[last].Hash {
			t.Fatalf("%s: nothing was changed", name)
		}
		h, r := kernel.ReplayFactory(slices.Values(rows))
		is(t, r, models.CodeJournalBroken)
		if h.Last().Seq != int64(last) {
			t.Errorf("%s: folded up to %d", name, h.Last().Seq)
		}
	}
	// By somebody who has every role, a run's command is still no command of a factory.
	w.Roles(world.Root, models.RoleAdministrator, models.RoleOperator)
	_, r := kernel.ReplayFactory(slices.Values(reseal(append(w.FactoryRows, w.FactoryRows[last]), last+1, func(r *models.Row) {})))
	is(t, r, models.CodeJournalBroken)
	a := w.MustFactory(world.Root, models.RetireProfile{ID: "p1"})
	cancel := func(r *models.Row) { r.CommandName, r.Command = "cancel_run", []byte(`{}`) }
	_, r = kernel.ReplayFactory(slices.Values(reseal(w.FactoryRows, int(a.Rows[0].Seq)-1, cancel)))
	is(t, r, models.CodeJournalBroken, "what", "a command of another journal")
	if f := (kernel.History{}).Last(); f.Created {
		t.Error("a factory out of nothing")
	}

	restore := kernel.FakeRules(512)
	defer restore()
	_, r = kernel.ReplayFactory(slices.Values(reseal(w.FactoryRows, last, func(r *models.Row) { r.Rules = 2 })))
	is(t, r, models.CodeJournalBroken)
}

// A refusal of replay says why: the factory head that is not there, the code that deciding again came to.
func TestReplaySaysWhy(t *testing.T) {
	w := world.Held()
	_, r := kernel.Replay(slices.Values(w.Rows), kernel.History{})
	is(t, r, models.CodeJournalBroken, "factory_seq", "13")
	i := slices.IndexFunc(w.Rows, func(r models.Row) bool { return r.CommandName == "claim_run" })
	_, r = replay(w, reseal(w.Rows, i, func(r *models.Row) { r.Command = []byte(`{"lease_seconds":7201}`) }))
	is(t, r, models.CodeJournalBroken, "decided", "window_invalid")
}

// What the canonical run has spent, each counter (FLOW-28 rests on them).
func TestWhatHeldHasSpent(t *testing.T) {
	n := world.Held().State.Budget.Spent
	if n.Commands != 11 || n.Requests != 5 || n.ToolCalls != 7 || n.SourceReads != 3 || n.InputTokens != 4515 || n.OutputTokens != 215 {
		t.Errorf("spent %+v", n)
	}
	w := world.New(true)
	w.Register()
	if c := w.Candidate(world.Dana); !c.ConsumedGraph.IsZero() {
		t.Error("a graph before any consume")
	}
}

// A grant names the request of the turn that stands, also where the position is still free.
func TestGrantIsOfTheTurn(t *testing.T) {
	w := world.Executing()
	w.MustAppend(w.Asked()...)
	w.MustAppend(w.Answered())
	w.MustAppend(w.Consumed(2))
	n := w.State.Custody.Turn.Request
	for _, request := range []int64{n - 1, n + 1, 0} {
		refused(t, w.Append(world.Granted(request, 0, models.ClassWrite)), models.CodeFactOutOfOrder)
	}
	accepted(t, w.Append(world.Granted(n, 0, models.ClassWrite)))
}
