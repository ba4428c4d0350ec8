package api

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"

	"everloop/domain"
)

// givenRequestID is what a request id of a client or proxy may look like to be
// taken over.
var givenRequestID = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

// observe surrounds every request: it names it, turns a panic into an answer,
// and leaves one line in the log and one observation in the metrics. It never
// writes query strings, headers or bodies.
func (s *server) observe(c *fiber.Ctx) error {
	began := time.Now()
	r := &request{
		id: c.Get(fiber.HeaderXRequestID), base: s.Context,
		events: strings.Contains(c.Get(fiber.HeaderAccept), "text/event-stream"),
	}
	if !givenRequestID.MatchString(r.id) {
		r.id = domain.NewID()
	}
	c.Set(fiber.HeaderXRequestID, r.id)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.SetUserContext(withRequest(s.Context, r))

	if err := s.guarded(c, r); err != nil {
		if err := s.fail(c, err); err != nil {
			return err
		}
	}
	s.record(c, r, time.Since(began))
	return nil
}

// guarded runs the handlers and catches their panics.
func (s *server) guarded(c *fiber.Ctx, r *request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.Logger.Error("request panicked", "request_id", r.id, "route", r.route, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = domain.AsError(fmt.Errorf("panic: %v", p))
		}
	}()
	return c.Next()
}

func (s *server) record(c *fiber.Ctx, r *request, took time.Duration) {
	status := c.Response().StatusCode()
	route := r.route
	switch {
	case route != "":
	case strings.HasPrefix(c.Path(), "/socket.io/"): // the other door, mounted on the same app
		route = "/socket.io/"
	default:
		route = "unmatched"
	}
	s.metrics.seconds.WithLabelValues(c.Method(), route, strconv.Itoa(status)).Observe(took.Seconds())
	level := slog.LevelInfo
	switch route {
	case "/healthz", "/api/health", "/readyz", "/metrics": // asked every few seconds by machines
		level = slog.LevelDebug
	}
	attrs := []slog.Attr{
		slog.String("method", c.Method()), slog.String("route", route), slog.Int("status", status),
		slog.Float64("ms", float64(took.Microseconds())/1000), slog.String("request_id", r.id),
	}
	if r.caller.User.ID != "" {
		attrs = append(attrs, slog.String("user_id", r.caller.User.ID))
	}
	if cause, ok := c.Locals(causeKey).(*domain.Error); ok {
		attrs = append(attrs, slog.String("code", cause.Code))
		if status >= 500 {
			level = slog.LevelError
			attrs = append(attrs, slog.Any("error", cause))
		}
	}
	s.Logger.LogAttrs(context.Background(), level, "request", attrs...)
}

// metrics are the measurements of this door.
type metrics struct{ seconds *prometheus.HistogramVec }

func newMetrics(registry *prometheus.Registry) *metrics {
	m := &metrics{seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "everloop_http_request_seconds", Help: "Time from a request to its answer (to the headers, for streams).",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"method", "route", "status"})}
	registry.MustRegister(m.seconds)
	return m
}
