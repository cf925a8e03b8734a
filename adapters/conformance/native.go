package conformance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

var nativeChecks = []Check{
	{"a run whose lease lapsed at a clean point is announced", lapsedIsAnnounced},
	{"a handed-over run is announced to its pool", poolIsAnnounced},
	{"runs with an outstanding ticket are listed", outstandingIsListed},
	{"runs to verify are listed", verifiableIsListed},
	{"factories are listed in byte order", factoriesAreListed},
	{"blobs that no row names are swept", unnamedIsSwept},
	{"a sweep and an append that names a blob have one order", sweepIsOrdered},
}

// stand sets what a run leaves beside its rows.
func (w *World) stand(ctx context.Context, run string, lease, reclaim models.Instant, outstanding string, entry *engine.QueueEntry) error {
	_, err := w.do(ctx, w.A, step{run: run, queue: true, edit: func(_ engine.Loaded, out *engine.Write) error {
		out.Lease, out.Reclaim, out.Outstanding, out.Queue = lease, reclaim, outstanding, entry
		return nil
	}})
	return wrap("append to "+run, err)
}

// work asks what is announced to a pool, by run.
func (w *World) work(ctx context.Context, pool string, limit int64, expected ...string) error {
	list, err := w.B.Work(ctx, w.Factory, pool, limit)
	if err != nil {
		return err
	}
	got := []string{}
	for _, q := range list {
		got = append(got, q.Run)
	}
	return want(fmt.Sprintf("work of pool %q", pool), got, append([]string{}, expected...))
}

func lapsedIsAnnounced(ctx context.Context, w *World) error {
	runs := []string{"old", "live", "unclean", "over", "queued", "older", "soon"}
	if err := w.openRuns(ctx, runs...); err != nil {
		return err
	}
	now, err := w.A.Now(ctx)
	if err != nil {
		return err
	}
	soon := now + 300_000
	err = first(
		w.stand(ctx, "old", past+1, far, "", nil),
		w.stand(ctx, "live", far, far, "", nil),
		w.stand(ctx, "unclean", past, 0, "", nil),
		w.stand(ctx, "over", past, past+1, "", nil), // its deadline has passed as well
		w.stand(ctx, "queued", 0, 0, "", &engine.QueueEntry{Run: "queued"}),
		w.stand(ctx, "older", past, far, "", nil),
		w.stand(ctx, "soon", soon, far, "", nil),
	)
	if err != nil {
		return err
	}
	for time.Now().Before(time.UnixMicro(int64(soon)).Add(-100 * time.Millisecond)) {
		before, err1 := w.A.Now(ctx)
		list, err2 := w.A.Work(ctx, w.Factory, "", 10)
		after, err3 := w.A.Now(ctx)
		if err := first(err1, err2, err3); err != nil {
			return err
		}
		listed := slices.ContainsFunc(list, func(q engine.QueueEntry) bool { return q.Run == "soon" })
		if listed && after < soon || !listed && before >= soon {
			return fmt.Errorf("listed is %t between %d and %d, where the lease lapses at %d", listed, before, after, soon)
		}
	}
	for at := now; at < soon; {
		if at, err = w.A.Now(ctx); err != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := first(w.work(ctx, "", 10, "older", "old", "queued", "soon"), w.work(ctx, "gpu", 2, "older", "old"), w.work(ctx, "", 0)); err != nil {
		return err
	}
	list, err := w.B.Work(ctx, w.Factory, "", 1)
	if err := first(err, want("what is announced", list, []engine.QueueEntry{{Run: "older"}})); err != nil {
		return err
	}
	// A write without rows replaces it too, and a renewal takes the run off the list.
	_, err = w.do(ctx, w.A, step{run: "older", rows: -1, edit: func(l engine.Loaded, out *engine.Write) error {
		out.Lease, out.Reclaim, out.State = far, far, l.Run.State
		return nil
	}})
	return first(err, w.work(ctx, "", 10, "old", "queued", "soon"), w.stand(ctx, "old", 0, 0, "", nil), w.work(ctx, "", 10, "queued", "soon"))
}

func poolIsAnnounced(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "any", "gpu", "GPU", "lapsed"); err != nil {
		return err
	}
	err := first(
		w.stand(ctx, "any", 0, 0, "", &engine.QueueEntry{Run: "any"}),
		w.stand(ctx, "gpu", 0, 0, "", &engine.QueueEntry{Run: "gpu", Pool: "gpu"}),
		w.stand(ctx, "GPU", 0, 0, "", &engine.QueueEntry{Run: "GPU", Pool: "GPU", Expires: far}),
		w.stand(ctx, "lapsed", past, far, "", nil),
	)
	if err := first(err, w.work(ctx, "", 10, "lapsed", "any"), w.work(ctx, "gpu", 10, "lapsed", "any", "gpu"),
		w.work(ctx, "GPU", 10, "lapsed", "any", "GPU"), w.work(ctx, "cpu", 10, "lapsed", "any"), w.work(ctx, "gpu", 1, "lapsed")); err != nil {
		return err
	}
	list, err := w.B.Work(ctx, w.Factory, "GPU", 10)
	if err != nil || len(list) != 3 {
		return fmt.Errorf("work of pool GPU: %v, %v", list, err)
	}
	// Handed on to another pool the run keeps its place.
	return first(want("the entry", list[2], engine.QueueEntry{Run: "GPU", Pool: "GPU", Expires: far}),
		w.stand(ctx, "any", 0, 0, "", &engine.QueueEntry{Run: "any", Pool: "cpu"}),
		w.work(ctx, "gpu", 10, "lapsed", "gpu"), w.work(ctx, "cpu", 10, "lapsed", "any"))
}

func outstandingIsListed(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "b", "A", "a", "none"); err != nil {
		return err
	}
	list := func(after string, limit int64, expected ...engine.Waiting) error {
		got, err := w.B.Outstanding(ctx, w.Factory, after, limit)
		return first(err, want("outstanding after "+after, append([]engine.Waiting{}, got...), append([]engine.Waiting{}, expected...)))
	}
	a, b, c := engine.Waiting{Run: "A", Request: "q1"}, engine.Waiting{Run: "a", Request: "q2"}, engine.Waiting{Run: "b", Request: "q3"}
	return first(list("", 10),
		w.stand(ctx, "b", 0, 0, "q3", nil), w.stand(ctx, "A", far, 0, "q1", nil), w.stand(ctx, "a", past, 0, "q2", nil), w.stand(ctx, "none", 0, 0, "", nil),
		list("", 10, a, b, c), list("", 2, a, b), list("A", 10, b, c), list("b", 10), list("", 0),
		w.stand(ctx, "a", 0, 0, "", nil), list("", 10, a, c))
}

func verifiableIsListed(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "b", "A", "a", "none"); err != nil {
		return err
	}
	set := func(run string, due bool) error {
		_, err := w.do(ctx, w.A, step{run: run, edit: func(_ engine.Loaded, out *engine.Write) error {
			out.Verify = due
			return nil
		}})
		return wrap("append to "+run, err)
	}
	list := func(after string, limit int64, expected ...string) error {
		got, err := w.B.Verifiable(ctx, w.Factory, after, limit)
		return first(err, want("to verify after "+after, append([]string{}, got...), append([]string{}, expected...)))
	}
	return first(list("", 10), set("b", true), set("A", true), set("a", true), set("none", false),
		list("", 10, "A", "a", "b"), list("", 2, "A", "a"), list("a", 10, "b"), list("", 0), set("a", false), list("", 10, "A", "b"))
}

func factoriesAreListed(ctx context.Context, w *World) error {
	base := w.Factory
	for _, suffix := range []string{"-b", "-B", "-a", "-.", "-_"} {
		w.Factory = base + suffix
		if err := w.create(ctx); err != nil {
			return err
		}
	}
	sorted := []string{base + "-.", base + "-B", base + "-_", base + "-a", base + "-b"}
	for _, limit := range []int64{1, 2, 5} {
		var got []string
		for after := base; len(got) < len(sorted); {
			page, err := w.B.Factories(ctx, after, limit)
			if err != nil || len(page) == 0 || int64(len(page)) > limit {
				return fmt.Errorf("%d factories after %s, at most %d asked: %v", len(page), after, limit, err)
			}
			got, after = append(got, page...), page[len(page)-1]
		}
		if err := want("factories", got[:len(sorted)], sorted); err != nil {
			return err
		}
	}
	return nil
}

func unnamedIsSwept(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r", "s"); err != nil {
		return err
	}
	blob := func(content string) engine.Blob {
		return engine.Blob{Digest: models.PlainDigest([]byte(content)), Data: []byte(content)}
	}
	there := func(run, content string, expected bool) error {
		_, err := w.B.Blob(ctx, w.Factory, run, blob(content).Digest)
		if expected {
			return wrap("blob "+content, err)
		}
		return wantErr("blob "+content, err, engine.ErrNotFound)
	}
	name := func(run string, contents ...string) error {
		_, err := w.do(ctx, w.A, step{run: run, rows: 2, edit: func(_ engine.Loaded, out *engine.Write) error {
			for _, c := range contents {
				out.Rows[1].Blobs = append(out.Rows[1].Blobs, blob(c).Digest)
			}
			return nil
		}})
		return err
	}
	put := func(run string, contents ...string) error {
		for _, c := range contents {
			if err := w.A.PutBlob(ctx, w.Factory, run, blob(c), models.MaxRunBytes); err != nil {
				return err
			}
		}
		return nil
	}
	sweep := func(age models.Seconds, expected int64) error {
		n, err := w.B.Sweep(ctx, w.Factory, age)
		return first(err, want("blobs swept", n, expected))
	}
	pause := func() error { time.Sleep(2 * time.Millisecond); return nil }
	return first(
		put("r", "named", "second", "loose", "late"), put("s", "named", "loose"), put("", "report"), name("r", "named", "second"), pause(),
		sweep(3600, 0), there("r", "loose", true),
		sweep(0, 4), there("r", "named", true), there("r", "second", true), there("r", "loose", false), there("r", "late", false),
		there("s", "named", false), there("s", "loose", false), there("", "report", true),
		sweep(0, 0), there("r", "named", true),
		// What was swept may be put and named again, and stays then.
		put("r", "late"), name("r", "late"), pause(), sweep(0, 0), there("r", "late", true), put("r", "named"), pause(), sweep(0, 0), there("r", "named", true),
	)
}

// sweepIsOrdered races sweeps against appends that name what they put: whatever a row names afterwards is there.
func sweepIsOrdered(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r"); err != nil {
		return err
	}
	named := make(chan models.Digest, 1000)
	err := w.crowd(4, 30, func(s engine.Store, node, i int) error {
		if node == 0 {
			_, err := s.Sweep(ctx, w.Factory, 0)
			return err
		}
		data := fmt.Append(nil, node, " ", i)
		b := engine.Blob{Digest: models.PlainDigest(data), Data: data}
		if err := s.PutBlob(ctx, w.Factory, "r", b, models.MaxRunBytes); err != nil {
			return err
		}
		missing := false
		_, err := w.do(ctx, s, step{run: "r", blobs: []models.Digest{b.Digest}, edit: func(l engine.Loaded, out *engine.Write) error {
			if missing = len(l.Missing) > 0; missing {
				return errNothing
			}
			out.Rows[0].Blobs = []models.Digest{b.Digest}
			return nil
		}})
		if err == nil && !missing {
			named <- b.Digest
		}
		return err
	})
	if err != nil {
		return err
	}
	close(named)
	if _, err := w.A.Sweep(ctx, w.Factory, 0); err != nil {
		return err
	}
	for d := range named {
		if _, err := w.B.Blob(ctx, w.Factory, "r", d); err != nil {
			return wrap("a blob that a row names", err)
		}
	}
	return nil
}
