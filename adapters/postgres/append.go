package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// maxTries is how often an append is tried where the server answers with a deadlock or a serialization failure. The locks
// have one order, so it takes something outside Forge to cause one.
const maxTries = 4

// The statements of an append. The locking ones load what they lock: a statement that waited sees the row as it is when it
// gets the lock.
const (
	beginSQL       = `BEGIN ISOLATION LEVEL READ COMMITTED`
	claimFactory   = `INSERT INTO factories (factory, head_seq, head_hash, head_at, rules) VALUES ($1, 0, decode(repeat('00', 32), 'hex'), 0, 0) ON CONFLICT DO NOTHING`
	loadFactorySQL = `SELECT head_seq, head_hash, head_at, rules, state FROM factories WHERE factory = $1`
	loadRunSQL     = `SELECT salt, opener, head_seq, head_hash, head_at, rules, state, lease_expires FROM runs WHERE factory = $1 AND run = $2`
	lockQueueSQL   = `SELECT FROM factory_queue WHERE factory = $1 FOR UPDATE`
	nowSQL         = `SELECT ` + clock
	// The subquery reads the clock once, so the count is of the very instant that is loaded.
	nowPendingSQL = `SELECT t.at, (SELECT count(*) FROM queue WHERE factory = $1 AND request <> '' AND (expires = 0 OR expires > t.at))
		FROM (SELECT ` + clock + ` AS at OFFSET 0) t`
	receiptSQL = `SELECT run, digest, actor, body FROM receipts WHERE factory = $1 AND space = $2 AND key_run = $3 AND id = $4`
	missingSQL = `SELECT a.digest FROM unnest($3::bytea[]) WITH ORDINALITY AS a (digest, n)
		WHERE NOT EXISTS (SELECT FROM blobs b WHERE b.factory = $1 AND b.run = $2 AND b.digest = a.digest) ORDER BY a.n`

	putFactorySQL  = `UPDATE factories SET head_seq = $2, head_hash = $3, head_at = $4, rules = $5, state = $6 WHERE factory = $1`
	putQueueRowSQL = `INSERT INTO factory_queue (factory) VALUES ($1) ON CONFLICT DO NOTHING`
	putHeadSQL     = `UPDATE runs SET head_seq = $3, head_hash = $4, head_at = $5, rules = $6, state = $7, lease_expires = $8,
		reclaim = $9, outstanding = $10 WHERE factory = $1 AND run = $2`
	putStateSQL        = `UPDATE runs SET state = $3, rules = $4 WHERE factory = $1 AND run = $2`
	putFactoryStateSQL = `UPDATE factories SET state = $2, rules = $3 WHERE factory = $1`
	revokeSQL          = `UPDATE tokens SET revoked = true WHERE factory = $1 AND principal = $2`
	putLeaseSQL        = `UPDATE runs SET lease_expires = $3, reclaim = $4, outstanding = $5 WHERE factory = $1 AND run = $2`
	putRowSQL          = `INSERT INTO journal_rows (factory, run, seq, format, rules, cmd, i, n, at, actor, kind, payload, blobs,
		command_id, command_name, command, env, prev_hash, hash)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)`
	putReceiptSQL = `INSERT INTO receipts (factory, space, key_run, id, run, digest, actor, body) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`
	putOnceSQL    = `INSERT INTO once_keys (factory, run, kind, key) VALUES ($1, $2, $3, $4)`
	// Under the lock of the run's row nobody else puts or removes its blobs, so what the statement sees is what is there.
	putBlobSQL = `WITH had AS (SELECT FROM blobs WHERE factory = $1 AND run = $2 AND digest = $3), put AS (
			INSERT INTO blobs AS b (factory, run, digest, data, put_at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (factory, run, digest) DO UPDATE SET put_at = excluded.put_at WHERE NOT b.kept
		) UPDATE runs SET blob_bytes = blob_bytes + octet_length($4) WHERE factory = $1 AND run = $2 AND NOT EXISTS (SELECT FROM had)`
	putQueueSQL = `INSERT INTO queue AS q (factory, run, request, pool, expires, entered_at) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (factory, run) DO UPDATE SET request = excluded.request, pool = excluded.pool, expires = excluded.expires,
		entered_at = CASE WHEN q.request = excluded.request THEN q.entered_at ELSE excluded.entered_at END`
	dropQueueSQL = `DELETE FROM queue WHERE factory = $1 AND run = $2`
)

// Append implements engine.Journal.
func (s *Store) Append(ctx context.Context, locks engine.Locks, decide func(engine.Loaded) (*engine.Write, error)) error {
	if err := locks.Check(); err != nil {
		return err
	}
	doing := fmt.Sprintf("append to factory %s run %q", locks.Factory, locks.Run)
	for try := 1; ; try++ {
		answer, err := s.appendOnce(ctx, locks, decide)
		if err == nil {
			return answer
		}
		if !again(err) || try == maxTries {
			return storeError(doing, err)
		}
		select {
		case <-ctx.Done():
			return storeError(doing, ctx.Err())
		case <-time.After(time.Duration(rand.Int64N(int64(try) * int64(20*time.Millisecond)))):
		}
	}
}

// appendOnce is one transaction. answer is the caller's own (decide's error, or a write that does not follow), err the
// database's.
func (s *Store) appendOnce(ctx context.Context, locks engine.Locks, decide func(engine.Loaded) (*engine.Write, error)) (answer, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	// A connection that is still inside the transaction must not go back like that: it is rolled back, also when decide
	// panicked or the caller went away, and closed where even that fails.
	defer func() {
		if conn.Conn().PgConn().TxStatus() != 'I' && !conn.Conn().IsClosed() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
			defer cancel()
			_, _ = conn.Exec(ctx, "ROLLBACK")
		}
		conn.Release()
	}()
	loaded, err := load(ctx, conn, locks)
	if err != nil {
		return nil, err
	}
	w, answer := decide(loaded)
	if answer != nil || w == nil {
		return answer, nil
	}
	if answer := w.Check(locks, loaded); answer != nil {
		return answer, nil
	}
	return nil, write(ctx, conn, locks, loaded.Now, w)
}

// load takes the locks in the order of engine.Locks, then reads the clock in a statement of its own, so that no wait for a
// lock comes after it, then the rest.
func load(ctx context.Context, conn *pgxpool.Conn, locks engine.Locks) (engine.Loaded, error) {
	l := engine.Loaded{Rows: func(from, limit int64) ([]models.Row, error) {
		return readRows(ctx, conn, locks.Factory, locks.Run, from, limit)
	}}
	b := &pgx.Batch{}
	b.Queue(beginSQL)
	if locks.Exclusive {
		// Of two creators the second waits here for the first. Without a write the transaction ends without a trace.
		b.Queue(claimFactory, locks.Factory)
		b.Queue(loadFactorySQL+` FOR UPDATE`, locks.Factory).QueryRow(cachedInto(&l.Factory))
	} else {
		b.Queue(loadFactorySQL+` FOR SHARE`, locks.Factory).QueryRow(cachedInto(&l.Factory))
	}
	if locks.Run != "" {
		b.Queue(loadRunSQL+` FOR UPDATE`, locks.Factory, locks.Run).QueryRow(func(row pgx.Row) error {
			info, err := scanRun(row, locks.Run)
			l.Run, l.Salt, l.Opener, l.Lease = info.Cached, info.Salt, info.Opener, info.Lease
			return err
		})
	}
	if locks.Queue {
		b.Queue(lockQueueSQL, locks.Factory)
		b.Queue(nowPendingSQL, locks.Factory).QueryRow(func(row pgx.Row) error { return row.Scan(&l.Now, &l.Pending) })
	} else {
		b.Queue(nowSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&l.Now) })
	}
	if k := locks.Receipt; k.ID != "" {
		b.Queue(receiptSQL, k.Factory, k.Space, k.Run, k.ID).QueryRow(func(row pgx.Row) error {
			r, err := scanReceipt(row, k)
			if err == nil {
				l.Saved = &r
			} else if errors.Is(err, pgx.ErrNoRows) {
				err = nil
			}
			return err
		})
	}
	if len(locks.Blobs) > 0 {
		asked := make([][]byte, len(locks.Blobs))
		for i := range locks.Blobs {
			asked[i] = locks.Blobs[i][:]
		}
		b.Queue(missingSQL, locks.Factory, locks.Run, asked).Query(func(rows pgx.Rows) error {
			var err error
			l.Missing, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (models.Digest, error) {
				var d digest
				err := row.Scan(&d)
				return models.Digest(d), err
			})
			return err
		})
	}
	err := conn.SendBatch(ctx, b).Close() // runs the functions above
	return l, err
}

func cachedInto(c *engine.Cached) func(pgx.Row) error {
	return func(row pgx.Row) error { return scanCached(row, c) }
}

// write sends everything and the commit in one round trip: the server stops at the first error, and with it the commit.
func write(ctx context.Context, conn *pgxpool.Conn, locks engine.Locks, at models.Instant, w *engine.Write) error {
	b := &pgx.Batch{}
	switch n := len(w.Rows); {
	case n > 0:
		head := w.Rows[n-1]
		if locks.Run == "" {
			b.Queue(putFactorySQL, locks.Factory, head.Seq, head.Hash[:], head.At, w.Rules, w.State)
			b.Queue(putQueueRowSQL, locks.Factory)
		} else {
			b.Queue(putHeadSQL, locks.Factory, locks.Run, head.Seq, head.Hash[:], head.At, w.Rules, w.State, w.Lease, w.Reclaim, w.Outstanding)
		}
	case locks.Run == "":
		b.Queue(putFactoryStateSQL, locks.Factory, w.State, w.Rules)
	default:
		b.Queue(putLeaseSQL, locks.Factory, locks.Run, w.Lease, w.Reclaim, w.Outstanding)
		if w.State != nil {
			b.Queue(putStateSQL, locks.Factory, locks.Run, w.State, w.Rules)
		}
	}
	if w.Gone != "" {
		b.Queue(revokeSQL, locks.Factory, w.Gone)
	}
	for _, blob := range w.Blobs {
		b.Queue(putBlobSQL, locks.Factory, locks.Run, blob.Digest[:], whole(blob.Data), at)
	}
	for _, r := range w.Rows {
		b.Queue(putRowSQL, r.Factory, r.Run, r.Seq, r.Format, r.Rules, r.Cmd, r.I, r.N, r.At, r.Actor, r.Kind, whole(r.Payload),
			join(r.Blobs), r.CommandID, r.CommandName, whole(r.Command), whole(r.Env), r.Prev[:], r.Hash[:])
	}
	for _, o := range w.Once {
		b.Queue(putOnceSQL, locks.Factory, locks.Run, o.Kind, o.Key)
	}
	if k := w.Receipt.Key; k.ID != "" {
		b.Queue(putReceiptSQL, k.Factory, k.Space, k.Run, k.ID, w.Receipt.Run, w.Receipt.Digest[:], w.Receipt.Actor, whole(w.Receipt.Body))
	}
	if locks.Run != "" {
		if q := w.Queue; q != nil {
			b.Queue(putQueueSQL, locks.Factory, locks.Run, q.Request, q.Pool, q.Expires, at)
		} else {
			b.Queue(dropQueueSQL, locks.Factory, locks.Run)
		}
	}
	b.Queue("COMMIT")
	return conn.SendBatch(ctx, b).Close()
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
