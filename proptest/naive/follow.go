package naive

import (
	"github.com/forge-continuity/forge/models"
)

// Follow is what an accepted command appends: the kinds of its rows, when the lease that it grants or takes ends, 0 for none, and
// the findings that an admission passed by a waiver.
type Follow struct {
	Kinds  []string
	Ends   models.Instant
	Waived []models.Finding
}

// Follows says what a command that is accepted appends to the run.
func (m *Model) Follows(a Asked) Follow {
	r := m.run()
	var out Follow
	lapse := func() {
		if r.lapse(a) {
			out.Kinds = append(out.Kinds, "lease.lapsed")
		}
	}
	kinds := func(list ...string) { out.Kinds = append(out.Kinds, list...) }
	ends := func(seconds models.Seconds) { out.Ends = min(a.At.Add(seconds), r.deadline()) }
	switch c := a.Command.(type) {
	case models.RegisterRun:
		kinds("run.registered")
	case models.ClaimRun:
		if r.outstanding() {
			kinds("claim.taken")
			out.Ends = r.expires
			break
		}
		lapse()
		kinds("lease.granted", "claim.taken")
		ends(min(c.LeaseSeconds, r.registration.ProviderTimeout))
	case models.Append:
		for _, f := range c.Facts {
			kinds(f.Kind())
		}
	case models.RequestContinuity:
		lapse()
		kinds("migration.settled", "lease.granted")
		if a.Screened != nil {
			for _, f := range a.Screened.Found {
				if r.covered(a.Screened, f) {
					out.Waived = append(out.Waived, f)
				}
			}
		}
		ends(c.ValidForSeconds)
	case models.RecoverNeverClaimed:
		lapse()
		kinds("never_claimed_recovery", "request.requeued", "lease.granted")
		ends(c.ValidForSeconds)
	case models.RecoverRefusedBoundary:
		lapse()
		kinds("refusal.settled", "request.requeued", "lease.granted")
		ends(c.ValidForSeconds)
	case models.RecoverReadonlyObservation:
		lapse()
		kinds("readonly_observation_recovery", "request.requeued", "lease.granted")
		ends(c.ValidForSeconds)
	case models.AdmitVerification:
		lapse()
		if len(r.against(m.factory(), a)) > 0 {
			kinds("verification.refused")
		} else {
			kinds("verification.admitted")
		}
	case models.ReleaseRun:
		kinds("claim.released")
	case models.Reconcile:
		lapse()
		kinds("effect.reconciled")
	case models.RetryRun:
		kinds("attempt.opened")
	case models.CancelRun:
		lapse()
		kinds("run.cancelled")
	case models.AnnotateStartup:
		kinds("startup.annotated")
	case models.WaiveCredential:
		lapse()
		kinds("credential.waived")
	}
	return out
}

// Stand is where a run stands: what was spent, its lease, its tickets and its verification.
type Stand struct {
	Attempt, Rounds                                             int64
	Requests, Commands, Calls, Reads, InputTokens, OutputTokens int64
	End, Pool                                                   string
	Lease                                                       Lease
	Tickets                                                     []Ticket
	Verification                                                Verification
	Checkpoint                                                  models.Digest
	Waivers                                                     []Waiver
}

// Waiver lets one finding of one rule set in one blob pass, once.
type Waiver struct {
	Finding models.Finding
	Blob    models.Digest
	RuleSet models.Digest
	Spent   bool
}

// Lease is the claim or grant that stands; the zero value is none. The fence stays.
type Lease struct {
	Live, Waiting bool
	Fence         int64
	Owner         string
	RequestID     string
	Ends          models.Instant
}

// Ticket is an admission, with the ids of its recoveries.
type Ticket struct {
	RequestID, State                 string
	Version, Claims, Turns           int64
	NeverClaimed, Boundary, Observed string
	Start                            models.Digest
}

// Verification is the newest automatic verification.
type Verification struct {
	State           string
	Round, Started  int64
	Passed, Stopped bool
}

// Stands is where the run stands after everything that happened.
func (m *Model) Stands() Stand {
	r := m.run()
	s := Stand{
		Attempt: r.attempt, Rounds: r.rounds, Requests: r.requests, Commands: r.commands, Calls: r.calls, Reads: r.reads,
		InputTokens: r.input, OutputTokens: r.output, End: r.end, Pool: r.pool, Checkpoint: r.checkpoint, Waivers: r.waivers,
		Lease:        Lease{Fence: r.fence},
		Verification: Verification{r.verified.state, r.verified.round, r.verified.started, r.verified.passed, r.verified.stopped},
	}
	if r.live || r.waiting {
		s.Lease = Lease{Live: r.live, Waiting: r.waiting, Fence: r.fence, RequestID: r.requestID, Ends: r.expires}
	}
	if r.live {
		s.Lease.Owner = r.owner
	}
	for _, t := range r.tickets {
		s.Tickets = append(s.Tickets, Ticket{
			RequestID: t.settled.RequestID, State: t.state, Version: t.settled.Version, Claims: int64(t.claims), Turns: int64(t.turns),
			NeverClaimed: t.actions["never_claimed"], Boundary: t.actions["refused_boundary"], Observed: t.actions["readonly_observation"], Start: t.start,
		})
	}
	return s
}
