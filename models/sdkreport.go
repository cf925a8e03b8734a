package models

import (
	"errors"
	"fmt"
	"slices"

	"github.com/forge-continuity/forge/models/canon"
)

// An SDKReport is what a differential run of the installed reconstruction against the real SDK found (forge-report/1 of
// kind ReportSDK; docs/sdk-report.md describes every member). A profile of retained work rests on one: it is the report
// that the profile's QualificationSDK names by digest.
//
// ExecutableIdentity is Module again, SourceRevision is Catalogue again, both in hex, and ProviderEpoch is Transition's label: the
// head that every kept report has.
type SDKReport struct {
	At                 Instant     `json:"at_us"`
	Catalogue          Digest      `json:"catalogue"`
	ExecutableIdentity string      `json:"executable_identity"`
	Format             string      `json:"format"`
	Kind               string      `json:"kind"`
	Module             Digest      `json:"module"`
	ProviderEpoch      string      `json:"provider_epoch"`
	Sets               []SDKSet    `json:"sets"`
	Sides              []SDKSide   `json:"sides"`
	SourceRevision     string      `json:"source_revision"`
	Transition         SDKVersions `json:"transition"`
}

// SDKVersions is a pair of SDK versions: that of the source, and that of the derived checkpoint.
type SDKVersions struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// An SDKSet is one set of answers or requests that both sides were given: how many, its name (sdkSets), and the plain
// digest of the file of jobs.
type SDKSet struct {
	Jobs   int64  `json:"jobs"`
	Name   string `json:"name"`
	SHA256 Digest `json:"sha256"`
}

// An SDKSide is one version of the SDK as installed, and how the reconstruction compares with it on each set, in the order
// of Sets. Packages are sorted by name; Wheel is the SHA-256 of the wheel that was installed.
type SDKSide struct {
	Counts   []SDKCounts  `json:"counts"`
	Packages []SDKPackage `json:"packages"`
	Python   string       `json:"python"`
	SDK      string       `json:"sdk"`
}

// SDKPackage is one installed distribution.
type SDKPackage struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Wheel   Digest `json:"wheel_sha256"`
}

// SDKCounts says how the two stand to each other: the same message or body; both refuse; refused here and taken by the SDK
// (safe, and said by name); another message or body; taken here and refused by the SDK.
type SDKCounts struct {
	Agree       int64 `json:"agree"`
	BothRefuse  int64 `json:"both_refuse"`
	Differ      int64 `json:"differ"`
	RefusedHere int64 `json:"refused_here"`
	TakenHere   int64 `json:"taken_here"`
}

// ReportSDK is the kind of an SDKReport.
const ReportSDK = "sdk"

// Names of the sets of a report: made at random, and recorded in this project with the real SDK.
const (
	SDKGenerated         = "generated"
	SDKGeneratedRequests = "generated-requests"
	SDKRecorded          = "recorded"
	SDKRecordedRequests  = "recorded-requests"
)

// sdkSets are the sets that every report has, with the least number of jobs, and of jobs on which both sides agree. Of what
// is recorded, the release's own golden cases are the least (a test of fixtures/judge counts them).
var sdkSets = [...]struct {
	name        string
	jobs, agree int64
}{
	{SDKGenerated, 2000, 2000},
	{SDKGeneratedRequests, 500, 500},
	{SDKRecorded, 719, 500},
	{SDKRecordedRequests, 1197, 900},
}

// sdkPackages are the distributions that a report must name on both sides.
var sdkPackages = [...]string{"anthropic", "genai-prices", "httpx", "openai", "pydantic-ai-slim"}

// ReadSDKReport reads a report and checks that it is one that qualifies: of a pair, with the packages of both sides, enough
// generated and all recorded answers, and not one difference. The error says what is missing.
func ReadSDKReport(data []byte) (SDKReport, error) {
	var r SDKReport
	if err := canon.Decode(data, &r); err != nil {
		return r, fmt.Errorf("SDK report: %w: %w", errReportForm, err)
	}
	if err := r.check(); err != nil {
		return r, fmt.Errorf("SDK report: %w", err)
	}
	return r, nil
}

func (r SDKReport) check() error {
	switch {
	case r.Format != ReportFormat || r.Kind != ReportSDK:
		return fmt.Errorf("it is not %s of kind %s", ReportFormat, ReportSDK)
	case r.Module.IsZero() || r.ExecutableIdentity != r.Module.String() || r.Catalogue.IsZero() || r.SourceRevision != r.Catalogue.String():
		return errors.New("it does not name one module and one catalogue")
	case r.Transition.From == "" || r.Transition.To == "" || r.ProviderEpoch != r.Transition.Label():
		return errors.New("it does not name one pair")
	case r.At < 1:
		return errors.New("it has no time")
	}
	versions := []string{r.Transition.From, r.Transition.To}
	if r.Transition.From == r.Transition.To {
		versions = versions[:1]
	}
	if len(r.Sides) != len(versions) || len(r.Sets) != len(sdkSets) {
		return errors.New("it does not have the sides of its pair and every set")
	}
	for i, set := range r.Sets {
		if set.Name != sdkSets[i].name || set.SHA256.IsZero() || set.Jobs < sdkSets[i].jobs {
			return fmt.Errorf("set %d is not %s with at least %d jobs", i, sdkSets[i].name, sdkSets[i].jobs)
		}
	}
	for i, side := range r.Sides {
		if side.SDK != versions[i] {
			return fmt.Errorf("side %d is not of %s", i, versions[i])
		}
		if err := side.check(r.Sets); err != nil {
			return fmt.Errorf("%s: %w", side.SDK, err)
		}
	}
	return nil
}

func (s SDKSide) check(sets []SDKSet) error {
	for i, p := range s.Packages {
		if p.Name == "" || p.Version == "" || p.Wheel.IsZero() || i > 0 && s.Packages[i-1].Name >= p.Name {
			return errors.New("packages are not sorted by name, each with version and wheel")
		}
	}
	for _, name := range sdkPackages {
		i := slices.IndexFunc(s.Packages, func(p SDKPackage) bool { return p.Name == name })
		if i < 0 {
			return fmt.Errorf("package %s is not named", name)
		}
		if name == "pydantic-ai-slim" && s.Packages[i].Version != s.SDK {
			return fmt.Errorf("the SDK that ran was %s", s.Packages[i].Version)
		}
	}
	if s.Python == "" || len(s.Counts) != len(sets) {
		return errors.New("it does not have its interpreter and counts of every set")
	}
	for i, c := range s.Counts {
		for _, n := range []int64{c.Agree, c.BothRefuse, c.Differ, c.RefusedHere, c.TakenHere} {
			if n < 0 || n > sets[i].Jobs {
				return fmt.Errorf("%s: a count is not one of its jobs", sets[i].Name)
			}
		}
		switch {
		case c.Agree+c.BothRefuse+c.Differ+c.RefusedHere+c.TakenHere != sets[i].Jobs:
			return fmt.Errorf("%s: the counts are not those of its %d jobs", sets[i].Name, sets[i].Jobs)
		case c.Differ > 0 || c.TakenHere > 0:
			return fmt.Errorf("%s: %d answers are read in another way than by the SDK", sets[i].Name, c.Differ+c.TakenHere)
		case c.Agree < sdkSets[i].agree:
			return fmt.Errorf("%s: only %d agree", sets[i].Name, c.Agree)
		}
	}
	return nil
}

// Label names the pair as ProviderEpoch has it.
func (v SDKVersions) Label() string { return "pydantic-ai-" + v.From + "/" + v.To }

// RefuseSDKReport says whether a profile may rest on a report: nil, or profile_unqualified with why. report is the kept
// report that the profile's QualificationSDK names, nil for none. A fixture profile needs none, and counts in fixture
// factories only.
func RefuseSDKReport(p Profile, report []byte) *Refusal {
	if p.Fixture {
		return nil
	}
	i := slices.IndexFunc(p.Qualifications, func(q Qualification) bool { return q.Name == QualificationSDK })
	if i < 0 || report == nil {
		return Refuse(CodeProfileUnqualified, D("profile", p.ID), D("lacks", QualificationSDK))
	}
	no := func(why string) *Refusal {
		return Refuse(CodeProfileUnqualified, D("profile", p.ID), D("report", p.Qualifications[i].Report), D("why", why))
	}
	if PlainDigest(report) != p.Qualifications[i].Report {
		return no("the report has another digest")
	}
	r, err := ReadSDKReport(report)
	switch {
	case err != nil:
		return no(toldOf(err))
	case r.Module != p.Module:
		return no("the report is of another module")
	case r.Catalogue != p.Catalogue:
		return no("the report is of another catalogue")
	}
	return nil
}
