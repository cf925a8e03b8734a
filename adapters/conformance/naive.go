package conformance

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// fault is one thing that a naive store does wrong, to show that the suite notices.
type fault string

const (
	sound          fault = ""
	losesUpdates   fault = "decides without holding the run's lock"
	halfWrites     fault = "writes rows and blobs before it looks whether ids are taken"
	doubleReserves fault = "counts pending tickets without the queue's lock"
	staleClock     fault = "reads the clock before the locks"
	staleState     fault = "reads the factory before the run's lock"
	sharesBlobs    fault = "keeps blobs of all runs together"
	foldsCase      fault = "folds the case of ids"
	textBytes      fault = "ends bytes at NUL"
	mergesWorlds   fault = "leaves the factory out of receipt keys"
	ignoresCancel  fault = "writes though the caller went away"
	aliases        fault = "hands out its own memory"
	sortsWork      fault = "lists work by run id"
	keepsLapsed    fault = "counts tickets at and after their expiry"
	repeatsOnce    fault = "accepts a once-only fact again"
	reopensRuns    fault = "lets a second opener draw another salt"
	acceptsGaps    fault = "takes any rows"
	forgetsLease   fault = "changes a lease only with a row"
	oneSpace       fault = "has one space of receipt ids"
	holdsOnPanic   fault = "keeps its locks when decide panics"
	revokesAll     fault = "revokes a token id in every factory"
	wrapsErrors    fault = "wraps what decide answered"
	needsPeople    fault = "announces no run whose lease has lapsed"
	mixesPools     fault = "announces a handed-over run to every pool"
	forgetsTickets fault = "keeps no note of an outstanding ticket"
	sweepsNamed    fault = "sweeps blobs that rows name"
	sweepsFresh    fault = "sweeps blobs whatever their age"
	fillsDisks     fault = "takes any amount of content"
	keepsTokens    fault = "leaves the tokens of a principal that goes"
	forgetsRuns    fault = "tells the factory nothing of the time of its runs"
	keepsState     fault = "replaces a cached state only with a row"
)

// naive is engine.Store said as simply as can be: maps under one lock. It is the model of the state machine, and with a
// fault it is the store that must not pass.
type naive struct {
	fault fault
	mu    sync.Mutex
	clock atomic.Int64

	heads    map[[2]string]*engine.RunInfo // run empty: the factory
	rows     map[[2]string][]models.Row
	receipts map[engine.Key]engine.Receipt
	once     map[[4]string]bool
	queue    map[[2]string]*naiveEntry
	blobs    map[[3]string][]byte
	putAt    map[[3]string]models.Instant
	standing map[[2]string]naiveStanding
	tokens   map[models.Digest]engine.Token
	names    map[[2]string]string
	modules  map[models.Digest][]byte
	runLocks map[[2]string]*sync.Mutex
}

// naiveStanding is what a write leaves beside the head.
type naiveStanding struct {
	reclaim     models.Instant
	outstanding string
	verify      bool
}

type naiveEntry struct {
	engine.QueueEntry
	entered int64
}

var _ engine.Store = (*naiveHandle)(nil)

// naiveHandle is one opening of a naive store.
type naiveHandle struct {
	*naive
	closed *atomic.Bool
}

func newNaive(f fault) *naive {
	return &naive{
		fault: f, heads: map[[2]string]*engine.RunInfo{}, rows: map[[2]string][]models.Row{},
		receipts: map[engine.Key]engine.Receipt{}, once: map[[4]string]bool{}, queue: map[[2]string]*naiveEntry{},
		blobs: map[[3]string][]byte{}, putAt: map[[3]string]models.Instant{}, standing: map[[2]string]naiveStanding{}, tokens: map[models.Digest]engine.Token{}, names: map[[2]string]string{},
		modules: map[models.Digest][]byte{}, runLocks: map[[2]string]*sync.Mutex{},
	}
}

func (n *naive) open() engine.Store { return naiveHandle{n, new(atomic.Bool)} }

func (h naiveHandle) ready(ctx context.Context) error {
	if h.closed.Load() {
		return fmt.Errorf("closed: %w", engine.ErrUnavailable)
	}
	if err := ctx.Err(); err != nil && h.fault != ignoresCancel {
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
	}
	return nil
}

func (h naiveHandle) id(s string) string {
	if h.fault == foldsCase {
		return strings.ToLower(s)
	}
	return s
}

func (h naiveHandle) copy(b []byte) []byte {
	if h.fault == aliases {
		return b
	}
	if i := bytes.IndexByte(b, 0); i >= 0 && h.fault == textBytes {
		b = b[:i]
	}
	return bytes.Clone(b)
}

func (h naiveHandle) cached(c engine.Cached) engine.Cached {
	c.State = h.copy(c.State)
	return c
}

func (h naiveHandle) receipt(r engine.Receipt) engine.Receipt {
	r.Body = h.copy(r.Body)
	return r
}

func (h naiveHandle) row(r models.Row) models.Row {
	r.Payload, r.Command, r.Env, r.Blobs = h.copy(r.Payload), h.copy(r.Command), h.copy(r.Env), slices.Clone(r.Blobs)
	return r
}

func (h naiveHandle) key(k engine.Key) engine.Key {
	k.Run, k.ID = h.id(k.Run), h.id(k.ID)
	if h.fault == mergesWorlds {
		k.Factory = ""
	}
	if h.fault == oneSpace {
		k.Space = ""
	}
	return k
}

func (h naiveHandle) blobKey(factory, run string, d models.Digest) [3]string {
	if h.fault == sharesBlobs {
		run = ""
	}
	return [3]string{factory, h.id(run), string(d[:])}
}

// tick is a clock that rises with every reading.
func (h naiveHandle) tick() models.Instant {
	for {
		was := h.clock.Load()
		if is := max(was+1, time.Now().UnixMicro()); h.clock.CompareAndSwap(was, is) {
			return models.Instant(is)
		}
	}
}

func (h naiveHandle) pending(factory string, at models.Instant) int64 {
	var n int64
	for k, q := range h.queue {
		if k[0] == factory && q.Request != "" && (q.Expires == 0 || q.Expires > at || h.fault == keepsLapsed) {
			n++
		}
	}
	return n
}

// wait locks m unless the caller goes away first.
func (h naiveHandle) wait(ctx context.Context, m *sync.Mutex) error {
	for !m.TryLock() {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
		}
		time.Sleep(20 * time.Microsecond)
	}
	return nil
}

// hold takes the locks. A sound store holds everything until the write is done; some faults hold only the run.
func (h naiveHandle) hold(ctx context.Context, key [2]string) (unlock func(), err error) {
	switch h.fault {
	case losesUpdates:
		return func() {}, nil
	case doubleReserves, staleState:
		h.mu.Lock()
		m := h.runLocks[key]
		if m == nil {
			m = new(sync.Mutex)
			h.runLocks[key] = m
		}
		h.mu.Unlock()
		return m.Unlock, h.wait(ctx, m)
	}
	return h.mu.Unlock, h.wait(ctx, &h.mu)
}

// brief takes the one lock for a moment, where a fault did not take it already.
func (h naiveHandle) brief() func() {
	switch h.fault {
	case losesUpdates, doubleReserves, staleState:
		h.mu.Lock()
		return h.mu.Unlock
	}
	return func() {}
}

func (h naiveHandle) Append(ctx context.Context, locks engine.Locks, decide func(engine.Loaded) (*engine.Write, error)) error {
	if err := locks.Check(); err != nil {
		return err
	}
	if err := h.ready(ctx); err != nil {
		return err
	}
	key, own := [2]string{locks.Factory, h.id(locks.Run)}, [2]string{locks.Factory, ""}
	early := h.tick()
	var earlyFactory *engine.RunInfo
	if h.fault == staleState {
		h.mu.Lock()
		if f := h.heads[own]; f != nil {
			c := *f
			earlyFactory = &c
		}
		h.mu.Unlock()
	}
	unlock, err := h.hold(ctx, key)
	if err != nil {
		return err
	}
	done := false
	defer func() {
		if done || h.fault != holdsOnPanic {
			unlock()
		}
	}()
	loaded, err := h.load(locks, key, own)
	if h.fault == staleClock {
		loaded.Now = early
	}
	if earlyFactory != nil {
		loaded.Factory = h.cached(earlyFactory.Cached)
	}
	if err != nil {
		done = true
		return err
	}
	w, err := decide(loaded)
	done = true
	if err != nil && h.fault == wrapsErrors {
		return fmt.Errorf("append: %w", err)
	}
	if err != nil || w == nil {
		return err
	}
	if h.fault != acceptsGaps && h.fault != losesUpdates {
		if err := w.Check(locks, loaded); err != nil {
			return err
		}
	}
	if err := h.ready(ctx); err != nil {
		return err
	}
	defer h.brief()()
	return h.write(locks, key, w)
}

func (h naiveHandle) load(locks engine.Locks, key, own [2]string) (engine.Loaded, error) {
	defer h.brief()()
	l := engine.Loaded{Now: h.tick()}
	if f := h.heads[own]; f != nil {
		l.Factory = h.cached(f.Cached)
	} else if !locks.Exclusive {
		return l, engine.ErrNotFound
	}
	l.Rows = func(from, limit int64) ([]models.Row, error) {
		return h.some(locks.Factory, locks.Run, from, limit), nil
	}
	if locks.Run != "" {
		r := h.heads[key]
		if r == nil {
			return l, engine.ErrNotFound
		}
		l.Run, l.Salt, l.Opener, l.Lease = h.cached(r.Cached), r.Salt, r.Opener, r.Lease
	}
	if locks.Exclusive && h.fault != forgetsRuns {
		for k, r := range h.heads {
			if k[0] == own[0] && k != own {
				l.Newest = max(l.Newest, r.Cached.At)
			}
		}
	}
	if locks.Queue {
		l.Pending = h.pending(locks.Factory, l.Now)
	}
	if r, ok := h.receipts[h.key(locks.Receipt)]; ok {
		r = h.receipt(r)
		l.Saved = &r
	}
	for _, d := range locks.Blobs {
		if _, ok := h.blobs[h.blobKey(locks.Factory, locks.Run, d)]; !ok {
			l.Missing = append(l.Missing, d)
		}
	}
	return l, nil
}

// taken looks for everything that may be there once.
func (h naiveHandle) taken(key [2]string, w *engine.Write) error {
	if _, ok := h.receipts[h.key(w.Receipt.Key)]; ok && w.Receipt.Key.ID != "" {
		return fmt.Errorf("receipt %s: %w", w.Receipt.Key.ID, engine.ErrTaken)
	}
	seen := maps.Clone(h.once)
	for _, o := range w.Once {
		k := [4]string{key[0], key[1], o.Kind, h.id(o.Key)}
		if seen[k] && h.fault != repeatsOnce {
			return fmt.Errorf("once %s: %w", o.Key, engine.ErrTaken)
		}
		seen[k] = true
	}
	for _, r := range w.Rows {
		for _, old := range h.rows[key] {
			if old.Cmd == r.Cmd && h.fault != losesUpdates {
				return fmt.Errorf("command %d: %w", r.Cmd, engine.ErrTaken)
			}
		}
		bad := r.Format <= 0 || r.At <= 0 || r.Kind == "" || (r.I == 0) != (r.CommandID != "")
		if bad && h.fault != acceptsGaps {
			return fmt.Errorf("row %d is not whole", r.Seq)
		}
	}
	return nil
}

func (h naiveHandle) write(locks engine.Locks, key [2]string, w *engine.Write) error {
	looked := *w
	if h.fault == halfWrites {
		looked.Once, looked.Receipt = nil, engine.Receipt{}
	}
	if err := h.taken(key, &looked); err != nil {
		return err
	}
	for _, b := range w.Blobs {
		h.putBlob(locks.Factory, locks.Run, b)
	}
	for _, r := range w.Rows {
		h.rows[key] = append(h.rows[key], h.row(r))
	}
	if h.fault == halfWrites {
		if err := h.taken(key, &engine.Write{Once: w.Once, Receipt: w.Receipt}); err != nil {
			return err
		}
	}
	r := h.heads[key]
	if r == nil {
		r = &engine.RunInfo{}
		h.heads[key] = r
	}
	if n := len(w.Rows); n > 0 {
		last := w.Rows[n-1]
		r.Cached = h.cached(engine.Cached{Head: models.Head{Seq: last.Seq, Hash: last.Hash}, At: last.At, Rules: w.Rules, State: w.State})
	}
	if len(w.Rows) == 0 && w.State != nil && h.fault != keepsState {
		r.Cached.State, r.Cached.Rules = h.copy(w.State), w.Rules
	}
	for hash, t := range h.tokens {
		if t.Factory == locks.Factory && t.Principal == w.Gone && h.fault != keepsTokens {
			t.Revoked = true
			h.tokens[hash] = t
		}
	}
	if len(w.Rows) > 0 || h.fault != forgetsLease {
		r.Lease = w.Lease
	}
	if locks.Run != "" {
		h.standing[key] = naiveStanding{w.Reclaim, w.Outstanding, w.Verify}
	}
	for _, o := range w.Once {
		h.once[[4]string{key[0], key[1], o.Kind, h.id(o.Key)}] = true
	}
	if w.Receipt.Key.ID != "" {
		h.receipts[h.key(w.Receipt.Key)] = h.receipt(w.Receipt)
	}
	if locks.Run == "" {
		return nil
	}
	if w.Queue == nil {
		delete(h.queue, key)
		return nil
	}
	e := &naiveEntry{*w.Queue, int64(h.tick())}
	if old := h.queue[key]; old != nil && old.Request == e.Request {
		e.entered = old.entered
	}
	h.queue[key] = e
	return nil
}

// read takes the lock for a reader.
func (h naiveHandle) read(ctx context.Context) (func(), error) {
	if err := h.ready(ctx); err != nil {
		return func() {}, err
	}
	if err := h.wait(ctx, &h.mu); err != nil {
		return func() {}, err
	}
	return h.mu.Unlock, nil
}

func (h naiveHandle) Factory(ctx context.Context, factory string) (engine.Cached, error) {
	r, err := h.Run(ctx, factory, "")
	return r.Cached, err
}

func (h naiveHandle) Run(ctx context.Context, factory, run string) (engine.RunInfo, error) {
	unlock, err := h.read(ctx)
	defer unlock()
	if err != nil {
		return engine.RunInfo{}, err
	}
	r := h.heads[[2]string{factory, h.id(run)}]
	if r == nil {
		return engine.RunInfo{}, engine.ErrNotFound
	}
	out := *r
	out.Cached = h.cached(r.Cached)
	return out, nil
}

func (h naiveHandle) Stand(ctx context.Context, factory, run string) (out engine.Standing, err error) {
	if out.Factory, err = h.Factory(ctx, factory); err != nil {
		return engine.Standing{}, err
	}
	if out.Run, err = h.Run(ctx, factory, run); err != nil {
		return engine.Standing{}, err
	}
	out.Now, err = h.Now(ctx)
	return out, err
}

func (h naiveHandle) OpenRun(ctx context.Context, factory, run, opener string, salt [32]byte) (engine.RunInfo, error) {
	unlock, err := h.read(ctx)
	if err == nil {
		key := [2]string{factory, h.id(run)}
		if h.heads[[2]string{factory, ""}] == nil {
			err = engine.ErrNotFound
		} else if h.heads[key] == nil {
			h.heads[key] = &engine.RunInfo{Run: run, Salt: salt, Opener: opener}
		} else if h.fault == reopensRuns {
			h.heads[key].Salt, h.heads[key].Opener = salt, opener
		}
	}
	unlock()
	if err != nil {
		return engine.RunInfo{}, err
	}
	return h.Run(ctx, factory, run)
}

func (h naiveHandle) Rows(ctx context.Context, factory, run string, from, limit int64) ([]models.Row, error) {
	unlock, err := h.read(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	return h.some(factory, run, from, limit), nil
}

// some are rows under a lock that is held.
func (h naiveHandle) some(factory, run string, from, limit int64) []models.Row {
	var out []models.Row
	for _, r := range h.rows[[2]string{factory, h.id(run)}] {
		if r.Seq >= from && int64(len(out)) < limit {
			out = append(out, h.row(r))
		}
	}
	return out
}

func (h naiveHandle) Factories(ctx context.Context, after string, limit int64) ([]string, error) {
	unlock, err := h.read(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var out []string
	for k := range h.heads {
		if k[1] == "" && k[0] > after {
			out = append(out, k[0])
		}
	}
	slices.Sort(out)
	return out[:min(int64(len(out)), limit)], nil
}

func (h naiveHandle) Outstanding(ctx context.Context, factory, after string, limit int64) ([]engine.Waiting, error) {
	unlock, err := h.read(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var out []engine.Waiting
	for k, s := range h.standing {
		if k[0] == factory && k[1] > after && s.outstanding != "" && h.fault != forgetsTickets {
			out = append(out, engine.Waiting{Run: k[1], Request: s.outstanding})
		}
	}
	slices.SortFunc(out, func(a, b engine.Waiting) int { return strings.Compare(a.Run, b.Run) })
	return out[:min(int64(len(out)), limit)], nil
}

func (h naiveHandle) Verifiable(ctx context.Context, factory, after string, limit int64) ([]string, error) {
	unlock, err := h.read(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var out []string
	for k, s := range h.standing {
		if k[0] == factory && k[1] > after && s.verify {
			out = append(out, k[1])
		}
	}
	slices.Sort(out)
	return out[:min(int64(len(out)), limit)], nil
}

func (h naiveHandle) Runs(ctx context.Context, factory, after string, limit int64) ([]string, error) {
	unlock, err := h.read(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var out []string
	for k := range h.heads {
		if k[0] == factory && k[1] > after {
			out = append(out, k[1])
		}
	}
	slices.Sort(out)
	return out[:min(int64(len(out)), limit)], nil
}

func (h naiveHandle) Receipt(ctx context.Context, key engine.Key) (engine.Receipt, error) {
	unlock, err := h.read(ctx)
	defer unlock()
	if err != nil {
		return engine.Receipt{}, err
	}
	r, ok := h.receipts[h.key(key)]
	if !ok {
		return engine.Receipt{}, engine.ErrNotFound
	}
	return h.receipt(r), nil
}

func (h naiveHandle) Work(ctx context.Context, factory, pool string, limit int64) ([]engine.QueueEntry, error) {
	unlock, err := h.read(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	at := h.tick()
	var live []*naiveEntry
	for k, q := range h.queue {
		if k[0] == factory && (q.Expires == 0 || q.Expires > at) && (q.Pool == "" || q.Pool == pool || h.fault == mixesPools) {
			live = append(live, q)
		}
	}
	for k, s := range h.standing {
		if lease := h.heads[k].Lease; k[0] == factory && s.reclaim > at && lease <= at && h.fault != needsPeople {
			live = append(live, &naiveEntry{engine.QueueEntry{Run: k[1]}, int64(lease)})
		}
	}
	slices.SortFunc(live, func(a, b *naiveEntry) int {
		if h.fault == sortsWork {
			return strings.Compare(a.Run, b.Run)
		}
		return cmp.Or(cmp.Compare(a.entered, b.entered), strings.Compare(a.Run, b.Run))
	})
	var out []engine.QueueEntry
	for _, q := range live[:min(int64(len(live)), limit)] {
		out = append(out, q.QueueEntry)
	}
	return out, nil
}

func (h naiveHandle) Pending(ctx context.Context, factory string) (int64, error) {
	unlock, err := h.read(ctx)
	defer unlock()
	if err != nil {
		return 0, err
	}
	return h.pending(factory, h.tick()), nil
}

func (h naiveHandle) Now(ctx context.Context) (models.Instant, error) { return h.tick(), h.ready(ctx) }

func (h naiveHandle) Kind() (string, int64) { return "naive", 1 }

func (h naiveHandle) Close() error { h.closed.Store(true); return nil }

func (h naiveHandle) putBlob(factory, run string, b engine.Blob) {
	k := h.blobKey(factory, run, b.Digest)
	h.putAt[k] = h.tick()
	if h.blobs[k] == nil {
		if h.blobs[k] = h.copy(b.Data); b.Data == nil {
			h.blobs[k] = []byte{}
		}
	}
}

func (h naiveHandle) PutBlob(ctx context.Context, factory, run string, b engine.Blob, limit int64) error {
	unlock, err := h.read(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	if h.heads[[2]string{factory, h.id(run)}] == nil {
		return engine.ErrNotFound
	}
	if bytes := int64(len(b.Data)); run != "" && h.blobs[h.blobKey(factory, run, b.Digest)] == nil && h.fault != fillsDisks {
		for k, kept := range h.blobs {
			if k[0] == factory && k[1] == h.id(run) {
				bytes += int64(len(kept))
			}
		}
		if bytes > limit {
			return engine.ErrFull
		}
	}
	h.putBlob(factory, run, b)
	return nil
}

func (h naiveHandle) Sweep(ctx context.Context, factory string, age models.Seconds) (int64, error) {
	unlock, err := h.read(ctx)
	defer unlock()
	if err != nil {
		return 0, err
	}
	named := map[[3]string]bool{}
	for key, rows := range h.rows {
		for _, r := range rows {
			for _, d := range r.Blobs {
				named[h.blobKey(key[0], key[1], d)] = h.fault != sweepsNamed
			}
		}
	}
	var n int64
	for k, at := range h.putAt {
		if h.blobs[k] != nil && k[0] == factory && k[1] != "" && !named[k] && (at.Add(age) < h.tick() || h.fault == sweepsFresh) {
			delete(h.blobs, k)
			n++
		}
	}
	return n, nil
}

func (h naiveHandle) Blob(ctx context.Context, factory, run string, digest models.Digest) ([]byte, error) {
	unlock, err := h.read(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	b, ok := h.blobs[h.blobKey(factory, run, digest)]
	if !ok {
		return nil, engine.ErrNotFound
	}
	return h.copy(b), nil
}

func (h naiveHandle) PutToken(ctx context.Context, t engine.Token) error {
	unlock, err := h.read(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	for _, old := range h.tokens {
		if old.Hash == t.Hash || old.Factory == t.Factory && old.ID == t.ID {
			return engine.ErrTaken
		}
	}
	h.tokens[t.Hash] = t
	return nil
}

func (h naiveHandle) Token(ctx context.Context, hash models.Digest) (engine.Presented, error) {
	unlock, err := h.read(ctx)
	t, ok := h.tokens[hash]
	unlock()
	if err != nil {
		return engine.Presented{}, err
	}
	if !ok {
		return engine.Presented{}, engine.ErrNotFound
	}
	p := engine.Presented{Token: t}
	if p.Factory, err = h.Factory(ctx, t.Factory); err != nil && !errors.Is(err, engine.ErrNotFound) {
		return engine.Presented{}, err
	}
	p.Now, err = h.Now(ctx)
	return p, err
}

func (h naiveHandle) RevokeToken(ctx context.Context, factory, id string) error {
	unlock, err := h.read(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	err = engine.ErrNotFound
	for hash, t := range h.tokens {
		if (t.Factory == factory || h.fault == revokesAll) && t.ID == id {
			t.Revoked, err = true, nil
			h.tokens[hash] = t
		}
	}
	return err
}

func (h naiveHandle) PutName(ctx context.Context, factory, principal, name string) error {
	unlock, err := h.read(ctx)
	defer unlock()
	if err == nil {
		h.names[[2]string{factory, principal}] = name
	}
	return err
}

func (h naiveHandle) Name(ctx context.Context, factory, principal string) (string, error) {
	unlock, err := h.read(ctx)
	defer unlock()
	if err != nil {
		return "", err
	}
	name, ok := h.names[[2]string{factory, principal}]
	if !ok {
		return "", engine.ErrNotFound
	}
	return name, nil
}

func (h naiveHandle) PutModule(ctx context.Context, digest models.Digest, data []byte) error {
	unlock, err := h.read(ctx)
	defer unlock()
	if err == nil {
		h.modules[digest] = h.copy(data)
	}
	return err
}

func (h naiveHandle) ListModules(ctx context.Context) ([]engine.KeptModule, error) {
	unlock, err := h.read(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var list []engine.KeptModule
	for digest, data := range h.modules {
		list = append(list, engine.KeptModule{Digest: digest, Bytes: int64(len(data))})
	}
	slices.SortFunc(list, func(a, b engine.KeptModule) int { return bytes.Compare(a.Digest[:], b.Digest[:]) })
	return list, nil
}

func (h naiveHandle) Module(ctx context.Context, digest models.Digest) ([]byte, error) {
	unlock, err := h.read(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	data, ok := h.modules[digest]
	if !ok {
		return nil, engine.ErrNotFound
	}
	return h.copy(data), nil
}
