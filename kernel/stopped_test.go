package kernel_test

import (
	"testing"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/proptest/world"
)

// waiting are worlds with a ticket that nobody has claimed yet, by how it came to wait.
var waiting = map[string]func() *world.World{
	"version 1": world.Queued,
	"version 2": func() *world.World {
		w := world.Observing(1)
		w.Must(world.Dana, "r", w.RequestTwo(600))
		return w
	},
	"refused boundary": func() *world.World {
		w := world.Refused()
		w.Must(world.Dana, "rec-b", w.Boundary(600))
		return w
	},
	"read-only observation": func() *world.World {
		w := world.Lost()
		w.Must(world.Dana, "rec-o", w.Observation(600))
		return w
	},
}

// A stop that a ticket met is not undone by putting the old value back, neither before its claim nor under it: it goes no
// further, and only a person settles it. BOUND-01, BOUND-03, BOUND-05, REFUSED-07 (a source changed and back; rules, invariant
// 16). It was possible to go on after switching the policy off and on again.
func TestStopIsNotUndone(t *testing.T) {
	policy := func(set func(*models.Policy, bool)) func(*world.World, bool) {
		return func(w *world.World, on bool) { w.Policy(func(p *models.Policy) { set(p, on) }) }
	}
	record := func(kind string) func(*world.World, bool) {
		return func(w *world.World, on bool) {
			w.Record(kind, map[bool]string{true: kind, false: "moved"}[on])
		}
	}
	both := []string{models.RoleAdministrator, models.RoleOperator}
	roles := func(without []string) func(*world.World, bool) {
		return func(w *world.World, on bool) {
			if on {
				w.Roles(world.Dana, both...)
				return
			}
			w.Roles(world.Dana, without...)
		}
	}
	for _, c := range []struct {
		name   string
		ticket string
		set    func(*world.World, bool)
		code   models.Code
	}{
		{"policy", "version 1", policy(func(p *models.Policy, on bool) { p.Enabled = on }), models.CodePolicyDisabled},
		{"observations", "version 2", policy(func(p *models.Policy, on bool) { p.AllowUnavailableSourceObservations = on }), models.CodeSettingOff},
		{"pre-admission", "refused boundary", policy(func(p *models.Policy, on bool) { p.AllowPreAdmissionRecovery = on }), models.CodeSettingOff},
		{"read-only", "read-only observation", policy(func(p *models.Policy, on bool) { p.AllowReadonlyObservationRecovery = on }), ""},
		{"operator", "version 1", roles([]string{models.RoleAdministrator}), models.CodeAuthorityRevoked},
		{"administrator", "read-only observation", roles([]string{models.RoleOperator}), models.CodeAuthorityRevoked},
		{"removed", "version 1", roles(nil), ""},
		{"source", "version 1", record(models.RecordSource), models.CodeSourceChanged},
		{"configuration", "version 1", record(models.RecordConfiguration), models.CodeConfigurationChanged},
		{"scope", "version 1", record(models.RecordScope), models.CodeScopeChanged},
		{"source of a refused boundary", "refused boundary", record(models.RecordSource), models.CodeSourceChanged},
	} {
		for _, between := range []models.Seconds{1, 0} { // also where a stop has the very time of the grant
			w := waiting[c.ticket]()
			stopped := func(w *world.World, try func() world.Answer) {
				t.Helper()
				w.Tick(between)
				c.set(w, false)
				w.Tick(between)
				first := try()
				if first.Refusal == nil {
					t.Fatalf("%s, %d s between: went on after the stop", c.name, between)
				}
				if c.code != "" {
					refused(t, first, c.code)
				}
				c.set(w, true)
				w.Tick(between)
				check := unmoved(t, w)
				if again := try(); again.Refusal == nil || c.code != "" && again.Refusal.Code != c.code {
					t.Fatalf("%s, %d s between: after putting it back: %v", c.name, between, again.Refusal)
				}
				check()
			}
			before := w.Clone()
			stopped(before, func() world.Answer { return before.Claim(world.Worker2) })
			w.MustClaim(world.Worker2)
			facts := w.Asked()
			accepted(t, w.Clone().Append(facts...))
			stopped(w, func() world.Answer { return w.Append(facts...) })
		}
	}
}

// A change of the source between the claim and the recovery of a refused request holds it, also after it was put back: what
// lies between checkpoint and refusal cannot be told any more. REFUSED-07 (a source changed and back), BOUND-03.
func TestSourceChangedAndBackHoldsTheRefusedBoundary(t *testing.T) {
	w := world.Continuing()
	w.Tick(1)
	w.Record(models.RecordSource, "moved")
	w.Record(models.RecordSource, models.RecordSource)
	refused(t, w.Append(w.Asked()...), models.CodeSourceChanged) // the worker that meets it records no refusal

	w = world.Refused()
	w.Record(models.RecordSource, "moved")
	w.Record(models.RecordSource, models.RecordSource)
	heldBoundary(t, w, nil, models.CodeLaterActivity, "record", "main")
}

// An owner that lost the right to work has lost its claim, also where the role was given back: it writes nothing under it, and
// another claim is made once the lease is over. A removed worker could go on after it was put back.
func TestALostOwnerStaysLost(t *testing.T) {
	for name, c := range map[string]struct {
		roles   []string
		between models.Seconds
	}{"removed": {nil, 1}, "another role": {[]string{models.RoleReader}, 1}, "at the time of the claim": {nil, 0}} {
		t.Run(name, func(t *testing.T) {
			w := world.Executing()
			w.Tick(c.between)
			w.Roles(world.Worker, c.roles...)
			w.Tick(c.between)
			w.Roles(world.Worker, models.RoleWorker)
			w.Tick(c.between)
			refused(t, w.Append(w.Asked()...), models.CodeFenceLost, "what", "its owner lost the right to work since it claimed")
			refused(t, w.Do(world.Worker, "release", models.ReleaseRun{Fence: w.State.Lease.Fence}), models.CodeFenceLost)
			if _, r := kernel.Renew(w.State, w.State.Lease.Fence, 60, w.Env(world.Worker, "renew", models.Append{})); r == nil || r.Code != models.CodeFenceLost {
				t.Errorf("renewed: %v", r)
			}
			w.Now = w.Lease
			refused(t, w.Append(w.Asked()...), models.CodeFenceLost)
			accepted(t, w.Claim(world.Worker))
			accepted(t, w.Append(w.Asked()...)) // the right that was given back counts for the new claim
			verify(t, w)
		})
	}
	// A role that was taken away and given back before the claim is no matter, and neither is that of another worker.
	w := world.New(true)
	w.Register()
	w.Roles(world.Worker)
	w.Tick(1)
	w.Roles(world.Worker, models.RoleWorker)
	w.Tick(1)
	w.MustClaim(world.Worker)
	w.Tick(1)
	w.Roles(world.Worker2)
	accepted(t, w.Append(w.Asked()...))
}

// What stopped and was put back before the grant is no matter to it, though all of it has one time: the order of rows counts, not
// their times. The same of a worker's role and its claim.
func TestAStopBeforeTheGrantIsNoStop(t *testing.T) {
	w := world.Held()
	w.Policy(func(p *models.Policy) {
		p.Enabled, p.AllowUnavailableSourceObservations, p.MaxValidForSeconds = false, false, 60
	})
	w.Policy(func(p *models.Policy) {
		p.Enabled, p.AllowUnavailableSourceObservations, p.MaxValidForSeconds = true, true, 3600
	})
	for _, kind := range []string{models.RecordSource, models.RecordConfiguration, models.RecordScope} {
		w.Record(kind, "moved")
		w.Record(kind, kind)
	}
	w.Roles(world.Dana, models.RoleReader)
	w.Roles(world.Dana, models.RoleAdministrator, models.RoleOperator)
	w.Roles(world.Worker2)
	w.Roles(world.Worker2, models.RoleWorker)
	now := w.Now
	w.Must(world.Dana, "request-1", w.Request(600))
	accepted(t, w.Claim(world.Worker2))
	accepted(t, w.Append(w.Asked()...))
	if w.Now != now || w.State.HeadAt != now || w.FactoryState.HeadAt != now {
		t.Error("the time went on: this shows nothing")
	}
	verify(t, w)
}

// A new revision of the policy stops a ticket of version 1 or 2 only if it disables or narrows what the ticket relies on: its
// window too, at the claim and under it, also where the window was made wider again (rules O46).
func TestNarrowedPolicy(t *testing.T) {
	between := models.Seconds(1)
	window := func(w *world.World, seconds models.Seconds) {
		w.Tick(between)
		w.Policy(func(p *models.Policy) { p.MaxValidForSeconds = seconds })
		w.Tick(between)
	}
	for name, c := range map[string]struct {
		windows []models.Seconds
		code    models.Code
	}{
		"narrower than the lease": {[]models.Seconds{599}, models.CodeWindowInvalid},
		"as wide as the lease":    {[]models.Seconds{600}, ""},
		"wider":                   {[]models.Seconds{7200}, ""},
		"narrowed and widened":    {[]models.Seconds{599, 7200}, models.CodeWindowInvalid},
		"narrowed, then less so":  {[]models.Seconds{60, 7200, 700}, models.CodeWindowInvalid},
		"narrowed twice":          {[]models.Seconds{700, 7200, 60}, models.CodeWindowInvalid},
		"never below it":          {[]models.Seconds{700, 7200, 650}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, claimed := range []bool{false, true} {
				w := world.Held()
				window(w, 30) // before the grant, which is no matter
				window(w, 7200)
				accepted(t, w.Do(world.Dana, "r", w.Request(600)))
				if claimed {
					w.MustClaim(world.Worker2)
				}
				for _, seconds := range c.windows {
					window(w, seconds)
				}
				answer := w.Claim(world.Worker2)
				if claimed {
					answer = w.Append(models.CheckpointSaved{Checkpoint: w.State.Custody.Checkpoint})
				}
				if claimed {
					// The model said once that a stranger is told of the window.
					lost := models.Append{Fence: w.State.Lease.Fence + 1, Facts: []models.Fact{models.CheckpointSaved{Checkpoint: w.State.Custody.Checkpoint}}}
					refused(t, w.Do(world.Worker2, "stale", lost), models.CodeFenceLost)
				}
				if c.code == "" {
					accepted(t, answer)
				} else {
					refused(t, answer, c.code, "got", "600")
				}
				verify(t, w)
			}
		})
	}
	w := world.Held()
	accepted(t, w.Do(world.Dana, "r", w.Request(600)))
	window(w, 60)
	w.Policy(func(p *models.Policy) { p.Enabled = false })
	refused(t, w.Claim(world.Worker2), models.CodePolicyDisabled) // BOUND-01, whatever else it was

	between = 0 // at the very time of the grant
	w = world.Held()
	accepted(t, w.Do(world.Dana, "r", w.Request(600)))
	window(w, 60)
	window(w, 3600)
	refused(t, w.Claim(world.Worker2), models.CodeWindowInvalid, "got", "600")
}

// A run that is full is still ended by a person: the last rows of a journal are a cancellation's, and the journal is never
// longer than its bound.
func TestAFullRunIsCancelled(t *testing.T) {
	w := world.Executing()
	w.Trust = true
	w.State.Head.Seq = models.MaxRows - 2
	refused(t, w.Append(models.CheckpointSaved{Checkpoint: w.State.Custody.Checkpoint}), models.CodeRunFull)
	w.Now = w.Lease
	refused(t, w.Claim(world.Worker2), models.CodeRunFull)
	accepted(t, w.Do(world.Dana, "cancel", models.CancelRun{}))
	if w.State.Head.Seq != models.MaxRows || w.State.End != kernel.EndCancelled {
		t.Errorf("row %d, end %q", w.State.Head.Seq, w.State.End)
	}
}

// A registration names the revision of each record that stands beside its digest.
func TestRegistrationNamesTheRevision(t *testing.T) {
	for _, c := range []struct {
		code   models.Code
		frozen func(*models.Registration) *models.Frozen
	}{
		{models.CodeSourceChanged, func(g *models.Registration) *models.Frozen { return &g.Source }},
		{models.CodeConfigurationChanged, func(g *models.Registration) *models.Frozen { return &g.Configuration }},
		{models.CodeScopeChanged, func(g *models.Registration) *models.Frozen { return &g.Scope }},
	} {
		w := world.New(true)
		g := w.Registration()
		c.frozen(&g).Revision++
		refused(t, w.Do(world.Dana, "registration", models.RegisterRun{Registration: g}), c.code)
		c.frozen(&g).Revision = 0
		refused(t, w.Do(world.Dana, "registration", models.RegisterRun{Registration: g}), c.code, "got", "0")
	}
	// Later a newer revision with the same content is no change.
	w := world.New(true)
	w.Register()
	w.Record(models.RecordSource, "source")
	accepted(t, w.Claim(world.Worker))
	accepted(t, w.Append(w.Asked()...))
}

// A ticket that is settled before its first request leaves nothing to go on from: only a cancellation is taken.
func TestTicketSettledBeforeItsFirstRequest(t *testing.T) {
	w := world.Continuing()
	w.Now = w.State.Lease.ExpiresAt
	w.Must(world.Omar, "settle", w.SettleTicket())
	refused(t, w.Claim(world.Worker2), models.CodeRunHeld)
	if c := w.Candidate(world.Dana); c.Eligible {
		t.Error("eligible again")
	}
	refused(t, w.Do(world.Dana, "again", w.Request(600)), models.CodeGraphHasTicket)
	refused(t, w.Do(world.Dana, "retry", models.RetryRun{}), models.CodeRunNotFailed)
	if kernel.Queue(w.State) != nil {
		t.Error("announced")
	}
	accepted(t, w.Do(world.Dana, "cancel", models.CancelRun{}))
	verify(t, w)
}

// What is off or changed now is told as it stands, with the record, setting or revision, before what moved since the grant.
func TestAStopIsToldAsItStands(t *testing.T) {
	for name, c := range map[string]struct {
		ticket string
		stop   func(*world.World)
		code   models.Code
		detail string
	}{
		"policy": {"version 1", func(w *world.World) { w.Policy(func(p *models.Policy) { p.Enabled = false }) }, models.CodePolicyDisabled, "revision"},
		"observations": {"version 2", func(w *world.World) {
			w.Policy(func(p *models.Policy) { p.AllowUnavailableSourceObservations = false })
		}, models.CodeSettingOff, "setting"},
		"pre-admission": {"refused boundary", func(w *world.World) { w.Policy(func(p *models.Policy) { p.AllowPreAdmissionRecovery = false }) }, models.CodeSettingOff, "setting"},
		"source":        {"version 1", func(w *world.World) { w.Record(models.RecordSource, "moved") }, models.CodeSourceChanged, "record"},
		"administrator": {"read-only observation", func(w *world.World) { w.Roles(world.Dana, models.RoleOperator) }, models.CodeAuthorityRevoked, "actor"},
	} {
		w := waiting[c.ticket]()
		c.stop(w)
		if r := w.Claim(world.Worker2).Refusal; r == nil || r.Code != c.code || r.Detail(c.detail) == "" {
			t.Errorf("%s: %v, want %s with %s", name, r, c.code, c.detail)
		}
	}
}
