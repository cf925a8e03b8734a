package engine

import (
	"context"

	"github.com/forge-continuity/forge/models"
)

const (
	// pageWaiting is how many factories, or runs, one step of the upkeep reads.
	pageWaiting = 500
	// SweepAge is how old an upload must be before a sweep may take it: far longer than a worker needs from an upload to the
	// batch that names it, and a batch that comes later is told which blobs are missing (design, The journal).
	SweepAge models.Seconds = 3600
)

// AnnotateStartup records this start of the server in every run that has an outstanding ticket, once for each boot id, and
// returns in how many it did (NOCLAIM-06, rules O34). A run whose ticket was settled in between is left alone, and so is one
// that this build cannot read; every other fault ends it, and the same boot id may be given again.
func (e *Engine) AnnotateStartup(ctx context.Context, boot string) (int, error) {
	noted := 0
	err := e.factories(ctx, func(factory string) error {
		caller := Caller{Factory: factory, Principal: models.ServerActor}
		for after := ""; ; {
			waiting, err := e.store.Outstanding(ctx, factory, after, pageWaiting)
			if err != nil || len(waiting) == 0 {
				return err
			}
			for _, w := range waiting {
				a, err := e.Do(ctx, caller, w.Run, "startup-"+boot, models.AnnotateStartup{Boot: boot})
				switch r, refused := IsRefusal(err); {
				case err == nil && !a.Repeat:
					noted++
				case err == nil, refused && r.Code == models.CodeNotFound:
				case refused && r.Code != models.CodeUnavailable:
					e.log.WarnContext(ctx, "startup not noted", "factory", factory, "run", w.Run, "code", string(r.Code))
				default:
					return err
				}
			}
			after = waiting[len(waiting)-1].Run
		}
	})
	return noted, err
}

// Sweep removes what was uploaded longer than SweepAge ago and no row names, in every factory, and returns how many blobs.
func (e *Engine) Sweep(ctx context.Context) (int64, error) {
	var removed int64
	err := e.factories(ctx, func(factory string) error {
		n, err := e.store.Sweep(ctx, factory, SweepAge)
		removed += n
		return err
	})
	return removed, err
}

func (e *Engine) factories(ctx context.Context, f func(string) error) error {
	for after := ""; ; {
		list, err := e.store.Factories(ctx, after, pageWaiting)
		if err != nil || len(list) == 0 {
			return e.outcome(err)
		}
		for _, factory := range list {
			if err := f(factory); err != nil {
				return e.outcome(err)
			}
		}
		after = list[len(list)-1]
	}
}

// PutEvidence keeps content that an operator found out about something unknown in the run, and returns its digest. It is
// the one upload without a fence, and only where something can be reconciled: nobody owns the run then.
func (e *Engine) PutEvidence(ctx context.Context, caller Caller, run string, data []byte) (models.Digest, error) {
	v, err := e.view(ctx, caller, run)
	if err != nil {
		return models.Digest{}, err
	}
	if r := may(v.factory, caller.Principal, models.RoleOperator); r != nil {
		return models.Digest{}, r
	}
	s := v.state
	switch t, ok := s.Tickets.Last(); {
	case s.Registered.IsZero():
		return models.Digest{}, models.Refuse(models.CodeNotFound)
	case s.Lease.Executing(v.now, v.lease):
		return models.Digest{}, models.Refuse(models.CodeClaimLive, models.D("expires_at", int64(v.lease)))
	case s.Custody.Known() && !(ok && t.Outstanding()):
		return models.Digest{}, models.Refuse(models.CodeNothingToReconcile)
	}
	b := Blob{Digest: models.SaltedBlob(v.run.Salt, data), Data: data}
	return b.Digest, e.outcome(e.store.PutBlob(ctx, caller.Factory, run, b, models.MaxRunBytes))
}
