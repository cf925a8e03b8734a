// Package faults breaks things: it kills servers, cuts connections and wakes owners whose time is over, and asks that
// nothing is lost, nothing is written twice, and nobody writes who may not.
package faults

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/forge-continuity/forge/adapters/postgres"
	"github.com/forge-continuity/forge/adapters/postgres/pgtest"
	"github.com/forge-continuity/forge/adapters/sealed"
	"github.com/forge-continuity/forge/adapters/sqlite"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/server/api/apitest"
	"github.com/forge-continuity/forge/server/engine"
)

func TestMain(m *testing.M) { pgtest.Main(tidy{m}) }

// tidy removes the program that the tests built.
type tidy struct{ *testing.M }

func (m tidy) Run() int {
	code := m.M.Run()
	if program != "" {
		_ = os.RemoveAll(filepath.Dir(program))
	}
	return code
}

// store is a kind of database: flags that make forge serve open it, and a way to open it here.
type store struct {
	name string
	// where makes an empty database and returns the flags of forge that name it.
	where func(testing.TB) []string
	open  func(context.Context, []string) (engine.Store, error)
}

var stores = []store{
	{"sqlite", func(t testing.TB) []string { return []string{"--store", filepath.Join(t.TempDir(), "forge.db")} },
		func(ctx context.Context, flags []string) (engine.Store, error) { return sqlite.Open(ctx, flags[1]) }},
	{"postgres", func(t testing.TB) []string { return []string{"--database-url", pgtest.Open(t)} },
		func(ctx context.Context, flags []string) (engine.Store, error) { return postgres.Open(ctx, flags[1]) }},
}

// box is the real sandbox with the embedded module, one for the whole process.
var box = sync.OnceValues(func() (*sealed.Sandbox, error) { return sealed.Open(context.Background(), "") })

// world is a server in this process over a store of its own.
func (s store) world(t *testing.T) *apitest.World {
	t.Helper()
	sandbox, err := box()
	if err != nil {
		t.Fatal(err)
	}
	opened, err := s.open(t.Context(), s.where(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	return apitest.Start(t, opened, sandbox, apitest.Options{})
}

// inProcess is everybody of the stories, at a server in this process. The world's own factory has no part in it.
func (s store) inProcess(t *testing.T) load.People {
	t.Helper()
	w := s.world(t)
	return hire(t, w.URL, administrator(t, w.Engine), nil)
}
