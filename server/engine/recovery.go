package engine

import (
	"context"
	"errors"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
)

// costly reports whether a command is decided on rows folded again, and so is prepared before its transaction.
func costly(c models.Command) bool {
	_, recovers := recovery(c)
	_, admits := c.(models.RequestContinuity)
	_, waives := c.(models.WaiveCredential)
	return admits || recovers || waives
}

// recovery is the request that a recovery names, and whether the command is one.
func recovery(c models.Command) (requestID string, ok bool) {
	switch c := c.(type) {
	case models.RecoverNeverClaimed:
		return c.RequestID, true
	case models.RecoverRefusedBoundary:
		return c.RequestID, true
	case models.RecoverReadonlyObservation:
		return c.RequestID, true
	}
	return "", false
}

// prepare does the costly steps of a command: a recount always, then what its kind needs. reads is as in rebuild.
func (e *Engine) prepare(ctx context.Context, factory string, v view, c models.Command, reads bool) (rebuilt, error) {
	if c, ok := c.(models.WaiveCredential); ok {
		return e.waiving(ctx, factory, v, c)
	}
	requestID, recovers := recovery(c)
	if !recovers {
		return e.rebuild(ctx, factory, v, reads)
	}
	recount, err := e.recount(ctx, factory, v)
	if err != nil {
		return rebuilt{}, err
	}
	history, err := e.history(ctx, factory, v, requestID)
	built := rebuilt{recount: recount, history: &history}
	if c, ok := c.(models.RecoverRefusedBoundary); ok && err == nil {
		err = e.boundary(ctx, factory, v, c, &built, reads)
	}
	if _, ok := c.(models.RecoverReadonlyObservation); ok && err == nil {
		built.reconstruction, built.blobs, err = e.sealed(ctx, factory, v, reads).observe(ctx)
		err = e.outcome(err)
	}
	return built, err
}

// fill hands what was prepared to the decision.
func (b rebuilt) fill(env *models.Env) {
	env.Screening = b.screening
	env.Reconstruction, env.Recount, env.History, env.Reproduction, env.Reports = b.reconstruction, &b.recount, b.history, b.reproduction, b.reports
}

// history reads what the rows say of a request, and whether the checkpoint to start from is still kept as named.
func (e *Engine) history(ctx context.Context, factory string, v view, requestID string) (models.TicketHistory, error) {
	var failed error
	h := kernel.HistoryOf(e.scan(ctx, factory, v.run.Run, v.state.Head.Seq, &failed), requestID)
	if failed != nil {
		return h, failed
	}
	data, err := e.store.Blob(ctx, factory, v.run.Run, v.state.Custody.Checkpoint)
	switch {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return h, e.outcome(err)
	default:
		h.Checkpoint = models.SaltedBlob(v.run.Salt, data)
	}
	return h, nil
}

// RecoveryCandidate computes what a recovery of the request could queue again now. It reads and writes nothing else, and
// names who looked.
func (e *Engine) RecoveryCandidate(ctx context.Context, caller Caller, run, requestID string) (models.RecoveryCandidate, error) {
	v, err := e.reviewing(ctx, caller, run)
	if err != nil {
		return models.RecoveryCandidate{}, err
	}
	c := models.RecoverNeverClaimed{RequestID: requestID}
	built, err := e.prepare(ctx, caller.Factory, v, c, true)
	if err != nil {
		return models.RecoveryCandidate{}, err
	}
	env := e.env(caller, v.factory, v.state, c, v.now, v.lease, models.SavedNone)
	built.fill(&env)
	candidate, refusal := kernel.RecoveryCandidate(v.state, requestID, env)
	if refusal != nil {
		return candidate, refusal
	}
	return candidate, nil
}

// reviewing is the run as a person with execution and administrator authority may review it.
func (e *Engine) reviewing(ctx context.Context, caller Caller, run string) (view, error) {
	for _, role := range []string{models.RoleOperator, models.RoleAdministrator} {
		if _, err := e.Factory(ctx, caller, role); err != nil {
			return view{}, err
		}
	}
	v, err := e.view(ctx, caller, run)
	if err != nil {
		return v, err
	}
	if v.state.Registered.IsZero() {
		return v, models.Refuse(models.CodeNotFound)
	}
	e.access(ctx, caller, run, "recovery candidate")
	return v, nil
}

// Recovery returns the saved receipt of the request's one recovery of that workflow.
func (e *Engine) Recovery(ctx context.Context, caller Caller, run, requestID, workflow string) (Receipt, error) {
	if _, err := e.Factory(ctx, caller, models.RoleOperator); err != nil {
		return Receipt{}, err
	}
	v, err := e.view(ctx, caller, run)
	if err != nil {
		return Receipt{}, err
	}
	t, ok := v.state.Tickets.Find(requestID)
	id := ""
	if ok {
		id = t.Recovery(workflow)
	}
	if id == "" {
		return Receipt{}, models.Refuse(models.CodeNotFound)
	}
	r, err := e.store.Receipt(ctx, Key{Factory: caller.Factory, Space: SpaceRecovery, ID: id})
	return r, e.outcome(err)
}
