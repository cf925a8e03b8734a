package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/fixtures/deaths"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// zombie is an owner that was stalled and does not know that its time is over.
type zombie struct {
	client *forge.Client
	run    string
	claim  string
	salt   forge.Salt
	fence  int64
	digest models.Digest  // of some content of the run
	lease  models.Seconds // that the claim asked for
}

// write is one thing that an owner may try.
type write struct {
	name string
	try  func(z zombie, n int64) error
}

// writes is every write that there is for an owner: each kind of fact, content, and each command of its own.
func writes() []write {
	list := []write{
		{"renewal", func(z zombie, n int64) error {
			_, err := z.client.Renew(ctx, z.run, z.claim, z.fence, 600)
			return err
		}},
		{"release", func(z zombie, n int64) error {
			_, err := z.client.Release(ctx, z.run, fmt.Sprint("release-", n), z.fence, "")
			return err
		}},
		{"handoff", func(z zombie, n int64) error {
			_, err := z.client.Release(ctx, z.run, fmt.Sprint("handoff-", n), z.fence, "zombies")
			return err
		}},
		{"blob", func(z zombie, n int64) error {
			_, err := z.client.PutBlob(ctx, z.run, z.salt, z.fence, fmt.Append(nil, "of the dead ", n))
			return err
		}},
		{"the same claim", func(z zombie, n int64) error {
			_, err := z.client.Claim(ctx, z.run, z.claim, z.lease)
			return err
		}},
	}
	for _, fact := range []models.Fact{
		models.CheckpointSaved{}, models.RequestIssued{Request: 2, WireLength: 1}, models.ResponseKept{Request: 1}, models.ResponseConsumed{Request: 1},
		models.CallGranted{Request: 1, Class: models.ClassCommand}, models.CallRefused{Request: 1}, models.CallIntended{Request: 1},
		models.CallReturned{Request: 1}, models.CommandStarted{Number: 1, Position: -1}, models.CommandFinished{Number: 1},
		models.RoundCompleted{Round: 2}, models.ToolUnknown{Request: 1}, models.WorkerFailed{}, models.RunFailed{}, models.RunCompleted{Round: 2},
	} {
		list = append(list, write{fact.Kind(), func(z zombie, n int64) error {
			_, err := z.client.Append(ctx, z.run, fmt.Sprint("batch-", n), z.fence, filled(fact, z.digest))
			return err
		}})
	}
	return list
}

// filled gives a fact the digests that it asks for.
func filled(f models.Fact, d models.Digest) models.Fact {
	switch f := f.(type) {
	case models.CheckpointSaved:
		f.Checkpoint = d
		return f
	case models.RequestIssued:
		f.Checkpoint, f.Wire, f.WireBlob = d, d, d
		return f
	case models.ResponseKept:
		f.Response = d
		return f
	case models.ResponseConsumed:
		f.Response = d
		return f
	case models.CallGranted:
		f.ID, f.Args = d, d
		return f
	case models.CallRefused:
		f.Validator = d
		return f
	case models.CallReturned:
		f.Result = d
		return f
	case models.CommandStarted:
		f.Command = d
		return f
	case models.CommandFinished:
		f.Receipt = d
		return f
	case models.WorkerFailed:
		f.Report = d
		return f
	case models.RunFailed:
		f.Report = d
		return f
	case models.RunCompleted:
		f.Result = d
		return f
	}
	return f
}

// attempts is how many writes each store has to refuse.
func attempts() int64 {
	if long() {
		return 10_000
	}
	return 300
}

// haunt lets zombies try everything under the fences, and asks that nothing is accepted.
func haunt(t *testing.T, z zombie, fences []int64, n int64, codes ...models.Code) {
	t.Helper()
	list := writes()
	var next, refused atomic.Int64
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for {
				i := next.Add(1)
				if i > n {
					return
				}
				one, mine := list[i%int64(len(list))], z
				mine.fence = fences[i/int64(len(list))%int64(len(fences))]
				err := one.try(mine, unique.Add(1))
				var p *forge.Problem
				if !errors.As(err, &p) {
					t.Errorf("%s under fence %d: %v", one.name, mine.fence, err)
					return
				}
				ok := false
				for _, c := range codes {
					ok = ok || p.Code == c
				}
				if !ok {
					t.Errorf("%s under fence %d: %v", one.name, mine.fence, err)
				}
				refused.Add(1)
			}
		})
	}
	wait.Wait()
	t.Logf("%d writes refused", refused.Load())
}

var (
	unique atomic.Int64
	ctx    = context.Background()
)

// A stalled owner wakes after its lease is over, and again after another has claimed, and tries every write that there is
// under its own fence, that of the new owner, and others: nothing is accepted and nothing is written. The same for the owner
// of a continuation. BOUND-02, BOUND-08, START-01 (its own fence), FLOW-21, rules invariants 14, 16.
func TestZombies(t *testing.T) {
	r := recording(t)
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := s.world(t)
			people := hire(t, w.URL, administrator(t, w.Engine), nil)
			if err := staff(ctx, people, r); err != nil {
				t.Fatal(err)
			}
			caller := engine.Caller{Factory: factory, Principal: load.Reader}
			head := func(run string) models.Head {
				v, err := w.Engine.Run(ctx, caller, run, engine.Anyone...)
				if err != nil {
					t.Fatal(err)
				}
				return v.State.Head
			}
			lapse := func(run string) {
				for {
					v, err := people.Reader.Run(ctx, run)
					if err != nil {
						t.Fatal(err)
					}
					if v.Now >= v.Lease.ExpiresAt {
						return
					}
					time.Sleep(50 * time.Millisecond)
				}
			}
			t.Run("ordinary", func(t *testing.T) {
				run, err := load.Held(ctx, people.Operator, people.Worker, r, "run-1", load.Options{Stop: load.After("checkpoint", 2)})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := people.Worker.Release(ctx, "run-1", "release-0", run.Fence, ""); err != nil {
					t.Fatal(err)
				}
				claimed, err := people.Worker.Claim(ctx, "run-1", "claim-zombie", 2)
				if err != nil {
					t.Fatal(err)
				}
				z := zombie{people.Worker, "run-1", "claim-zombie", run.Salt, claimed.Claim.Fence, claimed.Claim.Checkpoint, 2}
				lapse("run-1")
				before := head("run-1")
				haunt(t, z, []int64{z.fence}, attempts()/4, models.CodeLeaseExpired)
				haunt(t, z, []int64{z.fence - 1, z.fence + 1, 1 << 40}, attempts()/8, models.CodeFenceLost, models.CodeLeaseExpired)
				if head("run-1") != before {
					t.Fatal("something was written")
				}
				fresh, err := people.SecondWorker.Claim(ctx, "run-1", "claim-fresh", 600)
				if err != nil {
					t.Fatal(err)
				}
				before = head("run-1")
				haunt(t, z, []int64{z.fence, fresh.Claim.Fence, fresh.Claim.Fence + 1}, attempts()*3/8, models.CodeFenceLost)
				if head("run-1") != before {
					t.Fatal("something was written")
				}
				for n := range unique.Load() + 1 { // none of the content that the zombie sent is kept
					digest := z.salt.Digest(fmt.Append(nil, "of the dead ", n))
					if _, err := w.Store.Blob(ctx, factory, "run-1", digest); !errors.Is(err, engine.ErrNotFound) {
						t.Fatalf("content %d was kept: %v", n, err)
					}
				}
			})
			t.Run("continuation", func(t *testing.T) {
				run, err := load.Held(ctx, people.Operator, people.Worker, r, "run-2", load.Options{})
				if err != nil {
					t.Fatal(err)
				}
				c, err := people.Operator.Candidate(ctx, "run-2")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := people.Operator.RequestContinuity(ctx, "run-2", "request-2", deaths.Accept(c, 4, 1)); err != nil {
					t.Fatal(err)
				}
				claimed, err := people.Worker.Claim(ctx, "run-2", "claim-zombie", 600)
				if err != nil {
					t.Fatal(err)
				}
				z := zombie{people.Worker, "run-2", "claim-zombie", run.Salt, claimed.Claim.Fence, claimed.Claim.Checkpoint, 600}
				lapse("run-2")
				before := head("run-2")
				haunt(t, z, []int64{z.fence, 1, z.fence + 1}, attempts()/4, models.CodeLeaseExpired, models.CodeFenceLost, models.CodeWindowInvalid)
				if head("run-2") != before {
					t.Fatal("something was written")
				}
			})
		})
	}
}

// An owner that writes on while its lease runs out gets in what stands before the expiry by the store's clock, and nothing
// after it. BOUND-02.
func TestOwnerRunsOut(t *testing.T) {
	r := recording(t)
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := s.world(t)
			people := hire(t, w.URL, administrator(t, w.Engine), nil)
			if err := load.PutRecords(ctx, people.Administrator, r); err != nil {
				t.Fatal(err)
			}
			run, err := load.Held(ctx, people.Operator, people.Worker, r, "run-1", load.Options{Stop: load.After("checkpoint", 1)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := people.Worker.Release(ctx, "run-1", "release-0", run.Fence, ""); err != nil {
				t.Fatal(err)
			}
			claimed, err := people.Worker.Claim(ctx, "run-1", "claim-short", 2)
			if err != nil {
				t.Fatal(err)
			}
			var wait sync.WaitGroup
			for range 4 {
				wait.Go(func() {
					for {
						_, err := people.Worker.Append(ctx, "run-1", fmt.Sprint("batch-", unique.Add(1)), claimed.Claim.Fence,
							models.CheckpointSaved{Checkpoint: claimed.Claim.Checkpoint})
						if errors.Is(err, models.Refuse(models.CodeLeaseExpired)) {
							return
						}
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wait.Wait()
			count := 0
			for from := int64(1); ; {
				rows, err := people.Reader.Rows(ctx, "run-1", from, 1000)
				if err != nil {
					t.Fatal(err)
				}
				for _, row := range rows {
					if from = row.Seq + 1; row.Kind == "checkpoint.saved" && row.At >= claimed.Claim.ExpiresAt {
						t.Errorf("row %d was written %d µs after the expiry", row.Seq, row.At-claimed.Claim.ExpiresAt)
					}
					count++
				}
				if len(rows) == 0 {
					break
				}
			}
			t.Logf("%d rows before the expiry", count)
		})
	}
}
