package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// statement is one acknowledgement: the flag, what it says, and where it goes.
type statement struct {
	flag, says string
	into       *bool
}

// workflow is one of the three recoveries, as the command line knows it.
type workflow struct {
	name, short, about string
	statements         []statement
	flags              func(*pflag.FlagSet)
	candidate          func(*cobra.Command, *forge.Client, string, string) (models.RecoveryCandidate, error)
	submit             func(*cobra.Command, *forge.Client, string, string, string, models.RecoveryCandidate, models.Seconds) (forge.Saved[models.RecoveryReceipt], error)
	read               func(*cobra.Command, *forge.Client, string, string) (forge.Saved[models.RecoveryReceipt], error)
}

func neverClaimedWorkflow() workflow {
	var b models.RecoverNeverClaimed
	return workflow{
		name: "never-claimed", short: "Queue a continuation again that no worker ever claimed",
		about: "For a continuation that failed before any worker claimed it: its lease lapsed, or a check refused it.",
		statements: []statement{
			{"acknowledge-never-claimed", "no worker ever claimed this ticket", &b.AcknowledgeNeverClaimed},
			{"acknowledge-same-request-and-attempt", "request and attempt stay the original ones", &b.AcknowledgeSameRequestAndAttempt},
			{"acknowledge-original-consumption-and-budgets", "what was consumed and the budgets stay charged", &b.AcknowledgeOriginalConsumptionAndBudgets},
			{"acknowledge-renewed-same-attempt-lease", "only the lease of the same attempt is renewed", &b.AcknowledgeRenewedSameAttemptLease},
		},
		flags: func(*pflag.FlagSet) {},
		candidate: func(c *cobra.Command, client *forge.Client, run, request string) (models.RecoveryCandidate, error) {
			return client.RecoveryCandidate(c.Context(), run, request)
		},
		submit: func(c *cobra.Command, client *forge.Client, run, request, id string, from models.RecoveryCandidate, seconds models.Seconds) (forge.Saved[models.RecoveryReceipt], error) {
			b.CandidateDigest, b.JournalDigest, b.PolicyDigest, b.RunDigest = from.CandidateDigest, from.JournalDigest, from.PolicyDigest, from.RunDigest
			b.ValidForSeconds, b.Version = seconds, 1
			return client.RequestRecovery(c.Context(), run, request, id, b)
		},
		read: func(c *cobra.Command, client *forge.Client, run, request string) (forge.Saved[models.RecoveryReceipt], error) {
			return client.Recovery(c.Context(), run, request)
		},
	}
}

func refusedBoundaryWorkflow() workflow {
	var b forge.RejectedBoundaryRecoveryInputV1
	var file, correction string
	return workflow{
		name: "refused-boundary", short: "Queue a continuation again whose first request the provider refused",
		about: `For a continuation whose first request a provider refused while validating it, before any work. --review names a file with what
you reviewed (ReviewedProviderRejectionV1 as JSON); its reports are kept beforehand with forge report put. It is your assertion
with pinned evidence, and is recorded as that.`,
		statements: []statement{
			{"acknowledge-reviewed-provider-epoch", "you reviewed the provider epoch that was executed", &b.AcknowledgeReviewedProviderEpoch},
			{"acknowledge-no-original-response-or-tool-replay", "no original response or tool is replayed", &b.AcknowledgeNoOriginalResponseOrToolReplay},
			{"acknowledge-same-request-and-budgets", "request and budgets stay the same", &b.AcknowledgeSameRequestAndBudgets},
			{"acknowledge-finite-ownership-lease", "the new lease is finite", &b.AcknowledgeFiniteOwnershipLease},
		},
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&file, "review", "", "file with the review, - for standard input")
			f.StringVar(&b.CorrectiveEpoch, "corrective-epoch", "", "provider epoch that was validated as the correction")
			f.StringVar(&correction, "corrective-validation-digest", "", "digest of the report of that validation")
		},
		candidate: func(c *cobra.Command, client *forge.Client, run, request string) (models.RecoveryCandidate, error) {
			if file == "" {
				return models.RecoveryCandidate{}, misuse("--review is missing")
			}
			text, err := content(c, file)
			if err != nil {
				return models.RecoveryCandidate{}, err
			}
			if err := canon.Decode(bytes.TrimSpace(text), &b.Review); err != nil {
				return models.RecoveryCandidate{}, misuse("%s: %v", file, err)
			}
			return client.RejectedBoundaryCandidate(c.Context(), run, request, b.Review)
		},
		submit: func(c *cobra.Command, client *forge.Client, run, request, id string, from models.RecoveryCandidate, seconds models.Seconds) (forge.Saved[models.RecoveryReceipt], error) {
			if correction != "" {
				d, err := models.ParseDigest(correction)
				if err != nil {
					return forge.Saved[models.RecoveryReceipt]{}, misuse("--corrective-validation-digest: %v", err)
				}
				b.CorrectiveValidation = d
			}
			b.CandidateDigest, b.ValidForSeconds = from.CandidateDigest, seconds
			return client.RequestRejectedBoundaryRecovery(c.Context(), run, request, id, b)
		},
		read: func(c *cobra.Command, client *forge.Client, run, request string) (forge.Saved[models.RecoveryReceipt], error) {
			return client.RejectedBoundaryRecovery(c.Context(), run, request)
		},
	}
}

func readonlyObservationWorkflow() workflow {
	var b forge.ReadonlyObservationRecoveryInputV1
	return workflow{
		name: "readonly-observation", short: "Let a turn go on whose evidence result was lost",
		about: `For a continuation that went on after a refused-boundary recovery, consumed one response, and could not keep the result of its one
evidence read. That result stays unknown; the next model turn is told that it is unavailable.`,
		statements: []statement{
			{"acknowledge-unavailable-observation", "the observation is unavailable, neither success nor failure", &b.AcknowledgeUnavailableObservation},
			{"acknowledge-no-original-callback-replay", "no original callback runs again", &b.AcknowledgeNoOriginalCallbackReplay},
			{"acknowledge-same-request-attempt-and-budgets", "request, attempt and budgets stay the same", &b.AcknowledgeSameRequestAttemptAndBudgets},
			{"acknowledge-finite-ownership-lease", "the new lease is finite", &b.AcknowledgeFiniteOwnershipLease},
		},
		flags: func(*pflag.FlagSet) {},
		candidate: func(c *cobra.Command, client *forge.Client, run, request string) (models.RecoveryCandidate, error) {
			return client.ReadonlyObservationCandidate(c.Context(), run, request)
		},
		submit: func(c *cobra.Command, client *forge.Client, run, request, id string, from models.RecoveryCandidate, seconds models.Seconds) (forge.Saved[models.RecoveryReceipt], error) {
			b.CandidateDigest, b.ValidForSeconds = from.CandidateDigest, seconds
			return client.RequestReadonlyObservationRecovery(c.Context(), run, request, id, b)
		},
		read: func(c *cobra.Command, client *forge.Client, run, request string) (forge.Saved[models.RecoveryReceipt], error) {
			return client.ReadonlyObservationRecovery(c.Context(), run, request)
		},
	}
}

// recoverCommand is "forge recover", with a group for each workflow.
func recoverCommand() *cobra.Command {
	c := &cobra.Command{Use: "recover", Short: "Review and queue a continuation again that stopped, once", Args: noArgs, RunE: showHelp,
		Long: `Each of the three groups has a candidate that shows whether it applies and writes nothing, a submit that acts once, and a show
that reads the saved action back. They are for the original actor, who is operator and administrator.`}
	for _, make := range []func() workflow{neverClaimedWorkflow, refusedBoundaryWorkflow, readonlyObservationWorkflow} {
		w := make()
		group := &cobra.Command{Use: w.name, Short: w.short, Long: w.about, Args: noArgs, RunE: showHelp}
		group.AddCommand(make().candidateCommand(), make().submitCommand(), make().showCommand())
		c.AddCommand(group)
	}
	return c
}

func requestFlag(c *cobra.Command, into *string) {
	c.Flags().StringVar(into, "request-id", "", "id of the continuation's request")
}

func (w workflow) candidateCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	var request string
	c := &cobra.Command{
		Use: "candidate RUN --request-id ID", Short: "Show what could be queued again, and what holds it", Args: exactly("RUN"),
		Long:    w.about + "\n\nReading changes nothing. The exit code is 0 whether there are holds or not.",
		Example: "  forge recover " + w.name + " candidate nightly-4711 --request-id continue-4711",
		RunE: func(c *cobra.Command, args []string) error {
			if request == "" {
				return misuse("--request-id is missing")
			}
			client, err := conn.client()
			if err != nil {
				return err
			}
			found, err := w.candidate(c, client, args[0], request)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), found)
			}
			printRecoveryCandidate(c.OutOrStdout(), found)
			return nil
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	requestFlag(c, &request)
	w.flags(c.Flags())
	return c
}

func printRecoveryCandidate(w io.Writer, c models.RecoveryCandidate) {
	state := "eligible"
	if !c.Eligible {
		state = fmt.Sprintf("held, %d %s", len(c.Holds), plural(len(c.Holds), "hold"))
	}
	if c.Fixture {
		state += " (fixture)"
	}
	lines := [][2]string{{"run", c.Run}, {"request", c.RequestID}, {"workflow", c.Workflow}, {"state", state}, {"ticket", c.State},
		{"original actor", c.OriginalActor}, {"window", fmt.Sprintf("at most %d s", c.PermittedSeconds)},
		{"policy", fmt.Sprintf("revision %d", c.PolicyRevision)}, {"profile", orNone(c.Profile)}}
	for _, r := range c.Closing {
		lines = append(lines, [2]string{"closing", fmt.Sprintf("call %d gets %s", r.Position, r.Result)})
	}
	if !c.Reproduced.IsZero() {
		lines = append(lines, [2]string{"rendered again", fmt.Sprintf("%d bytes, SHA-256 %s", c.ReproducedLength, c.Reproduced)})
	}
	table(w, append(append(lines, spent(c.Counters)...), [2]string{"candidate digest", c.CandidateDigest.String()})...)
	for _, h := range c.Holds {
		printHold(w, h, "")
	}
}

func (w workflow) submitCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	var request, id, digest string
	var window time.Duration
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n\nMake the recovery id yourself and keep it: after a lost answer the same command tells what became of it. If an action stands\n"+
		"under the request already, it is shown and nothing is sent. Each statement is yours, so each has a flag of its own:\n\n", w.about)
	for _, s := range w.statements {
		fmt.Fprintf(&text, "    --%-48s  %s\n", s.flag, s.says)
	}
	c := &cobra.Command{
		Use: "submit RUN --request-id ID --recovery-id ID --valid-for DURATION --acknowledge-...", Short: "Queue it again, once", Long: text.String(),
		Example: "  forge recover " + w.name + " submit nightly-4711 --request-id continue-4711 --recovery-id recover-4711 --valid-for 15m ...",
		Args:    exactly("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case request == "":
				return misuse("--request-id is missing")
			case !models.ValidID(id):
				return misuse("--recovery-id takes 1 to %d letters, digits, dots, underscores and dashes", models.MaxIDLength)
			case window < time.Second || window%time.Second != 0:
				return misuse("--valid-for takes whole seconds, such as 15m")
			}
			var missing []string
			for _, s := range w.statements {
				if !*s.into {
					missing = append(missing, "--"+s.flag)
				}
			}
			if len(missing) > 0 {
				return hint(misuse("not acknowledged: %s", strings.Join(missing, ", ")), "each acknowledgement is yours to make, see --help")
			}
			client, err := conn.client()
			if err != nil {
				return err
			}
			saved, err := w.read(c, client, args[0], request)
			switch {
			case err == nil && saved.Receipt.RecoveryID != id:
				return hint(models.Refuse(models.CodeRecoveryRecorded, models.D("recovery_id", saved.Receipt.RecoveryID)), "the one action stands under that id; nothing was sent")
			case err == nil:
				fmt.Fprintf(c.ErrOrStderr(), "forge: the action stands under %s already; nothing was sent\n", id)
				return printRecovery(c.OutOrStdout(), saved, asJSON)
			case !errors.Is(err, models.Refuse(models.CodeNotFound)):
				return err
			}
			from, err := w.candidate(c, client, args[0], request)
			if err != nil {
				return err
			}
			if digest != "" && digest != from.CandidateDigest.String() {
				return hint(models.Refuse(models.CodeDigestStale, models.D("digest", "candidate"), models.D("reviewed", digest),
					models.D("current", from.CandidateDigest)), "read the candidate again and review what changed")
			}
			saved, err = w.submit(c, client, args[0], request, id, from, models.Seconds(window/time.Second))
			if err != nil {
				return uncertain(err, "it may have been accepted: forge recover %s show %s --request-id %s", w.name, args[0], request)
			}
			return printRecovery(c.OutOrStdout(), saved, asJSON)
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	requestFlag(c, &request)
	c.Flags().StringVar(&id, "recovery-id", "", "your own id for this action; keep it")
	c.Flags().StringVar(&digest, "candidate-digest", "", "digest of the candidate that you reviewed")
	c.Flags().DurationVar(&window, "valid-for", 0, "how long the lease may last, such as 15m")
	for _, s := range w.statements {
		c.Flags().BoolVar(s.into, s.flag, false, s.says)
	}
	w.flags(c.Flags())
	return c
}

func (w workflow) showCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	var request string
	c := &cobra.Command{
		Use: "show RUN --request-id ID", Short: "Read the saved action back", Args: exactly("RUN"),
		Example: "  forge recover " + w.name + " show nightly-4711 --request-id continue-4711",
		RunE: func(c *cobra.Command, args []string) error {
			if request == "" {
				return misuse("--request-id is missing")
			}
			client, err := conn.client()
			if err != nil {
				return err
			}
			saved, err := w.read(c, client, args[0], request)
			if err != nil {
				return err
			}
			return printRecovery(c.OutOrStdout(), saved, asJSON)
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	requestFlag(c, &request)
	return c
}

// printRecovery shows a receipt; as JSON it is the saved bytes and a line end.
func printRecovery(w io.Writer, saved forge.Saved[models.RecoveryReceipt], asJSON bool) error {
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
		{"recovery", r.RecoveryID}, {"workflow", r.Workflow}, {"request", r.RequestID}, {"run", r.Run}, {"state when admitted", state},
		{"admitted", instant(r.AdmittedAt)}, {"lease ends", instant(r.ExpiresAt)},
		{"rows", fmt.Sprintf("witness %d, event %d, lease %d", r.WitnessSeq, r.EventSeq, r.LeaseSeq)}, {"profile", r.Profile},
	}
	if r.ReviewedBy != "" {
		lines = append(lines, [2]string{"review", r.ReviewedBy})
	}
	table(w, append(lines, spent(r.Counters)...)...)
	_, err := fmt.Fprintln(w, r.Establishes)
	return err
}

func reportCommand() *cobra.Command {
	c := &cobra.Command{Use: "report", Short: "Keep and read reports that reviews and profiles pin", Args: noArgs, RunE: showHelp}
	c.AddCommand(reportPutCommand(), reportGetCommand())
	return c
}

func reportPutCommand() *cobra.Command {
	var conn connection
	c := &cobra.Command{
		Use: "put FILE", Short: "Keep a report of the factory and show its digest (administrator)", Example: "  forge report put probe.json", Args: exactly("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := conn.client()
			if err != nil {
				return err
			}
			data, err := content(c, args[0])
			if err != nil {
				return err
			}
			digest, err := client.PutReport(c.Context(), data)
			if err != nil {
				return uncertain(err, "it may have been kept: put the same file again")
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), digest)
			return err
		},
	}
	conn.flags(c)
	return c
}

func reportGetCommand() *cobra.Command {
	var conn connection
	c := &cobra.Command{
		Use: "get DIGEST", Short: "Write a kept report to standard output", Example: "  forge report get 3fdc0a… > report.json", Args: exactly("DIGEST"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := conn.client()
			if err != nil {
				return err
			}
			digest, err := models.ParseDigest(args[0])
			if err != nil {
				return misuse("DIGEST: %v", err)
			}
			data, err := client.Report(c.Context(), digest)
			if err == nil {
				_, err = c.OutOrStdout().Write(data)
			}
			return err
		},
	}
	conn.flags(c)
	return c
}
