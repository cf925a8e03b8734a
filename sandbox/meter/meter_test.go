package meter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/sandbox/internal/guestbuild"
	. "github.com/forge-continuity/forge/sandbox/internal/wasmtest"
	"github.com/forge-continuity/forge/sandbox/meter"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"pgregory.net/rapid"
)

// machine runs modules that export run() -> i32 and a memory, with a host that grants fuel in slices.
type machine struct {
	runtime       wazero.Runtime
	budget, slice int64
	granted       int64
}

var errSpent = errors.New("spent")

func newMachine(t testing.TB) *machine {
	ctx := context.Background()
	m := &machine{runtime: wazero.NewRuntime(ctx)}
	refuel := func(_ context.Context, mod api.Module, _ []uint64) {
		g := mod.ExportedGlobal(meter.FuelGlobal).(api.MutableGlobal)
		left := int64(g.Get())
		for left < 0 {
			add := min(m.slice, m.budget-m.granted)
			if add == 0 {
				panic(errSpent)
			}
			left += add
			m.granted += add
		}
		g.Set(uint64(left))
	}
	_, err := m.runtime.NewHostModuleBuilder(meter.RefuelModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(refuel), nil, nil).Export(meter.RefuelName).Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.runtime.Close(ctx) })
	return m
}

type outcome struct {
	result uint64
	memory string
	used   int64
	err    error
}

func (m *machine) run(t interface{ Fatal(...any) }, wasm []byte) outcome {
	ctx := context.Background()
	compiled, err := m.runtime.CompileModule(ctx, wasm)
	if err != nil {
		t.Fatal(err)
	}
	defer compiled.Close(ctx)
	mod, err := m.runtime.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		t.Fatal(err)
	}
	defer mod.Close(ctx)
	m.granted = 0
	r, err := mod.ExportedFunction("run").Call(ctx)
	o := outcome{err: err}
	if err == nil {
		o.result = r[0]
		b, _ := mod.Memory().Read(0, mod.Memory().Size())
		o.memory = string(b)
	}
	if g := mod.ExportedGlobal(meter.FuelGlobal); g != nil {
		o.used = min(m.granted-int64(g.Get()), m.budget)
	}
	return o
}

// program draws a module that always ends: arithmetic, memory, bulk instructions, branches, bounded loops, direct and
// indirect calls, a global of its own, and now and then a trap.
func program(t *rapid.T) []byte {
	m := &Module{}
	global := m.Global(I32, I32Const(7))
	var leaves []uint32
	for i := range rapid.IntRange(1, 3).Draw(t, "leaves") {
		leaves = append(leaves, m.Func(Types{I32}, Types{I32}, nil,
			LocalGet(0), I32Const(int32(i)*2654435+1), Op(0x6c), GlobalGet(global), Op(0x6a), LocalGet(0), GlobalSet(global)))
	}
	m.Table(uint32(len(leaves)), leaves...)
	leafType := m.Type(Types{I32}, Types{I32})
	const locals = 4 // 0 to 2 are values, 3 and above count loops
	depth := 0
	var expr func(fuel int) []byte
	expr = func(fuel int) []byte {
		if fuel <= 0 {
			return LocalGet(uint32(rapid.IntRange(0, 2).Draw(t, "local")))
		}
		switch rapid.IntRange(0, 5).Draw(t, "expr") {
		case 0:
			return I32Const(rapid.Int32().Draw(t, "const"))
		case 1:
			op := rapid.SampledFrom([]byte{0x6a, 0x6b, 0x6c, 0x71, 0x72, 0x73, 0x74, 0x48, 0x6d}).Draw(t, "op") // last: div_s
			return bytes.Join([][]byte{expr(fuel - 1), expr(fuel - 1), {op}}, nil)
		case 2:
			return bytes.Join([][]byte{expr(fuel - 1), I32Const(0x7fff), {0x71}, Load8(16)}, nil)
		case 3:
			return append(expr(fuel-1), Call(leaves[rapid.IntRange(0, len(leaves)-1).Draw(t, "leaf")])...)
		case 4:
			which := I32Const(int32(rapid.IntRange(0, len(leaves)-1).Draw(t, "entry")))
			return bytes.Join([][]byte{expr(fuel - 1), which, append([]byte{0x11}, U32(leafType)...), {0}}, nil)
		default:
			return LocalGet(uint32(rapid.IntRange(0, 2).Draw(t, "local")))
		}
	}
	var block func(n int) []byte
	statement := func() []byte {
		switch rapid.IntRange(0, 7).Draw(t, "statement") {
		case 0, 1:
			return append(expr(3), LocalSet(uint32(rapid.IntRange(0, 2).Draw(t, "set")))...)
		case 2:
			return bytes.Join([][]byte{expr(2), I32Const(0x7fff), {0x71}, expr(2), Store8(3)}, nil)
		case 3:
			length := I32Const(int32(rapid.IntRange(0, 5000).Draw(t, "length")))
			at := bytes.Join([][]byte{expr(1), I32Const(0x3fff), {0x71}}, nil)
			from := bytes.Join([][]byte{expr(1), I32Const(0x3fff), {0x71}}, nil)
			op := MemoryCopy()
			if rapid.Bool().Draw(t, "fill") {
				op = MemoryFill()
			}
			return bytes.Join([][]byte{at, from, length, op}, nil)
		case 4:
			if depth > 2 {
				return nil
			}
			depth++
			defer func() { depth-- }()
			if rapid.Bool().Draw(t, "if") {
				return append(expr(2), If(block(3))...)
			}
			return Block(block(2), expr(1), BrIf(0), block(1))
		case 5:
			if depth > 2 {
				return nil
			}
			counter := uint32(locals - 1 + depth)
			depth++
			defer func() { depth-- }()
			n := int32(rapid.IntRange(1, 9).Draw(t, "turns"))
			return bytes.Join([][]byte{I32Const(n), LocalSet(counter), Loop(block(2),
				LocalGet(counter), I32Const(1), Op(0x6b), LocalTee(counter), BrIf(0))}, nil)
		case 6:
			if rapid.IntRange(0, 9).Draw(t, "trap") == 0 {
				return append(expr(1), If(Op(0x00))...)
			}
			return nil
		default:
			return append(growBy(rapid.IntRange(0, 1).Draw(t, "pages")), LocalSet(0)...)
		}
	}
	block = func(n int) []byte {
		var out []byte
		for range rapid.IntRange(0, n).Draw(t, "statements") {
			out = append(out, statement()...)
		}
		return out
	}
	m.Memory(1)
	m.Data(100, []byte("forge"))
	m.Export("run", 0, m.Func(nil, Types{I32}, bytes.Repeat(Types{I32}, locals+3), block(8), expr(3)))
	return m.Bytes()
}

// growBy grows memory by so many pages.
func growBy(pages int) []byte { return append(I32Const(int32(pages)), MemoryGrow()...) }

// Metering and sealing change no answer, the memory ends up the same, and slices do not change the count.
func sameAnswer(m *machine) func(*rapid.T) {
	return func(t *rapid.T) {
		plain := program(t)
		sealed, _, err := meter.Seal(plain)
		if err != nil {
			t.Fatal(err)
		}
		metered, err := meter.Meter(sealed)
		if err != nil {
			t.Fatal(err)
		}
		facts, err := meter.Check(metered)
		if err != nil || facts.Unmetered != "" {
			t.Fatalf("%v %s", err, facts.Unmetered)
		}
		m.budget, m.slice = 1<<40, 1<<20
		want, got := m.run(t, plain), m.run(t, metered)
		if (want.err == nil) != (got.err == nil) || want.result != got.result || want.memory != got.memory {
			t.Fatalf("plain %d %v, metered %d %v", want.result, want.err, got.result, got.err)
		}
		m.slice = 3
		again := m.run(t, metered)
		if again.used != got.used || again.result != got.result {
			t.Fatalf("in slices of 3: %d units, %d in one", again.used, got.used)
		}
		// Exactly the fuel it used is enough, and one unit less is not.
		if m.budget = got.used; m.run(t, metered).err == nil != (got.err == nil) {
			t.Fatalf("not enough: %d", got.used)
		}
		if m.budget = got.used - 1; !errors.Is(m.run(t, metered).err, errSpent) {
			t.Fatalf("%d is enough too", got.used-1)
		}
	}
}

func TestMeteringChangesNoAnswer(t *testing.T) { rapid.Check(t, sameAnswer(newMachine(t))) }

func FuzzMeteringChangesNoAnswer(f *testing.F) { f.Fuzz(rapid.MakeFuzz(sameAnswer(newMachine(f)))) }

func TestEndlessLoopStopsAtTheSameCount(t *testing.T) {
	m := newMachine(t)
	module := &Module{}
	module.Memory(1)
	// The loop counts its turns in memory, where they can be read after the stop.
	module.Export("run", 0, module.Func(nil, Types{I32}, nil,
		Loop(I32Const(0), I32Const(0), Op(0x28, 2, 0), I32Const(1), Op(0x6a), I32Store(0), Br(0)), Op(0x00)))
	metered, err := meter.Meter(module.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	compiled, err := m.runtime.CompileModule(ctx, metered)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		m.budget, m.slice, m.granted = 10_000, int64(1+i*37), 0
		mod, err := m.runtime.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName(""))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := mod.ExportedFunction("run").Call(ctx); !errors.Is(err, errSpent) {
			t.Fatal(err)
		}
		turns, _ := mod.Memory().ReadUint32Le(0)
		if turns != 9_999 { // one unit is the function's entry
			t.Fatalf("%d turns", turns)
		}
		mod.Close(ctx)
	}
}

// A unit never stands for more than 4096 bytes of instructions, so long code without loops has its price.
func TestLongCodeCostsMore(t *testing.T) {
	m := newMachine(t)
	m.budget, m.slice = 1<<40, 1<<20
	for _, c := range []struct{ bytes, units int64 }{{100, 1}, {4096, 2}, {40960, 11}} {
		module := &Module{}
		module.Memory(1)
		module.Export("run", 0, module.Func(nil, Types{I32}, nil, bytes.Repeat(Op(0x01), int(c.bytes)), I32Const(0)))
		metered, err := meter.Meter(module.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if o := m.run(t, metered); o.err != nil || o.used != c.units {
			t.Errorf("%d bytes: %d units, want %d (%v)", c.bytes, o.used, c.units, o.err)
		}
	}
}

// Check must see every way in which a module could run without paying.
func TestCheckFindsWhatIsNotPaid(t *testing.T) {
	refuel, fuel := uint32(0), uint32(0)
	pay := func(units int64) []byte {
		return bytes.Join([][]byte{GlobalGet(fuel), I64Const(units), Op(0x7d), GlobalSet(fuel), GlobalGet(fuel), I64Const(0),
			Op(0x53), If(Call(refuel))}, nil)
	}
	payBulk := bytes.Join([][]byte{LocalTee(0), GlobalGet(fuel), LocalGet(0), Op(0xad), I64Const(6), Op(0x88), Op(0x7d),
		GlobalSet(fuel), GlobalGet(fuel), I64Const(0), Op(0x53), If(Call(refuel))}, nil)
	fill := bytes.Join([][]byte{I32Const(0), I32Const(0), I32Const(9)}, nil)
	build := func(f func(*Module), code ...[]byte) []byte {
		m := &Module{}
		m.Import(meter.RefuelModule, meter.RefuelName, nil, nil)
		if f == nil {
			m.Global(I64, I64Const(0))
			m.Export(meter.FuelGlobal, 3, 0)
		} else {
			f(m)
		}
		m.Memory(1)
		m.Export("run", 0, m.Func(nil, nil, Types{I32}, code...))
		return m.Bytes()
	}
	for name, c := range map[string]struct {
		wasm []byte
		ok   bool
	}{
		"paid":              {build(nil, pay(1), Loop(pay(1)), fill, payBulk, MemoryFill()), true},
		"no entry":          {build(nil, Loop(pay(1))), false},
		"no loop":           {build(nil, pay(1), Loop()), false},
		"late in the loop":  {build(nil, pay(1), Loop(Op(0x01), pay(1))), false},
		"no bulk":           {build(nil, pay(1), fill, MemoryFill()), false},
		"bulk too early":    {build(nil, pay(1), fill, payBulk, Op(0x01), MemoryFill()), false},
		"paid nothing":      {build(nil, pay(0)), false},
		"paid negative":     {build(nil, pay(-1)), false},
		"paid too little":   {build(nil, pay(1), bytes.Repeat(Op(0x01), 4096)), false},
		"writes fuel":       {build(nil, pay(1), I64Const(1<<60), GlobalSet(fuel)), false},
		"reads fuel":        {build(nil, pay(1), GlobalGet(fuel), Op(0x1a)), false},
		"jumps over":        {build(nil, Br(0), pay(1)), false},
		"no export":         {build(func(m *Module) { m.Global(I64, I64Const(0)) }, pay(1)), false},
		"starts with some":  {build(func(m *Module) { m.Export(meter.FuelGlobal, 3, m.Global(I64, I64Const(9))) }, pay(1)), false},
		"exports a counter": {build(func(m *Module) { m.Global(I64, I64Const(0)); m.Export(meter.FuelGlobal, 3, m.Global(I64, I64Const(0))) }, pay(1)), false},
	} {
		facts, err := meter.Check(c.wasm)
		if err != nil || (facts.Unmetered == "") != c.ok {
			t.Errorf("%s: %q %v", name, facts.Unmetered, err)
		}
	}
}

// A metered module with any one byte changed is either refused or still stops: found by running it.
func TestAnyByteChangedStillStops(t *testing.T) {
	m := newMachine(t)
	module := &Module{}
	module.Memory(1)
	module.Export("run", 0, module.Func(nil, Types{I32}, Types{I32},
		Loop(I32Const(0), I32Const(1), I32Const(64), MemoryFill(), LocalGet(0), I32Const(1), Op(0x6a), LocalTee(0), I32Const(50), Op(0x48), BrIf(0)),
		I32Const(3)))
	metered, err := meter.Meter(module.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	ran := 0
	for at := range metered {
		for _, flip := range []byte{0x01, 0x02, 0x40, 0x80, 0xff, 0x0f} {
			changed := bytes.Clone(metered)
			changed[at] ^= flip
			facts, err := meter.Check(changed)
			if err != nil || facts.Unmetered != "" {
				continue
			}
			compiled, err := m.runtime.CompileModule(ctx, changed)
			if err != nil {
				continue
			}
			mod, err := m.runtime.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName(""))
			if err == nil {
				m.budget, m.slice, m.granted = 100_000, 1000, 0
				if f := mod.ExportedFunction("run"); f != nil && len(f.Definition().ParamTypes()) == 0 {
					f.Call(ctx) // returning is what is tested
					ran++
				}
				mod.Close(ctx)
			}
			compiled.Close(ctx)
		}
	}
	if ran < 20 {
		t.Fatalf("only %d changed modules ran", ran)
	}
}

func TestSealReplacesWhatIsOffTheList(t *testing.T) {
	ctx := context.Background()
	m := &Module{}
	i4 := Types{I32, I32, I32, I32}
	sizes := m.Import(meter.WASI, "environ_sizes_get", Types{I32, I32}, Types{I32})
	write := m.Import(meter.WASI, "fd_write", i4, Types{I32})
	read := m.Import(meter.WASI, "fd_read", i4, Types{I32})
	open := m.Import(meter.WASI, "path_open", Types{I32, I32, I32, I32, I32, I64, I64, I32, I32}, Types{I32})
	m.Memory(1)
	own := m.Func(nil, Types{I32}, nil, I32Const(1000))
	zeros := bytes.Repeat(I32Const(0), 4)
	m.Table(1, own)
	run := m.Func(nil, Types{I32}, nil,
		I32Const(8), I32Const(12), Call(sizes),
		zeros, Call(read), I32Const(10), Op(0x6c, 0x6a), // fd_read * 10
		bytes.Repeat(I32Const(0), 5), I64Const(0), I64Const(0), I32Const(0), I32Const(0), Call(open), I32Const(100), Op(0x6c, 0x6a),
		I32Const(0), Op(0x11), U32(m.Type(nil, Types{I32})), Op(0), I32Const(10), Op(0x6c, 0x6a),
		I32Const(8), Op(0x28, 2, 0, 0x6a)) // what environ_sizes_get wrote, which is 0
	m.Export("run", 0, run)
	m.Export("write", 0, write)
	m.Data(8, []byte{9, 9, 9, 9})
	m.Data(600, []byte{7})
	m.Data(20, []byte{1})

	sealed, names, err := meter.Seal(m.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(names, " "); got != "environ_sizes_get fd_read path_open" {
		t.Error(got)
	}
	facts, err := meter.Check(sealed)
	if err != nil || len(facts.Imports) != 1 || facts.Imports[0].Name != "fd_write" {
		t.Fatalf("%+v %v", facts, err)
	}
	r := wazero.NewRuntime(ctx)
	defer r.Close(ctx)
	_, err = r.NewHostModuleBuilder(meter.WASI).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(func(context.Context, api.Module, []uint64) {}), i4, Types{I32}).
		Export("fd_write").Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	mod, err := r.Instantiate(ctx, sealed)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := mod.Memory().ReadByte(600); b != 7 {
		t.Errorf("data at 600 is %d", b)
	}
	got, err := mod.ExportedFunction("run").Call(ctx)
	if want := uint64(8*10 + 52*100 + 1000*10); err != nil || got[0] != want {
		t.Errorf("%v %v, want %d", got, err, want)
	}
}

func TestSealRefusesWhatItCannotReplace(t *testing.T) {
	for name, add := range map[string]func(*Module){
		"other module": func(m *Module) { m.Import("env", "system", Types{I32}, Types{I32}) },
		"no result":    func(m *Module) { m.Import(meter.WASI, "proc_raise", Types{I32}, nil) },
		"a memory":     func(m *Module) { m.ImportRaw("env", "memory", 2, []byte{0, 1}) },
		"a global":     func(m *Module) { m.ImportRaw("env", "g", 3, []byte{I32, 0}) },
	} {
		m := &Module{}
		add(m)
		if _, _, err := meter.Seal(m.Bytes()); !errors.Is(err, meter.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// REC-02: a sealed module has no way to a socket, file, argument or environment variable, though the Go packages it is
// built from link them.
func TestSealedGuestImportsOnlyTheList(t *testing.T) {
	guest := guestbuild.TestGuest(t)
	facts, err := meter.Check(guest.Wasm)
	if err != nil || facts.Unmetered != "" {
		t.Fatal(err, facts.Unmetered)
	}
	for _, im := range facts.Imports {
		if !meter.Listed(im.Module, im.Name, im.Params, im.Results) {
			t.Errorf("%s.%s", im.Module, im.Name)
		}
	}
	for _, a := range meter.Allowed {
		for _, word := range []string{"sock", "path", "args", "environ", "read", "open"} {
			if strings.Contains(a.Name, word) {
				t.Errorf("the allowlist has %s", a.Name)
			}
		}
	}
	if !strings.Contains(fmt.Sprint(guest.Names), "path_open") {
		t.Errorf("nothing to seal: %v", guest.Names)
	}
}

func TestCheckRefusesOtherFeatures(t *testing.T) {
	body := func(code ...byte) []byte {
		m := &Module{}
		m.Memory(1)
		m.Func(nil, nil, nil, code)
		return m.Bytes()
	}
	locals := &Module{}
	locals.FuncRaw(nil, nil, append(append([]byte{1}, U32(4_000_000_000)...), I32, 0x0b))
	table := &Module{}
	table.Table(1 << 30)
	shared := append((&Module{}).Bytes(), 5, 4, 1, 3, 1, 1)
	for name, wasm := range map[string][]byte{
		"empty":                  nil,
		"component":              []byte("\x00asm\x0d\x00\x01\x00"),
		"vector":                 body(0xfd, 0x0c),
		"atomic":                 body(0xfe, 0x03, 0x00),
		"tail call":              body(0x12, 0x00),
		"reference":              body(0xd2, 0x00, 0x1a),
		"table.grow":             body(0xfc, 15, 0),
		"exception":              body(0x06, 0x40, 0x0b),
		"cut block":              body(0x02, 0x40),
		"two ends":               body(0x0b),
		"four thousand million":  locals.Bytes(),
		"giant table":            table.Bytes(),
		"shared memory":          shared,
		"section twice":          append((&Module{}).Bytes(), 1, 1, 0, 1, 1, 0),
		"section cut":            append((&Module{}).Bytes(), 1, 200, 1),
		"vector over the file":   append((&Module{}).Bytes(), 1, 5, 0xff, 0xff, 0xff, 0xff, 0x0f),
		"function without body":  append((&Module{}).Bytes(), 1, 4, 1, 0x60, 0, 0, 3, 2, 1, 0),
		"number of too many bit": append((&Module{}).Bytes(), 1, 0xff, 0xff, 0xff, 0xff, 0x7f),
	} {
		if _, err := meter.Check(wasm); !errors.Is(err, meter.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzCheck(f *testing.F) {
	m := &Module{}
	m.Memory(1)
	m.Data(8, []byte("x"))
	m.Table(1, m.Func(nil, Types{I32}, Types{I64}, Loop(I32Const(1), BrIf(0)), I32Const(3)))
	f.Add(m.Bytes())
	f.Fuzz(func(t *testing.T, wasm []byte) {
		if _, err := meter.Check(wasm); err != nil {
			return
		}
		metered, err := meter.Meter(wasm)
		if err != nil {
			return
		}
		if facts, err := meter.Check(metered); err != nil || facts.Unmetered != "" {
			t.Fatalf("%v %s", err, facts.Unmetered)
		}
	})
}
