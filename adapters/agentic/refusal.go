package agentic

import (
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/models/guestabi"
)

// details are the facts of a hold or refusal: closed member names of ours, paths, counts and enums, never content of a run.
type details map[string]any

func refusal(code string, d details) *guestabi.Refusal {
	r := &guestabi.Refusal{Code: code}
	if len(d) > 0 {
		r.Details = canon.MustMarshal(map[string]any(d))
	}
	return r
}

func stopped(reason string) *guestabi.Refusal {
	return refusal("sandbox_stopped", details{"reason": reason})
}

func malformed(where, reason string) *guestabi.Refusal {
	return refusal("request_malformed", details{"where": where, "reason": reason})
}
