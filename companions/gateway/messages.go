package gateway

import (
	"io"
	"net/http"
	"strconv"
)

// messages serves Anthropic's Messages interface.
func (s *Service) messages(w http.ResponseWriter, r *http.Request) {
	s.translated(w, r, newMessages(w))
}

// noMessages answers requests of Anthropic's interface that the gateway does not serve.
func (s *Service) noMessages(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	if r.URL.Path == "/v1/messages" {
		allowed = []string{http.MethodPost}
	}

	t := &translator{ResponseWriter: w, to: newMessages(w)}
	unrouted(t, r, allowed)
	t.finish()
}

// messages is Anthropic's interface, of one request.
type messages struct {
	id    string
	stops []string
}

func newMessages(w http.ResponseWriter) *messages {
	id := w.Header().Get("X-Request-Id")
	w.Header().Set("Request-Id", id)

	return &messages{id: id}
}

func (m *messages) request(text []byte) ([]byte, *apiError) {
	chat, fault := toChat(text)
	m.stops = chat.stops

	return chat.text, fault
}

func (m *messages) stream(c *call, out io.Writer) dialectStream {
	return &messageStream{out: out, id: m.id, call: c, stops: m.stops}
}

func (m *messages) refusal(status int, text []byte) any {
	message, code := reason(text)
	if message == "" {
		message = "the source has status " + strconv.Itoa(status)
	}

	fault := messageFault{Type: faultType(status), Message: message, Code: code}

	return map[string]any{"type": "error", "error": fault, "request_id": m.id}
}

// messageFault is an error as Anthropic's interface reports it; the code is the gateway's own.
type messageFault struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
}

// faultType is Anthropic's name of a status.
func faultType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusPaymentRequired:
		return "billing_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	case http.StatusServiceUnavailable, 529:
		return "overloaded_error"
	}

	if status < http.StatusInternalServerError {
		return "invalid_request_error"
	}

	return "api_error"
}
