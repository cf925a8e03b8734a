package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/gofiber/fiber/v2"

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
	return c.Next()
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
		if q.body, err = readBody(c, r.Limit); err != nil {
			return err
		}
		return r.handle(s, q)
	}
}

func (s *Server) authenticate(ctx context.Context, c *fiber.Ctx) (engine.Caller, error) {
	values := c.Request().Header.PeekAll(fiber.HeaderAuthorization)
	if len(values) != 1 {
		return engine.Caller{}, models.Refuse(models.CodeIdentityMissing)
	}
	scheme, secret, ok := strings.Cut(string(values[0]), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return engine.Caller{}, models.Refuse(models.CodeIdentityMissing)
	}
	return s.engine.Authenticate(ctx, secret)
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
