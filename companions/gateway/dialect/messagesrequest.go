package dialect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// shared are fields of chat completions that go on as they are. Those that Anthropic's
// interface has too mean the same in both.
var shared = []string{
	"chat_template_kwargs", "frequency_penalty", "logit_bias", "min_p", "model", "parallel_tool_calls", "presence_penalty",
	"reasoning_effort", "repetition_penalty", "response_format", "seed", "stream", "temperature", "top_k", "top_p", "user",
}

// images are the media types of images.
var images = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

// chatRequest is a request that is translated to chat completions.
type chatRequest struct {
	text  []byte
	stops []string
}

type chatMessage struct {
	Role      string     `json:"role"`
	Content   any        `json:"content"` // text, parts or nil
	Reasoning string     `json:"reasoning_content,omitempty"`
	Calls     []chatCall `json:"tool_calls,omitempty"`
	CallID    string     `json:"tool_call_id,omitempty"`
}

type chatCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type chatPart struct {
	Type  string     `json:"type"`
	Text  *string    `json:"text,omitempty"`
	Image *chatImage `json:"image_url,omitempty"`
}

type chatImage struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitempty"`
}

func textPart(text string) chatPart { return chatPart{Type: "text", Text: &text} }

// toChat translates a request of Anthropic's interface, which is a JSON object. What
// chat completions cannot carry is an error that names the field.
func toChat(text []byte) (chatRequest, *Invalid) {
	if !utf8.Valid(text) {
		return chatRequest{}, invalid("the body must be UTF-8")
	}

	q := &chatWriter{out: map[string]any{}}

	object := gjson.ParseBytes(text)
	if fault := eachField("", object, q.field); fault != nil {
		return chatRequest{}, fault
	}

	if fault := q.conversation(object.Get("system"), object.Get("messages")); fault != nil {
		return chatRequest{}, fault
	}

	if q.out["max_tokens"] == nil {
		return chatRequest{}, wrong("max_tokens", "is missing")
	}

	if object.Get("stream").Bool() {
		q.out["stream_options"] = map[string]bool{"include_usage": true}
	}

	if q.thinks != nil {
		if fault := q.switchThinking(); fault != nil {
			return chatRequest{}, fault
		}
	}

	chat, fault := encoded(q.out)

	return chatRequest{text: chat, stops: q.stops}, fault
}

// chatWriter makes a request of chat completions.
type chatWriter struct {
	out    map[string]any
	stops  []string
	thinks *bool
}

func wrong(field, rule string) *Invalid { return invalid("the field " + field + " " + rule) }

func untranslatable(field string) *Invalid {
	return wrong(field, "is unknown or cannot be translated to chat completions")
}

// eachField calls use for the fields of an object. A field that is null is not there.
func eachField(at string, object gjson.Result, use func(at, name string, value gjson.Result) *Invalid) *Invalid {
	if !object.IsObject() {
		return wrong(at, "must be an object")
	}

	var (
		fault *Invalid
		seen  []string
	)

	object.ForEach(func(key, value gjson.Result) bool {
		name := key.String()

		path := joined(at, brief(name))
		if slices.Contains(seen, name) {
			fault = wrong(path, "must be there once")
			return false
		}

		if value.Type != gjson.Null {
			fault = use(path, name, value)
		}
		// The fields that are used are few; the first that is not is the last one read.
		seen = append(seen, name)

		return fault == nil && len(seen) <= 100
	})

	if fault == nil && len(seen) > 100 {
		fault = wrong(at, "has too many fields")
	}

	return fault
}

// eachItem calls use for the items of an array.
func eachItem(at string, array gjson.Result, use func(at string, item gjson.Result) *Invalid) *Invalid {
	if !array.IsArray() {
		return wrong(at, "must be an array")
	}

	var fault *Invalid

	i := 0

	array.ForEach(func(_, item gjson.Result) bool {
		fault = use(fmt.Sprintf("%s.%d", at, i), item)
		i++

		return fault == nil
	})

	return fault
}

func joined(at, name string) string {
	if at == "" {
		return name
	}

	return at + "." + name
}

// brief cuts a name that a client chose.
func brief(name string) string {
	const most = 80
	if len(name) > most {
		return strings.ToValidUTF8(name[:most], "") + "…"
	}

	return name
}

// stringOf sets a field that must be a string.
func stringOf(at string, value gjson.Result, to *string) *Invalid {
	if value.Type != gjson.String {
		return wrong(at, "must be a string")
	}

	*to = value.String()

	return nil
}

func (q *chatWriter) field(at, name string, value gjson.Result) *Invalid {
	switch name {
	case "messages", "system", "cache_control": // the first two are read in their order
		return nil
	case "max_tokens":
		if value.Type != gjson.Number || value.Num < 1 || value.Num != float64(value.Int()) {
			return wrong(at, "must be a whole number of at least 1")
		}

		q.out[name] = value.Int()

		return nil
	case "temperature", "top_p", "top_k":
		if value.Type != gjson.Number {
			return wrong(at, "must be a number")
		}
	case "stop_sequences":
		return q.stopSequences(at, value)
	case "metadata":
		return eachField(at, value, q.metadata)
	case "thinking":
		return q.thinking(at, value)
	case "tools":
		return q.tools(at, value)
	case "tool_choice":
		return q.toolChoice(at, value)
	case "service_tier":
		return q.serviceTier(at, value)
	case "output_config":
		return eachField(at, value, q.outputConfig)
	case "output_format":
		return q.outputFormat(at, value)
	}

	if !slices.Contains(shared, name) {
		return untranslatable(at)
	}

	if q.out[name] == nil {
		q.out[name] = json.RawMessage(value.Raw)
		return nil
	}

	return wrong(at, "says again what another field says")
}

func (q *chatWriter) stopSequences(at string, value gjson.Result) *Invalid {
	fault := eachItem(at, value, func(at string, item gjson.Result) *Invalid {
		var stop string
		if fault := stringOf(at, item, &stop); fault != nil {
			return fault
		}

		q.stops = append(q.stops, stop)

		return nil
	})

	if len(q.stops) > 0 {
		q.out["stop"] = q.stops
	}

	return fault
}

// once sets a field that two fields of the request may stand for.
func (q *chatWriter) once(at, name string, value any) *Invalid {
	if q.out[name] != nil {
		return wrong(at, "says again what another field says")
	}

	q.out[name] = value

	return nil
}

func (q *chatWriter) metadata(at, name string, value gjson.Result) *Invalid {
	if name != "user_id" {
		return untranslatable(at)
	}

	var user string
	if fault := stringOf(at, value, &user); fault != nil {
		return fault
	}

	return q.once(at, "user", user)
}

// thinking is on, off or, when adaptive, the source's own choice. A budget is left out:
// chat completions has none.
func (q *chatWriter) thinking(at string, value gjson.Result) *Invalid {
	on := false

	fault := eachField(at, value, func(at, name string, value gjson.Result) *Invalid {
		switch {
		case name == "type" && slices.Contains([]string{"enabled", "disabled", "adaptive"}, value.String()):
			return nil
		case name == "type":
			return wrong(at, "must be enabled, disabled or adaptive")
		case name == "budget_tokens" && value.Type == gjson.Number:
			return nil
		case name == "budget_tokens":
			return wrong(at, "must be a number")
		case name == "display" && value.String() == "summarized":
			return nil
		}

		return untranslatable(at)
	})
	switch value.Get("type").String() {
	case "enabled":
		on = true
	case "adaptive":
		return fault
	case "":
		return wrong(at+".type", "is missing")
	}

	q.thinks = &on

	return fault
}

// switchThinking adds enable_thinking to the arguments of the chat template.
func (q *chatWriter) switchThinking() *Invalid {
	arguments := map[string]json.RawMessage{}
	if raw, is := q.out["chat_template_kwargs"].(json.RawMessage); is && json.Unmarshal(raw, &arguments) != nil {
		return wrong("chat_template_kwargs", "must be an object")
	}

	if arguments["enable_thinking"] != nil {
		return wrong("chat_template_kwargs.enable_thinking", "says again what the field thinking says")
	}

	arguments["enable_thinking"] = json.RawMessage("false")
	if *q.thinks {
		arguments["enable_thinking"] = json.RawMessage("true")
	}

	q.out["chat_template_kwargs"] = arguments

	return nil
}

func (q *chatWriter) serviceTier(at string, value gjson.Result) *Invalid {
	switch value.String() {
	case "auto":
		q.out["service_tier"] = "auto"
	case "standard_only":
		q.out["service_tier"] = "default"
	default:
		return wrong(at, "must be auto or standard_only")
	}

	return nil
}

func (q *chatWriter) outputConfig(at, name string, value gjson.Result) *Invalid {
	switch name {
	case "effort":
		var effort string
		if fault := stringOf(at, value, &effort); fault != nil {
			return fault
		}

		return q.once(at, "reasoning_effort", effort)
	case "format":
		return q.outputFormat(at, value)
	}

	return untranslatable(at)
}

// outputFormat is the JSON schema of the answer.
func (q *chatWriter) outputFormat(at string, value gjson.Result) *Invalid {
	fault := eachField(at, value, func(at, name string, value gjson.Result) *Invalid {
		switch {
		case name == "type" && value.String() == "json_schema", name == "schema" && value.IsObject():
			return nil
		}

		return untranslatable(at)
	})
	switch {
	case fault != nil:
		return fault
	case !value.Get("schema").Exists():
		return wrong(at+".schema", "is missing")
	}

	schema := map[string]any{"name": "answer", "schema": json.RawMessage(value.Get("schema").Raw), "strict": true}

	return q.once(at, "response_format", map[string]any{"type": "json_schema", "json_schema": schema})
}

func (q *chatWriter) tools(at string, value gjson.Result) *Invalid {
	tools := []any{}
	fault := eachItem(at, value, func(at string, item gjson.Result) *Invalid {
		function := map[string]any{}

		fault := eachField(at, item, func(at, name string, value gjson.Result) *Invalid {
			switch name {
			case "type":
				if value.String() != "custom" {
					return wrong(at, "must be custom: the gateway runs no tools of its own")
				}
			case "name", "description":
				var text string
				if fault := stringOf(at, value, &text); fault != nil {
					return fault
				}

				function[name] = text
			case "input_schema":
				if !value.IsObject() {
					return wrong(at, "must be an object")
				}

				function["parameters"] = json.RawMessage(value.Raw)
			case "strict":
				if !value.IsBool() {
					return wrong(at, "must be true or false")
				}

				function["strict"] = value.Bool()
			case "cache_control", "eager_input_streaming": // hints that change no answer
			default:
				return untranslatable(at)
			}

			return nil
		})
		switch {
		case fault != nil:
			return fault
		case function["name"] == nil:
			return wrong(at+".name", "is missing")
		case function["parameters"] == nil:
			return wrong(at+".input_schema", "is missing")
		}

		tools = append(tools, map[string]any{"type": "function", "function": function})

		return nil
	})

	if len(tools) > 0 {
		q.out["tools"] = tools
	}

	return fault
}

func (q *chatWriter) toolChoice(at string, value gjson.Result) *Invalid {
	fault := eachField(at, value, func(at, name string, value gjson.Result) *Invalid {
		switch {
		case name == "type", name == "name" && value.Type == gjson.String:
			return nil
		case name == "disable_parallel_tool_use" && value.IsBool():
			if value.Bool() {
				return q.once(at, "parallel_tool_calls", false)
			}

			return nil
		}

		return untranslatable(at)
	})
	if fault != nil {
		return fault
	}

	name := value.Get("name").String()
	switch value.Get("type").String() {
	case "auto":
		q.out["tool_choice"] = "auto"
	case "any":
		q.out["tool_choice"] = "required"
	case "none":
		q.out["tool_choice"] = "none"
	case "tool":
		if name == "" {
			return wrong(at+".name", "is missing")
		}

		q.out["tool_choice"] = map[string]any{"type": "function", "function": map[string]string{"name": name}}

		return nil
	default:
		return wrong(at+".type", "must be auto, any, tool or none")
	}

	if name != "" {
		return wrong(at+".name", "is for the type tool only")
	}

	return nil
}
