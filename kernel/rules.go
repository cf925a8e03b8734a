package kernel

// gates is what a rules number decides. A changed rule is a new number with a gate here; a released number never changes
// its meaning (design, The kernel).
type gates struct {
	// maxFacts is the most facts in one batch.
	maxFacts int
}

// rulesets holds the gates of rules 1, 2, ... in order. Rules 1 is released by the first tagged version.
var rulesets = []gates{
	{maxFacts: 512}, // four rows for each of 128 calls
}

// CurrentRules is the newest rules number that this build knows, and what new factories start with.
func CurrentRules() int64 { return int64(len(rulesets)) }

// knows reports whether a rules number can be judged here.
func knows(rules int64) bool { return rules >= 1 && rules <= CurrentRules() }
