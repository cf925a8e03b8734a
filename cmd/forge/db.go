package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/forge-continuity/forge/adapters/postgres"
	"github.com/forge-continuity/forge/adapters/sqlite"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

func dbCommand() *cobra.Command {
	c := &cobra.Command{Use: "db", Short: "Look after a store", Args: noArgs, RunE: showHelp}
	c.AddCommand(dbMigrateCommand(), dbStatusCommand(), dbDoctorCommand(), dbSweepCommand(), dbSizeCommand())
	return c
}

// versions returns the version of the store's tables, 0 for none, and the one that this build makes. It changes nothing.
func (s *storeFlags) versions(ctx context.Context) (have, want int64, err error) {
	switch {
	case (s.file == "") == (s.url == ""):
		return 0, 0, misuse("name a store: --store FILE or --database-url URL")
	case s.file != "":
		return sqlite.Versions(ctx, s.file)
	}
	return postgres.Versions(ctx, s.url)
}

// versionsShown is a contract (docs/CLI.md).
type versionsShown struct {
	Have int64 `json:"have"`
	Want int64 `json:"want"`
}

func dbStatusCommand() *cobra.Command {
	var store storeFlags
	var asJSON bool
	c := &cobra.Command{
		Use: "status --store FILE | --database-url URL", Short: "Show whether the tables of a store are those of this build",
		Long:    "Status changes nothing. It exits with 1 where the tables are not those of this build.",
		Example: "  forge db status --store forge.db", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			have, want, err := store.versions(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(c.OutOrStdout(), versionsShown{have, want})
			} else {
				table(c.OutOrStdout(), [2]string{"tables", fmt.Sprintf("version %d", have)}, [2]string{"this build", fmt.Sprintf("version %d", want)})
			}
			switch {
			case err != nil:
				return err
			case have < want:
				return hint(errors.New("the tables are older than this build"), "forge db migrate brings them up to date; a server that starts does so too")
			case have > want:
				return hint(errors.New("the tables are newer than this build"), "use the release that made them, or a newer one")
			}
			return nil
		},
	}
	store.flags(c)
	jsonFlag(c, &asJSON)
	return c
}

func dbMigrateCommand() *cobra.Command {
	var store storeFlags
	c := &cobra.Command{
		Use: "migrate --store FILE | --database-url URL", Short: "Bring the tables of a store up to date",
		Long:    "Migrate makes the tables, or brings them up to date, each step whole or not at all. Where they are newer than this build it refuses.",
		Example: "  forge db migrate --database-url postgres://forge@db/forge", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			opened, err := store.open(c.Context())
			if err != nil {
				return err
			}
			if err := opened.Close(); err != nil {
				return err
			}
			have, _, err := store.versions(c.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "tables are of version %d\n", have)
			return err
		},
	}
	store.flags(c)
	return c
}

// found is a contract (docs/CLI.md).
type found struct {
	Blobs   int64  `json:"blobs"`
	Erased  int64  `json:"blobs_erased"`
	Factory string `json:"factory"`
	Fault   string `json:"fault"`
	Rows    int64  `json:"rows"`
	Run     string `json:"run"`
}

func dbDoctorCommand() *cobra.Command {
	var store storeFlags
	var asJSON bool
	c := &cobra.Command{
		Use: "doctor --store FILE | --database-url URL", Short: "Check that everything in a store holds",
		Long: `Doctor reads every factory and run and checks each as forge verify would, and beside that what the store keeps for speed:
the cached state and the note of an outstanding ticket. It changes nothing and exits with 3 where something does not hold. A setting of
PostgreSQL under which acknowledged commands may be lost is a warning.`,
		Example: "  forge db doctor --store forge.db", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			opened, err := store.open(c.Context())
			if err != nil {
				return err
			}
			defer opened.Close()
			if err := warn(c.Context(), c.ErrOrStderr(), opened); err != nil {
				return err
			}
			e := engine.New(opened, identity{}, build(), slog.New(slog.DiscardHandler))
			var runs, faults int
			var failed error
			err = e.Doctor(c.Context(), func(f engine.Finding) {
				line := found{Blobs: f.Blobs, Erased: f.Erased, Factory: f.Factory, Rows: f.Rows, Run: f.Run}
				if f.Run != "" {
					runs++
				}
				if f.Fault != nil {
					faults++
					line.Fault = f.Fault.Error()
				}
				switch {
				case failed != nil:
				case asJSON:
					failed = printJSON(c.OutOrStdout(), line)
				case f.Fault != nil:
					_, failed = fmt.Fprintf(c.OutOrStdout(), "factory %s run %s: %s\n", f.Factory, orNone(f.Run), oneLine(line.Fault))
				}
			})
			if err := errors.Join(err, failed); err != nil {
				return err
			}
			if faults > 0 {
				return models.Refuse(models.CodeJournalBroken, models.D("faults", faults), models.D("runs", runs))
			}
			if !asJSON {
				_, err = fmt.Fprintf(c.OutOrStdout(), "%d %s examined, all of it holds\n", runs, plural(runs, "run"))
			}
			return err
		},
	}
	store.flags(c)
	jsonFlag(c, &asJSON)
	return c
}

func dbSweepCommand() *cobra.Command {
	var store storeFlags
	c := &cobra.Command{
		Use: "sweep --store FILE | --database-url URL", Short: "Remove uploads that no row came to name",
		Long:    "Sweep removes content that was uploaded more than an hour ago and that no row names. A server does so every ten minutes.",
		Example: "  forge db sweep --store forge.db", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			opened, err := store.open(c.Context())
			if err != nil {
				return err
			}
			defer opened.Close()
			n, err := engine.New(opened, identity{}, build(), slog.New(slog.DiscardHandler)).Sweep(c.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%d %s removed\n", n, plural(int(n), "upload"))
			return err
		},
	}
	store.flags(c)
	return c
}
