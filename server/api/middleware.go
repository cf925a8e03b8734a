package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/server/engine"
)

// request is what a handler gets: an authenticated caller and a body within the route's limit.
type request struct {
	c      *fiber.Ctx
	ctx    context.Context
	caller engine.Caller
	body   []byte // the handler's own
}

// consumed marks a request whose body was read to its end, as a Fiber local.
const consumed = "forge.consumed"

// edge is around every request, known route or not. It sets the headers that all answers have, turns a panic into an
// internal error, and closes the connection where bytes of a body may be left on it: fasthttp would take them for the next
// request, whoever sends that one.
func (s *Server) edge(c *fiber.Ctx) (err error) {
	for name, value := range securityHeaders {
		c.Set(name, value)
	}
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic in %s: %v", c.Route().Path, cause)
		}
		length := c.Request().Header.ContentLength()
		read, _ := c.Locals(consumed).(bool)
		// Above BodyLimit fasthttp fills its buffer with whatever has arrived, a pipelined request too.
		if c.Context().RequestBodyStream() != nil && length != 0 && !read || length > limitCommand {
			c.Response().SetConnectionClose()
		}
	}()
	s.waiting.Delete(&c.Request().Header)
	if what := ambiguous(&c.Request().Header); what != "" {
		return models.Refuse(models.CodeRequestMalformed, models.D("what", what))
	}
	return c.Next()
}

// ambiguous says what about a request's headers two readers could understand differently, or nothing (RFC 9112, sections 3.2 and
// 6.3): a proxy in front could take another part of the bytes for the body, or another host for the one that is meant.
func ambiguous(h *fasthttp.RequestHeader) string {
	n := map[string]int{}
	for line := range bytes.Lines(h.RawHeaders()) {
		if name, _, ok := bytes.Cut(line, []byte(":")); ok {
			n[strings.ToLower(string(name))]++
		}
	}
	switch {
	case n["content-length"] > 1, n["content-length"] > 0 && n["transfer-encoding"] > 0:
		return "the length of the body is given twice"
	case n["host"] > 1, n["host"] == 0 && h.IsHTTP11():
		return "exactly one Host header is required"
	}
	return ""
}

// patience bounds how long the first bytes of a body may take, which the HTTP library waits for before anything else is done,
// and notes who sends it: where they do not come, the library has forgotten the request when it says so.
func (s *Server) patience(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if h.ContentLength() == 0 || !bytes.HasPrefix(h.RequestURI(), []byte("/api/")) {
		return fasthttp.RequestConfig{}
	}
	token, ok := secret(h)
	s.waiting.Store(h, token)
	if !ok {
		return fasthttp.RequestConfig{ReadTimeout: min(strangerTime, s.readTime)}
	}
	return fasthttp.RequestConfig{ReadTimeout: min(firstTime, s.readTime)}
}

var securityHeaders = map[string]string{
	fiber.HeaderCacheControl:          "no-store",
	fiber.HeaderContentSecurityPolicy: "default-src 'none'; frame-ancestors 'none'",
	fiber.HeaderReferrerPolicy:        "no-referrer",
	fiber.HeaderXContentTypeOptions:   "nosniff",
	fiber.HeaderXFrameOptions:         "DENY",
	// The feature is a private preview, and every answer says so (PREVIEW-04).
	"Forge-Preview": "private",
}

// guard authenticates on the headers alone and only then reads the body, through the route's own limit.
func (s *Server) guard(r Route) fiber.Handler {
	return func(c *fiber.Ctx) error {
		ctx, cancel := context.WithTimeout(context.Background(), s.requestTime)
		defer cancel()
		q := &request{c: c, ctx: ctx}
		var err error
		if !r.Public {
			if q.caller, err = s.authenticate(ctx, c); err != nil {
				return err
			}
		}
		if err := c.Context().Conn().SetReadDeadline(time.Now().Add(s.readTime)); err != nil {
			return fmt.Errorf("set read deadline: %w", err)
		}
		if q.body, err = readBody(c, r.Limit); err != nil {
			return err
		}
		return r.handle(s, q)
	}
}

func (s *Server) authenticate(ctx context.Context, c *fiber.Ctx) (engine.Caller, error) {
	token, ok := secret(&c.Request().Header)
	if !ok {
		return engine.Caller{}, models.Refuse(models.CodeIdentityMissing)
	}
	return s.engine.Authenticate(ctx, token)
}

// secret returns the one bearer token of a request.
func secret(h *fasthttp.RequestHeader) (string, bool) {
	values := h.PeekAll(fiber.HeaderAuthorization)
	if len(values) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(string(values[0]), " ")
	return token, ok && strings.EqualFold(scheme, "Bearer")
}

// readBody returns the whole body: exactly as long as it was declared, and no longer than limit.
func readBody(c *fiber.Ctx, limit int64) ([]byte, error) {
	malformed := func(what string) error {
		return models.Refuse(models.CodeRequestMalformed, models.D("member", "body"), models.D("what", what))
	}
	stream, length := c.Context().RequestBodyStream(), int64(c.Request().Header.ContentLength())
	if stream == nil || length == 0 {
		c.Locals(consumed, true)
		return nil, nil
	}
	if coding := c.Request().Header.Peek(fiber.HeaderContentEncoding); len(coding) > 0 && !bytes.EqualFold(coding, []byte("identity")) {
		return nil, malformed("no content encoding is accepted")
	}
	switch {
	case limit == limitNone:
		return nil, malformed("this route takes none")
	case length < 0: // fasthttp does not tell a chunked body that was cut short from a whole one
		return nil, malformed("a Content-Length is required")
	case length > limit:
		return nil, tooLarge(limit)
	}
	data, err := io.ReadAll(io.LimitReader(stream, length))
	if err != nil || int64(len(data)) < length {
		return nil, malformed("it ended before the length that was declared")
	}
	c.Locals(consumed, true)
	return data, nil
}

func tooLarge(limit int64) error {
	return models.Refuse(models.CodePayloadTooLarge, models.D("limit", limit))
}
