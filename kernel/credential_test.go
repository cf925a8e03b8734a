package kernel_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/proptest/world"
)

// found is a finding in the checkpoint of the turn that stands, and a world whose node screens and found it.
var found = models.Finding{Path: "/messages/0", Rule: "key"}

func screened(w *world.World, findings ...models.Finding) *world.World {
	w.Host.Screening = world.Plain("rule set")
	w.MustFactory(world.Root, models.RegisterProfile{Profile: w.Profile("screened")})
	w.Found = findings
	return w
}

func waiver(w *world.World) models.WaiveCredential {
	return models.WaiveCredential{Blob: w.State.Custody.Turn.Checkpoint, Path: found.Path, Rule: found.Rule, RuleSet: w.Host.Screening}
}

// A finding holds, a waiver of exactly it lets one admission pass, and the admission spends it. What the parser found is not told of a
// record that holds a credential. CRED-08, SDK-24; rules O52.
func TestAWaiverIsOfOneFindingAndOneAdmission(t *testing.T) {
	w := screened(world.Held(), found)
	w.Rebuild = func(w *world.World) *models.Reconstruction {
		r := w.ProofOne()
		r.Holds = []models.SandboxHold{{Code: models.CodeQueryValid}}
		return r
	}
	c := w.Candidate(world.Dana)
	tells(t, "with a finding", c.Holds, "credential_found; rule=key; path=/messages/0; count=1")
	w.Rebuild = (*world.World).ProofOne
	refused(t, w.Do(world.Dana, "r", w.Request(600)), models.CodeCredentialFound)
	for name, change := range map[string]func(*models.WaiveCredential){
		"another path": func(c *models.WaiveCredential) { c.Path = "/messages/1" },
		"another rule": func(c *models.WaiveCredential) { c.Rule = "token" },
		"another blob": func(c *models.WaiveCredential) { c.Blob = world.Blob("other") },
	} {
		body := waiver(w)
		change(&body)
		if a := w.Do(world.Root, "w", body); a.Code() != models.CodeNotFound {
			t.Errorf("%s: %v", name, a.Refusal)
		}
	}
	body := waiver(w)
	body.RuleSet = world.Plain("older")
	refused(t, w.Do(world.Root, "w", body), models.CodeDigestStale, "digest", "rule_set")
	refused(t, w.Do(world.Omar, "w", waiver(w)), models.CodeRoleMissing, "role", models.RoleAdministrator)
	accepted(t, w.Do(world.Root, "w", waiver(w)))
	refused(t, w.Do(world.Root, "w2", waiver(w)), models.CodeRequestConflict, "what", "already waived")

	two := w.Clone()
	two.Found = []models.Finding{found, {Path: "/messages/2", Rule: "key"}}
	tells(t, "a second finding", two.Candidate(world.Dana).Holds, "credential_found; path=/messages/2; count=1")
	older := w.Clone()
	older.Host.Screening = world.Plain("newer rule set")
	older.MustFactory(world.Root, models.RegisterProfile{Profile: older.Profile("newer")})
	tells(t, "another rule set", older.Candidate(world.Dana).Holds, "credential_found; count=1")
	elsewhere := models.Screening{Blob: world.Blob("other"), Found: []models.Finding{found}, RuleSet: w.Host.Screening}
	if waived, left := kernel.Waived(w.State, elsewhere); len(waived) != 0 || len(left) != 1 {
		t.Errorf("%v waived in another blob", waived)
	}
	for name, change := range map[string]func(*models.Screening){
		"of another blob":     func(s *models.Screening) { s.Blob = world.Blob("other") },
		"under another rules": func(s *models.Screening) { s.RuleSet = world.Plain("other") },
	} {
		env := w.Env(world.Dana, "candidate", models.RequestContinuity{})
		clean := models.Screening{Blob: env.Screening.Blob, RuleSet: env.Screening.RuleSet}
		change(&clean)
		env.Screening = &clean
		tells(t, "a screening "+name, kernel.Candidate(w.State, env).Holds, "sandbox_stopped; reason=not screened for credentials")
	}
	blind := w.Clone()
	blind.NotScreened = true
	tells(t, "not screened", blind.Candidate(world.Dana).Holds, "sandbox_stopped; reason=not screened for credentials")

	others := []models.Waiver{ // of another blob, of another finding, and one that was spent before
		{Blob: world.Blob("other"), Finding: found, RuleSet: w.Host.Screening}, {Blob: body.Blob, Finding: models.Finding{Path: "/x", Rule: "key"}, RuleSet: w.Host.Screening},
		{Blob: body.Blob, Finding: found, RuleSet: w.Host.Screening, SpentSeq: 3},
	}
	beside := w.Clone()
	beside.Trust = true
	beside.State.Waivers = append(slices.Clone(beside.State.Waivers), others...)
	accepted(t, beside.Do(world.Dana, "request-1", beside.Request(600)))
	if got := beside.State.Waivers; got[0].SpentSeq == 0 || !slices.Equal(got[1:], others) {
		t.Errorf("spent %+v", got)
	}

	a := w.Do(world.Dana, "request-1", w.Request(600))
	accepted(t, a)
	settled := a.Events[0].(models.MigrationSettled)
	if len(settled.Waived) != 1 || settled.Waived[0] != found || w.State.Waivers[0].SpentSeq != a.Rows[0].Seq {
		t.Errorf("waived %v, %+v", settled.Waived, w.State.Waivers)
	}
	if waived, left := kernel.Waived(w.State, models.Screening{Blob: settled.OldCheckpoint, Found: []models.Finding{found}, RuleSet: w.Host.Screening}); len(waived) != 0 || len(left) != 1 {
		t.Errorf("spent, and still %v waived", waived)
	}
	verify(t, w)
}

// Nobody may be at work on the run, and what is waived must be named and found. CRED-08 (K3).
func TestWhoMayNotBeWaived(t *testing.T) {
	try := func(w *world.World, change func(*models.WaiveCredential)) world.Answer {
		c := waiver(w)
		if c.Blob.IsZero() {
			c.Blob = world.Blob("b")
		}
		if change != nil {
			change(&c)
		}
		return w.Do(world.Root, "w", c)
	}
	opened := screened(world.New(true), found)
	refused(t, try(opened, nil), models.CodeNotFound, "run", world.Run)
	w := screened(world.Held(), found)
	for name, change := range map[string]func(*models.WaiveCredential){
		"no rule": func(c *models.WaiveCredential) { c.Rule = "" }, "no blob": func(c *models.WaiveCredential) { c.Blob = models.Digest{} },
	} {
		if a := try(w, change); a.Code() != models.CodeRequestMalformed {
			t.Errorf("%s: %v", name, a.Refusal)
		}
	}
	blind := w.Clone()
	blind.NotScreened = true
	refused(t, try(blind, nil), models.CodeReconstructionMissing)
	refused(t, try(screened(world.Executing(), found), nil), models.CodeClaimLive)
	cancelled := w.Clone()
	cancelled.Must(world.Omar, "cancel", models.CancelRun{})
	refused(t, try(cancelled, nil), models.CodeRunCancelled)
	refused(t, try(screened(world.FailedUnclaimed(), found), nil), models.CodeTicketOutstanding)
	full := w.Clone()
	full.Trust = true
	for i := range 64 {
		full.State.Waivers = append(full.State.Waivers, models.Waiver{Finding: models.Finding{Path: fmt.Sprint("/", i), Rule: "key"}, SpentSeq: 1})
	}
	refused(t, try(full, nil), models.CodeRequestMalformed, "member", "waivers", "limit", "64")
	full.State.Waivers = full.State.Waivers[:63]
	full.State.Head.Seq = models.MaxRows - 2
	refused(t, try(full, nil), models.CodeRunFull)
	full.State.Head.Seq--
	accepted(t, try(full, nil))
}

// Ordinary restore: each refusal by itself, in the table's order, and under no policy or profile. EPOCH-03, EPOCH-06, EPOCH-07,
// CRED-11, FLOW-22.
func TestRestoreRefusesEachForItself(t *testing.T) {
	absolute := func(g *models.Registration) {
		g.TimeBudget, g.ActiveDeadline = models.TimeBudgetAbsolute, world.Start.Add(3000)
	}
	standing := func(change ...func(*models.Registration)) *world.World {
		w := world.Executing(change...)
		w.MustAppend(models.CheckpointSaved{Checkpoint: world.Blob("saved")})
		return w
	}
	restore := func(w *world.World) *models.Refusal {
		return kernel.Restore(w.State, w.State.Custody.Checkpoint, kernel.RestoreFireflyAgentic, kernel.RestorePydanticAI, w.Env(world.Dana, "restore", models.ClaimRun{}))
	}
	want := func(what string, r *models.Refusal, code models.Code) {
		t.Helper()
		if code == "" && r != nil || code != "" && (r == nil || r.Code != code) {
			t.Errorf("%s: %v, want %q", what, r, code)
		}
	}
	w := standing()
	want("a checkpoint that stands", restore(w), "")
	w.Policy(func(p *models.Policy) { p.Enabled = false })
	w.MustFactory(world.Root, models.RetireProfile{ID: "p1"})
	want("without policy or profile", restore(w), "")
	want("not registered", kernel.Restore(kernel.State{}, world.Blob("c"), kernel.RestoreFireflyAgentic, kernel.RestorePydanticAI, models.Env{}), models.CodeNotFound)
	env := w.Env(world.Dana, "restore", models.ClaimRun{})
	want("another SDK", kernel.Restore(w.State, w.State.Custody.Checkpoint, kernel.RestoreFireflyAgentic, "2.55.1", env), models.CodeRestoreVersionMismatch)
	want("another agentic", kernel.Restore(w.State, w.State.Custody.Checkpoint, "26.10.2", kernel.RestorePydanticAI, env), models.CodeRestoreVersionMismatch)
	want("another checkpoint", kernel.Restore(w.State, world.Blob("other"), kernel.RestoreFireflyAgentic, kernel.RestorePydanticAI, env), models.CodeRestoreRefused)
	want("another checkpoint and another SDK", kernel.Restore(w.State, world.Blob("other"), kernel.RestoreFireflyAgentic, "2.55.1", env), models.CodeRestoreVersionMismatch)
	cancelled := standing()
	cancelled.Must(world.Omar, "cancel", models.CancelRun{})
	want("cancelled", restore(cancelled), models.CodeRunCancelled)
	failed := standing()
	failed.MustAppend(models.RunFailed{Report: world.Blob("r")})
	want("failed", restore(failed), models.CodeRunFinished)
	lunar := standing()
	lunar.State.Registration.TimeBudget = "lunar"
	want("a time budget that is not known", restore(lunar), models.CodeTimeBudgetUnsupported)
	late := standing(absolute)
	late.Now = late.State.Registration.ActiveDeadline - 1
	late.Lease = late.Now + 1
	want("before the deadline", restore(late), "")
	late.Now++
	late.Lease = late.Now + 1
	want("at the deadline", restore(late), models.CodeDeadlinePassed)
	open := standing()
	open.MustAppend(models.CommandStarted{Command: world.Blob("c"), Number: open.State.Budget.Spent.Commands + 1, Position: -1})
	want("executing with something unknown", restore(open), models.CodeRestoreRefused)
	if r := restore(open); r.Detail("what") != "the run is held" {
		t.Errorf("%v", r)
	}
	open.Now = open.Lease
	want("its claim has ended", restore(open), models.CodeRestoreRefused)
	if r := restore(open); r.Detail("what") != "its claim has ended" {
		t.Errorf("%v", r)
	}
	gone := standing()
	gone.Now = gone.Lease
	want("a claim that may be made again", restore(gone), "")
	queued := world.Queued()
	want("a ticket", restore(queued), models.CodeTicketOutstanding)
}
