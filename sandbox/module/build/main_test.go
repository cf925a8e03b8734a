package main

import (
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/sandbox/internal/guestbuild"
	"github.com/forge-continuity/forge/sandbox/meter"
	"github.com/forge-continuity/forge/sandbox/module"
)

func root(t *testing.T) string {
	t.Helper()
	dir, err := guestbuild.Root()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// The Go release that guestbuild asks for is the one in go.mod.
func TestToolchainIsThePinnedOne(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root(t), "go.mod"))
	if err != nil || !strings.Contains(string(b), "\ntoolchain "+guestbuild.Toolchain+"\n") {
		t.Fatalf("go.mod does not pin %s (%v)", guestbuild.Toolchain, err)
	}
}

// The committed module is what its sources give, here and in a copy of them at another path.
func TestRebuildGivesThePinnedModule(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: compiles the guest twice")
	}
	here := root(t)
	for _, dir := range []string{here, copySources(t, here)} {
		m, err := guestbuild.Build(dir, guest)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := sha256.Sum256(m.Wasm), module.Digest(); got != want {
			t.Fatalf("built %x, pinned %x: run go run ./sandbox/module/build", got, want)
		}
		facts, err := meter.Check(m.Wasm)
		if err != nil || facts.Unmetered != "" {
			t.Fatal(err, facts.Unmetered)
		}
	}
}

// copySources copies what the guest is compiled from to a folder of another name and depth.
func copySources(t *testing.T, from string) string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-f", `{{if .Module}}{{if .Module.Main}}{{$d := .Dir}}`+
		`{{range .GoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{range .EmbedFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{end}}{{end}}`, guest)
	cmd.Dir = from
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "some", "where", "else")
	files := []string{filepath.Join(from, "go.mod"), filepath.Join(from, "go.sum")}
	files = append(files, strings.Fields(string(out))...)
	if len(files) < 10 {
		t.Fatalf("only %v", files)
	}
	for _, file := range files {
		rel, err := filepath.Rel(from, file)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, rel)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, rel), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return to
}
