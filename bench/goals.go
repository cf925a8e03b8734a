package main

import (
	"fmt"
	"time"
)

// goal is one of the project's, beside what this run measured.
type goal struct {
	what, want, have string
	met              bool
}

// above notes a goal of a number that should be at least so high, below one of a time that should be at most so long.
func (b *bench) above(what string, have, want float64, format string) {
	b.goals = append(b.goals, goal{what, ">= " + fmt.Sprintf(format, want), fmt.Sprintf(format, have), have >= want})
}

func (b *bench) most(what string, have, want float64, format string) {
	b.goals = append(b.goals, goal{what, "<= " + fmt.Sprintf(format, want), fmt.Sprintf(format, have), have <= want})
}

func (b *bench) below(what string, have, want time.Duration) {
	b.goals = append(b.goals, goal{what, "< " + want.String(), short(have), have < want})
}

// verdict prints the goals that this run measured. A goal of speed says as much about the machine as about Forge; one of a ratio says
// more.
func (b *bench) verdict() {
	if len(b.goals) == 0 {
		return
	}
	fmt.Printf("\n| %-62s | %11s | %11s | %-6s |\n|%s|%s:|%s:|%s|\n", "goal", "wanted", "measured", "", dashes(64), dashes(12), dashes(12), dashes(8))
	for _, g := range b.goals {
		met := "missed"
		if g.met {
			met = "met"
		}
		fmt.Printf("| %-62s | %11s | %11s | %-6s |\n", g.what, g.want, g.have, met)
	}
}
