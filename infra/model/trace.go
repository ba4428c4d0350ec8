package model

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"everloop/domain"
)

// provider is the protocol of the model server, by OpenTelemetry's conventions for generative AI.
// The client cannot identify the server behind it.
const provider = "openai"

// Stream sends a prompt and passes each piece of text to onDelta as it arrives, in order and
// on the caller's goroutine; onDelta can be nil. It returns when the answer is complete. An
// error is a *domain.ModelError, the error of onDelta, or the context's own error; the text
// that had arrived comes with it.
//
// An answer is complete when the server sent a finish reason: a stream that merely ends is
// a transient fault.
//
// When a server refuses a part of the request that an answer can do without, Stream repeats
// the request once without the part, and later requests for the model leave it out.
//
// With Config.Tracing the call is measured and has a span with the attributes of about. The
// span has the number of tokens and no text.
func (c *Client) Stream(
	ctx context.Context, p domain.Prompt, onDelta func(domain.Delta) error, about ...attribute.KeyValue,
) (domain.Reply, error) {
	began := time.Now()
	reply, err := c.inSpan(ctx, p, onDelta, about)

	fault := ""
	if err != nil {
		fault = errorType(err)
	}

	c.cfg.Tracing.ModelCalled(ctx, p.Model, reply.Model, fault, reply.Usage.InputTokens, reply.Usage.OutputTokens, time.Since(began))

	return reply, err
}

// inSpan runs the model call in a span and records its duration and token counts.
func (c *Client) inSpan(
	ctx context.Context, p domain.Prompt, onDelta func(domain.Delta) error, about []attribute.KeyValue,
) (domain.Reply, error) {
	ctx, span := c.cfg.Tracing.Work().Start(ctx, "chat "+p.Model, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(about...),
		trace.WithAttributes(
			attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.provider.name", provider),
			attribute.String("gen_ai.request.model", p.Model)))
	defer span.End()

	reply, err := c.stream(ctx, p, onDelta)
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

// errorType returns the fault of a failed call; other errors are _OTHER by the conventions.
func errorType(err error) string {
	if fault, ok := errors.AsType[*domain.ModelError](err); ok {
		return string(fault.Fault)
	}

	return "_OTHER"
}
