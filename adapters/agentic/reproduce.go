package agentic

import (
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/models/guestabi"
)

// ReproduceResult is the result of reproduce. Length and SHA256 are those of the rendered request, 0 and absent with holds.
type ReproduceResult struct {
	Exact  bool   `json:"exact"` // whether the frame holds the bytes that were sent, or only their JSON value in canonical form
	Holds  []Hold `json:"holds"`
	Length int64  `json:"length"`
	Served int64  `json:"served"` // responses that were served: always 0
	SHA256 string `json:"sha256,omitzero"`
}

// Reproduce renders the request that a checkpoint record is pending on, as the SDK that wrote it sends it, against a sealed
// transport without a response: nothing is served, nothing leaves, no tool runs (REFUSED-26, REFUSED-27). The bytes are nil while
// there are holds.
func Reproduce(catalogue *Catalogue, checkpoint []byte) (ReproduceResult, []byte, *guestabi.Refusal) {
	var transport SealedTransport
	r := reconstruction{catalogue: catalogue, record: checkpoint, transport: &transport}
	r.out.Result.Holds = []Hold{}
	if r.form(); r.checkpoint != nil && r.wired(r.checkpoint) {
		if body := r.render(r.checkpoint, r.checkpoint.contract(), r.checkpoint.history()); body != nil {
			if refused := transport.Capture(body); refused != nil {
				return ReproduceResult{}, nil, refused
			}
		}
	}
	wire := transport.Captured()
	result := ReproduceResult{Holds: r.out.Result.Holds, Length: int64(len(wire)), Served: int64(transport.Served())}
	if wire != nil {
		result.Exact, result.SHA256 = readModel(r.checkpoint.contract()).exact(), sha256Hex(wire)
	}
	return result, wire, nil
}

// callReproduce is the guest's function.
func callReproduce(frames map[string][]byte, params canon.Raw) (*output, *guestabi.Refusal) {
	var none struct{}
	if err := canon.Unmarshal(params, &none); err != nil {
		return nil, malformed("params", "reproduce takes none")
	}
	catalogue, err := catalogueOf(frames["catalogue"])
	if err != nil {
		return nil, malformed("catalogue", "not a catalogue that this module can use")
	}
	result, wire, refused := Reproduce(catalogue, frames["checkpoint"])
	if refused != nil {
		return nil, refused
	}
	out := &output{result: result}
	if wire != nil {
		out.add("wire", wire)
	}
	return out, nil
}
