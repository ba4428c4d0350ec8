package durable

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
)

// Final makes an error that is not retried; Code finds its code.
func Final(code, message string) error {
	return temporal.NewNonRetryableApplicationError(cut(message, maxMessage), code, nil)
}

// Retry makes an error that is retried: after the given time if it is above zero, after
// the preset's backoff otherwise.
func Retry(code, message string, after time.Duration) error {
	return temporal.NewApplicationErrorWithOptions(cut(message, maxMessage), code,
		temporal.ApplicationErrorOptions{NextRetryDelay: after})
}

// Fault makes any error fit for a history: its text is cut, and its wrapped
// causes, which may hold user content, are left out.
func Fault(err error) error {
	if _, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return err
	}

	if _, ok := errors.AsType[*temporal.CanceledError](err); ok {
		return err
	}

	return temporal.NewApplicationError(cut(err.Error(), maxMessage), "internal_error")
}

// Cancelled reports whether work ended because its run cancelled it, as opposed
// to its worker or its time being lost.
func Cancelled(err error) bool { return temporal.IsCanceledError(err) }

// CodeTimeout is the code of an activity whose worker was lost.
const CodeTimeout = "timeout"

// Code returns the code of an activity's error: "" for none, CodeTimeout when its
// worker was lost.
func Code(err error) string {
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return app.Type()
	}

	if _, ok := errors.AsType[*temporal.TimeoutError](err); ok {
		return CodeTimeout
	}

	return ""
}

// Message returns the text of an activity's error without Temporal's wrapping.
func Message(err error) string {
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return app.Message()
	}

	return err.Error()
}
