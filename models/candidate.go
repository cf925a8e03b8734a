package models

// Counters is what a run has spent beside its limits, as shown to people and bound by receipts.
type Counters struct {
	Attempt         int64  `json:"attempt"`
	Commands        int64  `json:"commands"`
	CompletedRounds int64  `json:"completed_rounds"`
	InputTokens     int64  `json:"input_tokens"`
	Limits          Limits `json:"limits"`
	OutputTokens    int64  `json:"output_tokens"`
	Requests        int64  `json:"requests"`
	SourceReads     int64  `json:"source_reads"`
	ToolCalls       int64  `json:"tool_calls"`
}

// Candidate is what could be admitted, and why it may not be now (spec, Operator flow). It is computed at each read and
// saved nowhere. CandidateDigest covers everything that does not move with the clock. A candidate without a proof has a
// zero Proof and no Closing.
type Candidate struct {
	Attempt          int64           `json:"attempt"`
	CandidateDigest  Digest          `json:"candidate_digest"`
	Catalogue        Digest          `json:"catalogue"`
	Closing          []ClosingResult `json:"closing"`
	ConsumedGraph    Digest          `json:"consumed_graph"`
	Contract         Digest          `json:"contract_digest"`
	Counters         Counters        `json:"counters"`
	CustodyDigest    Digest          `json:"custody_digest"`
	Derived          Digest          `json:"derived_checkpoint"`
	EntryPoint       Digest          `json:"entry_point,omitzero"` // the installed one, whose contract was captured
	Eligible         bool            `json:"eligible"`
	Fixture          bool            `json:"fixture"`
	Holds            []*Refusal      `json:"holds"`
	JournalDigest    Digest          `json:"journal_digest"`
	Module           Digest          `json:"module"`
	OriginalActor    string          `json:"original_actor"`
	PermittedSeconds Seconds         `json:"permitted_seconds"`
	PolicyDigest     Digest          `json:"policy_digest"`
	PolicyRevision   int64           `json:"policy_revision"`
	Profile          string          `json:"profile"`
	ProfileDigest    Digest          `json:"profile_digest"`
	Proof            Digest          `json:"proof_digest"`
	Qualifications   []Qualification `json:"qualifications"`
	Run              string          `json:"run"`
	RunDigest        Digest          `json:"run_digest"`
	SourceDigest     Digest          `json:"source_digest"`
	Version          int64           `json:"version"`
	Witness          Digest          `json:"witness"`
}

// AppendReceipt is the saved answer to a batch or another command of a run's journal.
type AppendReceipt struct {
	At    Instant `json:"at"`
	First int64   `json:"first_seq"`
	Hash  Digest  `json:"hash"`
	Last  int64   `json:"last_seq"`
}

// ClaimReceipt is the saved answer to a claim. Checkpoint is what the next request starts from: the derived one for a
// ticket (FLOW-31). Binding names the invocation that a ticket allows.
type ClaimReceipt struct {
	Attempt       int64    `json:"attempt"`
	Binding       Digest   `json:"binding"`
	Checkpoint    Digest   `json:"checkpoint"`
	ClaimID       string   `json:"claim_id"`
	Contract      Digest   `json:"contract"`
	Counters      Counters `json:"counters"`
	ExpiresAt     Instant  `json:"expires_at"`
	Fence         int64    `json:"fence"`
	Fixture       bool     `json:"fixture"`
	Hash          Digest   `json:"hash"`
	Registration  Digest   `json:"registration"`
	RequestID     string   `json:"request_id"`
	Run           string   `json:"run"`
	Seq           int64    `json:"seq"`
	TicketVersion int64    `json:"ticket_version"`
}

// ContinuityReceipt is the saved answer to an admission. It says that a continuation was queued and nothing more: worker
// claim and completion are later rows (NOCLAIM-16).
type ContinuityReceipt struct {
	AdmittedAt      Instant         `json:"admitted_at"`
	Attempt         int64           `json:"attempt"`
	Candidate       Digest          `json:"candidate_digest"`
	Catalogue       Digest          `json:"catalogue"`
	Closing         []ClosingResult `json:"closing"`
	ConsumedGraph   Digest          `json:"consumed_graph"`
	Contract        Digest          `json:"contract_digest"`
	Counters        Counters        `json:"counters"`
	CurrentEpoch    CurrentEpoch    `json:"current_epoch"`
	Custody         Digest          `json:"custody_digest"`
	Derived         Digest          `json:"derived_checkpoint"`
	EntryPoint      Digest          `json:"entry_point,omitzero"`
	Establishes     string          `json:"establishes"`
	ExpiresAt       Instant         `json:"expires_at"`
	Fixture         bool            `json:"fixture"`
	HistoricEpoch   Epoch           `json:"historic_epoch"`
	Journal         Digest          `json:"journal_digest"`
	LeaseHash       Digest          `json:"lease_hash"`
	LeaseSeq        int64           `json:"lease_seq"`
	OriginalActor   string          `json:"original_actor"`
	OldCheckpoint   Digest          `json:"old_checkpoint"`
	Parser          string          `json:"parser"`
	Profile         string          `json:"profile"`
	ProfileDigest   Digest          `json:"profile_digest"`
	Proof           Digest          `json:"proof_digest"`
	Registration    Digest          `json:"registration"`
	RequestID       string          `json:"request_id"`
	Response        Digest          `json:"response"`
	Run             string          `json:"run"`
	Seal            Digest          `json:"seal"`
	SettlementHash  Digest          `json:"settlement_hash"`
	SettlementSeq   int64           `json:"settlement_seq"`
	Source          Frozen          `json:"source"`
	State           string          `json:"state"`
	ValidForSeconds Seconds         `json:"valid_for_seconds"`
	Version         int64           `json:"version"`
	Waived          []Finding       `json:"waived,omitzero"`
	Witness         Digest          `json:"witness"`
}

// Establishes is the one sentence that every admission receipt carries.
const Establishes = "Accepted for dispatch only: a later worker claim and completion, each its own record, show execution."

// FactoryReceipt is the saved answer to a command of a factory's own journal. Revision is that of the policy, authority
// or record that was set, 0 where there is none.
type FactoryReceipt struct {
	At       Instant `json:"at"`
	Hash     Digest  `json:"hash"`
	Revision int64   `json:"revision"`
	Seq      int64   `json:"seq"`
}
