package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/adapters/postgres/pgtest"
)

// An operator sets up a server on PostgreSQL, two servers share the database, and each ends cleanly.
func TestServePostgres(t *testing.T) {
	url := pgtest.Open(t)
	var token, stderr bytes.Buffer
	if code := run(t.Context(), []string{"factory", "create", "acme", "--administrator", "ada", "--database-url", url}, &token, &stderr); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	file := filepath.Join(t.TempDir(), "ada.token")
	if err := os.WriteFile(file, token.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	type server struct {
		out       *notify
		stderr    bytes.Buffer
		ended     chan int
		interrupt context.CancelFunc
	}
	var servers []*server
	for range 2 {
		ctx, interrupt := context.WithCancel(context.Background())
		s := &server{out: &notify{want: "\n", seen: make(chan struct{})}, ended: make(chan int, 1), interrupt: interrupt}
		servers = append(servers, s)
		go func() {
			s.ended <- run(ctx, []string{"serve", "--database-url", url, "--listen", "127.0.0.1:0"}, s.out, &s.stderr)
		}()
	}
	for _, s := range servers {
		select {
		case <-s.out.seen:
		case code := <-s.ended:
			t.Fatalf("serve ended with %d: %s", code, s.stderr.String())
		}
		address := regexp.MustCompile(`http://\S+`).FindString(s.out.said())
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), []string{"token", "issue", "--principal", "ada", "--server", address, "--token-file", file}, &stdout, &stderr); code != exitDone {
			t.Errorf("exit code %d: %s", code, stderr.String())
		}
	}
	for _, s := range servers {
		s.interrupt()
		if code := <-s.ended; code != exitDone || strings.Contains(s.stderr.String(), "error") || !strings.Contains(s.stderr.String(), "store postgres") {
			t.Errorf("exit code %d: %s", code, s.stderr.String())
		}
	}
}
