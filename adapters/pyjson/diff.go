package pyjson

import (
	"strconv"
	"strings"
)

// Equal reports whether a and b are the same JSON value with the same number text. Member order does not count; 1, 1.0, "1"
// and true are four values, null and absent are two.
func Equal(a, b *Value) bool {
	switch {
	case a == b:
		return true
	case a == nil || b == nil || a.Kind != b.Kind || len(a.Items) != len(b.Items) || len(a.Members) != len(b.Members):
		return false
	}
	for i := range a.Items {
		if !Equal(a.Items[i], b.Items[i]) {
			return false
		}
	}
	for i, m := range a.Members {
		// Records are mostly written by one writer, so the same index is tried first.
		if i < len(b.Members) && b.Members[i].Name == m.Name {
			if !Equal(m.Value, b.Members[i].Value) {
				return false
			}
		} else if other := b.Get(m.Name); other == nil || !Equal(m.Value, other) {
			return false
		}
	}
	return a.Text == b.Text
}

// A Difference is one place where two values differ.
type Difference struct {
	Path string // JSON Pointer (RFC 6901); "" is the whole value
	What string // "missing" (in the second), "added" (in the second), "type" or "value"
}

// Diff returns the first places, at most limit of them, where b differs from a, in a's member order, then what only b has.
// Arrays of different length differ as "missing" or "added" at the first index that only one has.
func Diff(a, b *Value, limit int) []Difference {
	if Equal(a, b) { // as nearly always, and without a path for each place
		return nil
	}
	d := differ{limit: limit}
	d.walk("", a, b)
	return d.found
}

type differ struct {
	limit int
	found []Difference
}

func (d *differ) add(path, what string) {
	if len(d.found) < d.limit {
		d.found = append(d.found, Difference{path, what})
	}
}

func (d *differ) walk(path string, a, b *Value) {
	switch {
	case len(d.found) >= d.limit:
	case a == nil && b == nil:
	case a == nil:
		d.add(path, "added")
	case b == nil:
		d.add(path, "missing")
	case a.Kind != b.Kind:
		d.add(path, "type")
	case a.Kind == Array:
		for i := range min(len(a.Items), len(b.Items)) {
			d.walk(path+"/"+strconv.Itoa(i), a.Items[i], b.Items[i])
		}
		if len(a.Items) > len(b.Items) {
			d.add(path+"/"+strconv.Itoa(len(b.Items)), "missing")
		} else if len(a.Items) < len(b.Items) {
			d.add(path+"/"+strconv.Itoa(len(a.Items)), "added")
		}
	case a.Kind == Object:
		for i, m := range a.Members {
			if i < len(b.Members) && b.Members[i].Name == m.Name {
				d.walk(path+Pointer(m.Name), m.Value, b.Members[i].Value)
				continue
			}
			d.walk(path+Pointer(m.Name), m.Value, b.Get(m.Name))
		}
		for i, m := range b.Members {
			if i < len(a.Members) && a.Members[i].Name == m.Name {
				continue
			}
			if a.Get(m.Name) == nil {
				d.add(path+Pointer(m.Name), "added")
			}
		}
	case a.Text != b.Text:
		d.add(path, "value")
	}
}

// Place returns a step for a member whose name is not known, by its position in the object from 0: a provider chooses such names,
// and they may say anything.
func Place(position int) string { return "/member-" + strconv.Itoa(position) }

// Pointer returns one step of a JSON Pointer: a slash and the escaped name.
func Pointer(name string) string {
	if strings.IndexByte(name, '~') >= 0 || strings.IndexByte(name, '/') >= 0 {
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
	}
	return "/" + name
}
