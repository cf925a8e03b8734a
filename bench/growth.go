package main

import (
	"fmt"
	"os"
	"time"
)

// sizes of the runs whose growth is measured, in rows; a run may hold 100,000, and measuring adds some 2,000 each time.
var sizes = []int64{100, 1000, 10_000, 95_000}

// growth: append, claim and candidate of runs of four lengths, in turn, so that what the machine does meanwhile is done to all of
// them. A candidate folds every row again.
func (b *bench) growth() error {
	d := inside{b.engine}
	list := make([]*actor, len(sizes))
	if err := together(len(sizes), func(i int) error {
		a, err := b.enlist(b.ctx, d, fmt.Sprintf("growth-%d", sizes[i]))
		if err == nil {
			err = a.claimed(b.ctx)
		}
		for err == nil {
			info, e := b.store.Run(b.ctx, room, a.run)
			if err = e; err != nil || info.Cached.Head.Seq >= sizes[i] {
				break
			}
			if err = a.ready(b.ctx, callsOfTurn); err == nil {
				err = a.effects(b.ctx, callsOfTurn)
			}
		}
		list[i] = a
		return err
	}); err != nil {
		return err
	}
	if _, err := b.pool.Exec(b.ctx, "ANALYZE"); err != nil {
		return err
	}
	appends, claims, err := b.grown(list, 60)
	if err != nil {
		return err
	}
	for i, size := range sizes {
		b.line(fmt.Sprintf("append of 1, engine, %d rows in the run (ratio: 100)", size), appends[i], appends[0].rate)
	}
	for i, size := range sizes {
		b.line(fmt.Sprintf("claim, engine, %d rows in the run (ratio: 100)", size), claims[i], claims[0].rate)
	}
	last := len(sizes) - 1
	b.most("append with 10^5 rows in the run, times that with 10^2", ratio(appends[last], appends[0]), 1.2, "%.2f")
	b.most("claim with 10^5 rows in the run, times that with 10^2", ratio(claims[last], claims[0]), 1.2, "%.2f")
	candidates := make([][]time.Duration, len(list))
	rows := make([]int64, len(list))
	for i, a := range list {
		info, err := b.store.Run(b.ctx, room, a.run)
		if err != nil {
			return err
		}
		rows[i] = info.Cached.Head.Seq
		for range 5 {
			start := time.Now()
			if _, err := b.people.Operator.Candidate(b.ctx, a.run); err != nil {
				return err
			}
			candidates[i] = append(candidates[i], time.Since(start))
		}
	}
	speed := make([]float64, len(list))
	for i := range list {
		m := alone(candidates[i])
		speed[i] = float64(rows[i]) / m.p50.Seconds()
		b.line(fmt.Sprintf("candidate, HTTP, %d rows in the run, %.0f rows a second", rows[i], speed[i]), m, 0)
	}
	b.above("candidate of 10^5 rows, rows a second", speed[last], 200_000, "%.0f")
	b.above("candidate is linear: rows a second at 10^5 over 10^4", speed[last]/speed[last-1], 0.8, "%.2f")
	if b.large > 0 {
		return b.filled(list, appends, claims)
	}
	return b.size()
}

// grown measures so many appends and claims of each run in turn.
func (b *bench) grown(list []*actor, n int) (appends, claims []measured, err error) {
	a, c := make([][]time.Duration, len(list)), make([][]time.Duration, len(list))
	for range n {
		for i, one := range list {
			if err := one.ready(b.ctx, 1); err != nil {
				return nil, nil, err
			}
			start := time.Now()
			err := one.record(b.ctx, one.intent(one.next))
			a[i] = append(a[i], time.Since(start))
			if err == nil {
				one.next++
				err = one.record(b.ctx, one.outcome(one.next-1))
			}
			for ; err == nil && one.next < callsOfTurn; one.next++ { // a release leaves nothing open
				err = one.record(b.ctx, one.intent(one.next), one.outcome(one.next))
			}
			if err == nil {
				err = one.release(b.ctx, one.run, draw(), one.fence)
			}
			if err != nil {
				return nil, nil, err
			}
			start = time.Now()
			err = one.claimed(b.ctx)
			c[i] = append(c[i], time.Since(start))
			if err != nil {
				return nil, nil, err
			}
		}
	}
	for i := range list {
		appends, claims = append(appends, alone(a[i])), append(claims, alone(c[i]))
	}
	return appends, claims, nil
}

// ratio of times, by their medians.
func ratio(x, than measured) float64 { return x.p50.Seconds() / than.p50.Seconds() }

// filled copies the rows and receipts of the longest run under other names until the table has as many rows as asked, then
// measures again.
func (b *bench) filled(list []*actor, appends, claims []measured) error {
	from := list[len(list)-1].run
	start := time.Now()
	var rows int64
	if err := b.pool.QueryRow(b.ctx, `SELECT count(*) FROM journal_rows`).Scan(&rows); err != nil {
		return err
	}
	for i := 0; rows < b.large; i++ {
		to := fmt.Sprintf("copy-%d", i)
		tag, err := b.pool.Exec(b.ctx, `INSERT INTO journal_rows SELECT factory, $3, seq, format, rules, cmd, i, n, at, actor, kind, payload, blobs, command_id,
			command_name, command, env, prev_hash, hash FROM journal_rows WHERE factory = $1 AND run = $2 ORDER BY seq`, room, from, to)
		if err == nil {
			_, err = b.pool.Exec(b.ctx, `INSERT INTO receipts SELECT factory, space, $3, id, $3, digest, actor, body FROM receipts
				WHERE factory = $1 AND key_run = $2`, room, from, to)
		}
		if err != nil {
			return err
		}
		rows += tag.RowsAffected()
		if i%10 == 0 {
			fmt.Fprintf(os.Stderr, "bench: %d rows after %s\n", rows, time.Since(start).Round(time.Second))
		}
	}
	if _, err := b.pool.Exec(b.ctx, "ANALYZE"); err != nil {
		return err
	}
	if _, err := b.pool.Exec(b.ctx, "CHECKPOINT"); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "bench: filled in %s\n", time.Since(start).Round(time.Second))
	then, took, err := b.grown(list, 60)
	if err != nil {
		return err
	}
	b.line(fmt.Sprintf("append of 1, engine, %d rows in the table (ratio: before)", rows), then[0], appends[0].rate)
	b.line(fmt.Sprintf("claim, engine, %d rows in the table (ratio: before)", rows), took[0], claims[0].rate)
	b.most("append with 10^7 rows in the table, times that before", ratio(then[0], appends[0]), 1.2, "%.2f")
	b.most("claim with 10^7 rows in the table, times that before", ratio(took[0], claims[0]), 1.2, "%.2f")
	return b.size()
}

// size says what the rows of this run take.
func (b *bench) size() error {
	var rows, journal, receipts, runs int64
	err := b.pool.QueryRow(b.ctx, `SELECT count(*), pg_total_relation_size('journal_rows'), pg_total_relation_size('receipts'), pg_total_relation_size('runs')
		FROM journal_rows`).Scan(&rows, &journal, &receipts, &runs)
	if err != nil || rows == 0 {
		return err
	}
	b.notes = append(b.notes, fmt.Sprintf("%d journal rows: %d MB, %d bytes a row with its indexes; receipts %d bytes a row; runs %d MB",
		rows, journal>>20, journal/rows, receipts/rows, runs>>20))
	return nil
}
