package mock

import (
	"net/http"
	"strings"
	"time"
)

// whole collects an answer and sends it as one completion object.
type whole struct {
	w       http.ResponseWriter
	model   string
	said    strings.Builder
	thought strings.Builder
	calls   []toolCall
}

func newWhole(w http.ResponseWriter, req *chatRequest) *whole {
	return &whole{w: w, model: req.Model}
}

func (c *whole) begin() error { return nil }

func (c *whole) thinking(piece string) error {
	c.thought.WriteString(piece)
	return nil
}

func (c *whole) text(piece string) error {
	c.said.WriteString(piece)
	return nil
}

func (c *whole) prepare(word string) func() error {
	return func() error { return c.text(word) }
}

func (c *whole) call(index int, id, name, arguments string) error {
	if index == len(c.calls) {
		call := toolCall{ID: id, Type: "function"}
		call.Function.Name = name
		c.calls = append(c.calls, call)
	}

	c.calls[index].Function.Arguments += arguments

	return nil
}

func (c *whole) end(finish string, usage Usage, step *Step) error {
	message := map[string]any{"role": "assistant", "content": c.said.String()}
	if c.said.Len() == 0 && len(c.calls) > 0 {
		message["content"] = nil
	}

	if c.thought.Len() > 0 {
		message["reasoning_content"] = c.thought.String()
	}

	if len(c.calls) > 0 {
		message["tool_calls"] = c.calls
	}

	choice := map[string]any{"index": 0, "message": message, "finish_reason": finish}
	if step.NoFinish {
		choice["finish_reason"] = nil
	}

	writeJSON(c.w, http.StatusOK, map[string]any{
		"id": completionID(), "object": "chat.completion", "created": time.Now().Unix(), "model": c.model,
		"choices": []any{choice}, "usage": usage,
	})

	return nil
}

func (c *whole) flush() {}

func (c *whole) fail(fault *apiError) { writeError(c.w, fault) }

func (c *whole) garble() {
	c.w.Header().Set("Content-Type", "application/json")
	_, _ = c.w.Write([]byte(`{"choices":[`))
}
