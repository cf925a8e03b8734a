package models

import (
	"cmp"
	"strings"
)

// Finding is a credential that screening found: the rule that knows its form, and the JSON pointer of the string that has it, whose
// steps are indices, names of the record's own structure, or "~". The value is nowhere.
type Finding struct {
	Path string `json:"path"`
	Rule string `json:"rule"`
}

// Compare orders by rule, then path.
func (f Finding) Compare(g Finding) int {
	return cmp.Or(strings.Compare(f.Rule, g.Rule), strings.Compare(f.Path, g.Path))
}

// MaxFindingPath bounds a path in bytes: a record's depth times its longest step.
const MaxFindingPath = 4096

// Valid reports whether rule and path have the form that rows may carry.
func (f Finding) Valid() bool {
	if !ValidLabel(f.Rule) || len(f.Path) > MaxFindingPath || f.Path != "" && f.Path[0] != '/' {
		return false
	}
	for i := range len(f.Path) {
		switch c := f.Path[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_', c == '/', c == '~':
		default:
			return false
		}
	}
	return true
}

// Screening is what one rule set found in the text of one blob. Found is sorted.
type Screening struct {
	Blob    Digest    `json:"blob"`
	Found   []Finding `json:"found"`
	RuleSet Digest    `json:"rule_set"`
}

// WaiveCredential lets one finding in one blob pass, once, for an administrator who looked at it.
type WaiveCredential struct {
	Blob    Digest `json:"blob"`
	Path    string `json:"path"`
	Rule    string `json:"rule"`
	RuleSet Digest `json:"rule_set"`
}

// CredentialWaived is the record of a waiver. The first admission from that checkpoint spends it.
type CredentialWaived struct {
	Blob    Digest `json:"blob"`
	Path    string `json:"path"`
	Rule    string `json:"rule"`
	RuleSet Digest `json:"rule_set"`
}

// Waiver is a waiver as it stands. SpentSeq is the row of the settlement that spent it, 0 before.
type Waiver struct {
	Blob     Digest  `json:"blob"`
	Finding  Finding `json:"finding"`
	RuleSet  Digest  `json:"rule_set"`
	Seq      int64   `json:"seq"`
	SpentSeq int64   `json:"spent_seq"`
}

// Verb returns the stored name of the command.
func (WaiveCredential) Verb() string { return "waive_credential" }

func (WaiveCredential) command() {}

// Kind returns the stored name of the event.
func (CredentialWaived) Kind() string { return "credential.waived" }

func (CredentialWaived) event() {}

// Inspection is a kept checkpoint record of a run as an authenticated reader may read it (spec, Credential inspection and ordinary
// restore): the stored text as it is, and what was checked. It is nothing that could be resumed.
type Inspection struct {
	Checks          []string  `json:"checks"`
	DependencyEpoch string    `json:"dependency_epoch"`
	Digest          Digest    `json:"digest"`
	FireflyAgentic  string    `json:"firefly_agentic"`
	Fixture         bool      `json:"fixture"`
	Kind            string    `json:"kind"` // of the row that names it
	PydanticAI      string    `json:"pydantic_ai"`
	RuleSet         Digest    `json:"rule_set"`
	Run             string    `json:"run"`
	Seq             int64     `json:"seq"`
	SourceIdentity  string    `json:"source_identity"`
	Text            string    `json:"text"`
	Waived          []Finding `json:"waived"`
}

// Checks of an inspection, in order.
var InspectionChecks = []string{"journal", "row", "digest", "bounds", "canonical", "budgets", "credentials"}

// Restore is what an ordinary claim of the run would start from now, decoded with the exact version. It claims nothing.
type Restore struct {
	Checkpoint     Digest `json:"checkpoint"`
	FireflyAgentic string `json:"firefly_agentic"`
	PydanticAI     string `json:"pydantic_ai"`
	Run            string `json:"run"`
	Seq            int64  `json:"seq"` // of the head that this was decided on
}
