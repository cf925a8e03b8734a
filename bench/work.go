package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/models"
)

const leaseSeconds = 1800

// content stands for every piece of content: what is uploaded is not what these lines measure.
var content = text(2000)

// actor is a worker on a run of its own.
type actor struct {
	door
	run     string
	fence   int64
	blob    models.Digest
	salt    forge.Salt
	request int64
	next    int64 // position of the next call of the turn
}

// callsOfTurn is how many calls a response of these lines has.
const callsOfTurn = 10

// enlist opens and registers a run whose limits are out of the way.
func (b *bench) enlist(ctx context.Context, d door, run string) (*actor, error) {
	a := &actor{door: d, run: run, next: callsOfTurn}
	var err error
	if a.salt, err = d.open(ctx, run); err != nil {
		return nil, err
	}
	for _, name := range []string{b.recording.Task, b.recording.Contract} {
		data, err := b.recording.File(name)
		if err == nil {
			_, err = d.put(ctx, run, a.salt, 0, data)
		}
		if err != nil {
			return nil, err
		}
	}
	if a.blob, err = d.put(ctx, run, a.salt, 0, content); err != nil {
		return nil, err
	}
	g, err := load.Registration(b.recording, a.salt)
	if err != nil {
		return nil, err
	}
	const most = 1 << 50
	g.Limits = models.Limits{Attempts: 1, Commands: most, InputTokens: most, OutputTokens: most, Repairs: most, Requests: most, SourceReads: most, ToolCalls: most, TotalTokens: most}
	return a, d.register(ctx, run, g)
}

func (a *actor) claimed(ctx context.Context) (err error) {
	a.fence, err = a.claim(ctx, a.run, draw())
	return err
}

func (a *actor) record(ctx context.Context, facts ...models.Fact) error {
	return a.append(ctx, a.run, draw(), a.fence, facts...)
}

// turn records a model turn with its calls, none of them run: checkpoint and request, response, consumption and grants.
func (a *actor) turn(ctx context.Context) error {
	var facts []models.Fact
	if a.request > 0 {
		facts = append(facts, models.RoundCompleted{Round: a.request})
	}
	a.request++
	if err := a.record(ctx, append(facts, models.CheckpointSaved{Checkpoint: a.blob}, models.RequestIssued{Checkpoint: a.blob, Request: a.request,
		Wire: models.PlainDigest(content), WireBlob: a.blob, WireLength: int64(len(content))})...); err != nil {
		return err
	}
	if err := a.record(ctx, models.ResponseKept{Length: int64(len(content)), Request: a.request, Response: a.blob}); err != nil {
		return err
	}
	facts = []models.Fact{models.ResponseConsumed{Calls: callsOfTurn, Request: a.request, Response: a.blob, Tokens: models.Tokens{Input: 1000, Output: 100}}}
	for i := range int64(callsOfTurn) {
		facts = append(facts, models.CallGranted{Args: a.salt.Digest(fmt.Append(nil, "arguments", a.request, i)), Class: models.ClassWrite,
			ID: a.salt.Digest(fmt.Append(nil, "call", a.request, i)), Position: i, Request: a.request, Tool: 0})
	}
	a.next = 0
	return a.record(ctx, facts...)
}

func (a *actor) intent(i int64) models.Fact {
	return models.CallIntended{Position: i, Request: a.request}
}

func (a *actor) outcome(i int64) models.Fact {
	return models.CallReturned{Position: i, Request: a.request, Result: a.blob}
}

// ready makes sure that so many calls of the turn are still to be run.
func (a *actor) ready(ctx context.Context, calls int64) error {
	if a.next+calls <= callsOfTurn {
		return nil
	}
	for ; a.request > 0 && a.next < callsOfTurn; a.next++ {
		if err := a.record(ctx, a.intent(a.next), a.outcome(a.next)); err != nil {
			return err
		}
	}
	return a.turn(ctx)
}

// effects runs so many calls: each intent is durable before its effect could start, each outcome before anything that follows;
// an outcome shares its commit with the next intent.
func (a *actor) effects(ctx context.Context, n int64) error {
	first := a.next
	a.next += n
	if err := a.record(ctx, a.intent(first)); err != nil {
		return err
	}
	for i := first; i < first+n-1; i++ {
		if err := a.record(ctx, a.outcome(i), a.intent(i+1)); err != nil {
			return err
		}
	}
	return a.record(ctx, a.outcome(first+n-1))
}

// sample takes the state of a run that has half the calls of its second turn behind it.
func (b *bench) sample() error {
	a, err := b.enlist(b.ctx, inside{b.engine}, "sample")
	if err == nil {
		err = a.claimed(b.ctx)
	}
	for _, n := range []int64{callsOfTurn, callsOfTurn / 2} {
		if err == nil {
			err = a.ready(b.ctx, callsOfTurn)
		}
		if err == nil {
			err = a.effects(b.ctx, n)
		}
	}
	if err != nil {
		return err
	}
	info, err := b.store.Run(b.ctx, room, a.run)
	b.state = info.Cached.State
	return err
}

// decided measures effects through the doors that decide: what the store's door leaves out.
func (b *bench) decided() error {
	for _, d := range b.both() {
		var list []*actor
		for i := range 64 {
			a, err := b.enlist(b.ctx, d, fmt.Sprintf("effects-%s-%d", d.name, i))
			if err == nil {
				err = a.claimed(b.ctx)
			}
			if err != nil {
				return err
			}
			list = append(list, a)
		}
		for _, c := range []struct {
			n       int64
			workers int
			most    time.Duration // through HTTP
		}{{1, 1, 2 * time.Millisecond}, {10, 1, 10 * time.Millisecond}, {1, 64, 0}} {
			m, err := b.prepared(c.workers, func(w int) error { return list[w].ready(b.ctx, c.n) }, func(w int) error { return list[w].effects(b.ctx, c.n) })
			if err != nil {
				return err
			}
			b.line(fmt.Sprintf("%d effects, %s, %d at once", c.n, d.name, c.workers), m, 0)
			if d.name == "HTTP" && c.most > 0 {
				b.below(fmt.Sprintf("%d effects, HTTP, p50", c.n), m.p50, c.most)
			}
		}
		a := list[0]
		i := 0
		m, err := b.prepared(1, func(int) error { return a.ready(b.ctx, 1) }, func(int) error {
			i++
			if err := a.record(b.ctx, a.intent(a.next)); err != nil {
				return err
			}
			result, err := a.put(b.ctx, a.run, a.salt, a.fence, fmt.Append(nil, i, string(content)))
			a.next++
			if err != nil {
				return err
			}
			return a.record(b.ctx, models.CallReturned{Position: a.next - 1, Request: a.request, Result: result})
		})
		if err != nil {
			return err
		}
		b.line(fmt.Sprintf("1 effect and its result of 2 KB uploaded, %s, 1 at once", d.name), m, 0)
	}
	return nil
}

// cycles: registered runs wait in the queue; each is claimed, which takes its entry away, and completed under the fence.
func (b *bench) cycles() error {
	const workers = 32
	for _, d := range b.both() {
		list := make([]*actor, int(1000*b.time.Seconds()))
		var next atomic.Int64
		if err := together(workers, func(int) error {
			for i := next.Add(1) - 1; i < int64(len(list)); i = next.Add(1) - 1 {
				a, err := b.enlist(b.ctx, d, fmt.Sprintf("cycle-%s-%d", d.name, i))
				if err != nil {
					return err
				}
				list[i] = a
			}
			return nil
		}); err != nil {
			return err
		}
		next.Store(0)
		times := make([][]time.Duration, workers)
		start := time.Now()
		if err := together(workers, func(w int) error {
			for i := next.Add(1) - 1; i < int64(len(list)); i = next.Add(1) - 1 {
				began := time.Now()
				err := list[i].claimed(b.ctx)
				if err == nil {
					err = list[i].record(b.ctx, models.RunCompleted{Result: list[i].blob, Round: 1})
				}
				if err != nil {
					return err
				}
				times[w] = append(times[w], time.Since(began))
			}
			return nil
		}); err != nil {
			return err
		}
		m := summary(times, time.Since(start))
		b.line(fmt.Sprintf("claim and fenced complete, %s, %d workers", d.name, workers), m, 0)
		if d.name == "HTTP" {
			b.above("claim and fenced complete at 32, HTTP, per second", m.rate, 700, "%.0f")
		} else {
			b.above("claim and fenced complete at 32, engine, per second", m.rate, 1500, "%.0f")
			b.above("  the wish", m.rate, 3000, "%.0f")
		}
	}
	return nil
}

// together calls f once for each worker.
func together(workers int, f func(worker int) error) error {
	var all sync.WaitGroup
	var failed atomic.Pointer[error]
	for w := range workers {
		all.Go(func() {
			if err := f(w); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}
