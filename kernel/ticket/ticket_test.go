package ticket_test

import (
	"fmt"
	"testing"

	"github.com/forge-continuity/forge/kernel/ticket"
	"github.com/forge-continuity/forge/models"
	"pgregory.net/rapid"
)

// tickets walks the machine along events that a run can produce, beside one word for each ticket.
func tickets(t *rapid.T) {
	var s ticket.State
	var words []string
	var graphs []models.Digest
	seq := int64(0)
	var settled *models.MigrationSettled
	evolve := func(e models.Event, known bool) {
		seq++
		s = s.Evolve(e, seq, "dana", settled, known)
		settled = nil
		if m, ok := e.(models.MigrationSettled); ok {
			settled = &m
		}
	}
	last := func() string {
		if len(words) == 0 {
			return ""
		}
		return words[len(words)-1]
	}
	id := func() string { return fmt.Sprintf("r%d", len(words)) }
	turns := 0
	t.Repeat(map[string]func(*rapid.T){
		"admit": func(t *rapid.T) {
			if !(last() != "queued" && last() != "claimed" && last() != "uncertain" && last() != "failed_unclaimed") {
				return // not now; a skip would fail a fuzzer that draws only this
			}
			words = append(words, "queued")
			g := ticket.Graph("f", "run", 1, int64(len(words)), models.PlainDigest([]byte("r")), seq)
			graphs = append(graphs, g)
			m := models.MigrationSettled{Admission: models.PlainDigest([]byte(id())), Derived: models.PlainDigest([]byte("d" + id())), Graph: g, RequestID: id(), Version: 1}
			lease := models.LeaseGranted{ExpiresAt: 10, RequestID: id()}
			evolve(m, true)
			evolve(lease, true)
			got, ok := s.Find(id())
			if want := ticket.Seal(m.Admission, "dana", m, lease, m.Derived); !ok || got.Seal != want || got.GrantSeq != seq || got.SettledSeq != seq-1 {
				t.Fatalf("T3: %+v", got)
			}
			turns = 0
		},
		"claim": func(t *rapid.T) {
			if !(last() == "queued") {
				return // not now; a skip would fail a fuzzer that draws only this
			}
			evolve(models.ClaimTaken{RequestID: id()}, true)
			words[len(words)-1] = "claimed"
		},
		"ordinary lease": func(t *rapid.T) {
			if !(last() != "queued" && last() != "claimed") {
				return // not now; a skip would fail a fuzzer that draws only this
			}
			evolve(models.LeaseGranted{}, true)
			evolve(models.ClaimTaken{}, true)
			evolve(models.LeaseLapsed{Fence: 3}, true)
		},
		"lapse": func(t *rapid.T) {
			if !(last() == "queued" || last() == "claimed") {
				return // not now; a skip would fail a fuzzer that draws only this
			}
			if last() == "queued" {
				evolve(models.LeaseLapsed{RequestID: id()}, true)
				words[len(words)-1] = "failed_unclaimed"
				return
			}
			evolve(models.LeaseLapsed{Fence: 2, RequestID: id()}, true)
			words[len(words)-1] = "uncertain"
		},
		"request": func(t *rapid.T) {
			evolve(models.RequestIssued{}, true)
			if last() == "claimed" {
				turns++
			}
		},
		"worker failed": func(t *rapid.T) {
			known := rapid.Bool().Draw(t, "known")
			evolve(models.WorkerFailed{}, known)
			if last() == "claimed" {
				words[len(words)-1] = map[bool]string{true: "ended", false: "uncertain"}[known && turns > 0]
			}
		},
		"end": func(t *rapid.T) {
			e := rapid.SampledFrom([]models.Event{models.RunCompleted{}, models.RunFailed{}}).Draw(t, "end")
			evolve(e, true)
			if last() == "claimed" {
				words[len(words)-1] = map[string]string{"run.completed": "completed", "run.failed": "ended"}[e.Kind()]
			}
		},
		"cancel": func(*rapid.T) {
			evolve(models.RunCancelled{}, true)
			switch last() {
			case "queued", "claimed", "uncertain", "failed_unclaimed":
				words[len(words)-1] = "closed"
			}
		},
		"close": func(t *rapid.T) {
			if !(last() == "uncertain" || last() == "failed_unclaimed") {
				return // not now; a skip would fail a fuzzer that draws only this
			}
			evolve(models.EffectReconciled{Subject: models.SubjectCall}, true) // not the ticket's
			evolve(models.EffectReconciled{RequestID: id(), Subject: models.SubjectTicket}, true)
			words[len(words)-1] = "closed"
		},
		"": func(t *rapid.T) {
			if len(s.Tickets) != len(words) {
				t.Fatalf("%d tickets, want %d", len(s.Tickets), len(words))
			}
			for i, w := range words {
				got := s.Tickets[i]
				open := w == "queued" || w == "claimed" || w == "uncertain" || w == "failed_unclaimed"
				if got.State != w || got.Outstanding() != open || open && i != len(words)-1 {
					t.Fatalf("T2: ticket %d is %s, want %s", i, got.State, w)
				}
				if found, ok := s.ForGraph(graphs[i]); !ok || found != got {
					t.Fatalf("T1: the graph of ticket %d names %+v", i, found)
				}
			}
			if got, ok := s.Last(); ok != (len(words) > 0) || ok && int(got.Turns) != turns {
				t.Fatalf("last %+v, want %d turns", got, turns)
			}
			if _, ok := s.ForGraph(models.PlainDigest([]byte("another"))); ok {
				t.Fatal("T1: a graph that was never admitted has a ticket")
			}
			if _, ok := s.Find("r0"); ok {
				t.Fatal("found a ticket that is none")
			}
		},
	})
}

func TestTickets(t *testing.T) { rapid.Check(t, tickets) }
func FuzzTickets(f *testing.F) { f.Fuzz(rapid.MakeFuzz(tickets)) }

// A graph's name covers each part, and so does a seal.
func TestNamesCoverEachPart(t *testing.T) {
	d, e := models.PlainDigest([]byte("d")), models.PlainDigest([]byte("e"))
	seen := map[models.Digest]bool{}
	for _, g := range []models.Digest{
		ticket.Graph("f", "r", 1, 1, d, 1), ticket.Graph("g", "r", 1, 1, d, 1), ticket.Graph("f", "s", 1, 1, d, 1),
		ticket.Graph("f", "r", 2, 1, d, 1), ticket.Graph("f", "r", 1, 2, d, 1), ticket.Graph("f", "r", 1, 1, e, 1), ticket.Graph("f", "r", 1, 1, d, 2),
		ticket.Seal(d, "a", models.MigrationSettled{}, models.LeaseGranted{}, d), ticket.Seal(e, "a", models.MigrationSettled{}, models.LeaseGranted{}, d),
		ticket.Seal(d, "b", models.MigrationSettled{}, models.LeaseGranted{}, d), ticket.Seal(d, "a", models.MigrationSettled{Version: 1}, models.LeaseGranted{}, d),
		ticket.Seal(d, "a", models.MigrationSettled{}, models.LeaseGranted{Seconds: 1}, d), ticket.Seal(d, "a", models.MigrationSettled{}, models.LeaseGranted{}, e),
	} {
		if seen[g] {
			t.Errorf("%v twice", g)
		}
		seen[g] = true
	}
}

// The first row after a failure that no rule accounts for is kept by number, whichever failure that was (NOCLAIM-07, REFUSED-07, ROBS-16).
func TestTheFirstRowAfterAFailure(t *testing.T) {
	for name, fail := range map[string][]models.Event{
		ticket.FailedUnclaimed: {models.LeaseLapsed{RequestID: "r"}},
		ticket.Refused:         {models.ClaimTaken{RequestID: "r"}, models.RequestIssued{}, models.RequestRefused{}, models.WorkerFailed{}},
		ticket.ObservationLost: {models.RefusalSettled{RecoveryID: "b", RequestID: "r"}, models.ClaimTaken{RequestID: "r"}, models.RequestIssued{}, models.ToolUnknown{}, models.WorkerFailed{}},
	} {
		var s ticket.State
		seq := int64(0)
		evolve := func(events ...models.Event) ticket.Ticket {
			for _, e := range events {
				seq++
				s = s.Evolve(e, seq, "dana", nil, false)
			}
			last, _ := s.Last()
			return last
		}
		evolve(models.MigrationSettled{RequestID: "r"})
		if last := evolve(fail...); last.State != name || last.Later != 0 {
			t.Errorf("%s: %+v", name, last)
		}
		evolve(models.StartupAnnotated{}, models.RoundCompleted{}, models.StartupAnnotated{})
		if last := evolve(models.RoundCompleted{}); last.Later != seq-2 {
			t.Errorf("%s: later is row %d, want %d", name, last.Later, seq-2)
		}
	}
}

// What a worker's failure leaves is told by its own claim's last turn, and what an unclaimed lapse leaves by every claim before it
// (T2, T5; REFUSED-02, ROBS-02, NOCLAIM-18).
func TestWhatAFailureLeaves(t *testing.T) {
	settled, claim, request := models.MigrationSettled{RequestID: "r"}, models.ClaimTaken{RequestID: "r"}, models.RequestIssued{}
	boundary, observed := models.RefusalSettled{RecoveryID: "b", RequestID: "r"}, models.ReadonlyObservationWitnessed{RecoveryID: "o", RequestID: "r"}
	requeued, lapse, stop := models.RequestRequeued{RequestID: "r"}, models.LeaseLapsed{RequestID: "r"}, models.WorkerFailed{}
	for name, c := range map[string]struct {
		events []models.Event
		want   string
	}{
		"recovered, and not claimed again":              {[]models.Event{settled, claim, request, models.RequestRefused{}, stop, boundary, requeued, lapse}, ticket.Held},
		"a refusal, and another request":                {[]models.Event{settled, claim, request, models.RequestRefused{}, request, stop}, ticket.Uncertain},
		"a refusal after a recovery, and another":       {[]models.Event{settled, boundary, claim, request, models.RequestRefused{}, request, stop}, ticket.Uncertain},
		"nothing asked after a recovery":                {[]models.Event{settled, boundary, claim, stop}, ticket.Uncertain},
		"nothing asked after both":                      {[]models.Event{settled, boundary, observed, claim, stop}, ticket.Uncertain},
		"a loss, and another request":                   {[]models.Event{settled, boundary, claim, request, models.ToolUnknown{}, request, stop}, ticket.Uncertain},
		"a loss after both, and another request":        {[]models.Event{settled, boundary, observed, claim, request, models.ToolUnknown{}, request, stop}, ticket.Uncertain},
		"a loss":                                        {[]models.Event{settled, boundary, claim, request, models.ToolUnknown{}, stop}, ticket.ObservationLost},
		"a loss without the refusal recovery before it": {[]models.Event{settled, claim, request, models.ToolUnknown{}, stop}, ticket.Uncertain},
	} {
		var s ticket.State
		for i, e := range c.events {
			s = s.Evolve(e, int64(i+1), "dana", nil, false)
		}
		if last, _ := s.Last(); last.State != c.want {
			t.Errorf("%s: %s, want %s", name, last.State, c.want)
		}
	}
}
