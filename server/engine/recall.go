package engine

import (
	"container/list"
	"fmt"
	"sync"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// recallEntries bounds what a node remembers for its candidates: a result is digests and a few numbers for each call of one
// response, some KiB, so that all of them take a few MiB.
const recallEntries = 256

// recalled are values by the digest of all that they are a function of. It is the node's own, and losing it costs time only.
//
// Results of the sandbox are named by module, catalogue, and the digests of every byte and parameter that went in. They serve
// candidates alone, which a person reads again and again while nothing moves: an admission or a recovery reconstructs anew (rules
// O19). Policy, profile, people and time are judged at each read and are in no entry.
type recalled[T any] struct {
	most    int // values
	room    int // bytes that they were read from, all together, where those are counted
	mu      sync.Mutex
	bytes   int
	entries map[models.Digest]*list.Element
	order   *list.List // the newest in front
}

type remembered[T any] struct {
	key   models.Digest
	value *T
	bytes int
}

func newRecalled[T any](most int) *recalled[T] {
	return &recalled[T]{most: most, entries: map[models.Digest]*list.Element{}, order: list.New()}
}

// get returns what was kept under the key. It is shared: nobody changes it.
func (r *recalled[T]) get(key models.Digest) (*T, bool) {
	if r == nil {
		return nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.entries[key]
	if !ok {
		return nil, false
	}
	r.order.MoveToFront(e)
	return e.Value.(remembered[T]).value, true
}

func (r *recalled[T]) put(key models.Digest, value *T) { r.keep(key, value, 0) }

// keep is put of what was read from, or written as, so many bytes.
func (r *recalled[T]) keep(key models.Digest, value *T, bytes int) {
	if r == nil || r.room > 0 && bytes > r.room {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.entries[key]; ok {
		r.order.MoveToFront(e)
		return
	}
	r.entries[key] = r.order.PushFront(remembered[T]{key, value, bytes})
	for r.bytes += bytes; r.order.Len() > r.most || r.room > 0 && r.bytes > r.room; {
		last := r.order.Remove(r.order.Back()).(remembered[T])
		delete(r.entries, last.key)
		r.bytes -= last.bytes
	}
}

// recallKey names a sandbox call: the function, the installed code, the salt under which its answer is digested, the digest of
// each frame as custody has it, and the parameters.
func recallKey(function string, sandbox Sandbox, salt [32]byte, frames []models.Digest, params any) models.Digest {
	module := sandbox.Module()
	_, catalogue := sandbox.Catalogue()
	return models.Tagged(models.TagProof, []byte(function), module[:], catalogue[:], salt[:], []byte(fmt.Sprint(frames)), canon.MustMarshal(params))
}
