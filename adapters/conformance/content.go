package conformance

import (
	"bytes"
	"context"
	"fmt"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

var contentChecks = []Check{
	{"blobs are kept once, per run", blobsPerRun},
	{"tokens are found by hash and revoked by id", tokensAreKept},
	{"names are labels", namesAreKept},
	{"modules are kept by digest", modulesAreKept},
}

func blobsPerRun(ctx context.Context, w *World) error {
	data := []byte("the same bytes")
	b := func(run string) engine.Blob {
		return engine.Blob{Digest: models.SaltedBlob(salt(run), data), Data: data}
	}
	err := first(wantErr("a blob of no factory", w.A.PutBlob(ctx, w.Factory, "", b("")), engine.ErrNotFound),
		w.openRuns(ctx, "r", "s"),
		wantErr("a blob of no run", w.A.PutBlob(ctx, w.Factory, "none", b("none")), engine.ErrNotFound))
	if err != nil {
		return err
	}
	for _, run := range []string{"r", "s", ""} {
		_, err := w.A.Blob(ctx, w.Factory, run, b(run).Digest)
		if err := wantErr("a blob never put", err, engine.ErrNotFound); err != nil {
			return err
		}
		for _, s := range []engine.Store{w.A, w.B, w.A} {
			if err := s.PutBlob(ctx, w.Factory, run, b(run)); err != nil {
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
		if err := w.A.PutBlob(ctx, w.Factory, "r", blob); err != nil {
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
		return s.PutBlob(ctx, w.Factory, "r", engine.Blob{Digest: models.PlainDigest(d), Data: d})
	})
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
		return first(err, want("token "+t.ID, got, t))
	}
	if err := first(see(one), see(two), w.A.RevokeToken(ctx, w.Factory, "one"), w.A.RevokeToken(ctx, w.Factory, "one")); err != nil {
		return err
	}
	one.Revoked = true
	return first(see(one), see(two),
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
	return nil
}
