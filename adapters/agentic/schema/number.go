package schema

import (
	"math"
	"strconv"
	"strings"

	"github.com/forge-continuity/forge/adapters/pyjson"
)

// number is an exact decimal: digits × 10^exponent, digits without zeros at either end, none for zero.
type number struct {
	negative bool
	digits   string
	exponent int
}

// parseNumber reads a JSON number; it reports false for any other value, and for nil.
func parseNumber(v *pyjson.Value) (number, bool) {
	if !v.Is(pyjson.Number) {
		return number{}, false
	}
	text, negative := strings.CutPrefix(v.Text, "-")
	n := number{negative: negative}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		// An exponent outside int is so far out that any bound decides the same.
		exponent, err := strconv.Atoi(strings.TrimPrefix(text[i+1:], "+"))
		if err != nil {
			exponent = math.MaxInt32
			if text[i+1] == '-' {
				exponent = -math.MaxInt32
			}
		}
		n.exponent = max(-math.MaxInt32, min(math.MaxInt32, exponent))
		text = text[:i]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	n.exponent -= len(fraction)
	n.digits = strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(n.digits, "0")
	n.exponent += len(n.digits) - len(trimmed)
	n.digits = trimmed
	if n.digits == "" {
		return number{}, true
	}
	return n, true
}

func numberOf(size int) number {
	n, _ := parseNumber(pyjson.NewInt(int64(size)))
	return n
}

func (n number) zero() bool { return n.digits == "" }

// integer reports whether the value is mathematically one: 1.0 and 1e2 are.
func (n number) integer() bool { return n.zero() || n.exponent >= 0 }

func (n number) compare(o number) int {
	if n.zero() || o.zero() || n.negative != o.negative {
		return sign(n) - sign(o)
	}
	c := magnitude(n, o)
	if n.negative {
		return -c
	}
	return c
}

func sign(n number) int {
	switch {
	case n.zero():
		return 0
	case n.negative:
		return -1
	}
	return 1
}

func magnitude(a, b number) int {
	if d := len(a.digits) + a.exponent - len(b.digits) - b.exponent; d != 0 {
		return d
	}
	return strings.Compare(a.digits, b.digits)
}

// multipleOf reports whether n is a whole multiple of step, which is above zero, and whether that could be decided.
func (n number) multipleOf(step number) (multiple, known bool) {
	if n.zero() {
		return true, true
	}
	low := min(n.exponent, step.exponent)
	zeros, stepZeros := n.exponent-low, step.exponent-low
	if len(step.digits)+stepZeros > 18 || len(n.digits)+zeros > 2000 {
		return false, false
	}
	divisor, _ := strconv.ParseUint(step.digits+strings.Repeat("0", stepZeros), 10, 64)
	rest := uint64(0)
	for _, c := range []byte(n.digits) {
		rest = (rest*10 + uint64(c-'0')) % divisor
	}
	for range zeros {
		rest = rest * 10 % divisor
	}
	return rest == 0, true
}
