package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
)

// drainTime is how long a stopping server waits for the requests in hand. A poll for work ends at once, and the longest
// reconstruction is well below.
const drainTime = 30 * time.Second

// previewText is shown where a server starts (PREVIEW-04).
const previewText = `PRIVATE PREVIEW: continuing held runs is a private preview. Do not use it on retained work before the PostgreSQL and
controller qualifications of this installation have passed; without them nothing is admitted.`

func serveCommand() *cobra.Command {
	var store storeFlags
	var address, cache string
	c := &cobra.Command{
		Use: "serve --store FILE | --database-url URL", Short: "Run the server",
		Long: `Serve answers the API until it gets SIGINT or SIGTERM. Then it stops announcing work, waits up to 30 s for the requests in
hand, and ends. Any number of servers may share one PostgreSQL database; a SQLite file belongs to one. It speaks plain HTTP:
put it behind a proxy that ends TLS before others than this machine may reach it.

Make a factory first, with forge factory create.`,
		Example: "  forge serve --store forge.db\n  PGPASSWORD=... forge serve --database-url postgres://forge@db/forge --listen 127.0.0.1:8740", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx := c.Context()
			opened, err := store.open(ctx)
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil))
			comp, err := compose(ctx, opened, cacheDir(cache), log)
			if err != nil {
				return err
			}
			defer comp.close()
			if err := comp.starts(ctx, log); err != nil {
				return err
			}
			ln, loopback, err := listen(ctx, address)
			if err != nil {
				return err
			}
			host := comp.engine.Host()
			fmt.Fprintf(c.ErrOrStderr(), "forge %s\n%s\nstore %s %d, rules %d, guest module %s, catalogue %s\n", host.Build, previewText,
				host.Store, host.StoreMajor, host.Rules, short(host.Module), short(host.Catalogue))
			if err := warn(ctx, c.ErrOrStderr(), opened); err != nil {
				return err
			}
			if !loopback {
				fmt.Fprintln(c.ErrOrStderr(), "forge: warning: this address can be reached from other machines, and tokens travel in clear text")
			}
			fmt.Fprintf(c.OutOrStdout(), "listening on http://%s\n", ln.Addr())
			served := make(chan error, 1)
			go func() { served <- comp.api.Serve(ln) }()
			go comp.sweeps(ctx, log)
			go comp.verifies(ctx, log)
			select {
			case err := <-served:
				return err
			case <-ctx.Done():
			}
			fmt.Fprintln(c.ErrOrStderr(), "forge: draining")
			return stop(comp, served)
		},
	}
	store.flags(c)
	c.Flags().StringVar(&address, "listen", defaultListen, "address to listen on")
	cacheFlag(c, &cache)
	return c
}

// starts notes this start in every run that has an outstanding ticket (NOCLAIM-06).
func (c *composition) starts(ctx context.Context, log *slog.Logger) error {
	var raw [8]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return err
	}
	boot := hex.EncodeToString(raw[:])
	n, err := c.engine.AnnotateStartup(ctx, boot)
	if err != nil {
		return fmt.Errorf("note this start in runs with an outstanding ticket: %w", err)
	}
	log.InfoContext(ctx, "started", "boot", boot, "outstanding", n)
	return nil
}

// sweepEvery is how often a server removes uploads that no row names.
const sweepEvery = 10 * time.Minute

func (c *composition) sweeps(ctx context.Context, log *slog.Logger) {
	for tick := time.NewTicker(sweepEvery); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if n, err := c.engine.Sweep(ctx); err != nil && ctx.Err() == nil {
			log.ErrorContext(ctx, "sweep failed", "error", err.Error())
		} else if n > 0 {
			log.InfoContext(ctx, "swept", "blobs", n)
		}
	}
}

// verifyEvery is how often a server looks for rounds that automatic verification is to enter.
const verifyEvery = 5 * time.Second

func (c *composition) verifies(ctx context.Context, log *slog.Logger) {
	for tick := time.NewTicker(verifyEvery); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		queued, refused, err := c.engine.ScheduleVerifications(ctx)
		if err != nil && ctx.Err() == nil {
			log.ErrorContext(ctx, "scheduling verifications failed", "error", err.Error())
		} else if queued+refused > 0 {
			log.InfoContext(ctx, "verifications", "queued", queued, "refused", refused)
		}
	}
}

// stop drains a server and waits for its listener to end.
func stop(c *composition, served <-chan error) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	return errors.Join(c.api.Shutdown(ctx), <-served)
}
