package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// Sizes of an ordinary command of a worker, with the state of a run of some length.
var (
	payload = text(300)
	command = text(400)
	env     = text(200)
	state   = text(4 << 10)
)

func text(n int) []byte { return bytes.Repeat([]byte(`{"number":12345}`), n/16) }

var drawn atomic.Int64

func draw() string { return "id-" + strconv.FormatInt(drawn.Add(1), 10) }

const factory = "bench"

// put appends a command of so many rows at the store's door: locked, loaded, fenced by the head, chained, with its receipt.
// What the engine adds to it is deciding (kernel benchmarks) and hashing.
func (b *bench) put(ctx context.Context, run string, rows int, edit func(*engine.Write)) error {
	id := draw()
	locks := engine.Locks{Factory: factory, Exclusive: run == "", Run: run, Receipt: engine.Key{Factory: factory, Space: engine.SpaceCommand, Run: run, ID: id}}
	return b.store.Append(ctx, locks, func(l engine.Loaded) (*engine.Write, error) {
		head := l.Run.Head
		if run == "" {
			head = l.Factory.Head
		}
		w := &engine.Write{Rules: 1, State: state, Receipt: engine.Receipt{Key: locks.Receipt, Run: run, Digest: models.PlainDigest([]byte(id)), Actor: "actor", Body: text(150)}}
		cmd := head.Seq + 1
		for i := range rows {
			r := models.Row{Format: models.Format, Rules: 1, Factory: factory, Run: run, Seq: head.Seq + 1, Cmd: cmd, I: int64(i), N: int64(rows), At: l.Now,
				Actor: "actor", Kind: "bench.happened", Payload: payload, Prev: head.Hash}
			if i == 0 {
				r.CommandID, r.CommandName, r.Command, r.Env = id, "bench", command, env
			}
			r.Hash = models.Tagged(models.TagRow, r.Prev[:], []byte(id), r.Payload, r.Command, r.Env)
			w.Rows = append(w.Rows, r)
			head = models.Head{Seq: r.Seq, Hash: r.Hash}
		}
		if edit != nil {
			edit(w)
		}
		return w, nil
	})
}

func (b *bench) runs(n int, prefix string) ([]string, error) {
	if _, err := b.store.Factory(b.ctx, factory); err != nil {
		if err := b.put(b.ctx, "", 1, nil); err != nil {
			return nil, err
		}
	}
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("%s-%d", prefix, i))
		if _, err := b.store.OpenRun(b.ctx, factory, list[i], "opener", [32]byte{1}); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (b *bench) bare(int, int) error {
	_, err := b.pool.Exec(b.ctx, `INSERT INTO bare (payload) VALUES ($1)`, payload)
	return err
}

func (b *bench) appends() error {
	runs, err := b.runs(64, "append")
	if err != nil {
		return err
	}
	for _, workers := range []int{1, 4, 16, 64} {
		floor, err := b.crowd(workers, b.bare)
		if err != nil {
			return err
		}
		line(fmt.Sprintf("bare insert of one row, own commit, %d writers", workers), floor, 0)
		for _, rows := range []int{1, 10} {
			m, err := b.crowd(workers, func(w, _ int) error { return b.put(b.ctx, runs[w], rows, nil) })
			if err != nil {
				return err
			}
			line(fmt.Sprintf("append of %d, store, %d writers (ratio: bare)", rows, workers), m, floor.rate)
		}
	}
	return nil
}

// effects: intent and outcome, each durable before the next step. In ten effects outcome and next intent share a commit.
func (b *bench) effects() error {
	runs, err := b.runs(64, "effect")
	if err != nil {
		return err
	}
	two, err := b.crowd(1, func(w, i int) error {
		if err := b.bare(w, i); err != nil {
			return err
		}
		return b.bare(w, i)
	})
	if err != nil {
		return err
	}
	line("two bare inserts, one after the other", two, 0)
	effect := func(n int) func(w, i int) error {
		return func(w, _ int) error {
			if err := b.put(b.ctx, runs[w], 1, nil); err != nil {
				return err
			}
			for range n - 1 {
				if err := b.put(b.ctx, runs[w], 2, nil); err != nil {
					return err
				}
			}
			return b.put(b.ctx, runs[w], 1, nil)
		}
	}
	for _, c := range []struct{ n, workers int }{{1, 1}, {10, 1}, {1, 64}} {
		m, err := b.crowd(c.workers, effect(c.n))
		if err != nil {
			return err
		}
		against := 0.0
		if c.n == 1 && c.workers == 1 {
			against = two.rate
		}
		line(fmt.Sprintf("%d effects, store, %d at once (ratio: two bare inserts)", c.n, c.workers), m, against)
	}
	return nil
}

// cycles: a run is announced, claimed (the entry goes) and completed.
func (b *bench) cycles() error {
	runs, err := b.runs(32, "cycle")
	if err != nil {
		return err
	}
	m, err := b.crowd(32, func(w, _ int) error {
		if err := b.put(b.ctx, runs[w], 2, func(out *engine.Write) { out.Lease = 1 << 60 }); err != nil {
			return err
		}
		return b.put(b.ctx, runs[w], 1, nil)
	})
	line("claim and fenced complete, store, 32 workers", m, 0)
	return err
}

// growth: an append and the read of its head as the run and the table grow.
func (b *bench) growth() error {
	runs, err := b.runs(1, "growth")
	if err != nil {
		return err
	}
	first := 0.0
	have := 0
	for _, size := range []int{100, 1000, 10_000, 50_000} {
		for ; have < size; have += 50 {
			if err := b.put(b.ctx, runs[0], 50, nil); err != nil {
				return err
			}
		}
		m, err := b.crowd(1, func(int, int) error { return b.put(b.ctx, runs[0], 1, nil) })
		if err != nil {
			return err
		}
		if first == 0 {
			first = m.rate
		}
		line(fmt.Sprintf("append of 1, store, %d rows in the run (ratio: 100)", size), m, first)
		have += int(m.rate * b.time.Seconds() * 1.1)
	}
	var rows, bytes int64
	if err := b.pool.QueryRow(b.ctx, `SELECT count(*), pg_total_relation_size('journal_rows') FROM journal_rows`).Scan(&rows, &bytes); err != nil {
		return err
	}
	var receipts int64
	if err := b.pool.QueryRow(b.ctx, `SELECT pg_total_relation_size('receipts')`).Scan(&receipts); err != nil {
		return err
	}
	fmt.Printf("\n%d rows of 300 bytes of payload: %d bytes a row with its indexes; %d bytes of receipts a row\n", rows, bytes/rows, receipts/rows)
	return nil
}
