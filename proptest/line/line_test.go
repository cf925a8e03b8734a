// Package line runs the whole product: recorded runs, loaded through the public API over a real store, reconstructed in the
// real sandbox, continued by a worker against the provider stub. Every test here runs on both stores.
package line

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/forge-continuity/forge/adapters/postgres"
	"github.com/forge-continuity/forge/adapters/postgres/pgtest"
	"github.com/forge-continuity/forge/adapters/sealed"
	"github.com/forge-continuity/forge/adapters/sqlite"
	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/fixtures/provider"
	"github.com/forge-continuity/forge/fixtures/recordings"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api/apitest"
	"github.com/forge-continuity/forge/server/engine"
)

var stores = []struct {
	name string
	open func(*testing.T) engine.Store
}{
	{"sqlite", func(t *testing.T) engine.Store {
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "forge.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}},
	{"postgres", func(t *testing.T) engine.Store {
		s, err := postgres.Open(t.Context(), pgtest.Open(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}},
}

// box is the real sandbox with the embedded module, one for the whole process.
var box = sync.OnceValues(func() (*sealed.Sandbox, error) { return sealed.Open(context.Background(), "") })

func sandbox(t testing.TB) *sealed.Sandbox {
	t.Helper()
	s, err := box()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// stage is a world with the real sandbox, and clients with a token of each principal.
type stage struct {
	*apitest.World
	admin, dana, operator, worker *forge.Client
	recording                     *recordings.Recording
}

func setUp(t *testing.T, store engine.Store, version string, o apitest.Options) *stage {
	t.Helper()
	return setUpOn(t, store, sandbox(t), version, o)
}

// setUpOn is setUp with another sandbox.
func setUpOn(t *testing.T, store engine.Store, box engine.Sandbox, version string, o apitest.Options) *stage {
	t.Helper()
	r, err := recordings.Held(version)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{World: apitest.Start(t, store, box, o), recording: r}
	client := func(principal string) *forge.Client {
		c, err := forge.New(s.URL, s.Tokens[principal], nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	s.admin, s.dana, s.operator, s.worker = client(apitest.Administrator), client(apitest.Dana), client(apitest.Operator), client(apitest.Worker)
	if err := load.PutRecords(t.Context(), s.admin, r); err != nil {
		t.Fatal(err)
	}
	return s
}

// each runs a test on every store, with the policy enabled.
func each(t *testing.T, version string, test func(*testing.T, *stage)) {
	t.Helper()
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			test(t, setUp(t, s.open(t), version, apitest.Options{Policy: apitest.Enabled()}))
		})
	}
}

// held loads the recording as a run of dana's, and returns its candidate.
func (s *stage) held(t *testing.T, run string, o load.Options) models.Candidate {
	t.Helper()
	if _, err := load.Held(t.Context(), s.dana, s.worker, s.recording, run, o); err != nil {
		t.Fatal(err)
	}
	return s.candidate(t, run)
}

func (s *stage) candidate(t *testing.T, run string) models.Candidate {
	t.Helper()
	c, err := s.dana.Candidate(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func codes(c models.Candidate) []models.Code {
	var list []models.Code
	for _, h := range c.Holds {
		list = append(list, h.Code)
	}
	return list
}

func has(c models.Candidate, code models.Code) bool { return slices.Contains(codes(c), code) }

func (s *stage) provider(t *testing.T) (*provider.Server, string) {
	t.Helper()
	stub := provider.New(provider.Held())
	server := httptest.NewServer(stub)
	t.Cleanup(server.Close)
	return stub, server.URL
}
