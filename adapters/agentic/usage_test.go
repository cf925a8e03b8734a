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
	for _, s := range c.Sources {
		version := s.Dependencies["genai-prices"]
		if head, _, _ := strings.Cut(wire.UsageTable, "\n"); version == "" || !strings.Contains(head, "genai-prices "+version+",") {
			t.Errorf("source %s ran with genai-prices %q, the table is %q", s.DependencyEpoch, version, head)
		}
		runtime, err := catalogue.File(s.RuntimeFile)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(runtime), "genai-prices") {
			t.Errorf("%s does not name the wheel of genai-prices", s.RuntimeFile)
		}
	}
}
