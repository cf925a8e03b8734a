package kernel

// FakeRules makes rules 2 known until the returned function is called: as rules 1, with at most so many facts in a batch.
func FakeRules(maxFacts int) (restore func()) {
	old := rulesets
	next := old[0]
	next.maxFacts = maxFacts
	rulesets = []gates{old[0], next}
	return func() { rulesets = old }
}
