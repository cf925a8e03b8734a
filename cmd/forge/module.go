package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forge-continuity/forge/adapters/agentic/catalogue"
	"github.com/forge-continuity/forge/adapters/sealed"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/sandbox"
	"github.com/forge-continuity/forge/sandbox/module"
)

func moduleCommand() *cobra.Command {
	c := &cobra.Command{Use: "module", Short: "Look at guest modules, and call one", Args: noArgs, RunE: showHelp}
	c.AddCommand(moduleListCommand(), moduleInspectCommand(), moduleCallCommand())
	return c
}

// moduleFlags name a module: the one of this build, a file, or one that a store keeps.
type moduleFlags struct {
	store  storeFlags
	file   string
	digest string
}

func (m *moduleFlags) flags(c *cobra.Command) {
	m.store.flags(c)
	c.Flags().StringVar(&m.file, "module", "", "module file, .wasm or .wasm.gz; the one of this build if absent")
	c.Flags().StringVar(&m.digest, "digest", "", "digest of a module that the store keeps")
}

// maxModule bounds a module file, compressed or not.
const maxModule = 64 << 20

// read returns the module's bytes, uncompressed.
func (m *moduleFlags) read(ctx context.Context) ([]byte, error) {
	switch {
	case m.file != "" && m.digest != "":
		return nil, misuse("name a module by --module or by --digest")
	case m.digest != "":
		digest, err := models.ParseDigest(m.digest)
		if err != nil {
			return nil, misuse("--digest: %v", err)
		}
		store, err := m.store.open(ctx)
		if err != nil {
			return nil, err
		}
		data, err := store.Module(ctx, digest)
		if err == nil && models.PlainDigest(data) != digest {
			err = fmt.Errorf("the store's module %s has other bytes", digest)
		}
		return data, errors.Join(err, store.Close())
	case m.file == "":
		return module.Wasm()
	}
	f, err := os.Open(m.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(m.file, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("%s: %w", m.file, err)
		}
	}
	return readBounded(r, m.file, maxModule)
}

func readBounded(r io.Reader, name string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	return data, err
}

// moduleListed is a contract (docs/CLI.md).
type moduleListed struct {
	Bytes   int64         `json:"bytes"`
	Current bool          `json:"current"`
	Digest  models.Digest `json:"digest"`
	Kept    bool          `json:"kept"`
}

func moduleListCommand() *cobra.Command {
	var store storeFlags
	var asJSON bool
	c := &cobra.Command{
		Use: "list [--store FILE | --database-url URL]", Short: "List the module of this build and those that a store keeps",
		Long: `List shows guest modules by digest. A store keeps every module that it was opened with, so that what was admitted with an older one
can be reconstructed again.`,
		Example: "  forge module list\n  forge module list --store forge.db", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			wasm, err := module.Wasm()
			if err != nil {
				return err
			}
			current := models.Digest(module.Digest())
			list := []moduleListed{{Bytes: int64(len(wasm)), Current: true, Digest: current}}
			if store.file != "" || store.url != "" {
				s, err := store.open(c.Context())
				if err != nil {
					return err
				}
				kept, err := s.ListModules(c.Context())
				if err = errors.Join(err, s.Close()); err != nil {
					return err
				}
				for _, m := range kept {
					if m.Digest == current {
						list[0].Kept = true
						continue
					}
					list = append(list, moduleListed{Bytes: m.Bytes, Digest: m.Digest, Kept: true})
				}
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), list)
			}
			for _, m := range list {
				what := "kept by the store"
				if m.Current {
					what = "of this build"
					if m.Kept {
						what += ", kept by the store"
					}
				}
				fmt.Fprintf(c.OutOrStdout(), "%s  %9d bytes  %s\n", m.Digest, m.Bytes, what)
			}
			return nil
		},
	}
	store.flags(c)
	jsonFlag(c, &asJSON)
	return c
}

// moduleShown is a contract (docs/CLI.md).
type moduleShown struct {
	Bytes   int64         `json:"bytes"`
	Digest  models.Digest `json:"digest"`
	Exports []string      `json:"exports"`
	Imports []string      `json:"imports"`
	Memory  int64         `json:"memory_bytes"`
	Metered bool          `json:"metered"`
	Refused string        `json:"refused"`
}

func moduleInspectCommand() *cobra.Command {
	var from moduleFlags
	var asJSON bool
	c := &cobra.Command{
		Use: "inspect [--module FILE | --digest DIGEST --store FILE]", Short: "Show what a module imports and exports, and whether a host would have it",
		Long: `Inspect reads a module's bytes and runs nothing of it. It ends with 3 where a host would refuse the module, and says why
(docs/guest-abi.md).`,
		Example: "  forge module inspect\n  forge module inspect --module other.wasm.gz", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			wasm, err := from.read(c.Context())
			if err != nil {
				return err
			}
			d := sandbox.Describe(wasm)
			shown := moduleShown{Bytes: int64(d.Bytes), Digest: d.Digest, Exports: append([]string{}, d.Exports...),
				Imports: append([]string{}, d.Imports...), Memory: d.Memory, Metered: d.Metered, Refused: d.Refused}
			if asJSON {
				err = printJSON(c.OutOrStdout(), shown)
			} else {
				table(c.OutOrStdout(), [2]string{"digest", shown.Digest.String()}, [2]string{"size", fmt.Sprintf("%d bytes", d.Bytes)},
					[2]string{"imports", strings.Join(d.Imports, " ")}, [2]string{"exports", strings.Join(d.Exports, " ")},
					[2]string{"memory", fmt.Sprintf("%d bytes to begin with", d.Memory)}, [2]string{"metered", strconv.FormatBool(d.Metered)})
			}
			if err == nil && d.Refused != "" {
				return models.Refuse(models.CodeSandboxStopped, models.D("reason", d.Refused))
			}
			return err
		},
	}
	from.flags(c)
	jsonFlag(c, &asJSON)
	return c
}

func moduleCallCommand() *cobra.Command {
	var from moduleFlags
	var frames []string
	var params, output, cache string
	var bare bool
	c := &cobra.Command{
		Use: "call FUNCTION", Short: "Run one function of a module in the sandbox",
		Long: `Call gives named files to a function of a guest module and prints its result, one line of JSON. The catalogue of this build is given
where no other is. Frames of the answer are written to the folder of --output, as files of their names, which must not exist; without
it their names, lengths and digests are shown only. A refusal of the module ends with 3 and its code.`,
		Example: "  forge module call inspect --frame checkpoint=checkpoint.json\n" +
			"  forge module call contract --frame contract=contract.json --output out",
		Args: exactly("FUNCTION"),
		RunE: func(c *cobra.Command, args []string) error {
			wasm, err := from.read(c.Context())
			if err != nil {
				return err
			}
			given, err := readFrames(frames, bare)
			if err != nil {
				return err
			}
			text := canon.Raw(params)
			if err := canon.Decode(text, &map[string]canon.Raw{}); err != nil {
				return misuse("--params: not a JSON object: %v", err)
			}
			host, err := sandbox.New(c.Context(), wasm, sandbox.Config{CacheDir: cacheDir(cache), Warm: -1, Concurrency: 1})
			var refused *sandbox.ModuleError
			if errors.As(err, &refused) {
				return models.Refuse(models.CodeSandboxStopped, models.D("reason", refused.Error()))
			}
			if err != nil {
				return err
			}
			defer host.Close(context.WithoutCancel(c.Context()))
			result, err := host.Call(c.Context(), args[0], given, text)
			var no *sandbox.Refusal
			if errors.As(err, &no) {
				r, bad := sealed.Refusal(no.Code, no.Details)
				if bad != nil {
					return bad
				}
				return r
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s\n", result.ResultJSON)
			fmt.Fprintf(c.ErrOrStderr(), "forge: module %x, fuel %d\n", host.Digest(), result.FuelUsed)
			for _, f := range result.Frames {
				fmt.Fprintf(c.ErrOrStderr(), "forge: frame %s, %d bytes, SHA-256 %x\n", f.Name, len(f.Bytes), f.Digest())
				if output == "" {
					continue
				}
				if filepath.Base(f.Name) != f.Name || strings.HasPrefix(f.Name, ".") {
					return fmt.Errorf("the module names a frame %q, which is no file name", f.Name)
				}
				if err := os.MkdirAll(output, 0o755); err != nil {
					return err
				}
				if err := writeWhole(filepath.Join(output, f.Name), false, func(w io.Writer) error {
					_, err := io.Copy(w, bytes.NewReader(f.Bytes))
					return err
				}); err != nil {
					return err
				}
			}
			return nil
		},
	}
	from.flags(c)
	c.Flags().StringArrayVar(&frames, "frame", nil, "NAME=FILE, once for each frame, in order")
	c.Flags().BoolVar(&bare, "no-catalogue", false, "do not add the catalogue of this build, for modules that take none")
	c.Flags().StringVar(&params, "params", "{}", "parameters, a JSON object")
	c.Flags().StringVar(&output, "output", "", "folder for the frames of the answer")
	cacheFlag(c, &cache)
	return c
}

// readFrames reads NAME=FILE pairs, and puts the catalogue of this build first where none is named.
func readFrames(pairs []string, bare bool) ([]sandbox.Frame, error) {
	var out []sandbox.Frame
	own := !bare
	for _, p := range pairs {
		name, file, ok := strings.Cut(p, "=")
		if !ok || name == "" || file == "" {
			return nil, misuse("--frame wants NAME=FILE, not %q", p)
		}
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		data, err := readBounded(f, file, maxModule)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		own = own && name != "catalogue"
		out = append(out, sandbox.Frame{Name: name, Bytes: data})
	}
	if own {
		out = append([]sandbox.Frame{{Name: "catalogue", Bytes: catalogue.Bytes()}}, out...)
	}
	return out, nil
}
