package models

// The three ways in which an admitted request may be queued again, each at most once for a ticket (rules, section 6).
const (
	WorkflowNeverClaimed        = "never_claimed"
	WorkflowRefusedBoundary     = "refused_boundary"
	WorkflowReadonlyObservation = "readonly_observation"
)

// RecoverNeverClaimed queues a failed request again under its own id, which no worker ever claimed (spec, A request that
// failed before a worker claim). The command's id is the recovery id, made and kept by the caller; Version is 1.
type RecoverNeverClaimed struct {
	AcknowledgeNeverClaimed                  bool    `json:"acknowledge_never_claimed"`
	AcknowledgeOriginalConsumptionAndBudgets bool    `json:"acknowledge_original_consumption_and_budgets"`
	AcknowledgeRenewedSameAttemptLease       bool    `json:"acknowledge_renewed_same_attempt_lease"`
	AcknowledgeSameRequestAndAttempt         bool    `json:"acknowledge_same_request_and_attempt"`
	CandidateDigest                          Digest  `json:"candidate_digest"`
	JournalDigest                            Digest  `json:"journal_digest"`
	PolicyDigest                             Digest  `json:"policy_digest"`
	RequestID                                string  `json:"request_id"`
	RunDigest                                Digest  `json:"run_digest"`
	ValidForSeconds                          Seconds `json:"valid_for_seconds"`
	Version                                  int64   `json:"version"`
}

// NeverClaimedWitnessed explains why a request that failed unclaimed is queued again, and leaves the failure, the ticket, its
// seal and its settlement as they are. FailedSeq is the row of the failure. The next rows are always RequestRequeued and
// LeaseGranted of the same request.
type NeverClaimedWitnessed struct {
	Admission     Digest       `json:"admission"`
	Attempt       int64        `json:"attempt"`
	Candidate     Digest       `json:"candidate"`
	Checkpoint    Digest       `json:"checkpoint"`
	CurrentEpoch  CurrentEpoch `json:"current_epoch"`
	FailedSeq     int64        `json:"failed_seq"`
	Fixture       bool         `json:"fixture"`
	Journal       Digest       `json:"journal"`
	Profile       string       `json:"profile"`
	ProfileDigest Digest       `json:"profile_digest"`
	RecoveryID    string       `json:"recovery_id"`
	RequestID     string       `json:"request_id"`
	Seal          Digest       `json:"seal"`
	SettledSeq    int64        `json:"settled_seq"`
}

// RequestRequeued is the request's own event beside a witness: it waits for a worker again, under its old id.
type RequestRequeued struct {
	RecoveryID string `json:"recovery_id"`
	RequestID  string `json:"request_id"`
	Workflow   string `json:"workflow"`
}

// TicketHistory is what the rows themselves say of a request, whatever the ticket in the state says: a missing owner proves
// nothing (NOCLAIM-03). Sequence numbers are 0 where there is no such row. Seal is recomputed from the rows of the admission,
// Checkpoint is the digest that the kept bytes of the checkpoint to start from have, zero where they are gone.
type TicketHistory struct {
	Checkpoint Digest `json:"checkpoint"`
	Claims     int64  `json:"claims"`
	Failed     int64  `json:"failed"`
	Gap        int64  `json:"gap"` // the first row that is missing or cannot be read
	Granted    int64  `json:"granted"`
	Lost       Digest `json:"lost,omitzero"` // hash of the last agentic_tool_unknown row
	Request    string `json:"request"`
	Seal       Digest `json:"seal"`
	Settled    int64  `json:"settled"`
}

// RecoveryCandidate is what a recovery would queue again, and why it may not be now. It is computed at each read and saved
// nowhere; CandidateDigest covers everything that does not move with the clock.
type RecoveryCandidate struct {
	Attempt          int64           `json:"attempt"`
	CandidateDigest  Digest          `json:"candidate_digest"`
	Checkpoint       Digest          `json:"checkpoint"`
	Counters         Counters        `json:"counters"`
	CustodyDigest    Digest          `json:"custody_digest"`
	Closing          []ClosingResult `json:"closing,omitzero"`
	Derived          Digest          `json:"derived_checkpoint,omitzero"`
	Proof            Digest          `json:"proof_digest,omitzero"`
	Unknown          Digest          `json:"unknown,omitzero"`
	Witness          Digest          `json:"witness,omitzero"`
	Eligible         bool            `json:"eligible"`
	FailedSeq        int64           `json:"failed_seq"`
	Fixture          bool            `json:"fixture"`
	Holds            []*Refusal      `json:"holds"`
	JournalDigest    Digest          `json:"journal_digest"`
	OriginalActor    string          `json:"original_actor"`
	PermittedSeconds Seconds         `json:"permitted_seconds"`
	PolicyDigest     Digest          `json:"policy_digest"`
	PolicyRevision   int64           `json:"policy_revision"`
	Profile          string          `json:"profile"`
	ProfileDigest    Digest          `json:"profile_digest"`
	Reproduced       Digest          `json:"reproduced_wire,omitzero"`
	ReproducedLength int64           `json:"reproduced_length,omitzero"`
	Review           *Review         `json:"review,omitzero"`
	Qualifications   []Qualification `json:"qualifications"`
	RequestID        string          `json:"request_id"`
	Run              string          `json:"run"`
	RunDigest        Digest          `json:"run_digest"`
	Seal             Digest          `json:"seal"`
	SettlementSeq    int64           `json:"settlement_seq"`
	SourceDigest     Digest          `json:"source_digest"`
	State            string          `json:"state"`
	TicketVersion    int64           `json:"ticket_version"`
	Workflow         string          `json:"workflow"`
}

// RecoveryReceipt is the saved answer to a recovery. It says that the request was queued again and nothing more (NOCLAIM-16).
type RecoveryReceipt struct {
	AdmittedAt Instant `json:"admitted_at"`
	Attempt    int64   `json:"attempt"`
	Candidate  Digest  `json:"candidate_digest"`
	Checkpoint Digest  `json:"checkpoint"`

	CorrectiveEpoch      string `json:"corrective_epoch,omitzero"`
	CorrectiveValidation Digest `json:"corrective_validation_digest,omitzero"`

	Binding     Digest          `json:"binding,omitzero"`
	Closing     []ClosingResult `json:"closing,omitzero"`
	Derived     Digest          `json:"derived_checkpoint,omitzero"`
	Unknown     Digest          `json:"unknown,omitzero"`
	WitnessBlob Digest          `json:"witness,omitzero"`

	Counters        Counters     `json:"counters"`
	CurrentEpoch    CurrentEpoch `json:"current_epoch"`
	Establishes     string       `json:"establishes"`
	EventHash       Digest       `json:"event_hash"`
	EventSeq        int64        `json:"event_seq"`
	ExpiresAt       Instant      `json:"expires_at"`
	FailedSeq       int64        `json:"failed_seq"`
	Fixture         bool         `json:"fixture"`
	Journal         Digest       `json:"journal_digest"`
	LeaseHash       Digest       `json:"lease_hash"`
	LeaseSeq        int64        `json:"lease_seq"`
	OriginalActor   string       `json:"original_actor"`
	Profile         string       `json:"profile"`
	ProfileDigest   Digest       `json:"profile_digest"`
	RecoveryID      string       `json:"recovery_id"`
	Registration    Digest       `json:"registration"`
	RequestID       string       `json:"request_id"`
	Review          *Review      `json:"review,omitzero"`
	ReviewedBy      string       `json:"reviewed_by,omitzero"`
	Run             string       `json:"run"`
	Seal            Digest       `json:"seal"`
	SettlementSeq   int64        `json:"settlement_seq"`
	State           string       `json:"state"`
	ValidForSeconds Seconds      `json:"valid_for_seconds"`
	Version         int64        `json:"version"`
	WitnessHash     Digest       `json:"witness_hash"`
	WitnessSeq      int64        `json:"witness_seq"`
	Workflow        string       `json:"workflow"`
}

// Verb returns the stored name of the command.
func (RecoverNeverClaimed) Verb() string { return "recover_never_claimed" }

func (RecoverNeverClaimed) command() {}

// Kind returns the stored name of the event.
func (NeverClaimedWitnessed) Kind() string { return "never_claimed_recovery" }
func (RequestRequeued) Kind() string       { return "request.requeued" }

func (NeverClaimedWitnessed) event() {}
func (RequestRequeued) event()       {}
