package kernel

import (
	"slices"

	"github.com/forge-continuity/forge/models"
)

// maxWaivers bounds the waivers of a run, spent ones included: a record with more false alarms than that is no false alarm.
const maxWaivers = 64

// Waived returns the unspent waivers that cover findings of this screening, and the findings that none covers. A waiver binds rule,
// path, blob and rule set.
func Waived(s State, found models.Screening) (waived, left []models.Finding) {
	for _, f := range found.Found {
		if s.waiver(found, f) {
			waived = append(waived, f)
		} else {
			left = append(left, f)
		}
	}
	return waived, left
}

func (s State) waiver(found models.Screening, f models.Finding) bool {
	return slices.ContainsFunc(s.Waivers, func(w models.Waiver) bool {
		return w.SpentSeq == 0 && w.Blob == found.Blob && w.RuleSet == found.RuleSet && w.Finding == f
	})
}

// Credential refuses where screening found a credential that no unspent waiver covers: rule and path of the first, and how many.
// The value is never told (CRED-08, rules O52).
func Credential(s State, found models.Screening) *models.Refusal {
	_, left := Waived(s, found)
	if len(left) == 0 {
		return nil
	}
	return models.Refuse(models.CodeCredentialFound, models.D("rule", left[0].Rule), models.D("path", left[0].Path), models.D("count", len(left)))
}

// credential is what the screening of the checkpoint that was reconstructed says. A node that screens never goes on unscreened.
func (s State) credential(checkpoint models.Digest, env models.Env) *models.Refusal {
	switch found := env.Screening; {
	case found != nil && found.Blob == checkpoint && found.RuleSet == env.Host.Screening:
		return Credential(s, *found)
	case env.Host.Screening.IsZero():
		return nil
	}
	return models.Refuse(models.CodeSandboxStopped, models.D("reason", "not screened for credentials"))
}

func (s State) waived(found *models.Screening) []models.Finding {
	if found == nil {
		return nil
	}
	waived, _ := Waived(s, *found)
	return waived
}

// spend marks the waivers that an admission rests on.
func spend(list []models.Waiver, e models.MigrationSettled, seq int64) []models.Waiver {
	if len(e.Waived) == 0 {
		return list
	}
	out := slices.Clone(list)
	for i, w := range out {
		if w.SpentSeq == 0 && w.Blob == e.OldCheckpoint && slices.Contains(e.Waived, w.Finding) {
			out[i].SpentSeq = seq
		}
	}
	return out
}

// waive records an administrator's waiver of one finding that the screening of this moment has. Nobody may be at work on the run.
func (s State) waive(c models.WaiveCredential, env models.Env) ([]models.Event, *models.Refusal) {
	if r := s.notRegistered(); r != nil {
		return nil, r
	}
	finding := models.Finding{Path: c.Path, Rule: c.Rule}
	if !finding.Valid() || c.Blob.IsZero() {
		return nil, models.Refuse(models.CodeRequestMalformed, models.D("member", "rule, path or blob"))
	}
	if s.End == EndCancelled {
		return nil, s.ended()
	}
	if s.Lease.Executing(env.At, env.LeaseExpires) {
		return nil, models.Refuse(models.CodeClaimLive, models.D("expires_at", int64(env.LeaseExpires)))
	}
	if r := s.outstanding(); r != nil {
		return nil, r
	}
	if len(s.Waivers) >= maxWaivers {
		return nil, full("waivers", maxWaivers)
	}
	if env.Screening == nil {
		return nil, models.Refuse(models.CodeReconstructionMissing)
	}
	if r := stale("rule_set", c.RuleSet, env.Screening.RuleSet); r != nil {
		return nil, r
	}
	if env.Screening.Blob != c.Blob || !slices.Contains(env.Screening.Found, finding) {
		return nil, models.Refuse(models.CodeNotFound, models.D("rule", c.Rule), models.D("path", c.Path))
	}
	if s.waiver(*env.Screening, finding) {
		return nil, models.Refuse(models.CodeRequestConflict, models.D("rule", c.Rule), models.D("path", c.Path), models.D("what", "already waived"))
	}
	events := append(s.lapse(env), models.CredentialWaived(c))
	return events, s.room(len(events))
}

// The exact versions that an ordinary restore decodes: those of the installed worker's SDK (CRED-11). Nothing near them will do.
const (
	RestoreFireflyAgentic = "26.10.1"
	RestorePydanticAI     = "2.55.0"
)

// Restore judges the ordinary restore of a checkpoint of the run, under its own rules and the policy of no feature: it reads neither
// the continuity policy nor a profile (EPOCH-06). In order of precedence the refusals are run_cancelled, ticket_outstanding,
// time_budget_unsupported, deadline_passed, restore_version_mismatch, and restore_refused where the checkpoint's response was
// consumed, its claim has ended, or the run is no ordinary claim's to take (EPOCH-03, EPOCH-07, FLOW-22).
func Restore(s State, checkpoint models.Digest, agentic, pydantic string, env models.Env) *models.Refusal {
	if r := s.notRegistered(); r != nil {
		return r
	}
	var list []*models.Refusal
	add := func(r *models.Refusal) {
		if r != nil {
			list = append(list, r)
		}
	}
	refused := func(what string) { add(models.Refuse(models.CodeRestoreRefused, models.D("what", what))) }
	add(s.ended())
	add(s.timeBudget())
	if end := s.deadline(); end != 0 && env.At >= end {
		add(models.Refuse(models.CodeDeadlinePassed, models.D("deadline", int64(end))))
	}
	exact := agentic == RestoreFireflyAgentic && pydantic == RestorePydanticAI
	if !exact {
		add(models.Refuse(models.CodeRestoreVersionMismatch, models.D("wants_firefly_agentic", RestoreFireflyAgentic), models.D("wants_pydantic_ai", RestorePydanticAI)))
	}
	turn := s.Custody.Turn
	replays := checkpoint != s.Custody.Checkpoint || turn.ConsumeSeq > 0 && turn.Checkpoint == checkpoint
	switch {
	case replays && exact: // told before the ticket: a consumed response is never replayed, whatever else stands (EPOCH-07)
		return models.Refuse(models.CodeRestoreRefused, models.D("what", "the response to this checkpoint was consumed"))
	case s.Lease.Live && !s.Lease.Executing(env.At, env.LeaseExpires) && Reclaimable(s) == 0:
		refused("its claim has ended")
	case !s.Claimable():
		refused("the run is held")
	}
	add(s.outstanding())
	if len(list) == 0 {
		return nil
	}
	sortHolds(list)
	return list[0]
}

// JournalHold refuses where the rows, folded again, are not what the state says (ELIG-01, CRED-06).
func JournalHold(s State, n models.Recount) *models.Refusal { return s.journalHold(&n) }
