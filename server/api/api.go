// Package api is the HTTP door: routes to commands and back (design, Errors; rules, section 1). A handler parses, calls the
// engine and renders; it holds no rules. Every refusal is an RFC 9457 problem document with the code, sentence, next step
// and details of the one refusal table, and no answer ever repeats a byte of the request.
//
// Reading a body anywhere but in middleware.go is forbidden: Fiber's own ways ignore the route's limit.
package api

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/forge-continuity/forge/models"
	"github.com/forge-continuity/forge/models/canon"
	"github.com/forge-continuity/forge/server/engine"
)

// Limits of bodies in bytes, by kind of route (design, Measured here). Over them the answer is payload_too_large.
const (
	limitNone    = 0
	limitCommand = 64 << 10
	limitBatch   = 1 << 20
	limitBlob    = 16 << 20
)

const (
	// MaxWait is the longest poll for work in seconds (design, The store).
	MaxWait = 20
	// MaxTokenLifetime is the longest life of a token: a year and a day. Every token expires.
	MaxTokenLifetime models.Seconds = 366 * 24 * 3600
	// requestTime bounds the work for one request, above the longest poll and the sandbox's own watchdog.
	requestTime = 90 * time.Second
	// readTime bounds how long a client may take to send a request: a blob of 16 MiB at 2 Mbit/s. It counts from the
	// authentication on; firstTime bounds the first 8 KiB of a body, which the HTTP library reads before anybody is asked for.
	readTime  = 75 * time.Second
	firstTime = 10 * time.Second
	// strangerTime is firstTime for a request that could not be authenticated whatever its body says.
	strangerTime = time.Second
	// writeTime bounds how long a client may take to read an answer; it starts when the answer does, after a poll has
	// waited, and is above the longest poll all the same.
	writeTime = 5 * time.Minute
	idleTime  = 2 * time.Minute
	// maxHeader bounds request line and headers in bytes.
	maxHeader = 8 << 10
	// pageRows and pageRuns bound one page of a list; defaultPage is what is answered when limit is absent.
	pageRows    = 1000
	pageRuns    = 1000
	defaultPage = 100
	// announced is how many runs one poll names.
	announced = 100
	// maxName bounds the label of a principal in bytes.
	maxName = 128
)

// Options are what a host may choose. The zero value is what forge serve uses.
type Options struct {
	// RequestTime bounds the work for one request; 0 stands for 90 s.
	RequestTime time.Duration
	// ReadTime bounds how long a client may take to send the whole of a request; 0 stands for 75 s.
	ReadTime time.Duration
}

// Server is the API over one engine.
type Server struct {
	app         *fiber.App
	engine      *engine.Engine
	log         *slog.Logger
	requestTime time.Duration
	readTime    time.Duration
	waiting     sync.Map // of *fasthttp.RequestHeader to the bearer token of a request whose body is waited for
	draining    context.Context
	drain       context.CancelFunc
	document    func() []byte
}

// New makes the API. log gets internal errors once each, under the id that the answer shows.
func New(e *engine.Engine, log *slog.Logger, o Options) *Server {
	s := &Server{engine: e, log: log, requestTime: o.RequestTime, readTime: o.ReadTime}
	if s.requestTime <= 0 {
		s.requestTime = requestTime
	}
	if s.readTime <= 0 {
		s.readTime = readTime
	}
	s.document = sync.OnceValue(func() []byte { return canon.MustMarshal(OpenAPI()) })
	s.draining, s.drain = context.WithCancel(context.Background())
	s.app = fiber.New(fiber.Config{
		AppName:                      "forge",
		BodyLimit:                    limitCommand,
		CaseSensitive:                true,
		DisablePreParseMultipartForm: true, // it would read a whole body before authentication
		DisableStartupMessage:        true,
		ErrorHandler:                 s.fail,
		IdleTimeout:                  idleTime,
		Immutable:                    true, // Fiber reuses its buffers for the next request
		ReadBufferSize:               maxHeader,
		ReadTimeout:                  s.readTime,
		StreamRequestBody:            true,
		StrictRouting:                true,
		WriteTimeout:                 writeTime,
	})
	s.app.Server().HeaderReceived = s.patience
	s.app.Use(s.edge)
	for _, r := range Routes() {
		h := s.guard(r)
		s.app.Add(r.Method, r.fiberPath(), h)
		if r.Method == http.MethodGet {
			s.app.Add(http.MethodHead, r.fiberPath(), h)
		}
	}
	return s
}

// Serve answers on ln until Shutdown. It closes ln.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.app.Listener(ln); err != nil {
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	}
	return nil
}

// Drain stops announcing work: waiting polls answer 204 at once, and /readyz answers 503 from now on. Everything else goes
// on. It may be called more than once.
func (s *Server) Drain() { s.drain() }

// Shutdown drains, stops accepting, and waits for the requests in hand until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	if err := s.app.ShutdownWithContext(ctx); err != nil {
		return fmt.Errorf("shut down: %w", err)
	}
	return nil
}
