package agentic

import "testing"

// BenchmarkReconstruct is the guest's whole work natively, on the recorded run (22 KB of checkpoint).
func BenchmarkReconstruct(b *testing.B) {
	m := reconstructMessage(b, openHeld(b, "2.55.0"))
	b.SetBytes(int64(len(m)))
	for b.Loop() {
		Call(m)
	}
}

func BenchmarkLoadCatalogue(b *testing.B) {
	for b.Loop() {
		if _, err := LoadCatalogue(catalogueBytes()); err != nil {
			b.Fatal(err)
		}
	}
}
