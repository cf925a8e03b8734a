package kernel_test

import (
	"testing"

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
		t.Run(c.name, func(t *testing.T) {
			w := waiting[c.ticket]()
			stopped := func(w *world.World, try func() world.Answer) {
				t.Helper()
				w.Tick(1)
				c.set(w, false)
				w.Tick(1)
				first := try()
				if first.Refusal == nil {
					t.Fatal("went on after the stop")
				}
				if c.code != "" {
					refused(t, first, c.code)
				}
				c.set(w, true)
				w.Tick(1)
				check := unmoved(t, w)
				if again := try(); again.Refusal == nil || c.code != "" && again.Refusal.Code != c.code {
					t.Fatalf("after putting it back: %v", again.Refusal)
				}
				check()
			}
			before := w.Clone()
			stopped(before, func() world.Answer { return before.Claim(world.Worker2) })
			w.MustClaim(world.Worker2)
			facts := w.Asked()
			accepted(t, w.Clone().Append(facts...))
			stopped(w, func() world.Answer { return w.Append(facts...) })
		})
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
