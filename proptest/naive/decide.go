package naive

import (
	"github.com/forge-continuity/forge/models"
)

func (r *run) register(f factory, g models.Registration, a Asked) models.Code {
	var s set
	bad := !models.ValidLabel(g.Mode) || !models.ValidLabel(g.Selection) || !models.ValidLabel(g.Acknowledgement) || !models.ValidID(g.TimeBudget)
	bad = bad || g.ActiveDeadline < 0 || g.TimeBudget == "none" && g.ActiveDeadline != 0 || g.TimeBudget == "absolute" && g.ActiveDeadline == 0
	bad = bad || g.CompletedRounds < 0 || g.Attempt < 1 || g.Attempt > g.Limits.Attempts
	for _, d := range []models.Digest{g.Task, g.Contract, g.Runtime, g.Validator, g.Reader} {
		bad = bad || d.IsZero()
	}
	l := g.Limits
	bad = bad || min(l.Attempts, l.Commands, l.InputTokens, l.OutputTokens, l.Repairs, l.Requests, l.SourceReads, l.ToolCalls, l.TotalTokens) < 0
	bad = bad || g.Verification.Commands < 0 || g.Verification.Commands > 0 && g.Verification.List.IsZero() || g.Verification.Commands == 0 && !g.Verification.List.IsZero()
	s.when(bad, models.CodeRequestMalformed)
	s.when(g.ProviderTimeout < 1 || g.ProviderTimeout > 7200, models.CodeWindowInvalid)
	if r.registration != nil {
		s.when(true, models.CodeRunExists)
		return s.first()
	}
	f.changed(&s, g)
	for kind, frozen := range map[string]models.Frozen{"source": g.Source, "configuration": g.Configuration, "scope": g.Scope} {
		code := map[string]models.Code{"source": models.CodeSourceChanged, "configuration": models.CodeConfigurationChanged, "scope": models.CodeScopeChanged}[kind]
		s.when(f.records[kind+"/"+frozen.Record].Revision != frozen.Revision, code)
	}
	s.when(a.Missing, models.CodeBlobMissing)
	return s.first()
}

func (r *run) ended(s *set) {
	s.when(r.end == "cancelled", models.CodeRunCancelled)
	s.when(r.end == "completed" || r.end == "failed", models.CodeRunFinished)
}

func (r *run) claim(f factory, c models.ClaimRun, a Asked) models.Code {
	var s set
	s.when(c.Pool != "" && !models.ValidID(c.Pool), models.CodeRequestMalformed)
	s.when(c.LeaseSeconds < 1 || c.LeaseSeconds > 7200, models.CodeWindowInvalid)
	verify := r.verified.state == "admitted"
	if r.end != "" && !(verify && r.end == "completed") {
		r.ended(&s)
		return s.first()
	}
	if r.executing(a) {
		s.when(true, models.CodeClaimLive)
		return s.first()
	}
	if r.outstanding() {
		t := r.newest()
		switch {
		case t.state == "queued" && a.At >= r.expires:
			s.when(true, models.CodeLeaseExpired)
		case t.state == "queued":
			r.stops(&s, f, t, a)
		case t.state == "claimed" || t.state == "uncertain":
			s.when(true, models.CodeTicketUncertain)
		default: // it waits for a person
			s.when(true, models.CodeTicketOutstanding)
		}
		return s.first()
	}
	s.when(!r.answered(), models.CodeModelOutcomeUnknown)
	s.when(r.unknown() > 0, models.CodeUnknownEffect)
	r.timeLeft(&s, a)
	if verify {
		s.when(c.Pool != models.VerificationPool, models.CodeNotInPool)
		return s.first()
	}
	s.when(r.rejected() || r.settled, models.CodeRunHeld)
	s.when(r.pool != "" && c.Pool != r.pool, models.CodeNotInPool)
	return s.first()
}

// stops lists what stops a ticket at its claim and under it (BOUND-01 to 05).
func (r *run) stops(s *set, f factory, t *ticket, a Asked) {
	s.when(!f.policy.Enabled, models.CodePolicyDisabled)
	s.when(!f.counts(t.settled.Profile), models.CodeProfileUnqualified)
	s.when(f.counts(t.settled.Profile) && !covers(f.profiles[t.settled.Profile], a.Host), models.CodeProfileMismatch)
	f.original(s, r.actor)
	f.changed(s, *r.registration)
	// What stopped since the lease was granted stays stopped for it, whatever was put back.
	g := r.registration
	for name, code := range map[string]models.Code{
		"policy": models.CodePolicyDisabled, "actor/" + r.actor: models.CodeAuthorityRevoked,
		"source/" + g.Source.Record: models.CodeSourceChanged, "configuration/" + g.Configuration.Record: models.CodeConfigurationChanged,
		"scope/" + g.Scope.Record: models.CodeScopeChanged,
	} {
		s.when(f.stopped[name] > r.grantedOn, code)
	}
	s.when(t.settled.Version == 2 && (!f.policy.AllowUnavailableSourceObservations || f.stopped["observations"] > r.grantedOn), models.CodeSettingOff)
	s.when(t.actions["refused_boundary"] != "" && (!f.policy.AllowPreAdmissionRecovery || f.stopped["pre-admission"] > r.grantedOn), models.CodeSettingOff)
	if t.actions["readonly_observation"] != "" { // the strictest: no other revision of the policy, and still an administrator (ROBS-31)
		s.when(!f.policy.AllowReadonlyObservationRecovery, models.CodeSettingOff)
		s.when(f.policy.Revision != t.reading, models.CodeDigestStale)
		s.when(f.member(r.actor) && !f.has(r.actor, models.RoleAdministrator), models.CodeAuthorityRevoked)
		s.when(f.stopped["administrator/"+r.actor] > r.grantedOn, models.CodeAuthorityRevoked)
	}
	off := !f.policy.Enabled || f.stopped["policy"] > r.grantedOn
	s.when(!off && f.narrowed(r.grantedOn, r.grantedAt.Until(r.expires)), models.CodeWindowInvalid)
}

// own lists what keeps somebody from writing as the owner.
func (r *run) own(s *set, f factory, a Asked, fence int64) {
	mine := r.live && a.Actor == r.owner && fence == r.fence && f.stopped["worker/"+r.owner] <= r.claimedOn
	s.when(!mine, models.CodeFenceLost)
	s.when(mine && a.At >= r.inForce(a.Lease), models.CodeLeaseExpired)
}

func (r *run) append(f factory, c models.Append, a Asked) models.Code {
	var s set
	s.when(len(c.Facts) < 1 || len(c.Facts) > 512, models.CodeRequestMalformed)
	for _, fact := range c.Facts {
		s.when(malformed(fact), models.CodeRequestMalformed)
	}
	r.own(&s, f, a, c.Fence)
	// Only its owner is told what stops a ticket.
	if t := r.newest(); t != nil && t.state == "claimed" && len(s) == 0 {
		r.stops(&s, f, t, a)
	}
	s.when(r.end == "cancelled", models.CodeRunCancelled)
	if len(s) > 0 {
		return s.first()
	}
	for _, fact := range c.Facts {
		if code := r.fact(f, fact); code != "" {
			return code
		}
		r.happen(Happened{At: a.At, Actor: a.Actor, Event: fact})
	}
	s.when(a.Missing, models.CodeBlobMissing)
	return s.first()
}

func malformed(f models.Fact) bool {
	switch f := f.(type) {
	case models.CheckpointSaved:
		return f.Checkpoint.IsZero()
	case models.RequestIssued:
		return f.Wire.IsZero() || f.WireBlob.IsZero() || f.WireLength < 1
	case models.ResponseKept:
		return f.Response.IsZero() || f.Length < 0
	case models.ResponseConsumed:
		return f.Calls < 0 || f.Tokens.Input < 0 || f.Tokens.Output < 0
	case models.CallGranted:
		return f.Tool < -1 || !models.ValidClass(f.Class) || f.ID.IsZero() || f.Args.IsZero()
	case models.CallRefused:
		return f.Validator.IsZero()
	case models.CallReturned:
		return f.Result.IsZero()
	case models.CommandStarted:
		return f.Command.IsZero()
	case models.CommandFinished:
		return f.Receipt.IsZero()
	case models.WorkerFailed:
		return f.Report.IsZero()
	case models.RunFailed:
		return f.Report.IsZero()
	case models.RunCompleted:
		return f.Result.IsZero()
	case models.RequestRefused:
		return f.Report.IsZero()
	case models.SourcePrepared:
		return f.Source.IsZero()
	case models.VerificationFinished:
		return f.Report.IsZero()
	}
	return false
}

// fact judges one fact where the run stands. An allowance is asked for only by what is otherwise in order.
func (r *run) fact(surroundings factory, f models.Fact) models.Code {
	var s set
	ordered := func(ok bool) bool {
		s.when(!ok, models.CodeFactOutOfOrder)
		return ok
	}
	if !ordered(r.live && !r.over()) {
		return s.first()
	}
	if r.verified.state == "claimed" {
		return r.verifies(surroundings, f)
	}
	needClean := func() {
		s.when(r.unknown() > 0, models.CodeUnknownEffect)
		ordered(r.clean())
	}
	of := func(request, position int64) *call {
		if r.request == nil || r.request.Request != request || r.settled {
			return nil
		}
		return r.granted[position]
	}
	switch f := f.(type) {
	case models.CheckpointSaved:
		needClean()
	case models.RequestIssued:
		needClean()
		fresh := r.registration.Mode != models.ModeRequired || r.checkpointRow > r.requestRow
		t := r.newest()
		derived := t == nil || t.state != "claimed" || t.turns > 0 || f.Checkpoint == t.start
		ok := ordered(f.Request == r.requests+1 && f.Checkpoint == r.checkpoint && fresh)
		if ok && len(s) == 0 {
			r.budget(&s, "request")
		}
		if len(s) == 0 {
			ordered(derived)
		}
	case models.RequestRefused:
		ordered(r.request != nil && f.Request == r.request.Request && !r.whole && !r.partial && !r.void && !r.settled && r.refused == 0)
	case models.ResponseKept:
		ordered(r.request != nil && f.Request == r.request.Request && !r.whole && !r.void && r.consumed == nil && r.refused == 0)
	case models.ResponseConsumed:
		if ordered(r.request != nil && f.Request == r.request.Request && r.whole && r.consumed == nil && f.Response == r.response) {
			s.when(f.Calls > 128, models.CodeCallsFull)
		}
	case models.CallGranted:
		taken := r.granted[f.Position] != nil
		if ordered(r.consumed != nil && !r.settled && f.Request == r.request.Request && f.Position >= 0 && f.Position < r.consumed.Calls && !taken) {
			r.budget(&s, "call")
		}
	case models.CallRefused:
		c := of(f.Request, f.Position)
		ordered(c != nil && !c.refused && !c.started)
	case models.CallIntended:
		s.when(r.lost(), models.CodeUnknownEffect)
		c := of(f.Request, f.Position)
		if ordered(c != nil && !c.refused && !c.started) && readClass(c.grant.Class) {
			r.budget(&s, "read")
		}
	case models.ToolUnknown:
		c := of(f.Request, f.Position)
		ordered(c != nil && c.started && !c.ended && !c.lost)
	case models.CallReturned:
		c := of(f.Request, f.Position)
		s.when(c != nil && c.started && !c.ended && c.lost, models.CodeUnknownEffect)
		ordered(c != nil && c.started && !c.ended)
	case models.CommandStarted:
		s.when(r.lost(), models.CodeUnknownEffect)
		ok := f.Number == r.commands+1
		if f.Position != -1 {
			c := of(f.Request, f.Position)
			ok = ok && c != nil && c.started && !c.ended && c.grant.Class == models.ClassCommand
		}
		if ordered(ok) {
			if len(r.running) >= 128 {
				return models.CodeCallsFull
			}
			r.budget(&s, "command")
		}
	case models.CommandFinished:
		_, ok := r.running[f.Number]
		ordered(ok)
	case models.RoundCompleted:
		needClean()
		ordered(f.Round == r.rounds+1)
	case models.RunCompleted:
		needClean()
		ordered(f.Round == r.rounds+1)
	case models.RunFailed:
		needClean()
	case models.SourcePrepared, models.VerificationFinished:
		ordered(false)
	case models.WorkerFailed:
	}
	return s.first()
}

// verifies judges a fact of a worker that verifies: source, then so many commands and no more, then the outcome.
func (r *run) verifies(f factory, fact models.Fact) models.Code {
	v := r.verified
	var s set
	switch fact := fact.(type) {
	case models.WorkerFailed:
	case models.SourcePrepared:
		if v.prepared {
			return models.CodeFactOutOfOrder
		}
		f.changed(&s, *r.registration)
		s.when(fact.Source != r.registration.Source.Digest, models.CodeSourceChanged)
	case models.CommandStarted:
		switch {
		case !v.prepared || fact.Position != -1 || v.started >= v.commands:
			return models.CodeFactOutOfOrder
		case r.lost():
			return models.CodeUnknownEffect
		case fact.Number != r.commands+1:
			return models.CodeFactOutOfOrder
		case len(r.running) >= 128:
			return models.CodeCallsFull
		}
		r.budget(&s, "command")
	case models.CommandFinished:
		_, ok := r.running[fact.Number]
		s.when(!ok, models.CodeFactOutOfOrder)
	case models.VerificationFinished:
		switch {
		case !v.prepared:
			return models.CodeFactOutOfOrder
		case len(r.running) > 0:
			return models.CodeUnknownEffect
		}
		s.when(fact.Passed && (v.started < v.commands || v.failures > 0), models.CodeFactOutOfOrder)
	default:
		return models.CodeFactOutOfOrder
	}
	return s.first()
}

func (r *run) release(f factory, c models.ReleaseRun, a Asked) models.Code {
	var s set
	s.when(c.Pool != "" && !models.ValidID(c.Pool) || c.Pool == models.VerificationPool, models.CodeRequestMalformed)
	r.own(&s, f, a, c.Fence)
	r.ended(&s)
	if len(s) > 0 {
		return s.first() // of a run that has ended nothing else is asked
	}
	s.when(r.outstanding(), models.CodeTicketOutstanding)
	s.when(!r.answered(), models.CodeModelOutcomeUnknown)
	s.when(r.unknown() > 0, models.CodeUnknownEffect)
	s.when(r.rejected() || r.settled, models.CodeRunHeld)
	return s.first()
}

func (r *run) retry() models.Code {
	var s set
	s.when(r.end == "cancelled", models.CodeRunCancelled)
	s.when(r.outstanding(), models.CodeTicketOutstanding)
	s.when(r.attempt >= r.registration.Limits.Attempts, models.CodeAllowanceExhausted)
	s.when(r.end != "failed", models.CodeRunNotFailed)
	return s.first()
}

func (r *run) reconcile(c models.Reconcile, a Asked) models.Code {
	var s set
	landed, charged := c.Outcome == models.OutcomeLanded, c.Outcome == models.OutcomeChargedUnknown
	bad := c.Subject != "request" && c.Subject != "call" && c.Subject != "command" && c.Subject != "ticket"
	bad = bad || c.Outcome != models.OutcomeDidNotHappen && !landed && !charged
	bad = bad || (c.RequestID != "") != (c.Subject == "ticket") || c.Evidence.IsZero() && !charged
	bad = bad || c.Result.IsZero() == (landed && c.Subject != "ticket")
	bad = bad || c.ResultLength < 0 || c.ResultLength > 0 && !(landed && c.Subject == "request")
	s.when(bad, models.CodeRequestMalformed)
	s.when(!c.AcknowledgeNoReplay || !c.AcknowledgeOriginalRecordUnchanged || !c.AcknowledgeOriginalUseCharged || charged && !c.AcknowledgeUnknownOutcome, models.CodeAcknowledgementMissing)
	s.when(r.end == "cancelled", models.CodeRunCancelled)
	s.when(r.executing(a), models.CodeClaimLive)
	if len(s) > 0 {
		return s.first()
	}
	t := r.newest()
	if c.Subject == "ticket" {
		over := r.outstanding() && (t.state != "queued" || a.At >= r.expires) // a claimed one's lease is over, or somebody executes
		if !over || t.settled.RequestID != c.RequestID || int64(t.row) != c.Seq {
			return models.CodeNothingToReconcile
		}
	} else {
		if r.outstanding() {
			return models.CodeTicketOutstanding
		}
		if !r.pending(c.Subject, c.Seq) {
			return models.CodeNothingToReconcile
		}
	}
	s.when(a.Missing, models.CodeBlobMissing)
	return s.first()
}

// pending reports whether that row began an effect of that kind whose outcome is unknown.
func (r *run) pending(subject string, seq int64) bool {
	switch subject {
	case "request":
		return r.request != nil && int64(r.requestRow) == seq && !r.answered()
	case "call":
		for _, c := range r.granted {
			if c.started && !c.ended && !r.settled && int64(c.startedRow) == seq {
				return true
			}
		}
	case "command":
		for _, row := range r.running {
			if int64(row) == seq {
				return true
			}
		}
	}
	return false
}

// admit judges a request of either version.
func (r *run) admit(f factory, c models.RequestContinuity, a Asked) models.Code {
	two := c.Version == 2
	if c.Version != 1 && !two || !two && c.AcknowledgeUnavailableSourceObservations {
		return models.CodeRequestMalformed
	}
	s := r.holds(f, a)
	s.when(a.Rebuilt.Version != 0 && a.Rebuilt.Version != c.Version, models.CodeVersionMismatch)
	s.when(two && !c.AcknowledgeUnavailableSourceObservations || !c.AcknowledgeNoNewGrant || !c.AcknowledgeOriginalConsumption || !c.AcknowledgeRenewedSameAttemptLease, models.CodeAcknowledgementMissing)
	r.window(&s, f, c.ValidForSeconds)
	s.when(c.RunDigest != a.Current.RunDigest || c.JournalDigest != a.Current.JournalDigest || c.PolicyDigest != a.Current.PolicyDigest, models.CodeDigestStale)
	s.when(int64(len(r.tickets)) >= f.policy.MaxTicketsPerRun, models.CodeTicketsPerRunReached)
	s.when(a.Pending >= f.policy.MaxPendingTickets, models.CodePendingTicketsReached)
	if len(s) > 0 {
		return s.first()
	}
	rec := a.Rebuilt
	var closing []models.ClosingResult
	counted := map[string]int{}
	for _, seen := range rec.Calls {
		how := "observation_unavailable"
		if seen.Class == models.ClassEvidenceRead {
			how = "invalid_query"
		} else if kept := r.granted[seen.Position]; kept != nil && kept.outcome != nil {
			how = "retained"
		}
		counted[how]++
		if seen.Class != models.ClassEvidenceRead && seen.Class != models.ClassSourceObservation {
			counted["other"]++
		}
		closing = append(closing, models.ClosingResult{Position: seen.Position, Result: how})
	}
	shaped := counted["invalid_query"] == 1 && counted["other"] == 0 && (two && counted["observation_unavailable"] > 0 || !two && len(rec.Calls) == 1)
	if rec.Version != c.Version || rec.Served != 1 || !shaped || rec.Module != a.Host.Module || rec.Catalogue != a.Host.Catalogue ||
		!same(rec.Closing, closing) {
		return models.CodeSandboxStopped
	}
	s.when(c.CandidateDigest != a.Current.CandidateDigest, models.CodeDigestStale)
	if len(s) == 0 {
		s.when(a.Missing, models.CodeBlobMissing)
	}
	return s.first()
}

// window refuses seconds outside of what policy and provider timeout permit.
func (r *run) window(s *set, f factory, seconds models.Seconds) {
	limit := models.Seconds(7200)
	if f.policy.Enabled {
		limit = min(limit, f.policy.MaxValidForSeconds, r.registration.ProviderTimeout)
	}
	s.when(seconds < 1 || seconds > limit, models.CodeWindowInvalid)
}

// Holds lists every hold of a candidate that the caller would see, in no order.
func (m *Model) Holds(a Asked) []models.Code { return m.run().holds(m.factory(), a) }

func (r *run) holds(f factory, a Asked) set {
	var s set
	g, rec := *r.registration, a.Rebuilt
	if r.consumed != nil {
		taken := r.settled // by a ticket's own settlement or recovery
		for _, t := range r.tickets {
			taken = taken || t.settled.ConsumeSeq == int64(r.consumedRow)
		}
		s.when(taken, models.CodeGraphHasTicket)
	}
	s.when(!f.policy.Enabled, models.CodePolicyDisabled)
	s.when(rec.Version == 2 && !f.policy.AllowUnavailableSourceObservations, models.CodeSettingOff)
	f.profile(&s, a.Host)
	s.when(a.Actor != r.actor, models.CodeActorNotOriginal)
	f.original(&s, r.actor)
	executing := r.executing(a)
	s.when(r.end == "cancelled", models.CodeRunCancelled)
	s.when(executing || r.end == "completed" || r.end == "failed", models.CodeRunNotHeld)
	s.when(g.Mode != "required", models.CodeCheckpointModeUnsupported)
	s.when(r.outstanding(), models.CodeTicketOutstanding)
	queued := r.end == "" && !r.outstanding() && r.ordinary()
	announced := r.outstanding() && r.newest().state == "queued" && a.At < r.expires
	s.when(executing || queued || announced || r.verified.state == "admitted", models.CodeClaimLive)

	switch {
	case r.request == nil || r.request.Checkpoint.IsZero():
		s.when(true, models.CodeClosureIncomplete)
	case !r.whole:
		s.when(true, models.CodeModelOutcomeUnknown)
	case r.consumed == nil:
		s.when(true, models.CodeConsumeMissing)
	}
	unknown := len(r.running) > 0
	for _, c := range r.granted {
		covered := rec.Version == 2 && c.grant.Class == models.ClassSourceObservation
		unknown = unknown || c.started && !c.ended && !r.settled && !covered
	}
	s.when(unknown, models.CodeUnknownEffect)
	s.when(r.later > 0 && !r.settled, models.CodeLaterActivity)
	f.changed(&s, g)

	// A record is inspected before anything is made of it: where it has a credential, or nobody looked, no more is told.
	screened := a.Screened != nil && a.Screened.Blob == rec.Checkpoint && a.Screened.RuleSet == a.Host.Screening
	clear := screened || a.Host.Screening.IsZero()
	s.when(!clear, models.CodeSandboxStopped)
	if screened {
		for _, finding := range a.Screened.Found {
			if !r.covered(a.Screened, finding) {
				s.when(true, models.CodeCredentialFound)
				clear = false
			}
		}
	}
	r.timeLeft(&s, a)
	r.budget(&s, "request")
	if !clear {
		return s
	}

	for _, h := range rec.Holds {
		s.when(true, h.Code)
	}
	seen := map[int64]bool{}
	for _, c := range rec.Calls {
		seen[c.Position] = true
		mine := r.granted[c.Position]
		if mine == nil {
			s.when(true, models.CodeCallNotGranted)
			continue
		}
		if rec.Version == 2 && c.Class == models.ClassSourceObservation {
			differs := mine.grant.ID != c.ID || mine.grant.Args != c.Args || mine.grant.Class != c.Class || mine.grant.Tool != c.Tool
			// An outcome by reconciliation is one here: it is a later activity, and held for that.
			kept, failed := mine.ended, mine.outcome != nil && mine.outcome.Failed
			given := models.Digest{}
			handed := false
			for _, o := range rec.Outcomes {
				if o.Position == c.Position {
					given, handed = o.Result, true
				}
			}
			wrong := failed || kept != handed || kept && mine.result != given
			s.when(differs || wrong || !mine.started || mine.grant.Cut.IsZero(), models.CodeObservationCustodyIncomplete)
			continue
		}
		s.when(mine.grant.ID != c.ID || mine.grant.Args != c.Args || mine.grant.Class != c.Class || mine.grant.Tool != c.Tool, models.CodeClosureIncomplete)
		if c.Class == models.ClassEvidenceRead {
			s.when(!mine.refused, models.CodeClosureIncomplete)
			s.when(mine.refused && mine.validator != g.Validator, models.CodeValidatorUnregistered)
		}
	}
	if len(rec.Calls) > 0 {
		s.when(r.consumed == nil || int64(len(rec.Calls)) != r.consumed.Calls || rec.Tokens != r.consumed.Tokens, models.CodeClosureIncomplete)
		for position := range r.granted {
			s.when(!seen[position], models.CodeLaterActivity)
		}
	}
	return s
}

// covered reports whether an unspent waiver lets a finding pass: of this path and rule, in this blob, under this rule set.
func (r *run) covered(in *models.Screening, f models.Finding) bool {
	for _, w := range r.waivers {
		if !w.Spent && w.Finding == f && w.Blob == in.Blob && w.RuleSet == in.RuleSet {
			return true
		}
	}
	return false
}

// waive judges an administrator's waiver: of a finding that is there now, in a run that nobody works on (CRED-08).
func (r *run) waive(c models.WaiveCredential, a Asked) models.Code {
	var s set
	s.when(!(models.Finding{Path: c.Path, Rule: c.Rule}).Valid() || c.Blob.IsZero(), models.CodeRequestMalformed)
	s.when(r.end == "cancelled", models.CodeRunCancelled)
	s.when(r.executing(a), models.CodeClaimLive)
	s.when(r.outstanding(), models.CodeTicketOutstanding)
	s.when(len(s) == 0 && len(r.waivers) >= 64, models.CodeRequestMalformed)
	if len(s) > 0 {
		return s.first()
	}
	finding, in := models.Finding{Path: c.Path, Rule: c.Rule}, a.Screened
	switch {
	case in == nil:
		return models.CodeReconstructionMissing
	case c.RuleSet != in.RuleSet: // what another set finds says nothing
		return models.CodeDigestStale
	}
	there := false
	for _, f := range in.Found {
		there = there || f == finding
	}
	s.when(!there || c.Blob != in.Blob, models.CodeNotFound)
	s.when(r.covered(in, finding), models.CodeRequestConflict)
	return s.first()
}
