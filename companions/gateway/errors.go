package gateway

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"
)

// apiError is an error in the format of chat-completions servers.
type apiError struct {
	status  int
	after   time.Duration // 0: without Retry-After
	Message string        `json:"message"`
	Type    string        `json:"type"`
	Code    string        `json:"code"`

	Details map[string]any `json:"details,omitempty"`
}

func (e *apiError) Error() string { return e.Message }

func invalid(message string) *apiError {
	return &apiError{status: http.StatusBadRequest, Type: "invalid_request_error", Code: "invalid_request", Message: message}
}

func noModel(name string) *apiError {
	return &apiError{
		status: http.StatusNotFound, Type: "invalid_request_error", Code: "model_not_found",
		Message: "the model " + strconv.Quote(name) + " does not exist or is not open to this key; GET /v1/models lists those that are",
	}
}

func tooMany(code, message string) *apiError {
	return &apiError{status: http.StatusTooManyRequests, after: time.Second, Type: "rate_limit_error", Code: code, Message: message}
}

func sourceFault(status int, code, message string) *apiError {
	return &apiError{status: status, Type: "server_error", Code: code, Message: message}
}

// unavailable returns the fault of a source that does not respond.
func unavailable(message string) *apiError {
	return sourceFault(http.StatusBadGateway, "source_unavailable", message)
}

// object returns {"error": …} as JSON.
func (e *apiError) object() []byte {
	text, _ := json.Marshal(map[string]any{"error": e}) // strings always encode
	return text
}

func writeError(w http.ResponseWriter, e *apiError) {
	if e.after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.after.Seconds()))))
	}

	if e.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}

	writeBody(w, e.status, e.object())
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		writeError(w, sourceFault(http.StatusInternalServerError, "internal", "the answer cannot be encoded"))
		return
	}

	writeBody(w, status, text)
}

func writeBody(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client may have disconnected
}
