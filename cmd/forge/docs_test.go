package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// leaves returns every command that does something, by the words a user types after forge.
func leaves(c *cobra.Command, path string, out map[string]*cobra.Command) map[string]*cobra.Command {
	for _, sub := range c.Commands() {
		if sub.Name() == "help" || sub.Name() == "completion" {
			continue
		}
		words := strings.TrimSpace(path + " " + sub.Name())
		if sub.HasSubCommands() {
			leaves(sub, words, out)
		} else {
			out[words] = sub
		}
	}
	return out
}

// docs/CLI.md has the contract of every command with --json, and of no other; every command has an example, and a story of a
// user types it.
func TestEveryCommandIsDocumentedAndTold(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "CLI.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## `--json`")
	table, _, _ = strings.Cut(table, "\n## ")
	contracts := map[string]bool{}
	quoted := regexp.MustCompile("`([a-zA-Z -]+)`")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		for _, name := range quoted.FindAllStringSubmatch(cells[1], -1) {
			for _, workflow := range []string{"never-claimed", "refused-boundary", "readonly-observation"} {
				words, _, _ := strings.Cut(name[1], " --")
				contracts[strings.Replace(words, "WORKFLOW", workflow, 1)] = true
			}
		}
	}
	var told strings.Builder
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		told.Write(text)
	}
	commands := leaves(rootCommand(), "", map[string]*cobra.Command{})
	for words, c := range commands {
		if json := c.Flags().Lookup("json") != nil; json != contracts[words] {
			t.Errorf("forge %s: --json is %t, in the table of docs/CLI.md is %t", words, json, contracts[words])
		}
		if c.Example == "" || c.Short == "" {
			t.Errorf("forge %s has no example or no summary", words)
		}
		if !regexp.MustCompile(`(exec|exits \d|exits) forge `+words+`\b`).MatchString(told.String()) && !slices.Contains(elsewhere, words) {
			t.Errorf("no story in testdata types forge %s", words)
		}
	}
	for words := range contracts {
		if commands[words] == nil {
			t.Errorf("docs/CLI.md documents forge %s, which there is not", words)
		}
	}
}

// elsewhere are commands whose stories are tests of their own.
var elsewhere = []string{"demo"}
