package dialect

import (
	"encoding/base64"
	"io"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// conversation translates the system prompt and the messages.
func (q *chatWriter) conversation(system, messages gjson.Result) *Invalid {
	out := []chatMessage{}

	if system.Exists() && system.Type != gjson.Null {
		text, fault := systemText("system", system)
		if fault != nil {
			return fault
		}

		out = append(out, chatMessage{Role: "system", Content: text})
	}

	if !messages.Exists() || messages.IsArray() && messages.Get("#").Int() == 0 {
		return wrong("messages", "must have at least one message")
	}

	last, spoken := "", false

	fault := eachItem("messages", messages, func(at string, item gjson.Result) *Invalid {
		var content gjson.Result

		fault := eachField(at, item, func(at, name string, value gjson.Result) *Invalid {
			switch name {
			case "role":
				return stringOf(at, value, &last)
			case "content":
				content = value
				return nil
			}

			return untranslatable(at)
		})
		if fault != nil {
			return fault
		}

		turn := &turnReader{model: q.model}

		role := item.Get("role").String()
		if role == "system" || role == "developer" {
			text, fault := systemText(at+".content", content)
			out = addInstruction(out, text, !spoken)
			last = "user" // if it is not at the beginning, it becomes a user's message

			return fault
		}

		spoken = true

		switch role {
		case "user":
			fault = turn.read(at+".content", content, turn.ofUser)
			out = append(out, turn.userMessages()...)
		case "assistant":
			fault = turn.read(at+".content", content, turn.ofAssistant)
			out = append(out, turn.assistantMessage())
		default:
			return wrong(at+".role", "must be user, assistant, system or developer")
		}

		return fault
	})
	if fault != nil {
		return fault
	}

	if last != "user" && !q.counting {
		return wrong("messages", "must end with a message of the user: chat completions cannot continue a begun answer")
	}

	if !spoken {
		return wrong("messages", "must have a message of the user or of the assistant")
	}

	q.out["messages"] = joinInstructions(out)

	return nil
}

// systemText joins the texts of a system prompt: many sources accept only one text.
func systemText(at string, system gjson.Result) (string, *Invalid) {
	if system.Type == gjson.String {
		return system.String(), nil
	}

	var texts []string

	fault := eachItem(at, system, func(at string, item gjson.Result) *Invalid {
		if item.Get("type").String() != "text" {
			return wrong(at+".type", "must be text")
		}

		text, fault := blockText(at, item)
		texts = append(texts, text)

		return fault
	})

	return strings.Join(texts, "\n\n"), fault
}

// blockText reads a block of the kind text.
func blockText(at string, block gjson.Result) (text string, fault *Invalid) {
	fault = eachField(at, block, func(at, name string, value gjson.Result) *Invalid {
		switch name {
		case "type", "cache_control", "citations":
			return nil
		case "text":
			return stringOf(at, value, &text)
		}

		return untranslatable(at)
	})
	if fault == nil && !block.Get("text").Exists() {
		fault = wrong(at+".text", "is missing")
	}

	return text, fault
}

// turnReader collects the content of a message.
type turnReader struct {
	model     string
	carried   carried
	parts     []chatPart
	reasoning strings.Builder
	text      strings.Builder
	calls     []chatCall
	results   []chatMessage
	pictures  []chatPart // of the results: a tool's message contains only text
}

func (t *turnReader) read(at string, content gjson.Result, block func(at string, block gjson.Result) *Invalid) *Invalid {
	if content.Type == gjson.String {
		t.parts = []chatPart{textPart(content.String())}
		t.text.WriteString(content.String())

		return nil
	}

	if !content.IsArray() {
		return wrong(at, "must be a string or an array of blocks")
	}

	if content.Get("#").Int() == 0 {
		return wrong(at, "must not be empty")
	}

	return eachItem(at, content, block)
}

func (t *turnReader) ofUser(at string, block gjson.Result) *Invalid {
	switch block.Get("type").String() {
	case "text":
		text, fault := blockText(at, block)
		t.parts = append(t.parts, textPart(text))

		return fault
	case "image":
		image, fault := blockImage(at, block)
		t.parts = append(t.parts, image)

		return fault
	case "tool_result":
		if len(t.parts) > 0 {
			return wrong(at, "must come before the other blocks of the message, as every tool_result")
		}

		return t.toolResult(at, block)
	}

	text, fault := blockNote(at, block)
	if fault != nil {
		return fault
	}

	t.parts = append(t.parts, textPart(text))

	return nil
}

func (t *turnReader) userMessages() []chatMessage {
	messages := t.results

	parts := slices.Concat(t.pictures, t.parts)
	switch {
	case len(parts) == 1 && parts[0].Text != nil:
		messages = append(messages, chatMessage{Role: "user", Content: *parts[0].Text})
	case len(parts) > 0:
		messages = append(messages, chatMessage{Role: "user", Content: parts})
	}

	return messages
}

// toolResult reads the result of a tool.
func (t *turnReader) toolResult(at string, block gjson.Result) *Invalid {
	var id string

	failed := false

	var content gjson.Result

	fault := eachField(at, block, func(at, name string, value gjson.Result) *Invalid {
		switch {
		case name == "type", name == "cache_control":
			return nil
		case name == "tool_use_id":
			return stringOf(at, value, &id)
		case name == "is_error" && value.IsBool():
			failed = value.Bool()
			return nil
		case name == "content":
			content = value
			return nil
		}

		return untranslatable(at)
	})
	switch {
	case fault != nil:
		return fault
	case id == "":
		return wrong(at+".tool_use_id", "is missing")
	}

	var texts []string

	switch {
	case !content.Exists():
	case content.Type == gjson.String:
		texts = append(texts, content.String())
	default:
		fault = eachItem(at+".content", content, func(at string, item gjson.Result) *Invalid {
			switch item.Get("type").String() {
			case "text":
				text, fault := blockText(at, item)
				texts = append(texts, text)

				return fault
			case "image":
				image, fault := blockImage(at, item)
				t.pictures = append(t.pictures, textPart("Image of the tool result "+id+":"), image)

				return fault
			}

			text, fault := blockNote(at, item)
			texts = append(texts, text)

			return fault
		})
	}

	text := strings.Join(texts, "\n")
	if failed {
		text = "Error: " + text
	}

	t.results = append(t.results, chatMessage{Role: "tool", CallID: id, Content: text})

	return fault
}

func (t *turnReader) ofAssistant(at string, block gjson.Result) *Invalid {
	switch block.Get("type").String() {
	case "text":
		text, fault := blockText(at, block)
		t.text.WriteString(text)

		return fault
	case "thinking":
		return eachField(at, block, func(at, name string, value gjson.Result) *Invalid {
			var text string

			switch name {
			case "type":
				return nil
			case "signature": // blocks of other services are omitted
				t.carried.read(value.String(), t.model)
				return nil
			case "thinking":
				fault := stringOf(at, value, &text)
				t.reasoning.WriteString(text)

				return fault
			}

			return untranslatable(at)
		})
	case "redacted_thinking":
		if t.carried.read(block.Get("data").String(), t.model) {
			return nil
		}
	case "tool_use":
		return t.toolUse(at, block)
	}

	return foreignBlock(at, block)
}

func (t *turnReader) toolUse(at string, block gjson.Result) *Invalid {
	one := chatCall{Type: "function"}

	fault := eachField(at, block, func(at, name string, value gjson.Result) *Invalid {
		switch {
		case name == "type", name == "cache_control":
			return nil
		case name == "id":
			return stringOf(at, value, &one.ID)
		case name == "name":
			return stringOf(at, value, &one.Function.Name)
		case name == "input" && value.IsObject():
			one.Function.Arguments = value.Raw
			return nil
		case name == "input":
			return wrong(at, "must be an object")
		case name == "caller":
			return nil
		}

		return untranslatable(at)
	})
	switch {
	case fault != nil:
		return fault
	case one.ID == "":
		return wrong(at+".id", "is missing")
	case one.Function.Name == "":
		return wrong(at+".name", "is missing")
	case one.Function.Arguments == "":
		return wrong(at+".input", "is missing")
	}

	t.calls = append(t.calls, one)

	return nil
}

func (t *turnReader) assistantMessage() chatMessage {
	message := chatMessage{Role: "assistant", Reasoning: t.reasoning.String(), Calls: t.calls}
	if t.text.Len() > 0 || len(t.calls) == 0 {
		message.Content = t.text.String()
	}

	t.carried.restore(&message)

	return message
}

// blockImage reads an image that is in the request or at an address.
func blockImage(at string, block gjson.Result) (chatPart, *Invalid) {
	fault := eachField(at, block, func(at, name string, value gjson.Result) *Invalid {
		switch name {
		case "type", "cache_control":
			return nil
		case "source":
			return eachField(at, value, func(at, name string, value gjson.Result) *Invalid {
				if !slices.Contains([]string{"type", "media_type", "data", "url"}, name) {
					return untranslatable(at)
				}

				var text string

				return stringOf(at, value, &text)
			})
		}

		return untranslatable(at)
	})
	if fault != nil {
		return chatPart{}, fault
	}

	source := block.Get("source")
	at += ".source"

	var url string

	switch source.Get("type").String() {
	case "base64":
		data, kind := source.Get("data").String(), source.Get("media_type").String()
		if !slices.Contains(images, kind) {
			return chatPart{}, wrong(at+".media_type", "must be one of "+strings.Join(images, ", "))
		}

		n, err := io.Copy(io.Discard, base64.NewDecoder(base64.StdEncoding, strings.NewReader(data)))
		if err != nil || n == 0 {
			return chatPart{}, wrong(at+".data", "must be base64")
		}

		url = "data:" + kind + ";base64," + data
	case "url":
		url = source.Get("url").String()
		if !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://") {
			return chatPart{}, wrong(at+".url", "must begin with https:// or http://")
		}
	default:
		return chatPart{}, wrong(at+".type", "must be base64 or url")
	}

	return chatPart{Type: "image_url", Image: &chatImage{URL: url}}, nil
}
