package agentic

import (
	"errors"

	"github.com/forge-continuity/forge/adapters/pyjson"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/models/guestabi"
)

// Bounds of an encoded record (CRED-07). A recorded run of 50 rounds is about 200 KB with 10^4 values; the guest's 256 MiB
// hold a tree of 2^20 values several times.
const (
	MaxRecordBytes = 8 << 20
	MaxRecordDepth = 128
	MaxRecordNodes = 1 << 20
)

var recordLimits = pyjson.Limits{Bytes: MaxRecordBytes, Depth: MaxRecordDepth, Nodes: MaxRecordNodes}

// Inspection is the result of inspect.
type Inspection struct {
	HistoryMessages int64 `json:"history_messages"`
}

func callInspect(frames map[string][]byte, params canon.Raw) (*output, *guestabi.Refusal) {
	root, r := parseRecord(frames["checkpoint"])
	if r != nil {
		return nil, r
	}
	return &output{result: Inspection{HistoryMessages: int64(len(root.Get("history").Items))}}, nil
}

// parseRecord checks bounds and canonical form.
func parseRecord(data []byte) (*pyjson.Value, *guestabi.Refusal) {
	root, err := pyjson.ParseCanonical(data, recordLimits)
	var limit *pyjson.LimitError
	var syntax *pyjson.SyntaxError
	var form *pyjson.CanonicalError
	switch {
	case err == nil:
		return root, nil
	case errors.As(err, &limit):
		return nil, refusal("record_out_of_bounds", details{"limit": limit.Limit, "bound": limit.Bound})
	case errors.As(err, &syntax):
		return nil, refusal("checkpoint_not_canonical", details{"offset": syntax.Offset, "reason": syntax.Reason})
	case errors.As(err, &form):
		return nil, refusal("checkpoint_not_canonical", details{"offset": form.Offset, "reason": "not the canonical spelling"})
	}
	panic("agentic: unknown error of pyjson")
}
