package agentic

import (
	"bytes"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/adapters/agentic/catalogue"
)

func loadCatalogue(t testing.TB) *Catalogue {
	t.Helper()
	c, err := LoadCatalogue(catalogue.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The rule as data has the verdict of the real class for every recorded query, at least 500 of them.
func TestCatalogueAgreesWithItsFiles(t *testing.T) {
	c := loadCatalogue(t)
	if err := c.VerifyFiles(catalogue.File); err != nil {
		t.Fatal(err)
	}
	for _, v := range c.Validators {
		record, err := catalogue.File(v.Record)
		if err != nil {
			t.Fatal(err)
		}
		n, err := v.Rule.agrees(record)
		if err != nil || n < minRecorded {
			t.Fatalf("%d %v", n, err)
		}
		t.Logf("%s: %d recorded verdicts", v.Source, n)
	}
}

// A catalogue is refused when a validator's record is missing, too short, of another hash, or disagrees with the rule.
// CRED-03: one changed byte in a validator's source is found.
func TestCatalogueFilesMustAgree(t *testing.T) {
	change := func(name string, with func([]byte) []byte) func(string) ([]byte, error) {
		return func(asked string) ([]byte, error) {
			data, err := catalogue.File(asked)
			if asked == name {
				data = with(bytes.Clone(data))
			}
			return data, err
		}
	}
	c := loadCatalogue(t)
	v := c.Validators[0]
	for name, with := range map[string]func([]byte) []byte{
		v.Source:                 func(b []byte) []byte { b[len(b)-2] ^= 1; return b },
		v.Record:                 func(b []byte) []byte { return b[:len(b)-1] },
		c.Readers[0].Source:      func(b []byte) []byte { return append(b, '\n') },
		c.Sources[0].RuntimeFile: func(b []byte) []byte { return nil },
	} {
		if err := c.VerifyFiles(change(name, with)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	missing := *c
	missing.Validators = []Validator{v}
	missing.Validators[0].Record = "validators/none.jsonl"
	if err := missing.VerifyFiles(catalogue.File); err == nil {
		t.Error("a missing record passed")
	}
	for _, other := range []func(*Validator, []byte) []byte{
		func(v *Validator, b []byte) []byte {
			return bytes.Replace(b, []byte(`"accepted":true`), []byte(`"accepted":false`), 1)
		},
		func(v *Validator, b []byte) []byte {
			return bytes.Join(bytes.SplitAfter(b, []byte("\n"))[:minRecorded-1], nil)
		},
		func(v *Validator, b []byte) []byte { v.Rule.Members = v.Rule.Members[1:]; return b },
	} {
		changed := *c
		changed.Validators = []Validator{v}
		record, _ := catalogue.File(v.Record)
		record = other(&changed.Validators[0], record)
		changed.Validators[0].RecordSHA256 = sha256Hex(record)
		if err := changed.VerifyFiles(change(v.Record, func([]byte) []byte { return record })); err == nil {
			t.Error("a record that does not support the rule passed")
		}
	}
}

// An entry whose record has 499 queries, or one verdict that the rule does not give, does not load, with every digest made to fit; nor
// does one without a record. Design, Who says our parser is right (validators).
func TestValidatorWithoutItsRecordDoesNotLoad(t *testing.T) {
	v := loadCatalogue(t).Validators[0]
	kept, err := catalogue.File(v.Record)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(kept, []byte("\n"))
	for what, c := range map[string]struct {
		record []byte
		loads  bool
	}{
		"whole":        {kept, true},
		"500 queries":  {bytes.Join(lines[:500], nil), true},
		"499 queries":  {bytes.Join(lines[:499], nil), false},
		"none":         {nil, false},
		"one verdict":  {bytes.Replace(kept, []byte(`"accepted":false`), []byte(`"accepted":true`), 1), false},
		"another form": {append(bytes.Clone(kept), "{}\n"...), false},
	} {
		document := bytes.ReplaceAll(catalogue.Bytes(), []byte(v.RecordSHA256), []byte(sha256Hex(c.record)))
		_, err := OpenCatalogue(document, func(name string) ([]byte, error) {
			if name == v.Record {
				return c.record, nil
			}
			return catalogue.File(name)
		})
		if (err == nil) != c.loads {
			t.Errorf("%s: %v", what, err)
		}
	}
	without := bytes.Replace(catalogue.Bytes(), []byte(`"record": "`+v.Record+`",`), nil, 1)
	if _, err := OpenCatalogue(without, catalogue.File); err == nil {
		t.Error("an entry without a record loads")
	}
}

// Strict: unknown members, and digests and references that do not fit.
func TestLoadCatalogueIsStrict(t *testing.T) {
	text := string(catalogue.Bytes())
	for from, to := range map[string]string{
		`"format": "forge-catalogue/1"`:     `"format": "forge-catalogue/2"`,
		`"entry_point": {`:                  `"more": 1, "entry_point": {`,
		`"annotated-types": "0.8.0"`:        `"annotated-types": "0.8.1"`,
		`"selection": "original-selection"`: `"selection": "other"`,
		`"page_size": {`:                    `"page_sizes": {`,
		`"type": "integer"`:                 `"type": "number"`,
		`"projection": "none"`:              `"projection": "none-reviewed"`,
		`"projection": "pydantic-ai-2.58.0`: `"projection": "pydantic-ai-2.57.0`,
		`"name": "list_files"`:              `"name": "list_file"`,
		`"prompt": "1.0.1"`:                 `"prompt": "1.0.2"`,
		`"fetch_url": "network"`:            `"list_files": "network"`,
		`"run_command": "command"`:          `"run_command": "harmless"`,
		`"kind": "strict-object/1"`:         `"kind": "strict-object/2"`,
		`"tool_calls"`:                      `"tool_cells"`,
		`"version": "0.2.3"`:                `"version": "0.2.4"`, // of the usage table
		`"sha256": "`:                       `"sha256": "0`,
	} {
		if !strings.Contains(text, from) {
			t.Errorf("%s is not in the catalogue", from)
		}
		if _, err := LoadCatalogue([]byte(strings.Replace(text, from, to, 1))); err == nil {
			t.Errorf("%s accepted", to)
		}
	}
	if _, err := LoadCatalogue(append([]byte(text), '{')); err == nil {
		t.Error("text after the catalogue accepted")
	}
}

// OBS-16: the allowlist holds list_files and no other tool.
func TestAllowlist(t *testing.T) {
	c := loadCatalogue(t)
	if got := c.Tools.PureSourceObservations; len(got) != 1 || got[0] != "list_files" {
		t.Fatalf("got %v", got)
	}
	for tool, class := range map[string]string{"read_run_evidence": classEvidence, "list_files": classObservation, "run_command": "command",
		"fetch_url": "network", "write_file": classWrite, "read_file": "pure_read", "anything": classUnknown, "": classUnknown} {
		if got := c.class(tool); got != class {
			t.Errorf("%s: %s", tool, got)
		}
	}
}
