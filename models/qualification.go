package models

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/forge-continuity/forge/models/canon"
)

// A QualificationReport is what a run of checks over the installed composition found (forge-report/1 whose kind is the name of the
// qualification; docs/qualification.md). ExecutableIdentity is Module, SourceRevision is Catalogue, both in hex, and ProviderEpoch is
// the store's label: the head that every kept report has. Checks are those that ran, each with whether it passed, sorted by name.
type QualificationReport struct {
	At                 Instant              `json:"at_us"`
	Build              string               `json:"build"`
	Catalogue          Digest               `json:"catalogue"`
	Checks             []QualificationCheck `json:"checks"`
	ExecutableIdentity string               `json:"executable_identity"`
	Format             string               `json:"format"`
	Kind               string               `json:"kind"`
	Module             Digest               `json:"module"`
	ProviderEpoch      string               `json:"provider_epoch"`
	Rules              int64                `json:"rules"`
	Screening          Digest               `json:"screening"`
	SourceRevision     string               `json:"source_revision"`
	Store              string               `json:"store"`
	StoreMajor         int64                `json:"store_major"`
}

// QualificationCheck is one check by name.
type QualificationCheck struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
}

// ControllerChecks are the checks that a controller report has: the installed server, sandbox, screening and worker, run through each
// way on over real HTTP.
var ControllerChecks = []string{"continue", "credentials", "lost-observation", "never-claimed", "observations", "refused-boundary", "stops"}

// StoreChecks is the least number of checks of a store: those of the suite that both stores pass, when this was written.
const StoreChecks = 44

// NewQualificationReport fills a report for the host. Checks are sorted.
func NewQualificationReport(kind string, h Host, at Instant, checks []QualificationCheck) QualificationReport {
	slices.SortFunc(checks, func(a, b QualificationCheck) int { return strings.Compare(a.Name, b.Name) })
	return QualificationReport{At: at, Build: h.Build, Catalogue: h.Catalogue, Checks: checks, ExecutableIdentity: h.Module.String(), Format: ReportFormat,
		Kind: kind, Module: h.Module, ProviderEpoch: h.Store + "-" + strconv.FormatInt(h.StoreMajor, 10), Rules: h.Rules, Screening: h.Screening,
		SourceRevision: h.Catalogue.String(), Store: h.Store, StoreMajor: h.StoreMajor}
}

// ReadQualification reads a report and checks that it is one that qualifies: every check passed, and none is missing. A report of
// host tests has another kind and is none (BOUND-17).
func ReadQualification(data []byte) (QualificationReport, error) {
	var r QualificationReport
	if err := canon.Decode(data, &r); err != nil {
		return r, fmt.Errorf("qualification report: %w: %w", errReportForm, err)
	}
	if err := r.check(); err != nil {
		return r, fmt.Errorf("qualification report: %w", err)
	}
	return r, nil
}

func (r QualificationReport) check() error {
	kind := r.Kind
	switch {
	case r.Format != ReportFormat:
		return errors.New("it is not " + ReportFormat)
	case kind == QualificationController:
	case kind == QualificationPostgres && r.Store != "postgres":
		return errors.New("it is of another store than PostgreSQL")
	case kind != QualificationPostgres && kind != QualificationStore+r.Store:
		return errors.New("its kind is no qualification of its store")
	}
	if r.Module.IsZero() || r.ExecutableIdentity != r.Module.String() || r.Catalogue.IsZero() || r.SourceRevision != r.Catalogue.String() ||
		r.ProviderEpoch != r.Store+"-"+strconv.FormatInt(r.StoreMajor, 10) || r.At < 1 || r.StoreMajor < 1 || r.Build == "" {
		return errors.New("it does not name one composition and a time")
	}
	for i, c := range r.Checks {
		if c.Name == "" || i > 0 && r.Checks[i-1].Name >= c.Name {
			return errors.New("checks are not sorted by name")
		}
		if !c.Passed {
			return fmt.Errorf("the check %q did not pass", c.Name)
		}
	}
	if kind != QualificationController {
		if len(r.Checks) < StoreChecks {
			return fmt.Errorf("only %d checks of the store", len(r.Checks))
		}
		return nil
	}
	for _, name := range ControllerChecks {
		if !slices.ContainsFunc(r.Checks, func(c QualificationCheck) bool { return c.Name == name }) {
			return fmt.Errorf("the check %q is missing", name)
		}
	}
	return nil
}

// errReportForm is that a report's text is no report at all. What the decoder says beside it names types of this program, which is
// for a log and for no refusal.
var errReportForm = errors.New("it is not the JSON of such a report")

// toldOf is what a refusal says of a report that could not be read.
func toldOf(err error) string {
	if errors.Is(err, errReportForm) {
		return errReportForm.Error()
	}
	return err.Error()
}

// RefuseQualifications says whether a profile may rest on the reports that it names: nil, profile_unqualified for that of the SDK,
// or qualification_missing with the name and why. report returns a kept report, nil for none. PostgreSQL and controller reports may
// be those that the release carries, so of them the release counts, not the host's own build; that of a store is of exactly this
// host's composition. A fixture profile needs none, and counts in fixture factories only.
func RefuseQualifications(p Profile, report func(Digest) []byte) *Refusal {
	if p.Fixture {
		return nil
	}
	for _, q := range p.Qualifications {
		data := report(q.Report)
		if q.Name == QualificationSDK {
			if r := RefuseSDKReport(p, data); r != nil {
				return r
			}
			continue
		}
		no := func(why string) *Refusal {
			return Refuse(CodeQualificationMissing, D("qualification", q.Name), D("profile", p.ID), D("report", q.Report), D("why", why))
		}
		if data == nil || PlainDigest(data) != q.Report {
			return no("no such report is kept")
		}
		r, err := ReadQualification(data)
		switch {
		case err != nil:
			return no(toldOf(err))
		case r.Kind != q.Name:
			return no("the report is of another qualification")
		case r.Module != p.Module || r.Catalogue != p.Catalogue || r.Rules != p.Rules || r.Screening != p.Screening || Release(r.Build) != Release(p.Build):
			return no("the report is of another composition")
		case strings.HasPrefix(q.Name, QualificationStore) && (r.Build != p.Build || r.Store != p.Store || r.StoreMajor != p.StoreMajor):
			return no("the report is of another store or build")
		}
	}
	return nil
}

// Release is the release of a build, which is followed by + and the digest of its modules.
func Release(build string) string {
	release, _, _ := strings.Cut(build, "+")
	return release
}
