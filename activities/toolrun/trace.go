package toolrun

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"everloop/domain"
)

// startSpan starts the span of a tool call, by a name that neither a model nor a tool server
// has chosen.
func (r *Runner) startSpan(ctx context.Context, tool string, call domain.LedgerCall) (context.Context, trace.Span) {
	return r.Tracing.Work().Start(ctx, "execute_tool "+tool, trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", tool),
		attribute.String("everloop.session_id", string(call.SessionID)), attribute.String("everloop.chat_id", string(call.ChatID)),
	))
}

// endSpan sets how the call of the span in ctx ended.
func endSpan(ctx context.Context, status domain.ToolCallStatus) {
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(attribute.String("everloop.tool.status", string(status)))

	if status == domain.CallError {
		span.SetStatus(codes.Error, "")
	}
}
