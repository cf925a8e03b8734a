package sandbox

import "github.com/tetratelabs/wazero/experimental"

// linearMemory is the memory of one instance. It refuses to grow over MaxMemory and remembers that it did, so that a
// guest which gives up afterwards is reported as out of memory.
type linearMemory struct {
	data    []byte
	grow    bool // data is reallocated on demand
	free    func([]byte)
	refused bool
}

var (
	_ experimental.MemoryAllocator = (*linearMemory)(nil)
	_ experimental.LinearMemory    = (*linearMemory)(nil)
)

// Allocate implements experimental.MemoryAllocator.
func (m *linearMemory) Allocate(_, _ uint64) experimental.LinearMemory { return m }

// Reallocate implements experimental.LinearMemory.
func (m *linearMemory) Reallocate(size uint64) []byte {
	if size > MaxMemory {
		m.refused = true
		return nil
	}
	if m.grow && size > uint64(len(m.data)) {
		m.data = append(m.data, make([]byte, size-uint64(len(m.data)))...)
	}
	return m.data[:size:size]
}

// Free implements experimental.LinearMemory. It may be called twice.
func (m *linearMemory) Free() {
	if m.data != nil {
		m.free(m.data)
		m.data = nil
	}
}
