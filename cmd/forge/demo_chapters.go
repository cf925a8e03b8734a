package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/fixtures/recordings"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// chapter is one way on, told on input of which it says whether it was recorded or constructed. Its checks make it fail where
// what it tells is not so; forge qualify counts on that.
type chapter struct {
	name  string
	about string
	input string
	tell  func(*story, context.Context) error
}

const recorded = "a run recorded with Pydantic AI 2.55.0 against a scripted provider"

var chapters = []chapter{
	{"continue", "a rejected evidence read is continued, once, and completed (the story told by default)", recorded, (*story).tell},
	{"observations", "version 2: beside the rejected read stand listings whose results were not kept", recorded + ", with another last answer", (*story).observations},
	{"never-claimed", "a continuation that nobody claimed in time is queued again, once", recorded + "; the lapse is real time passing", (*story).neverClaimed},
	{"refused-boundary", "the provider refuses the continuation's first request; reviewed, it is queued again, once", recorded + "; refusal and reports are constructed", (*story).refusedBoundary},
	{"lost-observation", "a later turn loses the result of an evidence read; reviewed, it goes on", recorded + "; refusal and lost result are constructed", (*story).lostObservation},
	{"stops", "a policy that is switched off stops work at once, and nothing queues a claimed ticket again", recorded, (*story).stops},
	{"credentials", "a record is inspected, a key in it holds the run, a waiver lets it pass once", recorded + ", with a made-up key planted in it", (*story).credentials},
}

func chapterNamed(name string) (chapter, error) {
	if name == "" {
		return chapters[0], nil
	}
	i := slices.IndexFunc(chapters, func(c chapter) bool { return c.name == name })
	if i < 0 {
		var names []string
		for _, c := range chapters {
			names = append(names, c.name)
		}
		return chapter{}, misuse("no chapter %q; there are %s", name, strings.Join(names, ", "))
	}
	return chapters[i], nil
}

// open begins a chapter: the held run of dana's, who operates and administers, under an enabled profile and a policy with the given
// switches.
func (s *story) open(ctx context.Context, o load.Options, policy func(*models.Policy)) (models.Candidate, error) {
	fmt.Fprintf(s.out, "forge demo, %s: %s\n\nPRIVATE PREVIEW, and all of it a fixture. Input: %s.\n", s.told.name, s.told.about, s.told.input)
	var c models.Candidate
	var err error
	if s.recording, err = recordings.Held("2.55.0"); err != nil {
		return c, err
	}
	s.step("The stage")
	if s.dana, _, err = load.Person(ctx, s.people.Administrator, "dana", models.RoleAdministrator, models.RoleOperator); err != nil {
		return c, err
	}
	if err := load.PutRecords(ctx, s.people.Administrator, s.recording); err != nil {
		return c, err
	}
	if _, err := s.people.Administrator.PutProfile(ctx, "profile-demo", load.FixtureProfile("demo-fixture", s.comp.engine.Host())); err != nil {
		return c, err
	}
	now, err := s.people.Administrator.Policy(ctx)
	if err != nil {
		return c, err
	}
	next := load.PolicyOn(now.Policy, storyWindow)
	if policy != nil {
		policy(&next)
	}
	if _, err := s.people.Administrator.PutPolicy(ctx, next); err != nil {
		return c, err
	}
	if _, err := load.Held(ctx, s.dana, s.people.Worker, s.recording, storyRun, o); err != nil {
		return c, err
	}
	if s.held, err = s.rows(ctx, storyRun); err != nil {
		return c, err
	}
	c, err = s.dana.Candidate(ctx, storyRun)
	s.candidate, s.atStop = c, c.Counters
	s.show("run", "%s, %d rows, held; started by dana, who operates and administers", storyRun, len(s.held))
	s.show("spent", "%s", counters(c.Counters))
	return c, err
}

// appended shows the kinds of the rows since, and fails where they are not these.
func (s *story) appended(ctx context.Context, since int, want ...string) error {
	rows, err := s.rows(ctx, storyRun)
	if err != nil {
		return err
	}
	var got []string
	for _, r := range rows[since:] {
		got = append(got, r.Kind)
	}
	s.show("new rows", "%d to %d: %s", since+1, len(rows), strings.Join(got, ", "))
	return must(slices.Equal(got, want), "new rows %v", got)
}

func (s *story) admitted(ctx context.Context, seconds models.Seconds) error {
	body := s.body()
	body.ValidForSeconds = seconds
	var err error
	if s.receipt, err = s.dana.RequestContinuity(ctx, storyRun, storyRequest, body); err != nil {
		return err
	}
	s.show("admitted", "request %s, rows %d and %d, a lease of %d s", storyRequest, s.receipt.Receipt.SettlementSeq, s.receipt.Receipt.LeaseSeq, seconds)
	return must(s.receipt.Receipt.Counters == s.atStop, "the admission moved a counter")
}

// finish has a worker claim the continuation, take the recorded turns and complete, and checks the export.
func (s *story) finish(ctx context.Context, claim string, reconstructions int64) error {
	w := &load.Continuer{Client: s.people.SecondWorker, Endpoint: s.stubBase}
	if _, err := w.Claim(ctx, s.recording, storyRun, claim, 600); err != nil {
		return err
	}
	var last load.Turn
	for last.Text == "" {
		var err error
		if last, err = w.Turn(ctx); err != nil {
			return err
		}
	}
	if err := w.Complete(ctx, last.Text); err != nil {
		return err
	}
	view, err := s.people.Reader.Run(ctx, storyRun)
	if err != nil {
		return err
	}
	s.show("completed", "%s", counters(view.Counters))
	var file bytes.Buffer
	if _, err := s.people.Reader.Export(ctx, storyRun, &file); err != nil {
		return err
	}
	bundle, err := engine.ReadBundle(&file)
	if err != nil {
		return err
	}
	found, err := engine.Verify(ctx, bundle, s.comp.sandbox, s.comp.screener)
	if err != nil {
		return err
	}
	s.show("verified offline", "%d rows, %d of %d reconstructions made again", found.Rows, found.Reconstructions, found.Admissions)
	return must(view.Position == "completed" && found.Admissions == found.Reconstructions && found.Admissions == reconstructions, "%s, %d of %d",
		view.Position, found.Reconstructions, found.Admissions)
}

func (s *story) observations(ctx context.Context) error {
	c, err := s.open(ctx, load.Options{Variant: "siblings-list-files"}, nil)
	if err != nil {
		return err
	}
	s.step("What is not known")
	s.say("The response called list_files three times beside the rejected evidence read. The worker stopped before it could keep any " +
		"result: whether those reads finished nobody can tell, and Forge does not run them again.")
	for _, h := range c.Holds {
		printHold(s.out, h, "     ")
	}
	if err := must(len(c.Holds) == 1 && c.Holds[0].Code == models.CodeSettingOff, "holds %v", c.Holds); err != nil {
		return err
	}
	s.step("The administrator turns that switch on; the original actor admits version 2")
	now, err := s.people.Administrator.Policy(ctx)
	if err != nil {
		return err
	}
	now.AllowUnavailableSourceObservations = true
	if _, err := s.people.Administrator.PutPolicy(ctx, now.Policy); err != nil {
		return err
	}
	if s.candidate, err = s.dana.Candidate(ctx, storyRun); err != nil {
		return err
	}
	_, err = s.dana.RequestContinuity(ctx, storyRun, storyRequest, s.body())
	if err := s.refused(err, models.CodeVersionMismatch); err != nil {
		return err
	}
	s.show("version 1", "refused: %s", models.CodeVersionMismatch)
	body := s.body()
	body.Version, body.AcknowledgeUnavailableSourceObservations = 2, true
	if s.receipt, err = s.dana.RequestContinuity(ctx, storyRun, storyRequest, body); err != nil {
		return err
	}
	for _, r := range s.receipt.Receipt.Closing {
		s.show("closing result", "call %d gets %s", r.Position, r.Result)
	}
	s.step("A worker goes on")
	if err := s.finish(ctx, storyClaim, 1); err != nil {
		return err
	}
	return must(len(s.receipt.Receipt.Closing) == 4 && s.receipt.Receipt.Counters == s.atStop, "closing %v", s.receipt.Receipt.Closing)
}

func (s *story) neverClaimed(ctx context.Context) error {
	if _, err := s.open(ctx, load.Options{}, nil); err != nil {
		return err
	}
	s.step("Admitted for one second, and nobody comes")
	if err := s.admitted(ctx, 1); err != nil {
		return err
	}
	time.Sleep(time.Until(time.UnixMicro(int64(s.receipt.Receipt.ExpiresAt))) + 50*time.Millisecond)
	_, err := s.people.SecondWorker.Claim(ctx, storyRun, storyClaim, 600)
	if err := s.refused(err, models.CodeLeaseExpired); err != nil {
		return err
	}
	s.show("a late claim", "refused: %s", models.CodeLeaseExpired)
	s.step("Reviewed: the whole history shows that no worker ever claimed it")
	before, err := s.rows(ctx, storyRun)
	if err != nil {
		return err
	}
	c, err := s.dana.RecoveryCandidate(ctx, storyRun, storyRequest)
	if err != nil {
		return err
	}
	s.show("eligible", "%t, request %s, attempt %d, at most %d s", c.Eligible, c.RequestID, c.Attempt, c.PermittedSeconds)
	body := models.RecoverNeverClaimed{AcknowledgeNeverClaimed: true, AcknowledgeOriginalConsumptionAndBudgets: true, AcknowledgeRenewedSameAttemptLease: true,
		AcknowledgeSameRequestAndAttempt: true, CandidateDigest: c.CandidateDigest, JournalDigest: c.JournalDigest, PolicyDigest: c.PolicyDigest,
		RunDigest: c.RunDigest, ValidForSeconds: 900, Version: 1}
	saved, err := s.dana.RequestRecovery(ctx, storyRun, storyRequest, "recover-4711", body)
	if err != nil {
		return err
	}
	if err := s.appended(ctx, len(before), "lease.lapsed", "never_claimed_recovery", "request.requeued", "lease.granted"); err != nil {
		return err
	}
	_, err = s.dana.RequestRecovery(ctx, storyRun, storyRequest, "recover-4711-again", body)
	if err := s.refused(err, models.CodeRecoveryRecorded); err != nil {
		return err
	}
	s.show("another recovery", "refused: %s", models.CodeRecoveryRecorded)
	s.say("The receipt says: %s", saved.Receipt.Establishes)
	s.step("This time a worker comes")
	return s.finish(ctx, storyClaim, 1)
}

// refuse plays the refusal and its reviewed recovery.
func (s *story) refuse(ctx context.Context) error {
	if err := s.admitted(ctx, 900); err != nil {
		return err
	}
	s.step("A worker claims it, and the provider refuses its first request while validating")
	review, err := load.Refuse(ctx, s.dana, s.people.SecondWorker, s.recording, storyRun, "claim-refused", nil)
	if err != nil {
		return err
	}
	view, err := s.dana.Run(ctx, storyRun)
	if err != nil {
		return err
	}
	s.show("ticket", "%s; requests %d, the refused one counted", view.Tickets[0].State, view.Counters.Requests)
	s.step("An administrator reviews what happened: an assertion with pinned evidence, not a provider's word")
	c, err := s.dana.RejectedBoundaryCandidate(ctx, storyRun, storyRequest, withDigests(review))
	if err != nil {
		return err
	}
	for _, h := range c.Holds {
		printHold(s.out, h, "     ")
	}
	if err := must(!c.Eligible, "eligible without reports"); err != nil {
		return err
	}
	correction, err := load.PutReports(ctx, s.people.Administrator, &review)
	if err != nil {
		return err
	}
	before, err := s.rows(ctx, storyRun)
	if err != nil {
		return err
	}
	if c, err = s.dana.RejectedBoundaryCandidate(ctx, storyRun, storyRequest, review); err != nil {
		return err
	}
	s.show("with reports", "eligible %t; rendered again in the sandbox: %d bytes, SHA-256 %s, as sent: %t", c.Eligible, c.ReproducedLength,
		short(c.Reproduced), c.Reproduced == review.Wire)
	saved, err := s.dana.RequestRejectedBoundaryRecovery(ctx, storyRun, storyRequest, "recover-refused", forge.RejectedBoundaryRecoveryInputV1{
		AcknowledgeFiniteOwnershipLease: true, AcknowledgeNoOriginalResponseOrToolReplay: true, AcknowledgeReviewedProviderEpoch: true,
		AcknowledgeSameRequestAndBudgets: true, CandidateDigest: c.CandidateDigest, CorrectiveEpoch: load.CorrectiveEpoch, CorrectiveValidation: correction,
		Review: review, ValidForSeconds: 900})
	if err != nil {
		return err
	}
	s.say("The receipt says: %s", saved.Receipt.ReviewedBy)
	return s.appended(ctx, len(before), "refusal.settled", "request.requeued", "lease.granted")
}

// withDigests names reports that nobody keeps.
func withDigests(r models.ReviewedProviderRejectionV1) models.ReviewedProviderRejectionV1 {
	r.SourceValidator, r.ExecutableProbe = models.PlainDigest([]byte("no report")), models.PlainDigest([]byte("no report either"))
	return r
}

func (s *story) refusedBoundary(ctx context.Context) error {
	if _, err := s.open(ctx, load.Options{}, func(p *models.Policy) { p.AllowPreAdmissionRecovery = true }); err != nil {
		return err
	}
	s.step("Admitted")
	if err := s.refuse(ctx); err != nil {
		return err
	}
	s.step("A worker carries the pending request on")
	return s.finish(ctx, storyClaim, 1)
}

func (s *story) lostObservation(ctx context.Context) error {
	if _, err := s.open(ctx, load.Options{}, func(p *models.Policy) {
		p.AllowPreAdmissionRecovery, p.AllowReadonlyObservationRecovery = true, true
	}); err != nil {
		return err
	}
	s.step("Admitted")
	if err := s.refuse(ctx); err != nil {
		return err
	}
	s.step("Its next turn reads evidence, and the result cannot be kept")
	if err := load.Lose(ctx, s.people.SecondWorker, s.recording, storyRun, "claim-lost"); err != nil {
		return err
	}
	before, err := s.rows(ctx, storyRun)
	if err != nil {
		return err
	}
	c, err := s.dana.ReadonlyObservationCandidate(ctx, storyRun, storyRequest)
	if err != nil {
		return err
	}
	for _, r := range c.Closing {
		s.show("closing result", "call %d gets %s", r.Position, r.Result)
	}
	saved, err := s.dana.RequestReadonlyObservationRecovery(ctx, storyRun, storyRequest, "recover-lost", forge.ReadonlyObservationRecoveryInputV1{
		AcknowledgeFiniteOwnershipLease: true, AcknowledgeNoOriginalCallbackReplay: true, AcknowledgeSameRequestAttemptAndBudgets: true,
		AcknowledgeUnavailableObservation: true, CandidateDigest: c.CandidateDigest, ValidForSeconds: 900})
	if err != nil {
		return err
	}
	if err := s.appended(ctx, len(before), "readonly_observation_recovery", "request.requeued", "lease.granted"); err != nil {
		return err
	}
	after, err := s.rows(ctx, storyRun)
	if err != nil {
		return err
	}
	s.show("the lost result", "row %d says that it is unknown, unchanged: %t", last(before, "agentic_tool_unknown"), same(before, after, "agentic_tool_unknown"))
	s.step("The next request shows the model what is not known")
	w := &load.Continuer{Client: s.people.SecondWorker, Endpoint: s.stubBase}
	claimed, err := w.Claim(ctx, s.recording, storyRun, storyClaim, 600)
	if err != nil {
		return err
	}
	wire, err := w.Next()
	if err != nil {
		return err
	}
	shown := bytes.Contains(wire, []byte("original_read_result_not_retained"))
	s.show("claimed", "fence %d, from the derived checkpoint %s", claimed.Claim.Fence, short(claimed.Claim.Checkpoint))
	s.show("next request", "%d bytes, says that the observation is unavailable: %t", len(wire), shown)
	return must(shown && claimed.Claim.Checkpoint == saved.Receipt.Derived && same(before, after, "agentic_tool_unknown"), "the next request hides it")
}

func (s *story) stops(ctx context.Context) error {
	if _, err := s.open(ctx, load.Options{}, nil); err != nil {
		return err
	}
	s.step("Admitted and claimed")
	if err := s.admitted(ctx, 900); err != nil {
		return err
	}
	w := &load.Continuer{Client: s.people.SecondWorker, Endpoint: s.stubBase}
	if _, err := w.Claim(ctx, s.recording, storyRun, storyClaim, 600); err != nil {
		return err
	}
	s.step("The administrator switches the policy off while the worker is at it")
	now, err := s.people.Administrator.Policy(ctx)
	if err != nil {
		return err
	}
	off := now.Policy
	off.Enabled = false
	if now, err = s.people.Administrator.PutPolicy(ctx, off); err != nil {
		return err
	}
	asked := s.stub.Requests()
	_, err = w.Turn(ctx)
	if err := s.refused(err, models.CodePolicyDisabled); err != nil {
		return err
	}
	s.show("the next request", "refused before it leaves: %s; the provider was asked %d times", models.CodePolicyDisabled, s.stub.Requests()-asked)
	if _, err := s.people.Administrator.PutPolicy(ctx, load.PolicyOn(now.Policy, storyWindow)); err != nil {
		return err
	}
	_, err = w.Turn(ctx)
	if err := s.refused(err, models.CodePolicyDisabled); err != nil {
		return err
	}
	s.show("switched on again", "still refused: a stop is not undone for those that met it")
	work, err := s.people.Worker.Work(ctx, 0)
	if err != nil {
		return err
	}
	s.show("announced", "to %d workers: a claimed ticket is never queued again by the system", len(work))
	s.step("The general ways on refuse, and cancelling ends it")
	_, err = s.dana.Retry(ctx, storyRun, "retry-1")
	if err := s.refused(err, models.CodeTicketOutstanding); err != nil {
		return err
	}
	s.show("retry", "refused: %s", models.CodeTicketOutstanding)
	if _, err := s.dana.Cancel(ctx, storyRun, "cancel-1"); err != nil {
		return err
	}
	_, err = w.Turn(ctx)
	if err := must(err != nil, "the worker goes on after the cancellation"); err != nil {
		return err
	}
	s.show("cancelled", "the worker's next report is refused, and nothing goes on")
	return must(s.stub.Requests() == asked && len(work) == 0, "%d requests, %d announced", s.stub.Requests()-asked, len(work))
}

func (s *story) credentials(ctx context.Context) error {
	const key = "ghp_b8107e28a54da81906d1db852bd00a37f3d0" // the form of a key, made for this demo
	c, err := s.open(ctx, load.Options{Content: func(_ string, data []byte) []byte {
		return bytes.ReplaceAll(data, []byte("Find out why"), []byte(key))
	}}, nil)
	if err != nil {
		return err
	}
	s.step("A key stands in the history")
	for _, h := range c.Holds {
		printHold(s.out, h, "     ")
	}
	if err := must(len(c.Holds) == 1 && c.Holds[0].Code == models.CodeCredentialFound && !strings.Contains(c.Holds[0].Error(), key), "holds %v", c.Holds); err != nil {
		return err
	}
	checkpoint, err := lastCheckpoint(s.held)
	if err != nil {
		return err
	}
	_, err = s.people.Reader.Inspect(ctx, storyRun, checkpoint)
	if err := s.refused(err, models.CodeCredentialFound); err != nil {
		return err
	}
	s.show("inspection", "refused too: rule and place are told, the value never, and nothing is masked")
	s.step("An administrator looked at it, and waives that one finding in that one record")
	hold := c.Holds[0]
	waiver := models.WaiveCredential{Blob: checkpoint, Path: hold.Detail("path"), Rule: hold.Detail("rule"), RuleSet: s.comp.engine.Host().Screening}
	if _, err := s.people.Administrator.WaiveCredential(ctx, storyRun, "waive-4711", waiver); err != nil {
		return err
	}
	if err := s.appended(ctx, len(s.held), "credential.waived"); err != nil {
		return err
	}
	seen, err := s.people.Reader.Inspect(ctx, storyRun, checkpoint)
	if err != nil {
		return err
	}
	s.show("inspected", "%d bytes as stored, after %s", len(seen.Text), strings.Join(seen.Checks, ", "))
	_, err = s.dana.Restore(ctx, storyRun, checkpoint)
	if err := s.refused(err, models.CodeRestoreRefused); err != nil {
		return err
	}
	s.show("ordinary restore", "refused: %s; inspection gives nothing that could be resumed", models.CodeRestoreRefused)
	if s.candidate, err = s.dana.Candidate(ctx, storyRun); err != nil {
		return err
	}
	s.step("The admission spends the waiver")
	if err := s.admitted(ctx, 900); err != nil {
		return err
	}
	_, err = s.people.Reader.Inspect(ctx, storyRun, checkpoint)
	if err := s.refused(err, models.CodeCredentialFound); err != nil {
		return err
	}
	s.show("inspected again", "refused: the waiver was for one use")
	return must(len(s.receipt.Receipt.Waived) == 1, "waived %v", s.receipt.Receipt.Waived)
}

// lastCheckpoint is the newest checkpoint that rows name.
func lastCheckpoint(rows []forge.Row) (models.Digest, error) {
	for _, r := range slices.Backward(rows) {
		if r.Kind == (models.CheckpointSaved{}).Kind() {
			var e models.CheckpointSaved
			err := json.Unmarshal(r.Payload, &e)
			return e.Checkpoint, err
		}
	}
	return models.Digest{}, errors.New("no checkpoint was recorded")
}
