package catalogue_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/forge-continuity/forge/adapters/agentic/catalogue"
	"github.com/forge-continuity/forge/models/canon"
)

type document struct {
	Sources []struct {
		Identity         string            `json:"identity"`
		FireflyAgentic   string            `json:"firefly_agentic"`
		PydanticAI       string            `json:"pydantic_ai"`
		DependencyEpoch  string            `json:"dependency_epoch"`
		Dependencies     map[string]string `json:"dependencies"`
		PromptCatalog    map[string]string `json:"prompt_catalog"`
		Runtime          string            `json:"runtime"`
		RuntimeFile      string            `json:"runtime_file"`
		Validators       []string          `json:"validators"`
		Readers          []string          `json:"readers"`
		TransitionOrNull *string           `json:"transition"`
	} `json:"sources"`
	Validators []struct {
		SourceSHA256 string `json:"source_sha256"`
		Source       string `json:"source"`
		Record       string `json:"record"`
		RecordSHA256 string `json:"record_sha256"`
	} `json:"validators"`
	Readers []struct {
		SourceSHA256 string `json:"source_sha256"`
		Source       string `json:"source"`
	} `json:"readers"`
	Prompts      map[string]map[string]json.RawMessage `json:"prompts"`
	PolicyEpochs []map[string]string                   `json:"policy_epochs"`
}

func load(t *testing.T) document {
	t.Helper()
	var doc document
	if err := json.Unmarshal(catalogue.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

func hexDigest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func canonical(t *testing.T, v any) []byte {
	t.Helper()
	data, err := canon.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Every digest in the document is the digest of what it names, so the digest of the document covers every file.
func TestDigests(t *testing.T) {
	doc := load(t)
	file := func(name, want string) {
		t.Helper()
		data, err := catalogue.File(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := hexDigest(data); got != want {
			t.Errorf("%s: digest %s, the document says %s", name, got, want)
		}
	}
	for _, s := range doc.Sources {
		file(s.RuntimeFile, s.Runtime)
		// SDK-03: the identity binds dependencies and prompt catalogue.
		identity := hexDigest(canonical(t, map[string]any{
			"firefly_agentic": s.FireflyAgentic, "pydantic_ai": s.PydanticAI, "dependency_epoch": s.DependencyEpoch,
			"dependencies": s.Dependencies, "prompt_catalog": s.PromptCatalog, "runtime": s.Runtime,
		}))
		if identity != s.Identity {
			t.Errorf("source %s: identity %s, computed %s", s.PydanticAI, s.Identity, identity)
		}
		version := s.PromptCatalog["version"]
		var want string
		if err := json.Unmarshal(doc.Prompts[version]["digest"], &want); err != nil || want != s.PromptCatalog["digest"] {
			t.Errorf("source %s: prompt catalogue digest is not that of %s", s.PydanticAI, version)
		}
	}
	for _, v := range doc.Validators {
		file(v.Source, v.SourceSHA256)
		file(v.Record, v.RecordSHA256)
	}
	for _, r := range doc.Readers {
		file(r.Source, r.SourceSHA256)
	}
	for version, prompt := range doc.Prompts {
		var want string
		var tool any
		if json.Unmarshal(prompt["digest"], &want) != nil || json.Unmarshal(prompt["read_run_evidence"], &tool) != nil {
			t.Fatalf("prompt %s is malformed", version)
		}
		raw, err := json.Marshal(map[string]any{"version": version, "read_run_evidence": integers(tool)})
		if err != nil {
			t.Fatal(err)
		}
		var value map[string]canon.Raw
		if err := canon.Decode(raw, &value); err != nil {
			t.Fatal(err)
		}
		if got := hexDigest(canonical(t, value)); got != want {
			t.Errorf("prompt %s: digest %s, computed %s", version, want, got)
		}
	}
	for _, e := range doc.PolicyEpochs {
		want := e["digest"]
		delete(e, "digest")
		if got := hexDigest(canonical(t, e)); got != want {
			t.Errorf("policy epoch %v: digest %s, computed %s", e, want, got)
		}
	}
}

// integers turns the float64 of encoding/json back into integers; the documents hold no other numbers.
func integers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, one := range v {
			v[k] = integers(one)
		}
	case []any:
		for i, one := range v {
			v[i] = integers(one)
		}
	case float64:
		return int64(v)
	}
	return v
}

// The embedded sources are the files that ran: a change of one without a new recording is found here.
func TestSourcesAreTheRecordedOnes(t *testing.T) {
	for embedded, ran := range map[string]string{
		"validators/evidence_query.py": "evidence_query.py",
		"readers/source_reader.py":     "source_reader.py",
	} {
		got, err := catalogue.File(embedded)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join("..", "..", "..", "fixtures", "agent", ran))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from fixtures/agent/%s; run fixtures/record/record.sh", embedded, ran)
		}
	}
}

// Each validator's record holds at least 500 queries with verdicts of both kinds (design, The sandbox).
func TestRecordSize(t *testing.T) {
	for _, v := range load(t).Validators {
		data, err := catalogue.File(v.Record)
		if err != nil {
			t.Fatal(err)
		}
		verdicts := map[bool]int{}
		for _, line := range bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n")) {
			var one struct {
				Query    *string `json:"query"`
				Accepted *bool   `json:"accepted"`
			}
			if err := canonDecode(line, &one); err != nil || one.Query == nil || one.Accepted == nil {
				t.Fatalf("bad line %s: %v", line, err)
			}
			verdicts[*one.Accepted]++
		}
		if verdicts[true]+verdicts[false] < 500 || verdicts[true] < 100 || verdicts[false] < 100 {
			t.Errorf("%s holds %v", v.Record, verdicts)
		}
	}
}

func canonDecode(line []byte, v any) error {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	return decoder.Decode(v)
}
