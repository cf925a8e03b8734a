package agentic

import (
	"strings"
	"testing"

	"github.com/forge-continuity/forge/adapters/agentic/catalogue"
	"github.com/forge-continuity/forge/adapters/wire"
)

// The table that usage is read by is of the price list that every registered source ran with, and the source's runtime, whose
// digest the catalogue has, names that package's wheel by its SHA-256.
func TestUsageTableIsThatOfTheSources(t *testing.T) {
	c, err := LoadCatalogue(catalogue.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if head, _, _ := strings.Cut(wire.UsageTable, "\n"); !strings.Contains(head, " "+c.UsageTable.Package+" "+c.UsageTable.Version+",") {
		t.Errorf("the catalogue names %+v, the table is %q", c.UsageTable, head)
	}
	for _, s := range c.Sources { // which load only with that version
		runtime, err := catalogue.File(s.RuntimeFile)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(runtime), c.UsageTable.Package) {
			t.Errorf("%s does not name the wheel of %s", s.RuntimeFile, c.UsageTable.Package)
		}
	}
}
