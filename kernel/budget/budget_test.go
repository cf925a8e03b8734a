package budget_test

import (
	"math/big"
	"testing"

	"github.com/forge-continuity/forge/kernel/budget"
	"github.com/forge-continuity/forge/models"
	"pgregory.net/rapid"
)

// spending walks the budget beside sums of unbounded integers.
func spending(t *rapid.T) {
	small := rapid.Int64Range(0, 4)
	l := models.Limits{
		Commands: small.Draw(t, "commands"), InputTokens: rapid.SampledFrom([]int64{0, 10, 1<<63 - 1}).Draw(t, "input"),
		OutputTokens: rapid.SampledFrom([]int64{0, 10, 1<<63 - 1}).Draw(t, "output"), Requests: small.Draw(t, "requests"),
		SourceReads: small.Draw(t, "reads"), ToolCalls: small.Draw(t, "calls"), TotalTokens: rapid.SampledFrom([]int64{0, 15, 1<<63 - 1}).Draw(t, "total"),
	}
	s := budget.State{}.Evolve(models.RunRegistered{Registration: models.Registration{Limits: l}})
	var requests, calls, reads, commands int64
	input, output := new(big.Int), new(big.Int)
	top := big.NewInt(1<<63 - 1)
	cut := func(n *big.Int) int64 {
		if n.Cmp(top) > 0 {
			return top.Int64()
		}
		return n.Int64()
	}
	tokens := rapid.SampledFrom([]int64{0, 1, 5, 1 << 62, 1<<63 - 1})
	t.Repeat(map[string]func(*rapid.T){
		"request": func(*rapid.T) { s, requests = s.Evolve(models.RequestIssued{}), requests+1 },
		"consume": func(t *rapid.T) {
			in, out := tokens.Draw(t, "in"), tokens.Draw(t, "out")
			s = s.Evolve(models.ResponseConsumed{Tokens: models.Tokens{Input: in, Output: out}})
			input.Add(input, big.NewInt(in))
			output.Add(output, big.NewInt(out))
		},
		"call":    func(*rapid.T) { s, calls = s.Evolve(models.CallGranted{}), calls+1 },
		"read":    func(*rapid.T) { s, reads = s.Read(), reads+1 },
		"command": func(*rapid.T) { s, commands = s.Evolve(models.CommandStarted{}), commands+1 },
		"nothing": func(t *rapid.T) {
			s = s.Evolve(rapid.SampledFrom([]models.Event{
				models.MigrationSettled{}, models.LeaseGranted{}, models.ClaimTaken{}, models.RoundCompleted{}, models.CommandFinished{}, models.WorkerFailed{},
			}).Draw(t, "event"))
		},
		"": func(t *rapid.T) {
			want := budget.Spent{Commands: commands, InputTokens: cut(input), OutputTokens: cut(output), Requests: requests, SourceReads: reads, ToolCalls: calls}
			if s.Spent != want {
				t.Fatalf("B1: spent %+v, want %+v", s.Spent, want)
			}
			if s.Limits != l {
				t.Fatal("B3: the limits moved")
			}
			all := new(big.Int).Add(input, output)
			over := requests >= l.Requests || input.Cmp(big.NewInt(l.InputTokens)) >= 0 || output.Cmp(big.NewInt(l.OutputTokens)) >= 0 || all.Cmp(big.NewInt(l.TotalTokens)) >= 0
			for name, c := range map[string]struct {
				refusal *models.Refusal
				over    bool
			}{"request": {s.Request(), over}, "call": {s.ToolCall(), calls >= l.ToolCalls}, "read": {s.SourceRead(), reads >= l.SourceReads}, "command": {s.Command(), commands >= l.Commands}} {
				if (c.refusal != nil) != c.over || c.refusal != nil && c.refusal.Code != models.CodeAllowanceExhausted {
					t.Fatalf("B2: %s with %+v of %+v: %v", name, s.Spent, l, c.refusal)
				}
			}
		},
	})
}

func TestSpending(t *testing.T) { rapid.Check(t, spending) }
func FuzzSpending(f *testing.F) { f.Fuzz(rapid.MakeFuzz(spending)) }
