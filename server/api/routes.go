package api

import (
	"net/http"
	"strings"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// Route is one line of the route table. Path is written as in the rules, with {names}. Limit bounds the body in bytes, 0
// for a route that takes none. Roles are those that the engine lets in: any one of them, or with All somebody who holds them
// all. A public route asks for no token.
type Route struct {
	Method string
	Path   string
	Limit  int64
	Public bool
	Roles  []string
	All    bool

	handle func(*Server, *request) error
}

var (
	anyone        = engine.Anyone
	administrator = []string{models.RoleAdministrator}
	operator      = []string{models.RoleOperator}
	worker        = []string{models.RoleWorker}
	recorder      = []string{models.RoleOperator, models.RoleWorker}
	reviewer      = []string{models.RoleOperator, models.RoleAdministrator}
	auditor       = engine.Auditors
)

// Routes returns the table of every route (rules, section 1).
func Routes() []Route {
	const (
		v1   = "/api/v1"
		run  = v1 + "/runs/{run_id}"
		base = run + "/invalid-read-continuity"
	)
	get := func(path string, roles []string, h func(*Server, *request) error) Route {
		return Route{Method: http.MethodGet, Path: path, Roles: roles, handle: h}
	}
	send := func(method, path string, limit int64, roles []string, h func(*Server, *request) error) Route {
		return Route{Method: method, Path: path, Limit: limit, Roles: roles, handle: h}
	}
	both := func(r Route) Route {
		r.All = true
		return r
	}
	public := func(path string, h func(*Server, *request) error) Route {
		return Route{Method: http.MethodGet, Path: path, Public: true, handle: h}
	}
	return []Route{
		public("/healthz", (*Server).health),
		public("/readyz", (*Server).ready),
		public("/openapi.json", (*Server).openAPI),
		public("/problems/{code}", (*Server).problemPage),

		get(v1+"/runs", anyone, (*Server).listRuns),
		send(http.MethodPut, run, limitNone, operator, (*Server).openRun),
		get(run, anyone, (*Server).showRun),
		send(http.MethodPut, run+"/registration", limitCommand, operator, (*Server).register),
		send(http.MethodPut, run+"/blobs/{digest}", limitBlob, recorder, (*Server).putBlob),
		get(run+"/blobs/{digest}", anyone, (*Server).getBlob),
		send(http.MethodPut, run+"/claims/{claim_id}", limitCommand, worker, (*Server).claim),
		send(http.MethodPut, run+"/claims/{claim_id}/renewal", limitCommand, worker, (*Server).renew),
		send(http.MethodPut, run+"/batches/{command_id}", limitBatch, worker, native[models.Append]),
		send(http.MethodPut, run+"/releases/{command_id}", limitCommand, worker, native[models.ReleaseRun]),
		send(http.MethodPut, run+"/retries/{command_id}", limitCommand, operator, native[models.RetryRun]),
		send(http.MethodPut, run+"/verifications/{command_id}", limitCommand, operator, native[models.AdmitVerification]),
		send(http.MethodPost, run+"/evidence", limitBlob, operator, (*Server).putEvidence),
		send(http.MethodPut, run+"/reconciliations/{command_id}", limitCommand, operator, native[models.Reconcile]),
		send(http.MethodPut, run+"/cancellations/{command_id}", limitCommand, operator, native[models.CancelRun]),
		get(run+"/rows", anyone, (*Server).runRows),
		get(run+"/export", auditor, (*Server).export),
		get(run+"/checkpoints/{digest}/inspection", auditor, (*Server).inspect),
		get(run+"/checkpoints/{digest}/restore", operator, (*Server).restore),
		send(http.MethodPut, run+"/credential-waivers/{command_id}", limitCommand, administrator, native[models.WaiveCredential]),
		get(v1+"/work", worker, (*Server).work),

		send(http.MethodPut, v1+"/invalid-read-continuity/policy", limitCommand, administrator, (*Server).putPolicy),
		get(v1+"/invalid-read-continuity/policy", administrator, (*Server).getPolicy),
		get(base+"/candidate", operator, (*Server).candidate),
		send(http.MethodPost, base+"/requests/{request_id}", limitCommand, operator, (*Server).requestContinuity),
		send(http.MethodPost, base+"/requests-v2/{request_id}", limitCommand, operator, (*Server).requestContinuityV2),
		get(base+"/requests/{request_id}", operator, (*Server).continuity),
		both(get(base+"/requests/{request_id}/recovery-candidate", reviewer, (*Server).recoveryCandidate)),
		both(send(http.MethodPost, base+"/requests/{request_id}/recoveries/{recovery_id}", limitCommand, reviewer, (*Server).recoverNeverClaimed)),
		get(base+"/requests/{request_id}/recovery", operator, saved(models.WorkflowNeverClaimed)),
		both(send(http.MethodPost, base+"/requests/{request_id}/rejected-boundary-candidate", limitCommand, reviewer, (*Server).boundaryCandidate)),
		both(send(http.MethodPost, base+"/requests/{request_id}/rejected-boundary-recoveries/{recovery_id}", limitCommand, reviewer, (*Server).recoverRefusedBoundary)),
		get(base+"/requests/{request_id}/rejected-boundary-recovery", operator, saved(models.WorkflowRefusedBoundary)),
		both(get(base+"/requests/{request_id}/readonly-observation-candidate", reviewer, (*Server).observationCandidate)),
		both(send(http.MethodPost, base+"/requests/{request_id}/readonly-observation-recoveries/{recovery_id}", limitCommand, reviewer, (*Server).recoverReadonlyObservation)),
		get(base+"/requests/{request_id}/readonly-observation-recovery", operator, saved(models.WorkflowReadonlyObservation)),

		send(http.MethodPut, v1+"/reports/{digest}", limitBatch, administrator, (*Server).putReport),
		get(v1+"/reports/{digest}", auditor, (*Server).getReport),
		get(v1+"/factory", anyone, (*Server).factory),
		get(v1+"/factory/rows", anyone, (*Server).factoryRows),
		send(http.MethodPut, v1+"/principals/{id}", limitCommand, administrator, (*Server).putPrincipal),
		send(http.MethodPut, v1+"/records/{kind}/{name}", limitCommand, administrator, (*Server).putRecord),
		send(http.MethodPut, v1+"/profiles/{id}", limitCommand, administrator, (*Server).putProfile),
		send(http.MethodDelete, v1+"/profiles/{id}", limitNone, administrator, (*Server).retireProfile),
		send(http.MethodPost, v1+"/tokens", limitCommand, administrator, (*Server).issueToken),
		send(http.MethodDelete, v1+"/tokens/{id}", limitNone, administrator, (*Server).revokeToken),
	}
}

// fiberPath writes {name} as Fiber's :name.
func (r Route) fiberPath() string { return strings.NewReplacer("{", ":", "}", "").Replace(r.Path) }
