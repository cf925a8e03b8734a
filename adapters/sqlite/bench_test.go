package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/forge-continuity/forge/adapters/conformance"
)

func BenchmarkStore(b *testing.B) {
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "forge.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.writer.Exec(`CREATE TABLE bare (id INTEGER PRIMARY KEY, payload BLOB NOT NULL) STRICT`); err != nil {
		b.Fatal(err)
	}
	insert, err := s.writer.Prepare(`INSERT INTO bare (payload) VALUES (?)`)
	if err != nil {
		b.Fatal(err)
	}
	conformance.Bench(b, s, func(_, _ int, payload []byte) error {
		_, err := insert.Exec(payload)
		return err
	})
}
