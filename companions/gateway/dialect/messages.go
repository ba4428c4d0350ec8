package dialect

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"github.com/tidwall/gjson"

	"everloop/internal/modelmembers"
)

// messages is Anthropic's interface, of one request.
type messages struct {
	id    string
	stops []string
}

// Messages returns the dialect of Anthropic's Messages interface; id is the id of the request.
func Messages(id string) Dialect { return &messages{id: id} }

func (m *messages) Request(text []byte) (Translation, *Invalid) {
	chat, fault := toChat(text, false)
	m.stops = chat.stops

	return chat.Translation, fault
}

// Counted translates a request whose tokens are counted. It requires neither max_tokens nor a
// final message of the user.
func Counted(text []byte) (Translation, *Invalid) {
	chat, fault := toChat(text, true)

	return chat.Translation, fault
}

func (m *messages) Stream(of Answered, out io.Writer) Stream {
	return &messageStream{out: out, id: m.id, answered: of, stops: m.stops, members: modelmembers.Members{}}
}

func (m *messages) Refusal(status int, text []byte) any {
	message, code := reason(text)
	if message == "" {
		message = "the source has status " + strconv.Itoa(status)
	}

	fault := messageFault{Type: faultType(status), Message: message, Code: code}
	if details := gjson.GetBytes(text, "error.details"); details.IsObject() {
		fault.Details = json.RawMessage(details.Raw)
	}

	return map[string]any{"type": "error", "error": fault, "request_id": m.id}
}

// messageFault is an error as Anthropic's interface reports it; the code is the gateway's own.
type messageFault struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`

	Details json.RawMessage `json:"details,omitempty"`
}

// faultType returns Anthropic's error type of a status.
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
