package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/forge-continuity/forge/adapters/sealed"
	"github.com/forge-continuity/forge/adapters/secrets"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

const verifyLong = `Verify checks an export file from its bytes alone, with no server and no network: both chains of hashes hold, deciding
every command again gives these very rows, every receipt is what its rows make, every blob has its digest and is what the
rows say of it, and reconstructing each admitted turn again in the sandbox gives the very same findings and checkpoint. It
stops at the first fault, names it, and ends with exit code 3. Where something cannot be checked here, because content or a
report is not in the file or the module is another, it says what and ends with exit code 1.

An export carries no signature: compare the head it prints with one that was kept elsewhere, or with the server's. What a
worker reported is taken as reported (docs/CLI.md, What verify proves).

With --run the export is first fetched from a server; the check is the same and still done here. With --all that is done for
every run of the factory: each that does not hold is named, and the others are checked all the same.`

func verifyCommand() *cobra.Command {
	var conn connection
	var asJSON, all bool
	var run, cache string
	c := &cobra.Command{
		Use: "verify FILE | --run RUN | --all", Short: "Check from an export file that nothing was replayed, reset or charged twice", Long: verifyLong,
		Example: "  forge verify nightly-4711.jsonl\n  forge verify --run nightly-4711",
		Args: func(_ *cobra.Command, args []string) error {
			ways := len(args)
			for _, given := range []bool{run != "", all} {
				if given {
					ways++
				}
			}
			if ways != 1 {
				return misuse("name one export file, or a run with --run, or --all")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			var bundle engine.Bundle
			var err error
			switch {
			case run != "":
				bundle, err = fetchBundle(c.Context(), conn, run)
			case !all:
				bundle, err = readBundle(args[0])
			}
			if err != nil {
				return err
			}
			sandbox, err := sealed.Open(c.Context(), cacheDir(cache))
			if err != nil {
				return err
			}
			defer sandbox.Close(context.WithoutCancel(c.Context()))
			screener, err := secrets.New()
			if err != nil {
				return err
			}
			if all {
				found, err := verifyAll(c.Context(), conn, func(b engine.Bundle) (engine.Verified, error) {
					return engine.Verify(c.Context(), b, sandbox, screener)
				}, func(v engine.Verified, run string, fault error) error {
					switch {
					case fault != nil:
						_, err := fmt.Fprintf(c.ErrOrStderr(), "run %s: %s\n", run, oneLine(fault.Error()))
						return err
					case asJSON:
						return printJSON(c.OutOrStdout(), v)
					}
					return nil
				})
				if err != nil {
					return err
				}
				if !asJSON {
					found.print(c.OutOrStdout())
				}
				return found.err()
			}
			found, err := engine.Verify(c.Context(), bundle, sandbox, screener)
			if err != nil {
				return fmt.Errorf("the record does not hold: %w", err)
			}
			if asJSON {
				err = printJSON(c.OutOrStdout(), found)
			} else {
				printVerified(c.OutOrStdout(), found, sandbox.Module())
			}
			if err != nil {
				return err
			}
			return unchecked(found)
		},
	}
	conn.flags(c)
	jsonFlag(c, &asJSON)
	c.Flags().StringVar(&run, "run", "", "fetch this run from the server and check it")
	c.Flags().BoolVar(&all, "all", false, "fetch every run of the factory from the server and check each")
	cacheFlag(c, &cache)
	return c
}

// unchecked is the error of a record without a fault that could not be checked as a whole, nil where it could.
func unchecked(v engine.Verified) error {
	what := v.Unchecked()
	if what == "" {
		return nil
	}
	return hint(errors.New("not everything could be checked here: "+what),
		"use the release whose guest module the rows name, and the whole file; erased content cannot be checked any more")
}

// readBundle reads an export file; bytes that are not one are a refusal, since they cannot be proved to be anything.
func readBundle(path string) (engine.Bundle, error) {
	f, err := os.Open(path)
	if err != nil {
		return engine.Bundle{}, err
	}
	defer f.Close()
	return parseBundle(f, path)
}

func parseBundle(r io.Reader, name string) (engine.Bundle, error) {
	b, err := engine.ReadBundle(r)
	if err == nil {
		return b, nil
	}
	var pathError *os.PathError
	if errors.As(err, &pathError) {
		return b, err
	}
	return b, hint(fmt.Errorf("%s: %w: %w", name, models.Refuse(models.CodeJournalBroken), err),
		"an export file is kept and sent as bytes, unchanged; export the run again")
}

func fetchBundle(ctx context.Context, conn connection, run string) (engine.Bundle, error) {
	client, err := conn.client()
	if err != nil {
		return engine.Bundle{}, err
	}
	var buffer bytes.Buffer
	if _, err := client.Export(ctx, run, &buffer); err != nil {
		return engine.Bundle{}, err
	}
	return parseBundle(&buffer, "the server's export of "+run)
}

func printVerified(w io.Writer, v engine.Verified, module models.Digest) {
	factory := v.Factory
	if v.Fixture {
		factory += " (fixture)"
	}
	rebuilt := "none admitted"
	if v.Admissions > 0 {
		rebuilt = fmt.Sprintf("%d of %d made again, same checkpoint, module %s", v.Reconstructions, v.Admissions, short(module))
	}
	if v.Reconstructions < v.Admissions {
		rebuilt += "; the others need erased content or another module"
	}
	lines := [][2]string{
		{"run", v.Run}, {"factory", factory}, {"position", v.Position},
		{"factory rows", fmt.Sprintf("%d: the chain holds, and so does every decision", v.FactoryRows)},
		{"rows", fmt.Sprintf("%d: the chain holds, and so does every decision", v.Rows)},
		{"receipts", fmt.Sprintf("%d: each is what its rows make", v.Receipts)},
		{"blobs", fmt.Sprintf("%d: each has its digest; %d erased", v.Blobs, v.BlobsErased)},
		{"reconstructions", rebuilt},
		{"reviews", reviewed(v)},
		{"head", fmt.Sprintf("row %d, %s", v.Head.Seq, v.Head.Hash)},
	}
	table(w, append(lines, spent(v.Counters)...)...)
	if v.Unchecked() == "" {
		fmt.Fprintln(w, "verified")
	}
}

// reviewed says what was checked of reports and of requests that a provider refused.
func reviewed(v engine.Verified) string {
	if v.Reports+v.ReportsMissing == 0 {
		return "no recovery rests on a report"
	}
	return fmt.Sprintf("%d reports, each has its digest, %d missing; %d of %d refused requests rendered again, same bytes", v.Reports, v.ReportsMissing,
		v.Reproductions, v.RefusedRequests)
}

func cacheFlag(c *cobra.Command, into *string) {
	c.Flags().StringVar(into, "cache-dir", "", `folder for compiled guest code, yours alone; "none" for no cache; else one in your cache folder`)
}

// cacheDir is the folder for compiled machine code: the user's own cache folder unless told otherwise, or none where there
// is no such folder.
func cacheDir(flag string) string {
	switch flag {
	case "none":
		return ""
	case "":
		base, err := os.UserCacheDir()
		if err != nil {
			return ""
		}
		flag = filepath.Join(base, "forge", "guest")
		if os.MkdirAll(flag, 0o700) != nil {
			return ""
		}
	}
	return flag
}
