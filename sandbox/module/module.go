// Package module holds the one current guest module: sandbox/guest compiled, sealed and metered, compressed with gzip, and
// the SHA-256 it is pinned by. The digest is of the module as it runs, after metering and before compression, so
//
//	gunzip -c guest.wasm.gz | sha256sum -c guest.sha256
//
// proves the file without this program. `go run ./sandbox/module/build` makes both files; its test makes the module again
// and compares, from this checkout and from a copy elsewhere.
package module

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

//go:embed guest.*
var files embed.FS

// maxWasm bounds what decompressing may give. The module has about 6 MB.
const maxWasm = 64 << 20

// Digest is the pinned SHA-256 of the module.
func Digest() [32]byte {
	pinned, err := files.ReadFile("guest.sha256")
	if err != nil {
		panic(err) // go:embed would have failed
	}
	text, _, _ := strings.Cut(string(pinned), " ")
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != sha256.Size {
		panic("sandbox/module: guest.sha256 is not a digest") // a broken checkout, found by any test
	}
	return [32]byte(b)
}

// Wasm returns the module, or an error when it is not the pinned one. Each call decompresses it, which takes about 30 ms.
func Wasm() ([]byte, error) {
	compressed, err := files.ReadFile("guest.wasm.gz")
	if err != nil {
		return nil, fmt.Errorf("no module in this build, make it with go run ./sandbox/module/build: %w", err)
	}
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, fmt.Errorf("open guest.wasm.gz: %w", err)
	}
	wasm, err := io.ReadAll(io.LimitReader(r, maxWasm))
	if err != nil {
		return nil, fmt.Errorf("read guest.wasm.gz: %w", err)
	}
	if got, want := sha256.Sum256(wasm), Digest(); got != want {
		return nil, fmt.Errorf("guest.wasm.gz has digest %x, pinned is %x", got, want)
	}
	return wasm, nil
}
