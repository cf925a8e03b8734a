package kernel_test

import (
	"testing"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/proptest/world"
)

// PREVIEW-01
func TestOneKindOfStopIsServed(t *testing.T) {
	w := world.Held()
	c := w.Candidate(world.Dana)
	if !c.Eligible || c.Proof.IsZero() || c.Version != 1 || len(c.Holds) > 0 {
		t.Fatalf("candidate of the held run: proof %v, version %d, holds %v", c.Proof, c.Version, c.Holds)
	}
	accepted(t, w.Do(world.Dana, "r", w.Request(600)))
	verify(t, w)

	other := world.Held(func(g *models.Registration) { g.Mode = "best-effort" })
	held(t, other.Candidate(world.Dana), models.CodeCheckpointModeUnsupported, "mode", "best-effort")
	check := unmoved(t, other)
	refused(t, other.Do(world.Dana, "r", other.Request(600)), models.CodeCheckpointModeUnsupported)
	check()
}

// PREVIEW-05
func TestAdmissionNeedsACurrentQualifiedProfile(t *testing.T) {
	for name, c := range map[string]struct {
		break_ func(*world.World)
		code   models.Code
	}{
		"none registered": {func(w *world.World) { w.FactoryState.Profiles = nil }, models.CodeProfileUnqualified},
		"retired":         {func(w *world.World) { w.MustFactory(world.Root, models.RetireProfile{ID: "p1"}) }, models.CodeProfileUnqualified},
		"no SDK report": {func(w *world.World) {
			w.MustFactory(world.Root, models.RetireProfile{ID: "p1"})
			p := w.Profile("p2")
			p.Fixture = false
			w.MustFactory(world.Root, models.RegisterProfile{Profile: p})
		}, models.CodeProfileUnqualified},
		"another module":    {func(w *world.World) { w.Host.Module = world.Plain("newer module") }, models.CodeProfileMismatch},
		"another catalogue": {func(w *world.World) { w.Host.Catalogue = world.Plain("newer catalogue") }, models.CodeProfileMismatch},
		"another build":     {func(w *world.World) { w.Host.Build = "test-2" }, models.CodeProfileMismatch},
		"another rules":     {func(w *world.World) { w.Host.Rules = 9 }, models.CodeProfileMismatch},
		"another store":     {func(w *world.World) { w.Host.Store = "postgres" }, models.CodeProfileMismatch},
		"another major":     {func(w *world.World) { w.Host.StoreMajor = 2 }, models.CodeProfileMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			w := world.Held()
			c.break_(w)
			check := unmoved(t, w)
			held(t, w.Candidate(world.Dana), c.code)
			refused(t, w.Do(world.Dana, "r", w.Request(600)), c.code)
			check()
		})
	}
	w := world.Held()
	p := w.Profile("p2")
	w.MustFactory(world.Root, models.RetireProfile{ID: "p1"})
	w.MustFactory(world.Root, models.RegisterProfile{Profile: p})
	accepted(t, w.Do(world.Dana, "r", w.Request(600)))
}

// PREVIEW-06
func TestRetainedWorkNeedsEveryQualification(t *testing.T) {
	whole := world.New(false).Profile("p1")
	for i, q := range whole.Qualifications {
		w := world.New(false)
		w.MustFactory(world.Root, models.RetireProfile{ID: "p1"})
		p := w.Profile("p2")
		p.Qualifications = append(append([]models.Qualification(nil), p.Qualifications[:i]...), p.Qualifications[i+1:]...)
		w.MustFactory(world.Root, models.RegisterProfile{Profile: p})
		w.Start()
		w.Stop()
		code, details := models.CodeQualificationMissing, []string{"qualification", q.Name}
		if q.Name == models.QualificationSDK {
			code, details = models.CodeProfileUnqualified, nil
		}
		check := unmoved(t, w)
		held(t, w.Candidate(world.Dana), code, details...)
		refused(t, w.Do(world.Dana, "r", w.Request(600)), code, details...)
		check()
	}
	w := world.New(false)
	w.Start()
	w.Stop()
	accepted(t, w.Do(world.Dana, "r", w.Request(600)))

	// A report without a digest is none, and a profile that lies about it never gets in.
	p := w.Profile("p3")
	p.Qualifications[0].Report = models.Digest{}
	refused(t, w.DoFactory(world.Root, "p3", models.RegisterProfile{Profile: p}), models.CodeRequestMalformed)
	p = w.Profile("p3")
	p.Fixture = true
	refused(t, w.DoFactory(world.Root, "p3", models.RegisterProfile{Profile: p}), models.CodeFixtureOnly)
}

// A profile that covers but lacks something does not hide another one that has everything.
func TestTheProfileThatHasEverythingIsTaken(t *testing.T) {
	w := world.New(false)
	w.MustFactory(world.Root, models.RetireProfile{ID: "p1"})
	p := w.Profile("a-incomplete")
	p.Qualifications = p.Qualifications[2:3] // the SDK alone
	w.MustFactory(world.Root, models.RegisterProfile{Profile: p})
	w.MustFactory(world.Root, models.RegisterProfile{Profile: w.Profile("b-whole")})
	w.Start()
	w.Stop()
	if got := w.Candidate(world.Dana).Profile; got != "b-whole" {
		t.Errorf("profile %q", got)
	}
}
