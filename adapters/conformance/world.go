package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync/atomic"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// step is one append of a test. Its command makes rows rows (default 1); the state it leaves is the number of commands so
// far, so a lost update shows as a count that is too small.
type step struct {
	run   string // empty: the factory's own journal, exclusive
	id    string // of the command; drawn when empty
	rows  int    // -1 for none
	queue bool
	saved engine.Key
	blobs []models.Digest
	// edit changes the write before it is returned, or answers for decide.
	edit func(l engine.Loaded, w *engine.Write) error
}

// errNothing makes decide answer that there is nothing to write.
var errNothing = errors.New("nothing to write")

var ids atomic.Int64

func drawID() string { return "id-" + strconv.FormatInt(ids.Add(1), 10) }

// do appends and returns what decide saw last.
func (w *World) do(ctx context.Context, s engine.Store, st step) (engine.Loaded, error) {
	if st.id == "" {
		st.id = drawID()
	}
	var seen engine.Loaded
	locks := engine.Locks{
		Factory: w.Factory, Exclusive: st.run == "", Run: st.run, Queue: st.queue, Receipt: st.saved, Blobs: st.blobs,
	}
	err := s.Append(ctx, locks, func(l engine.Loaded) (*engine.Write, error) {
		seen = l
		seen.Rows = nil // its transaction is over when the caller looks
		write := w.next(st, l)
		if st.edit != nil {
			if err := st.edit(l, write); errors.Is(err, errNothing) {
				return nil, nil
			} else if err != nil {
				return nil, err
			}
		}
		return write, nil
	})
	return seen, err
}

// next is the write of a step that follows what was loaded.
func (w *World) next(st step, l engine.Loaded) *engine.Write {
	at, space := l.Run, engine.SpaceCommand
	if st.run == "" {
		at, space = l.Factory, engine.SpaceFactory
	}
	count, _ := strconv.ParseInt(string(at.State), 10, 64)
	count++
	n := int64(max(st.rows, 1))
	if st.rows < 0 {
		n = 0
	}
	out := &engine.Write{
		Rules: 1,
		State: []byte(strconv.FormatInt(count, 10)),
		Receipt: engine.Receipt{
			Key: engine.Key{Factory: w.Factory, Space: space, Run: st.run, ID: st.id}, Run: st.run,
			Digest: models.PlainDigest([]byte(st.id)), Actor: "actor", Body: []byte(`{"id":"` + st.id + `"}`),
		},
	}
	head := at.Head
	for i := range n {
		r := models.Row{
			Format: models.Format, Rules: 1, Factory: w.Factory, Run: st.run, Seq: head.Seq + 1, Cmd: count, I: i, N: n, At: l.Now,
			Actor: "actor", Kind: "test.happened", Payload: fmt.Appendf(nil, `{"seq":%d}`, head.Seq+1), Prev: head.Hash,
		}
		if i == 0 {
			r.CommandID, r.CommandName, r.Command, r.Env = st.id, "test", []byte(`{"of":"`+st.id+`"}`), []byte(`{}`)
		}
		r.Hash = models.Tagged(models.TagRow, r.Prev[:], []byte(st.run), r.Payload, []byte(st.id))
		out.Rows = append(out.Rows, r)
		head = models.Head{Seq: r.Seq, Hash: r.Hash}
	}
	if n == 0 {
		out.State = nil
	}
	return out
}

// create makes the world's factory.
func (w *World) create(ctx context.Context) error {
	_, err := w.do(ctx, w.A, step{})
	return wrap("create factory", err)
}

// openRuns makes the factory and runs in it.
func (w *World) openRuns(ctx context.Context, runs ...string) error {
	if err := w.create(ctx); err != nil {
		return err
	}
	for _, run := range runs {
		if _, err := w.A.OpenRun(ctx, w.Factory, run, "opener", salt(run)); err != nil {
			return wrap("open run "+run, err)
		}
	}
	return nil
}

func salt(of string) [32]byte { return models.PlainDigest([]byte("salt of " + of)) }

func wrap(doing string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// want compares two values of one type.
func want[T any](what string, got, expected T) error {
	if !reflect.DeepEqual(got, expected) {
		return fmt.Errorf("%s is %+v, want %+v", what, got, expected)
	}
	return nil
}

// wantErr asks for one of the engine's conditions.
func wantErr(what string, got, expected error) error {
	if !errors.Is(got, expected) {
		return fmt.Errorf("%s answers %v, want %v", what, got, expected)
	}
	return nil
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// picture is all that a reader sees of a run, to show that something left nothing behind.
type picture struct {
	Info    engine.RunInfo
	Rows    []models.Row
	Work    []engine.QueueEntry
	Pending int64
	Factory engine.Cached
	Own     []models.Row
}

func (w *World) look(ctx context.Context, s engine.Store, run string) (picture, error) {
	var p picture
	var err error
	see := func(e error) {
		if err == nil {
			err = e
		}
	}
	var e error
	if run != "" {
		p.Info, e = s.Run(ctx, w.Factory, run)
		see(e)
		p.Rows, e = s.Rows(ctx, w.Factory, run, 1, 1000)
		see(e)
	}
	if run != "" {
		both, e := s.Stand(ctx, w.Factory, run)
		if see(e); e == nil {
			see(want("a run beside its factory", both.Run, p.Info))
			own, e := s.Factory(ctx, w.Factory)
			see(e)
			see(want("a factory beside a run", both.Factory, own))
		}
		before, e1 := s.Now(ctx)
		again, e2 := s.Stand(ctx, w.Factory, run)
		after, e3 := s.Now(ctx)
		if see(errors.Join(e1, e2, e3)); err == nil && (again.Now < before || again.Now > after) {
			see(fmt.Errorf("the clock beside a run is %d, between %d and %d", again.Now, before, after))
		}
	}
	p.Work, e = s.Work(ctx, w.Factory, "", 1000)
	see(e)
	p.Pending, e = s.Pending(ctx, w.Factory)
	see(e)
	p.Factory, e = s.Factory(ctx, w.Factory)
	see(e)
	p.Own, e = s.Rows(ctx, w.Factory, "", 1, 1000)
	see(e)
	return p, wrap("look at run "+run, err)
}

// unchanged runs f and asks that a reader sees the same before and after.
func (w *World) unchanged(ctx context.Context, run, what string, f func() error) error {
	before, err := w.look(ctx, w.A, run)
	if err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	after, err := w.look(ctx, w.B, run)
	if err != nil {
		return err
	}
	return want(what+", what stands after it", after, before)
}

// sameRows compares rows as they are hashed: no bytes and nil are one.
func sameRows(got, expected []models.Row) error {
	if len(got) != len(expected) {
		return fmt.Errorf("%d rows, want %d", len(got), len(expected))
	}
	for i := range got {
		a, b := got[i], expected[i]
		for _, p := range [][2][]byte{{a.Payload, b.Payload}, {a.Command, b.Command}, {a.Env, b.Env}} {
			if !bytes.Equal(p[0], p[1]) {
				return fmt.Errorf("row %d holds %d bytes %.40q, want %d bytes %.40q", b.Seq, len(p[0]), p[0], len(p[1]), p[1])
			}
		}
		a.Payload, a.Command, a.Env, b.Payload, b.Command, b.Env = nil, nil, nil, nil, nil, nil
		if len(a.Blobs) == 0 && len(b.Blobs) == 0 {
			a.Blobs, b.Blobs = nil, nil
		}
		if err := want(fmt.Sprintf("row %d", b.Seq), a, b); err != nil {
			return err
		}
	}
	return nil
}
