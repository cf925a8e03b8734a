package models

// Verification is what automatic verification runs for a run: a frozen list of commands, kept as a blob, and how many there are.
// The zero value is none (design, What the spec presumes; rules O47).
type Verification struct {
	Commands int64  `json:"commands"`
	List     Digest `json:"list"`
}

// VerificationPool is the pool of workers that verify. No handoff can name it.
const VerificationPool = "_verification"

// AdmitVerification lets automatic verification of a completed round begin, if nothing stands against it. Sent by the server's own
// scheduler, a typed refusal is recorded and ends automatic scheduling; sent by an operator it is answered and saves nothing.
type AdmitVerification struct {
	Round int64 `json:"round"`
}

// VerificationAdmitted queues the run for workers that verify: Commands of the frozen List, for the response of a round.
type VerificationAdmitted struct {
	Commands     int64        `json:"commands"`
	CurrentEpoch CurrentEpoch `json:"current_epoch"`
	List         Digest       `json:"list"`
	Round        int64        `json:"round"`
}

// VerificationRefused is the one refusal that is saved: what stood against automatic verification when it entered the policy epoch
// in force. It is never scheduled again (BOUND-11, BOUND-12).
type VerificationRefused struct {
	Code         Code         `json:"code"`
	CurrentEpoch CurrentEpoch `json:"current_epoch"`
	Details      []Detail     `json:"details"`
	Round        int64        `json:"round"`
}

// SourcePrepared is a verifying worker's fact that it prepared the source that the run froze: before its first command.
type SourcePrepared struct {
	Source Digest `json:"source"`
}

// VerificationFinished is the outcome of a verification; it ends the claim. Report is the blob with what the commands said.
type VerificationFinished struct {
	Passed bool   `json:"passed"`
	Report Digest `json:"report"`
}

// States of an automatic verification.
const (
	VerificationStateAdmitted = "admitted"
	VerificationStateClaimed  = "claimed"
	VerificationStateFinished = "finished"
	VerificationStateLost     = "lost" // its claim ended without an outcome; nobody takes it up by itself
	VerificationStateRefused  = "refused"
)

// VerificationReceipt is the saved answer to AdmitVerification. Code is why it was refused, empty where it was admitted.
type VerificationReceipt struct {
	At    Instant `json:"at"`
	Code  Code    `json:"code"`
	Hash  Digest  `json:"hash"`
	Round int64   `json:"round"`
	Seq   int64   `json:"seq"`
	State string  `json:"state"`
}

// Verb returns the stored name of the command.
func (AdmitVerification) Verb() string { return "admit_verification" }

func (AdmitVerification) command() {}

// Kind returns the stored name of the event.
func (VerificationAdmitted) Kind() string { return "verification.admitted" }
func (VerificationRefused) Kind() string  { return "verification.refused" }
func (SourcePrepared) Kind() string       { return "source.prepared" }
func (VerificationFinished) Kind() string { return "verification.finished" }

func (VerificationAdmitted) event() {}
func (VerificationRefused) event()  {}
func (SourcePrepared) event()       {}
func (SourcePrepared) fact()        {}
func (VerificationFinished) event() {}
func (VerificationFinished) fact()  {}
