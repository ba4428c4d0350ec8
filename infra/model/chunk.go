package model

import (
	"bytes"
	"encoding/json"

	"everloop/domain"
)

// chunk is what is needed of a chat.completion.chunk, and of a whole completion
// from a server that does not stream (shapes.md section 9).
type chunk struct {
	Model   string          `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
	Object  string          `json:"object"` // "error": the chunk itself is the error object
}

type choice struct {
	Index        int    `json:"index"`
	Delta        *delta `json:"delta"`
	Message      *delta `json:"message"`
	FinishReason string `json:"finish_reason"`
}

// delta is a piece of an answer. Servers name the model's thinking
// reasoning_content or reasoning; some send both with the same text.
type delta struct {
	Content          string      `json:"content"`
	ReasoningContent string      `json:"reasoning_content"`
	Reasoning        string      `json:"reasoning"`
	Refusal          string      `json:"refusal"`
	ToolCalls        []callDelta `json:"tool_calls"`
}

func (d *delta) thinking() string {
	if d.ReasoningContent != "" {
		return d.ReasoningContent
	}
	return d.Reasoning
}

// text is the answer, or the model's own words for not giving one.
func (d *delta) text() string {
	if d.Content != "" {
		return d.Content
	}
	return d.Refusal
}

type callDelta struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string        `json:"name"`
		Arguments argumentsText `json:"arguments"`
	} `json:"function"`
}

// argumentsText is JSON text in a JSON string, as the interface wants it, or
// the object itself, as some servers send it.
type argumentsText string

func (a *argumentsText) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("null")) {
		return nil
	}
	if b[0] != '"' {
		*a = argumentsText(b)
		return nil
	}
	return json.Unmarshal(b, (*string)(a))
}

type usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
}

func (u *usage) domain() domain.Usage {
	return domain.Usage{InputTokens: max(u.PromptTokens, 0), OutputTokens: max(u.CompletionTokens, 0)}
}

// isError reports whether the chunk is an error object.
func (c *chunk) isError() bool {
	return c.Object == "error" || (len(c.Error) > 0 && !bytes.Equal(c.Error, []byte("null")))
}
