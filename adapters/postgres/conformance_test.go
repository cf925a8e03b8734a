package postgres

import (
	"testing"

	"github.com/forge-continuity/forge/adapters/conformance"
	"github.com/forge-continuity/forge/adapters/postgres/pgtest"
	"github.com/forge-continuity/forge/server/engine"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestConformance(t *testing.T) {
	url := pgtest.Open(t)
	conformance.Run(t, func(t *testing.T) engine.Store {
		s, err := Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
