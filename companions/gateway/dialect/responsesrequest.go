package dialect

import (
	"encoding/json"
	"slices"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// responseToChat translates a request of the Responses interface, which is a JSON object. A
// field that chat completions do not support is an error that names the field.
func responseToChat(text []byte) (Translation, *Invalid) {
	if !utf8.Valid(text) {
		return Translation{}, invalid("the body must be UTF-8")
	}

	q := &responseReader{chatWriter: chatWriter{out: map[string]any{}}}

	object := gjson.ParseBytes(text)
	if fault := eachField("", object, q.field); fault != nil {
		return Translation{}, fault
	}

	items := &itemReader{model: object.Get("model").String()}
	if fault := items.conversation(object.Get("instructions"), object.Get("input")); fault != nil {
		return Translation{}, fault
	}

	if fault := q.choosable(); fault != nil {
		return Translation{}, fault
	}

	q.out["messages"] = joinInstructions(items.messages)
	if object.Get("stream").Bool() {
		q.out["stream_options"] = map[string]bool{"include_usage": true}
	}

	chat, fault := encoded(q.out)

	return Translation{Text: chat, Omitted: q.omitted}, fault
}

// responseReader reads the fields of a request.
type responseReader struct{ chatWriter }

// stateless are fields that would require stored responses.
var stateless = []string{"previous_response_id", "conversation", "prompt"}

func (q *responseReader) field(at, name string, value gjson.Result) *Invalid {
	switch name {
	case "input", "instructions", "metadata", "store", "prompt_cache_key", "prompt_cache_retention", "safety_identifier",
		"stream_options", "max_tool_calls", "client_metadata", "context_management", "prompt_cache_options":
		return nil // the first two are read in order; the others do not change the answer
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
			if item.String() != "reasoning.encrypted_content" { // sources do not encrypt: the reasoning is in its item
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
		var (
			function map[string]any
			fault    *Invalid
		)

		switch kind := item.Get("type"); {
		case kind.Type != gjson.String:
			return wrong(at+".type", "must be a string")
		case kind.String() == "function":
			function, fault = responsesFunction(at, item)
		case kind.String() == "custom":
			function, fault = customFunction(at, item)
		default:
			q.omit(item)
			return nil
		}

		tools = append(tools, map[string]any{"type": "function", "function": function})

		return fault
	})

	if len(tools) > 0 {
		q.out["tools"] = tools
	}

	return fault
}

// responsesFunction parses a function. Its unknown fields are hints, which are dropped.
func responsesFunction(at string, item gjson.Result) (map[string]any, *Invalid) {
	function := map[string]any{"parameters": map[string]any{"type": "object", "properties": map[string]any{}}}

	fault := eachField(at, item, func(at, name string, value gjson.Result) *Invalid {
		switch {
		case name == "name", name == "description":
			var text string
			if fault := stringOf(at, value, &text); fault != nil {
				return fault
			}

			function[name] = text
		case name == "parameters" && value.IsObject():
			function[name] = json.RawMessage(value.Raw)
		case name == "parameters":
			return wrong(at, "must be an object")
		case name == "strict" && value.IsBool():
			function[name] = value.Bool()
		case name == "strict":
			return wrong(at, "must be true or false")
		}

		return nil
	})
	if fault == nil && function["name"] == nil {
		fault = wrong(at+".name", "is missing")
	}

	return function, fault
}

func (q *responseReader) choice(at string, value gjson.Result) *Invalid {
	if value.Type == gjson.String && slices.Contains([]string{"auto", "none", "required"}, value.String()) {
		return q.once(at, "tool_choice", value.String())
	}

	kind, name := value.Get("type"), value.Get("name")

	switch {
	case kind.Type != gjson.String || kind.String() == "allowed_tools":
	case name.Type == gjson.String && (kind.String() == "function" || kind.String() == "custom"):
		q.forced = name.String()
		return q.once(at, "tool_choice", map[string]any{"type": "function", "function": map[string]string{"name": name.String()}})
	case name.Type == gjson.Null:
		return wrong(at, "forces a tool that the gateway cannot run: "+brief(kind.String()))
	}

	return wrong(at, "must be auto, none, required or the type function or custom with a name")
}

// answerText returns the format of the answer.
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
	case "summary", "generate_summary": // the reasoning of a source is never summarised
		return nil
	}

	return untranslatable(at)
}
