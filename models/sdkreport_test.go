package models

import (
	"strings"
	"testing"

	"github.com/forge-continuity/forge/models/canon"
)

func sdkReport() SDKReport {
	module, catalogue := PlainDigest([]byte("module")), PlainDigest([]byte("catalogue"))
	r := SDKReport{At: 1, Catalogue: catalogue, ExecutableIdentity: module.String(), Format: ReportFormat, Kind: ReportSDK, Module: module,
		SourceRevision: catalogue.String(), Transition: SDKVersions{"2.58.0", "2.55.0"}}
	r.ProviderEpoch = r.Transition.Label()
	for _, set := range sdkSets {
		r.Sets = append(r.Sets, SDKSet{Jobs: set.jobs + 5, Name: set.name, SHA256: PlainDigest([]byte(set.name))})
	}
	for _, sdk := range []string{"2.58.0", "2.55.0"} {
		side := SDKSide{Python: "3.11.2", SDK: sdk}
		for _, name := range sdkPackages {
			side.Packages = append(side.Packages, SDKPackage{Name: name, Version: sdk, Wheel: PlainDigest([]byte(name + sdk))})
		}
		for _, set := range r.Sets {
			side.Counts = append(side.Counts, SDKCounts{Agree: set.Jobs - 3, BothRefuse: 2, RefusedHere: 1})
		}
		r.Sides = append(r.Sides, side)
	}
	return r
}

// A profile of retained work rests on a report of its own module and catalogue, of both sides of the pair, with enough answers
// and without one difference. SDK-06, PREVIEW-05.
func TestSDKReport(t *testing.T) {
	profile := func(r SDKReport) (Profile, []byte) {
		data := canon.MustMarshal(r)
		return Profile{ID: "p1", Module: r.Module, Catalogue: r.Catalogue, Qualifications: []Qualification{{QualificationSDK, PlainDigest(data)}}}, data
	}
	p, data := profile(sdkReport())
	if no := RefuseSDKReport(p, data); no != nil {
		t.Fatal(no)
	}
	for why, change := range map[string]func(*SDKReport){
		"it is not":       func(r *SDKReport) { r.Kind = ReportExecutableProbe },
		"one module":      func(r *SDKReport) { r.ExecutableIdentity = r.Catalogue.String() },
		"one catalogue":   func(r *SDKReport) { r.SourceRevision = "x" },
		"one pair":        func(r *SDKReport) { r.Transition.To = "2.56.0" },
		"no time":         func(r *SDKReport) { r.At = 0 },
		"the sides":       func(r *SDKReport) { r.Sides = r.Sides[:1] },
		"every set":       func(r *SDKReport) { r.Sets = r.Sets[:3] },
		"set 0":           func(r *SDKReport) { r.Sets[0].Jobs = 1999 },
		"set 2":           func(r *SDKReport) { r.Sets[2].SHA256 = Digest{} },
		"side 1":          func(r *SDKReport) { r.Sides[1].SDK = "2.58.0" },
		"package httpx":   func(r *SDKReport) { r.Sides[1].Packages[2].Name = "httpy" },
		"are not sorted":  func(r *SDKReport) { r.Sides[0].Packages[0].Wheel = Digest{} },
		"that ran was":    func(r *SDKReport) { r.Sides[0].Packages[4].Version = "2.57.0" },
		"its interpreter": func(r *SDKReport) { r.Sides[0].Python = "" },
		"one of its jobs": func(r *SDKReport) { r.Sides[0].Counts[0].Agree = -1 },
		"the counts are":  func(r *SDKReport) { r.Sides[1].Counts[3].Agree-- },
		"1 answers":       func(r *SDKReport) { c := &r.Sides[1].Counts[2]; c.Agree--; c.TakenHere++ },
		"another way":     func(r *SDKReport) { c := &r.Sides[0].Counts[0]; c.BothRefuse--; c.Differ++ },
		"only 1999 agree": func(r *SDKReport) { r.Sides[0].Counts[0] = SDKCounts{Agree: 1999, BothRefuse: 6} },
	} {
		r := sdkReport()
		change(&r)
		p, data := profile(r)
		no := RefuseSDKReport(p, data)
		if no == nil || no.Code != CodeProfileUnqualified || !strings.Contains(no.Detail("why"), why) {
			t.Errorf("%s: %v", why, no)
		}
	}
	for name, change := range map[string]func(*Profile) []byte{
		"no report":         func(*Profile) []byte { return nil },
		"no qualification":  func(p *Profile) []byte { p.Qualifications = nil; return data },
		"another digest":    func(p *Profile) []byte { p.Qualifications[0].Report = p.Module; return data },
		"another module":    func(p *Profile) []byte { p.Module = p.Catalogue; return data },
		"another catalogue": func(p *Profile) []byte { p.Catalogue = p.Module; return data },
	} {
		p, _ := profile(sdkReport())
		if no := RefuseSDKReport(p, change(&p)); no == nil || no.Code != CodeProfileUnqualified {
			t.Errorf("%s: %v", name, no)
		}
	}
	if no := RefuseSDKReport(Profile{ID: "p1", Fixture: true}, nil); no != nil {
		t.Error("a fixture profile needs no report:", no)
	}
}

// A refusal says that a report is none, and not in what words the decoder said so: they name types of this program.
func TestUnreadReportIsToldWithoutTypes(t *testing.T) {
	for _, text := range []string{``, `[]`, `{"at_us":"soon"}`, `{"at_us":1.5}`, `{"nothing":1}`, "{\"at_us\":1} x", `{"sides":{}}`} {
		data := []byte(text)
		for _, name := range []string{QualificationSDK, QualificationController, QualificationStore + "sqlite"} {
			p := Profile{ID: "p1", Qualifications: []Qualification{{name, PlainDigest(data)}}}
			no := RefuseQualifications(p, func(Digest) []byte { return data })
			if no == nil || no.Detail("why") != "it is not the JSON of such a report" && text != `` {
				t.Fatalf("%s of %q: %v", name, text, no)
			}
			for _, d := range no.Details {
				for _, typed := range []string{"models.", "Report", "Go ", "int64", "struct", "json:"} {
					if strings.Contains(d.Value, typed) {
						t.Errorf("%s of %q: %s is %q", name, text, d.Name, d.Value)
					}
				}
			}
		}
	}
}
