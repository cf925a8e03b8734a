package models

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Refusal is the one type for "no". Code is stable for ever; Message says what is so and Next what the person can do, one
// sentence each, both from the table in codes.go; Details carries facts (got, want, limit, digest, path) sorted by name,
// and never a secret or text that came from a user, model or tool.
//
// A *Refusal is returned as that type and becomes an error in one place, behind `if refusal != nil`, since a nil pointer
// in an error interface is not nil.
type Refusal struct {
	Code    Code     `json:"code"`
	Message string   `json:"message"`
	Next    string   `json:"next"`
	Details []Detail `json:"details"`
}

// Detail is one fact of a refusal. Names are snake_case and unique within a refusal; values are text, so that integers of
// any size and digests look the same in every client.
type Detail struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Refuse returns the refusal for code, with the table's sentences and the details sorted by name. It panics on a code that
// is not in the table and on two details of one name: both are mistakes in this program, never in its input.
func Refuse(code Code, details ...Detail) *Refusal {
	entry, ok := Lookup(code)
	if !ok {
		panic("models: no such refusal code: " + string(code))
	}
	return &Refusal{Code: code, Message: entry.Message, Next: entry.Next, Details: sortDetails(details)}
}

// With returns a copy of r with more details.
func (r *Refusal) With(details ...Detail) *Refusal {
	out := *r
	out.Details = sortDetails(slices.Concat(r.Details, details))
	return &out
}

func sortDetails(details []Detail) []Detail {
	out := slices.Clone(details)
	slices.SortStableFunc(out, func(a, b Detail) int { return cmp.Compare(a.Name, b.Name) })
	for i := 1; i < len(out); i++ {
		if out[i].Name == out[i-1].Name {
			panic("models: two details named " + out[i].Name)
		}
	}
	return out
}

// Detail returns the value of the named detail, or "" when there is none.
func (r *Refusal) Detail(name string) string {
	for _, d := range r.Details {
		if d.Name == name {
			return d.Value
		}
	}
	return ""
}

// Error returns the code, the message and the details on one line.
func (r *Refusal) Error() string {
	var b strings.Builder
	b.WriteString(string(r.Code))
	b.WriteString(": ")
	b.WriteString(r.Message)
	for i, d := range r.Details {
		if i == 0 {
			b.WriteString(" (")
		} else {
			b.WriteString(", ")
		}
		b.WriteString(d.Name + "=" + d.Value)
	}
	if len(r.Details) > 0 {
		b.WriteString(")")
	}
	return b.String()
}

// Is reports whether target is a refusal with the same code, whatever the details.
func (r *Refusal) Is(target error) bool {
	other, ok := target.(*Refusal)
	return ok && other != nil && r != nil && other.Code == r.Code
}

// CodeOf returns the code of the refusal in err's chain, or "" when there is none.
func CodeOf(err error) Code {
	var r *Refusal
	if errors.As(err, &r) && r != nil {
		return r.Code
	}
	return ""
}

// D makes a detail. It takes text, codes, integers, instants (microseconds), seconds, Booleans, and whatever has a String
// method (digests); anything else panics, so that no value's default formatting becomes part of an answer by accident.
func D(name string, value any) Detail {
	switch v := value.(type) {
	case string:
		return Detail{name, v}
	case Code:
		return Detail{name, string(v)}
	case int:
		return Detail{name, strconv.Itoa(v)}
	case int64:
		return Detail{name, strconv.FormatInt(v, 10)}
	case uint64:
		return Detail{name, strconv.FormatUint(v, 10)}
	case Instant:
		return Detail{name, strconv.FormatInt(int64(v), 10)}
	case Seconds:
		return Detail{name, strconv.FormatInt(int64(v), 10)}
	case bool:
		return Detail{name, strconv.FormatBool(v)}
	case fmt.Stringer:
		return Detail{name, v.String()}
	}
	panic(fmt.Sprintf("models: detail %s has the unsupported type %T", name, value))
}
