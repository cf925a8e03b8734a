package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/forge-continuity/forge/adapters/agentic"
	"github.com/forge-continuity/forge/adapters/agentic/catalogue"
	"github.com/forge-continuity/forge/fixtures/recordings"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/models/guestabi"
	"github.com/forge-continuity/forge/sandbox"
	"github.com/forge-continuity/forge/sandbox/internal/guestbuild"
	"pgregory.net/rapid"
)

// guest is the module made from the sources at hand; that the pinned one is the same is the rebuild check's to show.
func guest(t testing.TB) *sandbox.Host {
	t.Helper()
	root, err := guestbuild.Root()
	if err != nil {
		t.Fatal(err)
	}
	m, err := guestbuild.Build(root, "./sandbox/guest")
	if err != nil {
		t.Fatal(err)
	}
	h, err := sandbox.New(t.Context(), m.Wasm, sandbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(context.Background()) })
	return h
}

// native runs the same function outside, as one message in and one out.
func native(t interface{ Fatal(...any) }, function string, frames []sandbox.Frame, params canon.Raw) ([]sandbox.Frame, []byte, *sandbox.Refusal) {
	request := guestabi.Request{ABI: guestabi.Version, Function: function, Frames: []string{}, Params: params}
	var content [][]byte
	for _, f := range frames {
		request.Frames = append(request.Frames, f.Name)
		content = append(content, f.Bytes)
	}
	message, err := guestabi.Encode(request, content)
	if err != nil {
		t.Fatal(err)
	}
	var r guestabi.Response
	out, err := guestabi.Decode(agentic.Call(message), &r)
	if err != nil {
		t.Fatal(err)
	}
	if r.Refusal != nil {
		return nil, nil, &sandbox.Refusal{Code: r.Refusal.Code, Details: r.Refusal.Details}
	}
	var named []sandbox.Frame
	for i, name := range r.Frames {
		named = append(named, sandbox.Frame{Name: name, Bytes: out[i]})
	}
	return named, r.Result, nil
}

// same calls both and compares every byte of the answers.
func same(t interface {
	Fatal(...any)
	Fatalf(string, ...any)
}, h *sandbox.Host, function string, frames []sandbox.Frame, params canon.Raw) bool {
	wantFrames, wantResult, wantRefusal := native(t, function, frames, params)
	got, err := h.Call(context.Background(), function, frames, params)
	var refusal *sandbox.Refusal
	if err != nil && !errors.As(err, &refusal) {
		t.Fatal(err)
	}
	if (refusal == nil) != (wantRefusal == nil) {
		t.Fatalf("%s: native %v, sandboxed %v", function, wantRefusal, err)
	}
	if refusal != nil {
		want := wantRefusal.Details
		if want == nil {
			want = canon.Raw(`{}`)
		}
		if refusal.Code != wantRefusal.Code || !bytes.Equal(refusal.Details, want) {
			t.Fatalf("%s: native %s %s, sandboxed %s %s", function, wantRefusal.Code, want, refusal.Code, refusal.Details)
		}
		return false
	}
	if !bytes.Equal(got.ResultJSON, wantResult) || len(got.Frames) != len(wantFrames) {
		t.Fatalf("%s: native %s, sandboxed %s", function, wantResult, got.ResultJSON)
	}
	for i, f := range got.Frames {
		if f.Name != wantFrames[i].Name || !bytes.Equal(f.Bytes, wantFrames[i].Bytes) {
			t.Fatalf("%s: frame %s differs", function, f.Name)
		}
	}
	return true
}

// The last checkpoint of each recorded run, whole and damaged, read natively and in the sandbox: the same bytes or the same
// refusal.
func TestInspectNativeAndSandboxed(t *testing.T) {
	h := guest(t)
	for _, version := range recordings.Versions {
		recording, err := recordings.Held(version)
		if err != nil {
			t.Fatal(err)
		}
		checkpoint, err := recording.File("checkpoint-10.json")
		if err != nil {
			t.Fatal(err)
		}
		frames := func(checkpoint []byte) []sandbox.Frame {
			return []sandbox.Frame{{Name: "catalogue", Bytes: catalogue.Bytes()}, {Name: "checkpoint", Bytes: checkpoint}}
		}
		if !same(t, h, "inspect", frames(checkpoint), canon.Raw(`{}`)) {
			t.Errorf("%s: the recorded checkpoint is refused", version)
		}
		rapid.Check(t, func(t *rapid.T) {
			damaged := bytes.Clone(checkpoint)
			for range rapid.IntRange(1, 4).Draw(t, "changes") {
				at := rapid.IntRange(0, len(damaged)-1).Draw(t, "at")
				switch rapid.IntRange(0, 2).Draw(t, "kind") {
				case 0:
					damaged[at] = rapid.Byte().Draw(t, "byte")
				case 1:
					damaged = damaged[:at+1]
				default:
					damaged = append(damaged[:at:at], append([]byte(rapid.SampledFrom([]string{"{}", "1", `"x":1,`, "[", " "}).Draw(t, "insert")), damaged[at:]...)...)
				}
			}
			same(t, h, "inspect", frames(damaged), canon.Raw(`{}`))
		})
	}
}
