package httpx

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"everloop/auth"
	"everloop/domain"
)

// Request is what is known of the request in hand; every context of it carries
// the same one.
type Request struct {
	ID     string
	Route  string // the pattern, as /api/sessions/{session_id}
	Caller domain.Caller
	Came   auth.Credentials // that the caller came with
	Base   context.Context  // ends with the process
	Once   *Once            // nil without an Idempotency-Key
	Events bool             // the client accepts server-sent events

	target string // id of what the operation is about, for the audit trail
	detail map[string]string
	action string // what the trail calls it, where the operation has no name of its own

	asAdministrator bool // it looks at what only administrators see

	body *incoming // a form that is read as it comes; nil when the body was read already
}

type requestKey struct{}

// WithRequest returns a context that carries r.
func WithRequest(ctx context.Context, r *Request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

// RequestOf is never nil: a context without a request gives an empty one.
func RequestOf(ctx context.Context) *Request {
	if r, ok := ctx.Value(requestKey{}).(*Request); ok {
		return r
	}

	return &Request{Base: ctx}
}

// CallerOf returns who makes the request.
func CallerOf(ctx context.Context) domain.Caller { return RequestOf(ctx).Caller }

// Body is the output of an operation that answers with one JSON value.
type Body[T any] struct{ Body T }

// Answer makes an output of a value, unless there is an error.
func Answer[T any](v T, err error) (*Body[T], error) {
	if err != nil {
		return nil, err
	}

	return &Body[T]{v}, nil
}

// Streamed is the output of an operation that writes its answer by itself.
type Streamed struct {
	Body func(huma.Context)
}
