package meter

// Instructions that the rewriters look at (core specification, 5.4).
const (
	opBlock      = 0x02
	opLoop       = 0x03
	opIf         = 0x04
	opEnd        = 0x0b
	opCall       = 0x10
	opLocalGet   = 0x20
	opLocalTee   = 0x22
	opGlobalGet  = 0x23
	opGlobalSet  = 0x24
	opI32Const   = 0x41
	opI64Const   = 0x42
	opF32Const   = 0x43
	opF64Const   = 0x44
	opI64LtS     = 0x53
	opI64Sub     = 0x7d
	opI64ShrU    = 0x88
	opI64ExtendU = 0xad
	opMisc       = 0xfc

	miscMemoryInit = 8
	miscDataDrop   = 9
	miscMemoryCopy = 10
	miscMemoryFill = 11
	miscTableInit  = 12
	miscElemDrop   = 13
	miscTableCopy  = 14
)

// instruction is one instruction in place: code[start:end], its immediates from imm on.
type instruction struct {
	op, misc        byte
	start, imm, end int
	index           uint32 // of call, global.get and global.set
}

// bulk says whether the instruction's cost grows with a length, which is then the top of the stack.
func (i instruction) bulk() bool {
	if i.op != opMisc {
		return false
	}
	switch i.misc {
	case miscMemoryInit, miscMemoryCopy, miscMemoryFill, miscTableInit, miscTableCopy:
		return true
	}
	return false
}

// walk calls visit for every instruction of a function body in order, and refuses instructions outside the subset and a
// body whose blocks do not close exactly at its end.
func walk(code []byte, visit func(instruction) error) error {
	r := &reader{data: code}
	depth := 1
	for r.more() {
		if depth == 0 {
			return malformed("code after the end of a function")
		}
		i := instruction{start: r.pos}
		i.op = r.byte()
		i.imm = r.pos
		switch op := i.op; {
		case op == opBlock || op == opLoop || op == opIf:
			r.signed(5)
			depth++
		case op == opEnd:
			depth--
		case op <= 0x01, op == 0x05, op == 0x0f, op == 0x1a, op == 0x1b: // unreachable, nop, else, return, drop, select
		case op == 0x0c, op == 0x0d, op >= opLocalGet && op <= opLocalTee: // br, br_if, local.*
			r.u32()
		case op == opCall, op == opGlobalGet, op == opGlobalSet:
			i.index = r.u32()
		case op == 0x0e: // br_table
			for range r.count() {
				r.u32()
			}
			r.u32()
		case op == 0x11: // call_indirect
			r.u32()
			r.u32()
		case op == 0x1c: // select with types
			r.valTypes()
		case op >= 0x28 && op <= 0x3e: // loads and stores
			r.u32()
			r.u32()
		case op == 0x3f, op == 0x40: // memory.size, memory.grow
			r.byte()
		case op == opI32Const:
			r.signed(5)
		case op == opI64Const:
			r.signed(10)
		case op == opF32Const:
			r.bytes(4)
		case op == opF64Const:
			r.bytes(8)
		case op >= 0x45 && op <= 0xc4: // numeric, with sign extension
		case op == opMisc:
			sub := r.u32()
			i.misc = byte(sub)
			switch {
			case sub <= 7: // saturating conversions
			case sub == miscMemoryInit, sub == miscMemoryCopy, sub == miscTableInit, sub == miscTableCopy:
				r.u32()
				r.u32()
			case sub == miscDataDrop, sub == miscMemoryFill, sub == miscElemDrop:
				r.u32()
			default:
				return malformed("instruction 0xfc %d is not accepted", sub)
			}
		default:
			return malformed("instruction 0x%02x is not accepted", op)
		}
		if r.err != nil {
			return r.err
		}
		i.end = r.pos
		if err := visit(i); err != nil {
			return err
		}
	}
	if r.err != nil {
		return r.err
	}
	if depth != 0 {
		return malformed("a function ends inside %d blocks", depth)
	}
	return nil
}

// reindex rewrites the function index of every call, element, export and the start function.
func (m *module) reindex(to func(uint32) uint32) error {
	for n := range m.code {
		code := m.code[n].code
		out := make([]byte, 0, len(code)+len(code)/64)
		done := 0
		err := walk(code, func(i instruction) error {
			if i.op == opCall {
				out = appendU32(append(out, code[done:i.imm]...), to(i.index))
				done = i.end
			}
			return nil
		})
		if err != nil {
			return err
		}
		m.code[n].code = append(out, code[done:]...)
	}
	for _, s := range m.elements {
		for i := range s.funcs {
			s.funcs[i] = to(s.funcs[i])
		}
	}
	for i, e := range m.exports {
		if e.kind == KindFunc {
			m.exports[i].index = to(e.index)
		}
	}
	if m.start != nil {
		*m.start = to(*m.start)
	}
	return nil
}
