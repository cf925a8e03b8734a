package kernel_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/proptest/world"
)

func TestRegistrationIsWellFormed(t *testing.T) {
	for member, change := range map[string]func(*models.Registration){
		"mode":                           func(g *models.Registration) { g.Mode = "" },
		"selection":                      func(g *models.Registration) { g.Selection = "two words" },
		"acknowledgement":                func(g *models.Registration) { g.Acknowledgement = "a=b" },
		"time_budget":                    func(g *models.Registration) { g.TimeBudget = "" },
		"active_deadline":                func(g *models.Registration) { g.TimeBudget, g.ActiveDeadline = "sliding", -1 },
		"active_deadline without":        func(g *models.Registration) { g.ActiveDeadline = 1 },
		"active_deadline needed":         func(g *models.Registration) { g.TimeBudget = models.TimeBudgetAbsolute },
		"completed_rounds":               func(g *models.Registration) { g.CompletedRounds = -1 },
		"attempt":                        func(g *models.Registration) { g.Attempt = 0 },
		"attempt over":                   func(g *models.Registration) { g.Attempt = 4 },
		"task":                           func(g *models.Registration) { g.Task = models.Digest{} },
		"contract":                       func(g *models.Registration) { g.Contract = models.Digest{} },
		"runtime, validator or reader":   func(g *models.Registration) { g.Runtime = models.Digest{} },
		"runtime, validator or reader 2": func(g *models.Registration) { g.Validator = models.Digest{} },
		"runtime, validator or reader 3": func(g *models.Registration) { g.Reader = models.Digest{} },
		"limits":                         func(g *models.Registration) { g.Limits.Commands = -1 },
		"limits 2":                       func(g *models.Registration) { g.Limits.InputTokens = -1 },
		"limits 3":                       func(g *models.Registration) { g.Limits.OutputTokens = -1 },
		"limits 4":                       func(g *models.Registration) { g.Limits.Repairs = -1 },
		"limits 5":                       func(g *models.Registration) { g.Limits.Requests = -1 },
		"limits 6":                       func(g *models.Registration) { g.Limits.SourceReads = -1 },
		"limits 7":                       func(g *models.Registration) { g.Limits.ToolCalls = -1 },
		"limits 8":                       func(g *models.Registration) { g.Limits.TotalTokens = -1 },
	} {
		t.Run(member, func(t *testing.T) {
			w := world.New(true)
			g := w.Registration()
			g.ProviderTimeout = 0 // and still the malformed member answers first
			change(&g)
			refused(t, w.Do(world.Dana, "registration", models.RegisterRun{Registration: g}), models.CodeRequestMalformed)
		})
	}
	w := world.New(true)
	for _, seconds := range []models.Seconds{0, -1, 7201} {
		g := w.Registration()
		g.ProviderTimeout = seconds
		refused(t, w.Do(world.Dana, "registration", models.RegisterRun{Registration: g}), models.CodeWindowInvalid, "limit", "7200")
	}
	g := w.Registration()
	g.Source.Record = "nowhere"
	refused(t, w.Do(world.Dana, "registration", models.RegisterRun{Registration: g}), models.CodeSourceChanged)
	g = w.Registration()
	for _, id := range []string{"", ".", "..", "a/b", "a b", strings.Repeat("x", 65), "ü"} {
		refused(t, w.Do(world.Dana, id, models.RegisterRun{Registration: g}), models.CodeRequestMalformed, "member", "id")
	}
	refused(t, w.Do(world.Rita, "registration", models.RegisterRun{Registration: g}), models.CodeRoleMissing, "role", "operator")
	w.Missing = []models.Digest{g.Task}
	refused(t, w.Do(world.Dana, "registration", models.RegisterRun{Registration: g}), models.CodeBlobMissing)
	w.Missing = nil
	w.State.Run = "not an id"
	refused(t, w.Do(world.Dana, "registration", models.RegisterRun{Registration: g}), models.CodeRequestMalformed, "member", "run")
	w.State.Run = world.Run
	for _, c := range []models.Command{models.ClaimRun{LeaseSeconds: 1}, models.Append{Facts: []models.Fact{world.Failed()}}, models.CancelRun{},
		models.ReleaseRun{}, models.Reconcile{}, models.RetryRun{}} {
		who := world.Worker
		if kernel.RoleFor(c) == models.RoleOperator {
			who = world.Dana
		}
		refused(t, w.Do(who, "x", c), models.CodeNotFound)
	}
	accepted(t, w.Do(world.Dana, "registration", models.RegisterRun{Registration: g}))
	refused(t, w.Do(world.Dana, "registration-2", models.RegisterRun{Registration: g}), models.CodeRunExists)
	if e := kernel.Queue(w.State); e == nil || e.Request != "" {
		t.Errorf("queue entry %+v", e) // FLOW-24, ordinary queueing
	}
	if w.State.OriginalActor != world.Dana || w.State.Rounds != 2 || w.State.Budget.Limits != g.Limits {
		t.Errorf("state %+v", w.State)
	}
	verify(t, w)
}

// A limit of 0 allows none of it (REC-07, OBS-23).
func TestEachAllowanceIsItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		limit func(*models.Limits)
		play  func(*world.World) world.Answer
	}{
		"requests":      {func(l *models.Limits) { l.Requests = 0 }, func(w *world.World) world.Answer { return w.Append(w.Asked()...) }},
		"input_tokens":  {func(l *models.Limits) { l.InputTokens = 0 }, func(w *world.World) world.Answer { return w.Append(w.Asked()...) }},
		"output_tokens": {func(l *models.Limits) { l.OutputTokens = 0 }, func(w *world.World) world.Answer { return w.Append(w.Asked()...) }},
		"total_tokens":  {func(l *models.Limits) { l.TotalTokens = 0 }, func(w *world.World) world.Answer { return w.Append(w.Asked()...) }},
		"tool_calls": {func(l *models.Limits) { l.ToolCalls = 0 }, func(w *world.World) world.Answer {
			w.MustAppend(w.Asked()...)
			w.MustAppend(w.Answered())
			w.MustAppend(w.Consumed(1))
			return w.Append(world.Granted(1, 0, models.ClassWrite))
		}},
		"source_reads": {func(l *models.Limits) { l.SourceReads = 0 }, func(w *world.World) world.Answer {
			w.MustAppend(w.Asked()...)
			w.MustAppend(w.Answered())
			w.MustAppend(w.Consumed(2))
			w.MustAppend(world.Granted(1, 0, models.ClassPureRead), world.Granted(1, 1, models.ClassSourceObservation), models.CallIntended{Request: 1})
			return w.Append(models.CallIntended{Request: 1, Position: 1})
		}},
		"commands": {func(l *models.Limits) { l.Commands = 0 }, func(w *world.World) world.Answer {
			return w.Append(models.CommandStarted{Command: world.Blob("c"), Number: 1, Position: -1})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := world.New(true)
			w.Register(func(g *models.Registration) { c.limit(&g.Limits) })
			w.MustClaim(world.Worker)
			a := c.play(w)
			refused(t, a, models.CodeAllowanceExhausted, "allowance", name, "limit", "0")
		})
	}
}

// B2: a fact that overruns is kept and counted, and closes the next intent.
func TestOverrunIsKeptAndClosesTheNextIntent(t *testing.T) {
	w := world.Executing()
	w.MustAppend(w.Asked()...)
	w.MustAppend(w.Answered())
	c := w.Consumed(0)
	c.Tokens = models.Tokens{Input: 1 << 62, Output: 1 << 62}
	w.MustAppend(c)
	if n := w.State.Budget.Spent; n.InputTokens < 1<<62 {
		t.Errorf("spent %+v", n)
	}
	refused(t, w.Append(w.Asked()...), models.CodeAllowanceExhausted, "allowance", "input_tokens")
	held(t, w.Candidate(world.Dana), models.CodeAllowanceExhausted)
}

func TestPrincipals(t *testing.T) {
	w := world.New(true)
	put := func(c models.PutPrincipal) world.Answer { return w.DoFactory(world.Root, w.NextID(), c) }
	refused(t, put(models.PutPrincipal{ID: "x", Replaces: 1}), models.CodeRevisionStale, "want", "0")
	refused(t, put(models.PutPrincipal{ID: world.Dana, Replaces: 0}), models.CodeRevisionStale, "want", "1")
	refused(t, put(models.PutPrincipal{ID: "a b"}), models.CodeRequestMalformed, "member", "id")
	refused(t, put(models.PutPrincipal{ID: models.ServerActor}), models.CodeRequestMalformed, "member", "id")
	refused(t, put(models.PutPrincipal{ID: "x", Roles: []string{"king"}}), models.CodeRequestMalformed, "member", "roles")
	refused(t, put(models.PutPrincipal{ID: "x", Roles: []string{models.RoleWorker, models.RoleOperator}}), models.CodeRequestMalformed, "member", "roles")
	refused(t, put(models.PutPrincipal{ID: "x", Roles: []string{models.RoleWorker, models.RoleWorker}}), models.CodeRequestMalformed, "member", "roles")
	refused(t, put(models.PutPrincipal{ID: world.Dana, Replaces: 1, Removed: true, Roles: []string{models.RoleReader}}), models.CodeRequestMalformed, "member", "removed")
	accepted(t, put(models.PutPrincipal{ID: world.Dana, Replaces: 1, Roles: []string{models.RoleOperator}}))
	// The last administrator stays.
	refused(t, put(models.PutPrincipal{ID: world.Root, Replaces: 1, Removed: true}), models.CodeRequestMalformed)
	refused(t, put(models.PutPrincipal{ID: world.Root, Replaces: 1, Roles: []string{models.RoleReader}}), models.CodeRequestMalformed)
	accepted(t, put(models.PutPrincipal{ID: world.Omar, Replaces: 1, Removed: true}))
	p, there := w.FactoryState.Principal(world.Omar)
	if there || p.Authority != 2 {
		t.Errorf("removed: %+v", p)
	}
	accepted(t, put(models.PutPrincipal{ID: world.Omar, Replaces: 2, Roles: []string{models.RoleOperator}}))
	if !w.FactoryState.Has(world.Omar, models.RoleOperator) {
		t.Error("not back")
	}
	verify(t, w)
}

func TestFactoryCommands(t *testing.T) {
	w := world.Empty()
	refused(t, w.DoFactory(world.Root, "p", models.PutPolicy{Policy: world.Enabled()}), models.CodeNotFound)
	w.FactoryState.Factory = "not an id"
	refused(t, w.DoFactory(world.Root, "create", models.CreateFactory{}), models.CodeRequestMalformed)
	w.FactoryState.Factory = world.Factory
	refused(t, w.DoFactory("a b", "create", models.CreateFactory{}), models.CodeRequestMalformed)
	accepted(t, w.DoFactory(world.Root, "create", models.CreateFactory{}))
	if a := w.DoFactory(world.Root, "create", models.CreateFactory{}); !a.Repeat {
		t.Errorf("repeat: %v", a.Refusal)
	}
	refused(t, w.DoFactory(world.Root, "create", models.CreateFactory{Fixture: true}), models.CodeRequestConflict)
	refused(t, w.DoFactory(world.Root, "create-2", models.CreateFactory{}), models.CodeRequestConflict)

	w = world.New(true)
	for _, c := range []models.PutRecord{{Kind: "weather", Name: "main", Digest: world.Plain("x")}, {Kind: models.RecordSource, Name: "a b", Digest: world.Plain("x")}, {Kind: models.RecordSource, Name: "main"}} {
		refused(t, w.DoFactory(world.Root, "x", c), models.CodeRequestMalformed)
	}
	w.Record(models.RecordSource, "again")
	if r, _ := w.FactoryState.Record(models.RecordSource, "main"); r.Revision != 2 || r.Digest != world.Plain("again") {
		t.Errorf("record %+v", r)
	}
	refused(t, w.DoFactory(world.Root, "x", models.RetireProfile{ID: "p9"}), models.CodeNotFound)
	accepted(t, w.DoFactory(world.Root, "x", models.RetireProfile{ID: "p1"}))
	refused(t, w.DoFactory(world.Root, "y", models.RetireProfile{ID: "p1"}), models.CodeNotFound)
	refused(t, w.DoFactory(world.Root, "y", models.RegisterProfile{Profile: w.Profile("p1")}), models.CodeRequestConflict)
	for name, change := range map[string]func(*models.Profile){
		"id": func(p *models.Profile) { p.ID = "" }, "module": func(p *models.Profile) { p.Module = models.Digest{} },
		"catalogue": func(p *models.Profile) { p.Catalogue = models.Digest{} }, "rules": func(p *models.Profile) { p.Rules = 0 },
		"build": func(p *models.Profile) { p.Build = "" }, "long build": func(p *models.Profile) { p.Build = strings.Repeat("b", 129) },
		"store": func(p *models.Profile) { p.Store = "" }, "major": func(p *models.Profile) { p.StoreMajor = 0 },
		"qualification": func(p *models.Profile) {
			p.Qualifications = []models.Qualification{{Name: "a b", Report: world.Plain("r")}}
		},
		"twice": func(p *models.Profile) {
			p.Qualifications = []models.Qualification{{Name: "sdk", Report: world.Plain("r")}, {Name: "sdk", Report: world.Plain("r")}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := w.Profile("p2")
			change(&p)
			refused(t, w.DoFactory(world.Root, "y", models.RegisterProfile{Profile: p}), models.CodeRequestMalformed)
		})
	}
	refused(t, w.DoFactory(world.Root, "y", models.ActivateRules{Rules: 1}), models.CodeRevisionStale, "want", "2")
	refused(t, w.DoFactory(world.Root, "y", models.ActivateRules{Rules: 2}), models.CodeRulesNewer, "rules", "2")
	verify(t, w)
}

// The bounds of a factory's own state.
func TestFactoryIsBounded(t *testing.T) {
	w := world.New(true)
	for i := len(w.FactoryState.Principals); i < 1000; i++ {
		w.FactoryState.Principals = append(w.FactoryState.Principals, models.Principal{ID: fmt.Sprintf("z%04d", i), Authority: 1})
	}
	refused(t, w.DoFactory(world.Root, "x", models.PutPrincipal{ID: "zz"}), models.CodeRequestMalformed, "limit", "1000")
	accepted(t, w.DoFactory(world.Root, "x", models.PutPrincipal{ID: world.Rita, Replaces: 1, Roles: []string{models.RoleReader}}))
	for i := len(w.FactoryState.Records); i < 1000; i++ {
		w.FactoryState.Records = append(w.FactoryState.Records, models.Record{Kind: "z", Name: fmt.Sprintf("z%04d", i)})
	}
	refused(t, w.DoFactory(world.Root, "y", models.PutRecord{Kind: models.RecordScope, Name: "zz", Digest: world.Plain("x")}), models.CodeRequestMalformed, "limit", "1000")
	accepted(t, w.DoFactory(world.Root, "y", models.PutRecord{Kind: models.RecordScope, Name: "main", Digest: world.Plain("x")}))
	for i := len(w.FactoryState.Profiles); i < 100; i++ {
		w.FactoryState.Profiles = append(w.FactoryState.Profiles, models.StoredProfile{Profile: models.Profile{ID: fmt.Sprintf("z%04d", i)}})
	}
	refused(t, w.DoFactory(world.Root, "z", models.RegisterProfile{Profile: w.Profile("zz")}), models.CodeRequestMalformed, "limit", "100")
	if !slices.IsSortedFunc(w.FactoryState.Principals, func(a, b models.Principal) int { return strings.Compare(a.ID, b.ID) }) {
		t.Error("principals are not sorted")
	}
}
