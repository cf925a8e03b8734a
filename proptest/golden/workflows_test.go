package golden_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/proptest/world"
)

// story is a workflow: a world where it begins, and how it goes on. A name that ends in -refused is the variant that is refused.
type story struct {
	name string
	at   func() *world.World
	tell func(*telling)
}

// telling is a story as it is told: the rows that each step appended, or the refusal that it met.
type telling struct {
	w   *world.World
	out strings.Builder
}

func (s *telling) do(actor, id string, c models.Command) {
	from := len(s.w.Rows)
	a := s.w.Do(actor, id, c)
	fmt.Fprintf(&s.out, "\n%s by %s as %s\n", c.Verb(), actor, id)
	switch {
	case a.Refusal != nil:
		fmt.Fprintf(&s.out, "  refused: %v\n", a.Refusal)
	case a.Repeat:
		s.out.WriteString("  the saved answer stands\n")
	}
	s.rows(from)
}

func (s *telling) rows(from int) {
	for _, r := range s.w.Rows[from:] {
		fmt.Fprintf(&s.out, "  %3d %s %s\n", r.Seq, r.Kind, r.Payload)
	}
	t, ok := s.w.State.Tickets.Last()
	n := s.w.State.Counters()
	if ok {
		fmt.Fprintf(&s.out, "  ticket %s is %s; ", t.RequestID, t.State)
	}
	fmt.Fprintf(&s.out, "%d of %d commands, %d requests, round %d\n", n.Commands, n.Limits.Commands, n.Requests, n.CompletedRounds)
}

func (s *telling) claim(as string) {
	s.do(world.Worker2, as, models.ClaimRun{LeaseSeconds: 600})
}

func (s *telling) off(set func(*models.Policy)) {
	s.w.Policy(set)
	s.out.WriteString("\nthe policy changes\n")
}

var stories = []story{
	{"version-1", func() *world.World { return world.Held() }, func(s *telling) {
		body := s.w.Request(600)
		s.do(world.Dana, "request-1", body)
		s.do(world.Dana, "request-1", body)
		s.do(world.Dana, "request-2", s.w.Request(600))
		s.claim("claim-2")
	}},
	{"version-1-refused", func() *world.World { return world.Held() }, func(s *telling) {
		s.do(world.Omar, "request-1", s.w.Request(600))
		body := s.w.Request(600)
		s.off(func(p *models.Policy) { p.Enabled = false })
		s.do(world.Dana, "request-1", body)
	}},
	{"version-2", func() *world.World { return world.Observing(2, 1) }, func(s *telling) {
		s.do(world.Dana, "request-1", s.w.RequestTwo(600))
		s.claim("claim-2")
	}},
	{"version-2-refused", func() *world.World { return world.Observing(2) }, func(s *telling) {
		one := s.w.RequestTwo(600)
		one.Version, one.AcknowledgeUnavailableSourceObservations = 1, false
		s.do(world.Dana, "request-1", one)
		s.do(world.Dana, "request-1", s.w.RequestTwo(600))
		s.off(func(p *models.Policy) { p.AllowUnavailableSourceObservations = false })
		s.claim("claim-2")
	}},
	{"never-claimed", world.FailedUnclaimed, func(s *telling) {
		s.do(world.Dana, "recovery-1", s.w.Recovery(600))
		s.claim("claim-2")
	}},
	{"never-claimed-refused", world.FailedUnclaimed, func(s *telling) {
		body := s.w.Recovery(600)
		s.do(world.Omar, "recovery-1", body)
		s.do(world.Dana, "recovery-1", body)
		s.do(world.Dana, "recovery-2", body)
		s.w.Tick(700)
		s.claim("claim-2")
		s.do(world.Dana, "recovery-3", s.w.Recovery(600))
	}},
	{"refused-boundary", world.Refused, func(s *telling) {
		s.do(world.Dana, "recovery-1", s.w.Boundary(600))
		s.claim("claim-3")
	}},
	{"refused-boundary-refused", world.Refused, func(s *telling) {
		body := s.w.Boundary(600)
		body.Review.Jobs = 1
		s.do(world.Dana, "recovery-1", body)
		s.do(world.Dana, "recovery-1", s.w.Boundary(600))
		s.claim("claim-3")
		from := len(s.w.Rows)
		s.w.RefuseNext()
		s.w.MustAppend(world.Failed())
		s.out.WriteString("\nthe provider refuses again\n")
		s.rows(from)
		s.do(world.Dana, "recovery-2", s.w.Boundary(600))
	}},
	{"readonly-observation", func() *world.World { return world.Lost() }, func(s *telling) {
		s.do(world.Dana, "recovery-2", s.w.Observation(600))
		s.claim("claim-4")
	}},
	{"readonly-observation-refused", func() *world.World { return world.Lost() }, func(s *telling) {
		body := s.w.Observation(600)
		lacks := body
		lacks.AcknowledgeUnavailableObservation = false
		s.do(world.Dana, "recovery-2", lacks)
		s.do(world.Dana, "recovery-2", body)
		s.off(func(p *models.Policy) { p.MaxPendingTickets++ })
		s.claim("claim-4")
	}},
	{"verification", func() *world.World {
		w := world.Executing(world.Verified(1))
		w.Turn()
		w.MustAppend(models.RunCompleted{Result: world.Blob("result"), Round: w.State.Rounds + 1})
		return w
	}, func(s *telling) {
		s.do(models.ServerActor, "verification-5", models.AdmitVerification{Round: s.w.State.Rounds})
		s.do(world.Worker2, "claim-2", models.ClaimRun{LeaseSeconds: 600, Pool: models.VerificationPool})
		facts := append([]models.Fact{s.w.Prepared()}, s.w.Ran(0)...)
		s.do(world.Worker2, "verified", models.Append{Fence: s.w.State.Lease.Fence, Facts: append(facts, models.VerificationFinished{Passed: true, Report: world.Blob("report")})})
	}},
	{"verification-refused", func() *world.World {
		w := world.Executing(world.Verified(1))
		w.Stop()
		w.Admit("request-1")
		return w
	}, func(s *telling) {
		for _, id := range []string{"verification-4", "verification-4", "verification-again"} {
			s.do(models.ServerActor, id, models.AdmitVerification{Round: s.w.State.Rounds})
		}
		s.claim("claim-2")
	}},
	{"reconciled", world.Continuing, func(s *telling) {
		s.do(world.Worker2, "failed", models.Append{Fence: s.w.State.Lease.Fence, Facts: []models.Fact{world.Failed()}})
		s.claim("claim-3")
		s.do(world.Dana, "retry", models.RetryRun{})
		s.do(world.Omar, "settle", s.w.SettleTicket())
	}},
}

// Each workflow as it goes and as it is refused, with the whole journal of the run, in readable text.
func TestGoldenWorkflows(t *testing.T) {
	seen := map[string]bool{}
	for _, told := range stories {
		t.Run(told.name, func(t *testing.T) {
			s := &telling{w: told.at()}
			fmt.Fprintf(&s.out, "%s\n\nbefore\n", told.name)
			s.rows(0)
			told.tell(s)
			file := filepath.Join("..", "..", "fixtures", "traces", "workflows", told.name+".txt")
			seen[told.name+".txt"] = true
			if *update {
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(s.out.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil || string(want) != s.out.String() {
				t.Errorf("%s differs (%v); after looking at it: go test ./proptest/golden -run Workflows -update\n%s", file, err, s.out.String())
			}
		})
	}
	files, err := os.ReadDir(filepath.Join("..", "..", "fixtures", "traces", "workflows"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !seen[f.Name()] {
			t.Errorf("%s is nobody's", f.Name())
		}
	}
}
