package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"everloop/companions/gateway/dialect"
)

// messages serves Anthropic's Messages interface.
func (s *Service) messages(w http.ResponseWriter, r *http.Request) {
	s.translated(w, r, messagesOf(w))
}

// countTokens returns the tokens of a request of Anthropic's interface: the source's count,
// else an estimate.
func (s *Service) countTokens(w http.ResponseWriter, r *http.Request) {
	t := &translator{ResponseWriter: w, to: messagesOf(w)}
	s.withKey(func(w http.ResponseWriter, r *http.Request, by *caller) {
		if tokens, fault := s.count(w, r, by); fault != nil {
			writeError(w, fault)
		} else {
			writeJSON(t.ResponseWriter, http.StatusOK, map[string]int64{"input_tokens": tokens})
		}
	})(t, r)
	t.finish()
}

func (s *Service) count(w http.ResponseWriter, r *http.Request, by *caller) (int64, *apiError) {
	leave, ok := by.enter()
	if !ok {
		return 0, tooMany("key_limit", fmt.Sprintf("the key works on %d requests at once, which is its limit", by.most))
	}
	defer leave()

	b, release, fault := s.readBody(w, r)
	if fault != nil {
		return 0, fault
	}
	defer release()

	if b.boundary != "" {
		return 0, invalid("the body must be a JSON object")
	}

	chat, unfit := dialect.Counted(b.text)
	if unfit != nil {
		return 0, untranslated(unfit)
	}

	nameOmitted(w.Header(), chat.Omitted)

	c := &call{service: s, by: by, path: "/messages/count_tokens", body: b}
	if fault := c.resolve(r.Context()); fault != nil {
		return 0, fault
	}

	w.Header().Set("X-Resolved-Model", c.target.model)

	if tokens := c.counted(r.Context()); tokens > 0 {
		return tokens, nil
	}

	return estimate(chat.Text), nil
}

// counted returns the token count of the first working source; 0: none counts.
func (c *call) counted(ctx context.Context) int64 {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()

	for _, one := range c.order() {
		if one.notReady() != nil || one.broken(time.Now()) {
			continue
		}

		res, err := c.send(ctx, one)
		if err != nil {
			return 0
		}

		text, _ := io.ReadAll(io.LimitReader(res.Body, maxRefusal)) // what cannot be read is not a count
		_ = res.Body.Close()

		if res.StatusCode != http.StatusOK || !json.Valid(text) {
			return 0
		}

		return gjson.GetBytes(text, "input_tokens").Int()
	}

	return 0
}

const (
	countTimeout = 5 * time.Second
	imageTokens  = 1600 // of an image, whose size in bytes is a poor estimate
)

// estimate estimates the tokens of a chat-completions request by its size.
func estimate(chat []byte) int64 {
	size, images := len(chat), 0

	for _, message := range gjson.GetBytes(chat, "messages").Array() {
		if content := message.Get("content"); content.IsArray() {
			for _, part := range content.Array() {
				if part.Get("image_url").Exists() {
					size -= len(part.Raw)
					images++
				}
			}
		}
	}

	return int64(max(size/bytesPerToken, 1) + images*imageTokens)
}

// noMessages responds to requests of Anthropic's interface that the gateway does not support.
func (s *Service) noMessages(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	if r.URL.Path == "/v1/messages" || r.URL.Path == "/v1/messages/count_tokens" {
		allowed = []string{http.MethodPost}
	}

	t := &translator{ResponseWriter: w, to: messagesOf(w)}
	unrouted(t, r, allowed)
	t.finish()
}

func messagesOf(w http.ResponseWriter) dialect.Dialect {
	id := w.Header().Get("X-Request-Id")
	w.Header().Set("Request-Id", id)

	return dialect.Messages(id)
}

// responses serves OpenAI's Responses interface. The gateway stores no responses: a client
// sends the whole conversation each time.
func (s *Service) responses(w http.ResponseWriter, r *http.Request) {
	s.translated(w, r, dialect.Responses(w.Header().Get("X-Request-Id"), time.Now()))
}

// translated serves requests of a dialect.
func (s *Service) translated(w http.ResponseWriter, r *http.Request, to dialect.Dialect) {
	t := &translator{ResponseWriter: w, to: to}
	s.withKey(func(w http.ResponseWriter, r *http.Request, by *caller) {
		s.answer(w, r, by, "/chat/completions", t.translate)
	})(t, r)
	t.finish()
}

// translator is a writer that translates an answer of chat completions to a dialect.
type translator struct {
	http.ResponseWriter
	to     dialect.Dialect
	call   *call // nil until the request is translated
	status int
	held   []byte // the whole answer, or the last line of a streamed one
	stream dialect.Stream
}

// Unwrap returns the underlying writer for a response controller, to flush it.
func (t *translator) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// translate replaces the body of the request.
func (t *translator) translate(c *call) *apiError {
	t.call = c
	if c.body.boundary != "" {
		return invalid("the body must be a JSON object")
	}

	chat, fault := t.to.Request(c.body.text)
	if fault != nil {
		return untranslated(fault)
	}

	nameOmitted(t.Header(), chat.Omitted)

	c.body.text = chat.Text
	c.body.addsUsage = false // the translation requests it

	return nil
}

func untranslated(fault *dialect.Invalid) *apiError {
	e := invalid(fault.Message)
	e.Details = fault.Details

	return e
}

// nameOmitted lists the omitted tools in the header of the answer.
func nameOmitted(header http.Header, tools []string) {
	const maxNames = 50

	names := make([]string, 0, len(tools))
	for _, tool := range tools[:min(len(tools), maxNames)] {
		names = append(names, strings.Map(func(r rune) rune {
			if r > ' ' && r < 0x7f && r != ',' {
				return r
			}

			return '_'
		}, tool))
	}

	if len(names) > 0 {
		header.Set("X-Everloop-Omitted-Tools", strings.Join(names, ", "))
	}
}

// WriteHeader starts a stream; the header of any other answer is delayed until its body is
// complete.
func (t *translator) WriteHeader(status int) {
	if t.status != 0 {
		return
	}

	t.status = status

	kind, _, _ := mime.ParseMediaType(t.Header().Get("Content-Type"))
	if kind == "text/event-stream" && t.call.body.stream {
		t.begin()
	}
}

func (t *translator) begin() {
	t.stream = t.to.Stream(t.call.answered(), t.ResponseWriter)
	t.ResponseWriter.WriteHeader(http.StatusOK)
}

// Write takes a part of the answer and translates each whole line of a stream.
func (t *translator) Write(text []byte) (int, error) {
	if t.status == 0 {
		t.WriteHeader(http.StatusOK)
	}

	t.held = append(t.held, text...)
	if t.stream == nil {
		return len(text), nil
	}

	for {
		line, rest, whole := bytes.Cut(t.held, []byte("\n"))
		if !whole {
			return len(text), t.stream.Failed()
		}

		t.line(bytes.TrimRight(line, "\r"))
		t.held = rest
	}
}

// line translates a line of the source's stream.
func (t *translator) line(text []byte) {
	if bytes.HasPrefix(text, []byte(":")) {
		t.stream.Silence()
		return
	}

	value, isData := bytes.CutPrefix(text, []byte("data:"))
	if !isData {
		return
	}

	value = bytes.TrimSpace(value)
	switch {
	case len(value) == 0:
	case string(value) == "[DONE]":
		t.stream.End()
	case !json.Valid(value):
		t.stream.Malformed()
	default:
		t.stream.Chunk(value)
	}
}

// finish writes the parts that need the whole answer.
func (t *translator) finish() {
	switch {
	case t.status == 0:
		return
	case t.stream != nil:
		t.stream.Finish()
		return
	case t.status != http.StatusOK:
		t.refuse(t.status, t.held)
		return
	}

	if !json.Valid(t.held) || !gjson.GetBytes(t.held, "choices.0.message").IsObject() {
		t.fail("the answer of the source is not a completion")
		return
	}

	if t.call.body.stream { // the source does not stream
		t.Header().Set("Content-Type", "text/event-stream")
		t.Header().Set("Cache-Control", "no-cache")
		t.begin()
		t.stream.Chunk(t.held)
		t.stream.End()

		return
	}

	whole, fault := t.to.Whole(t.call.answered(), t.held)
	if fault != "" {
		t.fail(fault)
		return
	}

	t.Header().Del("Content-Length")
	writeJSON(t.ResponseWriter, http.StatusOK, whole)
}

func (t *translator) fail(message string) {
	t.refuse(http.StatusBadGateway, sourceFault(http.StatusBadGateway, "source_error", message).object())
}

func (t *translator) refuse(status int, text []byte) {
	t.Header().Del("Content-Length")
	writeJSON(t.ResponseWriter, status, t.to.Refusal(status, text))
}

// answered returns the data of a call for translations.
func (c *call) answered() dialect.Answered {
	return dialect.Answered{Model: c.asked, Tokens: func() dialect.Tokens {
		sum := c.meter.tally()

		return dialect.Tokens{Prompt: sum.Prompt, Completion: sum.Completion}
	}}
}
