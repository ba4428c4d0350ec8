package model

import (
	"strings"

	"github.com/tidwall/gjson"

	"everloop/domain"
	"everloop/internal/modelmembers"
)

// chunk is a chat.completion.chunk, or the completion of a server that does not stream. Members
// are parsed individually: servers send numbers as strings, null for absent values and objects
// instead of text, and one malformed member must not invalidate the answer.
type chunk struct {
	object gjson.Result
}

// isError reports whether the chunk is an error object.
func (c chunk) isError() bool {
	fault := c.object.Get("error")

	return c.object.Get("object").String() == "error" || fault.Exists() && fault.Type != gjson.Null
}

// carries reports whether the chunk has content, in contrast to a keep-alive.
func (c chunk) carries() bool {
	return len(c.object.Get("choices").Array()) > 0 || c.object.Get("usage").IsObject() || c.isError()
}

// choice returns the first choice, the only requested one.
func (c chunk) choice() (choice, bool) {
	for _, one := range c.object.Get("choices").Array() {
		if index, set := number(one.Get("index")); !one.IsObject() || set && index != 0 {
			continue
		}

		return choice{delta: one.Get("delta"), message: one.Get("message"), finish: word(one.Get("finish_reason"))}, true
	}

	return choice{}, false
}

type choice struct {
	delta, message gjson.Result
	finish         string
}

// part is a delta of the text or of the thinking of an answer.
type part struct {
	kind domain.DeltaKind
	text string // can contain unpaired surrogates, see decoded
}

// Members of a message with the model's thinking. Some servers send two of them with equal text.
var thinkingMembers = []string{domain.ReasoningContent, domain.Reasoning}

// said is a message of the model, or a delta.
type said struct {
	parts []part // the thinking and the text, in order
	field string // the member with the thinking; empty: none, or the content
	calls gjson.Result
	of    gjson.Result // the message or delta
}

func readSaid(message gjson.Result) said {
	s := said{calls: message.Get("tool_calls"), of: message}

	for _, name := range thinkingMembers {
		if text := allText(message.Get(name)); text != "" {
			s.parts, s.field = append(s.parts, part{domain.DeltaThinking, text}), name
			break
		}
	}

	content := contentParts(message.Get("content"), domain.DeltaText)
	if len(content) == 0 { // a refusal is the answer
		content = contentParts(message.Get("refusal"), domain.DeltaText)
	}

	s.parts = append(s.parts, content...)

	return s
}

func (s said) carries() bool { return len(s.parts) > 0 || len(s.calls.Array()) > 0 }

// contentParts returns the parts of a content, which is a text, a typed part or a list of parts.
func contentParts(content gjson.Result, kind domain.DeltaKind) (list []part) {
	switch {
	case content.Type == gjson.String:
		if text := decoded(content.Raw); text != "" {
			list = append(list, part{kind, text})
		}
	case content.IsArray():
		for _, one := range content.Array() {
			list = append(list, contentParts(one, kind)...)
		}
	case content.IsObject():
		if modelmembers.IsThinking(content.Get("type").String()) {
			kind = domain.DeltaThinking
		}

		for _, name := range []string{"text", "thinking", "reasoning", "content", "summary", "refusal"} {
			if inner := contentParts(content.Get(name), kind); len(inner) > 0 {
				return inner
			}
		}
	}

	return list
}

// allText returns the concatenated text of a content, for any types of its parts.
func allText(content gjson.Result) string {
	var text strings.Builder
	for _, one := range contentParts(content, domain.DeltaThinking) {
		text.WriteString(one.text)
	}

	return text.String()
}

// fragment is a delta of a tool call.
type fragment struct {
	index     int64
	indexed   bool
	id, name  string
	arguments string // JSON text
	object    bool   // the arguments are a JSON object instead of a string
	of        gjson.Result
}

func readFragment(call gjson.Result) fragment {
	f := fragment{id: word(call.Get("id")), name: word(call.Get("function.name")), of: call}
	f.index, f.indexed = number(call.Get("index"))

	switch arguments := call.Get("function.arguments"); arguments.Type {
	case gjson.Null:
	case gjson.String:
		f.arguments = decoded(arguments.Raw)
	case gjson.JSON, gjson.Number, gjson.True, gjson.False:
		f.arguments, f.object = arguments.Raw, true
	}

	return f
}

// empty reports whether the fragment describes no call.
func (f fragment) empty() bool {
	return f.id == "" && f.name == "" && f.arguments == ""
}

// word returns a short text: a string, or the JSON text of a number or boolean.
func word(v gjson.Result) string {
	if v.Type == gjson.String {
		return joinedText(decoded(v.Raw))
	}

	if v.Type == gjson.Number || v.Type == gjson.True {
		return v.Raw
	}

	return ""
}
