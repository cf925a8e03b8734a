package conformance

import (
	"context"
	"errors"
	"fmt"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

var loadedChecks = []Check{
	{"the receipt asked for is loaded", savedIsLoaded},
	{"blobs that are not kept are named", missingIsLoaded},
	{"pending counts tickets that have not lapsed", pendingIsCounted},
	{"work is listed oldest first", workIsOrdered},
	{"what decide was given is its own", loadedIsOwn},
	{"decide reads the rows that stand", rowsAreRead},
	{"the clock is the store's and never turns back in a run", clockIsMonotone},
	{"an append to the factory knows the newest time of its runs", newestIsLoaded},
}

// newestIsLoaded: of its own runs, whichever has it, and of no other factory's.
func newestIsLoaded(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r", "s"); err != nil {
		return err
	}
	empty, err := w.do(ctx, w.A, step{edit: nothing})
	if err := first(err, want("the newest time of runs without rows", empty.Newest, models.Instant(0))); err != nil {
		return err
	}
	var last models.Instant
	for _, run := range []string{"r", "s", "r"} {
		if _, err := w.do(ctx, w.A, step{run: run, rows: 2}); err != nil {
			return err
		}
		info, err := w.B.Run(ctx, w.Factory, run)
		if err != nil {
			return err
		}
		last = max(last, info.Cached.At)
		l, err := w.do(ctx, w.B, step{edit: nothing})
		if err := first(err, want("the newest time after "+run, l.Newest, last)); err != nil {
			return err
		}
	}
	return nil
}

var nothing = func(engine.Loaded, *engine.Write) error { return errNothing }

// rowsAreRead: inside the transaction decide sees the rows up to the head under its lock, and none beyond.
func rowsAreRead(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r", "s"); err != nil {
		return err
	}
	if _, err := w.do(ctx, w.A, step{run: "r", rows: 5}); err != nil {
		return err
	}
	expected, err := w.A.Rows(ctx, w.Factory, "r", 2, 3)
	if err != nil || len(expected) != 3 {
		return fmt.Errorf("%d rows, %w", len(expected), err)
	}
	for run, list := range map[string][]models.Row{"r": expected, "s": nil} {
		_, err := w.do(ctx, w.B, step{run: run, edit: func(l engine.Loaded, _ *engine.Write) error {
			got, err := l.Rows(2, 3)
			past, err2 := l.Rows(6, 10)
			if err := first(err, err2, want("rows of "+run, got, list), want("rows past the head", len(past), 0)); err != nil {
				return err
			}
			return errNothing
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

func savedIsLoaded(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r", "s"); err != nil {
		return err
	}
	saved := map[engine.Key]engine.Receipt{}
	for _, k := range []engine.Key{
		{Space: engine.SpaceRun, ID: "same"}, {Space: engine.SpaceRequest, ID: "same"},
		{Space: engine.SpaceCommand, Run: "r", ID: "same"}, {Space: engine.SpaceClaim, Run: "r", ID: "same"},
	} {
		k.Factory = w.Factory
		_, err := w.do(ctx, w.A, step{run: "r", edit: func(_ engine.Loaded, out *engine.Write) error {
			out.Receipt.Key, out.Receipt.Body = k, []byte(k.Space)
			out.Receipt.Digest = models.PlainDigest([]byte(k.Space))
			saved[k] = out.Receipt
			return nil
		}})
		if err := wrap("save receipt of space "+k.Space, err); err != nil {
			return err
		}
	}
	for k, expected := range saved {
		l, err := w.do(ctx, w.B, step{run: "r", saved: k, edit: nothing})
		if err != nil {
			return err
		}
		if l.Saved == nil {
			return fmt.Errorf("receipt of space %s was not loaded", k.Space)
		}
		if err := want("receipt of space "+k.Space, *l.Saved, expected); err != nil {
			return err
		}
	}
	for _, k := range []engine.Key{
		{Factory: w.Factory, Space: engine.SpaceCommand, Run: "s", ID: "same"},
		{Factory: w.Factory, Space: engine.SpaceCommand, ID: "same"},
		{Factory: w.Factory, Space: engine.SpaceFactory, ID: "same"},
		{Factory: w.Factory, Space: engine.SpaceCommand, Run: "r", ID: "sam"},
		{},
	} {
		l, err := w.do(ctx, w.A, step{run: "r", saved: k, edit: nothing})
		if err := first(err, want("a receipt never saved", l.Saved == nil, true)); err != nil {
			return err
		}
		_, err = w.A.Receipt(ctx, k)
		if err := wantErr("a receipt never saved", err, engine.ErrNotFound); err != nil {
			return err
		}
	}
	// A request id is one per factory: the receipt is found from another run, and says whose it is.
	l, err := w.do(ctx, w.A, step{run: "s", saved: engine.Key{Factory: w.Factory, Space: engine.SpaceRequest, ID: "same"}, edit: nothing})
	if err != nil || l.Saved == nil {
		return fmt.Errorf("a request's receipt asked from another run: %v, %v", l.Saved, err)
	}
	if err := want("its run", l.Saved.Run, "r"); err != nil {
		return err
	}
	// The factory's own journal has receipts too.
	if _, err := w.do(ctx, w.A, step{id: "own"}); err != nil {
		return err
	}
	l, err = w.do(ctx, w.B, step{saved: engine.Key{Factory: w.Factory, Space: engine.SpaceFactory, ID: "own"}, edit: nothing})
	if err != nil || l.Saved == nil {
		return fmt.Errorf("receipt of a factory command: %v, %v", l.Saved, err)
	}
	return nil
}

func missingIsLoaded(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r", "s"); err != nil {
		return err
	}
	d := func(s string) models.Digest { return models.PlainDigest([]byte(s)) }
	put := func(run string, names ...string) error {
		for _, n := range names {
			if err := w.A.PutBlob(ctx, w.Factory, run, engine.Blob{Digest: d(n), Data: []byte(n)}, models.MaxRunBytes); err != nil {
				return wrap("put blob", err)
			}
		}
		return nil
	}
	if err := first(put("r", "a", "c"), put("s", "b", "d"), put("", "e")); err != nil {
		return err
	}
	asked := []models.Digest{d("e"), d("d"), d("c"), d("b"), d("a"), d("f"), d("b")}
	for run, missing := range map[string][]models.Digest{
		"r": {d("e"), d("d"), d("b"), d("f"), d("b")},
		"s": {d("e"), d("c"), d("a"), d("f")},
		"":  {d("d"), d("c"), d("b"), d("a"), d("f"), d("b")},
	} {
		l, err := w.do(ctx, w.B, step{run: run, blobs: asked, edit: nothing})
		if err := first(err, want("missing blobs of "+run, l.Missing, missing)); err != nil {
			return err
		}
	}
	l, err := w.do(ctx, w.B, step{run: "r", blobs: []models.Digest{d("a")}, edit: nothing})
	return first(err, want("missing of what is kept", len(l.Missing), 0))
}

// enqueue sets the entry of a run, or removes it.
func (w *World) enqueue(ctx context.Context, run string, entry *engine.QueueEntry) error {
	_, err := w.do(ctx, w.A, step{run: run, queue: true, edit: func(_ engine.Loaded, out *engine.Write) error {
		out.Queue = entry
		return nil
	}})
	return wrap("enqueue "+run, err)
}

func pendingIsCounted(ctx context.Context, w *World) error {
	runs := []string{"ordinary", "lapsed", "forever", "later", "claimed", "asking"}
	if err := w.openRuns(ctx, runs...); err != nil {
		return err
	}
	for run, e := range map[string]engine.QueueEntry{
		"ordinary": {}, "lapsed": {Request: "a", Expires: past}, "forever": {Request: "b"}, "later": {Request: "c", Expires: far},
		"claimed": {Request: "d", Expires: far},
	} {
		e.Run = run
		if err := w.enqueue(ctx, run, &e); err != nil {
			return err
		}
	}
	count := func(expected int64) error {
		outside, err := w.B.Pending(ctx, w.Factory)
		if err := first(err, want("pending", outside, expected)); err != nil {
			return err
		}
		l, err := w.do(ctx, w.B, step{run: "asking", queue: true, edit: nothing})
		return first(err, want("pending as loaded", l.Pending, expected))
	}
	if err := first(count(3), w.enqueue(ctx, "claimed", nil), count(2)); err != nil {
		return err
	}
	// An entry is gone at its expiry, by the store's clock.
	var expires models.Instant
	_, err := w.do(ctx, w.A, step{run: "asking", queue: true, edit: func(l engine.Loaded, out *engine.Write) error {
		expires = l.Now + 300_000
		out.Queue = &engine.QueueEntry{Run: "asking", Request: "e", Expires: expires}
		return nil
	}})
	if err != nil {
		return err
	}
	for {
		before, err1 := w.A.Now(ctx)
		n, err2 := w.A.Pending(ctx, w.Factory)
		after, err3 := w.A.Now(ctx)
		if err := first(err1, err2, err3); err != nil {
			return err
		}
		if after < expires && n != 3 || before >= expires && n != 2 {
			return fmt.Errorf("%d pending between %d and %d, where one lapses at %d", n, before, after, expires)
		}
		if before >= expires {
			return nil
		}
	}
}

func workIsOrdered(ctx context.Context, w *World) error {
	runs := []string{"d", "b", "c", "a", "e"}
	if err := w.openRuns(ctx, runs...); err != nil {
		return err
	}
	list := func(limit int64, expected ...string) error {
		work, err := w.B.Work(ctx, w.Factory, "", limit)
		if err != nil {
			return err
		}
		got := []string{}
		for _, q := range work {
			got = append(got, q.Run)
		}
		return want("work", got, append([]string{}, expected...))
	}
	for _, run := range runs {
		e := &engine.QueueEntry{Run: run}
		if run == "c" {
			e.Request, e.Expires = "q", past
		}
		if err := w.enqueue(ctx, run, e); err != nil {
			return err
		}
	}
	if err := first(list(10, "d", "b", "a", "e"), list(2, "d", "b"), list(0)); err != nil {
		return err
	}
	// The same entry keeps its place, also under another expiry; for another request the run joins the end.
	err := first(
		w.enqueue(ctx, "d", &engine.QueueEntry{Run: "d", Expires: far}), list(10, "d", "b", "a", "e"),
		w.enqueue(ctx, "d", &engine.QueueEntry{Run: "d", Request: "other"}), list(10, "b", "a", "e", "d"),
		w.enqueue(ctx, "b", nil), list(10, "a", "e", "d"),
		w.enqueue(ctx, "b", &engine.QueueEntry{Run: "b"}), list(10, "a", "e", "d", "b"),
		w.enqueue(ctx, "c", &engine.QueueEntry{Run: "c", Request: "q", Expires: far}))
	if err != nil {
		return err
	}
	work, err := w.B.Work(ctx, w.Factory, "", 1)
	return first(err, want("the oldest, whose lease is in force again", work, []engine.QueueEntry{{Run: "c", Request: "q", Expires: far}}))
}

func loadedIsOwn(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r"); err != nil {
		return err
	}
	scribble := func(b []byte) {
		for i := range b {
			b[i] = 'x'
		}
	}
	var wrote *engine.Write
	var kept engine.Receipt
	blob := engine.Blob{Digest: models.PlainDigest([]byte("b")), Data: []byte("bytes")}
	_, err := w.do(ctx, w.A, step{run: "r", edit: func(_ engine.Loaded, out *engine.Write) error {
		out.Blobs = []engine.Blob{blob}
		wrote, kept = out, out.Receipt
		kept.Body = append([]byte(nil), kept.Body...)
		return nil
	}})
	if err != nil {
		return err
	}
	before, err := w.look(ctx, w.A, "r")
	if err != nil {
		return err
	}
	// Everything that went in or came out is scribbled over.
	scribble(wrote.State)
	scribble(wrote.Rows[0].Payload)
	scribble(wrote.Receipt.Body)
	scribble(wrote.Blobs[0].Data)
	l, err := w.do(ctx, w.A, step{run: "r", saved: kept.Key, edit: nothing})
	if err != nil {
		return err
	}
	scribble(l.Run.State)
	scribble(l.Factory.State)
	scribble(l.Saved.Body)
	p, err1 := w.look(ctx, w.A, "r")
	data, err2 := w.A.Blob(ctx, w.Factory, "r", blob.Digest)
	if err := first(err1, err2); err != nil {
		return err
	}
	scribble(p.Rows[0].Payload)
	scribble(p.Info.Cached.State)
	scribble(data)
	after, err1 := w.look(ctx, w.A, "r")
	receipt, err2 := w.A.Receipt(ctx, kept.Key)
	data, err3 := w.A.Blob(ctx, w.Factory, "r", blob.Digest)
	return first(err1, err2, err3, want("the run", after, before), want("the receipt", receipt, kept), want("the blob", string(data), "bytes"))
}

func clockIsMonotone(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r"); err != nil {
		return err
	}
	var last models.Instant
	for range 20 {
		for _, s := range []engine.Store{w.A, w.B} {
			before, err1 := w.A.Now(ctx)
			l, err2 := w.do(ctx, s, step{run: "r"})
			after, err3 := w.B.Now(ctx)
			if err := first(err1, err2, err3); err != nil {
				return err
			}
			if l.Now < before || l.Now > after || l.Now < last {
				return fmt.Errorf("an append at %d between readings %d and %d, after one at %d", l.Now, before, after, last)
			}
			last = l.Now
		}
	}
	name, major := w.A.Kind()
	if name == "" || major <= 0 {
		return errors.New("the store has no kind")
	}
	return nil
}
