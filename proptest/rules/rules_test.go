package rules

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var update = flag.Bool("update", false, "write docs/rules.md anew")

const studio = "Studio is not built yet"

// open are the rules without a test, each with its reason. What is left at the end waits for Studio.
var open = map[string]string{
	"STUDIO-01": studio, "STUDIO-02": studio, "STUDIO-03": studio, "STUDIO-04": studio, "STUDIO-05": studio,
	"STUDIO-06": studio, "STUDIO-07": studio, "STUDIO-08": studio, "STUDIO-09": studio, "STUDIO-10": studio,
	"START-05": studio, "START-09": studio,
}

func TestEveryRuleHasATest(t *testing.T) {
	rules, c, err := Load("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range Faults(rules, c, open) {
		t.Error(fault)
	}
}

// The document is made from the tests: go test ./proptest/rules -run Golden -update
func TestGoldenRulesDocument(t *testing.T) {
	rules, c, err := Load("../..")
	if err != nil {
		t.Fatal(err)
	}
	const name = "../../docs/rules.md"
	text := Document(rules, c, open)
	if *update {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(name); err != nil || string(have) != string(text) {
		t.Errorf("%s is not what the tests say; run ./task golden (%v)", name, err)
	}
}

// The set of ids is that of the numbered rules, where those stand beside the project.
func TestSameRulesAsNumbered(t *testing.T) {
	text, err := os.ReadFile("../../../shared/spec/rules.md")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the numbered rules are not beside this project")
	}
	if err != nil {
		t.Fatal(err)
	}
	rules, _, err := Load("../..")
	if err != nil {
		t.Fatal(err)
	}
	var have, want []string
	for _, r := range rules {
		have = append(have, r.ID)
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) == 5 && id.FindString(cells[1]) == strings.TrimSpace(cells[1]) && strings.TrimSpace(cells[1]) != "" {
			want = append(want, strings.TrimSpace(cells[1]))
			if sentence := strings.TrimSpace(cells[2]); slices.ContainsFunc(rules, func(r Rule) bool { return strings.Contains(sentence, r.Sentence) }) {
				t.Errorf("%s is said in the words of the numbered rules", cells[1])
			}
		}
	}
	if len(want) != 278 || !slices.Equal(have, want) {
		t.Errorf("%d rules here, %d numbered", len(have), len(want))
	}
}

// Each fault is found: a rule without a test, one that is open and has one, one that is open and is none, and a cited id that is
// none, in Go, Python and scripts.
func TestFindsFaults(t *testing.T) {
	rules, err := Read([]byte("# note\nFLOW-01\tOne.\nFLOW-02\tTwo.\nFLOW-03\tThree.\nFLOW-04\tFour.\n"))
	if err != nil {
		t.Fatal(err)
	}
	tree := fstest.MapFS{
		"a/a_test.go":     {Data: []byte("package a\n\n// FLOW-01: said.\nfunc TestA(t *testing.T) {}\n\n// FLOW-99\nvar x = \"FLOW-04\"\n")},
		"b/test_b.py":     {Data: []byte("# FLOW-03: above\n@pytest.mark.x\nasync def test_b():\n    pass\n\ndef helper():\n    # START-77\n    pass\n")},
		"c/testdata/c.go": {Data: []byte("// FLOW-02")},
		"c/c.txtar":       {Data: []byte("# CRED-100 is none")},
	}
	c, err := Scan(tree, rules)
	if err != nil {
		t.Fatal(err)
	}
	for name, place := range map[string]string{"FLOW-01": "a/a_test.go TestA", "FLOW-03": "b/test_b.py test_b", "FLOW-04": "a/a_test.go"} {
		if !slices.Equal(c.Places[name], []string{place}) {
			t.Errorf("%s is cited by %v", name, c.Places[name])
		}
	}
	want := []string{
		"FLOW-02 has no test: Two.", "FLOW-03 is open and has a test: b/test_b.py test_b", "OBS-01 is open and does not exist",
		"CRED-100 does not exist and is cited in c/c.txtar", "FLOW-99 does not exist and is cited in a/a_test.go",
		"START-77 does not exist and is cited in b/test_b.py",
	}
	if got := Faults(rules, c, map[string]string{"FLOW-03": "why", "OBS-01": "why"}); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, bad := range []string{"FLOW-1\tx.\n", "FLOW-01 x.\n", "FLOW-01\tno end\n"} {
		if _, err := Read([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
