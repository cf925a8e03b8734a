package kernel_test

import (
	"slices"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/proptest/world"
)

// tb is what testing.T and rapid.T share.
type tb interface {
	Helper()
	Errorf(string, ...any)
	Fatalf(string, ...any)
}

// refused checks the code, and details given as pairs of name and value.
func refused(t tb, a world.Answer, code models.Code, details ...string) {
	t.Helper()
	if a.Refusal == nil {
		t.Fatalf("accepted with %d events, want %s", len(a.Events), code)
	}
	is(t, a.Refusal, code, details...)
}

func is(t tb, r *models.Refusal, code models.Code, details ...string) {
	t.Helper()
	if r == nil {
		t.Fatalf("no refusal, want %s", code)
	}
	if r.Code != code {
		t.Fatalf("refused %v, want %s", r, code)
	}
	for i := 0; i < len(details); i += 2 {
		if got := r.Detail(details[i]); got != details[i+1] {
			t.Errorf("detail %s of %s is %q, want %q", details[i], code, got, details[i+1])
		}
	}
}

func accepted(t tb, a world.Answer) {
	t.Helper()
	if a.Refusal != nil {
		t.Fatalf("refused: %v", a.Refusal)
	}
}

// holds are the codes of a candidate in the order in which it shows them.
func holds(c models.Candidate) []models.Code {
	var codes []models.Code
	for _, h := range c.Holds {
		codes = append(codes, h.Code)
	}
	return codes
}

// held checks that the candidate shows the hold, with details, and is not eligible.
func held(t tb, c models.Candidate, code models.Code, details ...string) {
	t.Helper()
	for _, h := range c.Holds {
		if h.Code == code {
			is(t, h, code, details...)
			if c.Eligible {
				t.Errorf("eligible in spite of %s", code)
			}
			return
		}
	}
	t.Fatalf("holds are %v, want %s among them", holds(c), code)
}

// unmoved returns a check that neither journal moved since now.
func unmoved(t tb, w *world.World) func() {
	run, factory := w.State.Head, w.FactoryState.Seq
	print := kernel.Fingerprint(w.State)
	return func() {
		t.Helper()
		if w.State.Head != run || w.FactoryState.Seq != factory || kernel.Fingerprint(w.State) != print {
			t.Fatalf("something was written: head %d, was %d", w.State.Head.Seq, run.Seq)
		}
	}
}

// kinds are the kinds of events in order.
func kinds(events []models.Event) []string {
	var list []string
	for _, e := range events {
		list = append(list, e.Kind())
	}
	return list
}

// verify replays everything and compares with the state that the world reached step by step (K1, K2).
func verify(t tb, w *world.World) {
	t.Helper()
	history, r := kernel.ReplayFactory(slices.Values(w.FactoryRows))
	if r != nil {
		t.Fatalf("factory: %v", r)
	}
	s, r := kernel.Replay(slices.Values(w.Rows), history)
	if r != nil {
		t.Fatalf("run: %v", r)
	}
	if len(w.Rows) > 0 && kernel.Fingerprint(s) != kernel.Fingerprint(w.State) {
		t.Fatalf("replayed\n%s\nwant\n%s", s.Encode(), w.State.Encode())
	}
}
