package wire

import (
	"math"
	"strconv"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Instant reads a number as pydantic reads a datetime: seconds since 1970, or milliseconds above 2e10. It returns
// microseconds, and false for a number outside the years 1 to 9999.
func Instant(v *pyjson.Value) (int64, bool) {
	if !v.Is(pyjson.Number) {
		return 0, false
	}
	const watershed = 20_000_000_000
	if n, ok := v.Int(); ok {
		switch {
		case n > watershed || n < -watershed:
			if n > pydanticai.MaxInstantUS/1000 || n < pydanticai.MinInstantUS/1000 {
				return 0, false
			}
			return n * 1000, true
		case n < pydanticai.MinInstantUS/1_000_000:
			return 0, false
		}
		return n * 1_000_000, true
	}
	f, err := strconv.ParseFloat(v.Text, 64)
	if err != nil || math.IsInf(f, 0) {
		return 0, false
	}
	if f > watershed || f < -watershed {
		f /= 1000
	}
	us := math.Round(f * 1e6)
	if us > pydanticai.MaxInstantUS || us < pydanticai.MinInstantUS {
		return 0, false
	}
	return int64(us), true
}

// Truthy is Python's bool of a JSON value; nil is false.
func Truthy(v *pyjson.Value) bool {
	if v == nil {
		return false
	}
	switch v.Kind {
	case pyjson.Bool:
		return v.IsTrue()
	case pyjson.Number:
		f, err := strconv.ParseFloat(v.Text, 64)
		return err != nil || f != 0
	case pyjson.String:
		return v.Text != ""
	case pyjson.Array:
		return len(v.Items) > 0
	case pyjson.Object:
		return len(v.Members) > 0
	}
	return false
}

// Present returns the member unless it is absent or null.
func Present(v *pyjson.Value, name string) *pyjson.Value {
	if m := v.Get(name); m != nil && m.Kind != pyjson.Null {
		return m
	}
	return nil
}

// TextOf returns a text member, "" for absent and null.
func TextOf(v *pyjson.Value, name string) string {
	s, _ := v.Get(name).Str()
	return s
}

// PtrOf returns a text member, nil for absent and null.
func PtrOf(v *pyjson.Value, name string) *string {
	if s, ok := v.Get(name).Str(); ok {
		return &s
	}
	return nil
}

// Items returns the items of an array member, none for absent and null.
func Items(v *pyjson.Value, name string) []*pyjson.Value {
	if m := v.Get(name); m.Is(pyjson.Array) {
		return m.Items
	}
	return nil
}

// Obj makes an object of names and values in turn; nil values are left out.
func Obj(pairs ...any) *pyjson.Value {
	o := pyjson.NewObject()
	for i := 0; i < len(pairs); i += 2 {
		var v *pyjson.Value
		switch x := pairs[i+1].(type) {
		case *pyjson.Value:
			v = x
		case string:
			v = pyjson.NewString(x)
		case bool:
			v = pyjson.NewBool(x)
		case int:
			v = pyjson.NewInt(int64(x))
		}
		if v != nil {
			o.Members = append(o.Members, pyjson.Member{Name: pairs[i].(string), Value: v})
		}
	}
	return o
}
