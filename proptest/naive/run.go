package naive

import (
	"github.com/forge-continuity/forge/models"
)

// call is one granted call of the newest turn.
type call struct {
	grant                         models.CallGranted
	refused, started, lost, ended bool
	validator                     models.Digest
	startedRow                    int
	outcome                       *models.CallReturned // the worker's own report of it
}

// ticket is one admission.
type ticket struct {
	settled models.MigrationSettled
	row     int // of its settlement, from 1
	state   string
	turns   int
}

// run is what the run's events come to.
type run struct {
	grantedAt    models.Instant // of the newest lease
	claimedAt    models.Instant // by the newest claim
	rows         int
	actor        string
	registration *models.Registration
	attempt      int64
	rounds       int64
	end          string

	requests, commands, calls, reads, input, output int64

	checkpoint    models.Digest
	checkpointRow int

	request     *models.RequestIssued // the newest
	requestRow  int
	whole       bool // a whole response is there
	partial     bool
	response    models.Digest
	void        bool // reconciled: no response will come
	consumed    *models.ResponseConsumed
	consumedRow int
	settled     bool // by a continuity settlement
	later       int  // first row after the consume that nothing accounts for
	granted     map[int64]*call
	running     map[int64]int // started commands by number, and their row

	fence     int64
	live      bool // claimed, and no row ended it
	waiting   bool // granted, and not claimed
	owner     string
	expires   models.Instant // as granted
	requestID string         // of the lease, empty for an ordinary one
	pool      string
	tickets   []*ticket
}

func (m *Model) run() *run {
	r := &run{granted: map[int64]*call{}, running: map[int64]int{}}
	for _, h := range m.Run {
		r.happen(h)
	}
	return r
}

// accountedFor may follow a consume (rules O6); settlements end the turn anyway.
var accountedFor = map[string]bool{
	"call.granted": true, "call.refused": true, "call.intended": true, "call.returned": true, "agentic_tool_unknown": true,
	"lease.granted": true, "claim.taken": true, "claim.released": true, "lease.lapsed": true, "worker.failed": true,
	"startup.annotated": true, "migration.settled": true,
}

func (r *run) happen(h Happened) {
	r.rows++
	if r.consumed != nil && !r.settled && r.later == 0 && !accountedFor[h.Event.Kind()] {
		r.later = r.rows
	}
	switch e := h.Event.(type) {
	case models.RunRegistered:
		g := e.Registration
		r.actor, r.registration, r.attempt, r.rounds = e.Actor, &g, g.Attempt, g.CompletedRounds
	case models.LeaseGranted:
		r.live, r.waiting, r.expires, r.requestID, r.grantedAt = false, true, e.ExpiresAt, e.RequestID, h.At
	case models.ClaimTaken:
		r.live, r.waiting, r.owner, r.fence, r.pool, r.claimedAt = true, false, h.Actor, e.Fence, "", h.At
		r.ticket(e.RequestID, "claimed")
	case models.LeaseLapsed:
		r.live, r.waiting = false, false
		if e.Fence == 0 {
			r.ticket(e.RequestID, "failed_unclaimed")
		} else {
			r.ticket(e.RequestID, "uncertain")
		}
	case models.ClaimReleased:
		r.live, r.pool = false, e.Pool
	case models.CheckpointSaved:
		r.checkpoint, r.checkpointRow = e.Checkpoint, r.rows
	case models.RequestIssued:
		r.requests++
		r.request, r.requestRow = &e, r.rows
		r.whole, r.partial, r.void, r.consumed, r.settled, r.later = false, false, false, nil, false, 0
		r.granted = map[int64]*call{}
		if t := r.newest(); t != nil && t.state == "claimed" {
			t.turns++
		}
	case models.ResponseKept:
		r.whole, r.partial, r.response = !e.Partial, e.Partial, e.Response
	case models.ResponseConsumed:
		r.consumed, r.consumedRow = &e, r.rows
		r.input, r.output = plus(r.input, e.Tokens.Input), plus(r.output, e.Tokens.Output)
	case models.CallGranted:
		r.calls++
		r.granted[e.Position] = &call{grant: e}
	case models.CallRefused:
		r.granted[e.Position].refused, r.granted[e.Position].validator = true, e.Validator
	case models.CallIntended:
		c := r.granted[e.Position]
		c.started, c.startedRow = true, r.rows
		if readClass(c.grant.Class) {
			r.reads++
		}
	case models.ToolUnknown:
		r.granted[e.Position].lost = true
	case models.CallReturned:
		r.granted[e.Position].ended, r.granted[e.Position].outcome = true, &e
	case models.CommandStarted:
		r.commands++
		r.running[e.Number] = r.rows
	case models.CommandFinished:
		delete(r.running, e.Number)
	case models.RoundCompleted:
		r.rounds = e.Round
	case models.WorkerFailed:
		r.live = false
		if t := r.newest(); t != nil && t.state == "claimed" {
			t.state = "uncertain"
			if t.turns > 0 && r.answered() && r.unknown() == 0 {
				t.state = "ended"
			}
		}
	case models.RunFailed:
		r.live, r.end = false, "failed"
		if t := r.newest(); t != nil && t.state == "claimed" {
			t.state = "ended"
		}
	case models.RunCompleted:
		r.live, r.end, r.rounds = false, "completed", e.Round
		if t := r.newest(); t != nil && t.state == "claimed" {
			t.state = "completed"
		}
	case models.RunCancelled:
		r.end = "cancelled"
		if r.outstanding() {
			r.newest().state = "closed"
		}
	case models.AttemptOpened:
		r.attempt, r.end = e.Attempt, ""
	case models.MigrationSettled:
		r.settled = true
		r.checkpoint, r.checkpointRow = e.Derived, r.rows
		r.tickets = append(r.tickets, &ticket{settled: e, row: r.rows, state: "queued"})
	case models.EffectReconciled:
		r.reconciled(e)
	}
}

func (r *run) reconciled(e models.EffectReconciled) {
	switch e.Subject {
	case models.SubjectTicket:
		r.ticket(e.RequestID, "closed")
	case models.SubjectCommand:
		delete(r.running, e.Number)
	case models.SubjectCall:
		c := r.granted[e.Position]
		if e.Outcome == models.OutcomeDidNotHappen {
			c.started, c.lost = false, false
		} else {
			c.ended = true
		}
	case models.SubjectRequest:
		if e.Outcome == models.OutcomeLanded {
			r.whole, r.partial, r.response = true, false, e.Result
		} else {
			r.void = true
		}
	}
}

func plus(a, b int64) int64 {
	if a > 1<<63-1-b {
		return 1<<63 - 1
	}
	return a + b
}

func readClass(class string) bool {
	return class == models.ClassEvidenceRead || class == models.ClassSourceObservation
}

func (r *run) newest() *ticket {
	if len(r.tickets) == 0 {
		return nil
	}
	return r.tickets[len(r.tickets)-1]
}

func (r *run) ticket(requestID, state string) {
	for _, t := range r.tickets {
		if t.settled.RequestID == requestID {
			t.state = state
		}
	}
}

func (r *run) outstanding() bool {
	t := r.newest()
	return t != nil && (t.state == "queued" || t.state == "claimed" || t.state == "failed_unclaimed" || t.state == "uncertain")
}

// inForce is when the claim ends: a continuity lease keeps its grant's own end.
func (r *run) inForce(lease models.Instant) models.Instant {
	if r.requestID != "" {
		return r.expires
	}
	return lease
}

func (r *run) executing(a Asked) bool { return r.live && a.At < r.inForce(a.Lease) }

// answered: no request waits for its response.
func (r *run) answered() bool { return r.request == nil || r.settled || r.void || r.whole }

// unknown counts effects that may have happened.
func (r *run) unknown() int {
	n := len(r.running)
	if !r.settled {
		for _, c := range r.granted {
			if c.started && !c.ended {
				n++
			}
		}
	}
	return n
}

// lost: the result of a started call could not be kept, and nobody has settled it.
func (r *run) lost() bool {
	for _, c := range r.granted {
		if c.lost && !c.ended && !r.settled {
			return true
		}
	}
	return false
}

// clean: nothing of the newest turn is open.
func (r *run) clean() bool {
	if len(r.running) > 0 {
		return false
	}
	if r.request == nil || r.settled || r.void {
		return true
	}
	if r.consumed == nil || int64(len(r.granted)) != r.consumed.Calls {
		return false
	}
	for _, c := range r.granted {
		if !c.ended {
			return false
		}
	}
	return true
}

// rejected: a call of the newest turn was refused before it started, and nothing has settled it.
func (r *run) rejected() bool {
	for _, c := range r.granted {
		if c.refused && !r.settled {
			return true
		}
	}
	return false
}

// ordinary: an ordinary claim may go on from here.
func (r *run) ordinary() bool {
	return r.answered() && r.unknown() == 0 && !r.rejected() && !r.settled
}

func (r *run) deadline() models.Instant {
	if r.registration.TimeBudget == models.TimeBudgetAbsolute {
		return r.registration.ActiveDeadline
	}
	return 1<<63 - 1
}

func (r *run) budget(s *set, what string) {
	l := r.registration.Limits
	over := false
	switch what {
	case "request":
		over = r.requests >= l.Requests || r.input >= l.InputTokens || r.output >= l.OutputTokens || plus(r.input, r.output) >= l.TotalTokens
	case "call":
		over = r.calls >= l.ToolCalls
	case "read":
		over = r.reads >= l.SourceReads
	case "command":
		over = r.commands >= l.Commands
	}
	s.when(over, models.CodeAllowanceExhausted)
}

func (r *run) timeLeft(s *set, a Asked) {
	p := r.registration.TimeBudget
	s.when(p != models.TimeBudgetNone && p != models.TimeBudgetAbsolute, models.CodeTimeBudgetUnsupported)
	s.when(a.At >= r.deadline(), models.CodeDeadlinePassed)
}
