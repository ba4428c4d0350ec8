package dialect

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// itemReader converts the items of a conversation to messages.
type itemReader struct {
	model    string
	carried  carried // of the turn
	messages []chatMessage
	pictures []chatPart   // of results of tools, whose messages contain only text
	turn     *chatMessage // the assistant's, to which reasoning, text and calls belong
}

func (c *itemReader) conversation(instructions, input gjson.Result) *Invalid {
	if instructions.Exists() && instructions.Type != gjson.Null {
		var text string
		if fault := stringOf("instructions", instructions, &text); fault != nil {
			return fault
		}

		c.system(text)
	}

	if input.Type == gjson.String {
		c.messages = append(c.messages, chatMessage{Role: "user", Content: input.String()})
		return nil
	}

	if !input.IsArray() || input.Get("#").Int() == 0 {
		return wrong("input", "must be a text or at least one item")
	}

	fault := eachItem("input", input, c.item)

	c.flush()

	if fault == nil && !slices.ContainsFunc(c.messages, func(m chatMessage) bool { return m.Role != "system" }) {
		return wrong("input", "must have an item besides system prompts and items of tools that the gateway does not run")
	}

	return fault
}

func (c *itemReader) item(at string, item gjson.Result) *Invalid {
	kind := item.Get("type").String()
	if kind == "" && item.Get("role").Exists() {
		kind = "message"
	}

	switch kind {
	case "message":
		return c.message(at, item)
	case "reasoning":
		return c.reasoning(at, item)
	case "function_call":
		return c.call(at, item)
	case "custom_tool_call":
		return c.customCall(at, item)
	case "function_call_output", "custom_tool_call_output":
		return c.result(at, item)
	case "item_reference":
		return wrong(at, "cannot be used: the gateway keeps no items")
	}

	if slices.Contains(foreignItems, kind) {
		return nil
	}

	return wrong(at+".type", "must be message, reasoning, function_call, function_call_output, custom_tool_call or custom_tool_call_output")
}

// foreignItems are item types of tools that other services run. They are omitted, like these
// tools.
var foreignItems = []string{
	"web_search_call", "file_search_call", "computer_call", "computer_call_output", "image_generation_call", "code_interpreter_call",
	"local_shell_call", "local_shell_call_output", "shell_call", "shell_call_output", "tool_search_call", "tool_search_output",
	"apply_patch_call", "apply_patch_call_output", "mcp_list_tools", "mcp_call", "mcp_approval_request", "mcp_approval_response",
	"additional_tools", "compaction", "ghost_snapshot",
}

// assistant returns the turn of an item.
func (c *itemReader) assistant() *chatMessage {
	if c.turn == nil {
		c.flush()
		c.turn = &chatMessage{Role: "assistant"}
	}

	return c.turn
}

// flush ends the assistant's turn, and inserts pictures after the results of tools.
func (c *itemReader) flush() {
	if c.turn != nil {
		if c.turn.Content == nil && len(c.turn.Calls) == 0 {
			c.turn.Content = ""
		}

		c.carried.restore(c.turn)
		c.messages = append(c.messages, *c.turn)
		c.turn, c.carried = nil, carried{}
	}

	if len(c.pictures) > 0 {
		c.messages = append(c.messages, chatMessage{Role: "user", Content: c.pictures})
		c.pictures = nil
	}
}

// system adds a system prompt.
func (c *itemReader) system(text string) {
	c.flush()
	c.messages = addInstruction(c.messages, text, len(c.messages) == 0 || len(c.messages) == 1 && c.messages[0].Role == "system")
}

func (c *itemReader) message(at string, item gjson.Result) *Invalid {
	var content gjson.Result

	fault := eachField(at, item, func(at, name string, value gjson.Result) *Invalid {
		switch name {
		case "type", "role", "id", "status", "phase":
			return nil
		case "content":
			content = value
			return nil
		}

		return untranslatable(at)
	})
	if fault != nil {
		return fault
	}

	parts, fault := contentParts(at+".content", content)
	if fault != nil {
		return fault
	}

	switch item.Get("role").String() {
	case "user":
		c.flush()
		c.messages = append(c.messages, chatMessage{Role: "user", Content: simplest(parts)})
	case "system", "developer":
		text, fault := onlyText(at+".content", parts, "\n\n")
		if fault != nil {
			return fault
		}

		c.system(text)
	case "assistant":
		text, fault := onlyText(at+".content", parts, "")
		if fault != nil {
			return fault
		}

		if c.turn != nil && (c.turn.Content != nil || len(c.turn.Calls) > 0) {
			c.flush()
		}

		c.assistant().Content = text
	default:
		return wrong(at+".role", "must be user, assistant, system or developer")
	}

	return nil
}

// contentParts reads a text or an array of parts.
func contentParts(at string, content gjson.Result) (parts []chatPart, fault *Invalid) {
	if content.Type == gjson.String {
		return []chatPart{textPart(content.String())}, nil
	}

	fault = eachItem(at, content, func(at string, item gjson.Result) *Invalid {
		var text string

		switch kind := item.Get("type").String(); kind {
		case "input_text", "output_text", "text":
			fault := stringOf(at+".text", item.Get("text"), &text)
			parts = append(parts, textPart(text))

			return fault
		case "refusal":
			fault := stringOf(at+".refusal", item.Get("refusal"), &text)
			parts = append(parts, textPart(text))

			return fault
		case "input_image":
			url := item.Get("image_url").String()
			if !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "data:image/") {
				return wrong(at+".image_url", "must be an address or a data URL of an image; files are not kept")
			}

			parts = append(parts, chatPart{Type: "image_url", Image: &chatImage{URL: url, Detail: item.Get("detail").String()}})

			return nil
		}

		return wrong(at+".type", "must be input_text, output_text, refusal or input_image")
	})
	if fault == nil && len(parts) == 0 {
		fault = wrong(at, "must not be empty")
	}

	return parts, fault
}

// simplest returns a single text as a string: some sources accept no other form.
func simplest(parts []chatPart) any {
	if len(parts) == 1 && parts[0].Text != nil {
		return *parts[0].Text
	}

	return parts
}

func onlyText(at string, parts []chatPart, between string) (string, *Invalid) {
	texts := make([]string, 0, len(parts))

	for _, part := range parts {
		if part.Text == nil {
			return "", wrong(at, "must be text here")
		}

		texts = append(texts, *part.Text)
	}

	return strings.Join(texts, between), nil
}

func (c *itemReader) reasoning(at string, item gjson.Result) *Invalid {
	var texts []string

	for _, field := range []string{"content", "summary"} {
		for _, part := range item.Get(field).Array() {
			texts = append(texts, part.Get("text").String())
		}

		if len(texts) > 0 {
			break // the summary is of the content
		}
	}

	opaque := item.Get("encrypted_content").String()
	ours := strings.HasPrefix(opaque, carriedMark)

	if opaque != "" && !ours && len(texts) == 0 {
		return wrong(at+".encrypted_content", "is of another service: the gateway cannot read it")
	}

	if len(texts) > 0 && c.turn != nil && (c.turn.Content != nil || len(c.turn.Calls) > 0) {
		c.flush()
	}

	c.assistant().Reasoning += strings.Join(texts, "\n\n") // an item without a text belongs to the previous turn
	c.carried.read(opaque, c.model)

	return nil
}

func (c *itemReader) call(at string, item gjson.Result) *Invalid {
	one := chatCall{Type: "function"}
	for name, to := range map[string]*string{"call_id": &one.ID, "name": &one.Function.Name, "arguments": &one.Function.Arguments} {
		if fault := stringOf(at+"."+name, item.Get(name), to); fault != nil {
			return fault
		}
	}

	turn := c.assistant()
	turn.Calls = append(turn.Calls, one)

	return nil
}

func (c *itemReader) customCall(at string, item gjson.Result) *Invalid {
	var id, name, input string
	for field, to := range map[string]*string{"call_id": &id, "name": &name, "input": &input} {
		if fault := stringOf(at+"."+field, item.Get(field), to); fault != nil {
			return fault
		}
	}

	turn := c.assistant()
	turn.Calls = append(turn.Calls, chatCall{
		ID: id, Type: "function", Function: chatFunction{Name: name, Arguments: customArguments(input)},
	})

	return nil
}

func (c *itemReader) result(at string, item gjson.Result) *Invalid {
	var id string
	if fault := stringOf(at+".call_id", item.Get("call_id"), &id); fault != nil {
		return fault
	}

	parts, fault := contentParts(at+".output", item.Get("output"))
	if fault != nil {
		return fault
	}

	if c.turn != nil {
		c.flush()
	}

	var texts []string

	for _, part := range parts {
		if part.Text != nil {
			texts = append(texts, *part.Text)
			continue
		}

		c.pictures = append(c.pictures, textPart("Image of the tool result "+id+":"), part)
	}

	c.messages = append(c.messages, chatMessage{Role: "tool", CallID: id, Content: strings.Join(texts, "\n")})

	return nil
}
