package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"everloop/domain"
	"everloop/internal/modelmembers"
)

// request is go-openai's request with our own type of messages: theirs omits empty content, and
// servers reject a tool message without content, such as the output of a silent command.
type request struct {
	openai.ChatCompletionRequest
	Messages []message `json:"messages"`
}

// message is one message of the request. Content is a string or a list of parts, and is always
// present. Reasoning is in one of its two fields.
type message struct {
	Role             string     `json:"role"`
	Content          any        `json:"content"`
	ReasoningContent string     `json:"reasoning_content,omitempty"`
	Reasoning        string     `json:"reasoning,omitempty"`
	ToolCalls        []toolCall `json:"tool_calls,omitempty"`
	ToolCallID       string     `json:"tool_call_id,omitempty"`

	members string
}

// MarshalJSON adds the server's extra members of the message. Thinking that was a list of parts
// is sent back as a list.
func (m message) MarshalJSON() ([]byte, error) {
	type wire message

	m.Content = modelmembers.Content(m.Content, m.members)

	return modelmembers.With(wire(m), m.members, modelmembers.MessageMembers)
}

// toolCall is an earlier tool call.
type toolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function functionCall `json:"function"`

	members string
}

// MarshalJSON adds the server's extra members of the call.
func (c toolCall) MarshalJSON() ([]byte, error) {
	type wire toolCall

	c.Function.members = modelmembers.Member(c.members, "function")

	return modelmembers.With(wire(c), c.members, modelmembers.CallMembers)
}

type functionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`

	members string
}

// MarshalJSON adds the server's extra members of the call's function.
func (f functionCall) MarshalJSON() ([]byte, error) {
	type wire functionCall

	return modelmembers.With(wire(f), f.members, modelmembers.FunctionMembers)
}

// encode encodes a prompt as the body of a streamed request with usage, without the features that
// the server refuses.
func encode(p domain.Prompt, without map[feature]bool) ([]byte, error) {
	has := features(p, without)

	req := request{Messages: make([]message, 0, len(p.Messages))}
	req.Model = p.Model
	req.Stream = true

	if has[featureUsage] {
		req.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	}

	ids := newCallIDs(p.Messages)
	for _, m := range p.Messages {
		sent := message{Role: m.Role, Content: content(m.Parts), ToolCalls: toolCalls(m.Calls, ids, has[featureMembers])}
		if has[featureMembers] {
			sent.members = m.ServerMembers
		}

		if m.ToolCallID != "" {
			sent.ToolCallID = ids.of(m.ToolCallID)
		}

		if has[featureReasoning] && m.ReasoningField == domain.Reasoning {
			sent.Reasoning = m.Reasoning
		} else if has[featureReasoning] {
			sent.ReasoningContent = m.Reasoning
		}

		req.Messages = append(req.Messages, sent)
	}

	for _, t := range p.Tools {
		parameters := t.Parameters
		if len(parameters) == 0 {
			parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}

		req.Tools = append(req.Tools, openai.Tool{
			Type:     openai.ToolTypeFunction,
			Function: &openai.FunctionDefinition{Name: t.Name, Description: t.Description, Parameters: parameters},
		})
	}

	if has[featureSchema] {
		// Not strict: strict servers accept only a subset of JSON Schema, and the loop validates
		// the answer in any case.
		req.ResponseFormat = &openai.ChatCompletionResponseFormat{
			Type:       openai.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{Name: "answer", Schema: p.Schema},
		}
	}

	var body bytes.Buffer

	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)

	if err := enc.Encode(req); err != nil {
		return nil, err
	}

	return bytes.TrimRight(body.Bytes(), "\n"), nil
}

// content returns a string for a content of texts, which all servers and roles accept, and
// otherwise a list of parts.
func content(parts []domain.ContentPart) any {
	texts := make([]string, 0, len(parts))
	list := make([]openai.ChatMessagePart, 0, len(parts))
	plain := true

	for _, p := range parts {
		if p.ImageURL != nil {
			plain = false

			list = append(list, openai.ChatMessagePart{
				Type:     openai.ChatMessagePartTypeImageURL,
				ImageURL: &openai.ChatMessageImageURL{URL: p.ImageURL.URL},
			})

			continue
		}

		if p.Text == "" {
			continue
		}

		texts = append(texts, p.Text)
		list = append(list, openai.ChatMessagePart{Type: openai.ChatMessagePartTypeText, Text: p.Text})
	}

	if plain {
		return strings.Join(texts, "\n")
	}

	return list
}

// unnamed is the name of a call without one: servers reject an empty name.
const unnamed = "unnamed"

func toolCalls(calls []domain.PromptCall, ids *callIDs, members bool) []toolCall {
	out := make([]toolCall, 0, len(calls))
	for _, call := range calls {
		sent := toolCall{
			ID: ids.of(call.ID), Type: string(openai.ToolTypeFunction),
			Function: functionCall{Name: cmp.Or(call.Name, unnamed), Arguments: sendable(call.Arguments)},
		}
		if members {
			sent.members = call.ServerMembers
		}

		out = append(out, sent)
	}

	return out
}

// sendable returns the text of earlier arguments as a JSON object. Servers parse earlier
// arguments for their template: malformed arguments would make them refuse every later call of
// the session.
func sendable(arguments string) string {
	trimmed := strings.TrimSpace(arguments)
	if trimmed == "" {
		return "{}"
	}

	if trimmed[0] == '{' && json.Valid([]byte(trimmed)) {
		return arguments
	}

	wrapped, _ := json.Marshal(map[string]string{"malformed_arguments": arguments}) // a map of strings always encodes

	return string(wrapped)
}
