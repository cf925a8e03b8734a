package faults

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forge-continuity/forge/fixtures/deaths"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api/apitest"
	"github.com/forge-continuity/forge/server/engine"
)

// assassin is a transport that kills the server at writes, restarts it and sends the same request again: what a client does
// that keeps its ids. Every answer that came before the kill has to come again.
type assassin struct {
	server *server
	next   http.RoundTripper
	// when tells at which writes: after the answer, or while the request is in flight.
	when func(n int) (kill, inFlight bool)

	mu    sync.Mutex
	n     int
	kills int
	armed bool
}

// RoundTrip implements http.RoundTripper.
func (a *assassin) RoundTrip(request *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var sent []byte
	if request.Body != nil {
		var err error
		if sent, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
		_ = request.Body.Close()
	}
	again := func() *http.Request {
		r := request.Clone(request.Context())
		r.Body, r.ContentLength = http.NoBody, int64(len(sent))
		if len(sent) > 0 {
			r.Body = io.NopCloser(bytes.NewReader(sent))
		}
		return r
	}
	if !a.armed || request.Method == http.MethodGet {
		return a.next.RoundTrip(again())
	}
	a.n++
	kill, inFlight := a.when(a.n)
	if !kill {
		return a.next.RoundTrip(again())
	}
	a.kills++
	var first []byte
	var status int
	var err error
	if inFlight {
		done := make(chan struct{})
		go func() { status, _, first, err = do(request.Context(), a.next, again()); close(done) }()
		time.Sleep(time.Duration(rand.Int64N(4000)) * time.Microsecond)
		a.server.kill()
		<-done
	} else if status, _, first, err = do(request.Context(), a.next, again()); err != nil {
		return nil, err
	}
	if err := a.server.again(); err != nil {
		return nil, err
	}
	code, header, body, failed := do(request.Context(), a.next, again())
	if failed != nil {
		return nil, failed
	}
	if err == nil && !same(request.URL.Path, status, first, code, body) {
		return nil, fmt.Errorf("%w: %s %s: %d %s then %d %s", errTwice, request.Method, request.URL.Path, status, first, code, body)
	}
	return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(bytes.NewReader(body)), Request: request, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}, nil
}

// same says whether two answers to one command agree: the saved receipt byte for byte, whatever tells a repeat. A renewal is
// no command; a refusal shows a moment.
func same(path string, status int, first []byte, code int, body []byte) bool {
	switch {
	case strings.HasSuffix(path, "/renewal"):
		return code == status
	case status >= 400:
		return code == status
	}
	return code < 300 && bytes.Equal(first, body)
}

// battle is a server over a new database with everybody of the stories, and the assassin between them.
func battle(t *testing.T, s store, when func(int) (bool, bool)) (*server, *assassin, load.People) {
	t.Helper()
	flags := s.where(t)
	opened, err := s.open(t.Context(), flags)
	if err != nil {
		t.Fatal(err)
	}
	// As forge factory create does: on the store, while no server has it.
	e := engine.New(opened, &apitest.Fake{}, "faults", slog.New(slog.DiscardHandler))
	token := administrator(t, e)
	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
	srv := serve(t, flags)
	a := &assassin{server: srv, next: direct(), when: when}
	people := hire(t, srv.url(), token, a)
	// From the first record, profile and policy on, so that the commits of forge demo are among those of the story call-rejected.
	a.armed = true
	if err := staff(t.Context(), people, recording(t)); err != nil {
		t.Fatalf("after %d kills: %v\n%s", a.kills, err, srv.log.text())
	}
	a.armed = false
	return srv, a, people
}

// The server is killed after commits of every story (call-rejected is the line that forge demo tells, from the factory's records,
// profile and policy to the run's completion), and at random moments of a write; it starts again on the same
// database, the same command is sent again under its id, and the story goes on. In the end the trace is the one of an
// undisturbed server, every run verifies from its export, and an examination of the store finds nothing.
// FLOW-13, FLOW-25, NOCLAIM-06 (a start writes its note and nothing else), rules invariants 1, 9, 11.
func TestKilledAfterEveryCommit(t *testing.T) {
	every := func(n int) (bool, bool) { return true, false }
	if !long() {
		every = func(n int) (bool, bool) { return n%15 == 7, n%2 == 0 }
	}
	brief := map[string][]string{"sqlite": {"clean-released", "request-landed", "call-rejected"}, "postgres": {"response-kept", "command-charged", "queued-lapsed"}}
	for _, s := range stores {
		for _, story := range deaths.Stories() {
			if !long() && !slices.Contains(brief[s.name], story.Name) {
				continue
			}
			t.Run(s.name+"/"+story.Name, func(t *testing.T) {
				t.Parallel()
				besiege(t, s, story, every)
			})
			if long() {
				t.Run(s.name+"/"+story.Name+"/in flight", func(t *testing.T) {
					t.Parallel()
					besiege(t, s, story, func(n int) (bool, bool) { return true, true })
				})
			}
		}
	}
}

func besiege(t *testing.T, s store, story deaths.Story, when func(int) (bool, bool)) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	srv, a, people := battle(t, s, when)
	// Longer than any pause between two requests, a restart among them.
	lease := models.Seconds(10)
	if long() {
		lease = 60
	}
	teller := &deaths.Teller{People: people, Recording: recording(t), Provider: stub(t), Run: story.Name, Lease: lease}
	a.armed = true
	started := time.Now()
	trace, err := story.Tell(ctx, teller)
	a.armed = false
	if err != nil {
		t.Fatalf("after %d kills: %v\n%s\n%s", a.kills, err, trace, srv.log.text())
	}
	t.Logf("%d writes, %d kills, %d starts, %s", a.n, a.kills, srv.starts, time.Since(started).Round(time.Millisecond))
	want, err := os.ReadFile(filepath.Join("..", "..", "fixtures", "traces", story.Name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != trace {
		t.Errorf("another trace than undisturbed: %s", diff(string(want), trace))
	}
	var file bytes.Buffer
	if _, err := people.Reader.Export(ctx, story.Name, &file); err != nil {
		t.Fatal(err)
	}
	b, err := engine.ReadBundle(&file)
	if err != nil {
		t.Fatal(err)
	}
	sandbox, err := box()
	if err != nil {
		t.Fatal(err)
	}
	if v, err := engine.Verify(ctx, b, sandbox); err != nil || v.BlobsErased != 0 {
		t.Errorf("verify: %+v %v", v, err)
	}
	srv.kill()
	opened, err := s.open(ctx, srv.flags)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	err = engine.New(opened, sandbox, "faults", slog.New(slog.DiscardHandler)).Doctor(ctx, func(f engine.Finding) {
		if f.Fault != nil || f.Erased > 0 {
			t.Errorf("run %q: %d blobs erased, %v", f.Run, f.Erased, f.Fault)
		}
	})
	if err != nil {
		t.Error(err)
	}
}
