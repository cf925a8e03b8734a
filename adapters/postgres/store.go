// Package postgres is the production store: any number of nodes on one database, none with state of its own (design, The
// store). An append is one READ COMMITTED transaction in two pipelined round trips: the first takes the locks of
// engine.Locks in their written order and then reads the clock and everything else, the second writes and commits.
package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// Limits of a connection. A statement that waits longer for a lock is given up, so that a request is answered before its
// client stops waiting; a transaction whose node stopped between two statements lets go of its locks.
const (
	connectTimeout       = 5 * time.Second
	statementTimeout     = "10s"
	idleInTransaction    = "10s"
	defaultConnections   = 16 // the number at which throughput was measured to level off; pool_max_conns of the URL wins
	minMajor             = 14 // the oldest whose extract(epoch) is exact to the microsecond
	migrationLock        = 0x666f7267652d6d31
	rollbackTimeout      = 2 * time.Second
	versionNumberOfMajor = 10_000
)

//go:embed migrations/*.sql
var migrations embed.FS

var _ engine.Store = (*Store)(nil)

// Store is a pool of connections. It is safe for concurrent use.
type Store struct {
	pool   *pgxpool.Pool
	major  int64
	groups groups

	announcements announcements

	ended atomic.Int64 // transactions that the server ended itself and that were tried again
}

// Open connects to the database of url (postgres://...), brings its tables up to date and returns the store. Nodes may open
// at once. Tables newer than this build are refused. The caller closes the store.
func Open(ctx context.Context, url string) (*Store, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err) // the library leaves the password out of this text
	}
	cfg.ConnConfig.ConnectTimeout = connectTimeout
	if len(cfg.ConnConfig.Fallbacks) > 0 && cfg.ConnConfig.ValidateConnect == nil {
		// Of several servers only the one that takes writes is of use, also where target_session_attrs does not say so.
		cfg.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	cfg.ConnConfig.OnNotice = func(c *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			c.CustomData()[warned] = n.Message
		}
	}
	if !strings.Contains(url, "pool_max_conns") {
		cfg.MaxConns = defaultConnections
	}
	params := cfg.ConnConfig.RuntimeParams
	if params["application_name"] == "" {
		params["application_name"] = "forge"
	}
	if err := migrate(ctx, cfg.ConnConfig.Copy()); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	params["statement_timeout"] = statementTimeout
	params["idle_in_transaction_session_timeout"] = idleInTransaction
	// Every statement finds its rows by a key. A plan that was made while a table was small must not read all of it later.
	params["enable_seqscan"], params["jit"] = "off", "off"
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		// A commit that returned is durable, also where the server's default is not.
		_, err := c.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`)
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{pool: pool}
	s.announcements = announcements{config: cfg.ConnConfig.Copy(), waiting: map[string]map[chan struct{}]bool{}}
	s.groups = groups{store: s, busy: map[[2]string]bool{}, most: maxLeaders}
	err = pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::bigint`).Scan(&s.major)
	s.major /= versionNumberOfMajor
	if err == nil && s.major < minMajor {
		err = fmt.Errorf("PostgreSQL %d is older than %d", s.major, minMajor)
	}
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("open store: %w", err)
	}
	return s, nil
}

// warned is where a connection keeps the server's last warning.
const warned = "warning"

// doubt is an error where the server warned during a commit and still reported success. That is how it tells that the wait
// for a synchronous standby was cut short, by statement_timeout or by hand: the commit stands here and may not stand there.
func doubt(conn *pgx.Conn) error {
	data := conn.PgConn().CustomData()
	text, ok := data[warned]
	if !ok {
		return nil
	}
	delete(data, warned)
	return fmt.Errorf("%w: the server took the commit and warned: %v", engine.ErrUnavailable, text)
}

// migrate brings the tables up to date on connections without a time limit. An advisory lock keeps other nodes waiting.
func migrate(ctx context.Context, cfg *pgx.ConnConfig) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	lock, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close(context.WithoutCancel(ctx)) }() // ends the session and its lock
	if _, err := lock.Exec(ctx, `SELECT pg_advisory_lock($1)`, int64(migrationLock)); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	db := stdlib.OpenDB(*cfg)
	defer func() { _ = db.Close() }()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	have, want, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if have > want {
		return fmt.Errorf("tables are of version %d, this build knows up to %d", have, want)
	}
	return nil
}

// Versions returns the version of the tables of a database, 0 where there are none, and the one that this build makes. It
// changes nothing.
func Versions(ctx context.Context, url string) (have, want int64, err error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return 0, 0, err
	}
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return 0, 0, err
	}
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return 0, 0, err
		}
		want = max(want, version)
	}
	cfg, err := pgxpool.ParseConfig(url) // its text of an error leaves the password out
	if err != nil {
		return 0, want, fmt.Errorf("open store: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err != nil {
		return 0, want, storeError("read the version of the tables", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var made bool
	if err := conn.QueryRow(ctx, `SELECT to_regclass('goose_db_version') IS NOT NULL`).Scan(&made); err != nil || !made {
		return 0, want, storeError("read the version of the tables", err)
	}
	err = conn.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`).Scan(&have)
	return have, want, storeError("read the version of the tables", err)
}

// Close waits for what is running and closes the connections.
func (s *Store) Close() error {
	s.announcements.close()
	s.pool.Close()
	return nil
}

// Kind implements engine.Journal; the version is the server's.
func (s *Store) Kind() (string, int64) { return "postgres", s.major }

// clock is the store's clock, microseconds since 1970 UTC, of the moment the expression is evaluated.
const clock = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

// Now implements engine.Journal.
func (s *Store) Now(ctx context.Context) (models.Instant, error) {
	var at models.Instant
	err := s.pool.QueryRow(ctx, `SELECT `+clock).Scan(&at)
	return at, storeError("read clock", err)
}

// PostgreSQL's codes that mean something here.
const (
	uniqueViolation      = "23505"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	readOnlyTransaction  = "25006" // the server became a standby
)

// again reports whether the server ended the transaction itself and asks for another try.
func again(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == serializationFailure || pg.Code == deadlockDetected)
}

// storeError is the one place where errors of the library become those of the engine. A constraint other than a key, and a
// value that no column takes, keep their text and are defects of the caller; everything else is unavailability.
func storeError(doing string, err error) error {
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("%s: %w", doing, engine.ErrNotFound)
	case errors.Is(err, engine.ErrNotFound), errors.Is(err, engine.ErrTaken), errors.Is(err, engine.ErrUnavailable):
		return err
	case errors.As(err, &pg) && pg.Code == uniqueViolation:
		return fmt.Errorf("%s: %w: %w", doing, engine.ErrTaken, err)
	case errors.As(err, &pg) && (strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23")):
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w: %w", doing, engine.ErrUnavailable, err)
}
