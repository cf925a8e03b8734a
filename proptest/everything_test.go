package proptest_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/kernel/ticket"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/proptest/naive"
	"github.com/forge-continuity/forge/proptest/world"
	"pgregory.net/rapid"
)

// walk drives every command of a run, recoveries and automatic verification among them, beside the model, and checks the invariants
// after each step. The machine above draws nonsense; here most of what is sent is right, or has one thing wrong.
type walk struct{ *machine }

// keys are what screening finds in a checkpoint, or not.
var keys = []models.Finding{{Path: "/messages/0", Rule: "key"}, {Path: "/messages/1", Rule: "key"}, {Path: "/messages/1", Rule: "token"}}

// starts are the worlds that a walk begins in: each has verification commands and every switch on.
var starts = func() []*world.World {
	frozen := world.Verified(2)
	held := world.Executing(frozen)
	held.Stop()
	queued := held.Clone()
	queued.Admit("request-1")
	queued.Tick(5)
	continuing := queued.Clone()
	continuing.MustClaim(world.Worker2)
	continuing.Tick(1)
	refused := continuing.Clone()
	refused.RefuseNext()
	refused.MustAppend(world.Failed())
	refused.Tick(30)
	due := world.Executing(frozen)
	due.Must(world.Worker, "release", models.ReleaseRun{Fence: due.State.Lease.Fence})
	verifying := due.Clone()
	verifying.Schedule()
	verifying.ClaimVerification()
	second := world.Refused() // the read is lost in the second turn of its claim
	second.Must(world.Dana, "rec-b", second.Boundary(600))
	second.MustClaim(world.Worker)
	second.Turn(world.Call{Class: models.ClassPureRead})
	second.LoseRead()
	two, boundary, observed := world.Observing(2, 1), world.Refused(), world.Lost() // one ticket of each way, queued
	two.Must(world.Dana, "request-1", two.RequestTwo(600))
	boundary.Must(world.Dana, "rec-b", boundary.Boundary(600))
	observed.Must(world.Dana, "rec-o", observed.Observation(600))
	key := held.Clone() // whose node screens, and found two keys
	key.Host.Screening, key.Found = world.Plain("rule set"), keys[:2]
	key.MustFactory(world.Root, models.RegisterProfile{Profile: key.Profile("screened")})
	waived := key.Clone()
	for i, f := range keys[:2] {
		waived.Must(world.Root, fmt.Sprint("waive-", i), models.WaiveCredential{Blob: waived.State.Custody.Turn.Checkpoint, Path: f.Path, Rule: f.Rule, RuleSet: waived.Host.Screening})
	}
	list := []*world.World{world.Lost(), second, key, waived, two, boundary, observed, world.Refused(), held, queued, continuing, refused, verifying, world.FailedUnclaimed(), world.Observing(2, 1), due, world.Executing(frozen)}
	for _, w := range list {
		w.Policy(func(p *models.Policy) {
			p.AllowPreAdmissionRecovery, p.AllowReadonlyObservationRecovery, p.AllowUnavailableSourceObservations = true, true, true
		})
		w.Review()
		w.Trust = true
	}
	return list
}()

// Small numbers are drawn more often than large ones, so what is to be rare is the largest of them.
func rare(t *rapid.T, n int, what string) bool { return rapid.IntRange(0, n-1).Draw(t, what) == n-1 }

// evenly draws below n, each about as often.
func evenly(t *rapid.T, n int, what string) int {
	d := rapid.IntRange(0, n-1)
	return (d.Draw(t, what) + 5*d.Draw(t, what) + 11*d.Draw(t, what)) % n
}

func (k *walk) actor(t *rapid.T, likely string) string {
	if rare(t, 16, "another actor") {
		return rapid.SampledFrom(everybody).Draw(t, "actor")
	}
	return likely
}

func (k *walk) id(t *rapid.T) string {
	if rare(t, 16, "another id") {
		return k.machine.id(t)
	}
	return k.w.NextID()
}

// wrong numbers the one thing that is wrong with a command, below 0 where nothing is.
func wrong(t *rapid.T, n int) int {
	if one(t, 2, "nothing is wrong") {
		return -1
	}
	return evenly(t, n, "wrong")
}

// do sends a command, and what was accepted once more: the saved answer stands.
func (k *walk) do(t *rapid.T, actor, id string, c models.Command) {
	got := k.send(t, actor, id, c)
	if got.Refusal != nil || got.Repeat || models.ForFactory(c) {
		return
	}
	if again := k.w.Do(actor, id, c); !again.Repeat || string(again.Receipt) != string(got.Receipt) {
		t.Fatalf("K4: %s sent again: %v", c.Verb(), again.Refusal)
	}
}

// facts are what an honest worker reports next: those of the machine, and those of a refused request and of a verification.
func (k *walk) facts(t *rapid.T) []models.Fact {
	w := k.w
	if rare(t, 8, "the worker stops") {
		return []models.Fact{world.Failed()}
	}
	v := w.State.Verification
	if v.State == models.VerificationStateClaimed && w.State.Lease.Live {
		switch open := w.State.Custody.Commands; {
		case !v.Prepared:
			return []models.Fact{w.Prepared()}
		case len(open) > 0:
			return []models.Fact{models.CommandFinished{ExitCode: rapid.Int64Range(0, 1).Draw(t, "exit"), Number: open[0].Number, Receipt: world.Blob("r")}}
		case v.Started < v.Commands && !one(t, 4, "stop early"):
			return w.Ran(0)[:1]
		}
		return []models.Fact{models.VerificationFinished{Passed: rapid.Bool().Draw(t, "passed"), Report: world.Blob("r")}}
	}
	if turn := w.State.Custody.Turn; !w.State.Custody.Answered() && turn.RefusedSeq == 0 && one(t, 3, "refuses") {
		return []models.Fact{models.RequestRefused{Report: world.Blob("r"), Request: turn.Request}, world.Failed()}
	}
	return k.next(t)
}

// ask is a request of the version that the turn has the shape of, right for what is read now, or with one thing wrong.
func (k *walk) ask(t *rapid.T) {
	w, id := k.w, "request-1"
	if _, ok := w.State.Tickets.Find(id); ok {
		id = w.NextID()
	}
	wrong := wrong(t, 6)
	two := len(w.State.Custody.Turn.Calls) > 1 != (wrong == 0)
	w.Rebuild = (*world.World).ProofOne
	if two {
		w.Rebuild = (*world.World).ProofTwo
	}
	k.surroundingsOf(t)
	w.KeptCheckpoint = nil
	k.screened(t)
	k.candidate(t, w.Env(world.Dana, "candidate", models.RequestContinuity{}))
	c := w.Request(600)
	if two {
		c = w.RequestTwo(600)
	}
	switch wrong {
	case 1:
		c.AcknowledgeUnavailableSourceObservations = !two
	case 2:
		c.AcknowledgeOriginalConsumption = false
	case 3:
		c.CandidateDigest = world.Plain("x")
	case 4:
		c.Version = 3 - c.Version
	case 5:
		c.Version, c.AcknowledgeUnavailableSourceObservations = 2, true
	}
	k.do(t, k.actor(t, world.Dana), id, c)
	w.Missing, w.Pending = nil, 0
}

// screened changes what screening finds, now and then.
func (k *walk) screened(t *rapid.T) {
	w := k.w
	w.NotScreened = false
	if w.Host.Screening.IsZero() || !one(t, 3, "other findings") {
		return
	}
	w.Found = rapid.SampledFrom([][]models.Finding{nil, keys[:1], keys[1:2], keys[:2], keys}).Draw(t, "findings")
	w.NotScreened = rare(t, 6, "not screened")
}

// waive waives a finding, right or with one thing wrong.
func (k *walk) waive(t *rapid.T) {
	w := k.w
	k.screened(t)
	f := rapid.SampledFrom(keys).Draw(t, "finding")
	if len(w.Found) > 0 && one(t, 2, "of those found") {
		f = rapid.SampledFrom(w.Found).Draw(t, "found")
	}
	c := models.WaiveCredential{Blob: w.State.Custody.Turn.Checkpoint, Path: f.Path, Rule: f.Rule, RuleSet: w.Host.Screening}
	switch wrong(t, 6) {
	case 0:
		c.Rule = ""
	case 1:
		c.Path = "/elsewhere"
	case 2:
		c.Blob = world.Blob("other")
	case 3:
		c.Blob = models.Digest{}
	case 4:
		c.RuleSet = world.Plain("older")
	}
	k.do(t, k.actor(t, world.Root), k.id(t), c)
}

// recover is one of the three recoveries of request-1, right for what is read now, or with one thing wrong.
func (k *walk) recover(t *rapid.T) {
	w := k.w
	request, ok := w.State.Tickets.Find("request-1")
	if !ok {
		return
	}
	workflow := map[string]int{ticket.Refused: 1, ticket.ObservationLost: 2}[request.State]
	if rare(t, 4, "another workflow") {
		workflow = evenly(t, 3, "workflow")
	}
	for range evenly(t, 4, "wrong ones first") { // a refusal saves nothing, so the right one may follow
		k.submit(t, workflow, evenly(t, 34, "wrong"))
	}
	k.submit(t, workflow, wrong(t, 34))
}

// submit sends a recovery of a workflow with the one thing wrong that the number says, if any.
func (k *walk) submit(t *rapid.T, workflow, wrong int) {
	w := k.w
	w.Review()
	w.Observe, w.Reproduce = (*world.World).ProofObserved, (*world.World).Reproduced
	k.surroundingsOf(t)
	seconds := models.Seconds(600)
	if rare(t, 8, "other seconds") {
		seconds = models.Seconds(rapid.SampledFrom([]int64{60, 0, 7201}).Draw(t, "seconds"))
	}
	var c models.Command
	switch workflow {
	case 0:
		c = k.neverClaimed(seconds, wrong)
	case 1:
		c = k.boundary(seconds, wrong)
	case 2:
		c = k.observation(seconds, wrong)
	}
	k.candidateOf(t, c)
	k.do(t, k.actor(t, world.Dana), k.id(t), c)
	w.KeptCheckpoint, w.Missing, w.Pending = nil, nil, 0
}

// surroundingsOf are what a recovery finds beside the run, now and then with something wrong.
func (k *walk) surroundingsOf(t *rapid.T) {
	w := k.w
	switch rapid.IntRange(0, 31).Draw(t, "beside") {
	case 29:
		other := world.Blob("other bytes")
		w.KeptCheckpoint = &other
	case 30:
		w.Missing = []models.Digest{world.Blob("missing")}
	case 31:
		w.Pending = rapid.SampledFrom([]int64{499, 500}).Draw(t, "pending")
	}
}

func (k *walk) neverClaimed(seconds models.Seconds, wrong int) models.Command {
	c := k.w.Recovery(seconds)
	for i, given := range []*bool{&c.AcknowledgeNeverClaimed, &c.AcknowledgeOriginalConsumptionAndBudgets, &c.AcknowledgeRenewedSameAttemptLease, &c.AcknowledgeSameRequestAndAttempt} {
		*given = wrong != i
	}
	for i, digest := range []*models.Digest{&c.CandidateDigest, &c.JournalDigest, &c.PolicyDigest, &c.RunDigest} {
		if wrong == 4+i {
			*digest = world.Plain("x")
		}
	}
	if wrong == 8 {
		c.RequestID = "request-9"
	}
	if wrong == 9 {
		c.Version = 2
	}
	return c
}

func (k *walk) boundary(seconds models.Seconds, wrong int) models.Command {
	w := k.w
	// What the sandbox and the kept reports say is read for the candidate too, so it is changed first.
	switch wrong {
	case 5: // a correction of the very epoch that refused
		w.Reports[2].ProviderEpoch = "epoch-1"
	case 10, 11, 12:
		w.Reports = slices.Delete(slices.Clone(w.Reports), wrong-10, wrong-9)
	case 13:
		w.Reports[0].ProviderEpoch = "epoch-0"
	case 14:
		w.Reports[1].Executable = "exec-0"
	case 15:
		w.Reports[1].SourceRevision = "7"
	case 16:
		w.Reports[2].ProviderEpoch = "epoch-3"
	case 17:
		w.Reports[2].At = w.State.Custody.Turn.RefusedAt
	case 18:
		w.Reports[2].At = w.Now + 10_000_000
	case 19, 20, 21, 22, 23:
		w.Reproduce = func(w *world.World) *models.Reproduction {
			r := w.Reproduced()
			switch wrong {
			case 19:
				r.Wire = world.Plain("other wire")
			case 20:
				r.Length++
			case 21:
				r.Served = 1
			case 22:
				r.Module = world.Plain("other module")
			case 23:
				r.Holds = []models.SandboxHold{{Code: models.CodeSandboxStopped}}
			}
			return r
		}
	}
	c := w.Boundary(seconds)
	for i, given := range []*bool{&c.AcknowledgeFiniteOwnershipLease, &c.AcknowledgeNoOriginalResponseOrToolReplay, &c.AcknowledgeReviewedProviderEpoch, &c.AcknowledgeSameRequestAndBudgets} {
		*given = wrong != i
	}
	switch wrong {
	case 4:
		c.CandidateDigest = world.Plain("x")
	case 5:
		c.CorrectiveEpoch = c.Review.ProviderEpoch
	case 6:
		c.CorrectiveEpoch = ""
	case 7:
		c.CorrectiveValidation = c.Review.ExecutableProbe
	case 8:
		c.RequestID = "request-9"
	case 9:
		c.Version = 2
	case 24:
		c.Review.Wire = world.Plain("other wire")
	case 25:
		c.Review.WireLength++
	case 26:
		c.Review.Provider = world.Plain("other provider")
	case 27:
		c.Review.SourceRevision = "7"
	case 28:
		c.Review.Admissions = 1
	case 29:
		c.Review.Jobs = 1
	case 30:
		c.Review.ProviderDispatches = 1
	case 31:
		c.Review.ToolCallbacks = 1
	case 32:
		c.Review.Jobs = -1
	case 33:
		c.Review.SourceValidator = models.Digest{}
	}
	return c
}

func (k *walk) observation(seconds models.Seconds, wrong int) models.Command {
	w := k.w
	if wrong >= 10 && wrong < 26 {
		w.Observe = func(w *world.World) *models.Reconstruction {
			r := w.ProofObserved()
			last := len(r.Calls) - 1
			if wrong >= 20 && last < 0 {
				return r
			}
			switch wrong {
			case 10:
				r.Served = 2
			case 11:
				r.Module = world.Plain("other module")
			case 12:
				r.Derived = models.Digest{}
			case 13:
				r.Tokens.Output++
			case 14:
				r.Checkpoint = world.Blob("other")
			case 15:
				r.Holds = []models.SandboxHold{{Code: models.CodeReviewedHistoryDiffers}}
			case 16:
				r.Calls = append(r.Calls, models.SeenCall{Position: 7, Class: models.ClassEvidenceRead})
			case 17:
				r.Outcomes = append(slices.Clone(r.Outcomes), models.Retained{Position: 1, Result: world.Blob("made up")})
			case 18:
				r.Outcomes = nil
			case 19:
				r.Response = world.Blob("other")
			case 20:
				r.Closing[last].Result = models.ResultInvalidQuery
			case 21:
				r.Calls[last].Args = world.Blob("other")
			case 22:
				r.Calls[last].Class = models.ClassPureRead
			case 23:
				r.Calls = r.Calls[:last]
			case 24:
				r.Closing = r.Closing[:last]
			case 25:
				r.Witness = models.Digest{}
			}
			return r
		}
	}
	c := w.Observation(seconds)
	for i, given := range []*bool{&c.AcknowledgeFiniteOwnershipLease, &c.AcknowledgeNoOriginalCallbackReplay, &c.AcknowledgeSameRequestAttemptAndBudgets, &c.AcknowledgeUnavailableObservation} {
		*given = wrong != i
	}
	switch wrong {
	case 4:
		c.CandidateDigest = world.Plain("x")
	case 8:
		c.RequestID = "request-9"
	case 9:
		c.Version = 2
	}
	return c
}

// candidateOf compares the holds that the kernel shows of a recovery with those of the model.
func (k *walk) candidateOf(t *rapid.T, c models.Command) {
	w := k.w
	env := w.Env(world.Dana, "candidate", c)
	var shown models.RecoveryCandidate
	var r *models.Refusal
	switch c := c.(type) {
	case models.RecoverNeverClaimed:
		shown, r = kernel.RecoveryCandidate(w.State, c.RequestID, env)
	case models.RecoverRefusedBoundary:
		shown, r = kernel.BoundaryCandidate(w.State, c.RequestID, c.Review, env)
	case models.RecoverReadonlyObservation:
		shown, r = kernel.ObservationCandidate(w.State, c.RequestID, env)
	}
	if r != nil {
		return
	}
	got, want := map[models.Code]bool{}, map[models.Code]bool{}
	for _, h := range shown.Holds {
		got[h.Code] = true
	}
	for _, code := range k.m.RecoveryHolds(naive.Asked{
		Actor: env.Actor, At: env.At, Command: c, Lease: w.Lease, Host: w.Host, Rebuilt: env.Reconstruction, Reports: env.Reports,
		Reproduced: env.Reproduction, OtherBytes: w.KeptCheckpoint != nil,
	}) {
		want[code] = true
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || shown.Eligible != (len(got) == 0) {
		t.Fatalf("%s: holds %v, the model says %v", shown.Workflow, got, want)
	}
}

// mend puts back what tickets rest on.
func (k *walk) mend(t *rapid.T) {
	w := k.w
	w.Now = max(w.Now, w.State.HeadAt, w.FactoryState.HeadAt)
	put := func(c models.Command) { k.do(t, world.Root, w.NextID(), c) }
	w.Host.Module = world.Plain("module")
	p := w.FactoryState.Policy
	now := p
	p.Enabled, p.MaxValidForSeconds = true, 3600
	p.AllowPreAdmissionRecovery, p.AllowReadonlyObservationRecovery, p.AllowUnavailableSourceObservations = true, true, true
	if p != now {
		put(models.PutPolicy{Policy: p, Replaces: p.Revision})
	}
	for _, kind := range []string{models.RecordSource, models.RecordConfiguration, models.RecordScope} {
		if r, _ := w.FactoryState.Record(kind, "main"); r.Digest != world.Plain(kind) {
			put(models.PutRecord{Digest: world.Plain(kind), Kind: kind, Name: "main"})
		}
	}
	if !w.FactoryState.Has(world.Dana, models.RoleOperator) || !w.FactoryState.Has(world.Dana, models.RoleAdministrator) {
		dana, _ := w.FactoryState.Principal(world.Dana)
		put(models.PutPrincipal{ID: world.Dana, Replaces: dana.Authority, Roles: []string{models.RoleAdministrator, models.RoleOperator}})
	}
}

// surroundings change one thing that tickets rest on, or put it back.
func (k *walk) surroundings(t *rapid.T) {
	w := k.w
	w.Now = max(w.Now, w.State.HeadAt, w.FactoryState.HeadAt)
	put := func(c models.Command) { k.do(t, world.Root, w.NextID(), c) }
	p := w.FactoryState.Policy
	replaces := p.Revision
	switch evenly(t, 10, "what") {
	case 0:
		p.Enabled = !p.Enabled
	case 1:
		p.AllowPreAdmissionRecovery = !p.AllowPreAdmissionRecovery
	case 2:
		p.AllowReadonlyObservationRecovery = !p.AllowReadonlyObservationRecovery
	case 3:
		p.AllowUnavailableSourceObservations = !p.AllowUnavailableSourceObservations
	case 4:
		p.MaxPendingTickets++
	case 5:
		p.MaxValidForSeconds = models.Seconds(rapid.SampledFrom([]int64{300, 3600, 3600}).Draw(t, "window"))
	case 6:
		kind := rapid.SampledFrom([]string{models.RecordSource, models.RecordSource, models.RecordConfiguration, models.RecordScope}).Draw(t, "kind")
		put(models.PutRecord{Digest: world.Plain(rapid.SampledFrom([]string{kind, kind, "moved"}).Draw(t, "content")), Kind: kind, Name: "main"})
		return
	case 7:
		dana, _ := w.FactoryState.Principal(world.Dana)
		roles := rapid.SampledFrom([][]string{{models.RoleAdministrator, models.RoleOperator}, {models.RoleOperator}, {models.RoleAdministrator}, nil}).Draw(t, "roles")
		put(models.PutPrincipal{ID: world.Dana, Removed: len(roles) == 0, Replaces: dana.Authority, Roles: roles})
		return
	case 8:
		w.Host.Module = rapid.SampledFrom([]models.Digest{world.Plain("module"), world.Plain("module"), world.Plain("newer module")}).Draw(t, "module")
		return
	case 9:
		if one(t, 2, "a profile ends") {
			put(models.RetireProfile{ID: "p1"})
		} else {
			put(models.RegisterProfile{Profile: w.Profile(fmt.Sprintf("p%d", len(w.FactoryRows)))})
		}
		return
	}
	put(models.PutPolicy{Policy: p, Replaces: replaces})
}

// rest checks what only the whole journal shows: it replays, a graph has one ticket, a ticket one recovery of a kind, a run one
// refused verification, and no row of a claimed ticket stands before its claim.
func (k *walk) rest(t *rapid.T) {
	history, r := kernel.ReplayFactory(slices.Values(k.w.FactoryRows))
	if r != nil {
		t.Fatalf("factory: %v", r)
	}
	s, r := kernel.Replay(slices.Values(k.w.Rows), history)
	if r != nil {
		t.Fatalf("K2: %v", r)
	}
	if kernel.Fingerprint(s) != kernel.Fingerprint(k.w.State) {
		t.Fatalf("K1: replayed\n%s\nwant\n%s", s.Encode(), k.w.State.Encode())
	}
	once := map[kernel.OnceKey]int64{}
	for _, row := range k.w.Rows {
		e, err := models.DecodeEvent(row.Kind, row.Payload)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range kernel.OnceKeys([]models.Event{e}) {
			if first := once[key]; first > 0 {
				t.Fatalf("row %d states %v again, after row %d", row.Seq, key, first)
			}
			once[key] = row.Seq
		}
	}
}

func everything(t *rapid.T) {
	w := starts[rapid.IntRange(0, len(starts)-1).Draw(t, "start")].Clone()
	m, err := naive.Load(world.Factory, w.FactoryRows, w.Rows)
	if err != nil {
		t.Fatal(err)
	}
	k := &walk{&machine{w: w, m: m}}
	appends := func(t *rapid.T) {
		owner := w.State.Lease.Owner
		if owner == "" {
			owner = world.Worker
		}
		k.do(t, k.actor(t, owner), k.id(t), models.Append{Facts: k.facts(t), Fence: w.State.Lease.Fence})
	}
	claims := func(t *rapid.T) {
		c := models.ClaimRun{LeaseSeconds: 600, Pool: w.State.Pool}
		if w.State.Verification.State == models.VerificationStateAdmitted && !one(t, 6, "another pool") {
			c.Pool = models.VerificationPool
		}
		k.do(t, k.actor(t, rapid.SampledFrom([]string{world.Worker, world.Worker2}).Draw(t, "worker")), k.id(t), c)
	}
	recover := func(t *rapid.T) { k.recover(t) }
	t.Repeat(map[string]func(*rapid.T){ // those whose names come first are drawn more often
		"append": appends, "append on": appends, "append more": appends, "append again": appends, "claim": claims, "claim again": claims,
		"ask": k.ask, "continue": recover, "continue again": recover, "surroundings": k.surroundings, "mend": k.mend,
		"change and put back": func(t *rapid.T) { // what met the stop stays stopped
			k.surroundings(t)
			k.mend(t)
		},
		"claimed": func(t *rapid.T) { // a ticket is taken after something changed
			k.surroundings(t)
			claims(t)
		},
		"waive": k.waive, "waive more": k.waive,
		"verify": func(t *rapid.T) {
			k.do(t, k.actor(t, rapid.SampledFrom([]string{models.ServerActor, models.ServerActor, world.Omar}).Draw(t, "who")), k.id(t),
				models.AdmitVerification{Round: w.State.Rounds + rapid.SampledFrom([]int64{0, 0, 0, 1}).Draw(t, "round")})
		},
		"reconcile": func(t *rapid.T) {
			for _, e := range kernel.Unknown(w.State, w.Now, w.Lease) {
				c := world.Settle(e.Subject, e.Seq, models.OutcomeChargedUnknown)
				c.RequestID = e.RequestID
				k.do(t, k.actor(t, world.Omar), k.id(t), c)
			}
		},
		"retry": func(t *rapid.T) { k.do(t, k.actor(t, world.Dana), k.id(t), models.RetryRun{}) },
		"release": func(t *rapid.T) {
			k.do(t, k.actor(t, w.State.Lease.Owner), k.id(t), models.ReleaseRun{Fence: w.State.Lease.Fence})
		},
		"withdraw": func(t *rapid.T) {
			if rare(t, 10, "really") {
				k.do(t, world.Omar, k.id(t), models.CancelRun{})
			}
		},
		"start of the server": func(t *rapid.T) { k.do(t, models.ServerActor, k.id(t), models.AnnotateStartup{Boot: "b"}) },
		"send again": func(t *rapid.T) {
			if len(k.sent) > 0 {
				s := rapid.SampledFrom(k.sent).Draw(t, "sent")
				k.do(t, s.actor, s.id, s.command)
			}
		},
		"tick": func(t *rapid.T) { w.Now += models.Instant(rapid.Int64Range(1, 200_000_000).Draw(t, "by")) },
		"to the expiry": func(t *rapid.T) {
			if w.Lease > w.Now {
				w.Now = w.Lease
			}
		},
	})
	k.rest(t)
}

func TestEverythingBesideModel(t *testing.T) { rapid.Check(t, everything) }
func FuzzEverything(f *testing.F)            { f.Fuzz(rapid.MakeFuzz(everything)) }
