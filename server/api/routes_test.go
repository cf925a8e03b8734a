package api_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/server/api"
	. "github.com/forge-continuity/forge/server/api/apitest"
)

// valid returns a request that each route would take from someone with the role, for the run run-1 of Hold and the request
// request-1 admitted on it. A route without an entry fails the test, so that no new one goes unlooked at.
func valid(t *testing.T, w *World, r *Run, route api.Route) Call {
	t.Helper()
	candidate := r.Candidate(t)
	blob := []byte("content of a new blob")
	key := map[string]string{"Idempotency-Key": "some-command"}
	calls := map[string]Call{
		"GET /healthz":         {},
		"GET /readyz":          {},
		"GET /openapi.json":    {},
		"GET /problems/{code}": {Path: "/problems/digest_stale"},

		"GET /api/v1/runs":                                                         {},
		"PUT /api/v1/runs/{run_id}":                                                {},
		"GET /api/v1/runs/{run_id}":                                                {},
		"PUT /api/v1/runs/{run_id}/registration":                                   {Body: models.RegisterRun{Registration: Registration()}},
		"PUT /api/v1/runs/{run_id}/blobs/{digest}":                                 {Path: "/runs/run-1/blobs/" + models.SaltedBlob(r.Salt, blob).String(), Body: blob},
		"GET /api/v1/runs/{run_id}/blobs/{digest}":                                 {Path: "/runs/run-1/blobs/" + r.Checkpoint.String()},
		"PUT /api/v1/runs/{run_id}/claims/{claim_id}":                              {Body: models.ClaimRun{LeaseSeconds: 60}},
		"PUT /api/v1/runs/{run_id}/claims/{claim_id}/renewal":                      {Body: map[string]int64{"fence": 1, "lease_seconds": 60}},
		"PUT /api/v1/runs/{run_id}/releases/{command_id}":                          {Body: models.ReleaseRun{Fence: 1}},
		"PUT /api/v1/runs/{run_id}/retries/{command_id}":                           {Body: models.RetryRun{}},
		"PUT /api/v1/runs/{run_id}/verifications/{command_id}":                     {Body: models.AdmitVerification{Round: 1}},
		"POST /api/v1/runs/{run_id}/evidence":                                      {Body: []byte("what the provider says")},
		"PUT /api/v1/runs/{run_id}/reconciliations/{command_id}":                   {Body: models.Reconcile{Outcome: models.OutcomeDidNotHappen, Seq: 1, Subject: models.SubjectRequest, Evidence: r.Checkpoint, AcknowledgeNoReplay: true, AcknowledgeOriginalRecordUnchanged: true, AcknowledgeOriginalUseCharged: true}},
		"PUT /api/v1/runs/{run_id}/batches/{command_id}":                           {Body: models.Append{Fence: 1, Facts: []models.Fact{models.CommandFinished{Number: 1, Receipt: r.Checkpoint}}}},
		"PUT /api/v1/runs/{run_id}/cancellations/{command_id}":                     {Body: models.CancelRun{}},
		"GET /api/v1/runs/{run_id}/rows":                                           {},
		"GET /api/v1/runs/{run_id}/export":                                         {},
		"GET /api/v1/runs/{run_id}/checkpoints/{digest}/inspection":                {Path: "/runs/run-1/checkpoints/" + r.Checkpoint.String() + "/inspection"},
		"GET /api/v1/runs/{run_id}/checkpoints/{digest}/restore":                   {Path: "/runs/run-1/checkpoints/" + r.Checkpoint.String() + "/restore"},
		"PUT /api/v1/runs/{run_id}/credential-waivers/{command_id}":                {Body: models.WaiveCredential{Blob: r.Checkpoint, Path: "/content", Rule: "apitest-key", RuleSet: Screen{}.RuleSet()}},
		"GET /api/v1/work":                                                         {},
		"PUT /api/v1/invalid-read-continuity/policy":                               {Body: *Enabled()},
		"GET /api/v1/invalid-read-continuity/policy":                               {},
		"GET /api/v1/runs/{run_id}/invalid-read-continuity/candidate":              {},
		"POST /api/v1/runs/{run_id}/invalid-read-continuity/requests/{request_id}": {Path: r.Base() + "/requests/request-2", Body: Accept(candidate, 60)},
		"GET /api/v1/runs/{run_id}/invalid-read-continuity/requests/{request_id}":  {},
		"GET /api/v1/factory":                                                      {},
		"GET /api/v1/factory/rows":                                                 {},
		"PUT /api/v1/principals/{id}":                                              {Path: "/principals/newcomer", Header: key, Body: `{"name":"New Comer","removed":false,"replaces":0,"roles":["reader"]}`},
		"PUT /api/v1/records/{kind}/{name}":                                        {Path: "/records/source/other", Header: key, Body: map[string]string{"digest": r.Checkpoint.String()}},
		"PUT /api/v1/profiles/{id}":                                                {Path: "/profiles/profile-2", Header: key, Body: w.Profile("profile-2")},
		"DELETE /api/v1/profiles/{id}":                                             {Path: "/profiles/profile-1", Header: key},
		"POST /api/v1/tokens":                                                      {Body: map[string]any{"lifetime_seconds": 60, "principal": Reader}},
		"DELETE /api/v1/tokens/{id}":                                               {Path: "/tokens/0011223344556677"},
	}
	maps.Copy(calls, continuityCalls(r, candidate))
	c, ok := calls[route.Method+" "+route.Path]
	if !ok {
		t.Fatalf("no sample request for %s %s", route.Method, route.Path)
	}
	if c.Path == "" {
		c.Path = strings.NewReplacer("{run_id}", "run-1", "{claim_id}", "claim-9", "{command_id}", "command-9", "{request_id}", "request-1").Replace(route.Path)
	}
	c.Method = route.Method
	return c
}

// held is a world with one admitted run.
func held(t *testing.T, w *World) *Run {
	t.Helper()
	r := w.Hold(t, "run-1")
	r.Admit(t, "request-1")
	return r
}

// Every route lets in the roles of its line and no other, and says no to others by role_missing without writing.
func TestRoles(t *testing.T) {
	roles := map[string][]string{
		Administrator: {models.RoleAdministrator}, Operator: {models.RoleOperator}, Worker: {models.RoleWorker},
		Reader: {models.RoleReader}, Nobody: nil,
	}
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := held(t, w)
		before := snapshot(t, w)
		for _, route := range api.Routes() {
			if route.Public {
				continue
			}
			c := valid(t, w, r, route)
			for principal, has := range roles {
				if allowed(route, has) {
					continue
				}
				c.As = principal
				a := w.Send(t, c)
				if a.Code() != models.CodeRoleMissing || a.Status != http.StatusForbidden {
					t.Errorf("%s %s as %s: %d %s", c.Method, route.Path, principal, a.Status, a.Body)
				}
			}
		}
		unchanged(t, before, snapshot(t, w))
		for _, route := range api.Routes() {
			if route.Public {
				continue
			}
			c := valid(t, w, r, route)
			for principal, has := range roles {
				if !allowed(route, has) {
					continue
				}
				c.As = principal
				if a := w.Send(t, c); a.Status == http.StatusForbidden && a.Code() == models.CodeRoleMissing || a.Status == http.StatusUnauthorized ||
					a.Status == http.StatusBadRequest || a.Status >= 500 {
					t.Errorf("%s %s as %s: %d %s", c.Method, route.Path, principal, a.Status, a.Body)
				}
			}
		}
	})
}

func may(has, want []string) bool {
	for _, h := range has {
		for _, w := range want {
			if h == w {
				return true
			}
		}
	}
	return false
}

// Nothing of a factory is seen or touched with a token of another one: the factory comes from the token alone.
func TestForeignFactory(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := held(t, w)
		own := func() string {
			var lines []string
			for line := range strings.Lines(snapshot(t, w)) {
				if strings.HasPrefix(line, Factory+" ") {
					lines = append(lines, line)
				}
			}
			return strings.Join(lines, "")
		}
		before := own()
		secrets := []string{Factory, `"run-1"`, r.Checkpoint.String(), Dana, "record-source"}
		for _, route := range api.Routes() {
			if route.Public || route.Method == http.MethodPut && route.Path == "/api/v1/runs/{run_id}" {
				continue // opening a run of the same name in one's own factory is allowed
			}
			c := valid(t, w, r, route)
			c.As = Stranger
			a := w.Send(t, c)
			if strings.Contains(route.Path, "{run_id}") && a.Code() != models.CodeNotFound {
				t.Errorf("%s %s: %d %s", c.Method, route.Path, a.Status, a.Body)
			}
			for _, secret := range secrets {
				if strings.Contains(string(a.Body), secret) {
					t.Errorf("%s %s shows %q: %s", c.Method, route.Path, secret, a.Body)
				}
			}
		}
		unchanged(t, before, own())
	})
}

// A request without a token that is valid at this moment is 401 on every route, whatever it carries, and writes nothing.
func TestIdentity(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		r := held(t, w)
		expired, _ := w.Token(t, Factory, Dana, 1)
		revoked, id := w.Token(t, Factory, Dana, 3600)
		a := w.Send(t, Call{As: Administrator, Method: http.MethodDelete, Path: "/tokens/" + id})
		if a.Status != http.StatusNoContent {
			t.Fatalf("revoke: %d %s", a.Status, a.Body)
		}
		w.SetRoles(t, Reader, true)
		waitUntil(t, func() bool {
			return w.Send(t, Call{Token: expired, Method: http.MethodGet, Path: "/factory"}).Status == http.StatusUnauthorized
		})
		before := snapshot(t, w)
		dana := w.Tokens[Dana]
		headers := map[string]string{
			"none": "", "expired": "Bearer " + expired, "revoked": "Bearer " + revoked, "removed": "Bearer " + w.Tokens[Reader],
			"other scheme": "Basic " + dana, "bare": dana, "changed": "Bearer " + dana[:len(dana)-1] + "_", "two spaces": "Bearer  " + dana,
			"cut": "Bearer " + dana[:len(dana)-1], "long": "Bearer " + dana + strings.Repeat("a", 200), "empty": "Bearer ",
			"id alone": "Bearer " + strings.Join(strings.Split(dana, "_")[:2], "_"), "two": "Bearer " + dana + ", Bearer " + dana,
		}
		for _, route := range api.Routes() {
			c := valid(t, w, r, route)
			for name, header := range headers {
				c.Header = map[string]string{"Idempotency-Key": "some-command"}
				if header != "" {
					c.Header["Authorization"] = header
				}
				a := w.Send(t, c)
				if route.Public {
					if a.Status != http.StatusOK {
						t.Errorf("%s %s: %d", c.Method, route.Path, a.Status)
					}
					continue
				}
				if a.Code() != models.CodeIdentityMissing || a.Status != http.StatusUnauthorized || a.Header.Get("WWW-Authenticate") == "" {
					t.Errorf("%s %s with %s: %d %s", c.Method, route.Path, name, a.Status, a.Body)
				}
			}
		}
		request, err := w.Request(Call{As: Dana, Method: http.MethodGet, Path: "/factory"})
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Add("Authorization", "Bearer "+dana) // one identity, or none
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized {
			t.Errorf("two Authorization headers: %d", response.StatusCode)
		}
		unchanged(t, before, snapshot(t, w))
	})
}

// A token is issued by an administrator for a principal of the factory, works, is stored under a hash, and ends.
func TestTokens(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		post := func(body any) Answer {
			return w.Send(t, Call{As: Dana, Method: http.MethodPost, Path: "/tokens", Body: body})
		}
		a := post(map[string]any{"lifetime_seconds": 60, "principal": Reader})
		var issued api.TokenIssued
		if err := canon.Unmarshal(a.Body, &issued); err != nil || a.Status != http.StatusCreated {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		get := Call{Token: issued.Token, Method: http.MethodGet, Path: "/factory"}
		if f := Must[api.FactoryShown](t, w, http.StatusOK, get); f.Caller.ID != Reader || f.Factory != Factory || f.Host != w.Engine.Host() {
			t.Fatalf("%+v", f)
		}
		for _, body := range []any{
			map[string]any{"lifetime_seconds": 0, "principal": Reader}, map[string]any{"lifetime_seconds": -1, "principal": Reader},
			map[string]any{"lifetime_seconds": int64(api.MaxTokenLifetime) + 1, "principal": Reader}, // zero is never "unlimited"
		} {
			refused(t, post(body), models.CodeRequestMalformed)
		}
		refused(t, post(map[string]any{"lifetime_seconds": 60, "principal": Stranger}), models.CodeNotFound)
		for range 2 { // revoking twice is no error
			if a := w.Send(t, Call{As: Dana, Method: http.MethodDelete, Path: "/tokens/" + issued.ID}); a.Status != http.StatusNoContent {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
		}
		refused(t, w.Send(t, get), models.CodeIdentityMissing)
		refused(t, w.Send(t, Call{As: Stranger, Method: http.MethodDelete, Path: "/tokens/" + issued.ID}), models.CodeNotFound)
	})
}

// Factory commands: 201 and then the same receipt as 200, a conflict for other content, no command without an id, and the
// label of a principal beside the journal.
func TestFactoryCommands(t *testing.T) {
	each(t, Options{}, func(t *testing.T, w *World) {
		put := func(path, key string, body any) Answer {
			return w.Send(t, Call{As: Dana, Method: http.MethodPut, Path: path, Body: body, Header: map[string]string{"Idempotency-Key": key}})
		}
		digest := models.PlainDigest([]byte("new"))
		for _, c := range []struct {
			path        string
			body, other any
		}{
			{"/records/source/main", map[string]any{"digest": digest}, map[string]any{"digest": models.PlainDigest([]byte("newer"))}},
			{"/profiles/profile-2", w.Profile("profile-2"), Qualify(w.Profile("profile-2"), "controller")},
			{"/principals/newcomer", `{"name":"New Comer","removed":false,"replaces":0,"roles":["operator","worker"]}`, `{"removed":false,"replaces":0,"roles":["reader"]}`},
		} {
			key := strings.ReplaceAll(strings.Trim(c.path, "/"), "/", ".")
			first, again := put(c.path, key, c.body), put(c.path, key, c.body)
			if first.Status != http.StatusCreated || again.Status != http.StatusOK || string(first.Body) != string(again.Body) {
				t.Errorf("%s: %d %s then %d %s", c.path, first.Status, first.Body, again.Status, again.Body)
			}
			refused(t, put(c.path, key, c.other), models.CodeRequestConflict)
			refused(t, put(c.path, "", c.body), models.CodeRequestMalformed)
			refused(t, put(c.path, "not an id", c.body), models.CodeRequestMalformed)
		}
		refused(t, put("/profiles/profile-3", "three", w.Profile("profile-4")), models.CodeRequestMalformed)
		refused(t, put("/records/kind/name", "four", map[string]any{"digest": digest}), models.CodeRequestMalformed)
		refused(t, put("/principals/newcomer", "five", `{"removed":false,"replaces":0,"roles":[]}`), models.CodeRevisionStale)
		refused(t, put("/principals/newcomer", "six", `{"name":"a\nb","removed":false,"replaces":1,"roles":[]}`), models.CodeRequestMalformed)
		f := Must[api.FactoryShown](t, w, http.StatusOK, Call{As: Reader, Method: http.MethodGet, Path: "/factory"})
		for _, p := range f.Principals {
			if p.ID == "newcomer" && (p.Name != "New Comer" || len(p.Roles) != 2 || p.Authority != 1) {
				t.Errorf("%+v", p)
			}
		}
		for _, r := range f.Records {
			if r.Kind == models.RecordSource && (r.Digest != digest || r.Revision != 2) {
				t.Errorf("%+v", r)
			}
		}
	})
}
