package engine

import (
	"bytes"
	"context"
	"errors"
	"iter"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/kernel/ticket"
	"github.com/forge-continuity/forge/models"
)

// pageRows is how many rows one read of the store returns.
const pageRows = 1000

// view is a run and its factory as they stood, read without locks.
type view struct {
	factory models.Factory
	state   kernel.State
	run     RunInfo
	now     models.Instant
	lease   models.Instant
}

func (e *Engine) view(ctx context.Context, caller Caller, run string) (view, error) {
	return mending(ctx, e, func() (view, error) { return e.look(ctx, caller, run) })
}

func (e *Engine) look(ctx context.Context, caller Caller, run string) (view, error) {
	now, err := e.store.Stand(ctx, caller.Factory, run)
	if err != nil {
		return view{}, e.outcome(err)
	}
	f, s, err := decode(caller.Factory, run, now.Factory, now.Run.Cached)
	return view{factory: f, state: s, run: now.Run, now: max(now.Now, now.Run.Cached.At), lease: now.Run.Lease}, err
}

// Factory returns the factory as it stands, for a caller who is a principal of it with one of the roles.
func (e *Engine) Factory(ctx context.Context, caller Caller, roles ...string) (models.Factory, error) {
	f, err := e.factory(ctx, caller.Factory)
	if err != nil {
		return f, err
	}
	if r := may(f, caller.Principal, roles...); r != nil {
		return f, r
	}
	return f, nil
}

func (e *Engine) factory(ctx context.Context, factory string) (models.Factory, error) {
	return mending(ctx, e, func() (models.Factory, error) {
		c, err := e.store.Factory(ctx, factory)
		if err != nil {
			return models.Factory{}, e.outcome(err)
		}
		return decodeFactory(factory, c)
	})
}

// may asks for an identity that is still there and one of the roles.
func may(f models.Factory, actor string, roles ...string) *models.Refusal {
	if _, ok := f.Principal(actor); !ok {
		return models.Refuse(models.CodeIdentityMissing)
	}
	for _, role := range roles {
		if f.Has(actor, role) {
			return nil
		}
	}
	return models.Refuse(models.CodeRoleMissing, models.D("role", roles[0]))
}

// Anyone is every role: for what each principal of the factory may read.
var Anyone = []string{models.RoleReader, models.RoleOperator, models.RoleAdministrator, models.RoleWorker}

// RunView is a run as shown to people: its tickets, what holds it, and what could be reconciled, at Now. State is as the rows have
// it, so a lease that has ended by time may still stand there.
type RunView struct {
	Run      RunInfo
	State    kernel.State
	Now      models.Instant
	Lease    models.Instant
	Position string
	Tickets  []ticket.Ticket
	Holds    []*models.Refusal
	Unknown  []models.EffectReconciled

	Verifiable bool // automatic verification is to enter
}

// Run returns a run for a caller with one of the roles.
func (e *Engine) Run(ctx context.Context, caller Caller, run string, roles ...string) (RunView, error) {
	v, err := e.view(ctx, caller, run)
	if err != nil {
		return RunView{}, err
	}
	if r := may(v.factory, caller.Principal, roles...); r != nil {
		return RunView{}, r
	}
	env := e.env(caller, v.factory, v.state, models.ClaimRun{}, v.now, v.lease, models.SavedNone)
	return RunView{Run: v.run, State: v.state, Now: v.now, Lease: v.lease, Position: kernel.Position(v.state, v.now, v.lease),
		Tickets: kernel.Tickets(v.state, v.now, v.lease), Holds: kernel.Holds(v.state, env, v.lease),
		Unknown: kernel.Unknown(v.state, v.now, v.lease), Verifiable: kernel.Verifiable(v.state)}, nil
}

// Runs returns run ids after the one named.
func (e *Engine) Runs(ctx context.Context, caller Caller, after string, limit int64) ([]string, error) {
	if _, err := e.Factory(ctx, caller, Anyone...); err != nil {
		return nil, err
	}
	ids, err := e.store.Runs(ctx, caller.Factory, after, limit)
	return ids, e.outcome(err)
}

// Rows returns rows of a run, or with an empty run those of the factory's own journal.
func (e *Engine) Rows(ctx context.Context, caller Caller, run string, from, limit int64) ([]models.Row, error) {
	if _, err := e.Factory(ctx, caller, Anyone...); err != nil {
		return nil, err
	}
	if run != "" {
		if _, err := e.store.Run(ctx, caller.Factory, run); err != nil {
			return nil, e.outcome(err)
		}
	}
	rows, err := e.store.Rows(ctx, caller.Factory, run, from, min(limit, pageRows))
	return rows, e.outcome(err)
}

// Receipt returns the saved answer under an id of the run, as the command saved it.
func (e *Engine) Receipt(ctx context.Context, caller Caller, run, id string, c models.Command, roles ...string) (Receipt, error) {
	if _, err := e.Factory(ctx, caller, roles...); err != nil {
		return Receipt{}, err
	}
	r, err := e.store.Receipt(ctx, key(caller, run, id, c))
	if err != nil {
		return r, e.outcome(err)
	}
	if r.Run != run {
		return Receipt{}, models.Refuse(models.CodeNotFound)
	}
	return r, nil
}

// Candidate computes what could be admitted now. It reads and writes nothing else (FLOW-08), and names who looked.
func (e *Engine) Candidate(ctx context.Context, caller Caller, run string) (models.Candidate, error) {
	if _, err := e.Factory(ctx, caller, models.RoleOperator); err != nil {
		return models.Candidate{}, err
	}
	v, err := e.view(ctx, caller, run)
	if err != nil {
		return models.Candidate{}, err
	}
	if v.state.Registered.IsZero() {
		return models.Candidate{}, models.Refuse(models.CodeNotFound)
	}
	e.access(ctx, caller, run, "candidate")
	env := e.env(caller, v.factory, v.state, models.RequestContinuity{}, v.now, v.lease, models.SavedNone)
	built, err := e.rebuild(ctx, caller.Factory, v, true)
	if err != nil {
		return models.Candidate{}, err
	}
	built.fill(&env)
	return kernel.Candidate(v.state, env), nil
}

// recount folds every row again, since a candidate never trusts the cached state (design, The kernel).
func (e *Engine) recount(ctx context.Context, factory string, v view) (models.Recount, error) {
	var readErr error
	history, refusal := kernel.ReplayFactory(e.scan(ctx, factory, "", 1<<62, &readErr))
	if readErr != nil {
		return models.Recount{}, readErr
	}
	// The factory's cached state is read by every command; here it is laid beside its rows too.
	if f, r := history.At(kernel.FactoryHead(v.factory)); refusal != nil || r != nil || !bytes.Equal(kernel.EncodeFactory(f), kernel.EncodeFactory(v.factory)) {
		return models.Recount{BrokenAt: 1, Head: v.state.Head}, nil
	}
	s, refusal := kernel.Replay(e.scan(ctx, factory, v.run.Run, v.state.Head.Seq, &readErr), history)
	if readErr != nil {
		return models.Recount{}, readErr
	}
	n := kernel.Recounted(v.state, s, refusal)
	n.Head = v.state.Head
	return n, nil
}

// scan yields the rows up to and including the one numbered last. The next page is read while this one is worked on.
func (e *Engine) scan(ctx context.Context, factory, run string, last int64, failed *error) iter.Seq[models.Row] {
	type page struct {
		rows []models.Row
		err  error
	}
	return func(yield func(models.Row) bool) {
		ctx, stop := context.WithCancel(ctx)
		pages := make(chan page, 1)
		go func() {
			defer close(pages)
			for from := int64(1); from <= last; {
				rows, err := e.store.Rows(ctx, factory, run, from, min(pageRows, last-from+1))
				pages <- page{rows, err} // is always taken, so that an error never looks like the end
				if err != nil || len(rows) == 0 {
					return
				}
				from += int64(len(rows))
			}
		}()
		defer func() {
			stop()
			for range pages { // nobody reads the store for this any more
			}
		}()
		for p := range pages {
			if p.err != nil {
				*failed = e.outcome(p.err)
				return
			}
			for _, r := range p.rows {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// OpenRun makes a run, which has a salt and no rows until it is registered, and tells whether this call made it. Only its
// opener is answered the salt again.
func (e *Engine) OpenRun(ctx context.Context, caller Caller, run string) (info RunInfo, created bool, err error) {
	if _, err := e.Factory(ctx, caller, models.RoleOperator); err != nil {
		return RunInfo{}, false, err
	}
	if !models.ValidID(run) {
		return RunInfo{}, false, models.Refuse(models.CodeRequestMalformed, models.D("member", "run_id"))
	}
	salt, err := NewSalt()
	if err != nil {
		return RunInfo{}, false, err
	}
	info, err = e.store.OpenRun(ctx, caller.Factory, run, caller.Principal, salt)
	if err != nil {
		return RunInfo{}, false, e.outcome(err)
	}
	if info.Opener != caller.Principal {
		return RunInfo{}, false, models.Refuse(models.CodeRunExists, models.D("run", run))
	}
	return info, info.Salt == salt, nil
}

// Salt returns a run's salt to the owner of its live claim under the fence, or before registration to its opener.
func (e *Engine) Salt(ctx context.Context, caller Caller, run string, fence int64) ([32]byte, error) {
	v, err := e.mayPut(ctx, caller, run, fence)
	return v.run.Salt, err
}

// mayPut lets the opener put blobs before the first claim, and afterwards the live owner under its fence.
func (e *Engine) mayPut(ctx context.Context, caller Caller, run string, fence int64) (view, error) {
	v, err := e.view(ctx, caller, run)
	if err != nil {
		return v, err
	}
	if r := may(v.factory, caller.Principal, models.RoleOperator, models.RoleWorker); r != nil {
		return v, r
	}
	if v.state.Lease.Fence == 0 && !v.state.Lease.Live {
		if v.run.Opener != caller.Principal {
			return v, models.Refuse(models.CodeFenceLost, models.D("fence", fence), models.D("current", int64(0)))
		}
		return v, nil
	}
	env := models.Env{Actor: caller.Principal, At: v.now, Factory: v.factory, LeaseExpires: v.lease}
	if r := kernel.Own(v.state, fence, env); r != nil {
		return v, r
	}
	return v, nil
}

// PutBlob keeps content of a run under the salted digest that the sender computed; other bytes are refused.
func (e *Engine) PutBlob(ctx context.Context, caller Caller, run string, fence int64, digest models.Digest, data []byte) error {
	v, err := e.mayPut(ctx, caller, run, fence)
	if err != nil {
		return err
	}
	if models.SaltedBlob(v.run.Salt, data) != digest {
		return models.Refuse(models.CodeBlobMismatch, models.D("digest", digest))
	}
	return e.outcome(e.store.PutBlob(ctx, caller.Factory, run, Blob{Digest: digest, Data: data}, models.MaxRunBytes))
}

// Blob returns content of a run. Readers of the factory may read it; the access is recorded.
func (e *Engine) Blob(ctx context.Context, caller Caller, run string, digest models.Digest) ([]byte, error) {
	if _, err := e.Factory(ctx, caller, Anyone...); err != nil {
		return nil, err
	}
	e.access(ctx, caller, run, "blob")
	info, err := e.store.Run(ctx, caller.Factory, run)
	if err != nil {
		return nil, e.outcome(err)
	}
	data, err := e.store.Blob(ctx, caller.Factory, run, digest)
	if err != nil {
		return nil, e.outcome(err)
	}
	// A worker goes on from what it is handed, so bytes that were changed underneath are never handed out.
	if models.SaltedBlob(info.Salt, data) != digest {
		return nil, models.Refuse(models.CodeBlobMismatch, models.D("digest", digest))
	}
	return data, nil
}

// Ready reports whether the store answers.
func (e *Engine) Ready(ctx context.Context) error {
	if _, err := e.store.Now(ctx); err != nil {
		return unavailable(err)
	}
	return nil
}

// IsRefusal returns the refusal that an error carries, if it is one.
func IsRefusal(err error) (*models.Refusal, bool) {
	var r *models.Refusal
	ok := errors.As(err, &r)
	return r, ok
}
