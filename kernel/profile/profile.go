// Package profile says whether a registered profile covers the migration code that is installed.
//
// Invariants:
//
//	F1. Nothing is admitted without a registered, current, qualified profile that covers module, catalogue, rules, build and
//	    store of the node that admits (PREVIEW-05, rules O2).
//	F2. A fixture profile counts in fixture factories only; retained work needs the postgres and controller qualifications
//	    and that of the store in use (PREVIEW-06, rules O1).
package profile

import (
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// Digest names a profile document in a factory.
func Digest(factory string, p models.Profile) models.Digest {
	return models.Tagged(models.TagProfile, []byte(factory), canon.MustMarshal(p))
}

// Covers reports whether p was qualified with exactly this composition.
func Covers(p models.Profile, h models.Host) bool {
	return p.Module == h.Module && p.Catalogue == h.Catalogue && p.Rules == h.Rules && p.Build == h.Build &&
		p.Store == h.Store && p.StoreMajor == h.StoreMajor && p.Screening == h.Screening
}

// Select returns the current profile that covers the host, in order of id. The refusal is profile_unqualified where none
// is registered, current and qualified against an SDK; profile_mismatch where none of those covers the host; and
// qualification_missing, naming the first, where the one that does lacks one.
func Select(f models.Factory, h models.Host) (models.StoredProfile, *models.Refusal) {
	var current, covering []models.StoredProfile
	for _, s := range f.Profiles {
		if !s.Retired && qualified(f, s.Profile) {
			current = append(current, s)
			if Covers(s.Profile, h) {
				covering = append(covering, s)
			}
		}
	}
	switch {
	case len(current) == 0:
		return models.StoredProfile{}, models.Refuse(models.CodeProfileUnqualified)
	case len(covering) == 0:
		return models.StoredProfile{}, models.Refuse(models.CodeProfileMismatch, models.D("module", h.Module), models.D("catalogue", h.Catalogue))
	}
	missing := ""
	for _, s := range covering {
		if missing = Missing(f, s.Profile, h); missing == "" {
			return s, nil
		}
	}
	return models.StoredProfile{}, models.Refuse(models.CodeQualificationMissing, models.D("qualification", missing))
}

// Still refuses a ticket whose own profile has ended or does not cover this node: profile_mismatch leaves the ticket to
// another node.
func Still(f models.Factory, id string, h models.Host) *models.Refusal {
	for _, s := range f.Profiles {
		if s.Profile.ID != id {
			continue
		}
		switch {
		case s.Retired || !qualified(f, s.Profile):
			return models.Refuse(models.CodeProfileUnqualified, models.D("profile", id))
		case !Covers(s.Profile, h):
			return models.Refuse(models.CodeProfileMismatch, models.D("profile", id))
		}
		return nil
	}
	return models.Refuse(models.CodeProfileUnqualified, models.D("profile", id))
}

func qualified(f models.Factory, p models.Profile) bool {
	if p.Fixture {
		return f.Fixture
	}
	return has(p, models.QualificationSDK)
}

// Missing names the first qualification that p lacks for work in f on h, or "".
func Missing(f models.Factory, p models.Profile, h models.Host) string {
	if f.Fixture {
		return ""
	}
	for _, name := range []string{models.QualificationPostgres, models.QualificationController, models.QualificationStore + h.Store} {
		if !has(p, name) {
			return name
		}
	}
	return ""
}

func has(p models.Profile, name string) bool {
	for _, q := range p.Qualifications {
		if q.Name == name && !q.Report.IsZero() {
			return true
		}
	}
	return false
}

// Refuse checks a profile that an administrator wants to register.
func Refuse(f models.Factory, p models.Profile) *models.Refusal {
	switch {
	case !models.ValidID(p.ID) || p.Module.IsZero() || p.Catalogue.IsZero() || p.Rules < 1 || p.Build == "" || len(p.Build) > 128 || !models.ValidID(p.Store) || p.StoreMajor < 1:
		return models.Refuse(models.CodeRequestMalformed, models.D("member", "profile"))
	}
	for i, q := range p.Qualifications {
		if !models.ValidID(q.Name) || q.Report.IsZero() || i > 0 && p.Qualifications[i-1].Name >= q.Name {
			return models.Refuse(models.CodeRequestMalformed, models.D("member", "qualifications"), models.D("what", "sorted by name, each with a report"))
		}
	}
	for _, s := range f.Profiles {
		if s.Profile.ID == p.ID {
			return models.Refuse(models.CodeRequestConflict, models.D("profile", p.ID))
		}
	}
	if p.Fixture && !f.Fixture {
		return models.Refuse(models.CodeFixtureOnly)
	}
	return nil
}
