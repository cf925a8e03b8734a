package faults

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/models"
)

// cutter is a proxy that lets so many bytes of a connection through in each direction and then resets both ends, as a
// network that fails there would.
type cutter struct {
	ln     net.Listener
	target string

	mu       sync.Mutex
	up, down int64 // bytes to let through, -1 for all
	sent     int64 // bytes that went up and down on the last connection
	received int64
	open     sync.WaitGroup
}

func newCutter(t *testing.T, target string) *cutter {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{ln: ln, target: target, up: -1, down: -1}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			c.open.Add(1)
			go c.serve(conn)
		}
	}()
	return c
}

func (c *cutter) set(up, down int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.up, c.down = up, down
}

func (c *cutter) serve(client net.Conn) {
	defer c.open.Done()
	defer client.Close()
	c.mu.Lock()
	up, down := c.up, c.down
	c.mu.Unlock()
	server, err := net.Dial("tcp", c.target)
	if err != nil {
		return
	}
	defer server.Close()
	cut := sync.OnceFunc(func() {
		for _, conn := range []net.Conn{client, server} {
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	})
	copied := func(to, from net.Conn, limit int64) int64 {
		if limit < 0 {
			n, _ := io.Copy(to, from)
			_ = to.(*net.TCPConn).CloseWrite()
			return n
		}
		n, _ := io.CopyN(to, from, limit)
		if n == limit {
			cut()
		}
		return n
	}
	var sent int64
	done := make(chan struct{})
	go func() { sent = copied(server, client, up); close(done) }()
	received := copied(client, server, down)
	cut()
	<-done
	c.mu.Lock()
	c.sent, c.received = sent, received
	c.mu.Unlock()
}

// cuts are the places at which an exchange of that size is cut: every byte in each direction, or in the short form some.
func cuts(up, down int64) (list [][2]int64) {
	step := int64(1)
	if !long() {
		step = (up + down) / 60
	}
	for n := int64(0); n < up; n += step {
		list = append(list, [2]int64{n, -1})
	}
	for n := int64(0); n < down; n += step {
		list = append(list, [2]int64{-1, n})
	}
	for i := 0; len(list) < 1000 && long(); i++ { // the last bytes decide most often
		list = append(list, [2]int64{-1, int64(i) % down})
	}
	return list
}

// through is a client of the worker whose every connection goes through the proxy.
func through(t *testing.T, c *cutter, token string) *forge.Client {
	t.Helper()
	client, err := forge.New("http://"+c.ln.Addr().String(), token, &http.Transport{DisableKeepAlives: true})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// A connection that is cut at any byte of a claim leaves the run untaken or held by the id that asked, and of an append leaves
// the batch in once or not at all: then the same command under its id gives the one answer. The client never takes a cut
// answer for one. FLOW-21 (one claim), rules invariants 1, 9, 14.
func TestCutAtEveryByte(t *testing.T) {
	r := recording(t)
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			w := s.world(t)
			people := hire(t, w.URL, administrator(t, w.Engine), nil)
			if err := load.PutRecords(ctx, people.Administrator, r); err != nil {
				t.Fatal(err)
			}
			run, err := load.Held(ctx, people.Operator, people.Worker, r, "run-1", load.Options{Stop: load.After("checkpoint", 2)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := people.Worker.Release(ctx, "run-1", "release-0", run.Fence, ""); err != nil {
				t.Fatal(err)
			}
			token, err := people.Administrator.IssueToken(ctx, load.Worker, 86400)
			if err != nil {
				t.Fatal(err)
			}
			proxy := newCutter(t, w.Addr)
			client := through(t, proxy, token.Secret)
			t.Run("claim", func(t *testing.T) { cutClaims(t, proxy, client, people) })
			t.Run("append", func(t *testing.T) { cutAppends(t, proxy, client, people) })
		})
	}
}

// uncertain asks that a cut exchange gave a success or left it open, and nothing else.
func uncertain(t *testing.T, what string, err error) {
	t.Helper()
	var p *forge.Problem
	if err != nil && !errors.Is(err, forge.ErrUncertain) && !errors.As(err, &p) {
		t.Fatalf("%s: %v", what, err)
	}
	if p != nil && p.Code != models.CodeRequestMalformed { // the server says that it did not get the whole of it
		t.Fatalf("%s: %v", what, err)
	}
}

func cutClaims(t *testing.T, proxy *cutter, client *forge.Client, people load.People) {
	ctx := t.Context()
	proxy.set(-1, -1)
	first, err := client.Claim(ctx, "run-1", "claim-0000", 600)
	if err != nil {
		t.Fatal(err)
	}
	proxy.open.Wait()
	up, down := proxy.sent, proxy.received
	release := func(id string, fence int64) {
		if _, err := people.Worker.Release(ctx, "run-1", "release-"+id, fence, ""); err != nil {
			t.Fatal(err)
		}
	}
	release("claim-0000", first.Claim.Fence)
	fence, taken := first.Claim.Fence, 0
	places := cuts(up, down)
	for i, at := range places {
		id := fmt.Sprintf("claim-%04d", i+1)
		what := fmt.Sprintf("claim cut at %v of %d and %d bytes", at, up, down)
		proxy.set(at[0], at[1])
		got, err := client.Claim(ctx, "run-1", id, 600)
		uncertain(t, what, err)
		proxy.open.Wait()
		v, viewErr := people.Reader.Run(ctx, "run-1")
		if viewErr != nil {
			t.Fatal(viewErr)
		}
		if v.Lease.Live && v.Lease.ClaimID != id || err == nil && !v.Lease.Live {
			t.Fatalf("%s: answered %v, held by %+v", what, err, v.Lease)
		}
		if v.Lease.Live {
			taken++
		}
		again, againErr := people.Worker.Claim(ctx, "run-1", id, 600)
		if againErr != nil || again.Claim.ClaimID != id || again.Claim.Fence != fence+1 || err == nil && again != got {
			t.Fatalf("%s: again %+v %v", what, again.Claim, againErr)
		}
		fence = again.Claim.Fence
		release(id, fence)
	}
	t.Logf("%d claims cut, %d of them taken before they were sent again", len(places), taken)
}

func cutAppends(t *testing.T, proxy *cutter, client *forge.Client, people load.People) {
	ctx := t.Context()
	claimed, err := people.Worker.Claim(ctx, "run-1", "claim-of-appends", 7200)
	if err != nil {
		t.Fatal(err)
	}
	facts := []models.Fact{models.CheckpointSaved{Checkpoint: claimed.Claim.Checkpoint}, models.CheckpointSaved{Checkpoint: claimed.Claim.Checkpoint},
		models.CheckpointSaved{Checkpoint: claimed.Claim.Checkpoint}}
	send := func(client *forge.Client, id string) (forge.Saved[models.AppendReceipt], error) {
		return client.Append(ctx, "run-1", id, claimed.Claim.Fence, facts...)
	}
	head := func() int64 {
		v, err := people.Reader.Run(ctx, "run-1")
		if err != nil {
			t.Fatal(err)
		}
		return v.Head.Seq
	}
	proxy.set(-1, -1)
	if _, err := send(client, "batch-0000"); err != nil {
		t.Fatal(err)
	}
	proxy.open.Wait()
	up, down := proxy.sent, proxy.received
	before, in := head(), 0
	places := cuts(up, down)
	for i, at := range places {
		id := fmt.Sprintf("batch-%04d", i+1)
		what := fmt.Sprintf("append cut at %v of %d and %d bytes", at, up, down)
		proxy.set(at[0], at[1])
		got, err := send(client, id)
		uncertain(t, what, err)
		proxy.open.Wait()
		between := head()
		if between != before && between != before+3 || err == nil && between == before {
			t.Fatalf("%s: answered %v, %d rows", what, err, between-before)
		}
		if between > before {
			in++
		}
		again, againErr := send(people.Worker, id)
		if againErr != nil || again.Receipt.First != before+1 || again.Receipt.Last != before+3 || between > before && !again.Repeat ||
			err == nil && string(again.Body) != string(got.Body) {
			t.Fatalf("%s: again %+v repeat %t %v", what, again.Receipt, again.Repeat, againErr)
		}
		if before = head(); before != again.Receipt.Last {
			t.Fatalf("%s: %d rows after the repeat", what, before-again.Receipt.Last)
		}
	}
	t.Logf("%d appends cut, %d of them in before they were sent again", len(places), in)
}
