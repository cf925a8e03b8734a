package kernel

import (
	"fmt"

	"github.com/forge-continuity/forge/kernel/ticket"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// Receipt returns the saved answer to a command of a run: a pure function of its rows and the state after them, so that
// anyone can make it again from the journal.
func Receipt(s State, c models.Command, rows []models.Row, events []models.Event) []byte {
	switch c := c.(type) {
	case models.ClaimRun:
		return canon.MustMarshal(claimReceipt(s, rows))
	case models.RequestContinuity:
		return canon.MustMarshal(continuityReceipt(s, c, rows, events))
	case models.AdmitVerification:
		return canon.MustMarshal(verificationReceipt(rows, events))
	case models.RecoverNeverClaimed:
		return canon.MustMarshal(recoveryReceipt(s, c.ValidForSeconds, rows, events))
	case models.RecoverReadonlyObservation:
		return canon.MustMarshal(recoveryReceipt(s, c.ValidForSeconds, rows, events))
	case models.RecoverRefusedBoundary:
		return canon.MustMarshal(recoveryReceipt(s, c.ValidForSeconds, rows, events))
	}
	first, last := rows[0], rows[len(rows)-1]
	return canon.MustMarshal(models.AppendReceipt{At: last.At, First: first.Seq, Hash: last.Hash, Last: last.Seq})
}

func claimReceipt(s State, rows []models.Row) models.ClaimReceipt {
	last := rows[len(rows)-1]
	r := models.ClaimReceipt{
		Attempt: s.Attempt, Checkpoint: s.Custody.Checkpoint, ClaimID: s.Lease.ClaimID, Contract: s.Registration.Contract,
		Counters: s.Counters(), ExpiresAt: s.Lease.ExpiresAt, Fence: s.Lease.Fence, Hash: last.Hash, Registration: s.Registered,
		RequestID: s.Lease.RequestID, Run: s.Run, Seq: last.Seq,
	}
	if t, ok := s.Tickets.Find(s.Lease.RequestID); ok && s.Lease.RequestID != "" {
		r.Fixture, r.TicketVersion = t.Fixture, t.Version
		r.Binding = Binding(t)
	}
	return r
}

// Binding names what a claimed ticket allows: this request, starting from this derived checkpoint, under this seal.
func Binding(t ticket.Ticket) models.Digest {
	if t.ReadonlyObservation != "" {
		return models.Tagged(models.TagBinding, []byte(t.RequestID), t.Carried[:], t.Seal[:], t.Witness[:]) // separate: ROBS-30
	}
	return models.Tagged(models.TagBinding, []byte(t.RequestID), t.Derived[:], t.Seal[:])
}

// continuityReceipt finds the settlement among the rows of the admission; the lease is the row after it.
func continuityReceipt(s State, c models.RequestContinuity, rows []models.Row, events []models.Event) models.ContinuityReceipt {
	for i, e := range events {
		m, ok := e.(models.MigrationSettled)
		if !ok {
			continue
		}
		granted := events[i+1].(models.LeaseGranted)
		t, _ := s.Tickets.Find(m.RequestID)
		return models.ContinuityReceipt{
			AdmittedAt: rows[i].At, Attempt: m.Attempt, Candidate: m.Candidate, Catalogue: m.Catalogue, Closing: m.Closing,
			ConsumedGraph: m.Graph, Contract: m.Contract, Counters: s.Counters(), CurrentEpoch: m.CurrentEpoch, Custody: m.Custody,
			Derived: m.Derived, EntryPoint: m.EntryPoint, Establishes: models.Establishes, ExpiresAt: granted.ExpiresAt, Fixture: m.Fixture,
			HistoricEpoch: m.HistoricEpoch, Journal: m.Journal, LeaseHash: rows[i+1].Hash, LeaseSeq: rows[i+1].Seq,
			OriginalActor: s.OriginalActor, OldCheckpoint: m.OldCheckpoint, Parser: "forge-go " + m.Module.String(),
			Profile: m.Profile, ProfileDigest: m.ProfileDigest, Proof: m.Proof, Registration: s.Registered, RequestID: m.RequestID,
			Response: m.Response, Run: s.Run, Seal: t.Seal, SettlementHash: rows[i].Hash, SettlementSeq: rows[i].Seq,
			Source: s.Registration.Source, State: ticket.Queued, ValidForSeconds: c.ValidForSeconds, Version: m.Version, Waived: m.Waived, Witness: m.Witness,
		}
	}
	panic(fmt.Sprintf("kernel: admission without a settlement in %d events", len(events)))
}

// FactoryReceipt is Receipt for a factory's own journal.
func FactoryReceipt(rows []models.Row, events []models.Event) []byte {
	last := rows[len(rows)-1]
	r := models.FactoryReceipt{At: last.At, Hash: last.Hash, Seq: last.Seq}
	switch e := events[len(events)-1].(type) {
	case models.PolicyPut:
		r.Revision = e.Policy.Revision
	case models.PrincipalPut:
		r.Revision = e.Principal.Authority
	case models.RecordPut:
		r.Revision = e.Record.Revision
	}
	return canon.MustMarshal(r)
}
