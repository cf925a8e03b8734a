package scratch

import (
	"errors"
	"strings"
	"testing"
)

// BOUND-16: any database whose name does not end in _test is refused, however its URL is spelled, before a connection.
func TestOtherDatabasesAreRefused(t *testing.T) {
	t.Setenv("PGDATABASE", "")
	for _, given := range []string{
		"postgres://forge@127.0.0.1:1/forge",
		"postgres://forge@127.0.0.1:1/forge_testing",
		"postgres://forge@127.0.0.1:1/forge_TEST",
		"postgres://forge@127.0.0.1:1/",
		"postgres://forge_test@127.0.0.1:1",
		"postgres://forge@127.0.0.1:1/forge_test?dbname=forge",
		"postgres://forge@127.0.0.1:1/forge?application_name=x_test",
		"postgres://forge@127.0.0.1:1/forge#_test",
		"postgres://forge@127.0.0.1:1/forge%23_test?dbname=forge",
		"host=127.0.0.1 port=1 user=forge dbname=forge",
	} {
		_, _, err := Schema(t.Context(), given)
		if !errors.Is(err, ErrName) {
			t.Errorf("%s: %v", given, err)
		}
	}
	// The right name gets as far as the port where nobody listens.
	_, _, err := Schema(t.Context(), "postgres://forge@127.0.0.1:1/forge_test")
	if err == nil || errors.Is(err, ErrName) || !strings.Contains(err.Error(), "connect") {
		t.Errorf("forge_test: %v", err)
	}
}
