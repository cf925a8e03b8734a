package module_test

import (
	"crypto/sha256"
	"testing"

	"github.com/forge-continuity/forge/sandbox"
	"github.com/forge-continuity/forge/sandbox/module"
)

func TestModuleIsThePinnedOneAndRuns(t *testing.T) {
	wasm, err := module.Wasm()
	if err != nil {
		t.Fatal(err)
	}
	if sha256.Sum256(wasm) != module.Digest() {
		t.Fatal("digest")
	}
	h, err := sandbox.New(t.Context(), wasm, sandbox.Config{Warm: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(t.Context())
	if h.Digest() != module.Digest() {
		t.Error("the host's digest is another")
	}
}
