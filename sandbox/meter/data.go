package meter

import (
	"cmp"
	"slices"
)

// maxGap is the longest run of zeros, in bytes, written out to join two data segments. Go's linker cuts data at every
// run of a few zeros, which makes thousands of segments that each cost more than the zeros saved.
const maxGap = 512

// joinData merges active data segments that lie close together. Memory starts as zeros, so when no two segments overlap,
// their order does not matter and the gaps are zeros either way. A module that addresses segments by number
// (memory.init, data.drop) must have a data count section; it is left as it is.
func (m *module) joinData() {
	if m.data == nil || m.dataCount != nil {
		return
	}
	type part struct {
		offset int64
		data   []byte
	}
	var read []part
	r := &reader{data: m.data}
	for range r.count() {
		if r.u32() != 0 || r.byte() != opI32Const {
			return
		}
		offset := int64(uint32(r.signed(5)))
		if r.byte() != opEnd {
			return
		}
		read = append(read, part{offset, r.bytes(r.u32())})
	}
	if r.err != nil {
		return
	}
	slices.SortStableFunc(read, func(a, b part) int { return cmp.Compare(a.offset, b.offset) })
	var parts []part
	for _, p := range read {
		if n := len(parts); n > 0 {
			last := &parts[n-1]
			gap := p.offset - last.offset - int64(len(last.data))
			if gap < 0 {
				return
			}
			if gap <= maxGap {
				last.data = append(append(last.data, make([]byte, gap)...), p.data...)
				continue
			}
		}
		parts = append(parts, part{p.offset, slices.Clone(p.data)})
	}
	out := appendVec(nil, len(parts))
	for _, p := range parts {
		out = appendS64(append(out, 0, opI32Const), int64(int32(uint32(p.offset))))
		out = append(appendVec(append(out, opEnd), len(p.data)), p.data...)
	}
	m.data = out
}
