package api

import (
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/server/engine"
)

// Problem is every refusal on the wire: RFC 9457 application/problem+json, canonical. Detail is the refusal's message, Type
// the address of a page about the code, Details its facts by name.
type Problem struct {
	Code    models.Code       `json:"code"`
	Detail  string            `json:"detail"`
	Details map[string]string `json:"details"`
	Next    string            `json:"next"`
	Status  int64             `json:"status"`
	Title   string            `json:"title"`
	Type    string            `json:"type"`
}

// Opened answers PUT /runs/{run_id}. Salt is 64 hex digits.
type Opened struct {
	Opener string `json:"opener"`
	Run    string `json:"run_id"`
	Salt   string `json:"salt"`
}

// Claimed answers PUT /runs/{run_id}/claims/{claim_id}. Claim is the saved models.ClaimReceipt, Salt 64 hex digits.
type Claimed struct {
	Claim canon.Raw `json:"claim"`
	Salt  string    `json:"salt"`
}

// Renewed answers PUT /runs/{run_id}/claims/{claim_id}/renewal.
type Renewed struct {
	ExpiresAt models.Instant `json:"expires_at"`
}

// RunList answers GET /runs. Next is what to send as after for the following page, empty at the end.
type RunList struct {
	Next string   `json:"next"`
	Runs []string `json:"runs"`
}

// RowList answers GET /runs/{run_id}/rows and /factory/rows. Next is what to send as from to read on.
type RowList struct {
	Next int64              `json:"next"`
	Rows []engine.ExportRow `json:"rows"`
}

// WorkList answers GET /work.
type WorkList struct {
	Runs []WorkEntry `json:"runs"`
}

// EvidenceKept answers POST /runs/{run_id}/evidence with the digest to name in a reconciliation.
type EvidenceKept struct {
	Digest models.Digest `json:"digest"`
}

// WorkEntry announces a run; Request is empty for ordinary work, Pool where any worker may claim it.
type WorkEntry struct {
	Pool    string `json:"pool"`
	Request string `json:"request_id"`
	Run     string `json:"run_id"`
}

// PolicyShown answers GET and PUT of the policy.
type PolicyShown struct {
	models.Policy
	Digest models.Digest `json:"policy_digest"`
}

// TokenIssued answers POST /tokens. Token is shown this once.
type TokenIssued struct {
	Token string `json:"token"`
	ID    string `json:"token_id"`
}

// RunShown answers GET /runs/{run_id}: where the run stands at Now, computed and never stored. Holds is what keeps
// anybody from claiming it, in the order of the refusal table; Unknown what a reconciliation could settle; Pool the workers
// that the run was handed to, empty for any.
type RunShown struct {
	Counters      models.Counters      `json:"counters"`
	Custody       models.Digest        `json:"custody_digest"`
	End           string               `json:"end"`
	Head          models.Head          `json:"head"`
	Holds         []*models.Refusal    `json:"holds"`
	JournalDigest models.Digest        `json:"journal_digest"`
	Lease         LeaseShown           `json:"lease"`
	Now           models.Instant       `json:"now"`
	Opener        string               `json:"opener"`
	OriginalActor string               `json:"original_actor"`
	Pool          string               `json:"pool"`
	Position      string               `json:"position"`
	Registered    models.Digest        `json:"registered"`
	Registration  *models.Registration `json:"registration,omitzero"`
	Rules         int64                `json:"rules"`
	Run           string               `json:"run_id"`
	RunDigest     models.Digest        `json:"run_digest"`
	Tickets       []TicketShown        `json:"tickets"`
	Unknown       []UnknownShown       `json:"unknown"`

	Verification *VerificationShown `json:"verification,omitzero"`
}

// VerificationShown is where the automatic verification of a run stands; a run without verification commands has none. Due says that
// the server's scheduler is to enter it. State is empty before the first, and Stopped says that a recorded refusal ended automatic
// scheduling.
type VerificationShown struct {
	Due     bool   `json:"due"`
	Passed  bool   `json:"passed"`
	Round   int64  `json:"round"`
	Started int64  `json:"started"`
	State   string `json:"state"`
	Stopped bool   `json:"stopped"`
}

// UnknownShown is an effect whose outcome is unknown, or an uncertain ticket: Seq and Subject are what a reconciliation
// names, and RequestID for a ticket.
type UnknownShown struct {
	Number    int64  `json:"number"`
	Position  int64  `json:"position"`
	Request   int64  `json:"request"`
	RequestID string `json:"request_id"`
	Seq       int64  `json:"seq"`
	Subject   string `json:"subject"`
}

// LeaseShown is the claim that is live, or the grant that waits for one: Owner and ClaimID are empty until a worker claims
// (FLOW-20). Fence is that of the last claim.
type LeaseShown struct {
	ClaimID   string         `json:"claim_id"`
	ExpiresAt models.Instant `json:"expires_at"`
	Fence     int64          `json:"fence"`
	Granted   bool           `json:"granted"`
	Live      bool           `json:"live"`
	Owner     string         `json:"owner"`
	Request   string         `json:"request_id"`
}

// TicketShown is one admission of the run.
type TicketShown struct {
	Derived        models.Digest `json:"derived_checkpoint"`
	Fixture        bool          `json:"fixture"`
	Graph          models.Digest `json:"consumed_graph"`
	LeaseSeq       int64         `json:"lease_seq"`
	PolicyRevision int64         `json:"policy_revision"`
	Profile        string        `json:"profile"`
	Request        string        `json:"request_id"`
	Seal           models.Digest `json:"seal"`
	SettlementSeq  int64         `json:"settlement_seq"`
	State          string        `json:"state"`
	Turns          int64         `json:"turns"`
	Version        int64         `json:"version"`
}

// FactoryShown answers GET /factory. Host is what a profile must cover on the node that answers. The policy document has
// its own route, for administrators (rules O23).
type FactoryShown struct {
	Caller         models.Principal       `json:"caller"`
	Factory        string                 `json:"factory"`
	Fixture        bool                   `json:"fixture"`
	Head           models.Head            `json:"head"`
	Host           models.Host            `json:"host"`
	PolicyRevision int64                  `json:"policy_revision"`
	Principals     []PrincipalShown       `json:"principals"`
	Profiles       []models.StoredProfile `json:"profiles"`
	Records        []models.Record        `json:"records"`
	Rules          int64                  `json:"rules"`
}

// PrincipalShown is a principal and its label.
type PrincipalShown struct {
	models.Principal
	Name string `json:"name"`
}

// Bodies that are not a command of models as it stands.
type (
	putPrincipal struct {
		Name     *string  `json:"name,omitzero"`
		Removed  bool     `json:"removed"`
		Replaces int64    `json:"replaces"`
		Roles    []string `json:"roles"`
	}
	putRenewal struct {
		Fence        int64          `json:"fence"`
		LeaseSeconds models.Seconds `json:"lease_seconds"`
	}
	putRecord struct {
		Digest models.Digest `json:"digest"`
	}
	postToken struct {
		Lifetime  models.Seconds `json:"lifetime_seconds"`
		Principal string         `json:"principal"`
	}
	// postRequest keeps what a rule judges by value as text: a missing or mistyped acknowledgement is refused by name, not
	// as a malformed body (FLOW-11).
	postRequest struct {
		NoNewGrant          canon.Raw       `json:"acknowledge_no_new_grant,omitzero"`
		OriginalConsumption canon.Raw       `json:"acknowledge_original_consumption,omitzero"`
		RenewedSameAttempt  canon.Raw       `json:"acknowledge_renewed_same_attempt_lease,omitzero"`
		CandidateDigest     models.Digest   `json:"candidate_digest"`
		JournalDigest       models.Digest   `json:"journal_digest"`
		PolicyDigest        models.Digest   `json:"policy_digest"`
		RunDigest           models.Digest   `json:"run_digest"`
		ValidForSeconds     *models.Seconds `json:"valid_for_seconds,omitzero"`
		Version             *int64          `json:"version,omitzero"`
	}
)
