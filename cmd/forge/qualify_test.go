package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/adapters/conformance"
	"github.com/forge-continuity/forge/adapters/postgres/pgtest"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/sandbox/module"
)

// What a report has to have is what is run: every chapter, and every check of the suite.
func TestQualificationAsksForWhatIsRun(t *testing.T) {
	var names []string
	for _, c := range chapters {
		names = append(names, c.name)
	}
	slices.Sort(names)
	if !slices.Equal(names, models.ControllerChecks) {
		t.Errorf("chapters %v", names)
	}
	if n := len(conformance.Checks()); n < models.StoreChecks {
		t.Errorf("the suite has %d checks, reports are to have %d", n, models.StoreChecks)
	}
}

// What this release carries are reports that qualify. One of another module is left out by forge qualify; it is said here, since a
// release is made with its own: ./task qualify.
func TestCarriedReports(t *testing.T) {
	files, err := fs.Glob(carried, "reports/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := carried.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		var of models.Digest
		if name == models.QualificationSDK {
			var r models.SDKReport
			r, err = models.ReadSDKReport(data)
			of = r.Module
		} else {
			var r models.QualificationReport
			r, err = models.ReadQualification(data)
			of = r.Module
			if err == nil && r.Kind != name {
				t.Errorf("%s is of %s", file, r.Kind)
			}
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if of != module.Digest() {
			t.Logf("%s is of module %s and not of this one: ./task qualify makes it anew", file, short(of))
		}
	}
}

// PostgreSQL and the controller over it are qualified on a database of their own, the demo among it. With FORGE_QUALIFY_OUTPUT the
// reports stay there, as those of a release, and the API suite and the tests that kill, cut and fail over are run on PostgreSQL too;
// the report names each that passed. BOUND-16 (the name), PREVIEW-06 (what the reports stand on).
func TestQualifyPostgreSQL(t *testing.T) {
	url := pgtest.Open(t)
	out := os.Getenv("FORGE_QUALIFY_OUTPUT")
	var suites []models.QualificationCheck
	if out == "" {
		out = filepath.Join(t.TempDir(), "qualified")
	} else {
		suites = append(suite(t, "api", "../../server/api", "/postgres"),
			suite(t, "faults", "../../proptest/faults", "Killed|Cut|Zombies|RunsOut|FourServers|ComeAndGo|Failover|PointInTime/postgres")...)
	}
	var stderr strings.Builder
	q := &qualification{out: out, force: true, id: "profile-" + release, progress: &stderr, suites: suites}
	if err := q.run(t.Context(), storeFlags{url: url}); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	for _, name := range []string{models.QualificationPostgres, models.QualificationController, "store-postgres"} {
		data, err := os.ReadFile(filepath.Join(out, name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := models.ReadQualification(data)
		if err != nil || r.Kind != name || r.Store != "postgres" {
			t.Errorf("%s: %v", name, err)
		}
		for _, c := range chapters {
			told := slices.Contains(r.Checks, models.QualificationCheck{Name: "demo: " + c.name, Passed: true})
			if told != (name == models.QualificationPostgres) {
				t.Errorf("%s has the chapter %s of the demo: %t", name, c.name, told)
			}
		}
	}
	// With the release's report of the SDK nothing is missing for retained work, as long as that report is of this module.
	sdk, err := carried.ReadFile("reports/" + models.QualificationSDK + ".json")
	if err != nil {
		t.Fatal(err)
	}
	report, err := models.ReadSDKReport(sdk)
	if err != nil {
		t.Fatal(err)
	}
	if complete := len(q.missing) == 0; complete != (report.Module == module.Digest()) {
		t.Errorf("report of module %s, missing: %v", short(report.Module), q.missing)
	}
}

// suite runs the tests of a package that -run names and returns each that ran on PostgreSQL: one that has no stores below it, or its
// part on PostgreSQL. One that was skipped did not run and is a failure: such a report says nothing about it.
func suite(t *testing.T, name, dir, pattern string) []models.QualificationCheck {
	t.Helper()
	cmd := exec.Command("go", "test", "-json", "-count=1", "-timeout=60m", "-run", pattern, dir)
	cmd.Env = append(cmd.Environ(), "CI=true") // without a server they fail
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s: %v", dir, err)
	}
	checks := suiteChecks(t, name, out)
	if len(checks) == 0 {
		t.Fatalf("no test of %s ran on PostgreSQL", dir)
	}
	return checks
}

func suiteChecks(t *testing.T, name string, out []byte) []models.QualificationCheck {
	t.Helper()
	ended := map[string]string{}
	stores := map[string]bool{} // tests that have stores below them
	for line := range bytes.Lines(out) {
		var e struct{ Action, Test string }
		if err := json.Unmarshal(line, &e); err != nil || e.Test == "" {
			continue
		}
		switch e.Action {
		case "pass", "fail", "skip":
			ended[e.Test] = e.Action
		}
		if top, below, ok := strings.Cut(e.Test, "/"); ok && (below == "postgres" || below == "sqlite") {
			stores[top] = true
		}
	}
	var checks []models.QualificationCheck
	for test, how := range ended {
		top, below, _ := strings.Cut(test, "/")
		if stores[top] && below == "postgres" || !stores[top] && below == "" && name != "api" {
			checks = append(checks, models.QualificationCheck{Name: name + ": " + top, Passed: how == "pass"})
		}
	}
	return checks
}

// A test counts where it ran on PostgreSQL to its end, by its part on it where it has one for each store.
func TestSuiteChecks(t *testing.T) {
	out := `{"Action":"run","Test":"TestA"}
{"Action":"pass","Test":"TestA/sqlite"}
{"Action":"fail","Test":"TestA/postgres"}
{"Action":"pass","Test":"TestB/postgres/more"}
{"Action":"pass","Test":"TestB/postgres"}
{"Action":"pass","Test":"TestB"}
{"Action":"skip","Test":"TestC"}
{"Action":"pass","Test":"TestD"}
{"Action":"pass"}
`
	for name, want := range map[string]string{
		"faults": "[{faults: TestA false} {faults: TestB true} {faults: TestC false} {faults: TestD true}]",
		"api":    "[{api: TestA false} {api: TestB true}]",
	} {
		got := suiteChecks(t, name, []byte(out))
		slices.SortFunc(got, func(a, b models.QualificationCheck) int { return strings.Compare(a.Name, b.Name) })
		if fmt.Sprint(got) != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
}
