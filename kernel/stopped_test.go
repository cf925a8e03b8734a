package kernel_test

import (
	"testing"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/proptest/world"
)

// A stop that a claimed ticket met is not undone by putting the old value back: the claim goes no further, and only a person
// settles it. BOUND-01, BOUND-03, BOUND-05 (rules, invariant 16). It was possible to go on after switching the policy off and
// on again.
func TestStopIsNotUndone(t *testing.T) {
	for name, c := range map[string]struct {
		off, on func(*world.World)
		code    models.Code
	}{
		"policy": {
			func(w *world.World) { w.Policy(func(p *models.Policy) { p.Enabled = false }) },
			func(w *world.World) { w.Policy(func(p *models.Policy) { p.Enabled = true }) },
			models.CodePolicyDisabled,
		},
		"actor": {
			func(w *world.World) { w.Roles(world.Dana, models.RoleReader) },
			func(w *world.World) { w.Roles(world.Dana, models.RoleAdministrator, models.RoleOperator) },
			models.CodeAuthorityRevoked,
		},
		"source": {
			func(w *world.World) { w.Record(models.RecordSource, "moved") },
			func(w *world.World) { w.Record(models.RecordSource, "source") },
			models.CodeSourceChanged,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := world.Held()
			accepted(t, w.Do(world.Dana, "r", w.Request(600)))
			w.MustClaim(world.Worker2)
			append := func() world.Answer { return w.Append(models.CheckpointSaved{Checkpoint: w.State.Custody.Checkpoint}) }
			accepted(t, append())
			w.Tick(1)
			c.off(w)
			w.Tick(1)
			refused(t, append(), c.code)
			c.on(w)
			w.Tick(1)
			refused(t, append(), c.code)
		})
	}
}
