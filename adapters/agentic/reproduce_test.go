package agentic

import (
	"bytes"
	"testing"
)

// The pending request is rendered from its checkpoint as the real SDK sent it, and so is the first one after a derived checkpoint,
// with no response served. REFUSED-26 (equal bytes), REFUSED-27.
func TestReproduce(t *testing.T) {
	h := openHeld(t, "2.55.0")
	var wire []byte
	for _, step := range h.rec.Steps {
		if step.Kind == "request" {
			wire = h.file(t, step.Wire)
		}
	}
	for what, c := range map[string]struct{ checkpoint, wire []byte }{
		"recorded": {h.checkpoint, wire}, "derived": {h.run(t).Derived, h.file(t, "next-request.wire")},
	} {
		result, got, refused := Reproduce(loadCatalogue(t), c.checkpoint)
		if refused != nil || len(result.Holds) > 0 || result.Served != 0 || result.Length != int64(len(got)) {
			t.Fatalf("%s: %+v %v", what, result, refused)
		}
		if !bytes.Equal(got, c.wire) {
			t.Errorf("%s: other bytes\n%.200s\n%.200s", what, got, c.wire)
		}
	}
	// One changed setting gives other bytes, and a record that is none gives a hold and no bytes.
	changed := h.edit(t, "/contract/model/name", set(`"another-model"`))
	if _, got, _ := Reproduce(loadCatalogue(t), changed.checkpoint); bytes.Equal(got, wire) {
		t.Error("another model gives the same bytes")
	}
	result, got, refused := Reproduce(loadCatalogue(t), []byte(`{}`))
	if refused != nil || got != nil || len(result.Holds) == 0 || result.Length != 0 {
		t.Errorf("%+v %v", result, refused)
	}
}
