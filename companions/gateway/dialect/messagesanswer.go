package dialect

import (
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// contentBlock is a block of a message. Pointer fields are always present for some types of
// blocks.
type contentBlock struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text,omitempty"`
	Thinking  *string         `json:"thinking,omitempty"`
	Signature *string         `json:"signature,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	Data      string          `json:"data,omitempty"`
}

func textBlock(text string) contentBlock { return contentBlock{Type: "text", Text: &text} }

// thinkingBlock returns a block with an opaque value of the gateway as its signature.
func thinkingBlock(text, signature string) contentBlock {
	return contentBlock{Type: "thinking", Thinking: &text, Signature: &signature}
}

// carriedBlock returns a block with the members that the source needs back. Clients return such
// blocks unchanged.
func carriedBlock(c carried) contentBlock {
	return contentBlock{Type: "redacted_thinking", Data: c.opaque()}
}

// messageUsage is the usage of a message. Cached tokens are not part of the input.
type messageUsage struct {
	Input   int64 `json:"input_tokens"`
	Created int64 `json:"cache_creation_input_tokens"`
	Cached  int64 `json:"cache_read_input_tokens"`
	Output  int64 `json:"output_tokens"`
}

// answerMessage is a message of the assistant.
type answerMessage struct {
	ID           string         `json:"id"`
	Type         string         `json:"type"`
	Role         string         `json:"role"`
	Model        string         `json:"model"`
	Content      []contentBlock `json:"content"`
	StopReason   *string        `json:"stop_reason"`
	StopSequence *string        `json:"stop_sequence"`
	Usage        messageUsage   `json:"usage"`
}

func emptyMessage(id, model string) answerMessage {
	return answerMessage{ID: "msg_" + id, Type: "message", Role: "assistant", Model: model, Content: []contentBlock{}}
}

func (m *messages) Whole(of Answered, completion []byte) (answer any, fault string) {
	object := gjson.ParseBytes(completion)
	choice := object.Get("choices.0")
	said := choice.Get("message")

	whole := emptyMessage(m.id, of.Model)
	if text := thinkingOf(said); text != "" {
		whole.Content = append(whole.Content, thinkingBlock(text, carried{Model: of.Model, Field: reasoningField(said)}.opaque()))
	}

	text := textOf(said)
	if text != "" {
		whole.Content = append(whole.Content, textBlock(text))
	}

	var ids []string

	calls := said.Get("tool_calls").Array()
	for i, one := range calls {
		name, arguments := one.Get("function.name").String(), one.Get("function.arguments").String()
		if name == "" {
			return nil, noName
		}

		if strings.TrimSpace(arguments) == "" {
			arguments = "{}"
		}

		if !isObject(arguments) {
			if choice.Get("finish_reason").String() == "length" && i == len(calls)-1 {
				break // the token limit truncated the call
			}

			return nil, badArguments
		}

		ids = append(ids, callID(one.Get("id").String()))
		whole.Content = append(whole.Content, contentBlock{
			Type: "tool_use", ID: ids[i],
			Name: name, Input: json.RawMessage(arguments),
		})
	}

	if c := carriedBy(of.Model, said, ids); c.needed() {
		whole.Content = append(whole.Content, carriedBlock(c))
	}

	reason, sequence := stopReason(choice, m.stops, len(calls) > 0, said.Get("refusal").String() != "")
	whole.StopReason, whole.StopSequence = &reason, sequence
	whole.Usage = of.messageUsage(object.Get("usage"))

	return whole, ""
}

// isObject reports whether a text is a JSON object.
func isObject(text string) bool {
	return strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") && json.Valid([]byte(text))
}

func callID(id string) string {
	if id == "" {
		return "toolu_" + rand.Text()
	}

	return id
}

// textOf returns the text of a message or of a piece of one, including refusals.
func textOf(said gjson.Result) string {
	content := said.Get("content")
	if !content.IsArray() {
		return content.String() + said.Get("refusal").String()
	}

	var text strings.Builder
	for _, part := range content.Array() {
		text.WriteString(part.Get("text").String())
	}

	return text.String() + said.Get("refusal").String()
}

// thinkingOf returns the reasoning of a message or of a piece of one; sources name it differently.
func thinkingOf(said gjson.Result) string {
	for _, name := range []string{"reasoning_content", "reasoning"} {
		if text := said.Get(name); text.Type == gjson.String {
			return text.String()
		}
	}

	return ""
}

// stopReason returns Anthropic's stop reason of a completion. Only vLLM and SGLang report which
// stop sequence ended it.
func stopReason(choice gjson.Result, stops []string, calls, refused bool) (reason string, sequence *string) {
	switch finish := choice.Get("finish_reason").String(); {
	case finish == "length":
		return "max_tokens", nil
	case finish == "content_filter" || refused:
		return "refusal", nil
	case finish == "tool_calls" || finish == "function_call" || calls:
		return "tool_use", nil
	}

	for _, name := range []string{"stop_reason", "matched_stop"} {
		stop := choice.Get(name)
		if stop.Type == gjson.String && slices.Contains(stops, stop.String()) {
			text := stop.String()
			return "stop_sequence", &text
		}
	}

	return "end_turn", nil
}

// messageUsage returns the usage that the source reports, else the gateway's estimate.
func (a Answered) messageUsage(reported gjson.Result) messageUsage {
	sum := a.Tokens()
	usage := messageUsage{Input: sum.Prompt, Output: sum.Completion}
	usage.Cached = min(max(reported.Get("prompt_tokens_details.cached_tokens").Int(), 0), usage.Input)
	usage.Input -= usage.Cached

	return usage
}
