package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/forge-continuity/forge/adapters/sqlite"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/fixtures/recordings"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/server/engine"
)

// guestCache is the cache folder of everything here, so that the guest module is compiled once.
var guestCache string

func TestMain(m *testing.M) {
	if os.Getenv("FORGE_TEST_CACHE") == "" { // the test process, not forge itself
		dir, err := os.MkdirTemp("", "forge-cmd-")
		if err != nil {
			panic(err)
		}
		guestCache = dir
		if err := os.Setenv("XDG_CACHE_HOME", dir); err != nil {
			panic(err)
		}
	}
	testscript.Main(cleaning{m}, map[string]func(){"forge": main})
}

type cleaning struct{ *testing.M }

func (c cleaning) Run() int {
	code := c.M.Run()
	_ = os.RemoveAll(guestCache)
	return code
}

// Each file in testdata is one story of one user; its first line says why it is there.
func TestStories(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("FORGE_TEST_CACHE", guestCache)
			e.Setenv("XDG_CACHE_HOME", guestCache)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"server": serverCmd, "exits": exitsCmd, "freeport": freeportCmd, "ready": readyCmd, "setbyte": setbyteCmd,
			"match": matchCmd, "setstate": setstateCmd,
		},
	})
}

// serverCmd starts a server with a new fixture factory on SQLite for the rest of the script and sets SERVER, FORGE_SERVER
// and the tokens ADMINISTRATOR, OPERATOR, WORKER, SECOND_WORKER and READER; FORGE_TOKEN is the operator's. "held" loads the held run as nightly-4711, "verified" one that is
// to be verified, "enabled" also registers a fixture profile and enables the policy.
func serverCmd(ts *testscript.TestScript, neg bool, args []string) {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, filepath.Join(ts.MkAbs("."), "server.db"))
	ts.Check(err)
	comp, err := compose(ctx, store, cacheDir(""), slog.New(slog.DiscardHandler))
	ts.Check(err)
	ln, _, err := listen(ctx, "127.0.0.1:0")
	ts.Check(err)
	served := make(chan error, 1)
	go func() { served <- comp.api.Serve(ln) }()
	ts.Defer(func() {
		ts.Check(errors.Join(stop(comp, served), comp.close()))
	})
	base := "http://" + ln.Addr().String()
	people, err := demoPeople(ctx, comp.engine, demoFactory, base)
	ts.Check(err)
	for _, arg := range args {
		switch arg {
		case "held":
			r, err := recordings.Held("2.55.0")
			ts.Check(err)
			ts.Check(load.PutRecords(ctx, people.Administrator, r))
			_, err = load.Held(ctx, people.Operator, people.Worker, r, storyRun, load.Options{})
			ts.Check(err)
		case "unknown": // a worker that reports its end with a command started and not finished
			r, err := recordings.Held("2.55.0")
			ts.Check(err)
			ts.Check(load.PutRecords(ctx, people.Administrator, r))
			run, err := load.Held(ctx, people.Operator, people.Worker, r, storyRun, load.Options{Stop: load.After("command_started", 2)})
			ts.Check(err)
			last := load.Recorder{Client: people.Worker, Run: storyRun, Salt: run.Salt, Fence: run.Fence, Prefix: "last"}
			report, err := last.Put(ctx, []byte("the machine goes down"))
			ts.Check(err)
			ts.Check(last.Record(ctx, "worker_failed", models.WorkerFailed{Report: report}))
		case "verified": // nightly-4711 with a frozen verification list, given back after its first completed round
			r, err := recordings.Held("2.55.0")
			ts.Check(err)
			ts.Check(load.PutRecords(ctx, people.Administrator, r))
			run, err := load.Held(ctx, people.Operator, people.Worker, r, storyRun, load.Options{
				Registration: func(g *models.Registration) { g.Verification = models.Verification{Commands: 1, List: g.Task} },
				Stop:         load.After("checkpoint", 2),
			})
			ts.Check(err)
			_, err = people.Worker.Release(ctx, storyRun, "release-1", run.Fence, "")
			ts.Check(err)
		case "enabled":
			_, err := people.Administrator.PutProfile(ctx, "profile", load.FixtureProfile("fixture", comp.engine.Host()))
			ts.Check(err)
			policy, err := people.Administrator.Policy(ctx)
			ts.Check(err)
			_, err = people.Administrator.PutPolicy(ctx, load.PolicyOn(policy.Policy, storyWindow))
			ts.Check(err)
		case "observing", "planted", "unclaimed", "refused", "lost":
			dana := chaptered(ctx, ts, comp, people, arg)
			ts.Setenv("DANA", dana)
		default:
			ts.Fatalf("server: unknown argument %q", arg)
		}
	}
	admin, err := people.Administrator.IssueToken(ctx, load.Administrator, 3600)
	ts.Check(err)
	ts.Setenv("SERVER", base)
	ts.Setenv("FORGE_SERVER", base)
	ts.Setenv("ADMINISTRATOR", admin.Secret)
	ts.Setenv("OPERATOR", people.OperatorToken)
	ts.Setenv("READER", people.ReaderToken)
	for variable, principal := range map[string]string{"WORKER": load.Worker, "SECOND_WORKER": load.SecondWorker} {
		token, err := people.Administrator.IssueToken(ctx, principal, 3600)
		ts.Check(err)
		ts.Setenv(variable, token.Secret)
	}
	ts.Setenv("FORGE_TOKEN", people.OperatorToken)
}

// chaptered plays the beginning of a demo chapter, up to where a person decides, and returns the token of dana, who started the run,
// operates and administers. "refused" leaves the review in review.json and the digest of its correction in CORRECTION.
func chaptered(ctx context.Context, ts *testscript.TestScript, comp *composition, people load.People, arg string) string {
	s := &story{out: io.Discard, comp: comp, people: people}
	o := load.Options{}
	switch arg {
	case "observing":
		o.Variant = "siblings-list-files"
	case "planted":
		o.Content = func(_ string, data []byte) []byte {
			return bytes.ReplaceAll(data, []byte("Find out why"), []byte("ghp_b8107e28a54da81906d1db852bd00a37f3d0"))
		}
	}
	_, err := s.open(ctx, o, func(p *models.Policy) {
		p.AllowUnavailableSourceObservations, p.AllowPreAdmissionRecovery, p.AllowReadonlyObservationRecovery = true, true, true
	})
	ts.Check(err)
	switch arg {
	case "unclaimed":
		ts.Check(s.admitted(ctx, 1))
		time.Sleep(1100 * time.Millisecond)
	case "refused":
		ts.Check(s.admitted(ctx, 900))
		review, err := load.Refuse(ctx, s.dana, people.SecondWorker, s.recording, storyRun, "claim-refused", nil)
		ts.Check(err)
		correction, err := load.PutReports(ctx, people.Administrator, &review)
		ts.Check(err)
		ts.Setenv("CORRECTION", correction.String())
		ts.Check(os.WriteFile(ts.MkAbs("review.json"), canon.MustMarshal(review), 0o600))
	case "lost":
		ts.Check(s.admitted(ctx, 900))
		ts.Check(s.refuse(ctx))
		ts.Check(load.Lose(ctx, people.SecondWorker, s.recording, storyRun, "claim-lost"))
	}
	token, err := people.Administrator.IssueToken(ctx, "dana", 3600)
	ts.Check(err)
	return token.Secret
}

// exitsCmd runs a program and wants exactly this exit code.
func exitsCmd(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("%v exits with %d, want %d", args[1:], got, want)
	}
}

// freeportCmd sets a variable to a loopback address that was free a moment ago.
func freeportCmd(ts *testscript.TestScript, neg bool, args []string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], ln.Addr().String())
	ts.Check(ln.Close())
}

// readyCmd waits until the server at an address is ready.
func readyCmd(ts *testscript.TestScript, neg bool, args []string) {
	for range 300 {
		if response, err := http.Get("http://" + args[0] + "/readyz"); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("%s does not get ready", args[0])
}

// setbyteCmd replaces the first occurrence of a text in a file.
func setbyteCmd(ts *testscript.TestScript, neg bool, args []string) {
	path := ts.MkAbs(args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	changed := strings.Replace(string(data), args[1], args[2], 1)
	if changed == string(data) {
		ts.Fatalf("%s does not hold %s", args[0], args[1])
	}
	ts.Check(os.WriteFile(path, []byte(changed), 0o600))
}

// setstateCmd replaces a text in the cached state of a run, as no build writes it.
func setstateCmd(ts *testscript.TestScript, neg bool, args []string) {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, ts.MkAbs(args[0]))
	ts.Check(err)
	err = store.Append(ctx, engine.Locks{Factory: args[1], Run: args[2]}, func(l engine.Loaded) (*engine.Write, error) {
		changed := strings.Replace(string(l.Run.State), args[3], args[4], 1)
		if changed == string(l.Run.State) {
			return nil, fmt.Errorf("the state does not hold %s", args[3])
		}
		return &engine.Write{State: []byte(changed), Rules: l.Run.Rules, Lease: l.Lease}, nil
	})
	ts.Check(errors.Join(err, store.Close()))
}

// matchCmd sets a variable to the first group of a regular expression in a file.
func matchCmd(ts *testscript.TestScript, neg bool, args []string) {
	m := regexp.MustCompile(args[2]).FindStringSubmatch(ts.ReadFile(args[1]))
	if len(m) < 2 {
		ts.Fatalf("%s does not match %s", args[1], args[2])
	}
	ts.Setenv(args[0], m[1])
}
