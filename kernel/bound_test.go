package kernel_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/kernel/ticket"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/proptest/world"
)

// stops are the changes that stop a ticket, at its claim and at every append under it.
var stops = map[string]struct {
	change func(*world.World)
	code   models.Code
}{
	// BOUND-01
	"policy disabled": {func(w *world.World) { w.Policy(func(p *models.Policy) { p.Enabled = false }) }, models.CodePolicyDisabled},
	// BOUND-03
	"source":           {func(w *world.World) { w.Record(models.RecordSource, "moved") }, models.CodeSourceChanged},
	"configuration":    {func(w *world.World) { w.Record(models.RecordConfiguration, "moved") }, models.CodeConfigurationChanged},
	"scope":            {func(w *world.World) { w.Record(models.RecordScope, "moved") }, models.CodeScopeChanged},
	"profile retired":  {func(w *world.World) { w.MustFactory(world.Root, models.RetireProfile{ID: "p1"}) }, models.CodeProfileUnqualified},
	"module installed": {func(w *world.World) { w.Host.Module = world.Plain("newer") }, models.CodeProfileMismatch},
	"another profile": {func(w *world.World) {
		p := w.Profile("p2")
		w.MustFactory(world.Root, models.RegisterProfile{Profile: p})
		w.MustFactory(world.Root, models.RetireProfile{ID: "p1"})
	}, models.CodeProfileUnqualified},
	// BOUND-07
	"ticket: checkpoint": {ticketed(func(t *ticket.Ticket) { t.Derived = world.Blob("other") }), models.CodeTicketChanged},
	"ticket: seal":       {ticketed(func(t *ticket.Ticket) { t.Seal = world.Plain("other") }), models.CodeTicketChanged},
	"ticket: graph":      {ticketed(func(t *ticket.Ticket) { t.Graph = world.Plain("other") }), models.CodeTicketChanged},
	"ticket: revision":   {ticketed(func(t *ticket.Ticket) { t.PolicyRevision++ }), models.CodeTicketChanged},
	"ticket: row": {func(w *world.World) {
		t, _ := w.State.Tickets.Last()
		w.Rows[t.SettledSeq-1].Actor = world.Omar
	}, models.CodeTicketChanged},
	"ticket: lease": {func(w *world.World) {
		t, _ := w.State.Tickets.Last()
		row := &w.Rows[t.GrantSeq-1]
		row.Payload = bytes.Replace(row.Payload, []byte(`:600,`), []byte(`:601,`), 1)
		row.Payload = bytes.Replace(row.Payload, []byte(`:600}`), []byte(`:601}`), 1)
	}, models.CodeTicketChanged},
	// BOUND-04
	"cancelled": {func(w *world.World) { w.Must(world.Omar, "cancel", models.CancelRun{}) }, models.CodeRunCancelled},
	// BOUND-05
	"actor removed":       {func(w *world.World) { w.Roles(world.Dana) }, models.CodeActorLost},
	"authority withdrawn": {func(w *world.World) { w.Roles(world.Dana, models.RoleAdministrator) }, models.CodeAuthorityRevoked},
}

// ticketed changes the ticket in the cached state, as only damage could.
func ticketed(change func(*ticket.Ticket)) func(*world.World) {
	return func(w *world.World) {
		list := slices.Clone(w.State.Tickets.Tickets)
		change(&list[len(list)-1])
		w.State.Tickets.Tickets = list
	}
}

func TestWhatStopsATicket(t *testing.T) {
	for name, stop := range stops {
		t.Run(name, func(t *testing.T) {
			w := world.Queued()
			stop.change(w)
			check := unmoved(t, w)
			refused(t, w.Claim(world.Worker2), stop.code)
			check()

			// At the very instant of the grant too: nothing moved since, but it does not hold now.
			w = world.Held()
			w.Admit("request-1")
			stop.change(w)
			refused(t, w.Claim(world.Worker2), stop.code)

			w = world.Continuing()
			facts := w.Asked()
			stop.change(w)
			check = unmoved(t, w)
			refused(t, w.Append(facts...), stop.code)
			refused(t, w.Append(world.Failed()), stop.code)
			check()
		})
	}
	// What a ticket does not rest on stops nothing (rules O46).
	w := world.Continuing()
	w.Policy(func(p *models.Policy) { p.MaxTicketsPerRun, p.MaxPendingTickets, p.MaxValidForSeconds = 1, 1, 600 }) // no less than the window
	w.MustFactory(world.Root, models.RegisterProfile{Profile: w.Profile("p2")})
	w.Roles(world.Dana, models.RoleOperator)
	accepted(t, w.Append(w.Asked()...))
	verify(t, w)
}

// BOUND-02
func TestLeaseEndsAtItsInstant(t *testing.T) {
	w := world.Queued()
	end := w.State.Lease.ExpiresAt
	w.Now = end - 1
	accepted(t, w.Clone().Claim(world.Worker2))
	w.Now = end
	check := unmoved(t, w)
	refused(t, w.Claim(world.Worker2), models.CodeLeaseExpired)
	check()

	w = world.Continuing()
	facts := w.Asked()
	w.Now = end - 1
	accepted(t, w.Clone().Append(facts...))
	w.Now = end
	check = unmoved(t, w)
	refused(t, w.Append(facts...), models.CodeLeaseExpired)
	check()
	// Claimed and over, it is never claimed again by itself (BOUND-08).
	refused(t, w.Claim(world.Worker), models.CodeTicketUncertain)
	if e := kernel.Queue(w.State); e != nil {
		t.Errorf("queued as %+v", e)
	}
	check()

	// The store's lease row cannot lengthen a continuity lease (L5), nor shorten it.
	w = world.Continuing()
	w.Lease = end.Add(3600)
	w.Now = end
	refused(t, w.Append(facts...), models.CodeLeaseExpired)
	w = world.Continuing()
	if w.Renew(1800) {
		t.Error("a continuity lease was renewed")
	}

	// An ordinary lease follows its row: renewed, it lives on, and at the new instant it is gone too.
	w = world.Executing()
	old := w.Lease
	w.Tick(600)
	w.Renew(1800)
	w.Now = old
	accepted(t, w.Append(w.Asked()...))
	w.Now = w.Lease
	refused(t, w.Append(w.Answered()), models.CodeLeaseExpired)
	w.Now--
	accepted(t, w.Append(w.Answered()))
	verify(t, w)
}

// BOUND-06 and C5
func TestNothingIsIssuedAfterAnUnknownOutcome(t *testing.T) {
	w := world.Continuing()
	w.MustAppend(w.Asked()...)
	w.MustAppend(w.Answered())
	w.MustAppend(w.Consumed(1))
	n := w.State.Custody.Turn.Request
	w.MustAppend(world.Granted(n, 0, models.ClassWrite), models.CallIntended{Request: n})
	next := models.RequestIssued{Checkpoint: w.State.Custody.Checkpoint, Request: n + 1, Wire: world.Plain("w"), WireBlob: world.Blob("w"), WireLength: 1}
	for _, f := range []models.Fact{next, models.CheckpointSaved{Checkpoint: world.Blob("c")}, models.RoundCompleted{Round: 7}, models.RunCompleted{Round: 7, Result: world.Blob("r")}} {
		check := unmoved(t, w)
		refused(t, w.Append(f), models.CodeUnknownEffect)
		check()
	}
	w.MustAppend(models.CallReturned{Request: n, Result: world.Blob("r")}, models.CommandStarted{Command: world.Blob("c"), Number: 12, Position: -1})
	refused(t, w.Append(next), models.CodeUnknownEffect)
}

// START-01
func TestClaimComesBeforeEverything(t *testing.T) {
	w := world.Queued()
	n := w.State.Budget.Spent.Requests + 1
	derived := w.State.Custody.Checkpoint
	for _, f := range []models.Fact{
		models.RequestIssued{Checkpoint: derived, Request: n, Wire: world.Plain("w"), WireBlob: world.Blob("w"), WireLength: 1},
		models.CallIntended{Request: n - 1},
		models.CommandStarted{Command: world.Blob("c"), Number: 12, Position: -1},
	} {
		for fence := range int64(3) {
			check := unmoved(t, w)
			refused(t, w.Do(world.Worker2, "b", models.Append{Facts: []models.Fact{f}, Fence: fence}), models.CodeFenceLost)
			check()
		}
	}
	accepted(t, w.Claim(world.Worker2))
	accepted(t, w.Append(w.Asked()...))
}

// A ticket whose owner stopped before any request, or with something unknown, is uncertain; after a known turn it has ended.
func TestHowATicketEnds(t *testing.T) {
	state := func(w *world.World) string {
		t, _ := w.State.Tickets.Last()
		return t.State
	}
	w := world.Continuing()
	w.MustAppend(world.Failed())
	if got := state(w); got != "uncertain" {
		t.Errorf("no request: %s", got)
	}
	refused(t, w.Claim(world.Worker), models.CodeTicketUncertain)

	w = world.Continuing()
	w.MustAppend(w.Asked()...)
	w.MustAppend(world.Failed())
	if got := state(w); got != "uncertain" {
		t.Errorf("no response: %s", got)
	}

	w = world.Continuing()
	w.Turn(world.Call{Class: models.ClassCommand, Commands: 1})
	w.MustAppend(world.Failed())
	if got := state(w); got != "ended" {
		t.Errorf("known turn: %s", got)
	}
	accepted(t, w.Claim(world.Worker)) // an ordinary claim goes on from a clean point

	w = world.Queued()
	w.Must(world.Dana, "cancel", models.CancelRun{})
	if got := state(w); got != "closed" {
		t.Errorf("cancelled: %s", got)
	}
	w = world.Queued()
	w.Tick(600)
	a := w.Must(world.Dana, "cancel", models.CancelRun{})
	if got := kinds(a.Events); !slices.Equal(got, []string{"lease.lapsed", "run.cancelled"}) || state(w) != "closed" {
		t.Errorf("%v, %s", got, state(w))
	}
	refused(t, w.Do(world.Dana, "cancel-2", models.CancelRun{}), models.CodeRunCancelled)
	verify(t, w)
}

// A batch is all or nothing (K3), and its own facts stand on one another.
func TestBatchIsAllOrNothing(t *testing.T) {
	w := world.Executing()
	before := w.State.Encode()
	refused(t, w.Append(models.CommandStarted{Command: world.Blob("c"), Number: 12, Position: -1}, models.CommandFinished{Number: 13, Receipt: world.Blob("r")}),
		models.CodeFactOutOfOrder, "fact", "1")
	if !bytes.Equal(before, w.State.Encode()) {
		t.Error("half a batch stands")
	}
	a := w.Append(models.CommandStarted{Command: world.Blob("c"), Number: 12, Position: -1}, models.CommandFinished{Number: 12, Receipt: world.Blob("r")})
	accepted(t, a)
	if a.Rows[0].Cmd != a.Rows[1].Cmd || a.Rows[1].Seq != a.Rows[0].Seq+1 || a.Rows[1].CommandID != "" || a.Rows[1].Env != nil {
		t.Errorf("rows %+v", a.Rows)
	}
	refused(t, w.Append(), models.CodeRequestMalformed, "member", "facts")
	refused(t, w.Append(world.Failed(), models.CommandStarted{Command: world.Blob("c"), Number: 13, Position: -1}), models.CodeFactOutOfOrder, "fact", "1")
	many := make([]models.Fact, 513)
	for i := range many {
		many[i] = world.Failed()
	}
	refused(t, w.Append(many...), models.CodeRequestMalformed, "limit", "512")
	w.Missing = []models.Digest{world.Blob("c")}
	refused(t, w.Append(models.CommandStarted{Command: world.Blob("c"), Number: 13, Position: -1}), models.CodeBlobMissing, "digest", world.Blob("c").String())
	verify(t, w)
}

// A malformed fact answers before the fence, so that a worker learns of its own mistake and not of somebody else's claim.
func TestMalformedFactAnswersFirst(t *testing.T) {
	w := world.Executing()
	n := w.State.Budget.Spent.Requests
	for name, f := range map[string]models.Fact{
		"checkpoint":  models.CheckpointSaved{},
		"wire":        models.RequestIssued{Request: n + 1, WireBlob: world.Blob("w"), WireLength: 1},
		"wire_blob":   models.RequestIssued{Request: n + 1, Wire: world.Plain("w"), WireLength: 1},
		"wire_length": models.RequestIssued{Request: n + 1, Wire: world.Plain("w"), WireBlob: world.Blob("w")},
		"response":    models.ResponseKept{Request: n},
		"length":      models.ResponseKept{Request: n, Response: world.Blob("r"), Length: -1},
		"calls":       models.ResponseConsumed{Request: n, Calls: -1},
		"input":       models.ResponseConsumed{Request: n, Tokens: models.Tokens{Input: -1}},
		"output":      models.ResponseConsumed{Request: n, Tokens: models.Tokens{Output: -1}},
		"tool":        models.CallGranted{Class: models.ClassWrite, ID: world.Blob("i"), Args: world.Blob("a"), Tool: -2},
		"class":       models.CallGranted{Class: "made_up", ID: world.Blob("i"), Args: world.Blob("a")},
		"id":          models.CallGranted{Class: models.ClassWrite, Args: world.Blob("a")},
		"args":        models.CallGranted{Class: models.ClassWrite, ID: world.Blob("i")},
		"validator":   models.CallRefused{Request: n},
		"result":      models.CallReturned{Request: n},
		"command":     models.CommandStarted{Number: 12, Position: -1},
		"receipt":     models.CommandFinished{Number: 12},
		"report":      models.WorkerFailed{},
		"final":       models.RunFailed{},
		"completion":  models.RunCompleted{Round: 7},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, w.Do(world.Worker2, "b", models.Append{Facts: []models.Fact{world.Failed(), f}, Fence: 99}), models.CodeRequestMalformed, "fact", "1")
		})
	}
}

// A row is never older than the one before it, nor than the factory's row that it names.
func TestTimeNeverGoesBack(t *testing.T) {
	w := world.Executing()
	w.Now = w.State.HeadAt - models.MaxClockLag
	accepted(t, w.Clone().Append(w.Asked()...)) // with the head's time, as the shell does
	w.Now--
	refused(t, w.Append(w.Asked()...), models.CodeClockBehind, "behind_us", "2000001")
	refused(t, w.DoFactory(world.Root, "p", models.RetireProfile{ID: "p1"}), models.CodeClockBehind, "behind_us", "2000001")
	w.Now = w.FactoryState.HeadAt - models.MaxClockLag - 1
	refused(t, w.DoFactory(world.Root, "p", models.RetireProfile{ID: "p1"}), models.CodeClockBehind)

	w = world.New(true)
	w.Tick(100)
	w.Policy(func(p *models.Policy) { p.MaxTicketsPerRun = 9 })
	w.Tick(-50)
	refused(t, w.Do(world.Dana, "registration", models.RegisterRun{Registration: w.Registration()}), models.CodeClockBehind)
}

// The run's journal is bounded.
func TestRunIsFull(t *testing.T) {
	w := world.Held()
	w.Trust = true
	w.State.Head.Seq = models.MaxRows - 3
	refused(t, w.Do(world.Dana, "r", w.Request(600)), models.CodeRunFull)
	w.State.Head.Seq--
	accepted(t, w.Do(world.Dana, "r", w.Request(600)))
	w.State.Head.Seq = models.MaxRows
	refused(t, w.Claim(world.Worker), models.CodeRunFull)

	w = world.New(true)
	w.Register()
	w.State.Head.Seq = models.MaxRows - 3
	refused(t, w.Claim(world.Worker), models.CodeRunFull)
	w.State.Head.Seq--
	accepted(t, w.Claim(world.Worker))
	refused(t, w.Append(w.Asked()...), models.CodeRunFull)

	w.FactoryState.Seq = models.MaxRows
	refused(t, w.DoFactory(world.Root, "p", models.RetireProfile{ID: "p1"}), models.CodeRunFull)
}
