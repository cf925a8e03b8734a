package forge

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forge-continuity/forge/models"
)

func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := New(server.URL, "forge_id_secret", nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A command whose connection breaks is sent once, and the error says that its outcome is not known. net/http would repeat
// some of them on its own, those with an Idempotency-Key first of all.
func TestNothingIsSentTwice(t *testing.T) {
	var requests atomic.Int64
	broken := false
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !broken {
			_, _ = io.WriteString(w, `{}`) // leaves a kept connection behind
			return
		}
		requests.Add(1)
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	})
	ctx := context.Background()
	for name, send := range map[string]func() error{
		"open":   func() error { _, err := c.OpenRun(ctx, "r"); return err },
		"append": func() error { _, err := c.Append(ctx, "r", "b", 1, models.RoundCompleted{Round: 1}); return err },
		"record": func() error { _, err := c.PutRecord(ctx, "id", "source", "n", models.PlainDigest(nil)); return err },
		"retire": func() error { _, err := c.RetireProfile(ctx, "id", "p"); return err },
		"admit":  func() error { _, err := c.RequestContinuity(ctx, "r", "q", models.RequestContinuity{}); return err },
		"blob":   func() error { _, err := c.PutBlob(ctx, "r", Salt{}, 1, []byte("x")); return err },
	} {
		broken = false
		if _, err := c.Factory(ctx); err != nil {
			t.Fatal(err)
		}
		broken = true
		requests.Store(0)
		if err := send(); !errors.Is(err, ErrUncertain) {
			t.Errorf("%s: %v, want ErrUncertain", name, err)
		}
		if n := requests.Load(); n != 1 {
			t.Errorf("%s was sent %d times", name, n)
		}
	}
	broken = true
	if _, err := c.Candidate(ctx, "r"); err == nil || errors.Is(err, ErrUncertain) {
		t.Errorf("a read has no uncertain outcome, got %v", err)
	}
}

func TestProblem(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusPreconditionFailed)
		_, _ = io.WriteString(w, `{"code":"digest_stale","detail":"What is so.","details":{"want":"b","got":"a"},"next":"What to do.","status":412,"title":"Digest stale","type":"/problems/digest_stale"}`)
	})
	_, err := c.RequestContinuity(context.Background(), "r", "q", models.RequestContinuity{})
	var p *Problem
	if !errors.As(err, &p) || p.Status != 412 || p.Message != "What is so." || p.Next != "What to do." || p.Detail("got") != "a" || p.Details[1].Name != "want" {
		t.Fatalf("%#v", err)
	}
	if !errors.Is(err, models.Refuse(models.CodeDigestStale)) || errors.Is(err, models.Refuse(models.CodeNotFound)) || errors.Is(err, ErrUncertain) {
		t.Errorf("%v matches the wrong things", err)
	}
	if want := "digest_stale: What is so. (got=a, want=b)"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

// A server fault without a problem document, as a proxy sends it, leaves a command's outcome unknown.
func TestFaultWithoutProblem(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "<html>bad gateway</html>", http.StatusBadGateway)
	})
	if _, err := c.OpenRun(context.Background(), "r"); !errors.Is(err, ErrUncertain) || strings.Contains(err.Error(), "html") {
		t.Errorf("%v", err)
	}
	if _, err := c.Factory(context.Background()); err == nil || errors.Is(err, ErrUncertain) {
		t.Errorf("%v", err)
	}
}

// Token and body do not follow a redirect to somewhere else.
func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("followed") }))
	defer elsewhere.Close()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	if _, err := c.OpenRun(context.Background(), "r"); err == nil {
		t.Error("a redirect passed for an answer")
	}
}

func TestAddresses(t *testing.T) {
	for _, bad := range []string{"", "localhost:8740", "ftp://x", "http://", "http://x/?a=b", "http://x/#a"} {
		if _, err := New(bad, "t", nil); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	c, err := New("http://x/", "t", nil)
	if err != nil || c.base != "http://x" {
		t.Errorf("%v %v", c, err)
	}
	if got := runPath("a/b", "rows", "c d"); got != "/runs/a%2Fb/rows/c%20d" {
		t.Error(got)
	}
}
