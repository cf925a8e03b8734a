// Package guestbuild makes a sandbox module from Go source: compile, seal, meter. The build command of sandbox/module
// and the tests share it.
package guestbuild

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/forge-continuity/forge/sandbox/meter"
)

// Toolchain is the Go release that guests are built with: the one that go.mod pins. Another release compiles other bytes.
const Toolchain = "go1.26.8"

// Compile builds the package dir (a path relative to root, "./...") as a wasip1 reactor and returns the module, neither
// sealed nor metered. root is a checkout of this repository. The result depends on the sources and the toolchain only:
// no path, version control or build id is in it, and settings of the caller's environment that change code are cleared.
func Compile(root, dir string) ([]byte, error) {
	tmp, err := os.MkdirTemp("", "forge-guest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	file := filepath.Join(tmp, "guest.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-mod=readonly",
		"-ldflags", "-s -w -buildid=", "-o", file, dir)
	cmd.Dir = root
	cmd.Env = environment(os.Environ())
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile guest %s: %w\n%s", dir, err, bytes.TrimSpace(out))
	}
	return os.ReadFile(file)
}

func environment(env []string) []string {
	var out []string
	for _, e := range env {
		switch name, _, _ := strings.Cut(e, "="); name {
		case "GOFLAGS", "GOEXPERIMENT", "GOWASM", "GODEBUG", "GOFIPS140", "GOWORK", "GOOS", "GOARCH", "GOTOOLCHAIN",
			"GO_EXTLINK_ENABLED", "GCFLAGS", "CGO_ENABLED":
		default:
			out = append(out, e)
		}
	}
	return append(out, "GOFLAGS=", "GOWORK=off", "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOTOOLCHAIN="+Toolchain)
}

// Module is a finished module and what was sealed in it.
type Module struct {
	Wasm   []byte   // metered
	Sealed []byte   // before metering, for measurements
	Names  []string // WASI functions that were replaced
}

// Build compiles, seals and meters.
func Build(root, dir string) (Module, error) {
	raw, err := Compile(root, dir)
	if err != nil {
		return Module{}, err
	}
	sealed, names, err := meter.Seal(raw)
	if err != nil {
		return Module{}, fmt.Errorf("seal guest %s: %w", dir, err)
	}
	metered, err := meter.Meter(sealed)
	if err != nil {
		return Module{}, fmt.Errorf("meter guest %s: %w", dir, err)
	}
	return Module{Wasm: metered, Sealed: sealed, Names: names}, nil
}

// Root finds the checkout that the working directory is in.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod above the working directory")
		}
	}
}
