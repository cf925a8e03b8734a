package postgres

import (
	"testing"

	"github.com/forge-continuity/forge/adapters/conformance"
	"github.com/forge-continuity/forge/adapters/postgres/pgtest"
)

func BenchmarkStore(b *testing.B) {
	s := open(b, pgtest.Open(b))
	if _, err := s.pool.Exec(b.Context(), `CREATE TABLE bare (id bigserial PRIMARY KEY, payload bytea NOT NULL)`); err != nil {
		b.Fatal(err)
	}
	conformance.Bench(b, s, func(_, _ int, payload []byte) error {
		_, err := s.pool.Exec(b.Context(), `INSERT INTO bare (payload) VALUES ($1)`, payload)
		return err
	})
}
