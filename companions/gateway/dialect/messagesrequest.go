package dialect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// shared are fields of chat completions that are passed on unchanged. Fields that Anthropic's
// interface also has mean the same in both.
var shared = []string{
	"chat_template_kwargs", "frequency_penalty", "logit_bias", "min_p", "model", "parallel_tool_calls", "presence_penalty",
	"reasoning_effort", "repetition_penalty", "response_format", "seed", "stream", "temperature", "top_k", "top_p", "user",
}

// images are the media types of images.
var images = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

// meaningful are fields of Anthropic's interface that change the answer and that no source
// supports. Other unknown fields are hints, which are dropped.
var meaningful = []string{"mcp_servers", "container", "fallbacks"}

// threadless contains the error details for a thread, after which clients send the whole
// conversation without it.
var threadless = map[string]any{"error_code": "thread_unsupported_request", "unsupported": []string{}}

// chatRequest is a request that is translated to chat completions.
type chatRequest struct {
	Translation

	stops []string
}

type chatMessage struct {
	Role      string `json:"role"`
	Content   any    `json:"content"` // text, parts or nil
	Reasoning string `json:"reasoning_content,omitempty"`

	OtherReasoning string `json:"reasoning,omitempty"` // of sources with this field name

	Calls  []chatCall `json:"tool_calls,omitempty"`
	CallID string     `json:"tool_call_id,omitempty"`

	instruction bool   // a system prompt in the middle of a conversation
	members     string // members that the source sent with it, as JSON
}

type chatCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`

	members string
}

type chatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`

	members string
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

// toChat translates a request of Anthropic's interface, which is a JSON object. A field that
// changes the answer and that chat completions do not support is an error that names the field.
func toChat(text []byte, counting bool) (chatRequest, *Invalid) {
	if !utf8.Valid(text) {
		return chatRequest{}, invalid("the body must be UTF-8")
	}

	q := &chatWriter{out: map[string]any{}, counting: counting}

	object := gjson.ParseBytes(text)
	q.model = object.Get("model").String()

	if thread := object.Get("thread"); thread.Exists() && thread.Type != gjson.Null {
		fault := wrong("thread", "cannot be used: the gateway keeps no conversations, so send the whole one")
		fault.Details = threadless

		return chatRequest{}, fault
	}

	if fault := eachField("", object, q.field); fault != nil {
		return chatRequest{}, fault
	}

	if fault := q.conversation(object.Get("system"), object.Get("messages")); fault != nil {
		return chatRequest{}, fault
	}

	if q.out["max_tokens"] == nil && !counting {
		return chatRequest{}, wrong("max_tokens", "is missing")
	}

	if fault := q.choosable(); fault != nil {
		return chatRequest{}, fault
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

	return chatRequest{Translation: Translation{Text: chat, Omitted: q.omitted}, stops: q.stops}, fault
}

// chatWriter creates a request of chat completions.
type chatWriter struct {
	out      map[string]any
	stops    []string
	thinks   *bool
	counting bool
	model    string
	omitted  []string // names of tools
	forced   string   // the tool that the model must call, of any kind; empty: none
}

func wrong(field, rule string) *Invalid { return invalid("the field " + field + " " + rule) }

func untranslatable(field string) *Invalid {
	return wrong(field, "is unknown or cannot be translated to chat completions")
}

// eachField calls use for the fields of an object. It skips null fields.
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
		// Requests use few fields: reading stops after 100.
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

// brief shortens a name that a client chose.
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
	case "messages", "system", "cache_control": // the first two are read in order
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

	switch {
	case slices.Contains(meaningful, name):
		return untranslatable(at)
	case !slices.Contains(shared, name):
		return nil
	}

	return q.once(at, name, json.RawMessage(value.Raw))
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

// once sets a field that two request fields can set.
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

// thinking is on, off or, when adaptive, the source's default. A budget is omitted: chat
// completions have none.
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
		}

		return nil // a hint, such as how to show the thinking
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

	return nil
}

// outputFormat returns the JSON schema of the answer.
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
		if !item.IsObject() {
			return wrong(at, "must be an object")
		}

		switch kind := item.Get("type"); {
		case kind.Type == gjson.Null || kind.String() == "custom":
		case kind.Type == gjson.String:
			q.omit(item)
			return nil
		default:
			return wrong(at+".type", "must be a string")
		}

		function, fault := messagesFunction(at, item)
		tools = append(tools, map[string]any{"type": "function", "function": function})

		return fault
	})

	if len(tools) > 0 {
		q.out["tools"] = tools
	}

	return fault
}

// omit omits a tool that the source does not support.
func (q *chatWriter) omit(tool gjson.Result) {
	q.omitted = append(q.omitted, brief(cmp.Or(tool.Get("name").String(), tool.Get("type").String())))
}

// choosable checks that the required tools are available. Sources reject a tool choice without
// tools.
func (q *chatWriter) choosable() *Invalid {
	if len(q.omitted) == 0 {
		return nil
	}

	const rule = "forces a tool that the gateway cannot run: "

	switch {
	case q.forced != "" && slices.Contains(q.omitted, q.forced):
		return wrong("tool_choice", rule+brief(q.forced))
	case q.out["tools"] != nil:
		return nil
	case q.forced != "" || q.out["tool_choice"] == "required":
		return wrong("tool_choice", rule+strings.Join(q.omitted[:min(len(q.omitted), 3)], ", "))
	}

	delete(q.out, "tool_choice")
	delete(q.out, "parallel_tool_calls")

	return nil
}

// messagesFunction parses a tool of the client. Its unknown fields are hints, which are
// dropped.
func messagesFunction(at string, item gjson.Result) (map[string]any, *Invalid) {
	function := map[string]any{}

	fault := eachField(at, item, func(at, name string, value gjson.Result) *Invalid {
		switch name {
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
		}

		return nil
	})
	switch {
	case fault != nil:
		return nil, fault
	case function["name"] == nil:
		return nil, wrong(at+".name", "is missing")
	case function["parameters"] == nil:
		return nil, wrong(at+".input_schema", "is missing")
	}

	return function, nil
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
		q.forced = name

		return nil
	default:
		return wrong(at+".type", "must be auto, any, tool or none")
	}

	if name != "" {
		return wrong(at+".name", "is for the type tool only")
	}

	return nil
}
