package api

import (
	"net/http"

	"github.com/gofiber/fiber/v2"

	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/server/engine"
)

// json answers the canonical text of v.
func (q *request) json(status int, v any) error {
	body, err := canon.Marshal(v)
	if err != nil {
		return err
	}
	return q.bytes(status, fiber.MIMEApplicationJSON, body)
}

func (q *request) bytes(status int, kind string, body []byte) error {
	q.c.Status(status).Set(fiber.HeaderContentType, kind)
	return q.c.Send(body)
}

// receipt answers the saved bytes as they are: first with the given status, 200 for an identical repeat.
func (q *request) receipt(first int, a engine.Answer) error {
	if a.Repeat {
		first = http.StatusOK
	}
	return q.bytes(first, fiber.MIMEApplicationJSON, a.Body)
}

func (q *request) none() error { return q.c.SendStatus(http.StatusNoContent) }
