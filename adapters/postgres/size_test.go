package postgres

import (
	"testing"

	"github.com/forge-continuity/forge/adapters/postgres/pgtest"
)

func TestSizes(t *testing.T) {
	at := pgtest.Open(t)
	open(t, at)
	s, err := MeasureSizes(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	if s.Rows != 0 || s.Journal == 0 || s.Receipts == 0 || s.Content == 0 || s.Other == 0 {
		t.Errorf("%+v", s)
	}
	if _, err := MeasureSizes(t.Context(), "postgres://nobody@127.0.0.1:1/none"); err == nil {
		t.Error("no error from where nothing listens")
	}
}
