package guestabi

import (
	"bytes"
	"errors"
	"testing"

	"github.com/forge-continuity/forge/models/canon"
	"pgregory.net/rapid"
)

// What Encode writes, Decode reads; any shorter text is ErrMalformed.
func roundTrip(t *rapid.T) {
	frames := rapid.SliceOfN(rapid.SliceOf(rapid.Byte()), 0, 4).Draw(t, "frames")
	in := Request{ABI: Version, Function: "inspect", Params: canon.Raw(`{"a":1}`)}
	for range frames {
		in.Frames = append(in.Frames, "f")
	}
	b, err := Encode(in, frames)
	if err != nil {
		t.Fatal(err)
	}
	var out Request
	got, err := Decode(b, &out)
	if err != nil {
		t.Fatal(err)
	}
	if out.Function != in.Function || string(out.Params) != `{"a":1}` || len(got) != len(frames) {
		t.Fatalf("%+v", out)
	}
	for i := range got {
		if !bytes.Equal(got[i], frames[i]) {
			t.Fatalf("frame %d", i)
		}
	}
	if cut := rapid.IntRange(1, len(b)).Draw(t, "cut"); len(frames) == 0 || cut < 4+len(frames[len(frames)-1]) {
		if _, err := Decode(b[:len(b)-cut], &Request{}); !errors.Is(err, ErrMalformed) {
			t.Fatalf("cut %d: %v", cut, err)
		}
	}
}

func TestRoundTrip(t *testing.T) { rapid.Check(t, roundTrip) }

func FuzzDecode(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Response
		frames, err := Decode(b, &r)
		if err != nil {
			return
		}
		again, err := Encode(r, frames)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x -> %x %v", b, again, err)
		}
	})
}
