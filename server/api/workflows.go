package api

import "github.com/forge-continuity/forge/models/canon"

// postRequestV2 is the body of a version-2 request: that of version 1, and the acknowledgement of version 2.
type postRequestV2 struct {
	postRequest
	Observations canon.Raw `json:"acknowledge_unavailable_source_observations,omitzero"`
}
