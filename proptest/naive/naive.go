// Package naive says what the kernel should answer, in the simplest way that the rules can be written down: a list of what
// happened, read again from the start for every question. It shares no code with the kernel but the names of things, the
// table's order, and the two static tables of which facts name which class.
//
// When several refusals apply, the answer is the first in the order of the table. Before any rule of a command come, in
// this order: identity, the saved answer, the id, the role, other content under the id, and a clock behind the journal.
package naive

import (
	"bytes"
	"fmt"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// Happened is one event of a journal, with its row's time and actor, and how many events of the factory there were by then, it
// included.
type Happened struct {
	At    models.Instant
	Actor string
	Event models.Event
	After int
}

// Asked is a command as it arrives, and what surrounds it.
type Asked struct {
	Actor   string
	ID      string
	Command models.Command
	At      models.Instant
	Lease   models.Instant // expiry in force as the store has it, for an ordinary lease
	Host    models.Host
	Pending int64
	Missing bool                     // a blob that the command names is not kept
	Rebuilt *models.Reconstruction   // for a continuity request and a read-only observation recovery
	Current models.RequestContinuity // the digests as they are now

	Reports    []models.Report      // that are kept, for a refused-boundary recovery
	Reproduced *models.Reproduction // and what its request was rendered as
	OtherBytes bool                 // what is kept as the ticket's checkpoint has another digest

	Screened *models.Screening // of the checkpoint, for a continuity request and a waiver; nil where nobody screened
}

// Answer is the expected one: Repeat of a saved answer, or a refusal's code, or neither.
type Answer struct {
	Code   models.Code
	Repeat bool
}

// Model is everything that happened.
type Model struct {
	Name    string
	Factory []Happened
	Run     []Happened
	Said    map[string]string // space and id: who said what
}

// New is a factory before its first row.
func New(factory string) *Model { return &Model{Name: factory, Said: map[string]string{}} }

func space(c models.Command) string {
	switch c.(type) {
	case models.RegisterRun, models.ClaimRun, models.RequestContinuity:
		return c.Verb()
	case models.RecoverNeverClaimed, models.RecoverRefusedBoundary, models.RecoverReadonlyObservation:
		return "recovery"
	}
	if models.ForFactory(c) {
		return "factory"
	}
	return "run"
}

func said(a Asked) (key, content string) {
	return space(a.Command) + " " + a.ID, a.Actor + " " + a.Command.Verb() + " " + string(canon.MustMarshal(a.Command))
}

// Accept records what a command came to.
func (m *Model) Accept(a Asked, events []models.Event) {
	key, content := said(a)
	m.Said[key] = content
	for _, e := range events {
		h := Happened{At: a.At, Actor: a.Actor, Event: e, After: len(m.Factory)}
		if models.ForFactory(a.Command) {
			h.After++
			m.Factory = append(m.Factory, h)
		} else {
			m.Run = append(m.Run, h)
		}
	}
}

// set collects the refusals that apply.
type set []models.Code

func (s *set) when(applies bool, code models.Code) {
	if applies {
		*s = append(*s, code)
	}
}

// first is the one that the table answers, "" for none.
func (s set) first() models.Code {
	var best models.Code
	for _, c := range s {
		if best == "" || models.Precedence(c) < models.Precedence(best) {
			best = c
		}
	}
	return best
}

// Predict says what the command must come to.
func (m *Model) Predict(a Asked) Answer {
	f := m.factory()
	if create, ok := a.Command.(models.CreateFactory); ok {
		return m.create(a, create)
	}
	if models.ForFactory(a.Command) && !f.created {
		return Answer{Code: models.CodeNotFound}
	}
	key, content := said(a)
	before, used := m.Said[key]
	_, annotates := a.Command.(models.AnnotateStartup)
	_, schedules := a.Command.(models.AdmitVerification)
	server := (annotates || schedules) && a.Actor == models.ServerActor
	last := models.Instant(0)
	if len(m.Factory) > 0 {
		last = m.Factory[len(m.Factory)-1].At
	}
	if len(m.Run) > 0 { // a row of the factory is no older than those of its runs, which name the one before it
		last = max(last, m.Run[len(m.Run)-1].At)
	}
	switch {
	case !f.member(a.Actor) && !server:
		return Answer{Code: models.CodeIdentityMissing}
	case used && before == content:
		return Answer{Repeat: true}
	case !models.ValidID(a.ID):
		return Answer{Code: models.CodeRequestMalformed}
	case !server && !f.has(a.Actor, role(a.Command)), space(a.Command) == "recovery" && !f.has(a.Actor, models.RoleAdministrator):
		return Answer{Code: models.CodeRoleMissing}
	case used:
		return Answer{Code: models.CodeRequestConflict}
	case a.At < last:
		return Answer{Code: models.CodeClockBehind}
	}
	if models.ForFactory(a.Command) {
		return Answer{Code: f.decide(a.Command)}
	}
	r := m.run()
	if c, ok := a.Command.(models.RegisterRun); ok {
		return Answer{Code: r.register(f, c.Registration, a)}
	}
	if annotate, ok := a.Command.(models.AnnotateStartup); ok {
		var s set
		s.when(!models.ValidID(annotate.Boot), models.CodeRequestMalformed)
		s.when(!r.outstanding(), models.CodeNotFound)
		return Answer{Code: s.first()}
	}
	if r.registration == nil {
		return Answer{Code: models.CodeNotFound}
	}
	switch c := a.Command.(type) {
	case models.ClaimRun:
		return Answer{Code: r.claim(f, c, a)}
	case models.Append:
		return Answer{Code: r.append(f, c, a)}
	case models.RequestContinuity:
		return Answer{Code: r.admit(f, c, a)}
	case models.RecoverNeverClaimed:
		return Answer{Code: r.neverClaimed(f, c, a)}
	case models.RecoverRefusedBoundary:
		return Answer{Code: r.boundary(f, c, a)}
	case models.RecoverReadonlyObservation:
		return Answer{Code: r.observation(f, c, a)}
	case models.AdmitVerification:
		return Answer{Code: r.schedule(f, c, a)}
	case models.ReleaseRun:
		return Answer{Code: r.release(f, c, a)}
	case models.Reconcile:
		return Answer{Code: r.reconcile(c, a)}
	case models.RetryRun:
		return Answer{Code: r.retry()}
	case models.WaiveCredential:
		return Answer{Code: r.waive(c, a)}
	case models.CancelRun:
		var s set
		s.when(r.end == "cancelled", models.CodeRunCancelled)
		s.when(r.end == "completed", models.CodeRunFinished)
		return Answer{Code: s.first()}
	}
	panic(fmt.Sprintf("naive: command %T", a.Command))
}

func role(c models.Command) string {
	switch c.(type) {
	case models.ClaimRun, models.Append, models.ReleaseRun:
		return models.RoleWorker
	case models.RegisterRun, models.RequestContinuity, models.CancelRun, models.Reconcile, models.RetryRun, models.AdmitVerification,
		models.RecoverNeverClaimed, models.RecoverRefusedBoundary, models.RecoverReadonlyObservation:
		return models.RoleOperator
	case models.AnnotateStartup:
		return "nobody"
	}
	return models.RoleAdministrator
}

func same(a, b any) bool { return bytes.Equal(canon.MustMarshal(a), canon.MustMarshal(b)) }

// Load is a model of journals that were accepted before, in the order in which that was: a run's command names the row of the
// factory's journal that stood.
func Load(factory string, factoryRows, rows []models.Row) (*Model, error) {
	m := New(factory)
	next := func(list []models.Row) ([]models.Row, error) {
		first := list[0]
		c, err := models.DecodeCommand(first.CommandName, first.Command)
		if err != nil {
			return nil, err
		}
		var events []models.Event
		for _, r := range list[:first.N] {
			e, err := models.DecodeEvent(r.Kind, r.Payload)
			if err != nil {
				return nil, err
			}
			events = append(events, e)
		}
		m.Accept(Asked{Actor: first.Actor, ID: first.CommandID, Command: c, At: first.At}, events)
		return list[first.N:], nil
	}
	for len(factoryRows)+len(rows) > 0 {
		ran := false
		if len(rows) > 0 {
			env, err := models.OpenEnv(rows[0].Env)
			if err != nil {
				return nil, err
			}
			ran = env.FactoryHead.Seq <= int64(len(m.Factory))
		}
		var err error
		if ran {
			rows, err = next(rows)
		} else {
			factoryRows, err = next(factoryRows)
		}
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}
