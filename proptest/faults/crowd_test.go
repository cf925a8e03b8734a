package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forge-continuity/forge/adapters/postgres"
	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/fixtures/deaths"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/fixtures/recordings"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api/apitest"
	"github.com/forge-continuity/forge/server/engine"
)

// balancer is what stands before several servers: a request goes to one that answers. One that got no answer, or a 503, is
// sent again, the same bytes under the same id, for as long as patience lasts; every write that was acknowledged is noted.
type balancer struct {
	mu      sync.Mutex
	servers []string
	next    atomic.Int64
	acks    []ack
	again   atomic.Int64 // requests sent another time
	lastAck time.Time
	gap     time.Duration // the longest time without any acknowledgement
}

// ack is what an answer promised: rows up to this one, or content.
type ack struct {
	path string
	seq  int64
	hash string
	blob string
}

func (b *balancer) set(servers ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.servers = servers
}

func (b *balancer) pick() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.servers[int(b.next.Add(1))%len(b.servers)]
}

// RoundTrip implements http.RoundTripper.
func (b *balancer) RoundTrip(request *http.Request) (*http.Response, error) {
	var sent []byte
	if request.Body != nil {
		var err error
		if sent, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
	}
	for started := time.Now(); ; {
		r := request.Clone(request.Context())
		r.URL.Host = b.pick()
		r.Host = ""
		r.Body, r.ContentLength = http.NoBody, int64(len(sent))
		if len(sent) > 0 {
			r.Body = io.NopCloser(bytes.NewReader(sent))
		}
		status, header, body, err := do(request.Context(), direct(), r)
		if err == nil && status != http.StatusServiceUnavailable {
			if request.Method != http.MethodGet && status/100 == 2 {
				b.note(request.URL.Path, body)
			}
			return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(bytes.NewReader(body)), Request: request,
				Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}, nil
		}
		if time.Since(started) > 2*time.Minute || request.Context().Err() != nil {
			return nil, fmt.Errorf("no answer in %s: %d %s %w", time.Since(started), status, body, err)
		}
		b.again.Add(1)
		time.Sleep(50 * time.Millisecond)
	}
}

func (b *balancer) note(path string, body []byte) {
	var seen struct {
		Last int64  `json:"last_seq"`
		Seq  int64  `json:"seq"`
		Hash string `json:"hash"`
	}
	_ = json.Unmarshal(body, &seen)
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if !b.lastAck.IsZero() {
		b.gap = max(b.gap, now.Sub(b.lastAck))
	}
	b.lastAck = now
	_, blob, _ := strings.Cut(path, "/blobs/")
	b.acks = append(b.acks, ack{path: path, seq: max(seen.Last, seen.Seq), hash: seen.Hash, blob: blob})
}

func (b *balancer) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.acks)
}

// found is a factory over a new database, servers on it and everybody of the stories behind the balancer.
func found(t *testing.T, database string, servers int) (*balancer, []*server, load.People) {
	t.Helper()
	opened, err := postgres.Open(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	token := administrator(t, engine.New(opened, &apitest.Fake{}, "faults", slog.New(slog.DiscardHandler)))
	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
	var list []*server
	b := &balancer{}
	for range servers {
		list = append(list, serve(t, []string{"--database-url", database}))
		b.servers = append(b.servers, list[len(list)-1].address)
	}
	people := hire(t, list[0].url(), token, b)
	if err := staff(t.Context(), people, recording(t)); err != nil {
		t.Fatal(err)
	}
	return b, list, people
}

// traffic records runs, claims and releases them, continues every fourth held one under a ticket, and reads, with so many workers
// until n writes were acknowledged. Tickets are asked for where admits says that every server is of the composition that is registered.
func traffic(t *testing.T, b *balancer, people load.People, workers, n int, prefix string, admits bool) {
	t.Helper()
	r := recording(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	from := b.count()
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := 0; b.count()-from < n; i++ {
				id := fmt.Sprintf("%s-%d-%d", prefix, w, i)
				var err error
				if admits && i%4 == 0 {
					err = continued(ctx, people, r, id+"-held")
				}
				if err == nil {
					err = turns(ctx, people, r, id, 1+i%3)
				}
				if err == nil {
					_, err = people.Reader.Run(ctx, id)
				}
				if err != nil {
					t.Errorf("%s: %v", id, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// turns records a run up to so many checkpoints, hands it back, and lets another worker claim it and hand it back again.
func turns(ctx context.Context, people load.People, r *recordings.Recording, id string, checkpoints int) error {
	run, err := load.Held(ctx, people.Operator, people.Worker, r, id, load.Options{LeaseSeconds: 3600, Stop: load.After("checkpoint", checkpoints)})
	if err == nil {
		_, err = people.Worker.Release(ctx, id, "release", run.Fence, "")
	}
	for j := 0; j < 3 && err == nil; j++ {
		var c forge.Claimed
		if c, err = people.SecondWorker.Claim(ctx, id, fmt.Sprintf("again-%d", j), 3600); err == nil {
			_, err = people.SecondWorker.Release(ctx, id, fmt.Sprintf("release-%d", j), c.Claim.Fence, "")
		}
	}
	return err
}

// continued records a run that is held, admits it and claims the ticket.
func continued(ctx context.Context, people load.People, r *recordings.Recording, id string) error {
	if _, err := load.Held(ctx, people.Operator, people.Worker, r, id, load.Options{}); err != nil {
		return err
	}
	c, err := people.Operator.Candidate(ctx, id)
	if err == nil {
		_, err = people.Operator.RequestContinuity(ctx, id, "request-"+id, deaths.Accept(c, 600, 1))
	}
	if err == nil {
		_, err = people.SecondWorker.Claim(ctx, id, "claim-ticket", 600)
	}
	return err
}

// audit asks that everything acknowledged stands, and that everything that stands holds: by the rows, by forge verify --all
// over the API, and by an examination of the store.
func audit(t *testing.T, b *balancer, people load.People, database string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	hashes := map[string]map[int64]string{}
	lookup := func(run string) map[int64]string {
		if hashes[run] == nil {
			hashes[run] = map[int64]string{}
			for from := int64(1); ; from += 500 {
				rows, err := people.Reader.Rows(ctx, run, from, 500)
				if err != nil {
					t.Fatal(err)
				}
				for _, row := range rows {
					hashes[run][row.Seq] = row.Hash.String()
				}
				if len(rows) < 500 {
					break
				}
			}
		}
		return hashes[run]
	}
	rows, blobs := 0, 0
	for _, a := range b.acks {
		parts := strings.Split(strings.TrimPrefix(a.path, "/api/v1/runs/"), "/")
		switch {
		case !strings.HasPrefix(a.path, "/api/v1/runs/"):
		case a.seq > 0 && a.hash != "":
			rows++
			if got := lookup(parts[0])[a.seq]; got != a.hash {
				t.Errorf("%s: row %d was acknowledged as %s and is %q", a.path, a.seq, a.hash, got)
			}
		case a.blob != "":
			blobs++
			d, err := models.ParseDigest(a.blob)
			if err == nil {
				_, err = people.Worker.Blob(ctx, parts[0], d)
			}
			if err != nil {
				t.Errorf("%s: content %s was acknowledged: %v", a.path, a.blob, err)
			}
		}
	}
	t.Logf("%d acknowledged writes, %d of them rows and %d content, in %d runs; %d requests were sent again; longest pause %s",
		len(b.acks), rows, blobs, len(hashes), b.again.Load(), b.gap.Round(time.Millisecond))
	if rows == 0 || blobs == 0 {
		t.Error("no acknowledged row, or no content, was looked for")
	}
	cmd := exec.Command(program, "verify", "--all", "--server", "http://"+b.pick())
	cmd.Env = append(cmd.Environ(), "FORGE_TOKEN="+people.ReaderToken)
	out, err := cmd.CombinedOutput()
	if text := strings.TrimSpace(string(out)); err != nil {
		t.Errorf("forge verify --all: %v\n%s", err, text)
	} else {
		t.Log(text[strings.LastIndexByte(text, '\n')+1:])
	}
	opened, err := postgres.Open(ctx, database)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	err = engine.New(opened, &apitest.Fake{}, "faults", slog.New(slog.DiscardHandler)).Doctor(ctx, func(f engine.Finding) {
		if f.Fault != nil || f.Erased > 0 {
			t.Errorf("run %q: %d blobs erased, %v", f.Run, f.Erased, f.Fault)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

var errNoTime = errors.New("the traffic ended before the kills")
