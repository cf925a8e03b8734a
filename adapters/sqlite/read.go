package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// digest scans 32 bytes.
type digest [32]byte

func (d *digest) Scan(v any) error {
	b, ok := v.([]byte)
	if !ok || len(b) != 32 {
		return fmt.Errorf("%T of %d bytes is no digest", v, len(b))
	}
	copy(d[:], b)
	return nil
}

// some scans bytes, none at all as nil.
type some []byte

func (s *some) Scan(v any) error {
	b, ok := v.([]byte)
	if v != nil && !ok {
		return fmt.Errorf("%T is no bytes", v)
	}
	*s = nil
	if len(b) > 0 {
		*s = append(some(nil), b...)
	}
	return nil
}

func scanCached(row *sql.Row, c *engine.Cached) error {
	return row.Scan(&c.Head.Seq, (*digest)(&c.Head.Hash), &c.At, &c.Rules, (*some)(&c.State))
}

// scanRun scans what loadRunSQL selects, and into before what stands before it.
func scanRun(row *sql.Row, run string, before ...any) (engine.RunInfo, error) {
	r := engine.RunInfo{Run: run}
	var salt some
	c := &r.Cached
	err := row.Scan(append(before, &salt, &r.Opener, &c.Head.Seq, (*digest)(&c.Head.Hash), &c.At, &c.Rules, (*some)(&c.State), &r.Lease)...)
	copy(r.Salt[:], salt)
	return r, err
}

func scanReceipt(row *sql.Row, k engine.Key) (engine.Receipt, error) {
	r := engine.Receipt{Key: k}
	err := row.Scan(&r.Run, (*digest)(&r.Digest), &r.Actor, (*some)(&r.Body))
	return r, err
}

// Factory implements engine.Journal.
func (s *Store) Factory(ctx context.Context, factory string) (engine.Cached, error) {
	var c engine.Cached
	err := scanCached(s.readers.QueryRowContext(ctx, loadFactorySQL, factory), &c)
	return c, storeError("read factory "+factory, err)
}

// Run implements engine.Journal.
func (s *Store) Run(ctx context.Context, factory, run string) (engine.RunInfo, error) {
	r, err := scanRun(s.readers.QueryRowContext(ctx, loadRunSQL, factory, run), run)
	if err != nil {
		return engine.RunInfo{}, storeError("read run "+run, err)
	}
	return r, nil
}

// Stand implements engine.Journal. It is one statement, since two would not be of one moment.
func (s *Store) Stand(ctx context.Context, factory, run string) (out engine.Standing, err error) {
	const text = `SELECT f.head_seq, f.head_hash, f.head_at, f.rules, f.state, r.salt, r.opener, r.head_seq, r.head_hash, r.head_at, r.rules,
		r.state, r.lease_expires FROM factories f JOIN runs r ON r.factory = f.factory WHERE f.factory = ? AND r.run = ?`
	c := &out.Factory
	out.Run, err = scanRun(s.readers.QueryRowContext(ctx, text, factory, run), run,
		&c.Head.Seq, (*digest)(&c.Head.Hash), &c.At, &c.Rules, (*some)(&c.State))
	if err != nil {
		return engine.Standing{}, storeError("read run "+run+" and its factory", err)
	}
	out.Now, err = s.Now(ctx)
	return out, err
}

// OpenRun implements engine.Journal.
func (s *Store) OpenRun(ctx context.Context, factory, run, opener string, salt [32]byte) (engine.RunInfo, error) {
	const text = `INSERT INTO runs (factory, run, salt, opener, head_seq, head_hash, head_at, rules, lease_expires, reclaim, outstanding)
		SELECT factory, ?, ?, ?, 0, zeroblob(32), 0, 0, 0, 0, '' FROM factories WHERE factory = ? ON CONFLICT DO NOTHING`
	if _, err := s.writer.ExecContext(ctx, text, run, salt[:], opener, factory); err != nil {
		return engine.RunInfo{}, storeError("open run "+run, err)
	}
	return s.Run(ctx, factory, run)
}

// Rows implements engine.Journal. Past the head, and for a journal that does not exist, there are none.
func (s *Store) Rows(ctx context.Context, factory, run string, from, limit int64) ([]models.Row, error) {
	return readRows(ctx, s.readers, factory, run, from, limit)
}

func readRows(ctx context.Context, db querier, factory, run string, from, limit int64) ([]models.Row, error) {
	const text = `SELECT format, rules, factory, run, seq, cmd, i, n, at, actor, kind, payload, blobs, command_id, command_name,
		command, env, prev_hash, hash FROM journal_rows WHERE factory = ? AND run = ? AND seq >= ? ORDER BY seq LIMIT ?`
	if limit <= 0 {
		return nil, nil
	}
	return collect(ctx, db, "read rows of run "+run, func(rows *sql.Rows) (models.Row, error) {
		var r models.Row
		var blobs []byte
		err := rows.Scan(&r.Format, &r.Rules, &r.Factory, &r.Run, &r.Seq, &r.Cmd, &r.I, &r.N, &r.At, &r.Actor, &r.Kind,
			(*some)(&r.Payload), &blobs, &r.CommandID, &r.CommandName, (*some)(&r.Command), (*some)(&r.Env),
			(*digest)(&r.Prev), (*digest)(&r.Hash))
		for ; len(blobs) >= 32; blobs = blobs[32:] {
			r.Blobs = append(r.Blobs, models.Digest(blobs[:32]))
		}
		return r, err
	}, text, factory, run, from, limit)
}

// Factories implements engine.Journal.
func (s *Store) Factories(ctx context.Context, after string, limit int64) ([]string, error) {
	const text = `SELECT factory FROM factories WHERE factory > ? ORDER BY factory LIMIT ?`
	return collect(ctx, s.readers, "list factories", text1, text, after, max(limit, 0))
}

// Outstanding implements engine.Journal.
func (s *Store) Outstanding(ctx context.Context, factory, after string, limit int64) ([]engine.Waiting, error) {
	const text = `SELECT run, outstanding FROM runs WHERE factory = ? AND outstanding <> '' AND run > ? ORDER BY run LIMIT ?`
	return collect(ctx, s.readers, "list outstanding tickets", func(rows *sql.Rows) (engine.Waiting, error) {
		var w engine.Waiting
		err := rows.Scan(&w.Run, &w.Request)
		return w, err
	}, text, factory, after, max(limit, 0))
}

// Verifiable implements engine.Journal.
func (s *Store) Verifiable(ctx context.Context, factory, after string, limit int64) ([]string, error) {
	const text = `SELECT run FROM runs WHERE factory = ? AND verify = 1 AND run > ? ORDER BY run LIMIT ?`
	return collect(ctx, s.readers, "list runs to verify", text1, text, factory, after, max(limit, 0))
}

func text1(rows *sql.Rows) (string, error) {
	var one string
	err := rows.Scan(&one)
	return one, err
}

// Runs implements engine.Journal.
func (s *Store) Runs(ctx context.Context, factory, after string, limit int64) ([]string, error) {
	const text = `SELECT run FROM runs WHERE factory = ? AND run > ? ORDER BY run LIMIT ?`
	return collect(ctx, s.readers, "list runs", text1, text, factory, after, max(limit, 0))
}

// Receipt implements engine.Journal.
func (s *Store) Receipt(ctx context.Context, key engine.Key) (engine.Receipt, error) {
	r, err := scanReceipt(s.readers.QueryRowContext(ctx, receiptSQL, key.Factory, key.Space, key.Run, key.ID), key)
	if err != nil {
		return engine.Receipt{}, storeError("read receipt "+key.ID, err)
	}
	return r, nil
}

// Work implements engine.Journal.
func (s *Store) Work(ctx context.Context, factory, pool string, limit int64) ([]engine.QueueEntry, error) {
	const text = `SELECT run, request, expires, pool FROM (
			SELECT * FROM (SELECT run, request, expires, pool, entered_at AS since FROM queue
				WHERE factory = ?1 AND (expires = 0 OR expires > ?2) AND pool IN ('', ?3) ORDER BY entered_at, run LIMIT ?4)
			UNION ALL
			SELECT * FROM (SELECT run, '', 0, '', lease_expires AS since FROM runs
				WHERE factory = ?1 AND reclaim > 0 AND lease_expires <= ?2 AND reclaim > ?2 ORDER BY lease_expires, run LIMIT ?4)
		) ORDER BY since, run LIMIT ?4`
	return collect(ctx, s.readers, "list work", func(rows *sql.Rows) (engine.QueueEntry, error) {
		var q engine.QueueEntry
		err := rows.Scan(&q.Run, &q.Request, &q.Expires, &q.Pool)
		return q, err
	}, text, factory, now(), pool, max(limit, 0))
}

// Pending implements engine.Journal.
func (s *Store) Pending(ctx context.Context, factory string) (int64, error) {
	var n int64
	err := s.readers.QueryRowContext(ctx, pendingSQL, factory, now()).Scan(&n)
	return n, storeError("count pending tickets", err)
}

// querier is the pool, or one transaction.
type querier interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}

func collect[T any](ctx context.Context, db querier, doing string, scan func(*sql.Rows) (T, error), text string, args ...any) ([]T, error) {
	rows, err := db.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, storeError(doing, err)
	}
	defer func() { _ = rows.Close() }()
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, storeError(doing, err)
		}
		out = append(out, v)
	}
	return out, storeError(doing, rows.Err())
}
