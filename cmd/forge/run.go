package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/models"
)

func runCommand() *cobra.Command {
	c := &cobra.Command{Use: "run", Short: "List, show, read, verify and export runs", Args: noArgs, RunE: showHelp}
	c.AddCommand(runListCommand(), runShowCommand(), runJournalCommand(), runExportCommand(), runVerifyCommand())
	return c
}

func runListCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "List the runs of your factory and where each stands", Example: "  forge run list", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := conn.client()
			if err != nil {
				return err
			}
			for after, more := "", true; more; more = after != "" {
				var ids []string
				if ids, after, err = client.Runs(c.Context(), after, 100); err != nil {
					return err
				}
				for _, id := range ids {
					v, err := client.Run(c.Context(), id)
					if err != nil {
						return err
					}
					if asJSON {
						err = printJSON(c.OutOrStdout(), v)
					} else {
						_, err = fmt.Fprintf(c.OutOrStdout(), "%-24s  %-20s  row %-6d  commands %d of %d\n", id, v.Position, v.Head.Seq,
							v.Counters.Commands, v.Counters.Limits.Commands)
					}
					if err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	return c
}

func runShowCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	c := &cobra.Command{
		Use: "show RUN", Short: "Show where a run stands and what it has spent", Example: "  forge run show nightly-4711", Args: exactly("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := conn.client()
			if err != nil {
				return err
			}
			v, err := client.Run(c.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), v)
			}
			printRun(c.OutOrStdout(), v)
			return nil
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	return c
}

func printRun(w io.Writer, v forge.RunView) {
	lines := [][2]string{{"run", v.Run}, {"position", v.Position}, {"original actor", orNone(v.OriginalActor)},
		{"head", fmt.Sprintf("row %d, %s", v.Head.Seq, short(v.Head.Hash))}}
	lease := "none"
	switch {
	case v.Lease.Live:
		lease = fmt.Sprintf("fence %d, %s, ends %s", v.Lease.Fence, v.Lease.Owner, instant(v.Lease.ExpiresAt))
	case v.Lease.Granted:
		lease = "granted and unclaimed, ends " + instant(v.Lease.ExpiresAt)
	}
	lines = append(lines, [2]string{"lease", lease})
	for _, t := range v.Tickets {
		lines = append(lines, [2]string{"ticket " + t.Request, fmt.Sprintf("%s, version %d, rows %d and %d", t.State, t.Version, t.SettlementSeq, t.LeaseSeq)})
	}
	if v.Verification != nil {
		lines = append(lines, [2]string{"verification", verificationText(*v.Verification, v.Registration.Verification.Commands)})
	}
	if v.Pool != "" {
		lines = append(lines, [2]string{"handed to", "pool " + v.Pool})
	}
	for _, u := range v.Unknown {
		lines = append(lines, [2]string{"unknown", fmt.Sprintf("row %d: %s", u.Seq, unknownText(u.Subject, u.Request, u.Position, u.Number, u.RequestID))})
	}
	table(w, append(lines, spent(v.Counters)...)...)
	for _, h := range v.Holds {
		printHold(w, h, "")
	}
}

func runExportCommand() *cobra.Command {
	var conn connection
	var output string
	var force bool
	c := &cobra.Command{
		Use: "export RUN", Short: "Write a run's export file, which forge verify checks offline",
		Long: `Export writes everything that checking a run offline needs: the factory's journal, the run's rows, receipts and content.
The content is what the model and the tools said, so keep the file as you would keep the run. With --output the file appears
whole or not at all.`,
		Example: "  forge run export nightly-4711 --output nightly-4711.jsonl", Args: exactly("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := conn.client()
			if err != nil {
				return err
			}
			if output == "" {
				_, err := client.Export(c.Context(), args[0], c.OutOrStdout())
				return err
			}
			var size int64
			if err := writeWhole(output, force, func(w io.Writer) (err error) {
				size, err = client.Export(c.Context(), args[0], w)
				return err
			}); err != nil {
				return err
			}
			fmt.Fprintf(c.ErrOrStderr(), "forge: wrote %s, %d bytes\n", output, size)
			return nil
		},
	}
	conn.flags(c)
	c.Flags().StringVarP(&output, "output", "o", "", "file to write; standard output if absent")
	c.Flags().BoolVar(&force, "force", false, "replace an existing file")
	return c
}

// verificationText is where the verification of a run with so many frozen commands stands, for people.
func verificationText(v forge.VerificationView, commands int64) string {
	text := "of no round yet"
	if v.State != "" {
		text = fmt.Sprintf("of round %d %s, %d of %d commands started", v.Round, v.State, v.Started, commands)
	}
	switch {
	case v.Passed:
		text += ", passed"
	case v.State == models.VerificationStateFinished:
		text += ", not passed"
	case v.Due:
		text += ", due"
	}
	if v.Stopped {
		text += "; not scheduled any more"
	}
	return text
}

func runVerifyCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	var id string
	var round int64
	c := &cobra.Command{
		Use: "verify RUN", Short: "Queue the verification of a run's newest completed round (operator)",
		Long: `Verify queues the commands that the run froze for its verification, for a worker of the pool ` + models.VerificationPool + `. A server does
so by itself after each completed round; by hand it is for a round whose verification was lost, or after a refusal ended the
scheduling. A refusal here leaves no record. It runs nothing itself, and it is not "forge verify", which checks an export.`,
		Example: "  forge run verify nightly-4711", Args: exactly("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("round") && round < 1 {
				return misuse("--round takes the number of a completed round, from 1")
			}
			client, err := conn.client()
			if err != nil {
				return err
			}
			if round == 0 {
				v, err := client.Run(c.Context(), args[0])
				if err != nil {
					return err
				}
				// A run without a completed round is refused by the server, which says why.
				round = max(v.Counters.CompletedRounds, 1)
			}
			own, err := ownID(c, id)
			if err != nil {
				return err
			}
			saved, err := client.Verify(c.Context(), args[0], own, round)
			if err != nil {
				return uncertain(err, "it may have been accepted: send the same command again with --command-id %s --round %d", own, round)
			}
			if asJSON {
				_, err := fmt.Fprintf(c.OutOrStdout(), "%s\n", saved.Body)
				return err
			}
			r := saved.Receipt
			table(c.OutOrStdout(), [2]string{"verification", fmt.Sprintf("of round %d %s", r.Round, r.State)},
				[2]string{"recorded", fmt.Sprintf("row %d", r.Seq)}, [2]string{"at", instant(r.At)}, [2]string{"head", short(r.Hash)})
			return nil
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	c.Flags().StringVar(&id, "command-id", "", "your own id for this command; one is made and shown if absent")
	c.Flags().Int64Var(&round, "round", 0, "the round; the newest completed one if absent")
	return c
}
