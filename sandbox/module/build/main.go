// Command build makes sandbox/module/guest.wasm.gz and guest.sha256 from sandbox/guest:
//
//	go run ./sandbox/module/build
//
// It needs the Go release that go.mod pins and nothing else. A new module is a new identity of the installed migration
// code: every profile that pins the old digest stops being current.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/forge-continuity/forge/sandbox/internal/guestbuild"
)

const guest = "./sandbox/guest"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func run() error {
	root, err := guestbuild.Root()
	if err != nil {
		return err
	}
	m, err := guestbuild.Build(root, guest)
	if err != nil {
		return err
	}
	packed, err := compress(m.Wasm)
	if err != nil {
		return err
	}
	sum := fmt.Sprintf("%x  -\n", sha256.Sum256(m.Wasm))
	dir := filepath.Join(root, "sandbox", "module")
	if err := os.WriteFile(filepath.Join(dir, "guest.wasm.gz"), packed, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "guest.sha256"), []byte(sum), 0o644); err != nil {
		return err
	}
	fmt.Printf("%s%d bytes, %d compressed; sealed: %s\n", sum, len(m.Wasm), len(packed), strings.Join(m.Names, " "))
	return nil
}

// compress writes no name and no time, so that the file follows from the module.
func compress(wasm []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(wasm); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
