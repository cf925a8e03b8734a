// Package conformance is the one suite that every store passes. A rule about stores starts here: it is a Check, which
// answers with an error rather than a failed test, so that a test can also show that a broken store does not pass.
package conformance

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// checkTimeout bounds one check, so that a store that forgets a lock fails instead of hanging.
const checkTimeout = 2 * time.Minute

// Nodes are what a check works on: two stores open on the same database, as two nodes (or two connections of one process)
// would be, and a way to open a third. Each check uses factories of its own, so nodes may be shared by many.
type Nodes struct {
	A, B engine.Store
	Open func() (engine.Store, error)
}

// Check is one rule of a store. Do returns what is wrong, or nil.
type Check struct {
	Name string
	Do   func(ctx context.Context, w *World) error
}

// World is one check's part of the database.
type World struct {
	Nodes
	Factory string
}

// worlds numbers them, so that no check meets the rows of another.
var worlds atomic.Int64

// Enter makes a world of its own on the nodes; its factory does not exist yet.
func Enter(n Nodes) *World {
	return &World{Nodes: n, Factory: fmt.Sprintf("factory-%d", worlds.Add(1))}
}

// Checks returns the suite, without the state machine.
func Checks() []Check {
	var all []Check
	for _, part := range [][]Check{journalChecks, loadedChecks, lockChecks, contentChecks, lifeChecks, nativeChecks} {
		all = append(all, part...)
	}
	return all
}

// Run runs the suite and the state machine. Every call of open within one Run opens the same database again; the store it
// returns is closed by whoever asked for it.
func Run(t *testing.T, open func(t *testing.T) engine.Store) {
	nodes := Nodes{A: open(t), B: open(t), Open: func() (engine.Store, error) { return open(t), nil }}
	t.Cleanup(func() {
		for _, s := range []engine.Store{nodes.A, nodes.B} {
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	})
	for _, c := range Checks() {
		t.Run(c.Name, func(t *testing.T) {
			if err := c.Run(t.Context(), nodes); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Run("state machine", func(t *testing.T) { Machine(t, nodes.A) })
}

// Run performs the check in a new world.
func (c Check) Run(ctx context.Context, n Nodes) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return c.Do(ctx, Enter(n))
}

// far is an expiry that does not come while a test runs; past is one that went by.
const (
	far  models.Instant = 1 << 60
	past models.Instant = 1
)
