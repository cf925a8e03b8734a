package conformance

import (
	"context"
	"errors"
	"fmt"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

var journalChecks = []Check{
	{"a factory exists once its first command is written", factoryIsCreated},
	{"a run is opened once", runIsOpened},
	{"what was appended is seen everywhere", appendIsSeen},
	{"decide may refuse or have nothing to write", decideRefuses},
	{"a write that is taken leaves nothing", takenLeavesNothing},
	{"a write that does not follow leaves nothing", brokenLeavesNothing},
	{"rows are read page by page", rowsArePaged},
	{"a lease is changed without a row", leaseAlone},
	{"runs are listed in byte order", runsAreListed},
	{"bytes are kept as they are", bytesAreKept},
	{"ids are case-sensitive", idsKeepCase},
	{"factories are worlds of their own", factoriesAreApart},
}

func factoryIsCreated(ctx context.Context, w *World) error {
	_, err := w.A.Factory(ctx, w.Factory)
	if err := wantErr("a factory that was never made", err, engine.ErrNotFound); err != nil {
		return err
	}
	called := false
	err = w.A.Append(ctx, engine.Locks{Factory: w.Factory, Run: "r"}, func(engine.Loaded) (*engine.Write, error) {
		called = true
		return nil, nil
	})
	if err := first(wantErr("an append to no factory", err, engine.ErrNotFound), want("decide was called", called, false)); err != nil {
		return err
	}
	l, err := w.do(ctx, w.A, step{edit: func(engine.Loaded, *engine.Write) error { return errNothing }})
	if err := first(err, want("what a first command loads", l.Factory, engine.Cached{})); err != nil {
		return err
	}
	_, err = w.A.Factory(ctx, w.Factory)
	if err := wantErr("a factory whose first command wrote nothing", err, engine.ErrNotFound); err != nil {
		return err
	}
	refused := errors.New("refused")
	_, err = w.do(ctx, w.A, step{edit: func(engine.Loaded, *engine.Write) error { return refused }})
	_, gone := w.A.Factory(ctx, w.Factory)
	if err := first(wantErr("a refused first command", err, refused), wantErr("its factory", gone, engine.ErrNotFound)); err != nil {
		return err
	}
	l, err = w.do(ctx, w.A, step{rows: 2})
	if err != nil {
		return err
	}
	c, err := w.B.Factory(ctx, w.Factory)
	if err := first(err, want("head of the factory", c.Head.Seq, int64(2)), want("its state", string(c.State), "1"),
		want("its rules", c.Rules, int64(1)), want("its time", c.At, l.Now)); err != nil {
		return err
	}
	l, err = w.do(ctx, w.B, step{})
	return first(err, want("what the next command loads", l.Factory, c))
}

func runIsOpened(ctx context.Context, w *World) error {
	_, err := w.A.OpenRun(ctx, w.Factory, "r", "opener", salt("r"))
	if err := wantErr("opening a run in no factory", err, engine.ErrNotFound); err != nil {
		return err
	}
	if err := w.create(ctx); err != nil {
		return err
	}
	_, err = w.A.Run(ctx, w.Factory, "r")
	_, beside := w.A.Stand(ctx, w.Factory, "r")
	if err := first(wantErr("a run that was never opened", err, engine.ErrNotFound), wantErr("it beside its factory", beside, engine.ErrNotFound)); err != nil {
		return err
	}
	called := false
	err = w.A.Append(ctx, engine.Locks{Factory: w.Factory, Run: "r"}, func(engine.Loaded) (*engine.Write, error) {
		called = true
		return nil, nil
	})
	if err := first(wantErr("an append to no run", err, engine.ErrNotFound), want("decide was called", called, false)); err != nil {
		return err
	}
	fresh := engine.RunInfo{Run: "r", Salt: salt("r"), Opener: "opener"}
	made, err := w.A.OpenRun(ctx, w.Factory, "r", "opener", salt("r"))
	if err := first(err, want("the run as opened", made, fresh)); err != nil {
		return err
	}
	again, err := w.B.OpenRun(ctx, w.Factory, "r", "somebody", salt("other"))
	if err := first(err, want("the run as opened again", again, fresh)); err != nil {
		return err
	}
	l, err := w.do(ctx, w.B, step{run: "r", edit: func(engine.Loaded, *engine.Write) error { return errNothing }})
	return first(err, want("salt", l.Salt, fresh.Salt), want("opener", l.Opener, "opener"), want("journal", l.Run, engine.Cached{}))
}

func appendIsSeen(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r"); err != nil {
		return err
	}
	var wrote *engine.Write
	blob := engine.Blob{Digest: models.PlainDigest([]byte("b")), Data: []byte("bytes")}
	l, err := w.do(ctx, w.A, step{run: "r", id: "one", rows: 3, queue: true, edit: func(_ engine.Loaded, out *engine.Write) error {
		out.Queue = &engine.QueueEntry{Run: "r", Request: "q", Expires: far}
		out.Lease = far
		out.Rules = 7
		out.Once = []engine.Once{{Kind: "k", Key: "1"}}
		out.Blobs = []engine.Blob{blob}
		out.Rows[1].Blobs = []models.Digest{blob.Digest, models.PlainDigest([]byte("c"))}
		wrote = out
		return nil
	}})
	if err != nil {
		return err
	}
	head := wrote.Rows[2]
	cached := engine.Cached{Head: models.Head{Seq: 3, Hash: head.Hash}, At: l.Now, Rules: 7, State: []byte("1")}
	info, err := w.B.Run(ctx, w.Factory, "r")
	expect := engine.RunInfo{Run: "r", Salt: salt("r"), Opener: "opener", Cached: cached, Lease: far}
	if err := first(err, want("the run", info, expect)); err != nil {
		return err
	}
	rows, err := w.B.Rows(ctx, w.Factory, "r", 1, 10)
	if err := first(err, sameRows(rows, wrote.Rows)); err != nil {
		return err
	}
	receipt, err := w.B.Receipt(ctx, wrote.Receipt.Key)
	if err := first(err, want("the receipt", receipt, wrote.Receipt)); err != nil {
		return err
	}
	work, err := w.B.Work(ctx, w.Factory, "", 10)
	if err := first(err, want("the work", work, []engine.QueueEntry{*wrote.Queue})); err != nil {
		return err
	}
	data, err := w.B.Blob(ctx, w.Factory, "r", blob.Digest)
	if err := first(err, want("the blob", string(data), "bytes")); err != nil {
		return err
	}
	next, err := w.do(ctx, w.B, step{run: "r", saved: wrote.Receipt.Key})
	if err := first(err, want("the run as loaded next", next.Run, cached), want("its lease", next.Lease, far)); err != nil {
		return err
	}
	if next.Saved == nil {
		return errors.New("the saved receipt was not loaded")
	}
	if err := want("the receipt as loaded", *next.Saved, wrote.Receipt); err != nil {
		return err
	}
	// The second write had neither queue nor lease: both are gone.
	info, err = w.A.Run(ctx, w.Factory, "r")
	work, err2 := w.A.Work(ctx, w.Factory, "", 10)
	return first(err, err2, want("the lease", info.Lease, models.Instant(0)), want("the work", len(work), 0))
}

func decideRefuses(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r"); err != nil {
		return err
	}
	if _, err := w.do(ctx, w.A, step{run: "r"}); err != nil {
		return err
	}
	refused := fmt.Errorf("refused: %w", errors.New("with a cause"))
	for _, answer := range []error{errNothing, refused} {
		err := w.unchanged(ctx, "r", "an append that wrote nothing", func() error {
			for _, run := range []string{"r", ""} {
				_, err := w.do(ctx, w.A, step{run: run, edit: func(_ engine.Loaded, out *engine.Write) error {
					if run != "" {
						out.Queue, out.Lease = &engine.QueueEntry{Run: "r"}, far
					}
					return answer
				}})
				if answer == errNothing && err != nil || answer != errNothing && err != answer {
					return fmt.Errorf("append answers %v where decide answered %v", err, answer)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// laden puts something of every kind into a write, and its marks can be looked for.
func laden(out *engine.Write, mark string) {
	out.Queue = &engine.QueueEntry{Run: out.Rows[0].Run, Request: mark, Expires: far}
	out.Lease = far
	out.Blobs = append(out.Blobs, engine.Blob{Digest: models.PlainDigest([]byte(mark)), Data: []byte(mark)})
	out.Once = append(out.Once, engine.Once{Kind: "mark", Key: mark})
}

// without asks that nothing of a laden write stands.
func (w *World) without(ctx context.Context, run, mark, id string) error {
	_, noBlob := w.B.Blob(ctx, w.Factory, run, models.PlainDigest([]byte(mark)))
	_, noReceipt := w.B.Receipt(ctx, engine.Key{Factory: w.Factory, Space: engine.SpaceCommand, Run: run, ID: id})
	if err := first(wantErr("the blob of "+mark, noBlob, engine.ErrNotFound), wantErr("the receipt of "+mark, noReceipt, engine.ErrNotFound)); err != nil {
		return err
	}
	// The once-only fact is free: a write of it alone is accepted, and taken afterwards.
	for _, expected := range []error{nil, engine.ErrTaken} {
		_, err := w.do(ctx, w.B, step{run: run, edit: func(_ engine.Loaded, out *engine.Write) error {
			out.Once = []engine.Once{{Kind: "mark", Key: mark}}
			return nil
		}})
		if !errors.Is(err, expected) {
			return fmt.Errorf("once-only fact of %s: %v, want %v", mark, err, expected)
		}
	}
	return nil
}

func takenLeavesNothing(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r", "s"); err != nil {
		return err
	}
	request := engine.Key{Factory: w.Factory, Space: engine.SpaceRequest, ID: "request"}
	for _, run := range []string{"r", "s"} {
		_, err := w.do(ctx, w.A, step{run: run, id: "one", rows: 2, edit: func(_ engine.Loaded, out *engine.Write) error {
			out.Once = []engine.Once{{Kind: "graph", Key: "g"}}
			if run == "s" {
				out.Receipt.Key = request
			}
			return nil
		}})
		if err != nil {
			return err
		}
	}
	for name, edit := range map[string]func(out *engine.Write){
		"once":          func(out *engine.Write) { out.Once = append(out.Once, engine.Once{Kind: "graph", Key: "g"}) },
		"once-twice":    func(out *engine.Write) { out.Once = append(out.Once, out.Once[0]) },
		"receipt":       func(out *engine.Write) { out.Receipt.Key.ID = "one" },
		"other-run":     func(out *engine.Write) { out.Receipt.Key = request },
		"row":           func(out *engine.Write) { out.Rows[0].Seq, out.Rows[1].Seq = 2, 3 },
		"command-count": func(out *engine.Write) { out.Rows[0].Cmd, out.Rows[1].Cmd = 1, 1 },
	} {
		err := w.unchanged(ctx, "r", name+" taken", func() error {
			_, err := w.do(ctx, w.A, step{run: "r", id: "id-" + name, rows: 2, edit: func(_ engine.Loaded, out *engine.Write) error {
				laden(out, name)
				edit(out)
				return nil
			}})
			return wantErr(name+" taken", err, engine.ErrTaken)
		})
		if err := first(err, w.without(ctx, "r", name, "id-"+name)); err != nil {
			return err
		}
	}
	return nil
}

func brokenLeavesNothing(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r", "s"); err != nil {
		return err
	}
	if _, err := w.do(ctx, w.A, step{run: "r"}); err != nil {
		return err
	}
	for name, edit := range map[string]func(out *engine.Write){
		"gap":           func(out *engine.Write) { out.Rows[1].Seq++ },
		"fork":          func(out *engine.Write) { out.Rows[0].Prev = models.Digest{} },
		"broken-chain":  func(out *engine.Write) { out.Rows[1].Prev = out.Rows[0].Prev },
		"other-run":     func(out *engine.Write) { out.Rows[1].Run = "s" },
		"other-factory": func(out *engine.Write) { out.Rows[1].Factory = "s" },
		"part":          func(out *engine.Write) { out.Rows = out.Rows[:1] },
		"no-state":      func(out *engine.Write) { out.State = nil },
		"other-queue":   func(out *engine.Write) { out.Queue.Run = "s" },
		"other-receipt": func(out *engine.Write) { out.Receipt.Run = "s" },
		"no-time":       func(out *engine.Write) { out.Rows[1].At = 0 },
		"no-kind":       func(out *engine.Write) { out.Rows[1].Kind = "" },
		"no-format":     func(out *engine.Write) { out.Rows[1].Format = 0 },
		"two-commands":  func(out *engine.Write) { out.Rows[1].CommandID = "id" },
	} {
		err := w.unchanged(ctx, "r", name, func() error {
			_, err := w.do(ctx, w.A, step{run: "r", id: "id-" + name, rows: 2, edit: func(_ engine.Loaded, out *engine.Write) error {
				laden(out, name)
				edit(out)
				return nil
			}})
			if err == nil {
				return fmt.Errorf("a write with %s was accepted", name)
			}
			return nil
		})
		if err := first(err, w.without(ctx, "r", name, "id-"+name)); err != nil {
			return err
		}
	}
	for name, locks := range map[string]engine.Locks{
		"no factory":             {Run: "r"},
		"neither run nor own":    {Factory: w.Factory},
		"exclusive with a run":   {Factory: w.Factory, Run: "r", Exclusive: true},
		"exclusive with a queue": {Factory: w.Factory, Queue: true, Exclusive: true},
	} {
		called := false
		err := w.A.Append(ctx, locks, func(engine.Loaded) (*engine.Write, error) { called = true; return nil, nil })
		if err == nil || called {
			return fmt.Errorf("locks on %s were taken", name)
		}
	}
	return nil
}

func rowsArePaged(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r", "empty"); err != nil {
		return err
	}
	var all []models.Row
	for _, n := range []int{3, 1, 5, 2} {
		_, err := w.do(ctx, w.A, step{run: "r", rows: n, edit: func(_ engine.Loaded, out *engine.Write) error {
			all = append(all, out.Rows...)
			return nil
		}})
		if err != nil {
			return err
		}
	}
	for _, limit := range []int64{1, 2, 3, 4, 11, 12} {
		var got []models.Row
		for from := int64(1); ; from += limit {
			page, err := w.B.Rows(ctx, w.Factory, "r", from, limit)
			if err != nil {
				return err
			}
			if int64(len(page)) > limit {
				return fmt.Errorf("%d rows where at most %d were asked", len(page), limit)
			}
			got = append(got, page...)
			if len(page) == 0 {
				break
			}
		}
		if err := sameRows(got, all); err != nil {
			return fmt.Errorf("pages of %d: %w", limit, err)
		}
	}
	for what, q := range map[string]struct {
		run         string
		from, limit int64
	}{
		"past the head": {"r", 12, 5}, "of a run without rows": {"empty", 1, 5}, "of no run": {"none", 1, 5}, "with limit 0": {"r", 1, 0},
	} {
		rows, err := w.A.Rows(ctx, w.Factory, q.run, q.from, q.limit)
		if err := first(err, want("rows "+what, len(rows), 0)); err != nil {
			return err
		}
	}
	own, err := w.A.Rows(ctx, w.Factory, "", 1, 10)
	return first(err, want("rows of the factory's own journal", len(own), 1))
}

func leaseAlone(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r"); err != nil {
		return err
	}
	if _, err := w.do(ctx, w.A, step{run: "r"}); err != nil {
		return err
	}
	before, err := w.A.Run(ctx, w.Factory, "r")
	if err != nil {
		return err
	}
	var wrote *engine.Write
	_, err = w.do(ctx, w.A, step{run: "r", rows: -1, edit: func(l engine.Loaded, out *engine.Write) error {
		out.Lease, out.State, wrote = far, l.Run.State, out
		return nil
	}})
	if err != nil {
		return err
	}
	before.Lease = far
	after, err := w.B.Run(ctx, w.Factory, "r")
	receipt, err2 := w.B.Receipt(ctx, wrote.Receipt.Key)
	return first(err, err2, want("the run", after, before), want("the receipt", receipt, wrote.Receipt))
}

func runsAreListed(ctx context.Context, w *World) error {
	sorted := []string{"-", "0", "A", "Z", "_", "a", "a-b", "a.b", "a0", "aa", "ab", "z"}
	if err := w.openRuns(ctx, "a0", "Z", "a.b", "aa", "-", "z", "a-b", "0", "_", "A", "ab", "a"); err != nil {
		return err
	}
	for _, limit := range []int64{1, 5, 12, 100} {
		var got []string
		for after := ""; ; {
			page, err := w.B.Runs(ctx, w.Factory, after, limit)
			if err != nil {
				return err
			}
			if len(page) == 0 {
				break
			}
			got, after = append(got, page...), page[len(page)-1]
		}
		if err := want("list of runs", got, sorted); err != nil {
			return err
		}
	}
	return nil
}

func bytesAreKept(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r"); err != nil {
		return err
	}
	var odd []byte
	for i := range 1024 {
		odd = append(odd, byte(i), 0, byte(i>>2))
	}
	big := make([]byte, 1<<20)
	huge := make([]byte, 8<<20)
	for i := range huge {
		huge[i] = byte(i * i >> 7)
	}
	copy(big, huge[12345:])
	var wrote *engine.Write
	_, err := w.do(ctx, w.A, step{run: "r", rows: 3, edit: func(_ engine.Loaded, out *engine.Write) error {
		out.Rows[0].Payload, out.Rows[0].Command, out.Rows[0].Env = odd, odd[1:], odd[2:]
		out.Rows[1].Payload = big
		out.Rows[2].Payload = nil
		out.State, out.Receipt.Body = odd[3:], odd[4:]
		out.Blobs = []engine.Blob{
			{Digest: models.PlainDigest(odd), Data: odd}, {Digest: models.PlainDigest(huge), Data: huge},
			{Digest: models.PlainDigest(nil), Data: nil},
		}
		wrote = out
		return nil
	}})
	if err != nil {
		return err
	}
	rows, err := w.B.Rows(ctx, w.Factory, "r", 1, 10)
	if err := first(err, sameRows(rows, wrote.Rows)); err != nil {
		return err
	}
	info, err := w.B.Run(ctx, w.Factory, "r")
	receipt, err2 := w.B.Receipt(ctx, wrote.Receipt.Key)
	if err := first(err, err2, want("state", string(info.Cached.State), string(odd[3:])), want("receipt", receipt, wrote.Receipt)); err != nil {
		return err
	}
	for _, b := range wrote.Blobs {
		data, err := w.B.Blob(ctx, w.Factory, "r", b.Digest)
		if err := wrap("read blob", err); err != nil {
			return err
		}
		if string(data) != string(b.Data) {
			return fmt.Errorf("a blob of %d bytes came back as other %d bytes", len(b.Data), len(data))
		}
	}
	return nil
}

func idsKeepCase(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "Run", "rUN"); err != nil {
		return err
	}
	for _, run := range []string{"Run", "rUN"} {
		for _, id := range []string{"Id", "iD"} {
			_, err := w.do(ctx, w.A, step{run: run, id: id, edit: func(_ engine.Loaded, out *engine.Write) error {
				out.Once = []engine.Once{{Kind: "k", Key: "Key-" + id}, {Kind: "K", Key: "Key-" + id}}
				return nil
			}})
			if err := wrap("append "+id+" to "+run, err); err != nil {
				return err
			}
		}
		info, err := w.A.Run(ctx, w.Factory, run)
		if err := first(err, want("salt of "+run, info.Salt, salt(run)), want("head of "+run, info.Cached.Head.Seq, int64(2))); err != nil {
			return err
		}
	}
	_, err := w.A.Receipt(ctx, engine.Key{Factory: w.Factory, Space: engine.SpaceCommand, Run: "Run", ID: "id"})
	_, err2 := w.A.Run(ctx, w.Factory, "run")
	_, err3 := w.A.Factory(ctx, "F"+w.Factory[1:])
	return first(wantErr("a receipt in other case", err, engine.ErrNotFound), wantErr("a run in other case", err2, engine.ErrNotFound),
		wantErr("a factory in other case", err3, engine.ErrNotFound))
}

func factoriesAreApart(ctx context.Context, w *World) error {
	twin := Enter(w.Nodes)
	for i, x := range []*World{w, twin} {
		if err := x.openRuns(ctx, "r"); err != nil {
			return err
		}
		mark := fmt.Sprint("of ", i)
		_, err := x.do(ctx, x.A, step{run: "r", id: "same", rows: i + 1, queue: true, edit: func(l engine.Loaded, out *engine.Write) error {
			out.Queue = &engine.QueueEntry{Run: "r", Request: "q", Expires: far}
			out.Once = []engine.Once{{Kind: "k", Key: "same"}}
			out.Blobs = []engine.Blob{{Digest: models.PlainDigest([]byte("same")), Data: []byte(mark)}}
			out.Receipt.Key.Space, out.Receipt.Key.Run = engine.SpaceRequest, ""
			return want("pending tickets of a new factory", l.Pending, int64(0))
		}})
		if err != nil {
			return err
		}
		err = first(x.A.PutToken(ctx, engine.Token{
			Hash: models.PlainDigest([]byte(x.Factory)), ID: "same", Factory: x.Factory, Principal: "p",
		}), x.A.PutName(ctx, x.Factory, "p", mark))
		if err != nil {
			return err
		}
	}
	if err := w.A.RevokeToken(ctx, w.Factory, "same"); err != nil {
		return err
	}
	for i, x := range []*World{w, twin} {
		mark := fmt.Sprint("of ", i)
		rows, err := x.B.Rows(ctx, x.Factory, "r", 1, 10)
		if err := first(err, want("rows", len(rows), i+1)); err != nil {
			return err
		}
		runs, err := x.B.Runs(ctx, x.Factory, "", 10)
		if err := first(err, want("runs", len(runs), 1)); err != nil {
			return err
		}
		work, err := x.B.Work(ctx, x.Factory, "", 10)
		pending, err2 := x.B.Pending(ctx, x.Factory)
		if err := first(err, err2, want("work", len(work), 1), want("pending", pending, int64(1))); err != nil {
			return err
		}
		data, err := x.B.Blob(ctx, x.Factory, "r", models.PlainDigest([]byte("same")))
		if err := first(err, want("blob", string(data), mark)); err != nil {
			return err
		}
		token, err := x.B.Token(ctx, models.PlainDigest([]byte(x.Factory)))
		if err := first(err, want("factory of the token", token.Token.Factory, x.Factory), want("revoked", token.Token.Revoked, i == 0)); err != nil {
			return err
		}
		name, err := x.B.Name(ctx, x.Factory, "p")
		if err := first(err, want("name", name, mark)); err != nil {
			return err
		}
	}
	return nil
}
