package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"

	"github.com/tidwall/gjson"
)

// dialect translates one request of an interface that is not chat completions: the request
// goes on as one of chat completions, and what is written as an answer to that is translated.
type dialect interface {
	// request translates a body, which is a JSON object.
	request(text []byte) (chat []byte, fault *apiError)
	// whole translates a completion. A fault says what is wrong with it.
	whole(c *call, completion []byte) (answer any, fault string)
	// stream begins the translation of a stream.
	stream(c *call, out io.Writer) dialectStream
	// refusal is an error of the gateway or of a source as the interface shows it.
	refusal(status int, text []byte) any
}

// dialectStream translates the pieces of a completion.
type dialectStream interface {
	// silence fills a pause, so that connections stay open.
	silence()
	// chunk takes a piece of a completion, or a whole one, as JSON.
	chunk(text []byte)
	// malformed takes a piece that is not JSON.
	malformed()
	// end writes the end of an answer whose source says that it is whole.
	end()
	// finish ends a stream whose source gave a finish reason and no [DONE].
	finish()
	// failed is the first error of writing.
	failed() error
}

// translated serves requests of a dialect.
func (s *Service) translated(w http.ResponseWriter, r *http.Request, to dialect) {
	t := &translator{ResponseWriter: w, to: to}
	s.withKey(func(w http.ResponseWriter, r *http.Request, by *caller) {
		s.answer(w, r, by, "/chat/completions", t.translate)
	})(t, r)
	t.finish()
}

// translator is a writer of chat completions' answers that writes those of a dialect.
type translator struct {
	http.ResponseWriter
	to     dialect
	call   *call // nil until the request is translated
	status int
	held   []byte // of an answer that is not streamed, and the last line of one that is
	stream dialectStream
}

// Unwrap gives a response controller the writer below, to flush it.
func (t *translator) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// translate replaces the body of the request.
func (t *translator) translate(c *call) *apiError {
	t.call = c
	if c.body.boundary != "" {
		return invalid("the body must be a JSON object")
	}

	chat, fault := t.to.request(c.body.text)
	if fault != nil {
		return fault
	}

	c.body.text = chat
	c.body.addsUsage = false // the translation asks for it

	return nil
}

// WriteHeader begins a stream; the header of every other answer waits for its body.
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
	t.stream = t.to.stream(t.call, t.ResponseWriter)
	t.ResponseWriter.WriteHeader(http.StatusOK)
}

// Write takes a part of the answer. Of a stream each whole line is translated.
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
			return len(text), t.stream.failed()
		}

		t.line(bytes.TrimRight(line, "\r"))
		t.held = rest
	}
}

// line takes a line of the source's stream.
func (t *translator) line(text []byte) {
	if bytes.HasPrefix(text, []byte(":")) {
		t.stream.silence()
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
		t.stream.end()
	case !json.Valid(value):
		t.stream.malformed()
	default:
		t.stream.chunk(value)
	}
}

// finish writes what can be written only when the answer is whole.
func (t *translator) finish() {
	switch {
	case t.status == 0:
		return
	case t.stream != nil:
		t.stream.finish()
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
		t.stream.chunk(t.held)
		t.stream.end()

		return
	}

	whole, fault := t.to.whole(t.call, t.held)
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
	writeJSON(t.ResponseWriter, status, t.to.refusal(status, text))
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

// encoded is a request of chat completions as JSON.
func encoded(request map[string]any) ([]byte, *apiError) {
	var out bytes.Buffer

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // a text of such characters would become six times as long

	if encoder.Encode(request) != nil {
		return nil, invalid("the body is nested too deeply")
	}

	return bytes.TrimSpace(out.Bytes()), nil
}
