// Package secrets screens a text for credentials with the rules of gitleaks, and of those only the ones in rules.txt: rules for
// keys of a known form. It never answers a value that it found. The library has a package of its own here because it is heavy.
package secrets

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"github.com/zricethezav/gitleaks/v8/config"
	"github.com/zricethezav/gitleaks/v8/detect"
	"github.com/zricethezav/gitleaks/v8/logging"

	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/server/engine"
)

// Library is the release whose rules rules.txt was chosen from. go.mod pins it, and a test compares the two.
const Library = "github.com/zricethezav/gitleaks/v8 v8.30.1"

//go:embed rules.txt
var list string

// Rules returns the ids of rules.txt, sorted.
func Rules() []string {
	var ids []string
	for line := range strings.Lines(list) {
		if id := strings.TrimSpace(line); id != "" && !strings.HasPrefix(id, "#") {
			ids = append(ids, id)
		}
	}
	return ids
}

// Screener is one pinned rule set. It may be called from many goroutines.
type Screener struct {
	detector *detect.Detector
	set      models.Digest
}

var _ engine.Screener = (*Screener)(nil)

// New reads the library's rules and keeps those of rules.txt. It fails where the library has one of them no longer.
func New() (*Screener, error) {
	logging.Logger = zerolog.Nop()
	d, err := detect.NewDetectorDefaultConfig()
	if err != nil {
		return nil, fmt.Errorf("read the rules of %s: %w", Library, err)
	}
	ids := Rules()
	for _, id := range ids {
		if r, ok := d.Config.Rules[id]; !ok || r.Regex == nil {
			return nil, fmt.Errorf("%s has no rule %s", Library, id)
		}
	}
	for id := range d.Config.Rules {
		if !slices.Contains(ids, id) {
			delete(d.Config.Rules, id)
		}
	}
	// A comment in the text must not switch the screening off.
	d.IgnoreGitleaksAllow = true
	d.MaxDecodeDepth = 0
	return &Screener{detector: d, set: models.PlainDigest(canon.MustMarshal(struct {
		Library string        `json:"library"`
		Rules   []string      `json:"rules"`
		Source  models.Digest `json:"source"`
	}{Library, ids, models.PlainDigest([]byte(config.DefaultConfig))}))}, nil
}

// RuleSet names library, rules and choice. A profile pins it.
func (s *Screener) RuleSet() models.Digest { return s.set }

var limits = pyjson.Limits{Bytes: 64 << 20, Depth: 1 << 10, Nodes: 1 << 24}

// Screen looks at a JSON text as it stands, and at each string and member name that it spells: an escape before a key hides it
// from a rule that asks for a word's beginning. A finding has the rule and the JSON pointer of the string, of which steps that are
// no plain name are "~", and is "" where it is not inside one string. Findings are sorted and each there once. A text that is no
// JSON is looked at whole.
func (s *Screener) Screen(text []byte) []models.Finding {
	places := []place{{"", string(text), ""}}
	if root, err := pyjson.Parse(text, limits); err == nil {
		places = appendPlaces(places, root, "")
	}
	var all strings.Builder
	for _, p := range places[1:] {
		all.WriteString(p.decoded)
		all.WriteString("\n\n")
	}
	var found []models.Finding
	for _, look := range []string{string(text), all.String()} {
		for _, f := range s.detect(look) {
			for _, path := range where(places[1:], f.secret) {
				found = append(found, models.Finding{Path: path, Rule: f.rule})
			}
		}
	}
	slices.SortFunc(found, models.Finding.Compare)
	return slices.Compact(found)
}

type hit struct{ rule, secret string }

func (s *Screener) detect(text string) []hit {
	var hits []hit
	for _, f := range s.detector.DetectString(text) {
		hits = append(hits, hit{f.RuleID, f.Secret})
	}
	return hits
}

// place is one string of the text: as it is meant, and as it is spelled.
type place struct{ path, decoded, spelled string }

func appendPlaces(list []place, v *pyjson.Value, path string) []place {
	switch v.Kind {
	case pyjson.String:
		return append(list, place{path, v.Text, string(pyjson.Encode(v))})
	case pyjson.Array:
		for i, item := range v.Items {
			list = appendPlaces(list, item, fmt.Sprintf("%s/%d", path, i))
		}
	case pyjson.Object:
		for _, m := range v.Members {
			step := path + "/" + plain(m.Name)
			list = append(list, place{step, m.Name, string(pyjson.Encode(pyjson.NewString(m.Name)))})
			list = appendPlaces(list, m.Value, step)
		}
	}
	return list
}

// where returns the paths of all strings that have the secret in them, and "" where it is inside none: a waiver is for one place.
func where(places []place, secret string) []string {
	var paths []string
	for _, p := range places {
		if strings.Contains(p.decoded, secret) || strings.Contains(p.spelled, secret) {
			paths = append(paths, p.path)
		}
	}
	if len(paths) == 0 {
		return []string{""}
	}
	return paths
}

// members are the names that a record's own structure has; any other could be somebody's text, or the secret itself.
var members = strings.Fields(`record versions source_identity dependency_epoch prompt_catalog compatibility contract history usage limits state
	model instructions tools grants output provider name base_url settings content parts args tool_name tool_call_id part_kind kind metadata
	description parameters_json_schema output_tools provider_details provider_url provider_name run_id conversation_id finish_reason outcome
	thinking signature identifier id timestamp model_name details`)

func plain(step string) string {
	if slices.Contains(members, step) {
		return step
	}
	return "~"
}
