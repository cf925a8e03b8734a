package conformance

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// Machine drives the store with random calls beside the naive model and compares every answer and, now and then, everything
// that can be read. Each example has a factory of its own, so the store is shared.
func Machine(t *testing.T, s engine.Store) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &machine{real: Enter(Nodes{A: s, B: s}), ctx: t.Context()}
		model := newNaive(sound).open()
		m.model = &World{Nodes: Nodes{A: model, B: model}, Factory: m.real.Factory}
		rt.Repeat(map[string]func(*rapid.T){
			"append": m.append, "open": m.openRun, "blob": m.blob, "token": m.token, "name": m.name, "": m.sometimes,
		})
		m.compare(rt)
	})
}

type machine struct {
	ctx         context.Context
	real, model *World
	steps       int
}

var (
	machineRuns  = []string{"r", "R", "s"}
	machineIDs   = []string{"a", "b", "c", "d"}
	machineBytes = []string{"", "x", "a\x00b", "\xff\xfe"}
)

// class reduces an error to the condition that callers act on.
func class(err error) string {
	for name, c := range map[string]error{"not found": engine.ErrNotFound, "taken": engine.ErrTaken, "unavailable": engine.ErrUnavailable} {
		if errors.Is(err, c) {
			return name
		}
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// same asks that both sides answered alike.
func same[T any](t *rapid.T, what string, real T, realErr error, model T, modelErr error) {
	if class(realErr) != class(modelErr) {
		t.Fatalf("%s: the store answers %v, the model %v", what, realErr, modelErr)
	}
	if a, b := fmt.Sprintf("%+v", real), fmt.Sprintf("%+v", model); realErr == nil && a != b {
		t.Fatalf("%s: the store has %s, the model %s", what, a, b)
	}
}

var errRefused = errors.New("refused")

func (m *machine) append(t *rapid.T) {
	st := step{
		run:  rapid.SampledFrom(append([]string{"", ""}, machineRuns...)).Draw(t, "run"),
		id:   rapid.SampledFrom(machineIDs).Draw(t, "id") + rapid.StringN(0, 2, -1).Filter(models.ValidID).Draw(t, "more"),
		rows: rapid.SampledFrom([]int{1, 1, 1, 2, 5, -1}).Draw(t, "rows"),
	}
	st.queue = st.run != "" && rapid.Bool().Draw(t, "queue")
	space := rapid.SampledFrom([]string{engine.SpaceCommand, engine.SpaceRequest}).Draw(t, "space")
	if st.run == "" {
		space = engine.SpaceFactory
		st.rows = max(st.rows, 1)
	}
	key := engine.Key{Factory: m.real.Factory, Space: space, ID: st.id}
	if space == engine.SpaceCommand {
		key.Run = st.run
	}
	st.saved = key
	for _, b := range rapid.SliceOfN(rapid.SampledFrom(machineBytes), 0, 3).Draw(t, "needs") {
		st.blobs = append(st.blobs, models.PlainDigest([]byte(b)))
	}
	brings := rapid.SliceOfN(rapid.SampledFrom(machineBytes), 0, 2).Draw(t, "brings")
	once := rapid.SliceOfN(rapid.SampledFrom(machineIDs), 0, 1).Draw(t, "once")
	lease := rapid.SampledFrom([]models.Instant{0, past, far}).Draw(t, "lease")
	entry := rapid.SampledFrom([]*engine.QueueEntry{nil, {}, {Request: "p"}, {Request: "q", Expires: far}, {Request: "q", Expires: past}}).Draw(t, "entry")
	entryPool := rapid.SampledFrom([]string{"", "", "gpu"}).Draw(t, "pool")
	reclaim := rapid.SampledFrom([]models.Instant{0, 0, past, far}).Draw(t, "reclaim")
	outstanding := rapid.SampledFrom([]string{"", "", "q"}).Draw(t, "outstanding")
	verify := rapid.Bool().Draw(t, "verify")
	answer := rapid.SampledFrom([]error{nil, nil, nil, nil, errNothing, errRefused}).Draw(t, "answer")
	at := models.Instant(0) // of the store, then used on the model
	st.edit = func(l engine.Loaded, out *engine.Write) error {
		if answer != nil {
			return answer
		}
		if at == 0 {
			at = l.Now
		}
		for i := range out.Rows {
			out.Rows[i].At = at
		}
		out.Receipt.Key = key
		for _, o := range once {
			out.Once = append(out.Once, engine.Once{Kind: "k", Key: o})
		}
		for _, b := range brings {
			out.Blobs = append(out.Blobs, engine.Blob{Digest: models.PlainDigest([]byte(b)), Data: []byte(b)})
		}
		if st.run != "" {
			out.Lease, out.Reclaim, out.Outstanding, out.Verify = lease, reclaim, outstanding, verify
			if entry != nil {
				e := *entry
				e.Run, e.Pool, out.Queue = st.run, entryPool, &e
			}
		}
		return nil
	}
	real, realErr := m.real.do(m.ctx, m.real.A, st)
	model, modelErr := m.model.do(m.ctx, m.model.A, st)
	if class(realErr) != "unavailable" {
		real.Now, model.Now = 0, 0
	}
	saved := func(l engine.Loaded) string {
		if l.Saved == nil {
			return "none"
		}
		return fmt.Sprintf("%+v", *l.Saved)
	}
	if a, b := saved(real), saved(model); a != b {
		t.Fatalf("the store loaded receipt %s, the model %s", a, b)
	}
	real.Saved, model.Saved = nil, nil
	same(t, "append", real, realErr, model, modelErr)
}

func (m *machine) openRun(t *rapid.T) {
	run := rapid.SampledFrom(machineRuns).Draw(t, "run")
	opener := rapid.SampledFrom(machineIDs).Draw(t, "opener")
	real, realErr := m.real.A.OpenRun(m.ctx, m.real.Factory, run, opener, salt(opener))
	model, modelErr := m.model.A.OpenRun(m.ctx, m.model.Factory, run, opener, salt(opener))
	same(t, "open run", real, realErr, model, modelErr)
}

func (m *machine) blob(t *rapid.T) {
	run := rapid.SampledFrom(append([]string{""}, machineRuns...)).Draw(t, "run")
	data := []byte(rapid.SampledFrom(machineBytes).Draw(t, "data"))
	b := engine.Blob{Digest: models.PlainDigest(data), Data: data}
	same(t, "put blob", 0, m.real.A.PutBlob(m.ctx, m.real.Factory, run, b, models.MaxRunBytes), 0, m.model.A.PutBlob(m.ctx, m.model.Factory, run, b, models.MaxRunBytes))
}

func (m *machine) token(t *rapid.T) {
	id := rapid.SampledFrom(machineIDs).Draw(t, "id")
	if rapid.Bool().Draw(t, "revoke") {
		same(t, "revoke", 0, m.real.A.RevokeToken(m.ctx, m.real.Factory, id), 0, m.model.A.RevokeToken(m.ctx, m.model.Factory, id))
		return
	}
	hash := models.PlainDigest([]byte(m.real.Factory + rapid.SampledFrom(machineIDs).Draw(t, "secret")))
	tok := engine.Token{Hash: hash, ID: id, Factory: m.real.Factory, Principal: "p", ExpiresAt: far}
	same(t, "put token", 0, m.real.A.PutToken(m.ctx, tok), 0, m.model.A.PutToken(m.ctx, tok))
}

func (m *machine) name(t *rapid.T) {
	who, name := rapid.SampledFrom(machineIDs).Draw(t, "who"), rapid.SampledFrom(machineIDs).Draw(t, "name")
	same(t, "put name", 0, m.real.A.PutName(m.ctx, m.real.Factory, who, name), 0, m.model.A.PutName(m.ctx, m.model.Factory, who, name))
}

// sometimes compares after every eighth step and leaves the rest to the end: over a real store the reading costs most.
func (m *machine) sometimes(t *rapid.T) {
	if m.steps++; m.steps%8 == 0 {
		m.compare(t)
	}
}

// compare reads everything on both sides.
func (m *machine) compare(t *rapid.T) {
	see := func(w *World) (string, error) {
		s, f := w.A, w.Factory
		own, err := s.Factory(m.ctx, f)
		rows, err2 := s.Rows(m.ctx, f, "", 1, 1000)
		runs, err3 := s.Runs(m.ctx, f, "", 10)
		work, err4 := s.Work(m.ctx, f, "", 10)
		gpu, err6 := s.Work(m.ctx, f, "gpu", 2)
		waiting, err7 := s.Outstanding(m.ctx, f, "", 10)
		verify, err8 := s.Verifiable(m.ctx, f, "", 10)
		err4 = first(err4, err6, err7, err8)
		n, err5 := s.Pending(m.ctx, f)
		if errors.Is(err, engine.ErrNotFound) {
			err = nil
		}
		text := fmt.Sprintf("factory %+v rows %+v runs %v work %+v gpu %+v outstanding %v verify %v pending %d", own, rows, runs, work, gpu, waiting, verify, n)
		if err := first(err, err2, err3, err4, err5); err != nil {
			return "", err
		}
		for _, run := range runs {
			info, err := s.Run(m.ctx, f, run)
			rows, err2 := s.Rows(m.ctx, f, run, 1, 1000)
			if err := first(err, err2); err != nil {
				return "", err
			}
			text += fmt.Sprintf("\n%s: %+v rows %+v", run, info, rows)
		}
		for _, run := range append([]string{""}, machineRuns...) {
			for _, b := range machineBytes {
				data, err := s.Blob(m.ctx, f, run, models.PlainDigest([]byte(b)))
				text += fmt.Sprintf("\nblob %q of %q: %q %s", b, run, data, class(err))
			}
		}
		for _, id := range machineIDs {
			tok, err := s.Token(m.ctx, models.PlainDigest([]byte(f+id)))
			name, err2 := s.Name(m.ctx, f, id)
			text += fmt.Sprintf("\n%s: token %+v %s, name %q %s", id, tok.Token, class(err), name, class(err2))
		}
		return text, nil
	}
	real, realErr := see(m.real)
	model, modelErr := see(m.model)
	same(t, "everything", real, realErr, model, modelErr)
}
