package httpx

import (
	"context"
	"strings"

	"github.com/gofiber/fiber/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// startSpan starts the span of a request, below the one that the client names in
// its header traceparent. Requests of probes have none, and those of sockets have
// one for each event instead.
func (o *observer) startSpan(c *fiber.Ctx) (context.Context, trace.Span) {
	if path := c.Path(); o.tracer == nil || isProbe(path) || strings.HasPrefix(path, socketRoute) {
		return o.ctx, noop.Span{}
	}
	// Only the ids are taken over: a header tracestate may hold kilobytes, which would
	// go into the history of the run with each of its steps.
	given := propagation.MapCarrier{"traceparent": c.Get("traceparent")}
	ctx := propagation.TraceContext{}.Extract(o.ctx, given)
	// Its name is complete when the route is known.
	return o.tracer.Start(ctx, c.Method(), trace.WithSpanKind(trace.SpanKindServer))
}

// endSpan ends the span of a request that has its answer, of a stream its headers.
func endSpan(span trace.Span, c *fiber.Ctx, route string) {
	if !span.IsRecording() {
		return
	}

	status := c.Response().StatusCode()
	span.SetName(c.Method() + " " + route)
	span.SetAttributes(
		attribute.String("http.request.method", c.Method()), attribute.String("http.route", route),
		attribute.Int("http.response.status_code", status),
	)

	if status >= fiber.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}

	span.End()
}
