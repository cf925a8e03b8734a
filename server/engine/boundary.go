package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// PutReport keeps a report of the factory under its plain digest, for an administrator: evidence that a review pins.
func (e *Engine) PutReport(ctx context.Context, caller Caller, digest models.Digest, data []byte) error {
	if _, err := e.Factory(ctx, caller, models.RoleAdministrator); err != nil {
		return err
	}
	if models.PlainDigest(data) != digest {
		return models.Refuse(models.CodeBlobMismatch, models.D("digest", digest))
	}
	if _, err := readReport(digest, data); err != nil {
		return models.Refuse(models.CodeRequestMalformed, models.D("member", "report"), models.D("takes", models.ReportFormat))
	}
	return e.outcome(e.store.PutBlob(ctx, caller.Factory, "", Blob{Digest: digest, Data: data}, models.MaxRunBytes))
}

// RegisterProfile makes a profile current, once the reports that it names are kept and say what it needs (rules O1, O2). Reports are
// kept by their digest and never change, so they are read before the transaction.
func (e *Engine) RegisterProfile(ctx context.Context, caller Caller, id string, p models.Profile) (Answer, error) {
	if _, err := e.Factory(ctx, caller, models.RoleAdministrator); err != nil {
		return Answer{}, err
	}
	c := models.RegisterProfile{Profile: p}
	// A command that was said before is answered as it was then, or is a conflict, whatever became of its reports.
	if _, err := e.store.Receipt(ctx, Key{Factory: caller.Factory, Space: SpaceFactory, ID: id}); err == nil {
		return e.DoFactory(ctx, caller, id, c)
	} else if !errors.Is(err, ErrNotFound) {
		return Answer{}, unavailable(err)
	}
	var failed error
	refusal := models.RefuseQualifications(p, func(d models.Digest) []byte {
		data, err := e.store.Blob(ctx, caller.Factory, "", d)
		if err != nil && !errors.Is(err, ErrNotFound) {
			failed = e.outcome(err)
		}
		return data
	})
	switch {
	case failed != nil:
		return Answer{}, failed
	case refusal != nil:
		return Answer{}, refusal
	}
	return e.DoFactory(ctx, caller, id, c)
}

// Report returns a kept report.
func (e *Engine) Report(ctx context.Context, caller Caller, digest models.Digest) ([]byte, error) {
	if _, err := e.Factory(ctx, caller, models.RoleReader, models.RoleOperator, models.RoleAdministrator); err != nil {
		return nil, err
	}
	data, err := e.store.Blob(ctx, caller.Factory, "", digest)
	return data, e.outcome(err)
}

// readReport reads what a report says of itself.
func readReport(digest models.Digest, data []byte) (models.Report, error) {
	var members map[string]canon.Raw
	r := models.Report{Digest: digest}
	if err := canon.Decode(data, &members); err != nil {
		return r, err
	}
	var format string
	for name, into := range map[string]any{"format": &format, "kind": &r.Kind, "provider_epoch": &r.ProviderEpoch, "at_us": &r.At,
		"executable_identity": &r.Executable, "source_revision": &r.SourceRevision} {
		text, ok := members[name]
		if !ok {
			return r, fmt.Errorf("no member %s", name)
		}
		if err := canon.Decode(text, into); err != nil {
			return r, fmt.Errorf("member %s: %w", name, err)
		}
	}
	if format != models.ReportFormat || !models.ValidLabel(r.Kind) || !models.ValidLabel(r.ProviderEpoch) || !models.ValidLabel(r.Executable) ||
		!models.ValidLabel(r.SourceRevision) {
		return r, errors.New("not a report")
	}
	return r, nil
}

// reports reads the kept ones among those named; what is not kept, or no report, is left out, and the kernel says so.
func (e *Engine) reports(ctx context.Context, factory string, digests ...models.Digest) ([]models.Report, error) {
	var list []models.Report
	for i, d := range digests {
		if d.IsZero() || containsDigest(digests[:i], d) {
			continue
		}
		data, err := e.store.Blob(ctx, factory, "", d)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, e.outcome(err)
		}
		if r, err := readReport(d, data); err == nil && models.PlainDigest(data) == d {
			list = append(list, r)
		}
	}
	return list, nil
}

func containsDigest(list []models.Digest, d models.Digest) bool {
	for _, x := range list {
		if x == d {
			return true
		}
	}
	return false
}

// reproduce renders the pending request again in the sandbox, from the bytes that the state names and without a response. It is a
// pure function of these bytes, the module and the catalogue; seen is as in sealedTurn.before.
func (t sealedTurn) reproduce(ctx context.Context, seen *recalled[models.Reproduction]) (*models.Reproduction, error) {
	catalogue, digest := t.sandbox.Catalogue()
	named := t.state.Custody.Turn.Checkpoint
	out := &models.Reproduction{Catalogue: digest, Checkpoint: named, Module: t.sandbox.Module()}
	hold := func(code models.Code, details ...models.Detail) (*models.Reproduction, error) {
		out.Holds = append(out.Holds, models.SandboxHold{Code: code, Details: models.Refuse(code, details...).Details})
		return out, nil
	}
	checkpoint, err := t.blob(named)
	switch {
	case errors.Is(err, ErrNotFound):
		return hold(models.CodePendingCheckpointDiffers, models.D("what", "its bytes are not kept"))
	case err != nil:
		return nil, err
	case models.SaltedBlob(t.salt, checkpoint) != named:
		return hold(models.CodePendingCheckpointDiffers, models.D("what", "its bytes have another digest"))
	}
	key := recallKey("reproduce", t.sandbox, t.salt, []models.Digest{named}, nil)
	if kept, ok := seen.get(key); ok {
		return kept, nil
	}
	sealed, err := t.sandbox.Call(ctx, "reproduce", []Frame{{"catalogue", catalogue}, {"checkpoint", checkpoint}}, struct{}{})
	if r := said(t.screener, err); r != nil {
		return hold(r.Code, r.Details...)
	}
	if err != nil {
		return nil, err
	}
	var a struct {
		Exact  bool           `json:"exact"`
		Holds  []answeredHold `json:"holds"`
		Length int64          `json:"length"`
		Served int64          `json:"served"`
		SHA256 models.Digest  `json:"sha256,omitzero"`
	}
	if err := canon.Unmarshal(sealed.Result, &a); err != nil {
		return nil, fmt.Errorf("result of reproduce: %w", err)
	}
	for _, h := range a.Holds {
		details, err := detailsOf(h.Details)
		if err != nil {
			return nil, fmt.Errorf("details of hold %s: %w", h.Code, err)
		}
		out.Holds = append(out.Holds, models.SandboxHold{Code: h.Code, Details: unsaid(t.screener, details)})
	}
	out.Served = a.Served
	if len(out.Holds) == 0 && !a.Exact { // a JSON value is no proof of the bytes that were refused (REFUSED-26)
		return hold(models.CodeSandboxStopped, models.D("reason", "only the JSON value of this wire is reproduced"))
	}
	if wire := sealed.Frame("wire"); wire != nil && len(out.Holds) == 0 {
		out.Wire, out.Length = models.PlainDigest(wire), int64(len(wire))
	}
	seen.put(key, out)
	return out, nil
}

// boundary is what a refused-boundary recovery is decided on beside recount and history.
func (e *Engine) boundary(ctx context.Context, factory string, v view, c models.RecoverRefusedBoundary, built *rebuilt, reads bool) error {
	var err error
	if built.reports, err = e.reports(ctx, factory, c.Review.SourceValidator, c.Review.ExecutableProbe, c.CorrectiveValidation); err != nil {
		return err
	}
	var seen *recalled[models.Reproduction]
	if reads {
		seen = e.requests
	}
	built.reproduction, err = e.sealed(ctx, factory, v, reads).reproduce(ctx, seen)
	return e.outcome(err)
}

// BoundaryCandidate computes what a refused-boundary recovery could queue again on this review. It saves nothing.
func (e *Engine) BoundaryCandidate(ctx context.Context, caller Caller, run, requestID string, review models.ReviewedProviderRejectionV1) (models.RecoveryCandidate, error) {
	v, err := e.reviewing(ctx, caller, run)
	if err != nil {
		return models.RecoveryCandidate{}, err
	}
	row, _, member := review.Row(v.run.Salt)
	if member != "" {
		return models.RecoveryCandidate{}, models.Refuse(models.CodeRequestMalformed, models.D("member", member))
	}
	if _, ok := v.state.Tickets.Find(requestID); !ok {
		return models.RecoveryCandidate{}, models.Refuse(models.CodeNotFound)
	}
	c := models.RecoverRefusedBoundary{RequestID: requestID, Review: row}
	built, err := e.prepare(ctx, caller.Factory, v, c, true)
	if err != nil {
		return models.RecoveryCandidate{}, err
	}
	env := e.env(caller, v.factory, v.state, c, v.now, v.lease, models.SavedNone)
	built.fill(&env)
	candidate, refusal := kernel.BoundaryCandidate(v.state, requestID, row, env)
	if refusal != nil {
		return candidate, refusal
	}
	return candidate, nil
}

// RecoverRefusedBoundary submits the one action of that workflow. The review's texts become a blob of the run, kept by the
// commit of the settlement that names it.
func (e *Engine) RecoverRefusedBoundary(ctx context.Context, caller Caller, run, id string, c models.RecoverRefusedBoundary,
	review models.ReviewedProviderRejectionV1) (Answer, error) {
	v, err := e.view(ctx, caller, run)
	if err != nil {
		return Answer{}, err
	}
	row, document, member := review.Row(v.run.Salt)
	if member != "" {
		return Answer{}, models.Refuse(models.CodeRequestMalformed, models.D("member", "review."+member))
	}
	c.Review = row
	return e.execute(ctx, caller, run, id, c, Blob{Digest: row.Document, Data: document})
}
