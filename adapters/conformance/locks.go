package conformance

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

var lockChecks = []Check{
	{"an append waits for the one before it and reads the clock then", appendsWait},
	{"no update of a run is lost", noLostUpdate},
	{"a count under the queue lock is never exceeded", boundHolds},
	{"a factory command and the runs' commands have one order", factoryOrder},
	{"a command that saw the old factory is earlier than the change", staleFactory},
	{"one of many creators creates", creatorsRace},
	{"one of many openers opens", openersRace},
	{"one of many takes a once-only id", takersRace},
}

// settle is how long a check waits to see that something does not happen.
const settle = 100 * time.Millisecond

// held starts an append of a run that stays inside decide until release is closed, and returns once it is there.
func (w *World) held(ctx context.Context, s engine.Store, st step) (release func() error, err error) {
	inside, open, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var once sync.Once
	edit := st.edit
	st.edit = func(l engine.Loaded, out *engine.Write) error {
		once.Do(func() { close(inside) })
		select {
		case <-open:
		case <-ctx.Done():
		}
		if edit != nil {
			return edit(l, out)
		}
		return nil
	}
	go func() {
		_, err := w.do(ctx, s, st)
		done <- err
	}()
	select {
	case <-inside:
		return func() error { close(open); return <-done }, nil
	case err := <-done:
		return nil, fmt.Errorf("an append ended before decide: %w", err)
	}
}

func appendsWait(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r"); err != nil {
		return err
	}
	for _, run := range []string{"r", ""} {
		before, err := w.look(ctx, w.A, "r")
		if err != nil {
			return err
		}
		var released models.Instant
		release, err := w.held(ctx, w.A, step{run: run, edit: func(engine.Loaded, *engine.Write) error {
			var err error
			released, err = w.A.Now(ctx)
			return err
		}})
		if err != nil {
			return err
		}
		type result struct {
			l   engine.Loaded
			err error
		}
		second := make(chan result, 1)
		go func() {
			l, err := w.do(ctx, w.B, step{run: run})
			second <- result{l, err}
		}()
		select {
		case r := <-second:
			_ = release()
			return fmt.Errorf("a second append did not wait (%v)", r.err)
		case <-time.After(settle):
		}
		if err := release(); err != nil {
			return err
		}
		r := <-second
		seen, was := r.l.Run.Head.Seq, before.Info.Cached.Head.Seq
		if run == "" {
			seen, was = r.l.Factory.Head.Seq, before.Factory.Head.Seq
		}
		if err := first(r.err, want("the head that the second append saw", seen, was+1)); err != nil {
			return err
		}
		if r.l.Now < released {
			return fmt.Errorf("the second append's clock is %d, the first still held its locks at %d", r.l.Now, released)
		}
	}
	return nil
}

// crowd runs f n times on each of workers goroutines, over both nodes, and returns the first error.
func (w *World) crowd(workers, n int, f func(s engine.Store, worker, i int) error) error {
	errs := make(chan error, workers)
	for worker := range workers {
		s := []engine.Store{w.A, w.B}[worker%2]
		go func() {
			for i := range n {
				if err := f(s, worker, i); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	var err error
	for range workers {
		if e := <-errs; err == nil {
			err = e
		}
	}
	return err
}

func noLostUpdate(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r"); err != nil {
		return err
	}
	const workers, each = 16, 10
	var calls atomic.Int64
	err := w.crowd(workers, each, func(s engine.Store, worker, i int) error {
		_, err := w.do(ctx, s, step{run: "r", rows: 1 + i%2, edit: func(l engine.Loaded, _ *engine.Write) error {
			calls.Add(1)
			time.Sleep(50 * time.Microsecond) // opens the window that a store without the lock would fall through
			return nil
		}})
		return err
	})
	if err != nil {
		return err
	}
	info, err := w.A.Run(ctx, w.Factory, "r")
	if err := first(err, want("commands counted in the state", string(info.Cached.State), strconv.Itoa(workers*each))); err != nil {
		return err
	}
	if calls.Load() < workers*each {
		return fmt.Errorf("decide was called %d times for %d commands", calls.Load(), workers*each)
	}
	rows, err := w.A.Rows(ctx, w.Factory, "r", 1, 1000)
	if err := first(err, want("rows", len(rows), workers*each*3/2)); err != nil {
		return err
	}
	var head models.Head
	var at models.Instant
	for _, r := range rows {
		if r.Seq != head.Seq+1 || r.Prev != head.Hash || r.At < at {
			return fmt.Errorf("row %d at %d follows row %d at %d", r.Seq, r.At, head.Seq, at)
		}
		head, at = models.Head{Seq: r.Seq, Hash: r.Hash}, r.At
	}
	return want("the head", info.Cached.Head, head)
}

// FLOW-34 asks this of the whole; here it is asked of the lock that makes it possible.
func boundHolds(ctx context.Context, w *World) error {
	const workers, attempts, bound, runs = 64, 600, 50, 200
	if err := w.create(ctx); err != nil {
		return err
	}
	for i := range runs {
		if _, err := w.A.OpenRun(ctx, w.Factory, "run-"+strconv.Itoa(i), "opener", salt("r")); err != nil {
			return err
		}
	}
	full := errors.New("full")
	var next, admitted, refused atomic.Int64
	err := w.crowd(workers, attempts, func(s engine.Store, _, _ int) error {
		i := next.Add(1)
		if i > attempts {
			return nil
		}
		run := "run-" + strconv.FormatInt(i%runs, 10)
		_, err := w.do(ctx, s, step{run: run, queue: true, edit: func(l engine.Loaded, out *engine.Write) error {
			if l.Run.Head.Seq > 0 {
				return full
			}
			if l.Pending >= bound {
				return full
			}
			time.Sleep(100 * time.Microsecond) // opens the window that a count without a lock would fall through
			out.Queue = &engine.QueueEntry{Run: run, Request: "q-" + run, Expires: far}
			return nil
		}})
		switch {
		case errors.Is(err, full):
			refused.Add(1)
			return nil
		case err == nil:
			admitted.Add(1)
		}
		return err
	})
	if err != nil {
		return err
	}
	pending, err := w.A.Pending(ctx, w.Factory)
	return first(err, want("admitted", admitted.Load(), int64(bound)), want("refused", refused.Load(), int64(attempts-bound)),
		want("pending", pending, int64(bound)))
}

func factoryOrder(ctx context.Context, w *World) error {
	const workers, each = 8, 25
	runs := []string{"r0", "r1", "r2", "r3"}
	if err := w.openRuns(ctx, runs...); err != nil {
		return err
	}
	type seen struct {
		head int64
		now  models.Instant
	}
	var mu sync.Mutex
	var reads []seen
	changes := map[int64]models.Instant{} // by the sequence each made
	err := w.crowd(workers, each, func(s engine.Store, worker, i int) error {
		if worker < 2 && i%3 == 0 {
			l, err := w.do(ctx, s, step{})
			mu.Lock()
			defer mu.Unlock()
			changes[l.Factory.Head.Seq+1] = l.Now
			return err
		}
		l, err := w.do(ctx, s, step{run: runs[(worker+i)%len(runs)]})
		mu.Lock()
		defer mu.Unlock()
		reads = append(reads, seen{l.Factory.Head.Seq, l.Now})
		return err
	})
	if err != nil {
		return err
	}
	for _, r := range reads {
		if made, ok := changes[r.head]; ok && r.now < made {
			return fmt.Errorf("a command at %d saw factory row %d, which is of %d", r.now, r.head, made)
		}
		if next, ok := changes[r.head+1]; ok && r.now > next {
			return fmt.Errorf("a command at %d saw the factory before row %d, which is of %d", r.now, r.head+1, next)
		}
	}
	return nil
}

func staleFactory(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r"); err != nil {
		return err
	}
	release, err := w.held(ctx, w.A, step{run: "r"})
	if err != nil {
		return err
	}
	type result struct {
		l   engine.Loaded
		err error
	}
	waiting, change := make(chan result, 1), make(chan result, 1)
	go func() {
		l, err := w.do(ctx, w.B, step{run: "r"})
		waiting <- result{l, err}
	}()
	time.Sleep(settle)
	go func() {
		l, err := w.do(ctx, w.A, step{})
		change <- result{l, err}
	}()
	time.Sleep(settle)
	if err := release(); err != nil {
		return err
	}
	second, changed := <-waiting, <-change
	if err := first(second.err, changed.err); err != nil {
		return err
	}
	if second.l.Factory.Head.Seq <= changed.l.Factory.Head.Seq && second.l.Now > changed.l.Now {
		return fmt.Errorf("a command at %d saw the factory as before its change at %d", second.l.Now, changed.l.Now)
	}
	return nil
}

func creatorsRace(ctx context.Context, w *World) error {
	var created atomic.Int64
	err := w.crowd(8, 1, func(s engine.Store, _, _ int) error {
		wrote := false
		_, err := w.do(ctx, s, step{edit: func(l engine.Loaded, _ *engine.Write) error {
			wrote = l.Factory.Head.Seq == 0
			if !wrote {
				return errNothing
			}
			return nil
		}})
		if err == nil && wrote {
			created.Add(1)
		}
		return err
	})
	rows, err2 := w.A.Rows(ctx, w.Factory, "", 1, 10)
	return first(err, err2, want("creators that wrote", created.Load(), int64(1)), want("rows", len(rows), 1))
}

func openersRace(ctx context.Context, w *World) error {
	if err := w.create(ctx); err != nil {
		return err
	}
	for i := range 5 {
		run := "r" + strconv.Itoa(i)
		var mu sync.Mutex
		seen := map[string]bool{}
		err := w.crowd(8, 1, func(s engine.Store, worker, _ int) error {
			opener := "opener-" + strconv.Itoa(worker)
			info, err := s.OpenRun(ctx, w.Factory, run, opener, salt(opener))
			mu.Lock()
			defer mu.Unlock()
			seen[info.Opener] = true
			return first(err, want("the salt that came with the opener", info.Salt, salt(info.Opener)))
		})
		if err := first(err, want("openers that openers were told", len(seen), 1)); err != nil {
			return err
		}
	}
	return nil
}

func takersRace(ctx context.Context, w *World) error {
	runs := []string{"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7"}
	if err := w.openRuns(ctx, runs...); err != nil {
		return err
	}
	for i := range 5 {
		key := engine.Key{Factory: w.Factory, Space: engine.SpaceRequest, ID: "request-" + strconv.Itoa(i)}
		var taken, landed atomic.Int64
		err := w.crowd(len(runs), 1, func(s engine.Store, worker, _ int) error {
			_, err := w.do(ctx, s, step{run: runs[worker], saved: key, edit: func(l engine.Loaded, out *engine.Write) error {
				if l.Saved != nil {
					return engine.ErrTaken
				}
				out.Receipt.Key = key
				return nil
			}})
			switch {
			case err == nil:
				landed.Add(1)
			case errors.Is(err, engine.ErrTaken):
				taken.Add(1)
				return nil
			}
			return err
		})
		if err := first(err, want("commands under one request id", landed.Load(), int64(1)), want("others", taken.Load(), int64(7))); err != nil {
			return err
		}
	}
	total := int64(0)
	for _, run := range runs {
		info, err := w.A.Run(ctx, w.Factory, run)
		if err != nil {
			return err
		}
		total += info.Cached.Head.Seq
	}
	return want("rows over all runs", total, int64(5))
}
