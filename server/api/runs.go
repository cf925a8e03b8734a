package api

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/server/engine"
)

func (s *Server) listRuns(q *request) error {
	query, err := q.query("after", "limit")
	if err != nil {
		return err
	}
	after, err := query.id("after")
	if err != nil {
		return err
	}
	limit, err := query.number("limit", defaultPage, 1, pageRuns)
	if err != nil {
		return err
	}
	ids, err := s.engine.Runs(q.ctx, q.caller, after, limit)
	if err != nil {
		return err
	}
	out := RunList{Runs: ids}
	if int64(len(ids)) == limit {
		out.Next = ids[len(ids)-1]
	}
	return q.json(http.StatusOK, out)
}

func (s *Server) openRun(q *request) error {
	run, err := q.id("run_id")
	if err != nil {
		return err
	}
	info, created, err := s.engine.OpenRun(q.ctx, q.caller, run)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return q.json(status, Opened{Opener: info.Opener, Run: info.Run, Salt: hex.EncodeToString(info.Salt[:])})
}

func (s *Server) showRun(q *request) error {
	run, err := q.id("run_id")
	if err != nil {
		return err
	}
	if _, err := q.query(); err != nil {
		return err
	}
	v, err := s.engine.Run(q.ctx, q.caller, run, engine.Anyone...)
	if err != nil {
		return err
	}
	return q.json(http.StatusOK, shown(v))
}

func shown(v engine.RunView) RunShown {
	st, l := v.State, v.State.Lease
	out := RunShown{
		Counters: st.Counters(), Custody: st.Custody.Digest, End: st.End, Head: st.Head, Now: v.Now, Opener: v.Run.Opener,
		OriginalActor: st.OriginalActor, Pool: st.Pool, Position: v.Position, Registered: st.Registered, Rules: st.Rules, Run: v.Run.Run,
		Holds: v.Holds, Lease: LeaseShown{Fence: l.Fence},
	}
	switch { // of a claim that has ended only the fence still counts
	case l.Live:
		out.Lease = LeaseShown{ClaimID: l.ClaimID, ExpiresAt: v.Lease, Fence: l.Fence, Live: true, Owner: l.Owner, Request: l.RequestID}
	case l.Granted:
		out.Lease = LeaseShown{ExpiresAt: l.ExpiresAt, Fence: l.Fence, Granted: true, Request: l.RequestID}
	}
	for _, u := range v.Unknown {
		out.Unknown = append(out.Unknown, UnknownShown{Number: u.Number, Position: u.Position, Request: u.Request, RequestID: u.RequestID,
			Seq: u.Seq, Subject: u.Subject})
	}
	if !st.Registered.IsZero() {
		out.Registration, out.JournalDigest, out.RunDigest = &st.Registration, st.Head.Digest(), st.RunDigest()
	}
	if st.Registration.Verification != (models.Verification{}) {
		d := st.Verification
		out.Verification = &VerificationShown{Due: v.Verifiable, Passed: d.Passed, Round: d.Round, Started: d.Started, State: d.State, Stopped: d.Stopped}
	}
	for _, t := range v.Tickets {
		out.Tickets = append(out.Tickets, TicketShown{
			Derived: t.Derived, Fixture: t.Fixture, Graph: t.Graph, LeaseSeq: t.GrantSeq, PolicyRevision: t.PolicyRevision, Profile: t.Profile,
			Request: t.RequestID, Seal: t.Seal, SettlementSeq: t.SettledSeq, State: t.State, Turns: t.Turns, Version: t.Version,
		})
	}
	return out
}

func (s *Server) register(q *request) error {
	run, err := q.id("run_id")
	if err != nil {
		return err
	}
	var c models.RegisterRun
	if err := q.decode(&c); err != nil {
		return err
	}
	a, err := s.engine.Do(q.ctx, q.caller, run, run, c)
	if err != nil {
		return err
	}
	return q.receipt(http.StatusCreated, a)
}

func (s *Server) putBlob(q *request) error {
	run, err := q.id("run_id")
	if err != nil {
		return err
	}
	digest, err := q.digest("digest")
	if err != nil {
		return err
	}
	fence, err := q.fence()
	if err != nil {
		return err
	}
	if err := s.engine.PutBlob(q.ctx, q.caller, run, fence, digest, q.body); err != nil {
		return err
	}
	return q.none()
}

func (s *Server) getBlob(q *request) error {
	run, err := q.id("run_id")
	if err != nil {
		return err
	}
	digest, err := q.digest("digest")
	if err != nil {
		return err
	}
	data, err := s.engine.Blob(q.ctx, q.caller, run, digest)
	if err != nil {
		return err
	}
	q.c.Set(fiber.HeaderContentDisposition, "attachment")
	return q.bytes(http.StatusOK, fiber.MIMEOctetStream, data)
}

// claim answers the receipt with the run's salt, first and again while that claim lives; afterwards the refusal says that
// it does not.
func (s *Server) claim(q *request) error {
	run, id, err := q.ids("run_id", "claim_id")
	if err != nil {
		return err
	}
	var c models.ClaimRun
	if err := q.decode(&c); err != nil {
		return err
	}
	a, err := s.engine.Do(q.ctx, q.caller, run, id, c)
	if err != nil {
		return err
	}
	var receipt models.ClaimReceipt
	if err := canon.Unmarshal(a.Body, &receipt); err != nil {
		return fmt.Errorf("receipt of claim %s of run %s: %w", id, run, err)
	}
	salt, err := s.engine.Salt(q.ctx, q.caller, run, receipt.Fence)
	if err != nil {
		return err
	}
	return q.json(http.StatusOK, Claimed{Claim: a.Body, Salt: hex.EncodeToString(salt[:])})
}

func (s *Server) runRows(q *request) error {
	run, err := q.id("run_id")
	if err != nil {
		return err
	}
	return s.rows(q, run)
}

// rows answers rows of a run, or with "" of the factory's own journal.
func (s *Server) rows(q *request, run string) error {
	query, err := q.query("from", "limit")
	if err != nil {
		return err
	}
	from, err := query.number("from", 1, 1, models.MaxRows)
	if err != nil {
		return err
	}
	limit, err := query.number("limit", defaultPage, 1, pageRows)
	if err != nil {
		return err
	}
	rows, err := s.engine.Rows(q.ctx, q.caller, run, from, limit)
	if err != nil {
		return err
	}
	out := RowList{Next: from + int64(len(rows))}
	for _, r := range rows {
		out.Rows = append(out.Rows, engine.RowToExport(r))
	}
	return q.json(http.StatusOK, out)
}

// export streams an export file. A fault on the way breaks the connection, so that half a file never looks whole.
func (s *Server) export(q *request) error {
	run, err := q.id("run_id")
	if err != nil {
		return err
	}
	if _, err := q.query(); err != nil {
		return err
	}
	// The body is written after this handler has returned.
	write, err := s.engine.Export(context.WithoutCancel(q.ctx), q.caller, run)
	if err != nil {
		return err
	}
	out, in := io.Pipe()
	go func() { _ = in.CloseWithError(write(in)) }()
	q.c.Status(http.StatusOK).Set(fiber.HeaderContentType, "application/jsonl")
	q.c.Set(fiber.HeaderContentDisposition, `attachment; filename="`+run+`.forge.jsonl"`)
	q.c.Context().SetBodyStream(out, -1)
	return nil
}

// work waits for announcements to the caller's pool, or of runs for anyone. A drain ends the wait, so that no worker starts on a node that is leaving.
func (s *Server) work(q *request) error {
	query, err := q.query("pool", "wait_seconds")
	if err != nil {
		return err
	}
	wait, err := query.number("wait_seconds", 0, 0, MaxWait)
	if err != nil {
		return err
	}
	pool, err := query.id("pool")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(q.ctx)
	defer cancel()
	defer context.AfterFunc(s.draining, cancel)()
	entries, err := s.engine.Work(ctx, q.caller, pool, time.Duration(wait)*time.Second, announced)
	switch {
	case s.draining.Err() != nil || err == nil && len(entries) == 0:
		return q.none()
	case err != nil:
		return err
	}
	out := WorkList{}
	for _, e := range entries {
		out.Runs = append(out.Runs, WorkEntry{Pool: e.Pool, Request: e.Request, Run: e.Run})
	}
	return q.json(http.StatusOK, out)
}
