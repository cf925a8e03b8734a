package models

import "strconv"

// Policy is the continuity policy document of a factory (spec, Operator flow; rules section 2). Version is 1. Revision is
// made by the kernel and rises by one with each PUT.
type Policy struct {
	AllowPreAdmissionRecovery          bool    `json:"allow_pre_admission_recovery"`
	AllowReadonlyObservationRecovery   bool    `json:"allow_readonly_observation_recovery"`
	AllowUnavailableSourceObservations bool    `json:"allow_unavailable_source_observations"`
	Enabled                            bool    `json:"enabled"`
	MaxPendingTickets                  int64   `json:"max_pending_tickets"`
	MaxTicketsPerRun                   int64   `json:"max_tickets_per_run"`
	MaxValidForSeconds                 Seconds `json:"max_valid_for_seconds"`
	Revision                           int64   `json:"revision"`
	Version                            int64   `json:"version"`
}

// DefaultPolicy is that of a new factory: everything off, no window, 50 tickets per run and 500 pending (FLOW-32).
func DefaultPolicy() Policy {
	return Policy{Version: 1, MaxPendingTickets: 500, MaxTicketsPerRun: 50}
}

// Qualification is one passed check of a profile, with the plain digest of its report.
type Qualification struct {
	Name   string `json:"name"`
	Report Digest `json:"report"`
}

// Names of the qualifications that the kernel asks for (rules O1). QualificationStore is followed by the store kind.
const (
	QualificationSDK        = "sdk"
	QualificationPostgres   = "postgres"
	QualificationController = "controller"
	QualificationStore      = "store-"
)

// Profile names the complete installed migration code and what it was qualified with (rules O1, O2).
type Profile struct {
	Build          string          `json:"build"`
	Catalogue      Digest          `json:"catalogue"`
	Fixture        bool            `json:"fixture"`
	ID             string          `json:"id"`
	Module         Digest          `json:"module"`
	Qualifications []Qualification `json:"qualifications"`
	Rules          int64           `json:"rules"`
	Screening      Digest          `json:"screening,omitzero"` // rule set of the credential screening
	Store          string          `json:"store"`
	StoreMajor     int64           `json:"store_major"`
}

// Host is the composition of the node that executes a command: what a profile must cover.
type Host struct {
	Build      string `json:"build"`
	Catalogue  Digest `json:"catalogue"`
	Module     Digest `json:"module"`
	Rules      int64  `json:"rules"`
	Screening  Digest `json:"screening,omitzero"`
	Store      string `json:"store"`
	StoreMajor int64  `json:"store_major"`
}

// Roles of a principal in a factory.
const (
	RoleAdministrator = "administrator"
	RoleOperator      = "operator"
	RoleReader        = "reader"
	RoleWorker        = "worker"
)

// ServerActor is the server itself, for the one row that it writes of its own accord. No principal can have this id.
const ServerActor = "_server"

// Principal is an identity with authority in one factory. Names and tokens stand elsewhere; the id is opaque. Authority
// rises by one with every change. A removed principal keeps its entry.
type Principal struct {
	Authority int64    `json:"authority"`
	ID        string   `json:"id"`
	Removed   bool     `json:"removed"`
	Roles     []string `json:"roles"`
}

// Record kinds.
const (
	RecordSource        = "source"
	RecordConfiguration = "configuration"
	RecordScope         = "scope"
)

// Record is a named source, configuration or scope as it is now. Forge reads no source tree: an administrator or the
// claiming worker reports it.
type Record struct {
	Digest   Digest `json:"digest"`
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	Revision int64  `json:"revision"`
}

// Moved is when something that tickets rely on last stopped holding, and in which row of the factory's journal: a stop is not
// undone for those it met by putting the old value back (rules, invariant 16).
type Moved struct {
	At   Instant `json:"at"`
	Kind string  `json:"kind"`
	Name string  `json:"name"`
	Seq  int64   `json:"seq"`
}

// Kinds of Moved beside the record kinds: the policy as a whole, its switches and its window, and a principal's loss of the
// right to execute, to administer, or to work. A window has the seconds it was narrowed to for a name.
const (
	MovedPolicy        = "policy"
	MovedObservations  = "policy-observations"
	MovedPreAdmission  = "policy-pre-admission"
	MovedActor         = "actor"
	MovedAdministrator = "administrator"
	MovedWindow        = "policy-window"
	MovedWorker        = "worker"
)

// MovedSince reports whether that stopped holding after the row seq of the factory's journal, which a run's row names. Times would
// not do: a stop may have the very time of the row that it met.
func (f Factory) MovedSince(kind, name string, seq int64) bool {
	for _, m := range f.Moved {
		if m.Kind == kind && m.Name == name {
			return m.Seq > seq
		}
	}
	return false
}

// NarrowedSince returns the narrowest window that the policy had after the row, and whether it was narrowed after it at all.
func (f Factory) NarrowedSince(seq int64) (Seconds, bool) {
	for _, m := range f.Moved {
		if m.Kind == MovedWindow && m.Seq > seq { // in order of seconds
			n, err := strconv.ParseInt(m.Name, 10, 64)
			return Seconds(n), err == nil
		}
	}
	return 0, false
}

// Factory is the state of a factory's own journal. Slices are sorted by id, kind and name.
type Factory struct {
	Cmd          int64           `json:"cmd"`
	Created      bool            `json:"created"`
	Factory      string          `json:"factory"`
	Fixture      bool            `json:"fixture"`
	Head         Digest          `json:"head"`
	HeadAt       Instant         `json:"head_at"`
	Moved        []Moved         `json:"moved"`
	Policy       Policy          `json:"policy"`
	PolicyDigest Digest          `json:"policy_digest"`
	Principals   []Principal     `json:"principals"`
	Profiles     []StoredProfile `json:"profiles"`
	Records      []Record        `json:"records"`
	Rules        int64           `json:"rules"`
	Seq          int64           `json:"seq"`
}

// StoredProfile is a registered profile and whether it is still current.
type StoredProfile struct {
	Digest  Digest  `json:"digest"`
	Profile Profile `json:"profile"`
	Retired bool    `json:"retired"`
}

// Principal returns the entry of id, and whether there is one that was not removed.
func (f Factory) Principal(id string) (Principal, bool) {
	for _, p := range f.Principals {
		if p.ID == id {
			return p, !p.Removed
		}
	}
	return Principal{}, false
}

// Has reports whether the principal holds the role now.
func (f Factory) Has(id, role string) bool {
	p, ok := f.Principal(id)
	if !ok {
		return false
	}
	for _, r := range p.Roles {
		if r == role {
			return true
		}
	}
	return false
}

// Record returns the record of that kind and name, and whether there is one.
func (f Factory) Record(kind, name string) (Record, bool) {
	for _, r := range f.Records {
		if r.Kind == kind && r.Name == name {
			return r, true
		}
	}
	return Record{}, false
}
