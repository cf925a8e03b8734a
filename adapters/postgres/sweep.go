package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/forge-continuity/forge/models"
)

const (
	dueRunsSQL  = `SELECT DISTINCT run FROM blobs WHERE factory = $1 AND put_at < $2 AND NOT kept AND run <> '' ORDER BY run`
	lockRunSQL  = `SELECT FROM runs WHERE factory = $1 AND run = $2 FOR UPDATE`
	keepBlobSQL = `UPDATE blobs SET kept = true WHERE factory = $1 AND run = $2 AND put_at < $3 AND NOT kept AND digest IN (
		SELECT substring(r.blobs FROM g.n * 32 + 1 FOR 32) FROM journal_rows r, generate_series(0, octet_length(r.blobs) / 32 - 1) g (n)
		WHERE r.factory = $1 AND r.run = $2 AND octet_length(r.blobs) > 0)`
	dropBlobSQL = `WITH gone AS (DELETE FROM blobs WHERE factory = $1 AND run = $2 AND put_at < $3 AND NOT kept RETURNING ` + plainBytes + ` AS bytes),
		less AS (UPDATE runs SET blob_bytes = blob_bytes - (SELECT COALESCE(sum(bytes), 0) FROM gone) WHERE factory = $1 AND run = $2)
		SELECT count(*) FROM gone`
)

// Sweep implements engine.Blobs, one run at a time. A blob that is put again at this moment is younger than the bound, and
// the statement that waited for it sees that.
func (s *Store) Sweep(ctx context.Context, factory string, age models.Seconds) (int64, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return 0, err
	}
	before := now.Add(-age)
	runs, err := collect(ctx, s.pool, "list unnamed blobs", pgx.RowTo[string], dueRunsSQL, factory, before)
	if err != nil {
		return 0, err
	}
	var removed int64
	for _, run := range runs {
		err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, lockRunSQL, factory, run); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, keepBlobSQL, factory, run, before); err != nil {
				return err
			}
			var n int64
			err := tx.QueryRow(ctx, dropBlobSQL, factory, run, before).Scan(&n)
			removed += n
			return err
		})
		if err != nil {
			return removed, storeError("sweep blobs of run "+run, err)
		}
	}
	return removed, nil
}
