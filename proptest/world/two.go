package world

import (
	"fmt"
	"slices"

	"github.com/forge-continuity/forge/models"
)

// ProofTwo is the reconstruction that a sandbox would give for a turn of version 2: one rejected evidence read, with source
// observations beside it. One whose outcome the rows keep is closed by it.
func (w *World) ProofTwo() *models.Reconstruction {
	r := w.ProofOne()
	r.Version, r.Closing = 2, nil
	for _, c := range w.State.Custody.Turn.Calls {
		closing := models.ClosingResult{Position: c.Position, Result: models.ResultObservationUnavailable}
		switch {
		case c.Class == models.ClassEvidenceRead:
			closing.Result = models.ResultInvalidQuery
		case c.OutcomeSeq > 0 && !c.Failed:
			closing.Result = models.ResultRetained
			r.Outcomes = append(r.Outcomes, models.Retained{Position: c.Position, Result: c.Result})
		}
		r.Closing = append(r.Closing, closing)
	}
	return r
}

// Observing is a stopped run for version 2: a response with one rejected evidence read and so many granted list_files calls,
// each started and without an outcome but for those at the positions named, and the policy's switch on.
func Observing(observations int64, retained ...int64) *World {
	w := Executing()
	w.MustAppend(w.Asked()...)
	w.MustAppend(w.Answered())
	w.MustAppend(w.Consumed(observations + 1))
	n := w.State.Custody.Turn.Request
	w.MustAppend(Granted(n, 0, models.ClassEvidenceRead), models.CallRefused{Request: n, Validator: w.State.Registration.Validator})
	for i := int64(1); i <= observations; i++ {
		w.MustAppend(Granted(n, i, models.ClassSourceObservation), models.CallIntended{Position: i, Request: n})
		if slices.Contains(retained, i) {
			w.MustAppend(models.CallReturned{Position: i, Request: n, Result: Blob(fmt.Sprintf("result %d.%d", n, i))})
		}
	}
	w.MustAppend(Failed())
	w.Tick(60)
	w.Policy(func(p *models.Policy) { p.AllowUnavailableSourceObservations = true })
	w.Rebuild = (*World).ProofTwo
	return w
}

// RequestTwo is the version-2 body that Dana would send after reading the candidate now.
func (w *World) RequestTwo(seconds models.Seconds) models.RequestContinuity {
	c := w.Request(seconds)
	c.AcknowledgeUnavailableSourceObservations, c.Version = true, 2
	return c
}
