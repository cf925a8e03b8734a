// Package native runs the guest's functions outside the sandbox, for differential tests: the same code, the same messages,
// no module. Nothing but tests may use it, because natively nothing seals the code off.
package native

import (
	"context"
	"fmt"

	"github.com/forge-continuity/forge/adapters/agentic"
	"github.com/forge-continuity/forge/adapters/agentic/catalogue"
	"github.com/forge-continuity/forge/adapters/sealed"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/models/guestabi"
	"github.com/forge-continuity/forge/server/engine"
)

// Native answers as the module with this digest would.
type Native struct{ Digest models.Digest }

var _ engine.Sandbox = Native{}

// Module is the digest that it was given.
func (n Native) Module() models.Digest { return n.Digest }

// Catalogue returns the embedded catalogue and its digest.
func (n Native) Catalogue() ([]byte, models.Digest) { return catalogue.Bytes(), catalogue.Digest() }

// Call encodes the message as the host does and gives it to the guest's code in this process.
func (n Native) Call(_ context.Context, function string, frames []engine.Frame, params any) (engine.Sealed, error) {
	raw, err := canon.Marshal(params)
	if err != nil {
		return engine.Sealed{}, err
	}
	request := guestabi.Request{ABI: guestabi.Version, Function: function, Frames: []string{}, Params: raw}
	var content [][]byte
	for _, f := range frames {
		request.Frames, content = append(request.Frames, f.Name), append(content, f.Data)
	}
	message, err := guestabi.Encode(request, content)
	if err != nil {
		return engine.Sealed{}, err
	}
	var response guestabi.Response
	content, err = guestabi.Decode(agentic.Call(message), &response)
	if err != nil {
		return engine.Sealed{}, fmt.Errorf("answer of %s: %w", function, err)
	}
	if response.Refusal != nil {
		r, err := sealed.Refusal(response.Refusal.Code, response.Refusal.Details)
		if err != nil {
			return engine.Sealed{}, err
		}
		return engine.Sealed{}, r
	}
	out := engine.Sealed{Result: response.Result}
	for i, name := range response.Frames {
		out.Frames = append(out.Frames, engine.Frame{Name: name, Data: content[i]})
	}
	return out, nil
}
