package kernel

import (
	"slices"

	"github.com/forge-continuity/forge/kernel/custody"
	"github.com/forge-continuity/forge/kernel/lease"
	"github.com/forge-continuity/forge/kernel/policy"
	"github.com/forge-continuity/forge/kernel/profile"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// sortHolds puts holds into the table's order of precedence.
func sortHolds(holds []*models.Refusal) {
	slices.SortStableFunc(holds, func(a, b *models.Refusal) int {
		return models.Precedence(a.Code) - models.Precedence(b.Code)
	})
}

// holds lists everything that stands between the run and an admission now, in order of precedence, as far as it can be
// known: without a reconstruction in env the holds that only the sandbox finds are absent (spec, Exact eligibility).
func (s State) holds(env models.Env) []*models.Refusal {
	var list []*models.Refusal
	add := func(r *models.Refusal) {
		if r != nil {
			list = append(list, r)
		}
	}
	if graph, ok := s.Graph(); ok {
		t, taken := s.Tickets.ForGraph(graph)
		if last, any := s.Tickets.Last(); any && s.Custody.Turn.Settled {
			t, taken = last, true // also in a later attempt, whose number is in the digest of the graph
		}
		if taken {
			add(models.Refuse(models.CodeGraphHasTicket, models.D("request_id", t.RequestID)))
		}
	}
	f := env.Factory
	add(policy.Disabled(f.Policy))
	if env.Reconstruction != nil && env.Reconstruction.Version == 2 {
		add(policy.ObservationsOff(f.Policy))
	}
	_, r := profile.Select(f, env.Host)
	add(r)
	if env.Actor != s.OriginalActor {
		add(models.Refuse(models.CodeActorNotOriginal, models.D("original_actor", s.OriginalActor)))
	}
	add(s.original(env, false))
	s.runHolds(env, add)
	s.custodyHolds(env, add)
	for _, r := range s.changes(env) {
		add(r)
	}
	s.sandboxHolds(env, add)
	add(s.timeBudget())
	if _, r := lease.Window(env.At, 1, s.deadline()); r != nil {
		add(r)
	}
	add(s.Budget.Request())
	sortHolds(list)
	return list
}

// runHolds are those of the run as a whole: cancelled, not held, another mode, a claim that is live or could be made, and
// a ticket that is outstanding (FLOW-17, FLOW-19).
func (s State) runHolds(env models.Env, add func(*models.Refusal)) {
	if s.End == EndCancelled {
		add(s.ended())
	}
	executing := s.Lease.Executing(env.At, env.LeaseExpires)
	if done := s.End == EndCompleted || s.End == EndFailed; done || executing {
		add(models.Refuse(models.CodeRunNotHeld, models.D("executing", executing), models.D("ended", done)))
	}
	if s.Registration.Mode != models.ModeRequired {
		add(models.Refuse(models.CodeCheckpointModeUnsupported, models.D("mode", s.Registration.Mode)))
	}
	outstanding := false
	if t, ok := s.Tickets.Last(); ok && t.Outstanding() {
		outstanding = true
		add(models.Refuse(models.CodeTicketOutstanding, models.D("request_id", t.RequestID), models.D("state", t.State)))
	}
	queued := s.End == "" && !executing && !outstanding && s.Claimable()
	queued = queued || s.Verification.State == models.VerificationStateAdmitted
	if executing || queued || outstanding && Queue(s) != nil && s.Lease.Waiting(env.At) {
		add(models.Refuse(models.CodeClaimLive, models.D("executing", executing), models.D("queued", !executing)))
	}
}

// journalHold lays the rows, folded again, beside the state: the chain holds, and the counts are those of the rows (ELIG-01).
func (s State) journalHold(n *models.Recount) *models.Refusal {
	switch {
	case n == nil:
	case n.BrokenAt > 0:
		return models.Refuse(models.CodeJournalBroken, models.D("seq", n.BrokenAt))
	case n.Head != s.Head || n.Cached != "" && n.Cached != n.Fingerprint || n.Commands != s.Budget.Spent.Commands ||
		n.Calls != s.Budget.Spent.ToolCalls || n.Requests != s.Budget.Spent.Requests:
		return models.Refuse(models.CodeJournalBroken, models.D("seq", s.Head.Seq), models.D("what", "the cached state differs from the rows"))
	}
	return nil
}

// custodyHolds are those that the rows alone show: a broken chain, an open closure, and effects (ELIG-01, 02, 13, 14, 16).
func (s State) custodyHolds(env models.Env, add func(*models.Refusal)) {
	add(s.journalHold(env.Recount))
	t := s.Custody.Turn
	switch {
	case t.Request == 0:
		add(models.Refuse(models.CodeClosureIncomplete, models.D("missing", "request")))
	case t.Checkpoint.IsZero():
		add(models.Refuse(models.CodeClosureIncomplete, models.D("missing", "checkpoint")))
	case t.ResponseSeq == 0 || t.Partial:
		add(models.Refuse(models.CodeModelOutcomeUnknown, models.D("request", t.Request), models.D("partial", t.Partial)))
	case t.ConsumeSeq == 0:
		add(models.Refuse(models.CodeConsumeMissing, models.D("request", t.Request)))
	}
	version := int64(0)
	if env.Reconstruction != nil {
		version = env.Reconstruction.Version
	}
	for _, c := range t.Calls {
		covered := version == 2 && c.Class == models.ClassSourceObservation
		if c.Unknown() && !t.Settled && !covered {
			add(models.Refuse(models.CodeUnknownEffect, models.D("seq", c.IntentSeq), models.D("class", c.Class), models.D("writable", writable(c.Class))))
			break
		}
	}
	if len(s.Custody.Commands) > 0 {
		add(models.Refuse(models.CodeUnknownEffect, models.D("seq", s.Custody.Commands[0].Seq), models.D("class", models.ClassCommand), models.D("writable", true)))
	}
	if t.Later > 0 && !t.Settled {
		add(models.Refuse(models.CodeLaterActivity, models.D("seq", t.Later)))
	}
}

func writable(class string) bool {
	switch class {
	case models.ClassEvidenceRead, models.ClassSourceObservation, models.ClassPureRead:
		return false
	}
	return true
}

// sandboxHolds adds what the sandbox found, and what shows when its calls are laid beside the rows: each call of the
// response needs its grant, each grant its call, and the evidence read its refusal before start.
func (s State) sandboxHolds(env models.Env, add func(*models.Refusal)) {
	rec := env.Reconstruction
	if rec == nil {
		return
	}
	// Inspection comes before migration and parsing: what those found is not told of a record that holds a credential (SDK-24).
	if r := s.credential(rec.Checkpoint, env); r != nil {
		add(r)
		return
	}
	for _, h := range rec.Holds {
		add(reported(h))
	}
	t := s.Custody.Turn
	incomplete := func(what string, position int64) {
		add(models.Refuse(models.CodeClosureIncomplete, models.D("differs", what), models.D("position", position)))
	}
	if rec.Checkpoint != t.Checkpoint || rec.Response != t.Response {
		incomplete("checkpoint or response", -1)
	}
	if len(rec.Calls) == 0 {
		return // the parser got no further than the holds say
	}
	if rec.Tokens != t.Tokens {
		incomplete("usage", -1)
	}
	if int64(len(rec.Calls)) != t.CallCount {
		incomplete("number of calls", -1)
	}
	for _, seen := range rec.Calls {
		i := slices.IndexFunc(t.Calls, func(c custody.Call) bool { return c.Position == seen.Position })
		if i < 0 {
			add(models.Refuse(models.CodeCallNotGranted, models.D("position", seen.Position)))
			continue
		}
		c := t.Calls[i]
		differs := c.ID != seen.ID || c.Args != seen.Args || c.Tool != seen.Tool || c.Class != seen.Class
		if rec.Version == 2 && seen.Class == models.ClassSourceObservation {
			if lacks := observed(c, differs, *rec); lacks != "" {
				add(models.Refuse(models.CodeObservationCustodyIncomplete, models.D("position", seen.Position), models.D("lacks", lacks)))
			}
			continue
		}
		if differs {
			incomplete("granted call", seen.Position)
		}
		if seen.Class != models.ClassEvidenceRead {
			continue
		}
		if c.RefusedSeq == 0 {
			incomplete("refusal before start", seen.Position)
		} else if c.Validator != s.Registration.Validator {
			add(models.Refuse(models.CodeValidatorUnregistered, models.D("validator", c.Validator)))
		}
	}
	for _, c := range t.Calls {
		if !slices.ContainsFunc(rec.Calls, func(seen models.SeenCall) bool { return seen.Position == c.Position }) {
			add(models.Refuse(models.CodeLaterActivity, models.D("seq", c.GrantSeq)))
		}
	}
}

// observed says what the rows of a version-2 sibling lack, or nothing: the grant of this very call with its source cut, an
// intent, and either no outcome or a successful one, which then is what the sandbox was given (OBS-03, OBS-05, OBS-15).
func observed(c custody.Call, differs bool, rec models.Reconstruction) string {
	i := slices.IndexFunc(rec.Outcomes, func(r models.Retained) bool { return r.Position == c.Position })
	kept := c.OutcomeSeq > 0
	switch {
	case differs:
		return "grant of this call"
	case c.Cut.IsZero():
		return "source cut"
	case c.IntentSeq == 0:
		return "intent"
	case c.Failed:
		return "a successful outcome"
	case kept != (i >= 0), kept && rec.Outcomes[i].Result != c.Result:
		return "outcome of this call"
	}
	return ""
}

// reported is a hold of the sandbox as a refusal. It came from outside, so a code that is not in the table or a detail
// named twice is an answer that this build cannot judge, never a panic.
func reported(h models.SandboxHold) *models.Refusal {
	if _, ok := models.Lookup(h.Code); !ok {
		return models.Refuse(models.CodeSandboxStopped, models.D("reason", "unknown hold"))
	}
	for i, d := range h.Details {
		if slices.ContainsFunc(h.Details[:i], func(e models.Detail) bool { return e.Name == d.Name }) {
			return models.Refuse(h.Code)
		}
	}
	return models.Refuse(h.Code, h.Details...)
}

// proved says what a proof lacks, or nothing: served once, by the code that is installed, over exactly one evidence read
// closed as invalid_query, and with every digest that the settlement binds (REC-01, ELIG-05). Version 1 has no other call
// (REC-04). Version 2 has at least one unavailable source observation; one whose outcome is retained is closed by it (OBS-11,
// rules O7).
func proved(rec models.Reconstruction, h models.Host) string {
	switch {
	case rec.Version != 1 && rec.Version != 2 || rec.Served != 1:
		return "no proof"
	case rec.Module != h.Module || rec.Catalogue != h.Catalogue:
		return "made by other migration code"
	case rec.Contract.IsZero() || rec.Derived.IsZero() || rec.Proof.IsZero() || rec.Witness.IsZero():
		return "a digest is missing"
	}
	evidence, unavailable := 0, 0
	other := len(rec.Closing) != len(rec.Calls)
	for i, c := range rec.Calls {
		want := models.ClosingResult{Position: c.Position, Result: models.ResultObservationUnavailable}
		switch {
		case c.Class == models.ClassEvidenceRead:
			evidence++
			want.Result = models.ResultInvalidQuery
		case c.Class != models.ClassSourceObservation:
			return "not the single evidence read"
		case slices.ContainsFunc(rec.Outcomes, func(r models.Retained) bool { return r.Position == c.Position }):
			want.Result = models.ResultRetained
		default:
			unavailable++
		}
		other = other || rec.Closing[i] != want
	}
	switch {
	case evidence != 1:
		return "not the single evidence read"
	case other:
		return "another closing result"
	case rec.Version == 1 && len(rec.Calls) != 1, rec.Version == 2 && unavailable == 0:
		return "the shape of the other version"
	}
	return ""
}

// Closed reports whether the rows hold a whole closure that the sandbox could be given: request, checkpoint, response and
// consume.
func (s State) Closed() bool {
	t := s.Custody.Turn
	return t.ConsumeSeq > 0 && !t.Checkpoint.IsZero()
}

// Candidate computes what could be admitted now and every hold. It changes nothing (FLOW-08).
func Candidate(s State, env models.Env) models.Candidate {
	p := env.Factory.Policy
	c := models.Candidate{
		Attempt: s.Attempt, Counters: s.Counters(), CustodyDigest: s.Custody.Digest, Fixture: env.Factory.Fixture,
		Holds: s.holds(env), JournalDigest: s.Head.Digest(), OriginalActor: s.OriginalActor,
		PermittedSeconds: s.permitted(env), PolicyDigest: env.Factory.PolicyDigest,
		PolicyRevision: p.Revision, Run: s.Run, RunDigest: s.RunDigest(),
		SourceDigest: models.Tagged(models.TagSource, canon.MustMarshal(s.Registration.Source)),
		Module:       env.Host.Module, Catalogue: env.Host.Catalogue,
	}
	c.ConsumedGraph, _ = s.Graph()
	if chosen, r := profile.Select(env.Factory, env.Host); r == nil {
		c.Profile, c.ProfileDigest, c.Qualifications = chosen.Profile.ID, chosen.Digest, chosen.Profile.Qualifications
	}
	if rec := env.Reconstruction; rec != nil {
		c.Version, c.Closing, c.Contract, c.Derived, c.Proof, c.Witness = rec.Version, rec.Closing, rec.Contract, rec.Derived, rec.Proof, rec.Witness
		c.EntryPoint = rec.EntryPoint
	}
	c.Eligible = len(c.Holds) == 0
	c.CandidateDigest = candidateDigest(c)
	return c
}

// candidateDigest covers version, the other digests, source, profile with its qualifications, module, catalogue, captured
// contract, proof, derived checkpoint and closing results: nothing that moves with the clock (rules O22).
func candidateDigest(c models.Candidate) models.Digest {
	return models.Tagged(models.TagCandidate, canon.MustMarshal(struct {
		Attempt        int64                  `json:"attempt"`
		Catalogue      models.Digest          `json:"catalogue"`
		Closing        []models.ClosingResult `json:"closing"`
		Contract       models.Digest          `json:"contract_digest"`
		Custody        models.Digest          `json:"custody_digest"`
		Derived        models.Digest          `json:"derived_checkpoint"`
		Graph          models.Digest          `json:"consumed_graph"`
		Journal        models.Digest          `json:"journal_digest"`
		Module         models.Digest          `json:"module"`
		Policy         models.Digest          `json:"policy_digest"`
		Profile        models.Digest          `json:"profile_digest"`
		Proof          models.Digest          `json:"proof_digest"`
		Qualifications []models.Qualification `json:"qualifications"`
		Run            models.Digest          `json:"run_digest"`
		Source         models.Digest          `json:"source_digest"`
		Version        int64                  `json:"version"`
		Witness        models.Digest          `json:"witness"`
	}{c.Attempt, c.Catalogue, c.Closing, c.Contract, c.CustodyDigest, c.Derived, c.ConsumedGraph, c.JournalDigest, c.Module,
		c.PolicyDigest, c.ProfileDigest, c.Proof, c.Qualifications, c.RunDigest, c.SourceDigest, c.Version, c.Witness}))
}

// requestContinuity admits a version-1 or version-2 request: the settlement and, in the next row, the lease without an owner (FLOW-23).
// The first refusal in the order of the table is the answer; the candidate digest is compared last of all (rules, no. 43).
func (s State) requestContinuity(id string, c models.RequestContinuity, env models.Env) ([]models.Event, *models.Refusal) {
	if r := s.notRegistered(); r != nil {
		return nil, r
	}
	if c.Version != 1 && c.Version != 2 || c.Version == 1 && c.AcknowledgeUnavailableSourceObservations {
		return nil, models.Refuse(models.CodeRequestMalformed, models.D("member", "version"))
	}
	f, rec := env.Factory, env.Reconstruction
	list := s.holds(env)
	add := func(r *models.Refusal) {
		if r != nil {
			list = append(list, r)
		}
	}
	if rec != nil && rec.Version != 0 && rec.Version != c.Version {
		add(models.Refuse(models.CodeVersionMismatch, models.D("request", c.Version), models.D("proof", rec.Version)))
	}
	for _, a := range []struct {
		name  string
		given bool
	}{
		{"acknowledge_no_new_grant", c.AcknowledgeNoNewGrant},
		{"acknowledge_original_consumption", c.AcknowledgeOriginalConsumption},
		{"acknowledge_renewed_same_attempt_lease", c.AcknowledgeRenewedSameAttemptLease},
		{"acknowledge_unavailable_source_observations", c.AcknowledgeUnavailableSourceObservations || c.Version == 1},
	} {
		if !a.given {
			add(models.Refuse(models.CodeAcknowledgementMissing, models.D("acknowledgement", a.name)))
			break
		}
	}
	if f.Policy.Enabled {
		add(policy.Window(f.Policy, s.Registration.ProviderTimeout, c.ValidForSeconds))
	} else if c.ValidForSeconds < 1 || c.ValidForSeconds > models.MaxWindow {
		add(models.Refuse(models.CodeWindowInvalid, models.D("got", int64(c.ValidForSeconds)), models.D("limit", int64(models.MaxWindow))))
	}
	if s.attempted(c.RunDigest) {
		add(models.Refuse(models.CodeAttemptMismatch, models.D("attempt", s.Attempt)))
	} else {
		add(stale("run", c.RunDigest, s.RunDigest()))
	}
	add(stale("journal", c.JournalDigest, s.Head.Digest()))
	add(stale("policy", c.PolicyDigest, f.PolicyDigest))
	if int64(len(s.Tickets.Tickets)) >= f.Policy.MaxTicketsPerRun {
		add(models.Refuse(models.CodeTicketsPerRunReached, models.D("limit", f.Policy.MaxTicketsPerRun)))
	}
	if c.Version == 2 && rec == nil {
		add(policy.ObservationsOff(f.Policy))
	}
	if env.Pending >= f.Policy.MaxPendingTickets {
		add(models.Refuse(models.CodePendingTicketsReached, models.D("limit", f.Policy.MaxPendingTickets)))
	}
	sortHolds(list)
	if env.Recount == nil {
		// Asked before the costly steps, when what they would find is not known: only what is checked this early answers.
		list = slices.DeleteFunc(list, func(r *models.Refusal) bool { return !early(r.Code) })
	}
	if len(list) > 0 {
		return nil, list[0]
	}
	if rec == nil || env.Recount == nil {
		return nil, models.Refuse(models.CodeReconstructionMissing)
	}
	if lacks := proved(*rec, env.Host); lacks != "" {
		return nil, models.Refuse(models.CodeSandboxStopped, models.D("reason", lacks), models.D("served", rec.Served))
	}
	candidate := Candidate(s, env)
	if r := stale("candidate", c.CandidateDigest, candidate.CandidateDigest); r != nil {
		return nil, r
	}
	return s.admission(id, c, candidate, env)
}

// early reports whether a refusal is answered before rows are folded again and the sandbox runs: everything up to the
// outstanding ticket, changed records and stale digests (rules, section 5).
func early(c models.Code) bool {
	n := models.Precedence(c)
	return n <= models.Precedence(models.CodeTicketOutstanding) ||
		n >= models.Precedence(models.CodeSourceChanged) && n <= models.Precedence(models.CodeDigestStale)
}

// attempted reports whether a run digest is that of an earlier attempt of this run (FLOW-17).
func (s State) attempted(run models.Digest) bool {
	earlier := s
	for earlier.Attempt = s.Registration.Attempt; earlier.Attempt < s.Attempt; earlier.Attempt++ {
		if earlier.RunDigest() == run {
			return true
		}
	}
	return false
}

func stale(name string, got, want models.Digest) *models.Refusal {
	if got == want {
		return nil
	}
	return models.Refuse(models.CodeDigestStale, models.D("digest", name), models.D("got", got), models.D("want", want))
}

func (s State) admission(id string, c models.RequestContinuity, candidate models.Candidate, env models.Env) ([]models.Event, *models.Refusal) {
	end, r := lease.Window(env.At, c.ValidForSeconds, s.deadline())
	if r != nil {
		return nil, r
	}
	admission, err := models.CommandDigest(env.Actor, c)
	if err != nil {
		panic(err)
	}
	t, g := s.Custody.Turn, s.Registration
	events := append(s.lapse(env),
		models.MigrationSettled{
			Admission: admission, Attempt: s.Attempt, Candidate: candidate.CandidateDigest, Catalogue: candidate.Catalogue,
			Closing: candidate.Closing, ConsumeSeq: t.ConsumeSeq, Contract: candidate.Contract,
			CurrentEpoch: models.CurrentEpoch{PolicyDigest: candidate.PolicyDigest, PolicyRevision: candidate.PolicyRevision},
			Custody:      candidate.CustodyDigest, Derived: candidate.Derived, EntryPoint: candidate.EntryPoint, Fixture: candidate.Fixture, Graph: candidate.ConsumedGraph,
			HistoricEpoch: models.Epoch{Acknowledgement: g.Acknowledgement, Mode: g.Mode, Selection: g.Selection},
			Journal:       candidate.JournalDigest, Module: candidate.Module, OldCheckpoint: t.Checkpoint, Profile: candidate.Profile,
			ProfileDigest: candidate.ProfileDigest, Proof: candidate.Proof, Response: t.Response, RequestID: id, Version: c.Version,
			Waived: s.waived(env.Screening), Witness: candidate.Witness,
		},
		models.LeaseGranted{ExpiresAt: end, RequestID: id, Seconds: env.At.Until(end)},
	)
	if r := missing(env); r != nil {
		return nil, r
	}
	return events, s.room(len(events))
}
