package faults

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forge-continuity/forge/adapters/postgres"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// A server that may lose what it acknowledged is named where Forge starts and by db doctor. One whose synchronous_commit is off
// is not: Forge turns it on for its own connections.
func TestRiskySettingsAreNamed(t *testing.T) {
	c := newCluster(t, "fsync=off", "full_page_writes=off", "synchronous_commit=off")
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	c.sql("postgres", "CREATE DATABASE "+testDatabase)
	s := serve(t, []string{"--database-url", c.url(testDatabase)})
	doctor := func() string { // which may find that the factory below, with a row that nobody decided, does not hold
		out, _ := exec.Command(s.program, "db", "doctor", "--database-url", c.url(testDatabase)).CombinedOutput()
		return string(out)
	}
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(s.log.text(), "full_page_writes") && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond) // what it said may still be on its way here
	}
	for where, text := range map[string]string{"forge serve": s.log.text(), "forge db doctor": doctor()} {
		for _, name := range []string{"fsync is off", "full_page_writes is off"} {
			if !strings.Contains(text, "forge: warning: "+name) {
				t.Errorf("%s does not say that %s: %s", where, name, text)
			}
		}
		if strings.Contains(text, "synchronous_commit") {
			t.Errorf("%s warns of synchronous_commit: %s", where, text)
		}
	}
	opened, err := postgres.Open(t.Context(), c.url(testDatabase))
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	// What the commits wait for is what the connections have: a write that was answered is flushed.
	if err := appendOne(t.Context(), opened, "f", "", "create"); err != nil {
		t.Fatal(err)
	}
	var flushed bool
	conn, err := pgx.Connect(t.Context(), c.url(testDatabase))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(t.Context(), `SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()`).Scan(&flushed); err != nil || !flushed {
		t.Errorf("the write was answered before it was flushed (%v)", err)
	}
	c.sql("postgres", "ALTER SYSTEM SET fsync = on")
	c.sql("postgres", "ALTER SYSTEM SET full_page_writes = on")
	c.sql("postgres", "ALTER SYSTEM SET synchronous_commit = 'local'")
	c.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'standby'")
	c.sql("postgres", "SELECT pg_reload_conf()")
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		text := doctor()
		if !strings.Contains(text, "fsync") && strings.Contains(text, "synchronous_commit is local") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(text)
		}
	}
}

// The server took a commit, and its wait for the standby was cut short: it warns and reports success. The append is answered as
// unavailable, alone and in a group, and so is its repeat for as long as the standby is away; once it is back the repeat has the
// saved answer. What may stand on one machine only is never acknowledged.
func TestCommitThatNoStandbyHas(t *testing.T) {
	c := newCluster(t)
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	c.sql("postgres", "CREATE DATABASE "+testDatabase)
	s, err := postgres.Open(t.Context(), c.url(testDatabase))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := appendOne(t.Context(), s, "f", "", "create"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.OpenRun(t.Context(), "f", "r", "opener", [32]byte{1}); err != nil {
		t.Fatal(err)
	}
	c.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	c.sql("postgres", "SELECT pg_reload_conf()")
	conn, err := pgx.Connect(t.Context(), c.url(testDatabase))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	// try does an append whose wait is cut short as soon as it waits.
	try := func(run, id string) error {
		t.Helper()
		done := make(chan error, 1)
		go func() { done <- appendOne(t.Context(), s, "f", run, id) }()
		for {
			select {
			case err := <-done:
				return err
			case <-time.After(20 * time.Millisecond):
				if _, err := conn.Exec(t.Context(), `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, run := range []string{"r", ""} { // in a group, and alone
		for range 2 {
			if err := try(run, "one"); !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), "warned") {
				t.Errorf("run %q: %v", run, err)
			}
		}
		rows, err := s.Rows(t.Context(), "f", run, 1, 10)
		want := 1
		if run == "" {
			want = 2
		}
		if err != nil || len(rows) != want {
			t.Errorf("run %q has %d rows, want %d: the commit stands here (%v)", run, len(rows), want, err)
		}
	}
	c.sql("postgres", "ALTER SYSTEM RESET synchronous_standby_names")
	c.sql("postgres", "SELECT pg_reload_conf()")
	for _, run := range []string{"r", ""} {
		if err := appendOne(t.Context(), s, "f", run, "one"); err != nil {
			t.Errorf("run %q, once nobody has to be waited for: %v", run, err)
		}
	}
}

// appendOne appends one row under the id, or takes the saved answer.
func appendOne(ctx context.Context, s engine.Store, factory, run, id string) error {
	locks := engine.Locks{Factory: factory, Run: run, Exclusive: run == "", Receipt: engine.Key{Factory: factory, Space: engine.SpaceCommand, Run: run, ID: id}}
	if run == "" {
		locks.Receipt.Space = engine.SpaceFactory
	}
	return s.Append(ctx, locks, func(l engine.Loaded) (*engine.Write, error) {
		if l.Saved != nil {
			return nil, nil
		}
		head := l.Run.Head
		if run == "" {
			head = l.Factory.Head
		}
		r := models.Row{Format: 1, Rules: 1, Factory: factory, Run: run, Seq: head.Seq + 1, Cmd: head.Seq + 1, N: 1, At: l.Now, Actor: "actor",
			Kind: "test.happened", Payload: []byte(`{}`), CommandID: id, CommandName: "test", Command: []byte(`{}`), Env: []byte(`{}`),
			Prev: head.Hash, Hash: models.Tagged(models.TagRow, head.Hash[:], []byte(id))}
		return &engine.Write{Rows: []models.Row{r}, State: []byte(`{}`), Rules: 1,
			Receipt: engine.Receipt{Key: locks.Receipt, Run: run, Actor: "actor", Body: []byte(`{}`)}}, nil
	})
}
