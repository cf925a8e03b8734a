package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// dbos runs workflows of one and ten steps: each step's outcome durable before the next, no intent before it, no fence and
// no chain. synchronous_commit is the server's.
func (b *bench) dbos() error {
	ctx, err := dbos.NewContext(b.ctx, dbos.Config{AppName: "bench", DatabaseURL: b.base, DatabaseSchema: "dbos_bench", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	flow := func(ctx dbos.Context, steps int) (int, error) {
		for range steps {
			if _, err := dbos.RunAsStep(ctx, func(context.Context) (string, error) { return string(payload), nil }); err != nil {
				return 0, err
			}
		}
		return steps, nil
	}
	dbos.RegisterWorkflow(ctx, flow)
	if err := dbos.Launch(ctx); err != nil {
		return err
	}
	defer dbos.Shutdown(ctx, 10*time.Second)
	for _, c := range []struct{ steps, workers int }{{1, 1}, {10, 1}, {1, 64}} {
		m, err := b.crowd(c.workers, func(int, int) error {
			h, err := dbos.RunWorkflow(ctx, flow, c.steps)
			if err == nil {
				_, err = h.GetResult()
			}
			return err
		})
		if err != nil {
			return err
		}
		b.line(fmt.Sprintf("DBOS Transact Go 1.8, workflow of %d steps, %d at once", c.steps, c.workers), m, 0)
	}
	return nil
}

type job struct {
	N int `json:"n"`
}

func (job) Kind() string { return "bench" }

type worker struct {
	river.WorkerDefaults[job]
	done *atomic.Int64
}

func (w *worker) Work(context.Context, *river.Job[job]) error { w.done.Add(1); return nil }

// river works jobs that are there already, with 32 workers: fetched and completed in batches, a completion durable some
// time after the work. Jobs that are left running when a client stops at once are its zombies: they wait for its rescuer, an
// hour unless told otherwise.
func (b *bench) river() error {
	migrator, err := rivermigrate.New(riverpgxv5.New(b.pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(b.ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	var done atomic.Int64
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{done: &done})
	client, err := river.NewClient(riverpgxv5.New(b.pool), &river.Config{Logger: slog.New(slog.DiscardHandler),
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 32}}, Workers: workers})
	if err != nil {
		return err
	}
	const jobs = 20_000
	for from := 0; from < jobs; from += 1000 {
		var list []river.InsertManyParams
		for i := range 1000 {
			list = append(list, river.InsertManyParams{Args: job{from + i}})
		}
		if _, err := client.InsertManyFast(b.ctx, list); err != nil {
			return err
		}
	}
	start := time.Now()
	if err := client.Start(b.ctx); err != nil {
		return err
	}
	for done.Load() < jobs && time.Since(start) < max(b.time*3, 5*time.Second) {
		time.Sleep(5 * time.Millisecond)
	}
	worked, took := done.Load(), time.Since(start)
	stop, cancel := context.WithCancel(b.ctx)
	cancel() // as a process that ends at once
	_ = client.StopAndCancel(stop)
	var zombies int64
	if err := b.pool.QueryRow(b.ctx, `SELECT count(*) FROM river_job WHERE state = 'running'`).Scan(&zombies); err != nil {
		return err
	}
	end, cancel := context.WithTimeout(b.ctx, 20*time.Second)
	defer cancel()
	if err := client.StopAndCancel(end); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	b.line(fmt.Sprintf("River 0.51, jobs worked, 32 workers (%d left running)", zombies), measured{rate: float64(worked) / took.Seconds()}, 0)
	return nil
}
