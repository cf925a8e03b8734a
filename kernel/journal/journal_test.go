package journal_test

import (
	"slices"
	"testing"

	"github.com/forge-continuity/forge/kernel/journal"
	"github.com/forge-continuity/forge/models"
	"pgregory.net/rapid"
)

// chains grows a journal command by command and changes one thing in it.
func chains(t *rapid.T) {
	var rows []models.Row
	var head models.Digest
	at := models.Instant(0)
	for cmd := range int64(rapid.IntRange(1, 5).Draw(t, "commands")) {
		at += models.Instant(rapid.Int64Range(0, 3).Draw(t, "later"))
		n := rapid.Int64Range(1, 3).Draw(t, "rows")
		var group []models.Row
		for i := range n {
			r := models.Row{Format: 1, Rules: 1, Factory: "f", Run: "r", Seq: int64(len(rows)) + i + 1, Cmd: cmd + 1, I: i, N: n, At: at, Actor: "a",
				Kind: "k", Payload: rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "payload")}
			if i == 0 {
				r.CommandID, r.CommandName, r.Command, r.Env = "id", "do", []byte("{}"), []byte("{}")
			}
			group = append(group, r)
		}
		journal.Seal(head, group)
		head = group[n-1].Hash
		rows = append(rows, group...)
	}
	walk := func(rows []models.Row) (journal.Chain, *models.Refusal) {
		var c journal.Chain
		for _, r := range rows {
			if refused := c.Next(r); refused != nil {
				return c, refused
			}
		}
		return c, nil
	}
	c, r := walk(rows)
	if r != nil || c.Head != head || c.Seq != int64(len(rows)) || !c.Whole() {
		t.Fatalf("J1: %v, head %v", r, c.Head)
	}
	for i, row := range rows {
		c, r := walk(rows[:i+1])
		if r != nil || c.Whole() != (row.I == row.N-1) {
			t.Fatalf("J2: whole %v after row %d of %d, %v", c.Whole(), row.I, row.N, r)
		}
	}

	i := rapid.IntRange(0, len(rows)-1).Draw(t, "row")
	changed := slices.Clone(rows)
	p := &changed[i]
	what := rapid.SampledFrom([]string{"format", "seq", "cmd", "i", "n", "at", "actor", "factory", "run", "rules", "command", "no command", "no env", "kind"}).Draw(t, "what")
	switch what {
	case "format":
		p.Format = rapid.SampledFrom([]int64{0, -1, 2}).Draw(t, "format")
	case "seq":
		p.Seq += rapid.SampledFrom([]int64{-1, 1}).Draw(t, "by")
	case "cmd":
		p.Cmd += rapid.SampledFrom([]int64{-1, 1}).Draw(t, "by")
	case "i":
		p.I += rapid.SampledFrom([]int64{-1, 1, 3}).Draw(t, "by")
	case "n":
		p.N += rapid.SampledFrom([]int64{-1, 1, -3}).Draw(t, "by")
	case "at":
		p.At -= 10
	case "actor":
		p.Actor = "b"
	case "factory":
		p.Factory = "g"
	case "run":
		p.Run = "s"
	case "rules":
		p.Rules = 2
	case "command":
		p.CommandID, p.CommandName, p.Command, p.Env = "id", "do", []byte("{}"), []byte("{}")
	case "no command":
		p.Command = nil
	case "no env":
		p.Env = nil
	case "kind":
		p.Kind = "other"
	}
	if _, r := walk(changed); r == nil && journal.RowHash(*p) != rows[i].Hash {
		t.Fatalf("J1: another %s in row %d holds", what, i+1)
	}
	// Sealed anew, the shape of commands and the order of rows must still hold (J2).
	var prev models.Digest
	if i > 0 {
		prev = changed[i-1].Hash
	}
	journal.Seal(prev, changed[i:])
	_, r = walk(changed)
	alone := rows[i].N == 1
	first, last := rows[i].I == 0, i == len(rows)-1
	free := false // what a chain alone cannot know
	switch what {
	case "kind":
		free = true
	case "at":
		free = alone && i == 0
	case "actor", "rules":
		free = alone
	case "factory", "run":
		free = len(rows) == 1
	case "n":
		free = p.N > 0 && rows[i].I < p.N && first && last && alone // the command is not whole, which Whole says
	case "command":
		free = first
	case "no command", "no env":
		free = !first
	}
	if (r == nil) != free {
		t.Fatalf("J2: another %s in row %d (%d of %d), sealed: %v", what, i+1, rows[i].I, rows[i].N, r)
	}
	if r != nil && r.Code != models.CodeJournalBroken && !(what == "format" && r.Code == models.CodeRulesNewer && p.Format > 1) {
		t.Fatalf("%s: %v", what, r)
	}
}

func TestChains(t *testing.T) { rapid.Check(t, chains) }
func FuzzChains(f *testing.F) { f.Fuzz(rapid.MakeFuzz(chains)) }

// A row's place in its command is one of 0 to n-1, also where no other row tells.
func TestPlaceInTheCommand(t *testing.T) {
	for _, c := range []struct{ i, n int64 }{{0, 0}, {0, -1}, {-1, 1}, {1, 1}, {2, 1}} {
		rows := []models.Row{{Format: 1, Rules: 1, Factory: "f", Run: "r", Seq: 1, Cmd: 1, I: c.i, N: c.n, CommandID: "id", CommandName: "do", Command: []byte("{}"), Env: []byte("{}")}}
		journal.Seal(models.Digest{}, rows)
		var chain journal.Chain
		if r := chain.Next(rows[0]); r == nil || r.Code != models.CodeJournalBroken {
			t.Errorf("row %d of %d: %v", c.i, c.n, r)
		}
	}
}
