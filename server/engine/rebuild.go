package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/kernel/custody"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// rebuilt is a reconstruction of one consumed turn: what Decide reads of it, and the blobs that an admission keeps.
type rebuilt struct {
	recount        models.Recount
	reconstruction *models.Reconstruction // nil where the rows hold no closure to reconstruct
	history        *models.TicketHistory  // for a recovery
	reproduction   *models.Reproduction   // of a refused request
	reports        []models.Report
	screening      *models.Screening
	blobs          []Blob
}

// answered is the guest's result of the function reconstruct (docs/guest-abi.md).
type answered struct {
	Calls         []answeredCall         `json:"calls"`
	Closing       []models.ClosingResult `json:"closing"`
	EntryPoint    models.Digest          `json:"entry_point,omitzero"`
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

// rebuild folds the rows again and gives the sandbox the bytes that the state names. With reads it is for somebody who only reads
// a candidate, and may answer what the sandbox answered before for the same bytes.
func (e *Engine) rebuild(ctx context.Context, factory string, v view, reads bool) (rebuilt, error) {
	recount, err := e.recount(ctx, factory, v)
	if err != nil {
		return rebuilt{}, err
	}
	out := rebuilt{recount: recount}
	if !v.state.Closed() {
		return out, nil // the rows alone say why
	}
	turn := e.sealed(ctx, factory, v, reads)
	if out.reconstruction, out.blobs, err = turn.rebuild(ctx); err != nil {
		return out, e.outcome(err)
	}
	out.screening, err = turn.screen(e.screener, out.reconstruction)
	return out, e.outcome(err)
}

// sealed is the turn that stands with its bytes in the store.
func (e *Engine) sealed(ctx context.Context, factory string, v view, reads bool) sealedTurn {
	t := sealedTurn{sandbox: e.sandbox, screener: e.screener, salt: v.run.Salt, state: v.state, blob: func(d models.Digest) ([]byte, error) {
		return e.store.Blob(ctx, factory, v.run.Run, d)
	}}
	if reads {
		t.before, t.found = e.turns, e.found
	}
	return t
}

// sealedTurn is a consumed turn with the bytes behind it: from a store for a candidate or an admission, from an export file
// for verification. blob answers ErrNotFound for bytes that are gone.
type sealedTurn struct {
	sandbox  Sandbox
	screener Screener // of what a hold says; an admission, which is what verification reconstructs, has none
	salt     [32]byte
	state    kernel.State
	blob     func(models.Digest) ([]byte, error)
	before   *recalled[models.Reconstruction] // nil where the sandbox is to be asked anew
	found    *recalled[models.Screening]      // likewise of the screening
}

// rebuild is a pure function of the turn's bytes, the module and the catalogue: two nodes, or the same one a day later, get
// the same digests, and verification gets those of the admission.
func (t sealedTurn) rebuild(ctx context.Context) (*models.Reconstruction, []Blob, error) {
	turn, g := t.state.Custody.Turn, t.state.Registration
	_, catalogue := t.sandbox.Catalogue()
	rec := &models.Reconstruction{Catalogue: catalogue, Checkpoint: turn.Checkpoint, Module: t.sandbox.Module(), Response: turn.Response, Tokens: turn.Tokens}
	hold := func(code models.Code, details ...models.Detail) (*models.Reconstruction, []Blob, error) {
		rec.Holds = append(rec.Holds, models.SandboxHold{Code: code, Details: models.Refuse(code, details...).Details})
		return rec, nil, nil
	}
	checkpoint, code, err := t.custody(turn.Checkpoint, models.CodeCheckpointDigestMismatch)
	if err != nil || code != "" {
		return held(hold, err, code, "checkpoint")
	}
	response, code, err := t.custody(turn.Response, models.CodeClosureIncomplete)
	if err != nil || code != "" {
		return held(hold, err, code, "response")
	}
	wire, code, err := t.custody(turn.WireBlob, models.CodeClosureIncomplete)
	if err != nil || code != "" {
		return held(hold, err, code, "wire")
	}
	contract, code, err := t.custody(g.Contract, models.CodeClosureIncomplete)
	if err != nil || code != "" {
		return held(hold, err, code, "contract")
	}
	if what := differs(turn, wire, response); what != "" {
		return hold(models.CodeClosureIncomplete, models.D("differs", what))
	}
	outcomes, code, err := t.outcomes()
	if err != nil {
		return rec, nil, err
	}
	if code != "" {
		return hold(code, models.D("lacks", "outcome of this call"))
	}
	for _, o := range outcomes {
		rec.Outcomes = append(rec.Outcomes, o.Retained)
	}
	frames := []models.Digest{turn.Checkpoint, turn.Response, turn.WireBlob, g.Contract}
	for _, o := range outcomes {
		frames = append(frames, o.Result)
	}
	// The proof has rows and registration in it beside the bytes, so both are part of the key.
	key := recallKey("reconstruct", t.sandbox, t.salt, frames, []any{turn, g, t.state.Budget.Spent})
	if kept, ok := t.before.get(key); ok {
		return kept, nil, nil
	}
	sealed, err := t.reconstruct(ctx, checkpoint, response, wire, contract, outcomes)
	if r := said(t.screener, err); r != nil {
		return hold(r.Code, r.Details...)
	}
	if err != nil {
		return rec, nil, err
	}
	if err := t.fill(rec, sealed); err != nil {
		return rec, nil, err
	}
	if rec.Version == 0 || len(rec.Holds) > 0 || len(sealed.Frame("derived")) == 0 {
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
	rec.Contract, rec.Proof = put(sealed.Frame("contract")), put(canon.MustMarshal(t.proof(rec)))
	t.before.put(key, rec)
	return rec, blobs, nil
}

// held answers what custody found, or its error.
func held(hold func(models.Code, ...models.Detail) (*models.Reconstruction, []Blob, error), err error, code models.Code, blob string) (*models.Reconstruction, []Blob, error) {
	if err != nil {
		return nil, nil, err
	}
	return hold(code, models.D("blob", blob))
}

// differs says what the rows state about the turn's bytes that the bytes do not bear out, or nothing (ELIG-02).
func differs(t custody.Turn, wire, response []byte) string {
	switch {
	case models.PlainDigest(wire) != t.Wire:
		return "wire digest"
	case int64(len(wire)) != t.WireLength:
		return "wire length"
	case int64(len(response)) != t.ResponseBytes:
		return "response length"
	}
	return ""
}

func (t sealedTurn) proof(rec *models.Reconstruction) proof {
	turn, g := t.state.Custody.Turn, t.state.Registration
	p := proof{
		Calls: rec.Calls, Catalogue: rec.Catalogue, Checkpoint: turn.Checkpoint, Closing: rec.Closing, ConsumedAt: turn.ConsumedAt,
		ConsumeSeq: turn.ConsumeSeq, Epoch: models.Epoch{Acknowledgement: g.Acknowledgement, Mode: g.Mode, Selection: g.Selection},
		Module: rec.Module, Reader: g.Reader, Response: turn.Response, Runtime: g.Runtime, Validator: g.Validator, Version: rec.Version,
	}
	for _, c := range turn.Calls {
		p.Cuts, p.Grants, p.Refusals = append(p.Cuts, c.Cut), append(p.Grants, c.GrantSeq), append(p.Refusals, c.RefusedSeq)
		if rec.Version == 2 {
			p.Intents, p.Outcomes = append(p.Intents, c.IntentSeq), rec.Outcomes
		}
	}
	return p
}

// before is what the run had spent when the turn's request was about to leave: what the checkpoint's own usage must say.
type before struct {
	CompletedRounds int64 `json:"completed_rounds"`
	InputTokens     int64 `json:"input_tokens"`
	OutputTokens    int64 `json:"output_tokens"`
	Requests        int64 `json:"requests"`
	ToolCalls       int64 `json:"tool_calls"` // at most: the SDK counts those that succeeded
}

// reconstruct is the one sandbox call behind candidate, admission and verification.
func (t sealedTurn) reconstruct(ctx context.Context, checkpoint, response, wire, contract []byte, outcomes []keptOutcome) (Sealed, error) {
	catalogue, _ := t.sandbox.Catalogue()
	frames := []Frame{{"catalogue", catalogue}, {"checkpoint", checkpoint}, {"response", response}, {"wire", wire}, {"contract", contract}}
	for _, o := range outcomes {
		frames = append(frames, Frame{fmt.Sprintf("outcome_%d", o.Position), o.data})
	}
	turn, g, spent := t.state.Custody.Turn, t.state.Registration, t.state.Budget.Spent
	return t.sandbox.Call(ctx, "reconstruct", frames,
		struct {
			Acknowledgement string         `json:"acknowledgement"`
			Before          before         `json:"before"`
			ConsumedAt      models.Instant `json:"consumed_at_us"`
			Limits          models.Limits  `json:"limits"`
			Mode            string         `json:"mode"`
			Reader          models.Digest  `json:"reader"`
			Runtime         models.Digest  `json:"runtime"`
			Selection       string         `json:"selection"`
			Validator       models.Digest  `json:"validator"`
		}{g.Acknowledgement, before{
			CompletedRounds: t.state.Rounds, InputTokens: spent.InputTokens - turn.Tokens.Input, OutputTokens: spent.OutputTokens - turn.Tokens.Output,
			Requests: turn.Request - 1, ToolCalls: spent.ToolCalls - int64(len(turn.Calls)),
		}, turn.ConsumedAt, g.Limits, g.Mode, g.Reader, g.Runtime, g.Selection, g.Validator})
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

func (t sealedTurn) outcomes() ([]keptOutcome, models.Code, error) {
	var list []keptOutcome
	for _, r := range retained(t.state) {
		data, code, err := t.custody(r.Result, models.CodeObservationCustodyIncomplete)
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
func (t sealedTurn) custody(digest models.Digest, mismatch models.Code) ([]byte, models.Code, error) {
	data, err := t.blob(digest)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, models.CodeClosureIncomplete, nil
	case err != nil:
		return nil, "", err
	case models.SaltedBlob(t.salt, data) != digest:
		return nil, mismatch, nil
	}
	return data, "", nil
}

// fill copies the guest's result, with salted digests in place of content.
func (t sealedTurn) fill(rec *models.Reconstruction, sealed Sealed) error {
	var a answered
	if err := canon.Unmarshal(sealed.Result, &a); err != nil {
		return fmt.Errorf("result of reconstruct: %w", err)
	}
	rec.Served, rec.Version, rec.Closing, rec.EntryPoint = a.Served, a.Version, a.Closing, a.EntryPoint
	for _, h := range a.Holds {
		details, err := detailsOf(h.Details)
		if err != nil {
			return fmt.Errorf("details of hold %s: %w", h.Code, err)
		}
		if _, known := models.Lookup(h.Code); !known {
			return fmt.Errorf("guest answered the unknown code %q", h.Code)
		}
		rec.Holds = append(rec.Holds, models.SandboxHold{Code: h.Code, Details: unsaid(t.screener, details)})
	}
	for _, c := range a.Calls {
		id, args := fmt.Sprintf("call_%d_id", c.Position), fmt.Sprintf("call_%d_args", c.Position)
		rec.Calls = append(rec.Calls, models.SeenCall{
			Args: models.SaltedBlob(t.salt, sealed.Frame(args)), Class: c.Class, ID: models.SaltedBlob(t.salt, sealed.Frame(id)),
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
