package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// screen looks for credentials in the text of the turn's checkpoint, exactly as it is stored. A record that structure or custody
// refuse is not screened (CRED-08): nothing is found in it. Without a screener the answer is nil.
func (t sealedTurn) screen(s Screener, rec *models.Reconstruction) (*models.Screening, error) {
	if s == nil || rec == nil {
		return nil, nil
	}
	out := &models.Screening{Blob: rec.Checkpoint, RuleSet: s.RuleSet()}
	if slices.ContainsFunc(rec.Holds, func(h models.SandboxHold) bool { return structural(h.Code) }) {
		return out, nil
	}
	set := out.RuleSet
	seen := models.Tagged(models.TagProof, []byte("screen"), set[:], out.Blob[:])
	if was, ok := t.found.get(seen); ok {
		return was, nil
	}
	text, code, err := t.custody(rec.Checkpoint, models.CodeCheckpointDigestMismatch)
	if err != nil || code != "" {
		return out, err
	}
	out.Found = s.Screen(text)
	t.found.put(seen, out)
	return out, nil
}

// structural reports whether a code says that a text is not the record that it should be.
func structural(c models.Code) bool {
	switch c {
	case models.CodeClosureIncomplete, models.CodeUnsupportedHistoryFormat, models.CodeRecordOutOfBounds, models.CodeCheckpointDigestMismatch,
		models.CodeCheckpointNotCanonical:
		return true
	}
	return false
}

// record is a kept checkpoint as a row names it.
type record struct {
	row  models.Row
	text []byte
	inspected
}

// inspected is the guest's result of the function inspect.
type inspected struct {
	DependencyEpoch string `json:"dependency_epoch"`
	HistoryMessages int64  `json:"history_messages"`
	SourceIdentity  string `json:"source_identity"`
	Usage           struct {
		InputTokens  int64 `json:"input_tokens"`
		OutputTokens int64 `json:"output_tokens"`
		Requests     int64 `json:"requests"`
		ToolCalls    int64 `json:"tool_calls"`
	} `json:"usage"`
	Versions struct {
		FireflyAgentic string `json:"firefly_agentic"`
		PydanticAI     string `json:"pydantic_ai"`
	} `json:"versions"`
}

// record reads a checkpoint in the order of CRED-06 and CRED-07: the journal is whole and its row names this digest, then the bytes
// are bounded, have their digest, are canonical, and their counters are in bounds. No row is not_found, like bytes that were erased.
func (e *Engine) record(ctx context.Context, factory string, v view, digest models.Digest) (record, error) {
	recount, err := e.recount(ctx, factory, v)
	if err != nil {
		return record{}, err
	}
	if r := kernel.JournalHold(v.state, recount); r != nil {
		return record{}, r
	}
	var out record
	var failed error
	for r := range e.scan(ctx, factory, v.run.Run, v.state.Head.Seq, &failed) {
		event, err := models.DecodeEvent(r.Kind, r.Payload)
		if err != nil {
			return out, models.Refuse(models.CodeJournalBroken, models.D("seq", r.Seq))
		}
		if names(event, digest) {
			if !slices.Contains(r.Blobs, digest) {
				return out, models.Refuse(models.CodeJournalBroken, models.D("seq", r.Seq), models.D("what", "the row does not name its blob"))
			}
			out.row = r
		}
	}
	if failed != nil {
		return out, failed
	}
	if out.row.Seq == 0 {
		return out, models.Refuse(models.CodeNotFound, models.D("digest", digest))
	}
	out.text, err = e.store.Blob(ctx, factory, v.run.Run, digest)
	switch {
	case err != nil:
		return out, e.outcome(err)
	case models.SaltedBlob(v.run.Salt, out.text) != digest:
		return out, models.Refuse(models.CodeCheckpointDigestMismatch, models.D("digest", digest))
	}
	catalogue, _ := e.sandbox.Catalogue()
	sealed, err := e.sandbox.Call(ctx, "inspect", []Frame{{"catalogue", catalogue}, {"checkpoint", out.text}}, struct{}{})
	if r := said(e.screener, err); r != nil {
		return out, r
	}
	if err != nil {
		return out, err
	}
	if err := canon.Unmarshal(sealed.Result, &out.inspected); err != nil {
		return out, fmt.Errorf("result of inspect: %w", err)
	}
	return out, nil
}

// names reports whether an event is about a checkpoint of that digest.
func names(e models.Event, digest models.Digest) bool {
	switch e := e.(type) {
	case models.CheckpointSaved:
		return e.Checkpoint == digest
	case models.MigrationSettled:
		return e.Derived == digest
	case models.ReadonlyObservationWitnessed:
		return e.Derived == digest
	}
	return false
}

// Auditors may read what was recorded, content included, and work on nothing.
var Auditors = []string{models.RoleReader, models.RoleOperator, models.RoleAdministrator}

// Inspect returns a kept checkpoint record of the run to an authenticated reader, as it is stored (spec, Credential inspection and
// ordinary restore). It writes nothing, claims nothing, and hands out nothing that could be resumed. The refusals are not_found,
// journal_broken, checkpoint_digest_mismatch, record_out_of_bounds, checkpoint_not_canonical, unsupported_history_format, the
// counters' codes, and last credential_found.
func (e *Engine) Inspect(ctx context.Context, caller Caller, run string, digest models.Digest) (models.Inspection, error) {
	out := models.Inspection{Run: run, Digest: digest, Checks: models.InspectionChecks}
	if _, err := e.Factory(ctx, caller, Auditors...); err != nil {
		return out, err
	}
	v, err := e.view(ctx, caller, run)
	if err != nil {
		return out, err
	}
	if e.screener == nil {
		return out, fmt.Errorf("%w: this node has no credential screening", models.Refuse(models.CodeUnavailable))
	}
	e.access(ctx, caller, run, "inspection")
	r, err := e.record(ctx, caller.Factory, v, digest)
	if err != nil {
		return out, err
	}
	found := models.Screening{Blob: digest, RuleSet: e.screener.RuleSet(), Found: e.screener.Screen(r.text)}
	if refusal := kernel.Credential(v.state, found); refusal != nil {
		return out, refusal
	}
	out.Waived, _ = kernel.Waived(v.state, found)
	out.Text, out.Seq, out.Kind, out.RuleSet, out.Fixture = string(r.text), r.row.Seq, r.row.Kind, found.RuleSet, v.factory.Fixture
	out.DependencyEpoch, out.SourceIdentity = r.DependencyEpoch, r.SourceIdentity
	out.FireflyAgentic, out.PydanticAI = r.Versions.FireflyAgentic, r.Versions.PydanticAI
	return out, nil
}

// waiving screens the record that a waiver names. Only what inspection accepts but for a credential can be waived.
func (e *Engine) waiving(ctx context.Context, factory string, v view, c models.WaiveCredential) (rebuilt, error) {
	if e.screener == nil {
		return rebuilt{}, fmt.Errorf("%w: this node has no credential screening", models.Refuse(models.CodeUnavailable))
	}
	recount := models.Recount{Head: v.state.Head}
	r, err := e.record(ctx, factory, v, c.Blob)
	if err != nil {
		return rebuilt{}, err
	}
	return rebuilt{recount: recount, screening: &models.Screening{Blob: c.Blob, RuleSet: e.screener.RuleSet(), Found: e.screener.Screen(r.text)}}, nil
}

// Restore decodes what an ordinary restore of this checkpoint would hand to a worker with the installed SDK, under its own rules
// and with the exact version (kernel.Restore). It reads and claims nothing else.
func (e *Engine) Restore(ctx context.Context, caller Caller, run string, digest models.Digest) (models.Restore, error) {
	out := models.Restore{Checkpoint: digest, Run: run}
	if _, err := e.Factory(ctx, caller, models.RoleOperator); err != nil {
		return out, err
	}
	v, err := e.view(ctx, caller, run)
	if err != nil {
		return out, err
	}
	if v.state.Registered.IsZero() {
		return out, models.Refuse(models.CodeNotFound)
	}
	e.access(ctx, caller, run, "restore")
	r, err := e.record(ctx, caller.Factory, v, digest)
	if refusal, ok := IsRefusal(err); ok && refusal.Code == models.CodeUnsupportedHistoryFormat {
		err = nil // a format that is not known is not the exact version either
	}
	if err != nil {
		return out, err
	}
	env := e.env(caller, v.factory, v.state, models.ClaimRun{}, v.now, v.lease, models.SavedNone)
	if refusal := kernel.Restore(v.state, digest, r.Versions.FireflyAgentic, r.Versions.PydanticAI, env); refusal != nil {
		return out, refusal
	}
	out.FireflyAgentic, out.PydanticAI, out.Seq = r.Versions.FireflyAgentic, r.Versions.PydanticAI, v.state.Head.Seq
	return out, nil
}
