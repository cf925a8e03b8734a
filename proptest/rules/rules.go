// Package rules compares docs/rule-ids.txt, the numbered rules that Forge builds to, with the tests that cite them. A test
// cites a rule by its id, in its comment or its body, and only if it fails when the rule is broken.
package rules

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Rule is one line of docs/rule-ids.txt.
type Rule struct{ ID, Sentence string }

var (
	id       = regexp.MustCompile(`\b(?:PREVIEW|ELIG|OBS|SDK|REC|EPOCH|FLOW|NOCLAIM|REFUSED|ROBS|BOUND|START|STUDIO|CRED)-[0-9]{2}\b`)
	idShaped = regexp.MustCompile(`\b(?:PREVIEW|ELIG|OBS|SDK|REC|EPOCH|FLOW|NOCLAIM|REFUSED|ROBS|BOUND|START|STUDIO|CRED)-[0-9]+\b`)
	pyTest   = regexp.MustCompile(`^(?:async )?def (test_\w+)`)
	pyOther  = regexp.MustCompile(`^(?:async def|def|class) (\w+)`)
)

// Read reads the list. Lines that begin with # are its own notes.
func Read(data []byte) ([]Rule, error) {
	var list []Rule
	for n, line := range strings.Split(strings.TrimRight(string(data), "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, sentence, ok := strings.Cut(line, "\t")
		if !ok || id.FindString(name) != name || !strings.HasSuffix(sentence, ".") {
			return nil, fmt.Errorf("line %d is not an id, a tab and one sentence", n+1)
		}
		list = append(list, Rule{name, sentence})
	}
	return list, nil
}

// Citations are the places that cite each id, sorted: a file with its test, such as "kernel/lease/lease_test.go TestOwn". Unknown
// holds ids that are shaped like a rule's and are none; every place is looked at, whatever the file is about.
type Citations struct {
	Places  map[string][]string
	Unknown map[string][]string
}

// Scan looks at every test under root: Go tests, Python tests, and the scripts of testscript. Folders that begin with a dot or are
// named testdata are left out but for the scripts in them.
func Scan(root fs.FS, rules []Rule) (*Citations, error) {
	known := map[string]bool{}
	for _, r := range rules {
		known[r.ID] = true
	}
	c := &Citations{map[string][]string{}, map[string][]string{}}
	add := func(text, place string) {
		for _, name := range idShaped.FindAllString(text, -1) {
			into := c.Places
			if !known[name] {
				into = c.Unknown
			}
			if !slices.Contains(into[name], place) {
				into[name] = append(into[name], place)
			}
		}
	}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "node_modules"):
			return fs.SkipDir
		case d.IsDir() || name == "proptest/rules/rules_test.go":
			return nil
		}
		var scan func(string, []byte, func(text, place string)) error
		switch {
		case strings.HasSuffix(base, "_test.go"):
			scan = scanGo
		case strings.HasPrefix(base, "test_") && strings.HasSuffix(base, ".py"):
			scan = scanPython
		case strings.HasSuffix(base, ".txtar"):
			scan = func(name string, data []byte, add func(text, place string)) error {
				add(string(data), name)
				return nil
			}
		default:
			return nil
		}
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		return scan(name, data, add)
	})
	for _, places := range c.Places {
		slices.Sort(places)
	}
	return c, err
}

// scanGo gives each declaration its own comment and body. Only tests, fuzz targets, examples and benchmarks are run; what stands in
// a table or a helper counts for its file.
func scanGo(name string, data []byte, add func(text, place string)) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, data, parser.ParseComments)
	if err != nil {
		return err
	}
	offset := func(p token.Pos) int { return files.Position(p).Offset }
	rest := bytes.Clone(data)
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !runs(f.Name.Name) {
			continue
		}
		from, to := offset(f.Pos()), offset(f.End())
		if f.Doc != nil {
			from = offset(f.Doc.Pos())
		}
		add(string(data[from:to]), name+" "+f.Name.Name)
		for i := from; i < to; i++ {
			rest[i] = ' '
		}
	}
	add(string(rest), name)
	return nil
}

func runs(name string) bool {
	return strings.HasPrefix(name, "Test") && name != "TestMain" || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Example")
}

// scanPython gives lines to the test that they stand in, and comments right above a test to that test.
func scanPython(name string, data []byte, add func(text, place string)) error {
	lines := strings.Split(string(data), "\n")
	place := make([]string, len(lines))
	now := name
	for i, line := range lines {
		if m := pyTest.FindStringSubmatch(line); m != nil {
			now = name + " " + m[1]
			for j := i - 1; j >= 0 && (strings.HasPrefix(lines[j], "#") || strings.HasPrefix(lines[j], "@")); j-- {
				place[j] = now
			}
		} else if pyOther.MatchString(line) {
			now = name
		}
		place[i] = now
	}
	for i, line := range lines {
		add(line, place[i])
	}
	return nil
}

// Document is docs/rules.md.
func Document(rules []Rule, c *Citations, open map[string]string) []byte {
	var b bytes.Buffer
	fmt.Fprint(&b, "# Which test holds which rule\n\nMade by ./task golden from the tests themselves; do not edit. The rules are those of [rule-ids.txt](rule-ids.txt). A test\n"+
		"cites a rule by its id and fails when the rule is broken. Open rules have no test yet, for the reason given.\n")
	group := ""
	for _, r := range rules {
		if g, _, _ := strings.Cut(r.ID, "-"); g != group {
			group = g
			fmt.Fprintf(&b, "\n## %s\n\n| rule | what it says | tests |\n|---|---|---|\n", group)
		}
		var tests []string
		for _, place := range c.Places[r.ID] {
			file, test, ok := strings.Cut(place, " ")
			if ok {
				tests = append(tests, fmt.Sprintf("`%s` in %s", test, file))
			} else {
				tests = append(tests, file)
			}
		}
		if why, ok := open[r.ID]; ok {
			tests = append(tests, "open: "+why)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.ID, r.Sentence, strings.Join(tests, "<br>"))
	}
	return b.Bytes()
}

// Faults are what the check fails for: a rule without a test that is not open, an open rule that has one, an open rule that does
// not exist, and a cited id that does not exist.
func Faults(rules []Rule, c *Citations, open map[string]string) []string {
	var out []string
	known := map[string]bool{}
	for _, r := range rules {
		if known[r.ID] {
			out = append(out, r.ID+" is listed twice")
		}
		known[r.ID] = true
		_, isOpen := open[r.ID]
		switch cited := len(c.Places[r.ID]) > 0; {
		case !cited && !isOpen:
			out = append(out, r.ID+" has no test: "+r.Sentence)
		case cited && isOpen:
			out = append(out, r.ID+" is open and has a test: "+c.Places[r.ID][0])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(open)) {
		if !known[name] {
			out = append(out, name+" is open and does not exist")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Unknown)) {
		out = append(out, name+" does not exist and is cited in "+strings.Join(c.Unknown[name], ", "))
	}
	return out
}

// Load reads the list and the citations of the tree at root.
func Load(root string) ([]Rule, *Citations, error) {
	data, err := os.ReadFile(path.Join(root, "docs/rule-ids.txt"))
	if err != nil {
		return nil, nil, err
	}
	rules, err := Read(data)
	if err != nil {
		return nil, nil, err
	}
	c, err := Scan(os.DirFS(root), rules)
	return rules, c, err
}
