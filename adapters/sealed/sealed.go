// Package sealed joins the sandbox host, the module that this release embeds and the embedded catalogue into what the
// engine calls its sandbox. It holds no rules: it passes bytes in and out and turns the host's errors into the engine's.
package sealed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/forge-continuity/forge/adapters/agentic/catalogue"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/sandbox"
	"github.com/forge-continuity/forge/sandbox/module"
	"github.com/forge-continuity/forge/server/engine"
)

// Sandbox is one module on one host. It may be called from many goroutines.
type Sandbox struct{ host *sandbox.Host }

var _ engine.Sandbox = (*Sandbox)(nil)

// New runs the given metered module. The caller closes it.
func New(ctx context.Context, wasm []byte, config sandbox.Config) (*Sandbox, error) {
	host, err := sandbox.New(ctx, wasm, config)
	if err != nil {
		return nil, fmt.Errorf("open sandbox: %w", err)
	}
	return &Sandbox{host: host}, nil
}

// Close waits for running calls and frees the host.
func (s *Sandbox) Close(ctx context.Context) error { return s.host.Close(ctx) }

// Module is the SHA-256 of the module.
func (s *Sandbox) Module() models.Digest { return s.host.Digest() }

// Catalogue returns the embedded catalogue and its digest.
func (s *Sandbox) Catalogue() ([]byte, models.Digest) { return catalogue.Bytes(), catalogue.Digest() }

// Call runs one guest function. A "no" about these bytes is a *models.Refusal with the guest's or the host's code. A full
// queue is the refusal busy, a call over its wall-clock limit or after Close wraps unavailable: both say nothing about the
// bytes and may be tried again.
func (s *Sandbox) Call(ctx context.Context, function string, frames []engine.Frame, params any) (engine.Sealed, error) {
	in := make([]sandbox.Frame, len(frames))
	for i, f := range frames {
		in[i] = sandbox.Frame{Name: f.Name, Bytes: f.Data}
	}
	result, err := s.host.Call(ctx, function, in, params)
	if err != nil {
		return engine.Sealed{}, translate(function, err)
	}
	out := engine.Sealed{Result: result.ResultJSON}
	for _, f := range result.Frames {
		out.Frames = append(out.Frames, engine.Frame{Name: f.Name, Data: f.Bytes})
	}
	return out, nil
}

func translate(function string, err error) error {
	var refused *sandbox.Refusal
	switch {
	case errors.As(err, &refused):
		r, bad := Refusal(refused.Code, refused.Details)
		if bad != nil {
			return fmt.Errorf("refusal of %s: %w", function, bad)
		}
		return r
	case errors.Is(err, sandbox.ErrBusy):
		return models.Refuse(models.CodeBusy)
	case errors.Is(err, sandbox.ErrWatchdog), errors.Is(err, sandbox.ErrClosed):
		return fmt.Errorf("%w: %w", models.Refuse(models.CodeUnavailable), err)
	}
	return fmt.Errorf("call %s in the sandbox: %w", function, err)
}

// Refusal turns a guest's code and details object into a refusal of the table. Text members stand as they are, all others
// as their JSON text, sorted by name. The error reports a code that the table does not have, or details that are no object.
func Refusal(code string, details canon.Raw) (*models.Refusal, error) {
	if _, ok := models.Lookup(models.Code(code)); !ok {
		return nil, fmt.Errorf("unknown code %q", code)
	}
	members := map[string]canon.Raw{}
	if len(details) > 0 {
		if err := canon.Decode(details, &members); err != nil {
			return nil, fmt.Errorf("details of %s: %w", code, err)
		}
	}
	var list []models.Detail
	for name, value := range members {
		text := string(value)
		if strings.HasPrefix(text, `"`) {
			if err := canon.Decode(value, &text); err != nil {
				return nil, fmt.Errorf("detail %s of %s: %w", name, code, err)
			}
		}
		list = append(list, models.Detail{Name: name, Value: text})
	}
	slices.SortFunc(list, func(a, b models.Detail) int { return strings.Compare(a.Name, b.Name) })
	return models.Refuse(models.Code(code), list...), nil
}

// Open runs the module that this release embeds. cacheDir keeps its compiled machine code between processes: whoever can
// write there can run code in this process, so it must belong to the caller alone. Empty means no cache.
func Open(ctx context.Context, cacheDir string) (*Sandbox, error) {
	wasm, err := module.Wasm()
	if err != nil {
		return nil, fmt.Errorf("open sandbox: %w", err)
	}
	return New(ctx, wasm, sandbox.Config{CacheDir: cacheDir})
}
