// Package modelmembers stores the members that a model server adds to messages and calls of chat
// completions, and restores them in later requests. It depends on JSON only.
package modelmembers

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// Members are a server's additional members of a message or a call, such as signatures of the
// thinking. Some servers refuse the next request without them, so they are stored and sent back.
type Members map[string]any

// Excluded members: members of the API, which are sent separately, and reports about the answer,
// which servers do not accept.
var (
	MessageMembers = []string{
		"role", "content", "reasoning_content", "reasoning", "refusal", "tool_calls", "tool_call_id", "function_call",
		"annotations", "audio", "images", "name", "index", "logprobs", "token_ids", "usage", "finish_reason", "__verbose",
	}
	CallMembers     = []string{"id", "index", "type", "function"}
	FunctionMembers = []string{"name", "arguments"}
)

// add adds the additional members of an object. Members of a whole message replace the members of
// its deltas.
func (m Members) add(object gjson.Result, known []string, whole bool) {
	object.ForEach(func(name, value gjson.Result) bool {
		if value.Type != gjson.Null && !slices.Contains(known, name.String()) {
			m.put(name.String(), parsed(value.Raw), whole)
		}

		return true
	})
}

func (m Members) put(name string, value any, whole bool) {
	if before, is := m[name]; is && !whole {
		value = merged(name, before, value)
	}

	m[name] = value
}

// AddMessage adds the members of a message or a delta. Thinking in a list of parts is stored as
// it is, with its signature.
func (m Members) AddMessage(message gjson.Result, whole bool) {
	m.add(message, MessageMembers, whole)

	var thinking []any

	for _, part := range message.Get("content").Array() {
		if part.IsObject() && IsThinking(part.Get("type").String()) {
			thinking = append(thinking, parsed(part.Raw))
		}
	}

	if len(thinking) > 0 {
		m.put("content", thinking, whole)
	}
}

// AddCall adds the members of a call or a fragment of it.
func (m Members) AddCall(call gjson.Result, whole bool) {
	m.add(call, CallMembers, whole)

	inner := Members{}
	inner.add(call.Get("function"), FunctionMembers, whole)

	if len(inner) > 0 {
		m.put("function", map[string]any(inner), whole)
	}
}

// Text returns the members as JSON; empty: none.
func (m Members) Text() string {
	if len(m) == 0 {
		return ""
	}

	return string(plainJSON(map[string]any(m)))
}

// IsThinking reports whether a content part with this type is thinking.
func IsThinking(kind string) bool {
	return strings.HasPrefix(kind, "thinking") || strings.HasPrefix(kind, "reasoning")
}

// Content returns the content of a message to send back. Thinking that was a list of parts is
// sent as a list, before the text.
func Content(content any, members string) any {
	thinking := gjson.Get(members, "content")
	if !thinking.IsArray() {
		return content
	}

	var list []any
	for _, part := range thinking.Array() {
		list = append(list, json.RawMessage(part.Raw))
	}

	if text, is := content.(string); is && text != "" {
		list = append(list, map[string]string{"type": "text", "text": text})
	}

	return list
}

func parsed(raw string) any {
	var value any

	decoder := json.NewDecoder(strings.NewReader(raw))
	decoder.UseNumber()

	_ = decoder.Decode(&value) // a part of valid JSON always decodes

	return value
}

// continued are the names of texts that are streamed in deltas. Other texts are complete.
var continued = []string{"text", "thinking", "summary", "content", "reasoning"}

// merged appends a delta of a member to its earlier value.
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
					Members(out).put(key, value, false)
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

// mergedLists appends a list. An item with the type and index of the last item continues it; so
// does thinking without an index.
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
		if is && was && last["type"] == object["type"] && last["index"] == object["index"] && (object["index"] != nil || IsThinking(kind)) {
			out[len(out)-1] = merged("", last, object)
			continue
		}

		out = append(out, item)
	}

	return out
}

// plainJSON encodes a value without HTML escapes.
func plainJSON(value any) []byte {
	var out bytes.Buffer

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)

	if encoder.Encode(value) != nil {
		return []byte("null")
	}

	return bytes.TrimSpace(out.Bytes())
}

// With adds the server's stored members to an object. Members in known are not changed.
func With(object any, text string, known []string) ([]byte, error) {
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

// Member returns one of the members; empty: none.
func Member(text, name string) string { return gjson.Get(text, name).Raw }
