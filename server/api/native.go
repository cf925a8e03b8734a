package api

import (
	"context"
	"net/http"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// renew lengthens an ordinary lease of the caller's. It has no command id of its own: sending it again does no harm, for no
// renewal shortens a lease.
func (s *Server) renew(q *request) error {
	run, claim, err := q.ids("run_id", "claim_id")
	if err != nil {
		return err
	}
	var body putRenewal
	if err := q.decode(&body); err != nil {
		return err
	}
	end, err := s.engine.Renew(q.ctx, q.caller, run, claim, body.Fence, body.LeaseSeconds)
	if err != nil {
		return err
	}
	return q.json(http.StatusOK, Renewed{ExpiresAt: end})
}

// native executes a command of the run under the caller's own id: 201 first, 200 with the same bytes for an identical repeat.
func native[C models.Command](s *Server, q *request) error {
	run, id, err := q.ids("run_id", "command_id")
	if err != nil {
		return err
	}
	var c C
	if err := q.decode(&c); err != nil {
		return err
	}
	a, err := s.engine.Do(q.ctx, q.caller, run, id, c)
	if err != nil {
		return err
	}
	return q.receipt(http.StatusCreated, a)
}

// inspect answers a kept checkpoint record to somebody who may read it, and writes nothing.
func (s *Server) inspect(q *request) error { return checkpoint(q, s.engine.Inspect) }

// restore answers what an ordinary restore would decode, and claims nothing.
func (s *Server) restore(q *request) error { return checkpoint(q, s.engine.Restore) }

func checkpoint[T any](q *request, read func(context.Context, engine.Caller, string, models.Digest) (T, error)) error {
	run, err := q.id("run_id")
	if err != nil {
		return err
	}
	digest, err := q.digest("digest")
	if err != nil {
		return err
	}
	if _, err := q.query(); err != nil {
		return err
	}
	out, err := read(q.ctx, q.caller, run, digest)
	if err != nil {
		return err
	}
	return q.json(http.StatusOK, out)
}

// putEvidence keeps what an operator found out about something unknown. The server makes the digest: the run's salt is for
// workers.
func (s *Server) putEvidence(q *request) error {
	run, err := q.id("run_id")
	if err != nil {
		return err
	}
	digest, err := s.engine.PutEvidence(q.ctx, q.caller, run, q.body)
	if err != nil {
		return err
	}
	return q.json(http.StatusCreated, EvidenceKept{Digest: digest})
}
