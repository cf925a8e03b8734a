package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forge-continuity/forge/adapters/conformance"
	"github.com/forge-continuity/forge/adapters/postgres"
	"github.com/forge-continuity/forge/adapters/postgres/scratch"
	"github.com/forge-continuity/forge/adapters/sqlite"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/server/engine"
)

// carried are the reports that this release carries as data.
//
//go:embed reports
var carried embed.FS

const qualifyLong = `Qualify runs the installed program through what a profile of retained work rests on, and writes reports and the profile that names
them into a folder, for forge profile register:

  * the store's own suite, on a new store of the kind in use: a file beside --store FILE, or a new schema of --database-url URL, whose
    database must have a name that ends in _test. Nothing of yours is touched, and what was made is removed.
  * the controller: the real server with its sandbox, screening and a worker, over real HTTP, through each way on.
  * PostgreSQL: measured where the store is one; else the report that this release carries, or --postgres-report FILE.
  * the SDK: the report that this release carries, or --sdk-report FILE (docs/sdk-report.md).

A report names the guest module, catalogue, rules, rule set of the screening, build and store that it was made with; another of any of
these needs another run. What is missing for retained work is said. The exit code is 1 where a check failed; such a report is not
written.`

func qualifyCommand() *cobra.Command {
	var store storeFlags
	var out, id string
	given := map[string]*string{models.QualificationSDK: new(string), models.QualificationPostgres: new(string)}
	var asJSON, force bool
	c := &cobra.Command{
		Use: "qualify --store FILE | --database-url URL --output FOLDER", Short: "Check this installation, and write the reports that a profile rests on", Long: qualifyLong,
		Example: "  forge qualify --store forge.db --output qualified\n  forge profile register qualified", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case out == "":
				return misuse("--output is missing")
			case !models.ValidID(id):
				return misuse("--profile-id takes 1 to %d letters, digits, dots, underscores and dashes", models.MaxIDLength)
			case (store.file == "") == (store.url == ""):
				return misuse("name a store: --store FILE or --database-url URL")
			}
			q := &qualification{out: out, force: force, id: id, progress: c.ErrOrStderr()}
			for name, file := range given {
				if *file == "" {
					continue
				}
				data, err := os.ReadFile(*file)
				if err != nil {
					return err
				}
				q.reports = append(q.reports, namedReport{name, data})
			}
			if err := q.run(c.Context(), store); err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), q.profile)
			}
			q.print(c.OutOrStdout())
			return nil
		},
	}
	store.flags(c)
	jsonFlag(c, &asJSON)
	c.Flags().StringVar(&out, "output", "", "folder for reports and profile, made if it is not there")
	c.Flags().BoolVar(&force, "force", false, "replace files in that folder")
	c.Flags().StringVar(&id, "profile-id", "profile-"+release, "id of the profile")
	c.Flags().StringVar(given[models.QualificationSDK], "sdk-report", "", "report of the SDK pair, in place of the release's own")
	c.Flags().StringVar(given[models.QualificationPostgres], "postgres-report", "", "report of PostgreSQL, in place of the release's own")
	return c
}

type namedReport struct {
	name string
	data []byte
}

type qualification struct {
	out, id  string
	force    bool
	progress io.Writer
	reports  []namedReport
	profile  models.Profile
	missing  []string

	suites []models.QualificationCheck // of the test suites that ran on this PostgreSQL beside this, for a release's report
}

// run measures, gathers and writes.
func (q *qualification) run(ctx context.Context, flags storeFlags) (err error) {
	open, remove, err := scratchStore(ctx, flags)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	stores, err := q.store(ctx, open)
	if err != nil {
		return err
	}
	host, controller, err := q.controller(ctx, open)
	if err != nil {
		return err
	}
	q.profile = models.Profile{Build: host.Build, Catalogue: host.Catalogue, ID: q.id, Module: host.Module, Rules: host.Rules, Screening: host.Screening,
		Store: host.Store, StoreMajor: host.StoreMajor}
	if err := os.MkdirAll(q.out, 0o755); err != nil {
		return err
	}
	at := models.Instant(time.Now().UnixMicro())
	made := []namedReport{{models.QualificationController, canon.MustMarshal(models.NewQualificationReport(models.QualificationController, host, at, controller))}}
	kinds := []string{models.QualificationStore + host.Store}
	if host.Store == "postgres" {
		kinds = append(kinds, models.QualificationPostgres)
	}
	for _, kind := range kinds {
		checks := slices.Clone(stores)
		if kind == models.QualificationPostgres {
			checks = append(checks, q.suites...)
			for _, c := range controller {
				checks = append(checks, models.QualificationCheck{Name: "demo: " + c.Name, Passed: c.Passed})
			}
		}
		made = append(made, namedReport{kind, canon.MustMarshal(models.NewQualificationReport(kind, host, at, checks))})
	}
	all := slices.Concat(stores, controller, q.suites)
	if failed := failures(all); len(failed) > 0 {
		return fmt.Errorf("not qualified: %d of %d checks failed: %s", len(failed), len(all), strings.Join(failed, ", "))
	}
	q.reports = append(made, q.reports...)
	if err := q.release(); err != nil {
		return err
	}
	return q.write()
}

func failures(checks []models.QualificationCheck) []string {
	var out []string
	for _, c := range checks {
		if !c.Passed {
			out = append(out, c.Name)
		}
	}
	return out
}

// scratchStore returns a way to open a new, empty store of the kind in use any number of times, and what removes it.
func scratchStore(ctx context.Context, flags storeFlags) (open func() (engine.Store, error), remove func() error, err error) {
	if flags.url != "" {
		url, drop, err := scratch.Schema(ctx, flags.url)
		if errors.Is(err, scratch.ErrName) {
			return nil, nil, hint(misuse("%v", err), "make a database such as forge_test on the same server, for nothing but this")
		}
		if err != nil {
			return nil, nil, err
		}
		return func() (engine.Store, error) { return postgres.Open(ctx, url) }, func() error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
			defer cancel()
			return drop(ctx)
		}, nil
	}
	dir, err := os.MkdirTemp(filepath.Dir(flags.file), ".forge-qualify-")
	if err != nil {
		return nil, nil, err
	}
	return func() (engine.Store, error) { return sqlite.Open(ctx, filepath.Join(dir, "forge.db")) }, func() error { return os.RemoveAll(dir) }, nil
}

// store runs the suite that every store passes.
func (q *qualification) store(ctx context.Context, open func() (engine.Store, error)) (checks []models.QualificationCheck, err error) {
	var nodes conformance.Nodes
	for _, into := range []*engine.Store{&nodes.A, &nodes.B} {
		if *into, err = open(); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, (*into).Close()) }()
	}
	nodes.Open = open
	for _, c := range conformance.Checks() {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		failed := c.Run(ctx, nodes)
		if failed != nil {
			fmt.Fprintf(q.progress, "forge: store check %s failed: %v\n", c.Name, failed)
		}
		checks = append(checks, models.QualificationCheck{Name: c.Name, Passed: failed == nil})
	}
	fmt.Fprintf(q.progress, "forge: store: %d checks\n", len(checks))
	return checks, nil
}

// controller runs every chapter of the demo over the installed composition, each in a factory of its own.
func (q *qualification) controller(ctx context.Context, open func() (engine.Store, error)) (host models.Host, checks []models.QualificationCheck, err error) {
	for i, ch := range chapters {
		store, err := open()
		if err != nil {
			return host, nil, err
		}
		sc, err := openScene(ctx, store, "127.0.0.1:0", slog.New(slog.DiscardHandler))
		if err != nil {
			return host, nil, err
		}
		host = sc.comp.engine.Host()
		failed := q.rehearse(ctx, sc, ch, fmt.Sprintf("qualify-%d", i))
		if err := sc.close(); err != nil {
			return host, nil, err
		}
		if ctx.Err() != nil {
			return host, nil, ctx.Err()
		}
		if failed != nil {
			fmt.Fprintf(q.progress, "forge: controller check %s failed: %v\n", ch.name, failed)
		}
		checks = append(checks, models.QualificationCheck{Name: ch.name, Passed: failed == nil})
	}
	fmt.Fprintf(q.progress, "forge: controller: %d checks\n", len(checks))
	return host, checks, nil
}

func (q *qualification) rehearse(ctx context.Context, sc *scene, ch chapter, factory string) (err error) {
	dir, err := os.MkdirTemp("", "forge-qualify-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	people, err := demoPeople(ctx, sc.comp.engine, factory, sc.base)
	if err != nil {
		return err
	}
	s := &story{out: io.Discard, dir: dir, told: ch, base: sc.base, people: people, comp: sc.comp, stub: sc.stub, stubBase: sc.stubBase}
	return ch.tell(s, ctx)
}

// release takes what this release carries for the installed module where nothing else was given, and says what is missing.
func (q *qualification) release() error {
	files, err := fs.Glob(carried, "reports/*.json")
	if err != nil {
		return err
	}
	for _, file := range files {
		data, err := carried.ReadFile(file)
		if err != nil {
			return err
		}
		q.reports = append(q.reports, namedReport{strings.TrimSuffix(filepath.Base(file), ".json"), data})
	}
	var kept []namedReport
	for _, r := range q.reports {
		digest := models.PlainDigest(r.data)
		if slices.ContainsFunc(kept, func(k namedReport) bool { return k.name == r.name }) {
			continue
		}
		alone := q.profile
		alone.Qualifications = []models.Qualification{{Name: r.name, Report: digest}}
		if no := models.RefuseQualifications(alone, func(models.Digest) []byte { return r.data }); no != nil {
			fmt.Fprintf(q.progress, "forge: the %s report is left out: %s\n", r.name, no.Detail("why"))
			continue
		}
		kept = append(kept, r)
		q.profile.Qualifications = append(q.profile.Qualifications, models.Qualification{Name: r.name, Report: digest})
	}
	q.reports = kept
	slices.SortFunc(q.profile.Qualifications, func(a, b models.Qualification) int { return strings.Compare(a.Name, b.Name) })
	for _, name := range []string{models.QualificationSDK, models.QualificationPostgres, models.QualificationController, models.QualificationStore + q.profile.Store} {
		if !slices.ContainsFunc(q.profile.Qualifications, func(k models.Qualification) bool { return k.Name == name }) {
			q.missing = append(q.missing, name)
		}
	}
	return nil
}

func (q *qualification) write() error {
	put := func(name string, data []byte) error {
		return writeWhole(filepath.Join(q.out, name), q.force, func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		})
	}
	for _, r := range q.reports {
		if err := put(r.name+".json", r.data); err != nil {
			return err
		}
	}
	return put(profileFile, append(canon.MustMarshal(q.profile), '\n'))
}

// profileFile is the profile beside its reports.
const profileFile = "profile.json"

func (q *qualification) print(w io.Writer) {
	p := q.profile
	lines := [][2]string{{"profile", p.ID}, {"build", p.Build}, {"guest module", p.Module.String()}, {"catalogue", p.Catalogue.String()},
		{"rules", fmt.Sprint(p.Rules)}, {"screening", p.Screening.String()}, {"store", fmt.Sprintf("%s %d", p.Store, p.StoreMajor)}}
	for _, k := range p.Qualifications {
		lines = append(lines, [2]string{"qualified " + k.Name, "report " + k.Report.String()})
	}
	table(w, lines...)
	if len(q.missing) > 0 {
		fmt.Fprintf(w, "Missing for retained work: %s. Until a profile has them nothing is admitted there.\n", strings.Join(q.missing, ", "))
		return
	}
	fmt.Fprintln(w, "Complete: an administrator may register it with forge profile register.")
}
