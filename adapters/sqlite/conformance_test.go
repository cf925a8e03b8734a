package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/forge-continuity/forge/adapters/conformance"
	"github.com/forge-continuity/forge/server/engine"
)

func TestConformance(t *testing.T) {
	path := filepath.Join(t.TempDir(), "forge.db")
	conformance.Run(t, func(t *testing.T) engine.Store {
		s, err := Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
