package kernel

import (
	"github.com/forge-continuity/forge/kernel/ticket"
	"github.com/forge-continuity/forge/models"
)

// Positions of a run (rules, section 6). They are computed from state and time and never stored.
const (
	PositionOpened             = "opened"
	PositionQueued             = "queued"
	PositionExecuting          = "executing"
	PositionHeld               = "held"
	PositionContinuationQueued = "continuation_queued"
	PositionContinuing         = "continuing"
	PositionCompleted          = "completed"
	PositionCancelled          = "cancelled"
	PositionFailed             = "failed"
)

// Position says where a run stands at an instant; expires is the lease expiry in force.
func Position(s State, at, expires models.Instant) string {
	t, ticketed := s.Tickets.Last()
	switch {
	case s.Registered.IsZero():
		return PositionOpened
	case s.End == EndCompleted:
		return PositionCompleted
	case s.End == EndCancelled:
		return PositionCancelled
	case s.End == EndFailed:
		return PositionFailed
	case s.Lease.Executing(at, expires) && s.Lease.RequestID != "":
		return PositionContinuing
	case s.Lease.Executing(at, expires):
		return PositionExecuting
	case ticketed && t.State == ticket.Queued && s.Lease.Waiting(at):
		return PositionContinuationQueued
	case ticketed && t.Outstanding():
		return PositionHeld
	case s.Claimable():
		return PositionQueued
	}
	return PositionHeld
}
