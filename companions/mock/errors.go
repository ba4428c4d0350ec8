package mock

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"everloop/companions/edge"
)

// apiError is an error in the format of chat-completions servers:
// {"error": {message, type, code}}.
type apiError struct {
	Status     int     `json:"-"`
	RetryAfter float64 `json:"-"` // seconds
	Message    string  `json:"message"`
	Type       string  `json:"type"`
	Code       string  `json:"code"`
}

func (e *apiError) Error() string { return e.Message }

// invalid returns an error that the client caused.
func invalid(status int, code, message string) *apiError {
	return &apiError{Status: status, Message: message, Type: "invalid_request_error", Code: code}
}

func badRequest(format string, args ...any) *apiError {
	return invalid(http.StatusBadRequest, "invalid_request", fmt.Sprintf(format, args...))
}

// bodyError returns the error for a body that could not be read.
func bodyError(err error) *apiError {
	switch _, large := errors.AsType[*http.MaxBytesError](err); {
	case large:
		return invalid(http.StatusRequestEntityTooLarge, "request_too_large", fmt.Sprintf("body exceeds %d bytes", maxBody))
	case errors.Is(err, edge.ErrBusy):
		return &apiError{
			Status: http.StatusTooManyRequests, RetryAfter: 1, Type: "rate_limit_error", Code: "mock_busy",
			Message: "too many bytes of concurrent requests; retry",
		}
	case edge.Late(err):
		return invalid(http.StatusRequestTimeout, "request_timeout", "timed out reading the body")
	}

	return badRequest("failed to read the body")
}

func (e *apiError) object() map[string]any { return map[string]any{"error": e} }

func writeError(w http.ResponseWriter, e *apiError) {
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter))))
	}
	edge.WriteJSON(w, e.Status, e.object())
}
