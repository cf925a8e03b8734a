package api_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/forge-continuity/forge/models"
	. "github.com/forge-continuity/forge/server/api/apitest"
)

// normal rewrites an answer so that it is the same in every run and on every store: each digest, salt or hash becomes a name
// by order of appearance, so that equal ones stay equal; instants and the store's name go.
func normal(t *testing.T, body []byte) string {
	t.Helper()
	names := map[string]string{}
	body = hex64.ReplaceAllFunc(body, func(found []byte) []byte {
		name, ok := names[string(found)]
		if !ok {
			name = fmt.Sprintf("<digest %d>", len(names)+1)
			names[string(found)] = name
		}
		return []byte(name)
	})
	body = instant.ReplaceAll(body, []byte(`$1"<instant>"`))
	body = storeName.ReplaceAll(body, []byte(`"store":"<store>","store_major":"<store>"`))
	body = secret.ReplaceAll(body, []byte(`<token>`))
	body = drawn.ReplaceAll(body, []byte(`"$1":"<drawn>"`))
	var out bytes.Buffer
	if err := json.Indent(&out, body, "", "  "); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return out.String() + "\n"
}

var (
	hex64     = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	instant   = regexp.MustCompile(`([:\[,])[0-9]{16}\b`)
	storeName = regexp.MustCompile(`"store":"[a-z]+","store_major":[0-9]+`)
	secret    = regexp.MustCompile(`forge_[0-9a-f]{16}_[A-Za-z0-9_-]+`)
	drawn     = regexp.MustCompile(`"(id|token_id|fingerprint|cached)":"[0-9a-f]{1,16}"`)
)

// golden compares with fixtures/api/name, or writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("..", "..", "fixtures", "api", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; after looking at it, rewrite with go test ./server/api -run Golden -update\n%s", name, got)
	}
}

// The answers of one run's way through the API, and one problem of each kind that it meets.
func TestGolden(t *testing.T) {
	for _, s := range stores { // one after the other: with -update they write the same files
		t.Run(s.name, func(t *testing.T) { goldenRun(t, Start(t, s.open(t), &Fake{}, Options{})) })
	}
}

func goldenRun(t *testing.T, w *World) {
	problems := map[string]json.RawMessage{}
	problem := func(a Answer) {
		t.Helper()
		code := string(a.Code())
		if code == "" {
			t.Fatalf("no problem: %d %s", a.Status, a.Body)
		}
		problems[code] = a.Body
	}
	get := func(as, path string) Answer { return w.Send(t, Call{As: as, Method: http.MethodGet, Path: path}) }
	good := func(name string, status int, a Answer) Answer {
		t.Helper()
		if a.Status != status {
			t.Fatalf("%s: %d %s", name, a.Status, a.Body)
		}
		golden(t, name, normal(t, a.Body))
		return a
	}
	good("run_opened.json", http.StatusCreated, w.Send(t, Call{As: Dana, Method: http.MethodPut, Path: "/runs/run-0"}))
	good("policy_fresh.json", http.StatusOK, get(Dana, policyPath))
	good("factory.json", http.StatusOK, get(Reader, "/factory"))

	r := w.Hold(t, "run-1")
	good("candidate_held.json", http.StatusOK, get(Operator, r.Base()+"/candidate"))
	good("run_held.json", http.StatusOK, get(Reader, "/runs/run-1"))
	problem(r.Request(t, "request-1", Accept(r.Candidate(t), 600))) // policy_disabled
	p := *Enabled()
	p.MaxPendingTickets = 1
	good("policy_put.json", http.StatusOK, putPolicy(t, w, Dana, p))
	p.MaxPendingTickets = 2
	problem(putPolicy(t, w, Dana, p))      // revision_stale
	problem(putPolicy(t, w, Operator, p))  // role_missing
	problem(putPolicy(t, w, "no one", p))  // identity_missing
	problem(get(Dana, "/runs/run-9"))      // not_found
	problem(get(Dana, "/runs?limit=many")) // replaced below by one with a body
	body := Accept(r.Candidate(t), 600)
	good("candidate_eligible.json", http.StatusOK, get(Dana, r.Base()+"/candidate"))
	problem(r.Request(t, "request-1", `{"candidate_digest":1}`))                                                                        // request_malformed
	problem(r.Request(t, "request-1", string(bytes.Repeat([]byte(" "), 70<<10))))                                                       // payload_too_large
	problem(w.Send(t, Call{As: Dana, Method: http.MethodPatch, Path: "/runs/run-1"}))                                                   // method_not_allowed
	problem(w.Send(t, Call{As: Worker, Method: http.MethodPut, Path: "/runs/run-1/claims/c", Body: models.ClaimRun{LeaseSeconds: 60}})) // run_held
	bad := body
	bad.AcknowledgeNoNewGrant = false
	problem(r.Request(t, "request-1", bad)) // acknowledgement_missing
	bad = body
	bad.ValidForSeconds = 7201
	problem(r.Request(t, "request-1", bad)) // window_invalid
	bad = body
	bad.RunDigest = models.PlainDigest([]byte("other"))
	problem(r.Request(t, "request-1", bad))                                                                             // digest_stale
	problem(w.Send(t, Call{As: Operator, Method: http.MethodPost, Path: r.Base() + "/requests/request-1", Body: body})) // actor_not_original

	good("receipt_continuity.json", http.StatusAccepted, r.Request(t, "request-1", body))
	problem(r.Request(t, "request-2", body)) // graph_has_ticket
	body.ValidForSeconds = 601
	problem(r.Request(t, "request-1", body)) // request_conflict
	two := w.Hold(t, "run-2")
	problem(two.Request(t, "request-2", Accept(two.Candidate(t), 600))) // pending_tickets_reached
	good("run_continuation_queued.json", http.StatusOK, get(Reader, "/runs/run-1"))
	good("candidate_ticketed.json", http.StatusOK, get(Dana, r.Base()+"/candidate"))
	good("work.json", http.StatusOK, get(Worker, "/work"))
	good("claim.json", http.StatusOK, w.Send(t, Call{As: Worker, Method: http.MethodPut, Path: "/runs/run-1/claims/claim-2", Body: models.ClaimRun{LeaseSeconds: 60}}))
	r.Fence = 2
	command := r.Blob(t, Worker, "command 12")
	started := models.Append{Fence: 2, Facts: []models.Fact{models.CommandStarted{Command: command, Number: 12, Position: -1}}}
	good("receipt_batch.json", http.StatusCreated, w.Send(t, Call{As: Worker, Method: http.MethodPut, Path: "/runs/run-1/batches/b", Body: started}))
	started.Fence = 1
	problem(w.Send(t, Call{As: Worker, Method: http.MethodPut, Path: "/runs/run-1/batches/c", Body: started})) // fence_lost
	good("run_continuing.json", http.StatusOK, get(Reader, "/runs/run-1"))
	good("rows.json", http.StatusOK, get(Reader, "/runs/run-1/rows?from=33&limit=2"))
	good("receipt_factory.json", http.StatusCreated, w.Send(t, Call{As: Dana, Method: http.MethodPut, Path: "/records/source/main",
		Header: map[string]string{"Idempotency-Key": "record-2"}, Body: map[string]any{"digest": models.PlainDigest([]byte("new"))}}))
	good("token.json", http.StatusCreated, w.Send(t, Call{As: Dana, Method: http.MethodPost, Path: "/tokens", Body: map[string]any{"lifetime_seconds": 60, "principal": Reader}}))

	broken := Start(t, failing{openSQLite(t), errors.New("text of an error")}, &Fake{}, Options{})
	problem(broken.Send(t, Call{As: Dana, Method: http.MethodGet, Path: "/runs"})) // internal
	broken.Server.Drain()
	problem(broken.Send(t, Call{Method: http.MethodGet, Path: "/readyz"})) // busy

	all, err := json.Marshal(problems)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "problems.json", normal(t, all))
}
