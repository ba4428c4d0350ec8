package edge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
)

// Problem is the body of every error (RFC 9457), in the agent's format.
type Problem struct {
	Type      string  `json:"type"`
	Title     string  `json:"title"`
	Status    int     `json:"status"`
	Detail    string  `json:"detail"`
	Code      string  `json:"code"`
	RequestID string  `json:"request_id"`
	Retryable bool    `json:"retryable"`
	Errors    []Field `json:"errors,omitempty"`

	RetryAfter int `json:"-"` // seconds, for the header
}

// Field is one fault of a request.
type Field struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

// Refuse returns a new problem. A status of 429 or 503 is retryable.
func Refuse(status int, code, format string, args ...any) *Problem {
	p := &Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: fmt.Sprintf(format, args...),
		Retryable: status == http.StatusTooManyRequests || status >= 500,
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		p.RetryAfter = 1
	}

	return p
}

// Invalid returns a 422 problem for one location of a request.
func Invalid(location, format string, args ...any) *Problem {
	message := fmt.Sprintf(format, args...)
	p := Refuse(http.StatusUnprocessableEntity, "invalid_request", "%s: %s", location, message)
	p.Errors = []Field{{Location: location, Message: message}}

	return p
}

// Write writes a problem, which names the request by the response's X-Request-Id.
func Write(w http.ResponseWriter, p *Problem) {
	named := begin(w, p, "application/problem+json")
	_ = json.NewEncoder(w).Encode(&named) // fails only if the client has disconnected
}

// begin writes the header of a problem response, and returns the problem with the request's id.
func begin(w http.ResponseWriter, p *Problem, contentType string) (named Problem) {
	header := w.Header()

	named = *p
	named.RequestID = identify(header, "")

	if p.Status == http.StatusUnauthorized && header.Get("WWW-Authenticate") == "" {
		header.Set("WWW-Authenticate", "Bearer")
	}

	if p.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}

	header.Del("ETag")
	header.Set("Content-Type", contentType)
	w.WriteHeader(p.Status)

	return named
}

// WriteJSON writes a value as JSON.
func WriteJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

// Handle returns a handler for a function that can fail. An error that is not a Problem is
// logged and sent as a 503, because a dependency of the service has failed.
func Handle(log *slog.Logger, serve func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := serve(w, r)
		if err == nil {
			return
		}

		if p, ok := errors.AsType[*Problem](err); ok {
			Answer(w, r, p)
			return
		}

		if r.Context().Err() == nil {
			log.Error("failed to answer a request", "method", r.Method, "route", r.Pattern,
				"request_id", identify(w.Header(), ""), "error", err)
		}

		Answer(
			w,
			r,
			Refuse(http.StatusServiceUnavailable, "dependency_unavailable", "the service cannot reach what it depends on: try again"),
		)
	}
}

// MaxBody is the usual maximum of a JSON request's body, in bytes.
const MaxBody = 1 << 20

// ReadJSON reads a body of one JSON object of at most limit bytes. Fields that value does not
// declare are ignored; a field of the wrong type is a 422 that names it.
func ReadJSON(w http.ResponseWriter, r *http.Request, limit int64, value any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return Refuse(http.StatusRequestEntityTooLarge, "body_too_large", "the body is larger than %d bytes", limit)
	}

	if err != nil {
		return Refuse(http.StatusBadRequest, "malformed_request", "the body could not be read")
	}

	if !json.Valid(body) {
		return Refuse(http.StatusBadRequest, "malformed_request", "the body is not JSON")
	}

	if body[skipSpace(body)] != '{' {
		return Invalid("body", "must be a JSON object")
	}

	err = json.Unmarshal(body, value)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return Invalid("body."+wrong.Field, "has a value of the wrong type or out of range")
	}

	if err != nil {
		return Invalid("body", "has a value of the wrong type or form")
	}

	return nil
}

// skipSpace returns the index of the first non-space byte of a valid JSON text.
func skipSpace(text []byte) int {
	return len(text) - len(bytes.TrimLeft(text, " \t\r\n"))
}

// Number parses a query parameter within its bounds.
func Number(r *http.Request, name string, otherwise, least, most int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}

	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, Invalid("query."+name, "must be a number from %d to %d", least, most)
	}

	return n, nil
}
