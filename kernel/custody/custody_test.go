package custody_test

import (
	"testing"

	"github.com/forge-continuity/forge/kernel/budget"
	"github.com/forge-continuity/forge/kernel/custody"
	"github.com/forge-continuity/forge/models"
	"pgregory.net/rapid"
)

// recording offers facts of every kind, mostly nonsense, keeps those that may follow, and checks the record of them.
func recording(t *rapid.T) {
	mode := rapid.SampledFrom([]string{models.ModeRequired, "best-effort"}).Draw(t, "mode")
	var s custody.State
	b := budget.State{Limits: models.Limits{Commands: 3, InputTokens: 99, OutputTokens: 99, Requests: 4, SourceReads: 2, ToolCalls: 4, TotalTokens: 99}}
	seq := int64(0)
	type place struct{ request, position int64 }
	grants, refusals, intents, outcomes, consumed := map[place]int{}, map[place]int{}, map[place]int{}, map[place]int{}, map[int64]int{}
	started, finished, settled := map[int64]bool{}, map[int64]bool{}, map[int64]bool{}
	happen := func(e models.Event) {
		seq++
		before := s.Digest
		if s.ReadStarts(e) {
			b = b.Read()
		}
		b, s = b.Evolve(e), s.Evolve(e, seq, models.Instant(seq))
		if (before != s.Digest) != custody.Recorded(e) {
			t.Fatalf("the digest moved with %s: %v", e.Kind(), before != s.Digest)
		}
	}
	d := models.PlainDigest([]byte("d"))
	small := rapid.Int64Range(-1, 2)
	offer := func(t *rapid.T, f models.Fact) {
		if custody.Form(f) != nil {
			return
		}
		if s.Refuse(f, mode, b) != nil {
			return
		}
		open := s.Unknown() > 0 || !s.Clean()
		switch f := f.(type) {
		case models.RequestIssued, models.CheckpointSaved, models.RoundCompleted:
			if open {
				t.Fatalf("C5: %s while something is open", f.Kind())
			}
		case models.ResponseConsumed:
			if consumed[f.Request]++; consumed[f.Request] > 1 {
				t.Fatalf("C3: response %d consumed again", f.Request)
			}
		case models.CallGranted:
			grants[place{f.Request, f.Position}]++
		case models.CallRefused:
			refusals[place{f.Request, f.Position}]++
		case models.CallIntended:
			intents[place{f.Request, f.Position}]++
		case models.CallReturned:
			outcomes[place{f.Request, f.Position}]++
		case models.CommandStarted:
			started[f.Number] = true
		case models.CommandFinished:
			finished[f.Number] = true
		}
		happen(f)
	}
	action := func(make func(t *rapid.T) models.Fact) func(*rapid.T) {
		return func(t *rapid.T) { offer(t, make(t)) }
	}
	request := func(t *rapid.T) int64 {
		return s.Turn.Request + rapid.SampledFrom([]int64{0, 0, 0, 1, -1}).Draw(t, "request")
	}
	t.Repeat(map[string]func(*rapid.T){
		"checkpoint": action(func(t *rapid.T) models.Fact { return models.CheckpointSaved{Checkpoint: d} }),
		"request": action(func(t *rapid.T) models.Fact {
			return models.RequestIssued{Checkpoint: s.Checkpoint, Request: b.Spent.Requests + 1 + rapid.SampledFrom([]int64{0, 0, 1}).Draw(t, "skip"), Wire: d, WireBlob: d, WireLength: 1}
		}),
		"response": action(func(t *rapid.T) models.Fact {
			return models.ResponseKept{Partial: rapid.Bool().Draw(t, "partial"), Request: request(t), Response: d}
		}),
		"consume": action(func(t *rapid.T) models.Fact {
			return models.ResponseConsumed{Calls: small.Draw(t, "calls"), Request: request(t), Response: d, Tokens: models.Tokens{Input: 1, Output: 1}}
		}),
		"grant": action(func(t *rapid.T) models.Fact {
			class := rapid.SampledFrom([]string{models.ClassEvidenceRead, models.ClassCommand, models.ClassWrite}).Draw(t, "class")
			return models.CallGranted{Args: d, Class: class, ID: d, Position: small.Draw(t, "position"), Request: request(t)}
		}),
		"refuse": action(func(t *rapid.T) models.Fact {
			return models.CallRefused{Position: small.Draw(t, "position"), Request: request(t), Validator: d}
		}),
		"intend": action(func(t *rapid.T) models.Fact {
			return models.CallIntended{Position: small.Draw(t, "position"), Request: request(t)}
		}),
		"return": action(func(t *rapid.T) models.Fact {
			return models.CallReturned{Position: small.Draw(t, "position"), Request: request(t), Result: d}
		}),
		"lose": action(func(t *rapid.T) models.Fact {
			return models.ToolUnknown{Position: small.Draw(t, "position"), Request: request(t)}
		}),
		"start": action(func(t *rapid.T) models.Fact {
			return models.CommandStarted{Command: d, Number: b.Spent.Commands + small.Draw(t, "number"), Position: rapid.SampledFrom([]int64{-1, -1, 0, 1}).Draw(t, "position"), Request: request(t)}
		}),
		"finish": action(func(t *rapid.T) models.Fact {
			return models.CommandFinished{Number: b.Spent.Commands + small.Draw(t, "number"), Receipt: d}
		}),
		"round": action(func(t *rapid.T) models.Fact { return models.RoundCompleted{} }),
		"settle": func(t *rapid.T) {
			if s.Turn.ConsumeSeq == 0 || s.Turn.Settled || len(s.Commands) > 0 || s.Unknown() > 0 {
				return // nothing to settle; a skip would fail a fuzzer that draws only this
			}
			settled[s.Turn.Request] = true
			happen(models.MigrationSettled{Derived: d})
		},
		"reconcile": func(t *rapid.T) {
			at := rapid.Int64Range(0, seq).Draw(t, "row")
			e, ok := s.Pending(at)
			if !ok {
				return // nothing is unknown there; a skip would fail a fuzzer that draws only this
			}
			e.Outcome = rapid.SampledFrom([]string{models.OutcomeLanded, models.OutcomeDidNotHappen, models.OutcomeChargedUnknown}).Draw(t, "outcome")
			if e.Outcome == models.OutcomeLanded {
				e.Result = d
			}
			happen(e)
			if _, again := s.Pending(at); again {
				t.Fatal("C2: reconciled, and still unknown")
			}
			switch e.Subject {
			case models.SubjectCommand:
				finished[e.Number] = true
			case models.SubjectCall:
				if e.Outcome == models.OutcomeDidNotHappen {
					intents[place{e.Request, e.Position}]--
				} else {
					outcomes[place{e.Request, e.Position}]++
				}
			}
		},
		"": func(t *rapid.T) {
			unknown := 0
			for at, n := range grants {
				if n > 1 || refusals[at] > 1 || intents[at] > 1 || outcomes[at] > intents[at] || refusals[at] > 0 && intents[at] > 0 {
					t.Fatalf("C1: call %v: %d grants, %d refusals, %d intents, %d outcomes", at, n, refusals[at], intents[at], outcomes[at])
				}
				if at.request == s.Turn.Request && !settled[at.request] && intents[at] > outcomes[at] {
					unknown++
				}
			}
			for n := range started {
				if !finished[n] {
					unknown++
				}
			}
			if (unknown > 0) != (s.Unknown() > 0) {
				t.Fatalf("C2: %d unknown effects, the first is row %d", unknown, s.Unknown())
			}
			if int64(len(started)) != s.CommandCount || s.CommandCount != b.Spent.Commands {
				t.Fatalf("C4: %d command rows, %d counted", len(started), s.CommandCount)
			}
			if s.Known() != (s.Answered() && unknown == 0) || s.Clean() && unknown > 0 {
				t.Fatal("known or clean with something unknown")
			}
			for i := 1; i < len(s.Turn.Calls); i++ {
				if s.Turn.Calls[i-1].Position >= s.Turn.Calls[i].Position {
					t.Fatal("calls are not sorted")
				}
			}
		},
	})
}

func TestRecording(t *testing.T) { rapid.Check(t, recording) }
func FuzzRecording(f *testing.F) { f.Fuzz(rapid.MakeFuzz(recording)) }

// Later is the first row after the consume that rules O6 do not list, each kind for itself (ELIG-14).
func TestWhatMayFollowAConsume(t *testing.T) {
	for _, c := range []struct {
		event models.Event
		later bool
	}{
		{models.CallGranted{Position: 1}, false}, {models.CallRefused{}, false}, {models.CallIntended{}, false}, {models.CallReturned{}, false},
		{models.ToolUnknown{}, false}, {models.LeaseGranted{}, false}, {models.ClaimTaken{}, false}, {models.ClaimReleased{}, false},
		{models.LeaseLapsed{}, false}, {models.WorkerFailed{}, false}, {models.StartupAnnotated{}, false}, {models.MigrationSettled{}, false},
		{models.CheckpointSaved{}, true}, {models.ResponseKept{}, true}, {models.CommandStarted{}, true}, {models.CommandFinished{}, true},
		{models.RoundCompleted{}, true}, {models.RunCompleted{}, true}, {models.RunFailed{}, true}, {models.RunCancelled{}, true},
		{models.AttemptOpened{}, true}, {models.EffectReconciled{}, true}, {models.RunRegistered{}, true},
	} {
		t.Run(c.event.Kind(), func(t *testing.T) {
			var s custody.State
			s = s.Evolve(models.RequestIssued{Request: 1}, 1, 1).Evolve(c.event, 2, 2)
			if s.Turn.Later != 0 {
				t.Error("later before the consume")
			}
			s = custody.State{}.Evolve(models.RequestIssued{Request: 1}, 1, 1).Evolve(models.ResponseConsumed{}, 2, 2).Evolve(models.CallGranted{}, 3, 3)
			s = s.Evolve(c.event, 4, 4)
			want := int64(0)
			if c.later {
				want = 4
			}
			if s.Turn.Later != want {
				t.Errorf("later %d, want %d", s.Turn.Later, want)
			}
			if s = s.Evolve(models.RunCancelled{}, 5, 5); c.later && s.Turn.Later != 4 {
				t.Error("the first is not kept")
			}
		})
	}
}
