package agentic

import (
	"strconv"

	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/models/guestabi"
)

func itoa(n int) string { return strconv.Itoa(n) }

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// Inspection is the result of inspect: what a checkpoint says about itself, without content.
type Inspection struct {
	DependencyEpoch string         `json:"dependency_epoch"`
	HistoryMessages int64          `json:"history_messages"`
	SourceIdentity  string         `json:"source_identity"`
	Usage           InspectedUsage `json:"usage"`
	Versions        Versions       `json:"versions"`
}

// Versions are those that the record declares.
type Versions struct {
	FireflyAgentic string `json:"firefly_agentic"`
	PydanticAI     string `json:"pydantic_ai"`
}

// InspectedUsage is the run's usage so far.
type InspectedUsage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	Requests     int64 `json:"requests"`
	ToolCalls    int64 `json:"tool_calls"`
}

// Inspect checks a checkpoint's bounds, canonical form, structure and counters (CRED-07). The first hold is the answer of a
// record that does not pass; nothing is registered or restored by it.
func Inspect(catalogue *Catalogue, checkpoint []byte) (*Inspection, []Hold) {
	c, holds := ParseCheckpoint(checkpoint, catalogue)
	if len(holds) > 0 {
		return nil, holds
	}
	total := func(name string) int64 { n, _ := c.usage().Get(name).Int(); return n }
	return &Inspection{
		DependencyEpoch: c.DependencyEpoch, HistoryMessages: int64(len(c.history().Items)), SourceIdentity: c.SourceIdentity,
		Usage:    InspectedUsage{total("input_tokens"), total("output_tokens"), total("requests"), total("tool_calls")},
		Versions: Versions{c.FireflyAgentic, string(c.Version)},
	}, nil
}

func callInspect(frames map[string][]byte, params canon.Raw) (*output, *guestabi.Refusal) {
	if err := canon.Unmarshal(params, &struct{}{}); err != nil {
		return nil, malformed("params", "inspect takes none")
	}
	catalogue, err := catalogueOf(frames["catalogue"])
	if err != nil {
		return nil, malformed("catalogue", "not a catalogue that this module can use")
	}
	result, holds := Inspect(catalogue, frames["checkpoint"])
	if len(holds) > 0 {
		return nil, &guestabi.Refusal{Code: holds[0].Code, Details: holds[0].Details}
	}
	return &output{result: result}, nil
}
