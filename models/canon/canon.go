// Package canon is forge-cjson/1, the one JSON text form that Forge writes for its own rows, commands, receipts and
// candidates: RFC 8785 member order and strings, integers within int64 and nothing else that RFC 8785 would call a number.
//
// Foreign JSON (checkpoints, provider bodies) never passes through here; it is opaque or a pyjson tree.
package canon

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is the deepest nesting Decode accepts (design, Errors).
const MaxDepth = 128

// ErrNotCanonical reports text that parses but is not the canonical spelling of its value.
var ErrNotCanonical = errors.New("not canonical forge-cjson/1")

// ErrUnknownMember reports a member that the Go value has no place for.
var ErrUnknownMember = errors.New("unknown member")

// Marshal returns the canonical text of v. Struct fields without omitzero are always written, nil slices as [].
// It fails on floats, and on integers outside int64.
func Marshal(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("marshal %T: %w", v, err)
	}
	if spelled(raw) {
		return raw, nil
	}
	return canonicalize(raw)
}

// MustMarshal is Marshal for values made in this process, where failure is a broken program.
func MustMarshal(v any) []byte {
	b, err := Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// Canonicalize returns the canonical text of any strict JSON text: no duplicate members, valid UTF-8, integers only,
// depth up to MaxDepth.
func Canonicalize(raw []byte) ([]byte, error) {
	if spelled(raw) {
		return bytes.Clone(raw), nil
	}
	return canonicalize(raw)
}

// canonicalize is Canonicalize by the long way.
func canonicalize(raw []byte) ([]byte, error) {
	if err := check(raw); err != nil {
		return nil, err
	}
	val := jsontext.Value(bytes.Clone(raw))
	// Integers are already in their one spelling and may exceed 2^53, so they are kept as written.
	if err := val.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
		return nil, fmt.Errorf("canonicalize: %w", err)
	}
	return val, nil
}

// Unmarshal reads canonical text into v, strictly: unknown and duplicate members, floats and any other spelling of the
// same value are errors (ErrNotCanonical for the last).
func Unmarshal(data []byte, v any) error {
	if !spelled(data) {
		again, err := canonicalize(data)
		if err != nil {
			return err
		}
		if !bytes.Equal(again, data) {
			return ErrNotCanonical
		}
	}
	return unmarshal(data, v)
}

// Decode is Unmarshal for text that a person or client wrote: any spelling and member order is accepted, but unknown and
// duplicate members, NUL characters, non-integers and depth over MaxDepth are not.
func Decode(data []byte, v any) error {
	if !spelled(data) {
		if err := check(data); err != nil {
			return err
		}
	}
	return unmarshal(data, v)
}

func unmarshal(data []byte, v any) error {
	err := json.Unmarshal(data, v, json.RejectUnknownMembers(true))
	if errors.Is(err, json.ErrUnknownName) {
		return fmt.Errorf("unmarshal %T: %w: %w", v, ErrUnknownMember, err)
	}
	if err != nil {
		return fmt.Errorf("unmarshal %T: %w", v, err)
	}
	return nil
}

// check walks the text once and refuses what forge-cjson/1 has no spelling for.
func check(raw []byte) error {
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	for {
		tok, err := dec.ReadToken()
		if err != nil {
			return fmt.Errorf("read JSON: %w", err)
		}
		switch tok.Kind() {
		case '0':
			if err := checkInteger(tok.String()); err != nil {
				return err
			}
		case '"':
			if bytes.IndexByte([]byte(tok.String()), 0) >= 0 {
				return errors.New("NUL character in a string")
			}
		}
		depth := dec.StackDepth()
		if depth > MaxDepth {
			return fmt.Errorf("nested deeper than %d", MaxDepth)
		}
		if depth == 0 {
			break
		}
	}
	if rest := bytes.TrimLeft(raw[dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return errors.New("text after the JSON value")
	}
	return nil
}

// checkInteger accepts the one spelling of an int64: no fraction, exponent, leading zero (JSON forbids it) or -0.
func checkInteger(s string) error {
	if s == "-0" {
		return errors.New("-0 is not an integer of forge-cjson/1")
	}
	digits := s
	if digits[0] == '-' {
		digits = digits[1:]
	}
	const limit, negLimit = "9223372036854775807", "9223372036854775808"
	for i := 0; i < len(digits); i++ {
		if digits[i] < '0' || digits[i] > '9' {
			return fmt.Errorf("%s is not an integer", s)
		}
	}
	bound := limit
	if len(digits) < len(s) {
		bound = negLimit
	}
	if len(digits) > len(bound) || len(digits) == len(bound) && digits > bound {
		return fmt.Errorf("%s is outside int64", s)
	}
	return nil
}

// DecodeWhole is Decode, and every member of v must be there: what v writes again is what was read, up to spelling.
// Members tagged omitzero are the optional ones.
func DecodeWhole(data []byte, v any) error {
	if err := Decode(data, v); err != nil {
		return err
	}
	got, err := Marshal(v)
	if err != nil || bytes.Equal(got, data) {
		return err
	}
	want, err := Canonicalize(data)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return errors.New("a member is missing or spelled in another way than it is written")
	}
	return nil
}

// DecodeStored is DecodeWhole for text that Marshal wrote: what v writes again is this text to the byte, else
// ErrNotCanonical. It is the cheapest of the four, since that comparison stands for every other check.
func DecodeStored(data []byte, v any) error {
	if err := unmarshal(data, v); err != nil {
		return err
	}
	got, err := Marshal(v)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, data) {
		return ErrNotCanonical
	}
	return nil
}
