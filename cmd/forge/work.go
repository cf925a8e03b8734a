package main

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/models"
)

// ownID is the id of a command: the caller's, or one that is made here and told before anything is sent, so that a command
// whose answer was lost can be sent again under it.
func ownID(c *cobra.Command, given string) (string, error) {
	if given != "" {
		if !models.ValidID(given) {
			return "", misuse("--command-id takes 1 to %d letters, digits, dots, underscores and dashes", models.MaxIDLength)
		}
		return given, nil
	}
	var raw [8]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return "", err
	}
	id := "cli-" + hex.EncodeToString(raw[:])
	fmt.Fprintf(c.ErrOrStderr(), "forge: command id %s\n", id)
	return id, nil
}

// sent hints at the id where the answer was lost.
func sent(err error, id string) error {
	if err == nil {
		return nil
	}
	return uncertain(err, "it may have been accepted: send the same command again with --command-id %s", id)
}

func printAppended(w io.Writer, saved forge.Saved[models.AppendReceipt], asJSON bool) error {
	if asJSON {
		_, err := fmt.Fprintf(w, "%s\n", saved.Body)
		return err
	}
	r := saved.Receipt
	rows := fmt.Sprintf("row %d", r.First)
	if r.First != r.Last {
		rows = fmt.Sprintf("rows %d to %d", r.First, r.Last)
	}
	table(w, [2]string{"recorded", rows}, [2]string{"at", instant(r.At)}, [2]string{"head", short(r.Hash)})
	return nil
}

func workCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	var pool string
	var wait time.Duration
	c := &cobra.Command{
		Use: "work", Short: "Show what may be claimed now (worker)",
		Long: `Work lists runs that a worker may claim: queued ones, those whose lost worker's lease has lapsed at a clean point, and
admitted continuations. It hands nothing out; a claim does.`,
		Example: "  forge work --pool gpu --wait 20s", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if wait < 0 || wait%time.Second != 0 || wait > 20*time.Second {
				return misuse("--wait takes whole seconds up to 20s")
			}
			client, err := conn.client()
			if err != nil {
				return err
			}
			list, err := client.WorkFor(c.Context(), pool, wait)
			if err != nil {
				return err
			}
			for _, one := range list {
				if asJSON {
					err = printJSON(c.OutOrStdout(), one)
				} else {
					what := "ordinary"
					if one.Request != "" {
						what = "continuation " + one.Request
					}
					_, err = fmt.Fprintf(c.OutOrStdout(), "%-24s  %-32s  %s\n", one.Run, what, orAny(one.Pool))
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	c.Flags().StringVar(&pool, "pool", "", "also what was handed to this pool")
	c.Flags().DurationVar(&wait, "wait", 0, "wait this long for the first, at most 20s")
	return c
}

func orAny(pool string) string {
	if pool == "" {
		return "any worker"
	}
	return "pool " + pool
}

func claimCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	var id, pool string
	var lease time.Duration
	c := &cobra.Command{
		Use: "claim RUN --claim-id ID --lease DURATION", Short: "Claim a run, as a worker does (worker)",
		Long: `Claim takes a run under an id of your own. Make the id and keep it: while that claim lives, the same id shows the same
claim. A claim is also how a run is resumed: after a release, or once the lease of a lost worker has lapsed at a clean point.`,
		Example: "  forge claim nightly-4711 --claim-id rescue-1 --lease 10m", Args: exactly("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			if !models.ValidID(id) {
				return misuse("--claim-id takes 1 to %d letters, digits, dots, underscores and dashes", models.MaxIDLength)
			}
			if lease < time.Second || lease%time.Second != 0 {
				return misuse("--lease takes whole seconds, such as 10m")
			}
			client, err := conn.client()
			if err != nil {
				return err
			}
			claimed, err := client.ClaimFor(c.Context(), args[0], id, pool, models.Seconds(lease/time.Second))
			if err != nil {
				return uncertain(err, "it may have been accepted: send the same command again, with the same --claim-id")
			}
			r := claimed.Claim
			if asJSON {
				return printJSON(c.OutOrStdout(), r)
			}
			table(c.OutOrStdout(), [2]string{"run", r.Run}, [2]string{"claim", r.ClaimID}, [2]string{"fence", fmt.Sprint(r.Fence)},
				[2]string{"ends", instant(r.ExpiresAt)}, [2]string{"continuation", orNone(r.RequestID)}, [2]string{"checkpoint", orNone(r.Checkpoint.String())})
			return nil
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	c.Flags().StringVar(&id, "claim-id", "", "your own id for this claim; keep it")
	c.Flags().StringVar(&pool, "pool", "", "the pool that you work for")
	c.Flags().DurationVar(&lease, "lease", 0, "how long the lease may last, such as 10m")
	return c
}

func releaseCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	var id, pool string
	var fence int64
	c := &cobra.Command{
		Use: "release RUN --fence N", Short: "Give a claimed run back at a clean point (worker)",
		Long: `Release ends your claim where nothing is open, so that another worker can go on. With --pool the run is handed to the
workers of that pool alone.`,
		Example: "  forge release nightly-4711 --fence 3 --pool gpu", Args: exactly("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			if fence < 1 {
				return misuse("--fence takes the number that your claim was answered")
			}
			client, err := conn.client()
			if err != nil {
				return err
			}
			own, err := ownID(c, id)
			if err != nil {
				return err
			}
			saved, err := client.Release(c.Context(), args[0], own, fence, pool)
			if err != nil {
				return sent(err, own)
			}
			return printAppended(c.OutOrStdout(), saved, asJSON)
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	c.Flags().StringVar(&id, "command-id", "", "your own id for this command; one is made and shown if absent")
	c.Flags().StringVar(&pool, "pool", "", "hand the run to this pool")
	c.Flags().Int64Var(&fence, "fence", 0, "fence of your claim")
	return c
}

// generic is an operator's command on a run that takes nothing but its id.
func generic(use, short, long, example string, do func(*forge.Client, *cobra.Command, string, string) (forge.Saved[models.AppendReceipt], error)) *cobra.Command {
	var conn connection
	var asJSON bool
	var id string
	c := &cobra.Command{
		Use: use + " RUN", Short: short, Long: long, Example: example, Args: exactly("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := conn.client()
			if err != nil {
				return err
			}
			own, err := ownID(c, id)
			if err != nil {
				return err
			}
			saved, err := do(client, c, args[0], own)
			if err != nil {
				return sent(err, own)
			}
			return printAppended(c.OutOrStdout(), saved, asJSON)
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	c.Flags().StringVar(&id, "command-id", "", "your own id for this command; one is made and shown if absent")
	return c
}

func cancelCommand() *cobra.Command {
	return generic("cancel", "Stop a run for good (operator)",
		"Cancel stops a run for good. Its record stays. A worker that holds it learns it with its next batch, which is refused.",
		"  forge cancel nightly-4711", func(client *forge.Client, c *cobra.Command, run, id string) (forge.Saved[models.AppendReceipt], error) {
			return client.Cancel(c.Context(), run, id)
		})
}

func retryCommand() *cobra.Command {
	return generic("retry", "Open the next attempt of a run that failed (operator)",
		"Retry opens another attempt of a run whose worker reported a final failure, within its allowance. Nothing spent is given back.",
		"  forge retry nightly-4711", func(client *forge.Client, c *cobra.Command, run, id string) (forge.Saved[models.AppendReceipt], error) {
			return client.Retry(c.Context(), run, id)
		})
}

func runJournalCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	var from int64
	c := &cobra.Command{
		Use: "journal RUN", Short: "Show the rows of a run's journal",
		Long:    "Journal shows what happened in a run, one row a line: number, time, who, what, and the facts of it. Rows carry no content.",
		Example: "  forge run journal nightly-4711", Args: exactly("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			if from < 1 {
				return misuse("--from takes the number of a row, from 1")
			}
			client, err := conn.client()
			if err != nil {
				return err
			}
			const page = 500
			for at := from; ; {
				rows, err := client.Rows(c.Context(), args[0], at, page)
				if err != nil {
					return err
				}
				for _, r := range rows {
					if asJSON {
						err = printJSON(c.OutOrStdout(), r)
					} else {
						_, err = fmt.Fprintf(c.OutOrStdout(), "%6d  %s  %-14s  %-20s  %s\n", r.Seq, instant(r.At), r.Actor, r.Kind, facts(r.Payload))
					}
					if err != nil {
						return err
					}
				}
				if len(rows) < page {
					return nil
				}
				at += int64(len(rows))
			}
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	c.Flags().Int64Var(&from, "from", 1, "number of the first row to show")
	return c
}

// facts shortens the digests of a payload, for people.
func facts(payload json.RawMessage) string {
	var v any
	if json.Unmarshal(payload, &v) != nil {
		return string(payload)
	}
	text, err := json.Marshal(shorten(v))
	if err != nil {
		return string(payload)
	}
	return string(text)
}

func shorten(v any) any {
	switch v := v.(type) {
	case string:
		if d, err := models.ParseDigest(v); err == nil {
			return short(d)
		}
	case map[string]any:
		for name, member := range v {
			v[name] = shorten(member)
		}
	case []any:
		for i, e := range v {
			v[i] = shorten(e)
		}
	case float64: // every integer of a row that is no instant is below 2^53, and so is an instant
		return int64(v)
	}
	return v
}

// content reads a file that an option names, "-" for standard input.
func content(c *cobra.Command, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(c.InOrStdin())
	}
	return os.ReadFile(name)
}
