package engine

import (
	"regexp"
	"slices"

	"github.com/forge-continuity/forge/models"
)

// said is the sandbox's typed "no" about the bytes that it was given, as it may be told; nil where an error says nothing about
// them.
func said(s Screener, err error) *models.Refusal {
	r, ok := IsRefusal(err)
	if !ok || r.Code == models.CodeBusy || r.Code == models.CodeUnavailable {
		return nil
	}
	code := r.Code
	if code == models.CodeRequestMalformed { // of the host's own message, which no caller wrote
		code = models.CodeSandboxStopped
	}
	return models.Refuse(code, unsaid(s, r.Details)...)
}

var words = regexp.MustCompile(`[^/"\[\]{},: ]+`)

// unsaid returns details in which "~" stands for every word that screening takes for a credential. The guest names what it found by
// its path, and the steps of a path are names of members: somebody's text, and perhaps a key (CRED-08).
func unsaid(s Screener, details []models.Detail) []models.Detail {
	if s == nil {
		return details
	}
	found := func(text string) bool { return len(s.Screen([]byte(text))) > 0 }
	out := slices.Clone(details)
	for i := range out {
		if !found(out[i].Value) {
			continue
		}
		out[i].Value = words.ReplaceAllStringFunc(out[i].Value, func(word string) string {
			if found(word) {
				return "~"
			}
			return word
		})
		if found(out[i].Value) {
			out[i].Value = "~"
		}
	}
	return out
}
