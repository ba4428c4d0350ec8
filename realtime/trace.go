package realtime

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// startSpan starts the span of a client event of a known name.
func (p *Protocol) startSpan(ctx context.Context, event string) (context.Context, trace.Span) {
	if p.cfg.Tracer == nil {
		return ctx, noop.Span{}
	}

	return p.cfg.Tracer.Start(ctx, event,
		trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attribute.String("everloop.event", event)))
}

// traceAttribute returns the attribute of log lines with the trace id, if there is one.
func traceAttribute(ctx context.Context) []any {
	traced := trace.SpanContextFromContext(ctx)
	if !traced.IsValid() {
		return nil
	}

	return []any{"trace_id", traced.TraceID().String()}
}
