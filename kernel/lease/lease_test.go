package lease_test

import (
	"testing"

	"github.com/forge-continuity/forge/kernel/lease"
	"github.com/forge-continuity/forge/models"
	"pgregory.net/rapid"
)

// owning walks the lease beside the last grant, claim and end that happened.
func owning(t *rapid.T) {
	var s lease.State
	var grant *models.LeaseGranted // that nobody has taken
	var claim *models.ClaimTaken   // that no row has ended
	owner, fence, continuity := "", int64(0), false
	now := models.Instant(rapid.Int64Range(0, 20).Draw(t, "now"))
	row := models.Instant(0) // the store's lease row
	end := func() models.Instant {
		if continuity {
			return claim.ExpiresAt
		}
		return row
	}
	t.Repeat(map[string]func(*rapid.T){
		"tick": func(t *rapid.T) { now += models.Instant(rapid.Int64Range(0, 10).Draw(t, "by")) },
		"grant": func(t *rapid.T) {
			g := models.LeaseGranted{ExpiresAt: now + models.Instant(rapid.Int64Range(1, 15).Draw(t, "for"))}
			if rapid.Bool().Draw(t, "continuity") {
				g.RequestID = "r"
			}
			s = s.Evolve(g, "somebody")
			grant, claim, continuity, row = &g, nil, g.RequestID != "", g.ExpiresAt
		},
		"claim": func(t *rapid.T) {
			if grant == nil {
				return // no window stands; a skip would fail a fuzzer that draws only this
			}
			c := models.ClaimTaken{ClaimID: "c", ExpiresAt: grant.ExpiresAt, Fence: fence + 1, RequestID: grant.RequestID}
			owner = rapid.SampledFrom([]string{"w1", "w2"}).Draw(t, "owner")
			s = s.Evolve(c, owner)
			grant, claim, fence = nil, &c, fence+1
		},
		"renew": func(t *rapid.T) { row = now + models.Instant(rapid.Int64Range(0, 30).Draw(t, "for")) },
		"end": func(t *rapid.T) {
			s = s.Evolve(rapid.SampledFrom([]models.Event{
				models.LeaseLapsed{}, models.WorkerFailed{}, models.RunFailed{}, models.RunCompleted{}, models.ClaimReleased{},
			}).Draw(t, "event"), owner)
			grant, claim = nil, nil
		},
		"other": func(t *rapid.T) {
			before := s
			s = s.Evolve(rapid.SampledFrom([]models.Event{models.RunCancelled{}, models.CheckpointSaved{}, models.MigrationSettled{}, models.StartupAnnotated{}}).Draw(t, "event"), "somebody")
			if s != before {
				t.Fatalf("%+v became %+v", before, s)
			}
		},
		"": func(t *rapid.T) {
			live := claim != nil && now < end()
			if s.Fence != fence {
				t.Fatalf("L1: fence %d, want %d", s.Fence, fence)
			}
			if s.Executing(now, row) != live {
				t.Fatalf("L2: executing %v at %d until %d", !live, now, row)
			}
			if s.Waiting(now) != (grant != nil && now < grant.ExpiresAt) {
				t.Fatalf("L4: waiting is not %+v at %d", grant, now)
			}
			for _, who := range []string{"w1", "w2"} {
				for f := fence - 1; f <= fence+1; f++ {
					r := s.Own(who, f, now, row)
					mine := claim != nil && who == owner && f == fence
					switch {
					case !mine && (r == nil || r.Code != models.CodeFenceLost):
						t.Fatalf("L3: %s with fence %d of %s with %d: %v", who, f, owner, fence, r)
					case mine && !live && (r == nil || r.Code != models.CodeLeaseExpired):
						t.Fatalf("L2: the owner at %d: %v", now, r)
					case mine && live && r != nil:
						t.Fatalf("the owner: %v", r)
					}
				}
			}
			e, ok := s.Lapsed(now, row)
			switch {
			case claim != nil && !live:
				if !ok || e.Fence != fence || e.ExpiresAt != end() || e.RequestID != claim.RequestID {
					t.Fatalf("lapsed claim: %+v, %v", e, ok)
				}
			case grant != nil && now >= grant.ExpiresAt:
				if !ok || e.Fence != 0 || e.ExpiresAt != grant.ExpiresAt || e.RequestID != grant.RequestID {
					t.Fatalf("lapsed window: %+v, %v", e, ok)
				}
			case ok:
				t.Fatalf("nothing lapsed and %+v", e)
			}
		},
	})
}

func TestOwning(t *testing.T) { rapid.Check(t, owning) }
func FuzzOwning(f *testing.F) { f.Fuzz(rapid.MakeFuzz(owning)) }

// L5: a window ends at the least of what is asked and the deadline, and is never empty.
func window(t *rapid.T) {
	at := models.Instant(rapid.Int64Range(0, 1<<50).Draw(t, "at"))
	seconds := models.Seconds(rapid.Int64Range(1, 7200).Draw(t, "seconds"))
	deadline := at + models.Instant(rapid.Int64Range(-9_000_000_000, 9_000_000_000).Draw(t, "deadline"))
	if rapid.Bool().Draw(t, "none") {
		deadline = 0
	}
	end, r := lease.Window(at, seconds, deadline)
	switch {
	case deadline != 0 && deadline <= at:
		if r == nil || r.Code != models.CodeDeadlinePassed {
			t.Fatalf("past the deadline: %d, %v", end, r)
		}
	case r != nil || end <= at || end > at.Add(seconds) || deadline != 0 && end > deadline || end != at.Add(seconds) && end != deadline:
		t.Fatalf("window %d from %d, deadline %d, %v", end, at, deadline, r)
	}
}

func TestWindow(t *testing.T) { rapid.Check(t, window) }
func FuzzWindow(f *testing.F) { f.Fuzz(rapid.MakeFuzz(window)) }
