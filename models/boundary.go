package models

import "github.com/forge-continuity/forge/models/canon"

// ReviewedProviderRejectionV1 is what an administrator reviewed of a provider's refusal before admission (spec, A provider
// request refused before admission). It is that person's assertion with pinned evidence; nothing here authenticates a remote
// side. The three counts of work and that of callbacks must be 0.
type ReviewedProviderRejectionV1 struct {
	Admissions         int64  `json:"admissions"`
	Endpoint           string `json:"endpoint"`
	Executable         string `json:"executable_identity"`
	ExecutableProbe    Digest `json:"executable_probe_report_digest"`
	Jobs               int64  `json:"jobs"`
	Model              string `json:"model"`
	Principal          string `json:"principal"`
	ProviderDispatches int64  `json:"provider_dispatches"`
	ProviderEpoch      string `json:"provider_epoch"`
	SourceRevision     string `json:"source_revision"`
	SourceValidator    Digest `json:"source_validator_report_digest"`
	ToolCallbacks      int64  `json:"tool_callbacks"`
	Wire               Digest `json:"wire_digest"`
	WireLength         int64  `json:"wire_length"`
}

// ProviderDigest names the executed provider configuration as a worker reports it with request.issued: the plain SHA-256 of the
// canonical object of these five members.
func ProviderDigest(endpoint, executable, model, principal, epoch string) Digest {
	return PlainDigest(canon.MustMarshal(struct {
		Endpoint   string `json:"endpoint"`
		Executable string `json:"executable_identity"`
		Model      string `json:"model"`
		Principal  string `json:"principal"`
		Epoch      string `json:"provider_epoch"`
	}{endpoint, executable, model, principal, epoch}))
}

// Review is a reviewed rejection as rows carry it: the texts of endpoint, model and principal stand in the blob Document, and
// Provider is their digest together with epoch and executable.
type Review struct {
	Admissions         int64  `json:"admissions"`
	Document           Digest `json:"document"`
	Executable         string `json:"executable_identity"`
	ExecutableProbe    Digest `json:"executable_probe_report_digest"`
	Jobs               int64  `json:"jobs"`
	Provider           Digest `json:"provider"`
	ProviderDispatches int64  `json:"provider_dispatches"`
	ProviderEpoch      string `json:"provider_epoch"`
	SourceRevision     string `json:"source_revision"`
	SourceValidator    Digest `json:"source_validator_report_digest"`
	ToolCallbacks      int64  `json:"tool_callbacks"`
	Wire               Digest `json:"wire_digest"`
	WireLength         int64  `json:"wire_length"`
}

// MaxReviewText bounds endpoint, model and principal in bytes.
const MaxReviewText = 1024

// Row returns the review as rows carry it, and the document whose salted digest is its Document. member names what is malformed.
func (r ReviewedProviderRejectionV1) Row(salt [32]byte) (row Review, document []byte, member string) {
	for _, text := range []struct{ name, value string }{{"endpoint", r.Endpoint}, {"model", r.Model}, {"principal", r.Principal}} {
		if text.value == "" || len(text.value) > MaxReviewText {
			return row, nil, text.name
		}
	}
	document = canon.MustMarshal(r)
	row = Review{
		Admissions: r.Admissions, Document: SaltedBlob(salt, document), Executable: r.Executable, ExecutableProbe: r.ExecutableProbe,
		Jobs: r.Jobs, Provider: ProviderDigest(r.Endpoint, r.Executable, r.Model, r.Principal, r.ProviderEpoch),
		ProviderDispatches: r.ProviderDispatches, ProviderEpoch: r.ProviderEpoch, SourceRevision: r.SourceRevision,
		SourceValidator: r.SourceValidator, ToolCallbacks: r.ToolCallbacks, Wire: r.Wire, WireLength: r.WireLength,
	}
	return row, document, row.Malformed()
}

// Malformed names the first member that no review may have so, "" for none.
func (r Review) Malformed() string {
	switch {
	case r.Admissions < 0:
		return "admissions"
	case !ValidLabel(r.Executable):
		return "executable_identity"
	case r.ExecutableProbe.IsZero():
		return "executable_probe_report_digest"
	case r.Jobs < 0:
		return "jobs"
	case r.ProviderDispatches < 0:
		return "provider_dispatches"
	case !ValidLabel(r.ProviderEpoch):
		return "provider_epoch"
	case !ValidLabel(r.SourceRevision):
		return "source_revision"
	case r.SourceValidator.IsZero():
		return "source_validator_report_digest"
	case r.ToolCallbacks < 0:
		return "tool_callbacks"
	case r.Wire.IsZero():
		return "wire_digest"
	case r.WireLength < 1:
		return "wire_length"
	}
	return ""
}

// ReportFormat is the format of a report that a review or a profile pins. Members beside those of Report are the report's own.
const ReportFormat = "forge-report/1"

// Kinds of a report, beside ReportSDK.
const (
	ReportSourceValidator      = "source_validator"
	ReportExecutableProbe      = "executable_probe"
	ReportCorrectiveValidation = "corrective_validation"
)

// Report is what a kept report says of itself; the shell reads it, and its digest is plain.
type Report struct {
	At             Instant `json:"at_us"`
	Digest         Digest  `json:"digest"`
	Executable     string  `json:"executable_identity"`
	Kind           string  `json:"kind"`
	ProviderEpoch  string  `json:"provider_epoch"`
	SourceRevision string  `json:"source_revision"`
}

// Reproduction is the pending request as the sandbox rendered it again from the pending checkpoint, without any response. Wire is
// the plain SHA-256 of the bytes, zero with holds.
type Reproduction struct {
	Catalogue  Digest        `json:"catalogue"`
	Checkpoint Digest        `json:"checkpoint"`
	Holds      []SandboxHold `json:"holds"`
	Length     int64         `json:"length"`
	Module     Digest        `json:"module"`
	Served     int64         `json:"served"`
	Wire       Digest        `json:"wire"`
}

// RequestRefused is the worker's own fact that the provider refused the request while validating it. It proves nothing by itself:
// for an ordinary run the outcome of the request stays unknown.
type RequestRefused struct {
	Report  Digest `json:"report"`
	Request int64  `json:"request"`
}

// RecoverRefusedBoundary queues a ticket again whose first provider request was refused before admission, on an administrator's
// review. The command's id is the recovery id; Version is 1.
type RecoverRefusedBoundary struct {
	AcknowledgeFiniteOwnershipLease           bool    `json:"acknowledge_finite_ownership_lease"`
	AcknowledgeNoOriginalResponseOrToolReplay bool    `json:"acknowledge_no_original_response_or_tool_replay"`
	AcknowledgeReviewedProviderEpoch          bool    `json:"acknowledge_reviewed_provider_epoch"`
	AcknowledgeSameRequestAndBudgets          bool    `json:"acknowledge_same_request_and_budgets"`
	CandidateDigest                           Digest  `json:"candidate_digest"`
	CorrectiveEpoch                           string  `json:"corrective_epoch"`
	CorrectiveValidation                      Digest  `json:"corrective_validation_digest"`
	RequestID                                 string  `json:"request_id"`
	Review                                    Review  `json:"review"`
	ValidForSeconds                           Seconds `json:"valid_for_seconds"`
	Version                                   int64   `json:"version"`
}

// RefusalSettled closes the refused request for its continuation and pins what was reviewed: the request stays counted, and
// ticket, seal, failed claim and checkpoint stay as they are. The next rows are always RequestRequeued and LeaseGranted.
type RefusalSettled struct {
	Admission            Digest       `json:"admission"`
	Attempt              int64        `json:"attempt"`
	Candidate            Digest       `json:"candidate"`
	Checkpoint           Digest       `json:"checkpoint"`
	CorrectiveEpoch      string       `json:"corrective_epoch"`
	CorrectiveValidation Digest       `json:"corrective_validation"`
	CurrentEpoch         CurrentEpoch `json:"current_epoch"`
	FailedSeq            int64        `json:"failed_seq"`
	Fixture              bool         `json:"fixture"`
	Journal              Digest       `json:"journal"`
	Module               Digest       `json:"module"`
	Profile              string       `json:"profile"`
	ProfileDigest        Digest       `json:"profile_digest"`
	RecoveryID           string       `json:"recovery_id"`
	RefusedSeq           int64        `json:"refused_seq"`
	Request              int64        `json:"request"`
	RequestID            string       `json:"request_id"`
	Review               Review       `json:"review"`
	Seal                 Digest       `json:"seal"`
	SettledSeq           int64        `json:"settled_seq"`
}

// ReviewedBy is the sentence of every receipt of a refused-boundary recovery.
const ReviewedBy = "Reviewed by the original actor as factory administrator, an assertion with pinned evidence."

// Verb returns the stored name of the command.
func (RecoverRefusedBoundary) Verb() string { return "recover_refused_boundary" }

func (RecoverRefusedBoundary) command() {}

// Kind returns the stored name of the event.
func (RequestRefused) Kind() string { return "request.refused" }
func (RefusalSettled) Kind() string { return "refusal.settled" }

func (RequestRefused) event() {}
func (RequestRefused) fact()  {}
func (RefusalSettled) event() {}
