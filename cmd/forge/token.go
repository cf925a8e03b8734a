package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/forge-continuity/forge/models"
)

func tokenCommand() *cobra.Command {
	c := &cobra.Command{Use: "token", Short: "Issue and revoke tokens (administrator)", Args: noArgs, RunE: showHelp}
	c.AddCommand(tokenIssueCommand(), tokenRevokeCommand())
	return c
}

// showHelp is what a group of commands does by itself.
func showHelp(c *cobra.Command, _ []string) error {
	return misuse("%s wants a command: see %s --help", c.CommandPath(), c.CommandPath())
}

func tokenIssueCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	var principal string
	var lifetime time.Duration
	c := &cobra.Command{
		Use: "issue --principal ID", Short: "Make a token; it is shown this once",
		Long:    "Issue makes a token for a principal of your factory. Only its hash is kept, so it is shown this once.",
		Example: "  forge token issue --principal worker-1 --lifetime 24h > worker-1.token", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if principal == "" {
				return misuse("--principal is missing")
			}
			if lifetime < time.Second || lifetime%time.Second != 0 {
				return misuse("--lifetime takes whole seconds, such as 24h")
			}
			client, err := conn.client()
			if err != nil {
				return err
			}
			token, err := client.IssueToken(c.Context(), principal, models.Seconds(lifetime/time.Second))
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), token)
			}
			fmt.Fprintf(c.ErrOrStderr(), "forge: token %s of %s; revoke it with forge token revoke %s\n", token.ID, principal, token.ID)
			_, err = fmt.Fprintln(c.OutOrStdout(), token.Secret)
			return err
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	c.Flags().StringVar(&principal, "principal", "", "whose token it is")
	c.Flags().DurationVar(&lifetime, "lifetime", 24*time.Hour, "how long it is valid, at most 366 days (8784h)")
	return c
}

func tokenRevokeCommand() *cobra.Command {
	var conn connection
	c := &cobra.Command{
		Use: "revoke TOKEN-ID", Short: "End a token", Example: "  forge token revoke 3f1a9c2be0d47a65", Args: exactly("TOKEN-ID"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := conn.client()
			if err != nil {
				return err
			}
			if err := client.RevokeToken(c.Context(), args[0]); err != nil {
				return err
			}
			fmt.Fprintf(c.ErrOrStderr(), "forge: token %s is revoked\n", args[0])
			return nil
		},
	}
	conn.flags(c)
	return c
}
