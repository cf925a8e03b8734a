package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forge-continuity/forge/adapters/postgres/pgtest"
	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/fixtures/deaths"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/models"
)

// 64 admissions of one consumed graph at once, from four server processes on one database: one ticket. A request under the
// winner's id has the very same receipt, every other a conflict that says why. FLOW-33, rules invariant 7.
func TestOneTicketFromFourServers(t *testing.T) {
	_, servers, people := found(t, pgtest.Open(t), 4)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := load.Held(ctx, people.Operator, people.Worker, recording(t), "run", load.Options{}); err != nil {
		t.Fatal(err)
	}
	c, err := people.Operator.Candidate(ctx, "run")
	if err != nil || !c.Eligible {
		t.Fatalf("candidate %+v %v", c.Holds, err)
	}
	type result struct {
		id   string
		body []byte
		err  error
	}
	results := make(chan result, 64)
	gate := make(chan struct{})
	for i := range 64 {
		client, err := forge.New(servers[i%4].url(), people.OperatorToken, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			id := fmt.Sprintf("request-%d", i/8) // eight of each id, from all servers
			<-gate
			saved, err := client.RequestContinuity(ctx, "run", id, deaths.Accept(c, 600, 1))
			for errors.Is(err, &forge.Problem{Code: models.CodeBusy}) || errors.Is(err, &forge.Problem{Code: models.CodeUnavailable}) {
				time.Sleep(100 * time.Millisecond) // the sandbox's queue is bounded; the answer asks to come again
				saved, err = client.RequestContinuity(ctx, "run", id, deaths.Accept(c, 600, 1))
			}
			results <- result{id, saved.Body, err}
		}()
	}
	close(gate)
	winner, same, conflicts := "", 0, map[string]int{}
	var receipt []byte
	for range 64 {
		r := <-results
		var p *forge.Problem
		switch {
		case r.err == nil && winner == "":
			winner, receipt = r.id, r.body
			same++
		case r.err == nil:
			same++
			if r.id != winner || !bytes.Equal(r.body, receipt) {
				t.Errorf("%s has a receipt of its own beside %s", r.id, winner)
			}
		case errors.As(r.err, &p):
			conflicts[string(p.Code)]++
			if r.id == winner {
				t.Errorf("%s, which was admitted, is told %v", r.id, r.err)
			}
		default:
			t.Error(r.err)
		}
	}
	t.Logf("winner %s, %d times the same receipt, conflicts %v", winner, same, conflicts)
	if same != 8 {
		t.Errorf("%d have the receipt, want the 8 of the winner's id", same)
	}
	for code := range conflicts {
		switch models.Code(code) {
		case models.CodeTicketOutstanding, models.CodeGraphHasTicket, models.CodeDigestStale:
		default:
			t.Errorf("a conflict %s", code)
		}
	}
	tickets := 0
	rows, err := people.Reader.Rows(ctx, "run", 1, 1000)
	for _, row := range rows {
		if row.Kind == "migration.settled" {
			tickets++
		}
	}
	if err != nil || tickets != 1 {
		t.Errorf("%d tickets, %v", tickets, err)
	}
}

// More admissions at once, from four server processes, than the factory's bound allows: exactly as many as the bound are
// queued. The long form is the 600 and 500 of FLOW-34.
func TestBoundFromFourServers(t *testing.T) {
	runs, bound := 12, 7
	if long() {
		runs, bound = 600, 500
	}
	b, servers, people := found(t, pgtest.Open(t), 4)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	policy, err := people.Administrator.Policy(ctx)
	if err != nil {
		t.Fatal(err)
	}
	policy.Policy.MaxPendingTickets = int64(bound)
	if _, err := people.Administrator.PutPolicy(ctx, policy.Policy); err != nil {
		t.Fatal(err)
	}
	candidates := make([]models.Candidate, runs)
	r := recording(t)
	var all sync.WaitGroup
	var next atomic.Int64
	for range 8 {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < runs; i = int(next.Add(1)) - 1 {
				run := fmt.Sprintf("run-%d", i)
				_, err := load.Held(ctx, people.Operator, people.Worker, r, run, load.Options{})
				if err == nil {
					candidates[i], err = people.Operator.Candidate(ctx, run)
				}
				if err != nil {
					t.Errorf("%s: %v", run, err)
					return
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	var queued, full atomic.Int64
	for i := range runs {
		client, err := forge.New(servers[i%4].url(), people.OperatorToken, nil)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for {
				_, err := client.RequestContinuity(ctx, fmt.Sprintf("run-%d", i), fmt.Sprintf("request-%d", i), deaths.Accept(candidates[i], 1800, 1))
				var p *forge.Problem
				switch errors.As(err, &p); {
				case err == nil:
					queued.Add(1)
				case p != nil && p.Code == models.CodePendingTicketsReached:
					full.Add(1)
				case p != nil && (p.Code == models.CodeBusy || p.Code == models.CodeUnavailable):
					time.Sleep(100 * time.Millisecond)
					continue
				default:
					t.Error(err)
				}
				return
			}
		})
	}
	all.Wait()
	t.Logf("%d queued, %d refused; %d requests sent again", queued.Load(), full.Load(), b.again.Load())
	if queued.Load() != int64(bound) || full.Load() != int64(runs-bound) {
		t.Errorf("%d queued and %d refused, want %d and %d", queued.Load(), full.Load(), bound, runs-bound)
	}
}

// Servers join and leave while traffic runs: nobody is told an error that a request sent again does not lift, nothing that
// was acknowledged is lost, and a server that is asked to stop ends by itself with everything answered.
//
// FORGE_EARLIER names a `forge` of an earlier commit with the same tables: it serves beside this one, joined by it as in an upgrade, and
// joining it as when an upgrade is taken back.
func TestServersComeAndGo(t *testing.T) {
	program, err := programOnce()
	if err != nil {
		t.Fatal(err)
	}
	if earlier == "" {
		comeAndGo(t, program)
		return
	}
	t.Run("upgrade", func(t *testing.T) { comeAndGo(t, earlier, program, program) })
	t.Run("taken back", func(t *testing.T) { comeAndGo(t, program, earlier, program) })
}

var earlier = os.Getenv("FORGE_EARLIER")

// comeAndGo lets each program join in turn; while two serve, the earlier one leaves.
func comeAndGo(t *testing.T, first string, then ...string) {
	if then == nil {
		then = []string{first}
	}
	database := pgtest.Open(t)
	n := 300
	if long() {
		n = 3000
	}
	b, servers, people := found(t, database, 1)
	serving := servers[0]
	if first != serving.program {
		old := serveBy(t, first, []string{"--database-url", database})
		b.set(old.address)
		if err := serving.drain(); err != nil {
			t.Fatal(err)
		}
		serving = old
	}
	for i, program := range then {
		var before, after sync.WaitGroup
		before.Go(func() { traffic(t, b, people, 4, n, fmt.Sprintf("before-%d", i), earlier == "") })
		joined := serveBy(t, program, []string{"--database-url", database})
		b.set(serving.address, joined.address)
		at := b.count()
		// However quickly the first traffic ends, the server leaves in the middle of this one.
		after.Go(func() { traffic(t, b, people, 4, n, fmt.Sprintf("after-%d", i), earlier == "") })
		for b.count() < at+n/4 && !t.Failed() {
			time.Sleep(5 * time.Millisecond)
		}
		b.set(joined.address)
		if err := serving.drain(); err != nil {
			t.Errorf("the server that left: %v\n%s", err, serving.log.text())
		}
		before.Wait()
		after.Wait()
		serving = joined
	}
	audit(t, b, people, database)
}

// drain asks a server to stop and waits until it has.
func (s *server) drain() error {
	defer func() { s.cmd = nil }()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	return <-s.ended
}
