package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// digest scans 32 bytes.
type digest [32]byte

func (d *digest) ScanBytes(b []byte) error {
	if len(b) != 32 {
		return fmt.Errorf("%d bytes are no digest", len(b))
	}
	copy(d[:], b)
	return nil
}

// some scans bytes, none at all as nil.
type some []byte

func (s *some) ScanBytes(b []byte) error {
	*s = nil
	if len(b) > 0 {
		*s = append(some(nil), b...)
	}
	return nil
}

func scanCached(row pgx.Row, c *engine.Cached) error {
	return row.Scan(&c.Head.Seq, (*digest)(&c.Head.Hash), &c.At, &c.Rules, (*some)(&c.State))
}

// scanRun scans runColumns, and into before what stands before them.
func scanRun(row pgx.Row, run string, before ...any) (engine.RunInfo, error) {
	r := engine.RunInfo{Run: run}
	var salt some
	c := &r.Cached
	err := row.Scan(append(before, &salt, &r.Opener, &c.Head.Seq, (*digest)(&c.Head.Hash), &c.At, &c.Rules, (*some)(&c.State), &r.Lease)...)
	copy(r.Salt[:], salt)
	return r, err
}

func scanReceipt(row pgx.Row, k engine.Key) (engine.Receipt, error) {
	r := engine.Receipt{Key: k}
	err := row.Scan(&r.Run, (*digest)(&r.Digest), &r.Actor, (*some)(&r.Body))
	return r, err
}

// Factory implements engine.Journal.
func (s *Store) Factory(ctx context.Context, factory string) (engine.Cached, error) {
	var c engine.Cached
	err := scanCached(s.pool.QueryRow(ctx, loadFactorySQL, factory), &c)
	return c, storeError("read factory "+factory, err)
}

// Run implements engine.Journal.
func (s *Store) Run(ctx context.Context, factory, run string) (engine.RunInfo, error) {
	r, err := scanRun(s.pool.QueryRow(ctx, loadRunSQL, factory, run), run)
	if err != nil {
		return engine.RunInfo{}, storeError("read run "+run, err)
	}
	return r, nil
}

// Stand implements engine.Journal.
func (s *Store) Stand(ctx context.Context, factory, run string) (engine.Standing, error) {
	var out engine.Standing
	c := &out.Factory
	var err error
	out.Run, err = scanRun(s.pool.QueryRow(ctx, standSQL, factory, run), run, &out.Now, &c.Head.Seq, (*digest)(&c.Head.Hash), &c.At, &c.Rules, (*some)(&c.State))
	if err != nil {
		return engine.Standing{}, storeError("read run "+run+" and its factory", err)
	}
	return out, nil
}

// OpenRun implements engine.Journal. An opener that comes second waits for the first, then reads its run.
func (s *Store) OpenRun(ctx context.Context, factory, run, opener string, salt [32]byte) (engine.RunInfo, error) {
	const text = `INSERT INTO runs (factory, run, salt, opener, head_seq, head_hash, head_at, rules, lease_expires, reclaim, outstanding)
		SELECT factory, $2, $3, $4, 0, decode(repeat('00', 32), 'hex'), 0, 0, 0, 0, '' FROM factories WHERE factory = $1 ON CONFLICT DO NOTHING`
	if _, err := s.pool.Exec(ctx, text, factory, run, salt[:], opener); err != nil {
		return engine.RunInfo{}, storeError("open run "+run, err)
	}
	return s.Run(ctx, factory, run)
}

// Rows implements engine.Journal. Past the head, and for a journal that does not exist, there are none.
func (s *Store) Rows(ctx context.Context, factory, run string, from, limit int64) ([]models.Row, error) {
	return readRows(ctx, s.pool, factory, run, from, limit)
}

func readRows(ctx context.Context, db querier, factory, run string, from, limit int64) ([]models.Row, error) {
	const text = `SELECT format, rules, factory, run, seq, cmd, i, n, at, actor, kind, payload, blobs, command_id, command_name,
		command, env, prev_hash, hash FROM journal_rows WHERE factory = $1 AND run = $2 AND seq >= $3 ORDER BY seq LIMIT $4`
	return collect(ctx, db, "read rows of run "+run, func(row pgx.CollectableRow) (models.Row, error) {
		var r models.Row
		var blobs some
		err := row.Scan(&r.Format, &r.Rules, &r.Factory, &r.Run, &r.Seq, &r.Cmd, &r.I, &r.N, &r.At, &r.Actor, &r.Kind,
			(*some)(&r.Payload), &blobs, &r.CommandID, &r.CommandName, (*some)(&r.Command), (*some)(&r.Env),
			(*digest)(&r.Prev), (*digest)(&r.Hash))
		for ; len(blobs) >= 32; blobs = blobs[32:] {
			r.Blobs = append(r.Blobs, models.Digest(blobs[:32]))
		}
		return r, err
	}, text, factory, run, from, max(limit, 0))
}

// Factories implements engine.Journal.
func (s *Store) Factories(ctx context.Context, after string, limit int64) ([]string, error) {
	const text = `SELECT factory FROM factories WHERE factory > $1 ORDER BY factory LIMIT $2`
	return collect(ctx, s.pool, "list factories", pgx.RowTo[string], text, after, max(limit, 0))
}

// Outstanding implements engine.Journal.
func (s *Store) Outstanding(ctx context.Context, factory, after string, limit int64) ([]engine.Waiting, error) {
	const text = `SELECT run, outstanding FROM runs WHERE factory = $1 AND outstanding <> '' AND run > $2 ORDER BY run LIMIT $3`
	return collect(ctx, s.pool, "list outstanding tickets", func(row pgx.CollectableRow) (engine.Waiting, error) {
		var w engine.Waiting
		err := row.Scan(&w.Run, &w.Request)
		return w, err
	}, text, factory, after, max(limit, 0))
}

// Verifiable implements engine.Journal.
func (s *Store) Verifiable(ctx context.Context, factory, after string, limit int64) ([]string, error) {
	const text = `SELECT run FROM runs WHERE factory = $1 AND verify AND run > $2 ORDER BY run LIMIT $3`
	return collect(ctx, s.pool, "list runs to verify", pgx.RowTo[string], text, factory, after, max(limit, 0))
}

// Runs implements engine.Journal.
func (s *Store) Runs(ctx context.Context, factory, after string, limit int64) ([]string, error) {
	const text = `SELECT run FROM runs WHERE factory = $1 AND run > $2 ORDER BY run LIMIT $3`
	return collect(ctx, s.pool, "list runs", pgx.RowTo[string], text, factory, after, max(limit, 0))
}

// Receipt implements engine.Journal.
func (s *Store) Receipt(ctx context.Context, key engine.Key) (engine.Receipt, error) {
	r, err := scanReceipt(s.pool.QueryRow(ctx, receiptSQL, key.Factory, key.Space, key.Run, key.ID), key)
	if err != nil {
		return engine.Receipt{}, storeError("read receipt "+key.ID, err)
	}
	return r, nil
}

// Work implements engine.Journal.
func (s *Store) Work(ctx context.Context, factory, pool string, limit int64) ([]engine.QueueEntry, error) {
	const text = `WITH t AS (SELECT ` + clock + ` AS at)
		SELECT run, request, expires, pool FROM (
			(SELECT run, request, expires, pool, entered_at AS since FROM queue
				WHERE factory = $1 AND (expires = 0 OR expires > (SELECT at FROM t)) AND pool IN ('', $2) ORDER BY entered_at, run LIMIT $3)
			UNION ALL
			(SELECT run, '', 0, '', lease_expires FROM runs WHERE factory = $1 AND reclaim > 0
				AND lease_expires <= (SELECT at FROM t) AND reclaim > (SELECT at FROM t) ORDER BY lease_expires, run LIMIT $3)
		) w ORDER BY since, run LIMIT $3`
	return collect(ctx, s.pool, "list work", func(row pgx.CollectableRow) (engine.QueueEntry, error) {
		var q engine.QueueEntry
		err := row.Scan(&q.Run, &q.Request, &q.Expires, &q.Pool)
		return q, err
	}, text, factory, pool, max(limit, 0))
}

// Pending implements engine.Journal.
func (s *Store) Pending(ctx context.Context, factory string) (int64, error) {
	var at models.Instant
	var n int64
	err := s.pool.QueryRow(ctx, nowPendingSQL, factory).Scan(&at, &n)
	return n, storeError("count pending tickets", err)
}

// querier is the pool, or one connection inside a transaction.
type querier interface {
	Query(ctx context.Context, text string, args ...any) (pgx.Rows, error)
}

func collect[T any](ctx context.Context, db querier, doing string, scan pgx.RowToFunc[T], text string, args ...any) ([]T, error) {
	rows, err := db.Query(ctx, text, args...)
	if err != nil {
		return nil, storeError(doing, err)
	}
	out, err := pgx.CollectRows(rows, scan)
	if err != nil || len(out) == 0 {
		return nil, storeError(doing, err)
	}
	return out, nil
}
