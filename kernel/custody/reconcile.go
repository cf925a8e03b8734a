package custody

import (
	"cmp"
	"slices"

	"github.com/forge-continuity/forge/models"
)

// Pending describes the unknown effect that row seq began, as the event that would settle it (C2); ok is false where that
// row began none, or its outcome is known.
func (s State) Pending(seq int64) (e models.EffectReconciled, ok bool) {
	t := s.Turn
	if t.RequestSeq == seq && seq > 0 && !s.Answered() {
		return models.EffectReconciled{Request: t.Request, Seq: seq, Subject: models.SubjectRequest}, true
	}
	for _, c := range t.Calls {
		if c.Unknown() && c.IntentSeq == seq && !t.Settled {
			return models.EffectReconciled{Position: c.Position, Request: t.Request, Seq: seq, Subject: models.SubjectCall}, true
		}
	}
	for _, c := range s.Commands {
		if c.Seq == seq {
			return models.EffectReconciled{Number: c.Number, Seq: seq, Subject: models.SubjectCommand}, true
		}
	}
	return models.EffectReconciled{}, false
}

// AllPending lists every unknown effect by the row that began it, in the order of rows.
func (s State) AllPending() []models.EffectReconciled {
	var list []models.EffectReconciled
	add := func(seq int64) {
		if e, ok := s.Pending(seq); ok {
			list = append(list, e)
		}
	}
	add(s.Turn.RequestSeq)
	for _, c := range s.Turn.Calls {
		add(c.IntentSeq)
	}
	for _, c := range s.Commands {
		add(c.Seq)
	}
	slices.SortFunc(list, func(a, b models.EffectReconciled) int { return cmp.Compare(a.Seq, b.Seq) })
	return list
}

// reconcile closes what was unknown. A landed request has its response now, and an ordinary claim consumes it; a request
// that did not happen, or is charged as unknown, has none to wait for, and the next one starts from the same checkpoint. A
// call that did not happen is back at its grant, so that it may be started; counters stay as they are.
func (s State) reconcile(e models.EffectReconciled, seq int64) State {
	landed := e.Outcome == models.OutcomeLanded
	switch e.Subject {
	case models.SubjectRequest:
		if landed {
			s.Turn.Response, s.Turn.ResponseSeq, s.Turn.ResponseBytes, s.Turn.Partial = e.Result, seq, e.ResultLength, false
		} else {
			s.Turn.Void = true
		}
	case models.SubjectCall:
		s.Turn.Calls = change(s.Turn.Calls, e.Position, func(c *Call) {
			if e.Outcome == models.OutcomeDidNotHappen {
				c.IntentSeq, c.LostSeq = 0, 0
			} else {
				c.OutcomeSeq, c.Result = seq, e.Result
			}
		})
	case models.SubjectCommand:
		s.Commands = without(s.Commands, e.Number)
	}
	return s
}
