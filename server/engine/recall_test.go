package engine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
)

// A factory's state is read once for the same bytes, and what commands make of it leaves it as it was.
func TestFactoryIsReadOnce(t *testing.T) {
	f := models.Factory{Factory: "f"}
	do := func(f models.Factory, id string, c models.Command) models.Factory {
		t.Helper()
		env := models.Env{Actor: "ada", At: 1, Clock: models.ClockStore, Factory: f, FactoryHead: kernel.FactoryHead(f), Saved: models.SavedNone}
		events, r := kernel.DecideFactory(id, c, env)
		if r != nil {
			t.Fatal(r)
		}
		_, after, err := kernel.FactoryRows(f, id, c, env, events)
		if err != nil {
			t.Fatal(err)
		}
		return after
	}
	f = do(f, "create", models.CreateFactory{Fixture: true})
	for i := range 5 {
		id := fmt.Sprintf("p-%d", i)
		f = do(f, id, models.PutPrincipal{ID: id, Roles: []string{models.RoleReader}})
	}
	c := Cached{Head: kernel.FactoryHead(f), State: kernel.EncodeFactory(f), Rules: f.Rules}
	read := func() models.Factory {
		t.Helper()
		f, err := decodeFactory("f", c)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	read()
	if _, ok := factories.get(models.PlainDigest(c.State)); !ok {
		t.Error("it is not remembered")
	}
	do(read(), "more", models.PutPrincipal{ID: "p-9", Roles: []string{models.RoleWorker}})
	do(read(), "less", models.PutPrincipal{ID: "p-2", Removed: true, Replaces: 1})
	do(read(), "record", models.PutRecord{Digest: models.PlainDigest(nil), Kind: models.RecordSource, Name: "main"})
	if !bytes.Equal(kernel.EncodeFactory(read()), c.State) {
		t.Error("a command changed what is remembered")
	}
}

// What an append wrote is what the next one reads, without being decoded; other text is other state.
func TestRunStateIsReadOnce(t *testing.T) {
	s := kernel.State{Factory: "f", Run: "r", Head: models.Head{Seq: 1, Hash: models.PlainDigest(nil)}}
	text := encode(s)
	_, got, err := decode("f", "r", Cached{}, Cached{Head: s.Head, State: text})
	if err != nil || !bytes.Equal(got.Encode(), text) {
		t.Fatalf("%v %s", err, got.Encode())
	}
	if _, ok := states.get(models.PlainDigest(text)); !ok {
		t.Error("it is not remembered")
	}
	other := bytes.Replace(text, []byte(`"cmd":0`), []byte(`"cmd":7`), 1)
	if _, got, err = decode("f", "r", Cached{}, Cached{Head: s.Head, State: other}); err != nil || got.Cmd != 7 {
		t.Fatalf("%v %d", err, got.Cmd)
	}
	var u *unreadable
	if _, _, err = decode("f", "r", Cached{}, Cached{Head: s.Head, State: append(text, ' ')}); !errors.As(err, &u) {
		t.Fatalf("bytes that are not canonical: %v", err)
	}
}

// What is remembered is bounded in number and in bytes, the oldest goes first, and what alone is too large is not kept.
func TestRecalledIsBounded(t *testing.T) {
	r := newRecalled[int](3)
	r.room = 10
	n := 0
	key := func(i int) models.Digest { return models.PlainDigest([]byte{byte(i)}) }
	put := func(i, bytes int) { r.keep(key(i), &n, bytes) }
	want := func(there ...int) {
		t.Helper()
		var got []int
		for i := range 10 {
			if _, ok := r.entries[key(i)]; ok {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, there) || r.order.Len() != len(there) {
			t.Errorf("%v is there, want %v", got, there)
		}
	}
	put(1, 4)
	put(2, 4)
	put(1, 4) // again: it is the newer one now, and counted once
	put(3, 2)
	want(1, 2, 3)
	put(4, 0)
	want(1, 3, 4)
	put(5, 5)
	want(3, 4, 5)
	put(6, 11)
	want(3, 4, 5)
	put(7, 10)
	want(7)
}
