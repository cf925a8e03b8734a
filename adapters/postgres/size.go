package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Sizes is what a database holds, in bytes on disk with indexes, and how many rows the journals have.
type Sizes struct {
	Rows     int64
	Journal  int64
	Receipts int64
	Content  int64 // blobs and guest modules, as stored
	Other    int64
}

// MeasureSizes reads them. Rows are added up from the heads, so it costs a read of each run's row, not of the journal.
func MeasureSizes(ctx context.Context, url string) (Sizes, error) {
	const text = `SELECT (SELECT coalesce(sum(head_seq), 0)::bigint FROM runs) + (SELECT coalesce(sum(head_seq), 0)::bigint FROM factories),
		pg_total_relation_size('journal_rows'), pg_total_relation_size('receipts') + pg_total_relation_size('once_keys'),
		pg_total_relation_size('blobs') + pg_total_relation_size('modules'),
		pg_total_relation_size('runs') + pg_total_relation_size('factories') + pg_total_relation_size('queue')`
	var s Sizes
	cfg, err := pgxpool.ParseConfig(url) // its text of an error leaves the password out
	if err != nil {
		return s, fmt.Errorf("open store: %w", err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return s, storeError("measure", err)
	}
	defer pool.Close()
	err = pool.QueryRow(ctx, text).Scan(&s.Rows, &s.Journal, &s.Receipts, &s.Content, &s.Other)
	return s, storeError("measure", err)
}
