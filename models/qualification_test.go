package models

import (
	"fmt"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/models/canon"
)

func host() Host {
	return Host{Build: "1.0+abc", Catalogue: PlainDigest([]byte("catalogue")), Module: PlainDigest([]byte("module")), Rules: 1,
		Screening: PlainDigest([]byte("rules")), Store: "sqlite", StoreMajor: 3}
}

func passed(kind string) []QualificationCheck {
	var list []QualificationCheck
	if kind == QualificationController {
		for _, name := range ControllerChecks {
			list = append(list, QualificationCheck{name, true})
		}
		return list
	}
	for i := range StoreChecks {
		list = append(list, QualificationCheck{fmt.Sprintf("check %02d", i), true})
	}
	return list
}

// A profile rests on reports that are kept, of its own composition, and in which everything passed. A report of host tests, or of
// another store, module or release, is none. PREVIEW-06, BOUND-17, rules O1 and O2.
func TestProfileRestsOnReports(t *testing.T) {
	h := host()
	at := func(name string) Host {
		h := h
		if name == QualificationPostgres {
			h.Store, h.StoreMajor, h.Build = "postgres", 15, "1.0+def" // the release's own
		}
		return h
	}
	names := []string{QualificationController, QualificationPostgres, QualificationStore + "sqlite"}
	build := func(name string, change func(*QualificationReport)) []byte {
		r := NewQualificationReport(name, at(name), 1, passed(name))
		if change != nil {
			change(&r)
		}
		return canon.MustMarshal(r)
	}
	try := func(spoiled string, change func(*QualificationReport)) *Refusal {
		kept := map[Digest][]byte{}
		p := Profile{Build: h.Build, Catalogue: h.Catalogue, ID: "p", Module: h.Module, Rules: h.Rules, Screening: h.Screening, Store: h.Store, StoreMajor: h.StoreMajor}
		for _, name := range names {
			data := build(name, nil)
			if name == spoiled {
				data = build(name, change)
			}
			kept[PlainDigest(data)] = data
			p.Qualifications = append(p.Qualifications, Qualification{Name: name, Report: PlainDigest(data)})
		}
		return RefuseQualifications(p, func(d Digest) []byte { return kept[d] })
	}
	if r := try("", nil); r != nil {
		t.Fatal(r)
	}
	other := PlainDigest([]byte("other"))
	for what, c := range map[string]struct {
		name   string
		change func(*QualificationReport)
	}{
		"a failed check":      {QualificationController, func(r *QualificationReport) { r.Checks[0].Passed = false }},
		"a missing check":     {QualificationController, func(r *QualificationReport) { r.Checks = r.Checks[1:] }},
		"too few":             {QualificationStore + "sqlite", func(r *QualificationReport) { r.Checks = r.Checks[1:] }},
		"unsorted":            {QualificationStore + "sqlite", func(r *QualificationReport) { r.Checks[0], r.Checks[1] = r.Checks[1], r.Checks[0] }},
		"host tests":          {QualificationController, func(r *QualificationReport) { r.Kind = "host-tests" }},
		"another kind":        {QualificationPostgres, func(r *QualificationReport) { r.Kind = QualificationStore + "postgres" }},
		"SQLite for postgres": {QualificationPostgres, func(r *QualificationReport) { r.Store, r.StoreMajor, r.ProviderEpoch = "sqlite", 3, "sqlite-3" }},
		"module":              {QualificationController, func(r *QualificationReport) { r.Module, r.ExecutableIdentity = other, other.String() }},
		"catalogue":           {QualificationController, func(r *QualificationReport) { r.Catalogue, r.SourceRevision = other, other.String() }},
		"rules":               {QualificationController, func(r *QualificationReport) { r.Rules = 2 }},
		"screening":           {QualificationController, func(r *QualificationReport) { r.Screening = other }},
		"release":             {QualificationPostgres, func(r *QualificationReport) { r.Build = "1.1+abc" }},
		"build of the store":  {QualificationStore + "sqlite", func(r *QualificationReport) { r.Build = "1.0+def" }},
		"major of the store":  {QualificationStore + "sqlite", func(r *QualificationReport) { r.StoreMajor, r.ProviderEpoch = 4, "sqlite-4" }},
		"format":              {QualificationController, func(r *QualificationReport) { r.Format = "forge-report/2" }},
		"no time":             {QualificationController, func(r *QualificationReport) { r.At = 0 }},
	} {
		if r := try(c.name, c.change); r == nil || r.Code != CodeQualificationMissing || r.Detail("qualification") != c.name {
			t.Errorf("%s: %v", what, r)
		}
	}
	p := Profile{Build: h.Build, Catalogue: h.Catalogue, ID: "p", Module: h.Module, Rules: 1, Qualifications: []Qualification{{Name: QualificationController, Report: other}}}
	none := func(Digest) []byte { return nil }
	if r := RefuseQualifications(p, none); r == nil || !strings.Contains(r.Detail("why"), "kept") {
		t.Error(r)
	}
	p.Qualifications[0].Name = QualificationSDK
	if r := RefuseQualifications(p, none); r == nil || r.Code != CodeProfileUnqualified {
		t.Error(r)
	}
	p.Fixture = true
	if r := RefuseQualifications(p, none); r != nil {
		t.Error(r)
	}
}
