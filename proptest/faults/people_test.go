package faults

import (
	"net/http"
	"testing"

	forge "github.com/forge-continuity/forge/clients/go"
	"github.com/forge-continuity/forge/fixtures/load"
	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

const factory = "faults"

func putRoles(replaces int64, roles []string) forge.PrincipalPut {
	return forge.PrincipalPut{Replaces: replaces, Roles: roles}
}

// administrator makes the fixture factory on the store itself, as forge factory create does, and returns its
// administrator's token.
func administrator(t testing.TB, e *engine.Engine) string {
	t.Helper()
	caller := engine.Caller{Factory: factory, Principal: load.Administrator}
	if _, err := e.DoFactory(t.Context(), caller, "create", models.CreateFactory{Fixture: true}); err != nil {
		t.Fatal(err)
	}
	secret, _, err := e.IssueToken(t.Context(), factory, load.Administrator, 86400)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// hire makes the staff of the factory at the server.
func hire(t testing.TB, url, token string, transport http.RoundTripper) load.People {
	t.Helper()
	admin, err := forge.New(url, token, transport)
	if err != nil {
		t.Fatal(err)
	}
	people, err := load.Staff(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	return people
}
