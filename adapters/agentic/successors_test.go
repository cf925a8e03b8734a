package agentic

import (
	"bytes"
	"slices"
	"testing"

	"github.com/forge-continuity/forge/adapters/agentic/catalogue"
)

// A second source of a class is let in only where the class and its schema are those of the first; around the class it may differ,
// which is what makes it another source. CRED-02.
func TestSuccessorKeepsTheClass(t *testing.T) {
	c := *loadCatalogue(t)
	first := c.Validators[0]
	source, err := catalogue.File(first.Source)
	if err != nil {
		t.Fatal(err)
	}
	try := func(change func([]byte) []byte, rule func(*Rule)) error {
		text := change(bytes.Clone(source))
		next := first
		next.Source, next.SourceSHA256 = "validators/next.py", sha256Hex(text)
		next.Rule.Members = slices.Clone(first.Rule.Members)
		if rule != nil {
			rule(&next.Rule)
		}
		with := c
		with.Validators = []Validator{first, next}
		return with.checkSuccessors(func(name string) ([]byte, error) {
			if name == next.Source {
				return text, nil
			}
			return catalogue.File(name)
		})
	}
	same := func(b []byte) []byte { return b }
	for name, change := range map[string]func([]byte) []byte{
		"a comment before it": func(b []byte) []byte { return append([]byte("# reviewed\n"), b...) },
		"a class after it":    func(b []byte) []byte { return append(b, "\n\nclass Other:\n    pass\n"...) },
		"nothing":             same,
	} {
		if err := try(change, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func([]byte) []byte{
		"a member":        func(b []byte) []byte { return bytes.Replace(b, []byte("    page_size:"), []byte("    size:"), 1) },
		"a default":       func(b []byte) []byte { return bytes.Replace(b, []byte("= 10"), []byte("= 11"), 1) },
		"a line more":     func(b []byte) []byte { return append(b, "    more: int = 1\n"...) },
		"another base":    func(b []byte) []byte { return bytes.Replace(b, []byte("(BaseModel)"), []byte("(object)"), 1) },
		"no class at all": func(b []byte) []byte { return []byte("x = 1\n") },
	} {
		if bytes.Equal(change(bytes.Clone(source)), source) {
			t.Fatalf("%s changes nothing", name)
		}
		if err := try(change, nil); err == nil {
			t.Errorf("%s: taken as a successor", name)
		}
	}
	if err := try(func(b []byte) []byte { return append([]byte("# x\n"), b...) }, func(r *Rule) { r.Members = r.Members[1:] }); err == nil {
		t.Error("another schema: taken as a successor")
	}
}
