package profile_test

import (
	"slices"
	"testing"

	"github.com/forge-continuity/forge/kernel/profile"
	"github.com/forge-continuity/forge/models"
	"pgregory.net/rapid"
)

var module = []models.Digest{models.PlainDigest([]byte("m1")), models.PlainDigest([]byte("m2"))}

// profiles chooses among profiles of every kind, beside a search written out.
func profiles(t *rapid.T) {
	f := models.Factory{Factory: "f", Fixture: rapid.Bool().Draw(t, "fixture factory")}
	h := models.Host{Build: "b", Catalogue: module[0], Module: module[0], Rules: 1, Store: "sqlite", StoreMajor: 3}
	names := []string{"controller", "postgres", "sdk", "store-sqlite"}
	t.Repeat(map[string]func(*rapid.T){
		"register": func(t *rapid.T) {
			p := models.Profile{Build: "b", Catalogue: module[0], Module: module[0], Rules: 1, Store: "sqlite", StoreMajor: 3,
				ID: rapid.SampledFrom([]string{"a", "b", "c", "d", ""}).Draw(t, "id"), Fixture: rapid.Bool().Draw(t, "fixture")}
			switch rapid.IntRange(0, 12).Draw(t, "differs in") {
			case 0:
				p.Module = module[1]
			case 1:
				p.Catalogue = module[1]
			case 2:
				p.Rules = 2
			case 3:
				p.Build = "c"
			case 4:
				p.Store = "postgres"
			case 5:
				p.StoreMajor = 4
			}
			for _, n := range names {
				if rapid.IntRange(0, 4).Draw(t, n) > 0 {
					p.Qualifications = append(p.Qualifications, models.Qualification{Name: n, Report: module[0]})
				}
			}
			used := slices.ContainsFunc(f.Profiles, func(s models.StoredProfile) bool { return s.Profile.ID == p.ID })
			want := models.Code("")
			switch {
			case p.ID == "":
				want = models.CodeRequestMalformed
			case used:
				want = models.CodeRequestConflict
			case p.Fixture && !f.Fixture:
				want = models.CodeFixtureOnly
			}
			r := profile.Refuse(f, p)
			if r == nil && want != "" || r != nil && r.Code != want {
				t.Fatalf("%+v: %v, want %q", p, r, want)
			}
			if r == nil {
				f.Profiles = append(f.Profiles, models.StoredProfile{Digest: profile.Digest("f", p), Profile: p})
			}
		},
		"retire": func(t *rapid.T) {
			if len(f.Profiles) == 0 {
				return // none; a skip would fail a fuzzer that draws only this
			}
			f.Profiles[rapid.IntRange(0, len(f.Profiles)-1).Draw(t, "which")].Retired = true
		},
		"": func(t *rapid.T) {
			chosen, r := profile.Select(f, h)
			var current, covering, whole []string
			for _, s := range f.Profiles {
				p := s.Profile
				has := func(name string) bool {
					return slices.ContainsFunc(p.Qualifications, func(q models.Qualification) bool { return q.Name == name })
				}
				if s.Retired || p.Fixture && !f.Fixture || !p.Fixture && !has("sdk") {
					still(t, f, p, h, models.CodeProfileUnqualified)
					continue
				}
				current = append(current, p.ID)
				if p.Module != h.Module || p.Catalogue != h.Catalogue || p.Rules != h.Rules || p.Build != h.Build || p.Store != h.Store || p.StoreMajor != h.StoreMajor {
					still(t, f, p, h, models.CodeProfileMismatch)
					continue
				}
				still(t, f, p, h, "")
				covering = append(covering, p.ID)
				if f.Fixture || has("postgres") && has("controller") && has("store-sqlite") {
					whole = append(whole, p.ID)
				}
			}
			want := models.Code("")
			switch {
			case len(current) == 0:
				want = models.CodeProfileUnqualified
			case len(covering) == 0:
				want = models.CodeProfileMismatch
			case len(whole) == 0:
				want = models.CodeQualificationMissing
			}
			switch {
			case want == "" && (r != nil || chosen.Profile.ID != whole[0]):
				t.Fatalf("F1: %+v, %v, want %s", chosen, r, whole[0])
			case want != "" && (r == nil || r.Code != want):
				t.Fatalf("F1, F2: %v, want %s", r, want)
			}
		},
	})
}

// still checks what a ticket of that profile would be told.
func still(t *rapid.T, f models.Factory, p models.Profile, h models.Host, want models.Code) {
	r := profile.Still(f, p.ID, h)
	if r == nil && want != "" || r != nil && r.Code != want {
		t.Fatalf("ticket of %s: %v, want %q", p.ID, r, want)
	}
}

func TestProfiles(t *testing.T) { rapid.Check(t, profiles) }
func FuzzProfiles(f *testing.F) { f.Fuzz(rapid.MakeFuzz(profiles)) }

func TestTicketOfNoProfile(t *testing.T) {
	if r := profile.Still(models.Factory{}, "p", models.Host{}); r == nil || r.Code != models.CodeProfileUnqualified {
		t.Error(r)
	}
}

// A profile covers exactly the composition that it was qualified with, each part of it, and a qualification has a report. F1, F2.
func TestEachPartOfAComposition(t *testing.T) {
	h := models.Host{Build: "b", Catalogue: module[0], Module: module[0], Rules: 1, Screening: module[0], Store: "sqlite", StoreMajor: 3}
	p := models.Profile{Build: "b", Catalogue: module[0], Module: module[0], Rules: 1, Screening: module[0], Store: "sqlite", StoreMajor: 3}
	if !profile.Covers(p, h) {
		t.Fatal("not covered")
	}
	for name, change := range map[string]func(*models.Host){
		"build": func(h *models.Host) { h.Build = "c" }, "catalogue": func(h *models.Host) { h.Catalogue = module[1] },
		"module": func(h *models.Host) { h.Module = module[1] }, "rules": func(h *models.Host) { h.Rules = 2 },
		"screening": func(h *models.Host) { h.Screening = module[1] }, "no screening": func(h *models.Host) { h.Screening = models.Digest{} },
		"store": func(h *models.Host) { h.Store = "postgres" }, "major": func(h *models.Host) { h.StoreMajor = 4 },
	} {
		other := h
		change(&other)
		if profile.Covers(p, other) {
			t.Errorf("another %s is covered", name)
		}
	}
	for _, name := range []string{models.QualificationController, models.QualificationPostgres, models.QualificationStore + "sqlite"} {
		q := p
		for _, n := range []string{models.QualificationController, models.QualificationPostgres, models.QualificationStore + "sqlite"} {
			report := module[0]
			if n == name {
				report = models.Digest{}
			}
			q.Qualifications = append(q.Qualifications, models.Qualification{Name: n, Report: report})
		}
		if got := profile.Missing(models.Factory{}, q, h); got != name {
			t.Errorf("%s without a report: missing is %q", name, got)
		}
	}
}
