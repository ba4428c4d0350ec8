package mock

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"time"
)

// stream sends an answer as chunks of server-sent events.
type stream struct {
	w      http.ResponseWriter
	rc     *http.ResponseController
	usage  bool // the client asked for it
	prefix []byte
	buf    []byte
}

func newStream(w http.ResponseWriter, req *chatRequest) *stream {
	model, _ := json.Marshal(req.Model)
	prefix := []byte(`data: {"id":"` + completionID() + `","object":"chat.completion.chunk","created":`)
	prefix = append(appendInt(prefix, time.Now().Unix()), `,"model":`...)
	prefix = append(append(prefix, model...), ',')

	return &stream{w: w, rc: http.NewResponseController(w), usage: req.StreamOptions.IncludeUsage, prefix: prefix}
}

func completionID() string { return "chatcmpl-" + rand.Text() }

func appendInt(b []byte, n int64) []byte {
	text, _ := json.Marshal(n) // an integer always encodes
	return append(b, text...)
}

func (s *stream) begin() error {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	s.w.WriteHeader(http.StatusOK)

	return s.delta(`{"role":"assistant","content":""}`, "")
}

// delta writes one chunk with a choice.
func (s *stream) delta(delta, finish string) error {
	_, err := s.w.Write(s.chunk(delta, finish))
	return err
}

// chunk builds a chunk; it is valid until the next one.
func (s *stream) chunk(delta, finish string) []byte {
	b := append(s.buf[:0], s.prefix...)
	b = append(b, `"choices":[{"index":0,"delta":`...)
	b = append(b, delta...)

	b = append(b, `,"finish_reason":`...)
	if finish == "" {
		b = append(b, `null`...)
	} else {
		b = append(b, quote(finish)...)
	}

	s.buf = append(b, "}]}\n\n"...)

	return s.buf
}

func quote(text string) string {
	b, _ := json.Marshal(text) // a string always encodes
	return string(b)
}

func (s *stream) thinking(piece string) error {
	return s.delta(`{"reasoning_content":`+quote(piece)+`}`, "")
}

func (s *stream) text(piece string) error {
	return s.delta(`{"content":`+quote(piece)+`}`, "")
}

func (s *stream) prepare(word string) func() error {
	ready := append([]byte(nil), s.chunk(`{"content":`+quote(word)+`}`, "")...)

	return func() error {
		_, err := s.w.Write(ready)
		return err
	}
}

func (s *stream) call(index int, id, name, arguments string) error {
	call := toolCall{Index: &index, ID: id}
	if id != "" {
		call.Type = "function"
	}

	call.Function.Name, call.Function.Arguments = name, arguments

	delta, err := json.Marshal(map[string]any{"tool_calls": []toolCall{call}})
	if err != nil {
		return err
	}

	return s.delta(string(delta), "")
}

func (s *stream) end(finish string, usage Usage, step *Step) error {
	if !step.NoFinish {
		if err := s.delta(`{}`, finish); err != nil {
			return err
		}

		if s.usage {
			counts, err := json.Marshal(usage)
			if err != nil {
				return err
			}

			b := append(append([]byte(nil), s.prefix...), `"choices":[],"usage":`...)
			if _, err := s.w.Write(append(append(b, counts...), "}\n\n"...)); err != nil {
				return err
			}
		}
	}

	if !step.NoDone && !step.NoFinish {
		if _, err := s.w.Write([]byte("data: [DONE]\n\n")); err != nil {
			return err
		}
	}

	s.flush()

	return nil
}

func (s *stream) flush() { _ = s.rc.Flush() } // a client that left is noticed by its context

func (s *stream) fail(fault *apiError) {
	object, _ := json.Marshal(fault.object()) // strings always encode
	_, _ = s.w.Write(append(append([]byte("data: "), object...), "\n\n"...))
	s.flush()
}

func (s *stream) garble() {
	_, _ = s.w.Write([]byte("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\n\n"))
	s.flush()
}
