package naive

import (
	"fmt"
	"slices"

	"github.com/forge-continuity/forge/models"
)

// recovery lists what stands against any recovery of a ticket, once a lease that has ended is recorded. action is the kind of
// recovery: there is one of each.
func (r *run) recovery(f factory, t *ticket, action string, a Asked) set {
	var s set
	s.when(t.actions[action] != "", models.CodeRecoveryRecorded)
	s.when(!f.policy.Enabled, models.CodePolicyDisabled)
	f.profile(&s, a.Host)
	own := t.settled.Profile // the ticket's own profile counts, where any would do for somebody else
	s.when(!f.counts(own), models.CodeProfileUnqualified)
	s.when(f.counts(own) && !covers(f.profiles[own], a.Host), models.CodeProfileMismatch)
	s.when(a.Actor != r.actor, models.CodeActorNotOriginal)
	s.when(!f.member(r.actor), models.CodeActorLost)
	s.when(f.member(r.actor) && !(f.has(r.actor, models.RoleOperator) && f.has(r.actor, models.RoleAdministrator)), models.CodeAuthorityRevoked)
	s.when(r.end == "cancelled", models.CodeRunCancelled)
	s.when(r.live || r.end == "completed" || r.end == "failed", models.CodeRunNotHeld)
	s.when(r.live || t.state == "queued", models.CodeClaimLive)
	s.when(a.OtherBytes, models.CodeTicketChanged)
	f.changed(&s, *r.registration)
	r.timeLeft(&s, a)
	r.budget(&s, "request")
	return s
}

func (r *run) neverClaimedHolds(f factory, t *ticket, a Asked) set {
	s := r.recovery(f, t, "never_claimed", a)
	s.when(t.claims > 0, models.CodeTicketClaimed)
	s.when(t.state == "uncertain", models.CodeTicketUncertain)
	failed := t.state == "failed_unclaimed" || t.state == "held" && t.actions["never_claimed"] != ""
	s.when(t.claims == 0 && t.state != "queued" && !failed, models.CodeClaimHistoryIncomplete)
	return s
}

func (r *run) boundaryHolds(f factory, t *ticket, review models.Review, a Asked) set {
	s := r.recovery(f, t, "refused_boundary", a)
	s.when(!f.policy.AllowPreAdmissionRecovery, models.CodeSettingOff)
	s.when(t.claims == 0, models.CodeClaimHistoryIncomplete)
	s.when(!(t.state == "queued" || t.state == "refused" || t.state == "held" && t.actions["refused_boundary"] != ""), models.CodeTicketUncertain)
	s.when(t.turns > 1, models.CodeNotFirstRequest)
	s.when(t.other || f.stopped["source/"+r.registration.Source.Record] > r.grantedOn, models.CodeLaterActivity)
	sent := models.RequestIssued{}
	if r.request != nil {
		sent = *r.request
	}
	s.when(sent.Checkpoint != t.settled.Derived, models.CodePendingCheckpointDiffers)
	s.when(r.refused == 0, models.CodeRefusalNotReviewed)

	revision := fmt.Sprint(r.registration.Source.Revision)
	s.when(review.Wire != sent.Wire || review.WireLength != sent.WireLength || review.SourceRevision != revision ||
		sent.Provider.IsZero() || review.Provider != sent.Provider, models.CodeReviewEvidenceMismatch)
	for kind, digest := range map[string]models.Digest{"source_validator": review.SourceValidator, "executable_probe": review.ExecutableProbe} {
		report := a.report(kind, digest)
		s.when(report == nil, models.CodeRefusalNotReviewed)
		s.when(report != nil && (report.ProviderEpoch != review.ProviderEpoch || report.Executable != review.Executable ||
			report.SourceRevision != review.SourceRevision), models.CodeReviewEvidenceMismatch)
	}
	s.when(review.Admissions+review.Jobs+review.ProviderDispatches+review.ToolCallbacks > 0, models.CodeReviewCountsNotZero)

	got := a.Reproduced
	for _, h := range got.Holds {
		s.when(true, h.Code)
	}
	if len(got.Holds) == 0 {
		sealed := got.Served == 0 && got.Module == a.Host.Module && got.Catalogue == a.Host.Catalogue && got.Checkpoint == sent.Checkpoint
		s.when(!sealed, models.CodeSandboxStopped)
		s.when(sealed && (got.Wire != sent.Wire || got.Length != sent.WireLength), models.CodeWireBytesDiffer)
	}
	return s
}

func (a Asked) report(kind string, digest models.Digest) *models.Report {
	for _, report := range a.Reports {
		if report.Kind == kind && report.Digest == digest {
			return &report
		}
	}
	return nil
}

func (r *run) observationHolds(f factory, t *ticket, a Asked) set {
	s := r.recovery(f, t, "readonly_observation", a)
	s.when(!f.policy.AllowReadonlyObservationRecovery, models.CodeSettingOff)
	s.when(!(t.state == "queued" || t.state == "observation_lost" || t.state == "held" && t.actions["readonly_observation"] != ""), models.CodeTicketUncertain)
	s.when(t.actions["refused_boundary"] == "" || t.claims < 2, models.CodeRefusalRecoveryMissing)
	calls := int64(0)
	if r.consumed != nil {
		calls = r.consumed.Calls
	}
	s.when(r.consumed == nil || t.turns != 1, models.CodeObservationTurnUnsupported)
	s.when(calls != int64(len(r.granted)), models.CodeObservationCustodyIncomplete)
	of := map[string]int{}
	for _, c := range r.granted {
		of[c.grant.Class]++
		kept := c.ended && !(c.outcome != nil && c.outcome.Failed)
		switch c.grant.Class {
		case models.ClassEvidenceRead:
			s.when(c.refused || c.ended, models.CodeObservationTurnUnsupported)
			s.when(!c.refused && !c.ended && !(c.started && c.lost), models.CodeObservationCustodyIncomplete)
		case models.ClassSourceObservation:
			s.when(c.grant.Cut.IsZero() || !c.started, models.CodeObservationCustodyIncomplete)
			s.when(!c.grant.Cut.IsZero() && c.started && !kept, models.CodeObservationTurnUnsupported)
		case models.ClassUnknown:
			s.when(true, models.CodeCallUnknown)
		case models.ClassWrite:
			s.when(true, models.CodeCallWritable)
		default:
			s.when(true, models.CodeSiblingUnsupported)
		}
	}
	s.when(of[models.ClassEvidenceRead] != 1 || of[models.ClassSourceObservation] > 1, models.CodeObservationTurnUnsupported)
	s.when(len(r.running) > 0, models.CodeUnknownEffect)
	s.when(r.later > 0 && !r.settled, models.CodeLaterActivity)

	rec := a.Rebuilt
	for _, h := range rec.Holds {
		s.when(true, h.Code)
	}
	outcomes := map[int64]models.Digest{}
	for _, o := range slices.Backward(rec.Outcomes) { // of two for one place the first counts
		outcomes[o.Position] = o.Result
	}
	whole := len(rec.Calls) > 0 && len(rec.Closing) == len(rec.Calls)
	for i, seen := range rec.Calls {
		result := "retained"
		if seen.Class == models.ClassEvidenceRead {
			result = "observation_unavailable"
		}
		whole = whole && rec.Closing[i] == (models.ClosingResult{Position: seen.Position, Result: result})
		mine := r.granted[seen.Position]
		if mine == nil {
			s.when(true, models.CodeCallNotGranted)
			continue
		}
		g := mine.grant
		given, handed := outcomes[seen.Position]
		s.when(g.ID != seen.ID || g.Args != seen.Args || g.Tool != seen.Tool || g.Class != seen.Class || handed != mine.ended || handed && given != mine.result,
			models.CodeObservationCustodyIncomplete)
	}
	if len(rec.Calls) > 0 {
		tokens := models.Tokens{}
		if r.consumed != nil {
			tokens = r.consumed.Tokens
		}
		s.when(rec.Tokens != tokens || int64(len(rec.Calls)) != calls, models.CodeObservationCustodyIncomplete)
	}
	if len(rec.Holds) == 0 {
		checkpoint := models.Digest{}
		if r.request != nil {
			checkpoint = r.request.Checkpoint
		}
		s.when(!whole || rec.Served != 1 || rec.Module != a.Host.Module || rec.Catalogue != a.Host.Catalogue || rec.Checkpoint != checkpoint ||
			rec.Response != r.response || rec.Derived.IsZero() || rec.Witness.IsZero() || rec.Proof.IsZero(), models.CodeSandboxStopped)
	}
	return s
}

// submit judges what every submission has beside its holds; candidate is the digest that it names.
func (r *run) submit(f factory, s set, acknowledged bool, seconds models.Seconds, stale bool, candidate models.Digest, a Asked) models.Code {
	s.when(!acknowledged, models.CodeAcknowledgementMissing)
	r.window(&s, f, seconds)
	s.when(stale, models.CodeDigestStale)
	s.when(a.Pending >= f.policy.MaxPendingTickets, models.CodePendingTicketsReached)
	if len(s) > 0 {
		return s.first()
	}
	if candidate != a.Current.CandidateDigest {
		return models.CodeDigestStale
	}
	s.when(a.Missing, models.CodeBlobMissing)
	return s.first()
}

func (r *run) neverClaimed(f factory, c models.RecoverNeverClaimed, a Asked) models.Code {
	t := r.find(c.RequestID)
	switch {
	case c.Version != 1:
		return models.CodeRequestMalformed
	case t == nil:
		return models.CodeNotFound
	}
	r.lapse(a)
	return r.submit(f, r.neverClaimedHolds(f, t, a),
		c.AcknowledgeNeverClaimed && c.AcknowledgeOriginalConsumptionAndBudgets && c.AcknowledgeRenewedSameAttemptLease && c.AcknowledgeSameRequestAndAttempt,
		c.ValidForSeconds, c.RunDigest != a.Current.RunDigest || c.JournalDigest != a.Current.JournalDigest || c.PolicyDigest != a.Current.PolicyDigest,
		c.CandidateDigest, a)
}

func (r *run) boundary(f factory, c models.RecoverRefusedBoundary, a Asked) models.Code {
	t, v := r.find(c.RequestID), c.Review
	bad := min(v.Admissions, v.Jobs, v.ProviderDispatches, v.ToolCallbacks) < 0 || v.WireLength < 1
	for _, label := range []string{v.Executable, v.ProviderEpoch, v.SourceRevision} {
		bad = bad || !models.ValidLabel(label)
	}
	for _, d := range []models.Digest{v.ExecutableProbe, v.SourceValidator, v.Wire} {
		bad = bad || d.IsZero()
	}
	switch {
	case c.Version != 1 || bad:
		return models.CodeRequestMalformed
	case t == nil:
		return models.CodeNotFound
	}
	r.lapse(a)
	s := r.boundaryHolds(f, t, v, a)
	// The correction is of another epoch than the one that refused, and was validated since.
	report := a.report("corrective_validation", c.CorrectiveValidation)
	validated := report != nil && report.ProviderEpoch == c.CorrectiveEpoch && report.At > r.refusedAt && report.At <= a.At
	s.when(!validated || !models.ValidLabel(c.CorrectiveEpoch) || c.CorrectiveEpoch == v.ProviderEpoch, models.CodeCorrectiveValidationMissing)
	return r.submit(f, s,
		c.AcknowledgeFiniteOwnershipLease && c.AcknowledgeNoOriginalResponseOrToolReplay && c.AcknowledgeReviewedProviderEpoch && c.AcknowledgeSameRequestAndBudgets,
		c.ValidForSeconds, false, c.CandidateDigest, a)
}

func (r *run) observation(f factory, c models.RecoverReadonlyObservation, a Asked) models.Code {
	t := r.find(c.RequestID)
	switch {
	case c.Version != 1:
		return models.CodeRequestMalformed
	case t == nil:
		return models.CodeNotFound
	}
	r.lapse(a)
	return r.submit(f, r.observationHolds(f, t, a),
		c.AcknowledgeFiniteOwnershipLease && c.AcknowledgeNoOriginalCallbackReplay && c.AcknowledgeSameRequestAttemptAndBudgets && c.AcknowledgeUnavailableObservation,
		c.ValidForSeconds, false, c.CandidateDigest, a)
}

// RecoveryHolds lists every hold of a recovery candidate, in no order; the command says of which kind and request.
func (m *Model) RecoveryHolds(a Asked) []models.Code {
	r, f := m.run(), m.factory()
	r.lapse(a)
	switch c := a.Command.(type) {
	case models.RecoverNeverClaimed:
		return r.neverClaimedHolds(f, r.find(c.RequestID), a)
	case models.RecoverRefusedBoundary:
		return r.boundaryHolds(f, r.find(c.RequestID), c.Review, a)
	case models.RecoverReadonlyObservation:
		return r.observationHolds(f, r.find(c.RequestID), a)
	}
	panic(fmt.Sprintf("naive: no recovery: %T", a.Command))
}

// schedule judges the entry of an automatic verification, by the server's scheduler or by hand. What stands against it is answered
// to a person; the scheduler leaves it as a record, and that is accepted.
func (r *run) schedule(f factory, c models.AdmitVerification, a Asked) models.Code {
	automatic := a.Actor == models.ServerActor
	switch {
	case c.Round < 1:
		return models.CodeRequestMalformed
	case r.end == "cancelled":
		return models.CodeRunCancelled
	case r.end == "failed":
		return models.CodeRunFinished
	case r.executing(a):
		return models.CodeClaimLive
	}
	r.lapse(a)
	g, v := r.registration, r.verified
	due := g.Verification.Commands > 0 && v.state != "admitted" && c.Round == r.rounds && r.rounds > g.CompletedRounds
	due = due && !(automatic && v.stopped) && !(c.Round == v.round && (automatic || v.state == "finished"))
	if !due || !r.outstanding() && !r.clean() {
		return models.CodeVerificationNotDue
	}
	if s := r.against(f, a); !automatic {
		return s.first()
	}
	return ""
}

// against lists what stands against a verification that is due.
func (r *run) against(f factory, a Asked) set {
	var s set
	f.original(&s, r.actor)
	s.when(r.outstanding(), models.CodeTicketOutstanding)
	f.changed(&s, *r.registration)
	r.timeLeft(&s, a)
	s.when(r.commands+r.registration.Verification.Commands > r.registration.Limits.Commands, models.CodeAllowanceExhausted)
	return s
}
