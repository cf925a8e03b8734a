package main

import (
	"io/fs"
	"os"
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

// PostgreSQL and the controller over it are qualified on a database of their own. With FORGE_QUALIFY_OUTPUT the reports stay there.
// BOUND-16 (the name), PREVIEW-06 (what the reports stand on).
func TestQualifyPostgreSQL(t *testing.T) {
	url := pgtest.Open(t)
	out := os.Getenv("FORGE_QUALIFY_OUTPUT")
	if out == "" {
		out = filepath.Join(t.TempDir(), "qualified")
	}
	var stdout, stderr strings.Builder
	if code := run(t.Context(), []string{"qualify", "--database-url", url, "--output", out, "--force"}, &stdout, &stderr); code != exitDone {
		t.Fatalf("exit code %d\n%s%s", code, stdout.String(), stderr.String())
	}
	for _, name := range []string{models.QualificationPostgres, models.QualificationController, "store-postgres"} {
		data, err := os.ReadFile(filepath.Join(out, name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if r, err := models.ReadQualification(data); err != nil || r.Kind != name || r.Store != "postgres" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
