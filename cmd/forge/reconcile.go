package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forge-continuity/forge/models"
)

const reconcileLong = `Reconcile settles one thing whose outcome is unknown: a model request without a response, a call or a command that had
started, or a continuation whose worker was lost. "forge run show" lists them with their row. Each is settled once; the
original rows stay as they are, and nothing that was spent is given back.

    --outcome landed              it happened; --evidence shows it, and --result is the response, result or receipt
    --outcome did_not_happen      it did not; --evidence shows it
    --outcome charged_unknown     nobody can tell; it stays charged, and nothing is done again

Evidence and result are files (- is standard input). Their content is kept with the run. Each acknowledgement is a statement of
yours, so each has a flag of its own:

    --acknowledge-no-replay                     nothing is sent or run again to find out
    --acknowledge-original-record-unchanged     the rows that are there stay as they are
    --acknowledge-original-use-charged          what was used stays charged
    --acknowledge-unknown-outcome               the outcome stays unknown (for charged_unknown)`

func reconcileCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	var id, evidence, result string
	var body models.Reconcile
	c := &cobra.Command{
		Use: "reconcile RUN --row N --outcome OUTCOME --acknowledge-...", Short: "Settle what is unknown in a run, once, with evidence (operator)",
		Long: reconcileLong,
		Example: `  forge reconcile nightly-4711 --row 57 --outcome landed --evidence answer.txt --result response.json \
    --acknowledge-no-replay --acknowledge-original-record-unchanged --acknowledge-original-use-charged`,
		Args: exactly("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkReconcile(body, evidence, result); err != nil {
				return err
			}
			client, err := conn.client()
			if err != nil {
				return err
			}
			view, err := client.Run(c.Context(), args[0])
			if err != nil {
				return err
			}
			found := false
			for _, u := range view.Unknown {
				if u.Seq == body.Seq {
					found, body.Subject, body.RequestID = true, u.Subject, u.RequestID
				}
			}
			if !found {
				return hint(models.Refuse(models.CodeNothingToReconcile, models.D("seq", body.Seq)), "forge run show %s lists what is unknown", args[0])
			}
			own, err := ownID(c, id)
			if err != nil {
				return err
			}
			for _, file := range []struct {
				name string
				into *models.Digest
				size *int64
			}{{evidence, &body.Evidence, new(int64)}, {result, &body.Result, &body.ResultLength}} {
				if file.name == "" {
					continue
				}
				data, err := content(c, file.name)
				if err != nil {
					return err
				}
				if *file.into, err = client.PutEvidence(c.Context(), args[0], data); err != nil {
					return err
				}
				if body.Subject == models.SubjectRequest {
					*file.size = int64(len(data))
				}
			}
			saved, err := client.Reconcile(c.Context(), args[0], own, body)
			if err != nil {
				return sent(err, own)
			}
			return printAppended(c.OutOrStdout(), saved, asJSON)
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	c.Flags().StringVar(&id, "command-id", "", "your own id for this command; one is made and shown if absent")
	c.Flags().Int64Var(&body.Seq, "row", 0, "number of the row whose outcome is unknown")
	c.Flags().StringVar(&body.Outcome, "outcome", "", "landed, did_not_happen or charged_unknown")
	c.Flags().StringVar(&evidence, "evidence", "", "file with what shows it")
	c.Flags().StringVar(&result, "result", "", "file with the response, result or receipt of what landed")
	c.Flags().BoolVar(&body.AcknowledgeNoReplay, "acknowledge-no-replay", false, "nothing is sent or run again to find out")
	c.Flags().BoolVar(&body.AcknowledgeOriginalRecordUnchanged, "acknowledge-original-record-unchanged", false, "the rows that are there stay as they are")
	c.Flags().BoolVar(&body.AcknowledgeOriginalUseCharged, "acknowledge-original-use-charged", false, "what was used stays charged")
	c.Flags().BoolVar(&body.AcknowledgeUnknownOutcome, "acknowledge-unknown-outcome", false, "the outcome stays unknown")
	return c
}

// checkReconcile refuses what no run could accept, before anything is sent.
func checkReconcile(body models.Reconcile, evidence, result string) error {
	if body.Seq < 1 {
		return misuse("--row takes the number of the row whose outcome is unknown: forge run show lists them")
	}
	var missing []string
	for _, a := range []struct {
		given bool
		flag  string
	}{
		{body.AcknowledgeNoReplay, "--acknowledge-no-replay"},
		{body.AcknowledgeOriginalRecordUnchanged, "--acknowledge-original-record-unchanged"},
		{body.AcknowledgeOriginalUseCharged, "--acknowledge-original-use-charged"},
		{body.AcknowledgeUnknownOutcome || body.Outcome != models.OutcomeChargedUnknown, "--acknowledge-unknown-outcome"},
	} {
		if !a.given {
			missing = append(missing, a.flag)
		}
	}
	switch {
	case len(missing) > 0:
		return hint(misuse("not acknowledged: %s", strings.Join(missing, ", ")), "each acknowledgement is yours to make, see forge reconcile --help")
	case body.Outcome != models.OutcomeLanded && body.Outcome != models.OutcomeDidNotHappen && body.Outcome != models.OutcomeChargedUnknown:
		return misuse("--outcome takes landed, did_not_happen or charged_unknown")
	case evidence == "" && body.Outcome != models.OutcomeChargedUnknown:
		return misuse("--evidence is missing: %s rests on it", body.Outcome)
	case result != "" && body.Outcome != models.OutcomeLanded:
		return misuse("only what landed has a --result")
	case evidence == "-" && result == "-":
		return misuse("only one of --evidence and --result can be standard input")
	}
	return nil
}

// unknownText is one line of what is unknown, for people.
func unknownText(subject string, request, position, number int64, requestID string) string {
	switch subject {
	case models.SubjectRequest:
		return fmt.Sprintf("request %d has no response", request)
	case models.SubjectCall:
		return fmt.Sprintf("call %d of request %d had started", position, request)
	case models.SubjectCommand:
		return fmt.Sprintf("command %d had started", number)
	}
	return "the worker of continuation " + requestID + " was lost"
}
