package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// long reports whether the campaigns run in full: FORGE_FAULTS=long, as ./task faults sets it.
func long() bool { return os.Getenv("FORGE_FAULTS") == "long" }

// program is the path of the built forge, empty before the first server.
var program string

// programOnce builds forge once for the whole process.
var programOnce = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "forge-faults-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "forge")
	out, err := exec.Command("go", "build", "-o", path, "../../cmd/forge").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build forge: %w\n%s", err, out)
	}
	program = path
	return path, nil
})

// server is a real forge serve over a database that outlives it.
type server struct {
	t       testing.TB
	program string
	flags   []string
	address string
	cache   string
	starts  int

	cmd   *exec.Cmd
	ended chan error
	log   *tail
}

// serve starts forge on a port that was free a moment ago. It is killed with the test.
func serve(t testing.TB, flags []string) *server {
	t.Helper()
	program, err := programOnce()
	if err != nil {
		t.Fatal(err)
	}
	return serveBy(t, program, flags)
}

// serveBy is serve with a program of another version.
func serveBy(t testing.TB, program string, flags []string) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, program: program, flags: flags, address: ln.Addr().String(), cache: filepath.Dir(program), log: &tail{}}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.kill() })
	return s
}

// start waits until the server says that it listens.
func (s *server) start() error {
	cmd := exec.Command(s.program, append([]string{"serve", "--listen", s.address, "--cache-dir", s.cache}, s.flags...)...)
	cmd.Stderr = s.log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.starts++
	s.cmd, s.ended = cmd, make(chan error, 1)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	ended := s.ended
	go func() {
		_, _ = io.Copy(io.Discard, stdout)
		ended <- cmd.Wait()
	}()
	if err != nil || !strings.HasPrefix(line, "listening on ") {
		return fmt.Errorf("forge serve said %q (%w)\n%s", line, err, s.log.text())
	}
	return nil
}

// kill ends the process with SIGKILL, which leaves it no time for anything, and waits until it is gone.
func (s *server) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.ended
	s.cmd = nil
}

func (s *server) again() error {
	s.kill()
	return s.start()
}

func (s *server) url() string { return "http://" + s.address }

// tail keeps the last of what a process said.
type tail struct {
	mu   sync.Mutex
	last []byte
}

func (b *tail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = append(b.last, p...)
	if n := len(b.last); n > 8000 {
		b.last = b.last[n-8000:]
	}
	return len(p), nil
}

func (b *tail) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.last)
}

// direct sends without a kept connection: a killed server would leave broken ones behind.
func direct() *http.Transport { return &http.Transport{DisableKeepAlives: true} }

// do sends a request and reads the whole answer.
func do(ctx context.Context, transport http.RoundTripper, request *http.Request) (int, http.Header, []byte, error) {
	response, err := transport.RoundTrip(request.Clone(ctx))
	if err != nil {
		return 0, nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, response.Header, body, err
}

var errTwice = errors.New("the same command answered something else after the server was killed")

// patience is how long a story may take under fire.
const patience = 20 * time.Minute
