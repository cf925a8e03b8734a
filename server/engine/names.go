package engine

import (
	"context"
	"errors"

	"github.com/forge-continuity/forge/models"
)

// PutName sets the label of a principal, for an administrator of the factory. Labels stand in no journal.
func (e *Engine) PutName(ctx context.Context, caller Caller, principal, name string) error {
	if _, err := e.Factory(ctx, caller, models.RoleAdministrator); err != nil {
		return err
	}
	return e.outcome(e.store.PutName(ctx, caller.Factory, principal, name))
}

// Name returns the label of a principal of the caller's factory, "" where it has none.
func (e *Engine) Name(ctx context.Context, caller Caller, principal string) (string, error) {
	name, err := e.store.Name(ctx, caller.Factory, principal)
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	return name, e.outcome(err)
}
