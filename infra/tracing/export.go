package tracing

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// known are the attributes that are exported (docs/operators/monitoring.md lists them). No
// other one is, whichever library set it.
var known = map[attribute.Key]bool{
	"http.request.method": true, "http.route": true, "http.response.status_code": true, "error.type": true,
	"db.system.name": true, "db.operation.name": true, "db.query.text": true, "db.operation.batch.size": true,
	"pgx.rows_affected": true, "pgx.sql_state": true,
	"temporalWorkflowID": true, "temporalRunID": true, "temporalActivityID": true,
	"gen_ai.operation.name": true, "gen_ai.request.model": true, "gen_ai.tool.name": true,
	"gen_ai.provider.name": true, "gen_ai.response.model": true, "gen_ai.response.finish_reasons": true,
	"gen_ai.usage.input_tokens": true, "gen_ai.usage.output_tokens": true,
	"everloop.event": true, "everloop.session_id": true, "everloop.chat_id": true, "everloop.loop_id": true,
	"everloop.step": true, "everloop.tool.status": true,
}

// exporterOfKnown exports what is known of spans, and reports failures to the log.
type exporterOfKnown struct {
	sdktrace.SpanExporter
	failures *failureLog
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *exporterOfKnown) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	known := make([]sdktrace.ReadOnlySpan, len(spans))
	for i, span := range spans {
		known[i] = knownSpan{span}
	}

	if err := e.SpanExporter.ExportSpans(ctx, known); err != nil {
		e.failures.Handle(err)
	}

	return nil // it is reported
}

// knownSpan leaves out the texts of errors, which may quote what users wrote.
type knownSpan struct{ sdktrace.ReadOnlySpan }

// Attributes implements sdktrace.ReadOnlySpan.
func (s knownSpan) Attributes() []attribute.KeyValue {
	var kept []attribute.KeyValue

	for _, a := range s.ReadOnlySpan.Attributes() {
		if known[a.Key] {
			kept = append(kept, a)
		}
	}

	return kept
}

// Events implements sdktrace.ReadOnlySpan.
func (knownSpan) Events() []sdktrace.Event { return nil }

// Status implements sdktrace.ReadOnlySpan.
func (s knownSpan) Status() sdktrace.Status {
	return sdktrace.Status{Code: s.ReadOnlySpan.Status().Code}
}

const failureInterval = time.Minute

// failureLog logs at most one failure in a while: a collector may be away for days.
type failureLog struct {
	logger *slog.Logger
	every  time.Duration
	now    func() time.Time

	mu       sync.Mutex
	last     time.Time
	unlogged int
}

// Handle implements otel.ErrorHandler.
func (l *failureLog) Handle(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if now := l.now(); l.last.IsZero() || now.Sub(l.last) >= l.every {
		l.logger.Warn("failed to export traces or metrics", "error", err, "failures_not_logged", l.unlogged)
		l.last, l.unlogged = now, 0

		return
	}

	l.unlogged++
}
