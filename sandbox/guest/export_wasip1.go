package main

import (
	"unsafe"

	"github.com/forge-continuity/forge/adapters/agentic"
	"github.com/forge-continuity/forge/models/guestabi"
)

// input and output keep the two buffers that the host may touch alive. An instance serves one call.
var input, output []byte

// forgeABI returns the ABI number that this module speaks.
//
//go:wasmexport forge_abi
func forgeABI() int32 { return guestabi.Version }

// forgeAlloc returns where the host may write size bytes, or 0 if size is not 1 to guestabi.MaxInput.
//
//go:wasmexport forge_alloc
func forgeAlloc(size int32) int32 {
	if size < 1 || size > guestabi.MaxInput {
		return 0
	}
	input = make([]byte, size)
	return address(input)
}

// forgeCall answers the message that the host wrote at ptr, which must be what forgeAlloc returned, in its first size bytes.
// It returns the address of the answer in the upper and its length in the lower 32 bits, or 0 for other arguments.
//
//go:wasmexport forge_call
func forgeCall(ptr, size int32) int64 {
	if len(input) == 0 || ptr != address(input) || size < 1 || int(size) > len(input) {
		return 0
	}
	output = agentic.Call(input[:size])
	return int64(address(output))<<32 | int64(len(output))
}

func address(b []byte) int32 { return int32(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
