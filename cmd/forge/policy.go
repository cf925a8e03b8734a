package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/models"
)

func policyCommand() *cobra.Command {
	c := &cobra.Command{Use: "policy", Short: "Show and set the continuity policy (administrator)", Args: noArgs, RunE: showHelp}
	c.AddCommand(policyGetCommand(), policyPutCommand())
	return c
}

func policyGetCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	c := &cobra.Command{
		Use: "get", Short: "Show the continuity policy of your factory", Example: "  forge policy get", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := conn.client()
			if err != nil {
				return err
			}
			p, err := client.Policy(c.Context())
			if err != nil {
				return err
			}
			return printPolicy(c.OutOrStdout(), p, asJSON)
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	return c
}

func policyPutCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	var set models.Policy
	var window time.Duration
	var revision int64
	c := &cobra.Command{
		Use: "put", Short: "Change the continuity policy of your factory",
		Long: `Put changes the members whose flags are given and leaves the others. It replaces the revision that it read; where somebody
else was faster it is refused and nothing changes. With --revision it replaces that one and no other, the one that you reviewed.
An id, a window or a count of 0 means none of it.`,
		Example: "  forge policy put --enabled --max-valid-for 30m", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			given := c.Flags().Changed
			if given("max-valid-for") && (window < 0 || window%time.Second != 0) {
				return misuse("--max-valid-for takes whole seconds, such as 30m")
			}
			client, err := conn.client()
			if err != nil {
				return err
			}
			now, err := client.Policy(c.Context())
			if err != nil {
				return err
			}
			next := now.Policy
			if given("revision") {
				next.Revision = revision
			}
			changed := false
			for name, copy := range map[string]func(){
				"enabled":                               func() { next.Enabled = set.Enabled },
				"allow-unavailable-source-observations": func() { next.AllowUnavailableSourceObservations = set.AllowUnavailableSourceObservations },
				"allow-pre-admission-recovery":          func() { next.AllowPreAdmissionRecovery = set.AllowPreAdmissionRecovery },
				"allow-readonly-observation-recovery":   func() { next.AllowReadonlyObservationRecovery = set.AllowReadonlyObservationRecovery },
				"max-pending-tickets":                   func() { next.MaxPendingTickets = set.MaxPendingTickets },
				"max-tickets-per-run":                   func() { next.MaxTicketsPerRun = set.MaxTicketsPerRun },
				"max-valid-for":                         func() { next.MaxValidForSeconds = models.Seconds(window / time.Second) },
			} {
				if given(name) {
					copy()
					changed = true
				}
			}
			if !changed {
				return misuse("nothing to change: see forge policy put --help")
			}
			p, err := client.PutPolicy(c.Context(), next)
			if err != nil {
				return uncertain(err, "it may have been accepted: forge policy get tells")
			}
			return printPolicy(c.OutOrStdout(), p, asJSON)
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	f := c.Flags()
	f.BoolVar(&set.Enabled, "enabled", false, "whether held runs may be continued")
	f.BoolVar(&set.AllowUnavailableSourceObservations, "allow-unavailable-source-observations", false, "whether version 2 is offered")
	f.BoolVar(&set.AllowPreAdmissionRecovery, "allow-pre-admission-recovery", false, "whether a refused first request may be recovered")
	f.BoolVar(&set.AllowReadonlyObservationRecovery, "allow-readonly-observation-recovery", false, "whether a lost read may be recovered")
	f.Int64Var(&set.MaxPendingTickets, "max-pending-tickets", 0, "most continuations that wait at once")
	f.Int64Var(&set.MaxTicketsPerRun, "max-tickets-per-run", 0, "most continuations in the life of a run")
	f.DurationVar(&window, "max-valid-for", 0, "longest lease of a continuation, such as 30m")
	f.Int64Var(&revision, "revision", 0, "replace this revision and no other")
	return c
}

func printPolicy(w io.Writer, p forge.PolicyView, asJSON bool) error {
	if asJSON {
		return printJSON(w, p)
	}
	table(w, [2]string{"revision", fmt.Sprint(p.Revision)}, [2]string{"enabled", yesNo(p.Enabled)},
		[2]string{"unavailable source observations", yesNo(p.AllowUnavailableSourceObservations)},
		[2]string{"pre-admission recovery", yesNo(p.AllowPreAdmissionRecovery)},
		[2]string{"readonly observation recovery", yesNo(p.AllowReadonlyObservationRecovery)},
		[2]string{"longest lease", fmt.Sprintf("%d s", p.MaxValidForSeconds)}, [2]string{"tickets of a run", fmt.Sprintf("at most %d", p.MaxTicketsPerRun)},
		[2]string{"pending tickets", fmt.Sprintf("at most %d", p.MaxPendingTickets)}, [2]string{"digest", p.Digest.String()})
	return nil
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
