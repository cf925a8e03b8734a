package apitest

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/server/api"
)

// Call is one request. As names the principal whose token is sent; Token, when set, is sent instead. Body is sent as it is
// when it is a string or bytes, and as canonical JSON otherwise.
type Call struct {
	As     string
	Token  string
	Method string
	Path   string // below /api/v1 unless it starts with it or is a page outside
	Body   any
	Header map[string]string
}

// Answer is what came back, read whole.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Problem decodes a problem document; the zero Problem when the answer is none.
func (a Answer) Problem() api.Problem {
	var p api.Problem
	if err := canon.Unmarshal(a.Body, &p); err != nil {
		return api.Problem{}
	}
	return p
}

// Code is that of the problem document, "" when the answer is none.
func (a Answer) Code() models.Code { return a.Problem().Code }

// Send sends one request, on a connection of its own, and reads the answer.
func (w *World) Send(tb testing.TB, c Call) Answer {
	tb.Helper()
	a, err := w.Try(c)
	if err != nil {
		tb.Fatalf("%s %s: %v", c.Method, c.Path, err)
	}
	return a
}

// Try is Send for goroutines and for requests that may fail.
func (w *World) Try(c Call) (Answer, error) {
	request, err := w.Request(c)
	if err != nil {
		return Answer{}, err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	a := Answer{Status: response.StatusCode, Header: response.Header, Body: body}
	if err == nil && w.Seen != nil {
		w.Seen(c, a)
	}
	return a, err
}

// Request makes the http request of a call.
func (w *World) Request(c Call) (*http.Request, error) {
	var body []byte
	switch b := c.Body.(type) {
	case nil:
	case string:
		body = []byte(b)
	case []byte:
		body = b
	default:
		text, err := canon.Marshal(b)
		if err != nil {
			return nil, err
		}
		body = text
	}
	url := w.URL + "/api/v1" + c.Path
	if strings.HasPrefix(c.Path, "/api/") || c.Path == "/healthz" || c.Path == "/readyz" || c.Path == "/openapi.json" || strings.HasPrefix(c.Path, "/problems/") {
		url = w.URL + c.Path
	}
	request, err := http.NewRequest(c.Method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	token := c.Token
	if token == "" && c.As != "" {
		token = w.Tokens[c.As]
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	for name, value := range c.Header {
		request.Header.Set(name, value)
	}
	return request, nil
}

// Must sends a call and decodes the answer, which must have the status.
func Must[T any](tb testing.TB, w *World, status int, c Call) T {
	tb.Helper()
	a := w.Send(tb, c)
	var out T
	if a.Status != status {
		tb.Fatalf("%s %s as %q answered %d, want %d: %s", c.Method, c.Path, c.As, a.Status, status, a.Body)
	}
	if err := canon.Unmarshal(a.Body, &out); err != nil {
		tb.Fatalf("%s %s: %v in %s", c.Method, c.Path, err, a.Body)
	}
	return out
}
