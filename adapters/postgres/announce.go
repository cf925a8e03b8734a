package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forge-continuity/forge/server/engine"
)

// Announcements wake those who wait for work on any node. An append tells the database only where an entry appears in the
// queue: a NOTIFY in every append would cost four fifths of them, since commits that carry one wait for each other.
const (
	channel   = "forge_work"
	notifySQL = `SELECT pg_notify('` + channel + `', $1)`
	// listenAgain is how long a node waits before it listens again after its connection was lost; those who wait look by
	// themselves meanwhile.
	listenAgain = time.Second
)

var _ engine.Announcer = (*Store)(nil)

// announcements is who waits on this node, by factory. The listening connection is made when the first comes and kept.
type announcements struct {
	config *pgx.ConnConfig
	end    context.CancelFunc
	ended  chan struct{}

	mu      sync.Mutex
	waiting map[string]map[chan struct{}]bool
}

// Announced implements engine.Announcer.
func (s *Store) Announced(factory string) (news <-chan struct{}, stop func()) {
	a := &s.announcements
	c := make(chan struct{}, 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.end == nil {
		ctx, cancel := context.WithCancel(context.Background())
		a.end, a.ended = cancel, make(chan struct{})
		go a.listen(ctx)
	}
	if a.waiting[factory] == nil {
		a.waiting[factory] = map[chan struct{}]bool{}
	}
	a.waiting[factory][c] = true
	return c, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.waiting[factory], c)
		if len(a.waiting[factory]) == 0 {
			delete(a.waiting, factory)
		}
	}
}

func (a *announcements) wake(factory string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.waiting[factory] {
		select {
		case c <- struct{}{}:
		default: // it is awake
		}
	}
}

func (a *announcements) listen(ctx context.Context) {
	defer close(a.ended)
	for ctx.Err() == nil {
		_ = a.hear(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(listenAgain):
		}
	}
}

// hear wakes until the connection is lost.
func (a *announcements) hear(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, a.config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, `LISTEN `+channel); err != nil {
		return err
	}
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		a.wake(n.Payload)
	}
}

func (a *announcements) close() {
	a.mu.Lock()
	end := a.end
	a.mu.Unlock()
	if end != nil {
		end()
		<-a.ended
	}
}
