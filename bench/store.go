package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// Sizes of an ordinary command of a worker.
var (
	payload = text(300)
	command = text(400)
	env     = text(200)
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
		w := &engine.Write{Rules: 1, State: b.state, Receipt: engine.Receipt{Key: locks.Receipt, Run: run, Digest: models.PlainDigest([]byte(id)), Actor: "actor", Body: text(150)}}
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
	share := map[int]float64{1: 0.40, 4: 0.40, 16: 0.30, 64: 0.80}
	for _, workers := range []int{1, 4, 16, 64} {
		before, err := b.crowd(workers, b.bare)
		if err != nil {
			return err
		}
		one, err := b.crowd(workers, func(w, _ int) error { return b.put(b.ctx, runs[w], 1, nil) })
		if err != nil {
			return err
		}
		floor, err := b.crowd(workers, b.bare)
		if err != nil {
			return err
		}
		floor.rate = (before.rate + floor.rate) / 2 // of before and after, since machines are not even
		ten, err := b.crowd(workers, func(w, _ int) error { return b.put(b.ctx, runs[w], 10, nil) })
		if err != nil {
			return err
		}
		b.line(fmt.Sprintf("bare insert of one row, own commit, %d writers", workers), floor, 0)
		b.line(fmt.Sprintf("append of 1, store, %d writers (ratio: bare)", workers), one, floor.rate)
		b.line(fmt.Sprintf("append of 10, store, %d writers (ratio: bare)", workers), ten, floor.rate)
		b.above(fmt.Sprintf("append of one over the bare insert, %d writers", workers), one.rate/floor.rate, share[workers], "%.2f")
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
	b.line("two bare inserts, one after the other", two, 0)
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
		b.line(fmt.Sprintf("%d effects, store, %d at once (ratio: two bare inserts)", c.n, c.workers), m, against)
		switch {
		case c.workers > 1:
			b.above("64 attempts at once, store, per second", m.rate, 1600, "%.0f")
			b.above("  the wish", m.rate, 3200, "%.0f")
		case c.n == 1:
			b.below("1 effect, store, p50", m.p50, 1200*time.Microsecond)
			b.most("1 effect, store, times two bare inserts", ratio(m, two), 2.5, "%.2f")
		default:
			b.below("10 effects, store, p50", m.p50, 6*time.Millisecond)
		}
	}
	return nil
}
