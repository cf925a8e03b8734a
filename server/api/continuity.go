package api

import (
	"fmt"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// putPolicy sets the policy against the revision that it names. The command's id follows from its content, so that the same
// PUT sent twice makes one revision (rules, section 1).
func (s *Server) putPolicy(q *request) error {
	var p models.Policy
	if err := q.decode(&p); err != nil {
		return err
	}
	c := models.PutPolicy{Policy: p, Replaces: p.Revision}
	digest, err := models.CommandDigest(q.caller.Principal, c)
	if err != nil {
		return err
	}
	if p.Revision < 0 {
		return malformed("revision")
	}
	a, err := s.engine.DoFactory(q.ctx, q.caller, fmt.Sprintf("policy-%d-%s", p.Revision, digest.String()[:16]), c)
	if err != nil {
		return err
	}
	// The row, and not the policy that stands by now, is what this command made.
	var receipt models.FactoryReceipt
	if err := canon.Unmarshal(a.Body, &receipt); err != nil {
		return fmt.Errorf("receipt of a policy: %w", err)
	}
	rows, err := s.engine.Rows(q.ctx, q.caller, "", receipt.Seq, 1)
	if err != nil {
		return err
	}
	if len(rows) != 1 {
		return fmt.Errorf("factory row %d of a policy is not there", receipt.Seq)
	}
	event, err := models.DecodeEvent(rows[0].Kind, rows[0].Payload)
	if err != nil {
		return err
	}
	put, ok := event.(models.PolicyPut)
	if !ok {
		return fmt.Errorf("factory row %d is %s, not a policy", receipt.Seq, rows[0].Kind)
	}
	return q.json(http.StatusOK, PolicyShown{Policy: put.Policy, Digest: put.Digest})
}

func (s *Server) getPolicy(q *request) error {
	if _, err := q.query(); err != nil {
		return err
	}
	f, err := s.engine.Factory(q.ctx, q.caller, models.RoleAdministrator)
	if err != nil {
		return err
	}
	return q.json(http.StatusOK, PolicyShown{Policy: f.Policy, Digest: f.PolicyDigest})
}

func (s *Server) candidate(q *request) error {
	run, err := q.id("run_id")
	if err != nil {
		return err
	}
	if _, err := q.query(); err != nil {
		return err
	}
	c, err := s.engine.Candidate(q.ctx, q.caller, run)
	if err != nil {
		return err
	}
	return q.json(http.StatusOK, c)
}

// requestContinuity is the version-1 request: 202 at first, 200 with the same bytes for an identical repeat.
func (s *Server) requestContinuity(q *request) error {
	run, id, err := q.ids("run_id", "request_id")
	if err != nil {
		return err
	}
	var body postRequest
	if err := q.decode(&body); err != nil {
		return err
	}
	if body.Version != nil && *body.Version != 1 {
		return malformed("version")
	}
	c, err := body.command(1)
	if err != nil {
		return err
	}
	return s.admit(q, run, id, c)
}

// requestContinuityV2 is the version-2 request: its own route, and version and the fourth acknowledgement in its body (OBS-24).
func (s *Server) requestContinuityV2(q *request) error {
	run, id, err := q.ids("run_id", "request_id")
	if err != nil {
		return err
	}
	var body postRequestV2
	if err := q.decode(&body); err != nil {
		return err
	}
	if body.Version == nil || *body.Version != 2 {
		return malformed("version")
	}
	c, err := body.postRequest.command(2)
	if err != nil {
		return err
	}
	c.AcknowledgeUnavailableSourceObservations = acknowledged(body.Observations)
	return s.admit(q, run, id, c)
}

func (s *Server) admit(q *request, run, id string, c models.Command) error {
	a, err := s.engine.Do(q.ctx, q.caller, run, id, c)
	if err != nil {
		return err
	}
	return q.receipt(http.StatusAccepted, a)
}

// command reads the members that both versions have.
func (body postRequest) command(version int64) (models.RequestContinuity, error) {
	digests := models.RequestContinuity{CandidateDigest: body.CandidateDigest, JournalDigest: body.JournalDigest,
		PolicyDigest: body.PolicyDigest, RunDigest: body.RunDigest}
	for _, d := range []struct {
		name  string
		value models.Digest
	}{
		{"candidate_digest", body.CandidateDigest}, {"journal_digest", body.JournalDigest},
		{"policy_digest", body.PolicyDigest}, {"run_digest", body.RunDigest},
	} {
		if d.value.IsZero() {
			return digests, malformed(d.name)
		}
	}
	c := digests
	c.AcknowledgeNoNewGrant = acknowledged(body.NoNewGrant)
	c.AcknowledgeOriginalConsumption = acknowledged(body.OriginalConsumption)
	c.AcknowledgeRenewedSameAttemptLease = acknowledged(body.RenewedSameAttempt)
	c.ValidForSeconds, c.Version = window(body.ValidForSeconds), version
	return c, nil
}

// window: absent is 0, which is outside every window (FLOW-10).
func window(seconds *models.Seconds) models.Seconds {
	if seconds == nil {
		return 0
	}
	return *seconds
}

// acknowledged: the Boolean true, and no other value or type, is an acknowledgement (rules, section 3).
func acknowledged(member canon.Raw) bool { return string(member) == "true" }

// continuity reads the saved receipt back, byte for byte (FLOW-12).
func (s *Server) continuity(q *request) error {
	run, id, err := q.ids("run_id", "request_id")
	if err != nil {
		return err
	}
	if _, err := q.query(); err != nil {
		return err
	}
	r, err := s.engine.Receipt(q.ctx, q.caller, run, id, models.RequestContinuity{}, models.RoleOperator)
	if err != nil {
		return err
	}
	return q.bytes(http.StatusOK, fiber.MIMEApplicationJSON, r.Body)
}
