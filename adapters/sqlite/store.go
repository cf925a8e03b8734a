// Package sqlite is the embedded store: one file in a folder of its own, written by one process at a time (design, The
// store). Every append is one BEGIN IMMEDIATE transaction on the only writing connection, so the locks of engine.Locks are
// all held by being that writer. Commits are durable when they return (WAL, synchronous=FULL).
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pressly/goose/v3"
	lib "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// Major is the major version of the file format and library, as profiles name it.
const Major = 3

// busyTimeout is how long a statement waits for another process that holds the file, in milliseconds.
const busyTimeout = 5000

//go:embed migrations/*.sql
var migrations embed.FS

var _ engine.Store = (*Store)(nil)

// Store is an open file. It is safe for concurrent use; readers never wait for the writer.
type Store struct {
	writer  *sql.DB // one connection
	readers *sql.DB
	stmt    statements
}

// Open opens or makes the file at path, whose folder exists, and brings its tables up to date. A file whose tables are
// newer than this build is refused. The caller closes the store.
func Open(ctx context.Context, path string) (*Store, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	// The file holds content and salts, so it is the owner's alone; SQLite gives its companions the same mode.
	file, err := os.OpenFile(abs, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	if err := file.Close(); err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	writer, err := sql.Open("sqlite", dsn(abs, "_txlock=immediate", "_pragma=foreign_keys(1)"))
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	writer.SetMaxOpenConns(1)
	s := &Store{writer: writer}
	if err := s.prepare(ctx, abs); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", path, err), s.Close())
	}
	return s, nil
}

func (s *Store) prepare(ctx context.Context, abs string) error {
	if err := migrate(ctx, s.writer); err != nil {
		return err
	}
	readers, err := sql.Open("sqlite", dsn(abs, "_pragma=query_only(1)"))
	if err != nil {
		return err
	}
	readers.SetMaxOpenConns(2 + runtime.GOMAXPROCS(0))
	readers.SetMaxIdleConns(2 + runtime.GOMAXPROCS(0))
	s.readers = readers
	return s.stmt.prepare(ctx, s.writer)
}

// dsn names the file as a URI, so that a path may hold any byte.
func dsn(abs string, params ...string) string {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(abs)}
	text := u.String() + fmt.Sprintf("?_pragma=busy_timeout(%d)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)", busyTimeout)
	for _, p := range params {
		text += "&" + p
	}
	return text
}

// migrating keeps two stores of this process from making the same tables at once.
var migrating sync.Mutex

func migrate(ctx context.Context, db *sql.DB) error {
	migrating.Lock()
	defer migrating.Unlock()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	// Another process may make the same tables at this moment; each step is one transaction, so whoever comes second
	// finds it done on the next look.
	for try := 1; ; try++ {
		if _, err = provider.Up(ctx); err == nil || try == 5 {
			break
		}
		time.Sleep(time.Duration(try) * 50 * time.Millisecond)
	}
	if err != nil {
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

// Versions returns the version of the tables of a file, 0 where there are none, and the one that this build makes. It opens
// the file for reading only.
func Versions(ctx context.Context, path string) (have, want int64, err error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return 0, 0, err
	}
	if want, err = newest(files); err != nil {
		return 0, 0, err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return 0, want, fmt.Errorf("open store %s: %w", path, err)
	}
	if _, err := os.Stat(abs); err != nil {
		return 0, want, fmt.Errorf("open store %s: %w", path, err)
	}
	db, err := sql.Open("sqlite", dsn(abs, "_pragma=query_only(1)"))
	if err != nil {
		return 0, want, fmt.Errorf("open store %s: %w", path, err)
	}
	defer func() { _ = db.Close() }()
	var made bool
	const tables = `SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'goose_db_version')`
	if err := db.QueryRowContext(ctx, tables).Scan(&made); err != nil || !made {
		return 0, want, storeError("read the version of the tables", err)
	}
	err = db.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`).Scan(&have)
	return have, want, storeError("read the version of the tables", err)
}

// newest is the number of the last migration.
func newest(files fs.FS) (n int64, err error) {
	names, err := fs.Glob(files, "*.sql")
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return 0, err
		}
		n = max(n, version)
	}
	return n, err
}

// Close waits for what is running and closes the file.
func (s *Store) Close() error {
	var errs []error
	errs = append(errs, s.stmt.close())
	if s.readers != nil {
		errs = append(errs, s.readers.Close())
	}
	return errors.Join(append(errs, s.writer.Close())...)
}

// Kind implements engine.Journal.
func (s *Store) Kind() (string, int64) { return "sqlite", Major }

// Now implements engine.Journal.
func (s *Store) Now(ctx context.Context) (models.Instant, error) {
	if err := ctx.Err(); err != nil {
		return 0, storeError("read clock", err)
	}
	return now(), nil
}

// last is the latest instant that any store of this process has told.
var last atomic.Int64

// now is this process's clock: it never goes backwards, even when the machine's is set back.
func now() models.Instant {
	for {
		was := last.Load()
		is := max(was, time.Now().UnixMicro())
		if last.CompareAndSwap(was, is) {
			return models.Instant(is)
		}
	}
}

// storeError is the one place where errors of the library become those of the engine. An error that is none of the
// engine's conditions (a broken constraint other than a key) keeps its text and is a defect of the caller.
func storeError(doing string, err error) error {
	var coded *lib.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%s: %w", doing, engine.ErrNotFound)
	case errors.Is(err, engine.ErrNotFound), errors.Is(err, engine.ErrTaken), errors.Is(err, engine.ErrUnavailable):
		return err
	case errors.As(err, &coded):
		switch coded.Code() {
		case sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE:
			return fmt.Errorf("%s: %w: %w", doing, engine.ErrTaken, err)
		}
		if coded.Code()&0xff == sqlite3.SQLITE_CONSTRAINT || coded.Code()&0xff == sqlite3.SQLITE_MISMATCH {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	return fmt.Errorf("%s: %w: %w", doing, engine.ErrUnavailable, err)
}
