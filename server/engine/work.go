package engine

import (
	"context"
	"time"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
)

// workPoll is how often a waiting poll looks again; it holds no connection in between.
const workPoll = 100 * time.Millisecond

// newsPoll is that of a store that announces work: for leases that lapse, which nobody announces.
const newsPoll = time.Second

// Work announces runs that workers of the pool may claim, at most limit, waiting up to the given time for the first. A ticket that a
// claim would be refused for by what holds it, as GET of the run tells, is left out, and what stands behind it is announced. It hands
// nothing out: a claim does.
func (e *Engine) Work(ctx context.Context, caller Caller, pool string, wait time.Duration, limit int64) ([]QueueEntry, error) {
	if _, err := e.Factory(ctx, caller, models.RoleWorker); err != nil {
		return nil, err
	}
	deadline, every := time.Now().Add(wait), workPoll
	var news <-chan struct{}
	if a, ok := e.store.(Announcer); ok && wait > 0 {
		var stop func()
		news, stop = a.Announced(caller.Factory)
		defer stop()
		every = newsPoll
	}
	known := &judged{}
	for {
		entries, err := e.claimable(ctx, caller, pool, limit, known)
		if err != nil || len(entries) > 0 || !time.Now().Before(deadline) {
			return entries, err
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-news:
		case <-time.After(min(every, time.Until(deadline))):
		}
	}
}

// judged remembers of tickets whether something holds them. Only the factory's journal can change it while the entry stands, so it is
// of one head of that.
type judged struct {
	head models.Digest
	held map[QueueEntry]bool
}

// claimable is what the store announces without the tickets that are held. For each that is left out the store is asked further: a
// policy bounds how many wait.
func (e *Engine) claimable(ctx context.Context, caller Caller, pool string, limit int64, known *judged) ([]QueueEntry, error) {
	var fc Cached
	for ask := limit; ; ask *= 2 {
		entries, err := e.store.Work(ctx, caller.Factory, pool, ask)
		if err != nil {
			return nil, e.outcome(err)
		}
		var open []QueueEntry
		for _, entry := range entries {
			if entry.Request != "" {
				if fc.Head.Seq == 0 {
					if fc, err = e.store.Factory(ctx, caller.Factory); err != nil {
						return nil, e.outcome(err)
					}
				}
				if holds, err := e.holds(ctx, caller, fc, entry, known); err != nil {
					return nil, err
				} else if holds {
					continue
				}
			}
			if open = append(open, entry); int64(len(open)) == limit {
				return open, nil
			}
		}
		if int64(len(entries)) < ask || limit < 1 {
			return open, nil
		}
	}
}

// holds judges a waiting ticket with the factory as read. A run that is not there, or that cannot be read, has nothing to claim.
func (e *Engine) holds(ctx context.Context, caller Caller, fc Cached, entry QueueEntry, known *judged) (bool, error) {
	if known.head != fc.Head.Hash {
		*known = judged{head: fc.Head.Hash, held: map[QueueEntry]bool{}}
	}
	if is, ok := known.held[entry]; ok {
		return is, nil
	}
	is, err := mending(ctx, e, func() (bool, error) {
		info, err := e.store.Run(ctx, caller.Factory, entry.Run)
		if err != nil {
			return false, e.outcome(err)
		}
		now, err := e.store.Now(ctx)
		if err != nil {
			return false, unavailable(err)
		}
		f, s, err := decode(caller.Factory, entry.Run, fc, info.Cached)
		if err != nil {
			return false, err
		}
		env := e.env(caller, f, s, models.ClaimRun{}, max(now, info.Cached.At), info.Lease, models.SavedNone)
		return len(kernel.Holds(s, env, info.Lease)) > 0, nil
	})
	if r, refused := IsRefusal(err); refused && r.Code != models.CodeUnavailable {
		is, err = true, nil
	}
	if err == nil {
		known.held[entry] = is
	}
	return is, err
}
