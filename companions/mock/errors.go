package mock

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"everloop/companions/edge"
)

// apiError is an error as chat-completion servers give it:
// {"error": {message, type, code}}.
type apiError struct {
	Status     int     `json:"-"`
	RetryAfter float64 `json:"-"` // seconds
	Message    string  `json:"message"`
	Type       string  `json:"type"`
	Code       string  `json:"code"`
}

func (e *apiError) Error() string { return e.Message }

func badRequest(format string, args ...any) *apiError {
	return &apiError{
		Status:  http.StatusBadRequest,
		Message: fmt.Sprintf(format, args...),
		Type:    "invalid_request_error",
		Code:    "invalid_request",
	}
}

func notFound(code, message string) *apiError {
	return &apiError{Status: http.StatusNotFound, Message: message, Type: "invalid_request_error", Code: code}
}

// unreadable explains why a body could not be read.
func unreadable(err error) *apiError {
	if fault := unfit(err); fault != nil {
		return fault
	}

	return badRequest("the request's body could not be read")
}

// unfit explains a body that was too large, came too late or found no room; nil: it was
// none of these.
func unfit(err error) *apiError {
	switch _, large := errors.AsType[*http.MaxBytesError](err); {
	case large:
		return &apiError{
			Status: http.StatusRequestEntityTooLarge, Type: "invalid_request_error", Code: "request_too_large",
			Message: fmt.Sprintf("the request exceeds %d bytes", maxBody),
		}
	case errors.Is(err, edge.ErrBusy):
		return &apiError{
			Status: http.StatusTooManyRequests, RetryAfter: 1, Type: "rate_limit_error", Code: "mock_busy",
			Message: "the mock service holds as many requests as it may; try again",
		}
	case edge.Late(err):
		return &apiError{
			Status: http.StatusRequestTimeout, Type: "invalid_request_error", Code: "request_timeout",
			Message: "the body of the request did not come in time",
		}
	}

	return nil
}

func (e *apiError) object() map[string]any { return map[string]any{"error": e} }

func writeError(w http.ResponseWriter, e *apiError) {
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter))))
	}

	writeJSON(w, e.Status, e.object())
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client may be gone
}
