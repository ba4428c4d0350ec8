// Package durable gives workflows typed handles on activities and signals, the
// option presets that they run under, and the ids by which operators find runs.
// It knows Temporal and nothing of Everloop's business.
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

// MaxPayload bounds the input and the result of one activity, in bytes: Temporal carries
// ids and small facts, content is in the database.
const MaxPayload = 16 << 10

// CodePayloadTooLarge is the error type of a payload over MaxPayload. It fails
// the chat; an oversize payload that reached the server would instead fail the
// workflow task, which is retried without end.
const CodePayloadTooLarge = "payload_too_large"

// Activity names one activity, its types and its preset. The workflow's side
// (Run, Start, Local) and the worker's side (Handle) have the same types,
// which the compiler checks.
type Activity[In, Out any] struct {
	Name   string
	Preset Preset
}

// Handle registers the function that does the work.
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

// Run schedules the activity and waits for it. Summary is what operators read
// beside it in the Temporal UI.
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

// Local runs a small database step in the workflow's own worker and waits for
// it. When the preset's short limit is not enough, because the database is slow or
// unavailable, the same step continues as an ordinary activity, which Temporal retries
// without a limit.
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

// transient reports whether a step timed out or a dependency was unavailable, as opposed
// to one that was rejected.
func transient(err error) bool {
	if timeout, ok := errors.AsType[*temporal.TimeoutError](err); ok {
		return timeout != nil
	}

	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return !app.NonRetryable()
	}

	return false
}

// Future is a typed promise of an activity's or a child's result.
type Future[Out any] struct{ workflow.Future }

// Get waits for the result.
func (f Future[Out]) Get(ctx workflow.Context) (Out, error) {
	var out Out

	err := f.Future.Get(ctx, &out)

	return out, err
}

// Signal names one signal and the type of what it carries.
type Signal[T any] struct{ Name string }

// Receive waits for the signal.
func (s Signal[T]) Receive(ctx workflow.Context) T {
	var value T
	workflow.GetSignalChannel(ctx, s.Name).Receive(ctx, &value)

	return value
}

// ReceiveAsync takes a waiting signal; false: there is none.
func (s Signal[T]) ReceiveAsync(ctx workflow.Context) (value T, received bool) {
	received = workflow.GetSignalChannel(ctx, s.Name).ReceiveAsync(&value)
	return value, received
}

// Waiting reports whether the signal has come and was not received yet.
func (s Signal[T]) Waiting(ctx workflow.Context) bool {
	return workflow.GetSignalChannel(ctx, s.Name).Len() > 0
}

// Drain takes all waiting signals and reports whether there were any.
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
