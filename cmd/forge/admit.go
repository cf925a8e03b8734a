package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/models"
)

const admitLong = `Admit lets a held run continue its own attempt once. It reads the candidate, and submits it under your request id with
exactly the digests that it read. Make the id yourself and keep it: after a lost answer, "forge receipt" with the same id
tells whether the request was accepted. If a receipt stands under the id already, that receipt is shown and nothing is sent.

Each acknowledgement is a statement of yours, so each has a flag of its own:

    --acknowledge-no-new-grant                   no new permission is given to the run
    --acknowledge-original-consumption           what was consumed stays consumed and charged
    --acknowledge-renewed-same-attempt-lease     the lease of the same attempt is renewed, and nothing else

A candidate of version 2, with reads beside the rejected one whose results were not kept, is asked for with --version 2 and
one statement more:

    --acknowledge-unavailable-source-observations  whether those reads finished stays unknown

Review the candidate first and pass its digest with --candidate-digest: then nothing else than what you reviewed can be
admitted.`

func admitCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	var request, digest string
	var window time.Duration
	var body models.RequestContinuity
	c := &cobra.Command{
		Use: "admit RUN --request-id ID --valid-for DURATION --acknowledge-...", Short: "Admit a held run to continue, once", Long: admitLong,
		Example: `  forge admit nightly-4711 --request-id continue-4711 --valid-for 30m \
    --acknowledge-no-new-grant --acknowledge-original-consumption --acknowledge-renewed-same-attempt-lease`,
		Args: exactly("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			if !models.ValidID(request) {
				return misuse("--request-id takes 1 to %d letters, digits, dots, underscores and dashes", models.MaxIDLength)
			}
			if window%time.Second != 0 || window < time.Second {
				return misuse("--valid-for takes whole seconds, such as 30m")
			}
			if body.Version != 1 && body.Version != 2 {
				return misuse("--version takes 1 or 2")
			}
			if missing := unacknowledged(body); missing != "" {
				return hint(misuse("not acknowledged: %s", missing), "each acknowledgement is yours to make, see forge admit --help")
			}
			client, err := conn.client()
			if err != nil {
				return err
			}
			saved, err := client.Continuity(c.Context(), args[0], request)
			switch {
			case err == nil:
				fmt.Fprintf(c.ErrOrStderr(), "forge: a receipt stands under %s already; nothing was sent\n", request)
				return printReceipt(c.OutOrStdout(), saved, asJSON)
			case !errors.Is(err, models.Refuse(models.CodeNotFound)):
				return err
			}
			candidate, err := client.Candidate(c.Context(), args[0])
			if err != nil {
				return err
			}
			if digest != "" && digest != candidate.CandidateDigest.String() {
				return hint(models.Refuse(models.CodeDigestStale, models.D("digest", "candidate"), models.D("reviewed", digest),
					models.D("current", candidate.CandidateDigest)), "read the candidate again and review what changed")
			}
			body.CandidateDigest, body.JournalDigest = candidate.CandidateDigest, candidate.JournalDigest
			body.PolicyDigest, body.RunDigest = candidate.PolicyDigest, candidate.RunDigest
			body.ValidForSeconds = models.Seconds(window / time.Second)
			saved, err = client.RequestContinuity(c.Context(), args[0], request, body)
			if errors.Is(err, forge.ErrUncertain) {
				return hint(err, "it may have been accepted: forge receipt %s --request-id %s", args[0], request)
			}
			if err != nil {
				return err
			}
			return printReceipt(c.OutOrStdout(), saved, asJSON)
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	c.Flags().StringVar(&request, "request-id", "", "your own id for this request; keep it")
	c.Flags().StringVar(&digest, "candidate-digest", "", "digest of the candidate that you reviewed")
	c.Flags().Int64Var(&body.Version, "version", 1, "version of the request, as the candidate shows it")
	c.Flags().BoolVar(&body.AcknowledgeUnavailableSourceObservations, "acknowledge-unavailable-source-observations", false, "whether those reads finished stays unknown (version 2)")
	c.Flags().DurationVar(&window, "valid-for", 0, "how long the lease may last, such as 30m")
	c.Flags().BoolVar(&body.AcknowledgeNoNewGrant, "acknowledge-no-new-grant", false, "no new permission is given")
	c.Flags().BoolVar(&body.AcknowledgeOriginalConsumption, "acknowledge-original-consumption", false, "what was consumed stays consumed and charged")
	c.Flags().BoolVar(&body.AcknowledgeRenewedSameAttemptLease, "acknowledge-renewed-same-attempt-lease", false, "only the lease of the same attempt is renewed")
	return c
}

func unacknowledged(b models.RequestContinuity) string {
	var missing []string
	for _, a := range []struct {
		given bool
		flag  string
	}{
		{b.AcknowledgeNoNewGrant, "--acknowledge-no-new-grant"},
		{b.AcknowledgeOriginalConsumption, "--acknowledge-original-consumption"},
		{b.AcknowledgeRenewedSameAttemptLease, "--acknowledge-renewed-same-attempt-lease"},
		{b.AcknowledgeUnavailableSourceObservations || b.Version != 2, "--acknowledge-unavailable-source-observations"},
	} {
		if !a.given {
			missing = append(missing, a.flag)
		}
	}
	return strings.Join(missing, ", ")
}

func receiptCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	var request string
	c := &cobra.Command{
		Use: "receipt RUN --request-id ID", Short: "Read back what was admitted under a request id",
		Example: "  forge receipt nightly-4711 --request-id continue-4711", Args: exactly("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			if request == "" {
				return misuse("--request-id is missing")
			}
			client, err := conn.client()
			if err != nil {
				return err
			}
			saved, err := client.Continuity(c.Context(), args[0], request)
			if err != nil {
				return err
			}
			return printReceipt(c.OutOrStdout(), saved, asJSON)
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	c.Flags().StringVar(&request, "request-id", "", "the id that the request was sent under")
	return c
}

// printReceipt shows a receipt; as JSON it is the saved bytes and a line end.
func printReceipt(w io.Writer, saved forge.Saved[models.ContinuityReceipt], asJSON bool) error {
	if asJSON {
		_, err := fmt.Fprintf(w, "%s\n", saved.Body)
		return err
	}
	r := saved.Receipt
	state := r.State
	if r.Fixture {
		state += " (fixture)"
	}
	lines := [][2]string{
		{"request", r.RequestID}, {"run", r.Run}, {"state when admitted", state}, {"version", fmt.Sprint(r.Version)},
		{"admitted", instant(r.AdmittedAt)}, {"lease ends", instant(r.ExpiresAt)},
		{"rows", fmt.Sprintf("settlement %d, lease %d", r.SettlementSeq, r.LeaseSeq)},
		{"derived checkpoint", r.Derived.String()}, {"profile", r.Profile}, {"parser", r.Parser},
	}
	table(w, append(lines, spent(r.Counters)...)...)
	_, err := fmt.Fprintln(w, r.Establishes)
	return err
}
