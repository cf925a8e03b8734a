package pyjson

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var wide = Limits{Bytes: 1 << 24, Depth: 128, Nodes: 1 << 20}

// What CPython accepts strictly, and what it writes, is what this package accepts and writes. Numbers keep their source
// text, so they are compared after PythonNumber.
func TestVectorsOfCPython(t *testing.T) {
	f, err := os.Open(filepath.Join("..", "..", "fixtures", "vectors", "pyjson", "vectors.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	n := 0
	for ; lines.Scan(); n++ {
		var want struct {
			Input       string `json:"input"`
			OK          bool   `json:"ok"`
			Canonical   string `json:"canonical"`
			IsCanonical bool   `json:"is_canonical"`
		}
		if err := json.Unmarshal(lines.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		input, err := base64.StdEncoding.DecodeString(want.Input)
		if err != nil {
			t.Fatal(err)
		}
		v, err := Parse(input, wide)
		if (err == nil) != want.OK {
			t.Errorf("%q: accepted %v, CPython %v: %v", input, err == nil, want.OK, err)
			continue
		}
		if err != nil {
			continue
		}
		if got := string(Encode(respell(v))); got != want.Canonical {
			t.Errorf("%q: got %s want %s", input, got, want.Canonical)
		}
		_, err = ParseCanonical(input, wide)
		if (err == nil) != want.IsCanonical {
			t.Errorf("%q: canonical %v, CPython %v: %v", input, err == nil, want.IsCanonical, err)
		}
	}
	if lines.Err() != nil || n < 300 {
		t.Fatalf("%d vectors, %v", n, lines.Err())
	}
}

func respell(v *Value) *Value {
	out := *v
	if v.Kind == Number {
		out.Text = PythonNumber(v.Text)
	}
	out.Items, out.Members = nil, nil
	for _, item := range v.Items {
		out.Items = append(out.Items, respell(item))
	}
	for _, m := range v.Members {
		out.Members = append(out.Members, Member{m.Name, respell(m.Value)})
	}
	return &out
}

func TestLimits(t *testing.T) {
	deep := strings.Repeat("[", 4) + strings.Repeat("]", 4)
	for _, c := range []struct {
		text   string
		limits Limits
		want   string
	}{
		{deep, Limits{8, 4, 4}, ""},
		{deep, Limits{7, 4, 4}, "bytes"},
		{deep, Limits{8, 3, 4}, "depth"},
		{deep, Limits{8, 4, 3}, "nodes"},
		{strings.Repeat(`{"a":`, 3) + "1" + strings.Repeat("}", 3), Limits{100, 2, 9}, "depth"},
		{"[1,2,3]", Limits{100, 2, 3}, "nodes"},
	} {
		_, err := Parse([]byte(c.text), c.limits)
		var limit *LimitError
		if got := errors.As(err, &limit); got != (c.want != "") || got && limit.Limit != c.want {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

func TestMemberOrderAndNumberTextAreKept(t *testing.T) {
	text := `{"b":1.50,"a":[1E2,-0,"é"],"c":null}`
	v, err := Parse([]byte(text), wide)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(Compact(v, nil)); got != text {
		t.Errorf("got %s", got)
	}
	if got := string(Encode(v)); got != `{"a":[1E2,-0,"\u00e9"],"b":1.50,"c":null}` {
		t.Errorf("got %s", got)
	}
}

func TestLastWinsInThePlaceOfTheFirst(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"a":1,"b":2,"\u0061":{"x":3,"x":4}}`, `{"a":{"x":4},"b":2}`},
		{"{" + strings.Repeat(`"k":0,`, 30) + `"z":1,"a":2,"b":3,"c":4,"d":5,"e":6,"f":7,"g":8,"h":9,"i":10,"j":11,"l":12,"k":13,"z":14}`,
			`{"k":13,"z":14,"a":2,"b":3,"c":4,"d":5,"e":6,"f":7,"g":8,"h":9,"i":10,"j":11,"l":12}`},
	} {
		if _, err := Parse([]byte(c.in), wide); err == nil {
			t.Errorf("%s accepted by Parse", c.in)
		}
		v, err := ParseLastWins([]byte(c.in), wide)
		if err != nil || string(Compact(v, nil)) != c.want {
			t.Errorf("%s: %v", c.in, err)
		}
	}
}

func TestPydanticNumber(t *testing.T) {
	// Made with pydantic_core.to_json in both supported versions.
	for in, want := range map[string]string{
		"1.0": "1.0", "1e15": "1000000000000000.0", "1e16": "1e+16", "1.5e+16": "1.5e+16", "1e-05": "0.00001", "1.5e-05": "0.000015",
		"1e-06": "1e-6", "1e-7": "1e-7", "0.0": "0.0", "-0.0": "-0.0", "123456789.25": "123456789.25", "5e-324": "5e-324",
		"12345678901234567890": "12345678901234567890", "1.7976931348623157e+308": "1.7976931348623157e+308",
	} {
		if got := PydanticNumber(in); got != want {
			t.Errorf("%s: got %s want %s", in, got, want)
		}
	}
}

func TestDiffNamesThePlace(t *testing.T) {
	parse := func(s string) *Value {
		v, err := Parse([]byte(s), wide)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct{ a, b, path, what string }{
		{`{"a":1}`, `{"a":1.0}`, "/a", "value"},
		{`{"a":1}`, `{"a":"1"}`, "/a", "type"},
		{`{"a":1}`, `{"a":true}`, "/a", "type"},
		{`{"a":null}`, `{}`, "/a", "missing"},
		{`{}`, `{"a":null}`, "/a", "added"},
		{`[1,{"x/y~":[0]}]`, `[1,{"x/y~":[1]}]`, "/1/x~1y~0/0", "value"},
		{`[1,2]`, `[1]`, "/1", "missing"},
		{`[1]`, `[1,2]`, "/1", "added"},
		{`[]`, `{}`, "", "type"},
	} {
		got := Diff(parse(c.a), parse(c.b), 9)
		if len(got) != 1 || got[0] != (Difference{c.path, c.what}) {
			t.Errorf("%s %s: %v", c.a, c.b, got)
		}
	}
	if !Equal(parse(`{"a":1,"b":[2]}`), parse(`{"b":[2],"a":1}`)) {
		t.Error("member order counted")
	}
}

// drawValue draws any tree that this package can hold.
func drawValue(t *rapid.T, depth int) *Value {
	kinds := []Kind{Null, Bool, Number, String}
	if depth > 0 {
		kinds = append(kinds, Array, Object)
	}
	text := rapid.StringOfN(rapid.Rune(), 0, 5, -1)
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case Null:
		return NewNull()
	case Bool:
		return NewBool(rapid.Bool().Draw(t, "bool"))
	case Number:
		return NewNumber(rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,5})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "number"))
	case String:
		return NewString(text.Draw(t, "string"))
	case Array:
		v := &Value{Kind: Array}
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			v.Items = append(v.Items, drawValue(t, depth-1))
		}
		return v
	}
	v := &Value{Kind: Object}
	for _, name := range rapid.SliceOfNDistinct(text, 0, 14, rapid.ID[string]).Draw(t, "names") {
		v.Members = append(v.Members, Member{name, drawValue(t, depth-1)})
	}
	return v
}

// Decode after encode is the same value, and encode after that gives the same bytes; neither order nor the form of the text
// matters to the canonical form.
func roundTrip(t *rapid.T) {
	v := drawValue(t, 3)
	canonical := Encode(v)
	if got := Compact(Sorted(v), nil); !bytes.Equal(Encode(mustParse(t, got)), canonical) || !bytes.Equal(got, Compact(mustParse(t, canonical), nil)) {
		t.Fatalf("sorted %s, canonical %s", got, canonical)
	}
	for _, text := range [][]byte{canonical, Compact(v, nil), Indent2(v, func(s string) string { return s })} {
		back, err := Parse(text, wide)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !Equal(v, back) {
			t.Fatalf("%s: differs at %v", text, Diff(v, back, 1))
		}
		if again := Encode(back); !bytes.Equal(again, canonical) {
			t.Fatalf("%s became %s", canonical, again)
		}
	}
}

func mustParse(t *rapid.T, text []byte) *Value {
	v, err := Parse(text, wide)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Equal says what the walk that names the places says, and what the canonical texts say.
func TestEqualIsNoDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawValue(t, 3)
		b := Sorted(a)
		if rapid.Bool().Draw(t, "other") {
			b = altered(t, b)
		}
		d := differ{limit: 1}
		d.walk("", a, b)
		same := bytes.Equal(Encode(a), Encode(b))
		if Equal(a, b) != same || (len(d.found) == 0) != same {
			t.Fatalf("Equal %v, places %v, same text %v: %s and %s", Equal(a, b), d.found, same, Encode(a), Encode(b))
		}
	})
}

// altered is v with a value drawn anew somewhere in it, or with something more or less in it.
func altered(t *rapid.T, v *Value) *Value {
	out := *v
	switch n := len(v.Items) + len(v.Members); {
	case n == 0 || rapid.IntRange(0, 3).Draw(t, "here") == 0:
		return drawValue(t, 1)
	case v.Kind == Array:
		i := rapid.IntRange(0, n-1).Draw(t, "item")
		out.Items = slices.Clone(v.Items)
		if rapid.Bool().Draw(t, "less") {
			out.Items = slices.Delete(out.Items, i, i+1)
		} else {
			out.Items[i] = altered(t, v.Items[i])
		}
	default:
		i := rapid.IntRange(0, n-1).Draw(t, "member")
		out.Members = slices.Clone(v.Members)
		switch rapid.SampledFrom([]string{"less", "renamed", "altered"}).Draw(t, "how") {
		case "less":
			out.Members = slices.Delete(out.Members, i, i+1)
		case "renamed":
			out.Members[i].Name += "~"
		default:
			out.Members[i].Value = altered(t, v.Members[i].Value)
		}
	}
	return &out
}

func TestRoundTrip(t *testing.T) { rapid.Check(t, roundTrip) }

func FuzzRoundTrip(f *testing.F) { f.Fuzz(rapid.MakeFuzz(roundTrip)) }

// Any text that is accepted as canonical is its own encoding; any accepted text keeps its value through Encode.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,"x",null,true]}`, `"\ud83d\ude00"`, `[1e5,-0]`, `{"a":1,"a":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Parse(data, wide)
		if err != nil {
			return
		}
		text := Encode(v)
		back, err := Parse(text, wide)
		if err != nil || !Equal(v, back) {
			t.Fatalf("%q -> %q: %v", data, text, err)
		}
		if _, err := ParseCanonical(data, wide); err == nil && !bytes.Equal(text, data) {
			t.Fatalf("%q accepted as canonical", data)
		}
	})
}
