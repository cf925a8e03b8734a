package kernel

import (
	"slices"

	"github.com/forge-continuity/forge/kernel/custody"
	"github.com/forge-continuity/forge/kernel/policy"
	"github.com/forge-continuity/forge/kernel/ticket"
	"github.com/forge-continuity/forge/models"
)

// ObservationCandidate computes what a read-only observation recovery would queue again, and every hold. It changes nothing
// (ROBS-19). The refusal is not_found.
func ObservationCandidate(s State, requestID string, env models.Env) (models.RecoveryCandidate, *models.Refusal) {
	return s.candidate(models.WorkflowReadonlyObservation, requestID, env, func(after State, t ticket.Ticket, add func(*models.Refusal)) {
		after.observationHolds(t, env, add)
	}, func(c *models.RecoveryCandidate) {
		if r := env.Reconstruction; r != nil {
			c.Closing, c.Derived, c.Proof, c.Witness = r.Closing, r.Derived, r.Proof, r.Witness
		}
		if h := env.History; h != nil {
			c.Unknown = h.Lost
		}
	})
}

// observationHolds are what stands between a turn with a lost evidence result and its one recovery (ROBS-05 to 10, 16).
func (s State) observationHolds(t ticket.Ticket, env models.Env, add func(*models.Refusal)) {
	if t.ReadonlyObservation != "" {
		add(models.Refuse(models.CodeRecoveryRecorded, models.D("recovery_id", t.ReadonlyObservation)))
	}
	add(policy.ReadonlyOff(env.Factory.Policy))
	switch {
	case t.State == ticket.ObservationLost, t.State == ticket.Queued, t.ReadonlyObservation != "" && t.State == ticket.Held:
	default:
		add(models.Refuse(models.CodeTicketUncertain, models.D("request_id", t.RequestID), models.D("state", t.State)))
	}
	if h := env.History; t.RefusedBoundary == "" || h != nil && (h.Claims < 2 || h.Settled == 0 || h.Gap > 0) {
		add(models.Refuse(models.CodeRefusalRecoveryMissing, models.D("request_id", t.RequestID)))
	}
	turn := s.Custody.Turn
	unsupported := func(details ...models.Detail) {
		add(models.Refuse(models.CodeObservationTurnUnsupported, details...))
	}
	if turn.ConsumeSeq == 0 || turn.Partial || t.Turns != 1 {
		unsupported(models.D("consumed", turn.ConsumeSeq > 0), models.D("turns", t.Turns))
	}
	s.lostReadHolds(turn, add, unsupported)
	if len(s.Custody.Commands) > 0 {
		add(models.Refuse(models.CodeUnknownEffect, models.D("seq", s.Custody.Commands[0].Seq), models.D("class", models.ClassCommand), models.D("writable", true)))
	}
	for _, seq := range []int64{turn.Later, t.Later} {
		if seq > 0 && !turn.Settled {
			add(models.Refuse(models.CodeLaterActivity, models.D("seq", seq)))
			break
		}
	}
	if rec := env.Reconstruction; rec != nil {
		s.observedHolds(*rec, env.Host, add)
	}
}

// lostReadHolds judges the calls by their rows: one evidence read that was started, lost and never ended, and at most one list
// with its own successful outcome, each granted against a source cut where it reads the source (ROBS-07 to 10).
func (s State) lostReadHolds(turn custody.Turn, add func(*models.Refusal), unsupported func(...models.Detail)) {
	incomplete := func(position int64, lacks string) {
		add(models.Refuse(models.CodeObservationCustodyIncomplete, models.D("position", position), models.D("lacks", lacks)))
	}
	if int64(len(turn.Calls)) != turn.CallCount {
		incomplete(int64(len(turn.Calls)), "grant")
	}
	evidence, lists := 0, 0
	for _, c := range turn.Calls {
		switch c.Class {
		case models.ClassEvidenceRead:
			evidence++
			switch {
			case c.RefusedSeq > 0 || c.OutcomeSeq > 0:
				unsupported(models.D("position", c.Position), models.D("what", "the evidence read has a known outcome"))
			case c.IntentSeq == 0:
				incomplete(c.Position, "intent")
			case c.LostSeq == 0:
				incomplete(c.Position, "record of the lost result")
			}
		case models.ClassSourceObservation:
			lists++
			switch {
			case c.Cut.IsZero():
				incomplete(c.Position, "source cut")
			case c.IntentSeq == 0:
				incomplete(c.Position, "intent")
			case c.OutcomeSeq == 0 || c.Failed:
				unsupported(models.D("position", c.Position), models.D("what", "the list has no successful result of its own"))
			}
		case models.ClassUnknown:
			add(models.Refuse(models.CodeCallUnknown, models.D("position", c.Position)))
		case models.ClassWrite:
			add(models.Refuse(models.CodeCallWritable, models.D("position", c.Position)))
		default:
			add(models.Refuse(models.CodeSiblingUnsupported, models.D("position", c.Position), models.D("class", c.Class)))
		}
	}
	if evidence != 1 || lists > 1 {
		unsupported(models.D("evidence_reads", evidence), models.D("observations", lists))
	}
}

// observedHolds lays what the sandbox found beside the rows.
func (s State) observedHolds(rec models.Reconstruction, host models.Host, add func(*models.Refusal)) {
	for _, h := range rec.Holds {
		add(reported(h))
	}
	turn := s.Custody.Turn
	if len(rec.Calls) > 0 && (rec.Tokens != turn.Tokens || int64(len(rec.Calls)) != turn.CallCount) {
		add(models.Refuse(models.CodeObservationCustodyIncomplete, models.D("lacks", "usage and calls of this response")))
	}
	for _, seen := range rec.Calls {
		i := slices.IndexFunc(turn.Calls, func(c custody.Call) bool { return c.Position == seen.Position })
		if i < 0 {
			add(models.Refuse(models.CodeCallNotGranted, models.D("position", seen.Position)))
			continue
		}
		c := turn.Calls[i]
		kept := slices.IndexFunc(rec.Outcomes, func(r models.Retained) bool { return r.Position == c.Position })
		if c.ID != seen.ID || c.Args != seen.Args || c.Tool != seen.Tool || c.Class != seen.Class {
			add(models.Refuse(models.CodeObservationCustodyIncomplete, models.D("position", c.Position), models.D("lacks", "grant of this call")))
		} else if (c.OutcomeSeq > 0) != (kept >= 0) || kept >= 0 && rec.Outcomes[kept].Result != c.Result {
			add(models.Refuse(models.CodeObservationCustodyIncomplete, models.D("position", c.Position), models.D("lacks", "outcome of this call")))
		}
	}
	if len(rec.Holds) > 0 {
		return
	}
	lacks := ""
	switch {
	case rec.Served != 1 || rec.Module != host.Module || rec.Catalogue != host.Catalogue:
		lacks = "no proof of the installed code"
	case rec.Checkpoint != turn.Checkpoint || rec.Response != turn.Response:
		lacks = "of another turn"
	case rec.Derived.IsZero() || rec.Witness.IsZero() || rec.Proof.IsZero():
		lacks = "a digest is missing"
	case len(rec.Closing) != len(rec.Calls) || len(rec.Calls) == 0:
		lacks = "another closing result"
	}
	for i, seen := range rec.Calls {
		want := models.ClosingResult{Position: seen.Position, Result: models.ResultRetained}
		if seen.Class == models.ClassEvidenceRead {
			want.Result = models.ResultObservationUnavailable
		}
		if lacks == "" && rec.Closing[i] != want {
			lacks = "another closing result"
		}
	}
	if lacks != "" {
		add(models.Refuse(models.CodeSandboxStopped, models.D("reason", lacks), models.D("served", rec.Served)))
	}
}

// recoverReadonlyObservation queues the ticket again with the reviewed history: the witness, the request's event and a new finite
// lease in adjacent rows (ROBS-28). The unknown record stays as it is.
func (s State) recoverReadonlyObservation(id string, c models.RecoverReadonlyObservation, env models.Env) ([]models.Event, *models.Refusal) {
	if r := s.notRegistered(); r != nil {
		return nil, r
	}
	if c.Version != 1 {
		return nil, models.Refuse(models.CodeRequestMalformed, models.D("member", "version"))
	}
	body := recovering{
		workflow: models.WorkflowReadonlyObservation, requestID: c.RequestID, candidate: c.CandidateDigest, seconds: c.ValidForSeconds,
		acknowledgements: []acknowledgement{
			{"acknowledge_unavailable_observation", c.AcknowledgeUnavailableObservation},
			{"acknowledge_no_original_callback_replay", c.AcknowledgeNoOriginalCallbackReplay},
			{"acknowledge_same_request_attempt_and_budgets", c.AcknowledgeSameRequestAttemptAndBudgets},
			{"acknowledge_finite_ownership_lease", c.AcknowledgeFiniteOwnershipLease},
		},
	}
	candidate, r := ObservationCandidate(s, c.RequestID, env)
	if r != nil {
		return nil, r
	}
	if r := s.recover(body, candidate, env); r != nil {
		return nil, r
	}
	rec := env.Reconstruction
	if rec == nil {
		return nil, models.Refuse(models.CodeReconstructionMissing)
	}
	admission, err := models.CommandDigest(env.Actor, c)
	if err != nil {
		panic(err)
	}
	turn := s.Custody.Turn
	lost := int64(0)
	for _, call := range turn.Calls {
		lost = max(lost, call.LostSeq)
	}
	return s.requeue(id, body, models.ReadonlyObservationWitnessed{
		Admission: admission, Attempt: s.Attempt, Candidate: candidate.CandidateDigest, Catalogue: rec.Catalogue, Checkpoint: turn.Checkpoint,
		Closing: rec.Closing, ConsumeSeq: turn.ConsumeSeq,
		CurrentEpoch: models.CurrentEpoch{PolicyDigest: candidate.PolicyDigest, PolicyRevision: candidate.PolicyRevision}, Derived: rec.Derived,
		FailedSeq: candidate.FailedSeq, Fixture: candidate.Fixture, Journal: candidate.JournalDigest, Module: rec.Module,
		Profile: candidate.Profile, ProfileDigest: candidate.ProfileDigest, Proof: rec.Proof, RecoveryID: id, Request: turn.Request,
		RequestID: c.RequestID, Response: turn.Response, Seal: candidate.Seal, SettledSeq: candidate.SettlementSeq, Unknown: candidate.Unknown,
		UnknownSeq: lost, Witness: rec.Witness,
	}, env)
}
