package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
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

// room is the factory behind the two doors that decide: the engine's, and HTTP on loopback.
const room = "door"

// a door is a way to the same decisions. The operator opens and registers, the worker does the rest.
type door interface {
	open(ctx context.Context, run string) (forge.Salt, error)
	put(ctx context.Context, run string, salt forge.Salt, fence int64, data []byte) (models.Digest, error)
	register(ctx context.Context, run string, g models.Registration) error
	claim(ctx context.Context, run, id string) (fence int64, err error)
	release(ctx context.Context, run, id string, fence int64) error
	append(ctx context.Context, run, id string, fence int64, facts ...models.Fact) error
}

// inside is the engine called in this process: hashing, Decide and the store, no HTTP.
type inside struct{ e *engine.Engine }

var (
	asOperator = engine.Caller{Factory: room, Principal: load.Operator}
	asWorker   = engine.Caller{Factory: room, Principal: load.Worker}
)

func (d inside) open(ctx context.Context, run string) (forge.Salt, error) {
	info, _, err := d.e.OpenRun(ctx, asOperator, run)
	return info.Salt, err
}

func (d inside) put(ctx context.Context, run string, salt forge.Salt, fence int64, data []byte) (models.Digest, error) {
	caller := asOperator
	if fence > 0 {
		caller = asWorker
	}
	digest := salt.Digest(data)
	return digest, d.e.PutBlob(ctx, caller, run, fence, digest, data)
}

func (d inside) register(ctx context.Context, run string, g models.Registration) error {
	_, err := d.e.Do(ctx, asOperator, run, run, models.RegisterRun{Registration: g})
	return err
}

func (d inside) claim(ctx context.Context, run, id string) (int64, error) {
	answer, err := d.e.Do(ctx, asWorker, run, id, models.ClaimRun{LeaseSeconds: leaseSeconds})
	if err != nil {
		return 0, err
	}
	var c models.ClaimReceipt
	err = json.Unmarshal(answer.Body, &c)
	return c.Fence, err
}

func (d inside) release(ctx context.Context, run, id string, fence int64) error {
	_, err := d.e.Do(ctx, asWorker, run, id, models.ReleaseRun{Fence: fence})
	return err
}

func (d inside) append(ctx context.Context, run, id string, fence int64, facts ...models.Fact) error {
	_, err := d.e.Do(ctx, asWorker, run, id, models.Append{Facts: facts, Fence: fence})
	return err
}

// through is the API: beside what inside does, the client, decoding and authentication.
type through struct{ people load.People }

func (d through) open(ctx context.Context, run string) (forge.Salt, error) {
	opened, err := d.people.Operator.OpenRun(ctx, run)
	return opened.Receipt.Salt, err
}

func (d through) put(ctx context.Context, run string, salt forge.Salt, fence int64, data []byte) (models.Digest, error) {
	if fence > 0 {
		return d.people.Worker.PutBlob(ctx, run, salt, fence, data)
	}
	return d.people.Operator.PutBlob(ctx, run, salt, 0, data)
}

func (d through) register(ctx context.Context, run string, g models.Registration) error {
	_, err := d.people.Operator.Register(ctx, run, g)
	return err
}

func (d through) claim(ctx context.Context, run, id string) (int64, error) {
	c, err := d.people.Worker.Claim(ctx, run, id, leaseSeconds)
	return c.Claim.Fence, err
}

func (d through) release(ctx context.Context, run, id string, fence int64) error {
	_, err := d.people.Worker.Release(ctx, run, id, fence, "")
	return err
}

func (d through) append(ctx context.Context, run, id string, fence int64, facts ...models.Fact) error {
	_, err := d.people.Worker.Append(ctx, run, id, fence, facts...)
	return err
}

// doors composes a server as forge serve does, on a loopback port, with a factory, people, records, profile and policy.
func (b *bench) doors() (stop func(), err error) {
	sandbox, err := sealed.Open(b.ctx, "")
	if err != nil {
		return nil, err
	}
	screener, err := secrets.New()
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	e := engine.New(b.store, sandbox, "bench", log).Screens(screener)
	admin := engine.Caller{Factory: room, Principal: load.Administrator}
	if _, err := e.DoFactory(b.ctx, admin, "create", models.CreateFactory{Fixture: true}); err != nil {
		return nil, err
	}
	secret, _, err := e.IssueToken(b.ctx, room, load.Administrator, 86400)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := api.New(e, log, api.Options{})
	go func() { _ = server.Serve(ln) }()
	client, err := forge.New("http://"+ln.Addr().String(), secret, &http.Transport{MaxIdleConnsPerHost: 64})
	if err != nil {
		return nil, err
	}
	if b.people, err = load.Staff(b.ctx, client); err != nil {
		return nil, err
	}
	if b.recording, err = recordings.Held("2.55.0"); err != nil {
		return nil, err
	}
	b.engine = e
	return func() {
		_ = server.Shutdown(b.ctx)
		_ = sandbox.Close(b.ctx)
	}, errors.Join(b.set(), b.sample())
}

func (b *bench) set() error {
	admin := b.people.Administrator
	if err := load.PutRecords(b.ctx, admin, b.recording); err != nil {
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

// both are the two doors with their names.
func (b *bench) both() []struct {
	name string
	door
} {
	return []struct {
		name string
		door
	}{{"engine", inside{b.engine}}, {"HTTP", through{b.people}}}
}

// historySize is about what a checkpoint with its history has here, in bytes. The recorded one is smaller: one line of its first
// evidence is made longer, wherever the recording has it.
const historySize = 50_000

// continued measures candidate, admission and claim of held runs through HTTP, each on a run that nobody looked at before.
func (b *bench) continued() error {
	const evidence = "toolchain: python3, sh"
	var last []byte
	for _, s := range b.recording.Steps {
		if s.Kind == "checkpoint" {
			var err error
			if last, err = b.recording.File(s.File); err != nil {
				return err
			}
		}
	}
	var more strings.Builder
	for i := 0; more.Len() < historySize-len(last); i++ {
		fmt.Fprintf(&more, " target %d built in %d ms;", i, i*7919%1000)
	}
	size := 0
	o := load.Options{Content: func(step string, data []byte) []byte {
		data = bytes.ReplaceAll(data, []byte(evidence), []byte(evidence+more.String()))
		if step == "checkpoint" {
			size = len(data)
		}
		return data
	}}
	times := map[string][]time.Duration{}
	timed := func(what string, f func() error) error {
		start := time.Now()
		err := f()
		times[what] = append(times[what], time.Since(start))
		return err
	}
	for i := range 22 {
		run := fmt.Sprintf("held-%d", i)
		if _, err := load.Held(b.ctx, b.people.Operator, b.people.Worker, b.recording, run, o); err != nil {
			return err
		}
		var c models.Candidate
		err := timed("candidate", func() (err error) { c, err = b.people.Operator.Candidate(b.ctx, run); return })
		if err == nil {
			err = timed("admission", func() error {
				_, err := b.people.Operator.RequestContinuity(b.ctx, run, "request-"+run, deaths.Accept(c, 600, 1))
				return err
			})
		}
		if err == nil {
			err = timed("claim", func() error { _, err := b.people.SecondWorker.Claim(b.ctx, run, "next", 600); return err })
		}
		if err != nil {
			return err
		}
	}
	for _, c := range []struct {
		what string
		most time.Duration
	}{{"candidate", 60 * time.Millisecond}, {"admission", 60 * time.Millisecond}, {"claim", 5 * time.Millisecond}} {
		m := alone(times[c.what][2:]) // the first two warm up
		b.line(fmt.Sprintf("%s of a held run, %d KB of history, HTTP", c.what, size/1000), m, 0)
		b.below(c.what+" p50 at 50 KB, HTTP", m.p50, c.most)
	}
	return nil
}
