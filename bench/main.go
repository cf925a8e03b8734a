// Command bench lays Forge's store and door beside a bare insert, DBOS Transact and River: one PostgreSQL server, one run,
// one table. Every line says through which door it went and what it waits for. Numbers of a busy machine mean little; the
// ratio of two lines of one run means something.
//
//	go run . -database-url postgres://forge@127.0.0.1/forge_test -seconds 3
//
// The database is a test's: its name ends in _test, and schemas named bench_* and dbos_bench are made in it and dropped. With
// -large 10000000 the table is filled to so many rows first, which takes minutes and some 10 GB.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/forge-continuity/forge/adapters/postgres"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/fixtures/recordings"
	"github.com/forge-continuity/forge/server/engine"
)

type bench struct {
	ctx   context.Context
	base  string
	url   string // with the schema of this run
	pool  *pgxpool.Pool
	store *postgres.Store
	time  time.Duration
	only  string
	large int64

	engine    *engine.Engine // over the store, with people of one factory
	people    load.People
	recording *recordings.Recording
	state     []byte // of a run in the middle of a turn, as the engine keeps it

	goals []goal
	notes []string // printed below the table
}

func main() {
	at := flag.String("database-url", os.Getenv("FORGE_TEST_DATABASE_URL"), "PostgreSQL database whose name ends in _test")
	seconds := flag.Float64("seconds", 2, "time for each line")
	only := flag.String("only", "", "only the parts whose name has this in it")
	large := flag.Int64("large", 0, "measure growth again with so many rows in the table")
	profile := flag.String("cpuprofile", "", "write a profile of this process, which holds all sides but the server's own, to the file")
	flag.Parse()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		defer pprof.StopCPUProfile()
	}
	b := &bench{large: *large, ctx: context.Background(), base: *at, time: time.Duration(*seconds * float64(time.Second)), only: *only}
	if err := b.run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		pprof.StopCPUProfile()
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
	stop, err := b.doors()
	if err != nil {
		return err
	}
	defer stop()
	var version, commit, fsync string
	if err := b.pool.QueryRow(b.ctx, `SELECT current_setting('server_version'), current_setting('synchronous_commit'), current_setting('fsync')`).Scan(&version, &commit, &fsync); err != nil {
		return err
	}
	fmt.Printf("PostgreSQL %s, 16 connections for each side, %s a line. synchronous_commit %s and fsync %s hold for every side; none sets another.\n", version, b.time, commit, fsync)
	fmt.Print(`Doors: "store" is the store called with a write that is made up here, "engine" decides, hashes and chains it first, "HTTP" adds client,
server, decoding and authentication. Forge, the bare insert and DBOS wait for the commit of every step; River completes jobs in batches, some
time after their work.

`)
	fmt.Printf("| %-64s | %10s | %9s | %9s | %6s |\n|%s|%s:|%s:|%s:|%s:|\n", "what, through which door", "per second", "p50", "p99", "ratio",
		dashes(66), dashes(11), dashes(10), dashes(10), dashes(7))
	for _, part := range []struct {
		name string
		do   func() error
	}{{"append", b.appends}, {"effects", b.effects}, {"effects-decided", b.decided}, {"peers-dbos", b.dbos}, {"cycle", b.cycles}, {"peers-river", b.river},
		{"door", b.continued}, {"growth", b.growth}} {
		if !strings.Contains(part.name, b.only) {
			continue
		}
		if e := part.do(); e != nil {
			err = fmt.Errorf("%s: %w", part.name, e)
			break
		}
	}
	for _, note := range b.notes {
		fmt.Println("\n" + note)
	}
	b.verdict()
	return err
}

func dashes(n int) string { return strings.Repeat("-", n) }

// measured is one line of the table.
type measured struct {
	rate     float64
	p50, p99 time.Duration
}

// crowd calls f from so many workers for the time of a line, after a tenth of it that is not counted.
func (b *bench) crowd(workers int, f func(worker, i int) error) (measured, error) {
	times := make([][]time.Duration, workers)
	warm := time.Now().Add(b.time / 10)
	end := warm.Add(b.time)
	err := together(workers, func(w int) error {
		for i := 0; ; i++ {
			start := time.Now()
			if start.After(end) {
				return nil
			}
			if err := f(w, i); err != nil {
				return err
			}
			if start.After(warm) {
				times[w] = append(times[w], time.Since(start))
			}
		}
	})
	return summary(times, b.time), err
}

// prepared is crowd where each call of f needs something done before that is not counted. The rate is that of workers who
// did nothing else.
func (b *bench) prepared(workers int, prepare, f func(worker int) error) (measured, error) {
	times := make([][]time.Duration, workers)
	sums := make([]time.Duration, workers)
	warm := time.Now().Add(b.time / 10)
	end := warm.Add(b.time)
	err := together(workers, func(w int) error {
		for time.Now().Before(end) {
			if err := prepare(w); err != nil {
				return err
			}
			start := time.Now()
			if err := f(w); err != nil {
				return err
			}
			if took := time.Since(start); start.After(warm) {
				times[w] = append(times[w], took)
				sums[w] += took
			}
		}
		return nil
	})
	m := summary(times, 1)
	m.rate = 0
	for w := range workers {
		if sums[w] > 0 {
			m.rate += float64(len(times[w])) / sums[w].Seconds()
		}
	}
	return m, err
}

// alone is what one caller measured, one call after the other.
func alone(times []time.Duration) measured {
	var sum time.Duration
	for _, t := range times {
		sum += t
	}
	return summary([][]time.Duration{times}, sum)
}

func summary(of [][]time.Duration, over time.Duration) measured {
	times := slices.Concat(of...)
	if len(times) == 0 {
		return measured{}
	}
	slices.Sort(times)
	return measured{float64(len(times)) / over.Seconds(), times[len(times)/2], times[len(times)*99/100]}
}

// line prints one; against is what its ratio of rates is with, 0 for none.
func (b *bench) line(what string, m measured, against float64) {
	ratio := ""
	if against > 0 {
		ratio = fmt.Sprintf("%.2f", m.rate/against)
	}
	fmt.Printf("| %-64s | %10.0f | %9s | %9s | %6s |\n", what, m.rate, short(m.p50), short(m.p99), ratio)
}

func short(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}
