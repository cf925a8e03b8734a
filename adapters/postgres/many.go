package postgres

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// many is one statement over a list of VALUES, written out for lists of fixed lengths so that few texts are prepared. A
// list costs the server far less than as many statements: what it looks up for a statement, such as the constraints of the
// table, it looks up once (measured on version 15: a journal row 42 us alone, 16 us in a list of eight, 27 us by unnest).
type many struct {
	before, after string
	types         []string // of the columns
	texts         [len(lengths)]string
}

// lengths are tried in this order, so that any list is a few of them.
var lengths = [...]int{16, 8, 4, 2, 1}

// newMany writes the list between before and after. types are the SQL types of the columns.
func newMany(before string, types []string, after string) many {
	m := many{before: before, after: after, types: types}
	for at, n := range lengths {
		m.texts[at] = m.text(n, 0)
	}
	return m
}

// text is the statement for n rows, its parameters numbered after the first so many.
func (m many) text(n, after int) string {
	var b strings.Builder
	b.WriteString(m.before)
	for i := range n * len(m.types) {
		switch {
		case i == 0:
			b.WriteString("(")
		case i%len(m.types) == 0:
			b.WriteString("), (")
		default:
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "$%d::%s", after+i+1, m.types[i%len(m.types)])
	}
	b.WriteString(")" + m.after)
	return b.String()
}

// queue adds the statements for a list, its values one after the other.
func (m many) queue(b *pgx.Batch, values []any) {
	for at, n := range lengths {
		for n *= len(m.types); len(values) >= n; values = values[n:] {
			b.Queue(m.texts[at], values[:n:n]...)
		}
	}
}
