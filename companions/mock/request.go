package mock

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// chatRequest contains the fields of a chat-completion request that matter here. Unknown
// fields are ignored.
type chatRequest struct {
	Model         string        `json:"model"`
	Messages      []chatMessage `json:"messages"`
	Stream        bool          `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Tools []struct {
		Type     string `json:"type"`
		Function struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	ResponseFormat *struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
	ChatTemplateKwargs struct {
		EnableThinking *bool `json:"enable_thinking"`
	} `json:"chat_template_kwargs"`
}

type chatMessage struct {
	Role       string         `json:"role"`
	Content    messageContent `json:"content"`
	ToolCalls  []toolCall     `json:"tool_calls,omitempty"`
	ToolCallID string         `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	Index    *int   `json:"index,omitempty"`
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// messageContent is the text of a message: a string, or the text parts of a list.
type messageContent string

// UnmarshalJSON implements json.Unmarshaler.
func (c *messageContent) UnmarshalJSON(b []byte) error {
	switch {
	case string(b) == "null":
		return nil
	case b[0] == '"':
		return json.Unmarshal(b, (*string)(c))
	}

	var parts []struct{ Text string }
	if err := json.Unmarshal(b, &parts); err != nil {
		return errors.New("content must be a string or a list of parts")
	}

	var texts []string

	for _, p := range parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}

	*c = messageContent(strings.Join(texts, "\n"))

	return nil
}

// parseRequest decodes a request and rejects what real servers reject.
func parseRequest(body []byte) (*chatRequest, *apiError) {
	var req chatRequest

	err := json.Unmarshal(body, &req)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil, badRequest("%s: must not be of type %s", cmp.Or(strings.Trim(wrong.Field, "."), "body"), wrong.Value)
	}

	switch {
	case err != nil:
		return nil, badRequest("invalid JSON: %v", err)
	case req.Model == "":
		return nil, badRequest("model is required")
	case len(req.Messages) == 0:
		return nil, badRequest("messages must contain at least one message")
	}

	if _, fault := findModel(req.Model); fault != nil {
		return nil, fault
	}

	for i, t := range req.Tools {
		if t.Type != "function" || t.Function.Name == "" {
			return nil, badRequest("tools[%d] must be a function with a name", i)
		}
	}

	return &req, checkMessages(req.Messages)
}

// checkMessages checks the order that real servers require: tool messages answer exactly the
// calls of the assistant message directly before them.
func checkMessages(messages []chatMessage) *apiError {
	open := map[string]bool{}

	for i, m := range messages {
		if m.Role != "tool" && len(open) > 0 {
			return badRequest("messages[%d]: an assistant message with tool_calls must be followed by a tool message for each of them", i)
		}

		switch m.Role {
		case "system", "developer", "user":
		case "assistant":
			for _, call := range m.ToolCalls {
				if call.ID == "" || call.Function.Name == "" {
					return badRequest("messages[%d]: a tool call needs an id and a function name", i)
				}

				open[call.ID] = true
			}
		case "tool":
			if !open[m.ToolCallID] {
				return badRequest("messages[%d]: tool_call_id %q does not match an open tool call", i, m.ToolCallID)
			}

			delete(open, m.ToolCallID)
		default:
			return badRequest("messages[%d]: unknown role %q", i, m.Role)
		}
	}

	if len(open) > 0 {
		return badRequest("the last assistant message has unanswered tool calls")
	}

	return nil
}

// toolNames returns the names of the offered tools in their order.
func (r *chatRequest) toolNames() []string {
	names := make([]string, 0, len(r.Tools))
	for _, t := range r.Tools {
		names = append(names, t.Function.Name)
	}
	return names
}

func (r *chatRequest) offers(tool string) bool { return slices.Contains(r.toolNames(), tool) }

// schema returns the JSON Schema of the answer, nil for free text.
func (r *chatRequest) schema() json.RawMessage {
	if r.ResponseFormat == nil || r.ResponseFormat.Type != "json_schema" {
		return nil
	}
	return r.ResponseFormat.JSONSchema.Schema
}

// thinks reports whether thinking is enabled, which is the default.
func (r *chatRequest) thinks() bool {
	return r.ChatTemplateKwargs.EnableThinking == nil || *r.ChatTemplateKwargs.EnableThinking
}

// key identifies equal requests by model and messages. It ignores system messages, because
// agents write the time into them.
func (r *chatRequest) key() string {
	h := sha256.New()
	add := func(text string) { fmt.Fprintf(h, "%d:%s", len(text), text) }
	add(r.Model)

	for _, m := range r.Messages {
		if m.Role == "system" || m.Role == "developer" {
			continue
		}

		add(m.Role)
		add(string(m.Content))

		for _, c := range m.ToolCalls {
			add(c.Function.Name)
			add(c.Function.Arguments)
		}
	}

	return hex.EncodeToString(h.Sum(nil)[:16])
}

// promptTokens estimates the tokens of the prompt: four characters a token.
func (r *chatRequest) promptTokens() int {
	chars := 0

	for _, m := range r.Messages {
		chars += 16 + len(m.Content)
		for _, c := range m.ToolCalls {
			chars += len(c.Function.Name) + len(c.Function.Arguments)
		}
	}

	for _, t := range r.Tools {
		chars += len(t.Function.Name) + len(t.Function.Parameters)
	}

	return (chars + 3) / 4
}
