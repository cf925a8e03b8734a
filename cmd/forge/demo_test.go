package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forge-continuity/forge/adapters/postgres/pgtest"
)

var update = flag.Bool("update", false, "rewrite golden files")

// changing is what differs between two demos: addresses, folders, and everything that a run's random salt or the store's
// clock goes into. Row numbers and counters stay.
var changing = []struct {
	find *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`http://127\.0\.0\.1:\d+`), "http://SERVER"},
	{regexp.MustCompile(`in \S*forge-demo-\d+,`), "in FOLDER,"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "DIGEST"},
	{regexp.MustCompile(`\b[0-9a-f]{12}\b`), "DIGEST"},
	{regexp.MustCompile(`\d+ KB`), "N KB"},
}

// FLOW-39: eleven commands become 13, and the rows of the eleven stay. The demo tells the same story every time, and its own
// checks fail it where that is not what happened. The transcript is reviewed as a diff:
// go test ./cmd/forge -run TestGoldenDemoTranscript -update
func TestGoldenDemoTranscript(t *testing.T) { transcript(t, "demo.golden", "demo", "--once") }

// Each chapter tells the same story every time, on the input that it names.
func TestGoldenDemoChapters(t *testing.T) {
	transcript(t, "demo-list.golden", "demo", "--list")
	for _, c := range chapters[1:] {
		t.Run(c.name, func(t *testing.T) { transcript(t, "demo-"+c.name+".golden", "demo", "--chapter", c.name) })
	}
}

// On PostgreSQL the story is the same but for where its store is; a schema that cannot be dropped would end it with an error. BOUND-16
// (any other database is refused).
func TestDemoOnPostgreSQL(t *testing.T) {
	url := pgtest.Open(t)
	got := told(t, "demo", "--once", "--database-url", url)
	want, err := os.ReadFile(filepath.Join("testdata", "demo.golden"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(want), "a new SQLite file in FOLDER, removed", "a new schema in the PostgreSQL database, dropped", 1)
	if got != text || text == string(want) {
		t.Errorf("another transcript:\n%s", diff(text, got))
	}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"demo", "--once", "--database-url", "postgres://forge@127.0.0.1:1/forge"}, &stdout, &stderr); code != exitUsage {
		t.Errorf("a database of another name: exit code %d, %s", code, stderr.String())
	}
}

func transcript(t *testing.T, golden string, args ...string) {
	t.Helper()
	got := told(t, args...)
	path := filepath.Join("testdata", golden)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("another transcript:\n%s", diff(string(want), got))
	}
}

// told runs the demo and returns its transcript with what changes taken out.
func told(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	start := time.Now()
	if code := run(context.Background(), args, &stdout, &stderr); code != exitDone || stderr.Len() > 0 {
		t.Fatalf("exit code %d\n%s\n%s", code, stderr.String(), stdout.String())
	}
	t.Logf("the demo took %v", time.Since(start).Round(10*time.Millisecond))
	got := stdout.String()
	for _, c := range changing {
		got = c.find.ReplaceAllString(got, c.with)
	}
	return got
}

func diff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	var out strings.Builder
	for i := 0; i < max(len(w), len(g)); i++ {
		line := func(list []string) string {
			if i < len(list) {
				return list[i]
			}
			return "(end)"
		}
		if a, b := line(w), line(g); a != b {
			out.WriteString("- " + a + "\n+ " + b + "\n")
		}
	}
	return out.String()
}

// notify is a writer that reports when a text has been written.
type notify struct {
	mu   sync.Mutex
	text strings.Builder
	want string
	seen chan struct{}
}

func (n *notify) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	had := strings.Contains(n.text.String(), n.want)
	n.text.Write(b)
	if !had && strings.Contains(n.text.String(), n.want) {
		close(n.seen)
	}
	return len(b), nil
}

func (n *notify) said() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// Ctrl-C ends the server that the demo leaves up, cleanly, and the temporary folder goes.
func TestDemoStaysUpUntilInterrupted(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	out := &notify{want: "forge candidate " + unsupportedRun, seen: make(chan struct{})}
	var stderr bytes.Buffer
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, []string{"demo"}, out, &stderr) }()
	select {
	case <-out.seen:
	case code := <-ended:
		t.Fatalf("ended with %d: %s", code, stderr.String())
	}
	lookAround(t, out.said())
	interrupt()
	if code := <-ended; code != exitDone || strings.Contains(stderr.String(), "error") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// lookAround does what the demo suggests at its end.
func lookAround(t *testing.T, told string) {
	t.Helper()
	m := regexp.MustCompile(`FORGE_SERVER=(\S+) FORGE_TOKEN=(\S+)`).FindStringSubmatch(told)
	if m == nil {
		t.Fatalf("no address in\n%s", told)
	}
	t.Setenv("FORGE_SERVER", m[1])
	t.Setenv("FORGE_TOKEN", m[2])
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), []string{"run", "list"}, &stdout, &stderr); code != exitDone ||
		!strings.Contains(stdout.String(), storyRun) || !strings.Contains(stdout.String(), "completed") {
		t.Errorf("exit code %d: %s %s", code, stdout.String(), stderr.String())
	}
}
