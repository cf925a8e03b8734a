package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"

	"github.com/spf13/cobra"

	"github.com/forge-continuity/forge/adapters/agentic"
	"github.com/forge-continuity/forge/adapters/agentic/catalogue"
	"github.com/forge-continuity/forge/adapters/postgres"
	"github.com/forge-continuity/forge/adapters/sealed"
	"github.com/forge-continuity/forge/adapters/secrets"
	"github.com/forge-continuity/forge/adapters/sqlite"
	"github.com/forge-continuity/forge/sandbox/module"
	"github.com/forge-continuity/forge/server/api"
	"github.com/forge-continuity/forge/server/engine"
)

// storeFlags say where the journal is: one file, or a PostgreSQL database.
type storeFlags struct {
	file string
	url  string
}

func (s *storeFlags) flags(c *cobra.Command) {
	c.Flags().StringVar(&s.file, "store", "", "SQLite file, for trials on one machine; made if it is not there")
	c.Flags().StringVar(&s.url, "database-url", "", "PostgreSQL database; a password belongs into PGPASSWORD or a pgpass file")
}

func (s *storeFlags) open(ctx context.Context) (engine.Store, error) {
	switch {
	case (s.file == "") == (s.url == ""):
		return nil, misuse("name a store: --store FILE or --database-url URL")
	case s.file != "":
		return sqlite.Open(ctx, s.file)
	}
	return postgres.Open(ctx, s.url)
}

// warn says under which settings of its database the store may lose what it acknowledged.
func warn(ctx context.Context, w io.Writer, store engine.Store) error {
	s, ok := store.(interface {
		Risks(context.Context) ([]string, error)
	})
	if !ok {
		return nil
	}
	risks, err := s.Risks(ctx)
	for _, risk := range risks {
		fmt.Fprintf(w, "forge: warning: %s\n", risk)
	}
	return err
}

// composition is everything behind one server.
type composition struct {
	store    engine.Store
	sandbox  *sealed.Sandbox
	engine   *engine.Engine
	api      *api.Server
	screener *secrets.Screener
}

// compose takes over the store, which close closes. The store keeps the guest module, so that what was admitted with it can
// be checked after an upgrade.
func compose(ctx context.Context, store engine.Store, cache string, log *slog.Logger) (*composition, error) {
	// A validator without the recorded run of its own class does not load.
	if _, err := agentic.OpenCatalogue(catalogue.Bytes(), catalogue.File); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	sandbox, err := sealed.Open(ctx, cache)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	c := &composition{store: store, sandbox: sandbox}
	wasm, err := module.Wasm()
	if err == nil {
		err = store.PutModule(ctx, sandbox.Module(), wasm)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("keep the guest module: %w", err), c.close())
	}
	screener, err := secrets.New()
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	c.screener = screener
	c.engine = engine.New(store, sandbox, build(), log).Screens(screener)
	c.api = api.New(c.engine, log, api.Options{})
	return c, nil
}

func (c *composition) close() error {
	return errors.Join(c.sandbox.Close(context.Background()), c.store.Close())
}

// listen opens the address, and says whether others than this machine can reach it.
func listen(ctx context.Context, address string) (ln net.Listener, loopback bool, err error) {
	var config net.ListenConfig
	if ln, err = config.Listen(ctx, "tcp", address); err != nil {
		return nil, false, err
	}
	tcp, ok := ln.Addr().(*net.TCPAddr)
	return ln, ok && tcp.IP.IsLoopback(), nil
}
