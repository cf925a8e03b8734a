package kernel

import (
	"fmt"

	"github.com/forge-continuity/forge/kernel/journal"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// Rows seals the events of one accepted command as rows after the head of s, and returns the state after them. at and
// actor are those of env.
func Rows(s State, id string, c models.Command, env models.Env, events []models.Event) ([]models.Row, State, error) {
	rows, err := newRows(env.Factory.Rules, s.Factory, s.Run, s.Head, s.Cmd, id, c, env, events)
	if err != nil {
		return nil, s, err
	}
	for i, r := range rows {
		s = Fold(s, r, events[i], env.FactoryHead.Seq)
	}
	return rows, s, nil
}

// FactoryRows is Rows for a factory's own journal.
func FactoryRows(f models.Factory, id string, c models.Command, env models.Env, events []models.Event) ([]models.Row, models.Factory, error) {
	rules := f.Rules
	if rules == 0 {
		rules = CurrentRules()
	}
	rows, err := newRows(rules, f.Factory, "", FactoryHead(f), f.Cmd, id, c, env, events)
	if err != nil {
		return nil, f, err
	}
	for i, r := range rows {
		f = FoldFactory(f, r, events[i])
	}
	return rows, f, nil
}

func newRows(rules int64, factory, run string, head models.Head, cmd int64, id string, c models.Command, env models.Env, events []models.Event) ([]models.Row, error) {
	rows := make([]models.Row, 0, len(events))
	for i, e := range events {
		payload, err := canon.Marshal(e)
		if err != nil {
			return nil, err
		}
		r := models.Row{
			Format: models.Format, Rules: rules, Factory: factory, Run: run, Seq: head.Seq + 1 + int64(i), Cmd: cmd + 1,
			I: int64(i), N: int64(len(events)), At: env.At, Actor: env.Actor, Kind: e.Kind(), Payload: payload, Blobs: models.Blobs(e),
		}
		if i == 0 {
			text, err := models.EncodeCommand(c)
			if err != nil {
				return nil, err
			}
			sealed, err := env.Seal()
			if err != nil {
				return nil, err
			}
			r.CommandID, r.CommandName, r.Command, r.Env = id, c.Verb(), text, sealed
		}
		rows = append(rows, r)
	}
	journal.Seal(head.Hash, rows)
	return rows, nil
}

// OnceKeys returns the facts that the rows of one command may state only once in the life of a run; the store repeats
// them as unique keys.
func OnceKeys(events []models.Event) []OnceKey {
	var keys []OnceKey
	for _, e := range events {
		switch e := e.(type) {
		case models.MigrationSettled:
			keys = append(keys, OnceKey{"graph", e.Graph.String()})
		case models.VerificationRefused:
			keys = append(keys, OnceKey{"verification", "refused"})
		case models.NeverClaimedWitnessed:
			keys = append(keys, OnceKey{models.WorkflowNeverClaimed, e.RequestID})
		case models.ReadonlyObservationWitnessed:
			keys = append(keys, OnceKey{models.WorkflowReadonlyObservation, e.RequestID})
		case models.RefusalSettled:
			keys = append(keys, OnceKey{models.WorkflowRefusedBoundary, e.RequestID})
		case models.ResponseConsumed:
			keys = append(keys, OnceKey{"consume", fmt.Sprint(e.Request)})
		case models.RequestIssued:
			keys = append(keys, OnceKey{"request", fmt.Sprint(e.Request)})
		case models.CommandStarted:
			keys = append(keys, OnceKey{"command", fmt.Sprint(e.Number)})
		case models.EffectReconciled:
			keys = append(keys, OnceKey{"reconciled", fmt.Sprint(e.Seq)})
		case models.ClaimTaken:
			keys = append(keys, OnceKey{"fence", fmt.Sprint(e.Fence)})
		case models.CallReturned:
			keys = append(keys, OnceKey{"outcome", fmt.Sprint(e.Request, ".", e.Position)})
		}
	}
	return keys
}

// OnceKey is a kind of fact and its name.
type OnceKey struct{ Kind, Key string }
