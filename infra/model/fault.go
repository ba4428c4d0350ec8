package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"everloop/domain"
)

const (
	maxErrorBody = 64 << 10
	maxErrorText = 500 // characters of a server's own words that are passed on
)

// overflowWords are the words by which the known servers say that a prompt does
// not fit the model's context: OpenAI, vLLM, llama.cpp, SGLang, Ollama, TGI and
// the hosted ones. All in lower case.
var overflowWords = []string{
	"context_length_exceeded",
	"exceed_context_size",
	"maximum context length",
	"maximum model length",
	"model's context length",
	"exceeds the available context size",
	"context size has been exceeded",
	"exceeds the context",
	"exceeds the maximum allowed length",
	"exceed context window",
	"exceeds the context window",
	"exceeds maximum context",
	"prompt is too long",
	"input is too long",
	"input token count",
	"reduce the length of the messages",
	"`inputs` tokens + `max_new_tokens` must be",
}

// serverError is what could be read of an error answer, whichever its shape.
type serverError struct {
	message string
	code    string // code and type, in lower case
	status  int    // where the code is an HTTP status
}

// httpFault sorts an answer other than 200.
func (c *Client) httpFault(res *http.Response) *domain.ModelError {
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // what was read of it is used

	e := readError(body)
	if e.message == "" {
		e.message = "the server gave no reason"
	}

	return &domain.ModelError{
		Fault: sortFault(res.StatusCode, e), Status: res.StatusCode,
		Message: c.clean(e.message), RetryAfter: retryAfter(res.Header),
	}
}

// bodyFault sorts an error object that came with status 200: in the middle of a
// stream, or as the whole answer.
func (c *Client) bodyFault(body []byte) *domain.ModelError {
	e := readError(body)
	if e.message == "" {
		e.message = "the model server reported an error without a text"
	}

	return &domain.ModelError{Fault: sortFault(e.status, e), Message: c.clean(e.message)}
}

// sortFault decides whether a call is retried. A status of 0 means that only the
// error's own words are known; such a fault is taken for transient unless they
// say otherwise.
func sortFault(status int, e serverError) domain.ModelFault {
	switch {
	case status == http.StatusTooManyRequests:
		return domain.FaultRateLimited
	case mayOverflow(status) && overflows(e):
		return domain.FaultContextOverflow
	case status < 500 && (status == http.StatusNotFound || strings.Contains(e.code, "model_not_found")):
		return domain.FaultUnknownModel
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly, status >= 500:
		return domain.FaultTransient
	case status != 0:
		return domain.FaultRefused
	case strings.Contains(e.code, "rate_limit"):
		return domain.FaultRateLimited
	case strings.Contains(e.code, "invalid_request"), strings.Contains(e.code, "authentication"),
		strings.Contains(e.code, "permission"), strings.Contains(e.code, "invalid_api_key"):
		return domain.FaultRefused
	}

	return domain.FaultTransient
}

func mayOverflow(status int) bool {
	switch status {
	case 0, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusInternalServerError:
		return true
	}

	return false
}

func overflows(e serverError) bool {
	text := e.code + " " + strings.ToLower(e.message)
	for _, words := range overflowWords {
		if strings.Contains(text, words) {
			return true
		}
	}

	return false
}

// readError finds the message and code in the error shapes of the known
// servers: {"error": {message, type, code}}, {"error": "text"},
// {"object": "error", "message": …}, {"detail": …}, or plain text.
func readError(body []byte) serverError {
	var outer map[string]json.RawMessage
	if json.Unmarshal(body, &outer) != nil {
		return serverError{message: strings.TrimSpace(string(body))}
	}

	if inner, ok := outer["error"]; ok && !bytes.Equal(inner, []byte("null")) {
		var object map[string]json.RawMessage
		if json.Unmarshal(inner, &object) != nil {
			return serverError{message: plainText(inner)}
		}

		outer = object
	}

	e := serverError{message: plainText(outer["message"])}
	if e.message == "" {
		e.message = plainText(outer["detail"])
	}

	code := plainText(outer["code"])
	if n, err := strconv.Atoi(code); err == nil && n >= 400 && n < 600 {
		e.status = n
	}

	e.code = strings.ToLower(code + " " + plainText(outer["type"]))

	return e
}

// plainText is a JSON string's text, or the JSON of any other value.
func plainText(raw json.RawMessage) string {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return ""
	}

	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}

	return string(raw)
}

// clean makes a server's words fit to be shown and kept: without the key, valid
// UTF-8 without NUL, and cut.
func (c *Client) clean(text string) string {
	if c.cfg.Key != "" {
		text = strings.ReplaceAll(text, c.cfg.Key, "***")
	}

	text = domain.CleanText(text)
	if utf8.RuneCountInString(text) <= maxErrorText {
		return text
	}

	runes := []rune(text)

	return fmt.Sprintf("%s… (%d characters more)", string(runes[:maxErrorText]), len(runes)-maxErrorText)
}
