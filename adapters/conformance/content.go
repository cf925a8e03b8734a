package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

var contentChecks = []Check{
	{"blobs are kept once, per run", blobsPerRun},
	{"the content of a run is bounded", contentIsBounded},
	{"tokens are found by hash and revoked by id", tokensAreKept},
	{"the tokens of a principal that goes are revoked with the write", tokensGo},
	{"a cached state is replaced without a row", stateIsReplaced},
	{"names are labels", namesAreKept},
	{"modules are kept by digest", modulesAreKept},
}

func blobsPerRun(ctx context.Context, w *World) error {
	data := []byte("the same bytes")
	b := func(run string) engine.Blob {
		return engine.Blob{Digest: models.SaltedBlob(salt(run), data), Data: data}
	}
	err := first(wantErr("a blob of no factory", w.A.PutBlob(ctx, w.Factory, "", b(""), models.MaxRunBytes), engine.ErrNotFound),
		w.openRuns(ctx, "r", "s"),
		wantErr("a blob of no run", w.A.PutBlob(ctx, w.Factory, "none", b("none"), models.MaxRunBytes), engine.ErrNotFound))
	if err != nil {
		return err
	}
	for _, run := range []string{"r", "s", ""} {
		_, err := w.A.Blob(ctx, w.Factory, run, b(run).Digest)
		if err := wantErr("a blob never put", err, engine.ErrNotFound); err != nil {
			return err
		}
		for _, s := range []engine.Store{w.A, w.B, w.A} {
			if err := s.PutBlob(ctx, w.Factory, run, b(run), models.MaxRunBytes); err != nil {
				return err
			}
		}
		got, err := w.B.Blob(ctx, w.Factory, run, b(run).Digest)
		if err := first(err, want("the blob", string(got), string(data))); err != nil {
			return err
		}
	}
	for _, run := range []string{"r", "s", ""} {
		for _, other := range []string{"r", "s", ""} {
			if _, err := w.A.Blob(ctx, w.Factory, run, b(other).Digest); other != run {
				if err := wantErr("a blob of "+other+" asked of "+run, err, engine.ErrNotFound); err != nil {
					return err
				}
			}
		}
	}
	// An append may bring a blob that is there already.
	_, err = w.do(ctx, w.A, step{run: "r", edit: func(_ engine.Loaded, out *engine.Write) error {
		out.Blobs = []engine.Blob{b("r"), b("r")}
		return nil
	}})
	if err != nil {
		return err
	}
	huge := bytes.Repeat([]byte{0, 1, 2, 255}, 2<<20)
	for _, d := range [][]byte{huge, {}, {0}} {
		blob := engine.Blob{Digest: models.PlainDigest(d), Data: d}
		if err := w.A.PutBlob(ctx, w.Factory, "r", blob, models.MaxRunBytes); err != nil {
			return err
		}
		got, err := w.B.Blob(ctx, w.Factory, "r", blob.Digest)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, d) {
			return fmt.Errorf("a blob of %d bytes came back as other %d bytes", len(d), len(got))
		}
	}
	// Puts of the same bytes at once are one blob.
	return w.crowd(8, 5, func(s engine.Store, _, i int) error {
		d := fmt.Append(nil, "raced ", i)
		return s.PutBlob(ctx, w.Factory, "r", engine.Blob{Digest: models.PlainDigest(d), Data: d}, models.MaxRunBytes)
	})
}

// contentIsBounded asks for the bound to the byte, also with many uploads at once, and that a sweep gives back what it took.
func contentIsBounded(ctx context.Context, w *World) error {
	const limit = 1000
	if err := w.openRuns(ctx, "r", "s"); err != nil {
		return err
	}
	put := func(s engine.Store, run string, size int, fill byte) error {
		d := bytes.Repeat([]byte{fill}, size)
		return s.PutBlob(ctx, w.Factory, run, engine.Blob{Digest: models.PlainDigest(d), Data: d}, limit)
	}
	brought := bytes.Repeat([]byte{9}, 300)
	_, err := w.do(ctx, w.A, step{run: "r", edit: func(_ engine.Loaded, out *engine.Write) error {
		out.Blobs = []engine.Blob{{Digest: models.PlainDigest(brought), Data: brought}}
		out.Rows[0].Blobs = []models.Digest{models.PlainDigest(brought)}
		return nil
	}})
	err = first(err,
		put(w.A, "r", 600, 1), wantErr("a blob over the bound", put(w.A, "r", 101, 2), engine.ErrFull), put(w.B, "r", 100, 3),
		wantErr("one byte more", put(w.A, "r", 1, 4), engine.ErrFull),
		put(w.A, "r", 600, 1), put(w.A, "r", 0, 5), put(w.A, "s", limit, 6), put(w.A, "", limit+1, 7))
	if err != nil {
		return err
	}
	_, err = w.A.Blob(ctx, w.Factory, "r", models.PlainDigest(bytes.Repeat([]byte{2}, 101)))
	if err := wantErr("a blob that was refused", err, engine.ErrNotFound); err != nil {
		return err
	}
	time.Sleep(2 * time.Millisecond)
	if _, err := w.B.Sweep(ctx, w.Factory, 0); err != nil {
		return err
	}
	// 300 bytes stand, which a row names: of forty uploads at once of 100 bytes, each sent twice, seven find room.
	var kept, full atomic.Int64
	err = w.crowd(8, 10, func(s engine.Store, node, i int) error {
		switch err := put(s, "r", 100, byte(100+node/2*10+i)); {
		case errors.Is(err, engine.ErrFull):
			full.Add(1)
		case err != nil:
			return err
		default:
			kept.Add(1)
		}
		return nil
	})
	return first(err, want("uploads that found room and were sent twice, or once", kept.Load() >= 7 && kept.Load() <= 14 && kept.Load()+full.Load() == 80, true),
		wantErr("a blob over the bound after it", put(w.A, "r", 1, 8), engine.ErrFull), put(w.A, "r", 300, 9))
}

// tokensGo asks that removing a principal and ending its tokens is one write.
func tokensGo(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r"); err != nil {
		return err
	}
	token := func(id, factory, principal string) engine.Token {
		return engine.Token{Hash: models.PlainDigest([]byte(w.Factory + id)), ID: id, Factory: factory, Principal: principal}
	}
	mine, other, foreign := token("one", w.Factory, "p"), token("two", w.Factory, "q"), token("three", w.Factory+"x", "p")
	revoked := func(t engine.Token, is bool) error {
		got, err := w.B.Token(ctx, t.Hash)
		return first(err, want("token "+t.ID+" is revoked", got.Token.Revoked, is))
	}
	gone := func(run string, also func() error) error {
		_, err := w.do(ctx, w.A, step{run: run, edit: func(_ engine.Loaded, out *engine.Write) error {
			out.Gone = "p"
			return also()
		}})
		return err
	}
	refusal := errors.New("no")
	return first(w.A.PutToken(ctx, mine), w.A.PutToken(ctx, other), w.A.PutToken(ctx, foreign),
		wantErr("a write that is refused", gone("", func() error { return refusal }), refusal), revoked(mine, false),
		want("a run's write ends tokens", gone("r", func() error { return nil }) == nil, false), revoked(mine, false),
		gone("", func() error { return nil }), revoked(mine, true), revoked(other, false), revoked(foreign, false))
}

// stateIsReplaced asks that a cache may be written anew where it stands, beside the same rows, lease and queue rules as ever.
func stateIsReplaced(ctx context.Context, w *World) error {
	if err := w.openRuns(ctx, "r", "empty"); err != nil {
		return err
	}
	if _, err := w.do(ctx, w.A, step{run: "r"}); err != nil {
		return err
	}
	before, err := w.look(ctx, w.A, "r")
	if err != nil {
		return err
	}
	replace := func(run, state string) error {
		_, err := w.do(ctx, w.A, step{run: run, rows: -1, edit: func(l engine.Loaded, out *engine.Write) error {
			out.Receipt = engine.Receipt{}
			if out.State, out.Rules = []byte(state), 2; run != "" {
				out.Lease = far
			}
			return nil
		}})
		return err
	}
	if err := first(replace("r", "anew"), replace("", "factory anew")); err != nil {
		return err
	}
	after, err := w.look(ctx, w.B, "r")
	if err != nil {
		return err
	}
	before.Info.Cached.State, before.Info.Cached.Rules, before.Info.Lease = []byte("anew"), 2, far
	before.Factory.State, before.Factory.Rules = []byte("factory anew"), 2
	return first(want("what stands after it", after, before), w.unchanged(ctx, "empty", "a state without rows", func() error {
		return want("a state without rows is taken", replace("empty", "none") == nil, false)
	}))
}

func tokensAreKept(ctx context.Context, w *World) error {
	hash := func(of string) models.Digest { return models.PlainDigest([]byte(w.Factory + of)) }
	one := engine.Token{Hash: hash("1"), ID: "one", Factory: w.Factory, Principal: "p", ExpiresAt: far}
	two := engine.Token{Hash: hash("2"), ID: "two", Factory: w.Factory, Principal: "p"}
	_, err := w.A.Token(ctx, one.Hash)
	if err := first(wantErr("a token never put", err, engine.ErrNotFound), w.A.PutToken(ctx, one), w.A.PutToken(ctx, two)); err != nil {
		return err
	}
	for what, t := range map[string]engine.Token{
		"a hash twice": {Hash: one.Hash, ID: "three", Factory: w.Factory, Principal: "p"},
		"an id twice":  {Hash: hash("3"), ID: "one", Factory: w.Factory, Principal: "q"},
	} {
		if err := wantErr(what, w.B.PutToken(ctx, t), engine.ErrTaken); err != nil {
			return err
		}
	}
	see := func(t engine.Token) error {
		got, err := w.B.Token(ctx, t.Hash)
		none, err2 := w.B.Factory(ctx, w.Factory)
		if errors.Is(err2, engine.ErrNotFound) {
			err2 = nil
		}
		after, err3 := w.B.Now(ctx)
		return first(err, err2, err3, want("token "+t.ID, got.Token, t), want("its factory", got.Factory, none),
			want("its clock is not ahead", got.Now > 0 && got.Now <= after, true))
	}
	if err := first(see(one), see(two), w.A.RevokeToken(ctx, w.Factory, "one"), w.A.RevokeToken(ctx, w.Factory, "one")); err != nil {
		return err
	}
	one.Revoked = true
	return first(see(one), see(two), w.create(ctx), see(one), see(two),
		wantErr("revoking no token", w.A.RevokeToken(ctx, w.Factory, "none"), engine.ErrNotFound),
		wantErr("revoking another factory's token", w.A.RevokeToken(ctx, w.Factory+"x", "two"), engine.ErrNotFound), see(two))
}

func namesAreKept(ctx context.Context, w *World) error {
	_, err := w.A.Name(ctx, w.Factory, "p")
	if err := wantErr("a name never put", err, engine.ErrNotFound); err != nil {
		return err
	}
	for _, name := range []string{"Ada", "Ada Ł. O'Neil \u202e\"%_", ""} {
		got, err := "", w.A.PutName(ctx, w.Factory, "p", name)
		if err == nil {
			got, err = w.B.Name(ctx, w.Factory, "p")
		}
		if err := first(err, want("the name", got, name)); err != nil {
			return err
		}
	}
	if err := w.A.PutName(ctx, w.Factory, "", "The factory"); err != nil {
		return err
	}
	got, err := w.B.Name(ctx, w.Factory, "")
	return first(err, want("the factory's name", got, "The factory"))
}

func modulesAreKept(ctx context.Context, w *World) error {
	data := append([]byte("\x00asm"+w.Factory), bytes.Repeat([]byte{7, 0, 9}, 1<<20)...)
	digest := models.PlainDigest(data)
	_, err := w.A.Module(ctx, digest)
	if err := wantErr("a module never put", err, engine.ErrNotFound); err != nil {
		return err
	}
	if err := first(w.A.PutModule(ctx, digest, data), w.B.PutModule(ctx, digest, data)); err != nil {
		return err
	}
	got, err := w.B.Module(ctx, digest)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, data) {
		return fmt.Errorf("a module of %d bytes came back as other %d bytes", len(data), len(got))
	}
	list, err := w.B.ListModules(ctx)
	if err != nil {
		return err
	}
	found := 0
	for i, m := range list { // others may be there
		if m == (engine.KeptModule{Digest: digest, Bytes: int64(len(data))}) {
			found++
		}
		if i > 0 && bytes.Compare(list[i-1].Digest[:], m.Digest[:]) >= 0 {
			return fmt.Errorf("module %s is listed behind %s", m.Digest, list[i-1].Digest)
		}
	}
	return want("the module in the list", found, 1)
}
