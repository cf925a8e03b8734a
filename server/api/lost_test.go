package api_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/server/api"
	. "github.com/forge-continuity/forge/server/api/apitest"
	"github.com/forge-continuity/forge/server/engine"
)

// losing is a store whose answer to one write is lost: what was written stands, and nobody is told. lose is the number of that write
// from now on, 1 for the next one; 0 loses none.
type losing struct {
	engine.Store
	lose atomic.Int32
}

func (l *losing) lost(err error) error {
	if err == nil && l.lose.Load() > 0 && l.lose.Add(-1) == 0 {
		return fmt.Errorf("the connection was cut: %w", engine.ErrUnavailable)
	}
	return err
}

func (l *losing) Append(ctx context.Context, locks engine.Locks, decide func(engine.Loaded) (*engine.Write, error)) error {
	return l.lost(l.Store.Append(ctx, locks, decide))
}

func (l *losing) OpenRun(ctx context.Context, factory, run, opener string, salt [32]byte) (engine.RunInfo, error) {
	info, err := l.Store.OpenRun(ctx, factory, run, opener, salt)
	return info, l.lost(err)
}

func (l *losing) PutBlob(ctx context.Context, factory, run string, b engine.Blob, limit int64) error {
	return l.lost(l.Store.PutBlob(ctx, factory, run, b, limit))
}

func (l *losing) PutToken(ctx context.Context, t engine.Token) error {
	return l.lost(l.Store.PutToken(ctx, t))
}

func (l *losing) RevokeToken(ctx context.Context, factory, id string) error {
	return l.lost(l.Store.RevokeToken(ctx, factory, id))
}

func (l *losing) PutName(ctx context.Context, factory, principal, name string) error {
	return l.lost(l.Store.PutName(ctx, factory, principal, name))
}

// step is a command as it is sent, with other content under its id, and with its content under another id.
type step struct {
	name         string
	as           string
	method       string
	path, id     string // the id stands at the end of the path
	after        string // or in the middle, before this
	keyed        bool   // or in the Idempotency-Key
	header       map[string]string
	body, other  any
	write        int32       // which of its writes has its answer lost, the first unless said otherwise
	status       int         // of the identical repeat, 200 unless said otherwise
	elsewhere    models.Code // what another id with the same content is answered; "" where it is another action
	otherContent models.Code // what the id with other content is answered, request_conflict unless said otherwise
	by           string      // somebody else who may send such a command
	otherActor   models.Code // what they are answered under the id, request_conflict unless said otherwise
	back         string      // where the saved answer is read back
}

// call makes the request of a step under an id.
func (s step) call(as, id string, body any) Call {
	c := Call{As: as, Method: s.method, Path: s.path + id + s.after, Body: body, Header: maps.Clone(s.header)}
	if s.keyed {
		c.Path, c.Header = s.path, map[string]string{"Idempotency-Key": id}
	}
	return c
}

// bystander is a run that every command for another one is sent to once.
const bystander = "bystander"

// lossy is a world over a losing store, and the routes that had their answer lost.
type lossy struct {
	*World
	store *losing
	told  map[string]bool
}

// lost sends a request whose answer is lost after that write.
func (w *lossy) lost(t *testing.T, name string, c Call, write int32) {
	t.Helper()
	w.store.lose.Store(max(write, 1))
	if a := w.Send(t, c); a.Status != http.StatusServiceUnavailable || w.store.lose.Load() != 0 {
		t.Fatalf("%s: cut after its write: %d %s", name, a.Status, a.Body)
	}
	w.tell(c)
}

// tell notes the route of a request.
func (w *lossy) tell(c Call) {
	for _, route := range api.Routes() {
		pattern := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(route.Path, "[^/]+")
		if route.Method == c.Method && regexp.MustCompile("^"+pattern+"$").MatchString("/api/v1"+c.Path) {
			w.told[route.Method+" "+route.Path] = true
		}
	}
}

// exactly sends a step whose answer is lost after the commit and shows that it happened once: the identical repeat has the saved
// answer and adds nothing, other content under its id is a conflict, and so is its content from somebody else; under another id it
// is a second action only where that is meant.
func (w *lossy) exactly(t *testing.T, s step) Answer {
	t.Helper()
	send := func(as, id string, body any) Answer { return w.Send(t, s.call(as, id, body)) }
	w.lost(t, s.name, s.call(s.as, s.id, s.body), s.write)
	stands := snapshot(t, w.World)
	if s.back != "" {
		read := w.Send(t, Call{As: s.as, Method: http.MethodGet, Path: s.back})
		again := send(s.as, s.id, s.body)
		if read.Status != http.StatusOK || !bytes.Equal(read.Body, again.Body) {
			t.Errorf("%s: read back %d %s, repeated %s", s.name, read.Status, read.Body, again.Body)
		}
	}
	first, again := send(s.as, s.id, s.body), send(s.as, s.id, s.body)
	status := s.status
	if status == 0 {
		status = http.StatusOK
	}
	if first.Status != status || again.Status != status || !bytes.Equal(first.Body, again.Body) {
		t.Fatalf("%s: the identical repeat: %d %s, and then %d %s", s.name, first.Status, first.Body, again.Status, again.Body)
	}
	if snapshot(t, w.World) != stands {
		t.Errorf("%s: the repeat wrote something", s.name)
	}
	or := func(code, other models.Code) models.Code {
		if code == "" {
			return other
		}
		return code
	}
	stands = snapshot(t, w.World)
	if s.other != nil {
		refused(t, send(s.as, s.id, s.other), or(s.otherContent, models.CodeRequestConflict))
	}
	if s.by != "" {
		refused(t, send(s.by, s.id, s.body), or(s.otherActor, models.CodeRequestConflict))
	}
	if s.elsewhere != "" {
		refused(t, send(s.as, s.id+"-other", s.body), s.elsewhere)
	}
	if snapshot(t, w.World) != stands {
		t.Errorf("%s: a refusal wrote something", s.name)
	}
	if c := s.call(s.as, s.id, s.body); strings.HasPrefix(c.Path, "/runs/") && strings.Count(c.Path, "/") > 2 {
		// Addressed to another run it is another command: its saved answer is not that run's.
		parts := strings.SplitN(c.Path, "/", 4)
		c.Path = "/runs/" + bystander + "/" + parts[3]
		if a := w.Send(t, c); a.Status < 400 && bytes.Equal(a.Body, first.Body) {
			t.Errorf("%s: sent to another run: %d %s", s.name, a.Status, a.Body)
		}
	}
	return first
}

// TestLostResponses takes each route that changes something, with its answer lost after the commit, repeated, changed, and sent under
// another id; a route of the table that no story tells of fails it. FLOW-12, FLOW-13, FLOW-14, OBS-25, NOCLAIM-11, NOCLAIM-13,
// REFUSED-22, REFUSED-24, ROBS-21, ROBS-26, ROBS-27; rules, invariants 8 to 10.
func TestLostResponses(t *testing.T) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			store := &losing{Store: s.open(t)}
			w := &lossy{World: Start(t, store, &Fake{}, Options{}), store: store, told: map[string]bool{}}
			w.Seen = conforms(t)
			w.Open(t, bystander)
			for _, story := range []func(*testing.T, *lossy){
				lostFactory, lostTokens, lostNames, lostNative, lostEnds, lostVerification, lostContinuity, lostVersionTwo, lostRecovery, lostReviews,
			} {
				story(t, w)
			}
			for _, route := range api.Routes() {
				if name := route.Method + " " + route.Path; route.Method != http.MethodGet && !w.told[name] {
					t.Errorf("%s: no answer of it was lost", name)
				}
			}
		})
	}
}

// lostFactory: policy, profiles, records and reports. The policy stays enabled, with every switch.
func lostFactory(t *testing.T, w *lossy) {
	put := http.MethodPut
	p := *Enabled()
	p.AllowUnavailableSourceObservations, p.AllowPreAdmissionRecovery, p.AllowReadonlyObservationRecovery = true, true, true
	other := p
	other.MaxTicketsPerRun = 60
	w.exactly(t, step{name: "policy", as: Dana, method: put, path: policyPath, body: p, other: other, otherContent: models.CodeRevisionStale,
		by: Administrator, otherActor: models.CodeRevisionStale, back: policyPath})

	w.exactly(t, step{name: "profile", as: Dana, method: put, path: "/profiles/profile-2", keyed: true, id: "register", body: w.Profile("profile-2"),
		other: Qualify(w.Profile("profile-2"), "controller"), by: Administrator, elsewhere: models.CodeRequestConflict})
	w.exactly(t, step{name: "retirement", as: Dana, method: http.MethodDelete, path: "/profiles/profile-2", keyed: true, id: "retire", by: Administrator,
		elsewhere: models.CodeNotFound})

	digest := func(s string) map[string]any { return map[string]any{"digest": models.PlainDigest([]byte(s))} }
	w.exactly(t, step{name: "record", as: Dana, method: put, path: "/records/source/lost", keyed: true, id: "record", body: digest("a"), other: digest("b"),
		by: Administrator})

	report := models.PlainDigest([]byte(sampleReport)).String()
	w.exactly(t, step{name: "report", as: Dana, method: put, path: "/reports/", id: report, body: sampleReport, status: http.StatusNoContent,
		other: strings.Replace(sampleReport, "exec-1", "exec-2", 1), otherContent: models.CodeBlobMismatch})
	if a := w.Send(t, Call{As: Reader, Method: http.MethodGet, Path: "/reports/" + report}); string(a.Body) != sampleReport {
		t.Errorf("the report is %d %s", a.Status, a.Body)
	}
}

// lostTokens: a token is shown once. One whose answer was lost is known to nobody, and the repeat makes another; ending one twice is
// one end.
func lostTokens(t *testing.T, w *lossy) {
	post := Call{As: Dana, Method: http.MethodPost, Path: "/tokens", Body: map[string]any{"lifetime_seconds": 60, "principal": Reader}}
	stands := snapshot(t, w.World)
	w.lost(t, "token", post, 1)
	one, two := Must[api.TokenIssued](t, w.World, http.StatusCreated, post), Must[api.TokenIssued](t, w.World, http.StatusCreated, post)
	look := func(token string) int {
		return w.Send(t, Call{Token: token, Method: http.MethodGet, Path: "/factory"}).Status
	}
	if one.ID == two.ID || look(one.Token) != http.StatusOK || look(two.Token) != http.StatusOK {
		t.Errorf("%s and %s", one.ID, two.ID)
	}
	w.exactly(t, step{name: "end of a token", as: Dana, method: http.MethodDelete, path: "/tokens/", id: one.ID, status: http.StatusNoContent,
		elsewhere: models.CodeNotFound})
	if look(one.Token) != http.StatusUnauthorized || look(two.Token) != http.StatusOK {
		t.Error("another token ended")
	}
	unchanged(t, stands, snapshot(t, w.World)) // tokens stand in no journal
}

// lostNames: a principal is two writes, the roles in the journal and the label beside it. Whichever is cut off, the repeat completes
// it.
func lostNames(t *testing.T, w *lossy) {
	body := func(name, role string) map[string]any {
		return map[string]any{"name": name, "removed": false, "replaces": 0, "roles": []string{role}}
	}
	for i, id := range []string{"cut-before-the-name", "cut-after-the-name"} {
		w.exactly(t, step{name: id, as: Dana, method: http.MethodPut, path: "/principals/" + id, keyed: true, id: id, body: body("Some One", models.RoleReader),
			other: body("Some One", models.RoleWorker), by: Administrator, write: int32(i) + 1, elsewhere: models.CodeRevisionStale})
		named := false
		for _, p := range Must[api.FactoryShown](t, w.World, http.StatusOK, Call{As: Dana, Method: http.MethodGet, Path: "/factory"}).Principals {
			named = named || p.ID == id && p.Name == "Some One" && p.Authority == 1
		}
		if !named {
			t.Errorf("%s has no name", id)
		}
	}
}

// lostNative: a run from its opening to its release.
func lostNative(t *testing.T, w *lossy) {
	put := http.MethodPut
	opened := w.exactly(t, step{name: "opening", as: Dana, method: put, path: "/runs/", id: "native", by: Operator, otherActor: models.CodeRunExists})
	content := func(salt [32]byte, as, fence string) {
		d := models.SaltedBlob(salt, []byte("lost content "+as)).String()
		w.exactly(t, step{name: "content by " + as, as: as, method: put, path: "/runs/native/blobs/", id: d, body: "lost content " + as,
			header: map[string]string{"Forge-Fence": fence}, status: http.StatusNoContent, other: "other content", otherContent: models.CodeBlobMismatch})
		if a := w.Send(t, Call{As: Reader, Method: http.MethodGet, Path: "/runs/native/blobs/" + d}); string(a.Body) != "lost content "+as {
			t.Errorf("the content is %d %s", a.Status, a.Body)
		}
	}
	var shown api.Opened
	if err := canon.Unmarshal(opened.Body, &shown); err != nil {
		t.Fatal(err)
	}
	r := w.Opened(t, shown)
	content(r.Salt, Dana, "0")
	g := r.Registration(t)
	another := g
	another.Limits.Requests++
	w.exactly(t, step{name: "registration", as: Dana, method: put, path: "/runs/", id: "native", after: "/registration",
		body: models.RegisterRun{Registration: g}, other: models.RegisterRun{Registration: another}, by: Operator})

	w.exactly(t, step{name: "claim", as: Worker, method: put, path: "/runs/native/claims/", id: "claim-1",
		body: models.ClaimRun{LeaseSeconds: 60}, other: models.ClaimRun{LeaseSeconds: 61}, elsewhere: models.CodeClaimLive})
	r.Fence = r.Show(t).Lease.Fence
	content(r.Salt, Worker, "1")

	// A renewal has no id: each counts from its own moment, none shortens the lease, and no row tells of it.
	renew := Call{As: Worker, Method: put, Path: "/runs/native/claims/claim-1/renewal", Body: map[string]int64{"fence": 1, "lease_seconds": 600}}
	rows := rowsOf(t, w.World, "native", 1)
	w.lost(t, "renewal", renew, 1)
	stood := r.Show(t).Lease.ExpiresAt
	first, again := Must[api.Renewed](t, w.World, http.StatusOK, renew), Must[api.Renewed](t, w.World, http.StatusOK, renew)
	if first.ExpiresAt < stood || again.ExpiresAt < first.ExpiresAt || len(rowsOf(t, w.World, "native", 1)) != len(rows) {
		t.Errorf("renewed to %d, %d and %d", stood, first.ExpiresAt, again.ExpiresAt)
	}
	renew.Path = strings.Replace(renew.Path, "claim-1", "claim-2", 1)
	refused(t, w.Send(t, renew), models.CodeFenceLost)

	started := func(what string) models.Append {
		return models.Append{Facts: []models.Fact{models.CommandStarted{Command: r.Blob(t, Worker, what), Number: 1, Position: -1}}, Fence: 1}
	}
	body, other := started("make"), started("make all")
	w.exactly(t, step{name: "batch", as: Worker, method: put, path: "/runs/native/batches/", id: "lost-batch", body: body, other: other,
		elsewhere: models.CodeFactOutOfOrder})
	r.Append(t, models.WorkerFailed{Report: r.Blob(t, Worker, "gone")})

	// Evidence is named by what it is: the same bytes are the same evidence.
	evidence := step{name: "evidence", as: Operator, method: http.MethodPost, path: "/runs/native/evidence", body: "the process table", status: http.StatusCreated}
	found := w.exactly(t, evidence)
	d := models.SaltedBlob(r.Salt, []byte("the process table"))
	if !bytes.Contains(found.Body, []byte(d.String())) {
		t.Errorf("evidence %s", found.Body)
	}
	settle := settlement(r.Show(t).Unknown[0], models.OutcomeDidNotHappen)
	settle.Evidence = d
	otherwise := settle
	otherwise.Seq++
	w.exactly(t, step{name: "reconciliation", as: Operator, method: put, path: "/runs/native/reconciliations/", id: "settle-1", body: settle,
		other: otherwise, by: Dana, elsewhere: models.CodeNothingToReconcile})

	r.Claim(t, "claim-2")
	release := func(pool string) models.ReleaseRun { return models.ReleaseRun{Fence: r.Fence, Pool: pool} }
	w.exactly(t, step{name: "release", as: Worker, method: put, path: "/runs/native/releases/", id: "release-1", body: release(""), other: release("gpu"),
		elsewhere: models.CodeFenceLost})
}

// lostEnds: another attempt of a failed run, a waiver of a finding, and a cancellation.
func lostEnds(t *testing.T, w *lossy) {
	put := http.MethodPut
	r := w.Open(t, "ends")
	r.Claim(t, "claim-1")
	r.Checkpoint = r.Blob(t, Worker, "a record with "+Key+" in it")
	r.Append(t, models.CheckpointSaved{Checkpoint: r.Checkpoint}, models.RunFailed{Report: r.Blob(t, Worker, "it cannot be done")})
	waiver := models.WaiveCredential{Blob: r.Checkpoint, Rule: "apitest-key", RuleSet: Screen{}.RuleSet()}
	other := waiver
	other.Rule = "another-key"
	w.exactly(t, step{name: "waiver", as: Dana, method: put, path: "/runs/ends/credential-waivers/", id: "waive-1", body: waiver, other: other,
		by: Administrator, elsewhere: models.CodeRequestConflict})
	w.exactly(t, step{name: "retry", as: Dana, method: put, path: "/runs/ends/retries/", id: "retry-1", body: models.RetryRun{}, by: Operator,
		elsewhere: models.CodeRunNotFailed})
	if n := r.Show(t).Counters.Attempt; n != 2 {
		t.Errorf("attempt %d", n)
	}
	w.exactly(t, step{name: "cancellation", as: Operator, method: put, path: "/runs/ends/cancellations/", id: "cancel-1", body: models.CancelRun{}, by: Dana,
		elsewhere: models.CodeRunCancelled})
}

// lostVerification: by hand, and the server's own, which has nobody to answer: a scheduler that was cut off goes on, and neither
// queues nor refuses anything a second time.
func lostVerification(t *testing.T, w *lossy) {
	frozen := func(g *models.Registration) { g.Verification = models.Verification{Commands: 1, List: g.Task} }
	round := func(id string) *Run {
		r := w.Open(t, id, frozen)
		r.Claim(t, "claim-1")
		r.Append(t, models.RoundCompleted{Round: r.Show(t).Counters.CompletedRounds + 1})
		return r
	}
	r := round("by-hand")
	r.Fail(t)
	w.exactly(t, step{name: "verification", as: Operator, method: http.MethodPut, path: "/runs/by-hand/verifications/", id: "verify-1",
		body: models.AdmitVerification{Round: 1}, other: models.AdmitVerification{Round: 2}, by: Dana, elsewhere: models.CodeVerificationNotDue})

	queued, stopped := round("queued"), round("stopped")
	queued.Fail(t)
	stopped.Turn(t, 1, EvidenceCall)
	stopped.Fail(t)
	stopped.Admit(t, "request-stopped")
	for left := range 2 { // the two runs that are due, one cut off each time
		w.store.lose.Store(1)
		if _, _, err := w.Engine.ScheduleVerifications(t.Context()); err == nil {
			t.Errorf("scheduling %d was not cut off", left)
		}
	}
	stands := snapshot(t, w.World)
	restarted := engine.New(w.Store, &Fake{}, Build, slog.New(slog.DiscardHandler))
	if q, n, err := restarted.ScheduleVerifications(t.Context()); q != 0 || n != 0 || err != nil {
		t.Errorf("queued %d, refused %d: %v", q, n, err)
	}
	unchanged(t, stands, snapshot(t, w.World))
	if a, b := count(t, w.World, "queued", models.VerificationAdmitted{}), count(t, w.World, "stopped", models.VerificationRefused{}); a != 1 || b != 1 {
		t.Errorf("%d entered, %d refused", a, b)
	}
}

// lostContinuity: version 1.
func lostContinuity(t *testing.T, w *lossy) {
	r := w.Hold(t, "continued")
	body := Accept(r.Candidate(t), 600)
	longer := body
	longer.ValidForSeconds = 601
	w.exactly(t, step{name: "request", as: Dana, method: http.MethodPost, path: r.Base() + "/requests/", id: "request-1", body: body, other: longer, by: Operator,
		elsewhere: models.CodeGraphHasTicket, back: r.Base() + "/requests/request-1"})
	r.Claim(t, "claim-2")
	r.Fail(t)
	settle := settlement(r.Show(t).Unknown[0], models.OutcomeChargedUnknown)
	otherwise := settle
	otherwise.Seq++
	w.exactly(t, step{name: "reconciliation of the ticket", as: Operator, method: http.MethodPut, path: "/runs/continued/reconciliations/", id: "settle-1",
		body: settle, other: otherwise, by: Dana, elsewhere: models.CodeNothingToReconcile})
}

// lostVersionTwo: version 2 has a route of its own and shares ids and read-back with version 1.
func lostVersionTwo(t *testing.T, w *lossy) {
	r := observing(t, w.World, "second")
	body := acceptTwo(r.Candidate(t), 600)
	longer := body
	longer.ValidForSeconds = 601
	w.exactly(t, step{name: "request of version 2", as: Dana, method: http.MethodPost, path: r.Base() + "/requests-v2/", id: "request-2", body: body, other: longer,
		by: Operator, elsewhere: models.CodeGraphHasTicket, back: r.Base() + "/requests/request-2"})
	one := body
	one.Version, one.AcknowledgeUnavailableSourceObservations = 1, false
	refused(t, r.Request(t, "request-2", one), models.CodeRequestConflict)
}

// lostRecovery: a request that nobody claimed.
func lostRecovery(t *testing.T, w *lossy) {
	r := w.Hold(t, "unclaimed")
	submit(t, w.World, r.Base()+"/requests/request-3", Accept(r.Candidate(t), 1))
	path := r.Base() + "/requests/request-3"
	lapse(t, r)
	c := Must[models.RecoveryCandidate](t, w.World, http.StatusOK, Call{As: Dana, Method: http.MethodGet, Path: path + "/recovery-candidate"})
	w.exactly(t, step{name: "recovery", as: Dana, method: http.MethodPost, path: path + "/recoveries/", id: "recovery-1", body: recoveryBody(c, 600),
		other: recoveryBody(c, 601), by: w.both(t), elsewhere: models.CodeRecoveryRecorded, back: path + "/recovery"})
}

// lostReviews: a refused boundary and then a lost observation. The candidate of the former is a POST that saves nothing, so there is
// nothing that its lost answer could leave behind.
func lostReviews(t *testing.T, w *lossy) {
	post := http.MethodPost
	r := w.Hold(t, "reviewed")
	admitted := r.Admit(t, "request-4")
	path := r.Base() + "/requests/request-4"
	r.Claim(t, "claim-2")
	what := refuseRequest(t, r, admitted.Derived, 2)
	correction := reports(t, w.World, &what)
	inspect := Call{As: Dana, Method: post, Path: path + "/rejected-boundary-candidate", Body: what}
	stands := snapshot(t, w.World)
	w.store.lose.Store(1)
	if first, again := w.Send(t, inspect), w.Send(t, inspect); first.Status != http.StatusOK || !bytes.Equal(first.Body, again.Body) || w.store.lose.Swap(0) != 1 {
		t.Errorf("%d %s\n%d %s", first.Status, first.Body, again.Status, again.Body)
	}
	unchanged(t, stands, snapshot(t, w.World))
	w.tell(inspect)

	longer := func(body map[string]any) map[string]any {
		out := maps.Clone(body)
		out["valid_for_seconds"] = 601
		return out
	}
	body := boundaryBody(t, w.World, path, what, correction)
	w.exactly(t, step{name: "refused boundary", as: Dana, method: post, path: path + "/rejected-boundary-recoveries/", id: "recovery-2", body: body,
		other: longer(body), by: w.both(t), elsewhere: models.CodeRecoveryRecorded, back: path + "/rejected-boundary-recovery"})
	r.Claim(t, "claim-3")
	loseEvidence(t, r, admitted.Derived, 3)
	body = observationBody(t, w.World, path)
	w.exactly(t, step{name: "lost observation", as: Dana, method: post, path: path + "/readonly-observation-recoveries/", id: "recovery-3", body: body,
		other: longer(body), by: w.both(t), elsewhere: models.CodeRecoveryRecorded, back: path + "/readonly-observation-recovery"})
}

// both is a principal who is administrator and operator, as Dana is.
func (w *lossy) both(t *testing.T) string {
	t.Helper()
	const id = "both"
	w.Change(t, "principal-"+id, models.PutPrincipal{ID: id, Roles: []string{models.RoleAdministrator, models.RoleOperator}})
	if w.Tokens[id] == "" {
		w.Tokens[id], _ = w.Token(t, Factory, id, 3600)
	}
	return id
}

// A round is verified over the API: the server queues it, a worker of the pool takes it, and the run shows what came of it. Beside a
// ticket one record is left and nothing more, also after a restart; by hand it can still be asked for, by an operator. BOUND-10,
// BOUND-11, BOUND-12 (across a restart), BOUND-13.
func TestVerificationOverTheAPI(t *testing.T) {
	each(t, Options{Policy: Enabled()}, func(t *testing.T, w *World) {
		frozen := func(g *models.Registration) { g.Verification = models.Verification{Commands: 1, List: g.Task} }
		schedule := func(e *engine.Engine, queued, refused int) {
			t.Helper()
			if q, r, err := e.ScheduleVerifications(t.Context()); q != queued || r != refused || err != nil {
				t.Fatalf("queued %d, refused %d: %v", q, r, err)
			}
		}
		r := w.Open(t, "run-1", frozen)
		r.Claim(t, "claim-1")
		schedule(w.Engine, 0, 0)
		r.Append(t, models.RunCompleted{Result: r.Blob(t, Worker, "done"), Round: r.Show(t).Counters.CompletedRounds + 1})
		if v := r.Show(t).Verification; v == nil || !v.Due {
			t.Fatalf("%+v", v)
		}
		schedule(w.Engine, 1, 0)
		schedule(w.Engine, 0, 0)
		work := Must[api.WorkList](t, w, http.StatusOK, Call{As: Worker, Method: http.MethodGet, Path: "/work?pool=" + models.VerificationPool})
		if len(work.Runs) != 1 || work.Runs[0].Run != "run-1" || work.Runs[0].Pool != models.VerificationPool {
			t.Fatalf("%+v", work)
		}
		claim := func(pool string) Answer {
			return w.Send(t, Call{As: Worker, Method: http.MethodPut, Path: "/runs/run-1/claims/verify-" + pool + "1", Body: models.ClaimRun{LeaseSeconds: 60, Pool: pool}})
		}
		refused(t, claim(""), models.CodeNotInPool)
		if a := claim(models.VerificationPool); a.Status != http.StatusOK {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		show := r.Show(t)
		r.Fence = show.Lease.Fence
		r.Append(t, models.SourcePrepared{Source: show.Registration.Source.Digest},
			models.CommandStarted{Command: r.Blob(t, Worker, "go test"), Number: show.Counters.Commands + 1, Position: -1})
		r.Append(t, models.CommandFinished{Number: show.Counters.Commands + 1, Receipt: r.Blob(t, Worker, "ok")},
			models.VerificationFinished{Passed: true, Report: r.Blob(t, Worker, "all passed")})
		if v := r.Show(t); v.Verification.State != models.VerificationStateFinished || !v.Verification.Passed || v.Counters.Commands != show.Counters.Commands+1 || v.End != "completed" {
			t.Errorf("%+v", v.Verification)
		}

		held := w.Hold(t, "run-2", frozen)
		if v := held.Show(t).Verification; v.Due { // no round of it is completed
			t.Fatalf("%+v", v)
		}
		hand := func(as string, round int64) Answer {
			return w.Send(t, Call{As: as, Method: http.MethodPut, Path: fmt.Sprintf("/runs/run-2/verifications/hand-%d", round), Body: models.AdmitVerification{Round: round}})
		}
		refused(t, hand(Operator, 3), models.CodeVerificationNotDue)
		refused(t, hand(Reader, 3), models.CodeRoleMissing)

		rounds := w.Open(t, "run-3", frozen)
		rounds.Claim(t, "claim-1")
		rounds.Append(t, models.RoundCompleted{Round: rounds.Show(t).Counters.CompletedRounds + 1})
		rounds.Turn(t, 1, EvidenceCall)
		rounds.Fail(t)
		schedule(w.Engine, 0, 0) // it waits for a person, and nothing is spoiled
		rounds.Admit(t, "request-3")
		before := rowsOf(t, w, "run-3", 1)
		schedule(w.Engine, 0, 1)
		after := rowsOf(t, w, "run-3", 1)
		if len(after) != len(before)+1 || after[len(after)-1] != "verification.refused" {
			t.Fatalf("appended %v", after[len(before):])
		}
		restarted := engine.New(w.Store, &Fake{}, Build, slog.New(slog.DiscardHandler))
		schedule(restarted, 0, 0)
		if v := rounds.Show(t).Verification; !v.Stopped || v.Due || len(rowsOf(t, w, "run-3", 1)) != len(after) {
			t.Errorf("%+v", v)
		}
		a := w.Send(t, Call{As: Operator, Method: http.MethodPut, Path: "/runs/run-3/verifications/hand", Body: models.AdmitVerification{Round: rounds.Show(t).Counters.CompletedRounds}})
		refused(t, a, models.CodeTicketOutstanding)
	})
}
