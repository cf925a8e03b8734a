package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	forge "github.com/forge-continuity/forge/clients/go"
)

func principalCommand() *cobra.Command {
	c := &cobra.Command{Use: "principal", Short: "List, set and remove principals", Args: noArgs, RunE: showHelp}
	c.AddCommand(principalListCommand(), principalPutCommand(), principalRemoveCommand())
	return c
}

func principalListCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "List the principals of your factory and their roles", Example: "  forge principal list", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := conn.client()
			if err != nil {
				return err
			}
			f, err := client.Factory(c.Context())
			if err != nil {
				return err
			}
			for _, p := range f.Principals {
				if asJSON {
					err = printJSON(c.OutOrStdout(), p)
				} else {
					roles := strings.Join(p.Roles, ", ")
					if p.Removed {
						roles = "removed"
					}
					_, err = fmt.Fprintln(c.OutOrStdout(), strings.TrimRight(fmt.Sprintf("%-24s  %-40s  authority %-4d  %s", p.ID, orNone(roles), p.Authority, p.Name), " "))
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
	return c
}

// changePrincipal sends a change of the principal's entry as it was read.
func changePrincipal(conn *connection, c *cobra.Command, principal, id string, asJSON bool, change func(*forge.PrincipalPut)) error {
	client, err := conn.client()
	if err != nil {
		return err
	}
	f, err := client.Factory(c.Context())
	if err != nil {
		return err
	}
	put := forge.PrincipalPut{}
	for _, p := range f.Principals {
		if p.ID == principal {
			put = forge.PrincipalPut{Removed: p.Removed, Replaces: p.Authority, Roles: p.Roles}
		}
	}
	change(&put)
	own, err := ownID(c, id)
	if err != nil {
		return err
	}
	saved, err := client.PutPrincipal(c.Context(), own, principal, put)
	if err != nil {
		return sent(err, own)
	}
	if asJSON {
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s\n", saved.Body)
		return err
	}
	table(c.OutOrStdout(), [2]string{"recorded", fmt.Sprintf("factory row %d", saved.Receipt.Seq)}, [2]string{"authority", fmt.Sprint(saved.Receipt.Revision)})
	return nil
}

func principalPutCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	var id, name string
	var roles []string
	c := &cobra.Command{
		Use: "put ID --role ROLE...", Short: "Make a principal or set its roles (administrator)",
		Long: `Put sets the roles of a principal to exactly those given: administrator, operator, worker, reader. Without --role it has
none. Every change raises its authority revision; tokens stay as they are.`,
		Example: "  forge principal put worker-1 --role worker --name 'Night shift'", Args: exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			slices.Sort(roles)
			return changePrincipal(&conn, c, args[0], id, asJSON, func(p *forge.PrincipalPut) {
				p.Removed, p.Roles, p.Name = false, slices.Compact(roles), name
			})
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	c.Flags().StringVar(&id, "command-id", "", "your own id for this command; one is made and shown if absent")
	c.Flags().StringSliceVar(&roles, "role", nil, "administrator, operator, worker or reader; may be given more than once")
	c.Flags().StringVar(&name, "name", "", "a label for people; it stands in no journal")
	return c
}

func principalRemoveCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	var id string
	c := &cobra.Command{
		Use: "remove ID", Short: "Take a principal out of the factory (administrator)",
		Long:    "Remove ends a principal: every token of it is refused from now on, and what it started can no longer be continued.",
		Example: "  forge principal remove worker-1", Args: exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			return changePrincipal(&conn, c, args[0], id, asJSON, func(p *forge.PrincipalPut) { p.Removed, p.Roles = true, nil })
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	c.Flags().StringVar(&id, "command-id", "", "your own id for this command; one is made and shown if absent")
	return c
}
