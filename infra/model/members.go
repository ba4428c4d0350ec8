package model

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"everloop/domain"
)

// members are what a server sends in a message or in a call beside the members of the
// interface, such as signatures of the thinking. Some servers refuse the next request
// without them, so that they are kept and sent back.
type members map[string]any

// Members that are not kept: those of the interface, which are sent in another way, and
// reports of the answer, which servers do not take back.
var (
	messageMembers = []string{
		"role", "content", domain.ReasoningContent, domain.Reasoning, "refusal", "tool_calls", "tool_call_id", "function_call",
		"annotations", "audio", "images", "name", "index", "logprobs", "token_ids", "usage", "finish_reason", "__verbose",
	}
	callMembers     = []string{"id", "index", "type", "function"}
	functionMembers = []string{"name", "arguments"}
)

// add takes the members of an object that the interface does not know. Those of a whole
// message replace what its pieces had.
func (m members) add(object gjson.Result, known []string, whole bool) {
	object.ForEach(func(name, value gjson.Result) bool {
		if value.Type != gjson.Null && !slices.Contains(known, name.String()) {
			m.put(name.String(), parsed(value.Raw), whole)
		}

		return true
	})
}

func (m members) put(name string, value any, whole bool) {
	if before, is := m[name]; is && !whole {
		value = merged(name, before, value)
	}

	m[name] = value
}

// addMessage takes the members of a message or of a piece of it. Thinking in a list of parts
// is kept as it is, with its signature.
func (m members) addMessage(message gjson.Result, whole bool) {
	m.add(message, messageMembers, whole)

	var thinking []any

	for _, part := range message.Get("content").Array() {
		if part.IsObject() && isThinking(part.Get("type").String()) {
			thinking = append(thinking, parsed(part.Raw))
		}
	}

	if len(thinking) > 0 {
		m.put("content", thinking, whole)
	}
}

// addCall takes the members of a call or of a fragment of it.
func (m members) addCall(call gjson.Result, whole bool) {
	m.add(call, callMembers, whole)

	inner := members{}
	inner.add(call.Get("function"), functionMembers, whole)

	if len(inner) > 0 {
		m.put("function", map[string]any(inner), whole)
	}
}

// text returns the members as JSON; empty: there are none.
func (m members) text() string {
	if len(m) == 0 {
		return ""
	}

	return string(plainJSON(map[string]any(m)))
}

func parsed(raw string) any {
	var value any

	decoder := json.NewDecoder(strings.NewReader(raw))
	decoder.UseNumber()

	_ = decoder.Decode(&value) // a part of valid JSON always decodes

	return value
}

// continued are the names of texts that come in pieces. Other texts come whole.
var continued = []string{"text", "thinking", "summary", "content", "reasoning"}

// merged adds a piece of a member to what came of it before.
func merged(name string, before, piece any) any {
	switch b := before.(type) {
	case string:
		if text, is := piece.(string); is && slices.Contains(continued, name) {
			return b + text
		}
	case map[string]any:
		if object, is := piece.(map[string]any); is {
			out := maps.Clone(b)

			for key, value := range object {
				if value != nil {
					members(out).put(key, value, false)
				}
			}

			return out
		}
	case []any:
		if list, is := piece.([]any); is {
			return mergedLists(b, list)
		}
	}

	return piece
}

// mergedLists appends a list. An item with the type and index of the last one continues it;
// so does thinking without an index.
func mergedLists(before, piece []any) []any {
	if bytes.Equal(plainJSON(before), plainJSON(piece)) {
		return before
	}

	out := slices.Clone(before)

	for _, item := range piece {
		object, is := item.(map[string]any)
		last, was := map[string]any(nil), false

		if len(out) > 0 {
			last, was = out[len(out)-1].(map[string]any)
		}

		kind, _ := object["type"].(string)
		if is && was && last["type"] == object["type"] && last["index"] == object["index"] && (object["index"] != nil || isThinking(kind)) {
			out[len(out)-1] = merged("", last, object)
			continue
		}

		out = append(out, item)
	}

	return out
}

// plainJSON writes a value without escapes of HTML.
func plainJSON(value any) []byte {
	var out bytes.Buffer

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)

	if encoder.Encode(value) != nil {
		return []byte("null")
	}

	return bytes.TrimSpace(out.Bytes())
}

// withMembers adds the members that a server sent to an object that goes back to it. Known
// ones stay as they are.
func withMembers(object any, text string, known []string) ([]byte, error) {
	base := plainJSON(object)
	if text == "" {
		return base, nil
	}

	var own, all map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &own) != nil || json.Unmarshal(base, &all) != nil {
		return base, nil
	}

	for name, value := range own {
		if !slices.Contains(known, name) {
			all[name] = value
		}
	}

	return plainJSON(all), nil
}

// member returns one of the members; empty: it is not there.
func member(text, name string) string { return gjson.Get(text, name).Raw }
