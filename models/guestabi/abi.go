// Package guestabi is the message format between the host and a guest module (docs/guest-abi.md): one JSON header in
// forge-cjson/1, then raw frames, each led by its length. Host and guest share this file, so it imports nothing but canon.
package guestabi

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/forge-continuity/forge/models/canon"
)

// Version is the ABI number in every header and the answer of the export forge_abi.
const Version = 1

// Limits in bytes, both directions (design, The sandbox).
const (
	MaxInput  = 16 << 20
	MaxOutput = 16 << 20
	maxHeader = 1 << 20
)

// Names of the module's exports.
const (
	ExportABI   = "forge_abi"
	ExportAlloc = "forge_alloc"
	ExportCall  = "forge_call"
)

// Request is what the host sends. Frames are named in order by the header.
type Request struct {
	ABI      int64     `json:"abi"`
	Function string    `json:"function"`
	Frames   []string  `json:"frames"`
	Params   canon.Raw `json:"params"`
}

// Response is what a guest answers: a result or a refusal, never both.
type Response struct {
	ABI     int64     `json:"abi"`
	Frames  []string  `json:"frames"`
	Refusal *Refusal  `json:"refusal,omitzero"`
	Result  canon.Raw `json:"result,omitzero"`
}

// Refusal is a guest's "no": a code of the refusal table and facts about it, never content of a run.
type Refusal struct {
	Code    string    `json:"code"`
	Details canon.Raw `json:"details,omitzero"`
}

// ErrMalformed reports bytes that are not a message.
var ErrMalformed = errors.New("malformed guest message")

// Encode writes header and frames as one message: u32 header length, header, then u32 length and bytes for each frame,
// lengths big-endian.
func Encode(header any, frames [][]byte) ([]byte, error) {
	head, err := canon.Marshal(header)
	if err != nil {
		return nil, err
	}
	size := 4 + len(head)
	for _, f := range frames {
		size += 4 + len(f)
	}
	out := make([]byte, 0, size)
	out = binary.BigEndian.AppendUint32(out, uint32(len(head)))
	out = append(out, head...)
	for _, f := range frames {
		out = binary.BigEndian.AppendUint32(out, uint32(len(f)))
		out = append(out, f...)
	}
	return out, nil
}

// Decode splits a message, reads its header into header and returns its frames, which alias data.
func Decode(data []byte, header any) ([][]byte, error) {
	head, rest, err := take(data)
	if err != nil {
		return nil, err
	}
	if len(head) > maxHeader {
		return nil, fmt.Errorf("%w: header of %d bytes", ErrMalformed, len(head))
	}
	if err := canon.Unmarshal(head, header); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	var frames [][]byte
	for len(rest) > 0 {
		var f []byte
		if f, rest, err = take(rest); err != nil {
			return nil, err
		}
		frames = append(frames, f)
	}
	return frames, nil
}

func take(data []byte) (frame, rest []byte, err error) {
	if len(data) < 4 {
		return nil, nil, fmt.Errorf("%w: cut inside a length", ErrMalformed)
	}
	n := uint64(binary.BigEndian.Uint32(data))
	if n > uint64(len(data)-4) {
		return nil, nil, fmt.Errorf("%w: frame of %d bytes in %d", ErrMalformed, n, len(data)-4)
	}
	return data[4 : 4+n], data[4+n:], nil
}
