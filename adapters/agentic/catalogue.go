package agentic

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"

	"github.com/forge-continuity/forge/adapters/pydanticai"
	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/adapters/wire"
	"github.com/forge-continuity/forge/models/canon"
)

// Catalogue is the package catalogue, forge-catalogue/1 (catalogue/README.md describes every member).
type Catalogue struct {
	Format       string            `json:"format"`
	Sources      []Source          `json:"sources"`
	Transitions  []Transition      `json:"transitions"`
	Validators   []Validator       `json:"validators"`
	Readers      []Reader          `json:"readers"`
	Tools        Tools             `json:"tools"`
	Prompts      map[string]Prompt `json:"prompts"`
	PolicyEpochs []PolicyEpoch     `json:"policy_epochs"`
	EntryPoint   EntryPoint        `json:"entry_point"`
	UsageTable   UsageTable        `json:"usage_table"`
}

// UsageTable names the table that usage is extracted by, which is part of this program (wire.UsageTable).
type UsageTable struct {
	Package string `json:"package"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
}

// Source is a registered historical source.
type Source struct {
	Identity        string            `json:"identity"`
	FireflyAgentic  string            `json:"firefly_agentic"`
	PydanticAI      string            `json:"pydantic_ai"`
	DependencyEpoch string            `json:"dependency_epoch"`
	Dependencies    map[string]string `json:"dependencies"`
	PromptCatalog   PromptRef         `json:"prompt_catalog"`
	Runtime         string            `json:"runtime"`
	RuntimeFile     string            `json:"runtime_file"`
	Validators      []string          `json:"validators"`
	Readers         []string          `json:"readers"`
	Counters        SourceCounters    `json:"counters"`
	Provenance      []Provenance      `json:"provenance"`
}

// Transition is a reviewed way from one registered source to another: that of the installed entry point. A source that is the
// "from" of none is known, and no transition is supported from it (SDK-02).
type Transition struct {
	Identity   string `json:"identity"` // digest over the other three
	From       string `json:"from"`
	To         string `json:"to"`
	Projection string `json:"projection"`
}

// Projections: what a transition does to a record before anything is derived from it (project.go).
const (
	ProjectNone = "none" // the source is written by the target SDK already (O13)
	Project2580 = "pydantic-ai-2.58.0-to-2.55.0/1"
)

// PromptRef names a version of the prompt catalogue.
type PromptRef struct {
	Version string `json:"version"`
	Digest  string `json:"digest"`
}

// SourceCounters lists the usage counters of a source.
type SourceCounters struct {
	Maximum          int64    `json:"maximum"`
	Mandatory        []string `json:"mandatory"`
	Permitted        []string `json:"permitted"`
	RunMandatory     []string `json:"run_mandatory"`
	DetailsPermitted []string `json:"details_permitted"`
	ZeroOnly         []string `json:"zero_only"`
	Parts            []Part   `json:"parts"`
}

// Part says that one counter is included in another.
type Part struct {
	Part string `json:"part"`
	Of   string `json:"of"`
}

// Provenance is a telemetry member of a contract and the states it may have: "null", "empty".
type Provenance struct {
	Member  string   `json:"member"`
	Allowed []string `json:"allowed"`
}

// Validator is a registered validator: its source's hash, the rule as data, and the record of verdicts of the real class.
type Validator struct {
	SourceSHA256 string `json:"source_sha256"`
	Source       string `json:"source"`
	Class        string `json:"class"`
	Rule         Rule   `json:"rule"`
	Record       string `json:"record"`
	RecordSHA256 string `json:"record_sha256"`
}

// Reader is a published source-reader implementation.
type Reader struct {
	SourceSHA256 string `json:"source_sha256"`
	Source       string `json:"source"`
	Tool         string `json:"tool"`
}

// Tools gives roles to tool names. A name in none of the members is unknown.
type Tools struct {
	EvidenceRead           string            `json:"evidence_read"`
	PureSourceObservations []string          `json:"pure_source_observations"`
	Effects                map[string]string `json:"effects"`
}

// Prompt is one registered version of the prompt catalogue.
type Prompt struct {
	Digest          string        `json:"digest"`
	ReadRunEvidence PromptElement `json:"read_run_evidence"`
}

// PromptElement is what a version of the prompt advertised for the evidence tool.
type PromptElement struct {
	Description          string    `json:"description"`
	ParametersJSONSchema canon.Raw `json:"parameters_json_schema"`

	schema *pyjson.Value
}

// PolicyEpoch is a reviewed tuple of a run's registration, matched byte for byte (EPOCH-02, O21).
type PolicyEpoch struct {
	Selection       string `json:"selection"`
	Mode            string `json:"mode"`
	Acknowledgement string `json:"acknowledgement"`
	Digest          string `json:"digest"`
}

// EntryPoint is the installed entry point: the prompt version that it renders, and the contract that it was seen to render, all of
// it but the model, which a run's provider configuration names.
type EntryPoint struct {
	Digest   string    `json:"digest"` // over the other three
	Name     string    `json:"name"`
	Prompt   string    `json:"prompt"`
	Contract canon.Raw `json:"contract"`

	contract *pyjson.Value
}

const catalogueFormat = "forge-catalogue/1"

// minRecorded is how many recorded verdicts a validator entry needs (design, The sandbox).
const minRecorded = 500

// LoadCatalogue reads a catalogue strictly and checks that it agrees with itself: every identity and digest recomputes, and
// every name points to an entry. It does not look at the files that the catalogue names; VerifyFiles does.
func LoadCatalogue(data []byte) (*Catalogue, error) {
	var c Catalogue
	if err := canon.Decode(data, &c); err != nil {
		return nil, errors.New("catalogue: " + err.Error())
	}
	if c.Format != catalogueFormat {
		return nil, errors.New("catalogue: format is not " + catalogueFormat)
	}
	for version, p := range c.Prompts {
		schema, err := pyjson.Parse(p.ReadRunEvidence.ParametersJSONSchema, recordLimits)
		if err != nil || !schema.Is(pyjson.Object) {
			return nil, errors.New("catalogue: prompt " + version + " has no parameter schema")
		}
		p.ReadRunEvidence.schema = schema
		c.Prompts[version] = p
		if digest(map[string]any{"version": version, "read_run_evidence": p.ReadRunEvidence}) != p.Digest {
			return nil, errors.New("catalogue: digest of prompt " + version + " differs")
		}
	}
	for _, e := range c.PolicyEpochs {
		if digest(map[string]any{"selection": e.Selection, "mode": e.Mode, "acknowledgement": e.Acknowledgement}) != e.Digest {
			return nil, errors.New("catalogue: digest of a policy epoch differs")
		}
	}
	for i, v := range c.Validators {
		if err := v.Rule.check(); err != nil {
			return nil, errors.New("catalogue: validator " + v.Source + ": " + err.Error())
		}
		for _, before := range c.Validators[:i] {
			if before.SourceSHA256 == v.SourceSHA256 {
				return nil, errors.New("catalogue: validator " + v.Source + " is there twice")
			}
		}
	}
	if c.UsageTable.SHA256 != sha256Hex([]byte(wire.UsageTable)) {
		return nil, errors.New("catalogue: usage table is not the one of this program")
	}
	for i, s := range c.Sources {
		if err := c.checkSource(s); err != nil {
			return nil, errors.New("catalogue: source " + strconv.Itoa(i) + ": " + err.Error())
		}
		for _, before := range c.Sources[:i] {
			if before.Identity == s.Identity {
				return nil, errors.New("catalogue: source " + strconv.Itoa(i) + " is there twice")
			}
		}
	}
	if err := c.checkEntryPoint(); err != nil {
		return nil, errors.New("catalogue: entry point: " + err.Error())
	}
	if c.today() == nil {
		return nil, errors.New("catalogue: no source is the entry point's")
	}
	for i, t := range c.Transitions {
		if err := c.checkTransition(t); err != nil {
			return nil, errors.New("catalogue: transition " + strconv.Itoa(i) + ": " + err.Error())
		}
		for _, before := range c.Transitions[:i] {
			if before.From == t.From {
				return nil, errors.New("catalogue: transition " + strconv.Itoa(i) + ": its source has another")
			}
		}
	}
	return &c, c.checkTools()
}

// checkEntryPoint checks that the contract is the recorded one and that its evidence tool is that of its prompt.
func (c *Catalogue) checkEntryPoint() error {
	e := &c.EntryPoint
	prompt, ok := c.Prompts[e.Prompt]
	if !ok {
		return errors.New("prompt is not registered")
	}
	if digest(map[string]any{"name": e.Name, "prompt": e.Prompt, "contract": e.Contract}) != e.Digest {
		return errors.New("digest differs")
	}
	contract, err := pyjson.Parse(e.Contract, recordLimits)
	if err != nil || !contract.Get("tools").Is(pyjson.Array) || !contract.Get("instructions").Is(pyjson.Array) ||
		!contract.Get("grants").Is(pyjson.Array) || !contract.Get("output").Is(pyjson.Object) || len(contract.Members) != 4 {
		return errors.New("contract is none")
	}
	e.contract = pyjson.Sorted(contract)
	for _, tool := range contract.Get("tools").Items {
		if tool.Get("name").Text == c.Tools.EvidenceRead && (tool.Get("description").Text != prompt.ReadRunEvidence.Description ||
			!pyjson.Equal(tool.Get("parameters_json_schema"), prompt.ReadRunEvidence.schema)) {
			return errors.New("its evidence tool is not that of its prompt")
		}
	}
	return nil
}

func (c *Catalogue) checkTransition(t Transition) error {
	from, to := c.source(t.From), c.source(t.To)
	if digest(map[string]string{"from": t.From, "to": t.To, "projection": t.Projection}) != t.Identity {
		return errors.New("identity differs")
	}
	if from == nil || to == nil || from.FireflyAgentic != to.FireflyAgentic || to.PromptCatalog.Version != c.EntryPoint.Prompt {
		return errors.New("ends are not registered, or not the entry point's")
	}
	v, w := pydanticai.Version(from.PydanticAI), pydanticai.Version(to.PydanticAI)
	if !(t.Projection == ProjectNone && v == w || t.Projection == Project2580 && v == pydanticai.V2580 && w == pydanticai.V2550) {
		return errors.New("projection is not one between these versions")
	}
	return nil
}

// today is the source that the installed entry point is.
func (c *Catalogue) today() *Source {
	for i := range c.Sources {
		if c.Sources[i].PromptCatalog.Version == c.EntryPoint.Prompt {
			return &c.Sources[i]
		}
	}
	return nil
}

// transition is the reviewed way from a source, nil for none.
func (c *Catalogue) transition(from *Source) *Transition {
	if from == nil {
		return nil
	}
	for i := range c.Transitions {
		if c.Transitions[i].From == from.Identity {
			return &c.Transitions[i]
		}
	}
	return nil
}

// transitionNamed is the transition with this identity, nil for none.
func (c *Catalogue) transitionNamed(identity string) *Transition {
	for i := range c.Transitions {
		if c.Transitions[i].Identity == identity {
			return &c.Transitions[i]
		}
	}
	return nil
}

// prepared is a catalogue that was read ahead, and its text.
var prepared struct {
	text      []byte
	catalogue *Catalogue
}

// Prepare reads a catalogue ahead, so that calls which bring the same bytes find it read. The guest does so while it starts: an
// instance is started before a call waits for it. It must not run beside calls; a catalogue that cannot be loaded is left to them.
func Prepare(text []byte) {
	if c, err := LoadCatalogue(text); err == nil {
		prepared.text, prepared.catalogue = text, c
	}
}

// catalogueOf is LoadCatalogue for a frame.
func catalogueOf(frame []byte) (*Catalogue, error) {
	if prepared.catalogue != nil && bytes.Equal(frame, prepared.text) {
		return prepared.catalogue, nil
	}
	return LoadCatalogue(frame)
}

// sourceIdentity is what the identity of a source is a digest of.
type sourceIdentity struct {
	FireflyAgentic  string            `json:"firefly_agentic"`
	PydanticAI      string            `json:"pydantic_ai"`
	DependencyEpoch string            `json:"dependency_epoch"`
	Dependencies    map[string]string `json:"dependencies"`
	PromptCatalog   PromptRef         `json:"prompt_catalog"`
	Runtime         string            `json:"runtime"`
}

func (c *Catalogue) checkSource(s Source) error {
	if digest(sourceIdentity{s.FireflyAgentic, s.PydanticAI, s.DependencyEpoch, s.Dependencies, s.PromptCatalog, s.Runtime}) != s.Identity {
		return errors.New("identity differs")
	}
	// Usage is what the price list of the SDK that ran made of it.
	if s.Dependencies[c.UsageTable.Package] != c.UsageTable.Version {
		return errors.New("usage table is of another version than it ran with")
	}
	if !pydanticai.Version(s.PydanticAI).Known() {
		return errors.New("format of its SDK is not known")
	}
	if p, ok := c.Prompts[s.PromptCatalog.Version]; !ok || p.Digest != s.PromptCatalog.Digest {
		return errors.New("prompt is not registered")
	}
	for _, v := range s.Validators {
		if c.validator(v) == nil {
			return errors.New("validator is not registered")
		}
	}
	for _, r := range s.Readers {
		if !c.hasReader(r) {
			return errors.New("reader is not registered")
		}
	}
	if s.Counters.Maximum != 1<<63-1 || len(s.Counters.RunMandatory) != 2 || len(s.Counters.ZeroOnly) != 1 || s.Counters.ZeroOnly[0] != "audio_seconds" ||
		!contains(s.Counters.RunMandatory, "requests") || !contains(s.Counters.RunMandatory, "tool_calls") {
		return errors.New("counters are not those that the codec checks")
	}
	for _, p := range s.Provenance {
		for _, state := range p.Allowed {
			if state != "null" && state != "empty" {
				return errors.New("provenance state is not known")
			}
		}
	}
	return nil
}

func (c *Catalogue) checkTools() error {
	seen := map[string]bool{c.Tools.EvidenceRead: true}
	for _, name := range c.Tools.PureSourceObservations {
		if seen[name] {
			return errors.New("catalogue: tool " + name + " has two roles")
		}
		seen[name] = true
	}
	for name, effect := range c.Tools.Effects {
		if seen[name] {
			return errors.New("catalogue: tool " + name + " has two roles")
		}
		switch effect {
		case "command", "network", "writable", "pure_read":
		default:
			return errors.New("catalogue: effect of " + name + " is not known")
		}
	}
	return nil
}

// OpenCatalogue is LoadCatalogue and VerifyFiles: a catalogue with an entry that its files do not bear out does not load. A host does
// this before it runs anything on the catalogue; the guest, which has no files, is given the document.
func OpenCatalogue(document []byte, file func(name string) ([]byte, error)) (*Catalogue, error) {
	c, err := LoadCatalogue(document)
	if err != nil {
		return nil, err
	}
	return c, c.VerifyFiles(file)
}

// VerifyFiles checks every file that the catalogue names against its hash, and that each validator's rule gives the recorded
// verdict for each of at least 500 recorded queries. file returns a file by its name in the catalogue.
func (c *Catalogue) VerifyFiles(file func(name string) ([]byte, error)) error {
	want := func(name, hash string) ([]byte, error) {
		data, err := file(name)
		if err != nil {
			return nil, err
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != hash {
			return nil, errors.New("catalogue: " + name + " is not the file that was reviewed")
		}
		return data, nil
	}
	for _, s := range c.Sources {
		if _, err := want(s.RuntimeFile, s.Runtime); err != nil {
			return err
		}
	}
	for _, r := range c.Readers {
		if _, err := want(r.Source, r.SourceSHA256); err != nil {
			return err
		}
	}
	for _, v := range c.Validators {
		if _, err := want(v.Source, v.SourceSHA256); err != nil {
			return err
		}
		record, err := want(v.Record, v.RecordSHA256)
		if err != nil {
			return err
		}
		n, err := v.Rule.agrees(record)
		if err != nil {
			return errors.New("catalogue: " + v.Record + " line " + strconv.Itoa(n) + ": " + err.Error())
		}
		if n < minRecorded {
			return errors.New("catalogue: " + v.Record + " has fewer than 500 queries")
		}
	}
	return c.checkSuccessors(file)
}

func (c *Catalogue) source(identity string) *Source {
	for i := range c.Sources {
		if c.Sources[i].Identity == identity {
			return &c.Sources[i]
		}
	}
	return nil
}

// sourceLike returns the source with this identity, or else any with this SDK version: a record of an unregistered source is
// still read by its epoch's format.
func (c *Catalogue) sourceLike(identity, version string) *Source {
	if s := c.source(identity); s != nil && s.PydanticAI == version {
		return s
	}
	for i := range c.Sources {
		if c.Sources[i].PydanticAI == version {
			return &c.Sources[i]
		}
	}
	return nil
}

func (c *Catalogue) validator(sha string) *Validator {
	for i := range c.Validators {
		if c.Validators[i].SourceSHA256 == sha {
			return &c.Validators[i]
		}
	}
	return nil
}

func (c *Catalogue) hasReader(sha string) bool {
	for _, r := range c.Readers {
		if r.SourceSHA256 == sha {
			return true
		}
	}
	return false
}

func (c *Catalogue) knowsEpoch(selection, mode, acknowledgement string) bool {
	for _, e := range c.PolicyEpochs {
		if e.Selection == selection && e.Mode == mode && e.Acknowledgement == acknowledgement {
			return true
		}
	}
	return false
}

// Classes of a call.
const (
	classEvidence    = "evidence_read"
	classObservation = "source_observation"
	classWrite       = "write"
	classUnknown     = "unknown"
)

// class returns the role of a tool: one of the classes, or its effect.
func (c *Catalogue) class(tool string) string {
	if tool == c.Tools.EvidenceRead {
		return classEvidence
	}
	if contains(c.Tools.PureSourceObservations, tool) {
		return classObservation
	}
	if effect, ok := c.Tools.Effects[tool]; ok {
		if effect == "writable" {
			return classWrite
		}
		return effect
	}
	return classUnknown
}

func (s *Source) counters() pydanticai.Counters {
	return pydanticai.Counters{Mandatory: s.Counters.Mandatory, Permitted: s.Counters.Permitted, DetailsPermitted: s.Counters.DetailsPermitted}
}

// digest is SHA-256 in hex over the canonical text.
func digest(v any) string { return sha256Hex(canon.MustMarshal(v)) }

func sha256Hex(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
