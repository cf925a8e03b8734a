package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/forge-continuity/forge/adapters/sealed"
	"github.com/forge-continuity/forge/adapters/secrets"
	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/fixtures/deaths"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/fixtures/recordings"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api"
	"github.com/forge-continuity/forge/server/engine"
)

// door measures through HTTP on loopback: decoding, authentication, hashing and Decide included.
func (b *bench) door() error {
	sandbox, err := sealed.Open(b.ctx, "")
	if err != nil {
		return err
	}
	defer sandbox.Close(b.ctx)
	screener, err := secrets.New()
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	e := engine.New(b.store, sandbox, "bench", log).Screens(screener)
	const name = "door"
	if _, err := e.DoFactory(b.ctx, engine.Caller{Factory: name, Principal: load.Administrator}, "create", models.CreateFactory{Fixture: true}); err != nil {
		return err
	}
	secret, _, err := e.IssueToken(b.ctx, name, load.Administrator, 86400)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := api.New(e, log, api.Options{})
	go func() { _ = server.Serve(ln) }()
	defer func() { _ = server.Shutdown(b.ctx) }()
	admin, err := forge.New("http://"+ln.Addr().String(), secret, &http.Transport{MaxIdleConnsPerHost: 64})
	if err != nil {
		return err
	}
	people, err := load.Staff(b.ctx, admin)
	if err != nil {
		return err
	}
	r, err := recordings.Held("2.55.0")
	if err != nil {
		return err
	}
	if err := b.set(people, r); err != nil {
		return err
	}
	if err := b.clean(people, r); err != nil {
		return err
	}
	return b.continued(people, r)
}

func (b *bench) set(people load.People, r *recordings.Recording) error {
	admin := people.Administrator
	if err := load.PutRecords(b.ctx, admin, r); err != nil {
		return err
	}
	f, err := admin.Factory(b.ctx)
	if err != nil {
		return err
	}
	if _, err := admin.PutProfile(b.ctx, "profile", load.FixtureProfile("fixture", f.Host)); err != nil {
		return err
	}
	policy, err := admin.Policy(b.ctx)
	if err == nil {
		_, err = admin.PutPolicy(b.ctx, load.PolicyOn(policy.Policy, models.MaxWindow))
	}
	return err
}

// clean measures ordinary claims and releases of clean runs.
func (b *bench) clean(people load.People, r *recordings.Recording) error {
	const most = 32
	for i := range most {
		run, err := load.Held(b.ctx, people.Operator, people.Worker, r, fmt.Sprintf("clean-%d", i), load.Options{LeaseSeconds: 3600, Stop: load.After("checkpoint", 1)})
		if err == nil {
			_, err = people.Worker.Release(b.ctx, run.ID, "release", run.Fence, "")
		}
		if err != nil {
			return err
		}
	}
	for _, workers := range []int{1, most} {
		m, err := b.crowd(workers, func(w, _ int) error {
			run, id := fmt.Sprintf("clean-%d", w), draw()
			c, err := people.Worker.Claim(b.ctx, run, "claim-"+id, 600)
			if err == nil {
				_, err = people.Worker.Release(b.ctx, run, "release-"+id, c.Claim.Fence, "")
			}
			return err
		})
		if err != nil {
			return err
		}
		line(fmt.Sprintf("claim and release of a clean run, HTTP, %d workers", workers), m, 0)
	}
	return nil
}

// continued measures candidate, admission and claim of held runs.
func (b *bench) continued(people load.People, r *recordings.Recording) error {
	times := map[string][]time.Duration{}
	timed := func(what string, f func(context.Context) error) error {
		start := time.Now()
		err := f(b.ctx)
		times[what] = append(times[what], time.Since(start))
		return err
	}
	for i := range 12 {
		run := fmt.Sprintf("held-%d", i)
		if _, err := load.Held(b.ctx, people.Operator, people.Worker, r, run, load.Options{}); err != nil {
			return err
		}
		var c models.Candidate
		err := timed("candidate", func(ctx context.Context) (err error) { c, err = people.Operator.Candidate(ctx, run); return })
		if err == nil {
			err = timed("admission", func(ctx context.Context) error {
				_, err := people.Operator.RequestContinuity(ctx, run, "request-"+run, deaths.Accept(c, 600, 1))
				return err
			})
		}
		if err == nil {
			err = timed("claim", func(ctx context.Context) error {
				_, err := people.SecondWorker.Claim(ctx, run, "next", 600)
				return err
			})
		}
		if err != nil {
			return err
		}
	}
	for _, what := range []string{"candidate", "admission", "claim"} {
		list := times[what][2:] // the first two warm up
		var sum time.Duration
		for _, d := range list {
			sum += d
		}
		line(what+" of the recorded held run, HTTP, one at a time", summary(list, sum), 0)
	}
	return nil
}
