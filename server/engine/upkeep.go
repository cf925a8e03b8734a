package engine

import (
	"context"
	"fmt"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
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

// ScheduleVerifications lets automatic verification enter every run that it is due for, under an id of its round, and returns how
// many it queued and how many it was refused: a typed refusal is recorded in the run and takes it off for good (BOUND-11, BOUND-12). A
// run that moved on in between is left for the next time, and so is one that this build cannot read.
func (e *Engine) ScheduleVerifications(ctx context.Context) (queued, refused int, err error) {
	err = e.factories(ctx, func(factory string) error {
		caller := Caller{Factory: factory, Principal: models.ServerActor}
		for after := ""; ; {
			due, err := e.store.Verifiable(ctx, factory, after, pageWaiting)
			if err != nil || len(due) == 0 {
				return err
			}
			for _, run := range due {
				state, err := e.verify(ctx, caller, run)
				switch r, said := IsRefusal(err); {
				case err == nil && state == models.VerificationStateRefused:
					refused++
				case err == nil && state != "":
					queued++
				case err == nil, said && r.Code != models.CodeUnavailable:
				default:
					return err
				}
				if r, said := IsRefusal(err); said && r.Code != models.CodeClaimLive && r.Code != models.CodeVerificationNotDue {
					e.log.WarnContext(ctx, "verification not scheduled", "factory", factory, "run", run, "code", string(r.Code))
				}
			}
			after = due[len(due)-1]
		}
	})
	return queued, refused, err
}

// verify enters the verification of the run's newest round; state is "" where this round was entered before.
func (e *Engine) verify(ctx context.Context, caller Caller, run string) (state string, err error) {
	v, err := e.view(ctx, caller, run)
	if err != nil {
		return "", err
	}
	a, err := e.Do(ctx, caller, run, fmt.Sprintf("verification-%d", v.state.Rounds), models.AdmitVerification{Round: v.state.Rounds})
	if err != nil || a.Repeat {
		return "", err
	}
	var r models.VerificationReceipt
	if err := canon.Unmarshal(a.Body, &r); err != nil {
		return "", fmt.Errorf("receipt of a verification: %w", err)
	}
	return r.State, nil
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
