//go:build linux || darwin

package sandbox

import (
	"fmt"
	"syscall"
)

// newLinearMemory reserves the whole of MaxMemory as address space. Pages cost nothing until the guest touches them, the
// memory never moves, and growing it cannot fail on one machine and work on another.
func newLinearMemory() (*linearMemory, error) {
	b, err := syscall.Mmap(-1, 0, MaxMemory, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve memory of a sandbox instance: %w", err)
	}
	return &linearMemory{data: b, free: func(b []byte) { syscall.Munmap(b) }}, nil
}
