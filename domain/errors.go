// Package domain contains Everloop's types and rules: sessions, chats, turns, tool calls,
// events and errors. It does not depend on an engine, a transport or another package of this
// module.
package domain

import (
	"errors"
	"fmt"
)

// Kind classifies errors by how a caller can react. Each edge maps kinds with one table: HTTP
// statuses in api, acknowledgements in realtime, retry policies in activities.
type Kind string

// The kinds, with their HTTP status (docs/errors.md#kinds).
const (
	Malformed       Kind = "malformed"         // 400: could not be parsed, or a path that leaves the workspace
	Unauthenticated Kind = "unauthenticated"   // 401
	Forbidden       Kind = "forbidden"         // 403
	NotFound        Kind = "not_found"         // 404
	Conflict        Kind = "conflict"          // 409
	Gone            Kind = "gone"              // 410
	TooLarge        Kind = "too_large"         // 413
	Unsupported     Kind = "unsupported_media" // 415
	Invalid         Kind = "invalid"           // 422: parsed, but outside its bounds
	RateLimited     Kind = "rate_limited"      // 429
	Internal        Kind = "internal"          // 500
	Unavailable     Kind = "unavailable"       // 503: a dependency is down
)

// Field names one invalid part of a request, such as `body.title`. It never contains the value,
// which may be a secret.
type Field struct {
	Location string `json:"location" doc:"The location in the request, e.g. body.name or query.limit."`
	Message  string `json:"message" doc:"The message in plain text."`

	Code   string `json:"code,omitempty" doc:"With validation_failed: what is wrong, for programs." example:"cycle"`
	NodeID string `json:"node_id,omitempty" doc:"With validation_failed: the node that it is about." example:"review"`
	EdgeID string `json:"edge_id,omitempty" doc:"With validation_failed: the edge that it is about." example:"e1"`
	Path   string `json:"path,omitempty" doc:"With validation_failed: the location within the document." example:"nodes[2].config.prompt"`
}

// Error is the error of a rejection that a client can understand, in every layer. Code is
// stable, snake_case and documented in docs/errors.md.
type Error struct {
	Kind       Kind
	Code       string
	Message    string
	Fields     []Field
	RetryAfter int // seconds; 0: unknown
	Err        error

	Version    *VersionConflict // with version_conflict
	Validation *Validation      // with validation_failed
}

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Message + ": " + e.Err.Error()
	}

	return e.Message
}

func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether the same request may succeed later.
func (e *Error) Retryable() bool {
	return e.Kind == RateLimited || e.Kind == Unavailable || e.Kind == Internal || e.Code == CodeSessionBusy
}

// Codes that several packages use.
const (
	CodeInvalidRequest  = "invalid_request"
	CodeUnauthorized    = "unauthorized"
	CodeSessionNotFound = "session_not_found"
	CodeAccountClosed   = "account_closed"
	CodeSendCancelled   = "send_cancelled"
	CodeSessionBusy     = "session_busy"
	CodeUnknownEvent    = "unknown_event"
	CodeUnknownModel    = "unknown_model"
	CodeInvalidAnswer   = "invalid_answer"
	CodeInvalidSchema   = "invalid_schema"
	CodeMessageTooLarge = "message_too_large"
	CodePathOutside     = "path_outside_workspace"
	CodeFileNotFound    = "file_not_found"
	CodeInternal        = "internal_error"
	CodeServiceDown     = "dependency_unavailable"
	CodeHostNotAllowed  = "host_not_allowed"
)

// Codes of failed work, which are stored and determine what follows.
const (
	CodeModelUnavailable = "model_unavailable"
	CodeModelRetry       = "model_retry" // of an attempt whose worker was shut down
	CodeContextOverflow  = "context_overflow"
	CodeModelQuota       = "model_quota_exhausted"
	CodeModelRefused     = "model_refused"
	CodeRunLost          = "run_lost" // its workflow was lost repeatedly, or an administrator failed it
)

// ErrFenced reports that another worker has taken over the work, or that its chat has ended:
// the caller must stop and publish nothing.
var ErrFenced = &Error{Kind: Conflict, Code: "fenced", Message: "this work was taken over"}

// Newf returns a new error of a kind with its own code.
func Newf(kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Invalidf returns an error for one field that was parsed but is out of its bounds.
func Invalidf(location, format string, args ...any) *Error {
	message := fmt.Sprintf(format, args...)

	return &Error{
		Kind: Invalid, Code: CodeInvalidRequest, Message: location + ": " + message,
		Fields: []Field{{Location: location, Message: message}},
	}
}

// SessionNotFound returns the error for a session that is missing or belongs to another user.
// Both cases have the same error, so that it reveals nothing of other users.
func SessionNotFound(id SessionID) *Error {
	return Newf(NotFound, CodeSessionNotFound, "session %s does not exist", id)
}

// Unavailablef returns an error for a dependency that is unavailable.
func Unavailablef(dependency string, err error) *Error {
	return &Error{Kind: Unavailable, Code: CodeServiceDown, Message: dependency + " is not available", Err: err}
}

// CodeDiskFull is the code of a write that is rejected because only the space reserved for the
// engines is free on the disk.
const CodeDiskFull = "disk_full"

// DiskFull rejects a write while room returns an error; a nil room never does.
func DiskFull(room func() error) error {
	if room == nil {
		return nil
	}

	if err := room(); err != nil {
		return &Error{Kind: Unavailable, Code: CodeDiskFull, Message: "the disk of the service is full; nothing was written", Err: err}
	}

	return nil
}

// Failure is an error as clients see it in an acknowledgement and in session:error.
type Failure struct {
	Code      string `json:"code" doc:"Stable; docs/errors.md lists the codes."`
	Message   string `json:"message" doc:"The message in plain text."`
	Retryable bool   `json:"retryable" doc:"The same request may succeed later."`
}

// NewFailure returns an error as clients see it.
func NewFailure(err error) Failure {
	e := AsError(err)
	return Failure{Code: e.Code, Message: e.Message, Retryable: e.Retryable()}
}

// AsError returns the domain error inside err, or an internal error that hides the cause from
// clients. Text that PostgreSQL cannot store is the client's fault, in every store.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}

	if isUnstorableText(err) {
		return UnstorableText(err)
	}

	return &Error{Kind: Internal, Code: CodeInternal, Message: "something went wrong on our side", Err: err}
}

// HasCode reports whether err has the code.
func HasCode(err error, code string) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == code
}
