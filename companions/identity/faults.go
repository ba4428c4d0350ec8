package identity

import (
	"encoding/json"
	"errors"
	"io"
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

// unauthorized is the one answer to missing and to wrong credentials.
func unauthorized() *Fault {
	return fault(http.StatusUnauthorized, "unauthorized", "valid credentials are required")
}

func busy(what string) *Fault {
	f := fault(http.StatusServiceUnavailable, "dependency_unavailable", "%s is not available, retry in some seconds", what)
	f.RetryAfter = 2

	return f
}

// fail answers with an error. What is no Fault is logged and shown without detail.
func (s *Service) fail(w http.ResponseWriter, r *http.Request, err error) {
	f, known := errors.AsType[*Fault](err)
	if !known {
		if r.Context().Err() == nil {
			s.log.Error("failed to answer a request", "path", r.URL.Path, "request_id", w.Header().Get(edge.HeaderRequestID),
				"error", err)
		}

		f = busy("the database of the identity service")
	}

	edge.Write(w, f)
}

// seconds is the value of Retry-After.
func seconds(n int) string { return strconv.Itoa(n) }

func answer(w http.ResponseWriter, status int, body any) { edge.WriteJSON(w, status, body) }

// maxBody bounds a request's body.
const maxBody = 64 << 10

// decode reads a JSON object. Unknown fields are ignored. Only application/json is
// accepted, which no form of another site can send.
func decode(w http.ResponseWriter, r *http.Request, into any) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return fault(http.StatusUnsupportedMediaType, "unsupported_media_type", "send the body as application/json")
	}

	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return fault(http.StatusRequestEntityTooLarge, "body_too_large", "the body holds more than %d bytes", maxBody)
	}

	if err != nil {
		return fault(http.StatusBadRequest, "invalid_request", "the body could not be read")
	}

	err = json.Unmarshal(raw, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := "body"
		if wrong.Field != "" {
			field += "." + wrong.Field
		}

		return invalid(field, "must be of type %s, not %s", wrong.Type, wrong.Value)
	}

	if err != nil {
		return fault(http.StatusBadRequest, "invalid_json", "the body is not JSON")
	}

	return nil
}
