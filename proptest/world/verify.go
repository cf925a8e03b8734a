package world

import (
	"fmt"

	"github.com/forge-continuity/forge/models"
)

// Verified is a change of a registration: a frozen list of so many verification commands.
func Verified(commands int64) func(*models.Registration) {
	return func(g *models.Registration) {
		g.Verification = models.Verification{Commands: commands, List: Blob("verification list")}
	}
}

// Schedule is the server's scheduler entering the verification of the newest round.
func (w *World) Schedule() Answer {
	return w.Do(models.ServerActor, fmt.Sprintf("verification-%d", w.State.Rounds), models.AdmitVerification{Round: w.State.Rounds})
}

// ClaimVerification is a worker of the verification pool taking the run.
func (w *World) ClaimVerification() Answer {
	return w.Do(Worker2, "claim-"+w.NextID(), models.ClaimRun{LeaseSeconds: 600, Pool: models.VerificationPool})
}

// Prepared is the fact that opens a verification.
func (w *World) Prepared() models.SourcePrepared {
	return models.SourcePrepared{Source: w.State.Registration.Source.Digest}
}

// Ran is one command of a verification, from start to exit code.
func (w *World) Ran(exit int64) []models.Fact {
	n := w.State.Budget.Spent.Commands + 1
	return []models.Fact{
		models.CommandStarted{Command: Blob(fmt.Sprintf("verify %d", n)), Number: n, Position: -1},
		models.CommandFinished{ExitCode: exit, Number: n, Receipt: Blob(fmt.Sprintf("verify receipt %d", n))},
	}
}

// Verify plays a whole verification of the newest round.
func (w *World) Verify(exit int64) {
	if a := w.Schedule(); a.Refusal != nil {
		panic(a.Refusal)
	}
	if a := w.ClaimVerification(); a.Refusal != nil {
		panic(a.Refusal)
	}
	w.MustAppend(w.Prepared())
	for range w.State.Verification.Commands {
		w.MustAppend(w.Ran(exit)...)
	}
	w.MustAppend(models.VerificationFinished{Passed: exit == 0, Report: Blob("verification report")})
}
