package api

import (
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

func malformed(member string, details ...models.Detail) error {
	return models.Refuse(models.CodeRequestMalformed, append(details, models.D("member", member))...)
}

// decode reads the body strictly into v, a pointer to a struct: every member that v always writes must be there, and no
// other. The refusal names the members that the route takes, never what was sent.
func (q *request) decode(v any) error {
	err := canon.DecodeWhole(q.body, v)
	if err == nil {
		return nil
	}
	what := "a member is unknown, missing or of another type"
	if _, bad := canon.Canonicalize(q.body); bad != nil {
		what = "not the JSON accepted here: valid UTF-8 without NUL, members once each, integers only, depth up to 128"
	}
	return malformed("body", models.D("takes", members(v)), models.D("what", what))
}

// members lists the JSON names of a struct that v points to.
func members(v any) string {
	names := memberNames(reflect.TypeOf(v).Elem())
	slices.Sort(names)
	return strings.Join(names, " ")
}

func memberNames(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous {
			names = append(names, memberNames(f.Type)...)
			continue
		}
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "" {
			name = strings.ToLower(t.Field(i).Name)
		}
		names = append(names, name)
	}
	return names
}

// id returns a path parameter that names something. Percent-encoding is undone once; what comes out must be an id, so that
// neither a slash nor another escape can hide in it.
func (q *request) id(name string) (string, error) {
	text, err := url.PathUnescape(q.c.Params(name))
	if err != nil || !models.ValidID(text) {
		return "", malformed(name, models.D("what", "1 to 64 of A-Z a-z 0-9 . _ -"))
	}
	return text, nil
}

// ids returns two of them.
func (q *request) ids(first, second string) (a, b string, err error) {
	if a, err = q.id(first); err != nil {
		return "", "", err
	}
	b, err = q.id(second)
	return a, b, err
}

func (q *request) digest(name string) (models.Digest, error) {
	d, err := models.ParseDigest(q.c.Params(name))
	if err != nil {
		return d, malformed(name, models.D("what", "64 lower-case hex digits"))
	}
	return d, nil
}

// header returns a header that stands once, and whether it is there.
func (q *request) header(name string) (string, bool, error) {
	values := q.c.Request().Header.PeekAll(name)
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
		return string(values[0]), true, nil
	}
	return "", false, malformed(name, models.D("what", "more than once"))
}

// fence reads Forge-Fence; absent is 0, no claim.
func (q *request) fence() (int64, error) {
	text, ok, err := q.header("Forge-Fence")
	if err != nil || !ok {
		return 0, err
	}
	n, ok := number(text)
	if !ok {
		return 0, malformed("Forge-Fence", models.D("what", "a whole number from 0"))
	}
	return n, nil
}

// commandID reads Idempotency-Key, the caller's own id of a factory command.
func (q *request) commandID() (string, error) {
	text, _, err := q.header("Idempotency-Key")
	if err != nil {
		return "", err
	}
	if !models.ValidID(text) {
		return "", malformed("Idempotency-Key", models.D("what", "1 to 64 of A-Z a-z 0-9 . _ -"))
	}
	return text, nil
}

// number reads a count as decimal digits without sign or leading zero.
func number(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= 0 && strconv.FormatInt(n, 10) == text
}

// query is the parsed query of a request: the parameters that the route knows, each at most once.
type query url.Values

func (q *request) query(known ...string) (query, error) {
	values, err := url.ParseQuery(string(q.c.Context().URI().QueryString()))
	bad := malformed("query", models.D("takes", strings.Join(known, " ")))
	if err != nil {
		return nil, bad
	}
	for name, list := range values {
		if !slices.Contains(known, name) || len(list) != 1 {
			return nil, bad
		}
	}
	return query(values), nil
}

// number returns a parameter between least and most; absent is the fallback.
func (v query) number(name string, fallback, least, most int64) (int64, error) {
	list, ok := v[name]
	if !ok {
		return fallback, nil
	}
	n, ok := number(list[0])
	if !ok || n < least || n > most {
		return 0, malformed(name, models.D("least", least), models.D("most", most))
	}
	return n, nil
}

// id returns a parameter that is an id, or "" when it is absent.
func (v query) id(name string) (string, error) {
	list, ok := v[name]
	if !ok {
		return "", nil
	}
	if !models.ValidID(list[0]) {
		return "", malformed(name, models.D("what", "1 to 64 of A-Z a-z 0-9 . _ -"))
	}
	return list[0], nil
}
