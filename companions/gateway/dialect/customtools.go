package dialect

import "github.com/tidwall/gjson"

// customInput is the argument of the function that represents a custom tool, whose input is one
// text.
const customInput = "input"

// customFunction translates a custom tool to a function. The grammar of its input becomes a
// part of the description.
func customFunction(at string, item gjson.Result) (map[string]any, *Invalid) {
	var name string
	if fault := stringOf(at+".name", item.Get("name"), &name); fault != nil {
		return nil, fault
	}

	description := item.Get("description").String()
	format := item.Get("format")

	if definition := format.Get("definition").String(); definition != "" {
		description += "\n\nThe input must match this grammar (" + format.Get("syntax").String() + "):\n" + definition
	}

	return map[string]any{
		"name": name, "description": description,
		"parameters": map[string]any{
			"type":       "object",
			"properties": map[string]any{customInput: map[string]string{"type": "string"}},
			"required":   []string{customInput},
		},
	}, nil
}

// customArguments returns the arguments of the function for an input.
func customArguments(input string) string {
	text, _ := encoded(map[string]any{customInput: input}) // strings always encode

	return string(text)
}

// inputOf returns the input of a custom tool from the arguments of its function. It accepts
// another argument name, too, because models rename it.
func inputOf(arguments string) string {
	object := gjson.Parse(arguments)
	if input := object.Get(customInput); input.Type == gjson.String {
		return input.String()
	}

	fields := object.Map()
	for _, value := range fields {
		if len(fields) == 1 && value.Type == gjson.String {
			return value.String()
		}
	}

	return arguments
}

// isCustom reports whether the request declares a custom tool with the name.
func (p *responses) isCustom(name string) bool {
	custom := false

	p.asked.Get("tools").ForEach(func(_, tool gjson.Result) bool {
		custom = tool.Get("type").String() == "custom" && tool.Get("name").String() == name
		return !custom
	})

	return custom
}

// customCallItem is a call of a custom tool.
type customCallItem struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	Status string `json:"status"`
	CallID string `json:"call_id"`
	Name   string `json:"name"`
	Input  string `json:"input"`
}

// customCallItem returns the item of a call of a custom tool. arguments must be complete.
func (p *responses) customCallItem(index int, status, callID, name, arguments string) customCallItem {
	item := customCallItem{ID: p.itemID("ctc", index), Type: "custom_tool_call", Status: status, CallID: callID, Name: name}
	if arguments != "" {
		item.Input = inputOf(arguments)
	}

	return item
}
