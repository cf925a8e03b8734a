// Package forge is the Go client of the Forge API: one method for each route, typed with package models.
//
// Every id that names a command (run, claim, batch, request and policy change) is made by the caller and should be stored
// before the call. The client never sends anything twice by itself: when an answer does not arrive the error matches
// ErrUncertain, and the caller decides whether to read the id back or to send the identical command again, which is safe.
package forge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/forge-continuity/forge/models"
)

// maxAnswer bounds an answer that is read into memory, in bytes. Exports are streamed and have no bound here.
const maxAnswer = 32 << 20

// ErrUncertain reports that a command was sent, or may have been, and its answer did not arrive. It may or may not have
// been accepted: read its id back, or send the identical command under the same id.
var ErrUncertain = errors.New("the answer did not arrive, so whether the command was accepted is not known")

// Problem is a refusal of the server (RFC 9457). Code is stable (docs/REFUSALS.md); Next says what can be done.
type Problem struct {
	Status  int
	Code    models.Code
	Message string
	Next    string
	Details []models.Detail
}

// Error returns code, message and details on one line.
func (p *Problem) Error() string {
	return (&models.Refusal{Code: p.Code, Message: p.Message, Next: p.Next, Details: p.Details}).Error()
}

// Detail returns the value of the named detail, or "" when there is none.
func (p *Problem) Detail(name string) string {
	return (&models.Refusal{Details: p.Details}).Detail(name)
}

// Is reports whether target is a problem, or a refusal of models, with the same code.
func (p *Problem) Is(target error) bool {
	switch t := target.(type) {
	case *Problem:
		return t.Code == p.Code
	case *models.Refusal:
		return t.Code == p.Code
	}
	return false
}

// Client speaks to one server with one token. It is safe for concurrent use.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// New returns a client of the server at base, such as "http://127.0.0.1:8740", which sends the token. transport nil stands
// for http.DefaultTransport. Redirects are never followed: they would carry token and body elsewhere.
func New(base, token string, transport http.RoundTripper) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("server address %q is not of the form http://host:port", base)
	}
	return &Client{base: strings.TrimRight(base, "/"), token: token, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// WithToken returns a client of the same server that sends another token.
func (c *Client) WithToken(token string) *Client {
	other := *c
	other.token = token
	return &other
}

// Saved is a receipt with the bytes that the server saved. Repeat tells that the command had been accepted before; the
// bytes are the same then.
type Saved[T any] struct {
	Receipt T
	Body    []byte
	Repeat  bool
}

type call struct {
	method  string
	path    string // below /api/v1, escaped
	query   url.Values
	body    []byte
	kind    string // content type of body
	fence   *int64
	command string // Idempotency-Key
}

// do sends one request and returns the status and the whole body of a 2xx answer.
func (c *Client) do(ctx context.Context, r call) (int, []byte, error) {
	response, err := c.send(ctx, r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil || len(body) > maxAnswer {
		if err == nil {
			err = fmt.Errorf("answer longer than %d bytes", maxAnswer)
		}
		return 0, nil, c.lost(r, err)
	}
	return response.StatusCode, body, nil
}

func (c *Client) send(ctx context.Context, r call) (*http.Response, error) {
	target := c.base + "/api/v1" + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	if r.method != http.MethodGet {
		// When a kept connection breaks, net/http would send again by itself what it can: a body that it can read anew, or
		// no body under an Idempotency-Key.
		request.GetBody = nil
		if r.body == nil && r.command != "" {
			request.Body = io.NopCloser(strings.NewReader(""))
		}
	}
	if r.kind != "" {
		request.Header.Set("Content-Type", r.kind)
	}
	request.Header.Set("Accept", "application/json, application/problem+json")
	request.Header.Set("Authorization", "Bearer "+c.token)
	if r.fence != nil {
		request.Header.Set("Forge-Fence", strconv.FormatInt(*r.fence, 10))
	}
	if r.command != "" {
		request.Header.Set("Idempotency-Key", r.command)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.lost(r, err)
	}
	if response.StatusCode/100 != 2 {
		defer response.Body.Close()
		return nil, c.problem(r, response)
	}
	return response, nil
}

// lost wraps the error of a request whose answer did not arrive; reads have no outcome that could be uncertain.
func (c *Client) lost(r call, err error) error {
	var inner *url.Error
	if errors.As(err, &inner) {
		err = inner.Err // its text repeats method and address
	}
	if r.method == http.MethodGet {
		return fmt.Errorf("%s %s: %w", r.method, r.path, err)
	}
	return fmt.Errorf("%s %s: %w: %w", r.method, r.path, ErrUncertain, err)
}

func (c *Client) problem(r call, response *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	var p struct {
		Code    models.Code       `json:"code"`
		Detail  string            `json:"detail"`
		Next    string            `json:"next"`
		Details map[string]string `json:"details"`
	}
	if err != nil || json.Unmarshal(body, &p) != nil || p.Code == "" {
		err := fmt.Errorf("%s %s: the server answered %d without a problem document", r.method, r.path, response.StatusCode)
		if response.StatusCode >= 500 && r.method != http.MethodGet {
			return fmt.Errorf("%w: %w", ErrUncertain, err)
		}
		return err
	}
	out := &Problem{Status: response.StatusCode, Code: p.Code, Message: p.Detail, Next: p.Next}
	for name, value := range p.Details {
		out.Details = append(out.Details, models.Detail{Name: name, Value: value})
	}
	slices.SortFunc(out.Details, func(a, b models.Detail) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// read decodes the answer of a GET.
func read[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	var out T
	_, body, err := c.do(ctx, call{method: http.MethodGet, path: path, query: query})
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(body, &out); err != nil { // members that a newer server adds are left alone
		return out, fmt.Errorf("GET %s: answer: %w", path, err)
	}
	return out, nil
}

// save sends a command and decodes its receipt; 200 tells a repeat, except where the route says otherwise.
func save[T any](ctx context.Context, c *Client, r call) (Saved[T], error) {
	var out Saved[T]
	if r.body != nil {
		r.kind = "application/json"
	}
	status, body, err := c.do(ctx, r)
	if err != nil {
		return out, err
	}
	out.Body, out.Repeat = body, status == http.StatusOK
	if err := json.Unmarshal(body, &out.Receipt); err != nil {
		return out, fmt.Errorf("%s %s: receipt: %w", r.method, r.path, err)
	}
	return out, nil
}

func runPath(run string, rest ...string) string {
	path := "/runs/" + url.PathEscape(run)
	for _, r := range rest {
		path += "/" + url.PathEscape(r)
	}
	return path
}

func page(name string, from, limit int64) url.Values {
	return url.Values{name: {strconv.FormatInt(from, 10)}, "limit": {strconv.FormatInt(limit, 10)}}
}
