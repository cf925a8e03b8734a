package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/forge-continuity/forge/kernel"
)

// unreadable reports a cached state that this build cannot read, as an older one may have left it: of a run, or with an
// empty run of the factory.
type unreadable struct {
	factory string
	run     string
	cause   error
}

func (u *unreadable) Error() string {
	return fmt.Sprintf("read cached state of factory %s run %q: %v", u.factory, u.run, u.cause)
}

func (u *unreadable) Unwrap() error { return u.cause }

// mending runs f, and again where it met a cached state that this build cannot read and the rows gave it anew: that of the
// factory, and that of the run. State is a cache and the rows are the record (kernel, K1).
func mending[T any](ctx context.Context, e *Engine, f func() (T, error)) (T, error) {
	for tries := 0; ; tries++ {
		out, err := f()
		var u *unreadable
		if !errors.As(err, &u) || tries == 2 {
			return out, err
		}
		if err := e.mend(ctx, u); err != nil {
			return out, err
		}
	}
}

// mend replays the rows and keeps what they make in place of the cached state. Rows that do not verify make nothing: the
// refusal is journal_broken, or rules_newer.
func (e *Engine) mend(ctx context.Context, u *unreadable) error {
	var failed error
	history, refusal := kernel.ReplayFactory(e.scan(ctx, u.factory, "", 1<<62, &failed))
	if failed != nil {
		return failed
	}
	if refusal != nil {
		return refusal
	}
	if u.run == "" {
		f := history.Last()
		return e.keep(ctx, u, Locks{Factory: u.factory, Exclusive: true}, func(l Loaded) *Write {
			if l.Factory.Head != kernel.FactoryHead(f) {
				return nil
			}
			return &Write{State: kernel.EncodeFactory(f), Rules: f.Rules}
		})
	}
	s, refusal := kernel.Replay(e.scan(ctx, u.factory, u.run, 1<<62, &failed), history)
	if failed != nil {
		return failed
	}
	if refusal != nil {
		return refusal
	}
	return e.keep(ctx, u, Locks{Factory: u.factory, Run: u.run}, func(l Loaded) *Write {
		if l.Run.Head != s.Head {
			return nil
		}
		w := &Write{State: s.Encode(), Rules: s.Rules}
		w.stand(s, l.Lease)
		return w
	})
}

// keep writes the state unless the journal moved on meanwhile.
func (e *Engine) keep(ctx context.Context, u *unreadable, locks Locks, state func(Loaded) *Write) error {
	err := e.store.Append(ctx, locks, func(l Loaded) (*Write, error) { return state(l), nil })
	if err == nil {
		e.log.WarnContext(ctx, "cached state made anew from the rows", "factory", u.factory, "run", u.run, "cause", u.cause.Error())
	}
	return e.outcome(err)
}
