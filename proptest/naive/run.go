package naive

import (
	"slices"

	"github.com/forge-continuity/forge/models"
)

// call is one granted call of the newest turn.
type call struct {
	grant                         models.CallGranted
	refused, started, lost, ended bool
	validator                     models.Digest
	startedRow                    int
	outcome                       *models.CallReturned // the worker's own report of it
	result                        models.Digest        // by that report, or by a reconciliation
}

// ticket is one admission, and what became of it.
type ticket struct {
	settled models.MigrationSettled
	row     int // of its settlement, from 1
	state   string
	claims  int
	turns   int               // requests under its newest claim
	other   bool              // more happened under that claim than one refused request
	actions map[string]string // its recoveries: workflow, and their own ids
	start   models.Digest     // the checkpoint that its next claim starts from
	reading int64             // policy revision of its read-only observation recovery
}

// verification is where the newest automatic verification stands.
type verification struct {
	state                              string
	round, commands, started, failures int64
	prepared, passed, stopped          bool
}

// run is what the run's events come to.
type run struct {
	grantedAt    models.Instant // of the newest lease
	grantedOn    int            // how many events of the factory there were by then
	claimedOn    int            // and by the newest claim
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
	refused     int            // row in which the provider's refusal of it stands
	refusedAt   models.Instant // and when
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
	verified  verification
	waivers   []Waiver
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
	"startup.annotated": true, "migration.settled": true, "verification.refused": true, "credential.waived": true,
}

// expected under a ticket's claim whose first request is refused; everything else is more than that (REFUSED-07).
var expected = map[string]bool{
	"claim.taken": true, "checkpoint.saved": true, "request.issued": true, "request.refused": true, "worker.failed": true, "lease.lapsed": true,
	"startup.annotated": true, "run.cancelled": true, "effect.reconciled": true, "verification.refused": true,
}

func (r *run) happen(h Happened) {
	r.rows++
	if r.consumed != nil && !r.settled && r.later == 0 && !accountedFor[h.Event.Kind()] {
		r.later = r.rows
	}
	if t := r.newest(); t != nil && t.state == "claimed" && !expected[h.Event.Kind()] {
		t.other = true
	}
	r.verify(h.Event)
	switch e := h.Event.(type) {
	case models.RunRegistered:
		g := e.Registration
		r.actor, r.registration, r.attempt, r.rounds = e.Actor, &g, g.Attempt, g.CompletedRounds
	case models.LeaseGranted:
		r.live, r.waiting, r.expires, r.requestID, r.grantedAt, r.grantedOn = false, true, e.ExpiresAt, e.RequestID, h.At, h.After
	case models.ClaimTaken:
		r.live, r.waiting, r.owner, r.fence, r.claimedOn = true, false, h.Actor, e.Fence, h.After
		r.expires, r.requestID = e.ExpiresAt, e.RequestID
		if r.verified.state != "claimed" {
			r.pool = "" // whoever verifies takes nothing from the pool that the run was handed to
		}
		if t := r.find(e.RequestID); t != nil {
			t.state, t.claims, t.turns, t.other = "claimed", t.claims+1, 0, false
		}
	case models.LeaseLapsed:
		r.live, r.waiting = false, false
		if t := r.find(e.RequestID); t != nil {
			switch {
			case e.Fence != 0:
				t.state = "uncertain"
			case t.claims == 0 && len(t.actions) == 0:
				t.state = "failed_unclaimed"
			default:
				t.state = "held"
			}
		}
	case models.ClaimReleased:
		r.live, r.pool = false, e.Pool
	case models.CheckpointSaved:
		r.checkpoint, r.checkpointRow = e.Checkpoint, r.rows
	case models.RequestIssued:
		r.requests++
		r.request, r.requestRow = &e, r.rows
		r.whole, r.partial, r.void, r.consumed, r.settled, r.later, r.refused, r.refusedAt = false, false, false, nil, false, 0, 0, 0
		r.granted = map[int64]*call{}
		if t := r.newest(); t != nil && t.state == "claimed" {
			t.turns++
		}
	case models.RequestRefused:
		r.refused, r.refusedAt = r.rows, h.At
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
		c := r.granted[e.Position]
		c.ended, c.outcome, c.result = true, &e, e.Result
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
			t.state = r.stopped(t)
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
	case models.VerificationFinished:
		r.live = false
	case models.CredentialWaived:
		r.waivers = append(r.waivers, Waiver{Finding: models.Finding{Path: e.Path, Rule: e.Rule}, Blob: e.Blob, RuleSet: e.RuleSet})
	case models.MigrationSettled:
		for i, w := range r.waivers { // an admission spends what it needed
			r.waivers[i].Spent = w.Spent || w.Blob == r.request.Checkpoint && slices.Contains(e.Waived, w.Finding)
		}
		r.settled = true
		r.checkpoint, r.checkpointRow = e.Derived, r.rows
		r.tickets = append(r.tickets, &ticket{settled: e, row: r.rows, state: "queued", start: e.Derived, actions: map[string]string{}})
	case models.NeverClaimedWitnessed:
		r.find(e.RequestID).actions["never_claimed"] = e.RecoveryID
	case models.RefusalSettled:
		r.find(e.RequestID).actions["refused_boundary"] = e.RecoveryID
		r.settled, r.checkpointRow = true, r.rows // the same checkpoint, for another request
	case models.ReadonlyObservationWitnessed:
		t := r.find(e.RequestID)
		t.actions["readonly_observation"], t.start, t.reading = e.RecoveryID, e.Derived, e.CurrentEpoch.PolicyRevision
		r.settled = true
		r.checkpoint, r.checkpointRow = e.Derived, r.rows
	case models.RequestRequeued:
		r.find(e.RequestID).state = "queued"
	case models.EffectReconciled:
		r.reconciled(e)
	}
}

// stopped is what a claimed ticket is once its worker says that it stops.
func (r *run) stopped(t *ticket) string {
	once := func(action, first string) string { // the second time nothing but a native reconciliation helps
		if t.actions[action] != "" {
			return "held"
		}
		return first
	}
	switch {
	case t.turns > 0 && r.answered() && r.unknown() == 0:
		return "ended"
	case t.turns > 0 && r.refused > 0:
		return once("refused_boundary", "refused")
	case t.turns > 0 && r.lost() && t.actions["refused_boundary"] != "":
		return once("readonly_observation", "observation_lost")
	}
	return "uncertain"
}

// verify follows the automatic verification.
func (r *run) verify(e models.Event) {
	v := &r.verified
	under := v.state == "claimed"
	switch e := e.(type) {
	case models.VerificationAdmitted:
		*v = verification{state: "admitted", round: e.Round, commands: e.Commands, stopped: v.stopped}
	case models.VerificationRefused:
		*v = verification{state: "refused", round: e.Round, stopped: true}
	case models.ClaimTaken:
		if v.state == "admitted" {
			v.state = "claimed"
		}
	case models.SourcePrepared:
		v.prepared = true
	case models.CommandStarted:
		if under {
			v.started++
		}
	case models.CommandFinished:
		if under && e.ExitCode != 0 {
			v.failures++
		}
	case models.VerificationFinished:
		v.state, v.passed = "finished", e.Passed
	case models.WorkerFailed, models.LeaseLapsed, models.ClaimReleased, models.RunCancelled:
		if under || v.state == "admitted" {
			v.state = "lost"
		}
	}
}

func (r *run) verifying() bool {
	return r.verified.state == "admitted" || r.verified.state == "claimed"
}

// over: nothing more is recorded, but the verification of a completed run.
func (r *run) over() bool { return r.end != "" && !(r.end == "completed" && r.verifying()) }

func (r *run) reconciled(e models.EffectReconciled) {
	switch e.Subject {
	case models.SubjectTicket:
		r.find(e.RequestID).state = "closed"
	case models.SubjectCommand:
		delete(r.running, e.Number)
	case models.SubjectCall:
		c := r.granted[e.Position]
		if e.Outcome == models.OutcomeDidNotHappen {
			c.started, c.lost = false, false
		} else {
			c.ended, c.result = true, e.Result
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

func (r *run) find(requestID string) *ticket {
	for _, t := range r.tickets {
		if t.settled.RequestID == requestID {
			return t
		}
	}
	return nil
}

func (r *run) outstanding() bool {
	t := r.newest()
	return t != nil && t.state != "completed" && t.state != "ended" && t.state != "closed"
}

// timedOut: the lease that stands has ended by time, and no row says so yet.
func (r *run) timedOut(a Asked) bool {
	return r.live && a.At >= r.inForce(a.Lease) || r.waiting && a.At >= r.expires
}

// lapse records such an end, as the next command does first.
func (r *run) lapse(a Asked) bool {
	if !r.timedOut(a) {
		return false
	}
	e := models.LeaseLapsed{RequestID: r.requestID}
	if r.live {
		e.Fence = r.fence
	}
	r.happen(Happened{At: a.At, Actor: a.Actor, Event: e})
	return true
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
