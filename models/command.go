package models

import (
	"errors"
	"fmt"

	"github.com/forge-continuity/forge/models/canon"
)

// ErrUnknownKind reports a kind of event or command that this build does not know.
var ErrUnknownKind = errors.New("unknown kind")

// Command is what somebody asks for. The set is closed. A command carries no time and no identity; both are in Env.
type Command interface {
	Verb() string
	command()
}

// RegisterRun freezes a run. The caller becomes its original execution actor.
type RegisterRun struct {
	Registration Registration `json:"registration"`
}

// ClaimRun takes a queued run for the caller. The command's id is the claim id, made by the worker. LeaseSeconds is what
// an ordinary claim asks for; a ticket's lease is never the worker's choice.
type ClaimRun struct {
	LeaseSeconds Seconds `json:"lease_seconds"`
	Pool         string  `json:"pool,omitzero"`
}

// Append reports facts under a fence: all of them or none.
type Append struct {
	Facts []Fact
	Fence int64
}

// RequestContinuity asks for version 1 (or, with its own route, version 2) on the exact candidate that was read. The
// command's id is the request id.
type RequestContinuity struct {
	AcknowledgeNoNewGrant                    bool    `json:"acknowledge_no_new_grant"`
	AcknowledgeOriginalConsumption           bool    `json:"acknowledge_original_consumption"`
	AcknowledgeRenewedSameAttemptLease       bool    `json:"acknowledge_renewed_same_attempt_lease"`
	AcknowledgeUnavailableSourceObservations bool    `json:"acknowledge_unavailable_source_observations,omitzero"`
	CandidateDigest                          Digest  `json:"candidate_digest"`
	JournalDigest                            Digest  `json:"journal_digest"`
	PolicyDigest                             Digest  `json:"policy_digest"`
	RunDigest                                Digest  `json:"run_digest"`
	ValidForSeconds                          Seconds `json:"valid_for_seconds"`
	Version                                  int64   `json:"version"`
}

// ReleaseRun gives a run back at a clean point, to any worker or (handoff) to a named pool.
type ReleaseRun struct {
	Fence int64  `json:"fence"`
	Pool  string `json:"pool"`
}

// Reconcile settles one unknown effect, or the uncertain ticket that RequestID names, with evidence and by a person. Seq is
// the row whose outcome is unknown, so that what was read is what is settled.
type Reconcile struct {
	AcknowledgeNoReplay                bool   `json:"acknowledge_no_replay"`
	AcknowledgeOriginalRecordUnchanged bool   `json:"acknowledge_original_record_unchanged"`
	AcknowledgeOriginalUseCharged      bool   `json:"acknowledge_original_use_charged"`
	AcknowledgeUnknownOutcome          bool   `json:"acknowledge_unknown_outcome"`
	Evidence                           Digest `json:"evidence"`
	Outcome                            string `json:"outcome"`
	RequestID                          string `json:"request_id"`
	Result                             Digest `json:"result"`
	ResultLength                       int64  `json:"result_length"`
	Seq                                int64  `json:"seq"`
	Subject                            string `json:"subject"`
}

// RetryRun opens another attempt of a failed run.
type RetryRun struct{}

// AnnotateStartup is written by the server at its own start for a run with an outstanding ticket.
type AnnotateStartup struct {
	Boot string `json:"boot"`
}

// CancelRun stops a run for good.
type CancelRun struct{}

// CreateFactory opens a factory; its first principal, the caller, is its administrator.
type CreateFactory struct {
	Fixture bool `json:"fixture"`
}

// PutPolicy replaces the policy. Replaces is the revision it was made from.
type PutPolicy struct {
	Policy   Policy `json:"policy"`
	Replaces int64  `json:"replaces"`
}

// RegisterProfile makes a profile current; its id must be new.
type RegisterProfile struct {
	Profile Profile `json:"profile"`
}

// RetireProfile ends a profile.
type RetireProfile struct {
	ID string `json:"id"`
}

// PutPrincipal sets roles, or removes. Replaces is the authority revision it was made from, 0 for a new principal.
type PutPrincipal struct {
	ID       string   `json:"id"`
	Removed  bool     `json:"removed"`
	Replaces int64    `json:"replaces"`
	Roles    []string `json:"roles"`
}

// PutRecord sets a source, configuration or scope record.
type PutRecord struct {
	Digest Digest `json:"digest"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
}

// ActivateRules makes a newer rules number stand for the factory and its runs.
type ActivateRules struct {
	Rules int64 `json:"rules"`
}

// Verb returns the stored name of the command.
func (RegisterRun) Verb() string       { return "register_run" }
func (ClaimRun) Verb() string          { return "claim_run" }
func (Append) Verb() string            { return "append" }
func (RequestContinuity) Verb() string { return "request_continuity" }
func (CancelRun) Verb() string         { return "cancel_run" }
func (ReleaseRun) Verb() string        { return "release_run" }
func (Reconcile) Verb() string         { return "reconcile" }
func (RetryRun) Verb() string          { return "retry_run" }
func (AnnotateStartup) Verb() string   { return "annotate_startup" }
func (CreateFactory) Verb() string     { return "create_factory" }
func (PutPolicy) Verb() string         { return "put_policy" }
func (RegisterProfile) Verb() string   { return "register_profile" }
func (RetireProfile) Verb() string     { return "retire_profile" }
func (PutPrincipal) Verb() string      { return "put_principal" }
func (PutRecord) Verb() string         { return "put_record" }
func (ActivateRules) Verb() string     { return "activate_rules" }

func (RegisterRun) command()       {}
func (ClaimRun) command()          {}
func (Append) command()            {}
func (RequestContinuity) command() {}
func (CancelRun) command()         {}
func (ReleaseRun) command()        {}
func (Reconcile) command()         {}
func (RetryRun) command()          {}
func (AnnotateStartup) command()   {}
func (CreateFactory) command()     {}
func (PutPolicy) command()         {}
func (RegisterProfile) command()   {}
func (RetireProfile) command()     {}
func (PutPrincipal) command()      {}
func (PutRecord) command()         {}
func (ActivateRules) command()     {}

// ForFactory reports whether the command belongs to a factory's own journal.
func ForFactory(c Command) bool {
	switch c.(type) {
	case CreateFactory, PutPolicy, RegisterProfile, RetireProfile, PutPrincipal, PutRecord, ActivateRules:
		return true
	case RegisterRun, ClaimRun, Append, RequestContinuity, CancelRun, ReleaseRun, Reconcile, RetryRun, AnnotateStartup,
		RecoverNeverClaimed, RecoverRefusedBoundary, RecoverReadonlyObservation, WaiveCredential, AdmitVerification:
		return false
	}
	panic(fmt.Sprintf("models.ForFactory: command %T", c))
}

type sealedFact struct {
	Data canon.Raw `json:"data"`
	Kind string    `json:"kind"`
}

type sealedAppend struct {
	Facts []sealedFact `json:"facts"`
	Fence int64        `json:"fence"`
}

// MarshalJSONTo writes {"facts":[{"data":...,"kind":...}],"fence":n}.
func (a Append) MarshalJSONTo(e *canon.Encoder) error {
	type named struct {
		Data Fact   `json:"data"`
		Kind string `json:"kind"`
	}
	list := make([]named, len(a.Facts))
	for i, f := range a.Facts {
		list[i] = named{f, f.Kind()}
	}
	return canon.Encode(e, struct {
		Facts []named `json:"facts"`
		Fence int64   `json:"fence"`
	}{list, a.Fence})
}

// UnmarshalJSON reads what MarshalJSONTo writes, in any spelling; unknown kinds and members are errors.
func (a *Append) UnmarshalJSON(b []byte) (err error) {
	*a, err = readAppend(b, canon.DecodeWhole)
	return err
}

// readAppend reads a batch with one of canon's readers.
func readAppend(b []byte, read func([]byte, any) error) (Append, error) {
	var s sealedAppend
	if err := read(b, &s); err != nil {
		return Append{}, err
	}
	a := Append{Fence: s.Fence}
	for i, f := range s.Facts {
		fact, err := decodeFact(f.Kind, f.Data, read)
		if err != nil {
			return Append{}, fmt.Errorf("fact %d: %w", i, err)
		}
		a.Facts = append(a.Facts, fact)
	}
	return a, nil
}

// EncodeCommand returns the canonical text of a command; its name stands beside it in the row.
func EncodeCommand(c Command) ([]byte, error) { return canon.Marshal(c) }

// DecodeCommand reads a stored command, which must be canonical.
func DecodeCommand(name string, text []byte) (Command, error) {
	switch name {
	case RegisterRun{}.Verb():
		return decodeCommand[RegisterRun](text)
	case ClaimRun{}.Verb():
		return decodeCommand[ClaimRun](text)
	case Append{}.Verb():
		return readAppend(text, canon.DecodeStored)
	case RequestContinuity{}.Verb():
		return decodeCommand[RequestContinuity](text)
	case CancelRun{}.Verb():
		return decodeCommand[CancelRun](text)
	case ReleaseRun{}.Verb():
		return decodeCommand[ReleaseRun](text)
	case Reconcile{}.Verb():
		return decodeCommand[Reconcile](text)
	case RetryRun{}.Verb():
		return decodeCommand[RetryRun](text)
	case AnnotateStartup{}.Verb():
		return decodeCommand[AnnotateStartup](text)
	case AdmitVerification{}.Verb():
		return decodeCommand[AdmitVerification](text)
	case RecoverNeverClaimed{}.Verb():
		return decodeCommand[RecoverNeverClaimed](text)
	case RecoverRefusedBoundary{}.Verb():
		return decodeCommand[RecoverRefusedBoundary](text)
	case RecoverReadonlyObservation{}.Verb():
		return decodeCommand[RecoverReadonlyObservation](text)
	case WaiveCredential{}.Verb():
		return decodeCommand[WaiveCredential](text)
	case CreateFactory{}.Verb():
		return decodeCommand[CreateFactory](text)
	case PutPolicy{}.Verb():
		return decodeCommand[PutPolicy](text)
	case RegisterProfile{}.Verb():
		return decodeCommand[RegisterProfile](text)
	case RetireProfile{}.Verb():
		return decodeCommand[RetireProfile](text)
	case PutPrincipal{}.Verb():
		return decodeCommand[PutPrincipal](text)
	case PutRecord{}.Verb():
		return decodeCommand[PutRecord](text)
	case ActivateRules{}.Verb():
		return decodeCommand[ActivateRules](text)
	}
	return nil, fmt.Errorf("%w: command %q", ErrUnknownKind, name)
}

func decodeCommand[T Command](text []byte) (Command, error) {
	var c T
	if err := canon.DecodeStored(text, &c); err != nil {
		return nil, fmt.Errorf("command %s: %w", c.Verb(), err)
	}
	return c, nil
}

// CommandDigest names a command's content together with who sent it: the same id with another digest is a conflict.
func CommandDigest(actor string, c Command) (Digest, error) {
	text, err := EncodeCommand(c)
	if err != nil {
		return Digest{}, err
	}
	return Tagged(TagCommand, []byte(actor), []byte(c.Verb()), text), nil
}
