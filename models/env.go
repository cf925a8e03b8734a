package models

import "github.com/forge-continuity/forge/models/canon"

// What the store holds for the id of a command.
const (
	SavedNone  = ""
	SavedSame  = "same"
	SavedOther = "other"
)

// Where the time of a command came from: the store's clock, or the head's time because the clock stood up to
// MaxClockLag behind it.
const (
	ClockStore = "store"
	ClockHead  = "head"
)

// MaxClockLag is how far behind the head the store's clock may be, in microseconds (design, The store).
const MaxClockLag Instant = 2_000_000

// Head is the sequence and hash of a journal's last row; zero before the first.
type Head struct {
	Hash Digest `json:"hash"`
	Seq  int64  `json:"seq"`
}

// Digest returns the journal digest of the head.
func (h Head) Digest() Digest {
	return Tagged(TagHead, canon.MustMarshal(h))
}

// Env is the closed set of facts that Decide reads beside state and command. Factory is not written into rows: the row
// names the factory's head, and replay folds that journal up to it. Admission is what the rows of the outstanding ticket's
// admission come to (kernel.AdmissionOf), read for a claim or a batch; nil where it was not read.
type Env struct {
	Actor          string          `json:"actor"`
	Admission      *Digest         `json:"admission,omitzero"`
	At             Instant         `json:"at"`
	Clock          string          `json:"clock"`
	Factory        Factory         `json:"-"`
	FactoryHead    Head            `json:"factory_head,omitzero"`
	History        *TicketHistory  `json:"history,omitzero"`
	Host           Host            `json:"host,omitzero"`
	LeaseExpires   Instant         `json:"lease_expires,omitzero"`
	Missing        []Digest        `json:"missing,omitzero"`
	Pending        int64           `json:"pending,omitzero"`
	Reconstruction *Reconstruction `json:"reconstruction,omitzero"`
	Recount        *Recount        `json:"recount,omitzero"`
	Reports        []Report        `json:"reports,omitzero"`
	Reproduction   *Reproduction   `json:"reproduction,omitzero"`
	Saved          string          `json:"saved,omitzero"`
	Screening      *Screening      `json:"screening,omitzero"`
}

// Recount is what folding every row of the run again gave: the state is a cache that continuity never trusts.
type Recount struct {
	BrokenAt    int64  `json:"broken_at"`
	Cached      string `json:"cached,omitzero"` // fingerprint of the cached state, by the build that wrote the row
	Calls       int64  `json:"calls"`
	Commands    int64  `json:"commands"`
	Fingerprint string `json:"fingerprint"` // of the state folded again, by the same build
	Head        Head   `json:"head"`
	Requests    int64  `json:"requests"`
}

// SandboxHold is a hold that the sandbox found: a code of the table, with facts.
type SandboxHold struct {
	Code    Code     `json:"code"`
	Details []Detail `json:"details"`
}

// SeenCall is a call as the parser found it in the raw response; ID and Args are salted by the host.
type SeenCall struct {
	Args     Digest `json:"args"`
	Class    string `json:"class"`
	ID       Digest `json:"id"`
	Position int64  `json:"position"`
	Tool     int64  `json:"tool"`
}

// Retained is the kept outcome of a call, as the journal has it, that the sandbox was given for the call at Position.
type Retained struct {
	Position int64  `json:"position"`
	Result   Digest `json:"result"`
}

// Reconstruction is what the sandbox answered for the bytes that the state names. Version is that of the proof: 1, 2, or
// 0 where the shape fits neither. Every digest but Module and Catalogue is salted.
type Reconstruction struct {
	Calls      []SeenCall      `json:"calls"`
	Catalogue  Digest          `json:"catalogue"`
	Checkpoint Digest          `json:"checkpoint"`
	Closing    []ClosingResult `json:"closing"`
	Contract   Digest          `json:"contract"`
	Derived    Digest          `json:"derived"`
	EntryPoint Digest          `json:"entry_point,omitzero"` // whose contract was captured (REC-08)
	Holds      []SandboxHold   `json:"holds"`
	Module     Digest          `json:"module"`
	Outcomes   []Retained      `json:"outcomes,omitzero"`
	Proof      Digest          `json:"proof"`
	Response   Digest          `json:"response"`
	Served     int64           `json:"served"`
	Tokens     Tokens          `json:"tokens"`
	Version    int64           `json:"version"`
	Witness    Digest          `json:"witness"`
}

// Seal returns the canonical text that a row carries.
func (e Env) Seal() ([]byte, error) { return canon.Marshal(e) }

// OpenEnv reads a sealed Env, which must be canonical; the caller fills Factory from the factory's journal at FactoryHead.
func OpenEnv(text []byte) (Env, error) {
	var e Env
	err := canon.DecodeStored(text, &e)
	return e, err
}
