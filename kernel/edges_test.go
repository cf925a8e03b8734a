package kernel_test

import (
	"slices"
	"testing"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/kernel/ticket"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/proptest/world"
)

// What the server may enter by itself, and what only a person may. V2, V4; BOUND-11, BOUND-12.
func TestWhoMayEnterAVerification(t *testing.T) {
	unknown := world.New(true)
	refused(t, unknown.Do(models.ServerActor, "v", models.AdmitVerification{Round: 1}), models.CodeNotFound)
	for _, end := range []models.Command{models.CancelRun{}, nil} {
		w := world.Executing(world.Verified(1))
		if end == nil {
			w.MustAppend(models.RunFailed{Report: world.Blob("r")})
		} else {
			w.MustAppend(world.Failed())
			w.Must(world.Omar, "end", end)
		}
		if kernel.Verifiable(w.State) {
			t.Errorf("a run that is %s is due", w.State.End)
		}
		if a := w.Schedule(); a.Code() != models.CodeRunCancelled && a.Code() != models.CodeRunFinished {
			t.Errorf("a run that is %s: %v", w.State.End, a.Refusal)
		}
	}
	w := completed(1)
	accepted(t, w.Schedule())
	refused(t, w.Do(world.Dana, "hand", models.AdmitVerification{Round: w.State.Rounds}), models.CodeVerificationNotDue, "what", "it waits for a worker already")
	accepted(t, w.ClaimVerification())
	w.MustAppend(world.Failed())
	if v := w.State.Verification; v.State != models.VerificationStateLost || kernel.Verifiable(w.State) {
		t.Errorf("%+v", v)
	}
	again := models.AdmitVerification{Round: w.State.Rounds}
	refused(t, w.Do(models.ServerActor, "again", again), models.CodeVerificationNotDue, "what", "that round was entered before")
	accepted(t, w.Do(world.Dana, "hand", again))
	verify(t, w)

	lunar := completed(1)
	lunar.State.Registration.TimeBudget = "lunar"
	refused(t, lunar.Do(world.Dana, "hand", models.AdmitVerification{Round: lunar.State.Rounds}), models.CodeTimeBudgetUnsupported)
}

// A verification's commands are those of the run's ledger: counted on, of no call, and each finished once. V3.
func TestCommandsOfAVerification(t *testing.T) {
	w := completed(2)
	w.Schedule()
	w.ClaimVerification()
	w.MustAppend(w.Prepared())
	n := w.State.Budget.Spent.Commands
	start := models.CommandStarted{Command: world.Blob("c"), Number: n + 1, Position: -1}
	of := start
	of.Position, of.Request = 0, w.State.Custody.Turn.Request
	refused(t, w.Append(of), models.CodeFactOutOfOrder, "what", "no call runs a verification's command")
	twice := start
	twice.Number = n
	refused(t, w.Append(twice), models.CodeFactOutOfOrder, "what", "commands count from 1 without a gap")
	refused(t, w.Append(models.CommandFinished{Number: n + 1, Receipt: world.Blob("r")}), models.CodeFactOutOfOrder, "what", "no such command is running")
	w.MustAppend(start)
	w.MustAppend(models.CommandFinished{Number: n + 1, Receipt: world.Blob("r")})
	refused(t, w.Append(models.CommandFinished{Number: n + 1, Receipt: world.Blob("r")}), models.CodeFactOutOfOrder)
	verify(t, w)
}

// No command that writes passes the bound of a journal but a cancellation.
func TestNoRoomForAnything(t *testing.T) {
	full := func(w *world.World, rows int64) *world.World {
		w.Trust = true
		w.State.Head.Seq = models.MaxRows - 2 - rows
		return w
	}
	for name, c := range map[string]struct {
		world func() *world.World
		rows  int64
		do    func(*world.World) world.Answer
	}{
		"release": {func() *world.World { return world.Executing() }, 1, func(w *world.World) world.Answer {
			return w.Do(world.Worker, "x", models.ReleaseRun{Fence: w.State.Lease.Fence})
		}},
		"retry": {func() *world.World {
			w := world.Executing()
			w.MustAppend(models.RunFailed{Report: world.Blob("r")})
			return w
		}, 1, func(w *world.World) world.Answer { return w.Do(world.Omar, "x", models.RetryRun{}) }},
		"annotate": {world.Queued, 1, func(w *world.World) world.Answer {
			return w.Do(models.ServerActor, "x", models.AnnotateStartup{Boot: "b"})
		}},
		"reconcile": {world.Continuing, 2, func(w *world.World) world.Answer {
			w.Now = w.State.Lease.ExpiresAt
			return w.Do(world.Omar, "x", w.SettleTicket())
		}},
		"verification": {func() *world.World { return completed(1) }, 1, func(w *world.World) world.Answer { return w.Schedule() }},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, c.do(full(c.world(), c.rows-1)), models.CodeRunFull)
			accepted(t, c.do(full(c.world(), c.rows)))
		})
	}
}

// The generic ways and a ticket that is over: nothing is noted in the run, and it is not settled again. BOUND-09, NOCLAIM-06.
func TestATicketThatIsOver(t *testing.T) {
	w := world.Continuing()
	w.Turn()
	w.MustAppend(world.Failed())
	last, _ := w.State.Tickets.Last()
	if last.State != ticket.Ended {
		t.Fatalf("%+v", last)
	}
	refused(t, w.Do(models.ServerActor, "boot", models.AnnotateStartup{Boot: "b"}), models.CodeNotFound)
	// The run goes on as any other.
	if e := kernel.Queue(w.State); e == nil || e.Request != "" || kernel.Position(w.State, w.Now, w.Lease) != kernel.PositionQueued {
		t.Errorf("queue %+v", e)
	}
	settle := w.SettleTicket()
	settle.RequestID, settle.Seq = last.RequestID, last.SettledSeq
	refused(t, w.Do(world.Omar, "settle", settle), models.CodeNothingToReconcile)

	length := world.Settle(models.SubjectRequest, 1, models.OutcomeDidNotHappen)
	length.ResultLength = 5
	refused(t, w.Do(world.Omar, "settle", length), models.CodeRequestMalformed, "member", "result_length")
}

// Where nobody may go on without a person nothing is announced, whatever the claim was. BOUND-08.
func TestWhatIsNeverAnnounced(t *testing.T) {
	w := world.Continuing()
	w.Turn() // everything is known, and still it is the ticket's
	if at := kernel.Reclaimable(w.State); at != 0 {
		t.Errorf("a continuation's claim is reclaimable until %d", at)
	}
	w.Now = w.State.Lease.ExpiresAt
	if p := kernel.Position(w.State, w.Now, w.Lease); p != kernel.PositionHeld {
		t.Errorf("it is %s", p)
	}
	cancelled := world.Executing()
	if kernel.Reclaimable(cancelled.State) != kernel.Forever {
		t.Error("an ordinary claim is not reclaimable")
	}
	cancelled.Must(world.Omar, "cancel", models.CancelRun{})
	if !cancelled.State.Lease.Live || kernel.Reclaimable(cancelled.State) != 0 {
		t.Error("a cancelled run is reclaimable")
	}
}

// A record that is not there is no record of a zero digest. FLOW-18.
func TestARecordThatIsNotThere(t *testing.T) {
	for code, frozen := range map[models.Code]func(*models.Registration) *models.Frozen{
		models.CodeSourceChanged:        func(g *models.Registration) *models.Frozen { return &g.Source },
		models.CodeConfigurationChanged: func(g *models.Registration) *models.Frozen { return &g.Configuration },
		models.CodeScopeChanged:         func(g *models.Registration) *models.Frozen { return &g.Scope },
	} {
		w := world.New(true)
		g := w.Registration()
		*frozen(&g) = models.Frozen{Record: "nowhere"}
		refused(t, w.Do(world.Dana, "registration", models.RegisterRun{Registration: g}), code, "record", "nowhere")
	}
}

// The switch is told by name, and not by the revision alone, which any change of the policy moves. ROBS-31.
func TestTheSwitchOfAnObservationTicketIsNamed(t *testing.T) {
	w := world.Lost()
	w.Must(world.Dana, "rec-o", w.Observation(600))
	w.Policy(func(p *models.Policy) { p.AllowReadonlyObservationRecovery = false })
	refused(t, w.Claim(world.Worker), models.CodeSettingOff, "setting", "allow_readonly_observation_recovery")
}

// Of windows that the policy came to permit only those are kept that a narrower one did not follow: a factory's state stays small.
func TestNarrowedWindowsAreNotCollected(t *testing.T) {
	w := world.New(true)
	for _, seconds := range []models.Seconds{3000, 2000, 3000, 1000, 3000, 500, 800, 700} {
		w.Policy(func(p *models.Policy) { p.MaxValidForSeconds = seconds })
	}
	var kept []string
	for _, m := range w.FactoryState.Moved {
		if m.Kind == models.MovedWindow {
			kept = append(kept, m.Name)
		}
	}
	if want := []string{"0500", "0700"}; !slices.Equal(kept, want) {
		t.Errorf("windows %v, want %v", kept, want)
	}
	w.Roles(world.Dana, models.RoleAdministrator)
	on := w.FactoryState.Seq - 1
	w.Policy(func(p *models.Policy) { p.MaxValidForSeconds = 1 })
	if !w.FactoryState.MovedSince(models.MovedActor, world.Dana, on) {
		t.Error("a narrower window made a lost role forgotten")
	}
}

// A factory's commands are repeated as a run's are, and a first one under an id that was used is a conflict (K4).
func TestFactoryCommandsAreRepeated(t *testing.T) {
	w := world.New(true)
	c := models.RetireProfile{ID: "p1"}
	first := w.DoFactory(world.Root, "once", c)
	accepted(t, first)
	check := unmoved(t, w)
	if again := w.DoFactory(world.Root, "once", c); !again.Repeat || string(again.Receipt) != string(first.Receipt) {
		t.Errorf("repeat %t %v", again.Repeat, again.Refusal)
	}
	refused(t, w.DoFactory(world.Root, "once", models.RetireProfile{ID: "p2"}), models.CodeRequestConflict)
	check()
	_, r := kernel.DecideFactory("first", models.CreateFactory{}, models.Env{Actor: world.Root, Factory: models.Factory{Factory: "f"}, Saved: models.SavedOther})
	is(t, r, models.CodeRequestConflict)
}

// A graph whose turn stands settled has had its ticket in a later attempt too, where its name is another. T1; FLOW-17.
func TestASettledTurnHadItsTicketInALaterAttempt(t *testing.T) {
	w := world.Continuing()
	w.MustAppend(models.RunFailed{Report: world.Blob("r")})
	w.Must(world.Omar, "retry", models.RetryRun{})
	if graph, ok := w.State.Graph(); !ok {
		t.Fatal("no graph")
	} else if _, named := w.State.Tickets.ForGraph(graph); named || w.State.Attempt < 2 {
		t.Fatal("the graph has its old name")
	}
	held(t, w.Candidate(world.Dana), models.CodeGraphHasTicket, "request_id", "request-1")
}

// A proof over calls that no version covers is none, also where rows and sandbox agree on them. REC-04, OBS-11.
func TestAProofOfNoVersion(t *testing.T) {
	try := func(second world.Call, version int64, closing string) *models.Refusal {
		w := world.Executing()
		w.Turn(world.Call{Class: models.ClassEvidenceRead, Refused: true}, second)
		w.MustAppend(world.Failed())
		w.Policy(func(p *models.Policy) { p.AllowUnavailableSourceObservations = true })
		w.Rebuild = func(w *world.World) *models.Reconstruction {
			r := w.ProofOne()
			r.Version = version
			r.Closing = append(r.Closing, models.ClosingResult{Position: 1, Result: closing})
			if c := w.State.Custody.Turn.Calls[1]; closing == models.ResultRetained {
				r.Outcomes = []models.Retained{{Position: 1, Result: c.Result}}
			}
			return r
		}
		c := w.Request(600)
		c.Version, c.AcknowledgeUnavailableSourceObservations = version, version == 2
		return w.Do(world.Dana, "r", c).Refusal
	}
	is(t, try(world.Call{Class: models.ClassPureRead}, 2, models.ResultObservationUnavailable), models.CodeSandboxStopped, "reason", "not the single evidence read")
	is(t, try(world.Call{Class: models.ClassSourceObservation}, 1, models.ResultRetained), models.CodeSandboxStopped, "reason", "the shape of the other version")
}

// Version 2 is refused by its switch before anything costly is done. OBS-07.
func TestTheSwitchOfVersionTwoIsAskedFirst(t *testing.T) {
	w := world.Held()
	c := w.Request(600)
	c.Version, c.AcknowledgeUnavailableSourceObservations = 2, true
	env := w.Env(world.Dana, "r", c)
	env.Recount, env.Reconstruction = nil, nil
	_, r := kernel.Decide(w.State, "r", c, env)
	is(t, r, models.CodeSettingOff, "setting", "allow_unavailable_source_observations")
}

// A policy put anew with its switches on, or a record with the content that it had, stops nothing. BOUND-03; rules O46.
func TestWhatIsPutAgainStopsNothing(t *testing.T) {
	w := world.Observing(2, 1)
	w.Must(world.Dana, "request-1", w.RequestTwo(600))
	w.Policy(func(p *models.Policy) { p.MaxPendingTickets++ })
	for _, kind := range []string{models.RecordSource, models.RecordConfiguration, models.RecordScope} {
		w.Record(kind, kind)
	}
	accepted(t, w.Claim(world.Worker2))
	accepted(t, w.Append(w.Asked()...))
	verify(t, w)
}

// A deadline that has not passed holds nothing.
func TestADeadlineThatIsToCome(t *testing.T) {
	w := world.New(true)
	w.Register(func(g *models.Registration) {
		g.TimeBudget, g.ActiveDeadline = models.TimeBudgetAbsolute, world.Start.Add(900)
	})
	w.Now = world.Start.Add(900) - 1
	if h := w.Holds(); len(h) != 0 {
		t.Errorf("holds %v", h)
	}
	w.Now++
	tells(t, "at the deadline", w.Holds(), "deadline_passed")
}

// Verification is due beside an outstanding ticket, which will be refused; beside one that is over an open turn waits for a person.
// BOUND-10; rules O6.
func TestVerificationBesideATicketThatIsOver(t *testing.T) {
	w := world.Executing(world.Verified(1))
	w.Stop()
	w.Admit("request-1")
	w.MustClaim(world.Worker2)
	w.Turn(world.Call{Class: models.ClassEvidenceRead, Refused: true})
	w.MustAppend(world.Failed())
	if last, _ := w.State.Tickets.Last(); last.State != ticket.Ended || w.State.Custody.Clean() {
		t.Fatalf("%+v", last)
	}
	if kernel.Verifiable(w.State) {
		t.Error("due beside a turn that waits for a person")
	}
	refused(t, w.Schedule(), models.CodeVerificationNotDue, "what", "something of the last turn is open")
}
