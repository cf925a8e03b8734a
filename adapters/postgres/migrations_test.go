package postgres

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/adapters/postgres/pgtest"
	"github.com/forge-continuity/forge/server/engine"
)

// firstAdditive is the first migration that may meet nodes of the build before it.
const firstAdditive = "0004"

// breaking is what a migration must not do while nodes of the build before it are at work (docs/OPERATIONS.md, Migrations).
var breaking = regexp.MustCompile(`(?i)\b(DROP\s+(TABLE|COLUMN|FUNCTION)|RENAME|ALTER\s+COLUMN\s+\S+\s+(TYPE|SET\s+NOT\s+NULL)|SET\s+DATA\s+TYPE|TRUNCATE)\b`)

// A migration adds: what an older node reads and writes goes on.
func TestMigrationsAdd(t *testing.T) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil || len(names) == 0 {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.TrimPrefix(name, "migrations/") < firstAdditive {
			continue
		}
		data, err := migrations.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if fault := additive(string(data)); fault != "" {
			t.Errorf("%s: %s", name, fault)
		}
	}
	for _, text := range []string{"ALTER TABLE runs DROP COLUMN salt;", "ALTER TABLE runs RENAME salt TO s;", "ALTER TABLE runs ALTER COLUMN opener TYPE bytea;",
		"ALTER TABLE runs ADD COLUMN x bigint NOT NULL;"} {
		if additive(text) == "" {
			t.Errorf("%q is let through", text)
		}
	}
}

func additive(text string) string {
	var code strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "--") {
			code.WriteString(line)
		}
	}
	if found := breaking.FindString(code.String()); found != "" {
		return found + " breaks nodes of the build before"
	}
	for statement := range strings.SplitSeq(code.String(), ";") {
		upper := strings.ToUpper(statement)
		if strings.Contains(upper, "ADD COLUMN") && strings.Contains(upper, "NOT NULL") && !strings.Contains(upper, "DEFAULT") {
			return "a column that older nodes do not fill has no default"
		}
	}
	return ""
}

// While nodes of this build are at work a newer one adds to the tables: they go on, through the very statements that they had
// prepared before. A node of this build that starts later is refused (TestOpenRefusesNewerTables).
func TestNodesGoOnDuringAMigration(t *testing.T) {
	s := open(t, pgtest.Open(t))
	create(t, s, "f", "r")
	locks := engine.Locks{Factory: "f", Run: "r"}
	put := func(id string) {
		t.Helper()
		err := s.Append(t.Context(), locks, func(l engine.Loaded) (*engine.Write, error) {
			w := row(locks, l, id)
			w.Queue = &engine.QueueEntry{Run: "r", Request: id, Expires: 1 << 60}
			return w, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Run(t.Context(), "f", "r"); err != nil {
			t.Fatal(err)
		}
		if rows, err := s.Rows(t.Context(), "f", "r", 1, 100); err != nil || len(rows) == 0 {
			t.Fatal(err)
		}
		if work, err := s.Work(t.Context(), "f", "", 10); err != nil || len(work) != 1 {
			t.Fatalf("%v %v", work, err)
		}
	}
	for i := range 20 { // on every connection
		put(fmt.Sprintf("before-%d", i))
	}
	for i, text := range []string{`ALTER TABLE runs ADD COLUMN later bigint NOT NULL DEFAULT 7`, `ALTER TABLE journal_rows ADD COLUMN later text`,
		`ALTER TABLE receipts ADD COLUMN later text`, `ALTER TABLE queue ADD COLUMN later text`, `ALTER TABLE blobs ADD COLUMN later text`,
		`CREATE TABLE later (id bigint)`, `CREATE INDEX later_runs ON runs (later)`, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (9000, true)`} {
		if _, err := s.pool.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
		for j := range 3 {
			put(fmt.Sprintf("after-%d-%d", i, j))
		}
	}
}
