package httpx

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
	"go.opentelemetry.io/otel/trace"

	"everloop/auth"
	"everloop/domain"
)

// givenRequestID is what a request id of a client or proxy may look like to be
// taken over.
var givenRequestID = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

// observer logs, measures and traces requests.
type observer struct {
	ctx     context.Context
	logger  *slog.Logger
	tracer  trace.Tracer
	metrics *metrics
	auditor *auth.Auditor
	clients addresses
}

// observe surrounds every request: it names it, turns a panic into an answer,
// and leaves one line in the log and one observation in the metrics. It never
// writes query strings, headers or bodies.
func (o *observer) observe(c *fiber.Ctx) error {
	began := time.Now()

	r := &Request{
		ID: c.Get(fiber.HeaderXRequestID), Base: o.ctx,
		Events: strings.Contains(c.Get(fiber.HeaderAccept), "text/event-stream"),
	}
	if !givenRequestID.MatchString(r.ID) {
		r.ID = domain.NewID()
	}

	c.Set(fiber.HeaderXRequestID, r.ID)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	ctx, span := o.startSpan(c)
	c.SetUserContext(WithRequest(ctx, r))

	if err := o.guarded(c, r); err != nil {
		if err := fail(c, err); err != nil {
			span.End()
			return err
		}
	}

	endSpan(span, c, routeOf(c, r))
	o.record(c, r, time.Since(began))

	return nil
}

// guarded runs the handlers and catches their panics.
func (o *observer) guarded(c *fiber.Ctx, r *Request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			o.logger.Error("request panicked", "request_id", r.ID, "route", r.Route, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = domain.AsError(fmt.Errorf("panic: %v", p))
		}
	}()

	return c.Next()
}

func (o *observer) record(c *fiber.Ctx, r *Request, took time.Duration) {
	status := c.Response().StatusCode()
	route := routeOf(c, r)
	o.metrics.seconds.WithLabelValues(c.Method(), route, strconv.Itoa(status)).Observe(took.Seconds())

	level := slog.LevelInfo
	if isProbe(route) {
		level = slog.LevelDebug
	}

	attrs := []slog.Attr{
		slog.String("method", c.Method()), slog.String("route", route), slog.Int("status", status),
		slog.Float64("ms", float64(took.Microseconds())/1000), slog.String("request_id", r.ID),
	}
	if r.Caller.User.ID != "" {
		attrs = append(attrs, slog.String("user_id", r.Caller.User.ID))
	}

	if traced := trace.SpanContextFromContext(c.UserContext()); traced.IsValid() {
		attrs = append(attrs, slog.String("trace_id", traced.TraceID().String()))
	}

	if cause, ok := c.Locals(causeKey).(*domain.Error); ok {
		o.auditor.Refused(c.UserContext(), r.Caller, auth.EdgeREST, o.clients.of(c).String(), route, cause)
		attrs = append(attrs, slog.String("code", cause.Code))

		if status >= 500 {
			level = slog.LevelError

			attrs = append(attrs, slog.Any("error", cause))
		}
	}

	o.logger.LogAttrs(context.Background(), level, "request", attrs...)
}

// socketRoute is the path of the other edge, mounted on the same app.
const socketRoute = "/socket.io/"

// routeOf returns the pattern of a request's path, never the path with its values.
func routeOf(c *fiber.Ctx, r *Request) string {
	switch {
	case r.Route != "":
		return r.Route
	case strings.HasPrefix(c.Path(), socketRoute):
		return socketRoute
	default:
		return "unmatched"
	}
}

// isProbe reports whether machines ask for a path every few seconds.
func isProbe(path string) bool {
	switch path {
	case "/healthz", "/api/health", "/readyz", "/metrics":
		return true
	}

	return false
}

// metrics are the measurements of this edge.
type metrics struct{ seconds *prometheus.HistogramVec }

func newMetrics(registry *prometheus.Registry) *metrics {
	m := &metrics{seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "everloop_http_request_seconds", Help: "Time from a request to its answer (to the headers, for streams).",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"method", "route", "status"})}
	registry.MustRegister(m.seconds)

	return m
}
