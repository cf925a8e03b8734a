package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forge-continuity/forge/adapters/postgres/pgtest"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

func open(t testing.TB, at string) *Store {
	t.Helper()
	s, err := Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// row is a write of one row that follows what was loaded.
func row(locks engine.Locks, l engine.Loaded, id string) *engine.Write {
	head, space := l.Run.Head, engine.SpaceCommand
	if locks.Exclusive {
		head, space = l.Factory.Head, engine.SpaceFactory
	}
	r := models.Row{
		Format: 1, Rules: 1, Factory: locks.Factory, Run: locks.Run, Seq: head.Seq + 1, Cmd: head.Seq + 1, N: 1, At: l.Now,
		Actor: "actor", Kind: "test.happened", Payload: []byte(`{}`), CommandID: id, CommandName: "test",
		Command: []byte(`{}`), Env: []byte(`{}`), Prev: head.Hash, Hash: models.Tagged(models.TagRow, head.Hash[:], []byte(id)),
	}
	return &engine.Write{Rows: []models.Row{r}, State: []byte(`{}`), Rules: 1, Receipt: engine.Receipt{
		Key: engine.Key{Factory: locks.Factory, Space: space, Run: locks.Run, ID: id}, Run: locks.Run, Actor: "actor", Body: []byte(`{}`),
	}}
}

// create makes a factory with runs.
func create(t testing.TB, s *Store, factory string, runs ...string) {
	t.Helper()
	locks := engine.Locks{Factory: factory, Exclusive: true}
	err := s.Append(t.Context(), locks, func(l engine.Loaded) (*engine.Write, error) { return row(locks, l, "create"), nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		if _, err := s.OpenRun(t.Context(), factory, run, "opener", [32]byte{1}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOpenRefusesNewerTables(t *testing.T) {
	at := pgtest.Open(t)
	s := open(t, at)
	if _, err := s.pool.Exec(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (9000, true)`); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), at); err == nil || !strings.Contains(err.Error(), "9000") {
		t.Errorf("tables of a newer build: %v", err)
	}
}

// Nodes that start at once on an empty database all find it ready.
func TestOpenTogether(t *testing.T) {
	at := pgtest.Open(t)
	errs := make(chan error)
	for range 4 {
		go func() {
			s, err := Open(context.Background(), at)
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

// The password of a URL that cannot be used is in no error.
func TestOpenHidesPassword(t *testing.T) {
	for _, at := range []string{"postgres://forge:hunter2@127.0.0.1:1/forge_test", "postgres://forge:hunter2@127.0.0.1:x/forge_test",
		"postgres://forge:hunter2@127.0.0.1:1/forge_test?pool_max_conns=x"} {
		_, err := Open(t.Context(), at)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
	}
}

func TestConnectionSettings(t *testing.T) {
	at := pgtest.Open(t)
	s := open(t, at)
	for name, want := range map[string]string{
		"statement_timeout": "10s", "idle_in_transaction_session_timeout": "10s", "application_name": "forge", "synchronous_commit": "on",
	} {
		var got string
		if err := s.pool.QueryRow(t.Context(), `SELECT current_setting($1)`, name).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q (%v), want %q", name, got, err, want)
		}
	}
}

// A row that stands is refused a change by the database itself. (Rules, invariant 1.)
func TestRowsNeverChange(t *testing.T) {
	s := open(t, pgtest.Open(t))
	create(t, s, "f")
	for _, text := range []string{`UPDATE journal_rows SET actor = 'x'`, `DELETE FROM journal_rows`, `TRUNCATE journal_rows`} {
		if _, err := s.pool.Exec(t.Context(), text); err == nil {
			t.Errorf("%s was done", text)
		}
	}
	rows, err := s.Rows(t.Context(), "f", "", 1, 10)
	if err != nil || len(rows) != 1 || rows[0].Actor != "actor" {
		t.Errorf("%v, %v", rows, err)
	}
}

// A deadlock that something outside Forge causes is tried again, and decide is asked again with what stands then.
func TestDeadlockIsTriedAgain(t *testing.T) {
	at := pgtest.Open(t)
	s := open(t, at)
	create(t, s, "f", "r")
	outside, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = outside.Close(context.Background()) }()
	// The outsider locks against the written order: the run, then the factory. The server's check for deadlocks runs in
	// whoever waits deadlock_timeout; the outsider's is long, so that the append is ended.
	do := func(text string) {
		t.Helper()
		if _, err := outside.Exec(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	do(`SET deadlock_timeout = '1min'`)
	do(`BEGIN`)
	do(`SELECT FROM runs WHERE run = 'r' FOR UPDATE`)
	locks := engine.Locks{Factory: "f", Run: "r"}
	tries, done := 0, make(chan error, 1)
	go func() {
		done <- s.Append(context.Background(), locks, func(l engine.Loaded) (*engine.Write, error) {
			tries++
			return row(locks, l, "one"), nil
		})
	}()
	waiting := `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%runs r%FOR UPDATE OF r'`
	for n := 0; n == 0; time.Sleep(10 * time.Millisecond) {
		if err := s.pool.QueryRow(t.Context(), waiting).Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
	do(fmt.Sprintf(`SELECT pg_advisory_xact_lock('factories'::regclass::oid::bigint << 32 | %d)`, factoryKey("f")))
	do(`COMMIT`)
	if err := <-done; err != nil || tries != 1 {
		t.Errorf("append after %d decisions: %v", tries, err)
	}
	var n int
	if err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM journal_rows WHERE run = 'r'`).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d rows, %v", n, err)
	}
}

// A serialization failure after the decision is tried again too: the decision is repeated, the write lands once.
func TestSerializationFailureIsTriedAgain(t *testing.T) {
	s := open(t, pgtest.Open(t))
	create(t, s, "f", "r")
	// A trigger of the test ends the first two writes as the server would.
	_, err := s.pool.Exec(t.Context(), `CREATE SEQUENCE tries; CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN IF nextval('tries') < 3 THEN RAISE EXCEPTION 'test' USING ERRCODE = 'serialization_failure'; END IF; RETURN NEW; END; $$;
		CREATE TRIGGER fail BEFORE INSERT ON receipts FOR EACH ROW EXECUTE FUNCTION fail()`)
	if err != nil {
		t.Fatal(err)
	}
	locks := engine.Locks{Factory: "f", Run: "r"}
	tries := 0
	decide := func(l engine.Loaded) (*engine.Write, error) {
		tries++
		return row(locks, l, "one"), nil
	}
	if err := s.Append(t.Context(), locks, decide); err != nil || tries != 3 {
		t.Errorf("append after %d decisions: %v", tries, err)
	}
	rows, err := s.Rows(t.Context(), "f", "r", 1, 10)
	if err != nil || len(rows) != 1 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	// Tries are bounded.
	if _, err := s.pool.Exec(t.Context(), `SELECT setval('tries', 1); ALTER SEQUENCE tries INCREMENT 1 MINVALUE -1000; SELECT setval('tries', -900)`); err != nil {
		t.Fatal(err)
	}
	tries = 0
	err = s.Append(t.Context(), locks, func(l engine.Loaded) (*engine.Write, error) {
		tries++
		return row(locks, l, "two"), nil
	})
	if !errors.Is(err, engine.ErrUnavailable) || tries != 1+maxTries { // the first in a group

		t.Errorf("%d decisions, %v", tries, err)
	}
}

// Connections that ended an append early go back to the pool outside a transaction, none is lost.
func TestConnectionsComeBack(t *testing.T) {
	u, err := url.Parse(pgtest.Open(t))
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("pool_max_conns", "2")
	u.RawQuery = q.Encode()
	s := open(t, u.String())
	create(t, s, "f", "r")
	locks := engine.Locks{Factory: "f", Run: "r"}
	for i := range 20 {
		func() {
			defer func() { _ = recover() }()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_ = s.Append(ctx, locks, func(l engine.Loaded) (*engine.Write, error) {
				switch i % 4 {
				case 0:
					return nil, nil
				case 1:
					panic("test")
				case 2:
					cancel()
				}
				w := row(locks, l, "same")
				w.Receipt.Key.Space = ""
				return w, nil
			})
		}()
	}
	// A group gives its connection back a moment after its answers.
	for end := time.Now().Add(10 * time.Second); s.pool.Stat().AcquiredConns() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d connections are still out", s.pool.Stat().AcquiredConns())
		}
	}
	if err := s.Append(t.Context(), locks, func(l engine.Loaded) (*engine.Write, error) { return row(locks, l, "one"), nil }); err != nil {
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	code := func(c string) error { return &pgconn.PgError{Code: c} }
	for _, c := range []struct{ err, want error }{
		{pgx.ErrNoRows, engine.ErrNotFound},
		{code("23505"), engine.ErrTaken},
		{code("40001"), engine.ErrUnavailable},
		{code("57014"), engine.ErrUnavailable},
		{code("53300"), engine.ErrUnavailable},
		{context.DeadlineExceeded, engine.ErrUnavailable},
		{io.ErrUnexpectedEOF, engine.ErrUnavailable},
		{engine.ErrTaken, engine.ErrTaken},
	} {
		if got := storeError("test", c.err); !errors.Is(got, c.want) {
			t.Errorf("%v became %v", c.err, got)
		}
	}
	// A broken constraint is nobody's condition.
	for _, c := range []string{"23514", "23502", "22021"} {
		got := storeError("test", code(c))
		for _, not := range []error{engine.ErrNotFound, engine.ErrTaken, engine.ErrUnavailable} {
			if got == nil || errors.Is(got, not) {
				t.Errorf("%s became %v", c, got)
			}
		}
	}
	if storeError("test", nil) != nil {
		t.Error("no error became one")
	}
}
