package activities

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"everloop/domain"
)

// aboutTurn says which turn a model call is for.
func aboutTurn(key domain.TurnKey) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("everloop.session_id", string(key.SessionID)), attribute.String("everloop.chat_id", string(key.ChatID)),
		attribute.String("everloop.loop_id", key.LoopID), attribute.Int("everloop.step", key.Step),
	}
}

// startTool starts the span of a tool call, by a name that no model and no tool
// server has made up.
func startTool(ctx context.Context, tracer trace.Tracer, tool string, call domain.LedgerCall) (context.Context, trace.Span) {
	if tracer == nil {
		return ctx, noop.Span{}
	}

	return tracer.Start(ctx, "execute_tool "+tool, trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", tool),
		attribute.String("everloop.session_id", string(call.SessionID)), attribute.String("everloop.chat_id", string(call.ChatID)),
	))
}

// toolEnded says in the span of a tool call how the call ended.
func toolEnded(ctx context.Context, status domain.ToolCallStatus) {
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(attribute.String("everloop.tool.status", string(status)))

	if status == domain.CallError {
		span.SetStatus(codes.Error, "")
	}
}
