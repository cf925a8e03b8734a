package proptest_test

import (
	"slices"
	"testing"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/proptest/invariant"
	"github.com/forge-continuity/forge/proptest/world"
	"pgregory.net/rapid"
)

// walk drives every command of a run, recoveries and automatic verification among them, and checks the invariants after each step.
// What a command is answered is the model's matter (machine); here it is what any accepted one may do.
type walk struct{ *machine }

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
	list := []*world.World{world.Executing(frozen), held, queued, continuing, refused, world.Refused(), world.Lost(), world.FailedUnclaimed(), world.Observing(2, 1)}
	for _, w := range list {
		w.Policy(func(p *models.Policy) {
			p.AllowPreAdmissionRecovery, p.AllowReadonlyObservationRecovery, p.AllowUnavailableSourceObservations = true, true, true
		})
		w.Review()
		w.Trust = true
	}
	return list
}()

// do sends a command and checks what it did.
func (k *walk) do(t *rapid.T, actor, id string, c models.Command) {
	w := k.w
	env := w.Env(actor, id, c)
	old, print, rows := w.State, kernel.Fingerprint(w.State), len(w.Rows)
	got := w.Do(actor, id, c)
	t.Logf("%s %s %s: %q repeat %v, %d events", actor, id, c.Verb(), got.Code(), got.Repeat, len(got.Events))
	if got.Refusal != nil || got.Repeat {
		if w.State.Head != old.Head || kernel.Fingerprint(w.State) != print || len(w.Rows) != rows {
			t.Fatalf("K3, K4: %s was refused or repeated, and something was written", c.Verb())
		}
		return
	}
	k.sent = append(k.sent, sent{actor, id, c})
	if err := invariant.Step(old, w.State, c, env, got.Events); err != nil {
		t.Fatal(err)
	}
	if again := w.Do(actor, id, c); !again.Repeat || string(again.Receipt) != string(got.Receipt) {
		t.Fatalf("K4: %s sent again: %v", c.Verb(), again.Refusal)
	}
}

// facts are what an honest worker reports next: those of the machine, and those of a refused request and of a verification.
func (k *walk) facts(t *rapid.T) []models.Fact {
	w := k.w
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

// ask is the request body that is right now, of the version that the turn has the shape of.
func (k *walk) ask(t *rapid.T) {
	w, id := k.w, "request-1"
	if _, ok := w.State.Tickets.Find(id); ok {
		id = w.NextID()
	}
	if len(w.State.Custody.Turn.Calls) > 1 {
		w.Rebuild = (*world.World).ProofTwo
		k.do(t, k.actor(t, world.Dana), id, w.RequestTwo(600))
	} else {
		w.Rebuild = (*world.World).ProofOne
		k.do(t, k.actor(t, world.Dana), id, w.Request(600))
	}
}

// recover is one of the three recoveries of request-1, right for what is read now, or with something missing.
func (k *walk) recover(t *rapid.T) {
	w := k.w
	if _, ok := w.State.Tickets.Find("request-1"); !ok {
		return
	}
	lacks := one(t, 8, "an acknowledgement is missing")
	w.Review()
	switch rapid.IntRange(0, 2).Draw(t, "workflow") {
	case 0:
		c := w.Recovery(600)
		c.AcknowledgeNeverClaimed = !lacks
		k.do(t, k.actor(t, world.Dana), k.id(t), c)
	case 1:
		c := w.Boundary(600)
		c.AcknowledgeReviewedProviderEpoch = !lacks
		k.do(t, k.actor(t, world.Dana), k.id(t), c)
	case 2:
		c := w.Observation(600)
		c.AcknowledgeUnavailableObservation = !lacks
		k.do(t, k.actor(t, world.Dana), k.id(t), c)
	}
}

// surroundings change one thing that tickets rest on, or put it back.
func (k *walk) surroundings(t *rapid.T) {
	w := k.w
	k.w.Now = max(w.Now, w.State.HeadAt, w.FactoryState.HeadAt)
	switch rapid.IntRange(0, 5).Draw(t, "what") {
	case 0:
		w.Policy(func(p *models.Policy) { p.Enabled = !p.Enabled })
	case 1:
		w.Policy(func(p *models.Policy) { p.AllowPreAdmissionRecovery = !p.AllowPreAdmissionRecovery })
	case 2:
		w.Policy(func(p *models.Policy) { p.AllowReadonlyObservationRecovery = !p.AllowReadonlyObservationRecovery })
	case 3:
		w.Record(models.RecordSource, rapid.SampledFrom([]string{"moved", models.RecordSource}).Draw(t, "source"))
	case 4:
		w.Roles(world.Dana, rapid.SampledFrom([][]string{{models.RoleOperator}, {models.RoleAdministrator, models.RoleOperator}}).Draw(t, "roles")...)
	case 5:
		w.Policy(func(p *models.Policy) { p.MaxPendingTickets++ })
	}
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
	k := &walk{&machine{w: w}}
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
	t.Repeat(map[string]func(*rapid.T){
		"append": appends, "append on": appends, "append more": appends, "append again": appends, "claim": claims, "claim again": claims,
		"request": k.ask, "recover": recover, "recover again": recover, "surroundings": k.surroundings,
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
		"cancel": func(t *rapid.T) {
			if one(t, 10, "really") {
				k.do(t, world.Omar, k.id(t), models.CancelRun{})
			}
		},
		"annotate": func(t *rapid.T) { k.do(t, models.ServerActor, k.id(t), models.AnnotateStartup{Boot: "b"}) },
		"again": func(t *rapid.T) {
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

func TestEverythingKeepsTheInvariants(t *testing.T) { rapid.Check(t, everything) }
func FuzzEverything(f *testing.F)                   { f.Fuzz(rapid.MakeFuzz(everything)) }
