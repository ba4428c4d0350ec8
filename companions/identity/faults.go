package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"

	"github.com/google/uuid"
)

// Fault is an error that a client sees, as application/problem+json.
type Fault struct {
	Status     int
	Code       string // stable, snake_case; docs/errors.md explains it
	Detail     string
	Field      string // the field that is wrong, as body.username
	RetryAfter int    // seconds
}

func (f *Fault) Error() string { return f.Detail }

func fault(status int, code, format string, args ...any) *Fault {
	return &Fault{Status: status, Code: code, Detail: fmt.Sprintf(format, args...)}
}

func invalid(field, format string, args ...any) *Fault {
	message := fmt.Sprintf(format, args...)
	return &Fault{Status: http.StatusUnprocessableEntity, Code: "invalid_request", Detail: field + ": " + message, Field: field}
}

// unauthorized is the one answer to missing and to wrong credentials.
func unauthorized() *Fault {
	return fault(http.StatusUnauthorized, "unauthorized", "valid credentials are required")
}

func busy(what string) *Fault {
	f := fault(http.StatusServiceUnavailable, "dependency_unavailable", "%s is not available, retry in some seconds", what)
	f.RetryAfter = 2

	return f
}

type problemField struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

type problem struct {
	Type      string         `json:"type"`
	Title     string         `json:"title"`
	Status    int            `json:"status"`
	Detail    string         `json:"detail"`
	Code      string         `json:"code"`
	RequestID string         `json:"request_id"`
	Retryable bool           `json:"retryable"`
	Errors    []problemField `json:"errors,omitempty"`
}

const requestIDHeader = "X-Request-Id"

// fail answers with an error. What is no Fault is logged and shown without detail.
func (s *Service) fail(w http.ResponseWriter, r *http.Request, err error) {
	f, known := errors.AsType[*Fault](err)
	if !known {
		if r.Context().Err() == nil {
			s.log.Error("failed to answer a request", "path", r.URL.Path, "error", err)
		}

		f = busy("the database of the identity service")
	}

	p := problem{
		Type: "about:blank", Title: http.StatusText(f.Status), Status: f.Status, Detail: f.Detail, Code: f.Code,
		RequestID: w.Header().Get(requestIDHeader), Retryable: f.Status == http.StatusTooManyRequests || f.Status >= 500,
	}
	if f.Field != "" {
		p.Errors = []problemField{{f.Field, f.Detail[len(f.Field)+2:]}}
	}

	if f.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}

	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", seconds(f.RetryAfter))
	}

	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(f.Status)
	_ = json.NewEncoder(w).Encode(p) // a client that is gone needs no answer
}

// seconds is the value of Retry-After.
func seconds(n int) string { return strconv.Itoa(n) }

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

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

func newID() string { return uuid.Must(uuid.NewV7()).String() }
