package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/fixtures/provider"
	"github.com/forge-continuity/forge/fixtures/recordings"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// Names of the story.
const (
	storyRun       = "nightly-4711"
	storyRequest   = "continue-4711"
	otherRequest   = "continue-4711-again"
	storyClaim     = "claim-second-worker-1"
	neighbourRun   = "nightly-4712"
	unsupportedRun = "nightly-4713"
	storyWindow    = 1800
)

// story tells what happens while it happens. Each step shows the rows and counters that it rests on, and fails where they
// are not what it says.
type story struct {
	out      io.Writer
	told     chapter
	dir      string
	store    string // what the stage says of it
	base     string
	keep     string
	people   load.People
	dana     *forge.Client // operates and administers, in the chapters
	comp     *composition
	stub     *provider.Server
	stubBase string
	steps    int

	recording *recordings.Recording
	held      []forge.Row // the rows at the stop
	atStop    models.Counters
	candidate models.Candidate
	receipt   forge.Saved[models.ContinuityReceipt]
	continued *load.Continuer
}

func (s *story) step(title string) {
	s.steps++
	fmt.Fprintf(s.out, "\n%d. %s\n", s.steps, title)
}

// say writes a paragraph, indented and broken at 100 columns.
func (s *story) say(format string, args ...any) {
	line := "  "
	for _, word := range strings.Fields(fmt.Sprintf(format, args...)) {
		if len(line)+1+len(word) > 100 {
			fmt.Fprintln(s.out, line)
			line = "  "
		}
		line += " " + word
	}
	fmt.Fprintln(s.out, line)
}

// show writes evidence: a label and a value.
func (s *story) show(label, format string, args ...any) {
	fmt.Fprintf(s.out, "     %-19s %s\n", label, fmt.Sprintf(format, args...))
}

// must makes the demo fail where its own story is not true.
func must(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf("the demo's own check failed: "+format, args...)
}

func (s *story) tell(ctx context.Context) error {
	var err error
	if s.recording, err = recordings.Held("2.55.0"); err != nil {
		return err
	}
	fmt.Fprintln(s.out, "forge demo: a run that stopped is continued, and every claim about it is shown")
	fmt.Fprintln(s.out, "\nPRIVATE PREVIEW, and all of it a fixture: a recorded run, a scripted provider, no retained work.")
	host := s.comp.engine.Host()
	s.show("server", "the real API at %s", s.base)
	s.show("store", "%s", s.store)
	s.show("factory", "%q, a fixture factory, so that its receipts say fixture", demoFactory)
	s.show("recording", "Pydantic AI 2.55.0 against a stub (fixtures/README.md)")
	s.show("provider", "the same stub, in this process: its answers are scripted, no model is asked")
	s.show("worker", "a Go demo worker stands where one with the real SDK would")
	s.show("guest module", "%s, catalogue %s", short(host.Module), short(host.Catalogue))
	for _, act := range []func(context.Context) error{s.record, s.stopped, s.hold, s.enable, s.admit, s.repeat, s.claim, s.turn,
		s.complete, s.verify, s.notDone, s.neighbour, s.unsupported} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintf(s.out, "\nThat was the whole line: recorded, held, admitted once, continued, completed, verified.\n")
	return nil
}

func (s *story) rows(ctx context.Context, run string) ([]forge.Row, error) {
	var out []forge.Row
	for {
		rows, err := s.people.Reader.Rows(ctx, run, int64(len(out))+1, 1000)
		if err != nil || len(rows) == 0 {
			return out, err
		}
		out = append(out, rows...)
	}
}

func seqs(rows []forge.Row, kind string) []int64 {
	var out []int64
	for _, r := range rows {
		if r.Kind == kind {
			out = append(out, r.Seq)
		}
	}
	return out
}

func last(rows []forge.Row, kind string) int64 {
	if list := seqs(rows, kind); len(list) > 0 {
		return list[len(list)-1]
	}
	return 0
}

func counters(c models.Counters) string {
	return fmt.Sprintf("requests %d of %d, tool calls %d of %d, commands %d of %d, rounds %d", c.Requests, c.Limits.Requests,
		c.ToolCalls, c.Limits.ToolCalls, c.Commands, c.Limits.Commands, c.CompletedRounds)
}

func (s *story) record(ctx context.Context) error {
	s.step("A run is recorded")
	s.say("An agent looks for the fault in a failing build. Its worker reports each thing that happens, before the next one " +
		"starts: checkpoint, request, response, each call and each command. Forge chains the reports as rows. The content itself " +
		"(prompts, answers, outputs) is kept apart as blobs; rows carry only numbers and digests.")
	if err := load.PutRecords(ctx, s.people.Administrator, s.recording); err != nil {
		return err
	}
	loaded, err := load.Held(ctx, s.people.Operator, s.people.Worker, s.recording, storyRun, load.Options{})
	if err != nil {
		return err
	}
	if s.held, err = s.rows(ctx, storyRun); err != nil {
		return err
	}
	view, err := s.people.Reader.Run(ctx, storyRun)
	if err != nil {
		return err
	}
	s.atStop = view.Counters
	s.show("run", "%s, started by %q: the original actor", storyRun, view.OriginalActor)
	s.show("rows", "1 to %d, from %d batches of worker %q under fence %d", len(s.held), loaded.Batches, load.Worker, loaded.Fence)
	s.show("spent", "%s", counters(view.Counters))
	return must(view.Counters.Commands == 11 && view.Counters.Limits.Commands == 22, "commands %d of %d", view.Counters.Commands, view.Counters.Limits.Commands)
}

func (s *story) stopped(ctx context.Context) error {
	s.step("The worker stops")
	var call struct {
		Args string
	}
	for _, step := range s.recording.Steps {
		if step.Kind == "grant" && step.Args != nil {
			call.Args = *step.Args
		}
	}
	s.say("The model called read_run_evidence with %s. The schema it had been shown allows a page_size of 100; the validator "+
		"in front of the reader allows 10. So the call was rejected before the reader started, and the worker could not go on.", call.Args)
	s.show("known", "the response was consumed and charged: row %d", last(s.held, "response.consumed"))
	s.show("known", "its one call was granted: row %d", last(s.held, "call.granted"))
	s.show("known negative", "the call was refused before it started: row %d", last(s.held, "call.refused"))
	open := len(seqs(s.held, "call.intended")) - len(seqs(s.held, "call.returned")) + len(seqs(s.held, "command.started")) - len(seqs(s.held, "command.finished"))
	s.show("unknown", "nothing: started without an outcome are %d of %d calls and commands", open,
		len(seqs(s.held, "call.intended"))+len(seqs(s.held, "command.started")))
	s.show("worker", "reported that it stops: row %d", last(s.held, "worker.failed"))
	work, err := s.people.SecondWorker.Work(ctx, 0)
	if err != nil {
		return err
	}
	_, err = s.people.SecondWorker.Claim(ctx, storyRun, "claim-ordinary", 600)
	if err := s.refused(err, models.CodeRunHeld); err != nil {
		return err
	}
	s.say("Without a decision by a person nothing moves: the run is announced to no worker (%d announced), and a worker that "+
		"claims it all the same is answered %s.", len(work), models.CodeRunHeld)
	return must(len(work) == 0 && open == 0, "%d runs are announced, %d outcomes are unknown", len(work), open)
}

// refused checks that an error is the refusal that the story tells of.
func (s *story) refused(err error, code models.Code) error {
	var p *forge.Problem
	if !errors.As(err, &p) || p.Code != code {
		return fmt.Errorf("the demo's own check failed: wanted the refusal %s, got %w", code, err)
	}
	return nil
}

func (s *story) hold(ctx context.Context) error {
	s.step("The original actor asks whether the run may continue: not yet")
	c, err := s.people.Operator.Candidate(ctx, storyRun)
	if err != nil {
		return err
	}
	s.say("The candidate names everything that stands in the way, and what would lift it. Reading it changes nothing.")
	var codes []models.Code
	for _, h := range c.Holds {
		codes = append(codes, h.Code)
		printHold(s.out, h, "     ")
	}
	after, err := s.rows(ctx, storyRun)
	if err != nil {
		return err
	}
	s.show("rows", "%d before, %d after", len(s.held), len(after))
	return must(slices.Equal(codes, []models.Code{models.CodePolicyDisabled, models.CodeProfileUnqualified}) && len(after) == len(s.held),
		"holds %v", codes)
}

func (s *story) enable(ctx context.Context) error {
	s.step("The administrator lifts both holds")
	f, err := s.people.Administrator.Factory(ctx)
	if err != nil {
		return err
	}
	if _, err := s.people.Administrator.PutProfile(ctx, "profile-demo", load.FixtureProfile("demo-fixture", f.Host)); err != nil {
		return err
	}
	policy, err := s.people.Administrator.Policy(ctx)
	if err != nil {
		return err
	}
	next, err := s.people.Administrator.PutPolicy(ctx, load.PolicyOn(policy.Policy, storyWindow))
	if err != nil {
		return err
	}
	s.show("profile", "demo-fixture: this build, module, catalogue and store; for fixture factories only")
	s.show("policy", "revision %d to %d: enabled, a lease of at most %d s", policy.Revision, next.Revision, next.MaxValidForSeconds)
	first, err := s.people.Operator.Candidate(ctx, storyRun)
	if err != nil {
		return err
	}
	if s.candidate, err = s.people.Operator.Candidate(ctx, storyRun); err != nil {
		return err
	}
	c := s.candidate
	s.say("Now the candidate has a proof. In a sealed sandbox, without network, clock or files, the kept response was given to " +
		"the parser once, and the history was closed with the one thing that is known: the query was invalid.")
	s.show("eligible", "%t, version %d", c.Eligible, c.Version)
	for _, r := range c.Closing {
		s.show("closing result", `call %d gets {"status":%q}, and nothing else is added`, r.Position, r.Result)
	}
	s.show("derived checkpoint", "%s; the original stays as it is", short(c.Derived))
	s.show("spent", "%s", counters(c.Counters))
	s.show("read twice", "candidate %s both times", short(c.CandidateDigest))
	if len(c.Holds) > 0 {
		for _, h := range c.Holds {
			printHold(s.out, h, "     ")
		}
	}
	return must(c.Eligible && c.Version == 1 && first.CandidateDigest == c.CandidateDigest && c.Counters == s.atStop, "not eligible, or not steady")
}

func (s *story) body() models.RequestContinuity {
	c := s.candidate
	return models.RequestContinuity{
		AcknowledgeNoNewGrant: true, AcknowledgeOriginalConsumption: true, AcknowledgeRenewedSameAttemptLease: true,
		CandidateDigest: c.CandidateDigest, JournalDigest: c.JournalDigest, PolicyDigest: c.PolicyDigest, RunDigest: c.RunDigest,
		ValidForSeconds: 900, Version: 1,
	}
}

func (s *story) admit(ctx context.Context) error {
	s.step("The original actor admits it, once")
	s.say("The actor made the request id %q beforehand, sends exactly the digests that were read, and acknowledges by name: "+
		"no new grant, the original consumption stands, only the lease of the same attempt is renewed.", storyRequest)
	var err error
	if s.receipt, err = s.people.Operator.RequestContinuity(ctx, storyRun, storyRequest, s.body()); err != nil {
		return err
	}
	r := s.receipt.Receipt
	s.show("rows", "settlement %d and lease %d, next to each other, committed together", r.SettlementSeq, r.LeaseSeq)
	s.show("lease", "%d s, nobody's until a worker claims it", r.ValidForSeconds)
	s.show("receipt", "fixture %t, profile %s, attempt %d", r.Fixture, r.Profile, r.Attempt)
	s.show("spent", "%s", counters(r.Counters))
	s.say("The receipt says: %s", r.Establishes)
	return must(r.Counters == s.atStop && r.LeaseSeq == r.SettlementSeq+1 && r.Fixture && !s.receipt.Repeat, "the admission moved something")
}

func (s *story) repeat(ctx context.Context) error {
	s.step("The answer got lost? Sending the same again is safe; another id is not a second chance")
	again, err := s.people.Operator.RequestContinuity(ctx, storyRun, storyRequest, s.body())
	if err != nil {
		return err
	}
	back, err := s.people.Operator.Continuity(ctx, storyRun, storyRequest)
	if err != nil {
		return err
	}
	s.show("same id, same body", "the saved receipt, byte for byte: %t", bytes.Equal(again.Body, s.receipt.Body))
	s.show("read back", "the same bytes: %t", bytes.Equal(back.Body, s.receipt.Body))
	_, err = s.people.Operator.RequestContinuity(ctx, storyRun, otherRequest, s.body())
	if err := s.refused(err, models.CodeGraphHasTicket); err != nil {
		return err
	}
	s.show("another id", "refused: %s", models.CodeGraphHasTicket)
	rows, err := s.rows(ctx, storyRun)
	if err != nil {
		return err
	}
	s.show("rows", "still %d", len(rows))
	return must(again.Repeat && bytes.Equal(again.Body, s.receipt.Body) && bytes.Equal(back.Body, s.receipt.Body) &&
		int64(len(rows)) == s.receipt.Receipt.LeaseSeq, "the repeat changed something")
}

func (s *story) claim(ctx context.Context) error {
	s.step("Another worker takes it")
	work, err := s.people.SecondWorker.Work(ctx, 0)
	if err != nil {
		return err
	}
	if err := must(len(work) == 1 && work[0].Run == storyRun && work[0].Request == storyRequest, "announced: %v", work); err != nil {
		return err
	}
	s.continued = &load.Continuer{Client: s.people.SecondWorker, Endpoint: s.stubBase}
	claimed, err := s.continued.Claim(ctx, s.recording, storyRun, storyClaim, 600)
	if err != nil {
		return err
	}
	c := claimed.Claim
	s.show("announced", "run %s for request %s", work[0].Run, work[0].Request)
	s.show("claimed", "row %d, under the worker's own id %q, fence %d after %d", c.Seq, c.ClaimID, c.Fence, c.Fence-1)
	s.show("starts from", "checkpoint %s, the derived one of the receipt", short(c.Checkpoint))
	s.show("unchanged", "task, contract, limits and attempt: registration %s", short(c.Registration))
	s.say("A worker with the real SDK would now load that checkpoint with it and compare before it sends anything. The demo " +
		"worker has no SDK; the next step compares with what the SDK sent instead.")
	return must(c.Checkpoint == s.receipt.Receipt.Derived && c.Registration == s.receipt.Receipt.Registration && c.RequestID == storyRequest &&
		c.Counters == s.atStop, "the worker was handed something else")
}

func (s *story) turn(ctx context.Context) error {
	s.step("The next model turn")
	before := s.stub.Requests()
	t, err := s.continued.Turn(ctx)
	if err != nil {
		return err
	}
	want, err := s.recording.File("next-request.wire")
	if err != nil {
		return err
	}
	rows, err := s.rows(ctx, storyRun)
	if err != nil {
		return err
	}
	view, err := s.people.Reader.Run(ctx, storyRun)
	if err != nil {
		return err
	}
	s.say("The demo worker renders the derived history and the frozen contract as the next OpenAI chat request. The stub is as " +
		"strict about call and result pairs as the real endpoint, and takes it.")
	s.show("request", "number %d, row %d, %d bytes, SHA-256 %s", t.Request, last(rows, "request.issued"), len(t.Wire), short(models.PlainDigest(t.Wire)))
	s.show("the real SDK", "sends from this history: %s, so the same bytes: %t", short(models.PlainDigest(want)), bytes.Equal(t.Wire, want))
	s.show("provider stub", "requests received: %d before, %d after", before, s.stub.Requests())
	s.say("The answer calls two commands. The demo worker runs nothing itself: it reports the results that the recorded " +
		"continuation had, each intent before its effect.")
	for i, seq := range seqs(rows, "command.finished")[11:] {
		s.show("command", "%s", s.commandText(rows, seq))
		if i < len(t.Commands) {
			s.show("", "%s", t.Commands[i])
		}
	}
	unchanged := same(s.held, rows, "command.finished")
	s.show("commands", "%d of %d before, %d of %d now", s.atStop.Commands, s.atStop.Limits.Commands, view.Counters.Commands, view.Counters.Limits.Commands)
	s.show("the eleven", "rows of their receipts unchanged: %t", unchanged)
	return must(bytes.Equal(t.Wire, want) && view.Counters.Commands == 13 && unchanged && s.stub.Requests() == before+1 && len(t.Commands) == 2,
		"wire bytes, commands or requests are not as told")
}

func (s *story) commandText(rows []forge.Row, seq int64) string {
	var f models.CommandFinished
	if err := json.Unmarshal(rows[seq-1].Payload, &f); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("number %d, exit code %d, receipt in row %d", f.Number, f.ExitCode, seq)
}

// same reports whether every row of the kind that stood before still stands with the same hash.
func same(before, now []forge.Row, kind string) bool {
	for i, r := range before {
		if r.Kind == kind && (i >= len(now) || now[i].Hash != r.Hash) {
			return false
		}
	}
	return true
}

func (s *story) complete(ctx context.Context) error {
	s.step("The run completes")
	t, err := s.continued.Turn(ctx)
	if err != nil {
		return err
	}
	if err := must(t.Calls == 0 && t.Text != "", "the last answer has %d calls", t.Calls); err != nil {
		return err
	}
	if err := s.continued.Complete(ctx, t.Text); err != nil {
		return err
	}
	view, err := s.people.Reader.Run(ctx, storyRun)
	if err != nil {
		return err
	}
	s.say("The model: %q", t.Text)
	s.show("position", "%s, row %d; ticket %s is %s", view.Position, view.Head.Seq, storyRequest, view.Tickets[0].State)
	s.show("spent", "%s", counters(view.Counters))
	return must(view.Position == "completed" && view.Tickets[0].State == "completed" && view.Counters.CompletedRounds == s.atStop.CompletedRounds+2, "not completed")
}

func (s *story) verify(ctx context.Context) error {
	s.step("Anyone can check it later, without this server")
	path := filepath.Join(s.dir, storyRun+".forge.jsonl")
	if s.keep != "" {
		path = s.keep
	}
	if err := writeWhole(path, false, func(w io.Writer) error {
		_, err := s.people.Reader.Export(ctx, storyRun, w)
		return err
	}); err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	bundle, err := engine.ReadBundle(bytes.NewReader(data))
	if err != nil {
		return err
	}
	found, err := engine.Verify(ctx, bundle, s.comp.sandbox, s.comp.screener)
	if err != nil {
		return err
	}
	s.show("export", "%d lines, %d KB", bytes.Count(data, []byte("\n")), len(data)/1024)
	s.show("factory rows", "%d: the chain holds, each decision made again gives the same rows", found.FactoryRows)
	s.show("rows", "%d: the chain holds, each decision made again gives the same rows", found.Rows)
	s.show("receipts, blobs", "%d are what their rows make, %d have their digests", found.Receipts, found.Blobs)
	s.show("reconstruction", "%d of %d made again: the same derived checkpoint", found.Reconstructions, found.Admissions)
	at := bytes.Index(data, []byte(`"exit_code":0`))
	if err := must(at >= 0, "the export has no exit code"); err != nil {
		return err
	}
	data[at+len(`"exit_code":`)] = '7'
	if bundle, err = engine.ReadBundle(bytes.NewReader(data)); err != nil {
		return err
	}
	_, err = engine.Verify(ctx, bundle, s.comp.sandbox)
	refusal, ok := engine.IsRefusal(err)
	if err := must(ok && refusal.Code == models.CodeJournalBroken, "a changed byte was not found: %v", err); err != nil {
		return err
	}
	s.show("one byte changed", "an exit code from 0 to 7: %s at row %s", refusal.Code, refusal.Detail("seq"))
	return must(found.Reconstructions == 1 && found.Admissions == 1 && found.BlobsErased == 0, "not everything was checked")
}

func (s *story) notDone(ctx context.Context) error {
	s.step("What was not done")
	rows, err := s.rows(ctx, storyRun)
	if err != nil {
		return err
	}
	view, err := s.people.Reader.Run(ctx, storyRun)
	if err != nil {
		return err
	}
	refused := last(s.held, "call.refused")
	var held models.CallRefused
	if err := json.Unmarshal(rows[refused-1].Payload, &held); err != nil {
		return err
	}
	counts := map[string]int{}
	for _, r := range rows {
		var f struct {
			Request  int64 `json:"request"`
			Position int64 `json:"position"`
		}
		switch r.Kind {
		case "request.issued", "response.consumed", "call.intended":
			if err := json.Unmarshal(r.Payload, &f); err != nil {
				return err
			}
			if f.Request == held.Request {
				counts[r.Kind]++
			}
		}
	}
	issued, consumed, intended := counts["request.issued"], counts["response.consumed"], counts["call.intended"]
	prefix := true
	for i, r := range s.held {
		prefix = prefix && rows[i].Hash == r.Hash
	}
	s.show("no replay", "request %d was issued %d time, its rejected call was started %d times", held.Request, issued, intended)
	s.show("no double charge", "its response was consumed %d time, in row %d", consumed, last(s.held, "response.consumed"))
	s.show("no reset", "rows 1 to %d are unchanged: %t", len(s.held), prefix)
	s.show("no new grant", "attempt %d as before, limits as before: %t", view.Counters.Attempt, view.Counters.Limits == s.atStop.Limits)
	s.show("before", "%s", counters(s.atStop))
	s.show("admitted", "%s", counters(s.receipt.Receipt.Counters))
	s.show("after", "%s", counters(view.Counters))
	return must(issued == 1 && consumed == 1 && intended == 0 && prefix && view.Counters.Limits == s.atStop.Limits && view.Counters.Attempt == s.atStop.Attempt,
		"something was replayed, reset or charged twice")
}

// neighbour continues the same stop that another version of the SDK recorded, and shows what carrying it over took.
func (s *story) neighbour(ctx context.Context) error {
	s.step("A neighbour with an older worker: the same stop, recorded with Pydantic AI 2.58.0")
	r, err := recordings.Held("2.58.0")
	if err != nil {
		return err
	}
	if err := load.PutRecords(ctx, s.people.Administrator, r); err != nil {
		return err
	}
	if _, err := load.Held(ctx, s.people.Operator, s.people.Worker, r, neighbourRun, load.Options{}); err != nil {
		return err
	}
	c, err := s.people.Operator.Candidate(ctx, neighbourRun)
	if err != nil {
		return err
	}
	for _, h := range c.Holds {
		printHold(s.out, h, "     ")
	}
	if err := must(c.Eligible, "the neighbour is held"); err != nil {
		return err
	}
	body := s.body()
	body.CandidateDigest, body.JournalDigest, body.PolicyDigest, body.RunDigest = c.CandidateDigest, c.JournalDigest, c.PolicyDigest, c.RunDigest
	admitted, err := s.people.Operator.RequestContinuity(ctx, neighbourRun, "continue-4712", body)
	if err != nil {
		return err
	}
	text, err := s.people.Operator.Blob(ctx, neighbourRun, admitted.Receipt.Witness)
	if err != nil {
		return err
	}
	var witness struct {
		Projection struct {
			Name       string                     `json:"name"`
			Provenance map[string]json.RawMessage `json:"provenance"`
			SHA256     models.Digest              `json:"provenance_sha256"`
			Tools      []json.RawMessage          `json:"tool_kind_present"`
		} `json:"projection"`
	}
	if err := json.Unmarshal(text, &witness); err != nil {
		return err
	}
	p := witness.Projection
	s.say("The catalogue has one reviewed way from the SDK that wrote it to the one in use. The original stays as it is; the derived " +
		"checkpoint is one that 2.55.0 loads without losing a field (fixtures/record/migrated.sh asks the real one).")
	s.show("transition", "%s", p.Name)
	s.show("left out", "%d telemetry fields, their exact values in the witness, SHA-256 %s", len(p.Provenance), short(p.SHA256))
	s.show("tool_kind", "null for all %d tools; the witness says where it was there", len(p.Tools))
	w := &load.Continuer{Client: s.people.SecondWorker, Endpoint: s.stubBase}
	if _, err := w.Claim(ctx, r, neighbourRun, "claim-second-worker-2", 600); err != nil {
		return err
	}
	var t load.Turn
	for t.Text == "" {
		if t, err = w.Turn(ctx); err != nil {
			return err
		}
	}
	if err := w.Complete(ctx, t.Text); err != nil {
		return err
	}
	view, err := s.people.Reader.Run(ctx, neighbourRun)
	if err != nil {
		return err
	}
	s.show("position", "%s, row %d", view.Position, view.Head.Seq)
	s.show("spent", "%s", counters(view.Counters))
	return must(view.Position == "completed" && len(p.Provenance) == 3 && view.Counters.Commands == 13, "the neighbour is not completed")
}

// unsupported shows a pair that nobody reviewed.
func (s *story) unsupported(ctx context.Context) error {
	s.step("A neighbour that stays held: records of another version pair")
	if _, err := load.Held(ctx, s.people.Operator, s.people.Worker, s.recording, unsupportedRun, load.Options{Checkpoint: func(data []byte) []byte {
		return bytes.Replace(data, []byte(`"firefly_agentic":"26.10.1"`), []byte(`"firefly_agentic":"26.11.0"`), 1)
	}}); err != nil {
		return err
	}
	c, err := s.people.Operator.Candidate(ctx, unsupportedRun)
	if err != nil {
		return err
	}
	s.say("The same recording once more, with one version in its checkpoints changed by hand to one that does not exist. Policy and profile are "+
		"the same, but nobody has reviewed how such a record is carried over. So Forge does not guess from a version number: run %s "+
		"stays as it is.", unsupportedRun)
	var codes []models.Code
	for _, h := range c.Holds {
		codes = append(codes, h.Code)
		printHold(s.out, h, "     ")
	}
	return must(!c.Eligible && slices.Contains(codes, models.CodeSDKPairUnsupported), "holds %v", codes)
}

// stay says how to look around.
func (s *story) stay() {
	fmt.Fprintf(s.out, "\nThe server stays up until Ctrl-C. In another terminal (tokens of this demo, gone with it):\n\n")
	fmt.Fprintf(s.out, "    export FORGE_SERVER=%s FORGE_TOKEN=%s   # a reader\n", s.base, s.people.ReaderToken)
	fmt.Fprintf(s.out, "    forge run list\n    forge run show %s\n    forge run export %s --output %s.jsonl && forge verify %s.jsonl\n", storyRun, storyRun, storyRun, storyRun)
	fmt.Fprintf(s.out, "    FORGE_TOKEN=%s forge candidate %s   # the operator\n", s.people.OperatorToken, unsupportedRun)
}
