package api

import (
	"net/http"
	"unicode"
	"unicode/utf8"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

func (s *Server) factory(q *request) error {
	if _, err := q.query(); err != nil {
		return err
	}
	f, err := s.engine.Factory(q.ctx, q.caller, engine.Anyone...)
	if err != nil {
		return err
	}
	self, _ := f.Principal(q.caller.Principal)
	out := FactoryShown{
		Caller: self, Factory: f.Factory, Fixture: f.Fixture, Head: models.Head{Hash: f.Head, Seq: f.Seq}, Host: s.engine.Host(),
		PolicyRevision: f.Policy.Revision, Profiles: f.Profiles, Records: f.Records, Rules: f.Rules,
	}
	for _, p := range f.Principals {
		name, err := s.engine.Name(q.ctx, q.caller, p.ID)
		if err != nil {
			return err
		}
		out.Principals = append(out.Principals, PrincipalShown{Principal: p, Name: name})
	}
	return q.json(http.StatusOK, out)
}

func (s *Server) factoryRows(q *request) error { return s.rows(q, "") }

// change executes a command of the factory's own journal under the caller's Idempotency-Key.
func (s *Server) change(q *request, c models.Command) (engine.Answer, error) {
	id, err := q.commandID()
	if err != nil {
		return engine.Answer{}, err
	}
	return s.engine.DoFactory(q.ctx, q.caller, id, c)
}

func (s *Server) putPrincipal(q *request) error {
	id, err := q.id("id")
	if err != nil {
		return err
	}
	var body putPrincipal
	if err := q.decode(&body); err != nil {
		return err
	}
	if body.Name != nil && !label(*body.Name) {
		return malformed("name", models.D("limit", maxName), models.D("what", "printable text"))
	}
	a, err := s.change(q, models.PutPrincipal{ID: id, Removed: body.Removed, Replaces: body.Replaces, Roles: body.Roles})
	if err != nil {
		return err
	}
	if body.Name != nil {
		if err := s.engine.PutName(q.ctx, q.caller, id, *body.Name); err != nil {
			return err
		}
	}
	return q.receipt(http.StatusCreated, a)
}

// label reports whether a name is short printable text.
func label(name string) bool {
	if len(name) > maxName || !utf8.ValidString(name) {
		return false
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

func (s *Server) putRecord(q *request) error {
	kind, name, err := q.ids("kind", "name")
	if err != nil {
		return err
	}
	var body putRecord
	if err := q.decode(&body); err != nil {
		return err
	}
	a, err := s.change(q, models.PutRecord{Digest: body.Digest, Kind: kind, Name: name})
	if err != nil {
		return err
	}
	return q.receipt(http.StatusCreated, a)
}

func (s *Server) putProfile(q *request) error {
	id, err := q.id("id")
	if err != nil {
		return err
	}
	var p models.Profile
	if err := q.decode(&p); err != nil {
		return err
	}
	if p.ID != id {
		return malformed("id", models.D("what", "differs from the address"))
	}
	command, err := q.commandID()
	if err != nil {
		return err
	}
	a, err := s.engine.RegisterProfile(q.ctx, q.caller, command, p)
	if err != nil {
		return err
	}
	return q.receipt(http.StatusCreated, a)
}

func (s *Server) retireProfile(q *request) error {
	id, err := q.id("id")
	if err != nil {
		return err
	}
	a, err := s.change(q, models.RetireProfile{ID: id})
	if err != nil {
		return err
	}
	return q.receipt(http.StatusCreated, a)
}

// issueToken makes a credential for a principal of the factory. Tokens stand in no journal and have no command id: each
// call makes another one.
func (s *Server) issueToken(q *request) error {
	var body postToken
	if err := q.decode(&body); err != nil {
		return err
	}
	if body.Lifetime < 1 || body.Lifetime > MaxTokenLifetime {
		return malformed("lifetime_seconds", models.D("least", 1), models.D("most", MaxTokenLifetime))
	}
	f, err := s.engine.Factory(q.ctx, q.caller, models.RoleAdministrator)
	if err != nil {
		return err
	}
	if _, ok := f.Principal(body.Principal); !ok {
		return models.Refuse(models.CodeNotFound)
	}
	secret, id, err := s.engine.IssueToken(q.ctx, q.caller.Factory, body.Principal, body.Lifetime)
	if err != nil {
		return err
	}
	return q.json(http.StatusCreated, TokenIssued{Token: secret, ID: id})
}

func (s *Server) revokeToken(q *request) error {
	id, err := q.id("id")
	if err != nil {
		return err
	}
	if _, err := s.engine.Factory(q.ctx, q.caller, models.RoleAdministrator); err != nil {
		return err
	}
	if err := s.engine.RevokeToken(q.ctx, q.caller.Factory, id); err != nil {
		return err
	}
	return q.none()
}
