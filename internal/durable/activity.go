// Package durable provides typed handles of activities and signals, their option presets, and the
// workflow ids by which operators find runs. It depends on Temporal only, not on the domain.
package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// MaxPayload is the maximum size of the input and the result of an activity, in bytes: payloads
// contain ids and small facts, content is in the database.
const MaxPayload = 16 << 10

// CodePayloadTooLarge is the error type of a payload over MaxPayload. It fails the chat; an
// oversize payload at the server would instead fail the workflow task, which is retried forever.
const CodePayloadTooLarge = "payload_too_large"

// Activity is the name of an activity with its types and preset. The workflow's side (Run, Start,
// Local) and the worker's side (Handle) have the same types, which the compiler checks.
type Activity[In, Out any] struct {
	Name   string
	Preset Preset
}

// Handle registers the implementation.
func (a Activity[In, Out]) Handle(r worker.ActivityRegistry, fn func(context.Context, In) (Out, error)) {
	guarded := func(ctx context.Context, in In) (Out, error) {
		out, err := fn(ctx, in)
		if err != nil {
			return out, Fault(err)
		}

		return out, small(a.Name+" result", out)
	}
	r.RegisterActivityWithOptions(guarded, activity.RegisterOptions{Name: a.Name})
}

// Run schedules the activity and waits for its result. summary is shown in the Temporal UI.
func (a Activity[In, Out]) Run(ctx workflow.Context, in In, summary string) (Out, error) {
	return a.Start(ctx, in, summary).Get(ctx)
}

// Start schedules the activity and returns a future for its result.
func (a Activity[In, Out]) Start(ctx workflow.Context, in In, summary string) Future[Out] {
	if err := small(a.Name+" input", in); err != nil {
		future, settle := workflow.NewFuture(ctx)
		settle.SetError(err)

		return Future[Out]{future}
	}

	options := a.Preset.activity
	options.Summary = cut(summary, maxSummary)

	return Future[Out]{workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), a.Name, in)}
}

// LocalNamed is Local with a summary for operators.
func (a Activity[In, Out]) LocalNamed(ctx workflow.Context, in In, summary string) (Out, error) {
	a.Preset.local.Summary = cut(summary, maxSummary)
	return a.Local(ctx, in)
}

// Local runs a small database step in the workflow's own worker and waits for it. When the
// preset's short timeout is exceeded, because the database is slow or unavailable, the same step
// continues as an ordinary activity, which Temporal retries without a limit.
func (a Activity[In, Out]) Local(ctx workflow.Context, in In) (Out, error) {
	var out Out
	if err := small(a.Name+" input", in); err != nil {
		return out, err
	}

	err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, a.Preset.local), a.Name, in).Get(ctx, &out)
	if err == nil || !transient(err) {
		return out, err
	}

	return a.Run(ctx, in, "")
}

// transient reports whether an activity timed out or a dependency was unavailable, in contrast to
// a rejection.
func transient(err error) bool {
	if timeout, ok := errors.AsType[*temporal.TimeoutError](err); ok {
		return timeout != nil
	}

	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return !app.NonRetryable()
	}

	return false
}

// Future is a typed future of an activity or a child workflow.
type Future[Out any] struct{ workflow.Future }

// Get waits for the result.
func (f Future[Out]) Get(ctx workflow.Context) (Out, error) {
	var out Out

	err := f.Future.Get(ctx, &out)

	return out, err
}

// Signal is the name of a signal with the type of its payload.
type Signal[T any] struct{ Name string }

// Receive waits for the signal.
func (s Signal[T]) Receive(ctx workflow.Context) T {
	var value T
	workflow.GetSignalChannel(ctx, s.Name).Receive(ctx, &value)

	return value
}

// ReceiveAsync receives a waiting signal without blocking; false: none.
func (s Signal[T]) ReceiveAsync(ctx workflow.Context) (value T, received bool) {
	received = workflow.GetSignalChannel(ctx, s.Name).ReceiveAsync(&value)
	return value, received
}

// Waiting reports whether an unreceived signal has arrived.
func (s Signal[T]) Waiting(ctx workflow.Context) bool {
	return workflow.GetSignalChannel(ctx, s.Name).Len() > 0
}

// Drain receives all waiting signals and reports whether there were any.
func (s Signal[T]) Drain(ctx workflow.Context) bool {
	var value T

	any := false
	for workflow.GetSignalChannel(ctx, s.Name).ReceiveAsync(&value) {
		any = true
	}

	return any
}

func small(what string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return temporal.NewNonRetryableApplicationError(what+" cannot be encoded", CodePayloadTooLarge, err)
	}

	if len(data) > MaxPayload {
		return temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("%s holds %d bytes, the limit is %d", what, len(data), MaxPayload), CodePayloadTooLarge, nil)
	}

	return nil
}
