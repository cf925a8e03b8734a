// Package boundary holds the directions of the code as a table, and a checker for it.
//
// It looks at direct imports and at the syntax tree of each file, test files excepted: fmt and crypto/sha256 reach os and
// time on their own, so a list of everything a package reaches would say nothing.
package boundary

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Module is the path of our module; imports below it are written without it in the table.
const Module = "github.com/forge-continuity/forge/"

// Zone says what the packages of some folders may import, and why.
type Zone struct {
	// Dirs are folders, slash-separated from the root; "a/..." is a and all below. The first zone that has a folder rules it.
	Dirs []string
	// Std are packages of the standard library, "*" for any, "name/..." for a tree.
	Std []string
	// Own are packages of this module, "*" for any.
	Own []string
	// Libs are module paths of others; their packages are included.
	Libs []string
	// Ban are names of syntax rules (see syntax.go).
	Ban []string
	// Why is printed with each violation.
	Why string
}

// pure is the part of the standard library that computes and does nothing else.
var pure = []string{"bytes", "cmp", "crypto/sha256", "encoding/binary", "encoding/hex", "errors", "fmt", "hash", "iter", "slices", "sort",
	"strconv", "strings"}

// codecStd is what a codec of other people's bytes may use besides: text, numbers, embedded files, tables made once
// (sync), and the checksums that foreign formats carry.
var codecStd = slices.Concat(pure, []string{"crypto/sha1", "embed", "encoding/base64", "hash/crc32", "io/fs", "math", "math/big", "math/bits", "path", "regexp",
	"sync", "time", "unicode", "unicode/utf16", "unicode/utf8"})

// codecs run inside the guest, and natively in its differential tests.
var codecs = []string{"adapters/pyjson", "adapters/pydanticai", "adapters/openai", "adapters/agentic", "adapters/agentic/catalogue",
	"adapters/agentic/schema", "adapters/wire", "adapters/anthropic", "adapters/google", "adapters/bedrock"}

// Zones is the table of style, section 1. A folder with Go files that stands in no zone is itself a violation.
var Zones = []Zone{
	{
		Dirs: []string{"models/canon"}, Std: pure, Libs: []string{"github.com/go-json-experiment/json"}, Ban: []string{"now", "go"},
		Why: "forge-cjson/1 is the text of rows and of guest headers, so it depends on nothing but a JSON tokenizer",
	},
	{
		Dirs: []string{"models/guestabi"}, Std: pure, Own: []string{"models/canon"}, Ban: []string{"now", "go"},
		Why: "the guest shares this file, and an unrelated change of models must not change the guest module's digest",
	},
	{
		Dirs: []string{"models"}, Std: pure, Own: []string{"models/canon"}, Ban: []string{"now", "go"},
		Why: "models is the leaf vocabulary: everything may import it, so it may import almost nothing",
	},
	{
		Dirs: []string{"kernel/..."}, Std: pure, Own: []string{"models", "models/canon", "kernel/..."}, Libs: []string{"github.com/cespare/xxhash/v2"},
		Ban: []string{"now", "go", "select", "chan", "map", "float"},
		Why: "Decide, Evolve and Replay must give the same bytes on every machine for ever: no I/O, clock, randomness, goroutine, float or map order",
	},
	{
		Dirs: codecs, Std: codecStd,
		Own:  slices.Concat([]string{"models/canon", "models/guestabi"}, codecs),
		Libs: []string{"github.com/santhosh-tekuri/jsonschema/v6", "github.com/go-json-experiment/json"}, Ban: []string{"now", "go"},
		Why: "codecs are pure functions of bytes that also run in the guest; importing models would tie the module's digest to unrelated commits",
	},
	{
		Dirs: []string{"sandbox/guest"}, Std: slices.Concat(codecStd, []string{"unsafe", "runtime", "runtime/debug"}),
		Own: slices.Concat([]string{"models/canon", "models/guestabi"}, codecs), Ban: []string{"now", "go"},
		Why: "the guest reaches no file, socket, environment or clock, and is built from canon, the ABI and the codecs alone",
	},
	{
		Dirs: []string{"sandbox/meter"}, Std: codecStd, Ban: []string{"now", "go"},
		Why: "the metered module is a pure function of the module, so that its digest can be rebuilt anywhere",
	},
	{
		Dirs: []string{"sandbox/internal/..."}, Std: []string{"*"}, Own: []string{"sandbox/...", "models/canon", "models/guestabi"},
		Why: "helpers of the sandbox's build and tests know the sandbox only",
	},
	{
		Dirs: []string{"sandbox/module/..."}, Std: []string{"*"}, Own: []string{"sandbox/..."}, Libs: []string{"github.com/klauspost/compress"},
		Why: "the embedded module is bytes and a digest; what is inside it is the guest's business",
	},
	{
		Dirs: []string{"sandbox"}, Std: []string{"*"}, Own: []string{"models", "models/canon", "models/guestabi", "sandbox/..."},
		Libs: []string{"github.com/tetratelabs/wazero", "github.com/klauspost/compress"},
		Why:  "the host runs a module it knows by digest and does not know what is computed inside; codecs would let it compute outside",
	},
	{
		Dirs: []string{"adapters/sqlite"}, Std: []string{"*"}, Own: []string{"models", "models/canon", "server/engine"},
		Libs: []string{"modernc.org/sqlite", "github.com/pressly/goose/v3"},
		Why:  "a store keeps what it is given: rules stay in the kernel, and one adapter knows one library",
	},
	{
		Dirs: []string{"adapters/postgres"}, Std: []string{"*"}, Own: []string{"models", "models/canon", "server/engine"},
		Libs: []string{"github.com/jackc/pgx/v5", "github.com/pressly/goose/v3", "github.com/klauspost/compress"},
		Why:  "a store keeps what it is given: rules stay in the kernel, and one adapter knows one library",
	},
	{
		Dirs: []string{"adapters/conformance"}, Std: []string{"*"}, Own: []string{"models", "models/canon", "server/engine"},
		Libs: []string{"pgregory.net/rapid"},
		Why:  "the suite asks of a store only what the engine asks, so it may not know any particular store",
	},
	{
		Dirs: []string{"server/engine"}, Std: []string{"*"}, Own: []string{"models", "models/canon", "kernel/..."},
		Why: "the shell declares the interfaces it needs; importing an adapter, the sandbox or a web library would turn the arrow round",
	},
	{
		Dirs: []string{"server/api", "server/studio"}, Std: []string{"*"}, Own: []string{"models", "models/canon", "server/engine", "server/api", "server/studio"},
		Libs: []string{"github.com/gofiber/fiber/v2", "github.com/valyala/fasthttp"}, Ban: []string{"body"},
		Why: "handlers parse, call one engine method and render; a rule or a query here would be a second place for it",
	},
	{
		Dirs: []string{"adapters/sealed"}, Std: []string{"*"},
		Own: []string{"models", "models/canon", "sandbox", "sandbox/module", "adapters/agentic/catalogue", "server/engine"},
		Why: "this joins host, module and catalogue to the engine's interface; a codec here would compute outside the sandbox",
	},
	{
		Dirs: []string{"adapters/secrets"}, Std: []string{"*"}, Own: []string{"models", "models/canon", "adapters/pyjson", "server/engine"},
		Libs: []string{"github.com/zricethezav/gitleaks/v8", "github.com/rs/zerolog"},
		Why:  "the heavy library for credential screening stays in a package of its own",
	},
	{
		Dirs: []string{"adapters/sealed/internal/native"}, Std: []string{"*"},
		Own: slices.Concat([]string{"models", "models/canon", "models/guestabi", "adapters/sealed", "server/engine"}, codecs),
		Why: "the guest's functions without the guest, for differential tests of what adapters/sealed does",
	},
	{
		Dirs: []string{"adapters/postgres/scratch"}, Std: []string{"*"}, Libs: []string{"github.com/jackc/pgx/v5"},
		Why: "tests and forge qualify share the one place that refuses a database with another name",
	},
	{
		Dirs: []string{"adapters/postgres/pgtest"}, Std: []string{"*"}, Own: []string{"adapters/postgres/scratch"}, Libs: []string{"*"},
		Why: "tests get a database from it; nothing else needs a container",
	},
	{
		Dirs: []string{"server/api/apitest"}, Std: []string{"*"}, Own: []string{"models", "models/canon", "kernel", "server/engine", "server/api"},
		Why: "tests start the API with it, over any store and any sandbox that they bring",
	},
	{
		Dirs: []string{"clients/..."}, Std: []string{"*"}, Own: []string{"models", "models/canon", "clients/..."},
		Why: "a client is used without the server's code: it knows the vocabulary and the documented API, no decision and no store",
	},
	{
		Dirs: []string{"cmd/...", "proptest/...", "fixtures/...", "scripts/..."}, Std: []string{"*"}, Own: []string{"*"}, Libs: []string{"*"},
		Why: "wiring and tests know every package",
	},
}

// Violation is one thing that the table does not allow.
type Violation struct {
	Where string // file:line from the root
	What  string
	Why   string
}

func (v Violation) String() string { return v.Where + ": " + v.What + "\n\twhy not: " + v.Why }

// CheckTree checks each Go file under root that is not a test file, outside testdata, hidden folders and nested modules.
// It also returns how many files it looked at.
func CheckTree(root string) ([]Violation, int, error) {
	var found []Violation
	files := 0
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if entry.IsDir() {
			base := entry.Name()
			if rel == "." {
				return nil
			}
			if base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
				return fs.SkipDir
			} else if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files++
		violations, err := CheckFile(rel, src)
		found = append(found, violations...)
		return err
	})
	return found, files, err
}

// CheckFile checks one file; name is its path from the root, with slashes.
func CheckFile(name string, src []byte) ([]Violation, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	zone, ok := zoneOf(path.Dir(name))
	if !ok {
		return []Violation{{name, "this folder stands in no zone", "a new folder needs a line in proptest/boundary that says what it may know"}}, nil
	}
	var found []Violation
	report := func(at token.Pos, what string) {
		position := set.Position(at)
		found = append(found, Violation{fmt.Sprintf("%s:%d", name, position.Line), what, zone.Why})
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("import in %s: %w", name, err)
		}
		if !zone.allows(imported) {
			report(spec.Pos(), "imports "+strings.TrimPrefix(imported, Module))
		}
		if spec.Name != nil && spec.Name.Name == "." {
			report(spec.Pos(), "imports "+imported+" with a dot, which hides from this check where names come from")
		}
	}
	for _, ban := range zone.Ban {
		check := syntax[ban]
		ast.Inspect(file, func(n ast.Node) bool {
			if what := check(name, n); what != "" {
				report(n.Pos(), what)
			}
			return true
		})
	}
	return found, nil
}

func zoneOf(dir string) (Zone, bool) {
	for _, z := range Zones {
		if matches(z.Dirs, dir) {
			return z, true
		}
	}
	return Zone{}, false
}

func (z Zone) allows(imported string) bool {
	if imported == "C" {
		return false
	}
	if own, ok := strings.CutPrefix(imported, Module); ok {
		return matches(z.Own, own)
	}
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") {
		return matches(z.Std, imported)
	}
	for _, lib := range z.Libs {
		if lib == "*" || imported == lib || strings.HasPrefix(imported, lib+"/") {
			return true
		}
	}
	return false
}

// matches reports whether name is one of the patterns: "*", a path, or "path/..." for a path and all below.
func matches(patterns []string, name string) bool {
	for _, p := range patterns {
		if p == "*" || p == name {
			return true
		}
		if tree, ok := strings.CutSuffix(p, "/..."); ok && (name == tree || strings.HasPrefix(name, tree+"/")) {
			return true
		}
	}
	return false
}
