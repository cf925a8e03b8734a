// Package apitest runs the API for tests: an engine over a given store and sandbox, on a real loopback port, with a
// factory, principals with tokens, records, and a profile that covers the composition. It says nothing about what any
// route answers.
package apitest

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/api"
	"github.com/forge-continuity/forge/server/engine"
)

// Names in the factory that Start makes. Dana is administrator and operator, and the original actor of runs made by Hold.
const (
	Factory       = "factory-1"
	Dana          = "dana"
	Administrator = "administrator"
	Operator      = "operator"
	Worker        = "worker"
	Reader        = "reader"
	Nobody        = "nobody" // a principal without a role

	OtherFactory = "factory-2"
	Stranger     = "stranger" // every role, in the other factory
)

// Build is what the engine of a World calls itself.
const Build = "apitest"

// Options change what Start makes.
type Options struct {
	// Retained makes the factory one that does real work, in place of a fixture factory (rules O1).
	Retained bool
	// Profile replaces the registered profile; a profile without an id registers none.
	Profile func(models.Profile) models.Profile
	// Screener screens for credentials in place of Screen.
	Screener engine.Screener
	// Policy is put when it is not nil. Revision is filled in.
	Policy *models.Policy
}

// Enabled is a policy that admits: every count at its default, the widest window.
func Enabled() *models.Policy {
	p := models.DefaultPolicy()
	p.Enabled, p.MaxValidForSeconds = true, models.MaxWindow
	return &p
}

// World is a running server and what stands behind it.
type World struct {
	URL    string
	Addr   string
	Engine *engine.Engine
	Server *api.Server
	Store  engine.Store
	Log    *Log
	// Tokens holds a secret for each principal, by its id.
	Tokens map[string]string
	// Seen, when set, is shown every answer that came back whole. It may be called from many goroutines.
	Seen func(Call, Answer)
}

// Start makes a world. Server and engine end with the test; the store is the caller's.
func Start(tb testing.TB, store engine.Store, sandbox engine.Sandbox, o Options) *World {
	tb.Helper()
	w := &World{Store: store, Log: &Log{}, Tokens: map[string]string{}}
	log := slog.New(slog.NewJSONHandler(w.Log, nil))
	w.Engine = engine.New(store, sandbox, Build, log)
	if o.Screener == nil {
		o.Screener = Screen{}
	}
	w.Engine.Screens(o.Screener)
	w.factory(tb, Factory, Dana, !o.Retained)
	w.principal(tb, Factory, Dana, Dana, 1, models.RoleAdministrator, models.RoleOperator)
	w.principal(tb, Factory, Dana, Administrator, 0, models.RoleAdministrator)
	w.principal(tb, Factory, Dana, Operator, 0, models.RoleOperator)
	w.principal(tb, Factory, Dana, Worker, 0, models.RoleWorker)
	w.principal(tb, Factory, Dana, Reader, 0, models.RoleReader)
	w.principal(tb, Factory, Dana, Nobody, 0)
	for _, kind := range []string{models.RecordConfiguration, models.RecordScope, models.RecordSource} {
		w.Change(tb, "record-"+kind, models.PutRecord{Digest: RecordDigest(kind), Kind: kind, Name: Record})
	}
	profile := w.Profile("profile-1")
	if o.Profile != nil {
		profile = o.Profile(profile)
	}
	if profile.ID != "" {
		w.Change(tb, "profile-1", models.RegisterProfile{Profile: profile})
	}
	if o.Policy != nil {
		w.PutPolicy(tb, *o.Policy)
	}
	w.factory(tb, OtherFactory, Stranger, true)
	w.principal(tb, OtherFactory, Stranger, Stranger, 1,
		models.RoleAdministrator, models.RoleOperator, models.RoleReader, models.RoleWorker)
	w.listen(tb, log)
	return w
}

func (w *World) listen(tb testing.TB, log *slog.Logger) {
	tb.Helper()
	w.Server = api.New(w.Engine, log, api.Options{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	w.Addr = ln.Addr().String()
	w.URL = "http://" + w.Addr
	done := make(chan error, 1)
	go func() { done <- w.Server.Serve(ln) }()
	tb.Cleanup(func() {
		// Connections that a test left open mid-request would hold the shutdown for their read time.
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = w.Server.Shutdown(ctx)
		if err := <-done; err != nil {
			tb.Error(err)
		}
	})
}

// Record is the name of the source, configuration and scope records.
const Record = "main"

// RecordDigest is the digest of the record of that kind.
func RecordDigest(kind string) models.Digest { return models.PlainDigest([]byte("record " + kind)) }

// Profile is a fixture profile that covers the composition.
func (w *World) Profile(id string) models.Profile {
	h := w.Engine.Host()
	return models.Profile{Build: h.Build, Catalogue: h.Catalogue, Fixture: true, ID: id, Module: h.Module, Rules: h.Rules, Screening: h.Screening, Store: h.Store, StoreMajor: h.StoreMajor}
}

// Qualify makes a profile of one for retained work, with these qualifications (sorted).
func Qualify(p models.Profile, names ...string) models.Profile {
	p.Fixture = false
	for _, name := range names {
		p.Qualifications = append(p.Qualifications, models.Qualification{Name: name, Report: models.PlainDigest([]byte("report " + name))})
	}
	return p
}

// Change executes a factory command as Dana, past the API.
func (w *World) Change(tb testing.TB, id string, c models.Command) {
	tb.Helper()
	w.change(tb, Factory, Dana, id, c)
}

func (w *World) change(tb testing.TB, factory, actor, id string, c models.Command) {
	tb.Helper()
	if _, err := w.Engine.DoFactory(tb.Context(), engine.Caller{Factory: factory, Principal: actor}, id, c); err != nil {
		tb.Fatalf("%s %s: %v", c.Verb(), id, err)
	}
}

// PutPolicy replaces the policy, whatever revision stands.
func (w *World) PutPolicy(tb testing.TB, p models.Policy) {
	tb.Helper()
	f, err := w.Engine.Factory(tb.Context(), engine.Caller{Factory: Factory, Principal: Dana}, models.RoleAdministrator)
	if err != nil {
		tb.Fatal(err)
	}
	p.Revision = f.Policy.Revision
	digest, err := models.CommandDigest(Dana, models.PutPolicy{Policy: p, Replaces: p.Revision})
	if err != nil {
		tb.Fatal(err)
	}
	w.Change(tb, "policy-"+digest.String()[:16], models.PutPolicy{Policy: p, Replaces: p.Revision})
}

// SetRoles replaces the roles of a principal; without roles it has none.
func (w *World) SetRoles(tb testing.TB, id string, removed bool, roles ...string) {
	tb.Helper()
	f, err := w.Engine.Factory(tb.Context(), engine.Caller{Factory: Factory, Principal: Dana}, models.RoleAdministrator)
	if err != nil {
		tb.Fatal(err)
	}
	p, _ := f.Principal(id)
	c := models.PutPrincipal{ID: id, Removed: removed, Replaces: p.Authority, Roles: roles}
	digest, err := models.CommandDigest(Administrator, c)
	if err != nil {
		tb.Fatal(err)
	}
	w.change(tb, Factory, Administrator, "roles-"+digest.String()[:16], c)
}

func (w *World) factory(tb testing.TB, factory, actor string, fixture bool) {
	tb.Helper()
	w.change(tb, factory, actor, "create", models.CreateFactory{Fixture: fixture})
}

func (w *World) principal(tb testing.TB, factory, actor, id string, replaces int64, roles ...string) {
	tb.Helper()
	w.change(tb, factory, actor, "principal-"+id, models.PutPrincipal{ID: id, Replaces: replaces, Roles: roles})
	w.Tokens[id], _ = w.Token(tb, factory, id, 3600)
}

// Token issues a token, past the API, and returns the secret and its id. A negative lifetime makes one that has expired.
func (w *World) Token(tb testing.TB, factory, principal string, lifetime models.Seconds) (secret, id string) {
	tb.Helper()
	secret, id, err := w.Engine.IssueToken(tb.Context(), factory, principal, lifetime)
	if err != nil {
		tb.Fatal(err)
	}
	return secret, id
}

// Log collects what the server logs, as JSON lines.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// Lines returns the lines that contain every one of the words.
func (l *Log) Lines(words ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
next:
	for line := range strings.Lines(l.buf.String()) {
		for _, word := range words {
			if !strings.Contains(line, word) {
				continue next
			}
		}
		out = append(out, line)
	}
	return out
}
