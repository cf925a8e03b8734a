// Package policy is the factory's continuity policy: what a PUT may set, and what must hold for a ticket.
//
// Invariants:
//
//	P1. A revision rises by one with each PUT and never changes afterwards (FLOW-02).
//	P2. Each switch counts only while the policy is enabled (OBS-07).
//	P3. Nothing is admitted with the policy disabled or the workflow's switch off (rules, invariant 17).
package policy

import (
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// Digest names a policy document together with its revision, in a factory.
func Digest(factory string, p models.Policy) models.Digest {
	return models.Tagged(models.TagPolicy, []byte(factory), canon.MustMarshal(p))
}

// Refuse checks a document that a PUT wants to set. replaces is the revision that the caller saw (rules O24).
func Refuse(current, next models.Policy, replaces int64) *models.Refusal {
	bad := func(member string) *models.Refusal {
		return models.Refuse(models.CodeRequestMalformed, models.D("member", member))
	}
	switch {
	case next.Version != 1:
		return bad("version")
	case next.Revision != 0 && next.Revision != replaces:
		return bad("revision")
	case next.MaxTicketsPerRun < 1:
		return bad("max_tickets_per_run")
	case next.MaxPendingTickets < 1:
		return bad("max_pending_tickets")
	case next.MaxValidForSeconds < 0 || next.MaxValidForSeconds > models.MaxWindow,
		next.Enabled && next.MaxValidForSeconds == 0:
		return models.Refuse(models.CodeWindowInvalid, models.D("member", "max_valid_for_seconds"),
			models.D("limit", int64(models.MaxWindow)))
	case replaces != current.Revision:
		return models.Refuse(models.CodeRevisionStale, models.D("got", replaces), models.D("want", current.Revision))
	}
	return nil
}

// Disabled refuses while the finite-lease policy is off.
func Disabled(p models.Policy) *models.Refusal {
	if !p.Enabled {
		return models.Refuse(models.CodePolicyDisabled, models.D("revision", p.Revision))
	}
	return nil
}

// ObservationsOff refuses a version-2 proof while its switch is off.
func ObservationsOff(p models.Policy) *models.Refusal {
	if !p.AllowUnavailableSourceObservations {
		return models.Refuse(models.CodeSettingOff, models.D("setting", "allow_unavailable_source_observations"))
	}
	return nil
}

// PreAdmissionOff refuses a refused-boundary recovery, and the ticket that one queued, while its switch is off.
func PreAdmissionOff(p models.Policy) *models.Refusal {
	if !p.AllowPreAdmissionRecovery {
		return models.Refuse(models.CodeSettingOff, models.D("setting", "allow_pre_admission_recovery"))
	}
	return nil
}

// ReadonlyOff refuses a read-only observation recovery, and the ticket that one queued, while its switch is off.
func ReadonlyOff(p models.Policy) *models.Refusal {
	if !p.AllowReadonlyObservationRecovery {
		return models.Refuse(models.CodeSettingOff, models.D("setting", "allow_readonly_observation_recovery"))
	}
	return nil
}

// Permitted returns the longest window that may be asked for under this policy and a run's frozen provider timeout.
func Permitted(p models.Policy, timeout models.Seconds) models.Seconds {
	return min(p.MaxValidForSeconds, timeout, models.MaxWindow)
}

// Window refuses seconds outside 1..Permitted (rules O28).
func Window(p models.Policy, timeout, seconds models.Seconds) *models.Refusal {
	if limit := Permitted(p, timeout); seconds < 1 || seconds > limit {
		return models.Refuse(models.CodeWindowInvalid, models.D("got", int64(seconds)), models.D("limit", int64(limit)))
	}
	return nil
}
