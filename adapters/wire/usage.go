package wire

import (
	_ "embed"
	"math"
	"regexp"
	"strings"
	"sync"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
)

// UsageTable is the pinned table that usage is extracted by: genai-prices' rules, by provider and flavor of answer.
//
//go:embed usage.txt
var UsageTable string

// A Counter is one named count.
type Counter struct {
	Name string
	N    int64
}

// Usage is what one answer used: counters by the SDK's names, and the provider's own numbers. Order does not count.
type Usage struct {
	Counters []Counter
	Details  []Counter
}

func get(list []Counter, name string) (int64, bool) {
	for _, c := range list {
		if c.Name == name {
			return c.N, true
		}
	}
	return 0, false
}

func set(list []Counter, name string, n int64) []Counter {
	for i := range list {
		if list[i].Name == name {
			list[i].N = n
			return list
		}
	}
	return append(list, Counter{name, n})
}

// Get returns a counter, 0 if it is not there.
func (u *Usage) Get(name string) int64 { n, _ := get(u.Counters, name); return n }

// Set sets a counter.
func (u *Usage) Set(name string, n int64) { u.Counters = set(u.Counters, name, n) }

// Detail returns one of the provider's own numbers.
func (u *Usage) Detail(name string) (int64, bool) { return get(u.Details, name) }

// SetDetail sets one of them.
func (u *Usage) SetDetail(name string, n int64) { u.Details = set(u.Details, name, n) }

// Add adds a later usage of the same answer, as RequestUsage.incr does. It fails where a sum leaves int64.
func (u *Usage) Add(more Usage) error {
	sum := func(list []Counter, c Counter) ([]Counter, error) {
		n, _ := get(list, c.Name)
		if c.N > 0 && n > math.MaxInt64-c.N {
			return list, Fail(Counters, "/"+c.Name, "over 2^63-1")
		}
		return set(list, c.Name, n+c.N), nil
	}
	var err error
	for _, c := range more.Counters {
		if u.Counters, err = sum(u.Counters, c); err != nil {
			return err
		}
	}
	for _, c := range more.Details {
		if u.Details, err = sum(u.Details, c); err != nil {
			return err
		}
	}
	return nil
}

// Value returns the usage as the version writes it.
func (u *Usage) Value(v pydanticai.Version) *pyjson.Value {
	var counters []pyjson.Member
	for _, c := range u.Counters {
		counters = append(counters, pyjson.Member{Name: c.Name, Value: pyjson.NewInt(c.N)})
	}
	details := pyjson.NewObject()
	for _, c := range u.Details {
		details = details.With(c.Name, pyjson.NewInt(c.N))
	}
	return pydanticai.NewRequestUsage(v, counters, details)
}

// IntDetails collects the members of v that are counts for Python, except the named ones: integers, and Booleans, which the
// SDK writes as 0 and 1. It fails on a count that is not exact.
func IntDetails(v *pyjson.Value, path string, into []Counter, except ...string) ([]Counter, error) {
next:
	for i, m := range v.Members {
		for _, e := range except {
			if m.Name == e {
				continue next
			}
		}
		switch {
		case m.Value.Is(pyjson.Bool):
			n := int64(0)
			if m.Value.IsTrue() {
				n = 1
			}
			into = set(into, m.Name, n)
		case m.Value.IsInteger():
			n, ok := m.Value.Int()
			if !ok || n < 0 {
				return into, Fail(Counters, path+pyjson.Place(i), "not from 0 to 2^63-1")
			}
			into = set(into, m.Name, n)
		}
	}
	return into, nil
}

type usageProvider struct {
	id      string
	url     string // pattern of its address
	match   string
	flavors []usageFlavor
}

type usageFlavor struct {
	name, root string
	mappings   []usageMapping
}

type usageMapping struct {
	path     []string
	dest     string
	required bool
}

var usageTable = sync.OnceValue(func() []usageProvider {
	var table []usageProvider
	for _, line := range strings.Split(UsageTable, "\n") {
		text := strings.TrimSpace(line)
		switch {
		case text == "" || text[0] == '#':
		case strings.HasPrefix(text, "provider "):
			f := strings.Split(strings.TrimSuffix(strings.TrimPrefix(text, "provider "), " |"), " | ")
			if len(f) == 2 {
				f = append(f, "")
			}
			table = append(table, usageProvider{id: f[0], url: f[1], match: f[2]})
		case strings.HasPrefix(text, "flavor "):
			f := strings.Fields(text)
			p := &table[len(table)-1]
			p.flavors = append(p.flavors, usageFlavor{name: f[1], root: f[2]})
		default:
			dest, path, _ := strings.Cut(text, " < ")
			path, required := strings.CutPrefix(path, "!")
			p := &table[len(table)-1]
			f := &p.flavors[len(p.flavors)-1]
			f.mappings = append(f.mappings, usageMapping{strings.Split(path, "."), dest, required})
		}
	}
	return table
})

func matches(clause, id string) bool {
	if clause == "" {
		return false
	}
	if parts := strings.Split(clause, " or "); len(parts) > 1 {
		for _, p := range parts {
			if matches(p, id) {
				return true
			}
		}
		return false
	}
	if parts := strings.Split(clause, " and "); len(parts) > 1 {
		for _, p := range parts {
			if !matches(p, id) {
				return false
			}
		}
		return true
	}
	how, text, _ := strings.Cut(clause, " ")
	switch how {
	case "contains":
		return strings.Contains(id, text)
	case "equals":
		return id == text
	case "starts":
		return strings.HasPrefix(id, text)
	}
	return false
}

func findByID(id string) *usageProvider {
	id = strings.TrimSpace(strings.ToLower(id))
	table := usageTable()
	for i := range table {
		if table[i].id == id {
			return &table[i]
		}
	}
	for i := range table {
		if matches(table[i].match, id) {
			return &table[i]
		}
	}
	return nil
}

// at reports whether an address begins as the pattern says. A pattern that begins with a literal is only compiled where that fits:
// an instance of the sandbox asks once.
func at(pattern, url string) bool {
	if !strings.HasPrefix(url, literal(pattern)) {
		return false
	}
	return regexp.MustCompile("^(?:" + pattern + ")").MatchString(url)
}

// literal is what every match of the pattern begins with; it may be shorter than it could be.
func literal(pattern string) string {
	var out []byte
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		if c == '\\' && i+1 < len(pattern) && pattern[i+1] == '.' {
			i, c = i+1, '.'
		} else if strings.IndexByte(`\()[]{}|*+?.^$`, c) >= 0 {
			break
		}
		if i+1 < len(pattern) && strings.IndexByte("{|*+?", pattern[i+1]) >= 0 {
			break
		}
		out = append(out, c)
	}
	return string(out)
}

func findByURL(url string) *usageProvider {
	table := usageTable()
	for i := range table {
		if at(table[i].url, url) {
			return &table[i]
		}
	}
	return nil
}

// Extract reads the counters of data (an object with the usage at its provider's place) as RequestUsage.extract does: by the
// provider of the address, else of the name, else of the fallback. A provider whose rules do not fit is passed over; without
// any, there are no counters. A count that the SDK would not take exactly is an error.
func Extract(o Options, fallback, flavor string, data *pyjson.Value) ([]Counter, error) {
	var order []*usageProvider
	if o.BaseURL != "" {
		order = append(order, findByURL(o.BaseURL))
	}
	if o.Provider != "" {
		order = append(order, findByID(o.Provider))
	}
	order = append(order, findByID(fallback))
	for _, p := range order {
		if p == nil {
			continue
		}
		for i := range p.flavors {
			if p.flavors[i].name == flavor {
				counters, ok, err := p.flavors[i].extract(data)
				if err != nil || ok {
					return counters, err
				}
				break
			}
		}
	}
	return nil, nil
}

func (f *usageFlavor) extract(data *pyjson.Value) ([]Counter, bool, error) {
	root := data
	for _, step := range strings.Split(f.root, ".") {
		root = root.Get(step)
	}
	if !root.Is(pyjson.Object) {
		return nil, false, nil
	}
	var out []Counter
	for _, m := range f.mappings {
		v := lookup(root, m.path)
		if v == nil || v.Kind == pyjson.Null {
			if m.required {
				return nil, false, nil
			}
			continue
		}
		if !v.Is(pyjson.Number) && !v.Is(pyjson.Bool) {
			if m.required {
				return nil, false, nil
			}
			continue
		}
		n, ok := v.Int()
		if !ok || n < 0 {
			return nil, false, Fail(Counters, "/"+f.root+"/"+strings.Join(m.path, "/"), "not from 0 to 2^63-1")
		}
		now, _ := get(out, m.dest)
		if now > math.MaxInt64-n {
			return nil, false, Fail(Counters, "/"+f.root, "over 2^63-1")
		}
		out = set(out, m.dest, now+n)
	}
	return out, len(out) > 0, nil
}

func lookup(v *pyjson.Value, path []string) *pyjson.Value {
	for _, step := range path {
		if field, want, ok := strings.Cut(strings.Trim(step, "[]"), "="); ok && step[0] == '[' {
			var found *pyjson.Value
			if v.Is(pyjson.Array) {
				for _, item := range v.Items {
					if s, ok := item.Get(field).Str(); ok && s == want {
						found = item
						break
					}
				}
			}
			v = found
		} else {
			v = v.Get(step)
		}
		if v == nil {
			return nil
		}
	}
	return v
}

// RemoveDetail takes one of the provider's own numbers away.
func (u *Usage) RemoveDetail(name string) {
	for i := range u.Details {
		if u.Details[i].Name == name {
			u.Details = append(append([]Counter{}, u.Details[:i]...), u.Details[i+1:]...)
			return
		}
	}
}
