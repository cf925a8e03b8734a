package line

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api"
	"github.com/forge-continuity/forge/server/api/apitest"
	"github.com/forge-continuity/forge/server/engine"
)

// tells reports whether a text says a word: as it stands, or in a JSON string, base64 or hexadecimal digits of it.
func tells(text []byte, word string) bool {
	if bytes.Contains(text, []byte(word)) || bytes.Contains(text, []byte(hex.EncodeToString([]byte(word)))) {
		return true
	}
	var inside func(v any) bool
	inside = func(v any) bool {
		switch v := v.(type) {
		case string:
			if strings.Contains(v, word) {
				return true
			}
			data, err := base64.StdEncoding.DecodeString(v)
			return err == nil && len(data) >= len(word) && bytes.Contains(data, []byte(word))
		case []any:
			return slices.ContainsFunc(v, inside)
		case map[string]any:
			for name, member := range v {
				if inside(name) || inside(member) {
					return true
				}
			}
		}
		return false
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var v any
		if decoder.Decode(&v) != nil {
			return false
		}
		if inside(v) {
			return true
		}
	}
}

// ear hears everything that a server says about runs in whose content a word was planted.
type ear struct {
	*stage
	word    string
	content int // answers that gave content to somebody who may read it, the word in it
}

// hear sends a request and looks at all of the answer. right says that content is what this route gives to these people; then the part
// of the answer that is content is left out, and everything else is looked at.
func (e *ear) hear(t *testing.T, c apitest.Call, right bool) apitest.Answer {
	t.Helper()
	a := e.Send(t, c)
	body := a.Body
	if right && a.Status == http.StatusOK {
		var told bool
		body, told = withoutContent(c, body, e.word)
		if told {
			e.content++
		}
	}
	header := fmt.Sprint(a.Header)
	if tells(body, e.word) || strings.Contains(header, e.word) {
		t.Errorf("%s %s as %q tells it: %d %.600s %s", c.Method, c.Path, c.As, a.Status, body, header)
	}
	return a
}

// withoutContent leaves out of an answer what its route is for: a blob, a report, the blobs of an export, and of an inspection the
// text and what is read out of it.
func withoutContent(c apitest.Call, body []byte, word string) (rest []byte, told bool) {
	switch {
	case strings.Contains(c.Path, "/blobs/"), strings.Contains(c.Path, "/reports/"):
		return nil, tells(body, word)
	case strings.HasSuffix(c.Path, "/export"):
		for line := range bytes.Lines(body) {
			if bytes.HasPrefix(line, []byte(`{"blob":`)) || bytes.HasPrefix(line, []byte(`{"report":`)) {
				told = told || tells(line, word)
				continue
			}
			rest = append(rest, line...)
		}
		return rest, told
	case strings.HasSuffix(c.Path, "/inspection"):
		var members map[string]json.RawMessage
		if json.Unmarshal(body, &members) != nil {
			return body, false
		}
		told = tells(members["text"], word)
		for _, name := range []string{"text", "source_identity", "dependency_epoch", "firefly_agentic", "pydantic_ai"} {
			delete(members, name)
		}
		rest, _ = json.Marshal(members)
		return rest, told
	}
	return body, false
}

// Those who may not read, from another factory and without an identity too; and everybody who may, of whom one stands for the others
// where the answers come from the same place.
var (
	strangers = []string{apitest.Nobody, apitest.Stranger, ""}
	readers   = []string{apitest.Dana, apitest.Administrator, apitest.Operator, apitest.Worker, apitest.Reader}
)

// around asks everything about a run as these people and as strangers.
func (e *ear) around(t *testing.T, run string, people ...string) {
	t.Helper()
	var digests []string // of content that has the word, some of it
	request := ""
	for _, row := range e.rows(t, run) {
		for _, d := range row.Blobs {
			data, err := e.Store.Blob(t.Context(), apitest.Factory, run, d)
			if err != nil {
				t.Fatal(err)
			}
			if len(digests) < 3 && bytes.Contains(data, []byte(e.word)) && !slices.Contains(digests, d.String()) {
				digests = append(digests, d.String())
			}
		}
		if event, err := models.DecodeEvent(row.Kind, row.Payload); err == nil {
			if settled, ok := event.(models.MigrationSettled); ok {
				request = settled.RequestID
			}
		}
	}
	checkpoint := e.turn(t, run).String()
	for _, as := range slices.Concat(people, strangers) {
		member := !slices.Contains(strangers, as)
		for _, route := range api.Routes() {
			if route.Method != http.MethodGet || route.Public || strings.Contains(route.Path, "{request_id}") && request == "" || strings.HasSuffix(route.Path, "/work") {
				continue
			}
			if strings.HasPrefix(route.Path, "/api/v1/reports/") {
				continue
			}
			path := strings.NewReplacer("{run_id}", run, "{request_id}", request).Replace(route.Path)
			names := []string{checkpoint}
			if strings.Contains(path, "/blobs/") {
				names = digests
			}
			for _, d := range names {
				right := member && (strings.Contains(path, "/blobs/") || as != apitest.Worker)
				e.hear(t, apitest.Call{As: as, Method: http.MethodGet, Path: strings.Replace(path, "{digest}", d, 1)}, right)
				if !strings.Contains(path, "{digest}") {
					break
				}
			}
		}
	}
}

// refusals sends what could be asked for a run, in every form that is refused or is not, with the word in headers that nobody asked for.
func (e *ear) refusals(t *testing.T, run string, c models.Candidate) {
	t.Helper()
	base := "/runs/" + run + "/invalid-read-continuity/requests"
	two := acceptTwo(c, 600)
	unknown := models.Reconcile{AcknowledgeNoReplay: true, AcknowledgeOriginalRecordUnchanged: true, AcknowledgeOriginalUseCharged: true, AcknowledgeUnknownOutcome: true,
		Outcome: models.OutcomeChargedUnknown, Seq: 1, Subject: models.SubjectCall}
	header := map[string]string{"User-Agent": e.word, "Cookie": "reason=" + e.word, "X-Forwarded-For": e.word, "Referer": "https://" + e.word}
	reason := fmt.Sprintf(`{"reason":%q}`, e.word)
	for _, call := range []apitest.Call{
		{As: apitest.Operator, Method: http.MethodPost, Path: base + "/other", Body: apitest.Accept(c, 600)},
		{As: apitest.Dana, Method: http.MethodPost, Path: base + "-v2/two-" + run, Body: two},
		{As: apitest.Dana, Method: http.MethodPost, Path: base + "/one-" + run, Body: apitest.Accept(c, 600)},
		{As: apitest.Operator, Method: http.MethodPut, Path: "/runs/" + run + "/retries/retry", Body: models.RetryRun{}},
		{As: apitest.Worker, Method: http.MethodPut, Path: "/runs/" + run + "/claims/later", Body: models.ClaimRun{LeaseSeconds: 1}},
		{As: apitest.Worker, Method: http.MethodPut, Path: "/runs/" + run + "/releases/later", Body: models.ReleaseRun{Fence: 1, Pool: "gpu"}},
		{As: apitest.Operator, Method: http.MethodPut, Path: "/runs/" + run + "/reconciliations/later", Body: unknown},
		{As: apitest.Operator, Method: http.MethodPut, Path: "/runs/" + run + "/verifications/later", Body: models.AdmitVerification{Round: 1}},
		{As: apitest.Operator, Method: http.MethodPost, Path: "/runs/" + run + "/evidence", Body: e.word},
		{As: apitest.Worker, Method: http.MethodPut, Path: "/runs/" + run + "/blobs/" + c.RunDigest.String(), Body: e.word, Header: map[string]string{"Forge-Fence": "1"}},
		{As: apitest.Dana, Method: http.MethodPut, Path: "/reports/" + c.RunDigest.String(), Body: e.word},
		{As: apitest.Operator, Method: http.MethodPut, Path: "/runs/" + run + "/cancellations/later", Body: reason},
		{As: apitest.Operator, Method: http.MethodPut, Path: "/runs/" + run + "/reconciliations/later", Body: reason},
		{As: apitest.Dana, Method: http.MethodPost, Path: base + "/one-" + run + "/recoveries/later", Body: reason},
		{As: apitest.Dana, Method: http.MethodPost, Path: base + "/one-" + run + "/rejected-boundary-candidate", Body: reason},
		{As: apitest.Reader, Method: http.MethodGet, Path: "/runs?reason=" + e.word},
		{Token: "forge_" + e.word, Method: http.MethodGet, Path: "/runs"},
	} {
		if call.Header == nil {
			call.Header = map[string]string{}
		}
		for name, value := range header {
			call.Header[name] = value
		}
		e.hear(t, call, false)
	}
}

// quiet asks that neither the log nor an examination of the store says it.
func (e *ear) quiet(t *testing.T) {
	t.Helper()
	for _, line := range e.Log.Lines() {
		if tells([]byte(line), e.word) {
			t.Errorf("the log tells it: %.600s", line)
		}
	}
	err := e.Engine.Doctor(t.Context(), func(f engine.Finding) {
		if f.Fault != nil && tells([]byte(f.Fault.Error()), e.word) {
			t.Errorf("the examination tells it: %v", f.Fault)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Log.Lines("access")) == 0 {
		t.Error("the log is empty")
	}
}

// A place of a run's content, and how a word gets there: bytes of a kind of step are replaced, everywhere where step is "".
type place struct {
	name, step, from, to string
	member               bool // the word is the name of a member, of which a path tells unless it is a key (SDK-18)
}

// places are where a person's, a model's, a tool's or a provider's text may stand. W stands for the word.
var places = []place{
	{name: "task", from: "Find out why", to: "W"},
	{name: "instructions", step: "checkpoint", from: "Say only what you have seen", to: "W"},
	{name: "arguments in the history", from: `\"target\":\"nightly\"`, to: `\"target\":\"W\"`},
	{name: "a member of arguments", from: `\"target\":\"nightly\"`, to: `\"W\":\"nightly\"`, member: true},
	{name: "a tool's result", step: "checkpoint", from: `"totals.py"]`, to: `"W"]`},
	{name: "a tool's name", step: "checkpoint", from: `"tool_name":"list_files"`, to: `"tool_name":"W"`},
	{name: "a call's id", step: "checkpoint", from: `"tool_call_id":"call_J59PJOMKE57FOIU94C0d1Lnq"`, to: `"tool_call_id":"W"`},
	{name: "an unknown member of a part", step: "checkpoint", from: `,"part_kind":"user-prompt"`, to: `,"W":1,"part_kind":"user-prompt"`, member: true},
	{name: "an unknown member of many parts", step: "checkpoint", from: `,"id":null,"part_kind":"tool-call"`, to: `,"W":1,"id":null,"part_kind":"tool-call"`, member: true},
	{name: "an unknown kind of part", step: "checkpoint", from: `"part_kind":"user-prompt"`, to: `"part_kind":"W"`},
	{name: "metadata", step: "checkpoint", from: `"metadata":null,"outcome"`, to: `"metadata":{"W":"W"},"outcome"`, member: true},
	{name: "settings", step: "checkpoint", from: `"settings":{"max_tokens"`, to: `"settings":{"W":1,"max_tokens"`, member: true},
	{name: "a counter", step: "checkpoint", from: `"audio_tokens":0,"reasoning_tokens":96`, to: `"audio_tokens":0,"W":1,"reasoning_tokens":96`, member: true},
	{name: "a counter's value", step: "checkpoint", from: `"reasoning_tokens":96`, to: `"reasoning_tokens":"W"`},
	{name: "a version", step: "checkpoint", from: `"pydantic_ai":"2.55.0"`, to: `"pydantic_ai":"W"`, member: true},
	{name: "the other version", step: "checkpoint", from: `"firefly_agentic":"26.10.1"`, to: `"firefly_agentic":"W"`, member: true},
	{name: "the source identity", step: "checkpoint", from: `"source_identity":"`, to: `"source_identity":"W`},
	{name: "the model's address", step: "checkpoint", from: `http://127.0.0.1:8917`, to: `http://user:W@127.0.0.1:8917`},
	{name: "no JSON", step: "checkpoint", from: `{"compatibility"`, to: `W {"compatibility"`},
	{name: "twice the member", step: "checkpoint", from: `{"compatibility":null`, to: `{"W":1,"W":2,"compatibility":null`, member: true},
	{name: "the wire", step: "request", from: `"model":`, to: `"W":"W","model":`, member: true},
	{name: "the query", step: "response", from: `\"target\":\"nightly\"`, to: `\"target\":\"W\"`},
	{name: "a member of the query", step: "response", from: `\"page\":1`, to: `\"W\":1`, member: true},
	{name: "text beside the call", step: "response", from: `"content": null`, to: `"content": "W"`},
	{name: "an unknown tool", step: "response", from: `"name": "read_run_evidence"`, to: `"name": "W"`},
	{name: "the call's id", step: "response", from: `"call_PZsF1KmjpkxSKkvzx3cTDmEF"`, to: `"W"`},
	{name: "the response's id", step: "response", from: `"chatcmpl-xvIPoYpz7COjl2T69RQtiq5lDE5A2"`, to: `"W"`},
	{name: "an unknown member of the response", step: "response", from: `"object":`, to: `"W": 1, "object":`, member: true},
	{name: "an unknown member of the message", step: "response", from: `"refusal": null`, to: `"refusal": null, "W": {"W": 1}`, member: true},
	{name: "a refusal by the model", step: "response", from: `"refusal": null`, to: `"refusal": "W"`},
	{name: "why it finished", step: "response", from: `"finish_reason": "tool_calls"`, to: `"finish_reason": "W"`},
	{name: "a command's output", step: "outcome", from: `"exit_code":`, to: `"W":"W","exit_code":`, member: true},
	{name: "a command's receipt", step: "command_finished", from: `{"`, to: `{"W":"W","`, member: true},
	{name: "the worker's report", step: "worker_failed", from: "", to: "W"},
}

func (p place) content(word string) func(string, []byte) []byte {
	return func(step string, data []byte) []byte {
		if p.step != "" && step != p.step && !(p.step == "response" && step == "consume") {
			return data
		}
		to := strings.ReplaceAll(p.to, "W", word)
		if p.from == "" {
			return append([]byte(to+" "), data...)
		}
		n := -1
		if p.step == "command_finished" {
			n = 1
		}
		return bytes.Replace(data, []byte(p.from), []byte(to), n)
	}
}

// What was planted in the content of a run is told by nothing but the content itself, to those who may read it: by no hold, refusal,
// receipt, row, head or list, no line of the log, and no examination, wherever it stands and whoever asks. Once with a word, and once
// with a key of a known form and the real screening, which is not told either where it stands in a name that a path has.
// CRED-08 (never the value), CRED-05 (who may not read), design (rows carry no content).
func TestNothingPlantedIsTold(t *testing.T) {
	set, err := rules()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		word     string
		screener engine.Screener
	}{{"word", planted, nil}, {"key", key, set}} {
		for _, store := range stores {
			t.Run(c.name+"/"+store.name, func(t *testing.T) {
				e := &ear{stage: setUp(t, store.open(t), "2.55.0", apitest.Options{Policy: everySwitch(), Screener: c.screener}), word: c.word}
				for i, p := range places {
					// A key in a value is screened like a word; what a store could tell does not depend on the place.
					if p.member != (c.screener != nil) && i > 0 || store.name != "sqlite" && i%5 != 0 {
						continue
					}
					run := fmt.Sprintf("place-%d", i)
					was, changed := p.content(c.word), false
					candidate := e.held(t, run, load.Options{Content: func(step string, data []byte) []byte {
						out := was(step, data)
						changed = changed || !bytes.Equal(out, data)
						return out
					}})
					if !changed {
						t.Fatalf("%s: nothing was planted", p.name)
					}
					before := e.content
					e.refusals(t, run, candidate)
					e.around(t, run, readers[:1]...)
					if e.content == before {
						t.Errorf("%s: it stands nowhere", p.name)
					}
					if t.Failed() {
						t.Fatalf("planted in %s", p.name)
					}
				}
				e.quiet(t)
			})
		}
	}
}

// way takes a run through every workflow, with the planted word in its content and in everything that is said to be so: by a refusing
// provider, in a review, in a report, in a worker's report, in evidence, and by a server that starts. Between two steps it asks.
func (s *stage) way(t *testing.T, run string, ask func()) {
	t.Helper()
	ctx := t.Context()
	c := s.held(t, run, load.Options{Content: plant(planted)})
	if !c.Eligible {
		t.Fatalf("%v", codes(c))
	}
	ask()
	if _, err := s.dana.RequestContinuity(ctx, run, "req-1", apitest.Accept(c, 600)); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Engine.AnnotateStartup(ctx, "boot-1"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	ask()

	w := &load.Continuer{Client: s.worker}
	claimed, err := w.Claim(ctx, s.recording, run, "claim-2", 600)
	if err != nil {
		t.Fatal(err)
	}
	wire, err := w.Next()
	if err != nil || !bytes.Contains(wire, []byte(planted)) {
		t.Fatalf("%.300s %v", wire, err)
	}
	recorder := load.Recorder{Client: s.worker, Run: run, Salt: claimed.Salt, Fence: claimed.Claim.Fence, Prefix: "way-2"}
	put := func(r *load.Recorder, what string) models.Digest {
		t.Helper()
		d, err := r.Put(ctx, []byte(what))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	record := func(r *load.Recorder, facts ...models.Fact) {
		t.Helper()
		if err := r.Record(ctx, "all", facts...); err != nil {
			t.Fatal(err)
		}
	}
	review := models.ReviewedProviderRejectionV1{Endpoint: "https://user:" + planted + "@provider.test/v1", Executable: "exec-1", Model: planted, Principal: planted,
		ProviderEpoch: "epoch-1", SourceRevision: fmt.Sprint(s.show(t, run).Registration.Source.Revision), Wire: models.PlainDigest(wire), WireLength: int64(len(wire))}
	refusal := put(&recorder, planted+": the provider refused: 422")
	record(&recorder,
		models.RequestIssued{Checkpoint: claimed.Claim.Checkpoint, Request: claimed.Claim.Counters.Requests + 1, Wire: review.Wire, WireBlob: put(&recorder, string(wire)), WireLength: review.WireLength,
			Provider: models.ProviderDigest(review.Endpoint, review.Executable, review.Model, review.Principal, review.ProviderEpoch)},
		models.RequestRefused{Report: refusal, Request: claimed.Claim.Counters.Requests + 1}, models.WorkerFailed{Report: refusal})
	if _, err := s.admin.PutReport(ctx, fmt.Appendf(nil, `{"at_us":1,"executable_identity":"exec-1","format":%q,"found":%q,"kind":"executable_probe","provider_epoch":"epoch-1","source_revision":"1"}`,
		models.ReportFormat, planted)); err != nil {
		t.Fatal(err)
	}
	ask()
	s.settle(t, run, review)
	ask()

	if err := load.Lose(ctx, s.worker, s.recording, run, "claim-3"); err != nil {
		t.Fatal(err)
	}
	ask()
	got, err := s.dana.ReadonlyObservationCandidate(ctx, run, "req-1")
	if err != nil || !got.Eligible {
		t.Fatalf("%v %v", got.Holds, err)
	}
	if _, err := s.dana.RequestReadonlyObservationRecovery(ctx, run, "req-1", "rec-2", forge.ReadonlyObservationRecoveryInputV1{
		AcknowledgeFiniteOwnershipLease: true, AcknowledgeNoOriginalCallbackReplay: true, AcknowledgeSameRequestAttemptAndBudgets: true,
		AcknowledgeUnavailableObservation: true, CandidateDigest: got.CandidateDigest, ValidForSeconds: 600,
	}); err != nil {
		t.Fatal(err)
	}
	ask()

	last, err := s.worker.Claim(ctx, run, "claim-4", 600)
	if err != nil {
		t.Fatal(err)
	}
	recorder = load.Recorder{Client: s.worker, Run: run, Salt: last.Salt, Fence: last.Claim.Fence, Prefix: "way-4"}
	record(&recorder, models.CommandStarted{Command: put(&recorder, "make "+planted), Number: last.Claim.Counters.Commands + 1, Position: -1},
		models.WorkerFailed{Report: put(&recorder, "the disk is full: /home/"+planted)})
	evidence, err := s.operator.PutEvidence(ctx, run, []byte("seen at "+planted))
	if err != nil {
		t.Fatal(err)
	}
	u := s.show(t, run).Unknown[0]
	if _, err := s.operator.Reconcile(ctx, run, "settle", models.Reconcile{AcknowledgeNoReplay: true, AcknowledgeOriginalRecordUnchanged: true,
		AcknowledgeOriginalUseCharged: true, Evidence: evidence, Outcome: models.OutcomeDidNotHappen, RequestID: u.RequestID, Seq: u.Seq, Subject: u.Subject}); err != nil {
		t.Fatal(err)
	}
	ask()
}

// The same of a run that goes through every workflow. REFUSED-12 (the texts of a review), CRED-08.
func TestNothingPlantedIsToldOnTheWay(t *testing.T) {
	boundary(t, func(t *testing.T, s *stage) {
		e := &ear{stage: s, word: planted}
		e.way(t, "run-1", func() { e.around(t, "run-1", readers[:1]...) })
		e.refusals(t, "run-1", e.candidate(t, "run-1"))
		e.around(t, "run-1", readers...)
		e.quiet(t)
		if e.content == 0 {
			t.Error("it stands nowhere")
		}
	})
}
