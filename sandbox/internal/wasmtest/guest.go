package wasmtest

// Parts of a guest module that a test replaces; nil code stands for behaving well.
type Guest struct {
	Initialize, ABI, Alloc, Call []byte
	CallLocals                   Types
	Pages                        uint32
	Data                         []byte // at offset DataAt
}

// DataAt is where Guest.Data lies in memory, and AllocAt where the message goes.
const (
	DataAt  = 2048
	AllocAt = 8192
)

// Build adds the exports of the guest ABI to m, which may hold imports already.
func (g Guest) Build(m *Module) *Module {
	or := func(code, otherwise []byte) []byte {
		if code == nil {
			return otherwise
		}
		return code
	}
	m.Memory(max(g.Pages, 1))
	m.Export("_initialize", 0, m.Func(nil, nil, nil, g.Initialize))
	m.Export("forge_abi", 0, m.Func(nil, Types{I32}, nil, or(g.ABI, I32Const(1))))
	m.Export("forge_alloc", 0, m.Func(Types{I32}, Types{I32}, nil, or(g.Alloc, I32Const(AllocAt))))
	m.Export("forge_call", 0, m.Func(Types{I32, I32}, Types{I64}, g.CallLocals,
		or(g.Call, I64Const(DataAt<<32|int64(len(g.Data))))))
	if g.Data != nil {
		m.Data(DataAt, g.Data)
	}
	return m
}
