package mock

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"everloop/companions/edge"
)

// sink writes the pieces of an answer.
type sink interface {
	start() error
	text(field, piece string) error // of content or reasoning_content
	call(index int, id, name, arguments string) error
	end(finish string, usage Usage, step *Step) error
	flush()
	fail(fault *apiError) // an error object after the start of the answer
	garble()              // invalid JSON
}

func newSink(w http.ResponseWriter, req *chatRequest) sink {
	if !req.Stream {
		return &completion{w: w, model: req.Model, texts: map[string][]byte{}}
	}
	head := fmt.Sprintf(`"id":%q,"object":"chat.completion.chunk","created":%d,"model":%q`, completionID(), time.Now().Unix(), req.Model)
	return &stream{w: w, rc: http.NewResponseController(w), usage: req.StreamOptions.IncludeUsage, head: head}
}

func completionID() string { return "chatcmpl-" + rand.Text() }

// stream sends an answer as chunks of server-sent events.
type stream struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	usage bool   // the client requested it
	head  string // fields of all chunks

	piece string // the last one
	chunk []byte // its chunk: sending many equal tokens costs little
}

func (s *stream) start() error {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	s.w.WriteHeader(http.StatusOK)
	return s.delta(map[string]any{"role": "assistant", "content": ""})
}

func (s *stream) delta(fields map[string]any) error { return s.write(s.encode(fields, nil)) }

func (s *stream) encode(fields map[string]any, finish any) []byte {
	choices, _ := json.Marshal([]any{map[string]any{"index": 0, "delta": fields, "finish_reason": finish}}) // always encodes
	return fmt.Appendf(nil, "data: {%s,\"choices\":%s}\n\n", s.head, choices)
}

func (s *stream) write(data []byte) error {
	_, err := s.w.Write(data)
	return err
}

func (s *stream) text(field, piece string) error {
	if field+piece != s.piece {
		s.piece, s.chunk = field+piece, s.encode(map[string]any{field: piece}, nil)
	}
	return s.write(s.chunk)
}

func (s *stream) call(index int, id, name, arguments string) error {
	call := toolCall{Index: &index, ID: id}
	if id != "" {
		call.Type = "function"
	}
	call.Function.Name, call.Function.Arguments = name, arguments
	return s.delta(map[string]any{"tool_calls": []toolCall{call}})
}

func (s *stream) end(finish string, usage Usage, step *Step) error {
	defer s.flush()

	if step.NoFinish {
		return nil
	}

	if err := s.write(s.encode(map[string]any{}, finish)); err != nil {
		return err
	}

	if s.usage {
		counts, _ := json.Marshal(usage) // numbers always encode
		if err := s.write(fmt.Appendf(nil, "data: {%s,\"choices\":[],\"usage\":%s}\n\n", s.head, counts)); err != nil {
			return err
		}
	}

	if step.NoDone {
		return nil
	}

	return s.write([]byte("data: [DONE]\n\n"))
}

func (s *stream) flush() { _ = s.rc.Flush() } // the context ends when the client disconnects

func (s *stream) fail(fault *apiError) {
	object, _ := json.Marshal(fault.object()) // strings always encode
	_ = s.write(fmt.Appendf(nil, "data: %s\n\n", object))
	s.flush()
}

func (s *stream) garble() {
	_ = s.write([]byte("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\n\n"))
	s.flush()
}

// completion collects an answer and sends it as one object.
type completion struct {
	w     http.ResponseWriter
	model string
	texts map[string][]byte // by field
	calls []toolCall
}

func (c *completion) start() error { return nil }

func (c *completion) text(field, piece string) error {
	c.texts[field] = append(c.texts[field], piece...)
	return nil
}

func (c *completion) call(index int, id, name, arguments string) error {
	if index == len(c.calls) {
		call := toolCall{ID: id, Type: "function"}
		call.Function.Name = name
		c.calls = append(c.calls, call)
	}
	c.calls[index].Function.Arguments += arguments
	return nil
}

func (c *completion) end(finish string, usage Usage, step *Step) error {
	message := map[string]any{"role": "assistant", "content": ""}
	for field, text := range c.texts {
		message[field] = string(text)
	}

	if len(c.calls) > 0 {
		message["tool_calls"] = c.calls
		if message["content"] == "" {
			message["content"] = nil
		}
	}

	choice := map[string]any{"index": 0, "message": message, "finish_reason": finish}
	if step.NoFinish {
		choice["finish_reason"] = nil
	}

	edge.WriteJSON(c.w, http.StatusOK, map[string]any{
		"id": completionID(), "object": "chat.completion", "created": time.Now().Unix(), "model": c.model,
		"choices": []any{choice}, "usage": usage,
	})

	return nil
}

func (c *completion) flush() {}

func (c *completion) fail(fault *apiError) { writeError(c.w, fault) }

func (c *completion) garble() {
	c.w.Header().Set("Content-Type", "application/json")
	_, _ = c.w.Write([]byte(`{"choices":[`))
}
