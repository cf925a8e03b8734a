package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

func profileCommand() *cobra.Command {
	c := &cobra.Command{Use: "profile", Short: "Register, list and retire profiles of this installation", Args: noArgs, RunE: showHelp}
	c.AddCommand(profileRegisterCommand(), profileListCommand(), profileRetireCommand())
	return c
}

func profileRegisterCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	var id string
	c := &cobra.Command{
		Use: "register FOLDER", Short: "Keep the reports of a folder and register its profile (administrator)",
		Long: `Register reads what forge qualify wrote: it keeps each report that the profile names, then registers the profile. The server reads the
reports again and refuses a profile that they do not bear out. A profile's id is new each time.`,
		Example: "  forge profile register qualified", Args: exactly("FOLDER"),
		RunE: func(c *cobra.Command, args []string) error {
			text, err := os.ReadFile(filepath.Join(args[0], profileFile))
			if err != nil {
				return err
			}
			var p models.Profile
			if err := canon.Decode(bytes.TrimSpace(text), &p); err != nil {
				return misuse("%s: %v", profileFile, err)
			}
			client, err := conn.client()
			if err != nil {
				return err
			}
			for _, q := range p.Qualifications {
				data, err := os.ReadFile(filepath.Join(args[0], q.Name+".json"))
				if err != nil {
					return err
				}
				if models.PlainDigest(data) != q.Report {
					return fmt.Errorf("%s.json is not the report that the profile names", q.Name)
				}
				if _, err := client.PutReport(c.Context(), data); err != nil {
					return err
				}
			}
			own, err := ownID(c, id)
			if err != nil {
				return err
			}
			saved, err := client.PutProfile(c.Context(), own, p)
			if err != nil {
				return sent(err, own)
			}
			if asJSON {
				_, err = fmt.Fprintf(c.OutOrStdout(), "%s\n", saved.Body)
				return err
			}
			table(c.OutOrStdout(), [2]string{"profile", p.ID}, [2]string{"recorded", fmt.Sprintf("row %d of the factory", saved.Receipt.Seq)})
			return nil
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	c.Flags().StringVar(&id, "command-id", "", "your own id for this command; one is made and shown if absent")
	return c
}

func profileListCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "Show the profiles of the factory", Example: "  forge profile list", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := conn.client()
			if err != nil {
				return err
			}
			f, err := client.Factory(c.Context())
			if err != nil {
				return err
			}
			for _, s := range f.Profiles {
				if asJSON {
					err = printJSON(c.OutOrStdout(), s)
				} else {
					_, err = fmt.Fprintf(c.OutOrStdout(), "%-24s  %-10s  %s\n", s.Profile.ID, profileState(s, f.Host), qualified(s.Profile))
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

// profileState says in a word whether a profile counts on the node that answered.
func profileState(s models.StoredProfile, h models.Host) string {
	p := s.Profile
	switch {
	case s.Retired:
		return "retired"
	case p.Build != h.Build || p.Module != h.Module || p.Catalogue != h.Catalogue || p.Rules != h.Rules || p.Screening != h.Screening ||
		p.Store != h.Store || p.StoreMajor != h.StoreMajor:
		return "other"
	}
	return "current"
}

func qualified(p models.Profile) string {
	if p.Fixture {
		return "fixture"
	}
	var names []string
	for _, q := range p.Qualifications {
		names = append(names, q.Name)
	}
	return strings.Join(names, ", ")
}

func profileRetireCommand() *cobra.Command {
	var conn connection
	var asJSON bool
	var id string
	c := &cobra.Command{
		Use: "retire ID", Short: "End a profile for good (administrator)",
		Long:    "Retire ends a profile. Nothing is admitted under it any more, and continuations that were admitted under it stop.",
		Example: "  forge profile retire profile-1", Args: exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := conn.client()
			if err != nil {
				return err
			}
			own, err := ownID(c, id)
			if err != nil {
				return err
			}
			saved, err := client.RetireProfile(c.Context(), own, args[0])
			if err != nil {
				return sent(err, own)
			}
			if asJSON {
				_, err = fmt.Fprintf(c.OutOrStdout(), "%s\n", saved.Body)
				return err
			}
			table(c.OutOrStdout(), [2]string{"profile", args[0]}, [2]string{"retired", fmt.Sprintf("row %d of the factory", saved.Receipt.Seq)})
			return nil
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	c.Flags().StringVar(&id, "command-id", "", "your own id for this command; one is made and shown if absent")
	return c
}
