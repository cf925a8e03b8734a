package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// rebuilt is a reconstruction of one consumed turn: what Decide reads of it, and the blobs that an admission keeps.
type rebuilt struct {
	recount        models.Recount
	reconstruction *models.Reconstruction // nil where the rows hold no closure to reconstruct
	blobs          []Blob
}

// answered is the guest's result of the function reconstruct (docs/guest-abi.md).
type answered struct {
	Calls         []answeredCall         `json:"calls"`
	Closing       []models.ClosingResult `json:"closing"`
	FixedOutcomes int64                  `json:"fixed_outcomes"`
	History       int64                  `json:"history_messages"`
	Holds         []answeredHold         `json:"holds"`
	Served        int64                  `json:"served"`
	Usage         answeredUsage          `json:"usage"`
	Version       int64                  `json:"version"`
}

type answeredCall struct {
	Class     string `json:"class"`
	Position  int64  `json:"position"`
	ToolIndex int64  `json:"tool_index"`
}

type answeredHold struct {
	Code    models.Code `json:"code"`
	Details canon.Raw   `json:"details,omitzero"`
}

type answeredUsage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
}

// proof is the document whose digest a candidate names: what was read, by which identities, and what was found. It holds
// digests only, and is kept as a blob of the run.
type proof struct {
	Calls      []models.SeenCall      `json:"calls"`
	Catalogue  models.Digest          `json:"catalogue"`
	Checkpoint models.Digest          `json:"checkpoint"`
	Closing    []models.ClosingResult `json:"closing"`
	ConsumedAt models.Instant         `json:"consumed_at"`
	ConsumeSeq int64                  `json:"consume_seq"`
	Cuts       []models.Digest        `json:"cuts"`
	Epoch      models.Epoch           `json:"epoch"`
	Grants     []int64                `json:"grants"`
	Intents    []int64                `json:"intents,omitzero"`
	Module     models.Digest          `json:"module"`
	Outcomes   []models.Retained      `json:"outcomes,omitzero"`
	Reader     models.Digest          `json:"reader"`
	Refusals   []int64                `json:"refusals"`
	Response   models.Digest          `json:"response"`
	Runtime    models.Digest          `json:"runtime"`
	Validator  models.Digest          `json:"validator"`
	Version    int64                  `json:"version"`
}

// rebuild gives the sandbox the bytes that the state names. The result is a pure function of them: two nodes, or the same
// one a day later, get the same digests.
func (e *Engine) rebuild(ctx context.Context, factory string, v view) (rebuilt, error) {
	recount, err := e.recount(ctx, factory, v)
	if err != nil {
		return rebuilt{}, err
	}
	out := rebuilt{recount: recount}
	if !v.state.Closed() {
		return out, nil // the rows alone say why
	}
	t, g := v.state.Custody.Turn, v.state.Registration
	_, catalogue := e.sandbox.Catalogue()
	rec := &models.Reconstruction{Catalogue: catalogue, Checkpoint: t.Checkpoint, Module: e.sandbox.Module(), Response: t.Response, Tokens: t.Tokens}
	out.reconstruction = rec
	hold := func(code models.Code, details ...models.Detail) (rebuilt, error) {
		rec.Holds = append(rec.Holds, models.SandboxHold{Code: code, Details: models.Refuse(code, details...).Details})
		return out, nil
	}
	checkpoint, code, err := e.custody(ctx, factory, v, t.Checkpoint, models.CodeCheckpointDigestMismatch)
	if err != nil {
		return out, err
	}
	if code != "" {
		return hold(code, models.D("blob", "checkpoint"))
	}
	response, code, err := e.custody(ctx, factory, v, t.Response, models.CodeClosureIncomplete)
	if err != nil {
		return out, err
	}
	if code != "" {
		return hold(code, models.D("blob", "response"))
	}
	outcomes, code, err := e.outcomes(ctx, factory, v)
	if err != nil {
		return out, err
	}
	if code != "" {
		return hold(code, models.D("lacks", "outcome of this call"))
	}
	for _, o := range outcomes {
		rec.Outcomes = append(rec.Outcomes, o.Retained)
	}
	sealed, err := e.reconstruct(ctx, checkpoint, response, outcomes, t.ConsumedAt, g)
	if r, ok := IsRefusal(err); ok && r.Code != models.CodeBusy && r.Code != models.CodeUnavailable {
		if r.Code == models.CodeRequestMalformed { // of the host's own message, which no caller wrote
			return hold(models.CodeSandboxStopped, r.Details...)
		}
		return hold(r.Code, r.Details...)
	}
	if err != nil {
		return out, err
	}
	if err := fill(rec, v.run.Salt, sealed); err != nil {
		return out, err
	}
	if rec.Version == 0 || len(sealed.Frame("derived")) == 0 {
		return out, nil
	}
	p := proof{
		Calls: rec.Calls, Catalogue: catalogue, Checkpoint: t.Checkpoint, Closing: rec.Closing, ConsumedAt: t.ConsumedAt,
		ConsumeSeq: t.ConsumeSeq, Epoch: models.Epoch{Acknowledgement: g.Acknowledgement, Mode: g.Mode, Selection: g.Selection},
		Module: rec.Module, Reader: g.Reader, Response: t.Response, Runtime: g.Runtime, Validator: g.Validator, Version: rec.Version,
	}
	for _, c := range t.Calls {
		p.Cuts, p.Grants, p.Refusals = append(p.Cuts, c.Cut), append(p.Grants, c.GrantSeq), append(p.Refusals, c.RefusedSeq)
		if rec.Version == 2 {
			p.Intents, p.Outcomes = append(p.Intents, c.IntentSeq), rec.Outcomes
		}
	}
	put := func(data []byte) models.Digest {
		b := Blob{Digest: models.SaltedBlob(v.run.Salt, data), Data: data}
		out.blobs = append(out.blobs, b)
		return b.Digest
	}
	rec.Derived, rec.Witness = put(sealed.Frame("derived")), put(sealed.Frame("witness"))
	rec.Contract, rec.Proof = put(sealed.Frame("contract")), put(canon.MustMarshal(p))
	return out, nil
}

// reconstruct is the one sandbox call behind candidate, admission and verification.
func (e *Engine) reconstruct(ctx context.Context, checkpoint, response []byte, outcomes []keptOutcome, consumed models.Instant, g models.Registration) (Sealed, error) {
	catalogue, _ := e.sandbox.Catalogue()
	frames := []Frame{{"catalogue", catalogue}, {"checkpoint", checkpoint}, {"response", response}}
	for _, o := range outcomes {
		frames = append(frames, Frame{fmt.Sprintf("outcome_%d", o.Position), o.data})
	}
	return e.sandbox.Call(ctx, "reconstruct", frames,
		struct {
			Acknowledgement string         `json:"acknowledgement"`
			ConsumedAt      models.Instant `json:"consumed_at_us"`
			Mode            string         `json:"mode"`
			Reader          models.Digest  `json:"reader"`
			Runtime         models.Digest  `json:"runtime"`
			Selection       string         `json:"selection"`
			Validator       models.Digest  `json:"validator"`
		}{g.Acknowledgement, consumed, g.Mode, g.Reader, g.Runtime, g.Selection, g.Validator})
}

// keptOutcome is the retained result of one call, with its bytes.
type keptOutcome struct {
	models.Retained
	data []byte
}

// retained names the outcomes that the sandbox is given: those that the rows record as successful for source observations of
// this very turn, and nothing that looks like one (OBS-14, OBS-15).
func retained(s kernel.State) []models.Retained {
	var list []models.Retained
	for _, c := range s.Custody.Turn.Calls {
		if c.Class == models.ClassSourceObservation && c.OutcomeSeq > 0 && !c.Failed && !c.Result.IsZero() {
			list = append(list, models.Retained{Position: c.Position, Result: c.Result})
		}
	}
	return list
}

func (e *Engine) outcomes(ctx context.Context, factory string, v view) ([]keptOutcome, models.Code, error) {
	var list []keptOutcome
	for _, r := range retained(v.state) {
		data, code, err := e.custody(ctx, factory, v, r.Result, models.CodeObservationCustodyIncomplete)
		if code != "" {
			code = models.CodeObservationCustodyIncomplete
		}
		if err != nil || code != "" {
			return nil, code, err
		}
		list = append(list, keptOutcome{r, data})
	}
	return list, "", nil
}

// custody reads a blob and checks that its bytes still have the digest that the journal names; code tells what is wrong.
func (e *Engine) custody(ctx context.Context, factory string, v view, digest models.Digest, mismatch models.Code) ([]byte, models.Code, error) {
	data, err := e.store.Blob(ctx, factory, v.run.Run, digest)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, models.CodeClosureIncomplete, nil
	case err != nil:
		return nil, "", e.outcome(err)
	case models.SaltedBlob(v.run.Salt, data) != digest:
		return nil, mismatch, nil
	}
	return data, "", nil
}

// fill copies the guest's result, with salted digests in place of content.
func fill(rec *models.Reconstruction, salt [32]byte, sealed Sealed) error {
	var a answered
	if err := canon.Unmarshal(sealed.Result, &a); err != nil {
		return fmt.Errorf("result of reconstruct: %w", err)
	}
	rec.Served, rec.Version, rec.Closing = a.Served, a.Version, a.Closing
	for _, h := range a.Holds {
		details, err := detailsOf(h.Details)
		if err != nil {
			return fmt.Errorf("details of hold %s: %w", h.Code, err)
		}
		if _, known := models.Lookup(h.Code); !known {
			return fmt.Errorf("guest answered the unknown code %q", h.Code)
		}
		rec.Holds = append(rec.Holds, models.SandboxHold{Code: h.Code, Details: details})
	}
	for _, c := range a.Calls {
		id, args := fmt.Sprintf("call_%d_id", c.Position), fmt.Sprintf("call_%d_args", c.Position)
		rec.Calls = append(rec.Calls, models.SeenCall{
			Args: models.SaltedBlob(salt, sealed.Frame(args)), Class: c.Class, ID: models.SaltedBlob(salt, sealed.Frame(id)),
			Position: c.Position, Tool: c.ToolIndex,
		})
	}
	if len(a.Calls) > 0 {
		rec.Tokens = models.Tokens{Input: a.Usage.InputTokens, Output: a.Usage.OutputTokens}
	}
	return nil
}

// detailsOf reads a flat JSON object as details sorted by name: strings as they are, everything else as its JSON text.
func detailsOf(raw canon.Raw) ([]models.Detail, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var object map[string]canon.Raw
	if err := canon.Decode(raw, &object); err != nil {
		return nil, err
	}
	var details []models.Detail
	for name, value := range object {
		text := string(value)
		if value[0] == '"' {
			if err := canon.Decode(value, &text); err != nil {
				return nil, err
			}
		}
		details = append(details, models.Detail{Name: name, Value: text})
	}
	slices.SortFunc(details, func(a, b models.Detail) int { return strings.Compare(a.Name, b.Name) })
	return details, nil
}
