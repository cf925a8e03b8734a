package conformance

import (
	"bytes"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/forge-continuity/forge/server/engine"
)

// Sizes of a benchmark's append: about those of an ordinary command of a worker, with the state of a run of some length.
const (
	benchPayload = 300
	benchCommand = 400
	benchEnv     = 200
	benchState   = 4 << 10
)

// Bench measures appends of one row and of ten through the store's door beside bare, a single-row insert of the same payload
// in a transaction of its own, at 1, 4, 16 and 64 writers. Each writer has a run of its own in one factory.
func Bench(b *testing.B, s engine.Store, bare func(writer, i int, payload []byte) error) {
	w := Enter(Nodes{A: s, B: s})
	const most = 64
	runs := make([]string, most)
	for i := range runs {
		runs[i] = "run-" + strconv.Itoa(i)
	}
	if err := w.openRuns(b.Context(), runs...); err != nil {
		b.Fatal(err)
	}
	text := func(n int) []byte { return bytes.Repeat([]byte(`{"number":12345}`), n/16) }
	payload, command, env := text(benchPayload), text(benchCommand), text(benchEnv)
	appendRows := func(rows int) func(writer, _ int) error {
		return func(writer, _ int) error {
			_, err := w.do(b.Context(), s, step{run: runs[writer], rows: rows, edit: func(l engine.Loaded, out *engine.Write) error {
				for i := range out.Rows {
					out.Rows[i].Payload, out.Rows[i].Cmd = payload, out.Rows[0].Seq
				}
				out.Rows[0].Command, out.Rows[0].Env = command, env
				out.State = text(benchState)
				return nil
			}})
			return err
		}
	}
	for _, writers := range []int{1, 4, 16, most} {
		b.Run(fmt.Sprintf("insert/writers=%d", writers), func(b *testing.B) {
			crowded(b, writers, func(writer, i int) error { return bare(writer, i, payload) })
		})
		for _, rows := range []int{1, 10} {
			b.Run(fmt.Sprintf("append/writers=%d/rows=%d", writers, rows), func(b *testing.B) { crowded(b, writers, appendRows(rows)) })
		}
	}
}

// crowded spreads b.N calls over writers and reports how many were done in a second.
func crowded(b *testing.B, writers int, f func(writer, i int) error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for writer := range writers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := f(writer, int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "per_s")
}
