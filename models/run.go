package models

// Checkpoint modes. Only ModeRequired serves continuity (PREVIEW-01).
const ModeRequired = "required"

// Time-budget protocols that the kernel knows; every other name refuses (FLOW-27).
const (
	TimeBudgetNone     = "none"
	TimeBudgetAbsolute = "absolute"
)

// MaxWindow is the longest lease window in seconds, from the provider-timeout protocol (spec, Operator flow).
const MaxWindow Seconds = 7200

// Limits are lifetime allowances, each an exact count; 0 allows none of it. Tokens are kept apart.
type Limits struct {
	Attempts     int64 `json:"attempts"`
	Commands     int64 `json:"commands"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	Repairs      int64 `json:"repairs"`
	Requests     int64 `json:"requests"`
	SourceReads  int64 `json:"source_reads"`
	ToolCalls    int64 `json:"tool_calls"`
	TotalTokens  int64 `json:"total_tokens"`
}

// Tokens is the usage of one response as the provider counted it. Reasoning tokens are part of Output and one-hour cache
// writes part of Input already; neither is ever added again (SDK-21).
type Tokens struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
}

// Frozen is a factory record as the run froze it: "changed" means that the current record's digest differs.
type Frozen struct {
	Digest   Digest `json:"digest"`
	Record   string `json:"record"`
	Revision int64  `json:"revision"`
}

// Registration is everything about a run that never changes again (spec, introduction: task, source, user, configuration
// and limits). Selection, Mode and Acknowledgement are the three strings of the policy epoch (rules O21).
type Registration struct {
	Acknowledgement string  `json:"acknowledgement"`
	ActiveDeadline  Instant `json:"active_deadline"`
	Attempt         int64   `json:"attempt"`
	CompletedRounds int64   `json:"completed_rounds"`
	Configuration   Frozen  `json:"configuration"`
	Contract        Digest  `json:"contract"`
	Limits          Limits  `json:"limits"`
	Mode            string  `json:"mode"`
	ProviderTimeout Seconds `json:"provider_timeout_seconds"`
	Reader          Digest  `json:"reader"`
	Runtime         Digest  `json:"runtime"`
	Scope           Frozen  `json:"scope"`
	Selection       string  `json:"selection"`
	Source          Frozen  `json:"source"`
	Task            Digest  `json:"task"`
	TimeBudget      string  `json:"time_budget"`
	Validator       Digest  `json:"validator"`

	Verification Verification `json:"verification,omitzero"`
}

// Classes of a granted call, by what running it may do. The catalogue names the tools of the two read classes.
const (
	ClassEvidenceRead      = "evidence_read"
	ClassSourceObservation = "source_observation"
	ClassPureRead          = "pure_read"
	ClassWrite             = "write"
	ClassCommand           = "command"
	ClassNetwork           = "network"
	ClassUnknown           = "unknown"
)

// ValidClass reports whether c is one of the classes.
func ValidClass(c string) bool {
	switch c {
	case ClassEvidenceRead, ClassSourceObservation, ClassPureRead, ClassWrite, ClassCommand, ClassNetwork, ClassUnknown:
		return true
	}
	return false
}
