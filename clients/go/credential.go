package forge

import (
	"context"
	"net/http"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// Inspect reads a kept checkpoint record as it is stored, after journal, row, digest, bounds, form, counters and credentials were
// checked. Nothing in the answer can be resumed.
func (c *Client) Inspect(ctx context.Context, run string, checkpoint models.Digest) (models.Inspection, error) {
	return read[models.Inspection](ctx, c, runPath(run, "checkpoints", checkpoint.String(), "inspection"), nil)
}

// Restore reads what an ordinary restore of this checkpoint would start from, decoded with the exact version of the installed SDK.
// Only a claim takes it.
func (c *Client) Restore(ctx context.Context, run string, checkpoint models.Digest) (models.Restore, error) {
	return read[models.Restore](ctx, c, runPath(run, "checkpoints", checkpoint.String(), "restore"), nil)
}

// WaiveCredential lets one finding of one checkpoint pass, once, for an administrator who looked at it. command is the caller's own
// id, made and stored before this is sent.
func (c *Client) WaiveCredential(ctx context.Context, run, command string, w models.WaiveCredential) (Saved[models.AppendReceipt], error) {
	body, err := canon.Marshal(w)
	if err != nil {
		return Saved[models.AppendReceipt]{}, err
	}
	return save[models.AppendReceipt](ctx, c, call{method: http.MethodPut, path: runPath(run, "credential-waivers", command), body: body})
}
