package tracing

import (
	"context"
	"strings"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
)

// Statements traces SQL statements below the span of their context, with their
// texts and without their parameters; nil where there are no traces.
func (t *Tracing) Statements() pgx.QueryTracer {
	if t == nil {
		return nil
	}

	return statements{otelpgx.NewTracer(
		otelpgx.WithTracerProvider(t.provider), otelpgx.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelpgx.WithDisableConnectionDetailsInAttributes(), otelpgx.WithSpanNameFunc(firstWord),
	)}
}

// statements leaves out the spans of connections and of preparing statements.
type statements struct{ next *otelpgx.Tracer }

// firstWord names a statement, as SELECT.
func firstWord(sql string) string {
	words := strings.Fields(sql)
	if len(words) == 0 {
		return "empty"
	}

	return strings.ToUpper(strings.TrimLeft(words[0], "("))
}

func (s statements) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return s.next.TraceQueryStart(ctx, conn, data)
}

func (s statements) TraceQueryEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryEndData) {
	s.next.TraceQueryEnd(ctx, conn, data)
}

func (s statements) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	return s.next.TraceBatchStart(ctx, conn, data)
}

func (s statements) TraceBatchQuery(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchQueryData) {
	s.next.TraceBatchQuery(ctx, conn, data)
}

func (s statements) TraceBatchEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchEndData) {
	s.next.TraceBatchEnd(ctx, conn, data)
}
