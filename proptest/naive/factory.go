package naive

import (
	"slices"

	"github.com/forge-continuity/forge/models"
)

// factory is what the factory's events come to.
type factory struct {
	created, fixture bool
	policy           models.Policy
	principals       map[string]models.Principal
	profiles         map[string]models.Profile
	retired          map[string]bool
	records          map[string]models.Record
	rules            int64
	stopped          map[string]int // after which event each thing last stopped holding
	windows          []window
}

// window is what the policy permitted from an event on.
type window struct {
	after   int
	seconds models.Seconds
}

// narrowed reports whether the policy came to permit less than a window of so many seconds after it was granted.
func (f factory) narrowed(granted int, seconds models.Seconds) bool {
	for i, w := range f.windows {
		if i > 0 && w.after > granted && w.seconds < f.windows[i-1].seconds && w.seconds < seconds {
			return true
		}
	}
	return false
}

func (m *Model) factory() factory {
	f := factory{principals: map[string]models.Principal{}, profiles: map[string]models.Profile{}, retired: map[string]bool{},
		records: map[string]models.Record{}, stopped: map[string]int{}, rules: 1}
	for _, h := range m.Factory {
		switch e := h.Event.(type) {
		case models.FactoryCreated:
			f.created, f.fixture = true, e.Fixture
		case models.PolicyPut:
			if f.policy.Enabled && !e.Policy.Enabled {
				f.stopped["policy"] = h.After
			}
			f.windows = append(f.windows, window{h.After, e.Policy.MaxValidForSeconds})
			if f.policy.AllowUnavailableSourceObservations && !e.Policy.AllowUnavailableSourceObservations {
				f.stopped["observations"] = h.After
			}
			if f.policy.AllowPreAdmissionRecovery && !e.Policy.AllowPreAdmissionRecovery {
				f.stopped["pre-admission"] = h.After
			}
			f.policy = e.Policy
		case models.PrincipalPut:
			before := f.principals[e.Principal.ID]
			f.principals[e.Principal.ID] = e.Principal
			for name, role := range map[string]string{"actor/": models.RoleOperator, "administrator/": models.RoleAdministrator, "worker/": models.RoleWorker} {
				if !before.Removed && slices.Contains(before.Roles, role) && !f.has(e.Principal.ID, role) {
					f.stopped[name+e.Principal.ID] = h.After
				}
			}
		case models.ProfileRegistered:
			f.profiles[e.Profile.ID] = e.Profile
		case models.ProfileRetired:
			f.retired[e.ID] = true
		case models.RecordPut:
			name := e.Record.Kind + "/" + e.Record.Name
			if old, ok := f.records[name]; ok && old.Digest != e.Record.Digest {
				f.stopped[name] = h.After
			}
			f.records[name] = e.Record
		case models.RulesActivated:
			f.rules = e.Rules
		}
	}
	return f
}

func (f factory) member(id string) bool {
	p, ok := f.principals[id]
	return ok && !p.Removed
}

func (f factory) has(id, role string) bool {
	return f.member(id) && slices.Contains(f.principals[id].Roles, role)
}

func (m *Model) create(a Asked, c models.CreateFactory) Answer {
	key, content := said(a)
	before, used := m.Said[key]
	switch {
	case used && before == content:
		return Answer{Repeat: true}
	case len(m.Factory) > 0 || used:
		return Answer{Code: models.CodeRequestConflict}
	case !models.ValidID(m.Name) || !models.ValidID(a.Actor):
		return Answer{Code: models.CodeRequestMalformed}
	}
	return Answer{}
}

func (f factory) decide(c models.Command) models.Code {
	var s set
	switch c := c.(type) {
	case models.PutPolicy:
		p := c.Policy
		s.when(p.Version != 1 || p.Revision != 0 && p.Revision != c.Replaces || p.MaxTicketsPerRun < 1 || p.MaxPendingTickets < 1, models.CodeRequestMalformed)
		s.when(p.MaxValidForSeconds < 0 || p.MaxValidForSeconds > 7200 || p.Enabled && p.MaxValidForSeconds == 0, models.CodeWindowInvalid)
		s.when(c.Replaces != f.policy.Revision, models.CodeRevisionStale)
	case models.RegisterProfile:
		p := c.Profile
		bad := !models.ValidID(p.ID) || p.Module.IsZero() || p.Catalogue.IsZero() || p.Rules < 1 || p.Build == "" || !models.ValidID(p.Store) || p.StoreMajor < 1
		names := map[string]bool{}
		previous := ""
		for _, q := range p.Qualifications {
			bad = bad || names[q.Name] || q.Name < previous || q.Report.IsZero() || !models.ValidID(q.Name)
			names[q.Name], previous = true, q.Name
		}
		s.when(bad, models.CodeRequestMalformed)
		_, used := f.profiles[p.ID]
		s.when(used, models.CodeRequestConflict)
		s.when(p.Fixture && !f.fixture, models.CodeFixtureOnly)
	case models.RetireProfile:
		_, ok := f.profiles[c.ID]
		s.when(!ok || f.retired[c.ID], models.CodeNotFound)
	case models.PutPrincipal:
		known := []string{models.RoleAdministrator, models.RoleOperator, models.RoleReader, models.RoleWorker}
		bad := !models.ValidID(c.ID) || c.ID == models.ServerActor || c.Removed && len(c.Roles) > 0 || !slices.IsSorted(c.Roles)
		for i, r := range c.Roles {
			bad = bad || !slices.Contains(known, r) || slices.Contains(c.Roles[:i], r)
		}
		stale := c.Replaces != f.principals[c.ID].Authority
		// A factory keeps an administrator.
		others := slices.Contains(c.Roles, models.RoleAdministrator)
		for id := range f.principals {
			others = others || id != c.ID && f.has(id, models.RoleAdministrator)
		}
		s.when(bad, models.CodeRequestMalformed)
		s.when(stale, models.CodeRevisionStale)
		s.when(!stale && !others, models.CodeRequestMalformed)
	case models.PutRecord:
		s.when(c.Kind != models.RecordSource && c.Kind != models.RecordConfiguration && c.Kind != models.RecordScope, models.CodeRequestMalformed)
		s.when(!models.ValidID(c.Name) || c.Digest.IsZero(), models.CodeRequestMalformed)
	case models.ActivateRules:
		s.when(c.Rules <= f.rules, models.CodeRevisionStale)
		s.when(c.Rules > 1, models.CodeRulesNewer)
	}
	return s.first()
}

// covers compares a profile with a node.
func covers(p models.Profile, h models.Host) bool {
	return same(h, models.Host{Build: p.Build, Catalogue: p.Catalogue, Module: p.Module, Rules: p.Rules, Screening: p.Screening, Store: p.Store, StoreMajor: p.StoreMajor})
}

func (f factory) qualified(p models.Profile, name string) bool {
	for _, q := range p.Qualifications {
		if q.Name == name {
			return true
		}
	}
	return false
}

// counts reports whether a profile is current and qualified at all.
func (f factory) counts(id string) bool {
	p, ok := f.profiles[id]
	return ok && !f.retired[id] && (p.Fixture && f.fixture || !p.Fixture && f.qualified(p, "sdk"))
}

// profile is what a new admission on this node lacks of a profile.
func (f factory) profile(s *set, h models.Host) {
	current, covering, whole := false, false, false
	for id, p := range f.profiles {
		if !f.counts(id) {
			continue
		}
		current = true
		if covers(p, h) {
			covering = true
			whole = whole || f.fixture || f.qualified(p, "postgres") && f.qualified(p, "controller") && f.qualified(p, "store-"+h.Store)
		}
	}
	s.when(!current, models.CodeProfileUnqualified)
	s.when(current && !covering, models.CodeProfileMismatch)
	s.when(covering && !whole, models.CodeQualificationMissing)
}

// changed lists what differs from what a registration froze.
func (f factory) changed(s *set, g models.Registration) {
	for _, x := range []struct {
		kind string
		was  models.Frozen
		code models.Code
	}{{"source", g.Source, models.CodeSourceChanged}, {"configuration", g.Configuration, models.CodeConfigurationChanged}, {"scope", g.Scope, models.CodeScopeChanged}} {
		s.when(f.records[x.kind+"/"+x.was.Record].Digest != x.was.Digest || x.was.Digest.IsZero(), x.code)
	}
}

// original is what became of the person whose run this is.
func (f factory) original(s *set, actor string) {
	s.when(!f.member(actor), models.CodeActorLost)
	s.when(f.member(actor) && !f.has(actor, models.RoleOperator), models.CodeAuthorityRevoked)
}
