package faults

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/forge-continuity/forge/fixtures/load"
)

// A base backup is taken while writes go on, the log is archived, and later the database is restored to a named point from
// both (docs/OPERATIONS.md, the same commands). Everything acknowledged before that point is there, what came after is not,
// and everything holds.
func TestPointInTimeRestore(t *testing.T) {
	archive := t.TempDir()
	for dir := archive; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		_ = os.Chmod(dir, 0o777) // the server may run as another user
	}
	c := newCluster(t, "wal_level=replica", "archive_mode=on", "archive_command='cp %p "+archive+"/%f'")
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	c.sql("postgres", "CREATE DATABASE "+testDatabase)
	b, servers, people := found(t, c.url(testDatabase), 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		traffic(t, b, people, 2, 80, "before", true)
	}()
	restored := emptyCluster(t)
	restored.run("pg_basebackup", "--pgdata="+restored.data, "--checkpoint=fast", "--wal-method=none", "--dbname="+c.url("postgres"))
	<-done
	c.sql("postgres", "SELECT pg_create_restore_point('before_the_mistake')")
	kept := b.count()
	traffic(t, b, people, 2, 20, "after", true)
	c.sql("postgres", "SELECT pg_switch_wal()")
	servers[0].kill()
	c.run("pg_ctl", "stop", "--pgdata="+c.data, "--mode=fast") // waits for the archive

	restored.set("archive_mode=off", "restore_command='cp "+archive+"/%f %p'", "recovery_target_name='before_the_mistake'", "recovery_target_action=promote")
	if err := os.WriteFile(filepath.Join(restored.data, "recovery.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if restored.as != nil {
		if err := os.Chown(filepath.Join(restored.data, "recovery.signal"), int(restored.as.Uid), int(restored.as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	if err := restored.start(); err != nil {
		t.Fatal(err)
	}
	restored.awaitPrimary()
	again := serve(t, []string{"--database-url", restored.url(testDatabase)})
	b.set(again.address)
	b.acks = b.acks[:kept]
	audit(t, b, people, restored.url(testDatabase))
	runs, _, err := people.Reader.Runs(t.Context(), "", 500)
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		if len(run) > 5 && run[:5] == "after" {
			t.Errorf("run %s, which came later, is there", run)
		}
	}
	// And it goes on.
	if _, err := load.Held(t.Context(), people.Operator, people.Worker, recording(t), "new", load.Options{}); err != nil {
		t.Error(err)
	}
}
