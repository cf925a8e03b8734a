package guestbuild

import (
	"sync"
	"testing"
)

// TestGuest is the module of sandbox/testdata/guest, built once per test process.
func TestGuest(t testing.TB) Module {
	t.Helper()
	m, err := testGuest()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var testGuest = sync.OnceValues(func() (Module, error) {
	root, err := Root()
	if err != nil {
		return Module{}, err
	}
	return Build(root, "./sandbox/testdata/guest")
})
