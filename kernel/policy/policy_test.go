package policy_test

import (
	"testing"

	"github.com/forge-continuity/forge/kernel/policy"
	"github.com/forge-continuity/forge/models"
	"pgregory.net/rapid"
)

// puts walks a policy through documents of every kind, beside the last that was accepted.
func puts(t *rapid.T) {
	current := models.DefaultPolicy()
	t.Repeat(map[string]func(*rapid.T){
		"put": func(t *rapid.T) {
			number := rapid.SampledFrom([]int64{-1, 0, 1, 50, 1 << 62})
			next := models.Policy{
				Enabled: rapid.Bool().Draw(t, "enabled"), Version: rapid.SampledFrom([]int64{1, 1, 1, 0, 2}).Draw(t, "version"),
				Revision:         current.Revision + rapid.SampledFrom([]int64{0, 0, -current.Revision, 1}).Draw(t, "revision"),
				MaxTicketsPerRun: number.Draw(t, "tickets"), MaxPendingTickets: number.Draw(t, "pending"),
				MaxValidForSeconds:                 models.Seconds(rapid.SampledFrom([]int64{-1, 0, 1, 7200, 7201}).Draw(t, "window")),
				AllowUnavailableSourceObservations: rapid.Bool().Draw(t, "observations"),
			}
			replaces := current.Revision + rapid.SampledFrom([]int64{0, 0, 0, 1, -1}).Draw(t, "replaces")
			want := models.Code("")
			switch {
			case next.Version != 1 || next.Revision != 0 && next.Revision != replaces || next.MaxTicketsPerRun <= 0 || next.MaxPendingTickets <= 0:
				want = models.CodeRequestMalformed
			case next.MaxValidForSeconds < 0 || next.MaxValidForSeconds > 7200 || next.Enabled && next.MaxValidForSeconds < 1:
				want = models.CodeWindowInvalid
			case replaces != current.Revision:
				want = models.CodeRevisionStale
			}
			got := policy.Refuse(current, next, replaces)
			if got == nil && want != "" || got != nil && got.Code != want {
				t.Fatalf("%+v replacing %d: %v, want %q", next, replaces, got, want)
			}
			if got == nil {
				next.Revision = current.Revision + 1
				if policy.Digest("f", next) == policy.Digest("f", current) {
					t.Fatal("P1: two revisions with one digest")
				}
				current = next
			}
		},
		"": func(t *rapid.T) {
			r, o := policy.Disabled(current), policy.ObservationsOff(current)
			if (r == nil) != current.Enabled || r != nil && r.Code != models.CodePolicyDisabled {
				t.Fatalf("P3: %v", r)
			}
			if (o == nil) != current.AllowUnavailableSourceObservations || o != nil && o.Code != models.CodeSettingOff {
				t.Fatalf("P3: %v", o)
			}
			timeout := models.Seconds(rapid.SampledFrom([]int64{1, 60, 7200}).Draw(t, "timeout"))
			limit := policy.Permitted(current, timeout)
			if limit > 7200 || limit > timeout || limit > current.MaxValidForSeconds || limit != 7200 && limit != timeout && limit != current.MaxValidForSeconds {
				t.Fatalf("permitted %d", limit)
			}
			for _, s := range []models.Seconds{-1, 0, 1, limit, limit + 1} {
				if r := policy.Window(current, timeout, s); (r == nil) != (s >= 1 && s <= limit) || r != nil && r.Code != models.CodeWindowInvalid {
					t.Fatalf("window %d of %d: %v", s, limit, r)
				}
			}
		},
	})
}

func TestPuts(t *testing.T) { rapid.Check(t, puts) }
func FuzzPuts(f *testing.F) { f.Fuzz(rapid.MakeFuzz(puts)) }
