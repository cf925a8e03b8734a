package world

import "github.com/forge-continuity/forge/models"

// Settle is a reconciliation with every acknowledgement that its outcome needs, and evidence and result where it has them.
func Settle(subject string, seq int64, outcome string) models.Reconcile {
	c := models.Reconcile{
		AcknowledgeNoReplay: true, AcknowledgeOriginalRecordUnchanged: true, AcknowledgeOriginalUseCharged: true,
		AcknowledgeUnknownOutcome: outcome == models.OutcomeChargedUnknown, Outcome: outcome, Seq: seq, Subject: subject,
	}
	if outcome != models.OutcomeChargedUnknown {
		c.Evidence = Blob("evidence")
	}
	if outcome == models.OutcomeLanded && subject != models.SubjectTicket {
		c.Result = Blob("found result")
	}
	if outcome == models.OutcomeLanded && subject == models.SubjectRequest {
		c.ResultLength = 12
	}
	return c
}

// SettleTicket closes the newest ticket as charged and unknown.
func (w *World) SettleTicket() models.Reconcile {
	t, _ := w.State.Tickets.Last()
	c := Settle(models.SubjectTicket, t.SettledSeq, models.OutcomeChargedUnknown)
	c.RequestID = t.RequestID
	return c
}

// Finished is the canonical run to its end: admitted, continued to 13 of 22 commands, completed.
func Finished() *World {
	w := Continuing()
	w.Turn(Call{Class: models.ClassCommand, Commands: 2})
	w.MustAppend(models.RoundCompleted{Round: w.State.Rounds + 1})
	w.Turn()
	w.MustAppend(models.RunCompleted{Result: Blob("result"), Round: w.State.Rounds + 1})
	return w
}

// Everything is a world in whose journals every kind of row stands, but for run.cancelled, which excludes completion, and
// rules.activated, which needs newer rules.
func Everything() *World {
	w := Continuing()
	w.Must(models.ServerActor, "boot", models.AnnotateStartup{Boot: "b1"})
	w.Turn(Call{Class: models.ClassPureRead}, Call{Class: models.ClassCommand, Commands: 2})
	w.MustAppend(models.RoundCompleted{Round: w.State.Rounds + 1})
	w.MustAppend(w.Asked()...)
	w.MustAppend(w.Answered())
	w.MustAppend(w.Consumed(1))
	n := w.State.Custody.Turn.Request
	a := w.MustAppend(Granted(n, 0, models.ClassNetwork), models.CallIntended{Request: n}, models.ToolUnknown{Request: n}, Failed())
	w.Must(Dana, "close", w.SettleTicket())
	w.Must(Dana, "settle", Settle(models.SubjectCall, a.Rows[1].Seq, models.OutcomeLanded))
	w.Roles(Omar, models.RoleOperator, models.RoleReader)
	w.Record(models.RecordScope, "moved")
	w.MustFactory(Root, models.RegisterProfile{Profile: w.Profile("p2")})
	w.MustFactory(Root, models.RetireProfile{ID: "p1"})
	w.MustClaim(Worker)
	w.Must(Worker, "release", models.ReleaseRun{Fence: w.State.Lease.Fence, Pool: "gpu"})
	w.Must(Worker, "claim-gpu", models.ClaimRun{LeaseSeconds: 60, Pool: "gpu"})
	w.Tick(100)
	w.Must(Worker, "claim-again", models.ClaimRun{LeaseSeconds: 60})
	w.MustAppend(models.RunFailed{Report: Blob("r")})
	w.Must(Dana, "retry", models.RetryRun{})
	w.MustClaim(Worker)
	w.MustAppend(models.RunCompleted{Result: Blob("r"), Round: w.State.Rounds + 1})
	return w
}
