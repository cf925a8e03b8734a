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

// What is said to be canonical is left as it is by the long way; see spelled.
func canonicalIsLeft(t *rapid.T) {
	text := rapid.OneOf(
		rapid.StringOf(rapid.SampledFrom([]rune(`{}[]",:-019ab\ \u00e9tn`))),
		rapid.Deferred(func() *rapid.Generator[string] { return jsonText(0) }),
	).Draw(t, "text")
	if !spelled([]byte(text)) {
		return
	}
	if again, err := canonicalize([]byte(text)); err != nil || string(again) != text {
		t.Fatalf("%q is spelled %q, %v", text, again, err)
	}
}

// jsonText draws JSON that is canonical now and then.
func jsonText(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kinds := []string{`0`, `-1`, `17`, `-0`, `01`, `1234567890123456789`, `123456789012345678`, `""`, `"a"`, `"\u0061"`, `true`, `null`, `"\u007f"`, `1.5`}
		if depth < 4 {
			kinds = append(kinds, "object", "array", "object", "array")
		}
		kind := rapid.SampledFrom(kinds).Draw(t, "kind")
		if kind != "object" && kind != "array" {
			return kind
		}
		var members []string
		for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "", "aa", "\u00e9", `\n`}), 0, 3).Draw(t, "names") {
			value := jsonText(depth+1).Draw(t, "value")
			if kind == "object" {
				value = `"` + name + `":` + value
			}
			members = append(members, value)
		}
		text := strings.Join(members, rapid.SampledFrom([]string{",", ",", ",", ", "}).Draw(t, "comma"))
		if kind == "object" {
			return "{" + text + "}"
		}
		return "[" + text + "]"
	})
}

func TestSpelled(t *testing.T) {
	rapid.Check(t, canonicalIsLeft)
	for text, want := range map[string]bool{
		`{"a":1,"b":[{"c":"x"},true,null,-7]}`: true, `{"b":1,"a":2}`: false, `{"a":1,"a":2}`: false, `{"a": 1}`: false, `{"a":1,}`: false, `[1,]`: false,
		`{"a":1}x`: false, `-0`: false, `01`: false, `[`: false, `{"a"`: false, `"`: false, `-`: false, ``: false, `[]`: true, `{}`: true, `999999999999999999`: true,
		strings.Repeat("[", 128) + strings.Repeat("]", 128): true, strings.Repeat("[", 129) + strings.Repeat("]", 129): false,
	} {
		if spelled([]byte(text)) != want {
			t.Errorf("spelled(%q) is not %v", text, want)
		}
		if again, err := canonicalize([]byte(text)); want && (err != nil || string(again) != text) {
			t.Errorf("%q is spelled %q, %v", text, again, err)
		}
	}
}

func FuzzSpelled(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":[{"c":"x"},true,null,-7]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if !spelled(text) {
			return
		}
		if again, err := canonicalize(text); err != nil || string(again) != string(text) {
			t.Fatalf("%q is spelled %q, %v", text, again, err)
		}
	})
}
