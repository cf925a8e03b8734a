package engine

import (
	"context"
	"strconv"
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
	for {
		entries, err := e.claimable(ctx, caller, pool, limit)
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

// judgedEntries bounds what a node remembers of tickets that wait, some 200 bytes each. A stop that meets all that wait leaves them in
// front of everything younger until their leases end, and each poll goes past them.
const judgedEntries = 8192

// tagJudged is the domain of the names of such verdicts.
const tagJudged = "forge.judged/1"

// claimable is what the store announces without the tickets that are held. For each that is left out the store is asked further: a
// policy bounds how many wait.
func (e *Engine) claimable(ctx context.Context, caller Caller, pool string, limit int64) ([]QueueEntry, error) {
	var head models.Head // of the factory
	for ask := limit; ; ask *= 2 {
		entries, err := e.store.Work(ctx, caller.Factory, pool, ask)
		if err != nil {
			return nil, e.outcome(err)
		}
		var open []QueueEntry
		for _, entry := range entries {
			if entry.Request != "" {
				if head.Seq == 0 {
					c, err := e.store.Factory(ctx, caller.Factory)
					if err != nil {
						return nil, e.outcome(err)
					}
					head = c.Head
				}
				if holds, err := e.holds(ctx, caller, head, entry); err != nil {
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

// holds judges a waiting ticket. Only the factory's journal can change the verdict while the entry stands, so it is remembered with
// the head of that. A run that is not there, or that cannot be read, has nothing to claim.
func (e *Engine) holds(ctx context.Context, caller Caller, head models.Head, entry QueueEntry) (bool, error) {
	key := models.Tagged(tagJudged, head.Hash[:], []byte(entry.Run), []byte(entry.Request), []byte(entry.Pool), strconv.AppendInt(nil, int64(entry.Expires), 10))
	if is, ok := e.judged.get(key); ok {
		return *is, nil
	}
	v, err := e.view(ctx, caller, entry.Run)
	is := true
	if err == nil {
		env := e.env(caller, v.factory, v.state, models.ClaimRun{}, v.now, v.lease, models.SavedNone)
		is = len(kernel.Holds(v.state, env, v.lease)) > 0
	} else if r, refused := IsRefusal(err); !refused || r.Code == models.CodeUnavailable {
		return false, err
	}
	if err != nil || kernel.FactoryHead(v.factory) == head { // of another one it says nothing
		e.judged.put(key, &is)
	}
	return is, nil
}
