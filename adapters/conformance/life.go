package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

var lifeChecks = []Check{
	{"a canceled call writes nothing", canceledWritesNothing},
	{"a panic in decide releases the locks", panicReleases},
	{"a store opened again holds everything", reopenKeeps},
	{"a closed store is unavailable", closedIsUnavailable},
}

func unavailable(what string, err error) error {
	if !errors.Is(err, engine.ErrUnavailable) && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s answers %v, want %v", what, err, engine.ErrUnavailable)
	}
	return nil
}

func canceledWritesNothing(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r"); err != nil {
		return err
	}
	if _, err := w.do(ctx, w.A, step{run: "r"}); err != nil {
		return err
	}
	err := w.unchanged(ctx, "r", "canceled calls", func() error {
		gone, cancel := context.WithCancel(ctx)
		cancel()
		_, err1 := w.do(gone, w.A, step{run: "r"})
		_, err2 := w.A.OpenRun(gone, w.Factory, "s", "opener", salt("s"))
		err3 := w.A.PutBlob(gone, w.Factory, "r", engine.Blob{Digest: models.PlainDigest(nil)}, models.MaxRunBytes)
		_, err4 := w.A.Rows(gone, w.Factory, "r", 1, 1)
		_, err5 := w.A.Run(gone, w.Factory, "r")
		if err := first(unavailable("append", err1), unavailable("open run", err2), unavailable("put blob", err3),
			unavailable("rows", err4), unavailable("run", err5)); err != nil {
			return err
		}
		// The caller goes away while decide runs.
		for _, run := range []string{"r", ""} {
			during, cancel := context.WithCancel(ctx)
			_, err := w.do(during, w.A, step{run: run, edit: func(engine.Loaded, *engine.Write) error { cancel(); return nil }})
			cancel()
			if err := unavailable("an append whose caller went away", err); err != nil {
				return err
			}
		}
		// The caller goes away while the append waits for its locks.
		release, err := w.held(ctx, w.A, step{run: "r", edit: nothing})
		if err != nil {
			return err
		}
		waiting, cancel := context.WithTimeout(ctx, settle)
		defer cancel()
		_, err = w.do(waiting, w.B, step{run: "r"})
		if !errors.Is(err, engine.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("an append that waited too long answers %v", err)
		}
		return release()
	})
	if err != nil {
		return err
	}
	_, err = w.do(ctx, w.A, step{run: "r"})
	return wrap("append after canceled ones", err)
}

func panicReleases(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r"); err != nil {
		return err
	}
	err := w.unchanged(ctx, "r", "a panic in decide", func() (err error) {
		defer func() {
			if recover() == nil {
				err = errors.New("the panic did not reach the caller")
			}
		}()
		_, err = w.do(ctx, w.A, step{run: "r", queue: true, edit: func(engine.Loaded, *engine.Write) error { panic("test") }})
		return err
	})
	if err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err = w.do(soon, w.B, step{run: "r", queue: true})
	return wrap("append after a panic", err)
}

func reopenKeeps(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r"); err != nil {
		return err
	}
	s, err := w.Open()
	if err != nil {
		return err
	}
	token := engine.Token{Hash: models.PlainDigest([]byte(w.Factory)), ID: "t", Factory: w.Factory, Principal: "p"}
	blob := engine.Blob{Digest: models.PlainDigest([]byte("b")), Data: []byte("bytes")}
	var wrote *engine.Write
	_, err = w.do(ctx, s, step{run: "r", rows: 3, queue: true, edit: func(_ engine.Loaded, out *engine.Write) error {
		laden(out, "kept")
		out.Blobs = append(out.Blobs, blob)
		wrote = out
		return nil
	}})
	err = first(err, s.PutToken(ctx, token), s.PutName(ctx, w.Factory, "p", "Ada"))
	before, err2 := w.look(ctx, s, "r")
	if err := first(err, err2, s.Close()); err != nil {
		return err
	}
	s, err = w.Open()
	if err != nil {
		return err
	}
	after, err1 := w.look(ctx, s, "r")
	receipt, err2 := s.Receipt(ctx, wrote.Receipt.Key)
	data, err3 := s.Blob(ctx, w.Factory, "r", blob.Digest)
	kept, err4 := s.Token(ctx, token.Hash)
	name, err5 := s.Name(ctx, w.Factory, "p")
	_, taken := w.do(ctx, s, step{run: "r", edit: func(_ engine.Loaded, out *engine.Write) error {
		out.Once = wrote.Once
		return nil
	}})
	return first(err1, err2, err3, err4, err5, s.Close(), want("the run", after, before), want("the receipt", receipt, wrote.Receipt),
		want("the blob", string(data), "bytes"), want("the token", kept.Token, token), want("the name", name, "Ada"),
		wantErr("a once-only fact", taken, engine.ErrTaken))
}

func closedIsUnavailable(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r"); err != nil {
		return err
	}
	s, err := w.Open()
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	_, err1 := w.do(ctx, s, step{run: "r"})
	_, err2 := s.Run(ctx, w.Factory, "r")
	return first(unavailable("append", err1), unavailable("run", err2))
}
