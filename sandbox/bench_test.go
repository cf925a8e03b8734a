package sandbox

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/forge-continuity/forge/sandbox/internal/guestbuild"
)

// BenchmarkCall parses and writes JSON of a message history's shape in a fresh instance, prepared ahead (so an iteration
// ends with the instance closed, while the next one is prepared beside it), with fuel, without, and the same Go code
// outside. BenchmarkPrepare is what preparing takes.
func BenchmarkCall(b *testing.B) {
	m := guestbuild.TestGuest(b)
	hosts := []struct {
		name string
		host *Host
	}{
		{"fuel", open(b, m.Wasm, Config{CacheDir: cacheDir})},
		{"nofuel", open(b, m.Sealed, Config{unmetered: true})},
	}
	for _, size := range []int{10_000, 50_000, 200_000} {
		in := document(size)
		b.Run(fmt.Sprintf("json/%dKB/native", size/1000), func(b *testing.B) {
			for b.Loop() {
				var v any
				if err := json.Unmarshal([]byte(in), &v); err != nil {
					b.Fatal(err)
				}
				if _, err := json.Marshal(v); err != nil {
					b.Fatal(err)
				}
			}
		})
		for _, h := range hosts {
			b.Run(fmt.Sprintf("json/%dKB/%s", size/1000, h.name), func(b *testing.B) {
				var fuel int64
				for b.Loop() {
					r, err := h.host.Call(b.Context(), "json", one(in), nil)
					if err != nil {
						b.Fatal(err)
					}
					fuel = r.FuelUsed
				}
				b.ReportMetric(float64(fuel), "fuel")
			})
		}
	}
}

func BenchmarkPrepare(b *testing.B) {
	h := open(b, guestbuild.TestGuest(b).Wasm, Config{CacheDir: cacheDir, Warm: -1})
	for b.Loop() {
		i, err := h.prepare(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		i.close(b.Context())
	}
}
