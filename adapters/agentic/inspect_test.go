package agentic

import (
	"slices"
	"testing"
)

// Inspection refuses what a reconstruction would: every kind of counter, wherever it stands, and each way in which the epoch is not
// one that is known. Nothing of such a record is told. CRED-05 (an unknown epoch), CRED-07 (counters).
func TestInspectionJudgesCountersAndEpoch(t *testing.T) {
	catalogue := loadCatalogue(t)
	h := openHeld(t, "2.55.0")
	if i, holds := Inspect(catalogue, h.checkpoint); len(holds) > 0 || i == nil {
		t.Fatalf("%v", holds)
	}
	const out, format = "counter_out_of_bounds", "unsupported_history_format"
	for path, cases := range map[string]map[string]string{
		"/usage/requests":                          {"-1": out, "null": out, "9223372036854775808": out},
		"/usage/tool_calls":                        {"-1": out},
		"/usage/input_tokens":                      {"-1": out, "1.0": out, `"1"`: out, "true": out},
		"/usage/output_reasoning_tokens":           {"1209": out}, // above its parent
		"/usage/web_searches":                      {"1": "counter_unknown"},
		"/usage/details/odd_tokens":                {"1": "counter_unknown"},
		"/history/1/usage/output_reasoning_tokens": {"1.5": out},
		"/history/1/usage/input_tokens":            {"-1": out},
		"/limits/request_limit":                    {`"40"`: "round_trip_loss"},
		"/state/completed_rounds":                  {"-1": "checkpoint_not_canonical"},
		"/record":                                  {`"firefly-agentic-record/9"`: format},
		"/versions/pydantic_ai":                    {`"9.9.9"`: format},
		"/source_identity":                         {`"unheard of"`: ""},
	} {
		for value, want := range cases {
			i, holds := Inspect(catalogue, h.edit(t, path, set(value)).checkpoint)
			if want == "" { // shown, and held where it is to be continued: CRED-12
				if i == nil || i.SourceIdentity != "unheard of" {
					t.Errorf("%s %s: %+v %v", path, value, i, holds)
				}
				continue
			}
			if i != nil || !slices.ContainsFunc(holds, func(h Hold) bool { return h.Code == want }) {
				t.Errorf("%s %s: %+v, holds %v, want %s", path, value, i, holds, want)
			}
		}
	}
	for _, path := range []string{"/usage/input_tokens", "/usage/requests", "/history/1/usage/output_tokens"} {
		if i, holds := Inspect(catalogue, h.edit(t, path, remove).checkpoint); i != nil || len(holds) == 0 {
			t.Errorf("without %s: %+v", path, i)
		}
	}
}

// What an admission rests on names the validator that judged the query then, also where a reviewed successor of it is registered and a query of today
// would be judged by that. CRED-01.
func TestWitnessNamesTheOriginalValidator(t *testing.T) {
	c := *loadCatalogue(t)
	first := c.Validators[0]
	next := first
	next.Source, next.SourceSHA256 = "validators/next.py", sha256Hex([]byte("a reviewed successor"))
	for _, order := range [][]Validator{{first, next}, {next, first}} {
		with := c
		with.Validators, with.Sources = order, slices.Clone(c.Sources)
		for i := range with.Sources {
			with.Sources[i].Validators = append(slices.Clone(with.Sources[i].Validators), next.SourceSHA256)
		}
		for _, judged := range []Validator{first, next} {
			h := openHeld(t, "2.55.0")
			h.params.Validator = judged.SourceSHA256
			r, refused := Reconstruct(&with, h.checkpoint, h.response, h.params)
			if refused != nil || len(r.Result.Holds) > 0 {
				t.Fatalf("%v %v", refused, r.Result.Holds)
			}
			if got, _ := tree(t, r.Witness).Get("validator").Str(); got != judged.SourceSHA256 {
				t.Errorf("judged by %s, the witness names %s", judged.SourceSHA256, got)
			}
		}
		h := openHeld(t, "2.55.0")
		h.params.Validator = sha256Hex([]byte("not reviewed"))
		if r, refused := Reconstruct(&with, h.checkpoint, h.response, h.params); refused == nil && !slices.ContainsFunc(r.Result.Holds, func(h Hold) bool { return h.Code == "validator_unregistered" }) {
			t.Errorf("another source: %v", r.Result.Holds)
		}
	}
}
