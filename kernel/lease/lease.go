// Package lease keeps who may write to a run, and until when.
//
// Invariants:
//
//	L1. At most one claim is live, and the fence rises by one with every claim (rules, invariant 14).
//	L2. At the expiry instant the lease is gone (BOUND-02).
//	L3. A fenced-off or expired owner appends nothing.
//	L4. lease.granted has no owner; only claim.taken makes one, with the grant's own expiry (rules O29).
//	L5. A continuity lease ends no later than policy window, frozen timeout, active deadline and 7200 seconds allow, and is
//	    never lengthened (rules, invariant 13).
package lease

import "github.com/forge-continuity/forge/models"

// State is the last claim and the grant that stands. RequestID tells a continuity lease from an ordinary one. ClaimedOn and GrantedOn
// are the rows of the factory's journal that stood at the claim and at the grant: what stopped later stops them.
type State struct {
	ClaimID   string         `json:"claim_id"`
	ClaimedOn int64          `json:"claimed_on"`
	ExpiresAt models.Instant `json:"expires_at"`
	Fence     int64          `json:"fence"`
	Granted   bool           `json:"granted"` // a window stands that nobody has claimed
	GrantedAt models.Instant `json:"granted_at"`
	GrantedOn int64          `json:"granted_on"`
	Live      bool           `json:"live"` // the claim was not ended by a row; expiry may have ended it
	Owner     string         `json:"owner"`
	RequestID string         `json:"request_id"`
}

// InForce returns when the claim ends. expires is what the store's lease row says, which a renewal of an ordinary lease
// may have moved; a continuity lease keeps its grant's own, whatever the row says (L5).
func (s State) InForce(expires models.Instant) models.Instant {
	if s.RequestID != "" {
		return s.ExpiresAt
	}
	return expires
}

// Executing reports whether a claim is live at the instant (L2); expires as in InForce.
func (s State) Executing(at, expires models.Instant) bool { return s.Live && at < s.InForce(expires) }

// Waiting reports whether a granted window stands unclaimed at the instant.
func (s State) Waiting(at models.Instant) bool { return s.Granted && at < s.ExpiresAt }

// Lapsed returns the event that records a lease ended by time, and whether there is one to record.
func (s State) Lapsed(at, expires models.Instant) (models.LeaseLapsed, bool) {
	switch {
	case s.Live && at >= s.InForce(expires):
		return models.LeaseLapsed{ExpiresAt: s.InForce(expires), Fence: s.Fence, RequestID: s.RequestID}, true
	case s.Granted && at >= s.ExpiresAt:
		return models.LeaseLapsed{ExpiresAt: s.ExpiresAt, RequestID: s.RequestID}, true
	}
	return models.LeaseLapsed{}, false
}

// Own refuses an append by anybody but the live owner under the live fence (L3).
func (s State) Own(actor string, fence int64, at, expires models.Instant) *models.Refusal {
	switch {
	case !s.Live || fence != s.Fence || actor != s.Owner:
		return models.Refuse(models.CodeFenceLost, models.D("fence", fence), models.D("current", s.Fence))
	case at >= s.InForce(expires):
		return models.Refuse(models.CodeLeaseExpired, models.D("expired_at", int64(s.InForce(expires))))
	}
	return nil
}

// Window returns when a lease of so many seconds granted now ends: no later than the active deadline, where the run has
// one (rules O28). deadline 0 means none. The refusal is deadline_passed.
func Window(at models.Instant, seconds models.Seconds, deadline models.Instant) (models.Instant, *models.Refusal) {
	end := at.Add(seconds)
	if deadline != 0 && deadline < end {
		end = deadline
	}
	if end <= at {
		return 0, models.Refuse(models.CodeDeadlinePassed, models.D("deadline", int64(deadline)))
	}
	return end, nil
}

// Evolve folds an event of this machine; actor is the row's. A cancellation leaves the claim: its owner learns run_cancelled,
// not that somebody else took over.
func (s State) Evolve(e models.Event, actor string) State {
	switch e := e.(type) {
	case models.LeaseGranted:
		s.Granted, s.Live, s.ExpiresAt, s.RequestID = true, false, e.ExpiresAt, e.RequestID
	case models.ClaimTaken:
		s = State{ClaimID: e.ClaimID, ExpiresAt: e.ExpiresAt, Fence: e.Fence, GrantedAt: s.GrantedAt, GrantedOn: s.GrantedOn, Live: true, Owner: actor, RequestID: e.RequestID}
	case models.LeaseLapsed, models.WorkerFailed, models.RunCompleted, models.RunFailed, models.ClaimReleased,
		models.VerificationFinished:
		s.Live, s.Granted = false, false
	}
	return s
}
