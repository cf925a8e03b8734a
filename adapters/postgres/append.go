package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// maxTries is how often an append is tried where the server answers with a deadlock or a serialization failure. The locks
// have one order, so it takes something outside Forge to cause one.
const maxTries = 4

// appendTime bounds one transaction from the node's side, for a server that no longer answers at all; the server's own
// statement_timeout comes first.
const appendTime = 15 * time.Second

// The statements of an append. The lock of a factory is an advisory one, by the table's oid and a hash of the id: a shared
// lock on its row would be written to disk, and many holders at once cost a multixact each. What the lock guards is read by
// the next statement, so as it is when the lock is held; the same holds of a run, whose row is its lock.
const (
	beginSQL        = `BEGIN ISOLATION LEVEL READ COMMITTED`
	factoryLock     = `('factories'::regclass::oid::bigint << 32 | $1::bigint)`
	ownFactorySQL   = `SELECT pg_advisory_xact_lock` + factoryLock
	shareFactorySQL = `SELECT pg_advisory_xact_lock_shared` + factoryLock
	trySharedSQL    = `SELECT pg_try_advisory_xact_lock_shared` + factoryLock
	claimFactorySQL = `INSERT INTO factories (factory, head_seq, head_hash, head_at, rules) VALUES ($1, 0, decode(repeat('00', 32), 'hex'), 0, 0) ON CONFLICT DO NOTHING`
	factoryColumns  = `f.head_seq, f.head_hash, f.head_at, f.rules, f.state`
	standSQL        = `SELECT ` + clock + `, ` + factoryColumns + `, ` + runColumns + ` FROM factories f JOIN runs r ON r.factory = f.factory WHERE f.factory = $1 AND r.run = $2`
	loadFactorySQL  = `SELECT ` + factoryColumns + ` FROM factories f WHERE f.factory = $1`
	newestSQL       = `SELECT coalesce(max(head_at), 0) FROM runs WHERE factory = $1`
	runColumns      = `r.salt, r.opener, r.head_seq, r.head_hash, r.head_at, r.rules, r.state, r.lease_expires`
	loadRunSQL      = `SELECT ` + runColumns + ` FROM runs r WHERE r.factory = $1 AND r.run = $2`
	// Both locks of one append. A row is locked when all else of the statement is done, so the factory's is had first; OFFSET 0
	// keeps the planner from leaving out a subquery whose answer nobody asks for.
	lockBothSQL = `SELECT ` + runColumns + ` FROM (SELECT pg_advisory_xact_lock_shared` + factoryLock + ` OFFSET 0) l, runs r
		WHERE r.factory = $2 AND r.run = $3 FOR UPDATE OF r`
	tryBothSQL = `SELECT ` + runColumns + ` FROM (SELECT pg_try_advisory_xact_lock_shared` + factoryLock + ` AS have OFFSET 0) l, runs r
		WHERE l.have AND r.factory = $2 AND r.run = $3 FOR UPDATE OF r SKIP LOCKED`
	tryRunsSQL = `SELECT a.n, ` + runColumns + ` FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS a (factory, run, n)
		JOIN LATERAL (SELECT * FROM runs WHERE runs.factory = a.factory AND runs.run = a.run FOR UPDATE SKIP LOCKED) r ON true`
	lockQueueSQL = `SELECT FROM factory_queue WHERE factory = $1 FOR UPDATE`
	// The subquery reads the clock once, so the count is of the very instant that is loaded.
	nowPendingSQL = `SELECT t.at, (SELECT count(*) FROM queue WHERE factory = $1 AND request <> '' AND (expires = 0 OR expires > t.at))
		FROM (SELECT ` + clock + ` AS at OFFSET 0) t`
	receiptSQL = `SELECT run, digest, actor, body FROM receipts WHERE factory = $1 AND space = $2 AND key_run = $3 AND id = $4`
	// What stands beside a run: the entry in the queue, and the saved receipt; of one append, with its factory, and of many.
	besideColumns = `SELECT ` + clock + `, q.request, q.pool, q.expires, r.run, r.digest, r.actor, r.body`
	besideSQL     = besideColumns + `, ` + factoryColumns + ` FROM (SELECT) a LEFT JOIN queue q ON q.factory = $1 AND q.run = $2
		LEFT JOIN receipts r ON r.factory = $1 AND r.space = $3 AND r.key_run = $4 AND r.id = $5
		LEFT JOIN factories f ON f.factory = $1`
	besideAllSQL = besideColumns + ` FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) WITH ORDINALITY AS a (factory, run, space, key_run, id, n)
		LEFT JOIN LATERAL (SELECT * FROM queue q WHERE q.factory = a.factory AND q.run = a.run LIMIT 1) q ON true
		LEFT JOIN LATERAL (SELECT * FROM receipts r WHERE r.factory = a.factory AND r.space = a.space AND r.key_run = a.key_run AND r.id = a.id LIMIT 1) r ON true
		ORDER BY a.n`
	missingSQL = `SELECT a.digest FROM unnest($3::bytea[]) WITH ORDINALITY AS a (digest, n)
		WHERE NOT EXISTS (SELECT FROM blobs b WHERE b.factory = $1 AND b.run = $2 AND b.digest = a.digest) ORDER BY a.n`

	// A commit waits for a standby only where its transaction wrote something, as the lock of a row does and an advisory one does not.
	touchFactorySQL    = `SELECT FROM factories WHERE factory = $1 FOR NO KEY UPDATE`
	putFactorySQL      = `UPDATE factories SET head_seq = $2, head_hash = $3, head_at = $4, rules = $5, state = $6 WHERE factory = $1`
	putQueueRowSQL     = `INSERT INTO factory_queue (factory) VALUES ($1) ON CONFLICT DO NOTHING`
	putStateSQL        = `UPDATE runs SET state = $3, rules = $4 WHERE factory = $1 AND run = $2`
	putFactoryStateSQL = `UPDATE factories SET state = $2, rules = $3 WHERE factory = $1`
	revokeSQL          = `UPDATE tokens SET revoked = true WHERE factory = $1 AND principal = $2`
	putLeaseSQL        = `UPDATE runs SET lease_expires = $3, reclaim = $4, outstanding = $5, verify = $6 WHERE factory = $1 AND run = $2`
	// Under the lock of the run's row nobody else puts or removes its blobs, so what the statement sees is what is there.
	putBlobSQL = `WITH had AS (SELECT FROM blobs WHERE factory = $1 AND run = $2 AND digest = $3), put AS (
			INSERT INTO blobs AS b (factory, run, digest, data, put_at, encoding) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (factory, run, digest) DO UPDATE SET put_at = excluded.put_at WHERE NOT b.kept
		) UPDATE runs SET blob_bytes = blob_bytes + $7::bigint WHERE factory = $1 AND run = $2 AND NOT EXISTS (SELECT FROM had)`
	putQueueSQL = `INSERT INTO queue AS q (factory, run, request, pool, expires, entered_at) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (factory, run) DO UPDATE SET request = excluded.request, pool = excluded.pool, expires = excluded.expires,
		entered_at = CASE WHEN q.request = excluded.request THEN q.entered_at ELSE excluded.entered_at END`
)

// The statements that a whole group shares.
var (
	putHeads = newMany(`UPDATE runs AS r SET head_seq = v.head_seq, head_hash = v.head_hash, head_at = v.head_at, rules = v.rules, state = v.state,
		lease_expires = v.lease_expires, reclaim = v.reclaim, outstanding = v.outstanding, verify = v.verify FROM (VALUES `,
		[]string{"text", "text", "bigint", "bytea", "bigint", "bigint", "bytea", "bigint", "bigint", "text", "boolean"},
		`) AS v (factory, run, head_seq, head_hash, head_at, rules, state, lease_expires, reclaim, outstanding, verify) WHERE r.factory = v.factory AND r.run = v.run`)
	putRows = newMany(`INSERT INTO journal_rows (factory, run, seq, format, rules, cmd, i, n, at, actor, kind, payload, blobs,
		command_id, command_name, command, env, prev_hash, hash) VALUES `,
		[]string{"text", "text", "bigint", "bigint", "bigint", "bigint", "bigint", "bigint", "bigint", "text", "text", "bytea", "bytea",
			"text", "text", "bytea", "bytea", "bytea", "bytea"}, "")
	putReceipts = newMany(`INSERT INTO receipts (factory, space, key_run, id, run, digest, actor, body) VALUES `,
		[]string{"text", "text", "text", "text", "text", "bytea", "text", "bytea"}, "")
	putOnces  = newMany(`INSERT INTO once_keys (factory, run, kind, key) VALUES `, []string{"text", "text", "text", "text"}, "")
	dropQueue = newMany(`DELETE FROM queue AS q USING (VALUES `, []string{"text", "text"}, `) AS v (factory, run) WHERE q.factory = v.factory AND q.run = v.run`)
	// All three for the one row of one command, as most appends are.
	putOneSQL = `WITH head AS (` + putHeads.text(1, 0) + `), receipt AS (` + putReceipts.text(1, len(putHeads.types)) + `) ` +
		putRows.text(1, len(putHeads.types)+len(putReceipts.types))
)

// Append implements engine.Journal. An append of a run that counts nothing shared goes with others that arrive at the same
// time (group.go); where that cannot serve it, and for every other, it is a transaction of its own.
func (s *Store) Append(ctx context.Context, locks engine.Locks, decide func(engine.Loaded) (*engine.Write, error)) error {
	if err := locks.Check(); err != nil {
		return err
	}
	doing := fmt.Sprintf("append to factory %s run %q", locks.Factory, locks.Run)
	p := &part{ctx: ctx, locks: locks, decide: decide}
	if !locks.Exclusive && !locks.Queue {
		if served, err := s.groups.append(p); err != nil {
			return storeError(doing, err)
		} else if served {
			return p.answer
		}
	}
	for try := 1; ; try++ {
		err := s.appendAlone(ctx, p)
		if err == nil {
			return p.answer
		}
		if !again(err) || try == maxTries {
			return storeError(doing, err)
		}
		s.ended.Add(1)
		select {
		case <-ctx.Done():
			return storeError(doing, ctx.Err())
		case <-time.After(time.Duration(rand.Int64N(int64(try) * int64(20*time.Millisecond)))):
		}
	}
}

// part is one append: what it asks, what was loaded for it, and what came of it.
type part struct {
	ctx    context.Context
	locks  engine.Locks
	decide func(engine.Loaded) (*engine.Write, error)

	loaded engine.Loaded
	queued *engine.QueueEntry // as it stands
	missed bool               // a lock could not be had without waiting
	failed error              // there is no such factory or run

	write  *engine.Write // nil for nothing to write
	answer error         // the caller's own: decide's error, or a write that does not follow

	turn    chan turn // of a part in a group
	decided chan struct{}
}

func (p *part) judge() {
	p.write, p.answer = p.decide(p.loaded)
	if p.answer == nil && p.write != nil {
		p.answer = p.write.Check(p.locks, p.loaded)
	}
	if p.answer != nil {
		p.write = nil
	}
}

// repeats reports whether the answer is what an earlier commit saved. Such an answer is given after a commit of its own:
// where the wait of the earlier one for its standby was cut short, this one waits again.
func (p *part) repeats() bool { return p.answer == nil && p.write == nil && p.loaded.Saved != nil }

// appendAlone is one transaction for one append. The error is the database's.
func (s *Store) appendAlone(ctx context.Context, p *part) error {
	ctx, cancel := context.WithTimeout(ctx, appendTime)
	defer cancel()
	p.loaded, p.queued, p.failed, p.write, p.answer = engine.Loaded{}, nil, nil, nil, nil
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer s.release(ctx, conn)
	parts := []*part{p}
	if err := load(ctx, conn, parts, true); err != nil {
		return err
	}
	if p.failed != nil {
		return p.failed
	}
	p.judge()
	if p.write == nil && !p.repeats() {
		return nil
	}
	return write(ctx, conn, parts)
}

// release gives a connection back. One that is still inside the transaction must not go back like that: it is rolled back,
// also when decide panicked or the caller went away, and closed where even that fails.
func (s *Store) release(ctx context.Context, conn *pgxpool.Conn) {
	if conn.Conn().PgConn().TxStatus() != 'I' && !conn.Conn().IsClosed() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_, _ = conn.Exec(ctx, "ROLLBACK")
	}
	conn.Release()
}

// load takes the locks of all parts in the order of engine.Locks, all factories before the first run, each kind in the order
// of ids, then reads the clock and the rest, so that no wait for a lock comes after the clock. With wait false it waits for
// no lock, and marks the parts that missed one. Parts of more than one append lock neither exclusively nor the queue.
func load(ctx context.Context, conn *pgxpool.Conn, parts []*part, wait bool) error {
	var reading sync.Mutex // parts of a group decide at the same time, on one connection
	for _, p := range parts {
		p.loaded.Rows = func(from, limit int64) ([]models.Row, error) {
			reading.Lock()
			defer reading.Unlock()
			return readRows(ctx, conn, p.locks.Factory, p.locks.Run, from, limit)
		}
	}
	b := &pgx.Batch{}
	b.Queue(beginSQL)
	if len(parts) == 1 {
		parts[0].lock(b, wait)
		parts[0].load(b)
	} else {
		tryLocks(b, parts)
		loadAll(b, parts)
	}
	for _, p := range parts {
		if len(p.locks.Blobs) > 0 {
			p.loadMissing(b)
		}
	}
	return send(ctx, conn, b)
}

// lock takes the locks of one append.
func (p *part) lock(b *pgx.Batch, wait bool) {
	factory, key := p.locks.Factory, factoryKey(p.locks.Factory)
	if p.locks.Exclusive {
		// Of two creators the second waits here for the first. Without a write the transaction ends without a trace.
		b.Queue(ownFactorySQL, key)
		b.Queue(claimFactorySQL, factory)
		b.Queue(newestSQL, factory).QueryRow(func(row pgx.Row) error { return row.Scan(&p.loaded.Newest) })
		return
	}
	text := lockBothSQL
	if !wait {
		text = tryBothSQL
	}
	b.Queue(text, key, factory, p.locks.Run).QueryRow(func(row pgx.Row) error {
		info, err := scanRun(row, p.locks.Run)
		switch {
		case err == nil:
			p.ran(info)
		case !errors.Is(err, pgx.ErrNoRows):
			return err
		case wait:
			p.failed = err
		default:
			p.missed = true // or there is none: whoever waits for the lock finds out
		}
		return nil
	})
	if p.locks.Queue {
		b.Queue(lockQueueSQL, factory)
	}
}

func (p *part) ran(info engine.RunInfo) {
	p.loaded.Run, p.loaded.Salt, p.loaded.Opener, p.loaded.Lease = info.Cached, info.Salt, info.Opener, info.Lease
}

// load reads what stands beside one append, after its locks.
func (p *part) load(b *pgx.Batch) {
	factory, k := p.locks.Factory, p.locks.Receipt
	b.Queue(besideSQL, factory, p.locks.Run, k.Space, k.Run, k.ID).QueryRow(func(row pgx.Row) error {
		c := &p.loaded.Factory
		var seq, rules *int64
		var at *models.Instant
		var hash some
		err := p.scanBeside(row, &seq, &hash, &at, &rules, (*some)(&c.State))
		if err == nil && seq == nil {
			p.failed = pgx.ErrNoRows
		} else if err == nil {
			c.Head, c.At, c.Rules = models.Head{Seq: *seq, Hash: models.Digest(hash)}, *at, *rules
		}
		return err
	})
	if p.locks.Queue {
		b.Queue(nowPendingSQL, factory).QueryRow(func(row pgx.Row) error { return row.Scan(&p.loaded.Now, &p.loaded.Pending) })
	}
}

// tryLocks takes those locks of a group that can be had at once, all factories before the first run.
func tryLocks(b *pgx.Batch, parts []*part) {
	eachFactory(parts, func(factory string, of []*part) {
		b.Queue(trySharedSQL, factoryKey(factory)).QueryRow(func(row pgx.Row) error {
			var have bool
			err := row.Scan(&have)
			for _, p := range of {
				p.missed = !have
			}
			return err
		})
	})
	var factories, runs []string
	for _, p := range parts {
		factories, runs = append(factories, p.locks.Factory), append(runs, p.locks.Run)
	}
	b.Queue(tryRunsSQL, factories, runs).Query(func(rows pgx.Rows) error {
		had := make([]bool, len(parts))
		for rows.Next() {
			var n int
			info, err := scanRun(rows, "", &n)
			if err != nil {
				return err
			}
			had[n-1] = true
			parts[n-1].ran(info)
		}
		for i, p := range parts {
			p.missed = p.missed || !had[i]
		}
		return rows.Err()
	})
}

// loadAll reads what stands beside the parts of a group, after their locks.
func loadAll(b *pgx.Batch, parts []*part) {
	eachFactory(parts, func(factory string, of []*part) {
		b.Queue(loadFactorySQL, factory).QueryRow(func(row pgx.Row) error {
			var c engine.Cached
			err := scanCached(row, &c)
			if err != nil && !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			for _, p := range of {
				p.failed = err
				p.loaded.Factory = c
				p.loaded.Factory.State = bytes.Clone(c.State) // decide may do with it as it likes
			}
			return nil
		})
	})
	var factories, runs, spaces, keyRuns, ids []string
	for _, p := range parts {
		k := p.locks.Receipt
		factories, runs = append(factories, p.locks.Factory), append(runs, p.locks.Run)
		spaces, keyRuns, ids = append(spaces, k.Space), append(keyRuns, k.Run), append(ids, k.ID)
	}
	b.Queue(besideAllSQL, factories, runs, spaces, keyRuns, ids).Query(func(rows pgx.Rows) error {
		for i := 0; rows.Next(); i++ {
			if err := parts[i].scanBeside(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// eachFactory calls f for each factory of parts in their order.
func eachFactory(parts []*part, f func(factory string, of []*part)) {
	for len(parts) > 0 {
		n := 1
		for n < len(parts) && parts[n].locks.Factory == parts[0].locks.Factory {
			n++
		}
		f(parts[0].locks.Factory, parts[:n])
		parts = parts[n:]
	}
}

func factoryKey(factory string) int64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(factory))
	return int64(h.Sum32())
}

func (p *part) scanBeside(row pgx.Row, more ...any) error {
	var request, pool, run, actor *string
	var expires *models.Instant
	var digest, body some
	if err := row.Scan(append([]any{&p.loaded.Now, &request, &pool, &expires, &run, &digest, &actor, &body}, more...)...); err != nil {
		return err
	}
	if request != nil {
		p.queued = &engine.QueueEntry{Run: p.locks.Run, Request: *request, Pool: *pool, Expires: *expires}
	}
	if run != nil {
		p.loaded.Saved = &engine.Receipt{Key: p.locks.Receipt, Run: *run, Digest: models.Digest(digest), Actor: *actor, Body: body}
	}
	return nil
}

func (p *part) loadMissing(b *pgx.Batch) {
	asked := make([][]byte, len(p.locks.Blobs))
	for i := range p.locks.Blobs {
		asked[i] = p.locks.Blobs[i][:]
	}
	b.Queue(missingSQL, p.locks.Factory, p.locks.Run, asked).Query(func(rows pgx.Rows) error {
		var err error
		p.loaded.Missing, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (models.Digest, error) {
			var d digest
			err := row.Scan(&d)
			return models.Digest(d), err
		})
		return err
	})
}

// write sends what the parts write and the commit in one round trip: the server stops at the first error, and with it the
// commit.
func write(ctx context.Context, conn *pgxpool.Conn, parts []*part) error {
	b := &pgx.Batch{}
	var heads, rows, once, gone []any
	var receipts []engine.Receipt
	for _, p := range parts {
		w := p.write
		if w == nil {
			if p.repeats() && p.locks.Exclusive {
				b.Queue(touchFactorySQL, p.locks.Factory)
			}
			continue
		}
		heads = p.putHead(b, heads)
		if w.Gone != "" {
			b.Queue(revokeSQL, p.locks.Factory, w.Gone)
		}
		for _, blob := range w.Blobs {
			encoding, stored, err := pack(blob.Data)
			if err != nil {
				return err
			}
			b.Queue(putBlobSQL, p.locks.Factory, p.locks.Run, blob.Digest[:], stored, p.loaded.Now, encoding, len(blob.Data))
		}
		for i := range w.Rows {
			r := &w.Rows[i]
			rows = append(rows, r.Factory, r.Run, r.Seq, r.Format, r.Rules, r.Cmd, r.I, r.N, r.At, r.Actor, r.Kind, whole(r.Payload),
				join(r.Blobs), r.CommandID, r.CommandName, whole(r.Command), whole(r.Env), r.Prev[:], r.Hash[:])
		}
		for _, o := range w.Once {
			once = append(once, p.locks.Factory, p.locks.Run, o.Kind, o.Key)
		}
		if w.Receipt.Key.ID != "" {
			receipts = append(receipts, w.Receipt)
		}
		if p.putQueue(b) {
			gone = append(gone, p.locks.Factory, p.locks.Run)
		}
	}
	putOnces.queue(b, once)
	dropQueue.queue(b, gone)
	saved := receiptValues(receipts)
	if len(heads) == len(putHeads.types) && len(saved) == len(putReceipts.types) && len(rows) == len(putRows.types) {
		b.Queue(putOneSQL, slices.Concat(heads, saved, rows)...)
		return commit(ctx, conn, b)
	}
	putHeads.queue(b, heads)
	putRows.queue(b, rows)
	putReceipts.queue(b, saved)
	return commit(ctx, conn, b)
}

// commit sends the batch and COMMIT.
func commit(ctx context.Context, conn *pgxpool.Conn, b *pgx.Batch) error {
	b.Queue("COMMIT")
	delete(conn.Conn().PgConn().CustomData(), warned)
	if err := send(ctx, conn, b); err != nil {
		return err
	}
	return doubt(conn.Conn())
}

// send is one round trip. A connection to a server that became a standby is closed, so that the next goes to whoever took over.
func send(ctx context.Context, conn *pgxpool.Conn, b *pgx.Batch) error {
	err := conn.SendBatch(ctx, b).Close() // runs the functions of the batch
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == readOnlyTransaction {
		_ = conn.Conn().Close(ctx)
	}
	return err
}

// putHead adds the new head of a run to the list, or that of a factory, or a lease alone, to the batch.
func (p *part) putHead(b *pgx.Batch, heads []any) []any {
	w, factory, run := p.write, p.locks.Factory, p.locks.Run
	n := len(w.Rows)
	switch {
	case n == 0 && run == "":
		b.Queue(putFactoryStateSQL, factory, w.State, w.Rules)
		return heads
	case n == 0:
		b.Queue(putLeaseSQL, factory, run, w.Lease, w.Reclaim, w.Outstanding, w.Verify)
		if w.State != nil {
			b.Queue(putStateSQL, factory, run, w.State, w.Rules)
		}
		return heads
	}
	head := &w.Rows[n-1]
	if run == "" {
		b.Queue(putFactorySQL, factory, head.Seq, head.Hash[:], head.At, w.Rules, w.State)
		b.Queue(putQueueRowSQL, factory)
		return heads
	}
	return append(heads, factory, run, head.Seq, head.Hash[:], head.At, w.Rules, w.State, w.Lease, w.Reclaim, w.Outstanding, w.Verify)
}

// putQueue changes the run's entry, if that is another than stands, and reports whether it is to go.
func (p *part) putQueue(b *pgx.Batch) (gone bool) {
	switch q := p.write.Queue; {
	case p.locks.Run == "", q == nil && p.queued == nil, q != nil && p.queued != nil && *q == *p.queued:
	case q == nil:
		return true
	default:
		b.Queue(putQueueSQL, p.locks.Factory, p.locks.Run, q.Request, q.Pool, q.Expires, p.loaded.Now)
		if p.queued == nil || p.queued.Request != q.Request || p.queued.Pool != q.Pool {
			b.Queue(notifySQL, p.locks.Factory)
		}
	}
	return false
}

// receiptValues are receipts in the order of their keys: of two groups that bring the same ids of a factory the second waits
// for the first at one of them, and neither for the other.
func receiptValues(receipts []engine.Receipt) []any {
	slices.SortFunc(receipts, func(x, y engine.Receipt) int {
		return cmp.Or(cmp.Compare(x.Key.Factory, y.Key.Factory), cmp.Compare(x.Key.Space, y.Key.Space),
			cmp.Compare(x.Key.Run, y.Key.Run), cmp.Compare(x.Key.ID, y.Key.ID))
	})
	var values []any
	for i := range receipts {
		r := &receipts[i]
		values = append(values, r.Key.Factory, r.Key.Space, r.Key.Run, r.Key.ID, r.Run, r.Digest[:], r.Actor, whole(r.Body))
	}
	return values
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
