// Package world builds factories and runs in memory through the real kernel: no store, no sandbox, no engine. It does what
// the shell does around each command (saved receipts, lease in force, missing blobs, pending tickets, a recount by a real
// replay), so that a test says only who asks what and when.
package world

import (
	"fmt"
	"slices"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
)

// Names that every world uses.
const (
	Factory = "acme"
	Run     = "run-1"
	Dana    = "dana" // original execution actor and administrator
	Omar    = "omar" // another operator
	Root    = "root" // another administrator
	Rita    = "rita" // a reader
	Worker  = "w1"
	Worker2 = "w2"
)

// Start is the instant at which every world begins: 2026-01-01T00:00:00Z.
const Start models.Instant = 1_767_225_600_000_000

// Saved is what a store keeps for an id.
type Saved struct {
	Digest models.Digest
	Body   []byte
}

// World is one factory and one run. The exported fields may be changed by a test between commands; everything that Decide
// reads follows them.
type World struct {
	FactoryState models.Factory
	FactoryRows  []models.Row
	State        kernel.State
	Rows         []models.Row
	Now          models.Instant  // the store's clock
	Lease        models.Instant  // expiry in force, as the store's lease row has it
	Host         models.Host     // the node that executes
	Pending      int64           // tickets of other runs that wait for a worker
	Missing      []models.Digest // blobs that were not kept

	KeptCheckpoint *models.Digest // what the kept bytes of a ticket's checkpoint hash to, nil for what they should
	Rebuild        func(*World) *models.Reconstruction
	Found          []models.Finding // what screening finds in the checkpoint of the turn that stands, where the node screens
	NotScreened    bool             // the node screens, and did not
	Reports        []models.Report
	Reproduce      func(*World) *models.Reproduction
	Observe        func(*World) *models.Reconstruction
	Receipts       map[string]Saved
	Trust          bool // recount from the state instead of the rows: for long walks that replay now and then

	steps int // for ids of commands that nobody cares about
}

// Answer is what a command came to.
type Answer struct {
	Events  []models.Event
	Rows    []models.Row
	Refusal *models.Refusal
	Repeat  bool // the saved receipt stands
	Receipt []byte
}

// Code is the refusal's code, "" when there was none.
func (a Answer) Code() models.Code {
	if a.Refusal == nil {
		return ""
	}
	return a.Refusal.Code
}

// Empty is a world before its factory was created.
func Empty() *World {
	return &World{
		FactoryState: models.Factory{Factory: Factory},
		State:        kernel.State{Factory: Factory, Run: Run},
		Now:          Start,
		Host: models.Host{
			Build: "test", Catalogue: Plain("catalogue"), Module: Plain("module"), Rules: kernel.CurrentRules(), Store: "memory", StoreMajor: 1,
		},
		Rebuild:   (*World).ProofOne,
		Reproduce: (*World).Reproduced,
		Observe:   (*World).ProofObserved,
		Receipts:  map[string]Saved{},
	}
}

// New is a fixture factory (or one for retained work) with the principals above, the three records, a current profile for
// the host and an enabled policy; the run is opened and not registered.
func New(fixture bool) *World {
	w := Empty()
	w.MustFactory(Root, models.CreateFactory{Fixture: fixture})
	for _, p := range []models.PutPrincipal{
		{ID: Dana, Roles: []string{models.RoleAdministrator, models.RoleOperator}},
		{ID: Omar, Roles: []string{models.RoleOperator}},
		{ID: Rita, Roles: []string{models.RoleReader}},
		{ID: Worker, Roles: []string{models.RoleWorker}},
		{ID: Worker2, Roles: []string{models.RoleWorker}},
	} {
		w.MustFactory(Root, p)
	}
	for _, kind := range []string{models.RecordConfiguration, models.RecordScope, models.RecordSource} {
		w.MustFactory(Root, models.PutRecord{Digest: Plain(kind), Kind: kind, Name: "main"})
	}
	w.MustFactory(Root, models.RegisterProfile{Profile: w.Profile("p1")})
	w.MustFactory(Root, models.PutPolicy{Policy: Enabled(), Replaces: w.FactoryState.Policy.Revision})
	return w
}

// Enabled is a policy with everything that version 1 needs, a window of an hour and the default counts.
func Enabled() models.Policy {
	p := models.DefaultPolicy()
	p.Enabled, p.MaxValidForSeconds = true, 3600
	return p
}

// Profile covers the host: a fixture profile in a fixture factory, otherwise with every qualification that it needs there.
func (w *World) Profile(id string) models.Profile {
	h := w.Host
	p := models.Profile{
		Build: h.Build, Catalogue: h.Catalogue, Fixture: w.FactoryState.Fixture, ID: id, Module: h.Module, Rules: h.Rules,
		Screening: h.Screening, Store: h.Store, StoreMajor: h.StoreMajor,
	}
	if !p.Fixture {
		for _, name := range []string{models.QualificationController, models.QualificationPostgres, models.QualificationSDK, models.QualificationStore + h.Store} {
			p.Qualifications = append(p.Qualifications, models.Qualification{Name: name, Report: Plain("report " + name)})
		}
	}
	return p
}

// Plain is the plain digest of a name; Blob the salted one under the salt of every world.
func Plain(name string) models.Digest { return models.PlainDigest([]byte(name)) }

// Blob is the digest of a blob of the run, of which only the name matters here.
func Blob(name string) models.Digest { return models.SaltedBlob([32]byte{1}, []byte(name)) }

// Clone returns a world that goes its own way from here.
func (w *World) Clone() *World {
	c := *w
	c.FactoryRows, c.Rows, c.Missing = slices.Clone(w.FactoryRows), slices.Clone(w.Rows), slices.Clone(w.Missing)
	c.Receipts = make(map[string]Saved, len(w.Receipts))
	for k, v := range w.Receipts {
		c.Receipts[k] = v
	}
	return &c
}

// Tick moves the clock on.
func (w *World) Tick(by models.Seconds) { w.Now = w.Now.Add(by) }

// space is where ids of a command are unique (server/engine, Spaces).
func space(c models.Command) string {
	switch c.(type) {
	case models.RegisterRun:
		return "run"
	case models.ClaimRun:
		return "claim"
	case models.RequestContinuity:
		return "request"
	case models.RecoverNeverClaimed, models.RecoverRefusedBoundary, models.RecoverReadonlyObservation:
		return "recovery"
	}
	if models.ForFactory(c) {
		return "factory"
	}
	return "command"
}

func (w *World) saved(actor, id string, c models.Command) (Saved, string) {
	s, ok := w.Receipts[space(c)+"/"+id]
	if !ok {
		return s, models.SavedNone
	}
	if d, err := models.CommandDigest(actor, c); err == nil && d == s.Digest {
		return s, models.SavedSame
	}
	return s, models.SavedOther
}

func (w *World) save(actor, id string, c models.Command, body []byte) {
	d, err := models.CommandDigest(actor, c)
	if err != nil {
		panic(err)
	}
	w.Receipts[space(c)+"/"+id] = Saved{Digest: d, Body: body}
}

// Holds is what people are shown of the run.
func (w *World) Holds() []*models.Refusal {
	return kernel.Holds(w.State, w.Env(Worker, "", models.ClaimRun{}), w.Lease)
}

// Env is what the shell would hand to Decide now.
func (w *World) Env(actor, id string, c models.Command) models.Env {
	at, clock := w.Now, models.ClockStore
	if head := max(w.State.HeadAt, w.FactoryState.HeadAt); at < head && head-at <= models.MaxClockLag {
		at, clock = head, models.ClockHead
	}
	_, saved := w.saved(actor, id, c)
	env := models.Env{
		Actor: actor, At: at, Clock: clock, Factory: w.FactoryState, FactoryHead: kernel.FactoryHead(w.FactoryState),
		Missing: w.Missing, Saved: saved,
	}
	if models.ForFactory(c) {
		env.Missing = nil
		return env
	}
	if w.State.Lease.Live {
		env.LeaseExpires = w.Lease
	}
	env.Admission = w.admission(c)
	_, admits := c.(models.RequestContinuity)
	requestID, recovers := recovered(c)
	if t, ok := w.State.Tickets.Last(); admits || recovers || ok && t.Outstanding() {
		env.Host = w.Host
	}
	if recovers {
		env.Pending, env.Recount, env.History = w.PendingNow(), w.Recount(), w.TicketHistory(requestID)
		if _, ok := c.(models.RecoverReadonlyObservation); ok {
			env.Reconstruction = w.Observe(w)
		}
		if _, ok := c.(models.RecoverRefusedBoundary); ok {
			env.Reports, env.Reproduction = w.Reports, w.Reproduce(w)
		}
	}
	if admits {
		env.Pending, env.Recount, env.Reconstruction = w.PendingNow(), w.Recount(), w.Rebuild(w)
	}
	if _, waives := c.(models.WaiveCredential); admits || waives {
		env.Host, env.Screening = w.Host, w.screening()
	}
	return env
}

// screening is what the node finds in the checkpoint of the turn that stands, nil where it does not screen.
func (w *World) screening() *models.Screening {
	if w.Host.Screening.IsZero() || w.NotScreened {
		return nil
	}
	return &models.Screening{Blob: w.State.Custody.Turn.Checkpoint, Found: w.Found, RuleSet: w.Host.Screening}
}

// admission is what the shell reads of the rows that admitted the outstanding ticket.
func (w *World) admission(c models.Command) *models.Digest {
	switch c.(type) {
	case models.ClaimRun, models.Append:
	default:
		return nil
	}
	t, ok := w.State.Tickets.Last()
	if !ok || !t.Outstanding() {
		return nil
	}
	var made models.Digest
	if w.Trust {
		made = t.Identity()
	}
	if t.GrantSeq <= int64(len(w.Rows)) {
		made = kernel.AdmissionOf(w.Rows[t.SettledSeq-1 : t.SettledSeq+1])
	}
	return &made
}

// PendingNow counts tickets that wait for a worker: those of other runs, and this run's own.
func (w *World) PendingNow() int64 {
	n := w.Pending
	if e := kernel.Queue(w.State); e != nil && e.Request != "" && w.Now < e.Expires {
		n++
	}
	return n
}

// History folds the factory's journal; it panics when that does not verify.
func (w *World) History() kernel.History {
	h, r := kernel.ReplayFactory(slices.Values(w.FactoryRows))
	if r != nil {
		panic(r)
	}
	return h
}

// Recount folds every row of the run again, unless the world is to trust its state.
func (w *World) Recount() *models.Recount {
	if w.Trust {
		n := kernel.Recounted(w.State, w.State, nil)
		return &n
	}
	history, r := kernel.ReplayFactory(slices.Values(w.FactoryRows))
	if r != nil {
		return &models.Recount{BrokenAt: 1, Head: w.State.Head}
	}
	s, r := kernel.Replay(slices.Values(w.Rows), history)
	n := kernel.Recounted(w.State, s, r)
	return &n
}

// Do sends a command for the run. Nothing changes unless it is accepted.
func (w *World) Do(actor, id string, c models.Command) Answer {
	env := w.Env(actor, id, c)
	events, refusal := kernel.Decide(w.State, id, c, env)
	switch {
	case refusal != nil:
		return Answer{Refusal: refusal}
	case events == nil:
		s, _ := w.saved(actor, id, c)
		return Answer{Repeat: true, Receipt: s.Body}
	}
	rows, after, err := kernel.Rows(w.State, id, c, env, events)
	if err != nil {
		panic(err)
	}
	body := kernel.Receipt(after, c, rows, events)
	before := w.State.Lease
	w.State, w.Rows = after, append(w.Rows, rows...)
	if before != after.Lease {
		w.Lease = 0
		if after.Lease.Live || after.Lease.Granted {
			w.Lease = after.Lease.ExpiresAt
		}
	}
	w.save(actor, id, c, body)
	return Answer{Events: events, Rows: rows, Receipt: body}
}

// DoFactory sends a command of the factory's own journal.
func (w *World) DoFactory(actor, id string, c models.Command) Answer {
	env := w.Env(actor, id, c)
	env.Factory.HeadAt = max(env.Factory.HeadAt, w.State.HeadAt) // no older than the rows of its runs, as the shell sees to
	events, refusal := kernel.DecideFactory(id, c, env)
	switch {
	case refusal != nil:
		return Answer{Refusal: refusal}
	case events == nil:
		s, _ := w.saved(actor, id, c)
		return Answer{Repeat: true, Receipt: s.Body}
	}
	rows, after, err := kernel.FactoryRows(w.FactoryState, id, c, env, events)
	if err != nil {
		panic(err)
	}
	w.FactoryState, w.FactoryRows = after, append(w.FactoryRows, rows...)
	body := kernel.FactoryReceipt(rows, events)
	w.save(actor, id, c, body)
	return Answer{Events: events, Rows: rows, Receipt: body}
}

// Renew is the live owner's heartbeat: it moves the lease row of an ordinary lease and nothing else, to at most the frozen
// provider timeout from now and never past the active deadline. It reports whether there was anything to renew.
func (w *World) Renew(seconds models.Seconds) bool {
	l, g := w.State.Lease, w.State.Registration
	if !l.Executing(w.Now, w.Lease) || l.RequestID != "" {
		return false
	}
	end := w.Now.Add(min(seconds, g.ProviderTimeout))
	if g.TimeBudget == models.TimeBudgetAbsolute {
		end = min(end, g.ActiveDeadline)
	}
	w.Lease = max(w.Lease, end)
	return true
}

// Candidate is what a reader of the candidate would see.
func (w *World) Candidate(actor string) models.Candidate {
	return kernel.Candidate(w.State, w.Env(actor, "candidate", models.RequestContinuity{}))
}

// NextID names a command that no test looks at again.
func (w *World) NextID() string {
	w.steps++
	return fmt.Sprintf("c-%04d", w.steps)
}

// Must sends a command that has to be accepted.
func (w *World) Must(actor, id string, c models.Command) Answer {
	a := w.Do(actor, id, c)
	if a.Refusal != nil || a.Repeat {
		panic(fmt.Sprintf("%s by %s: refused %v, repeat %v", c.Verb(), actor, a.Refusal, a.Repeat))
	}
	return a
}

// MustFactory is Must for the factory's journal, under an id of its own.
func (w *World) MustFactory(actor string, c models.Command) Answer {
	a := w.DoFactory(actor, w.NextID(), c)
	if a.Refusal != nil || a.Repeat {
		panic(fmt.Sprintf("%s by %s: refused %v, repeat %v", c.Verb(), actor, a.Refusal, a.Repeat))
	}
	return a
}

// Append sends facts under the fence that stands, as the owner that stands.
func (w *World) Append(facts ...models.Fact) Answer {
	return w.Do(w.State.Lease.Owner, w.NextID(), models.Append{Facts: facts, Fence: w.State.Lease.Fence})
}

// MustAppend is Append that has to be accepted.
func (w *World) MustAppend(facts ...models.Fact) Answer {
	a := w.Append(facts...)
	if a.Refusal != nil {
		panic(fmt.Sprintf("append of %d facts: %v", len(facts), a.Refusal))
	}
	return a
}

// Policy puts the current policy with a change.
func (w *World) Policy(change func(*models.Policy)) {
	p := w.FactoryState.Policy
	change(&p)
	w.MustFactory(Root, models.PutPolicy{Policy: p, Replaces: p.Revision})
}

// Roles sets the roles of a principal; none at all removes it.
func (w *World) Roles(id string, roles ...string) {
	p, _ := w.FactoryState.Principal(id)
	w.MustFactory(Root, models.PutPrincipal{ID: id, Replaces: p.Authority, Removed: len(roles) == 0, Roles: roles})
}

// Record sets the record of a kind to the digest of a name.
func (w *World) Record(kind, content string) {
	w.MustFactory(Root, models.PutRecord{Digest: Plain(content), Kind: kind, Name: "main"})
}
