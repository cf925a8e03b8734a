package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/forge-continuity/forge/adapters/agentic"
	"github.com/forge-continuity/forge/adapters/agentic/catalogue"
	"github.com/forge-continuity/forge/adapters/pyjson"
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
	return sandbox.Open(t, m.Wasm, sandbox.Config{})
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

// held is the turn of a recorded run that reconstruct is for: its last pending checkpoint, the response consumed on it,
// and what the engine knows beside them.
func held(t testing.TB, version string) (frames []sandbox.Frame, params canon.Raw) {
	t.Helper()
	recording, err := recordings.Held(version)
	if err != nil {
		t.Fatal(err)
	}
	turn, err := recording.Turn(recording.HeldRequest())
	if err != nil {
		t.Fatal(err)
	}
	return []sandbox.Frame{{Name: "catalogue", Bytes: catalogue.Bytes()}, {Name: "checkpoint", Bytes: turn.Checkpoint},
		{Name: "response", Bytes: turn.Response}, {Name: "wire", Bytes: turn.Wire}, {Name: "contract", Bytes: turn.Contract}}, canon.MustMarshal(turn.Params)
}

// damage changes some bytes of one frame.
func damage(t *rapid.T, frames []sandbox.Frame, which int) []sandbox.Frame {
	out := slices.Clone(frames)
	b := bytes.Clone(out[which].Bytes)
	for range rapid.IntRange(1, 4).Draw(t, "changes") {
		at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			b[at] = rapid.Byte().Draw(t, "byte")
		case 1:
			b = b[:at+1]
		case 2: // a digit stays a digit, so that the text stays JSON
			if digit := bytes.IndexAny(b[at:], "123456789"); digit >= 0 {
				b[at+digit] = rapid.SampledFrom([]byte("123456789")).Draw(t, "digit")
			}
		default:
			insert := rapid.SampledFrom([]string{"{}", "1", `"x":1,`, "[", " "}).Draw(t, "insert")
			b = slices.Insert(b, at, []byte(insert)...)
		}
	}
	out[which].Bytes = b
	return out
}

// The recorded turns, whole and damaged, natively and in the sandbox: the same bytes or the same refusal. The whole ones of
// the version with a reviewed transition derive a checkpoint.
func TestNativeAndSandboxed(t *testing.T) {
	h := guest(t)
	for _, version := range recordings.Versions {
		frames, params := held(t, version)
		if !same(t, h, "inspect", frames[:2], canon.Raw(`{}`)) || !same(t, h, "reconstruct", frames, params) {
			t.Errorf("%s: the recording is refused", version)
		}
		t.Run(version, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				which := rapid.IntRange(1, 2).Draw(t, "frame")
				damaged := damage(t, frames, which)
				if which == 1 {
					same(t, h, "inspect", damaged[:2], canon.Raw(`{}`))
				}
				same(t, h, "reconstruct", damaged, params)
			})
		})
	}
}

// The recorded turn reconstructed a hundred times: equal bytes and equal fuel (REC-12 for the part that is the sandbox's).
func TestReconstructTheSameAHundredTimes(t *testing.T) {
	h := guest(t)
	frames, params := held(t, recordings.Versions[0])
	first, err := h.Call(t.Context(), "reconstruct", frames, params)
	if err != nil {
		t.Fatal(err)
	}
	derived, ok := first.Frame("derived")
	if !ok {
		t.Fatalf("nothing derived: %s", first.ResultJSON)
	}
	for range 100 {
		again, err := h.Call(t.Context(), "reconstruct", frames, params)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := again.Frame("derived")
		if got.Digest() != derived.Digest() || !bytes.Equal(again.ResultJSON, first.ResultJSON) || again.FuelUsed != first.FuelUsed {
			t.Fatalf("%d units then %d", first.FuelUsed, again.FuelUsed)
		}
	}
	t.Logf("%d bytes of checkpoint: %d units", len(frames[1].Bytes), first.FuelUsed)
}

// grown is the recorded turn with completed rounds of its history repeated under new call ids, or left out, to about size
// bytes.
func grown(t testing.TB, frames []sandbox.Frame, size int) []sandbox.Frame {
	t.Helper()
	limits := pyjson.Limits{Bytes: 8 << 20, Depth: 128, Nodes: 1 << 20}
	parse := func() *pyjson.Value {
		v, err := pyjson.ParseCanonical(frames[1].Bytes, limits)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	root := parse()
	history := root.Get("history")
	rounds := len(history.Items)/2*2 - 2 // the first request stands alone, the last one is pending
	for len(history.Items) > 4 && len(pyjson.Encode(root)) > size {
		history.Items = slices.Delete(history.Items, 1, 3)
	}
	for n := 1; len(pyjson.Encode(root)) < size; n++ {
		copied := parse().Get("history").Items[1 : 1+rounds]
		for _, message := range copied {
			for _, part := range message.Get("parts").Items {
				if id := part.Get("tool_call_id"); id.Is(pyjson.String) {
					id.Text = fmt.Sprintf("%s_%d", id.Text, n)
				}
			}
		}
		for len(copied) > 2 && len(pyjson.Encode(root))+len(pyjson.Encode(pyjson.NewArray(copied...))) > size {
			copied = copied[:len(copied)-2]
		}
		history.Items = slices.Insert(history.Items, 1, copied...)
	}
	out := slices.Clone(frames)
	out[1].Bytes = pyjson.Encode(root)
	c, err := agentic.LoadCatalogue(catalogue.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	wire, holds := agentic.Pending(c, out[1].Bytes)
	if len(holds) > 0 {
		t.Fatal(holds)
	}
	out[3].Bytes = wire
	return out
}
