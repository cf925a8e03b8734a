package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// observe gives the sandbox the consumed turn whose evidence result was lost, with the retained outcomes of that very turn, and
// keeps what it derives for the commit. It runs no reader.
func (t sealedTurn) observe(ctx context.Context) (*models.Reconstruction, []Blob, error) {
	if !t.state.Closed() {
		return nil, nil, nil // the rows alone say why
	}
	turn, g := t.state.Custody.Turn, t.state.Registration
	catalogue, digest := t.sandbox.Catalogue()
	rec := &models.Reconstruction{Catalogue: digest, Checkpoint: turn.Checkpoint, Module: t.sandbox.Module(), Response: turn.Response, Tokens: turn.Tokens}
	hold := func(code models.Code, details ...models.Detail) {
		rec.Holds = append(rec.Holds, models.SandboxHold{Code: code, Details: models.Refuse(code, details...).Details})
	}
	frames := []Frame{{"catalogue", catalogue}}
	read := func(name string, named models.Digest) error {
		data, err := t.blob(named)
		switch {
		case errors.Is(err, ErrNotFound) || err == nil && models.SaltedBlob(t.salt, data) != named:
			hold(models.CodeObservationCustodyIncomplete, models.D("lacks", name))
		case err != nil:
			return err
		}
		frames = append(frames, Frame{name, data})
		return nil
	}
	if err := read("checkpoint", turn.Checkpoint); err != nil {
		return rec, nil, err
	}
	if err := read("response", turn.Response); err != nil {
		return rec, nil, err
	}
	for _, r := range retained(t.state) {
		if err := read(fmt.Sprintf("outcome_%d", r.Position), r.Result); err != nil {
			return rec, nil, err
		}
		rec.Outcomes = append(rec.Outcomes, r)
	}
	if len(rec.Holds) > 0 {
		return rec, nil, nil
	}
	named := []models.Digest{turn.Checkpoint, turn.Response}
	for _, o := range rec.Outcomes {
		named = append(named, o.Result)
	}
	key := recallKey("observe", t.sandbox, t.salt, named, []any{turn, g})
	if kept, ok := t.before.get(key); ok {
		return kept, nil, nil
	}
	sealed, err := t.sandbox.Call(ctx, "observe", frames, struct {
		Acknowledgement string         `json:"acknowledgement"`
		ConsumedAt      models.Instant `json:"consumed_at_us"`
		Mode            string         `json:"mode"`
		Reader          models.Digest  `json:"reader"`
		Runtime         models.Digest  `json:"runtime"`
		Selection       string         `json:"selection"`
		Validator       models.Digest  `json:"validator"`
	}{g.Acknowledgement, turn.ConsumedAt, g.Mode, g.Reader, g.Runtime, g.Selection, g.Validator})
	if r := said(t.screener, err); r != nil {
		hold(r.Code, r.Details...)
		return rec, nil, nil
	}
	if err != nil {
		return rec, nil, err
	}
	if err := t.fill(rec, sealed); err != nil {
		return rec, nil, err
	}
	if len(rec.Holds) > 0 || len(sealed.Frame("derived")) == 0 {
		t.before.put(key, rec)
		return rec, nil, nil
	}
	var blobs []Blob
	put := func(data []byte) models.Digest {
		b := Blob{Digest: models.SaltedBlob(t.salt, data), Data: data}
		blobs = append(blobs, b)
		return b.Digest
	}
	rec.Derived, rec.Witness = put(sealed.Frame("derived")), put(sealed.Frame("witness"))
	rec.Proof = put(canon.MustMarshal(observationProof{Calls: rec.Calls, Catalogue: rec.Catalogue, Checkpoint: rec.Checkpoint, Closing: rec.Closing,
		ConsumedAt: turn.ConsumedAt, ConsumeSeq: turn.ConsumeSeq, Module: rec.Module, Outcomes: rec.Outcomes, Reader: g.Reader,
		Response: rec.Response, Turn: turn.Calls}))
	t.before.put(key, rec)
	return rec, blobs, nil
}

// observationProof is the document whose digest a candidate of a lost observation names: digests only, with the rows of each call.
type observationProof struct {
	Calls      []models.SeenCall      `json:"calls"`
	Catalogue  models.Digest          `json:"catalogue"`
	Checkpoint models.Digest          `json:"checkpoint"`
	Closing    []models.ClosingResult `json:"closing"`
	ConsumedAt models.Instant         `json:"consumed_at"`
	ConsumeSeq int64                  `json:"consume_seq"`
	Module     models.Digest          `json:"module"`
	Outcomes   []models.Retained      `json:"outcomes"`
	Reader     models.Digest          `json:"reader"`
	Response   models.Digest          `json:"response"`
	Turn       any                    `json:"turn"`
}

// ObservationCandidate computes what a read-only observation recovery could queue again now. It saves nothing.
func (e *Engine) ObservationCandidate(ctx context.Context, caller Caller, run, requestID string) (models.RecoveryCandidate, error) {
	v, err := e.reviewing(ctx, caller, run)
	if err != nil {
		return models.RecoveryCandidate{}, err
	}
	c := models.RecoverReadonlyObservation{RequestID: requestID}
	built, err := e.prepare(ctx, caller.Factory, v, c, true)
	if err != nil {
		return models.RecoveryCandidate{}, err
	}
	env := e.env(caller, v.factory, v.state, c, v.now, v.lease, models.SavedNone)
	built.fill(&env)
	candidate, refusal := kernel.ObservationCandidate(v.state, requestID, env)
	if refusal != nil {
		return candidate, refusal
	}
	return candidate, nil
}
