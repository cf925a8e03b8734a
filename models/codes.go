package models

import "slices"

//go:generate go test -run ^TestGoldenRefusalsDocument$ . -update

// Code names one reason to refuse, in snake_case. A code is never renamed and never given another meaning.
type Code string

// Entry is one line of the refusal table.
//
// Where says who can answer it, as letters: C candidate of version 1 or 2, A their admission, N, B and O the never-claimed,
// refused-boundary and read-only observation workflows, X claim and execution, R restore, inspection, verification and the
// generic commands, or * for everywhere. Rules are the continuity rules that the code answers; our own codes have none.
type Entry struct {
	Code    Code
	HTTP    int
	Where   string
	Message string
	Next    string
	Rules   []string
}

const (
	CodeRequestMalformed             Code = "request_malformed"
	CodeIdentityMissing              Code = "identity_missing"
	CodeRoleMissing                  Code = "role_missing"
	CodeNotFound                     Code = "not_found"
	CodeRequestConflict              Code = "request_conflict"
	CodeVersionMismatch              Code = "version_mismatch"
	CodeAcknowledgementMissing       Code = "acknowledgement_missing"
	CodeWindowInvalid                Code = "window_invalid"
	CodeGraphHasTicket               Code = "graph_has_ticket"
	CodeRecoveryRecorded             Code = "recovery_recorded"
	CodeFenceLost                    Code = "fence_lost"
	CodeLeaseExpired                 Code = "lease_expired"
	CodePolicyDisabled               Code = "policy_disabled"
	CodeSettingOff                   Code = "setting_off"
	CodeProfileUnqualified           Code = "profile_unqualified"
	CodeProfileMismatch              Code = "profile_mismatch"
	CodeQualificationMissing         Code = "qualification_missing"
	CodeActorNotOriginal             Code = "actor_not_original"
	CodeActorLost                    Code = "actor_lost"
	CodeAuthorityRevoked             Code = "authority_revoked"
	CodeRunCancelled                 Code = "run_cancelled"
	CodeRunNotHeld                   Code = "run_not_held"
	CodeCheckpointModeUnsupported    Code = "checkpoint_mode_unsupported"
	CodeAttemptMismatch              Code = "attempt_mismatch"
	CodeClaimLive                    Code = "claim_live"
	CodeTicketOutstanding            Code = "ticket_outstanding"
	CodeJournalBroken                Code = "journal_broken"
	CodeTicketChanged                Code = "ticket_changed"
	CodeTicketClaimed                Code = "ticket_claimed"
	CodeTicketUncertain              Code = "ticket_uncertain"
	CodeClaimHistoryIncomplete       Code = "claim_history_incomplete"
	CodeNotFirstRequest              Code = "not_first_request"
	CodeRefusalRecoveryMissing       Code = "refusal_recovery_missing"
	CodeObservationTurnUnsupported   Code = "observation_turn_unsupported"
	CodeClosureIncomplete            Code = "closure_incomplete"
	CodeModelOutcomeUnknown          Code = "model_outcome_unknown"
	CodeConsumeMissing               Code = "consume_missing"
	CodeUnknownEffect                Code = "unknown_effect"
	CodeLaterActivity                Code = "later_activity"
	CodeSourceChanged                Code = "source_changed"
	CodeConfigurationChanged         Code = "configuration_changed"
	CodeScopeChanged                 Code = "scope_changed"
	CodeDigestStale                  Code = "digest_stale"
	CodeSourceUnregistered           Code = "source_unregistered"
	CodeRuntimeUnregistered          Code = "runtime_unregistered"
	CodeValidatorUnregistered        Code = "validator_unregistered"
	CodeReaderUnregistered           Code = "reader_unregistered"
	CodePolicyEpochUnknown           Code = "policy_epoch_unknown"
	CodeUnsupportedHistoryFormat     Code = "unsupported_history_format"
	CodeSDKPairUnsupported           Code = "sdk_pair_unsupported"
	CodeRecordOutOfBounds            Code = "record_out_of_bounds"
	CodeCheckpointDigestMismatch     Code = "checkpoint_digest_mismatch"
	CodeCheckpointNotCanonical       Code = "checkpoint_not_canonical"
	CodeCredentialFound              Code = "credential_found"
	CodeResponseContentUnsupported   Code = "response_content_unsupported"
	CodeCallUnknown                  Code = "call_unknown"
	CodeCallWritable                 Code = "call_writable"
	CodeSiblingUnsupported           Code = "sibling_unsupported"
	CodeEvidenceCallNotSingle        Code = "evidence_call_not_single"
	CodeSiblingPresent               Code = "sibling_present"
	CodeDuplicateCallID              Code = "duplicate_call_id"
	CodeCallNotGranted               Code = "call_not_granted"
	CodeQueryNotObject               Code = "query_not_object"
	CodeQueryOutsideSchema           Code = "query_outside_schema"
	CodeQueryValid                   Code = "query_valid"
	CodeSiblingArgumentsInvalid      Code = "sibling_arguments_invalid"
	CodeObservationCustodyIncomplete Code = "observation_custody_incomplete"
	CodeCheckpointFieldUnknown       Code = "checkpoint_field_unknown"
	CodeProvenanceUnsupported        Code = "provenance_unsupported"
	CodeToolKindUnsupported          Code = "tool_kind_unsupported"
	CodeCounterMissing               Code = "counter_missing"
	CodeCounterUnknown               Code = "counter_unknown"
	CodeCounterOutOfBounds           Code = "counter_out_of_bounds"
	CodeRoundTripLoss                Code = "round_trip_loss"
	CodeResponseUnparsable           Code = "response_unparsable"
	CodeSandboxStopped               Code = "sandbox_stopped"
	CodeContractChanged              Code = "contract_changed"
	CodePendingCheckpointDiffers     Code = "pending_checkpoint_differs"
	CodeRefusalNotReviewed           Code = "refusal_not_reviewed"
	CodeReviewEvidenceMismatch       Code = "review_evidence_mismatch"
	CodeReviewCountsNotZero          Code = "review_counts_not_zero"
	CodeCorrectiveValidationMissing  Code = "corrective_validation_missing"
	CodeWireBytesDiffer              Code = "wire_bytes_differ"
	CodeReviewedHistoryDiffers       Code = "reviewed_history_differs"
	CodeTimeBudgetUnsupported        Code = "time_budget_unsupported"
	CodeDeadlinePassed               Code = "deadline_passed"
	CodeAllowanceExhausted           Code = "allowance_exhausted"
	CodeTicketsPerRunReached         Code = "tickets_per_run_reached"
	CodePendingTicketsReached        Code = "pending_tickets_reached"
	CodeRestoreVersionMismatch       Code = "restore_version_mismatch"
	CodeRestoreRefused               Code = "restore_refused"

	// Ours, outside the continuity rules (design, Errors).
	CodeRevisionStale         Code = "revision_stale"
	CodeRulesNewer            Code = "rules_newer"
	CodeRunFull               Code = "run_full"
	CodeContentFull           Code = "content_full"
	CodeCallsFull             Code = "calls_full"
	CodeFactOutOfOrder        Code = "fact_out_of_order"
	CodeBlobMissing           Code = "blob_missing"
	CodeBlobMismatch          Code = "blob_mismatch"
	CodeRunExists             Code = "run_exists"
	CodeRunFinished           Code = "run_finished"
	CodeRunHeld               Code = "run_held"
	CodeNotInPool             Code = "not_in_pool"
	CodeNothingToReconcile    Code = "nothing_to_reconcile"
	CodeRunNotFailed          Code = "run_not_failed"
	CodeVerificationNotDue    Code = "verification_not_due"
	CodeFixtureOnly           Code = "fixture_only"
	CodePayloadTooLarge       Code = "payload_too_large"
	CodeMethodNotAllowed      Code = "method_not_allowed"
	CodeSDKDisagrees          Code = "sdk_disagrees"
	CodeReconstructionMissing Code = "reconstruction_missing"
	CodeBusy                  Code = "busy"
	CodeClockBehind           Code = "clock_behind"
	CodeUnavailable           Code = "unavailable"
	CodeInternal              Code = "internal"
)

// table is in order of precedence: when several refusals apply, the first here is the answer, and a candidate lists all of
// them in this order. The first 91 follow the continuity rules, section 5. New codes go to the end of their group.
var table = []Entry{
	{CodeRequestMalformed, 400, "*",
		"The request could not be read as what this route takes.",
		"Correct the member that the details name and send it again.",
		[]string{"FLOW-10", "REFUSED-12", "REFUSED-13", "ROBS-02", "ROBS-23", "ROBS-25"}},
	{CodeIdentityMissing, 401, "*",
		"No valid token came with the request.",
		"Send a current token in the Authorization header.",
		[]string{"FLOW-16", "CRED-05"}},
	{CodeRoleMissing, 403, "*",
		"Your account does not have the role that this route needs.",
		"Ask a factory administrator for the role, or let someone who has it do this.",
		[]string{"FLOW-01", "FLOW-06", "NOCLAIM-04", "REFUSED-10"}},
	{CodeNotFound, 404, "*",
		"This factory has nothing under that name.",
		"Check the id and the factory that your token belongs to.",
		[]string{"FLOW-12"}},
	{CodeRequestConflict, 409, "ANBO",
		"This id was already used for something else or by someone else.",
		"Read back what stands under the id; new content needs a new id.",
		[]string{"FLOW-13", "ROBS-27"}},
	{CodeVersionMismatch, 422, "A",
		"The candidate calls for the other version of the request.",
		"Read the candidate again and use the route of the version it shows.",
		[]string{"ELIG-10", "OBS-10", "OBS-24"}},
	{CodeAcknowledgementMissing, 422, "ANBO",
		"One of the statements that you must agree to is missing or is not true.",
		"Read the named statement and, if you agree, send it as the Boolean true.",
		[]string{"FLOW-11", "OBS-08", "START-07", "REFUSED-25", "ROBS-24", "ROBS-25"}},
	{CodeWindowInvalid, 422, "ANBO",
		"The asked lease time is not a whole number of seconds inside what is allowed.",
		"Choose a time within the window that the candidate shows.",
		[]string{"FLOW-10", "FLOW-26", "FLOW-36", "ROBS-23"}},
	{CodeGraphHasTicket, 409, "CA",
		"This consumed response has already been given its one ticket.",
		"Follow the ticket that the details name; a second one is never made.",
		[]string{"FLOW-14"}},
	{CodeRecoveryRecorded, 409, "NBO",
		"This ticket's one recovery of this kind has been used.",
		"Read the recorded recovery back; it can be neither repeated nor replaced.",
		[]string{"NOCLAIM-01", "NOCLAIM-13", "REFUSED-17", "REFUSED-19", "REFUSED-24", "ROBS-02", "ROBS-27", "START-12"}},
	{CodeFenceLost, 409, "X",
		"Nobody holds a live claim on this run under that fence.",
		"Stop working on the run, and claim it afresh before you append anything.",
		[]string{"START-01", "FLOW-21"}},
	{CodeLeaseExpired, 409, "X",
		"The time for which this run was leased has run out.",
		"Stop the work and look at the run to see which way on is open.",
		[]string{"BOUND-02"}},
	{CodePolicyDisabled, 409, "CANBOX",
		"The factory's continuity policy is switched off.",
		"Ask a factory administrator whether it should be enabled.",
		[]string{"FLOW-03", "OBS-07", "EPOCH-04", "BOUND-01"}},
	{CodeSettingOff, 409, "CABOX",
		"The policy does not allow this particular way on.",
		"Ask a factory administrator whether the named setting should be turned on.",
		[]string{"OBS-06", "REFUSED-03", "ROBS-03"}},
	{CodeProfileUnqualified, 409, "CANBOX",
		"The factory has no profile that is both current and qualified.",
		"Have a factory administrator register a qualified profile for this installation.",
		[]string{"PREVIEW-05", "EPOCH-04"}},
	{CodeProfileMismatch, 409, "CANBOX",
		"The registered profile was made for other code than what is installed here.",
		"Register a profile for the installed module and catalogue, or install what the profile names.",
		[]string{"PREVIEW-05", "BOUND-03"}},
	{CodeQualificationMissing, 409, "CANBO",
		"The profile lacks a qualification that this factory needs.",
		"Run the named qualification and register a profile that carries its report.",
		[]string{"PREVIEW-06", "BOUND-17"}},
	{CodeActorNotOriginal, 403, "CANBO",
		"You are not the person on whose authority this run was started.",
		"Let that person do it; the details show whom the run belongs to.",
		[]string{"EPOCH-05", "NOCLAIM-04", "START-11"}},
	{CodeActorLost, 409, "CANBOX",
		"The person who started this run no longer belongs to the factory.",
		"Restore that account, or leave the run held.",
		[]string{"BOUND-05"}},
	{CodeAuthorityRevoked, 403, "CANBOX",
		"The person who started this run has lost a role that is needed here.",
		"Have the role given back to that person, or leave the run held.",
		[]string{"NOCLAIM-04", "REFUSED-10", "ROBS-31", "START-11"}},
	{CodeRunCancelled, 409, "CANBOX",
		"Someone cancelled this run.",
		"Nothing continues a cancelled run; start a new one if the work is still wanted.",
		[]string{"BOUND-04"}},
	{CodeRunNotHeld, 409, "CANBO",
		"No hold keeps this run from its ordinary way, so there is nothing to continue.",
		"Look at the run's state and wait, or use the ordinary way to claim it.",
		[]string{"FLOW-17"}},
	{CodeCheckpointModeUnsupported, 422, "CA",
		"The run did not keep a checkpoint before each request, which this feature needs.",
		"Leave this run held; record later runs in the required mode.",
		[]string{"PREVIEW-01"}},
	{CodeAttemptMismatch, 409, "CANBOX",
		"The named attempt is not the one that this run is on.",
		"Read the run again and use the attempt that it shows.",
		[]string{"FLOW-17", "ROBS-31"}},
	{CodeClaimLive, 409, "CANBO",
		"A worker holds the run or it is waiting in the queue.",
		"Wait until that claim ends, then read the candidate again.",
		[]string{"FLOW-19"}},
	{CodeTicketOutstanding, 409, "CAR",
		"A continuity ticket of this run is still open.",
		"Follow that ticket to its end first.",
		[]string{"NOCLAIM-19", "BOUND-10", "START-06"}},
	{CodeJournalBroken, 422, "CANBOR",
		"The run's journal does not verify.",
		"Do not continue it; run forge verify on an export to see the first bad row.",
		[]string{"ELIG-01", "CRED-06"}},
	{CodeTicketChanged, 409, "NBOX",
		"The ticket no longer matches the seal made when it was admitted.",
		"Do not continue it; find out who changed the store and keep an export as evidence.",
		[]string{"BOUND-07"}},
	{CodeTicketClaimed, 409, "N",
		"A worker has claimed this request at least once.",
		"Settle what that worker did; recovery for never-claimed requests cannot apply.",
		[]string{"NOCLAIM-02", "NOCLAIM-03", "NOCLAIM-18", "REFUSED-04"}},
	{CodeTicketUncertain, 409, "NBO",
		"Nobody can tell from the record how this request ended.",
		"Find evidence of what happened and reconcile the ticket by hand.",
		[]string{"NOCLAIM-18", "REFUSED-02", "REFUSED-08", "REFUSED-09", "BOUND-09"}},
	{CodeClaimHistoryIncomplete, 409, "NB",
		"The request's history lacks a record that would prove the point.",
		"Leave it held, or reconcile it with evidence from elsewhere.",
		[]string{"NOCLAIM-02", "NOCLAIM-03", "REFUSED-08"}},
	{CodeNotFirstRequest, 409, "B",
		"The refused request was not the only one sent since the claim.",
		"Reconcile what the other requests did; this review does not cover them.",
		[]string{"REFUSED-05"}},
	{CodeRefusalRecoveryMissing, 422, "O",
		"The history does not show the earlier claim and the reviewed refusal before this turn.",
		"Leave the turn held; this way on exists only after such a recovery.",
		[]string{"ROBS-05"}},
	{CodeObservationTurnUnsupported, 422, "O",
		"The turn is not of the one shape that can be continued with a lost read.",
		"See the details for what differs, and reconcile the turn by hand.",
		[]string{"ROBS-06", "ROBS-07", "ROBS-08"}},
	{CodeClosureIncomplete, 422, "CA",
		"The records of this turn do not fit together into one closed set.",
		"See which member is missing or different, and put it right from the worker's own spool if it has it.",
		[]string{"ELIG-02", "SDK-05"}},
	{CodeModelOutcomeUnknown, 409, "CAX",
		"A request was sent to the model and its answer was never kept.",
		"Fetch the answer from the provider or reconcile the request before going on.",
		[]string{"ELIG-02", "ELIG-16"}},
	{CodeConsumeMissing, 422, "CA",
		"The journal does not say that the response was used.",
		"Let an ordinary worker claim the run; it will use the kept response.",
		[]string{"ELIG-13"}},
	{CodeUnknownEffect, 409, "CANBOX",
		"A tool or command may have had an effect that nobody has accounted for.",
		"Find out what it did and reconcile it with evidence.",
		[]string{"ELIG-16", "BOUND-06"}},
	{CodeLaterActivity, 409, "CANBO",
		"Something happened after the point from which the run would go on.",
		"Look at the row in the details and settle it first.",
		[]string{"ELIG-14", "NOCLAIM-07", "REFUSED-07", "ROBS-10"}},
	{CodeSourceChanged, 409, "CANBOX",
		"The source is not what it was when the run was registered.",
		"Bring the recorded source back, or leave the run held.",
		[]string{"FLOW-18", "BOUND-03"}},
	{CodeConfigurationChanged, 409, "CANBOX",
		"The configuration is not what it was when the run was registered.",
		"Bring the recorded configuration back, or leave the run held.",
		[]string{"FLOW-18", "BOUND-03"}},
	{CodeScopeChanged, 409, "CANBOX",
		"The scope is not what it was when the run was registered.",
		"Bring the recorded scope back, or leave the run held.",
		[]string{"EPOCH-05", "BOUND-03"}},
	{CodeDigestStale, 412, "ANBOX",
		"You named a digest that is no longer the current one.",
		"Read the candidate again, check what changed, and decide anew.",
		[]string{"FLOW-09", "NOCLAIM-09", "ROBS-23", "ROBS-31"}},
	{CodeSourceUnregistered, 422, "CA",
		"The catalogue has no entry for the software that recorded this run.",
		"Ask the maintainers to review that exact source and its dependencies.",
		[]string{"SDK-01", "SDK-03", "SDK-04"}},
	{CodeRuntimeUnregistered, 422, "CA",
		"The catalogue has no entry for the package runtime that the old worker used.",
		"Ask the maintainers to review that runtime.",
		[]string{"ELIG-03"}},
	{CodeValidatorUnregistered, 422, "CA",
		"The catalogue has no reviewed entry for the validator or reader source of this call.",
		"Ask the maintainers to review that exact source file.",
		[]string{"ELIG-04", "CRED-03", "CRED-04"}},
	{CodeReaderUnregistered, 422, "CA",
		"The catalogue does not publish the source reader that this run used.",
		"Ask the maintainers to review that reader; until then the reads stay open.",
		[]string{"OBS-04"}},
	{CodePolicyEpochUnknown, 422, "CA",
		"The catalogue does not know this selection, mode and acknowledgement together.",
		"Ask the maintainers to review the three values of the run's registration.",
		[]string{"EPOCH-02"}},
	{CodeUnsupportedHistoryFormat, 422, "CAR",
		"The history was written in a format that this release does not know.",
		"Use a release whose catalogue lists that SDK version.",
		[]string{"CRED-05", "SDK-02"}},
	{CodeSDKPairUnsupported, 422, "CA",
		"There is no reviewed way from the SDK that wrote this run to the one in use.",
		"Wait for a release that supports the pair, or leave the run held.",
		[]string{"SDK-02"}},
	{CodeRecordOutOfBounds, 422, "CAR",
		"The stored record is larger or more deeply nested than is accepted.",
		"Leave the run held; the details show the bound and the size found.",
		[]string{"CRED-07"}},
	{CodeCheckpointDigestMismatch, 422, "CAR",
		"The checkpoint's bytes are not those that the journal recorded.",
		"Treat the store as damaged and compare it with an export or a backup.",
		[]string{"SDK-05", "CRED-07"}},
	{CodeCheckpointNotCanonical, 422, "CAR",
		"The checkpoint is not written in its one canonical form.",
		"Find out what rewrote it; a checkpoint is kept exactly as the worker saved it.",
		[]string{"SDK-05", "CRED-07"}},
	{CodeCredentialFound, 422, "CAR",
		"The stored text contains something that looks like a key or password.",
		"Revoke that credential and leave the run held; an administrator may waive a false alarm, once.",
		[]string{"CRED-08", "SDK-24"}},
	{CodeResponseContentUnsupported, 422, "CAO",
		"The response holds a kind of part that cannot be handled here.",
		"Leave the run held; the details name the part.",
		[]string{"ELIG-12"}},
	{CodeCallUnknown, 422, "CAO",
		"The response calls a tool that nobody has described.",
		"Leave the run held, or have the tool added to the catalogue by review.",
		[]string{"ELIG-11"}},
	{CodeCallWritable, 422, "CAO",
		"The response calls a tool that can change something.",
		"Find out whether it ran and reconcile it with evidence.",
		[]string{"ELIG-11", "ROBS-10"}},
	{CodeSiblingUnsupported, 422, "CAO",
		"A further call in the response is of a kind that cannot be closed offline.",
		"Find out what that call did and reconcile it with evidence.",
		[]string{"OBS-16", "OBS-19", "ROBS-10"}},
	{CodeEvidenceCallNotSingle, 422, "CA",
		"The response does not make just one evidence read.",
		"Leave the run held; this feature closes one such call only.",
		[]string{"ELIG-05"}},
	{CodeSiblingPresent, 422, "CA",
		"The response makes other calls besides the evidence read.",
		"Check whether the candidate can be continued as version 2.",
		[]string{"ELIG-10"}},
	{CodeDuplicateCallID, 422, "CAO",
		"Two calls of the history carry the same id.",
		"Leave the run held, since a result could not be given to one of them alone.",
		[]string{"OBS-17"}},
	{CodeCallNotGranted, 422, "CAO",
		"The run never granted one of these calls.",
		"Leave the run held and find out how the call came to be made.",
		[]string{"ELIG-06", "OBS-01"}},
	{CodeQueryNotObject, 422, "CA",
		"The query of the call is some other JSON than an object.",
		"Leave the run held; only queries with an object shape can be closed this way.",
		[]string{"ELIG-07"}},
	{CodeQueryOutsideSchema, 422, "CA",
		"The schema that the model was shown does not allow this query.",
		"Leave the run held; the fault lies with the call and not with the validator.",
		[]string{"ELIG-08"}},
	{CodeQueryValid, 422, "CA",
		"The pinned validator finds nothing wrong with this query.",
		"Find out why the read really failed; it was not refused for its query.",
		[]string{"ELIG-09"}},
	{CodeSiblingArgumentsInvalid, 422, "CA",
		"The arguments of a further call break the schema it was offered with.",
		"Leave the run held; the details name the call.",
		[]string{"OBS-18"}},
	{CodeObservationCustodyIncomplete, 422, "CAO",
		"The record of a read is missing a part or belongs to another call.",
		"See which part the details name, and leave the run held if it cannot be found.",
		[]string{"OBS-03", "OBS-05", "OBS-15", "ROBS-06", "ROBS-09"}},
	{CodeCheckpointFieldUnknown, 422, "CA",
		"The checkpoint has a member that this release does not know.",
		"Use a release that knows it, or have the source reviewed again.",
		[]string{"SDK-18"}},
	{CodeProvenanceUnsupported, 422, "CA",
		"A provenance field holds a value that cannot be carried over.",
		"Leave the run held; the details name the field.",
		[]string{"SDK-15", "SDK-17"}},
	{CodeToolKindUnsupported, 422, "CA",
		"A tool definition has a kind that cannot be carried over.",
		"Leave the run held; the details name the tool's position.",
		[]string{"SDK-12"}},
	{CodeCounterMissing, 422, "CA",
		"A usage counter that must be there is not.",
		"Leave the run held; the details name the counter.",
		[]string{"SDK-22"}},
	{CodeCounterUnknown, 422, "CA",
		"The usage holds a counter that the catalogue does not list.",
		"Have the counter reviewed, or leave the run held.",
		[]string{"SDK-23"}},
	{CodeCounterOutOfBounds, 422, "CAR",
		"A usage counter is not a whole number in its range.",
		"Leave the run held; the details name the counter and the range.",
		[]string{"SDK-20", "CRED-07"}},
	{CodeRoundTripLoss, 422, "CA",
		"Rewriting the record for the other SDK would lose something.",
		"Report it with the path in the details; nothing was changed.",
		[]string{"SDK-06"}},
	{CodeResponseUnparsable, 422, "CA",
		"The kept response could not be read as the provider's format.",
		"Check that it was kept whole; a damaged response cannot be continued.",
		[]string{"REC-01"}},
	{CodeSandboxStopped, 422, "CANBO",
		"The sealed reconstruction was stopped before it finished.",
		"See the reason in the details; the same input will stop at the same place again.",
		[]string{"REC-01", "REC-02", "REC-05"}},
	{CodeContractChanged, 422, "CANBO",
		"The tools, settings or instructions differ by more than the two reviewed changes.",
		"Install the worker contract that the run was recorded with.",
		[]string{"REC-09", "REC-11", "SDK-19"}},
	{CodePendingCheckpointDiffers, 409, "B",
		"The checkpoint of the refused request is not the one that the ticket carries.",
		"Leave the request held; something changed between admission and refusal.",
		[]string{"REFUSED-06"}},
	{CodeRefusalNotReviewed, 422, "B",
		"No review shows that the provider refused this request before starting work.",
		"Review the refusal with both pinned reports, or reconcile the request.",
		[]string{"REFUSED-02", "REFUSED-11", "REFUSED-14"}},
	{CodeReviewEvidenceMismatch, 422, "B",
		"The review says something else than the journal or its own reports.",
		"Compare the named member with its report and correct the review.",
		[]string{"REFUSED-11", "REFUSED-12"}},
	{CodeReviewCountsNotZero, 422, "B",
		"By this review the provider had already begun some work.",
		"Reconcile that work; a refusal with work behind it is not covered here.",
		[]string{"REFUSED-13"}},
	{CodeCorrectiveValidationMissing, 422, "B",
		"Nothing shows that the corrected provider was checked after the refusal.",
		"Validate the correction, and name its epoch and the report's digest.",
		[]string{"REFUSED-16", "REFUSED-18"}},
	{CodeWireBytesDiffer, 422, "B",
		"Rendering the refused request again gives other bytes than were sent.",
		"Leave the request held; the details show both lengths and digests.",
		[]string{"REFUSED-26"}},
	{CodeReviewedHistoryDiffers, 422, "O",
		"The record under review differs from the one that was kept.",
		"See the path in the details; nothing may have been altered, not even a number's spelling.",
		[]string{"ROBS-16", "ROBS-17", "ROBS-18"}},
	{CodeTimeBudgetUnsupported, 422, "CANBO",
		"The run's time budget follows a protocol that this release does not know.",
		"Use a release that knows the protocol, or leave the run held.",
		[]string{"FLOW-27"}},
	{CodeDeadlinePassed, 409, "CANBOX",
		"The run's deadline leaves no time to work in.",
		"Nothing extends it; start a new run if the work is still wanted.",
		[]string{"FLOW-26"}},
	{CodeAllowanceExhausted, 409, "CANBOX",
		"The run has used up one of the limits it was started with.",
		"Finish with what has been done; limits are for the life of the run and are not raised.",
		[]string{"FLOW-42", "REC-07", "OBS-23"}},
	{CodeTicketsPerRunReached, 429, "A",
		"This run has had as many tickets as the policy allows.",
		"Ask a factory administrator whether the count should be raised.",
		[]string{"FLOW-32", "FLOW-34"}},
	{CodePendingTicketsReached, 429, "ANBO",
		"The factory has as many waiting tickets as the policy allows.",
		"Try again when workers have claimed some of them.",
		[]string{"FLOW-32", "FLOW-34"}},
	{CodeRestoreVersionMismatch, 422, "R",
		"Ordinary restore needs a record of one exact SDK version, and this is another.",
		"Restore it with the version that wrote it.",
		[]string{"CRED-11"}},
	{CodeRestoreRefused, 409, "R",
		"Ordinary restore neither repeats a used response nor revives a dead claim.",
		"Read the run's candidate to see whether continuity offers a way on.",
		[]string{"EPOCH-03", "EPOCH-06", "EPOCH-07", "FLOW-22"}},
	{CodeRevisionStale, 412, "*",
		"The revision you named has been replaced by a newer one.",
		"Read the current revision, check what changed, and send your change against it.",
		nil},
	{CodeRulesNewer, 422, "*",
		"This record was written under a format or rules newer than this program knows.",
		"Upgrade this installation; nothing was read or changed.",
		nil},
	{CodeRunFull, 409, "X",
		"The run's journal holds as many rows as a run may have.",
		"Finish the work in a new run.",
		nil},
	{CodeContentFull, 409, "XR",
		"The content kept for the run is as large as a run's may be.",
		"Name content that is kept already, or finish the work in a new run; uploads that no row names are removed after an hour.",
		nil},
	{CodeCallsFull, 409, "X",
		"The run has as many open calls as it may have at once.",
		"Report the outcome of some calls before granting more.",
		nil},
	{CodeFactOutOfOrder, 422, "X",
		"The reported fact does not follow from what the journal holds so far.",
		"See the details for what is missing, and report the facts in the order in which they happened.",
		nil},
	{CodeBlobMissing, 422, "X",
		"A blob that this command names has not been stored for the run.",
		"Put the blob first and send the same command again.",
		nil},
	{CodeBlobMismatch, 422, "X",
		"The bytes received do not have the digest they were sent under.",
		"Compute the digest again over the run's salt and these bytes, and put them under it.",
		nil},
	{CodeRunExists, 409, "X",
		"A run with this id exists already and is not yours to open again.",
		"Choose another run id.",
		nil},
	{CodeRunFinished, 409, "X",
		"The run has ended and takes no more work.",
		"Read the run to see how it ended; start a new one for further work.",
		nil},
	{CodeRunHeld, 409, "X",
		"The run stopped at a point that no worker may pass by itself.",
		"Read the run's candidate, which names what is known, what is not, and the way on.",
		nil},
	{CodeNotInPool, 409, "X",
		"The run was handed to another pool of workers than the one you named.",
		"Claim it as a worker of the pool in the details, or leave it to them.",
		nil},
	{CodeNothingToReconcile, 409, "R",
		"No effect of that row waits for an outcome.",
		"Read the run again; it may have been settled already.",
		nil},
	{CodeRunNotFailed, 409, "R",
		"The run has not ended with a final failure.",
		"Only a failed run gets another attempt; continue this one where it stands.",
		nil},
	{CodeVerificationNotDue, 409, "R",
		"No automatic verification of that round is due on the run.",
		"Read the run: a round is verified once it is the newest, nothing of it is open, and it was not entered before.",
		nil},
	{CodeFixtureOnly, 422, "*",
		"Something made for fixtures was offered to a factory that does real work.",
		"Use a fixture factory, or register the qualified counterpart.",
		nil},
	{CodePayloadTooLarge, 413, "*",
		"The body is larger than this route accepts.",
		"Send less; the limit is in the details.",
		nil},
	{CodeMethodNotAllowed, 405, "*",
		"This address does not take that method.",
		"Look the route up in the API description.",
		nil},
	{CodeSDKDisagrees, 409, "X",
		"The installed SDK reads the derived checkpoint differently from what the ticket binds.",
		"Stop before sending anything, and report both digests to the maintainers.",
		nil},
	{CodeReconstructionMissing, 503, "*",
		"The sealed reconstruction for this candidate has not been made yet.",
		"Try again in a moment.",
		nil},
	{CodeBusy, 503, "*",
		"All workers of this server are taken.",
		"Wait for the time in Retry-After and send the same request again.",
		nil},
	{CodeClockBehind, 503, "*",
		"The store's clock is too far behind the last recorded row.",
		"Have the store's clock corrected, then send the same request again.",
		nil},
	{CodeUnavailable, 503, "*",
		"A part that this server needs did not answer in time.",
		"Send the same request again later; its id makes that safe.",
		nil},
	{CodeInternal, 500, "*",
		"The server met a fault of its own.",
		"Tell the operator the id in the details; the log has the cause under it.",
		nil},
}

// Table returns the refusal table in order of precedence. The caller owns the slice, not the Rules inside.
func Table() []Entry { return slices.Clone(table) }

// Lookup returns the entry of code.
func Lookup(code Code) (Entry, bool) {
	if n := Precedence(code); n > 0 {
		return table[n-1], true
	}
	return Entry{}, false
}

// Precedence returns the place of code in the table, from 1 (answered first), and 0 for a code that is not in it.
func Precedence(code Code) int {
	for i := range table {
		if table[i].Code == code {
			return i + 1
		}
	}
	return 0
}
