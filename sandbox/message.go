package sandbox

import (
	"fmt"
	"strings"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/models/guestabi"
)

// maxDetails bounds what a guest may put beside a code.
const maxDetails = 64 << 10

func encode(function string, frames []Frame, params any) ([]byte, error) {
	raw := canon.Raw(`{}`)
	if params != nil {
		var err error
		if raw, err = canon.Marshal(params); err != nil {
			return nil, fmt.Errorf("encode parameters of %s: %w", function, err)
		}
	}
	request := guestabi.Request{ABI: abiVersion, Function: function, Frames: make([]string, len(frames)), Params: raw}
	content := make([][]byte, len(frames))
	size := 0
	for i, f := range frames {
		request.Frames[i], content[i] = f.Name, f.Bytes
		size += len(f.Bytes)
	}
	if size > guestabi.MaxInput {
		return nil, stopped(ReasonInputTooLarge)
	}
	message, err := guestabi.Encode(request, content)
	if err != nil {
		return nil, fmt.Errorf("encode call of %s: %w", function, err)
	}
	return message, nil
}

// decode reads a guest's answer. Anything that is not exactly one result or one refusal, with as many frames as names
// and no name twice, is malformed_output; so is a refusal whose code the table does not have.
func decode(output []byte) (Result, *Refusal) {
	bad := stopped(ReasonMalformedOutput)
	var r guestabi.Response
	content, err := guestabi.Decode(output, &r)
	if err != nil || r.ABI != abiVersion || len(r.Frames) != len(content) {
		return Result{}, bad
	}
	if refusal := r.Refusal; refusal != nil {
		details := refusal.Details
		if details == nil {
			details = canon.Raw(`{}`)
		}
		if r.Result != nil || len(content) > 0 || !known(refusal.Code) || len(details) > maxDetails ||
			!strings.HasPrefix(string(details), "{") {
			return Result{}, bad
		}
		return Result{}, &Refusal{Code: refusal.Code, Details: details}
	}
	if !strings.HasPrefix(string(r.Result), "{") {
		return Result{}, bad
	}
	result := Result{ResultJSON: r.Result}
	seen := map[string]bool{}
	for i, name := range r.Frames {
		if name == "" || seen[name] {
			return Result{}, bad
		}
		seen[name] = true
		result.Frames = append(result.Frames, Frame{Name: name, Bytes: content[i]})
	}
	return result, nil
}

// stackOverflow recognises wazero's error for a call stack over its limit, which it does not export.
func stackOverflow(err error) bool { return strings.HasPrefix(err.Error(), "stack overflow") }

func known(code string) bool {
	_, ok := models.Lookup(models.Code(code))
	return ok
}
