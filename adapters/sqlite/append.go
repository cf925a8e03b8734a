package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// The statements of an append, prepared once on the writing connection.
const (
	loadFactorySQL = `SELECT head_seq, head_hash, head_at, rules, state FROM factories WHERE factory = ?`
	loadRunSQL     = `SELECT salt, opener, head_seq, head_hash, head_at, rules, state, lease_expires FROM runs WHERE factory = ? AND run = ?`
	receiptSQL     = `SELECT run, digest, actor, body FROM receipts WHERE factory = ? AND space = ? AND key_run = ? AND id = ?`
	hasBlobSQL     = `SELECT EXISTS (SELECT 1 FROM blobs WHERE factory = ? AND run = ? AND digest = ?)`
	pendingSQL     = `SELECT count(*) FROM queue WHERE factory = ? AND request <> '' AND (expires = 0 OR expires > ?)`

	putFactorySQL = `INSERT INTO factories (factory, head_seq, head_hash, head_at, rules, state) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (factory) DO UPDATE SET head_seq = excluded.head_seq, head_hash = excluded.head_hash,
		head_at = excluded.head_at, rules = excluded.rules, state = excluded.state`
	putQueueRowSQL = `INSERT INTO factory_queue (factory) VALUES (?) ON CONFLICT DO NOTHING`
	putHeadSQL     = `UPDATE runs SET head_seq = ?, head_hash = ?, head_at = ?, rules = ?, state = ?, lease_expires = ?, reclaim = ?, outstanding = ?, verify = ?
		WHERE factory = ? AND run = ?`
	putStateSQL        = `UPDATE runs SET state = ?, rules = ? WHERE factory = ? AND run = ?`
	putFactoryStateSQL = `UPDATE factories SET state = ?, rules = ? WHERE factory = ?`
	revokeSQL          = `UPDATE tokens SET revoked = 1 WHERE factory = ? AND principal = ?`
	putLeaseSQL        = `UPDATE runs SET lease_expires = ?, reclaim = ?, outstanding = ?, verify = ? WHERE factory = ? AND run = ?`
	putRowSQL          = `INSERT INTO journal_rows (factory, run, seq, format, rules, cmd, i, n, at, actor, kind, payload, blobs,
		command_id, command_name, command, env, prev_hash, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	putReceiptSQL = `INSERT INTO receipts (factory, space, key_run, id, run, digest, actor, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	putOnceSQL    = `INSERT INTO once_keys (factory, run, kind, key) VALUES (?, ?, ?, ?)`
	putBlobSQL    = `INSERT INTO blobs (factory, run, digest, data, put_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET put_at = excluded.put_at WHERE NOT kept`
	addBytesSQL = `UPDATE runs SET blob_bytes = blob_bytes + ? WHERE factory = ? AND run = ?`
	putQueueSQL = `INSERT INTO queue (factory, run, request, pool, expires, entered_at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (factory, run) DO UPDATE SET request = excluded.request, pool = excluded.pool, expires = excluded.expires,
		entered_at = CASE WHEN request = excluded.request THEN entered_at ELSE excluded.entered_at END`
	dropQueueSQL = `DELETE FROM queue WHERE factory = ? AND run = ?`
)

type statements struct {
	loadFactory, loadRun, receipt, hasBlob, pending    *sql.Stmt
	putFactory, putQueueRow, putHead, putLease, putRow *sql.Stmt
	putReceipt, putOnce, putBlob, putQueue, dropQueue  *sql.Stmt
	putState, putFactoryState, revoke, addBytes        *sql.Stmt
}

func (s *statements) all() map[string]**sql.Stmt {
	return map[string]**sql.Stmt{
		loadFactorySQL: &s.loadFactory, loadRunSQL: &s.loadRun, receiptSQL: &s.receipt, hasBlobSQL: &s.hasBlob,
		pendingSQL: &s.pending, putFactorySQL: &s.putFactory, putQueueRowSQL: &s.putQueueRow, putHeadSQL: &s.putHead,
		putLeaseSQL: &s.putLease, putRowSQL: &s.putRow, putReceiptSQL: &s.putReceipt, putOnceSQL: &s.putOnce,
		putBlobSQL: &s.putBlob, putQueueSQL: &s.putQueue, dropQueueSQL: &s.dropQueue,
		putStateSQL: &s.putState, putFactoryStateSQL: &s.putFactoryState, revokeSQL: &s.revoke, addBytesSQL: &s.addBytes,
	}
}

func (s *statements) prepare(ctx context.Context, db *sql.DB) error {
	for text, to := range s.all() {
		stmt, err := db.PrepareContext(ctx, text)
		if err != nil {
			return fmt.Errorf("prepare %s: %w", text, err)
		}
		*to = stmt
	}
	return nil
}

func (s *statements) close() error {
	var errs []error
	for _, stmt := range s.all() {
		if *stmt != nil {
			errs = append(errs, (*stmt).Close())
		}
	}
	return errors.Join(errs...)
}

// Append implements engine.Journal. Being the writer is every lock at once, so the order of engine.Locks is trivially kept
// and the clock is read right after BEGIN IMMEDIATE. Nothing is retried: decide runs at most once.
func (s *Store) Append(ctx context.Context, locks engine.Locks, decide func(engine.Loaded) (*engine.Write, error)) error {
	doing := fmt.Sprintf("append to factory %s run %q", locks.Factory, locks.Run)
	if err := locks.Check(); err != nil {
		return err
	}
	// BEGIN IMMEDIATE by _txlock; Rollback after Commit does nothing, and a panic in decide ends here too.
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return storeError(doing, err)
	}
	defer func() { _ = tx.Rollback() }()
	loaded, err := s.load(ctx, tx, locks)
	if err != nil {
		return storeError(doing, err)
	}
	w, err := decide(loaded)
	if err != nil || w == nil {
		return err
	}
	if err := w.Check(locks, loaded); err != nil {
		return err
	}
	if err := s.write(ctx, tx, locks, loaded.Now, w); err != nil {
		return storeError(doing, err)
	}
	return storeError(doing, tx.Commit())
}

func (s *Store) load(ctx context.Context, tx *sql.Tx, locks engine.Locks) (engine.Loaded, error) {
	l := engine.Loaded{Now: now(), Rows: func(from, limit int64) ([]models.Row, error) {
		return readRows(ctx, tx, locks.Factory, locks.Run, from, limit)
	}}
	err := scanCached(tx.StmtContext(ctx, s.stmt.loadFactory).QueryRowContext(ctx, locks.Factory), &l.Factory)
	if err != nil && !(locks.Exclusive && errors.Is(err, sql.ErrNoRows)) {
		return l, err
	}
	if locks.Exclusive {
		err := tx.QueryRowContext(ctx, `SELECT coalesce(max(head_at), 0) FROM runs WHERE factory = ?`, locks.Factory).Scan(&l.Newest)
		if err != nil {
			return l, err
		}
	}
	if locks.Run != "" {
		info, err := scanRun(tx.StmtContext(ctx, s.stmt.loadRun).QueryRowContext(ctx, locks.Factory, locks.Run), locks.Run)
		if err != nil {
			return l, err
		}
		l.Run, l.Salt, l.Opener, l.Lease = info.Cached, info.Salt, info.Opener, info.Lease
	}
	if locks.Queue {
		err := tx.StmtContext(ctx, s.stmt.pending).QueryRowContext(ctx, locks.Factory, l.Now).Scan(&l.Pending)
		if err != nil {
			return l, err
		}
	}
	if locks.Receipt.ID != "" {
		k := locks.Receipt
		saved, err := scanReceipt(tx.StmtContext(ctx, s.stmt.receipt).QueryRowContext(ctx, k.Factory, k.Space, k.Run, k.ID), k)
		if err == nil {
			l.Saved = &saved
		} else if !errors.Is(err, sql.ErrNoRows) {
			return l, err
		}
	}
	for _, d := range locks.Blobs {
		var kept bool
		err := tx.StmtContext(ctx, s.stmt.hasBlob).QueryRowContext(ctx, locks.Factory, locks.Run, d[:]).Scan(&kept)
		if err != nil {
			return l, err
		}
		if !kept {
			l.Missing = append(l.Missing, d)
		}
	}
	return l, nil
}

func (s *Store) write(ctx context.Context, tx *sql.Tx, locks engine.Locks, at models.Instant, w *engine.Write) error {
	var err error
	run := func(stmt *sql.Stmt, args ...any) {
		if err == nil {
			_, err = tx.StmtContext(ctx, stmt).ExecContext(ctx, args...)
		}
	}
	switch {
	case len(w.Rows) > 0:
		head := w.Rows[len(w.Rows)-1]
		if locks.Run == "" {
			run(s.stmt.putFactory, locks.Factory, head.Seq, head.Hash[:], head.At, w.Rules, w.State)
			run(s.stmt.putQueueRow, locks.Factory)
		} else {
			run(s.stmt.putHead, head.Seq, head.Hash[:], head.At, w.Rules, w.State, w.Lease, w.Reclaim, w.Outstanding, w.Verify, locks.Factory, locks.Run)
		}
	case locks.Run == "":
		run(s.stmt.putFactoryState, w.State, w.Rules, locks.Factory)
	default:
		run(s.stmt.putLease, w.Lease, w.Reclaim, w.Outstanding, w.Verify, locks.Factory, locks.Run)
		if w.State != nil {
			run(s.stmt.putState, w.State, w.Rules, locks.Factory, locks.Run)
		}
	}
	if w.Gone != "" {
		run(s.stmt.revoke, locks.Factory, w.Gone)
	}
	for _, b := range w.Blobs {
		if err == nil {
			err = s.keep(ctx, tx, locks.Factory, locks.Run, b, at)
		}
	}
	for _, r := range w.Rows {
		run(s.stmt.putRow, r.Factory, r.Run, r.Seq, r.Format, r.Rules, r.Cmd, r.I, r.N, r.At, r.Actor, r.Kind, whole(r.Payload),
			join(r.Blobs), r.CommandID, r.CommandName, whole(r.Command), whole(r.Env), r.Prev[:], r.Hash[:])
	}
	for _, o := range w.Once {
		run(s.stmt.putOnce, locks.Factory, locks.Run, o.Kind, o.Key)
	}
	if k := w.Receipt.Key; k.ID != "" {
		run(s.stmt.putReceipt, k.Factory, k.Space, k.Run, k.ID, w.Receipt.Run, w.Receipt.Digest[:], w.Receipt.Actor, whole(w.Receipt.Body))
	}
	if locks.Run != "" {
		if q := w.Queue; q != nil {
			run(s.stmt.putQueue, locks.Factory, locks.Run, q.Request, q.Pool, q.Expires, at)
		} else {
			run(s.stmt.dropQueue, locks.Factory, locks.Run)
		}
	}
	return err
}

// keep puts a blob, and counts it for its run if it was not there.
func (s *Store) keep(ctx context.Context, tx *sql.Tx, factory, run string, b engine.Blob, at models.Instant) error {
	var had bool
	if err := tx.StmtContext(ctx, s.stmt.hasBlob).QueryRowContext(ctx, factory, run, b.Digest[:]).Scan(&had); err != nil {
		return err
	}
	if _, err := tx.StmtContext(ctx, s.stmt.putBlob).ExecContext(ctx, factory, run, b.Digest[:], whole(b.Data), at); err != nil || had {
		return err
	}
	_, err := tx.StmtContext(ctx, s.stmt.addBytes).ExecContext(ctx, len(b.Data), factory, run)
	return err
}

// whole keeps "no bytes" from becoming NULL.
func whole(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func join(ds []models.Digest) []byte {
	out := make([]byte, 0, 32*len(ds))
	for _, d := range ds {
		out = append(out, d[:]...)
	}
	return out
}
