package activities

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"everloop/domain"
)

// traced is the model server with a span for each call, which says how many tokens
// it took and nothing of what was sent and answered.
type traced struct {
	models Models
	tracer trace.Tracer // nil: no spans
	meter  ModelMeter   // nil: it is not measured
}

// ModelMeter measures model calls: the model that was requested, the one that answered, the
// kind of the fault (empty: none), the tokens, where they are known, and the time.
type ModelMeter interface {
	ModelCalled(ctx context.Context, requested, answered, fault string, input, output int64, took time.Duration)
}

// stream is Models.Stream, measured and in a span.
func (t traced) stream(
	ctx context.Context, p domain.Prompt, onDelta func(domain.Delta) error, about ...attribute.KeyValue,
) (domain.Reply, error) {
	began := time.Now()
	reply, err := t.inSpan(ctx, p, onDelta, about...)

	if t.meter != nil {
		fault := ""
		if err != nil {
			fault = errorType(err)
		}

		t.meter.ModelCalled(ctx, p.Model, reply.Model, fault, reply.Usage.InputTokens, reply.Usage.OutputTokens, time.Since(began))
	}

	return reply, err
}

// inSpan is Models.Stream in a span.
func (t traced) inSpan(
	ctx context.Context, p domain.Prompt, onDelta func(domain.Delta) error, about ...attribute.KeyValue,
) (domain.Reply, error) {
	if t.tracer == nil {
		return t.models.Stream(ctx, p, onDelta)
	}

	ctx, span := t.tracer.Start(ctx, "chat "+p.Model, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(about...),
		trace.WithAttributes(
			attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.provider.name", provider),
			attribute.String("gen_ai.request.model", p.Model)))
	defer span.End()

	reply, err := t.models.Stream(ctx, p, onDelta)
	span.SetAttributes(
		attribute.Int64("gen_ai.usage.input_tokens", reply.Usage.InputTokens),
		attribute.Int64("gen_ai.usage.output_tokens", reply.Usage.OutputTokens),
	)

	if reply.Model != "" {
		span.SetAttributes(attribute.String("gen_ai.response.model", reply.Model))
	}

	if reply.FinishReason != "" {
		span.SetAttributes(attribute.StringSlice("gen_ai.response.finish_reasons", []string{reply.FinishReason}))
	}

	if err != nil {
		span.SetStatus(codes.Error, "")
		span.SetAttributes(attribute.String("error.type", errorType(err)))
	}

	return reply, err
}

// provider is the protocol of the model server, in the words of OpenTelemetry's
// conventions for generative AI: which server answers it is not known here.
const provider = "openai"

// errorType is the kind of a failed call's fault; the conventions name all others _OTHER.
func errorType(err error) string {
	if fault, ok := errors.AsType[*domain.ModelError](err); ok {
		return string(fault.Fault)
	}

	return "_OTHER"
}

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
