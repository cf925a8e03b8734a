package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/server/api"
	. "github.com/forge-continuity/forge/server/api/apitest"
)

const policyPath = "/invalid-read-continuity/policy"

func getPolicy(t *testing.T, w *World) api.PolicyShown {
	t.Helper()
	return Must[api.PolicyShown](t, w, http.StatusOK, Call{As: Dana, Method: http.MethodGet, Path: policyPath})
}

func putPolicy(t *testing.T, w *World, as string, p models.Policy) Answer {
	t.Helper()
	return w.Send(t, Call{As: as, Method: http.MethodPut, Path: policyPath, Body: p})
}

// refused asks for the code, with the status of the table.
func refused(t *testing.T, a Answer, code models.Code) api.Problem {
	t.Helper()
	entry, _ := models.Lookup(code)
	p := a.Problem()
	if p.Code != code || a.Status != entry.HTTP || a.Header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("answered %d %s, want %d %s", a.Status, a.Body, entry.HTTP, code)
	}
	return p
}

// FLOW-01: every role but administrator gets 403 and the revision stays.
func TestOnlyAnAdministratorSetsThePolicy(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		for _, as := range []string{Operator, Worker, Reader, Nobody} {
			refused(t, putPolicy(t, w, as, *Enabled()), models.CodeRoleMissing)
			if got := getPolicy(t, w); got.Revision != 0 || got.Enabled {
				t.Fatalf("after a PUT by %s: %+v", as, got)
			}
		}
		w.SetRoles(t, Dana, false, models.RoleOperator) // "current": a role that was withdrawn does not count
		refused(t, putPolicy(t, w, Dana, *Enabled()), models.CodeRoleMissing)
		if a := putPolicy(t, w, Administrator, *Enabled()); a.Status != http.StatusOK {
			t.Fatalf("administrator: %d %s", a.Status, a.Body)
		}
	})
}

// FLOW-02: each PUT makes a revision, earlier ones stay readable, receipts name theirs.
// FLOW-05: GET returns what was set, with revision and digest.
func TestPolicyRevisions(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		var put []api.PolicyShown
		for n := range 3 {
			p := *Enabled()
			p.Revision, p.MaxTicketsPerRun = int64(n), int64(51+n)
			a := Must[api.PolicyShown](t, w, http.StatusOK, Call{As: Dana, Method: http.MethodPut, Path: policyPath, Body: p})
			if a.Revision != int64(n+1) || a.Digest.IsZero() || a != getPolicy(t, w) {
				t.Fatalf("put %+v, get %+v", a, getPolicy(t, w))
			}
			want := p
			want.Revision = a.Revision
			if a.Policy != want {
				t.Fatalf("set %+v, got %+v", want, a.Policy)
			}
			// The same PUT again is the same revision; other content against a replaced revision is stale (rules O24).
			if again := putPolicy(t, w, Dana, p); again.Status != http.StatusOK || !bytes.Equal(again.Body, canon.MustMarshal(a)) {
				t.Fatalf("repeat answered %d %s", again.Status, again.Body)
			}
			p.MaxTicketsPerRun = 60
			if got := refused(t, putPolicy(t, w, Dana, p), models.CodeRevisionStale); got.Details["want"] != fmt.Sprint(n+1) {
				t.Fatalf("details %v", got.Details)
			}
			put = append(put, a)
		}
		rows := Must[api.RowList](t, w, http.StatusOK, Call{As: Dana, Method: http.MethodGet, Path: "/factory/rows?limit=1000"})
		var kept []api.PolicyShown
		for _, r := range rows.Rows {
			if r.Kind != (models.PolicyPut{}).Kind() {
				continue
			}
			e, err := models.DecodeEvent(r.Kind, r.Payload)
			if err != nil {
				t.Fatal(err)
			}
			kept = append(kept, api.PolicyShown{Policy: e.(models.PolicyPut).Policy, Digest: e.(models.PolicyPut).Digest})
		}
		if len(kept) != 4 || !slices.Equal(kept[1:], put) {
			t.Fatalf("readable %+v, put %+v", kept, put)
		}
		receipt := w.Hold(t, "run-1").Admit(t, "request-1")
		if receipt.CurrentEpoch.PolicyRevision != 3 || receipt.CurrentEpoch.PolicyDigest != put[2].Digest {
			t.Fatalf("receipt names %+v", receipt.CurrentEpoch)
		}
	})
}

// FLOW-03: disabled by default, and POST answers policy_disabled. FLOW-32: 50 and 500. FLOW-04: window and both bounds are
// members of the document. The three switches are off.
func TestFreshPolicy(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		a := w.Send(t, Call{As: Dana, Method: http.MethodGet, Path: policyPath})
		var members map[string]any
		if err := json.Unmarshal(a.Body, &members); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"enabled": false, "max_tickets_per_run": 50.0, "max_pending_tickets": 500.0, "max_valid_for_seconds": 0.0,
			"allow_unavailable_source_observations": false, "allow_pre_admission_recovery": false, "allow_readonly_observation_recovery": false,
			"version": 1.0, "revision": 0.0}
		for name, value := range want {
			if members[name] != value {
				t.Errorf("%s is %v, want %v", name, members[name], value)
			}
		}
		r := w.Hold(t, "run-1")
		head := r.Show(t).Head
		refused(t, r.Request(t, "request-1", Accept(r.Candidate(t), 60)), models.CodePolicyDisabled)
		if r.Show(t).Head != head {
			t.Fatal("the journal moved")
		}
	})
}

// FLOW-33: larger counts are accepted as positive integers; 0, -1, 1.5 and "60" are refused. FLOW-36: 7200 is accepted and
// 7201 refused, in the policy and in a request. Rules O25: enabling needs a window.
func TestPolicyBounds(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		put := func(member, value string) Answer {
			p := *Enabled()
			p.Revision = getPolicy(t, w).Revision
			var members map[string]json.RawMessage
			if err := json.Unmarshal(canon.MustMarshal(p), &members); err != nil {
				t.Fatal(err)
			}
			members[member] = json.RawMessage(value)
			body, err := json.Marshal(members)
			if err != nil {
				t.Fatal(err)
			}
			return w.Send(t, Call{As: Dana, Method: http.MethodPut, Path: policyPath, Body: body})
		}
		for _, member := range []string{"max_tickets_per_run", "max_pending_tickets"} {
			for _, value := range []string{"0", "-1", "1.5", `"60"`, "null", "true"} {
				refused(t, put(member, value), models.CodeRequestMalformed)
			}
		}
		for member, value := range map[string]string{"max_tickets_per_run": "51", "max_pending_tickets": "501", "max_valid_for_seconds": "7200"} {
			if a := put(member, value); a.Status != http.StatusOK {
				t.Fatalf("%s %s: %d %s", member, value, a.Status, a.Body)
			}
		}
		for _, value := range []string{"7201", "0", "-1"} {
			refused(t, put("max_valid_for_seconds", value), models.CodeWindowInvalid)
		}
		r := w.Hold(t, "run-1")
		refused(t, r.Request(t, "request-1", Accept(r.Candidate(t), 7201)), models.CodeWindowInvalid)
		if a := r.Request(t, "request-1", Accept(r.Candidate(t), 7200)); a.Status != http.StatusAccepted {
			t.Fatalf("7200: %d %s", a.Status, a.Body)
		}
	})
}

// FLOW-06: 200 for an operator with current authority, 403 without the role or after its withdrawal.
func TestCandidateNeedsTheOperatorRole(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := w.Hold(t, "run-1")
		read := func(as string) Answer {
			return w.Send(t, Call{As: as, Method: http.MethodGet, Path: r.Base() + "/candidate"})
		}
		for _, as := range []string{Administrator, Worker, Reader, Nobody} {
			refused(t, read(as), models.CodeRoleMissing)
		}
		for _, as := range []string{Dana, Operator} {
			if a := read(as); a.Status != http.StatusOK {
				t.Fatalf("%s: %d %s", as, a.Status, a.Body)
			}
		}
		w.SetRoles(t, Operator, false, models.RoleReader)
		refused(t, read(Operator), models.CodeRoleMissing)
	})
}

// FLOW-07: holds, policy revision, proof, current qualification and the digests of source and custody are in the body,
// holds in order of precedence. FLOW-15: every hold has a code, a sentence that says what is so and one that says what
// lifts it. Rules O20: an operator who is not the original actor sees that.
func TestCandidateShowsWhatItRestsOn(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		r := w.Hold(t, "run-1")
		c := Must[models.Candidate](t, w, http.StatusOK, Call{As: Operator, Method: http.MethodGet, Path: r.Base() + "/candidate"})
		if c.Proof.IsZero() || c.Profile != "profile-1" || c.ProfileDigest.IsZero() || c.SourceDigest.IsZero() || c.CustodyDigest.IsZero() || c.Version != 1 {
			t.Fatalf("%+v", c)
		}
		var codes []models.Code
		for i, h := range c.Holds {
			codes = append(codes, h.Code)
			if h.Message == "" || h.Next == "" {
				t.Errorf("hold %s says %q, %q", h.Code, h.Message, h.Next)
			}
			if i > 0 && models.Precedence(c.Holds[i-1].Code) > models.Precedence(h.Code) {
				t.Errorf("holds out of order: %v", codes)
			}
		}
		if !slices.Equal(codes, []models.Code{models.CodePolicyDisabled, models.CodeActorNotOriginal}) || c.Eligible {
			t.Fatalf("holds %v", codes)
		}
		w.PutPolicy(t, *Enabled())
		if c := r.Candidate(t); len(c.Holds) != 0 || !c.Eligible || c.PolicyRevision != 1 {
			t.Fatalf("after enabling: %+v", c)
		}
	})
}

// FLOW-08: a thousand reads leave journal, queue and claims as they are. FLOW-40: reading again is not charged. Rules O22:
// two reads of an unchanged run give the same bytes.
func TestReadingACandidateChangesNothing(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := w.Hold(t, "run-1")
		before := snapshot(t, w)
		first := w.Send(t, Call{As: Dana, Method: http.MethodGet, Path: r.Base() + "/candidate"})
		client := &http.Client{}
		for range 1000 {
			request, err := w.Request(Call{As: Dana, Method: http.MethodGet, Path: r.Base() + "/candidate"})
			if err != nil {
				t.Fatal(err)
			}
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			var body bytes.Buffer
			_, err = body.ReadFrom(response.Body)
			_ = response.Body.Close()
			if err != nil || !bytes.Equal(body.Bytes(), first.Body) {
				t.Fatalf("%v: %s, first %s", err, body.Bytes(), first.Body)
			}
		}
		unchanged(t, before, snapshot(t, w))
		if n := r.Show(t).Counters.Commands; n != HeldCommands {
			t.Fatalf("%d commands", n)
		}
	})
}

// FLOW-09: a wrong digest gives digest_stale naming it, and the right four are accepted. FLOW-10: values of
// valid_for_seconds outside the window are window_invalid, anything but an integer is request_malformed. FLOW-11: leaving
// out or falsifying any one acknowledgement names it, and no other value than the Boolean true counts (rules, section 3).
func TestRequestBody(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := w.Hold(t, "run-1")
		good := canon.MustMarshal(Accept(r.Candidate(t), 600))
		before := snapshot(t, w)
		try := func(member, value string) api.Problem {
			t.Helper()
			var members map[string]json.RawMessage
			if err := json.Unmarshal(good, &members); err != nil {
				t.Fatal(err)
			}
			delete(members, member)
			if value != "" {
				members[member] = json.RawMessage(value)
			}
			body, err := json.Marshal(members)
			if err != nil {
				t.Fatal(err)
			}
			a := r.Request(t, "request-1", body)
			p := a.Problem()
			if entry, ok := models.Lookup(p.Code); !ok || entry.HTTP != a.Status {
				t.Fatalf("%s=%s answered %d %s", member, value, a.Status, a.Body)
			}
			return p
		}
		other := fmt.Sprintf("%q", models.PlainDigest([]byte("other")))
		for _, name := range []string{"run", "journal", "policy", "candidate"} {
			if p := try(name+"_digest", other); p.Code != models.CodeDigestStale || p.Details["digest"] != name {
				t.Errorf("wrong %s: %+v", name, p)
			}
			for _, value := range []string{"", `""`, "null", `"zz"`, "1"} {
				if p := try(name+"_digest", value); p.Code != models.CodeRequestMalformed {
					t.Errorf("%s_digest %s: %+v", name, value, p)
				}
			}
		}
		for value, code := range map[string]models.Code{
			"": models.CodeWindowInvalid, "0": models.CodeWindowInvalid, "-1": models.CodeWindowInvalid, "7201": models.CodeWindowInvalid,
			"9223372036854775807": models.CodeWindowInvalid, "9223372036854775808": models.CodeRequestMalformed,
			"1.5": models.CodeRequestMalformed, "600.0": models.CodeRequestMalformed, `"600"`: models.CodeRequestMalformed,
			"6e2": models.CodeRequestMalformed, "null": models.CodeRequestMalformed, "true": models.CodeRequestMalformed,
		} {
			if p := try("valid_for_seconds", value); p.Code != code {
				t.Errorf("valid_for_seconds %s: %+v", value, p)
			}
		}
		for _, name := range []string{"acknowledge_no_new_grant", "acknowledge_original_consumption", "acknowledge_renewed_same_attempt_lease"} {
			for _, value := range []string{"", "false", "1", `"true"`, "null", "[true]", `{"true":true}`} {
				if p := try(name, value); p.Code != models.CodeAcknowledgementMissing || p.Details["acknowledgement"] != name {
					t.Errorf("%s %s: %+v", name, value, p)
				}
			}
		}
		for _, value := range []string{"0", "2", `"1"`, "null", "true"} {
			if p := try("version", value); p.Code != models.CodeRequestMalformed {
				t.Errorf("version %s: %+v", value, p)
			}
		}
		// The fourth acknowledgement belongs to version 2, which has its own route.
		if p := try("acknowledge_unavailable_source_observations", "true"); p.Code != models.CodeRequestMalformed {
			t.Errorf("fourth acknowledgement: %+v", p)
		}
		unchanged(t, before, snapshot(t, w))
		var members map[string]json.RawMessage
		if err := json.Unmarshal(good, &members); err != nil {
			t.Fatal(err)
		}
		delete(members, "version") // optional, as a member of the body
		body, err := json.MarshalIndent(members, " ", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if a := r.Request(t, "request-1", body); a.Status != http.StatusAccepted {
			t.Fatalf("the right four: %d %s", a.Status, a.Body)
		}
		if a := r.Request(t, "request-1", good); a.Status != http.StatusOK { // identical is the content, not its spelling
			t.Fatalf("repeat: %d %s", a.Status, a.Body)
		}
	})
}

// FLOW-13: ten parallel identical POSTs give one ticket and equal receipts, and charge nothing. Rules O30: the receipt is
// answered later too, whatever changed; another actor gets a conflict.
func TestIdenticalRequests(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := w.Hold(t, "run-1")
		counters := r.Show(t).Counters
		body := Accept(r.Candidate(t), 600)
		answers := make([]Answer, 10)
		errs := make([]error, 10)
		var group sync.WaitGroup
		for i := range answers {
			group.Go(func() {
				answers[i], errs[i] = w.Try(Call{As: Dana, Method: http.MethodPost, Path: r.Base() + "/requests/request-1", Body: body})
			})
		}
		group.Wait()
		first := 0
		for i, a := range answers {
			if errs[i] != nil || a.Status != http.StatusAccepted && a.Status != http.StatusOK || !bytes.Equal(a.Body, answers[0].Body) {
				t.Fatalf("%v: %d %s", errs[i], a.Status, a.Body)
			}
			if a.Status == http.StatusAccepted {
				first++
			}
		}
		show := r.Show(t)
		if first != 1 || len(show.Tickets) != 1 || show.Counters != counters {
			t.Fatalf("%d first answers, %d tickets, counters %+v then %+v", first, len(show.Tickets), counters, show.Counters)
		}
		if n := count(t, w, "run-1", models.MigrationSettled{}); n != 1 {
			t.Fatalf("%d settlements", n)
		}
		conflict := w.Send(t, Call{As: Operator, Method: http.MethodPost, Path: r.Base() + "/requests/request-1", Body: body})
		refused(t, conflict, models.CodeRequestConflict)
		body.ValidForSeconds = 601
		refused(t, r.Request(t, "request-1", body), models.CodeRequestConflict)
		body.ValidForSeconds = 600
		p := *Enabled()
		p.Enabled = false
		w.PutPolicy(t, p)
		w.SetRoles(t, Dana, false, models.RoleAdministrator)
		if a := r.Request(t, "request-1", body); a.Status != http.StatusOK || !bytes.Equal(a.Body, answers[0].Body) {
			t.Fatalf("after the policy and the role were gone: %d %s", a.Status, a.Body)
		}
	})
}

// FLOW-14: the same consumed graph gives no second ticket, to a later id or a concurrent one.
func TestOneTicketForAGraph(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := w.Hold(t, "run-1")
		body := Accept(r.Candidate(t), 600)
		answers := make([]Answer, 8)
		errs := make([]error, 8)
		var group sync.WaitGroup
		for i := range answers {
			group.Go(func() {
				answers[i], errs[i] = w.Try(Call{As: Dana, Method: http.MethodPost, Path: fmt.Sprintf("%s/requests/request-%d", r.Base(), i), Body: body})
			})
		}
		group.Wait()
		admitted := ""
		for i, a := range answers {
			switch {
			case errs[i] != nil:
				t.Fatal(errs[i])
			case a.Status == http.StatusAccepted && admitted == "":
				admitted = fmt.Sprintf("request-%d", i)
			default:
				refused(t, a, models.CodeGraphHasTicket)
			}
		}
		if p := refused(t, r.Request(t, "later", Accept(r.Candidate(t), 600)), models.CodeGraphHasTicket); p.Details["request_id"] != admitted {
			t.Fatalf("details %v, admitted %s", p.Details, admitted)
		}
		if n := count(t, w, "run-1", models.MigrationSettled{}); n != 1 {
			t.Fatalf("%d settlements", n)
		}
	})
}

// FLOW-16: an actor without read access to the source is refused, and the access record names the actor who read.
func TestAccessIsRecorded(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := w.Hold(t, "run-1")
		candidate := Call{Method: http.MethodGet, Path: r.Base() + "/candidate"}
		blob := Call{Method: http.MethodGet, Path: "/runs/run-1/blobs/" + r.Checkpoint.String()}
		for _, c := range []Call{candidate, blob} {
			c.As = Nobody
			refused(t, w.Send(t, c), models.CodeRoleMissing)
			c.As = Stranger
			refused(t, w.Send(t, c), models.CodeNotFound)
		}
		w.SetRoles(t, Reader, true)
		blob.As = Reader
		refused(t, w.Send(t, blob), models.CodeIdentityMissing)
		if lines := w.Log.Lines(`"msg":"access"`); len(lines) != 1 || !strings.Contains(lines[0], Stranger) {
			// The stranger looked for a run of that name in a factory that has none.
			t.Fatalf("access was recorded without a reading: %q", lines)
		}
		candidate.As, blob.As = Operator, Operator
		w.Send(t, candidate)
		w.Send(t, blob)
		r.Admit(t, "request-1")
		for _, want := range [][]string{{Operator, "candidate"}, {Operator, "blob"}, {Dana, "candidate"}, {Dana, "admission"}} {
			if len(w.Log.Lines(`"msg":"access"`, `"actor":"`+want[0]+`"`, `"purpose":"`+want[1]+`"`, `"run":"run-1"`, `"factory":"factory-1"`)) != 1 {
				t.Errorf("no single access record of %v in %q", want, w.Log.Lines("access"))
			}
		}
	})
}

// FLOW-20: after an admission the ticket has no owner and no fence until a worker claims it, and a worker finds it in the
// ordinary announcement. FLOW-21: a worker without the live fence is refused for a continuation as for any run.
func TestAdmissionTakesNoOwnership(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := w.Hold(t, "run-1")
		fence := r.Show(t).Lease.Fence
		receipt := r.Admit(t, "request-1")
		l := r.Show(t).Lease
		if l.Owner != "" || l.ClaimID != "" || l.Live || !l.Granted || l.Fence != fence || l.Request != "request-1" {
			t.Fatalf("lease %+v", l)
		}
		if bytes.Contains(canon.MustMarshal(receipt), []byte("fence")) {
			t.Fatal("a receipt names a fence")
		}
		work := Must[api.WorkList](t, w, http.StatusOK, Call{As: Worker, Method: http.MethodGet, Path: "/work"})
		if !slices.Equal(work.Runs, []api.WorkEntry{{Request: "request-1", Run: "run-1"}}) {
			t.Fatalf("announced %+v", work)
		}
		claim := r.Claim(t, "claim-2")
		if l := r.Show(t).Lease; claim.Fence != fence+1 || l.Owner != Worker || l.ClaimID != "claim-2" || claim.Checkpoint != receipt.Derived {
			t.Fatalf("claim %+v, lease %+v", claim, l)
		}
		started := []models.Fact{models.CommandStarted{Command: r.Blob(t, Worker, "command 12"), Number: HeldCommands + 1, Position: -1}}
		for _, fence := range []int64{0, fence, fence + 2} {
			refused(t, w.Send(t, Call{As: Worker, Method: http.MethodPut, Path: "/runs/run-1/batches/b",
				Body: models.Append{Facts: started, Fence: fence}}), models.CodeFenceLost)
		}
		r.Append(t, started...)
	})
}

// FLOW-40: reading a completed command or a ticket again and again is not charged, and neither is sending its batch again.
func TestReadsAreNotCharged(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := w.Hold(t, "run-1")
		r.Admit(t, "request-1")
		r.Claim(t, "claim-2")
		r.Commands(t, 2)
		before := snapshot(t, w)
		want := r.Show(t).Counters
		if want.Commands != HeldCommands+2 {
			t.Fatalf("%d commands", want.Commands)
		}
		for range 20 {
			for _, path := range []string{"", "/rows?limit=1000", "/export", "/invalid-read-continuity/candidate", "/invalid-read-continuity/requests/request-1"} {
				if a := w.Send(t, Call{As: Dana, Method: http.MethodGet, Path: "/runs/run-1" + path}); a.Status != http.StatusOK {
					t.Fatalf("%s: %d %s", path, a.Status, a.Body)
				}
			}
		}
		if got := r.Show(t).Counters; got != want {
			t.Fatalf("%+v, before %+v", got, want)
		}
		unchanged(t, before, snapshot(t, w))
	})
}

// PREVIEW-05: without a profile, with an unqualified one, and with one for another module, POST is refused and the head
// does not move.
func TestAdmissionNeedsAProfile(t *testing.T) {
	for _, c := range []struct {
		name    string
		options Options
		code    models.Code
	}{
		{"none", Options{Profile: func(p models.Profile) models.Profile { p.ID = ""; return p }}, models.CodeProfileUnqualified},
		{"unqualified", Options{Retained: true, Profile: func(p models.Profile) models.Profile {
			return Qualify(p, "controller", "postgres") // no SDK report
		}}, models.CodeProfileUnqualified},
		{"other module", Options{Profile: func(p models.Profile) models.Profile {
			p.Module = models.PlainDigest([]byte("other"))
			return p
		}}, models.CodeProfileMismatch},
		{"other catalogue", Options{Profile: func(p models.Profile) models.Profile {
			p.Catalogue = models.PlainDigest([]byte("other"))
			return p
		}}, models.CodeProfileMismatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.Policy = Enabled()
			each(t, c.options, func(t *testing.T, w *World) { unmoved(t, w, c.code) })
		})
	}
	t.Run("retired", func(t *testing.T) {
		each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
			a := w.Send(t, Call{As: Dana, Method: http.MethodDelete, Path: "/profiles/profile-1", Header: map[string]string{"Idempotency-Key": "retire"}})
			if a.Status != http.StatusCreated {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			unmoved(t, w, models.CodeProfileUnqualified)
		})
	})
}

func unmoved(t *testing.T, w *World, code models.Code) api.Problem {
	t.Helper()
	r := w.Hold(t, "run-1")
	before := snapshot(t, w)
	p := refused(t, r.Request(t, "request-1", Accept(r.Candidate(t), 600)), code)
	unchanged(t, before, snapshot(t, w))
	return p
}

// PREVIEW-06: with the postgres or the controller qualification absent, POST names it. Rules O1: the store in use needs its
// own, and with all of them retained work is admitted.
func TestRetainedWorkNeedsItsQualifications(t *testing.T) {
	each(t, Options{Retained: true, Policy: Enabled(), Profile: func(p models.Profile) models.Profile { return Qualify(p, "sdk") }}, func(t *testing.T, w *World) {
		kind, _ := w.Store.Kind()
		r := w.Hold(t, "run-1")
		for i, step := range []struct {
			missing string
			names   []string
		}{
			{"postgres", []string{"controller", "sdk"}},
			{"controller", []string{"postgres", "sdk"}},
			{"store-" + kind, []string{"controller", "postgres", "sdk"}},
		} {
			id := fmt.Sprintf("profile-%d", i+2)
			w.Change(t, id, models.RegisterProfile{Profile: Qualify(w.Profile(id), step.names...)})
			w.Change(t, id+"-retired", models.RetireProfile{ID: fmt.Sprintf("profile-%d", i+1)})
			before := snapshot(t, w)
			p := refused(t, r.Request(t, "request-1", Accept(r.Candidate(t), 600)), models.CodeQualificationMissing)
			if p.Details["qualification"] != step.missing || snapshot(t, w) != before {
				t.Fatalf("details %v, want %s", p.Details, step.missing)
			}
		}
		w.Change(t, "profile-9", models.RegisterProfile{Profile: Qualify(w.Profile("profile-9"), "controller", "postgres", "sdk", "store-"+kind)})
		if receipt := r.Admit(t, "request-1"); receipt.Fixture || receipt.Profile != "profile-9" {
			t.Fatalf("%+v", receipt)
		}
	})
}
