package sqlite

import (
	"context"
	"database/sql"

	"github.com/forge-continuity/forge/models"
)

// Sweep implements engine.Blobs, one run at a time.
func (s *Store) Sweep(ctx context.Context, factory string, age models.Seconds) (int64, error) {
	const text = `SELECT DISTINCT run FROM blobs WHERE factory = ? AND put_at < ? AND NOT kept AND run <> '' ORDER BY run`
	before := now().Add(-age)
	runs, err := collect(ctx, s.readers, "list unnamed blobs", text1, text, factory, before)
	if err != nil {
		return 0, err
	}
	var removed int64
	for _, run := range runs {
		n, err := s.sweepRun(ctx, factory, run, before)
		if err != nil {
			return removed, storeError("sweep blobs of run "+run, err)
		}
		removed += n
	}
	return removed, nil
}

func (s *Store) sweepRun(ctx context.Context, factory, run string, before models.Instant) (removed int64, err error) {
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	named, err := namedBlobs(ctx, tx, factory, run)
	if err != nil {
		return 0, err
	}
	due, err := dueBlobs(ctx, tx, factory, run, before)
	if err != nil {
		return 0, err
	}
	for _, d := range due {
		texts := []string{`UPDATE blobs SET kept = 1 WHERE factory = ?1 AND run = ?2 AND digest = ?3`}
		if !named[d] {
			removed++
			texts = []string{
				`UPDATE runs SET blob_bytes = blob_bytes - (SELECT octet_length(data) FROM blobs WHERE factory = ?1 AND run = ?2 AND digest = ?3)
					WHERE factory = ?1 AND run = ?2`,
				`DELETE FROM blobs WHERE factory = ?1 AND run = ?2 AND digest = ?3`,
			}
		}
		for _, text := range texts {
			if _, err := tx.ExecContext(ctx, text, factory, run, d[:]); err != nil {
				return 0, err
			}
		}
	}
	return removed, tx.Commit()
}

func namedBlobs(ctx context.Context, tx *sql.Tx, factory, run string) (map[digest]bool, error) {
	rows, err := tx.QueryContext(ctx, `SELECT blobs FROM journal_rows WHERE factory = ? AND run = ? AND octet_length(blobs) > 0`, factory, run)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	named := map[digest]bool{}
	for rows.Next() {
		var list []byte
		if err := rows.Scan(&list); err != nil {
			return nil, err
		}
		for ; len(list) >= 32; list = list[32:] {
			named[digest(list[:32])] = true
		}
	}
	return named, rows.Err()
}

func dueBlobs(ctx context.Context, tx *sql.Tx, factory, run string, before models.Instant) ([]digest, error) {
	const text = `SELECT digest FROM blobs WHERE factory = ? AND run = ? AND put_at < ? AND NOT kept`
	rows, err := tx.QueryContext(ctx, text, factory, run, before)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var due []digest
	for rows.Next() {
		var d digest
		if err := rows.Scan(&d); err != nil {
			return nil, err
		}
		due = append(due, d)
	}
	return due, rows.Err()
}
