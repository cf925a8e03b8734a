package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api"
	. "github.com/forge-continuity/forge/server/api/apitest"
)

// published is the document as clients find it beside the docs; ./task golden writes it anew.
var published = filepath.Join("..", "..", "docs", "openapi.json")

// The document is the one in docs, and every route has its place in it with the roles and the body of its line.
func TestGoldenOpenAPI(t *testing.T) {
	var out bytes.Buffer
	text, err := json.Marshal(api.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Indent(&out, text, "", "  "); err != nil {
		t.Fatal(err)
	}
	out.WriteByte('\n')
	if *update {
		if err := os.WriteFile(published, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(published)
	if err != nil || !bytes.Equal(want, out.Bytes()) {
		t.Errorf("docs/openapi.json is not what the routes make (%v); go test ./server/api -run Golden -update", err)
	}
	paths := api.OpenAPI()["paths"].(map[string]any)
	count, ids := 0, map[any]bool{}
	for _, r := range api.Routes() {
		op, ok := paths[r.Path].(map[string]any)[strings.ToLower(r.Method)].(map[string]any)
		if !ok || ids[op["operationId"]] {
			t.Errorf("%s %s: %v", r.Method, r.Path, op["operationId"])
		}
		count, ids[op["operationId"]] = count+1, true
		if _, body := op["requestBody"]; body != (r.Limit > 0) {
			t.Errorf("%s %s takes %d bytes, the document says %t", r.Method, r.Path, r.Limit, body)
		}
		if _, secured := op["security"]; secured == r.Public {
			t.Errorf("%s %s is public: %t", r.Method, r.Path, r.Public)
		}
	}
	for _, item := range paths {
		count -= len(item.(map[string]any))
	}
	if count != 0 {
		t.Errorf("%d operations too few", count)
	}
}

// The server answers the document of this build.
func TestOpenAPIIsServed(t *testing.T) {
	w := Start(t, openSQLite(t), &Fake{}, Options{})
	a := w.Send(t, Call{Method: http.MethodGet, Path: "/openapi.json"})
	var served, made bytes.Buffer
	text, err := json.Marshal(api.OpenAPI())
	if err != nil || json.Compact(&served, a.Body) != nil || json.Compact(&made, text) != nil || a.Status != http.StatusOK || !bytes.Equal(served.Bytes(), made.Bytes()) {
		t.Fatalf("%d %v", a.Status, err)
	}
}

// spec is the document compiled: the schemas of each operation's body and answers.
type spec struct {
	sent    map[string]*jsonschema.Schema
	answers map[string]map[string]*jsonschema.Schema // nil for an answer that is no JSON
}

var compiled = sync.OnceValues(func() (*spec, error) {
	text, err := json.Marshal(closed(api.OpenAPI()))
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("forge.json", doc); err != nil {
		return nil, err
	}
	out := &spec{sent: map[string]*jsonschema.Schema{}, answers: map[string]map[string]*jsonschema.Schema{}}
	pointer := func(parts ...string) string {
		for i, p := range parts {
			parts[i] = strings.NewReplacer("~", "~0", "/", "~1").Replace(p)
		}
		return "forge.json#/" + strings.ReplaceAll(strings.Join(parts, "/"), "{", "%7B")
	}
	at := func(parts ...string) (*jsonschema.Schema, error) {
		return c.Compile(strings.ReplaceAll(pointer(parts...), "}", "%7D"))
	}
	for path, item := range api.OpenAPI()["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			name, op := strings.ToUpper(method)+" "+path, op.(map[string]any)
			out.answers[name] = map[string]*jsonschema.Schema{}
			for status, answer := range op["responses"].(map[string]any) {
				content, _ := answer.(map[string]any)["content"].(map[string]any)
				out.answers[name][status] = nil
				for _, kind := range []string{"application/json", "application/problem+json"} {
					if content[kind] == nil {
						continue
					}
					if out.answers[name][status], err = at("paths", path, method, "responses", status, "content", kind, "schema"); err != nil {
						return nil, err
					}
				}
			}
			body, _ := op["requestBody"].(map[string]any)
			if content, _ := body["content"].(map[string]any); content["application/json"] != nil {
				if out.sent[name], err = at("paths", path, method, "requestBody", "content", "application/json", "schema"); err != nil {
					return nil, err
				}
			}
		}
	}
	return out, nil
})

// closed forbids members beside those of each object, so that an answer with a member that is not described fails.
func closed(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, member := range v {
			out[name] = closed(member)
		}
		if v["type"] == "object" && v["properties"] != nil {
			out["additionalProperties"] = false
		}
		return out
	case []any:
		out := []any{}
		for _, e := range v {
			out = append(out, closed(e))
		}
		return out
	}
	return v
}

// operationOf finds the route of a call, nil where there is none.
func operationOf(c Call) *api.Route {
	path, _, _ := strings.Cut(c.Path, "?")
	if !strings.HasPrefix(path, "/api/") && path != "/healthz" && path != "/readyz" && path != "/openapi.json" && !strings.HasPrefix(path, "/problems/") {
		path = "/api/v1" + path
	}
	parts := strings.Split(path, "/")
next:
	for _, r := range api.Routes() {
		names := strings.Split(r.Path, "/")
		if r.Method != c.Method || len(names) != len(parts) {
			continue
		}
		for i, name := range names {
			if name != parts[i] && !strings.HasPrefix(name, "{") {
				continue next
			}
		}
		return &r
	}
	return nil
}

// conforms checks every answer that a test gets against the document, and every body that was accepted.
func conforms(t *testing.T) func(Call, Answer) {
	s, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	return func(c Call, a Answer) {
		r := operationOf(c)
		if r == nil {
			return
		}
		name := r.Method + " " + r.Path
		answers := s.answers[name]
		status := strconv.Itoa(a.Status)
		want, listed := answers[status]
		if !listed && a.Status >= 400 {
			want, listed = answers["default"]
		}
		if !listed {
			t.Errorf("%s answers %d, which the document does not have", name, a.Status)
		}
		if err := fits(want, a.Body); err != nil {
			t.Errorf("%s %d: %v\n%s", name, a.Status, err, a.Body)
		}
		if sent := s.sent[name]; sent != nil && a.Status < 300 {
			if q, err := (&World{}).Request(c); err == nil {
				var body bytes.Buffer
				_, _ = body.ReadFrom(q.Body)
				if err := fits(sent, body.Bytes()); err != nil {
					t.Errorf("%s took what the document does not: %v\n%s", name, err, body.Bytes())
				}
			}
		}
	}
}

func fits(s *jsonschema.Schema, text []byte) error {
	if s == nil {
		return nil
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("no JSON: %w", err)
	}
	return s.Validate(v)
}

// Every kind of fact that a batch may report is described.
func TestOpenAPIFacts(t *testing.T) {
	text, err := json.Marshal(api.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []models.Fact{models.CheckpointSaved{}, models.RequestIssued{}, models.ResponseKept{}, models.ResponseConsumed{}, models.CallGranted{},
		models.CallRefused{}, models.CallIntended{}, models.CallReturned{}, models.CommandStarted{}, models.CommandFinished{}, models.RoundCompleted{},
		models.WorkerFailed{}, models.RunCompleted{}, models.RunFailed{}, models.ToolUnknown{}, models.RequestRefused{}, models.SourcePrepared{},
		models.VerificationFinished{}} {
		if !strings.Contains(string(text), `"const":"`+f.Kind()+`"`) {
			t.Errorf("%s is missing", f.Kind())
		}
	}
}
