package api

import (
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// schema is a JSON Schema, draft 2020-12, or another object of an OpenAPI document.
type schema = map[string]any

// openAPI answers the document, which is made once from the route table and the Go types.
func (s *Server) openAPI(q *request) error {
	return q.bytes(http.StatusOK, fiber.MIMEApplicationJSON, s.document())
}

// anID is models.ValidID.
func anID() schema {
	return schema{"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$", "not": schema{"enum": []any{".", ".."}}}
}

// parameters describes what operations take beside path and body.
var parameters = map[string]schema{
	"after":        {"name": "after", "in": "query", "description": "the id to go on after", "schema": anID()},
	"from":         {"name": "from", "in": "query", "schema": schema{"type": "integer", "minimum": 1, "maximum": models.MaxRows, "default": 1}},
	"limit":        {"name": "limit", "in": "query", "schema": schema{"type": "integer", "minimum": 1, "maximum": pageRows, "default": defaultPage}},
	"pool":         {"name": "pool", "in": "query", "description": "the caller's pool, none if absent", "schema": anID()},
	"wait_seconds": {"name": "wait_seconds", "in": "query", "schema": schema{"type": "integer", "minimum": 0, "maximum": MaxWait, "default": 0}},
	"Forge-Fence": {"name": "Forge-Fence", "in": "header", "description": "fence of the caller's claim, 0 before the first",
		"schema": schema{"type": "integer", "minimum": 0, "default": 0}},
	"Idempotency-Key": {"name": "Idempotency-Key", "in": "header", "required": true, "description": "the caller's own id of the command",
		"schema": anID()},
}

// OpenAPI returns the OpenAPI 3.1 document of every route. It panics where a route is not described.
func OpenAPI() map[string]any {
	b := &builder{schemas: schema{}}
	described, paths := operations(), schema{}
	for _, r := range Routes() {
		op, found := described[r.Method+" "+r.Path]
		if !found {
			panic("api: no operation describes " + r.Method + " " + r.Path)
		}
		item, _ := paths[r.Path].(schema)
		if item == nil {
			item = schema{}
			paths[r.Path] = item
		}
		item[strings.ToLower(r.Method)] = b.operation(r, op)
	}
	return schema{
		"openapi": "3.1.0",
		"info": schema{"title": "Forge", "version": "1", "description": "Private preview. Continuing held runs is a private preview, " +
			"not for retained work before the qualifications of the installation have passed."},
		"paths": paths,
		"components": schema{
			"schemas":         b.schemas,
			"securitySchemes": schema{"token": schema{"type": "http", "scheme": "bearer", "description": "a token of a principal; the factory comes from it"}},
		},
	}
}

// builder collects the schemas of named types. A type that is sent stands apart from one that is answered: a body takes
// exactly its members, an answer may gain some.
type builder struct{ schemas schema }

func (b *builder) operation(r Route, op operation) schema {
	out := schema{"summary": op.summary, "operationId": operationID(r)}
	if !r.Public {
		out["security"] = []any{schema{"token": []any{}}}
		out["x-forge-roles"] = r.Roles
	}
	if list := b.params(r.Path, op.params); len(list) > 0 {
		out["parameters"] = list
	}
	if op.takes != nil {
		out["requestBody"] = schema{"required": true, "content": b.content(op.takes, true)}
	}
	answers := schema{"default": schema{"description": "a refusal, by code", "content": schema{"application/problem+json": schema{"schema": b.of(reflect.TypeFor[Problem](), false)}}}}
	for status, v := range op.answers {
		answer := schema{"description": http.StatusText(status)}
		if _, empty := v.(none); !empty {
			answer["content"] = b.content(v, false)
		}
		answers[strconv.Itoa(status)] = answer
	}
	out["responses"] = answers
	return out
}

// operationID names a route by method and path, such as put_runs_run_id_claims_claim_id.
func operationID(r Route) string {
	path := strings.TrimPrefix(r.Path, "/api/v1")
	return strings.ToLower(r.Method) + strings.NewReplacer("/", "_", "{", "", "}", "", "-", "_", ".", "_").Replace(path)
}

func (b *builder) params(path string, names []string) []any {
	var list []any
	for _, part := range strings.Split(path, "/") {
		if !strings.HasPrefix(part, "{") {
			continue
		}
		name := strings.Trim(part, "{}")
		s := anID()
		switch name {
		case "digest":
			s = schema{"type": "string", "pattern": "^[0-9a-f]{64}$"}
		case "kind":
			s = schema{"type": "string", "enum": []any{models.RecordConfiguration, models.RecordScope, models.RecordSource}}
		case "code":
			s = schema{"type": "string"}
		}
		list = append(list, schema{"name": name, "in": "path", "required": true, "schema": s})
	}
	for _, name := range names {
		list = append(list, parameters[name])
	}
	return list
}

func (b *builder) content(v any, sent bool) schema {
	switch v.(type) {
	case octets:
		return schema{"application/octet-stream": schema{"schema": schema{}}}
	case lines:
		return schema{"application/jsonl": schema{"schema": schema{}}}
	case text:
		return schema{fiber.MIMETextPlainCharsetUTF8: schema{"schema": schema{"type": "string"}}}
	}
	return schema{"application/json": schema{"schema": b.of(reflect.TypeOf(v), sent)}}
}

// of returns the schema of a type: a reference for a struct, which has a name.
func (b *builder) of(t reflect.Type, sent bool) schema {
	switch t {
	case reflect.TypeFor[models.Digest]():
		return schema{"type": "string", "pattern": "^([0-9a-f]{64})?$", "description": `64 hex digits, "" for none`}
	case reflect.TypeFor[models.Instant]():
		return schema{"type": "integer", "format": "int64", "description": "microseconds since 1970-01-01T00:00:00Z"}
	case reflect.TypeFor[models.Seconds]():
		return schema{"type": "integer", "format": "int64", "description": "seconds"}
	case reflect.TypeFor[canon.Raw]():
		return schema{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return b.of(t.Elem(), sent)
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int64:
		return schema{"type": "integer", "format": "int64"}
	case reflect.Slice:
		return schema{"type": "array", "items": b.of(t.Elem(), sent)}
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return schema{"type": "object"}
		}
		return schema{"type": "object", "additionalProperties": b.of(t.Elem(), sent)}
	case reflect.Struct:
		name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
		if sent {
			name += "Sent"
		}
		if _, there := b.schemas[name]; !there {
			b.schemas[name] = schema{} // holds the place while members are looked at
			b.schemas[name] = b.object(t, sent)
		}
		return schema{"$ref": "#/components/schemas/" + name}
	}
	panic(fmt.Sprintf("api: no schema for %s", t))
}

// object lists the members of a struct as package canon reads and writes them.
func (b *builder) object(t reflect.Type, sent bool) schema {
	if t == reflect.TypeFor[models.Append]() {
		return b.batch()
	}
	properties, required := schema{}, []any{}
	b.members(t, sent, func(name string, s schema, always bool) {
		properties[name] = s
		if always {
			required = append(required, name)
		}
	})
	out := schema{"type": "object", "properties": properties, "required": required}
	if sent {
		out["additionalProperties"] = false
	}
	return out
}

func (b *builder) members(t reflect.Type, sent bool, emit func(name string, s schema, always bool)) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			b.members(f.Type, sent, emit)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		s := b.of(f.Type, sent)
		switch at := t.Name() + "." + name; {
		case at == "Claimed.claim":
			s = b.of(reflect.TypeFor[models.ClaimReceipt](), sent)
		case strings.HasPrefix(name, "acknowledge_"):
			s = schema{"type": "boolean", "description": "a statement of the caller's; only true is one"}
		case strings.HasPrefix(at, "ExportRow.") && f.Type == reflect.TypeFor[canon.Raw]():
			s = schema{"type": "object", "description": "the stored canonical text"}
		}
		emit(name, s, options != "omitzero")
	}
}

// batch is models.Append, whose facts are told apart by their kind.
func (b *builder) batch() schema {
	var kinds []any
	for _, f := range facts {
		kinds = append(kinds, schema{"type": "object", "additionalProperties": false, "required": []any{"data", "kind"},
			"properties": schema{"kind": schema{"const": f.Kind()}, "data": b.of(reflect.TypeOf(f), true)}})
	}
	return schema{"type": "object", "additionalProperties": false, "required": []any{"facts", "fence"}, "properties": schema{
		"facts": schema{"type": "array", "minItems": 1, "items": schema{"oneOf": kinds}},
		"fence": schema{"type": "integer", "format": "int64"},
	}}
}

// facts has one of every kind that a batch may report.
var facts = []models.Fact{
	models.CheckpointSaved{}, models.RequestIssued{}, models.ResponseKept{}, models.ResponseConsumed{}, models.CallGranted{},
	models.CallRefused{}, models.CallIntended{}, models.CallReturned{}, models.CommandStarted{}, models.CommandFinished{},
	models.RoundCompleted{}, models.WorkerFailed{}, models.RunCompleted{}, models.RunFailed{}, models.ToolUnknown{}, models.RequestRefused{}, models.SourcePrepared{}, models.VerificationFinished{},
}
