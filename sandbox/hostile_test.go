package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/models/guestabi"
	. "github.com/forge-continuity/forge/sandbox/internal/wasmtest"
	"github.com/forge-continuity/forge/sandbox/meter"
)

// answer is a well-formed message for hand-made guests to return.
func answer(t testing.TB) []byte {
	b, err := guestabi.Encode(guestabi.Response{ABI: 1, Frames: []string{"out"}, Result: canon.Raw(`{}`)}, [][]byte{[]byte("made by hand")})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func metered(t testing.TB, m *Module) []byte {
	b, err := meter.Meter(m.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func joined(code ...[]byte) []byte { return bytes.Join(code, nil) }

// forever is a loop without end.
func forever() []byte { return joined(Loop(Br(0)), Op(0x00)) }

func TestHandMadeGuest(t *testing.T) {
	h := open(t, metered(t, Guest{Data: answer(t)}.Build(&Module{})), Config{})
	r, err := h.Call(t.Context(), "anything", nil, nil)
	if err != nil || string(r.Frames[0].Bytes) != "made by hand" {
		t.Fatalf("%+v %v", r, err)
	}
	// Two entries, forge_alloc and forge_call: nothing else is charged.
	if r.FuelUsed != 2 {
		t.Errorf("%d units", r.FuelUsed)
	}
}

// Modules that New must not take, each with its typed reason. None of their code runs first: those that would never end
// do so only where New runs them under its own limits (REC-02 for the imports).
func TestModulesRefused(t *testing.T) {
	data := answer(t)
	imported := func(module, name string, params, results Types) []byte {
		m := &Module{}
		m.Import(module, name, params, results)
		return metered(t, Guest{Data: data}.Build(m))
	}
	raw := func(kind byte, desc ...byte) []byte {
		m := &Module{}
		m.ImportRaw("env", "x", kind, desc)
		return metered(t, Guest{Data: data}.Build(m))
	}
	i32s := func(n int) Types { return bytes.Repeat(Types{I32}, n) }
	start := Guest{Data: data}.Build(&Module{})
	start.Start(start.Func(nil, nil, nil, forever()))
	far := Guest{Data: data}.Build(&Module{})
	far.Data(0x7fff_0000, []byte("beyond memory"))
	huge := Guest{Data: data}.Build(&Module{})
	huge.Data(0, make([]byte, 2<<20))
	without := func(name string) []byte {
		b := metered(t, Guest{Data: data}.Build(&Module{}))
		return bytes.Replace(b, []byte(name), []byte("x"+name[1:]), 1)
	}
	badType := &Module{}
	badType.Memory(1)
	for _, e := range []string{"_initialize", "forge_abi", "forge_alloc", "forge_call"} {
		badType.Export(e, 0, badType.Func(nil, nil, nil))
	}
	invalid := Guest{Data: data, Call: Op(0x6a)}.Build(&Module{})
	for name, c := range map[string]struct {
		wasm []byte
		want ModuleReason
	}{
		"not wasm":          {[]byte("#!/bin/sh\n"), ModuleMalformed},
		"sock_open":         {imported(meter.WASI, "sock_open", i32s(3), i32s(1)), ModuleImport},
		"sock_send":         {imported(meter.WASI, "sock_send", i32s(5), i32s(1)), ModuleImport},
		"sock_accept":       {imported(meter.WASI, "sock_accept", i32s(3), i32s(1)), ModuleImport},
		"path_open":         {imported(meter.WASI, "path_open", append(i32s(5), I64, I64, I32, I32), i32s(1)), ModuleImport},
		"fd_read":           {imported(meter.WASI, "fd_read", i32s(4), i32s(1)), ModuleImport},
		"environ_get":       {imported(meter.WASI, "environ_get", i32s(2), i32s(1)), ModuleImport},
		"args_get":          {imported(meter.WASI, "args_get", i32s(2), i32s(1)), ModuleImport},
		"other type":        {imported(meter.WASI, "random_get", i32s(3), i32s(1)), ModuleImport},
		"other module":      {imported("wasi_snapshot_preview2", "random_get", i32s(2), i32s(1)), ModuleImport},
		"forge.other":       {imported("forge", "send", nil, nil), ModuleImport},
		"memory import":     {raw(2, 0, 1), ModuleImport},
		"global import":     {raw(3, I64, 1), ModuleImport},
		"table import":      {raw(1, 0x70, 0, 1), ModuleImport},
		"no _initialize":    {without("_initialize"), ModuleExport},
		"no forge_abi":      {without("forge_abi"), ModuleExport},
		"no forge_alloc":    {without("forge_alloc"), ModuleExport},
		"no forge_call":     {without("forge_call"), ModuleExport},
		"no memory":         {without("memory"), ModuleMemory},
		"other types":       {metered(t, badType), ModuleExport},
		"memory at start":   {metered(t, Guest{Data: data, Pages: MaxMemory/pageBytes + 1}.Build(&Module{})), ModuleMemory},
		"all memory":        {metered(t, Guest{Data: data, Pages: 65536}.Build(&Module{})), ModuleMemory},
		"start function":    {start.Bytes(), ModuleStart},
		"not metered":       {Guest{Data: data}.Build(&Module{}).Bytes(), ModuleNotMetered},
		"type error":        {metered(t, invalid), ModuleCompile},
		"data far away":     {metered(t, far), ModuleInitialize},
		"data too long":     {metered(t, huge), ModuleInitialize},
		"abi 2":             {metered(t, Guest{Data: data, ABI: I32Const(2)}.Build(&Module{})), ModuleABI},
		"abi without end":   {metered(t, Guest{Data: data, ABI: forever()}.Build(&Module{})), ModuleInitialize},
		"start without end": {metered(t, Guest{Data: data, Initialize: joined(Loop(Br(0)))}.Build(&Module{})), ModuleInitialize},
		"start traps":       {metered(t, Guest{Data: data, Initialize: Op(0x00)}.Build(&Module{})), ModuleInitialize},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := New(t.Context(), c.wasm, Config{})
			if h != nil || !errors.Is(err, &ModuleError{Reason: c.want}) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// Modules that load and then misbehave in a call. Each call is a typed refusal, every time the same, and a good module in
// the same process goes on serving, one after another and at once.
func TestHostileModulesAndTheServerGoesOn(t *testing.T) {
	data := answer(t)
	refuel := func(m *Module) uint32 { return m.Import(meter.RefuelModule, meter.RefuelName, nil, nil) }
	wasi := func(m *Module, name string) uint32 {
		for _, a := range meter.Allowed {
			if a.Name == name {
				return m.Import(a.Module, a.Name, a.Params, a.Results)
			}
		}
		t.Fatal(name)
		return 0
	}
	result := I64Const(DataAt<<32 | int64(len(data)))
	recursive := &Module{}
	recursive.Func(Types{I32}, Types{I32}, nil, LocalGet(0), I32Const(1), Op(0x6a), Call(0), I32Const(1), Op(0x6a))
	callsRefuel := &Module{}
	r := refuel(callsRefuel)
	noise := &Module{}
	fdWrite := wasi(noise, "fd_write")
	chance := &Module{}
	randomGet := wasi(chance, "random_get")
	sleeper := &Module{}
	poll := wasi(sleeper, "poll_oneoff")
	leaver := &Module{}
	exit := wasi(leaver, "proc_exit")
	outside := &Module{}
	outsideGet := wasi(outside, "random_get")
	clock := wasi(outside, "clock_time_get")
	outsidePoll := wasi(outside, "poll_oneoff")
	outsideWrite := wasi(outside, "fd_write")

	cases := map[string]struct {
		module *Module
		guest  Guest
		want   string
	}{
		"endless loop":       {nil, Guest{Call: forever()}, ReasonOutOfFuel},
		"endless alloc":      {nil, Guest{Alloc: forever()}, ReasonOutOfFuel},
		"refuel for ever":    {callsRefuel, Guest{Call: joined(Loop(Call(r), Br(0)), Op(0x00))}, ReasonOutOfFuel},
		"recursion":          {recursive, Guest{Call: joined(I32Const(1), Call(0), Op(0xad))}, ReasonStackOverflow},
		"memory fill":        {nil, Guest{Pages: 4096, Call: joined(Loop(I32Const(0), I32Const(1), I32Const(MaxMemory-1), MemoryFill(), Br(0)), Op(0x00))}, ReasonOutOfFuel},
		"grows, then traps":  {nil, Guest{Call: joined(Loop(I32Const(16), MemoryGrow(), I32Const(0), Op(0x4e), BrIf(0)), Op(0x00))}, ReasonMemory},
		"grows at once":      {nil, Guest{Call: joined(I32Const(60_000), MemoryGrow(), Op(0x1a, 0x00))}, ReasonMemory},
		"noise for ever":     {noise, Guest{Call: joined(Loop(I32Const(2), I32Const(0), I32Const(64), I32Const(0), Call(fdWrite), Op(0x1a), Br(0)), Op(0x00))}, ReasonOutOfFuel},
		"chance for ever":    {chance, Guest{Pages: 20, Call: joined(Loop(I32Const(0), I32Const(1<<20), Call(randomGet), Op(0x1a), Br(0)), Op(0x00))}, ReasonOutOfFuel},
		"sleeps for ever":    {sleeper, Guest{Call: joined(Loop(I32Const(0), I32Const(0), I32Const(1), I32Const(4096), Call(poll), Op(0x1a), Br(0)), Op(0x00))}, ReasonOutOfFuel},
		"exit 0":             {leaver, Guest{Call: joined(I32Const(0), Call(exit), Op(0x00))}, ReasonExit},
		"unreachable":        {nil, Guest{Call: Op(0x00)}, ReasonTrap},
		"divides by zero":    {nil, Guest{Call: joined(I64Const(1), I64Const(0), Op(0x7f))}, ReasonTrap},
		"reads outside":      {nil, Guest{Call: joined(I32Const(-1), Op(0x29, 3, 0))}, ReasonTrap},
		"giant output":       {nil, Guest{Call: I64Const(DataAt<<32 | guestabi.MaxOutput + 1)}, ReasonOutputTooLarge},
		"output outside":     {nil, Guest{Call: I64Const(0x7fff_ffff<<32 | 100)}, ReasonMalformedOutput},
		"output over end":    {nil, Guest{Call: I64Const(65_530<<32 | 100)}, ReasonMalformedOutput},
		"output wraps":       {nil, Guest{Call: I64Const(-1<<32 | 16)}, ReasonMalformedOutput},
		"no output":          {nil, Guest{Call: I64Const(0)}, ReasonMalformedOutput},
		"all ones":           {nil, Guest{Call: I64Const(-1)}, ReasonOutputTooLarge},
		"zeros":              {nil, Guest{Call: I64Const(32<<32 | 64)}, ReasonMalformedOutput},
		"echoes the input":   {nil, Guest{Call: joined(LocalGet(0), Op(0xad), I64Const(32), Op(0x86), LocalGet(1), Op(0xad, 0x84))}, ReasonMalformedOutput},
		"alloc at 0":         {nil, Guest{Alloc: I32Const(0)}, ReasonMalformedOutput},
		"alloc outside":      {nil, Guest{Alloc: I32Const(-8)}, ReasonMalformedOutput},
		"alloc over the end": {nil, Guest{Alloc: I32Const(65_535)}, ReasonMalformedOutput},
		"pointers outside": {outside, Guest{Call: joined(
			I32Const(-16), I32Const(32), Call(outsideGet), Op(0x1a),
			I32Const(-16), I32Const(1<<30), Call(outsideGet), Op(0x1a),
			I32Const(0), I64Const(0), I32Const(-1), Call(clock), Op(0x1a),
			I32Const(-9), I32Const(-9), I32Const(2), I32Const(-9), Call(outsidePoll), Op(0x1a),
			I32Const(0), I32Const(0), I32Const(-1), I32Const(-9), Call(outsidePoll), Op(0x1a),
			I32Const(1), I32Const(-9), I32Const(-1), I32Const(-9), Call(outsideWrite), Op(0x1a),
			I32Const(1), I32Const(-9), I32Const(3), I32Const(-9), Call(outsideWrite), Op(0x1a),
			I32Const(77), I32Const(0), I32Const(1), I32Const(0), Call(outsideWrite), Op(0x1a),
			result)}, "<nil>"},
	}
	g := good(t)
	serve := func(t *testing.T) {
		if r, err := g.Call(context.Background(), "echo", one("still here"), nil); err != nil || string(r.Frames[0].Bytes) != "still here" {
			t.Errorf("the good module: %v", err)
		}
	}
	var hosts sync.Map
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			module := c.module
			if module == nil {
				module = &Module{}
			}
			c.guest.Data = data
			fuel := int64(1_000_000)
			if c.want == ReasonStackOverflow {
				fuel *= 20 // wazero's stack holds some millions of small frames
			}
			h, err := New(t.Context(), metered(t, c.guest.Build(module)), Config{Fuel: fuel, Warm: 1})
			if err != nil {
				t.Fatal(err)
			}
			hosts.Store(name, h)
			for range 2 {
				if _, err := h.Call(t.Context(), "x", one("abc"), nil); reason(err) != c.want {
					t.Fatalf("%v, want %s", err, c.want)
				}
				serve(t)
			}
		})
	}
	t.Run("at once", func(t *testing.T) {
		var group sync.WaitGroup
		for name, c := range cases {
			h, ok := hosts.Load(name)
			if !ok {
				continue
			}
			group.Go(func() {
				if _, err := h.(*Host).Call(context.Background(), "x", one("abc"), nil); reason(err) != c.want {
					t.Errorf("%s: %v", name, err)
				}
			})
			group.Go(func() { serve(t) })
		}
		group.Wait()
	})
	hosts.Range(func(_, h any) bool {
		if err := h.(*Host).Close(context.Background()); err != nil {
			t.Error(err)
		}
		return true
	})
}

// Whatever bytes a guest answers, the host reads a result or finds it malformed.
func FuzzAnswer(f *testing.F) {
	f.Add(answer(f))
	f.Add([]byte{0, 0, 0, 2, '{', '}'})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, refusal := decode(b)
		if refusal == nil && len(r.ResultJSON) == 0 {
			t.Fatal("neither")
		}
	})
}

func Example() {
	fmt.Println(stopped(ReasonOutOfFuel))
	// Output: sandbox_stopped {"reason":"out_of_fuel"}
}
