package dialect

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// responseToChat translates a request of the Responses interface, which is a JSON object.
// What chat completions cannot carry is an error that names the field.
func responseToChat(text []byte) ([]byte, *Invalid) {
	if !utf8.Valid(text) {
		return nil, invalid("the body must be UTF-8")
	}

	q := &responseReader{chatWriter: chatWriter{out: map[string]any{}}}

	object := gjson.ParseBytes(text)
	if fault := eachField("", object, q.field); fault != nil {
		return nil, fault
	}

	items := &itemReader{}
	if fault := items.conversation(object.Get("instructions"), object.Get("input")); fault != nil {
		return nil, fault
	}

	q.out["messages"] = items.messages
	if object.Get("stream").Bool() {
		q.out["stream_options"] = map[string]bool{"include_usage": true}
	}

	return encoded(q.out)
}

// responseReader reads the fields of a request.
type responseReader struct{ chatWriter }

// stateless are fields for which the gateway would have to keep responses.
var stateless = []string{"previous_response_id", "conversation", "prompt"}

func (q *responseReader) field(at, name string, value gjson.Result) *Invalid {
	switch name {
	case "input", "instructions", "metadata", "store", "prompt_cache_key", "prompt_cache_retention", "safety_identifier",
		"stream_options", "max_tool_calls":
		return nil // the first two are read in their order; the others change no answer
	case "max_output_tokens":
		if value.Type != gjson.Number || value.Num < 1 || value.Num != float64(value.Int()) {
			return wrong(at, "must be a whole number of at least 1")
		}

		return q.once(at, "max_tokens", value.Int())
	case "temperature", "top_p":
		if value.Type != gjson.Number {
			return wrong(at, "must be a number")
		}
	case "service_tier":
		var tier string
		if fault := stringOf(at, value, &tier); fault != nil {
			return fault
		}

		return q.once(at, name, tier)
	case "tools":
		return q.functions(at, value)
	case "tool_choice":
		return q.choice(at, value)
	case "text":
		return eachField(at, value, q.answerText)
	case "reasoning":
		return eachField(at, value, q.reasoning)
	case "include":
		return eachItem(at, value, func(at string, item gjson.Result) *Invalid {
			if item.String() != "reasoning.encrypted_content" { // sources encrypt nothing: the reasoning is in its item
				return untranslatable(at)
			}

			return nil
		})
	case "truncation":
		if value.String() != "disabled" {
			return wrong(at, "must be disabled: the gateway leaves no item out")
		}

		return nil
	case "background":
		if value.Type != gjson.False {
			return wrong(at, "must be false: the gateway answers at once")
		}

		return nil
	case "top_logprobs":
		if value.Type != gjson.Number || value.Num != 0 {
			return wrong(at, "must be 0: log probabilities are not translated")
		}

		return nil
	}

	if slices.Contains(stateless, name) {
		return wrong(at, "cannot be used: the gateway keeps no responses, so send the whole input")
	}

	if !slices.Contains(shared, name) {
		return untranslatable(at)
	}

	return q.once(at, name, json.RawMessage(value.Raw))
}

func (q *responseReader) functions(at string, value gjson.Result) *Invalid {
	tools := []any{}
	fault := eachItem(at, value, func(at string, item gjson.Result) *Invalid {
		if item.Get("type").String() != "function" {
			return wrong(at+".type", "must be function: the gateway runs no tools of its own")
		}

		function := map[string]any{"parameters": map[string]any{"type": "object", "properties": map[string]any{}}}

		fault := eachField(at, item, func(at, name string, value gjson.Result) *Invalid {
			switch {
			case name == "type":
				return nil
			case name == "name", name == "description":
				var text string
				if fault := stringOf(at, value, &text); fault != nil {
					return fault
				}

				function[name] = text

				return nil
			case name == "parameters" && value.IsObject():
				function[name] = json.RawMessage(value.Raw)
				return nil
			case name == "parameters":
				return wrong(at, "must be an object")
			case name == "strict" && value.IsBool():
				function[name] = value.Bool()
				return nil
			case name == "strict":
				return wrong(at, "must be true or false")
			}

			return untranslatable(at)
		})
		if fault == nil && function["name"] == nil {
			fault = wrong(at+".name", "is missing")
		}

		tools = append(tools, map[string]any{"type": "function", "function": function})

		return fault
	})

	if len(tools) > 0 {
		q.out["tools"] = tools
	}

	return fault
}

func (q *responseReader) choice(at string, value gjson.Result) *Invalid {
	if value.Type == gjson.String && slices.Contains([]string{"auto", "none", "required"}, value.String()) {
		return q.once(at, "tool_choice", value.String())
	}

	name := value.Get("name")
	if value.Get("type").String() != "function" || name.Type != gjson.String {
		return wrong(at, "must be auto, none, required or {type: function, name}")
	}

	return q.once(at, "tool_choice", map[string]any{"type": "function", "function": map[string]string{"name": name.String()}})
}

// answerText is the form of the answer.
func (q *responseReader) answerText(at, name string, value gjson.Result) *Invalid {
	switch name {
	case "verbosity":
		return q.once(at, name, json.RawMessage(value.Raw))
	case "format":
	default:
		return untranslatable(at)
	}

	switch kind := value.Get("type").String(); kind {
	case "text":
		return nil
	case "json_object":
		return q.once(at, "response_format", map[string]string{"type": kind})
	case "json_schema":
	default:
		return wrong(at+".type", "must be text, json_object or json_schema")
	}

	schema := map[string]any{}

	fault := eachField(at, value, func(at, name string, value gjson.Result) *Invalid {
		switch {
		case name == "type":
		case slices.Contains([]string{"name", "description", "strict"}, name), name == "schema" && value.IsObject():
			schema[name] = json.RawMessage(value.Raw)
		default:
			return untranslatable(at)
		}

		return nil
	})

	switch {
	case fault != nil:
		return fault
	case schema["schema"] == nil:
		return wrong(at+".schema", "is missing")
	case schema["name"] == nil:
		return wrong(at+".name", "is missing")
	}

	return q.once(at, "response_format", map[string]any{"type": "json_schema", "json_schema": schema})
}

func (q *responseReader) reasoning(at, name string, value gjson.Result) *Invalid {
	switch name {
	case "effort":
		var effort string
		if fault := stringOf(at, value, &effort); fault != nil {
			return fault
		}

		return q.once(at, "reasoning_effort", effort)
	case "summary", "generate_summary": // the reasoning of a source comes whole
		return nil
	}

	return untranslatable(at)
}

// itemReader makes messages of the items of a conversation.
type itemReader struct {
	messages []chatMessage
	pictures []chatPart   // of results of tools, whose messages carry text only
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
	case "function_call_output":
		return c.result(at, item)
	case "item_reference":
		return wrong(at, "cannot be used: the gateway keeps no items")
	}

	return wrong(at+".type", "must be message, reasoning, function_call or function_call_output")
}

// assistant is the turn that an item belongs to.
func (c *itemReader) assistant() *chatMessage {
	if c.turn == nil {
		c.flush()
		c.turn = &chatMessage{Role: "assistant"}
	}

	return c.turn
}

// flush ends the assistant's turn, and puts pictures behind the results of tools.
func (c *itemReader) flush() {
	if c.turn != nil {
		if c.turn.Content == nil && len(c.turn.Calls) == 0 {
			c.turn.Content = ""
		}

		c.messages = append(c.messages, *c.turn)
		c.turn = nil
	}

	if len(c.pictures) > 0 {
		c.messages = append(c.messages, chatMessage{Role: "user", Content: c.pictures})
		c.pictures = nil
	}
}

// system adds a system prompt. Those at the beginning become one: some chat templates take
// a single one.
func (c *itemReader) system(text string) {
	c.flush()

	if len(c.messages) == 1 && c.messages[0].Role == "system" {
		c.messages[0].Content = c.messages[0].Content.(string) + "\n\n" + text
		return
	}

	c.messages = append(c.messages, chatMessage{Role: "system", Content: text})
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

// simplest is one text as a text: some sources take nothing else.
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

	if encrypted := item.Get("encrypted_content"); encrypted.Type == gjson.String && encrypted.String() != "" && len(texts) == 0 {
		return wrong(at+".encrypted_content", "is of another service: the gateway cannot read it")
	}

	if c.turn != nil && (c.turn.Content != nil || len(c.turn.Calls) > 0) {
		c.flush()
	}

	c.assistant().Reasoning += strings.Join(texts, "\n\n")

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
