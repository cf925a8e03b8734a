package engine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/forge-continuity/forge/kernel"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// ExportFormat is the first line's format of an export file.
const ExportFormat = "forge-export/1"

// maxLine bounds one line of an export file: a blob of 16 MiB in base64, and room for its members.
const maxLine = 24 << 20

// Bundle is one run with everything that checking it offline needs: the factory's journal, its own, receipts, blobs, and the
// reports of the factory that its recoveries rest on. The guest modules that its admissions used are named by digest in its rows.
type Bundle struct {
	Factory     string
	Run         string
	Salt        [32]byte
	FactoryRows []models.Row
	Rows        []models.Row
	Receipts    []Receipt
	Blobs       []Blob
	Reports     []Blob // under their plain digests

	kind int // of the last line read
}

// An export file is JSON lines in forge-cjson/1: one header, then factory rows, rows, receipts, blobs and reports, each kind
// in order (docs/FORMATS.md, Export).
type exportHeader struct {
	Factory string `json:"factory"`
	Format  string `json:"format"`
	Run     string `json:"run"`
	Salt    string `json:"salt"`
}

type exportLine struct {
	Blob    *exportBlob    `json:"blob,omitzero"`
	Factory *ExportRow     `json:"factory_row,omitzero"`
	Receipt *exportReceipt `json:"receipt,omitzero"`
	Report  *exportBlob    `json:"report,omitzero"`
	Row     *ExportRow     `json:"row,omitzero"`
}

type exportBlob struct {
	Data   string        `json:"data"`
	Digest models.Digest `json:"digest"`
}

type exportReceipt struct {
	Actor  string        `json:"actor"`
	Body   canon.Raw     `json:"body"`
	Digest models.Digest `json:"digest"`
	ID     string        `json:"id"`
	Space  string        `json:"space"`
}

// ExportRow is a row as export files and the API write it. Payload, command and env are the stored canonical text, which
// a JSON reader that keeps it canonical gives back byte for byte.
type ExportRow struct {
	Actor       string          `json:"actor"`
	At          models.Instant  `json:"at"`
	Blobs       []models.Digest `json:"blobs"`
	Cmd         int64           `json:"cmd"`
	Command     canon.Raw       `json:"command,omitzero"`
	CommandID   string          `json:"command_id,omitzero"`
	CommandName string          `json:"command_name,omitzero"`
	Env         canon.Raw       `json:"env,omitzero"`
	Factory     string          `json:"factory"`
	Format      int64           `json:"format"`
	Hash        models.Digest   `json:"hash"`
	I           int64           `json:"i"`
	Kind        string          `json:"kind"`
	N           int64           `json:"n"`
	Payload     canon.Raw       `json:"payload"`
	Prev        models.Digest   `json:"prev"`
	Rules       int64           `json:"rules"`
	Run         string          `json:"run"`
	Seq         int64           `json:"seq"`
}

// RowToExport and RowFromExport turn rows into their readable form and back.
func RowToExport(r models.Row) ExportRow {
	return ExportRow{Actor: r.Actor, At: r.At, Blobs: r.Blobs, Cmd: r.Cmd, Command: r.Command, CommandID: r.CommandID,
		CommandName: r.CommandName, Env: r.Env, Factory: r.Factory, Format: r.Format, Hash: r.Hash, I: r.I, Kind: r.Kind, N: r.N,
		Payload: r.Payload, Prev: r.Prev, Rules: r.Rules, Run: r.Run, Seq: r.Seq}
}

// RowFromExport is the other direction.
func RowFromExport(x ExportRow) models.Row {
	r := models.Row{Actor: x.Actor, At: x.At, Cmd: x.Cmd, Command: x.Command, CommandID: x.CommandID, CommandName: x.CommandName,
		Env: x.Env, Factory: x.Factory, Format: x.Format, Hash: x.Hash, I: x.I, Kind: x.Kind, N: x.N, Payload: x.Payload,
		Prev: x.Prev, Rules: x.Rules, Run: x.Run, Seq: x.Seq}
	if len(x.Blobs) > 0 {
		r.Blobs = x.Blobs
	}
	return r
}

// Export returns what writes a run's export file for a reader of its factory: the run as it stands at the call, read from the
// store piece by piece, so that a long run takes no more memory than its largest blob.
func (e *Engine) Export(ctx context.Context, caller Caller, run string) (func(io.Writer) error, error) {
	v, err := e.view(ctx, caller, run)
	if err != nil {
		return nil, err
	}
	if r := may(v.factory, caller.Principal, models.RoleReader, models.RoleOperator, models.RoleAdministrator); r != nil {
		return nil, r
	}
	e.access(ctx, caller, run, "export")
	return func(w io.Writer) error { return e.write(ctx, v, w) }, nil
}

func (e *Engine) write(ctx context.Context, v view, w io.Writer) error {
	out := newExportWriter(w, exportHeader{Factory: v.factory.Factory, Format: ExportFormat, Run: v.run.Run, Salt: hex.EncodeToString(v.run.Salt[:])})
	if err := e.stream(ctx, out, v); err != nil {
		return fmt.Errorf("export run %s: %w", v.run.Run, err)
	}
	return out.flush()
}

// stream writes rows, then the receipts of their commands, then the blobs that they name, each once. An erased blob is left
// out: verification says so.
func (e *Engine) stream(ctx context.Context, out *exportWriter, v view) error {
	factory, run := v.factory.Factory, v.run.Run
	var failed error
	for r := range e.scan(ctx, factory, "", v.factory.Seq, &failed) {
		out.row(r)
	}
	var keys []Key
	var blobs, reports []models.Digest
	have := map[models.Digest]bool{}
	for r := range e.scan(ctx, factory, run, v.state.Head.Seq, &failed) {
		out.row(r)
		for _, d := range r.Blobs {
			if !have[d] {
				have[d] = true
				blobs = append(blobs, d)
			}
		}
		if r.I == 0 {
			c, err := models.DecodeCommand(r.CommandName, r.Command)
			if err != nil {
				return fmt.Errorf("row %d: %w", r.Seq, err)
			}
			keys = append(keys, key(Caller{factory, r.Actor}, run, r.CommandID, c))
			env, err := models.OpenEnv(r.Env)
			if err != nil {
				return fmt.Errorf("row %d: %w", r.Seq, err)
			}
			for _, report := range env.Reports {
				if !have[report.Digest] {
					have[report.Digest] = true
					reports = append(reports, report.Digest)
				}
			}
		}
	}
	if failed != nil {
		return failed
	}
	for _, k := range keys {
		receipt, err := e.store.Receipt(ctx, k)
		if errors.Is(err, ErrNotFound) && k.Space == SpaceServer { // written before the server had a space of its own
			k.Space = SpaceCommand
			receipt, err = e.store.Receipt(ctx, k)
		}
		if err != nil {
			return e.outcome(err)
		}
		out.receipt(receipt)
	}
	for _, list := range []struct {
		run     string
		digests []models.Digest
		put     func(Blob)
	}{{run, blobs, out.blob}, {"", reports, out.report}} {
		for _, d := range list.digests {
			data, err := e.store.Blob(ctx, factory, list.run, d)
			if errors.Is(err, ErrNotFound) {
				continue
			}
			if err != nil {
				return e.outcome(err)
			}
			list.put(Blob{Digest: d, Data: data})
		}
	}
	return nil
}

// exportWriter writes the lines of an export file; the first error stays and ends the writing.
type exportWriter struct {
	out *bufio.Writer
	err error
}

func newExportWriter(w io.Writer, h exportHeader) *exportWriter {
	out := &exportWriter{out: bufio.NewWriter(w)}
	out.line(h)
	return out
}

func (w *exportWriter) line(v any) {
	if w.err != nil {
		return
	}
	var text []byte
	if text, w.err = canon.Marshal(v); w.err == nil {
		_, w.err = w.out.Write(append(text, '\n'))
	}
}

func (w *exportWriter) row(r models.Row) {
	x := RowToExport(r)
	if r.Run == "" {
		w.line(exportLine{Factory: &x})
		return
	}
	w.line(exportLine{Row: &x})
}

func (w *exportWriter) receipt(r Receipt) {
	w.line(exportLine{Receipt: &exportReceipt{Actor: r.Actor, Body: r.Body, Digest: r.Digest, ID: r.Key.ID, Space: r.Key.Space}})
}

func (w *exportWriter) blob(b Blob) {
	w.line(exportLine{Blob: &exportBlob{Data: base64.StdEncoding.EncodeToString(b.Data), Digest: b.Digest}})
}

func (w *exportWriter) report(b Blob) {
	w.line(exportLine{Report: &exportBlob{Data: base64.StdEncoding.EncodeToString(b.Data), Digest: b.Digest}})
}

func (w *exportWriter) flush() error {
	if w.err != nil {
		return w.err
	}
	return w.out.Flush()
}

// WriteBundle writes an export file that is in memory; Export streams one from a store.
func WriteBundle(w io.Writer, b Bundle) error {
	out := newExportWriter(w, exportHeader{Factory: b.Factory, Format: ExportFormat, Run: b.Run, Salt: hex.EncodeToString(b.Salt[:])})
	for _, r := range slices.Concat(b.FactoryRows, b.Rows) {
		out.row(r)
	}
	for _, r := range b.Receipts {
		out.receipt(r)
	}
	for _, blob := range b.Blobs {
		out.blob(blob)
	}
	for _, report := range b.Reports {
		out.report(report)
	}
	return out.flush()
}

// ReadBundle reads an export file. Bytes that are not one are an error with the line's number.
func ReadBundle(r io.Reader) (Bundle, error) {
	var b Bundle
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 64<<10), maxLine)
	n := 0
	for in.Scan() {
		n++
		if err := b.line(n, in.Bytes()); err != nil {
			return b, fmt.Errorf("export line %d: %w", n, err)
		}
	}
	if err := in.Err(); err != nil {
		return b, fmt.Errorf("export line %d: %w", n+1, err)
	}
	if n == 0 {
		return b, errors.New("export: empty file")
	}
	return b, nil
}

func (b *Bundle) line(n int, text []byte) error {
	if n == 1 {
		var h exportHeader
		if err := canon.Unmarshal(text, &h); err != nil {
			return err
		}
		salt, err := hex.DecodeString(h.Salt)
		if h.Format != ExportFormat || err != nil || len(salt) != len(b.Salt) {
			return fmt.Errorf("not a %s file", ExportFormat)
		}
		b.Factory, b.Run, b.Salt = h.Factory, h.Run, [32]byte(salt)
		return nil
	}
	var l exportLine
	if err := canon.Unmarshal(bytes.Clone(text), &l); err != nil {
		return err
	}
	kind, members := 0, 0
	for i, given := range []bool{l.Factory != nil, l.Row != nil, l.Receipt != nil, l.Blob != nil, l.Report != nil} {
		if given {
			kind, members = i+1, members+1
		}
	}
	if members != 1 {
		return errors.New("a line has one of the known members")
	}
	if kind < b.kind {
		return errors.New("factory rows, rows, receipts, blobs and reports stand in this order")
	}
	b.kind = kind
	switch {
	case l.Factory != nil:
		b.FactoryRows = append(b.FactoryRows, RowFromExport(*l.Factory))
	case l.Row != nil:
		b.Rows = append(b.Rows, RowFromExport(*l.Row))
	case l.Receipt != nil:
		b.Receipts = append(b.Receipts, Receipt{Key: Key{Factory: b.Factory, Space: l.Receipt.Space, ID: l.Receipt.ID}, Run: b.Run,
			Digest: l.Receipt.Digest, Actor: l.Receipt.Actor, Body: l.Receipt.Body})
	case l.Blob != nil:
		data, err := base64.StdEncoding.Strict().DecodeString(l.Blob.Data)
		if err != nil {
			return err
		}
		b.Blobs = append(b.Blobs, Blob{Digest: l.Blob.Digest, Data: data})
	case l.Report != nil:
		data, err := base64.StdEncoding.Strict().DecodeString(l.Report.Data)
		if err != nil {
			return err
		}
		b.Reports = append(b.Reports, Blob{Digest: l.Report.Digest, Data: data})
	}
	return nil
}

// Verified is what checking a bundle found: how much was checked, or the first fault.
type Verified struct {
	Factory         string          `json:"factory"`
	Run             string          `json:"run"`
	FactoryRows     int64           `json:"factory_rows"`
	Rows            int64           `json:"rows"`
	Receipts        int64           `json:"receipts"`
	Blobs           int64           `json:"blobs"`
	BlobsErased     int64           `json:"blobs_erased"`
	Reconstructions int64           `json:"reconstructions"`
	Reports         int64           `json:"reports"`
	ReportsMissing  int64           `json:"reports_missing"`
	Reproductions   int64           `json:"reproductions"`
	RefusedRequests int64           `json:"refused_requests"`
	Fixture         bool            `json:"fixture"`
	Position        string          `json:"position"`
	Head            models.Head     `json:"head"`
	Counters        models.Counters `json:"counters"`
	Admissions      int64           `json:"admissions"`
}

// Unchecked says what the bytes at hand did not let be checked, in a sentence; "" is nothing. A record of which something was not
// checked has no fault, and is not verified either.
func (v Verified) Unchecked() string {
	var list []string
	for _, c := range []struct {
		n, of int64
		what  string
	}{
		{v.Admissions - v.Reconstructions, v.Admissions, "admissions could not be reconstructed"},
		{v.RefusedRequests - v.Reproductions, v.RefusedRequests, "refused requests could not be rendered again"},
		{v.ReportsMissing, v.Reports + v.ReportsMissing, "reports are not there"},
		{v.BlobsErased, v.Blobs + v.BlobsErased, "blobs are not there"},
	} {
		if c.n > 0 {
			list = append(list, fmt.Sprintf("%d of %d %s", c.n, c.of, c.what))
		}
	}
	return strings.Join(list, ", ")
}

// Verify checks a bundle from its bytes alone: both chains hold, deciding every command again gives these very rows, every
// receipt is what its rows make, every blob has its digest, and, with a sandbox of the module that an admission used, the
// reconstruction gives the same derived checkpoint (spec, Failure and validation boundaries). A screener of the rule set that an
// admission names finds the same again. The refusal names the first
// fault.
func Verify(ctx context.Context, b Bundle, sandbox Sandbox, screeners ...Screener) (Verified, error) {
	out := Verified{Factory: b.Factory, Run: b.Run, FactoryRows: int64(len(b.FactoryRows)), Rows: int64(len(b.Rows)),
		Receipts: int64(len(b.Receipts)), Blobs: int64(len(b.Blobs)), Reports: int64(len(b.Reports))}
	history, refusal := kernel.ReplayFactory(slices.Values(b.FactoryRows))
	if refusal != nil {
		return out, refusal.With(models.D("journal", "factory"))
	}
	if f := history.Last(); f.Factory != b.Factory {
		return out, models.Refuse(models.CodeJournalBroken, models.D("what", "the factory's journal is of another factory"))
	}
	check := checker{bundle: b, history: history, sandbox: sandbox, screeners: screeners, blobs: map[models.Digest][]byte{}}
	for _, blob := range b.Blobs {
		if models.SaltedBlob(b.Salt, blob.Data) != blob.Digest {
			return out, models.Refuse(models.CodeBlobMismatch, models.D("digest", blob.Digest))
		}
		check.blobs[blob.Digest] = blob.Data
	}
	s, refusal := kernel.Replay(slices.Values(b.Rows), history)
	var err error
	if refusal != nil {
		return out, refusal.With(models.D("journal", "run"))
	}
	if s.Run != b.Run || s.Factory != b.Factory {
		return out, models.Refuse(models.CodeJournalBroken, models.D("what", "the rows are of another run"))
	}
	if len(b.Rows) == 0 {
		return out, models.Refuse(models.CodeJournalBroken, models.D("what", "no rows of the run"))
	}
	if err := check.receipts(); err != nil {
		return out, err
	}
	if err := check.facts(); err != nil {
		return out, err
	}
	if err := check.admissions(ctx); err != nil {
		return out, err
	}
	if out.ReportsMissing, err = check.reports(); err != nil {
		return out, err
	}
	out.Reproductions, out.RefusedRequests = check.reproduced, check.refused
	out.Reconstructions, out.Admissions, out.BlobsErased = check.rebuilt, check.admitted, check.erased()
	out.Fixture, out.Head, out.Counters = history.Last().Fixture, s.Head, s.Counters()
	out.Position = kernel.Position(s, s.HeadAt, s.Lease.ExpiresAt)
	return out, nil
}

type checker struct {
	bundle            Bundle
	history           kernel.History
	sandbox           Sandbox
	screeners         []Screener
	blobs             map[models.Digest][]byte
	rebuilt, admitted int64
	reproduced        int64
	refused           int64
}

// receipts makes the receipt of every command again and compares it with the one saved.
func (c *checker) receipts() error {
	s := kernel.State{Factory: c.bundle.Factory, Run: c.bundle.Run}
	next, seen := 0, map[Key]bool{}
	for i := 0; i < len(c.bundle.Rows); {
		rows := c.bundle.Rows[i : i+int(c.bundle.Rows[i].N)]
		i += len(rows)
		cmd, events, err := decodeCommandRows(rows)
		if err != nil {
			return err
		}
		env, err := models.OpenEnv(rows[0].Env)
		if err != nil {
			return err
		}
		for j, r := range rows {
			s = kernel.Fold(s, r, events[j], env.FactoryHead.Seq)
		}
		fault := func(what string) error {
			return models.Refuse(models.CodeJournalBroken, models.D("seq", rows[0].Seq), models.D("what", what))
		}
		if next >= len(c.bundle.Receipts) {
			return fault("the receipt is missing")
		}
		got := c.bundle.Receipts[next]
		next++
		digest, err := models.CommandDigest(rows[0].Actor, cmd)
		if err != nil {
			return err
		}
		k := key(Caller{c.bundle.Factory, rows[0].Actor}, c.bundle.Run, rows[0].CommandID, cmd)
		if k.Space == SpaceServer && got.Key.Space == SpaceCommand {
			k.Space = SpaceCommand // written before the server had a space of its own
		}
		if seen[k] {
			return fault("the id of another command")
		}
		seen[k] = true
		if got.Key.ID != k.ID || got.Key.Space != k.Space || got.Actor != rows[0].Actor || got.Digest != digest ||
			!bytes.Equal(got.Body, kernel.Receipt(s, cmd, rows, events)) {
			return fault("the receipt is not what its rows make")
		}
	}
	if next != len(c.bundle.Receipts) {
		return models.Refuse(models.CodeJournalBroken, models.D("what", "more receipts than commands"))
	}
	return nil
}

func decodeCommandRows(rows []models.Row) (models.Command, []models.Event, error) {
	cmd, err := models.DecodeCommand(rows[0].CommandName, rows[0].Command)
	if err != nil {
		return nil, nil, err
	}
	var events []models.Event
	for _, r := range rows {
		e, err := models.DecodeEvent(r.Kind, r.Payload)
		if err != nil {
			return nil, nil, err
		}
		events = append(events, e)
	}
	return cmd, events, nil
}

// admissions reconstructs every turn that a row's env holds a reconstruction of, and compares the whole of it: holds, calls,
// usage, closing results and every digest, with the module and the catalogue it was made with. Where these are not at hand,
// or bytes were erased, the admission is counted and the reconstruction is not.
func (c *checker) admissions(ctx context.Context) error {
	s := kernel.State{Factory: c.bundle.Factory, Run: c.bundle.Run}
	var env models.Env
	for _, r := range c.bundle.Rows {
		e, err := models.DecodeEvent(r.Kind, r.Payload)
		if err != nil {
			return err
		}
		if r.I == 0 {
			if env, err = models.OpenEnv(r.Env); err != nil {
				return err
			}
		}
		before := s
		s = kernel.Fold(s, r, e, env.FactoryHead.Seq)
		if r.I != 0 {
			continue
		}
		if env.Reproduction != nil {
			c.refused++
			if err := c.reproduce(ctx, r, before, *env.Reproduction); err != nil {
				return err
			}
		}
		if env.Reconstruction == nil {
			continue
		}
		c.admitted++
		if c.sandbox == nil || c.sandbox.Module() != env.Reconstruction.Module || !c.whole(before) {
			continue
		}
		if _, catalogue := c.sandbox.Catalogue(); catalogue != env.Reconstruction.Catalogue {
			continue
		}
		turn := c.turn(before)
		rebuild := turn.rebuild
		if r.CommandName == (models.RecoverReadonlyObservation{}).Verb() {
			rebuild = turn.observe
		}
		again, _, err := rebuild(ctx)
		if err != nil {
			return err
		}
		if !bytes.Equal(canon.MustMarshal(again), canon.MustMarshal(env.Reconstruction)) {
			return models.Refuse(models.CodeJournalBroken, models.D("seq", r.Seq), models.D("what", "reconstructing again gives something else"))
		}
		if err := c.screened(r, env, turn); err != nil {
			return err
		}
		c.rebuilt++
	}
	return nil
}

// turn is the turn that stood, with its bytes in the bundle.
func (c *checker) turn(s kernel.State) sealedTurn {
	return sealedTurn{sandbox: c.sandbox, salt: c.bundle.Salt, state: s, blob: func(d models.Digest) ([]byte, error) {
		data, ok := c.blobs[d]
		if !ok {
			return nil, ErrNotFound
		}
		return data, nil
	}}
}

// reproduce renders the refused request again as the action did, from the pending checkpoint, and compares the whole of it
// (REFUSED-26). Where the module, the catalogue or the bytes are not at hand nothing is compared.
func (c *checker) reproduce(ctx context.Context, r models.Row, before kernel.State, was models.Reproduction) error {
	if c.sandbox == nil || c.sandbox.Module() != was.Module {
		return nil
	}
	if _, catalogue := c.sandbox.Catalogue(); catalogue != was.Catalogue {
		return nil
	}
	if _, ok := c.blobs[before.Custody.Turn.Checkpoint]; !ok {
		return nil
	}
	again, err := c.turn(before).reproduce(ctx, nil)
	if err != nil {
		return err
	}
	if !bytes.Equal(canon.MustMarshal(again), canon.MustMarshal(was)) {
		return models.Refuse(models.CodeJournalBroken, models.D("seq", r.Seq), models.D("what", "reproducing the request again gives something else"))
	}
	c.reproduced++
	return nil
}

// reports checks that each report in the bundle has its digest and says what the rows read in it, and counts those that rows rest
// on and the bundle lacks.
func (c *checker) reports() (missing int64, err error) {
	kept := map[models.Digest]models.Report{}
	for _, b := range c.bundle.Reports {
		_, twice := kept[b.Digest]
		report, err := readReport(b.Digest, b.Data)
		if err != nil || twice || models.PlainDigest(b.Data) != b.Digest {
			return 0, models.Refuse(models.CodeBlobMismatch, models.D("digest", b.Digest), models.D("what", "a report"))
		}
		kept[b.Digest] = report
	}
	named := map[models.Digest]bool{}
	for _, r := range c.bundle.Rows {
		if r.I != 0 {
			continue
		}
		env, err := models.OpenEnv(r.Env)
		if err != nil {
			return 0, err
		}
		for _, was := range env.Reports {
			report, ok := kept[was.Digest]
			switch {
			case ok && report != was:
				return 0, models.Refuse(models.CodeJournalBroken, models.D("seq", r.Seq), models.D("what", "a report says something else"))
			case !ok && !named[was.Digest]:
				missing++
			}
			named[was.Digest] = true
		}
	}
	for d := range kept {
		if !named[d] {
			return 0, models.Refuse(models.CodeBlobMismatch, models.D("digest", d), models.D("what", "no row rests on this report"))
		}
	}
	return missing, nil
}

// screened screens the checkpoint again with the rule set that the admission names, where it is at hand.
func (c *checker) screened(r models.Row, env models.Env, turn sealedTurn) error {
	for _, s := range c.screeners {
		if env.Screening == nil || s.RuleSet() != env.Screening.RuleSet {
			continue
		}
		again, err := turn.screen(s, env.Reconstruction)
		if err != nil {
			return err
		}
		if !bytes.Equal(canon.MustMarshal(again), canon.MustMarshal(env.Screening)) {
			return models.Refuse(models.CodeJournalBroken, models.D("seq", r.Seq), models.D("what", "screening again finds something else"))
		}
	}
	return nil
}

// whole reports whether every blob is there that reconstructing the turn that stands needs.
func (c *checker) whole(s kernel.State) bool {
	t := s.Custody.Turn
	need := []models.Digest{t.Checkpoint, t.Response, t.WireBlob, s.Registration.Contract}
	for _, r := range retained(s) {
		need = append(need, r.Result)
	}
	for _, d := range need {
		if _, ok := c.blobs[d]; !ok {
			return false
		}
	}
	return true
}

// facts checks what rows state about bytes that are in the bundle, and that each blob in it is named by a row, once.
func (c *checker) facts() error {
	named := map[models.Digest]bool{}
	for _, r := range c.bundle.Rows {
		for _, d := range r.Blobs {
			named[d] = true
		}
		e, err := models.DecodeEvent(r.Kind, r.Payload)
		if err != nil {
			return err
		}
		wrong := ""
		switch e := e.(type) {
		case models.RequestIssued:
			if data, ok := c.blobs[e.WireBlob]; ok && (models.PlainDigest(data) != e.Wire || int64(len(data)) != e.WireLength) {
				wrong = "wire digest or length"
			}
		case models.ResponseKept:
			if data, ok := c.blobs[e.Response]; ok && int64(len(data)) != e.Length {
				wrong = "response length"
			}
		}
		if wrong != "" {
			return models.Refuse(models.CodeJournalBroken, models.D("seq", r.Seq), models.D("what", wrong+" is not that of the bytes"))
		}
	}
	if len(c.blobs) != len(c.bundle.Blobs) {
		return models.Refuse(models.CodeBlobMismatch, models.D("what", "a blob stands in the file twice"))
	}
	for _, b := range c.bundle.Blobs {
		if !named[b.Digest] {
			return models.Refuse(models.CodeBlobMismatch, models.D("digest", b.Digest), models.D("what", "no row names this blob"))
		}
	}
	return nil
}

func (c *checker) erased() (n int64) {
	seen := map[models.Digest]bool{}
	for _, r := range c.bundle.Rows {
		for _, d := range r.Blobs {
			if _, ok := c.blobs[d]; !ok && !seen[d] {
				seen[d] = true
				n++
			}
		}
	}
	return n
}
