package models

// RecoverReadonlyObservation queues a ticket again whose one consumed turn since its refusal recovery lost the result of an
// evidence read. The command's id is the recovery id; Version is 1 (spec, A consumed turn with an unavailable evidence
// observation).
type RecoverReadonlyObservation struct {
	AcknowledgeFiniteOwnershipLease         bool    `json:"acknowledge_finite_ownership_lease"`
	AcknowledgeNoOriginalCallbackReplay     bool    `json:"acknowledge_no_original_callback_replay"`
	AcknowledgeSameRequestAttemptAndBudgets bool    `json:"acknowledge_same_request_attempt_and_budgets"`
	AcknowledgeUnavailableObservation       bool    `json:"acknowledge_unavailable_observation"`
	CandidateDigest                         Digest  `json:"candidate_digest"`
	RequestID                               string  `json:"request_id"`
	ValidForSeconds                         Seconds `json:"valid_for_seconds"`
	Version                                 int64   `json:"version"`
}

// ReadonlyObservationWitnessed explains the reviewed continuation of a turn whose evidence result is unknown and stays unknown:
// Unknown is the hash of that agentic_tool_unknown row. Derived is the separate checkpoint that carries the reviewed history. The
// next rows are always RequestRequeued and LeaseGranted of the same request.
type ReadonlyObservationWitnessed struct {
	Admission     Digest          `json:"admission"`
	Attempt       int64           `json:"attempt"`
	Candidate     Digest          `json:"candidate"`
	Catalogue     Digest          `json:"catalogue"`
	Checkpoint    Digest          `json:"checkpoint"`
	Closing       []ClosingResult `json:"closing"`
	ConsumeSeq    int64           `json:"consume_seq"`
	CurrentEpoch  CurrentEpoch    `json:"current_epoch"`
	Derived       Digest          `json:"derived"`
	FailedSeq     int64           `json:"failed_seq"`
	Fixture       bool            `json:"fixture"`
	Journal       Digest          `json:"journal"`
	Module        Digest          `json:"module"`
	Profile       string          `json:"profile"`
	ProfileDigest Digest          `json:"profile_digest"`
	Proof         Digest          `json:"proof"`
	RecoveryID    string          `json:"recovery_id"`
	Request       int64           `json:"request"`
	RequestID     string          `json:"request_id"`
	Response      Digest          `json:"response"`
	Seal          Digest          `json:"seal"`
	SettledSeq    int64           `json:"settled_seq"`
	Unknown       Digest          `json:"unknown"`
	UnknownSeq    int64           `json:"unknown_seq"`
	Witness       Digest          `json:"witness"`
}

// Verb returns the stored name of the command.
func (RecoverReadonlyObservation) Verb() string { return "recover_readonly_observation" }

func (RecoverReadonlyObservation) command() {}

// Kind returns the stored name of the event.
func (ReadonlyObservationWitnessed) Kind() string { return "readonly_observation_recovery" }

func (ReadonlyObservationWitnessed) event() {}
