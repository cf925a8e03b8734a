// Package scratch makes an empty schema in a PostgreSQL database that is there for nothing but tests and qualification: its name ends
// in _test, and any other is refused before anything is sent to the server (BOUND-16).
package scratch

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ErrName refuses a database whose name does not end in _test.
var ErrName = errors.New("the tests use only a database whose name ends in _test")

// Allowed parses a URL and refuses a database that is not there for tests. The name is read by the library that connects,
// so that no spelling of the URL means one database here and another there.
func Allowed(given string) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(given)
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(cfg.Database, "_test") {
		return nil, fmt.Errorf("database %q: %w", cfg.Database, ErrName)
	}
	return cfg, nil
}

// Random is 16 hex digits.
func Random() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Run connects, executes and disconnects.
func Run(ctx context.Context, cfg *pgx.ConnConfig, text string) error {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, text)
	return err
}

// Schema makes a new schema in the database of the URL and returns a URL that works in it, and what drops it.
func Schema(ctx context.Context, given string) (string, func(context.Context) error, error) {
	cfg, err := Allowed(given)
	if err != nil {
		return "", nil, err
	}
	u, err := url.Parse(given)
	if err != nil || u.Scheme == "" {
		return "", nil, errors.New("want a URL such as postgres://user:password@127.0.0.1:5432/forge_test")
	}
	name := "forge_" + Random()
	q := u.Query()
	q.Set("search_path", name)
	u.RawQuery = q.Encode()
	// What the tests will open must be a test database too.
	if _, err := Allowed(u.String()); err != nil {
		return "", nil, err
	}
	if err := Run(ctx, cfg, "CREATE SCHEMA "+name); err != nil {
		return "", nil, err
	}
	drop := func(ctx context.Context) error {
		return Run(ctx, cfg, "SET client_min_messages = warning; DROP SCHEMA "+name+" CASCADE")
	}
	return u.String(), drop, nil
}
