package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// Appends of different runs that arrive while others are on their way share one transaction, so that they share its round
// trips and its commit. Invariants:
//
//  1. Each is judged alone, on what was loaded under its own locks; what one answers changes nothing for the others.
//  2. A group waits for no lock. Who cannot have one at once goes on alone, so a group can be part of no deadlock and holds
//     up nobody behind somebody else's lock.
//  3. A group has at most one append of a run, and no append of a run that another group of this node holds.
//  4. Where the database refuses the group's transaction nothing of it stands, and each goes on alone.
//
// What waits here is only requests in hand: nothing of it outlives them, and other nodes need know nothing of it.
type groups struct {
	store *Store

	mu      sync.Mutex
	waiting []*part
	busy    map[[2]string]bool // factory and run of the parts on their way
	leaders int
	most    int // leaders at once
}

const (
	// maxLeaders is how many groups a node has on their way at once, below its connections so that reads go on.
	maxLeaders = 4
	// maxGroup bounds how many share a transaction, and with it how long its locks are held.
	maxGroup = 32
)

// turn tells a part of a group to decide, or how it ended.
type turn struct {
	decide bool
	served bool // the part's answer is durable; else, without an error, it goes on alone
	err    error
}

func (p *part) key() [2]string { return [2]string{p.locks.Factory, p.locks.Run} }

// append brings p into a group and reports whether that served it. decide runs on the caller's own goroutine.
func (g *groups) append(p *part) (served bool, err error) {
	if err := p.ctx.Err(); err != nil {
		return false, err
	}
	p.turn, p.decided = make(chan turn, 2), make(chan struct{})
	g.join(p)
	var t turn
	select {
	case t = <-p.turn:
	case <-p.ctx.Done():
		if g.leave(p) {
			return false, p.ctx.Err()
		}
		t = <-p.turn
	}
	if !t.decide {
		return t.served, t.err
	}
	if err := p.judgeInGroup(); err != nil {
		return false, err
	}
	if p.write == nil && !p.repeats() {
		return true, nil
	}
	t = <-p.turn
	return t.served, t.err
}

// judgeInGroup lets the group go on also when decide panics; a caller that went away meanwhile writes nothing.
func (p *part) judgeInGroup() error {
	defer close(p.decided)
	done := false
	defer func() {
		if !done {
			p.write = nil
		}
	}()
	p.judge()
	err := p.ctx.Err()
	done = err == nil
	return err
}

func (g *groups) join(p *part) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, p)
	if g.leaders < g.most {
		g.leaders++
		go g.lead()
	}
}

// leave takes back a part that no group has taken yet.
func (g *groups) leave(p *part) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, p)
	if i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	return i >= 0
}

// lead serves groups until nobody waits whose run is free; whoever holds such a run looks again when it is done.
func (g *groups) lead() {
	for {
		parts := g.take()
		if parts == nil {
			return
		}
		g.store.serve(slices.Clone(parts))
		g.mu.Lock()
		for _, p := range parts {
			delete(g.busy, p.key())
		}
		g.mu.Unlock()
	}
}

// take returns the next group in the order of engine.Locks, or nil, which ends the leader.
func (g *groups) take() []*part {
	g.mu.Lock()
	defer g.mu.Unlock()
	var parts, rest []*part
	for _, p := range g.waiting {
		if len(parts) == maxGroup || g.busy[p.key()] {
			rest = append(rest, p)
			continue
		}
		g.busy[p.key()] = true
		parts = append(parts, p)
	}
	g.waiting = rest
	if parts == nil {
		g.leaders--
	}
	slices.SortFunc(parts, func(a, b *part) int {
		return cmp.Or(cmp.Compare(a.locks.Factory, b.locks.Factory), cmp.Compare(a.locks.Run, b.locks.Run))
	})
	return parts
}

// serve is one transaction for a group. It tells every part how it ended.
func (s *Store) serve(parts []*part) {
	ctx, cancel := context.WithTimeout(context.Background(), appendTime)
	defer cancel()
	end := func(t turn) {
		for _, p := range parts {
			p.turn <- t
		}
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		end(turn{err: err})
		return
	}
	defer s.release(ctx, conn)
	if err := load(ctx, conn, parts, false); err != nil {
		end(s.alone(err, 0))
		return
	}
	parts = slices.DeleteFunc(parts, func(p *part) bool {
		out := p.missed || p.failed != nil
		if out {
			p.turn <- turn{err: p.failed}
		} else {
			p.turn <- turn{decide: true}
		}
		return out
	})
	for _, p := range parts {
		<-p.decided
	}
	parts = slices.DeleteFunc(parts, func(p *part) bool { return p.write == nil && !p.repeats() })
	if len(parts) == 0 {
		return
	}
	if err := write(ctx, conn, parts); err != nil {
		end(s.alone(err, len(parts)))
		return
	}
	end(turn{served: true})
}

// alone says how a part of a group of that many goes on after an error. One that the server gave means that nothing stands, so
// each may try alone; only who has no other beside it, be that one a repeat, knows already what it would be told.
func (s *Store) alone(err error, parts int) turn {
	if again(err) {
		s.ended.Add(1)
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (parts != 1 || again(err)) {
		return turn{}
	}
	return turn{err: err}
}
