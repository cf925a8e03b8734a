package line

import (
	"bytes"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/fixtures/provider"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api/apitest"
)

// A run that Pydantic AI 2.58.0 recorded is carried over to 2.55.0 and continued to its end; its own bytes stay, and the receipt names
// the entry point and the captured contract. SDK-02, SDK-07, SDK-13, REC-08.
func TestNewerSDKIsContinued(t *testing.T) {
	each(t, "2.58.0", func(t *testing.T, s *stage) {
		ctx := t.Context()
		c := s.held(t, "run-1", load.Options{})
		if !c.Eligible {
			t.Fatalf("holds %v", codes(c))
		}
		turn, err := s.recording.Turn(s.recording.HeldRequest())
		if err != nil {
			t.Fatal(err)
		}
		first, err := s.dana.RequestContinuity(ctx, "run-1", "req-1", apitest.Accept(c, 600))
		if err != nil {
			t.Fatal(err)
		}
		r := first.Receipt
		if r.EntryPoint.IsZero() || r.Contract.IsZero() || !bytes.Contains(s.blob(t, "run-1", r.Contract), []byte(r.EntryPoint.String())) {
			t.Fatalf("entry point %s, contract %s", r.EntryPoint, r.Contract)
		}
		_, url := s.provider(t)
		w := &load.Continuer{Client: s.worker, Endpoint: url}
		if _, err := w.Claim(ctx, s.recording, "run-1", "claim-2", 600); err != nil {
			t.Fatal(err)
		}
		var last load.Turn
		for last.Text == "" {
			if last, err = w.Turn(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Complete(ctx, last.Text); err != nil {
			t.Fatal(err)
		}
		if got := s.blob(t, "run-1", r.OldCheckpoint); !bytes.Equal(got, turn.Checkpoint) {
			t.Fatal("the original checkpoint changed")
		}
		view, err := s.dana.Run(ctx, "run-1")
		if err != nil || view.Position != "completed" || view.Counters.Commands != 13 {
			t.Fatalf("%+v %v", view, err)
		}
		s.verify(t, "run-1", 1)
	})
}

// One run is continued twice: the record of its second stop belongs to what the installed entry point is, and its registration still
// to what it was started under. Each graph has its own ticket, counters only rise, and both derivations verify. SDK-03, FLOW-14, REC-06.
func TestTwoContinuationsOfOneRun(t *testing.T) {
	for _, version := range []string{"2.55.0", "2.58.0"} {
		s := setUp(t, stores[0].open(t), version, apitest.Options{Policy: apitest.Enabled()})
		ctx := t.Context()
		first := s.held(t, "run-1", load.Options{})
		if _, err := s.dana.RequestContinuity(ctx, "run-1", "req-1", apitest.Accept(first, 600)); err != nil {
			t.Fatal(err)
		}
		// Between the two commands and the final text the model asks once more for what the validator rejects and the schema does not:
		// an integer to the one, a float to the other.
		script := provider.Held()
		again := bytes.Replace(script.Turns[provider.HeldTurn].Body, []byte(`"id": "call_`), []byte(`"id": "call_again_`), 1)
		again = bytes.Replace(again, []byte(`\"page_size\":25`), []byte(`\"page_size\":5.0`), 1)
		script.Turns = slices.Insert(script.Turns, provider.HeldTurn+2, provider.Turn{Body: again})
		server := httptest.NewServer(provider.New(script))
		defer server.Close()
		w := &load.Continuer{Client: s.worker, Endpoint: server.URL, Rejects: func(tool, _ string) bool { return tool == "read_run_evidence" }}
		if _, err := w.Claim(ctx, s.recording, "run-1", "claim-2", 600); err != nil {
			t.Fatal(err)
		}
		if turn, err := w.Turn(ctx); err != nil || len(turn.Commands) != 2 {
			t.Fatal(turn.Commands, err)
		}
		if turn, err := w.Turn(ctx); err != nil || !turn.Stopped {
			t.Fatal(turn, err)
		}
		c := s.candidate(t, "run-1")
		if !c.Eligible || c.Version != 1 {
			t.Fatalf("%s: second stop: holds %v", version, codes(c))
		}
		second, err := s.dana.RequestContinuity(ctx, "run-1", "req-2", apitest.Accept(c, 600))
		if err != nil {
			t.Fatal(err)
		}
		if second.Receipt.ConsumedGraph == first.ConsumedGraph || second.Receipt.Counters != c.Counters || second.Receipt.Counters.Commands != 13 {
			t.Fatalf("%+v", second.Receipt)
		}
		_, err = s.dana.RequestContinuity(ctx, "run-1", "req-3", apitest.Accept(c, 600))
		problem(t, err, models.CodeGraphHasTicket)
		third := &load.Continuer{Client: s.worker, Endpoint: server.URL}
		claimed, err := third.Claim(ctx, s.recording, "run-1", "claim-3", 600)
		if err != nil || claimed.Claim.Checkpoint != second.Receipt.Derived {
			t.Fatalf("%+v %v", claimed.Claim, err)
		}
		last, err := third.Turn(ctx)
		if err != nil || last.Text == "" {
			t.Fatalf("%+v %v", last, err)
		}
		if err := third.Complete(ctx, last.Text); err != nil {
			t.Fatal(err)
		}
		view, err := s.dana.Run(ctx, "run-1")
		if err != nil || view.Position != "completed" || len(view.Tickets) != 2 || view.Counters.Requests != 11 || view.Counters.Attempt != 1 {
			t.Fatalf("%+v %v", view, err)
		}
		s.verify(t, "run-1", 2)
	}
}
