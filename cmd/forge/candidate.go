package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/forge-continuity/forge/models"
)

func candidateCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	c := &cobra.Command{
		Use: "candidate RUN", Short: "Show what could be admitted for a held run, and what holds it",
		Long: `Candidate shows whether a held run may be continued now: what is known of it, what it has spent, and every hold with
what would lift it. Reading changes nothing. The exit code is 0 whether there are holds or not.`,
		Example: "  forge candidate nightly-4711", Args: exactly("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := conn.client()
			if err != nil {
				return err
			}
			candidate, err := client.Candidate(c.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), candidate)
			}
			printCandidate(c.OutOrStdout(), candidate)
			return nil
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	return c
}

func printCandidate(w io.Writer, c models.Candidate) {
	state := "eligible"
	if !c.Eligible {
		state = fmt.Sprintf("held, %d %s", len(c.Holds), plural(len(c.Holds), "hold"))
	}
	if c.Fixture {
		state += " (fixture)"
	}
	lines := [][2]string{{"run", c.Run}, {"state", state}, {"original actor", c.OriginalActor}, {"version", versionText(c.Version)}}
	for _, r := range c.Closing {
		lines = append(lines, [2]string{"closing", fmt.Sprintf("call %d gets %s", r.Position, r.Result)})
	}
	lines = append(lines, [2]string{"window", fmt.Sprintf("at most %d s", c.PermittedSeconds)},
		[2]string{"policy", fmt.Sprintf("revision %d", c.PolicyRevision)}, [2]string{"profile", orNone(c.Profile)})
	lines = append(lines, spent(c.Counters)...)
	for _, d := range []struct {
		name string
		of   models.Digest
	}{{"candidate", c.CandidateDigest}, {"run", c.RunDigest}, {"journal", c.JournalDigest}, {"policy", c.PolicyDigest},
		{"source", c.SourceDigest}, {"custody", c.CustodyDigest}, {"proof", c.Proof}} {
		lines = append(lines, [2]string{d.name + " digest", orNone(d.of.String())})
	}
	table(w, lines...)
	for _, h := range c.Holds {
		printHold(w, h, "")
	}
}

// printHold shows what is so and what lifts it.
func printHold(w io.Writer, h *models.Refusal, indent string) {
	fmt.Fprintf(w, "%shold %s: %s\n", indent, h.Code, h.Message)
	if len(h.Details) > 0 {
		fmt.Fprintf(w, "%s     (%s)\n", indent, details(h.Details))
	}
	fmt.Fprintf(w, "%s     to lift it: %s\n", indent, h.Next)
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func versionText(v int64) string {
	if v == 0 {
		return "none: nothing was proved"
	}
	return fmt.Sprint(v)
}
