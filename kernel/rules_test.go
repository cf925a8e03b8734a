package kernel_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/proptest/world"
)

// A run keeps the rules it was registered under until its factory activates newer ones; old rows are judged by their own,
// and a build that knows only the old ones refuses the new by name.
func TestNewerRules(t *testing.T) {
	w := world.Executing()
	three := func() []models.Fact {
		n := w.State.Budget.Spent.Commands + 1
		return []models.Fact{
			models.CommandStarted{Command: world.Blob("c"), Number: n, Position: -1}, models.CommandFinished{Number: n, Receipt: world.Blob("r")},
			models.RoundCompleted{Round: w.State.Rounds + 1},
		}
	}
	w.MustAppend(three()...)
	old, history := slices.Clone(w.Rows), w.History()

	restore := kernel.FakeRules(2)
	defer restore()
	if kernel.CurrentRules() != 2 {
		t.Fatal("rules 2 is not known")
	}
	// Known, and not yet in force: the factory's old rules still stand, for old rows and new ones.
	if _, r := kernel.Replay(slices.Values(old), history); r != nil {
		t.Fatal(r)
	}
	w.MustAppend(three()...)
	if last := w.Rows[len(w.Rows)-1]; last.Rules != 1 {
		t.Errorf("row of rules %d", last.Rules)
	}
	refused(t, w.DoFactory(world.Root, "x", models.ActivateRules{Rules: 1}), models.CodeRevisionStale)
	refused(t, w.DoFactory(world.Root, "x", models.ActivateRules{Rules: 3}), models.CodeRulesNewer)
	refused(t, w.DoFactory(world.Omar, "x", models.ActivateRules{Rules: 2}), models.CodeRoleMissing)
	a := w.MustFactory(world.Root, models.ActivateRules{Rules: 2})
	if a.Rows[0].Rules != 1 || w.FactoryState.Rules != 2 {
		t.Errorf("activated in a row of rules %d", a.Rows[0].Rules)
	}
	refused(t, w.DoFactory(world.Root, "y", models.ActivateRules{Rules: 1}), models.CodeRevisionStale)

	// In force: the stricter guard decides, and the rows say so.
	check := unmoved(t, w)
	refused(t, w.Append(three()...), models.CodeRequestMalformed, "limit", "2")
	check()
	w.MustAppend(three()[:2]...)
	first := slices.IndexFunc(w.Rows, func(r models.Row) bool { return r.Rules == 2 })
	if first != len(w.Rows)-2 || w.State.Rules != 2 {
		t.Errorf("row %d of %d is the first of rules 2; state %d", first+1, len(w.Rows), w.State.Rules)
	}
	w.Policy(func(p *models.Policy) { p.MaxTicketsPerRun = 9 })
	verify(t, w)

	// A row of the old rules after the activation, and one of the new before it, are no history.
	_, r := replay(w, reseal(w.Rows, first, func(r *models.Row) { r.Rules = 1 }))
	is(t, r, models.CodeJournalBroken)
	both := reseal(w.Rows, first-3, func(r *models.Row) { r.Rules = 2 })
	for i := first - 2; i < first; i++ {
		both = reseal(both, i, func(r *models.Row) { r.Rules = 2 })
	}
	_, r = replay(w, both)
	is(t, r, models.CodeJournalBroken, "seq", strconv.Itoa(first-2))

	// A build that knows rules 1 alone.
	restore()
	verified, refusal := kernel.ReplayFactory(slices.Values(w.FactoryRows))
	is(t, refusal, models.CodeRulesNewer, "rules", "2")
	s, refusal := kernel.Replay(slices.Values(w.Rows), verified)
	is(t, refusal, models.CodeRulesNewer, "rules", "2", "seq", strconv.Itoa(first+1))
	if s.Head.Seq != int64(first) {
		t.Errorf("folded up to %d", s.Head.Seq)
	}
	refused(t, w.Append(three()...), models.CodeRulesNewer, "rules", "2")
	refused(t, w.DoFactory(world.Root, "z", models.RetireProfile{ID: "p1"}), models.CodeRulesNewer)
	if _, r := kernel.Replay(slices.Values(old), history); r != nil {
		t.Errorf("old rows: %v", r)
	}
}
