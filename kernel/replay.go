package kernel

import (
	"bytes"
	"errors"
	"iter"
	"slices"
	"strconv"

	"github.com/forge-continuity/forge/kernel/journal"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// History is a factory's journal folded step by step: what the factory was at each of its rows.
type History struct{ states []models.Factory }

// At returns the factory as it was at a head; the refusal is journal_broken when no row has that number and hash.
func (h History) At(head models.Head) (models.Factory, *models.Refusal) {
	if head.Seq < 1 || head.Seq > int64(len(h.states)) || h.states[head.Seq-1].Head != head.Hash {
		return models.Factory{}, models.Refuse(models.CodeJournalBroken, models.D("what", "the factory head that a row names"), models.D("factory_seq", head.Seq))
	}
	return h.states[head.Seq-1], nil
}

// supersededAt returns when the row after a head was written, and whether there is one: a command that named the head came
// before it, for both read the clock under the factory's lock.
func (h History) supersededAt(head models.Head) (models.Instant, bool) {
	if head.Seq >= int64(len(h.states)) {
		return 0, false
	}
	return h.states[head.Seq].HeadAt, true
}

// Last returns the newest state; the zero Factory before the first row.
func (h History) Last() models.Factory {
	if len(h.states) == 0 {
		return models.Factory{}
	}
	return h.states[len(h.states)-1]
}

// ReplayFactory verifies a factory's journal from its first row: the chain holds, and DecideFactory gives these very
// events (K1, K2). It stops at the first fault, journal_broken or rules_newer, with the states so far.
func ReplayFactory(rows iter.Seq[models.Row]) (History, *models.Refusal) {
	var h History
	var f models.Factory
	r := replay(rows, func(group []models.Row, c models.Command, env models.Env, events []models.Event) *models.Refusal {
		if !models.ForFactory(c) || group[0].Run != "" {
			return broken(group[0], "a command of another journal")
		}
		if f.Rules != 0 && group[0].Rules != f.Rules {
			return disagrees(group[0], nil)
		}
		env.Factory = f
		env.Factory.Factory = group[0].Factory
		decided, refused := DecideFactory(group[0].CommandID, c, env)
		if refused != nil || !same(decided, group) {
			return disagrees(group[0], refused)
		}
		for i, row := range group {
			f = FoldFactory(f, row, events[i])
			h.states = append(h.states, f)
		}
		return nil
	})
	return h, r
}

// Replay verifies a run's journal from its first row: the chain holds, and Decide under each row's own rules, with the
// factory as it was at the head that the row names, gives these very events (K1, K2). It stops at the first fault,
// journal_broken with the sequence number or rules_newer, with the state before it.
func Replay(rows iter.Seq[models.Row], factory History) (State, *models.Refusal) {
	var s State
	var named int64 // the factory's row that the last command stood on
	r := replay(rows, func(group []models.Row, c models.Command, env models.Env, events []models.Event) *models.Refusal {
		first := group[0]
		if models.ForFactory(c) || !models.ValidID(first.Run) {
			return broken(first, "a command of another journal")
		}
		f, r := factory.At(env.FactoryHead)
		if r != nil {
			return r.With(models.D("seq", first.Seq))
		}
		if env.FactoryHead.Seq < named {
			return broken(first, "the factory head that a row names is older than before")
		}
		named = env.FactoryHead.Seq
		if at, ok := factory.supersededAt(env.FactoryHead); ok && at+lag(env) < env.At {
			return broken(first, "the factory head that a row names was superseded before it")
		}
		env.Factory = f
		if first.Factory != f.Factory || first.Rules != f.Rules {
			return disagrees(first, nil)
		}
		s.Factory, s.Run = first.Factory, first.Run
		decided, refused := Decide(s, first.CommandID, c, env)
		if refused != nil || !same(decided, group) {
			return disagrees(first, refused)
		}
		for i, row := range group {
			s = Fold(s, row, events[i], env.FactoryHead.Seq)
		}
		return nil
	})
	return s, r
}

// Recounted is what a replay that ended in s and r says of a journal: its counts, or the first row that does not verify. Both
// fingerprints are of this build, so that a row that records them can be decided again by another, whose state has other
// members.
func Recounted(cached, s State, r *models.Refusal) models.Recount {
	n := s.Budget.Spent
	out := models.Recount{Cached: Fingerprint(cached), Calls: n.ToolCalls, Commands: n.Commands, Fingerprint: Fingerprint(s), Head: s.Head, Requests: n.Requests}
	if r == nil {
		return out
	}
	// A replay stops before the command that a bad row belongs to; the refusal names the row itself.
	out.BrokenAt = s.Head.Seq + 1
	if seq, err := strconv.ParseInt(r.Detail("seq"), 10, 64); err == nil && seq > 0 {
		out.BrokenAt = seq
	}
	return out
}

// disagrees is what deciding a command again came to, where that is not its rows. An activation of rules that this build
// does not know is meant, and no damage.
// lag is how far a row's time may stand ahead of the clock it was written by.
func lag(env models.Env) models.Instant {
	if env.Clock == models.ClockHead {
		return models.MaxClockLag
	}
	return 0
}

func disagrees(row models.Row, refused *models.Refusal) *models.Refusal {
	if refused != nil && refused.Code == models.CodeRulesNewer {
		return refused.With(models.D("seq", row.Seq))
	}
	r := models.Refuse(models.CodeJournalBroken, models.D("seq", row.Seq), models.D("what", "deciding again gives something else"))
	if refused != nil {
		r = r.With(models.D("decided", refused.Code))
	}
	return r
}

// same reports whether the events are those of the rows, whose payloads are known to be canonical.
func same(events []models.Event, rows []models.Row) bool {
	return slices.EqualFunc(events, rows, func(e models.Event, r models.Row) bool {
		return e.Kind() == r.Kind && bytes.Equal(canon.MustMarshal(e), r.Payload)
	})
}

// replay walks the rows of a journal command by command.
func replay(rows iter.Seq[models.Row], command func([]models.Row, models.Command, models.Env, []models.Event) *models.Refusal) *models.Refusal {
	var chain journal.Chain
	var group []models.Row
	var events []models.Event
	for row := range rows {
		if r := chain.Next(row); r != nil {
			return r
		}
		if !knows(row.Rules) {
			return models.Refuse(models.CodeRulesNewer, models.D("rules", row.Rules), models.D("seq", row.Seq))
		}
		e, r := decodeRow(row)
		if r != nil {
			return r
		}
		group, events = append(group, row), append(events, e)
		if row.I < row.N-1 {
			continue
		}
		c, env, r := decodeCommand(group[0])
		if r != nil {
			return r
		}
		if r := command(group, c, env, events); r != nil {
			return r
		}
		group, events = nil, nil
	}
	if len(group) > 0 {
		return models.Refuse(models.CodeJournalBroken, models.D("seq", chain.Seq+1), models.D("what", "the last command is not whole"))
	}
	return nil
}

func broken(row models.Row, what string) *models.Refusal {
	return models.Refuse(models.CodeJournalBroken, models.D("seq", row.Seq), models.D("what", what))
}

// newer tells what a later build wrote from what is damaged: the hash has been checked, so a kind or member that is not
// known here was meant.
func newer(err error) bool {
	return errors.Is(err, models.ErrUnknownKind) || errors.Is(err, canon.ErrUnknownMember)
}

func decodeRow(row models.Row) (models.Event, *models.Refusal) {
	e, err := models.DecodeEvent(row.Kind, row.Payload)
	switch {
	case newer(err):
		return nil, models.Refuse(models.CodeRulesNewer, models.D("kind", row.Kind), models.D("seq", row.Seq))
	case err != nil:
		return nil, broken(row, "payload")
	case !slices.Equal(models.Blobs(e), row.Blobs):
		return nil, broken(row, "blob digests")
	}
	return e, nil
}

func decodeCommand(row models.Row) (models.Command, models.Env, *models.Refusal) {
	c, err := models.DecodeCommand(row.CommandName, row.Command)
	if newer(err) {
		return nil, models.Env{}, models.Refuse(models.CodeRulesNewer, models.D("command", row.CommandName), models.D("seq", row.Seq))
	}
	if err != nil {
		return nil, models.Env{}, broken(row, "command")
	}
	env, err := models.OpenEnv(row.Env)
	if newer(err) {
		return nil, models.Env{}, models.Refuse(models.CodeRulesNewer, models.D("what", "env"), models.D("seq", row.Seq))
	}
	if err != nil {
		return nil, models.Env{}, broken(row, "env")
	}
	if env.At != row.At || env.Actor != row.Actor {
		return nil, models.Env{}, broken(row, "env")
	}
	return c, env, nil
}
