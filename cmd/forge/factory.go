package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/forge-continuity/forge/adapters/agentic/catalogue"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/sandbox/module"
	"github.com/forge-continuity/forge/server/engine"
)

// maxLifetime is the longest life of a token, the API's own bound.
const maxLifetime = 366 * 24 * time.Hour

func factoryCommand() *cobra.Command {
	c := &cobra.Command{Use: "factory", Short: "Make a factory in a store", Args: noArgs, RunE: showHelp}
	c.AddCommand(factoryCreateCommand(), factoryTokenCommand())
	return c
}

func factoryCreateCommand() *cobra.Command {
	var store storeFlags
	var administrator string
	var fixture bool
	var lifetime time.Duration
	c := &cobra.Command{
		Use: "create ID --administrator ID", Short: "Make a factory and its first administrator",
		Long: `Create works on the store itself, without a server, since nobody can have a token yet. It prints a token of the first
administrator, this once. A fixture factory takes fixture profiles and never holds retained work; that cannot be changed later.`,
		Example: "  forge factory create acme --administrator ada --store forge.db > ada.token", Args: exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			return withStore(c.Context(), store, lifetime, func(ctx context.Context, e *engine.Engine) error {
				if administrator == "" {
					return misuse("--administrator is missing")
				}
				caller := engine.Caller{Factory: args[0], Principal: administrator}
				answer, err := e.DoFactory(ctx, caller, "create", models.CreateFactory{Fixture: fixture})
				if err != nil {
					return err
				}
				if answer.Repeat {
					return hint(models.Refuse(models.CodeRequestConflict, models.D("factory", args[0])),
						"it exists already; forge factory token makes another token for it")
				}
				return issue(ctx, c.OutOrStdout(), c.ErrOrStderr(), e, caller, lifetime)
			})
		},
	}
	store.flags(c)
	c.Flags().StringVar(&administrator, "administrator", "", "id of the first administrator")
	c.Flags().BoolVar(&fixture, "fixture", false, "for fixtures only, never for retained work")
	c.Flags().DurationVar(&lifetime, "lifetime", 30*24*time.Hour, "how long the token is valid")
	return c
}

func factoryTokenCommand() *cobra.Command {
	var store storeFlags
	var principal string
	var lifetime time.Duration
	c := &cobra.Command{
		Use: "token ID --principal ID", Short: "Make a token without one, for whoever holds the store",
		Long: `Token makes a token for a principal of a factory on the store itself: the way back in when every administrator's token
is lost. Whoever can open the store can do this.`,
		Example: "  forge factory token acme --principal ada --store forge.db > ada.token", Args: exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			return withStore(c.Context(), store, lifetime, func(ctx context.Context, e *engine.Engine) error {
				caller := engine.Caller{Factory: args[0], Principal: principal}
				f, err := e.Factory(ctx, caller, engine.Anyone...)
				if err != nil {
					return err
				}
				if _, ok := f.Principal(principal); !ok {
					return models.Refuse(models.CodeNotFound, models.D("principal", principal))
				}
				return issue(ctx, c.OutOrStdout(), c.ErrOrStderr(), e, caller, lifetime)
			})
		},
	}
	store.flags(c)
	c.Flags().StringVar(&principal, "principal", "", "whose token it is")
	c.Flags().DurationVar(&lifetime, "lifetime", 24*time.Hour, "how long the token is valid")
	return c
}

func issue(ctx context.Context, stdout, stderr io.Writer, e *engine.Engine, caller engine.Caller, lifetime time.Duration) error {
	secret, id, err := e.IssueToken(ctx, caller.Factory, caller.Principal, models.Seconds(lifetime/time.Second))
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "forge: token %s of %s in factory %s, shown this once\n", id, caller.Principal, caller.Factory)
	_, err = fmt.Fprintln(stdout, secret)
	return err
}

// withStore gives f an engine that reconstructs nothing: making a factory and a token needs no sandbox.
func withStore(ctx context.Context, s storeFlags, lifetime time.Duration, f func(context.Context, *engine.Engine) error) error {
	if lifetime < time.Second || lifetime%time.Second != 0 || lifetime > maxLifetime {
		return misuse("--lifetime takes whole seconds up to 366 days, such as 720h")
	}
	store, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	return f(ctx, engine.New(store, identity{}, build(), slog.New(slog.DiscardHandler)))
}

// identity names the installed migration code and runs none of it.
type identity struct{}

func (identity) Call(context.Context, string, []engine.Frame, any) (engine.Sealed, error) {
	return engine.Sealed{}, models.Refuse(models.CodeUnavailable)
}
func (identity) Module() models.Digest              { return module.Digest() }
func (identity) Catalogue() ([]byte, models.Digest) { return catalogue.Bytes(), catalogue.Digest() }
