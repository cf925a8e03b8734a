// Package pgtest gives tests a PostgreSQL of their own: a server of the user's, or a container.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/forge-continuity/forge/adapters/postgres/scratch"
)

// Environment of the tests; scripts/postgres.sh sets what a machine needs.
const (
	envURL   = "FORGE_TEST_DATABASE_URL"   // an existing server's database, whose name ends in _test
	envImage = "FORGE_TEST_POSTGRES_IMAGE" // of the container
	envSkip  = "FORGE_TEST_POSTGRES_SKIP"  // why there is none here
)

// publicImage is used where no other is named.
const publicImage = "postgres:15-alpine"

// startLimit bounds the start of the container, its image included.
const startLimit = 3 * time.Minute

// Open returns the URL of an empty database: a new schema of the database that FORGE_TEST_DATABASE_URL names, or a new
// database forge_<random>_test in the container that this test process shares. Both are dropped when the test ends. Where
// neither can be had the test is skipped, and fails under CI=true.
//
// A name that does not end in _test is refused before anything is sent to the server (BOUND-16).
func Open(t testing.TB) string {
	t.Helper()
	if given := os.Getenv(envURL); given != "" {
		made, drop, err := scratch.Schema(context.Background(), given)
		if err != nil {
			t.Fatalf("%s: %v", envURL, err)
		}
		t.Cleanup(func() { cleanup(t, drop) })
		return made
	}
	if reason := os.Getenv(envSkip); reason != "" {
		Missing(t, reason)
	}
	base, err := container()
	if err != nil {
		Missing(t, err.Error())
	}
	made, drop, err := database(context.Background(), base)
	if err != nil {
		t.Fatalf("make a database in the container: %v", err)
	}
	t.Cleanup(func() { cleanup(t, drop) })
	return made
}

// Main runs the tests of a package and ends the container that they started. Where the cleaning container of
// testcontainers runs, a package may do without it.
func Main(m interface{ Run() int }) {
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintf(os.Stderr, "pgtest: %v\n", err)
	}
	os.Exit(code)
}

// Missing says SKIPPED with the reason why a test has no PostgreSQL, which under CI=true is a failure.
func Missing(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("no PostgreSQL, and CI=true asks for it: %s", reason)
	}
	t.Skipf("SKIPPED: no PostgreSQL: %s", reason)
}

func cleanup(t testing.TB, drop func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := drop(ctx); err != nil {
		t.Errorf("drop test database: %v", err)
	}
}

func database(ctx context.Context, base string) (string, func(context.Context) error, error) {
	cfg, err := scratch.Allowed(base)
	if err != nil {
		return "", nil, err
	}
	u, err := url.Parse(base)
	if err != nil {
		return "", nil, err
	}
	name := "forge_" + scratch.Random() + "_test"
	if err := scratch.Run(ctx, cfg, "CREATE DATABASE "+name); err != nil {
		return "", nil, err
	}
	u.Path = "/" + name
	return u.String(), func(ctx context.Context) error { return scratch.Run(ctx, cfg, "DROP DATABASE "+name+" WITH (FORCE)") }, nil
}

// The container of this process, started by the first test that needs it.
var (
	starting sync.Mutex
	started  bool
	server   testcontainers.Container
	at       string
	failed   error
)

func container() (string, error) {
	starting.Lock()
	defer starting.Unlock()
	if !started {
		started = true
		at, failed = start()
	}
	return at, failed
}

func start() (at string, err error) {
	// The library panics where it finds no Docker at all.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("no Docker answers: %v", p)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	image := os.Getenv(envImage)
	if image == "" {
		image = publicImage
	}
	password := scratch.Random()
	server, err = testcontainers.Run(ctx, image,
		testcontainers.WithEnv(map[string]string{
			"POSTGRES_USER": "forge", "POSTGRES_PASSWORD": password, "POSTGRES_DB": "forge_test",
		}),
		testcontainers.WithExposedPorts("5432/tcp"),
		// The first start of the image is for its own setup and answers on a socket only.
		testcontainers.WithWaitStrategy(wait.ForLog("ready to accept connections").WithOccurrence(2).WithStartupTimeout(startLimit)),
	)
	if err != nil {
		return "", fmt.Errorf("start %s: %w", image, errors.Join(err, terminate()))
	}
	endpoint, err := server.PortEndpoint(ctx, "5432/tcp", "")
	if err != nil {
		return "", fmt.Errorf("reach %s: %w", image, errors.Join(err, terminate()))
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword("forge", password), Host: endpoint, Path: "/forge_test"}
	return u.String(), nil
}

func stop() error {
	starting.Lock()
	defer starting.Unlock()
	return terminate()
}

func terminate() error {
	if server == nil {
		return nil
	}
	err := testcontainers.TerminateContainer(server, testcontainers.StopTimeout(0))
	server = nil
	return err
}
