package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	forge "github.com/forge-continuity/forge/clients/go"
)

// connection is how a command reaches a server. The token never stands on the command line, where every user of the
// machine could read it.
type connection struct {
	server    string
	tokenFile string
}

func (c *connection) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.server, "server", "", "address of the server; else FORGE_SERVER, else "+defaultServer)
	cmd.Flags().StringVar(&c.tokenFile, "token-file", "", "file with the token; else FORGE_TOKEN")
}

const (
	defaultListen = "127.0.0.1:8740"
	defaultServer = "http://" + defaultListen
)

func (c *connection) client() (*forge.Client, error) {
	server, token := c.server, os.Getenv("FORGE_TOKEN")
	if server == "" {
		server = os.Getenv("FORGE_SERVER")
	}
	if server == "" {
		server = defaultServer
	}
	if c.tokenFile != "" {
		text, err := os.ReadFile(c.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("read token: %w", err)
		}
		token = string(text)
	}
	if token = strings.TrimSpace(token); token == "" {
		return nil, hint(misuse("no token"), "set FORGE_TOKEN, or name a file with --token-file")
	}
	client, err := forge.New(server, token, nil)
	if err != nil {
		return nil, &misused{err}
	}
	return client, nil
}

func jsonFlag(c *cobra.Command, into *bool) {
	c.Flags().BoolVar(into, "json", false, "one line of JSON, as docs/CLI.md describes it")
}

func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return misuse("unexpected argument %q", args[0])
	}
	return nil
}

func exactly(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return misuse("%s wants %s", c.CommandPath(), strings.Join(names, " "))
		}
		return nil
	}
}
