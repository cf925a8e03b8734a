package canon

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type sample struct {
	B string  `json:"b"`
	A int64   `json:"a"`
	L []int64 `json:"l"`
}

func TestMarshalSortsAndKeepsIntegers(t *testing.T) {
	got, err := Marshal(sample{B: "é\u2028<", A: 9223372036854775807})
	if err != nil {
		t.Fatal(err)
	}
	if want := "{\"a\":9223372036854775807,\"b\":\"é\u2028<\",\"l\":[]}"; string(got) != want {
		t.Fatalf("got %s want %s", got, want)
	}
}

func TestRefused(t *testing.T) {
	for _, text := range []string{
		`{"a":1.0,"b":"","l":[]}`, `{"a":1e3,"b":"","l":[]}`, `{"a":-0,"b":"","l":[]}`, `{"a":9223372036854775808,"b":"","l":[]}`,
		`{"a":1,"a":1,"b":"","l":[]}`, `{"a":1,"b":"","c":1,"l":[]}`, `{"a":1,"b":"\u0000","l":[]}`, `{"a":1,"b":"","l":[]} x`,
		"{\"a\":1,\"b\":\"\xff\",\"l\":[]}", `{"a":1,"b":"\ud800","l":[]}`, `{"a":"1","b":"","l":[]}`, `{"A":1,"b":"","l":[]}`,
		strings.Repeat("[", 129) + strings.Repeat("]", 129), ``, `{"a":1`,
	} {
		if err := Decode([]byte(text), &sample{}); err == nil {
			t.Errorf("accepted %q", text)
		}
	}
}

func TestUnmarshalWantsTheOneSpelling(t *testing.T) {
	var s sample
	if err := Unmarshal([]byte(`{"a":1, "b":"","l":[]}`), &s); !errors.Is(err, ErrNotCanonical) {
		t.Fatalf("got %v", err)
	}
	if err := Unmarshal([]byte(`{"a":1,"b":"x","l":[2]}`), &s); err != nil || s.L[0] != 2 {
		t.Fatalf("got %v %v", s, err)
	}
}

// The canonical text of a value decodes to the value and is its own canonical text.
func roundTrip(t *rapid.T) {
	in := sample{
		B: rapid.StringOf(rapid.Rune().Filter(func(r rune) bool { return r != 0 && (r < 0xd800 || r > 0xdfff) })).Draw(t, "b"),
		A: rapid.Int64().Draw(t, "a"), L: rapid.SliceOfN(rapid.Int64(), 1, 4).Draw(t, "l"),
	}
	b, err := Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out sample
	if err := Unmarshal(b, &out); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	if out.A != in.A || out.B != in.B || len(out.L) != len(in.L) {
		t.Fatalf("%+v != %+v", out, in)
	}
}

func TestRoundTrip(t *testing.T) { rapid.Check(t, roundTrip) }

func FuzzRoundTrip(f *testing.F) { f.Fuzz(rapid.MakeFuzz(roundTrip)) }
