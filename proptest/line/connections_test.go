package line

import (
	"bufio"
	"bytes"
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/forge-continuity/forge/adapters/postgres"
	"github.com/forge-continuity/forge/adapters/postgres/pgtest"
	"github.com/forge-continuity/forge/adapters/sqlite"
	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/fixtures/recordings"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api/apitest"
	"github.com/forge-continuity/forge/server/engine"
)

// A server that loads, inspects and admits a run makes no connection but to its store. PREVIEW-02 (the socket trace), REC-02
// (no provider connection).
func TestServerConnectsToItsStoreOnly(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("strace is needed under CI")
		}
		t.Skip("SKIPPED: no strace on this machine")
	}
	bin := filepath.Join(t.TempDir(), "forge")
	if out, err := exec.Command("go", "build", "-o", bin, "../../cmd/forge").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "forge.db")
		store, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		token := founded(t, store)
		if list := traced(t, strace, token, bin, "serve", "--store", path); len(list) > 0 {
			t.Errorf("connected: %v", list)
		}
	})
	t.Run("postgres", func(t *testing.T) {
		database := pgtest.Open(t)
		store, err := postgres.Open(t.Context(), database)
		if err != nil {
			t.Fatal(err)
		}
		token := founded(t, store)
		u, err := url.Parse(database)
		if err != nil {
			t.Fatal(err)
		}
		list := traced(t, strace, token, bin, "serve", "--database-url", database)
		if len(list) == 0 {
			t.Error("no connection to the database was seen: the trace does not work")
		}
		for _, c := range list {
			if !strings.Contains(c, "htons("+u.Port()+")") {
				t.Errorf("connected: %s", c)
			}
		}
	})
}

// founded makes a fixture factory in the store, closes it and returns its administrator's token.
func founded(t *testing.T, store engine.Store) string {
	t.Helper()
	e := engine.New(store, sandbox(t), "founding", nil)
	caller := engine.Caller{Factory: apitest.Factory, Principal: load.Administrator}
	if _, err := e.DoFactory(t.Context(), caller, "create", models.CreateFactory{Fixture: true}); err != nil {
		t.Fatal(err)
	}
	token, _, err := e.IssueToken(t.Context(), caller.Factory, caller.Principal, 3600)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return token
}

var connected = regexp.MustCompile(`connect\(\d+, \{sa_family=(AF_INET6?|AF_UNIX)[^}]*\}`)

// traced runs the server under a trace of its connections, plays and admits the held run over its API, and returns every
// connection that it made.
func traced(t *testing.T, strace, token string, command ...string) []string {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	args := append([]string{"-f", "-qq", "-e", "trace=connect,sendto", "-e", "signal=none", "-o", trace}, command...)
	server := exec.CommandContext(ctx, strace, append(args, "--listen", "127.0.0.1:0")...)
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var log bytes.Buffer
	server.Stderr = &log
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("the server said nothing: %s", log.Bytes())
	}
	base := strings.TrimPrefix(lines.Text(), "listening on ")
	admit(t, base, token)
	if err := syscall.Kill(-server.Process.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait()
	data, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	return connected.FindAllString(string(data), -1)
}

func admit(t *testing.T, base, token string) {
	t.Helper()
	ctx := t.Context()
	admin, err := forge.New(base, token, nil)
	if err != nil {
		t.Fatal(err)
	}
	people, err := load.Staff(ctx, admin)
	if err != nil {
		t.Fatal(err)
	}
	r, err := recordings.Held("2.55.0")
	if err != nil {
		t.Fatal(err)
	}
	if err := load.PutRecords(ctx, admin, r); err != nil {
		t.Fatal(err)
	}
	f, err := admin.Factory(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.PutProfile(ctx, "profile", load.FixtureProfile("fixture", f.Host)); err != nil {
		t.Fatal(err)
	}
	p, err := admin.Policy(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.PutPolicy(ctx, load.PolicyOn(p.Policy, 1800)); err != nil {
		t.Fatal(err)
	}
	if _, err := load.Held(ctx, people.Operator, people.Worker, r, "run-1", load.Options{}); err != nil {
		t.Fatal(err)
	}
	c, err := people.Operator.Candidate(ctx, "run-1")
	if err != nil || !c.Eligible {
		t.Fatal(err, codes(c))
	}
	if _, err := people.Operator.RequestContinuity(ctx, "run-1", "req-1", apitest.Accept(c, 600)); err != nil {
		t.Fatal(err)
	}
}
