package pydanticai

import (
	"math"
	"strconv"

	"github.com/forge-continuity/forge/adapters/pyjson"
)

// Problems of counters.
const (
	CounterMissing     = "counter_missing"
	CounterUnknown     = "counter_unknown"
	CounterOutOfBounds = "counter_out_of_bounds"
)

// Counters names the usage counters of a source: what a usage must have, what it may have beside them, and what its details
// may have. Members that are no counters (details, cost, audio_seconds) are fixed by the SDK and stand in no list; requests
// and tool_calls belong to every run usage and to no request usage.
type Counters struct {
	Mandatory        []string
	Permitted        []string
	DetailsPermitted []string
}

// within lists which counter is a part of which (SDK: inclusive buckets).
var within = [][2]string{
	{"output_reasoning_tokens", "output_tokens"},
	{"cache_write_1h_tokens", "cache_write_tokens"},
	{"cache_write_tokens", "input_tokens"},
	{"cache_read_tokens", "input_tokens"},
	{"input_audio_tokens", "input_tokens"},
	{"cache_audio_read_tokens", "cache_read_tokens"},
	{"cache_audio_read_tokens", "input_audio_tokens"},
	{"output_audio_tokens", "output_tokens"},
}

// usageOther are the members of a usage that are no counters.
var usageOther = []field{
	{name: "audio_seconds", check: float},
	{name: "details", check: object},
	{name: "cost", check: orNull(decimal)},
}

func isOther(name string) bool { return name == "audio_seconds" || name == "details" || name == "cost" }

// declaredCounters are written in every usage of the version.
func declaredCounters(v Version) []string {
	names := []string{"input_tokens", "cache_write_tokens", "cache_read_tokens", "output_tokens", "input_audio_tokens",
		"cache_audio_read_tokens", "output_audio_tokens"}
	if v == V2580 {
		names = append(names, "cache_write_1h_tokens", "output_reasoning_tokens")
	}
	return names
}

func runCounter(name string) bool { return name == "requests" || name == "tool_calls" }

// legacyUsage are names that the SDK reads and drops, or whose meaning it would change.
func legacyUsage(name string) bool {
	switch name {
	case "requests", "request_tokens", "response_tokens", "total_tokens", "cache_hit_ratio", "has_values", "incr", "extract",
		"opentelemetry_attributes", "tool_calls":
		return true
	}
	return len(name) > 1 && name[:2] == "__"
}

// checkRequestUsage checks the form only: every declared member there, of a type that stays. Extra members are kept by the
// SDK whatever they are, unless it has that name itself.
func checkRequestUsage(c *checker, v *pyjson.Value, path string) {
	if !v.Is(pyjson.Object) {
		c.add(Lost, path)
		return
	}
	for _, f := range usageOther {
		if m := v.Get(f.name); m == nil {
			c.add(Lost, path+pyjson.Pointer(f.name))
		} else {
			f.check(c, m, path+pyjson.Pointer(f.name))
		}
	}
	if details := v.Get("details"); details.Is(pyjson.Object) {
		for i, m := range details.Members {
			integer(c, m.Value, path+"/details"+pyjson.Place(i))
		}
	}
	for _, name := range declaredCounters(c.version) {
		if m := v.Get(name); m != nil {
			integer(c, m, path+pyjson.Pointer(name))
		} else {
			c.add(Lost, path+pyjson.Pointer(name))
		}
	}
	for _, m := range v.Members {
		if legacyUsage(m.Name) {
			c.add(UnknownMember, path+pyjson.Pointer(m.Name))
		}
	}
}

// CheckUsage checks the counters of a usage, of a run (run) or of one request: all mandatory ones there, none that is not
// listed, each an integer from 0 to 2^63-1 in its one spelling, no part above its parent (SDK-20 to SDK-23, O15). Members that
// are no counters are checked as the SDK would read them back.
func CheckUsage(v Version, usage *pyjson.Value, run bool, counters Counters, path string) []Problem {
	c := checker{version: v}
	if !usage.Is(pyjson.Object) {
		c.add(Lost, path)
		return c.problems
	}
	for _, f := range usageOther {
		if m := usage.Get(f.name); m == nil {
			c.add(Lost, path+pyjson.Pointer(f.name))
		} else {
			f.check(&c, m, path+pyjson.Pointer(f.name))
		}
	}
	mandatory := counters.Mandatory
	if run {
		mandatory = append(append([]string{}, mandatory...), "requests", "tool_calls")
	}
	for _, name := range mandatory {
		if runCounter(name) && !run {
			continue
		}
		if usage.Get(name) == nil {
			c.add(CounterMissing, path+pyjson.Pointer(name))
		}
	}
	for _, name := range declaredCounters(v) {
		if usage.Get(name) == nil && !contains(mandatory, name) {
			c.add(Lost, path+pyjson.Pointer(name))
		}
	}
	for _, m := range usage.Members {
		at := path + pyjson.Pointer(m.Name)
		switch {
		case isOther(m.Name):
		case runCounter(m.Name) && !run, !contains(mandatory, m.Name) && !contains(counters.Permitted, m.Name):
			c.add(CounterUnknown, at)
		default:
			counter(&c, m.Value, at)
		}
	}
	details := usage.Get("details")
	if details.Is(pyjson.Object) {
		for i, m := range details.Members {
			at := path + "/details" + pyjson.Pointer(m.Name)
			if !contains(counters.DetailsPermitted, m.Name) {
				c.add(CounterUnknown, path+"/details"+pyjson.Place(i))
				continue
			}
			counter(&c, m.Value, at)
		}
	}
	for _, pair := range within {
		part, ok1 := usage.Get(pair[0]).Int()
		parent, ok2 := usage.Get(pair[1]).Int()
		if ok1 && ok2 && parent >= 0 && part > parent {
			c.add(CounterOutOfBounds, path+pyjson.Pointer(pair[0]))
		}
	}
	return c.problems
}

func counter(c *checker, v *pyjson.Value, path string) {
	if n, ok := v.Int(); !ok || n < 0 {
		c.add(CounterOutOfBounds, path)
	}
}

// AddUsage returns the run usage after the SDK has taken one response: RunUsage.incr of the response's usage, one request
// more, and calls tool calls more. Both must have passed CheckUsage, and the response's cost must be null: prices are not
// known here. The problem, if any, is a counter that would overflow.
func AddUsage(run, request *pyjson.Value, calls int64) (*pyjson.Value, *Problem) {
	var problem *Problem
	sum := func(a, b *pyjson.Value, path string) *pyjson.Value {
		x, _ := a.Int()
		y, _ := b.Int()
		if x > math.MaxInt64-y {
			problem = &Problem{CounterOutOfBounds, path}
			return a
		}
		return pyjson.NewInt(x + y)
	}
	out := run
	for _, m := range request.Members {
		if !isOther(m.Name) {
			out = out.With(m.Name, sum(run.Get(m.Name), m.Value, pyjson.Pointer(m.Name)))
		}
	}
	details := run.Get("details")
	for i, m := range request.Get("details").Members {
		details = details.With(m.Name, sum(details.Get(m.Name), m.Value, "/details"+pyjson.Place(i)))
	}
	out = out.With("details", details)
	seconds, ok := addFloats(run.Get("audio_seconds"), request.Get("audio_seconds"))
	if !ok {
		problem = &Problem{CounterOutOfBounds, "/audio_seconds"}
	}
	out = out.With("audio_seconds", seconds)
	out = out.With("requests", sum(run.Get("requests"), pyjson.NewInt(1), "/requests"))
	out = out.With("tool_calls", sum(run.Get("tool_calls"), pyjson.NewInt(calls), "/tool_calls"))
	return out, problem
}

// addFloats keeps the text of the first where the second adds nothing, so a retained value stays as it was spelled.
func addFloats(a, b *pyjson.Value) (*pyjson.Value, bool) {
	y, _ := strconv.ParseFloat(b.Text, 64)
	if y == 0 {
		return a, true
	}
	x, _ := strconv.ParseFloat(a.Text, 64)
	if math.IsInf(x+y, 0) {
		return a, false
	}
	return pyjson.NewNumber(pyjson.PythonNumber(strconv.FormatFloat(x+y, 'e', -1, 64))), true
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
