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
	var once, list bool
	var name string
	var o demoOptions
	c := &cobra.Command{
		Use: "demo", Short: "Tell the whole story on this machine, with a recorded run",
		Long: `Demo starts a real server on a loopback port with an embedded store in a temporary folder, loads a recorded run that stopped,
and continues it: candidate, admission, claim, next model turn, completion, offline verification. The model provider is a
scripted stub and the worker is written in Go; both are parts of this demo and say so. Nothing leaves this machine.

Afterwards the server stays up for you to look around; Ctrl-C ends it and removes the folder.

--list shows the chapters: the story above, and one for each other way on. --chapter tells one of them and ends.

With --database-url it is told on PostgreSQL, in a schema of its own that is dropped at the end; the database's name ends in _test.`,
		Example: "  forge demo --once\n  forge demo --list\n  forge demo --chapter refused-boundary\n  forge demo --once --database-url postgres://forge@127.0.0.1/forge_test", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if list {
				for _, ch := range chapters {
					fmt.Fprintf(c.OutOrStdout(), "%-18s  %s\n%-18s  input: %s\n", ch.name, ch.about, "", ch.input)
				}
				return nil
			}
			told, err := chapterNamed(name)
			if err != nil {
				return err
			}
			o.once = once || name != ""
			err = demo(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), o, told)
			if errors.Is(err, context.Canceled) && c.Context().Err() != nil {
				fmt.Fprintln(c.ErrOrStderr(), "forge: the demo was ended before its story did")
			}
			return err
		},
	}
	c.Flags().BoolVar(&once, "once", false, "end when the story is told")
	c.Flags().BoolVar(&list, "list", false, "show the chapters and end")
	c.Flags().StringVar(&name, "chapter", "", "tell this chapter and end")
	c.Flags().StringVar(&o.address, "listen", "127.0.0.1:0", "address of the demo's server")
	c.Flags().StringVar(&o.keep, "export", "", "keep the continued run's export file here")
	c.Flags().StringVar(&o.database, "database-url", "", "PostgreSQL database whose name ends in _test, in place of the embedded store")
	return c
}

type demoOptions struct {
	address, keep, database string
	once                    bool
}

// scene is a composition that serves, on a store that it owns, with a scripted provider.
type scene struct {
	comp      *composition
	base      string
	served    chan error
	stub      *provider.Server
	stubBase  string
	closeStub func()
}

// openScene takes over the store. The caller closes the scene.
func openScene(ctx context.Context, store engine.Store, address string, log *slog.Logger) (*scene, error) {
	comp, err := compose(ctx, store, cacheDir(""), log)
	if err != nil {
		return nil, err
	}
	ln, _, err := listen(ctx, address)
	if err != nil {
		return nil, errors.Join(err, comp.close())
	}
	s := &scene{comp: comp, base: "http://" + ln.Addr().String(), served: make(chan error, 1)}
	go func() { s.served <- comp.api.Serve(ln) }()
	if s.stub, s.stubBase, s.closeStub, err = startStub(ctx); err != nil {
		return nil, errors.Join(err, stop(comp, s.served), comp.close())
	}
	return s, nil
}

func (s *scene) close() error {
	s.closeStub()
	return errors.Join(stop(s.comp, s.served), s.comp.close())
}

// demo sets the stage, tells the chapter and clears up. Its own checks make it fail where the story would not be true.
func demo(ctx context.Context, stdout, stderr io.Writer, o demoOptions, told chapter) (err error) {
	dir, err := os.MkdirTemp("", "forge-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	open := func() (engine.Store, error) { return sqlite.Open(ctx, filepath.Join(dir, "forge.db")) }
	where := fmt.Sprintf("a new SQLite file in %s, removed at the end", dir)
	if o.database != "" {
		var remove func() error
		if open, remove, err = scratchStore(ctx, storeFlags{url: o.database}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, remove()) }()
		where = "a new schema in the PostgreSQL database, dropped at the end"
	}
	store, err := open()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	sc, err := openScene(ctx, store, o.address, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sc.close()) }()
	people, err := demoPeople(ctx, sc.comp.engine, demoFactory, sc.base)
	if err != nil {
		return err
	}
	s := &story{out: stdout, dir: dir, store: where, told: told, base: sc.base, people: people, comp: sc.comp, stub: sc.stub, stubBase: sc.stubBase, keep: o.keep}
	if err := told.tell(s, ctx); err != nil {
		return fmt.Errorf("the demo stopped: %w", err)
	}
	if o.once {
		return nil
	}
	s.stay()
	select {
	case err := <-sc.served:
		sc.served <- err // for stop
		return fmt.Errorf("the demo's server ended: %w", err)
	case <-ctx.Done():
	}
	fmt.Fprintln(stderr, "forge: draining")
	return nil
}

// demoPeople makes the fixture factory and its principals. Making the factory is the one step that does not go through the
// API: nobody has a token before.
func demoPeople(ctx context.Context, e *engine.Engine, factory, base string) (load.People, error) {
	caller := engine.Caller{Factory: factory, Principal: load.Administrator}
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
