// Command forge serves Forge and speaks to it. Its usage text is the documentation; docs/CLI.md holds the contracts of
// --json and of the exit codes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/models"
)

// Exit codes are a contract (docs/CLI.md).
const (
	exitDone    = 0
	exitFailed  = 1 // the machine, the network or this program
	exitUsage   = 2 // the command line
	exitRefused = 3 // a refusal with a code: by the server, or by verification
)

const usage = `Forge keeps the record of an agent run and says whether a held one may go on. (Private preview.)

A whole story on your own machine, with nothing to set up:

    forge demo

A server of your own, and a held run continued by the person who started it:

    $ forge factory create acme --administrator ada --store forge.db
    $ forge serve --store forge.db --listen 127.0.0.1:8740
    $ export FORGE_SERVER=http://127.0.0.1:8740 FORGE_TOKEN=forge_...
    $ forge run list
    $ forge candidate nightly-4711
    $ forge admit nightly-4711 --request-id continue-4711 --valid-for 30m \
        --acknowledge-no-new-grant --acknowledge-original-consumption \
        --acknowledge-renewed-same-attempt-lease
    $ forge run export nightly-4711 --output nightly-4711.jsonl
    $ forge verify nightly-4711.jsonl

Results go to standard output, everything else to standard error. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused
with a code (docs/REFUSALS.md lists them).`

// hinted is an error with what to do about it.
type hinted struct {
	error
	hint string
}

func (h *hinted) Unwrap() error { return h.error }

func hint(err error, format string, args ...any) error {
	return &hinted{err, fmt.Sprintf(format, args...)}
}

// uncertain adds the hint where whether a command was accepted is not known.
func uncertain(err error, format string, args ...any) error {
	if errors.Is(err, forge.ErrUncertain) {
		return hint(err, format, args...)
	}
	return err
}

// misused is an error of the command line.
type misused struct{ error }

func (m *misused) Unwrap() error { return m.error }

func misuse(format string, args ...any) error { return &misused{fmt.Errorf(format, args...)} }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program: it returns the exit code. The context ends at the first SIGINT or SIGTERM.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	started := false
	root := rootCommand()
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && !started {
		err = &misused{err}
	}
	return report(stderr, err)
}

// rootCommand is forge with every command that it has.
func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use: "forge", Long: usage, SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.AddCommand(serveCommand(), factoryCommand(), principalCommand(), tokenCommand(), policyCommand(), runCommand(), workCommand(),
		claimCommand(), releaseCommand(), reconcileCommand(), retryCommand(), cancelCommand(), dbCommand(), moduleCommand(), candidateCommand(), admitCommand(),
		receiptCommand(), recoverCommand(), qualifyCommand(), profileCommand(), reportCommand(), inspectCommand(), restoreCommand(), waiveCommand(), verifyCommand(), demoCommand(), versionCommand())
	return root
}

// report prints an error with its hint and returns the exit code that it means.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return exitDone
	}
	code, next := exitFailed, ""
	var problem *forge.Problem
	var refusal *models.Refusal
	var wrong *misused
	var h *hinted
	switch {
	case errors.As(err, &problem):
		code, next = exitRefused, problem.Next
	case errors.As(err, &refusal):
		code, next = exitRefused, refusal.Next
	case errors.As(err, &wrong):
		code, next = exitUsage, "see forge --help"
	case errors.Is(err, forge.ErrUncertain):
		next = "it may have been accepted: read it back under the same id before sending anything again"
	}
	if errors.As(err, &h) {
		next = h.hint
	}
	fmt.Fprintf(stderr, "forge: error: %s\n", oneLine(err.Error()))
	if next != "" {
		fmt.Fprintf(stderr, "forge: hint: %s\n", oneLine(next))
	}
	return code
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
