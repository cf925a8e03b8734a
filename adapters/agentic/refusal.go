package agentic

import (
	"slices"
	"strings"

	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/models/guestabi"
)

// codes are those that this package answers, in the order of precedence of the refusal table (models/codes.go, which the guest
// does not import; a test of the host compares the two).
var codes = []string{
	"request_malformed", "observation_turn_unsupported", "closure_incomplete", "source_unregistered", "runtime_unregistered", "validator_unregistered", "reader_unregistered",
	"policy_epoch_unknown", "unsupported_history_format", "sdk_pair_unsupported", "record_out_of_bounds", "checkpoint_not_canonical",
	"response_content_unsupported", "call_unknown", "call_writable", "sibling_unsupported", "evidence_call_not_single",
	"sibling_present", "duplicate_call_id", "call_not_granted", "query_not_object", "query_outside_schema", "query_valid",
	"sibling_arguments_invalid", "observation_custody_incomplete", "checkpoint_field_unknown", "provenance_unsupported", "tool_kind_unsupported", "counter_missing",
	"counter_unknown", "counter_out_of_bounds", "round_trip_loss", "response_unparsable", "sandbox_stopped", "contract_changed", "reviewed_history_differs",
}

// details are the facts of a hold or refusal: paths, positions, bounds and closed words of ours, never content of a run. The
// object is flat.
type details map[string]any

// Hold is one reason why a turn may not continue.
type Hold struct {
	Code    string    `json:"code"`
	Details canon.Raw `json:"details"`
}

func newHold(code string, d details) Hold {
	if !slices.Contains(codes, code) {
		panic("agentic: hold with unknown code " + code)
	}
	if d == nil {
		d = details{}
	}
	return Hold{code, canon.MustMarshal(map[string]any(d))}
}

// sortHolds puts holds into the table's order, those of one code as they were found.
func sortHolds(holds []Hold) {
	slices.SortStableFunc(holds, func(a, b Hold) int { return slices.Index(codes, a.Code) - slices.Index(codes, b.Code) })
}

func refusal(code string, d details) *guestabi.Refusal {
	h := newHold(code, d)
	return &guestabi.Refusal{Code: h.Code, Details: h.Details}
}

func stopped(reason string) *guestabi.Refusal {
	return refusal("sandbox_stopped", details{"reason": reason})
}

func malformed(where, reason string) *guestabi.Refusal {
	return refusal("request_malformed", details{"where": where, "reason": reason})
}

// plainPath makes a JSON Pointer fit for a row: a step that is no plain name, and so may be content, becomes "~".
func plainPath(path string) string {
	steps := strings.Split(path, "/")
	for i, step := range steps {
		if len(step) > 64 || strings.ContainsFunc(step, func(r rune) bool {
			return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-$", r))
		}) {
			steps[i] = "~"
		}
	}
	return strings.Join(steps, "/")
}
