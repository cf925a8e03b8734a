// Command bench lays Forge's store and door beside a bare insert, DBOS Transact and River: one PostgreSQL server, one run,
// one table. Every line says through which door it went and what it waits for. Numbers of a busy machine mean little; the
// ratio of two lines of one run means something.
//
//	go run . -database-url postgres://forge@127.0.0.1/forge_test -seconds 3
//
// The database is a test's: its name ends in _test, and schemas named bench_* and dbos_bench are made in it and dropped.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/forge-continuity/forge/adapters/postgres"
)

type bench struct {
	ctx   context.Context
	base  string
	url   string // with the schema of this run
	pool  *pgxpool.Pool
	store *postgres.Store
	time  time.Duration
	only  string
}

func main() {
	at := flag.String("database-url", os.Getenv("FORGE_TEST_DATABASE_URL"), "PostgreSQL database whose name ends in _test")
	seconds := flag.Float64("seconds", 2, "time for each line")
	only := flag.String("only", "", "only the parts whose name has this in it")
	flag.Parse()
	b := &bench{ctx: context.Background(), base: *at, time: time.Duration(*seconds * float64(time.Second)), only: *only}
	if err := b.run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (b *bench) run() (err error) {
	cfg, err := pgx.ParseConfig(b.base)
	if err != nil {
		return err
	}
	if !strings.HasSuffix(cfg.Database, "_test") {
		return errors.New("name a database that ends in _test: -database-url")
	}
	schema := fmt.Sprintf("bench_%d", time.Now().UnixNano())
	u, err := url.Parse(b.base)
	if err != nil {
		return err
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	b.url = u.String()
	admin, err := pgx.Connect(b.ctx, b.base)
	if err != nil {
		return err
	}
	defer func() {
		_, e := admin.Exec(b.ctx, "SET client_min_messages = warning; DROP SCHEMA IF EXISTS "+schema+" CASCADE; DROP SCHEMA IF EXISTS dbos_bench CASCADE")
		err = errors.Join(err, e, admin.Close(b.ctx))
	}()
	if _, err := admin.Exec(b.ctx, "CREATE SCHEMA "+schema+"; CREATE TABLE "+schema+".bare (id bigserial PRIMARY KEY, payload bytea NOT NULL)"); err != nil {
		return err
	}
	pooled, err := pgxpool.ParseConfig(b.url)
	if err != nil {
		return err
	}
	pooled.MaxConns = 16
	if b.pool, err = pgxpool.NewWithConfig(b.ctx, pooled); err != nil {
		return err
	}
	defer b.pool.Close()
	if b.store, err = postgres.Open(b.ctx, b.url); err != nil {
		return err
	}
	defer b.store.Close()
	var version, commit, fsync string
	if err := b.pool.QueryRow(b.ctx, `SELECT current_setting('server_version'), current_setting('synchronous_commit'), current_setting('fsync')`).Scan(&version, &commit, &fsync); err != nil {
		return err
	}
	fmt.Printf("PostgreSQL %s, synchronous_commit %s, fsync %s, 16 connections for each side, %s a line\n\n", version, commit, fsync, b.time)
	fmt.Printf("| %-58s | %10s | %9s | %9s | %6s |\n|%s|%s:|%s:|%s:|%s:|\n", "what, through which door", "per second", "p50", "p99", "ratio",
		strings.Repeat("-", 60), strings.Repeat("-", 11), strings.Repeat("-", 10), strings.Repeat("-", 10), strings.Repeat("-", 7))
	for _, part := range []struct {
		name string
		do   func() error
	}{{"append", b.appends}, {"effects", b.effects}, {"cycle", b.cycles}, {"peers-dbos", b.dbos}, {"peers-river", b.river}, {"door", b.door}, {"growth", b.growth}} {
		if !strings.Contains(part.name, b.only) {
			continue
		}
		if err := part.do(); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// measured is one line of the table.
type measured struct {
	rate     float64
	p50, p99 time.Duration
}

// crowd calls f from so many workers for the time of a line, after a tenth of it that is not counted.
func (b *bench) crowd(workers int, f func(worker, i int) error) (measured, error) {
	var all sync.WaitGroup
	var failed atomic.Pointer[error]
	times := make([][]time.Duration, workers)
	warm := time.Now().Add(b.time / 10)
	end := warm.Add(b.time)
	for w := range workers {
		all.Go(func() {
			for i := 0; ; i++ {
				start := time.Now()
				if start.After(end) {
					return
				}
				if err := f(w, i); err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
				if start.After(warm) {
					times[w] = append(times[w], time.Since(start))
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return measured{}, *err
	}
	return summary(slices.Concat(times...), b.time), nil
}

func summary(times []time.Duration, over time.Duration) measured {
	if len(times) == 0 {
		return measured{}
	}
	slices.SortFunc(times, cmp.Compare[time.Duration])
	return measured{float64(len(times)) / over.Seconds(), times[len(times)/2], times[len(times)*99/100]}
}

// line prints one; against is what its ratio of rates is with, 0 for none.
func line(what string, m measured, against float64) {
	ratio := ""
	if against > 0 {
		ratio = fmt.Sprintf("%.2f", m.rate/against)
	}
	fmt.Printf("| %-58s | %10.0f | %9s | %9s | %6s |\n", what, m.rate, short(m.p50), short(m.p99), ratio)
}

func short(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}
