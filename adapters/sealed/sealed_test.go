package sealed_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/forge-continuity/forge/adapters/sealed"
	"github.com/forge-continuity/forge/adapters/sealed/internal/native"
	"github.com/forge-continuity/forge/fixtures/recordings"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/sandbox"
	"github.com/forge-continuity/forge/sandbox/module"
	"github.com/forge-continuity/forge/server/engine"
)

var cache string

func TestMain(m *testing.M) {
	var err error
	if cache, err = os.MkdirTemp("", "forge-sealed-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(cache)
	os.Exit(code)
}

func open(t *testing.T) *sealed.Sandbox {
	t.Helper()
	s, err := sealed.Open(context.Background(), cache)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func describe(s engine.Sealed, err error) string {
	if err != nil {
		return "error " + err.Error()
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s", s.Result)
	for _, f := range s.Frames {
		fmt.Fprintf(&b, "\n%s %x", f.Name, f.Data)
	}
	return b.String()
}

// inputs are the calls that both sides must answer alike: every recorded checkpoint with its response, as it is and broken.
func inputs(t *testing.T) map[string]func(engine.Sandbox) (engine.Sealed, error) {
	t.Helper()
	out := map[string]func(engine.Sandbox) (engine.Sealed, error){}
	for _, version := range recordings.Versions {
		r, err := recordings.Held(version)
		if err != nil {
			t.Fatal(err)
		}
		reconstruct := func(turn recordings.Turn, checkpoint, response []byte) func(engine.Sandbox) (engine.Sealed, error) {
			return func(s engine.Sandbox) (engine.Sealed, error) {
				catalogue, _ := s.Catalogue()
				return s.Call(context.Background(), "reconstruct", []engine.Frame{{Name: "catalogue", Data: catalogue},
					{Name: "checkpoint", Data: checkpoint}, {Name: "response", Data: response}, {Name: "wire", Data: turn.Wire},
					{Name: "contract", Data: turn.Contract}}, turn.Params)
			}
		}
		inspect := func(checkpoint []byte) func(engine.Sandbox) (engine.Sealed, error) {
			return func(s engine.Sandbox) (engine.Sealed, error) {
				catalogue, _ := s.Catalogue()
				return s.Call(context.Background(), "inspect", []engine.Frame{{Name: "catalogue", Data: catalogue},
					{Name: "checkpoint", Data: checkpoint}}, map[string]any{})
			}
		}
		for n := 1; n <= 8; n++ {
			turn, err := r.Turn(int64(n))
			if err != nil {
				t.Fatal(err)
			}
			checkpoint, response := turn.Checkpoint, turn.Response
			name := fmt.Sprintf("%s-%d", version, n)
			out[name] = reconstruct(turn, checkpoint, response)
			out[name+"-inspect"] = inspect(checkpoint)
			out[name+"-cut-response"] = reconstruct(turn, checkpoint, response[:len(response)/2])
			out[name+"-cut-checkpoint"] = reconstruct(turn, checkpoint[:len(checkpoint)/2], response)
			spaced := append(bytes.Clone(checkpoint), ' ')
			out[name+"-spaced"] = inspect(spaced)
		}
	}
	out["no-such-function"] = func(s engine.Sandbox) (engine.Sealed, error) {
		return s.Call(context.Background(), "no_such", nil, map[string]any{})
	}
	return out
}

// The module answers what the same code answers natively, byte for byte, for whole records and for broken ones.
func TestNativeAgainstModule(t *testing.T) {
	s := open(t)
	n := native.Native{Digest: s.Module()}
	refusals, answers := 0, 0
	for name, call := range inputs(t) {
		got, want := describe(call(s)), describe(call(n))
		if got != want {
			t.Errorf("%s: the module answers\n%.300s\nnatively\n%.300s", name, got, want)
		}
		if bytes.HasPrefix([]byte(got), []byte("error")) {
			refusals++
		} else {
			answers++
		}
	}
	if answers < 10 || refusals < 10 {
		t.Errorf("%d answers and %d refusals were compared", answers, refusals)
	}
}

func TestIdentity(t *testing.T) {
	s := open(t)
	if s.Module() != models.Digest(module.Digest()) {
		t.Errorf("module %s, pinned %x", s.Module(), module.Digest())
	}
	data, digest := s.Catalogue()
	if models.PlainDigest(data) != digest {
		t.Error("the catalogue's digest is not that of its bytes")
	}
}

// A refusal of the guest has its details sorted by name; members that are no text stand as their JSON text.
func TestRefusal(t *testing.T) {
	r, err := sealed.Refusal("record_out_of_bounds", canon.Raw(`{"list":[1,2],"bound":7,"a":"text","yes":true}`))
	if err != nil || fmt.Sprint(r.Details) != "[{a text} {bound 7} {list [1,2]} {yes true}]" || r.Next == "" {
		t.Errorf("%v %v", r, err)
	}
	if _, err := sealed.Refusal("no_such_code", nil); err == nil {
		t.Error("an unknown code passed")
	}
	if _, err := sealed.Refusal("not_found", canon.Raw(`[]`)); err == nil {
		t.Error("details that are no object passed")
	}
}

// Errors of the machine say nothing about the bytes: they are busy or unavailable, and never a hold.
func TestErrorsOfTheMachine(t *testing.T) {
	wasm, err := module.Wasm()
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	call := inputs(t)["2.55.0-8"]
	slow, err := sealed.New(ctx, wasm, sandbox.Config{CacheDir: cache, Deadline: time.Microsecond, Warm: -1})
	if err == nil {
		_, err = call(slow)
		_ = slow.Close(ctx)
	}
	if !errors.Is(err, models.Refuse(models.CodeUnavailable)) && !errors.Is(err, sandbox.ErrWatchdog) {
		t.Errorf("a call over its time is %v", err)
	}
	s := open(t)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Call(cancelled, "inspect", nil, map[string]any{}); models.CodeOf(err) != "" && models.CodeOf(err) != models.CodeRequestMalformed {
		t.Errorf("a call of nobody is %v", err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := call(s); !errors.Is(err, models.Refuse(models.CodeUnavailable)) || !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("a call after Close is %v", err)
	}
}
