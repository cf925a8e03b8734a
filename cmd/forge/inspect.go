package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/models"
)

// newest is the digest that was given, or that of the newest checkpoint that the run's rows name.
func newest(ctx context.Context, client *forge.Client, run, given string) (models.Digest, error) {
	if given != "" {
		d, err := models.ParseDigest(given)
		if err != nil {
			return d, misuse("--checkpoint: %v", err)
		}
		return d, nil
	}
	var rows []forge.Row
	for {
		page, err := client.Rows(ctx, run, int64(len(rows))+1, 1000)
		if err != nil {
			return models.Digest{}, err
		}
		if rows = append(rows, page...); len(page) < 1000 {
			return lastCheckpoint(rows)
		}
	}
}

func inspectCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	var checkpoint string
	c := &cobra.Command{
		Use: "inspect RUN", Short: "Show a kept checkpoint record as it is stored, checked and screened for credentials",
		Long: `Inspect writes a checkpoint record of a run to standard output, byte for byte as it is stored, once journal, row, digest, bounds, form
and counters were checked and its text was screened for credentials of a known form. Where a key is found it is refused, with rule
and place and never the value. Reading restores nothing and gives nothing that could be resumed.`,
		Example: "  forge inspect nightly-4711 > checkpoint.json", Args: exactly("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := conn.client()
			if err != nil {
				return err
			}
			digest, err := newest(c.Context(), client, args[0], checkpoint)
			if err != nil {
				return err
			}
			found, err := client.Inspect(c.Context(), args[0], digest)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), found)
			}
			fmt.Fprintf(c.ErrOrStderr(), "forge: checkpoint %s of row %d, Pydantic AI %s, checked: %s\n", found.Digest, found.Seq, found.PydanticAI,
				strings.Join(found.Checks, ", "))
			_, err = fmt.Fprint(c.OutOrStdout(), found.Text)
			return err
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	c.Flags().StringVar(&checkpoint, "checkpoint", "", "digest of the checkpoint; the newest if absent")
	return c
}

func restoreCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	var checkpoint string
	c := &cobra.Command{
		Use: "restore RUN", Short: "Show what an ordinary restore would start from (operator)",
		Long: `Restore decodes a checkpoint as an ordinary restore would: by the exact version of the installed SDK, replaying no consumed response
and reviving no claim that ended. It claims nothing; forge claim does.`,
		Example: "  forge restore nightly-4711", Args: exactly("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := conn.client()
			if err != nil {
				return err
			}
			digest, err := newest(c.Context(), client, args[0], checkpoint)
			if err != nil {
				return err
			}
			found, err := client.Restore(c.Context(), args[0], digest)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), found)
			}
			table(c.OutOrStdout(), [2]string{"run", found.Run}, [2]string{"checkpoint", found.Checkpoint.String()}, [2]string{"Firefly Agentic", found.FireflyAgentic},
				[2]string{"Pydantic AI", found.PydanticAI}, [2]string{"decided at row", fmt.Sprint(found.Seq)})
			return nil
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	c.Flags().StringVar(&checkpoint, "checkpoint", "", "digest of the checkpoint; the newest if absent")
	return c
}

func waiveCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	var id, checkpoint string
	var w models.WaiveCredential
	c := &cobra.Command{
		Use: "waive RUN --rule RULE --path PATH", Short: "Let one credential finding pass, once (administrator)",
		Long: `Waive records that you looked at one finding and that it may pass. It binds rule, path, the record's digest and the rule set, and the
next admission from that checkpoint spends it. Give rule and path as the refusal credential_found names them.`,
		Example: "  forge waive nightly-4711 --rule github-pat --path /history/0/parts/0/content", Args: exactly("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			if w.Rule == "" {
				return misuse("--rule is missing")
			}
			client, err := conn.client()
			if err != nil {
				return err
			}
			if w.Blob, err = newest(c.Context(), client, args[0], checkpoint); err != nil {
				return err
			}
			factory, err := client.Factory(c.Context())
			if err != nil {
				return err
			}
			w.RuleSet = factory.Host.Screening
			own, err := ownID(c, id)
			if err != nil {
				return err
			}
			saved, err := client.WaiveCredential(c.Context(), args[0], own, w)
			if err != nil {
				return sent(err, own)
			}
			return printAppended(c.OutOrStdout(), saved, asJSON)
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	c.Flags().StringVar(&id, "command-id", "", "your own id for this command; one is made and shown if absent")
	c.Flags().StringVar(&checkpoint, "checkpoint", "", "digest of the checkpoint; the newest if absent")
	c.Flags().StringVar(&w.Rule, "rule", "", "rule of the finding")
	c.Flags().StringVar(&w.Path, "path", "", "path of the finding, empty for the whole text")
	return c
}
