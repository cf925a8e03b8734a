package faults

import (
	"context"
	"flag"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/fixtures/deaths"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/fixtures/provider"
	"github.com/forge-continuity/forge/fixtures/recordings"
	"github.com/forge-continuity/forge/models"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// staff makes everybody of the stories in a new factory, the recording's records, and a policy and profile that admit. The
// operator, the original actor of every story, is a factory administrator too, as recoveries ask for.
func staff(ctx context.Context, people load.People, r *recordings.Recording) error {
	admin := people.Administrator
	if err := load.PutRecords(ctx, admin, r); err != nil {
		return err
	}
	f, err := admin.Factory(ctx)
	if err != nil {
		return err
	}
	for _, p := range f.Principals {
		if p.ID == load.Operator {
			roles := []string{models.RoleAdministrator, models.RoleOperator}
			if _, err := admin.PutPrincipal(ctx, "operator-reviews", p.ID, putRoles(p.Authority, roles)); err != nil {
				return err
			}
		}
	}
	if _, err := admin.PutProfile(ctx, "profile", load.FixtureProfile("fixture", f.Host)); err != nil {
		return err
	}
	policy, err := admin.Policy(ctx)
	if err != nil {
		return err
	}
	next := load.PolicyOn(policy.Policy, models.MaxWindow)
	next.AllowUnavailableSourceObservations = true
	_, err = admin.PutPolicy(ctx, next)
	return err
}

// stub is a provider that answers the held run's continuation.
func stub(t testing.TB) string {
	t.Helper()
	server := httptest.NewServer(provider.New(provider.Held()))
	t.Cleanup(server.Close)
	return server.URL
}

func recording(t testing.TB) *recordings.Recording {
	t.Helper()
	r, err := recordings.Held("2.55.0")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Every row of the table in docs/ways-on.md as a trace in readable text, told on both stores: where the run stands, what
// holds it, and the way on. FLOW-19, FLOW-20, FLOW-21, FLOW-22, ELIG-16, START-01, START-02, BOUND-02, BOUND-08, BOUND-09,
// NOCLAIM-19 (retry), NOCLAIM-01, FLOW-31.
func TestGoldenTraces(t *testing.T) {
	r := recording(t)
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			people := s.inProcess(t)
			if err := staff(t.Context(), people, r); err != nil {
				t.Fatal(err)
			}
			for _, story := range deaths.Stories() {
				t.Run(story.Name, func(t *testing.T) {
					t.Parallel()
					teller := &deaths.Teller{People: people, Recording: r, Provider: stub(t), Run: story.Name, Lease: 3}
					trace, err := story.Tell(t.Context(), teller)
					if err != nil {
						t.Fatalf("%v\n%s", err, trace)
					}
					golden(t, story.Name, trace)
				})
			}
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("..", "..", "fixtures", "traces", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; write it with go test ./proptest/faults -run Golden -update", err)
	}
	if string(want) != got {
		t.Errorf("%s differs; after looking at it, rewrite with go test ./proptest/faults -run Golden -update\n%s", name, diff(string(want), got))
	}
}

// diff shows the first lines that differ.
func diff(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return "line " + strings.Join([]string{a[i], b[i]}, "\n  is ")
		}
	}
	return "one is longer"
}
