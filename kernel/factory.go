package kernel

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/forge-continuity/forge/kernel/policy"
	"github.com/forge-continuity/forge/kernel/profile"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// Bounds of a factory's own state, which every command reads: more than any known installation, small enough to fold.
const (
	maxPrincipals = 1000
	maxRecords    = 1000
	maxProfiles   = 100
)

// DecideFactory answers a command of a factory's own journal; env.Factory is its state before.
func DecideFactory(id string, c models.Command, env models.Env) ([]models.Event, *models.Refusal) {
	f := env.Factory
	if c, ok := c.(models.CreateFactory); ok {
		return createFactory(c, env)
	}
	if !f.Created {
		return nil, models.Refuse(models.CodeNotFound, models.D("factory", f.Factory))
	}
	if r := admit(f.Rules, id, c, env); r != nil || env.Saved == models.SavedSame {
		return nil, r
	}
	if r := behind(env.At, f.HeadAt); r != nil {
		return nil, r
	}
	if f.Seq >= models.MaxRows {
		return nil, models.Refuse(models.CodeRunFull, models.D("limit", int64(models.MaxRows)))
	}
	switch c := c.(type) {
	case models.PutPolicy:
		if r := policy.Refuse(f.Policy, c.Policy, c.Replaces); r != nil {
			return nil, r
		}
		next := c.Policy
		next.Revision = f.Policy.Revision + 1
		return []models.Event{models.PolicyPut{Digest: policy.Digest(f.Factory, next), Policy: next}}, nil
	case models.RegisterProfile:
		if r := profile.Refuse(f, c.Profile); r != nil {
			return nil, r
		}
		if len(f.Profiles) >= maxProfiles {
			return nil, full("profiles", maxProfiles)
		}
		return []models.Event{models.ProfileRegistered{Digest: profile.Digest(f.Factory, c.Profile), Profile: c.Profile}}, nil
	case models.RetireProfile:
		for _, s := range f.Profiles {
			if s.Profile.ID == c.ID && !s.Retired {
				return []models.Event{models.ProfileRetired(c)}, nil
			}
		}
		return nil, models.Refuse(models.CodeNotFound, models.D("profile", c.ID))
	case models.PutPrincipal:
		return putPrincipal(f, c, env)
	case models.PutRecord:
		return putRecord(f, c)
	case models.ActivateRules:
		if c.Rules <= f.Rules {
			return nil, models.Refuse(models.CodeRevisionStale, models.D("got", c.Rules), models.D("want", f.Rules+1))
		}
		if !knows(c.Rules) {
			return nil, models.Refuse(models.CodeRulesNewer, models.D("rules", c.Rules))
		}
		return []models.Event{models.RulesActivated(c)}, nil
	case models.CreateFactory, models.RegisterRun, models.ClaimRun, models.Append, models.RequestContinuity, models.CancelRun,
		models.ReleaseRun, models.Reconcile, models.RetryRun, models.AnnotateStartup, models.RecoverNeverClaimed,
		models.RecoverRefusedBoundary, models.RecoverReadonlyObservation, models.WaiveCredential, models.AdmitVerification:
	}
	panic(fmt.Sprintf("kernel.DecideFactory: command %T", c))
}

func full(what string, limit int) *models.Refusal {
	return models.Refuse(models.CodeRequestMalformed, models.D("member", what), models.D("limit", limit))
}

// createFactory opens the journal. The caller becomes its administrator, which nobody could grant before.
func createFactory(c models.CreateFactory, env models.Env) ([]models.Event, *models.Refusal) {
	f := env.Factory
	switch {
	case env.Saved == models.SavedSame:
		return nil, nil
	case f.Created || env.Saved == models.SavedOther:
		return nil, models.Refuse(models.CodeRequestConflict, models.D("factory", f.Factory))
	case !models.ValidID(f.Factory) || !models.ValidID(env.Actor):
		return nil, models.Refuse(models.CodeRequestMalformed, models.D("member", "factory"))
	}
	p := models.DefaultPolicy()
	return []models.Event{
		models.FactoryCreated(c),
		models.PrincipalPut{Principal: models.Principal{Authority: 1, ID: env.Actor, Roles: []string{models.RoleAdministrator}}},
		models.PolicyPut{Digest: policy.Digest(f.Factory, p), Policy: p},
	}, nil
}

// putPrincipal sets roles. The last administrator can neither leave nor be removed: nobody could come back.
func putPrincipal(f models.Factory, c models.PutPrincipal, env models.Env) ([]models.Event, *models.Refusal) {
	current, _ := f.Principal(c.ID)
	for i, role := range c.Roles {
		switch role {
		case models.RoleAdministrator, models.RoleOperator, models.RoleReader, models.RoleWorker:
		default:
			return nil, models.Refuse(models.CodeRequestMalformed, models.D("member", "roles"))
		}
		if i > 0 && c.Roles[i-1] >= role {
			return nil, models.Refuse(models.CodeRequestMalformed, models.D("member", "roles"), models.D("what", "sorted, each once"))
		}
	}
	switch {
	case !models.ValidID(c.ID) || c.ID == models.ServerActor:
		return nil, models.Refuse(models.CodeRequestMalformed, models.D("member", "id"))
	case c.Removed && len(c.Roles) > 0:
		return nil, models.Refuse(models.CodeRequestMalformed, models.D("member", "removed"))
	case c.Replaces != current.Authority:
		return nil, models.Refuse(models.CodeRevisionStale, models.D("got", c.Replaces), models.D("want", current.Authority))
	case current.ID == "" && len(f.Principals) >= maxPrincipals:
		return nil, full("principals", maxPrincipals)
	}
	next := models.Principal{Authority: current.Authority + 1, ID: c.ID, Removed: c.Removed, Roles: c.Roles}
	after := EvolveFactory(f, models.PrincipalPut{Principal: next}, env.At)
	if !slices.ContainsFunc(after.Principals, func(p models.Principal) bool { return after.Has(p.ID, models.RoleAdministrator) }) {
		return nil, models.Refuse(models.CodeRequestMalformed, models.D("member", "roles"), models.D("what", "a factory keeps an administrator"))
	}
	return []models.Event{models.PrincipalPut{Principal: next}}, nil
}

func putRecord(f models.Factory, c models.PutRecord) ([]models.Event, *models.Refusal) {
	switch c.Kind {
	case models.RecordSource, models.RecordConfiguration, models.RecordScope:
	default:
		return nil, models.Refuse(models.CodeRequestMalformed, models.D("member", "kind"))
	}
	if !models.ValidID(c.Name) || c.Digest.IsZero() {
		return nil, models.Refuse(models.CodeRequestMalformed, models.D("member", "name or digest"))
	}
	current, known := f.Record(c.Kind, c.Name)
	if !known && len(f.Records) >= maxRecords {
		return nil, full("records", maxRecords)
	}
	return []models.Event{models.RecordPut{Record: models.Record{Digest: c.Digest, Kind: c.Kind, Name: c.Name, Revision: current.Revision + 1}}}, nil
}

// EvolveFactory folds one event into a factory's state.
func EvolveFactory(f models.Factory, e models.Event, at models.Instant) models.Factory {
	f.Seq, f.Head, f.HeadAt = f.Seq+1, models.Digest{}, at
	for _, m := range moves(f, e) {
		m.At, m.Seq = at, f.Seq
		if m.Kind == models.MovedWindow {
			// Wider windows before this one say nothing more: this one is narrower and later.
			f.Moved = slices.DeleteFunc(slices.Clone(f.Moved), func(old models.Moved) bool { return old.Kind == m.Kind && old.Name >= m.Name })
		}
		f.Moved = put(f.Moved, m, func(a, b models.Moved) int {
			return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
		})
	}
	switch e := e.(type) {
	case models.FactoryCreated:
		f.Created, f.Fixture = true, e.Fixture
	case models.PolicyPut:
		f.Policy, f.PolicyDigest = e.Policy, e.Digest
	case models.ProfileRegistered:
		f.Profiles = put(f.Profiles, models.StoredProfile{Digest: e.Digest, Profile: e.Profile},
			func(a, b models.StoredProfile) int { return strings.Compare(a.Profile.ID, b.Profile.ID) })
	case models.ProfileRetired:
		f.Profiles = slices.Clone(f.Profiles)
		for i := range f.Profiles {
			f.Profiles[i].Retired = f.Profiles[i].Retired || f.Profiles[i].Profile.ID == e.ID
		}
	case models.PrincipalPut:
		f.Principals = put(f.Principals, e.Principal, func(a, b models.Principal) int { return strings.Compare(a.ID, b.ID) })
	case models.RecordPut:
		f.Records = put(f.Records, e.Record, func(a, b models.Record) int {
			if n := strings.Compare(a.Kind, b.Kind); n != 0 {
				return n
			}
			return strings.Compare(a.Name, b.Name)
		})
	case models.RulesActivated:
		f.Rules = e.Rules
	default:
		panic(fmt.Sprintf("kernel.EvolveFactory: event %T", e))
	}
	return f
}

// moves lists what stops holding by an event: a policy that is switched off, a switch of it, a window that is narrowed, a
// principal that may no longer execute, administer or work, a record whose content is another.
func moves(f models.Factory, e models.Event) []models.Moved {
	var list []models.Moved
	switch e := e.(type) {
	case models.PolicyPut:
		if f.Policy.Enabled && !e.Policy.Enabled {
			list = append(list, models.Moved{Kind: models.MovedPolicy})
		}
		if f.Policy.AllowUnavailableSourceObservations && !e.Policy.AllowUnavailableSourceObservations {
			list = append(list, models.Moved{Kind: models.MovedObservations})
		}
		if f.Policy.AllowPreAdmissionRecovery && !e.Policy.AllowPreAdmissionRecovery {
			list = append(list, models.Moved{Kind: models.MovedPreAdmission})
		}
		if e.Policy.MaxValidForSeconds < f.Policy.MaxValidForSeconds {
			list = append(list, models.Moved{Kind: models.MovedWindow, Name: fmt.Sprintf("%04d", e.Policy.MaxValidForSeconds)})
		}
	case models.PrincipalPut:
		p := e.Principal
		for _, loss := range []struct{ role, kind string }{
			{models.RoleOperator, models.MovedActor}, {models.RoleAdministrator, models.MovedAdministrator}, {models.RoleWorker, models.MovedWorker},
		} {
			if f.Has(p.ID, loss.role) && !slices.Contains(p.Roles, loss.role) { // removed, it has none
				list = append(list, models.Moved{Kind: loss.kind, Name: p.ID})
			}
		}
	case models.RecordPut:
		if old, ok := f.Record(e.Record.Kind, e.Record.Name); ok && old.Digest != e.Record.Digest {
			list = append(list, models.Moved{Kind: e.Record.Kind, Name: e.Record.Name})
		}
	}
	return list
}

// put inserts or replaces in a sorted slice, leaving the old one alone.
func put[T any](list []T, item T, compare func(a, b T) int) []T {
	i, found := slices.BinarySearchFunc(list, item, compare)
	list = slices.Clone(list)
	if found {
		list[i] = item
		return list
	}
	return slices.Insert(list, i, item)
}

// FoldFactory folds a sealed row of a factory's journal whose event was decoded.
func FoldFactory(f models.Factory, r models.Row, e models.Event) models.Factory {
	if f.Rules == 0 {
		f.Rules = r.Rules
	}
	f = EvolveFactory(f, e, r.At)
	f.Factory, f.Head, f.Cmd = r.Factory, r.Hash, r.Cmd
	return f
}

// FactoryHead returns the head that rows of runs name.
func FactoryHead(f models.Factory) models.Head { return models.Head{Hash: f.Head, Seq: f.Seq} }

// EncodeFactory returns the canonical bytes that a store caches.
func EncodeFactory(f models.Factory) []byte { return canon.MustMarshal(f) }

// DecodeFactory reads what EncodeFactory wrote, all of it.
func DecodeFactory(b []byte) (models.Factory, error) {
	var f models.Factory
	err := canon.DecodeStored(b, &f)
	return f, err
}
