package tracing

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
)

// Interceptors are for the options of Temporal's client, and with it for its
// workers: they carry the span of a request in headers to workflows, child
// workflows and activities. Headers have no part in what a workflow decides, so
// histories replay with and without them. There are none where there are no traces.
func (t *Tracing) Interceptors() ([]interceptor.ClientInterceptor, error) {
	if t == nil {
		return nil, nil
	}

	tracer, err := opentelemetry.NewTracer(opentelemetry.TracerOptions{
		Tracer: t.Work(), TextMapPropagator: propagation.TraceContext{}, DisableBaggage: true,
		DisableQueryTracing: true, DisableUpdateTracing: true, AllowInvalidParentSpans: true,
		SpanStarter: startOutsideWorkflows,
	})
	if err != nil {
		return nil, err
	}

	return []interceptor.ClientInterceptor{interceptor.NewTracingInterceptor(plainLogs{tracer})}, nil
}

// startOutsideWorkflows starts the spans of starts, signals and activities. A run
// has no span of its own: it may be replayed by several processes, which would
// each export one, or wait for days in one that dies with it. Its activities hang
// below the span that started it.
func startOutsideWorkflows(ctx context.Context, tracer trace.Tracer, name string, options ...trace.SpanStartOption) trace.Span {
	for _, inside := range []string{"RunWorkflow:", "HandleSignal:", "StartActivity:"} {
		if strings.HasPrefix(name, inside) {
			return trace.SpanFromContext(ctx)
		}
	}

	_, span := tracer.Start(ctx, name, options...)

	return span
}

// plainLogs names the trace in log lines as requests do.
type plainLogs struct{ interceptor.Tracer }

// GetLogger implements interceptor.Tracer.
func (plainLogs) GetLogger(logger log.Logger, ref interceptor.TracerSpanRef) log.Logger {
	span, ok := ref.(interface{ SpanContext() trace.SpanContext })
	if !ok || !span.SpanContext().IsValid() {
		return logger
	}

	return log.With(logger, "trace_id", span.SpanContext().TraceID().String())
}
