package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
)

// Seconds in Retry-After: a node that is busy is soon free, a bound that is reached waits for workers or for a person.
const (
	retryBusy  = 1
	retryBound = 30
)

// fail is the one place where an error becomes an answer. Text of an error goes to the log alone, under an id that the
// answer shows.
func (s *Server) fail(c *fiber.Ctx, err error) error {
	defer s.waiting.Delete(&c.Request().Header)
	r := s.refusal(c, err)
	entry, _ := models.Lookup(r.Code)
	p := Problem{Code: r.Code, Detail: r.Message, Details: map[string]string{}, Next: r.Next, Status: int64(entry.HTTP),
		Title: title(r.Code), Type: "/problems/" + string(r.Code)}
	for _, d := range r.Details {
		p.Details[d.Name] = d.Value
	}
	switch entry.HTTP {
	case http.StatusUnauthorized:
		c.Set(fiber.HeaderWWWAuthenticate, `Bearer realm="forge"`)
	case http.StatusServiceUnavailable:
		c.Set(fiber.HeaderRetryAfter, strconv.Itoa(retryBusy))
	case http.StatusTooManyRequests:
		c.Set(fiber.HeaderRetryAfter, strconv.Itoa(retryBound))
	}
	body, err := canon.Marshal(p)
	if err != nil { // a detail that is no text: the code still says what happened
		p.Details = map[string]string{}
		body = canon.MustMarshal(p)
	}
	c.Status(entry.HTTP).Set(fiber.HeaderContentType, "application/problem+json")
	return c.Send(body)
}

// refusal finds the refusal in an error, or makes one for what the HTTP library and the shell report.
func (s *Server) refusal(c *fiber.Ctx, err error) *models.Refusal {
	var r *models.Refusal
	var f *fiber.Error
	switch {
	case errors.As(err, &r) && r != nil:
		if r.Code == models.CodeUnavailable || r.Code == models.CodeInternal {
			return r.With(models.D("id", s.report(c, err)))
		}
		return r
	case errors.As(err, &f):
		switch f.Code {
		case http.StatusNotFound:
			return models.Refuse(models.CodeNotFound)
		case http.StatusMethodNotAllowed:
			return models.Refuse(models.CodeMethodNotAllowed)
		case http.StatusRequestEntityTooLarge:
			return models.Refuse(models.CodePayloadTooLarge)
		case http.StatusRequestHeaderFieldsTooLarge:
			return models.Refuse(models.CodePayloadTooLarge, models.D("limit", int64(maxHeader)), models.D("what", "headers"))
		case http.StatusRequestTimeout: // of a body that did not come, and nobody was asked for yet
			if r := s.stranger(c); r != nil {
				return r
			}
			return models.Refuse(models.CodeRequestMalformed, models.D("what", "the request did not arrive in time"))
		case http.StatusBadRequest, http.StatusBadGateway: // what the connection brought
			return models.Refuse(models.CodeRequestMalformed, models.D("what", "the request could not be read from the connection"))
		}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return models.Refuse(models.CodeUnavailable, models.D("id", s.report(c, err)))
	}
	return models.Refuse(models.CodeInternal, models.D("id", s.report(c, err)))
}

// stranger is the refusal of a request to the API that nobody known sent, and whose body did not come.
func (s *Server) stranger(c *fiber.Ctx) *models.Refusal {
	token, waited := s.waiting.LoadAndDelete(&c.Request().Header)
	if !waited {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.requestTime)
	defer cancel()
	if _, err := s.engine.Authenticate(ctx, token.(string)); err != nil {
		return s.refusal(c, err)
	}
	return nil
}

// report logs an error once and returns the id it stands under.
func (s *Server) report(c *fiber.Ctx, err error) string {
	var raw [8]byte
	_, _ = rand.Read(raw[:]) // crypto/rand does not fail; an id that repeats would only be harder to find
	id := hex.EncodeToString(raw[:])
	s.log.Error("request failed", "id", id, "method", c.Method(), "route", c.Route().Path, "error", err.Error())
	return id
}

// title writes a code as a short phrase, the same for every occurrence (RFC 9457, section 3.1.3).
func title(code models.Code) string {
	words := strings.ReplaceAll(string(code), "_", " ")
	return strings.ToUpper(words[:1]) + words[1:]
}
