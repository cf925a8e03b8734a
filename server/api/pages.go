package api

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/forge-continuity/forge/models"
)

func (s *Server) health(q *request) error {
	return q.json(http.StatusOK, Status{"ok"})
}

// ready says whether this node should be sent new requests: its store answers and it is not about to leave.
func (s *Server) ready(q *request) error {
	if s.draining.Err() != nil {
		return models.Refuse(models.CodeBusy, models.D("what", "draining"))
	}
	if err := s.engine.Ready(q.ctx); err != nil {
		return err
	}
	return q.json(http.StatusOK, Status{"ready"})
}

// problemPage is where the type of a problem document leads: the table's entry as plain text.
func (s *Server) problemPage(q *request) error {
	entry, ok := models.Lookup(models.Code(q.c.Params("code")))
	if !ok {
		return models.Refuse(models.CodeNotFound)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nHTTP status %d, code %s.\n\n%s\n%s\n", title(entry.Code), entry.HTTP, entry.Code, entry.Message, entry.Next)
	if len(entry.Rules) > 0 {
		fmt.Fprintf(&b, "\nContinuity rules: %s.\n", strings.Join(entry.Rules, ", "))
	}
	return q.bytes(http.StatusOK, fiber.MIMETextPlainCharsetUTF8, []byte(b.String()))
}
