// Package explore walks every way through a small world, breadth first, with the real Decide and Evolve, and checks the
// invariants on each step. Two states are the same when their fingerprints are, after numbers of rows were replaced by
// their order and instants by their distance from now: a decision reads no more of them than that.
package explore

import (
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/proptest/invariant"
	"github.com/forge-continuity/forge/proptest/world"
)

// What may be wrong around a run, as bits of a node's surroundings.
const (
	policyOff = 1 << iota
	sourceMoved
	actorRevoked
	profileRetired
	surroundings
)

// node is a state with its surroundings and clock. steps is the way to it, shared with its siblings.
type node struct {
	state  kernel.State
	around int
	now    models.Instant
	lease  models.Instant // the store's lease row
	by     *node
	step   string
}

// path is how a node was reached.
func (n *node) path() string {
	var steps []string
	for m := n; m.by != nil; m = m.by {
		steps = append(steps, m.step)
	}
	slices.Reverse(steps)
	return fmt.Sprint(steps)
}

// Found is what an exploration came to.
type Found struct {
	States      int
	Transitions int // accepted
	Refusals    int
	Codes       map[models.Code]int
	Kinds       map[string]int // of events
	Positions   map[string]int
	DeadEnds    int      // states in good surroundings that only a cancellation leaves, and that have not ended
	Examples    []string // ways to some of them
	Exhausted   bool
}

// bounds of the world.
const (
	window   = 3 // seconds of each lease
	requests = 4
	commands = 2
	calls    = 3
)

// Explore visits up to max states. The error is the first broken invariant, with the way to it.
func Explore(max int) (Found, error) {
	w := world.New(true)
	w.Policy(func(p *models.Policy) {
		p.MaxValidForSeconds, p.MaxTicketsPerRun = window, 2
		p.AllowPreAdmissionRecovery, p.AllowReadonlyObservationRecovery, p.AllowUnavailableSourceObservations = true, true, true
	})
	w.Register(func(g *models.Registration) {
		g.Verification = models.Verification{Commands: 1, List: world.Blob("list")}
		g.ProviderTimeout, g.CompletedRounds = window, 0
		g.Limits = models.Limits{Attempts: 2, Commands: commands, InputTokens: 10_000, OutputTokens: 10_000, Requests: requests, SourceReads: 2, ToolCalls: calls, TotalTokens: 10_000}
	})
	var factories [surroundings]models.Factory
	for around := range factories {
		v := w.Clone()
		if around&policyOff != 0 {
			v.Policy(func(p *models.Policy) { p.Enabled = false })
		}
		if around&sourceMoved != 0 {
			v.Record(models.RecordSource, "moved")
		}
		if around&actorRevoked != 0 {
			v.Roles(world.Dana, models.RoleReader)
		}
		if around&profileRetired != 0 {
			v.MustFactory(world.Root, models.RetireProfile{ID: "p1"})
		}
		factories[around] = v.FactoryState
		factories[around].HeadAt = 0
		moved := slices.Clone(v.FactoryState.Moved) // before every lease, whichever surroundings that was granted in
		for i := range moved {
			moved[i].Seq = 0
		}
		factories[around].Moved = moved
	}
	x := explorer{host: w.Host, factories: factories, found: Found{Codes: map[models.Code]int{}, Kinds: map[string]int{}, Positions: map[string]int{}}}
	// From the registration on, from a held run, a queued and a claimed ticket, from what each recovery is for, and from a completed
	// round, so that a short walk sees all of them.
	held := w.Clone()
	held.MustClaim(world.Worker)
	held.Turn(world.Call{Class: models.ClassEvidenceRead, Refused: true})
	held.MustAppend(world.Failed())
	queued := held.Clone()
	queued.Must(world.Dana, "request-1", queued.Request(window))
	claimed := queued.Clone()
	claimed.MustClaim(world.Worker2)
	refused := claimed.Clone()
	refused.RefuseNext()
	refused.MustAppend(world.Failed())
	refused.Tick(1)
	lost := refused.Clone()
	lost.Review()
	lost.Must(world.Dana, "b0", lost.Boundary(window))
	lost.MustClaim(world.Worker)
	lost.LoseRead()
	rounded := w.Clone()
	rounded.MustClaim(world.Worker)
	rounded.MustAppend(models.RoundCompleted{Round: 1})
	rounded.Must(world.Worker, "give", models.ReleaseRun{Fence: rounded.State.Lease.Fence})
	for _, v := range []*world.World{w, held, queued, claimed, refused, lost, rounded} {
		v.State.Head.Hash = models.Digest{}
		x.visit(&node{state: v.State, now: v.Now, lease: v.Lease})
	}
	for len(x.queue) > 0 && x.found.States < max {
		n := x.queue[0]
		x.queue = x.queue[1:]
		if err := x.expand(n); err != nil {
			return x.found, fmt.Errorf("%w\nafter %s", err, n.path())
		}
	}
	x.found.Exhausted = len(x.queue) == 0
	return x.found, nil
}

type explorer struct {
	host      models.Host
	factories [surroundings]models.Factory
	seen      map[uint64]struct{}
	queue     []*node
	found     Found
}

func (x *explorer) visit(n *node) {
	if x.seen == nil {
		x.seen = map[uint64]struct{}{}
	}
	key := x.key(n)
	if _, ok := x.seen[key]; ok {
		return
	}
	x.seen[key] = struct{}{}
	x.found.States++
	x.found.Positions[kernel.Position(n.state, n.now, n.lease)]++
	x.queue = append(x.queue, n)
}

// key is the fingerprint of what decisions can tell apart.
func (x *explorer) key(n *node) uint64 {
	s := n.state
	if s.End == kernel.EndCancelled || s.End == kernel.EndCompleted {
		return xxhash.Sum64String(s.End) // nothing follows
	}
	s.Cmd, s.Head, s.HeadAt, s.Custody.Digest, s.Custody.Turn.ConsumedAt = 0, models.Head{}, 0, models.Digest{}, 0
	// Nothing stopped since any lease was granted or claimed: the surroundings stand as if they always had.
	s.Lease.ClaimID, s.Lease.Fence, s.Lease.GrantedAt, s.Lease.GrantedOn, s.Lease.ClaimedOn = "", 0, 0, 0, 0
	if !s.Lease.Live {
		s.Lease.Owner = ""
	}
	s.Custody.Turn.Calls, s.Custody.Commands, s.Tickets.Tickets = slices.Clone(s.Custody.Turn.Calls), slices.Clone(s.Custody.Commands), slices.Clone(s.Tickets.Tickets)
	t := &s.Custody.Turn
	rows := []*int64{&s.Custody.CheckpointSeq, &t.ConsumeSeq, &t.Later, &t.RefusedSeq, &t.RequestSeq, &t.ResponseSeq}
	if t.RefusedAt != 0 { // whether a correction that is made now came after it
		t.RefusedAt = min(n.now-t.RefusedAt, 2) + 1
	}
	for i := range t.Calls {
		c := &t.Calls[i]
		rows = append(rows, &c.GrantSeq, &c.IntentSeq, &c.LostSeq, &c.OutcomeSeq, &c.RefusedSeq)
	}
	for i := range s.Custody.Commands {
		rows = append(rows, &s.Custody.Commands[i].Seq)
	}
	graph, _ := n.state.Graph()
	for i := range s.Tickets.Tickets {
		u := &s.Tickets.Tickets[i]
		rows = append(rows, &u.GrantSeq, &u.Later, &u.Other, &u.SettledSeq)
		u.Seal, u.Witness, u.FailedSeq = models.Digest{}, models.Digest{}, 0
		for _, id := range []*string{&u.NeverClaimed, &u.RefusedBoundary, &u.ReadonlyObservation} {
			*id = (*id)[:min(len(*id), 1)] // whether there is one
		}
		if u.Graph != graph { // whether it is that of the turn is all that matters
			u.Graph = models.Digest{}
		} else {
			u.Graph = models.Digest{1}
		}
	}
	var numbers []int64
	for _, r := range rows {
		numbers = append(numbers, *r)
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	for _, r := range rows {
		if *r != 0 {
			i, _ := slices.BinarySearch(numbers, *r)
			*r = int64(i) + 1
		}
	}
	// An instant that has passed is as good as any other.
	left := func(at models.Instant) models.Instant { return max(at-n.now, 0) }
	s.Lease.ExpiresAt = left(s.Lease.ExpiresAt)
	return xxhash.Sum64(fmt.Appendf(nil, "%s %d %d", kernel.Fingerprint(s), n.around, left(n.lease)))
}

// expand tries everything that the small world knows.
func (x *explorer) expand(n *node) error {
	moved := false
	for _, c := range x.commands(n) {
		accepted, err := x.try(n, c)
		if err != nil {
			return err
		}
		if _, cancels := c.command.(models.CancelRun); accepted && !cancels {
			moved = true
		}
	}
	waits := n.state.Lease.Live || n.state.Lease.Granted
	if n.around == 0 && !moved && n.state.End == "" && !(waits && n.now < n.lease) {
		x.found.DeadEnds++
		if len(x.found.Examples) < 5 {
			x.found.Examples = append(x.found.Examples, n.path())
		}
	}
	// Time: a second, and the instant at which the lease ends.
	if waits && n.now < n.lease {
		for _, at := range []models.Instant{n.now.Add(1), n.lease} {
			m := *n
			m.now, m.by, m.step = at, n, fmt.Sprintf("wait %d", at-n.now)
			x.visit(&m)
		}
	}
	// Surroundings: one thing changes; a retired profile stays so. They are read where a run is held or has a ticket.
	_, ticketed := n.state.Tickets.Last()
	if !ticketed && !n.state.Custody.RejectedRead() {
		return nil
	}
	for bit := 1; bit < surroundings; bit <<= 1 {
		if bit == profileRetired && n.around&bit != 0 {
			continue
		}
		m := *n
		m.around, m.by, m.step = n.around^bit, n, fmt.Sprintf("change %d", bit)
		x.visit(&m)
	}
	return nil
}

type said struct {
	actor   string
	id      string
	command models.Command
}

// commands are what somebody might send now: everything an honest worker could report next and much that it could not.
func (x *explorer) commands(n *node) []said {
	s := n.state
	l, t := s.Lease, s.Custody.Turn
	id := fmt.Sprintf("c%d", s.Head.Seq)
	list := []said{
		{world.Worker, id, models.ClaimRun{LeaseSeconds: window}}, {world.Worker2, id, models.ClaimRun{LeaseSeconds: 1}},
		{world.Omar, id, models.CancelRun{}}, {world.Dana, id, models.RetryRun{}}, {l.Owner, id, models.ReleaseRun{Fence: l.Fence}},
		{models.ServerActor, id, models.AnnotateStartup{Boot: "b"}},
		{models.ServerActor, id, models.AdmitVerification{Round: s.Rounds}}, {world.Omar, id, models.AdmitVerification{Round: s.Rounds}},
		{world.Worker, id, models.Append{Facts: []models.Fact{world.Failed()}, Fence: l.Fence - 1}},
	}
	fact := func(facts ...models.Fact) {
		list = append(list, said{l.Owner, id, models.Append{Facts: facts, Fence: l.Fence}})
	}
	checkpoint := world.Blob("checkpoint")
	fact(models.CheckpointSaved{Checkpoint: checkpoint})
	fact(models.RequestIssued{Checkpoint: s.Custody.Checkpoint, Provider: world.Provider, Request: s.Budget.Spent.Requests + 1, Wire: world.Plain("w"), WireBlob: world.Blob("w"), WireLength: 1})
	fact(models.RequestRefused{Report: world.Blob("refused"), Request: t.Request})
	fact(models.ResponseKept{Length: 1, Request: t.Request, Response: world.Blob("response")})
	fact(models.ResponseKept{Length: 1, Partial: true, Request: t.Request, Response: world.Blob("response")})
	for calls := range int64(3) {
		fact(models.ResponseConsumed{Calls: calls, Request: t.Request, Response: t.Response, Tokens: models.Tokens{Input: 1, Output: 1}})
	}
	for position := range int64(2) {
		for _, class := range []string{models.ClassEvidenceRead, models.ClassSourceObservation, models.ClassCommand} {
			if class == models.ClassSourceObservation && position == 0 {
				continue
			}
			g := world.Granted(1, position, class)
			g.Request = t.Request
			fact(g)
		}
		fact(models.CallRefused{Position: position, Request: t.Request, Validator: s.Registration.Validator})
		fact(models.CallIntended{Position: position, Request: t.Request})
		fact(models.CallReturned{Position: position, Request: t.Request, Result: world.Blob("result")})
		fact(models.ToolUnknown{Position: position, Request: t.Request})
		fact(models.CommandStarted{Command: world.Blob("c"), Number: s.Budget.Spent.Commands + 1, Position: position, Request: t.Request})
	}
	fact(models.CommandStarted{Command: world.Blob("c"), Number: s.Budget.Spent.Commands + 1, Position: -1})
	for number := int64(1); number <= commands; number++ {
		fact(models.CommandFinished{Number: number, Receipt: world.Blob("receipt")})
	}
	if s.Rounds < 1 { // a second round tells nothing new
		fact(models.RoundCompleted{Round: s.Rounds + 1})
	}
	fact(models.RunCompleted{Result: world.Blob("result"), Round: s.Rounds + 1})
	fact(models.RunFailed{Report: world.Blob("report")})
	fact(world.Failed())
	for _, outcome := range []string{models.OutcomeLanded, models.OutcomeDidNotHappen, models.OutcomeChargedUnknown} {
		if !s.Custody.Answered() {
			list = append(list, said{world.Omar, id, world.Settle(models.SubjectRequest, t.RequestSeq, outcome)})
		}
		for _, c := range t.Calls {
			list = append(list, said{world.Omar, id, world.Settle(models.SubjectCall, c.IntentSeq, outcome)})
		}
		for _, c := range s.Custody.Commands {
			list = append(list, said{world.Omar, id, world.Settle(models.SubjectCommand, c.Seq, outcome)})
		}
	}
	if last, ok := s.Tickets.Last(); ok && last.Outstanding() {
		c := world.Settle(models.SubjectTicket, last.SettledSeq, models.OutcomeChargedUnknown)
		c.RequestID = last.RequestID
		list = append(list, said{world.Omar, id, c})
	}
	switch s.Verification.State {
	case models.VerificationStateAdmitted:
		list = append(list, said{world.Worker2, id, models.ClaimRun{LeaseSeconds: window, Pool: models.VerificationPool}})
	case models.VerificationStateClaimed:
		fact(models.SourcePrepared{Source: s.Registration.Source.Digest})
		fact(models.VerificationFinished{Report: world.Blob("report")})
		fact(models.VerificationFinished{Passed: true, Report: world.Blob("report")})
	}
	if first, ok := s.Tickets.Find(firstRequest); ok && first.Outstanding() && !s.Lease.Executing(n.now, n.lease) {
		list = append(list, said{world.Dana, id, models.RecoverNeverClaimed{RequestID: firstRequest}})
		if first.Claims > 0 {
			list = append(list, said{world.Dana, id, models.RecoverRefusedBoundary{RequestID: firstRequest}},
				said{world.Dana, id, models.RecoverReadonlyObservation{RequestID: firstRequest}})
		}
	}
	next := fmt.Sprintf("request-%d", len(s.Tickets.Tickets)+1)
	list = append(list, said{world.Dana, next, models.RequestContinuity{Version: 1}})
	if len(t.Calls) > 1 {
		list = append(list, said{world.Dana, next, models.RequestContinuity{Version: 2}})
	}
	return list
}

// firstRequest is the ticket that recoveries are tried on.
const firstRequest = "request-1"

// filled is a submission with everything right that its candidate shows, and what the shell would have read for it.
func filled(c models.Command, s kernel.State, now models.Instant, env models.Env) (models.Command, models.Env) {
	recount := kernel.Recounted(s, s, nil)
	v := world.World{State: s, Host: env.Host, Now: now}
	if e := kernel.Queue(s); e != nil && e.Request != "" {
		env.Pending = 1
	}
	env.Recount = &recount
	if c, ok := c.(models.RequestContinuity); ok {
		env.Reconstruction = v.ProofOne()
		if c.Version == 2 {
			env.Reconstruction = v.ProofTwo()
		}
		seen := kernel.Candidate(s, env)
		return models.RequestContinuity{
			AcknowledgeNoNewGrant: true, AcknowledgeOriginalConsumption: true, AcknowledgeRenewedSameAttemptLease: true,
			AcknowledgeUnavailableSourceObservations: c.Version == 2,
			CandidateDigest:                          seen.CandidateDigest, JournalDigest: seen.JournalDigest, PolicyDigest: seen.PolicyDigest, RunDigest: seen.RunDigest,
			ValidForSeconds: window, Version: c.Version,
		}, env
	}
	t, _ := s.Tickets.Find(firstRequest)
	env.History = &models.TicketHistory{Checkpoint: s.Custody.Checkpoint, Claims: t.Claims, Granted: t.GrantSeq, Request: t.RequestID, Seal: t.Seal, Settled: t.SettledSeq}
	switch c := c.(type) {
	case models.RecoverNeverClaimed:
		seen, _ := kernel.RecoveryCandidate(s, firstRequest, env)
		return models.RecoverNeverClaimed{
			AcknowledgeNeverClaimed: true, AcknowledgeOriginalConsumptionAndBudgets: true, AcknowledgeRenewedSameAttemptLease: true,
			AcknowledgeSameRequestAndAttempt: true, CandidateDigest: seen.CandidateDigest, JournalDigest: seen.JournalDigest,
			PolicyDigest: seen.PolicyDigest, RequestID: firstRequest, RunDigest: seen.RunDigest, ValidForSeconds: window, Version: 1,
		}, env
	case models.RecoverRefusedBoundary:
		v.Review()
		env.Reports, env.Reproduction = v.Reports, v.Reproduced()
		review := v.Reviewed()
		seen, _ := kernel.BoundaryCandidate(s, firstRequest, review, env)
		return models.RecoverRefusedBoundary{
			AcknowledgeFiniteOwnershipLease: true, AcknowledgeNoOriginalResponseOrToolReplay: true, AcknowledgeReviewedProviderEpoch: true,
			AcknowledgeSameRequestAndBudgets: true, CandidateDigest: seen.CandidateDigest, CorrectiveEpoch: "epoch-2",
			CorrectiveValidation: v.Reports[2].Digest, RequestID: firstRequest, Review: review, ValidForSeconds: window, Version: 1,
		}, env
	case models.RecoverReadonlyObservation:
		env.Reconstruction = v.ProofObserved()
		seen, _ := kernel.ObservationCandidate(s, firstRequest, env)
		return models.RecoverReadonlyObservation{
			AcknowledgeFiniteOwnershipLease: true, AcknowledgeNoOriginalCallbackReplay: true, AcknowledgeSameRequestAttemptAndBudgets: true,
			AcknowledgeUnavailableObservation: true, CandidateDigest: seen.CandidateDigest, RequestID: firstRequest, ValidForSeconds: window, Version: 1,
		}, env
	default:
		panic(fmt.Sprintf("explore: %T", c))
	}
}

// try decides one command and checks what it did.
func (x *explorer) try(n *node, c said) (accepted bool, err error) {
	s := n.state
	f := x.factories[n.around]
	env := models.Env{Actor: c.actor, At: n.now, Clock: models.ClockStore, Factory: f, FactoryHead: kernel.FactoryHead(f), Host: x.host}
	if s.Lease.Live {
		env.LeaseExpires = n.lease
	}
	switch c.command.(type) {
	case models.RequestContinuity, models.RecoverNeverClaimed, models.RecoverRefusedBoundary, models.RecoverReadonlyObservation:
		c.command, env = filled(c.command, s, n.now, env)
	}
	events, r := kernel.Decide(s, c.id, c.command, env)
	if r != nil {
		x.found.Refusals++
		x.found.Codes[r.Code]++
		return false, nil
	}
	x.found.Transitions++
	after := s
	for _, e := range events {
		x.found.Kinds[e.Kind()]++
		after = kernel.Evolve(after, e, env.At, env.Actor)
	}
	after.Cmd++
	if err := invariant.Step(s, after, c.command, env, events); err != nil {
		return true, err
	}
	m := &node{state: after, around: n.around, now: n.now, lease: n.lease, by: n, step: c.command.Verb() + " " + events[len(events)-1].Kind()}
	if s.Lease != after.Lease {
		m.lease = 0
		if after.Lease.Live || after.Lease.Granted {
			m.lease = after.Lease.ExpiresAt
		}
	}
	x.visit(m)
	return true, nil
}
