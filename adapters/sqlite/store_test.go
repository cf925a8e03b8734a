package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// create makes a factory with one row.
func create(t *testing.T, s *Store, factory string) {
	t.Helper()
	err := s.Append(t.Context(), engine.Locks{Factory: factory, Exclusive: true}, func(l engine.Loaded) (*engine.Write, error) {
		return &engine.Write{State: []byte("{}"), Rules: 1, Rows: []models.Row{{
			Format: 1, Rules: 1, Factory: factory, Seq: 1, Cmd: 1, N: 1, At: l.Now, Actor: "root", Kind: "factory.created",
			CommandID: "create", CommandName: "create_factory", Hash: models.PlainDigest([]byte(factory)),
		}}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A path is bytes to the file system, not part of a URI.
func TestOpenTakesAnyPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b%20?mode=memory#c.db")
	s := open(t, path)
	create(t, s, "f")
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
}

func TestOpenSettings(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "forge.db"))
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "5000"} {
		var got string
		if err := s.writer.QueryRow("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q (%v), want %q", pragma, got, err, want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(t.Context(), filepath.Join(dir, "none", "forge.db")); err == nil {
		t.Error("a folder that does not exist was opened")
	}
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), text); err == nil {
		t.Error("a text file was opened")
	}
	path := filepath.Join(dir, "forge.db")
	s := open(t, path)
	if _, err := s.writer.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (9000, 1)`); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path); err == nil || !strings.Contains(err.Error(), "9000") {
		t.Errorf("tables of a newer build: %v", err)
	}
}

// Two openers of a new file both find it ready.
func TestOpenTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "forge.db")
	errs := make(chan error)
	for range 4 {
		go func() {
			s, err := Open(context.Background(), path)
			if err == nil {
				err = s.Close()
			}
			errs <- err
		}()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want error
	}{
		{sql.ErrNoRows, engine.ErrNotFound},
		{context.Canceled, engine.ErrUnavailable},
		{sql.ErrConnDone, engine.ErrUnavailable},
		{engine.ErrTaken, engine.ErrTaken},
	} {
		if got := storeError("test", c.err); !errors.Is(got, c.want) || !errors.Is(got, c.err) && c.err != sql.ErrNoRows {
			t.Errorf("%v became %v", c.err, got)
		}
	}
	if storeError("test", nil) != nil {
		t.Error("no error became one")
	}
}

// A row that stands is refused a change by the file itself, not only by this package. (Rules, invariant 1.)
func TestRowsNeverChange(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "forge.db"))
	create(t, s, "f")
	for _, text := range []string{`UPDATE journal_rows SET actor = 'x'`, `DELETE FROM journal_rows`} {
		if _, err := s.writer.Exec(text); err == nil {
			t.Errorf("%s was done", text)
		}
	}
	rows, err := s.Rows(t.Context(), "f", "", 1, 10)
	if err != nil || len(rows) != 1 || rows[0].Actor != "root" {
		t.Errorf("%v, %v", rows, err)
	}
}

// The file was made readable by everybody on the machine, with all content and every salt in it.
func TestFileIsTheOwners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "forge.db")
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v %v", filepath.Base(f), info.Mode(), err)
		}
	}
}
