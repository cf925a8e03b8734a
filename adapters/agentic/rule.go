package agentic

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/models/canon"
)

// Rule is a validator's rule as data, strict-object/1: a pydantic model with strict=True and extra='forbid', over JSON text.
// catalogue/README.md says exactly what is accepted.
type Rule struct {
	Kind             string       `json:"kind"`
	Extra            string       `json:"extra"`
	DuplicateMembers string       `json:"duplicate_members"`
	Members          []RuleMember `json:"members"`
}

// RuleMember is one member of the object. Bounds are inclusive; nil is no bound.
type RuleMember struct {
	Name          string   `json:"name"`
	Required      bool     `json:"required"`
	Type          string   `json:"type"`
	Nullable      bool     `json:"nullable,omitzero"`
	Enum          []string `json:"enum,omitzero"`
	Minimum       *int64   `json:"minimum,omitzero"`
	Maximum       *int64   `json:"maximum,omitzero"`
	MinCodePoints *int64   `json:"min_code_points,omitzero"`
	MaxCodePoints *int64   `json:"max_code_points,omitzero"`
}

// queryLimits bound a query. What is beyond them no rule accepts: members take no arrays or objects.
var queryLimits = pyjson.Limits{Bytes: 16 << 20, Depth: 128, Nodes: 1 << 18}

// parseQuery reads the text of a call's arguments as the SDK and the validator do, the last of repeated members counting.
func parseQuery(text []byte) (*pyjson.Value, bool) {
	v, err := pyjson.ParseLastWins(text, queryLimits)
	return v, err == nil
}

func (r Rule) check() error {
	if r.Kind != "strict-object/1" || r.Extra != "forbid" || r.DuplicateMembers != "last_wins" {
		return errors.New("rule is of another kind")
	}
	for i, m := range r.Members {
		if m.Type != "string" && m.Type != "integer" {
			return errors.New("type of " + m.Name + " is not known")
		}
		if m.Type == "string" && (m.Minimum != nil || m.Maximum != nil) || m.Type == "integer" && (m.MinCodePoints != nil || m.MaxCodePoints != nil || m.Enum != nil) {
			return errors.New("bounds of " + m.Name + " are of another type")
		}
		for _, before := range r.Members[:i] {
			if before.Name == m.Name {
				return errors.New(m.Name + " is there twice")
			}
		}
	}
	return nil
}

// Accepts reports whether the rule accepts the text of a query.
func (r Rule) Accepts(text []byte) bool {
	v, ok := parseQuery(text)
	return ok && r.accepts(v)
}

func (r Rule) accepts(v *pyjson.Value) bool {
	if !v.Is(pyjson.Object) {
		return false
	}
	listed := 0
	for _, m := range r.Members {
		value := v.Get(m.Name)
		if value == nil {
			if m.Required {
				return false
			}
			continue
		}
		listed++
		if !m.fits(value) {
			return false
		}
	}
	return listed == len(v.Members)
}

func (m RuleMember) fits(v *pyjson.Value) bool {
	switch {
	case v.Is(pyjson.Null):
		return m.Nullable
	case m.Type == "string":
		if !v.Is(pyjson.String) || m.Enum != nil && !contains(m.Enum, v.Text) {
			return false
		}
		n := int64(utf8.RuneCountInString(v.Text))
		return (m.MinCodePoints == nil || n >= *m.MinCodePoints) && (m.MaxCodePoints == nil || n <= *m.MaxCodePoints)
	}
	if !v.IsInteger() {
		return false
	}
	n, err := strconv.ParseInt(v.Text, 10, 64)
	if err != nil {
		// Beyond int64: above every maximum or below every minimum, and fits only where there is no such bound.
		if v.Text[0] == '-' {
			return m.Minimum == nil
		}
		return m.Maximum == nil
	}
	return (m.Minimum == nil || n >= *m.Minimum) && (m.Maximum == nil || n <= *m.Maximum)
}

// recorded is one line of a validator's record.
type recorded struct {
	Query    *string `json:"query"`
	Accepted *bool   `json:"accepted"`
}

// agrees compares the rule with a record, one JSON object a line. It returns the number of lines read, or that of the line
// that differs.
func (r Rule) agrees(record []byte) (int, error) {
	n := 0
	for len(record) > 0 {
		n++
		line, rest, _ := bytes.Cut(record, []byte("\n"))
		record = rest
		var want recorded
		if err := canon.Decode(line, &want); err != nil {
			return n, err
		}
		if want.Query == nil || want.Accepted == nil {
			return n, errors.New("a line without query or verdict")
		}
		if r.Accepts([]byte(*want.Query)) != *want.Accepted {
			return n, errors.New("the rule's verdict is not the recorded one")
		}
	}
	return n, nil
}
