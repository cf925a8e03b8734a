package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/forge-continuity/forge/adapters/postgres"
)

// sizesShown is a contract (docs/CLI.md).
type sizesShown struct {
	Content  int64 `json:"content_bytes"`
	Journal  int64 `json:"journal_bytes"`
	Other    int64 `json:"other_bytes"`
	Receipts int64 `json:"receipt_bytes"`
	Rows     int64 `json:"rows"`
}

func dbSizeCommand() *cobra.Command {
	var url string
	var asJSON bool
	c := &cobra.Command{
		Use: "size --database-url URL", Short: "Show what a PostgreSQL database holds, and how much a row costs",
		Long:    "Size reads how many rows the journals have and what the tables take on disk, with their indexes. It changes nothing.",
		Example: "  forge db size --database-url postgres://forge@db/forge", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if url == "" {
				return misuse("name a database: --database-url URL")
			}
			s, err := postgres.MeasureSizes(c.Context(), url)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), sizesShown{s.Content, s.Journal, s.Other, s.Receipts, s.Rows})
			}
			each := func(bytes int64) string {
				return fmt.Sprintf("%d KiB, %d bytes a row", bytes>>10, bytes/max(s.Rows, 1))
			}
			table(c.OutOrStdout(), [2]string{"rows", fmt.Sprint(s.Rows)}, [2]string{"journal", each(s.Journal)}, [2]string{"receipts", each(s.Receipts)},
				[2]string{"content", each(s.Content)}, [2]string{"other", each(s.Other)})
			return nil
		},
	}
	c.Flags().StringVar(&url, "database-url", "", "PostgreSQL database; a password belongs into PGPASSWORD or a pgpass file")
	jsonFlag(c, &asJSON)
	return c
}
