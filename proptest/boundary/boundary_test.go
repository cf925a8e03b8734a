package boundary

import (
	"strings"
	"testing"
)

func TestTree(t *testing.T) {
	found, files, err := CheckTree("../..")
	if err != nil {
		t.Fatal(err)
	}
	if files < 40 {
		t.Fatalf("only %d files were looked at, so the walk is wrong", files)
	}
	for _, v := range found {
		t.Error(v)
	}
}

// TestRefuses shows that each line of the table can fail: the sources are what it is there to keep out.
func TestRefuses(t *testing.T) {
	for _, c := range []struct{ file, body, want string }{
		{"models/x.go", `import "os"`, "imports os"},
		{"models/x.go", `import "time"`, "imports time"},
		{"models/x.go", `import "encoding/json"`, "imports encoding/json"},
		{"models/x.go", `import _ "github.com/forge-continuity/forge/kernel"`, "imports kernel"},
		{"models/canon/x.go", `import _ "github.com/forge-continuity/forge/models"`, "imports models"},
		{"models/guestabi/x.go", `import _ "github.com/forge-continuity/forge/models"`, "imports models"},
		{"models/x.go", `func f() { go f() }`, "goroutine"},
		{"kernel/x.go", `import _ "maps"`, "imports maps"},
		{"kernel/x.go", `import _ "os"`, "imports os"},
		{"kernel/x.go", `import _ "math/rand"`, "imports math/rand"},
		{"kernel/x.go", `import . "strings"`, "with a dot"},
		{"kernel/x.go", `import _ "context"`, "imports context"},
		{"kernel/x.go", `import _ "sync"`, "imports sync"},
		{"kernel/x.go", `import "time"; var x = time.Now()`, "clock"},
		{"kernel/x.go", `import _ "github.com/forge-continuity/forge/server/engine"`, "imports server/engine"},
		{"kernel/x.go", `import _ "github.com/forge-continuity/forge/adapters/pyjson"`, "imports adapters/pyjson"},
		{"kernel/x.go", `import _ "github.com/jackc/pgx/v5"`, "imports github.com/jackc/pgx/v5"},
		{"kernel/x.go", `import _ "github.com/cespare/xxhash/v3"`, "imports github.com/cespare/xxhash/v3"},
		{"kernel/custody/x.go", `var x map[string]int`, "map type"},
		{"kernel/custody/x.go", `func f() { go f() }`, "goroutine"},
		{"kernel/custody/x.go", `func f() { select {} }`, "selects"},
		{"kernel/custody/x.go", `func f(c chan int) {}`, "channel type"},
		{"kernel/custody/x.go", `func f(c T) { c <- 1 }`, "sends"},
		{"kernel/custody/x.go", `func f(c T) { <-c }`, "receives"},
		{"kernel/custody/x.go", `var x float64`, "float64"},
		{"kernel/custody/x.go", `var x = 1.5`, "constant 1.5"},
		{"kernel/custody/x.go", `var x = 1e3`, "constant 1e3"},
		{"kernel/custody/x.go", `import "C"`, "imports C"},
		{"sandbox/x.go", `import _ "github.com/forge-continuity/forge/adapters/agentic"`, "imports adapters/agentic"},
		{"sandbox/x.go", `import _ "github.com/forge-continuity/forge/kernel"`, "imports kernel"},
		{"sandbox/guest/x.go", `import _ "github.com/forge-continuity/forge/models"`, "imports models"},
		{"sandbox/guest/x.go", `import _ "os"`, "imports os"},
		{"sandbox/guest/x.go", `import _ "net/http"`, "imports net/http"},
		{"sandbox/module/x.go", `import _ "github.com/forge-continuity/forge/adapters/agentic"`, "imports adapters/agentic"},
		{"sandbox/meter/x.go", `import _ "os"`, "imports os"},
		{"adapters/pyjson/x.go", `import _ "github.com/forge-continuity/forge/models"`, "imports models"},
		{"adapters/agentic/x.go", `import _ "github.com/forge-continuity/forge/server/engine"`, "imports server/engine"},
		{"adapters/agentic/catalogue/x.go", `import _ "os"`, "imports os"},
		{"adapters/openai/x.go", `import _ "net/http"`, "imports net/http"},
		{"adapters/pydanticai/x.go", `import "time"; var x = time.Now()`, "clock"},
		{"adapters/sqlite/x.go", `import _ "github.com/forge-continuity/forge/kernel"`, "imports kernel"},
		{"adapters/sqlite/x.go", `import _ "github.com/jackc/pgx/v5"`, "imports github.com/jackc/pgx/v5"},
		{"adapters/postgres/x.go", `import _ "modernc.org/sqlite"`, "imports modernc.org/sqlite"},
		{"adapters/conformance/x.go", `import _ "github.com/forge-continuity/forge/adapters/sqlite"`, "imports adapters/sqlite"},
		{"server/engine/x.go", `import _ "github.com/forge-continuity/forge/adapters/sqlite"`, "imports adapters/sqlite"},
		{"server/engine/x.go", `import _ "github.com/forge-continuity/forge/sandbox"`, "imports sandbox"},
		{"server/engine/x.go", `import _ "github.com/gofiber/fiber/v2"`, "imports github.com/gofiber/fiber/v2"},
		{"server/api/x.go", `import _ "github.com/forge-continuity/forge/kernel"`, "imports kernel"},
		{"server/studio/x.go", `import _ "github.com/forge-continuity/forge/adapters/postgres"`, "imports adapters/postgres"},
		{"server/api/x.go", `func f(c T) { c.Body() }`, "Body"},
		{"server/api/x.go", `func f(c T) { c.BodyParser(nil) }`, "BodyParser"},
		{"server/api/x.go", `func f(c T) { c.Request().Body() }`, "Body"},
		{"server/api/x.go", `func f(c T) { c.Context().RequestBodyStream() }`, "RequestBodyStream"},
		{"server/studio/body.go", `func f(c T) { c.Body() }`, "Body"},
		{"adapters/sealed/x.go", `import _ "github.com/forge-continuity/forge/adapters/agentic"`, "imports adapters/agentic"},
		{"adapters/sealed/internal/native/x.go", `import _ "github.com/forge-continuity/forge/kernel"`, "imports kernel"},
		{"clients/go/x.go", `import _ "github.com/forge-continuity/forge/kernel"`, "imports kernel"},
		{"clients/go/x.go", `import _ "github.com/forge-continuity/forge/server/engine"`, "imports server/engine"},
		{"util/x.go", ``, "no zone"},
	} {
		found, err := CheckFile(c.file, []byte("package x\n"+c.body+"\n"))
		if err != nil {
			t.Errorf("%s: %q: %v", c.file, c.body, err)
			continue
		}
		said := ""
		for _, v := range found {
			said += v.String() + "\n"
		}
		if !strings.Contains(said, c.want) {
			t.Errorf("%s: %q was let through or refused for another reason, want %q, got %q", c.file, c.body, c.want, said)
		}
	}
}

// TestAllows keeps the table from refusing what the design asks for.
func TestAllows(t *testing.T) {
	for _, c := range []struct{ file, body string }{
		{"models/x.go", `import _ "github.com/forge-continuity/forge/models/canon"`},
		{"kernel/x.go", `import _ "github.com/cespare/xxhash/v2"; import _ "github.com/forge-continuity/forge/kernel/custody"`},
		{"kernel/x.go", `func f[T any](x []T) int { return len(x) }`},
		{"adapters/agentic/x.go", `import _ "github.com/forge-continuity/forge/adapters/pydanticai"`},
		{"adapters/postgres/x.go", `import _ "github.com/jackc/pgx/v5/pgxpool"`},
		{"server/api/x.go", `func f(c T) { c.Response().Body(); c.BodyLimit() }`},
		{BodyFile, `func f(c T) { c.Context().RequestBodyStream() }`},
		{"cmd/forge/x.go", `import _ "github.com/forge-continuity/forge/adapters/postgres"; import _ "github.com/spf13/cobra"`},
	} {
		found, err := CheckFile(c.file, []byte("package x\n"+c.body+"\n"))
		if err != nil || len(found) > 0 {
			t.Errorf("%s: %q is refused: %v %v", c.file, c.body, found, err)
		}
	}
	if _, err := CheckFile("models/x.go", []byte("package")); err == nil {
		t.Error("a file that does not parse passed")
	}
}
