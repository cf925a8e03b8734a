package api_test

import (
	"flag"
	"path/filepath"
	"testing"

	"github.com/forge-continuity/forge/adapters/postgres"
	"github.com/forge-continuity/forge/adapters/postgres/pgtest"
	"github.com/forge-continuity/forge/adapters/sqlite"
	"github.com/forge-continuity/forge/server/api/apitest"
	"github.com/forge-continuity/forge/server/engine"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// stores are those that every test runs on; each opens an empty store that ends with the test.
var stores = []struct {
	name string
	open func(testing.TB) engine.Store
}{
	{"sqlite", openSQLite},
	{"postgres", openPostgres},
}

func openSQLite(tb testing.TB) engine.Store {
	tb.Helper()
	s, err := sqlite.Open(tb.Context(), filepath.Join(tb.TempDir(), "forge.db"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func openPostgres(tb testing.TB) engine.Store {
	tb.Helper()
	s, err := postgres.Open(tb.Context(), pgtest.Open(tb))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func TestMain(m *testing.M) { pgtest.Main(m) }

// each runs a test once for every store, in a world of its own over a fake sandbox.
func each(t *testing.T, o apitest.Options, test func(*testing.T, *apitest.World)) {
	t.Helper()
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := apitest.Start(t, s.open(t), &apitest.Fake{}, o)
			w.Seen = conforms(t)
			test(t, w)
		})
	}
}
