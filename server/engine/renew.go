package engine

import (
	"context"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
)

// Renew lengthens the caller's ordinary lease under the claim and returns its new expiry. It changes the lease row only: no
// row of the journal, no receipt. Repeating it is harmless, for no renewal shortens a lease.
func (e *Engine) Renew(ctx context.Context, caller Caller, run, claim string, fence int64, seconds models.Seconds) (models.Instant, error) {
	return mending(ctx, e, func() (models.Instant, error) { return e.renew(ctx, caller, run, claim, fence, seconds) })
}

func (e *Engine) renew(ctx context.Context, caller Caller, run, claim string, fence int64, seconds models.Seconds) (models.Instant, error) {
	var end models.Instant
	err := e.store.Append(ctx, Locks{Factory: caller.Factory, Run: run}, func(l Loaded) (*Write, error) {
		f, s, err := decode(caller.Factory, run, l.Factory, l.Run)
		if err != nil {
			return nil, err
		}
		env := e.env(caller, f, s, models.ClaimRun{}, l.Now, l.Lease, models.SavedNone)
		if refusal := steady(&env, max(l.Run.At, l.Factory.At)); refusal != nil {
			return nil, refusal
		}
		var refusal *models.Refusal
		if end, refusal = kernel.Renew(s, fence, seconds, env); refusal != nil {
			return nil, refusal
		}
		if s.Lease.ClaimID != claim {
			return nil, models.Refuse(models.CodeFenceLost, models.D("fence", fence), models.D("current", s.Lease.Fence))
		}
		w := &Write{}
		w.stand(s, end)
		return w, nil
	})
	return end, e.outcome(err)
}
