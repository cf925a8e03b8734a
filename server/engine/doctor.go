package engine

import (
	"bytes"
	"context"
	"slices"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
)

// Finding is what an examination of the store found about one run, or with an empty Run about a factory. Fault nil means
// that everything holds.
type Finding struct {
	Factory string
	Run     string
	Rows    int64
	Blobs   int64
	Erased  int64 // blobs that rows name and the store does not have
	Fault   error
}

// Doctor examines every factory and run as they stand, reading only, and reports each: the chain holds, deciding every
// command again gives these rows and receipts, content has its digests, and the cached states and the note of an outstanding
// ticket are what the rows say. A fault is reported and the examination goes on; an error ends it.
func (e *Engine) Doctor(ctx context.Context, report func(Finding)) error {
	return e.factories(ctx, func(factory string) error {
		c, err := e.store.Factory(ctx, factory)
		if err != nil {
			return err
		}
		fault, err := e.examineFactory(ctx, factory, c)
		if err != nil {
			return err
		}
		report(Finding{Factory: factory, Rows: c.Head.Seq, Fault: fault})
		if fault != nil {
			return nil
		}
		waiting, err := e.waiting(ctx, factory)
		if err != nil {
			return err
		}
		for after := ""; ; {
			runs, err := e.store.Runs(ctx, factory, after, pageWaiting)
			if err != nil || len(runs) == 0 {
				return err
			}
			for _, run := range runs {
				finding, err := e.examine(ctx, factory, run, waiting[run])
				if err != nil {
					return err
				}
				report(finding)
			}
			after = runs[len(runs)-1]
		}
	})
}

// examineFactory replays the factory's own journal and lays what the store keeps beside it.
func (e *Engine) examineFactory(ctx context.Context, factory string, c Cached) (fault, err error) {
	if _, fault = decodeFactory(factory, c); fault != nil {
		return fault, nil
	}
	history, refusal := kernel.ReplayFactory(e.scan(ctx, factory, "", c.Head.Seq, &err))
	switch {
	case err != nil:
		return nil, err
	case refusal != nil:
		return refusal, nil
	case c.Head != kernel.FactoryHead(history.Last()) || !bytes.Equal(c.State, kernel.EncodeFactory(history.Last())):
		return models.Refuse(models.CodeJournalBroken, models.D("what", "the cached state of the factory is not what its rows make")), nil
	}
	return nil, nil
}

func (e *Engine) waiting(ctx context.Context, factory string) (map[string]string, error) {
	all := map[string]string{}
	for after := ""; ; {
		list, err := e.store.Outstanding(ctx, factory, after, pageWaiting)
		if err != nil || len(list) == 0 {
			return all, err
		}
		for _, w := range list {
			all[w.Run], after = w.Request, w.Run
		}
	}
}

// maxLooks is how often a run that moves on under the examination is looked at.
const maxLooks = 5

// examine looks at a run. Where something does not hold and the run, or the note of its ticket, has moved on since it was read, it
// looks again: that is people at work and no fault.
func (e *Engine) examine(ctx context.Context, factory, run, waiting string) (Finding, error) {
	for look := 1; ; look++ {
		now, err := e.store.Stand(ctx, factory, run)
		if err != nil {
			return Finding{}, err
		}
		out, err := e.checkRun(ctx, factory, now, waiting)
		if err != nil || out.Fault == nil || look == maxLooks {
			return out, err
		}
		after, err := e.store.Stand(ctx, factory, run)
		if err != nil {
			return Finding{}, err
		}
		notes, err := e.waiting(ctx, factory)
		if err != nil {
			return Finding{}, err
		}
		if after.Run.Cached.Head == now.Run.Cached.Head && notes[run] == waiting {
			return out, nil
		}
		waiting = notes[run]
	}
}

// checkRun reads a run like an export and checks it like one, beside what the store keeps about it.
func (e *Engine) checkRun(ctx context.Context, factory string, now Standing, waiting string) (Finding, error) {
	info := now.Run
	out := Finding{Factory: factory, Run: info.Run}
	_, s, fault := decode(factory, info.Run, Cached{}, info.Cached)
	if out.Rows, out.Fault = info.Cached.Head.Seq, fault; fault != nil || out.Rows == 0 {
		return out, nil
	}
	var text bytes.Buffer
	if err := e.write(ctx, view{factory: models.Factory{Factory: factory, Seq: now.Factory.Head.Seq}, state: s, run: info}, &text); err != nil {
		if r, ok := IsRefusal(err); ok && r.Code == models.CodeUnavailable {
			return out, err
		}
		out.Fault = err
		return out, nil
	}
	b, err := ReadBundle(&text)
	if err == nil {
		var v Verified
		v, err = Verify(ctx, b, nil)
		out.Blobs, out.Erased = v.Blobs, v.BlobsErased
	}
	if err == nil {
		err = standing(b, info, waiting)
	}
	out.Fault = err
	return out, nil
}

// standing compares what the store keeps beside the rows of a run with what they make.
func standing(b Bundle, info RunInfo, waiting string) error {
	fault := func(what string) error { return models.Refuse(models.CodeJournalBroken, models.D("what", what)) }
	history, r := kernel.ReplayFactory(slices.Values(b.FactoryRows))
	if r != nil {
		return r
	}
	s, r := kernel.Replay(slices.Values(b.Rows), history)
	if r != nil {
		return r
	}
	w := &Write{}
	w.stand(s, info.Lease)
	switch {
	case s.Head != info.Cached.Head || !bytes.Equal(s.Encode(), info.Cached.State):
		return fault("the cached state is not what the rows make")
	case w.Outstanding != waiting:
		return fault("the note of an outstanding ticket is not what the rows say")
	}
	return nil
}
