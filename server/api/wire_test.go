package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/server/api"
	. "github.com/forge-continuity/forge/server/api/apitest"
	"github.com/forge-continuity/forge/server/engine"
)

// raw sends bytes on a connection of their own, closes its writing half, and returns everything that comes back.
func raw(t *testing.T, w *World, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", w.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(60 * time.Second))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	_ = conn.(*net.TCPConn).CloseWrite() // the server may have closed already, over bytes that it will not read
	out, _ := io.ReadAll(conn)
	return string(out)
}

func waitUntil(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never came to that")
		}
	}
}

// The bytes of a body that nobody read must never be taken for the next request of the connection: whoever can place a body
// could speak with the token of whoever shares the connection behind a proxy.
func TestABodyIsNeverARequest(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		smuggled := "GET /problems/digest_stale HTTP/1.1\r\nHost: forge\r\n\r\n"
		token := "Authorization: Bearer " + w.Tokens[Dana] + "\r\n"
		length := fmt.Sprintf("Content-Length: %d\r\n", len(smuggled))
		chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(smuggled), smuggled)
		head := func(line string, headers ...string) string {
			return line + " HTTP/1.1\r\nHost: forge\r\n" + strings.Join(headers, "") + "\r\n"
		}
		large := strings.Repeat("x", 70<<10)
		for name, text := range map[string]string{
			"GET":                    head("GET /healthz", length) + smuggled,
			"GET with a token":       head("GET /api/v1/factory", token, length) + smuggled,
			"GET chunked":            head("GET /healthz", "Transfer-Encoding: chunked\r\n") + chunked,
			"DELETE":                 head("DELETE /api/v1/tokens/x", token, length) + smuggled,
			"no token":               head("POST /api/v1/tokens", length) + smuggled,
			"no token, chunked":      head("POST /api/v1/tokens", "Transfer-Encoding: chunked\r\n") + chunked,
			"no route":               head("POST /nowhere", length) + smuggled,
			"no method":              head("PATCH /api/v1/factory", length) + smuggled,
			"too large":              head("POST /api/v1/tokens", token, fmt.Sprintf("Content-Length: %d\r\n", len(large)+len(smuggled))) + large + smuggled,
			"coded":                  head("POST /api/v1/tokens", token, "Content-Encoding: gzip\r\n", length) + smuggled,
			"both lengths":           head("POST /api/v1/tokens", token, "Transfer-Encoding: chunked\r\n", length) + "0\r\n\r\n" + smuggled,
			"large and a second one": head("PUT /api/v1/runs/r/blobs/x", token, fmt.Sprintf("Content-Length: %d\r\n", len(large))) + large + smuggled,
		} {
			out := raw(t, w, text)
			// Closing over unread bytes may reset the connection before the answer is seen.
			if n := strings.Count(out, "HTTP/1.1 "); n > 1 || n == 0 && !strings.Contains(text, large) || strings.Contains(out, "digest_stale") {
				t.Errorf("%s: %d answers: %.600s", name, n, out)
			}
		}
		// Two requests whose bodies are read whole share a connection.
		body := `{"lifetime_seconds":0,"principal":"x"}`
		one := head("POST /api/v1/tokens", token, fmt.Sprintf("Content-Length: %d\r\n", len(body))) + body
		if out := raw(t, w, one+one); strings.Count(out, "HTTP/1.1 400 ") != 2 {
			t.Errorf("two good requests: %.600s", out)
		}
	})
}

// Bodies that end early, or whose length was not declared, write nothing: fasthttp takes a chunked body that was cut
// between two chunks for a whole one.
func TestFraming(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		body := string(canon.MustMarshal(*Enabled()))
		head := func(headers ...string) string {
			return "PUT /api/v1/invalid-read-continuity/policy HTTP/1.1\r\nHost: forge\r\nAuthorization: Bearer " + w.Tokens[Dana] + "\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n"
		}
		before := snapshot(t, w)
		chunk := fmt.Sprintf("%x\r\n%s\r\n", len(body), body)
		long := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", 70<<10, strings.Repeat(" ", 70<<10))
		for name, text := range map[string]string{
			"shorter than declared":    head(fmt.Sprintf("Content-Length: %d", len(body)+1)) + body,
			"much shorter":             head("Content-Length: 20000") + body,
			"chunked without end":      head("Transfer-Encoding: chunked") + chunk,
			"chunked":                  head("Transfer-Encoding: chunked") + chunk + "0\r\n\r\n",
			"cut chunk":                head("Transfer-Encoding: chunked") + chunk[:20],
			"bad chunk length":         head("Transfer-Encoding: chunked") + "zz\r\n" + body + "\r\n0\r\n\r\n",
			"chunked over the limit":   head("Transfer-Encoding: chunked") + long,
			"length that is no number": head("Content-Length: abc") + body,
			"negative length":          head("Content-Length: -1") + body,
		} {
			if out := raw(t, w, text); strings.Contains(out, "HTTP/1.1 2") || strings.Contains(out, "HTTP/1.1 5") {
				t.Errorf("%s: %.400s", name, out)
			}
		}
		unchanged(t, before, snapshot(t, w))
		out := raw(t, w, "GET /api/v1/runs HTTP/1.1\r\nHost: forge\r\nX: "+strings.Repeat("x", 9<<10)+"\r\n\r\n")
		if !strings.HasPrefix(out, "HTTP/1.1 413 ") || !strings.Contains(out, "payload_too_large") {
			t.Errorf("long header: %.400s", out)
		}
	})
}

// A request that two readers could understand differently is refused and its connection closed: which body, or which host, is
// meant must not depend on who reads.
func TestAmbiguousRequests(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		before := snapshot(t, w)
		body := string(canon.MustMarshal(*Enabled()))
		length := fmt.Sprintf("Content-Length: %d\r\n", len(body))
		put := "PUT /api/v1/invalid-read-continuity/policy HTTP/1.1\r\nAuthorization: Bearer " + w.Tokens[Dana] + "\r\n"
		for name, text := range map[string]string{
			"no host":                put + length + "\r\n" + body,
			"two hosts":              put + "Host: forge\r\nhost: other\r\n" + length + "\r\n" + body,
			"two lengths":            put + "Host: forge\r\n" + length + length + "\r\n" + body,
			"length and chunks":      put + "Host: forge\r\n" + length + "Transfer-Encoding: chunked\r\n\r\n" + body,
			"chunks and length":      put + "Host: forge\r\nTransfer-Encoding: chunked\r\n" + length + "\r\n" + body,
			"an unknown coding":      put + "Host: forge\r\n" + length + "transfer-encoding: xchunked\r\n\r\n" + body,
			"no host, public":        "GET /healthz HTTP/1.1\r\n\r\n",
			"no host, no such route": "GET /nowhere HTTP/1.1\r\n\r\n",
		} {
			out := raw(t, w, text)
			if !strings.HasPrefix(out, "HTTP/1.1 400 ") || !strings.Contains(out, "request_malformed") || strings.Count(out, "HTTP/1.1 ") != 1 {
				t.Errorf("%s: %.500s", name, out)
			}
		}
		unchanged(t, before, snapshot(t, w))
		if out := raw(t, w, "GET /healthz HTTP/1.0\r\n\r\n"); !strings.Contains(out, " 200 ") { // an older client names none
			t.Errorf("HTTP/1.0: %.300s", out)
		}
	})
}

// A body that never comes holds a connection for a bounded time, and a stranger learns that it is one, whatever it announced.
func TestABodyThatNeverComes(t *testing.T) {
	w := Start(t, openSQLite(t), &Fake{}, Options{})
	server := api.New(w.Engine, slog.New(slog.DiscardHandler), api.Options{ReadTime: time.Second})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(func() { _ = server.Shutdown(context.Background()) })
	for _, c := range []struct {
		name, token, start string
		length             int
		code               models.Code
	}{
		{"nobody", "", "", 20, models.CodeIdentityMissing},
		{"nobody, much", "", strings.Repeat(" ", 9000), 16 << 20, models.CodeIdentityMissing},
		{"a token that is none", "forge_0011223344556677_x", "", 20, models.CodeIdentityMissing},
		{"a principal", w.Tokens[Dana], "", 20, models.CodeRequestMalformed},
		{"a principal, some", w.Tokens[Dana], "{", 20, models.CodeRequestMalformed},
		{"a principal, the first part", w.Tokens[Worker], strings.Repeat(" ", 9000), 20000, models.CodeRequestMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(60 * time.Second))
			head := fmt.Sprintf("PUT /api/v1/runs/run-1/batches/b HTTP/1.1\r\nHost: forge\r\nContent-Length: %d\r\n", c.length)
			if c.token != "" {
				head += "Authorization: Bearer " + c.token + "\r\n"
			}
			if _, err := io.WriteString(conn, head+"\r\n"+c.start); err != nil {
				t.Fatal(err)
			}
			out, err := io.ReadAll(conn) // the writing half stays open
			if err != nil || !strings.Contains(string(out), `"code":"`+string(c.code)+`"`) {
				t.Errorf("%v, %.500s", err, out)
			}
		})
	}
}

// FLOW-12: with the connection cut after the commit, GET returns the receipt that POST would have; the caller may also send
// the same request again.
func TestLostResponse(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := w.Hold(t, "run-1")
		body := Accept(r.Candidate(t), 600)
		read := Call{As: Dana, Method: http.MethodGet, Path: r.Base() + "/requests/request-1"}
		refused(t, w.Send(t, read), models.CodeNotFound)
		request, err := w.Request(Call{As: Dana, Method: http.MethodPost, Path: r.Base() + "/requests/request-1", Body: body})
		if err != nil {
			t.Fatal(err)
		}
		request.URL.Host = cutting(t, w.Addr)
		request.GetBody = nil
		if response, err := http.DefaultTransport.RoundTrip(request); err == nil {
			t.Fatalf("the response was not lost: %d", response.StatusCode)
		}
		// The proxy cut at the first byte of the answer, so the commit is behind.
		saved := w.Send(t, read)
		again := r.Request(t, "request-1", body)
		if saved.Status != http.StatusOK || again.Status != http.StatusOK || !bytes.Equal(saved.Body, again.Body) {
			t.Fatalf("GET %d %s\nPOST %d %s", saved.Status, saved.Body, again.Status, again.Body)
		}
		var receipt models.ContinuityReceipt
		if err := canon.Unmarshal(saved.Body, &receipt); err != nil || receipt.RequestID != "request-1" || receipt.Run != "run-1" {
			t.Fatalf("%v %s", err, saved.Body)
		}
		if n := count(t, w, "run-1", models.MigrationSettled{}); n != 1 {
			t.Fatalf("%d settlements", n)
		}
		w.Hold(t, "run-2")
		read.Path = "/runs/run-2/invalid-read-continuity/requests/request-1" // another run's request
		refused(t, w.Send(t, read), models.CodeNotFound)
	})
}

// cutting is a proxy that hands requests on and closes both sides at the first byte of the answer.
func cutting(t *testing.T, target string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target)
			if err != nil {
				_ = near.Close()
				return
			}
			go func() { _, _ = io.Copy(far, near) }()
			go func() {
				_, _ = bufio.NewReader(far).ReadByte()
				_ = near.Close()
				_ = far.Close()
			}()
		}
	}()
	return ln.Addr().String()
}

// keeping is a store that keeps the ids it is asked for, as an engine may for as long as it likes.
type keeping struct {
	engine.Store
	mu  sync.Mutex
	ids []string
}

func (k *keeping) Stand(ctx context.Context, factory, run string) (engine.Standing, error) {
	k.mu.Lock()
	k.ids = append(k.ids, run)
	k.mu.Unlock()
	return k.Store.Stand(ctx, factory, run)
}

// Fiber reuses the buffers of a connection: ids kept from three requests stay what they were only because the app is made
// Immutable.
func TestKeptIDsStayTheSame(t *testing.T) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			k := &keeping{Store: s.open(t)}
			w := Start(t, k, &Fake{}, Options{})
			want := []string{"run-aaaaaaaa", "run-bbbbbbbb", "run-cccccccc"}
			client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
			for _, id := range want {
				request, err := w.Request(Call{As: Dana, Method: http.MethodGet, Path: "/runs/" + id})
				if err != nil {
					t.Fatal(err)
				}
				response, err := client.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
			if !slices.Equal(k.ids, want) {
				t.Fatalf("kept %q, want %q", k.ids, want)
			}
		})
	}
}

// failing is a store whose list of runs fails with a text that no client may see.
type failing struct {
	engine.Store
	err error
}

func (f failing) Runs(context.Context, string, string, int64) ([]string, error) { return nil, f.err }

// A fault of the server shows a code and an id; the text stands in the log, once, under that id. A panic is such a fault,
// and the server goes on.
func TestInternalErrors(t *testing.T) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			for name, c := range map[string]struct {
				store engine.Store
				code  models.Code
			}{
				"error":       {failing{s.open(t), errors.New("select " + marker)}, models.CodeInternal},
				"unavailable": {failing{s.open(t), fmt.Errorf("dial "+marker+": %w", engine.ErrUnavailable)}, models.CodeUnavailable},
				"cancelled":   {failing{s.open(t), fmt.Errorf(marker+": %w", context.DeadlineExceeded)}, models.CodeUnavailable},
				"panic":       {panicking{s.open(t)}, models.CodeInternal},
			} {
				w := Start(t, c.store, &Fake{}, Options{})
				a := w.Send(t, Call{As: Dana, Method: http.MethodGet, Path: "/runs"})
				p := refused(t, a, c.code)
				if strings.Contains(string(a.Body), marker) || p.Details["id"] == "" {
					t.Errorf("%s: %s", name, a.Body)
				}
				if lines := w.Log.Lines(marker, p.Details["id"]); len(lines) != 1 || len(w.Log.Lines(marker)) != 1 {
					t.Errorf("%s: logged %q", name, w.Log.Lines(marker))
				}
				if retry := a.Header.Get("Retry-After"); (c.code == models.CodeUnavailable) != (retry != "") {
					t.Errorf("%s: Retry-After %q", name, retry)
				}
				if a := w.Send(t, Call{Method: http.MethodGet, Path: "/healthz"}); a.Status != http.StatusOK {
					t.Errorf("%s: then %d", name, a.Status)
				}
			}
		})
	}
}

type panicking struct{ engine.Store }

func (panicking) Runs(context.Context, string, string, int64) ([]string, error) { panic(marker) }

// Headers that every answer has, refusals and pages too; the private preview is named in each.
func TestHeaders(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		for _, c := range []Call{
			{Method: http.MethodGet, Path: "/healthz"}, {Method: http.MethodGet, Path: "/problems/busy"}, {Method: http.MethodGet, Path: "/runs"},
			{As: Dana, Method: http.MethodGet, Path: "/runs"}, {As: Dana, Method: http.MethodGet, Path: "/nowhere"}, {As: Dana, Method: http.MethodHead, Path: "/factory"},
		} {
			a := w.Send(t, c)
			for name, want := range map[string]string{
				"Forge-Preview": "private", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
				"X-Frame-Options": "DENY", "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Server": "",
			} {
				if got := a.Header.Get(name); got != want {
					t.Errorf("%s %s: %s is %q", c.Method, c.Path, name, got)
				}
			}
		}
		for _, entry := range models.Table() { // the type of every problem leads to a page that says the same
			a := w.Send(t, Call{Method: http.MethodGet, Path: "/problems/" + string(entry.Code)})
			if a.Status != http.StatusOK || !strings.Contains(string(a.Body), entry.Message) || !strings.Contains(string(a.Body), entry.Next) {
				t.Errorf("%s: %d %s", entry.Code, a.Status, a.Body)
			}
		}
	})
}

// A bound that is reached is 429 with Retry-After, and lifts when a worker claims.
func TestQueueBound(t *testing.T) {
	p := *Enabled()
	p.MaxPendingTickets = 1
	each(t, Options{Policy: &p}, func(t *testing.T, w *World) {
		one, two := w.Hold(t, "run-1"), w.Hold(t, "run-2")
		one.Admit(t, "request-1")
		body := Accept(two.Candidate(t), 600)
		a := two.Request(t, "request-2", body)
		if p := refused(t, a, models.CodePendingTicketsReached); p.Details["limit"] != "1" || a.Header.Get("Retry-After") == "" {
			t.Fatalf("%v, Retry-After %q", p.Details, a.Header.Get("Retry-After"))
		}
		one.Claim(t, "claim-2")
		if a := two.Request(t, "request-2", body); a.Status != http.StatusAccepted {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	})
}

// A poll waits for work and announces it without handing anything out; a drain ends the wait with 204, turns readiness off
// and leaves everything else working.
func TestWorkAndDrain(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		poll := func(seconds int) (Answer, time.Duration, error) {
			start := time.Now()
			a, err := w.Try(Call{As: Worker, Method: http.MethodGet, Path: fmt.Sprintf("/work?wait_seconds=%d", seconds)})
			return a, time.Since(start), err
		}
		if a, took, err := poll(1); err != nil || a.Status != http.StatusNoContent || took < time.Second {
			t.Fatalf("an empty poll: %v %d after %s", err, a.Status, took)
		}
		type answer struct {
			Answer
			took time.Duration
			err  error
		}
		waiting := make(chan answer, 1)
		start := func() {
			go func() {
				a, took, err := poll(20)
				waiting <- answer{a, took, err}
			}()
			time.Sleep(300 * time.Millisecond)
		}
		start()
		w.Open(t, "run-1")
		a := <-waiting
		if a.err != nil || string(a.Body) != `{"runs":[{"pool":"","request_id":"","run_id":"run-1"}]}` {
			t.Fatalf("%v %d %s", a.err, a.Status, a.Body)
		}
		if again, _, err := poll(0); err != nil || !bytes.Equal(again.Body, a.Body) {
			t.Fatalf("announcing handed the run out: %v %s", err, again.Body)
		}
		claimed := w.Send(t, Call{As: Worker, Method: http.MethodPut, Path: "/runs/run-1/claims/c", Body: models.ClaimRun{LeaseSeconds: 60}})
		if claimed.Status != http.StatusOK {
			t.Fatalf("%d %s", claimed.Status, claimed.Body)
		}
		start()
		w.Server.Drain()
		if a := <-waiting; a.err != nil || a.Status != http.StatusNoContent || a.took > 15*time.Second {
			t.Fatalf("the waiting poll: %v %d after %s", a.err, a.Status, a.took)
		}
		w.Open(t, "run-2") // work goes on, and is announced by other nodes
		if a, _, err := poll(20); err != nil || a.Status != http.StatusNoContent {
			t.Fatalf("a new poll: %v %d", err, a.Status)
		}
		if a := w.Send(t, Call{Method: http.MethodGet, Path: "/readyz"}); a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
			t.Fatalf("readyz: %d", a.Status)
		}
		if a := w.Send(t, Call{Method: http.MethodGet, Path: "/healthz"}); a.Status != http.StatusOK {
			t.Fatalf("healthz: %d", a.Status)
		}
	})
}

// A claim answers the same fence and salt again while it lives, and says when it does not; a batch sent twice is one.
func TestClaimAndBatchRepeat(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		r := w.Open(t, "run-1")
		claim := Call{As: Worker, Method: http.MethodPut, Path: "/runs/run-1/claims/claim-1", Body: models.ClaimRun{LeaseSeconds: 60}}
		first, again := w.Send(t, claim), w.Send(t, claim)
		if first.Status != http.StatusOK || again.Status != http.StatusOK || !bytes.Equal(first.Body, again.Body) || !strings.Contains(string(first.Body), fmt.Sprintf("%x", r.Salt)) {
			t.Fatalf("%d %s then %d %s", first.Status, first.Body, again.Status, again.Body)
		}
		r.Fence = 1
		refused(t, w.Send(t, Call{As: Worker, Method: http.MethodPut, Path: "/runs/run-1/claims/claim-2", Body: models.ClaimRun{LeaseSeconds: 60}}), models.CodeClaimLive)
		batch := Call{As: Worker, Method: http.MethodPut, Path: "/runs/run-1/batches/b", Body: models.Append{Fence: 1, Facts: []models.Fact{
			models.CommandStarted{Command: r.Blob(t, Worker, "a command"), Number: 1, Position: -1}}}}
		one, two := w.Send(t, batch), w.Send(t, batch)
		if one.Status != http.StatusCreated || two.Status != http.StatusOK || !bytes.Equal(one.Body, two.Body) || r.Show(t).Counters.Commands != 1 {
			t.Fatalf("%d %s then %d %s", one.Status, one.Body, two.Status, two.Body)
		}
		batch.Body = models.Append{Fence: 1, Facts: []models.Fact{models.CommandFinished{Number: 1, Receipt: r.Blob(t, Worker, "a receipt")}}}
		refused(t, w.Send(t, batch), models.CodeRequestConflict)
		r.Append(t, models.CommandFinished{Number: 1, Receipt: r.Blob(t, Worker, "a receipt")}, models.WorkerFailed{Report: r.Blob(t, Worker, "over")})
		refused(t, w.Send(t, claim), models.CodeFenceLost) // a dead claim is not one to go on with
	})
}

// An ordinary lease is lengthened by its live owner, to no more than the frozen provider timeout, and never shortened; no
// row is written. A continuity lease is left as it was granted.
func TestRenew(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := w.Open(t, "run-1", func(g *models.Registration) { g.ProviderTimeout = 1000 })
		first := r.Claim(t, "claim-1")
		claim := "claim-1"
		renew := func(as string, fence, seconds int64) Answer {
			return w.Send(t, Call{As: as, Method: http.MethodPut, Path: "/runs/" + r.ID + "/claims/" + claim + "/renewal", Body: map[string]int64{"fence": fence, "lease_seconds": seconds}})
		}
		expires := func() models.Instant { return r.Show(t).Lease.ExpiresAt }
		head := r.Show(t).Head
		for _, step := range []struct{ seconds, least, most int64 }{{900, 900, 960}, {10, 900, 960}, {7200, 1000, 1060}} {
			a := renew(Worker, 1, step.seconds)
			var out api.Renewed
			if err := canon.Unmarshal(a.Body, &out); err != nil || a.Status != http.StatusOK || out.ExpiresAt != expires() {
				t.Fatalf("%d %s, shown %d", a.Status, a.Body, expires())
			}
			// The claim asked for 600 seconds a moment before.
			if n := int64(first.ExpiresAt.Add(-600).Until(out.ExpiresAt)); n < step.least || n > step.most {
				t.Fatalf("%d seconds asked, %d given", step.seconds, n)
			}
		}
		refused(t, renew(Worker, 2, 60), models.CodeFenceLost)
		refused(t, renew(Worker, 1, 0), models.CodeWindowInvalid)
		refused(t, renew(Worker, 1, 7201), models.CodeWindowInvalid)
		refused(t, renew(Dana, 1, 60), models.CodeRoleMissing)
		if r.Show(t).Head != head {
			t.Fatal("a renewal wrote a row")
		}
		// What is appended afterwards leaves the lease as it was renewed.
		renewed := expires()
		r.Commands(t, 1)
		if expires() != renewed {
			t.Fatalf("an append moved the expiry from %d to %d", renewed, expires())
		}
		claim = "claim-2"
		refused(t, renew(Worker, 1, 60), models.CodeFenceLost)
		r = w.Hold(t, "run-2")
		receipt := r.Admit(t, "request-1")
		r.Claim(t, "claim-2")
		refused(t, renew(Worker, 2, 7000), models.CodeWindowInvalid)
		if expires() != receipt.ExpiresAt {
			t.Fatalf("%d, granted %d", expires(), receipt.ExpiresAt)
		}
	})
}

// Opening answers the salt to its opener alone, 201 and then 200; registering twice is one registration.
func TestOpenAndRegister(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		open := Call{As: Dana, Method: http.MethodPut, Path: "/runs/run-1"}
		first, again := w.Send(t, open), w.Send(t, open)
		if first.Status != http.StatusCreated || again.Status != http.StatusOK || !bytes.Equal(first.Body, again.Body) {
			t.Fatalf("%d %s then %d %s", first.Status, first.Body, again.Status, again.Body)
		}
		open.As = Operator
		refused(t, w.Send(t, open), models.CodeRunExists)
		r := w.Open(t, "run-2")
		g := Registration()
		g.Task, g.Contract = r.Blob(t, Dana, "the task"), r.Blob(t, Dana, "the contract")
		register := Call{As: Dana, Method: http.MethodPut, Path: "/runs/run-2/registration", Body: models.RegisterRun{Registration: g}}
		if a := w.Send(t, register); a.Status != http.StatusOK {
			t.Fatalf("repeat: %d %s", a.Status, a.Body)
		}
		g.CompletedRounds = 7
		register.Body = models.RegisterRun{Registration: g}
		refused(t, w.Send(t, register), models.CodeRequestConflict)
		list := Must[api.RunList](t, w, http.StatusOK, Call{As: Reader, Method: http.MethodGet, Path: "/runs?limit=1"})
		if list.Next != "run-1" || !slices.Equal(list.Runs, []string{"run-1"}) {
			t.Fatalf("%+v", list)
		}
		list = Must[api.RunList](t, w, http.StatusOK, Call{As: Reader, Method: http.MethodGet, Path: "/runs?after=run-1"})
		if list.Next != "" || !slices.Equal(list.Runs, []string{"run-2"}) {
			t.Fatalf("%+v", list)
		}
	})
}

// Only the one who opened a run, and so knows what its blobs are, becomes its original actor.
func TestOnlyTheOpenerRegisters(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		// A run that is opened and has its blobs, with registering left to somebody else.
		opened := Must[api.Opened](t, w, http.StatusCreated, Call{As: Dana, Method: http.MethodPut, Path: "/runs/run-1"})
		salt, err := hex.DecodeString(opened.Salt)
		if err != nil {
			t.Fatal(err)
		}
		g := Registration()
		g.Task, g.Contract = models.SaltedBlob([32]byte(salt), []byte("task")), models.SaltedBlob([32]byte(salt), []byte("contract"))
		for digest, content := range map[models.Digest]string{g.Task: "task", g.Contract: "contract"} {
			w.Send(t, Call{As: Dana, Method: http.MethodPut, Path: "/runs/run-1/blobs/" + digest.String(), Body: content})
		}
		register := Call{As: Operator, Method: http.MethodPut, Path: "/runs/run-1/registration", Body: models.RegisterRun{Registration: g}}
		before := snapshot(t, w)
		refused(t, w.Send(t, register), models.CodeRunExists)
		unchanged(t, before, snapshot(t, w))
		register.As = Dana
		if a := w.Send(t, register); a.Status != http.StatusCreated {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	})
}

// An export that was read over the wire verifies offline, and names no content but blob bytes.
func TestExportVerifies(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := held(t, w)
		a := w.Send(t, Call{As: Reader, Method: http.MethodGet, Path: "/runs/run-1/export"})
		bundle, err := engine.ReadBundle(bytes.NewReader(a.Body))
		if err != nil {
			t.Fatal(err)
		}
		v, err := engine.Verify(t.Context(), bundle, &Fake{})
		if err != nil || v.Head != r.Show(t).Head || v.Reconstructions != 1 || v.Counters.Commands != HeldCommands {
			t.Fatalf("%v %+v", err, v)
		}
		if a.Header.Get("Content-Type") != "application/jsonl" {
			t.Fatalf("%v", a.Header)
		}
	})
}

// late is a store whose clock stands so many microseconds back, as after a failover to a host whose clock is behind.
type late struct {
	engine.Store
	by atomic.Int64
}

func (s *late) Append(ctx context.Context, locks engine.Locks, decide func(engine.Loaded) (*engine.Write, error)) error {
	return s.Store.Append(ctx, locks, func(l engine.Loaded) (*engine.Write, error) {
		l.Now -= models.Instant(s.by.Load())
		return decide(l)
	})
}

// The factory goes on after the store's clock was set back, and no run's journal is broken by that: what takes the place of the head
// that a run's row names was written earlier by the clock, and the run did not verify for ever after. Further back it waits.
func TestTheClockIsSetBackBesideARun(t *testing.T) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			store := &late{Store: s.open(t)}
			w := Start(t, store, &Fake{}, Options{Policy: Enabled()})
			r := w.Open(t, "run-1")
			time.Sleep(600 * time.Millisecond)
			r.Claim(t, "claim-1")
			newest := rowsAt(t, w, "run-1")
			store.by.Store(500_000)
			w.PutPolicy(t, *Enabled())
			a := w.Send(t, Call{As: Reader, Method: http.MethodGet, Path: "/runs/run-1/export"})
			bundle, err := engine.ReadBundle(bytes.NewReader(a.Body))
			if err != nil {
				t.Fatal(err)
			}
			if last := bundle.FactoryRows[len(bundle.FactoryRows)-1]; last.At < newest {
				t.Errorf("the factory's row is of %d, the run's newest of %d", last.At, newest)
			}
			if _, err := engine.Verify(t.Context(), bundle, &Fake{}); err != nil {
				t.Error(err)
			}
			store.by.Store(60_000_000)
			_, err = w.Engine.DoFactory(t.Context(), engine.Caller{Factory: Factory, Principal: Dana}, "far-back", models.PutPolicy{Policy: *Enabled()})
			if r, ok := engine.IsRefusal(err); !ok || r.Code != models.CodeClockBehind {
				t.Error(err)
			}
		})
	}
}

// rowsAt is the time of a run's newest row.
func rowsAt(t *testing.T, w *World, run string) models.Instant {
	info, err := w.Store.Run(t.Context(), Factory, run)
	if err != nil {
		t.Fatal(err)
	}
	return info.Cached.At
}

// Shutdown lets the requests in hand finish.
func TestShutdown(t *testing.T) {
	w := Start(t, openSQLite(t), &Fake{}, Options{})
	done := make(chan Answer, 1)
	go func() {
		a, _ := w.Try(Call{As: Worker, Method: http.MethodGet, Path: "/work?wait_seconds=20"})
		done <- a
	}()
	time.Sleep(300 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	start := time.Now()
	if err := w.Server.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if a := <-done; a.Status != http.StatusNoContent || time.Since(start) > 15*time.Second {
		t.Fatalf("%d after %s", a.Status, time.Since(start))
	}
}
