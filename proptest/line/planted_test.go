package line

import (
	"bytes"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/forge-continuity/forge/adapters/postgres"
	"github.com/forge-continuity/forge/adapters/postgres/pgtest"
	"github.com/forge-continuity/forge/adapters/sqlite"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api/apitest"
)

// planted stands in every content field of a run. It must occur in no column but the bytes of blobs (design, The journal).
const planted = "PLANTED-b1f7"

// content records a run in which each field that a user, model or tool could fill holds the marker.
func (s *stage) content(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	marked := func(what string) []byte { return []byte(planted + " " + what) }
	opened, err := s.dana.OpenRun(ctx, "run-1")
	if err != nil {
		t.Fatal(err)
	}
	before := load.Recorder{Client: s.dana, Run: "run-1", Salt: opened.Receipt.Salt}
	put := func(w *load.Recorder, what string) models.Digest {
		d, err := w.Put(ctx, marked(what))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	g, err := load.Registration(s.recording, opened.Receipt.Salt)
	if err != nil {
		t.Fatal(err)
	}
	g.Task, g.Contract = put(&before, "task"), put(&before, "contract")
	if _, err := s.dana.Register(ctx, "run-1", g); err != nil {
		t.Fatal(err)
	}
	claimed, err := s.worker.Claim(ctx, "run-1", "claim-1", 600)
	if err != nil {
		t.Fatal(err)
	}
	w := load.Recorder{Client: s.worker, Run: "run-1", Salt: claimed.Salt, Fence: claimed.Claim.Fence, Prefix: "planted"}
	salted := func(what string) models.Digest { return models.SaltedBlob([32]byte(claimed.Salt), marked(what)) }
	wire, response, checkpoint := marked("wire"), put(&w, "response"), put(&w, "checkpoint")
	err = w.Record(ctx, "all",
		models.CheckpointSaved{Checkpoint: checkpoint},
		models.RequestIssued{Checkpoint: checkpoint, Request: 1, Wire: models.PlainDigest(wire), WireBlob: put(&w, "wire"), WireLength: int64(len(wire))},
		models.ResponseKept{Length: 1, Request: 1, Response: response},
		models.ResponseConsumed{Calls: 2, Request: 1, Response: response},
		models.CallGranted{Args: salted("args"), Class: models.ClassCommand, ID: salted("call id"), Request: 1, Tool: 0},
		models.CallGranted{Args: salted("query"), Class: models.ClassEvidenceRead, ID: salted("other id"), Position: 1, Request: 1, Tool: 1},
		models.CallIntended{Request: 1},
		models.CommandStarted{Command: put(&w, "command"), Number: 1, Position: 0, Request: 1},
		models.CommandFinished{Number: 1, Receipt: put(&w, "receipt")},
		models.CallReturned{Request: 1, Result: put(&w, "result")},
		models.CallRefused{Position: 1, Request: 1, Validator: g.Validator},
		models.WorkerFailed{Report: put(&w, "report")},
	)
	if err != nil {
		t.Fatal(err)
	}
	s.candidate(t, "run-1") // reading writes nothing either
}

// everySwitch is an enabled policy with all of its switches on.
func everySwitch() *models.Policy {
	p := apitest.Enabled()
	p.AllowUnavailableSourceObservations, p.AllowPreAdmissionRecovery, p.AllowReadonlyObservationRecovery = true, true, true
	return p
}

// scan looks for the marker in every column of every table but the bytes of blobs; found says in which.
func scan(t *testing.T, tables map[string][]string, each func(table string, row func(values []any)) error) (found []string, blobs bool) {
	t.Helper()
	for table, columns := range tables {
		err := each(table, func(values []any) {
			for i, v := range values {
				text := fmt.Sprint(v)
				if b, ok := v.([]byte); ok {
					text = string(b)
				}
				if !strings.Contains(text, planted) && !bytes.Contains([]byte(text), []byte(planted)) {
					continue
				}
				if table == "blobs" && columns[i] == "data" {
					blobs = true
					continue
				}
				found = append(found, table+"."+columns[i])
			}
		})
		if err != nil {
			t.Fatalf("%s: %v", table, err)
		}
	}
	return found, blobs
}

func TestPlantedSQLite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "forge.db")
	store, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	s := setUp(t, store, "2.55.0", apitest.Options{Policy: everySwitch()})
	s.content(t)
	s.way(t, "run-2", func() {})
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tables := map[string][]string{}
	names, err := db.Query("SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'")
	if err != nil {
		t.Fatal(err)
	}
	defer names.Close()
	for names.Next() {
		var table, column string
		if err := names.Scan(&table, &column); err != nil {
			t.Fatal(err)
		}
		tables[table] = append(tables[table], column)
	}
	found, blobs := scan(t, tables, func(table string, row func([]any)) error {
		rows, err := db.Query(`SELECT "` + strings.Join(tables[table], `", "`) + `" FROM "` + table + `"`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			values := make([]any, len(tables[table]))
			into := make([]any, len(values))
			for i := range values {
				into[i] = &values[i]
			}
			if err := rows.Scan(into...); err != nil {
				return err
			}
			row(values)
		}
		return rows.Err()
	})
	judge(t, len(tables), found, blobs)
}

func TestPlantedPostgreSQL(t *testing.T) {
	url := pgtest.Open(t)
	store, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	s := setUp(t, store, "2.55.0", apitest.Options{Policy: everySwitch()})
	s.content(t)
	s.way(t, "run-2", func() {})
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	tables := map[string][]string{}
	names, err := db.Query(t.Context(), "SELECT table_name::text, column_name::text FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY ordinal_position")
	if err != nil {
		t.Fatal(err)
	}
	var table, column string
	if _, err := pgx.ForEachRow(names, []any{&table, &column}, func() error {
		tables[table] = append(tables[table], column)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	found, blobs := scan(t, tables, func(table string, row func([]any)) error {
		rows, err := db.Query(t.Context(), "SELECT "+strings.Join(tables[table], ", ")+" FROM "+pgx.Identifier{table}.Sanitize())
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				return err
			}
			row(values)
		}
		return rows.Err()
	})
	judge(t, len(tables), found, blobs)
}

func judge(t *testing.T, tables int, found []string, blobs bool) {
	t.Helper()
	if tables < 8 || !blobs {
		t.Fatalf("looked into %d tables, content in blobs: %t: the search itself does not work", tables, blobs)
	}
	if len(found) > 0 {
		t.Fatalf("content stands in %v", found)
	}
}
