package model

import (
	"bytes"
	"encoding/json"

	"everloop/domain"
)

// chunk is what is needed of a chat.completion.chunk, and of a whole completion
// from a server that does not stream.
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

// thinking is the text of the model's thinking, and the field that it came in.
func (d *delta) thinking() (text, field string) {
	switch {
	case d.ReasoningContent != "":
		return d.ReasoningContent, domain.ReasoningContent
	case d.Reasoning != "":
		return d.Reasoning, domain.Reasoning
	}

	return "", ""
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

// usage is what a call has used. Servers name the tokens of the prompt that came from
// their cache, or went into it, in several ways; some in two at once.
type usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`

	Details *struct {
		CachedTokens        int64 `json:"cached_tokens"`         // OpenAI, vLLM, SGLang, OpenRouter, xAI
		CacheWriteTokens    int64 `json:"cache_write_tokens"`    // OpenRouter
		CacheCreationTokens int64 `json:"cache_creation_tokens"` // LiteLLM
	} `json:"prompt_tokens_details"`
	CachedTokens        int64 `json:"cached_tokens"`               // Moonshot
	CacheHitTokens      int64 `json:"prompt_cache_hit_tokens"`     // DeepSeek
	CacheReadTokens     int64 `json:"cache_read_input_tokens"`     // Anthropic behind a gateway
	CacheCreationTokens int64 `json:"cache_creation_input_tokens"` // the same
}

// domain gives the usage in our own terms. The tokens of the cache are never more than
// those of the prompt, of which they are a part.
func (u *usage) domain() domain.Usage {
	used := domain.Usage{InputTokens: max(u.PromptTokens, 0), OutputTokens: max(u.CompletionTokens, 0)}

	read, written := max(u.CachedTokens, u.CacheHitTokens, u.CacheReadTokens, 0), max(u.CacheCreationTokens, 0)
	if d := u.Details; d != nil {
		read, written = max(read, d.CachedTokens), max(written, d.CacheWriteTokens, d.CacheCreationTokens)
	}

	used.CacheReadTokens = min(read, used.InputTokens)
	used.CacheWriteTokens = min(written, used.InputTokens-used.CacheReadTokens)

	return used
}

// isError reports whether the chunk is an error object.
func (c *chunk) isError() bool {
	return c.Object == "error" || (len(c.Error) > 0 && !bytes.Equal(c.Error, []byte("null")))
}
