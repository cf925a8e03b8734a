package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/forge-continuity/forge/adapters/sqlite"
	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/fixtures/provider"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

const demoFactory = "demo"

func demoCommand() *cobra.Command {
	var once bool
	var address, keep string
	c := &cobra.Command{
		Use: "demo", Short: "Tell the whole story on this machine, with a recorded run",
		Long: `Demo starts a real server on a loopback port with an embedded store in a temporary folder, loads a recorded run that stopped,
and continues it: candidate, admission, claim, next model turn, completion, offline verification. The model provider is a
scripted stub and the worker is written in Go; both are parts of this demo and say so. Nothing leaves this machine.

Afterwards the server stays up for you to look around; Ctrl-C ends it and removes the folder.`,
		Example: "  forge demo --once", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			err := demo(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), address, keep, once)
			if errors.Is(err, context.Canceled) && c.Context().Err() != nil {
				fmt.Fprintln(c.ErrOrStderr(), "forge: the demo was ended before its story did")
			}
			return err
		},
	}
	c.Flags().BoolVar(&once, "once", false, "end when the story is told")
	c.Flags().StringVar(&address, "listen", "127.0.0.1:0", "address of the demo's server")
	c.Flags().StringVar(&keep, "export", "", "keep the continued run's export file here")
	return c
}

// demo sets the stage, tells the story and clears up. Its own checks make it fail where the story would not be true.
func demo(ctx context.Context, stdout, stderr io.Writer, address, keep string, once bool) (err error) {
	dir, err := os.MkdirTemp("", "forge-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	store, err := sqlite.Open(ctx, filepath.Join(dir, "forge.db"))
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	comp, err := compose(ctx, store, cacheDir(""), log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, comp.close()) }()
	ln, _, err := listen(ctx, address)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- comp.api.Serve(ln) }()
	defer func() { err = errors.Join(err, stop(comp, served)) }()
	base := "http://" + ln.Addr().String()

	stub, stubBase, closeStub, err := startStub(ctx)
	if err != nil {
		return err
	}
	defer closeStub()

	people, err := demoPeople(ctx, comp.engine, base)
	if err != nil {
		return err
	}
	s := &story{out: stdout, dir: dir, base: base, people: people, comp: comp, stub: stub, stubBase: stubBase, keep: keep}
	if err := s.tell(ctx); err != nil {
		return fmt.Errorf("the demo stopped: %w", err)
	}
	if once {
		return nil
	}
	s.stay()
	select {
	case err := <-served:
		served <- err // for stop
		return fmt.Errorf("the demo's server ended: %w", err)
	case <-ctx.Done():
	}
	fmt.Fprintln(stderr, "forge: draining")
	return nil
}

// demoPeople makes the fixture factory and its principals. Making the factory is the one step that does not go through the
// API: nobody has a token before.
func demoPeople(ctx context.Context, e *engine.Engine, base string) (load.People, error) {
	caller := engine.Caller{Factory: demoFactory, Principal: load.Administrator}
	if _, err := e.DoFactory(ctx, caller, "create", models.CreateFactory{Fixture: true}); err != nil {
		return load.People{}, err
	}
	secret, _, err := e.IssueToken(ctx, caller.Factory, caller.Principal, 86400)
	if err != nil {
		return load.People{}, err
	}
	admin, err := forge.New(base, secret, nil)
	if err != nil {
		return load.People{}, err
	}
	return load.Staff(ctx, admin)
}

// startStub serves the scripted provider on a loopback port.
func startStub(ctx context.Context) (stub *provider.Server, base string, end func(), err error) {
	var config net.ListenConfig
	ln, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", nil, err
	}
	stub = provider.New(provider.Held())
	server := &http.Server{Handler: stub, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(ln) }()
	return stub, "http://" + ln.Addr().String(), func() { _ = server.Close() }, nil
}
