package proptest_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/proptest/invariant"
	"github.com/forge-continuity/forge/proptest/naive"
	"github.com/forge-continuity/forge/proptest/world"
	"pgregory.net/rapid"
)

// machine drives the real kernel beside the naive model, which says what each command must come to.
type machine struct {
	w    *world.World
	m    *naive.Model
	sent []sent
}

// sent is a command that was accepted, to be sent again.
type sent struct {
	actor, id string
	command   models.Command
}

// beginnings are the worlds that a walk may start from.
var beginnings = func() []*world.World {
	registered := world.New(true)
	registered.Tick(1)
	registered.Register()
	deadline := world.New(true)
	deadline.Register(func(g *models.Registration) {
		g.TimeBudget, g.ActiveDeadline, g.ProviderTimeout, g.Limits.Commands, g.Limits.Requests = models.TimeBudgetAbsolute, world.Start.Add(900), 600, 2, 3
	})
	// One request, one command, one call, one read are left, and few tokens.
	poor := func(g *models.Registration) {
		g.Limits.Requests, g.Limits.Commands, g.Limits.ToolCalls, g.Limits.SourceReads, g.Limits.TotalTokens = 6, 12, 8, 4, 6000
	}
	list := []*world.World{world.New(true), world.New(false), registered, deadline, world.Executing(poor), world.Executing(), world.Held(poor), world.Held(), world.Held(), world.Queued(), world.Continuing()}
	for _, w := range list {
		w.Trust = true
	}
	return list
}()

// send sends a command to both and compares: the code, or that the saved answer stands, or what follows.
func (k *machine) send(t *rapid.T, actor, id string, c models.Command) world.Answer {
	w := k.w
	env := w.Env(actor, id, c)
	asked := naive.Asked{
		Actor: actor, ID: id, Command: c, At: env.At, Lease: w.Lease, Host: w.Host, Pending: env.Pending, Missing: len(env.Missing) > 0,
		Rebuilt: env.Reconstruction, Reports: env.Reports, Reproduced: env.Reproduction, OtherBytes: w.KeptCheckpoint != nil,
		Current: current(w.State, c, env), Screened: env.Screening,
	}
	want := k.m.Predict(asked)
	before := *w
	print := kernel.Fingerprint(w.State)
	var got world.Answer
	if models.ForFactory(c) {
		got = w.DoFactory(actor, id, c)
	} else {
		got = w.Do(actor, id, c)
	}
	t.Logf("%s %s %s: %q repeat %v, %d events", actor, id, c.Verb(), got.Code(), got.Repeat, len(got.Events))
	if got.Code() != want.Code || got.Repeat != want.Repeat {
		t.Fatalf("%s by %s as %s: the kernel says %v (repeat %v), the model %q (repeat %v)\n%+v", c.Verb(), actor, id, got.Refusal, got.Repeat, want.Code, want.Repeat, c)
	}
	if got.Refusal != nil || got.Repeat {
		// K3, K4: nothing is written.
		if w.State.Head != before.State.Head || w.FactoryState.Seq != before.FactoryState.Seq || len(w.Rows) != len(before.Rows) || kernel.Fingerprint(w.State) != print {
			t.Fatalf("%s was refused or repeated, and something was written", c.Verb())
		}
		return got
	}
	follows := k.m.Follows(asked)
	k.m.Accept(asked, got.Events)
	if !models.ForFactory(c) {
		if did := did(got.Events); fmt.Sprint(did) != fmt.Sprint(follows) {
			t.Fatalf("%s by %s appended %+v, the model says %+v", c.Verb(), actor, did, follows)
		}
		if got, want := stands(w.State), k.m.Stands(); !reflect.DeepEqual(got, want) {
			t.Fatalf("after %s the run stands at\n%+v\nthe model says\n%+v", c.Verb(), got, want)
		}
	}
	k.sent = append(k.sent, sent{actor, id, c})
	k.step(t, &before, c, env, got)
	return got
}

// current are the digests that a submission could name now.
func current(s kernel.State, c models.Command, env models.Env) models.RequestContinuity {
	var now models.RecoveryCandidate
	switch c := c.(type) {
	case models.RequestContinuity:
		n := kernel.Candidate(s, env)
		return models.RequestContinuity{CandidateDigest: n.CandidateDigest, JournalDigest: n.JournalDigest, PolicyDigest: n.PolicyDigest, RunDigest: n.RunDigest}
	case models.RecoverNeverClaimed:
		now, _ = kernel.RecoveryCandidate(s, c.RequestID, env)
	case models.RecoverRefusedBoundary:
		now, _ = kernel.BoundaryCandidate(s, c.RequestID, c.Review, env)
	case models.RecoverReadonlyObservation:
		now, _ = kernel.ObservationCandidate(s, c.RequestID, env)
	}
	return models.RequestContinuity{CandidateDigest: now.CandidateDigest, JournalDigest: now.JournalDigest, PolicyDigest: now.PolicyDigest, RunDigest: now.RunDigest}
}

// did is what a command's events are, in the model's words.
func did(events []models.Event) naive.Follow {
	var out naive.Follow
	for _, e := range events {
		out.Kinds = append(out.Kinds, e.Kind())
		switch e := e.(type) {
		case models.LeaseGranted:
			out.Ends = e.ExpiresAt
		case models.ClaimTaken:
			out.Ends = e.ExpiresAt
		case models.MigrationSettled:
			out.Waived = e.Waived
		}
	}
	return out
}

// stands is where the kernel says that a run stands, in the model's words.
func stands(s kernel.State) naive.Stand {
	n, l, v := s.Budget.Spent, s.Lease, s.Verification
	out := naive.Stand{
		Attempt: s.Attempt, Rounds: s.Rounds, Requests: n.Requests, Commands: n.Commands, Calls: n.ToolCalls, Reads: n.SourceReads,
		InputTokens: n.InputTokens, OutputTokens: n.OutputTokens, End: s.End, Pool: s.Pool, Checkpoint: s.Custody.Checkpoint,
		Lease:        naive.Lease{Fence: l.Fence},
		Verification: naive.Verification{State: v.State, Round: v.Round, Started: v.Started, Passed: v.Passed, Stopped: v.Stopped},
	}
	if l.Live || l.Granted {
		out.Lease = naive.Lease{Live: l.Live, Waiting: l.Granted, Fence: l.Fence, RequestID: l.RequestID, Ends: l.ExpiresAt}
	}
	if l.Live {
		out.Lease.Owner = l.Owner
	}
	for _, t := range s.Tickets.Tickets {
		out.Tickets = append(out.Tickets, naive.Ticket{
			RequestID: t.RequestID, State: t.State, Version: t.Version, Claims: t.Claims, Turns: t.Turns, NeverClaimed: t.NeverClaimed,
			Boundary: t.RefusedBoundary, Observed: t.ReadonlyObservation, Start: t.Start(),
		})
	}
	for _, v := range s.Waivers {
		out.Waivers = append(out.Waivers, naive.Waiver{Finding: v.Finding, Blob: v.Blob, RuleSet: v.RuleSet, Spent: v.SpentSeq > 0})
	}
	return out
}

// step checks what an accepted command may change (the invariants of each machine, and rules, section 7).
func (k *machine) step(t *rapid.T, before *world.World, c models.Command, env models.Env, got world.Answer) {
	w := k.w
	old, now := before.State, w.State
	if models.ForFactory(c) {
		if w.State.Head != old.Head {
			t.Fatal("a factory's command wrote into a run")
		}
		if _, ok := c.(models.PutPolicy); ok && w.FactoryState.Policy.Revision != before.FactoryState.Policy.Revision+1 {
			t.Fatalf("P1: revision %d after %d", w.FactoryState.Policy.Revision, before.FactoryState.Policy.Revision)
		}
		return
	}
	if err := invariant.Step(old, now, c, env, got.Events); err != nil {
		t.Fatal(err)
	}
}

// rest checks what only the whole journal shows.
func (k *machine) rest(t *rapid.T) {
	k.w.Trust = false
	history, r := kernel.ReplayFactory(slices.Values(k.w.FactoryRows))
	if r != nil {
		t.Fatalf("factory: %v", r)
	}
	s, r := kernel.Replay(slices.Values(k.w.Rows), history)
	if r != nil {
		t.Fatalf("K2: %v", r)
	}
	if len(k.w.Rows) > 0 && kernel.Fingerprint(s) != kernel.Fingerprint(k.w.State) {
		t.Fatalf("K1: replayed\n%s\nwant\n%s", s.Encode(), k.w.State.Encode())
	}
	type place struct{ request, position int64 }
	ended, refused, reconciled, consumed := map[place]int{}, map[place]int{}, map[int64]int{}, map[int64]int{}
	commands, intents := int64(0), map[place]int{}
	for _, h := range k.m.Run {
		switch e := h.Event.(type) {
		case models.CallReturned:
			ended[place{e.Request, e.Position}]++
		case models.CallIntended:
			intents[place{e.Request, e.Position}]++
		case models.CallRefused:
			refused[place{e.Request, e.Position}]++
		case models.ResponseConsumed:
			consumed[e.Request]++
		case models.CommandStarted:
			commands++
		case models.EffectReconciled:
			reconciled[e.Seq]++
			if e.Subject == models.SubjectCall && e.Outcome != models.OutcomeDidNotHappen {
				ended[place{e.Request, e.Position}]++
			}
			if e.Subject == models.SubjectCall && e.Outcome == models.OutcomeDidNotHappen {
				intents[place{e.Request, e.Position}]--
			}
		}
	}
	for at, n := range ended {
		if n > 1 || refused[at] > 0 || intents[at] != 1 {
			t.Fatalf("C1: call %v has %d outcomes, %d refusals, %d intents", at, n, refused[at], intents[at])
		}
	}
	for request, n := range consumed {
		if n > 1 {
			t.Fatalf("C3: response %d was consumed %d times", request, n)
		}
	}
	for seq, n := range reconciled {
		if n > 1 {
			t.Fatalf("row %d was reconciled %d times", seq, n)
		}
	}
	if commands != k.w.State.Budget.Spent.Commands || commands != k.w.State.Custody.CommandCount {
		t.Fatalf("C4: %d command rows, %d counted", commands, k.w.State.Budget.Spent.Commands)
	}
}

var everybody = []string{world.Dana, world.Dana, world.Omar, world.Root, world.Rita, world.Worker, world.Worker2, "stranger"}

func (k *machine) actor(t *rapid.T, likely string) string {
	if rapid.IntRange(0, 9).Draw(t, "actor is likely") > 0 {
		return likely
	}
	return rapid.SampledFrom(everybody).Draw(t, "actor")
}

func (k *machine) id(t *rapid.T) string {
	switch rapid.IntRange(0, 19).Draw(t, "id") {
	case 0:
		return rapid.SampledFrom([]string{"", "..", "a b"}).Draw(t, "bad id")
	case 1:
		if len(k.sent) > 0 {
			return rapid.SampledFrom(k.sent).Draw(t, "used id").id
		}
	}
	return k.w.NextID()
}

// one in n.
func one(t *rapid.T, n int, what string) bool { return rapid.IntRange(0, n-1).Draw(t, what) == 0 }

var classes = []string{
	models.ClassEvidenceRead, models.ClassEvidenceRead, models.ClassEvidenceRead, models.ClassSourceObservation, models.ClassCommand,
	models.ClassWrite, models.ClassNetwork, models.ClassPureRead, models.ClassUnknown,
}

// next is what an honest worker would report now.
func (k *machine) next(t *rapid.T) []models.Fact {
	w := k.w
	c := w.State.Custody
	turn := c.Turn
	pick := rapid.IntRange(0, 9).Draw(t, "next")
	switch {
	case !c.Answered():
		r := w.Answered()
		r.Partial = pick == 0
		return []models.Fact{r}
	case turn.Request > 0 && !turn.Settled && !turn.Void && turn.ConsumeSeq == 0:
		return []models.Fact{w.Consumed(rapid.SampledFrom([]int64{0, 1, 1, 1, 2}).Draw(t, "calls"))}
	case turn.Request > 0 && !turn.Settled && !turn.Void && int64(len(turn.Calls)) < turn.CallCount:
		return []models.Fact{world.Granted(turn.Request, int64(len(turn.Calls)), rapid.SampledFrom(classes).Draw(t, "class"))}
	case len(c.Commands) > 0 && pick > 2:
		return []models.Fact{models.CommandFinished{Number: c.Commands[0].Number, Receipt: world.Blob("receipt")}}
	}
	for _, call := range turn.Calls {
		at := call.Position
		switch {
		case turn.Settled || call.RefusedSeq > 0 || call.OutcomeSeq > 0:
		case call.IntentSeq == 0 && (pick < 5 || call.Class == models.ClassEvidenceRead && pick < 8):
			return []models.Fact{models.CallRefused{Position: at, Request: turn.Request, Validator: w.State.Registration.Validator}}
		case call.IntentSeq == 0:
			return []models.Fact{models.CallIntended{Position: at, Request: turn.Request}}
		case call.Class == models.ClassCommand && pick < 4:
			return []models.Fact{models.CommandStarted{Command: world.Blob("command"), Number: w.State.Budget.Spent.Commands + 1, Position: at, Request: turn.Request}}
		case pick == 4:
			return []models.Fact{models.ToolUnknown{Position: at, Request: turn.Request}}
		default:
			return []models.Fact{models.CallReturned{Position: at, Request: turn.Request, Result: world.Blob("result"), Failed: pick == 5}}
		}
	}
	switch pick {
	case 0:
		return []models.Fact{models.CommandStarted{Command: world.Blob("command"), Number: w.State.Budget.Spent.Commands + 1, Position: -1}}
	case 1:
		return []models.Fact{models.RoundCompleted{Round: w.State.Rounds + 1}}
	case 2:
		return []models.Fact{rapid.SampledFrom([]models.Fact{
			models.RunCompleted{Result: world.Blob("r"), Round: w.State.Rounds + 1}, models.RunFailed{Report: world.Blob("r")},
		}).Draw(t, "end")}
	case 3, 4:
		return []models.Fact{world.Failed()}
	}
	return w.Asked()
}

// anything is a fact without sense.
func (k *machine) anything(t *rapid.T) models.Fact {
	w := k.w
	request := w.State.Custody.Turn.Request + rapid.Int64Range(-1, 1).Draw(t, "request")
	position := rapid.Int64Range(-1, 2).Draw(t, "position")
	n := rapid.SampledFrom([]int64{-1, 0, 1, 2, 129, 1 << 62}).Draw(t, "n")
	d := rapid.SampledFrom([]models.Digest{{}, world.Blob("x"), world.Blob("y"), w.State.Custody.Checkpoint, w.State.Custody.Turn.Response}).Draw(t, "digest")
	return rapid.SampledFrom([]models.Fact{
		models.CheckpointSaved{Checkpoint: d}, models.RequestIssued{Checkpoint: d, Request: request, Wire: world.Plain("w"), WireBlob: world.Blob("w"), WireLength: n},
		models.ResponseKept{Length: n, Partial: n == 1, Request: request, Response: d},
		models.ResponseConsumed{Calls: n, Request: request, Response: d, Tokens: models.Tokens{Input: n, Output: n}},
		models.CallGranted{Args: world.Blob("a"), Class: rapid.SampledFrom(append(classes, "made_up")).Draw(t, "class"), ID: d, Position: position, Request: request, Tool: n},
		models.CallRefused{Position: position, Request: request, Validator: d}, models.CallIntended{Position: position, Request: request},
		models.CallReturned{Position: position, Request: request, Result: d}, models.ToolUnknown{Position: position, Request: request},
		models.CommandStarted{Command: d, Number: w.State.Budget.Spent.Commands + n, Position: position, Request: request},
		models.CommandFinished{Number: w.State.Budget.Spent.Commands + n - 1, Receipt: d},
		models.RoundCompleted{Round: w.State.Rounds + n}, models.RunCompleted{Result: d, Round: w.State.Rounds + n},
		models.WorkerFailed{Report: d}, models.RunFailed{Report: d},
	}).Draw(t, "fact")
}

func (k *machine) actions() map[string]func(*rapid.T) {
	appends := func(t *rapid.T) {
		var facts []models.Fact
		if !one(t, 12, "no next") {
			facts = k.next(t)
		}
		for one(t, 8, "one more") {
			facts = slices.Insert(facts, rapid.IntRange(0, len(facts)).Draw(t, "at"), k.anything(t))
		}
		fence := k.w.State.Lease.Fence
		if one(t, 20, "other fence") {
			fence += rapid.Int64Range(-1, 1).Draw(t, "fence")
		}
		owner := k.w.State.Lease.Owner
		if owner == "" {
			owner = world.Worker
		}
		if one(t, 25, "a blob is missing") {
			k.w.Missing = []models.Digest{world.Blob("missing")}
		}
		k.send(t, k.actor(t, owner), k.id(t), models.Append{Facts: facts, Fence: fence})
		k.w.Missing = nil
	}
	claims := func(t *rapid.T) {
		c := models.ClaimRun{LeaseSeconds: models.Seconds(rapid.SampledFrom([]int64{30, 600, 1800, 7200, 0, 7201}).Draw(t, "seconds"))}
		c.Pool = k.w.State.Pool
		if one(t, 10, "other pool") {
			c.Pool = rapid.SampledFrom([]string{"", "gpu", "cpu", "a b"}).Draw(t, "pool")
		}
		k.send(t, k.actor(t, rapid.SampledFrom([]string{world.Worker, world.Worker2}).Draw(t, "worker")), k.id(t), c)
	}
	return map[string]func(*rapid.T){
		"append": appends, "append again": appends, "append more": appends, "append on": appends,
		"claim": claims, "claim again": claims,
		"request": func(t *rapid.T) { k.request(t) }, "request again": func(t *rapid.T) { k.request(t) },
		"register": func(t *rapid.T) {
			g := k.w.Registration()
			switch rapid.IntRange(0, 5).Draw(t, "registration") {
			case 0:
				g.Mode = "best-effort"
			case 1:
				g.TimeBudget, g.ActiveDeadline = models.TimeBudgetAbsolute, k.w.Now.Add(models.Seconds(rapid.Int64Range(-10, 3000).Draw(t, "deadline")))
			case 2:
				g.Limits = models.Limits{Attempts: 1, Commands: 1, InputTokens: 2000, OutputTokens: 200, Requests: 2, SourceReads: 1, ToolCalls: 1, TotalTokens: 2000}
			case 3:
				g.Source.Digest = world.Plain("another")
			case 4:
				g.TimeBudget = rapid.SampledFrom([]string{"sliding", ""}).Draw(t, "budget")
			}
			k.send(t, k.actor(t, world.Dana), k.id(t), models.RegisterRun{Registration: g})
		},
		"again": func(t *rapid.T) {
			if len(k.sent) == 0 {
				return // nothing was sent; a skip would fail a fuzzer that draws only this
			}
			s := rapid.SampledFrom(k.sent).Draw(t, "sent")
			k.send(t, k.actor(t, s.actor), s.id, s.command)
		},
		"tick": func(t *rapid.T) {
			k.w.Now += models.Instant(rapid.OneOf(rapid.Int64Range(-2_500_000, 3_000_000), rapid.Int64Range(1_000_000, 3_000_000_000)).Draw(t, "by"))
		},
		"to the expiry": func(t *rapid.T) {
			at := k.w.Lease + models.Instant(rapid.Int64Range(-1, 1).Draw(t, "around"))
			if k.w.Lease == 0 || at < k.w.Now {
				return // nothing expires; a skip would fail a fuzzer that draws only this
			}
			k.w.Now = at
		},
		"renew": func(t *rapid.T) {
			w := k.w
			env := w.Env(w.State.Lease.Owner, "renew", models.Append{})
			seconds := models.Seconds(rapid.Int64Range(1, 3000).Draw(t, "seconds"))
			end, r := kernel.Renew(w.State, w.State.Lease.Fence, seconds, env)
			if r != nil {
				return // refused; a skip would fail a fuzzer that draws only this
			}
			g := w.State.Registration
			limit := env.At.Add(min(seconds, g.ProviderTimeout))
			if g.TimeBudget == models.TimeBudgetAbsolute {
				limit = min(limit, g.ActiveDeadline)
			}
			if w.State.Lease.RequestID != "" || end < w.Lease || end > max(w.Lease, limit) {
				t.Fatalf("L5: renewed to %d from %d, at most %d", end, w.Lease, limit)
			}
			w.Lease = end
		},
		"release": func(t *rapid.T) {
			k.send(t, k.actor(t, k.w.State.Lease.Owner), k.id(t), models.ReleaseRun{Fence: k.w.State.Lease.Fence, Pool: rapid.SampledFrom([]string{"", "", "gpu", "a b"}).Draw(t, "pool")})
		},
		"reconcile": func(t *rapid.T) { k.reconcile(t) },
		"retry":     func(t *rapid.T) { k.send(t, k.actor(t, world.Dana), k.id(t), models.RetryRun{}) },
		"cancel": func(t *rapid.T) {
			if !one(t, 4, "really") {
				return // not yet; a skip would fail a fuzzer that draws only this
			}
			k.send(t, k.actor(t, world.Omar), k.id(t), models.CancelRun{})
		},
		"annotate": func(t *rapid.T) {
			k.send(t, k.actor(t, models.ServerActor), k.id(t), models.AnnotateStartup{Boot: rapid.SampledFrom([]string{"b1", "a b"}).Draw(t, "boot")})
		},
		"policy": func(t *rapid.T) {
			p := k.w.FactoryState.Policy
			switch rapid.IntRange(0, 5).Draw(t, "policy") {
			case 0:
				p.Enabled = !p.Enabled
			case 1:
				p.MaxValidForSeconds = models.Seconds(rapid.SampledFrom([]int64{0, 1, 60, 600, 7200, 7201, -1}).Draw(t, "window"))
			case 2:
				p.MaxTicketsPerRun = rapid.Int64Range(0, 3).Draw(t, "tickets")
			case 3:
				p.AllowUnavailableSourceObservations = !p.AllowUnavailableSourceObservations
			default:
				p.Enabled, p.MaxValidForSeconds, p.MaxTicketsPerRun = true, 3600, 50
			}
			replaces := p.Revision
			if one(t, 8, "stale") {
				replaces--
			}
			k.send(t, k.actor(t, world.Root), k.id(t), models.PutPolicy{Policy: p, Replaces: replaces})
		},
		"principal": func(t *rapid.T) {
			id := rapid.SampledFrom([]string{world.Dana, world.Dana, world.Worker, world.Root, "new", "a b"}).Draw(t, "who")
			p, _ := k.w.FactoryState.Principal(id)
			c := models.PutPrincipal{ID: id, Replaces: p.Authority}
			switch rapid.IntRange(0, 4).Draw(t, "roles") {
			case 0:
				c.Removed = true
			case 1:
				c.Roles = []string{models.RoleAdministrator}
			default:
				c.Roles = []string{models.RoleAdministrator, models.RoleOperator, models.RoleWorker}
			}
			if one(t, 8, "stale") {
				c.Replaces++
			}
			k.send(t, k.actor(t, world.Root), k.id(t), c)
		},
		"record": func(t *rapid.T) {
			kind := rapid.SampledFrom([]string{models.RecordSource, models.RecordConfiguration, models.RecordScope}).Draw(t, "kind")
			content := rapid.SampledFrom([]string{kind, kind, "moved"}).Draw(t, "content")
			k.send(t, k.actor(t, world.Root), k.id(t), models.PutRecord{Digest: world.Plain(content), Kind: kind, Name: "main"})
		},
		"profile": func(t *rapid.T) {
			w := k.w
			switch rapid.IntRange(0, 4).Draw(t, "profile") {
			case 0:
				k.send(t, k.actor(t, world.Root), k.id(t), models.RetireProfile{ID: rapid.SampledFrom([]string{"p1", "p2", "p9"}).Draw(t, "id")})
			case 1:
				w.Host.Module = rapid.SampledFrom([]models.Digest{world.Plain("module"), world.Plain("newer module")}).Draw(t, "module")
			default:
				p := w.Profile(rapid.SampledFrom([]string{"p1", "p2", "p3", fmt.Sprintf("p%d", len(w.FactoryRows))}).Draw(t, "id"))
				if one(t, 4, "fixture") {
					p.Fixture = !p.Fixture
				}
				if n := len(p.Qualifications); n > 0 && one(t, 3, "less") {
					i := rapid.IntRange(0, n-1).Draw(t, "lacks")
					p.Qualifications = slices.Delete(p.Qualifications, i, i+1)
				}
				k.send(t, k.actor(t, world.Root), k.id(t), models.RegisterProfile{Profile: p})
			}
		},
		"rules": func(t *rapid.T) {
			k.send(t, k.actor(t, world.Root), k.id(t), models.ActivateRules{Rules: rapid.Int64Range(0, 3).Draw(t, "rules")})
		},
		"": func(t *rapid.T) {
			// K1: the state is what its bytes say.
			s, err := kernel.DecodeState(k.w.State.Encode())
			if err != nil || kernel.Fingerprint(s) != kernel.Fingerprint(k.w.State) {
				t.Fatalf("K1: %v", err)
			}
			k.announced(t)
		},
	}
}

// announced checks that ordinary work is announced exactly where an ordinary claim is accepted: now by its queue entry,
// or once the lease in force has lapsed.
func (k *machine) announced(t *rapid.T) {
	w := k.w
	s := w.State
	if ticket, ok := s.Tickets.Last(); s.Registered.IsZero() || ok && ticket.Outstanding() || !w.FactoryState.Has(world.Worker, models.RoleWorker) {
		return
	}
	claim := models.ClaimRun{LeaseSeconds: 60, Pool: s.Pool}
	env := w.Env(world.Worker, "claim", claim)
	until, position := kernel.Reclaimable(s), kernel.PositionQueued
	if s.Lease.Live {
		env.At = max(env.At, s.Lease.InForce(env.LeaseExpires))
	} else if entry := kernel.Queue(s); entry != nil {
		if until = entry.Expires; until == 0 {
			until = kernel.Forever
		}
	}
	if env.At < max(s.HeadAt, env.Factory.HeadAt) {
		return // the clock is behind
	}
	_, r := kernel.Decide(s, "claim", claim, env)
	if (r == nil) != (env.At < until) {
		t.Fatalf("announced until %d, and at %d a claim answers %v", until, env.At, r)
	}
	if got := kernel.Position(s, env.At, env.LeaseExpires); r == nil && got != position {
		t.Fatalf("claimable and %s", got)
	}
}

func (k *machine) request(t *rapid.T) {
	w := k.w
	w.Rebuild = (*world.World).ProofOne
	if one(t, 3, "other proof") {
		change := rapid.IntRange(0, 7).Draw(t, "proof")
		w.Sandbox(func(r *models.Reconstruction) {
			switch change {
			case 0:
				r.Version = 2
				if one(t, 2, "a whole version 2") {
					*r = *w.ProofTwo()
				}
			case 1:
				r.Version = 0
			case 2:
				r.Holds = []models.SandboxHold{{Code: models.CodeQueryValid}, {Code: models.CodeSourceUnregistered}}
			case 3:
				r.Calls = append(r.Calls, models.SeenCall{Position: 7, Class: models.ClassUnknown})
			case 4:
				r.Calls = nil
			case 5:
				r.Tokens.Input++
			case 6:
				r.Served = 2
			case 7:
				if len(r.Calls) > 0 {
					r.Calls[0].Args = world.Blob("other")
				}
			}
		})
	}
	w.Pending = rapid.SampledFrom([]int64{0, 0, 0, 499, 500}).Draw(t, "pending")
	env := w.Env(world.Dana, "candidate", models.RequestContinuity{})
	k.candidate(t, env)
	c := w.Request(models.Seconds(rapid.SampledFrom([]int64{60, 600, 600, 1800, 0, 7201}).Draw(t, "seconds")))
	switch rapid.IntRange(0, 11).Draw(t, "body") {
	case 0:
		c.AcknowledgeNoNewGrant = false
	case 1:
		c.CandidateDigest = world.Plain("x")
	case 2:
		c.JournalDigest = world.Plain("x")
	case 3:
		c.Version = 2
		c.AcknowledgeUnavailableSourceObservations = one(t, 2, "fourth acknowledgement")
	}
	if one(t, 25, "a blob is missing") {
		w.Missing = []models.Digest{world.Blob("missing")}
	}
	k.send(t, k.actor(t, world.Dana), k.id(t), c)
	w.Missing = nil
}

// candidate compares the holds that the kernel shows with those of the model, and that looking changes nothing.
func (k *machine) candidate(t *rapid.T, env models.Env) {
	w := k.w
	if w.State.Registered.IsZero() {
		return
	}
	print := kernel.Fingerprint(w.State)
	c := kernel.Candidate(w.State, env)
	if kernel.Fingerprint(w.State) != print || c.Eligible != (len(c.Holds) == 0) {
		t.Fatal("a candidate changed something, or is eligible with holds")
	}
	got, want := map[models.Code]bool{}, map[models.Code]bool{}
	for _, h := range c.Holds {
		got[h.Code] = true
	}
	for _, code := range k.m.Holds(naive.Asked{Actor: env.Actor, At: env.At, Lease: w.Lease, Host: w.Host, Rebuilt: env.Reconstruction, Screened: env.Screening}) {
		want[code] = true
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("holds %v, the model says %v", got, want)
	}
}

func (k *machine) reconcile(t *rapid.T) {
	w := k.w
	subject := rapid.SampledFrom([]string{models.SubjectRequest, models.SubjectCall, models.SubjectCommand, models.SubjectTicket}).Draw(t, "subject")
	outcome := rapid.SampledFrom([]string{models.OutcomeLanded, models.OutcomeDidNotHappen, models.OutcomeChargedUnknown}).Draw(t, "outcome")
	seq := w.State.Custody.Unknown()
	if subject == models.SubjectRequest {
		seq = w.State.Custody.Turn.RequestSeq
	}
	c := world.Settle(subject, seq, outcome)
	if ticket, ok := w.State.Tickets.Last(); ok && subject == models.SubjectTicket {
		c.Seq, c.RequestID = ticket.SettledSeq, ticket.RequestID
	}
	switch rapid.IntRange(0, 11).Draw(t, "body") {
	case 0:
		c.Seq++
	case 1:
		c.AcknowledgeNoReplay = false
	case 2:
		c.Evidence = models.Digest{}
	case 3:
		c.RequestID = "other"
	}
	k.send(t, k.actor(t, world.Omar), k.id(t), c)
}

// whole is the property of the kernel as a whole.
func whole(t *rapid.T) {
	w := rapid.SampledFrom(beginnings).Draw(t, "beginning").Clone()
	m, err := naive.Load(world.Factory, w.FactoryRows, w.Rows)
	if err != nil {
		t.Fatal(err)
	}
	k := &machine{w: w, m: m}
	t.Repeat(k.actions())
	k.rest(t)
}

func TestKernelBesideModel(t *testing.T) { rapid.Check(t, whole) }
func FuzzKernelBesideModel(f *testing.F) { f.Fuzz(rapid.MakeFuzz(whole)) }
