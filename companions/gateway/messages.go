package gateway

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"

	"github.com/tidwall/gjson"
)

// messages serves Anthropic's Messages interface: the request goes on as one of chat
// completions, and what is written as an answer to that is translated.
func (s *Service) messages(w http.ResponseWriter, r *http.Request) {
	m := newMessageWriter(w)
	s.withKey(func(w http.ResponseWriter, r *http.Request, by *caller) {
		s.answer(w, r, by, "/chat/completions", m.translate)
	})(m, r)
	m.finish()
}

// noMessages answers requests below /v1/messages that the gateway does not serve.
func (s *Service) noMessages(w http.ResponseWriter, r *http.Request) {
	m := newMessageWriter(w)
	noRoute(m, r)
	m.finish()
}

// messageWriter is a writer of chat completions' answers that writes a message of
// Anthropic's interface.
type messageWriter struct {
	http.ResponseWriter
	id     string
	call   *call // nil until the request is translated
	stops  []string
	status int
	held   []byte // of an answer that is not streamed, and the last line of one that is
	stream *messageStream
}

func newMessageWriter(w http.ResponseWriter) *messageWriter {
	id := w.Header().Get("X-Request-Id")
	w.Header().Set("Request-Id", id)

	return &messageWriter{ResponseWriter: w, id: id}
}

// Unwrap gives a response controller the writer below, to flush it.
func (m *messageWriter) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// translate replaces the body of the request.
func (m *messageWriter) translate(c *call) *apiError {
	m.call = c
	if c.body.boundary != "" {
		return invalid("the body must be a JSON object")
	}

	chat, err := toChat(c.body.text)
	if err != nil {
		return err
	}

	c.body.text, m.stops = chat.text, chat.stops
	c.body.addsUsage = false // the translation asks for it

	return nil
}

// WriteHeader begins a stream; the header of every other answer waits for its body.
func (m *messageWriter) WriteHeader(status int) {
	if m.status != 0 {
		return
	}

	m.status = status

	kind, _, _ := mime.ParseMediaType(m.Header().Get("Content-Type"))
	if kind == "text/event-stream" && m.call.body.stream {
		m.begin()
	}
}

func (m *messageWriter) begin() {
	m.stream = &messageStream{out: m.ResponseWriter, id: m.id, call: m.call, stops: m.stops}
	m.ResponseWriter.WriteHeader(http.StatusOK)
}

// Write takes a part of the answer. Of a stream each whole line is translated.
func (m *messageWriter) Write(text []byte) (int, error) {
	if m.status == 0 {
		m.WriteHeader(http.StatusOK)
	}

	m.held = append(m.held, text...)
	if m.stream == nil {
		return len(text), nil
	}

	for {
		line, rest, whole := bytes.Cut(m.held, []byte("\n"))
		if !whole {
			return len(text), m.stream.err
		}

		m.stream.line(bytes.TrimRight(line, "\r"))
		m.held = rest
	}
}

// finish writes what can be written only when the answer is whole.
func (m *messageWriter) finish() {
	switch {
	case m.status == 0:
		return
	case m.stream != nil:
		m.stream.finish()
		return
	case m.status != http.StatusOK:
		m.refuse(m.status, m.held)
		return
	}

	if !json.Valid(m.held) || !gjson.GetBytes(m.held, "choices.0.message").IsObject() {
		m.fail("the answer of the source is not a completion")
		return
	}

	if m.call.body.stream { // the source does not stream
		m.Header().Set("Content-Type", "text/event-stream")
		m.Header().Set("Cache-Control", "no-cache")
		m.begin()
		m.stream.chunk(m.held)
		m.stream.end()

		return
	}

	whole, fault := m.message()
	if fault != "" {
		m.fail(fault)
		return
	}

	m.Header().Del("Content-Length")
	writeJSON(m.ResponseWriter, http.StatusOK, whole)
}

func (m *messageWriter) fail(message string) {
	m.refuse(http.StatusBadGateway, sourceFault(http.StatusBadGateway, "source_error", message).object())
}

// refuse writes an error in Anthropic's shape.
func (m *messageWriter) refuse(status int, text []byte) {
	message, code := reason(text)
	if message == "" {
		message = "the source has status " + strconv.Itoa(status)
	}

	fault := messageFault{Type: faultType(status), Message: message, Code: code}

	m.Header().Del("Content-Length")
	writeJSON(m.ResponseWriter, status, map[string]any{"type": "error", "error": fault, "request_id": m.id})
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

// reason is the message and the code of an error, in the shapes that sources use.
func reason(text []byte) (message, code string) {
	object := gjson.ParseBytes(text)
	fault := object.Get("error")

	code = object.Get("error.code").String()
	for _, one := range []gjson.Result{object.Get("error.message"), fault, object.Get("message"), object.Get("detail")} {
		if one.Type == gjson.String && one.String() != "" {
			return one.String(), code
		}
	}

	return fault.Raw, code
}
