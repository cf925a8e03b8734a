package sandbox

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/models/guestabi"
	"github.com/forge-continuity/forge/sandbox/internal/guestbuild"
	"pgregory.net/rapid"
)

// cacheDir keeps compiled guests for the other tests of this process.
var cacheDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "forge-sandbox-test-")
	if err != nil {
		panic(err)
	}
	cacheDir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// open makes a host of the test guest, and good one that tests share when they need no limits of their own.
func open(t testing.TB, wasm []byte, config Config) *Host {
	t.Helper()
	if config.CacheDir == "" && !config.unmetered {
		config.CacheDir = cacheDir
	}
	h, err := New(t.Context(), wasm, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

var goodHost *Host

func good(t testing.TB) *Host {
	t.Helper()
	if goodHost == nil {
		h, err := New(context.Background(), guestbuild.TestGuest(t).Wasm, Config{Fuel: 50_000_000, Queue: 1000, CacheDir: cacheDir})
		if err != nil {
			t.Fatal(err)
		}
		goodHost = h
	}
	return goodHost
}

func one(content string) []Frame { return []Frame{{Name: "in", Bytes: []byte(content)}} }

func reason(err error) string {
	var r *Refusal
	if !errors.As(err, &r) {
		return fmt.Sprint(err)
	}
	var d struct {
		Reason string `json:"reason"`
	}
	json.Unmarshal(r.Details, &d)
	if r.Code == CodeStopped {
		return d.Reason
	}
	return r.Code
}

func TestCallAnswers(t *testing.T) {
	h := good(t)
	r, err := h.Call(t.Context(), "echo", []Frame{{"a", []byte("one")}, {"b", nil}, {"c", []byte{0, 1, 255}}}, map[string]int{"n": 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Frames) != 3 || string(r.ResultJSON) != "{}" || r.FuelUsed <= 0 {
		t.Fatalf("%+v", r)
	}
	c, ok := r.Frame("c")
	if !ok || !bytes.Equal(c.Bytes, []byte{0, 1, 255}) {
		t.Fatalf("%+v", c)
	}
	d := Frame{Bytes: []byte("abc")}.Digest()
	if got := hex.EncodeToString(d[:]); got != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Error(got)
	}
	if _, ok := r.Frame("d"); ok {
		t.Error("frame d")
	}
}

// Every way in which a guest written in Go can fail is a typed refusal, the same each time, without a word of what the
// guest said, and the next call is served (REC-05 for the part that is the host's: nothing leaves but the answer).
func TestFailuresInsideAreRefusals(t *testing.T) {
	h := good(t)
	for function, want := range map[string]string{
		"refuse":      "query_valid",
		"unheard of":  "request_malformed",
		"odd_code":    ReasonMalformedOutput,
		"panic":       ReasonTrap,
		"deadlock":    ReasonTrap,
		"spin":        ReasonOutOfFuel,
		"fill":        ReasonOutOfFuel,
		"grow":        ReasonMemory,
		"recurse":     ReasonMemory, // Go's stack lies in linear memory
		"exit":        ReasonExit,
		"giant":       ReasonOutputTooLarge,
		"bad_pointer": ReasonMalformedOutput,
		"bad_length":  ReasonOutputTooLarge,
		"no_header":   ReasonMalformedOutput,
		"wrong_abi":   ReasonMalformedOutput,
		"frame_count": ReasonMalformedOutput,
		"frame_twice": ReasonMalformedOutput,
		"neither":     ReasonMalformedOutput,
		"both":        ReasonMalformedOutput,
	} {
		t.Run(function, func(t *testing.T) {
			var first error
			for range 2 {
				r, err := h.Call(t.Context(), function, one("marker-in-a-frame"), map[string]string{"p": "marker-in-params"})
				if got := reason(err); got != want || len(r.Frames) > 0 {
					t.Fatalf("%v, want %s", err, want)
				}
				if strings.Contains(err.Error(), "marker") {
					t.Error(err)
				}
				if first != nil && err.Error() != first.Error() {
					t.Errorf("%v then %v", first, err)
				}
				first = err
			}
			if _, err := h.Call(t.Context(), "echo", one("x"), nil); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
	// These look like trouble and are not: sleeping only moves the guest's clock.
	for _, function := range []string{"sleep", "stderr"} {
		if _, err := h.Call(t.Context(), function, one("x"), nil); err != nil {
			t.Errorf("%s: %v", function, err)
		}
	}
}

func TestRefusalIsAnErrorByCode(t *testing.T) {
	_, err := good(t).Call(t.Context(), "refuse", nil, nil)
	var r *Refusal
	if !errors.As(err, &r) || r.Code != "query_valid" || string(r.Details) != `{"got":1}` || !errors.Is(err, &Refusal{Code: "query_valid"}) {
		t.Fatalf("%v", err)
	}
}

func TestInputLimit(t *testing.T) {
	h := good(t)
	in := []Frame{{Name: "in", Bytes: make([]byte, guestabi.MaxInput-200)}}
	if r, err := h.Call(t.Context(), "echo", in, nil); err != nil || len(r.Frames[0].Bytes) != len(in[0].Bytes) {
		t.Fatal(err)
	}
	in[0].Bytes = make([]byte, guestabi.MaxInput-20)
	if _, err := h.Call(t.Context(), "echo", in, nil); reason(err) != ReasonInputTooLarge {
		t.Error(err)
	}
	if _, err := h.Call(t.Context(), "echo", in, map[string]float64{"f": 1.5}); err == nil || errors.As(err, new(*Refusal)) {
		t.Error(err)
	}
}

func TestEndlessLoopStopsAtTheSameCount(t *testing.T) {
	h := open(t, guestbuild.TestGuest(t).Wasm, Config{Fuel: 300_000})
	for range 100 {
		if _, err := h.Call(t.Context(), "spin", nil, nil); reason(err) != ReasonOutOfFuel {
			t.Fatal(err)
		}
	}
	// The counter inside, where the guest left it, is the same each time too: exactly what fits is enough.
	r, err := good(t).Call(t.Context(), "sort", one(strings.Repeat("forge", 400)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		fuel int64
		want string
	}{{r.FuelUsed, "<nil>"}, {r.FuelUsed - 1, ReasonOutOfFuel}} {
		h.config.Fuel = c.fuel
		for range 20 {
			if _, err := h.Call(t.Context(), "sort", one(strings.Repeat("forge", 400)), nil); reason(err) != c.want {
				t.Fatalf("fuel %d: %v", c.fuel, err)
			}
		}
	}
}

// The guest of "world" looks at everything that could differ: chance, time, map order, arguments, environment, files,
// what an earlier call left.
func TestSameInputSameBytes(t *testing.T) {
	h := good(t)
	first, err := h.Call(t.Context(), "world", one("a"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		again, err := h.Call(t.Context(), "world", one("a"), nil)
		if err != nil || !bytes.Equal(again.Frames[0].Bytes, first.Frames[0].Bytes) || again.FuelUsed != first.FuelUsed {
			t.Fatalf("%v\n%s\n%s", err, again.Frames[0].Bytes, first.Frames[0].Bytes)
		}
	}
	other, err := h.Call(t.Context(), "world", one("b"), nil)
	if err != nil || bytes.Equal(other.Frames[0].Bytes[:32], first.Frames[0].Bytes[:32]) {
		t.Errorf("chance does not follow the input: %v", err)
	}
	if !bytes.HasSuffix(first.Frames[0].Bytes, []byte(" [] [] open /etc/passwd: Not implemented on wasip1 0 0")) {
		t.Errorf("%s", first.Frames[0].Bytes)
	}
}

const childVariable = "FORGE_SANDBOX_CHILD"

func TestSameInputSameBytesInAnotherProcess(t *testing.T) {
	frames := one(document(20_000))
	if os.Getenv(childVariable) != "" {
		for _, f := range []string{"world", "json"} {
			r, err := good(t).Call(t.Context(), f, frames, nil)
			if err != nil {
				t.Fatal(err)
			}
			d := r.Frames[0].Digest()
			fmt.Printf("answer %s %x %d\n", f, d, r.FuelUsed)
		}
		return
	}
	want := ""
	for _, f := range []string{"world", "json"} {
		r, err := good(t).Call(t.Context(), f, frames, nil)
		if err != nil {
			t.Fatal(err)
		}
		d := r.Frames[0].Digest()
		want += fmt.Sprintf("answer %s %x %d\n", f, d, r.FuelUsed)
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestSameInputSameBytesInAnotherProcess$")
	cmd.Env = append(os.Environ(), childVariable+"=1", "TZ=Asia/Tokyo", "GOMAXPROCS=1", "GOGC=10")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), want) {
		t.Fatalf("%v\n%s\nwant\n%s", err, out, want)
	}
}

// Metering changes nothing but the count: rapid draws inputs and functions for the same guest with and without.
func TestMeteringChangesNoAnswer(t *testing.T) {
	m := guestbuild.TestGuest(t)
	metered := good(t)
	bare := open(t, m.Sealed, Config{unmetered: true, Warm: -1})
	bare.digest = metered.digest // the seed of starting
	rapid.Check(t, func(t *rapid.T) {
		function := rapid.SampledFrom([]string{"echo", "sort", "json", "world", "refuse", "panic", "stderr"}).Draw(t, "function")
		frames := []Frame{
			{"a", rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(t, "bytes")},
			{"b", []byte(document(rapid.IntRange(2, 2000).Draw(t, "size")))},
		}
		if function == "json" && rapid.Bool().Draw(t, "good") {
			frames = frames[1:]
		}
		want, wantErr := bare.Call(context.Background(), function, frames, nil)
		got, gotErr := metered.Call(context.Background(), function, frames, nil)
		if reason(wantErr) != reason(gotErr) || len(want.Frames) != len(got.Frames) {
			t.Fatalf("%v, metered %v", wantErr, gotErr)
		}
		for i := range want.Frames {
			if want.Frames[i].Name != got.Frames[i].Name || !bytes.Equal(want.Frames[i].Bytes, got.Frames[i].Bytes) {
				t.Fatalf("%s\n%s", want.Frames[i].Bytes, got.Frames[i].Bytes)
			}
		}
	})
}

// document is JSON text of about size bytes, the shape of a message history.
func document(size int) string {
	var b strings.Builder
	b.WriteString("[")
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `{"content":"line %d of a tool's answer, with \"quotes\" and \u00e9","kind":"tool-return","n":%d,"parts":[true,null,{}]}`, i, i*7)
	}
	return b.String() + "]"
}

// The host can be stopped by its watchdog though wazero's code cannot be interrupted, also with more calls than
// processors, and the watchdog is an error of the machine, never a refusal.
func TestWatchdog(t *testing.T) {
	h := open(t, guestbuild.TestGuest(t).Wasm, Config{Fuel: 1 << 40, Deadline: 80 * time.Millisecond})
	var group sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		group.Go(func() {
			_, err := h.Call(t.Context(), "spin", nil, nil)
			if !errors.Is(err, ErrWatchdog) || errors.As(err, new(*Refusal)) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if _, err := h.Call(t.Context(), "echo", one("x"), nil); err != nil {
		t.Error(err)
	}
}

func TestCallerMayGiveUp(t *testing.T) {
	h := open(t, guestbuild.TestGuest(t).Wasm, Config{Fuel: 1 << 40})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := h.Call(ctx, "spin", nil, nil); !errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*Refusal)) {
		t.Fatal(err)
	}
}

// A running guest lets garbage collections through: without slices of fuel the first would wait until the guest is done.
func TestGuestDoesNotHoldUpTheServer(t *testing.T) {
	h := open(t, guestbuild.TestGuest(t).Wasm, Config{Fuel: 1 << 50, Deadline: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := h.Call(ctx, "spin", nil, nil)
		done <- err
	}()
	for range 5 {
		time.Sleep(5 * time.Millisecond) // the guest is on a processor
		runtime.GC()
	}
	select {
	case err := <-done:
		t.Fatalf("the guest ended before five collections did: %v", err)
	default:
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestQueueIsBounded(t *testing.T) {
	h := open(t, guestbuild.TestGuest(t).Wasm, Config{Fuel: 1 << 40, Deadline: time.Minute, Concurrency: 1, Queue: 2})
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 3)
	for range 3 {
		go func() {
			_, err := h.Call(ctx, "spin", nil, nil)
			errs <- err
		}()
	}
	for h.waiting.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	if _, err := h.Call(t.Context(), "echo", nil, nil); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	cancel()
	for range 3 {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if _, err := h.Call(t.Context(), "echo", nil, nil); err != nil {
		t.Error(err)
	}
}

func TestNeverMoreThanConcurrency(t *testing.T) {
	if got := (Config{Concurrency: 1000}).withDefaults().Concurrency; got != runtime.GOMAXPROCS(0) {
		t.Error(got)
	}
	if got := (Config{Queue: -1, Warm: -1}).withDefaults(); got.Queue != 0 || got.Warm != 0 {
		t.Errorf("%+v", got)
	}
}

func TestCloseWaitsAndThenRefuses(t *testing.T) {
	h, err := New(t.Context(), guestbuild.TestGuest(t).Wasm, Config{})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, err := h.Call(context.Background(), "json", one(document(50_000)), nil); err != nil && !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		})
	}
	time.Sleep(20 * time.Millisecond)
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	if _, err := h.Call(t.Context(), "echo", nil, nil); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestCompilationCache(t *testing.T) {
	dir := t.TempDir()
	wasm := guestbuild.TestGuest(t).Wasm
	var kept [2][]string
	for i := range kept {
		h, err := New(t.Context(), wasm, Config{CacheDir: dir, Warm: -1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Call(t.Context(), "echo", nil, nil); err != nil {
			t.Error(err)
		}
		h.Close(t.Context())
		filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				info, _ := d.Info()
				kept[i] = append(kept[i], fmt.Sprint(path, info.Size(), info.ModTime()))
			}
			return nil
		})
	}
	if len(kept[0]) == 0 || !slices.Equal(kept[0], kept[1]) {
		t.Errorf("first %v, then %v", kept[0], kept[1])
	}
}

func TestDiagnosticsAreBounded(t *testing.T) {
	var out bytes.Buffer
	h := open(t, guestbuild.TestGuest(t).Wasm, Config{Diagnostics: &out})
	if _, err := h.Call(t.Context(), "stderr", nil, nil); err != nil {
		t.Fatal(err)
	}
	if out.Len() != maxDiagnostics || !strings.HasPrefix(out.String(), "marker-on-stderr\n") {
		t.Errorf("%d bytes: %.60q", out.Len(), out.String())
	}
}

func TestResultsDoNotShareMemory(t *testing.T) {
	h := good(t)
	a, err := h.Call(t.Context(), "echo", one("first"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := h.Call(t.Context(), "echo", one("other"), nil); err != nil {
			t.Fatal(err)
		}
	}
	if string(a.Frames[0].Bytes) != "first" {
		t.Errorf("%s", a.Frames[0].Bytes)
	}
}

func TestParametersArriveCanonical(t *testing.T) {
	m, err := encode("f", nil, canon.Raw(`{"b":1,"a":[2]}`))
	if err != nil || !bytes.Contains(m, []byte(`"params":{"a":[2],"b":1}`)) {
		t.Fatalf("%s %v", m, err)
	}
}
