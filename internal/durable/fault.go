package durable

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
)

// Final returns an error that is not retried; Code returns its code.
func Final(code, message string) error {
	return temporal.NewNonRetryableApplicationError(cut(message, maxMessage), code, nil)
}

// Retry returns an error that is retried: after the given time if it is positive, else after the
// preset's backoff.
func Retry(code, message string, after time.Duration) error {
	return temporal.NewApplicationErrorWithOptions(cut(message, maxMessage), code,
		temporal.ApplicationErrorOptions{NextRetryDelay: after})
}

// Fault prepares an error for the workflow history: it truncates the text, and removes wrapped
// causes, which can contain user content.
func Fault(err error) error {
	if _, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return err
	}

	if _, ok := errors.AsType[*temporal.CanceledError](err); ok {
		return err
	}

	return temporal.NewApplicationError(cut(err.Error(), maxMessage), "internal_error")
}

// Cancelled reports whether work ended because its run cancelled it, in contrast to a lost worker
// or a timeout.
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
