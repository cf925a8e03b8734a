package models

import (
	"fmt"

	"github.com/forge-continuity/forge/models/canon"
)

// Event is one thing that happened, in the past tense. The set is closed; its JSON form is the payload of a row.
// Rows carry no content: only ids, enums, integers, digests and positions.
type Event interface {
	Kind() string
	event()
}

// Fact is an event that the live owner of a run reports in a batch. Its JSON form in the command is that of the event.
type Fact interface {
	Event
	fact()
}

// RunRegistered opens the journal of a run: row 1.
type RunRegistered struct {
	Actor        string       `json:"actor"`
	Registration Registration `json:"registration"`
}

// LeaseGranted is a finite window without an owner: for an ordinary claim, or for a ticket (RequestID set).
type LeaseGranted struct {
	ExpiresAt Instant `json:"expires_at"`
	RequestID string  `json:"request_id"`
	Seconds   Seconds `json:"seconds"`
}

// ClaimTaken is a worker taking the lease that stands: the only event that raises the fence.
type ClaimTaken struct {
	ClaimID   string  `json:"claim_id"`
	ExpiresAt Instant `json:"expires_at"`
	Fence     int64   `json:"fence"`
	RequestID string  `json:"request_id"`
}

// LeaseLapsed records that a lease ended by time, met by the first command after its expiry. Fence is 0 when nobody had
// claimed it.
type LeaseLapsed struct {
	ExpiresAt Instant `json:"expires_at"`
	Fence     int64   `json:"fence"`
	RequestID string  `json:"request_id"`
}

// CheckpointSaved names a checkpoint record kept in full, its history ending with the request about to be sent.
type CheckpointSaved struct {
	Checkpoint Digest `json:"checkpoint"`
}

// RequestIssued is recorded before the bytes leave. Request counts from 1; Wire is the plain SHA-256 of the bytes, Provider the
// ProviderDigest of the provider configuration that is about to be asked, zero where the worker does not say.
type RequestIssued struct {
	Checkpoint Digest `json:"checkpoint"`
	Provider   Digest `json:"provider,omitzero"`
	Request    int64  `json:"request"`
	Wire       Digest `json:"wire"`
	WireBlob   Digest `json:"wire_blob"`
	WireLength int64  `json:"wire_length"`
}

// ResponseKept is the raw response as received, before anything looks at it. A cut stream is partial, never a response.
type ResponseKept struct {
	Length   int64  `json:"length"`
	Partial  bool   `json:"partial"`
	Request  int64  `json:"request"`
	Response Digest `json:"response"`
}

// ResponseConsumed charges the response once and fixes how many calls it holds.
type ResponseConsumed struct {
	Calls    int64  `json:"calls"`
	Request  int64  `json:"request"`
	Response Digest `json:"response"`
	Tokens   Tokens `json:"tokens"`
}

// CallGranted permits one call of a consumed response. Tool is its index in the frozen contract, -1 for unknown; ID and
// Args are salted digests; Cut is the source cut that a read is granted against (zero for others).
type CallGranted struct {
	Args     Digest `json:"args"`
	Class    string `json:"class"`
	Cut      Digest `json:"cut"`
	ID       Digest `json:"id"`
	Position int64  `json:"position"`
	Request  int64  `json:"request"`
	Tool     int64  `json:"tool"`
}

// CallRefused records that a granted call was rejected before it started, by the validator named.
type CallRefused struct {
	Position  int64  `json:"position"`
	Request   int64  `json:"request"`
	Validator Digest `json:"validator"`
}

// CallIntended precedes the effect: from here until CallReturned the outcome is unknown.
type CallIntended struct {
	Position int64 `json:"position"`
	Request  int64 `json:"request"`
}

// CallReturned is the one outcome of a call; Result is the retained value, Failed tells an error result.
type CallReturned struct {
	Failed   bool   `json:"failed"`
	Position int64  `json:"position"`
	Request  int64  `json:"request"`
	Result   Digest `json:"result"`
}

// CommandStarted is one native execution row. Number counts from 1 over the life of the run. Position is that of the
// call which runs it, or -1 for a command that the worker runs of itself.
type CommandStarted struct {
	Command  Digest `json:"command"`
	Number   int64  `json:"number"`
	Position int64  `json:"position"`
	Request  int64  `json:"request"`
}

// CommandFinished keeps the receipt of a started command.
type CommandFinished struct {
	ExitCode int64  `json:"exit_code"`
	Number   int64  `json:"number"`
	Receipt  Digest `json:"receipt"`
}

// RoundCompleted is a known completion of one round with nothing left open.
type RoundCompleted struct {
	Round int64 `json:"round"`
}

// WorkerFailed is the owner's own report that it stops. It ends the claim. Report is the blob with the message, which is
// evidence of nothing (ELIG-15).
type WorkerFailed struct {
	Report Digest `json:"report"`
}

// RunCompleted is the known completion of the run; it completes the last round too.
type RunCompleted struct {
	Result Digest `json:"result"`
	Round  int64  `json:"round"`
}

// RunFailed is the worker's report of a final failure with nothing left open. Retry may open another attempt.
type RunFailed struct {
	Report Digest `json:"report"`
}

// ToolUnknown records that a started call's result could not be kept durably. The outcome stays unknown.
type ToolUnknown struct {
	Position int64 `json:"position"`
	Request  int64 `json:"request"`
}

// ClaimReleased is the live owner giving the run back at a clean point; Pool names the workers that it is handed to, empty
// for any.
type ClaimReleased struct {
	Fence int64  `json:"fence"`
	Pool  string `json:"pool"`
}

// StartupAnnotated is the server's own note that it started while the request was outstanding (rules O34).
type StartupAnnotated struct {
	Boot      string `json:"boot"`
	RequestID string `json:"request_id"`
}

// EffectReconciled is the reviewed settlement of one unknown effect, or of an uncertain ticket. The original rows stay as
// they are; Evidence is kept, and Result is the response, result or receipt that a landed effect turned out to have.
type EffectReconciled struct {
	Evidence     Digest `json:"evidence"`
	Number       int64  `json:"number"`
	Outcome      string `json:"outcome"`
	Position     int64  `json:"position"`
	Request      int64  `json:"request"`
	RequestID    string `json:"request_id"`
	Result       Digest `json:"result"`
	ResultLength int64  `json:"result_length"`
	Seq          int64  `json:"seq"`
	Subject      string `json:"subject"`
}

// AttemptOpened starts another attempt of a failed run, within its allowance. Nothing spent is given back.
type AttemptOpened struct {
	Attempt int64 `json:"attempt"`
}

// Subjects and outcomes of a reconciliation.
const (
	SubjectRequest = "request"
	SubjectCall    = "call"
	SubjectCommand = "command"
	SubjectTicket  = "ticket"

	OutcomeLanded         = "landed"
	OutcomeDidNotHappen   = "did_not_happen"
	OutcomeChargedUnknown = "charged_unknown"
)

// RunCancelled stops the run for good.
type RunCancelled struct{}

// ClosingResult is what reconstruction appended for the call at Position: a fixed result, or the retained outcome of that very
// call.
type ClosingResult struct {
	Position int64  `json:"position"`
	Result   string `json:"result"`
}

// The two fixed results, and the name of a reused outcome (spec, Unavailable pure source observations; Offline reconstruction).
const (
	ResultInvalidQuery           = "invalid_query"
	ResultObservationUnavailable = "observation_unavailable"
	ResultRetained               = "retained"
)

// Epoch is a policy epoch: the tuple that a run was started under and its reviewed entry.
type Epoch struct {
	Acknowledgement string `json:"acknowledgement"`
	Mode            string `json:"mode"`
	Selection       string `json:"selection"`
}

// MigrationSettled closes a consumed turn for continuity and binds everything that the admission rests on. The next row
// is always the LeaseGranted of the same request (FLOW-23).
type MigrationSettled struct {
	Admission     Digest          `json:"admission"`
	Attempt       int64           `json:"attempt"`
	Candidate     Digest          `json:"candidate"`
	Catalogue     Digest          `json:"catalogue"`
	Closing       []ClosingResult `json:"closing"`
	ConsumeSeq    int64           `json:"consume_seq"`
	Contract      Digest          `json:"contract"`
	CurrentEpoch  CurrentEpoch    `json:"current_epoch"`
	Custody       Digest          `json:"custody"`
	Derived       Digest          `json:"derived"`
	EntryPoint    Digest          `json:"entry_point,omitzero"` // absent in rows from before it was captured
	Fixture       bool            `json:"fixture"`
	Graph         Digest          `json:"graph"`
	HistoricEpoch Epoch           `json:"historic_epoch"`
	Journal       Digest          `json:"journal"`
	Module        Digest          `json:"module"`
	OldCheckpoint Digest          `json:"old_checkpoint"`
	Profile       string          `json:"profile"`
	ProfileDigest Digest          `json:"profile_digest"`
	Proof         Digest          `json:"proof"`
	RequestID     string          `json:"request_id"`
	Response      Digest          `json:"response"`
	Version       int64           `json:"version"`
	Waived        []Finding       `json:"waived,omitzero"` // credentials found, each under a waiver that this spends
	Witness       Digest          `json:"witness"`
}

// CurrentEpoch is the lease policy in force when something was admitted.
type CurrentEpoch struct {
	PolicyDigest   Digest `json:"policy_digest"`
	PolicyRevision int64  `json:"policy_revision"`
}

// FactoryCreated opens a factory's own journal. Fixture factories hold no retained work (rules O1).
type FactoryCreated struct {
	Fixture bool `json:"fixture"`
}

// PolicyPut is a new revision of the continuity policy.
type PolicyPut struct {
	Digest Digest `json:"digest"`
	Policy Policy `json:"policy"`
}

// ProfileRegistered makes a profile current.
type ProfileRegistered struct {
	Digest  Digest  `json:"digest"`
	Profile Profile `json:"profile"`
}

// ProfileRetired ends the currency of a profile for good.
type ProfileRetired struct {
	ID string `json:"id"`
}

// PrincipalPut sets a principal's roles; each change raises its authority revision by one.
type PrincipalPut struct {
	Principal Principal `json:"principal"`
}

// RecordPut sets a named source, configuration or scope record.
type RecordPut struct {
	Record Record `json:"record"`
}

// RulesActivated makes a newer rules number the one that rows from here on obey.
type RulesActivated struct {
	Rules int64 `json:"rules"`
}

// Kind returns the stored name of the event.
func (RunRegistered) Kind() string     { return "run.registered" }
func (LeaseGranted) Kind() string      { return "lease.granted" }
func (ClaimTaken) Kind() string        { return "claim.taken" }
func (LeaseLapsed) Kind() string       { return "lease.lapsed" }
func (CheckpointSaved) Kind() string   { return "checkpoint.saved" }
func (RequestIssued) Kind() string     { return "request.issued" }
func (ResponseKept) Kind() string      { return "response.kept" }
func (ResponseConsumed) Kind() string  { return "response.consumed" }
func (CallGranted) Kind() string       { return "call.granted" }
func (CallRefused) Kind() string       { return "call.refused" }
func (CallIntended) Kind() string      { return "call.intended" }
func (CallReturned) Kind() string      { return "call.returned" }
func (CommandStarted) Kind() string    { return "command.started" }
func (CommandFinished) Kind() string   { return "command.finished" }
func (RoundCompleted) Kind() string    { return "round.completed" }
func (WorkerFailed) Kind() string      { return "worker.failed" }
func (RunCompleted) Kind() string      { return "run.completed" }
func (RunFailed) Kind() string         { return "run.failed" }
func (ToolUnknown) Kind() string       { return "agentic_tool_unknown" }
func (ClaimReleased) Kind() string     { return "claim.released" }
func (StartupAnnotated) Kind() string  { return "startup.annotated" }
func (EffectReconciled) Kind() string  { return "effect.reconciled" }
func (AttemptOpened) Kind() string     { return "attempt.opened" }
func (RunCancelled) Kind() string      { return "run.cancelled" }
func (MigrationSettled) Kind() string  { return "migration.settled" }
func (FactoryCreated) Kind() string    { return "factory.created" }
func (PolicyPut) Kind() string         { return "policy.put" }
func (ProfileRegistered) Kind() string { return "profile.registered" }
func (ProfileRetired) Kind() string    { return "profile.retired" }
func (PrincipalPut) Kind() string      { return "principal.put" }
func (RecordPut) Kind() string         { return "record.put" }
func (RulesActivated) Kind() string    { return "rules.activated" }

func (RunRegistered) event()     {}
func (LeaseGranted) event()      {}
func (ClaimTaken) event()        {}
func (LeaseLapsed) event()       {}
func (CheckpointSaved) event()   {}
func (RequestIssued) event()     {}
func (ResponseKept) event()      {}
func (ResponseConsumed) event()  {}
func (CallGranted) event()       {}
func (CallRefused) event()       {}
func (CallIntended) event()      {}
func (CallReturned) event()      {}
func (CommandStarted) event()    {}
func (CommandFinished) event()   {}
func (RoundCompleted) event()    {}
func (WorkerFailed) event()      {}
func (RunCompleted) event()      {}
func (RunFailed) event()         {}
func (ToolUnknown) event()       {}
func (ClaimReleased) event()     {}
func (StartupAnnotated) event()  {}
func (EffectReconciled) event()  {}
func (AttemptOpened) event()     {}
func (RunCancelled) event()      {}
func (MigrationSettled) event()  {}
func (FactoryCreated) event()    {}
func (PolicyPut) event()         {}
func (ProfileRegistered) event() {}
func (ProfileRetired) event()    {}
func (PrincipalPut) event()      {}
func (RecordPut) event()         {}
func (RulesActivated) event()    {}

func (CheckpointSaved) fact()  {}
func (RequestIssued) fact()    {}
func (ResponseKept) fact()     {}
func (ResponseConsumed) fact() {}
func (CallGranted) fact()      {}
func (CallRefused) fact()      {}
func (CallIntended) fact()     {}
func (CallReturned) fact()     {}
func (CommandStarted) fact()   {}
func (CommandFinished) fact()  {}
func (RoundCompleted) fact()   {}
func (WorkerFailed) fact()     {}
func (RunCompleted) fact()     {}
func (RunFailed) fact()        {}
func (ToolUnknown) fact()      {}

// DecodeEvent reads a stored payload, which must be canonical. A kind that this build does not know, or a payload with
// members it does not know, is rules_newer: it is never folded.
func DecodeEvent(kind string, payload []byte) (Event, error) {
	switch kind {
	case RunRegistered{}.Kind():
		return decode[RunRegistered](payload, canon.DecodeStored)
	case LeaseGranted{}.Kind():
		return decode[LeaseGranted](payload, canon.DecodeStored)
	case ClaimTaken{}.Kind():
		return decode[ClaimTaken](payload, canon.DecodeStored)
	case LeaseLapsed{}.Kind():
		return decode[LeaseLapsed](payload, canon.DecodeStored)
	case RunCancelled{}.Kind():
		return decode[RunCancelled](payload, canon.DecodeStored)
	case ClaimReleased{}.Kind():
		return decode[ClaimReleased](payload, canon.DecodeStored)
	case StartupAnnotated{}.Kind():
		return decode[StartupAnnotated](payload, canon.DecodeStored)
	case EffectReconciled{}.Kind():
		return decode[EffectReconciled](payload, canon.DecodeStored)
	case AttemptOpened{}.Kind():
		return decode[AttemptOpened](payload, canon.DecodeStored)
	case MigrationSettled{}.Kind():
		return decode[MigrationSettled](payload, canon.DecodeStored)
	case VerificationAdmitted{}.Kind():
		return decode[VerificationAdmitted](payload, canon.DecodeStored)
	case VerificationRefused{}.Kind():
		return decode[VerificationRefused](payload, canon.DecodeStored)
	case FactoryCreated{}.Kind():
		return decode[FactoryCreated](payload, canon.DecodeStored)
	case PolicyPut{}.Kind():
		return decode[PolicyPut](payload, canon.DecodeStored)
	case NeverClaimedWitnessed{}.Kind():
		return decode[NeverClaimedWitnessed](payload, canon.DecodeStored)
	case ReadonlyObservationWitnessed{}.Kind():
		return decode[ReadonlyObservationWitnessed](payload, canon.DecodeStored)
	case RefusalSettled{}.Kind():
		return decode[RefusalSettled](payload, canon.DecodeStored)
	case CredentialWaived{}.Kind():
		return decode[CredentialWaived](payload, canon.DecodeStored)
	case RequestRequeued{}.Kind():
		return decode[RequestRequeued](payload, canon.DecodeStored)
	case ProfileRegistered{}.Kind():
		return decode[ProfileRegistered](payload, canon.DecodeStored)
	case ProfileRetired{}.Kind():
		return decode[ProfileRetired](payload, canon.DecodeStored)
	case PrincipalPut{}.Kind():
		return decode[PrincipalPut](payload, canon.DecodeStored)
	case RecordPut{}.Kind():
		return decode[RecordPut](payload, canon.DecodeStored)
	case RulesActivated{}.Kind():
		return decode[RulesActivated](payload, canon.DecodeStored)
	}
	f, err := decodeFact(kind, payload, canon.DecodeStored)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// decodeFact reads a fact of a batch; kinds that only the kernel makes are unknown here.
func decodeFact(kind string, payload []byte, read func([]byte, any) error) (Fact, error) {
	switch kind {
	case CheckpointSaved{}.Kind():
		return decode[CheckpointSaved](payload, read)
	case RequestIssued{}.Kind():
		return decode[RequestIssued](payload, read)
	case ResponseKept{}.Kind():
		return decode[ResponseKept](payload, read)
	case ResponseConsumed{}.Kind():
		return decode[ResponseConsumed](payload, read)
	case CallGranted{}.Kind():
		return decode[CallGranted](payload, read)
	case CallRefused{}.Kind():
		return decode[CallRefused](payload, read)
	case CallIntended{}.Kind():
		return decode[CallIntended](payload, read)
	case CallReturned{}.Kind():
		return decode[CallReturned](payload, read)
	case CommandStarted{}.Kind():
		return decode[CommandStarted](payload, read)
	case CommandFinished{}.Kind():
		return decode[CommandFinished](payload, read)
	case RoundCompleted{}.Kind():
		return decode[RoundCompleted](payload, read)
	case WorkerFailed{}.Kind():
		return decode[WorkerFailed](payload, read)
	case RunCompleted{}.Kind():
		return decode[RunCompleted](payload, read)
	case RunFailed{}.Kind():
		return decode[RunFailed](payload, read)
	case RequestRefused{}.Kind():
		return decode[RequestRefused](payload, read)
	case SourcePrepared{}.Kind():
		return decode[SourcePrepared](payload, read)
	case VerificationFinished{}.Kind():
		return decode[VerificationFinished](payload, read)
	case ToolUnknown{}.Kind():
		return decode[ToolUnknown](payload, read)
	}
	return nil, fmt.Errorf("%w: event kind %q", ErrUnknownKind, kind)
}

func decode[T Event](payload []byte, read func([]byte, any) error) (T, error) {
	var e T
	if err := read(payload, &e); err != nil {
		return e, fmt.Errorf("payload of %s: %w", e.Kind(), err)
	}
	return e, nil
}

// Blobs returns the salted digests that an event names, in a fixed order; each must be kept by the commit of its row.
func Blobs(e Event) []Digest {
	var named []Digest
	switch e := e.(type) {
	case RunRegistered:
		named = []Digest{e.Registration.Task, e.Registration.Contract}
		if list := e.Registration.Verification.List; !list.IsZero() {
			named = append(named, list)
		}
	case VerificationFinished:
		named = []Digest{e.Report}
	case CheckpointSaved:
		named = []Digest{e.Checkpoint}
	case RequestIssued:
		named = []Digest{e.WireBlob}
	case ResponseKept:
		named = []Digest{e.Response}
	case CallReturned:
		named = []Digest{e.Result}
	case CommandStarted:
		named = []Digest{e.Command}
	case CommandFinished:
		named = []Digest{e.Receipt}
	case WorkerFailed:
		named = []Digest{e.Report}
	case RequestRefused:
		named = []Digest{e.Report}
	case ReadonlyObservationWitnessed:
		named = []Digest{e.Derived, e.Witness, e.Proof}
	case RefusalSettled:
		named = []Digest{e.Review.Document}
	case RunFailed:
		named = []Digest{e.Report}
	case EffectReconciled:
		for _, d := range []Digest{e.Evidence, e.Result} {
			if !d.IsZero() {
				named = append(named, d)
			}
		}
	case RunCompleted:
		named = []Digest{e.Result}
	case MigrationSettled:
		named = []Digest{e.Derived, e.Witness, e.Contract, e.Proof}
	case LeaseGranted, ClaimTaken, LeaseLapsed, ResponseConsumed, CallGranted, CallRefused, CallIntended, RoundCompleted,
		RunCancelled, ToolUnknown, ClaimReleased, StartupAnnotated, AttemptOpened, NeverClaimedWitnessed, RequestRequeued, CredentialWaived,
		FactoryCreated, PolicyPut, ProfileRegistered, ProfileRetired, PrincipalPut, RecordPut, RulesActivated,
		VerificationAdmitted, VerificationRefused, SourcePrepared:
	default:
		panic(fmt.Sprintf("models.Blobs: event %T", e))
	}
	return named
}
