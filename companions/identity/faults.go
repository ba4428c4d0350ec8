package identity

import (
	"errors"
	"mime"
	"net/http"
	"strconv"

	"everloop/companions/edge"
)

// Fault is an error that a client sees; docs/errors.md and docs/identity.md explain the codes.
type Fault = edge.Problem

func fault(status int, code, format string, args ...any) *Fault {
	return edge.Refuse(status, code, format, args...)
}

func invalid(field, format string, args ...any) *Fault { return edge.Invalid(field, format, args...) }

// unauthorized returns the fault of missing and of wrong credentials, which are not
// distinguished.
func unauthorized() *Fault {
	return fault(http.StatusUnauthorized, "unauthorized", "valid credentials are required")
}

func busy(what string) *Fault {
	f := fault(http.StatusServiceUnavailable, "dependency_unavailable", "%s is not available, retry in some seconds", what)
	f.RetryAfter = 2

	return f
}

// fail writes an error response. An error that is not a Fault is logged, and the response
// contains no detail.
func (s *Service) fail(w http.ResponseWriter, r *http.Request, err error) {
	f, known := errors.AsType[*Fault](err)
	if !known {
		if r.Context().Err() == nil {
			s.log.Error("failed to answer a request", "path", r.URL.Path, "request_id", w.Header().Get(edge.HeaderRequestID),
				"error", err)
		}

		f = busy("the database of the identity service")
	}

	edge.Answer(w, r, f)
}

// seconds returns the value of Retry-After.
func seconds(n int) string { return strconv.Itoa(n) }

func answer(w http.ResponseWriter, status int, body any) { edge.WriteJSON(w, status, body) }

// maxBody bounds a request's body.
const maxBody = 64 << 10

// decode parses a JSON object. Unknown fields are ignored. It accepts only application/json,
// which a form of another site cannot send.
func decode(w http.ResponseWriter, r *http.Request, into any) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return fault(http.StatusUnsupportedMediaType, "unsupported_media_type", "send the body as application/json")
	}

	return edge.ReadJSON(w, r, maxBody, into)
}

// input returns the caller of a request, authenticated by who, and its decoded body.
func input[T any](w http.ResponseWriter, r *http.Request, who func(*http.Request) (caller, error)) (c caller, in T, err error) {
	if c, err = who(r); err == nil {
		err = decode(w, r, &in)
	}

	return c, in, err
}

// noContent writes 204, or returns the error of the operation.
func noContent(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}

	return err
}
