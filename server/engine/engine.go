// Package engine is the shell around the kernel. It holds no rules: it reconstructs, then inside one transaction locks,
// loads, decides, seals and appends, in that order, and answers with the saved receipt.
package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
)

// Sandbox runs a function of the sealed guest module. An error that is a *models.Refusal is the guest's or the host's
// typed "no" about these very bytes; any other says nothing about them and saves nothing.
type Sandbox interface {
	Call(ctx context.Context, function string, frames []Frame, params any) (Sealed, error)
	// Module is the SHA-256 of the metered module, Catalogue the embedded catalogue and its digest: together the identity
	// of the complete installed migration code (rules O2).
	Module() models.Digest
	Catalogue() ([]byte, models.Digest)
}

// Frame is one named run of bytes.
type Frame struct {
	Name string
	Data []byte
}

// Sealed is what a guest function answered.
type Sealed struct {
	Result []byte // canonical JSON
	Frames []Frame
}

// Frame returns the named frame's bytes, nil for none.
func (s Sealed) Frame(name string) []byte {
	for _, f := range s.Frames {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

// Caller is an authenticated identity in its factory.
type Caller struct {
	Factory   string
	Principal string
}

// Engine serves one composition of store and sandbox. Of its own it keeps only results that it could compute again, so any
// number of nodes may share a store.
type Engine struct {
	store    Store
	sandbox  Sandbox
	screener Screener // nil screens nothing
	host     models.Host
	log      *slog.Logger

	turns    *recalled[models.Reconstruction]
	requests *recalled[models.Reproduction]
	found    *recalled[models.Screening]
	judged   *recalled[bool] // waiting tickets: whether something holds them
}

// Screener finds credentials of a known form in a text, and never answers their value.
type Screener interface {
	// RuleSet names library, rules and choice: a profile pins it.
	RuleSet() models.Digest
	// Screen looks at the text as it stands. Findings are sorted, each there once.
	Screen(text []byte) []models.Finding
}

// New composes an engine. build is the release's version and the digest of its module files; a profile names it.
func New(store Store, sandbox Sandbox, build string, log *slog.Logger) *Engine {
	kind, major := store.Kind()
	_, catalogue := sandbox.Catalogue()
	return &Engine{store: store, sandbox: sandbox, log: log, turns: newRecalled[models.Reconstruction](recallEntries),
		requests: newRecalled[models.Reproduction](recallEntries), found: newRecalled[models.Screening](recallEntries), judged: newRecalled[bool](judgedEntries), host: models.Host{
			Build: build, Catalogue: catalogue, Module: sandbox.Module(), Rules: kernel.CurrentRules(), Store: kind, StoreMajor: major,
		}}
}

// Screens makes the engine screen records for credentials. It returns the engine, and is for composing one.
func (e *Engine) Screens(s Screener) *Engine {
	e.screener, e.host.Screening = s, s.RuleSet()
	return e
}

// Host is the composition that profiles must cover.
func (e *Engine) Host() models.Host { return e.host }

// Answer is the saved receipt of a command. Repeat tells that the command had been accepted before.
type Answer struct {
	Body   []byte
	Repeat bool
}

// errMoved asks for another reconstruction: the run moved on between it and the transaction.
var errMoved = errors.New("the run moved on")

// maxRebuilds bounds how often an admission reconstructs anew before it answers busy.
const maxRebuilds = 3

// Do executes a command for a run. id is the caller's own: the claim id, the request id, or that of the batch. An error
// that is a *models.Refusal is the answer; nothing was written.
func (e *Engine) Do(ctx context.Context, caller Caller, run, id string, c models.Command) (Answer, error) {
	return e.execute(ctx, caller, run, id, c)
}

// execute is Do with blobs of the run that the commit keeps.
func (e *Engine) execute(ctx context.Context, caller Caller, run, id string, c models.Command, kept ...Blob) (Answer, error) {
	if !costly(c) {
		return e.do(ctx, caller, run, id, c, nil)
	}
	switch repeat, done, err := e.ask(ctx, caller, run, id, c); {
	case repeat:
		return e.do(ctx, caller, run, id, c, nil) // the store answers it once it is as durable as a commit of now
	case done || err != nil:
		return Answer{}, err
	}
	for range maxRebuilds {
		v, err := e.view(ctx, caller, run)
		if err != nil {
			return Answer{}, err
		}
		e.access(ctx, caller, run, "admission")
		built, err := e.prepare(ctx, caller.Factory, v, c, false)
		if err != nil {
			return Answer{}, err
		}
		built.blobs = append(built.blobs, kept...)
		answer, err := e.do(ctx, caller, run, id, c, &built)
		if !errors.Is(err, errMoved) {
			return answer, err
		}
	}
	return Answer{}, models.Refuse(models.CodeBusy)
}

// ask decides without locks and without a reconstruction: a refusal is the answer, and so is a saved receipt.
func (e *Engine) ask(ctx context.Context, caller Caller, run, id string, c models.Command) (repeat, done bool, err error) {
	v, err := e.view(ctx, caller, run)
	if err != nil {
		return false, false, err
	}
	kept, err := e.store.Receipt(ctx, key(caller, run, id, c))
	if err != nil && !errors.Is(err, ErrNotFound) {
		return false, false, unavailable(err)
	}
	var receipt *Receipt
	if err == nil {
		receipt = &kept
	}
	env := e.env(caller, v.factory, v.state, c, v.now, v.lease, saved(run, caller.Principal, c, receipt))
	if env.Pending, err = e.store.Pending(ctx, caller.Factory); err != nil {
		return false, false, unavailable(err)
	}
	_, refusal := kernel.Decide(v.state, id, c, env)
	switch {
	case refusal == nil:
		return true, true, nil
	case refusal.Code == models.CodeReconstructionMissing:
		return false, false, nil
	}
	return false, true, refusal
}

// do is the transaction, with cached states that can be read.
func (e *Engine) do(ctx context.Context, caller Caller, run, id string, c models.Command, built *rebuilt) (Answer, error) {
	return mending(ctx, e, func() (Answer, error) { return e.transact(ctx, caller, run, id, c, built) })
}

// transact is the transaction: lock, load, read the clock, decide, seal, append.
func (e *Engine) transact(ctx context.Context, caller Caller, run, id string, c models.Command, built *rebuilt) (Answer, error) {
	locks := Locks{Factory: caller.Factory, Run: run, Receipt: key(caller, run, id, c), Blobs: named(c), Queue: built != nil}
	var answer Answer
	err := e.store.Append(ctx, locks, func(l Loaded) (*Write, error) {
		f, s, err := decode(caller.Factory, run, l.Factory, l.Run)
		if err != nil {
			return nil, err
		}
		env := e.env(caller, f, s, c, l.Now, l.Lease, saved(run, caller.Principal, c, l.Saved))
		env.Missing, env.Pending = l.Missing, l.Pending
		if env.Admission, err = admission(s, c, l.Rows); err != nil {
			return nil, err
		}
		if built != nil {
			if built.recount.Head != s.Head {
				return nil, errMoved
			}
			built.fill(&env)
		}
		if refusal := steady(&env, max(l.Run.At, l.Factory.At)); refusal != nil {
			return nil, refusal
		}
		events, refusal := kernel.Decide(s, id, c, env)
		if refusal != nil {
			return nil, refusal
		}
		if events == nil {
			answer = Answer{Body: l.Saved.Body, Repeat: true}
			return nil, nil
		}
		// Who opened a run stands in no journal: only that principal becomes its original actor.
		if _, ok := c.(models.RegisterRun); ok && l.Opener != caller.Principal {
			return nil, models.Refuse(models.CodeRunExists, models.D("run", run))
		}
		rows, after, err := kernel.Rows(s, id, c, env, events)
		if err != nil {
			return nil, err
		}
		receipt, err := receiptFor(locks.Receipt, run, caller.Principal, c, kernel.Receipt(after, c, rows, events))
		if err != nil {
			return nil, err
		}
		w := &Write{Rows: rows, State: encode(after), Rules: f.Rules, Receipt: receipt}
		w.stand(after, inForce(s, after, l.Lease))
		for _, k := range kernel.OnceKeys(events) {
			w.Once = append(w.Once, Once(k))
		}
		if built != nil {
			w.Blobs = built.blobs
		}
		answer = Answer{Body: receipt.Body}
		return w, nil
	})
	return answer, e.outcome(err)
}

// DoFactory executes a command of the factory's own journal.
func (e *Engine) DoFactory(ctx context.Context, caller Caller, id string, c models.Command) (Answer, error) {
	return mending(ctx, e, func() (Answer, error) { return e.transactFactory(ctx, caller, id, c) })
}

func (e *Engine) transactFactory(ctx context.Context, caller Caller, id string, c models.Command) (Answer, error) {
	locks := Locks{Factory: caller.Factory, Exclusive: true, Receipt: Key{Factory: caller.Factory, Space: SpaceFactory, ID: id}}
	var answer Answer
	err := e.store.Append(ctx, locks, func(l Loaded) (*Write, error) {
		f, err := decodeFactory(caller.Factory, l.Factory)
		if err != nil {
			return nil, err
		}
		env := models.Env{Actor: caller.Principal, At: l.Now, Clock: models.ClockStore, Factory: f, FactoryHead: kernel.FactoryHead(f),
			Saved: saved("", caller.Principal, c, l.Saved)}
		// A run's row names the factory's head that it stands on, and the one that takes its place is not older than it.
		if refusal := steady(&env, max(l.Factory.At, l.Newest)); refusal != nil {
			return nil, refusal
		}
		events, refusal := kernel.DecideFactory(id, c, env)
		if refusal != nil {
			return nil, refusal
		}
		if events == nil {
			answer = Answer{Body: l.Saved.Body, Repeat: true}
			return nil, nil
		}
		rows, after, err := kernel.FactoryRows(f, id, c, env, events)
		if err != nil {
			return nil, err
		}
		receipt, err := receiptFor(locks.Receipt, "", caller.Principal, c, kernel.FactoryReceipt(rows, events))
		if err != nil {
			return nil, err
		}
		answer = Answer{Body: receipt.Body}
		w := &Write{Rows: rows, State: kernel.EncodeFactory(after), Rules: after.Rules, Receipt: receipt}
		if p, ok := c.(models.PutPrincipal); ok && p.Removed {
			w.Gone = p.ID // put back, the principal is given new tokens: the old ones may be anywhere
		}
		return w, nil
	})
	return answer, e.outcome(err)
}

// env gathers the facts that this command reads and no more, so that an ordinary row stays small (design, The journal).
func (e *Engine) env(caller Caller, f models.Factory, s kernel.State, c models.Command, now, lease models.Instant, saved string) models.Env {
	env := models.Env{Actor: caller.Principal, At: now, Clock: models.ClockStore, Factory: f, FactoryHead: kernel.FactoryHead(f),
		Saved: saved}
	if s.Lease.Live {
		env.LeaseExpires = lease
	}
	if t, ok := s.Tickets.Last(); costly(c) || ok && t.Outstanding() {
		env.Host = e.host
	}
	return env
}

// admission reads the two rows that admitted the outstanding ticket, for a claim of it or a batch under it: the ticket in the
// cached state must be the one that they made (BOUND-07).
func admission(s kernel.State, c models.Command, rows func(from, limit int64) ([]models.Row, error)) (*models.Digest, error) {
	switch c.(type) {
	case models.ClaimRun, models.Append:
	default:
		return nil, nil
	}
	t, ok := s.Tickets.Last()
	if !ok || !t.Outstanding() {
		return nil, nil
	}
	list, err := rows(t.SettledSeq, 2)
	if err != nil {
		return nil, err
	}
	made := kernel.AdmissionOf(list)
	return &made, nil
}

// steady keeps a journal's time from going back: up to MaxClockLag behind the head the head's time stands, and the row
// says so; further behind nothing is written.
func steady(env *models.Env, head models.Instant) *models.Refusal {
	switch {
	case env.At >= head:
	case head-env.At <= models.MaxClockLag:
		env.At, env.Clock = head, models.ClockHead
	default:
		return models.Refuse(models.CodeClockBehind, models.D("behind_us", int64(head-env.At)))
	}
	return nil
}

// inForce is the expiry that the store keeps after a command: that of a new claim or grant, and for a claim that goes on
// what a renewal left there.
func inForce(before, after kernel.State, lease models.Instant) models.Instant {
	switch {
	case after.Lease.Live && before.Lease.Live && before.Lease.Fence == after.Lease.Fence:
		return lease
	case after.Lease.Live || after.Lease.Granted:
		return after.Lease.ExpiresAt
	}
	return 0
}

// stand says what the run leaves beside its rows: who may claim it, until when, and what waits.
func (w *Write) stand(s kernel.State, lease models.Instant) {
	w.Lease, w.Reclaim, w.Verify = lease, kernel.Reclaimable(s), kernel.Verifiable(s)
	if entry := kernel.Queue(s); entry != nil {
		w.Queue = &QueueEntry{Run: s.Run, Request: entry.Request, Expires: entry.Expires, Pool: entry.Pool}
	}
	if t, ok := s.Tickets.Last(); ok && t.Outstanding() {
		w.Outstanding = t.RequestID
	}
}

// saved compares a command with the receipt under its id. Ids of requests and recoveries are one space for the whole factory: one
// that another run used is not this command's (FLOW-12).
func saved(run, actor string, c models.Command, r *Receipt) string {
	switch {
	case r == nil:
		return models.SavedNone
	case r.Run != run:
		return models.SavedOther
	}
	if d, err := models.CommandDigest(actor, c); err == nil && d == r.Digest {
		return models.SavedSame
	}
	return models.SavedOther
}

func receiptFor(k Key, run, actor string, c models.Command, body []byte) (Receipt, error) {
	d, err := models.CommandDigest(actor, c)
	return Receipt{Key: k, Run: run, Digest: d, Actor: actor, Body: body}, err
}

// key names the receipt of a caller's command. The server's own have a space of their own: whoever used such an id before keeps
// nothing of it away.
func key(caller Caller, run, id string, c models.Command) Key {
	factory := caller.Factory
	switch c.(type) {
	case models.AnnotateStartup, models.AdmitVerification:
		if caller.Principal == models.ServerActor {
			return Key{Factory: factory, Space: SpaceServer, Run: run, ID: id}
		}
	case models.RegisterRun:
		return Key{Factory: factory, Space: SpaceRun, ID: id}
	case models.ClaimRun:
		return Key{Factory: factory, Space: SpaceClaim, Run: run, ID: id}
	case models.RequestContinuity:
		return Key{Factory: factory, Space: SpaceRequest, ID: id}
	case models.RecoverNeverClaimed, models.RecoverRefusedBoundary, models.RecoverReadonlyObservation:
		return Key{Factory: factory, Space: SpaceRecovery, ID: id}
	}
	return Key{Factory: factory, Space: SpaceCommand, Run: run, ID: id}
}

// named returns the blobs that must be kept before the command's rows may name them.
func named(c models.Command) []models.Digest {
	switch c := c.(type) {
	case models.RegisterRun:
		return models.Blobs(models.RunRegistered{Registration: c.Registration})
	case models.Append:
		var list []models.Digest
		for _, f := range c.Facts {
			for _, d := range models.Blobs(f) {
				if !d.IsZero() { // the kernel refuses a zero digest by name
					list = append(list, d)
				}
			}
		}
		return list
	case models.Reconcile:
		return models.Blobs(models.EffectReconciled{Evidence: c.Evidence, Result: c.Result})
	}
	return nil
}

func decodeFactory(factory string, c Cached) (models.Factory, error) {
	if c.Head.Seq == 0 {
		return models.Factory{Factory: factory}, nil
	}
	if c.Rules > kernel.CurrentRules() {
		return models.Factory{}, models.Refuse(models.CodeRulesNewer, models.D("rules", c.Rules))
	}
	key := models.PlainDigest(c.State)
	if f, ok := factories.get(key); ok {
		return *f, nil
	}
	f, err := kernel.DecodeFactory(c.State)
	if err != nil {
		return f, &unreadable{factory: factory, cause: err}
	}
	factories.keep(key, &f, len(c.State))
	return f, nil
}

// factories are states of factories that were read, by the digest of their bytes, of which each is a pure function. Every command
// reads its factory's and hardly any changes it: reading it took an eighth of an append. Nobody changes one: the kernel makes another.
var factories = newStates[models.Factory](recallEntries)

// states are likewise those of runs: what an append wrote is what the next one of the run reads. One takes some 20 KiB, and as much
// more as a policy lets it have tickets, or a factory principals: so their bytes are bounded too, of each kind.
var states = newStates[kernel.State](stateEntries)

const (
	stateEntries = 1024
	stateBytes   = 64 << 20
)

func newStates[T any](most int) *recalled[T] {
	r := newRecalled[T](most)
	r.room = stateBytes
	return r
}

func decode(factory, run string, fc, rc Cached) (models.Factory, kernel.State, error) {
	f, err := decodeFactory(factory, fc)
	if err != nil {
		return f, kernel.State{}, err
	}
	if rc.Head.Seq == 0 {
		return f, kernel.State{Factory: factory, Run: run}, nil
	}
	if rc.Rules > kernel.CurrentRules() {
		return f, kernel.State{}, models.Refuse(models.CodeRulesNewer, models.D("rules", rc.Rules))
	}
	key := models.PlainDigest(rc.State)
	if s, ok := states.get(key); ok {
		return f, *s, nil
	}
	s, err := kernel.DecodeState(rc.State)
	if err != nil {
		return f, s, &unreadable{factory: factory, run: run, cause: err}
	}
	states.keep(key, &s, len(rc.State))
	return f, s, nil
}

// encode is the text of a state, which is remembered as what that text says (kernel, K1).
func encode(s kernel.State) []byte {
	text := s.Encode()
	states.keep(models.PlainDigest(text), &s, len(text))
	return text
}

// outcome turns a store's sentinels into refusals; everything else stays as it is.
func (e *Engine) outcome(err error) error {
	switch {
	case errors.Is(err, ErrNotFound):
		return models.Refuse(models.CodeNotFound)
	case errors.Is(err, ErrTaken):
		return models.Refuse(models.CodeRequestConflict)
	case errors.Is(err, ErrFull):
		return models.Refuse(models.CodeContentFull, models.D("limit", int64(models.MaxRunBytes)))
	case errors.Is(err, ErrUnavailable):
		return unavailable(err)
	}
	return err
}

// unavailable keeps the cause for the log and shows 503.
func unavailable(err error) error {
	return fmt.Errorf("%w: %w", models.Refuse(models.CodeUnavailable), err)
}

// access is the record of who looked at a run's source custody, and why (FLOW-16). It names no content.
func (e *Engine) access(ctx context.Context, caller Caller, run, purpose string) {
	e.log.InfoContext(ctx, "access", "factory", caller.Factory, "actor", caller.Principal, "run", run, "purpose", purpose)
}

// NewSalt draws a run's salt.
func NewSalt() (salt [32]byte, err error) {
	_, err = rand.Read(salt[:])
	return salt, err
}
