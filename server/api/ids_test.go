package api_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"

	"github.com/forge-continuity/forge/models"
	. "github.com/forge-continuity/forge/server/api/apitest"
	"github.com/forge-continuity/forge/server/engine"
)

// olderKeys is a store from before the server's own commands had a space of their own.
type olderKeys struct{ engine.Store }

func (s olderKeys) Receipt(ctx context.Context, k engine.Key) (engine.Receipt, error) {
	if k.Space == engine.SpaceServer {
		return engine.Receipt{}, engine.ErrNotFound
	}
	r, err := s.Store.Receipt(ctx, k)
	if errors.Is(err, engine.ErrNotFound) && k.Space == engine.SpaceCommand {
		k.Space = engine.SpaceServer
		r, err = s.Store.Receipt(ctx, k)
		r.Key.Space = engine.SpaceCommand
	}
	return r, err
}

// sound asks that an examination finds nothing.
func sound(t *testing.T, e *engine.Engine) {
	t.Helper()
	err := e.Doctor(t.Context(), func(f engine.Finding) {
		if f.Fault != nil {
			t.Errorf("%s: %v", f.Run, f.Fault)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// An export of a run whose server commands stand under an older store's keys verifies like any other.
func TestServerReceiptsOfAnOlderStore(t *testing.T) {
	w := Start(t, openSQLite(t), &Fake{}, Options{Policy: Enabled()})
	w.Hold(t, "run-1").Admit(t, "request-1")
	if n, err := w.Engine.AnnotateStartup(t.Context(), "boot-1"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	sound(t, w.Engine)
	sound(t, engine.New(olderKeys{w.Store}, &Fake{}, Build, slog.New(slog.DiscardHandler)))
}

// The server's own commands have ids of their own: a worker or an operator who used the same text before keeps neither a
// verification nor the note of a start away, and nobody reads back or repeats what the server said. BOUND-11 (a worker cannot
// avoid it), NOCLAIM-06.
func TestTheServersIdsAreItsOwn(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := w.Open(t, "run-1", func(g *models.Registration) { g.Verification = models.Verification{Commands: 1, List: g.Task} })
		r.Claim(t, "claim-1")
		for _, id := range []string{"verification-1", "startup-boot-1"} {
			Must[models.AppendReceipt](t, w, http.StatusCreated, Call{As: Worker, Method: http.MethodPut, Path: "/runs/run-1/batches/" + id,
				Body: models.Append{Fence: r.Fence, Facts: []models.Fact{models.CheckpointSaved{Checkpoint: r.Blob(t, Worker, "checkpoint "+id)}}}})
		}
		r.Append(t, models.RoundCompleted{Round: 1})
		r.Turn(t, 1, EvidenceCall)
		r.Fail(t)
		r.Admit(t, "request-1")
		if n, err := w.Engine.AnnotateStartup(t.Context(), "boot-1"); n != 1 || err != nil {
			t.Errorf("%d starts noted: %v", n, err)
		}
		if _, refusedOnes, err := w.Engine.ScheduleVerifications(t.Context()); refusedOnes != 1 || err != nil {
			t.Errorf("%d refused: %v", refusedOnes, err)
		}
		stands := snapshot(t, w)
		if n, err := w.Engine.AnnotateStartup(t.Context(), "boot-1"); n != 0 || err != nil {
			t.Errorf("%d starts noted again: %v", n, err)
		}
		unchanged(t, stands, snapshot(t, w))
		sound(t, w.Engine) // an export has both, and its receipts are those of its rows
		a := put(t, w, Operator, "/runs/run-1/verifications/verification-1", models.AdmitVerification{Round: 1})
		refused(t, a, models.CodeRequestConflict) // the worker's
	})
}
