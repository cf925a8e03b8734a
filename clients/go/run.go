package forge

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// Salt is the secret of a run that its blob digests are made with. Keep it with the worker, never in a log.
type Salt [32]byte

// UnmarshalText reads 64 hex digits.
func (s *Salt) UnmarshalText(b []byte) error {
	if len(b) != hex.EncodedLen(len(s)) {
		return fmt.Errorf("a salt is %d hex digits", hex.EncodedLen(len(s)))
	}
	_, err := hex.Decode(s[:], b)
	return err
}

// Digest names a blob of the run.
func (s Salt) Digest(data []byte) models.Digest { return models.SaltedBlob(s, data) }

// Opened is a run that has a salt and no rows yet.
type Opened struct {
	Run    string `json:"run_id"`
	Salt   Salt   `json:"salt"`
	Opener string `json:"opener"`
}

// Row is a row of a journal. Payload, Command and Env are the stored canonical text; the latter three stand in the first
// row of a command only.
type Row struct {
	Actor       string          `json:"actor"`
	At          models.Instant  `json:"at"`
	Blobs       []models.Digest `json:"blobs"`
	Cmd         int64           `json:"cmd"`
	Command     json.RawMessage `json:"command,omitzero"`
	CommandID   string          `json:"command_id,omitzero"`
	CommandName string          `json:"command_name,omitzero"`
	Env         json.RawMessage `json:"env,omitzero"`
	Factory     string          `json:"factory"`
	Format      int64           `json:"format"`
	Hash        models.Digest   `json:"hash"`
	I           int64           `json:"i"`
	Kind        string          `json:"kind"`
	N           int64           `json:"n"`
	Payload     json.RawMessage `json:"payload"`
	Prev        models.Digest   `json:"prev"`
	Rules       int64           `json:"rules"`
	Run         string          `json:"run"`
	Seq         int64           `json:"seq"`
}

// RunView is where a run stands at Now: Holds is what keeps anybody from claiming it, Unknown what a reconciliation could settle.
// Registration is nil before it is registered.
type RunView struct {
	Counters      models.Counters      `json:"counters"`
	Custody       models.Digest        `json:"custody_digest"`
	End           string               `json:"end"`
	Head          models.Head          `json:"head"`
	Holds         []*models.Refusal    `json:"holds"`
	JournalDigest models.Digest        `json:"journal_digest"`
	Lease         LeaseView            `json:"lease"`
	Now           models.Instant       `json:"now"`
	Opener        string               `json:"opener"`
	OriginalActor string               `json:"original_actor"`
	Pool          string               `json:"pool"`
	Position      string               `json:"position"`
	Registered    models.Digest        `json:"registered"`
	Registration  *models.Registration `json:"registration,omitzero"`
	Rules         int64                `json:"rules"`
	Run           string               `json:"run_id"`
	RunDigest     models.Digest        `json:"run_digest"`
	Tickets       []TicketView         `json:"tickets"`
	Unknown       []UnknownView        `json:"unknown"`

	Verification *VerificationView `json:"verification,omitzero"`
}

// VerificationView is where the automatic verification of a run stands; a run without verification commands has none.
type VerificationView struct {
	Due     bool   `json:"due"`
	Passed  bool   `json:"passed"`
	Round   int64  `json:"round"`
	Started int64  `json:"started"`
	State   string `json:"state"`
	Stopped bool   `json:"stopped"`
}

// LeaseView is the grant or claim that stands. Owner is empty until a worker claims.
type LeaseView struct {
	ClaimID   string         `json:"claim_id"`
	ExpiresAt models.Instant `json:"expires_at"`
	Fence     int64          `json:"fence"`
	Granted   bool           `json:"granted"`
	Live      bool           `json:"live"`
	Owner     string         `json:"owner"`
	Request   string         `json:"request_id"`
}

// TicketView is one admission of the run.
type TicketView struct {
	Derived        models.Digest `json:"derived_checkpoint"`
	Fixture        bool          `json:"fixture"`
	Graph          models.Digest `json:"consumed_graph"`
	LeaseSeq       int64         `json:"lease_seq"`
	PolicyRevision int64         `json:"policy_revision"`
	Profile        string        `json:"profile"`
	Request        string        `json:"request_id"`
	Seal           models.Digest `json:"seal"`
	SettlementSeq  int64         `json:"settlement_seq"`
	State          string        `json:"state"`
	Turns          int64         `json:"turns"`
	Version        int64         `json:"version"`
}

// Claimed is the answer to a claim: the saved receipt and the run's salt.
type Claimed struct {
	Claim models.ClaimReceipt `json:"claim"`
	Salt  Salt                `json:"salt"`
}

// Work announces a run that may be claimed; Request is the continuity request that queued it, empty for ordinary work, and
// Pool whom it was handed to, empty for any worker.
type Work struct {
	Pool    string `json:"pool"`
	Run     string `json:"run_id"`
	Request string `json:"request_id"`
}

// OpenRun makes the run and answers its salt to its opener, again and again until it is registered.
func (c *Client) OpenRun(ctx context.Context, run string) (Saved[Opened], error) {
	return save[Opened](ctx, c, call{method: http.MethodPut, path: runPath(run)})
}

// Run returns where the run stands.
func (c *Client) Run(ctx context.Context, run string) (RunView, error) {
	return read[RunView](ctx, c, runPath(run), nil)
}

// Runs returns run ids after the one named, in order, and what to name for the next page, empty at the end.
func (c *Client) Runs(ctx context.Context, after string, limit int64) (runs []string, next string, err error) {
	query := url.Values{"limit": {strconv.FormatInt(limit, 10)}}
	if after != "" {
		query.Set("after", after)
	}
	out, err := read[struct {
		Next string   `json:"next"`
		Runs []string `json:"runs"`
	}](ctx, c, "/runs", query)
	return out.Runs, out.Next, err
}

// Register freezes the run. The command's id is the run's.
func (c *Client) Register(ctx context.Context, run string, g models.Registration) (Saved[models.AppendReceipt], error) {
	body, err := canon.Marshal(models.RegisterRun{Registration: g})
	if err != nil {
		return Saved[models.AppendReceipt]{}, err
	}
	return save[models.AppendReceipt](ctx, c, call{method: http.MethodPut, path: runPath(run, "registration"), body: body})
}

// PutBlob keeps content of the run and returns the digest that names it. fence is 0 before the first claim. Putting the
// same bytes again changes nothing.
func (c *Client) PutBlob(ctx context.Context, run string, salt Salt, fence int64, data []byte) (models.Digest, error) {
	digest := salt.Digest(data)
	_, _, err := c.do(ctx, call{method: http.MethodPut, path: runPath(run, "blobs", digest.String()), body: data,
		kind: "application/octet-stream", fence: &fence})
	return digest, err
}

// Blob returns content of the run.
func (c *Client) Blob(ctx context.Context, run string, digest models.Digest) ([]byte, error) {
	_, data, err := c.do(ctx, call{method: http.MethodGet, path: runPath(run, "blobs", digest.String())})
	return data, err
}

// UnknownView is something whose outcome is unknown: what a reconciliation names.
type UnknownView struct {
	Number    int64  `json:"number"`
	Position  int64  `json:"position"`
	Request   int64  `json:"request"`
	RequestID string `json:"request_id"`
	Seq       int64  `json:"seq"`
	Subject   string `json:"subject"`
}

// Claim takes a queued run. claim is made and stored by the worker before it sends; while that claim lives, the same id
// answers the same receipt.
func (c *Client) Claim(ctx context.Context, run, claim string, seconds models.Seconds) (Claimed, error) {
	return c.ClaimFor(ctx, run, claim, "", seconds)
}

// ClaimFor is Claim by a worker of the pool, which may also take what was handed to that pool.
func (c *Client) ClaimFor(ctx context.Context, run, claim, pool string, seconds models.Seconds) (Claimed, error) {
	body, err := canon.Marshal(models.ClaimRun{LeaseSeconds: seconds, Pool: pool})
	if err != nil {
		return Claimed{}, err
	}
	out, err := save[Claimed](ctx, c, call{method: http.MethodPut, path: runPath(run, "claims", claim), body: body})
	return out.Receipt, err
}

// Append reports facts under the fence of the live claim: all of them, or none and a Problem.
func (c *Client) Append(ctx context.Context, run, command string, fence int64, facts ...models.Fact) (Saved[models.AppendReceipt], error) {
	body, err := canon.Marshal(models.Append{Facts: facts, Fence: fence})
	if err != nil {
		return Saved[models.AppendReceipt]{}, err
	}
	return save[models.AppendReceipt](ctx, c, call{method: http.MethodPut, path: runPath(run, "batches", command), body: body})
}

// Renew lengthens an ordinary lease under its fence and returns when it ends now. Repeating it is harmless: no renewal
// shortens a lease.
func (c *Client) Renew(ctx context.Context, run, claim string, fence int64, seconds models.Seconds) (models.Instant, error) {
	body, err := canon.Marshal(struct {
		Fence   int64          `json:"fence"`
		Seconds models.Seconds `json:"lease_seconds"`
	}{fence, seconds})
	if err != nil {
		return 0, err
	}
	out, err := save[struct {
		ExpiresAt models.Instant `json:"expires_at"`
	}](ctx, c, call{method: http.MethodPut, path: runPath(run, "claims", claim, "renewal"), body: body})
	return out.Receipt.ExpiresAt, err
}

// Release gives the run back at a clean point: to any worker, or with a pool to those of that pool.
func (c *Client) Release(ctx context.Context, run, command string, fence int64, pool string) (Saved[models.AppendReceipt], error) {
	return c.native(ctx, runPath(run, "releases", command), models.ReleaseRun{Fence: fence, Pool: pool})
}

// Cancel stops the run for good.
func (c *Client) Cancel(ctx context.Context, run, command string) (Saved[models.AppendReceipt], error) {
	return c.native(ctx, runPath(run, "cancellations", command), models.CancelRun{})
}

// Verify queues the verification of the newest completed round by hand. A worker takes it with ClaimFor and the pool
// models.VerificationPool, then reports source.prepared, the commands of the frozen list, and verification.finished.
func (c *Client) Verify(ctx context.Context, run, command string, round int64) (Saved[models.VerificationReceipt], error) {
	body, err := canon.Marshal(models.AdmitVerification{Round: round})
	if err != nil {
		return Saved[models.VerificationReceipt]{}, err
	}
	return save[models.VerificationReceipt](ctx, c, call{method: http.MethodPut, path: runPath(run, "verifications", command), body: body})
}

// Retry opens the next attempt of a run that failed for good.
func (c *Client) Retry(ctx context.Context, run, command string) (Saved[models.AppendReceipt], error) {
	return c.native(ctx, runPath(run, "retries", command), models.RetryRun{})
}

// PutEvidence keeps what was found out about something unknown in the run and returns the digest that names it. An hour
// later it is gone, unless a reconciliation names it.
func (c *Client) PutEvidence(ctx context.Context, run string, data []byte) (models.Digest, error) {
	_, text, err := c.do(ctx, call{method: http.MethodPost, path: runPath(run, "evidence"), body: data, kind: "application/octet-stream"})
	if err != nil {
		return models.Digest{}, err
	}
	var out struct {
		Digest models.Digest `json:"digest"`
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return out.Digest, fmt.Errorf("POST evidence of run %s: answer: %w", run, err)
	}
	return out.Digest, nil
}

// Reconcile settles one unknown effect, or an uncertain ticket, once. Seq, Subject and RequestID are those that the run shows
// as unknown.
func (c *Client) Reconcile(ctx context.Context, run, command string, body models.Reconcile) (Saved[models.AppendReceipt], error) {
	return c.native(ctx, runPath(run, "reconciliations", command), body)
}

func (c *Client) native(ctx context.Context, path string, body models.Command) (Saved[models.AppendReceipt], error) {
	text, err := canon.Marshal(body)
	if err != nil {
		return Saved[models.AppendReceipt]{}, err
	}
	return save[models.AppendReceipt](ctx, c, call{method: http.MethodPut, path: path, body: text})
}

// Work asks what may be claimed and waits for the first announcement, at most 20 seconds. An empty answer is no error.
func (c *Client) Work(ctx context.Context, wait time.Duration) ([]Work, error) {
	return c.WorkFor(ctx, "", wait)
}

// WorkFor is Work for a worker of the pool.
func (c *Client) WorkFor(ctx context.Context, pool string, wait time.Duration) ([]Work, error) {
	query := url.Values{"wait_seconds": {strconv.FormatInt(int64(wait/time.Second), 10)}}
	if pool != "" {
		query.Set("pool", pool)
	}
	status, body, err := c.do(ctx, call{method: http.MethodGet, path: "/work", query: query})
	if err != nil || status == http.StatusNoContent {
		return nil, err
	}
	var out struct {
		Runs []Work `json:"runs"`
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return nil, fmt.Errorf("GET /work: answer: %w", err)
	}
	return out.Runs, nil
}

// Candidate reads what could be admitted for the run now, and every hold. It changes nothing.
func (c *Client) Candidate(ctx context.Context, run string) (models.Candidate, error) {
	return read[models.Candidate](ctx, c, runPath(run, "invalid-read-continuity", "candidate"), nil)
}

// RequestContinuity admits a request on the exact candidate that was read: by the route of version 2 where the body says so,
// otherwise as version 1.
func (c *Client) RequestContinuity(ctx context.Context, run, request string, body models.RequestContinuity) (Saved[models.ContinuityReceipt], error) {
	text, err := canon.Marshal(body)
	if err != nil {
		return Saved[models.ContinuityReceipt]{}, err
	}
	route := "requests"
	if body.Version == 2 {
		route = "requests-v2"
	}
	return save[models.ContinuityReceipt](ctx, c, call{method: http.MethodPost,
		path: runPath(run, "invalid-read-continuity", route, request), body: text})
}

// Continuity reads the saved receipt of a request back: what to do after ErrUncertain.
func (c *Client) Continuity(ctx context.Context, run, request string) (Saved[models.ContinuityReceipt], error) {
	return save[models.ContinuityReceipt](ctx, c, call{method: http.MethodGet,
		path: runPath(run, "invalid-read-continuity", "requests", request)})
}

// Rows returns rows of the run from the given number on.
func (c *Client) Rows(ctx context.Context, run string, from, limit int64) ([]Row, error) {
	out, err := read[struct {
		Rows []Row `json:"rows"`
	}](ctx, c, runPath(run, "rows"), page("from", from, limit))
	return out.Rows, err
}

// Export writes the run's export file to w as the server sends it and returns its length in bytes. On an error w has an
// unfinished file.
func (c *Client) Export(ctx context.Context, run string, w io.Writer) (int64, error) {
	r := call{method: http.MethodGet, path: runPath(run, "export")}
	response, err := c.send(ctx, r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	n, err := io.Copy(w, response.Body)
	if err != nil {
		return n, c.lost(r, err)
	}
	return n, nil
}
