package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/forge-continuity/forge/adapters/agentic/catalogue"
	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/sandbox/module"
)

// release is the version of this tree; a tag carries the same.
const release = "0.1.0-preview"

// build is the release and a digest of the modules that it was linked from (go.mod and go.sum as the linker saw them), so
// that a profile covers exactly these.
func build() string {
	h := sha256.New()
	if info, ok := debug.ReadBuildInfo(); ok {
		fmt.Fprintln(h, info.GoVersion)
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			fmt.Fprintln(h, m.Path, m.Version, m.Sum)
		}
	}
	return release + "+" + hex.EncodeToString(h.Sum(nil))[:16]
}

func versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "Show release, rules, guest module and catalogue", Example: "  forge version --json", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			v := struct {
				Build     string        `json:"build"`
				Catalogue models.Digest `json:"catalogue"`
				Go        string        `json:"go"`
				Module    models.Digest `json:"module"`
				Release   string        `json:"release"`
				Rules     int64         `json:"rules"`
			}{build(), catalogue.Digest(), runtime.Version(), module.Digest(), release, kernel.CurrentRules()}
			if asJSON {
				return printJSON(c.OutOrStdout(), v)
			}
			table(c.OutOrStdout(), [][2]string{{"forge", v.Release + " (private preview)"}, {"build", v.Build}, {"go", v.Go},
				{"rules", fmt.Sprint(v.Rules)}, {"guest module", v.Module.String()}, {"catalogue", v.Catalogue.String()}}...)
			return nil
		},
	}
	jsonFlag(c, &asJSON)
	return c
}
