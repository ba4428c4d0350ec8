package dialect

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"

	"everloop/internal/modelmembers"
)

// carried contains the members that a source sent next to an answer and needs back, such as
// signatures of its reasoning. Clients receive it as an opaque value and return it with the
// conversation.
type carried struct {
	Model string `json:"model"` // the name in the request: other models do not receive it

	Field   string            `json:"field,omitempty"`   // the field of the reasoning
	Message string            `json:"message,omitempty"` // members of the message, as JSON
	Calls   map[string]string `json:"calls,omitempty"`   // members of its calls, by their ids
}

// carriedMark starts the opaque values of the gateway.
const carriedMark = "everloop-1:"

// opaque returns the value for clients.
func (c carried) opaque() string {
	text, _ := encoded(map[string]any{"model": c.Model, "field": c.Field, "message": c.Message, "calls": c.Calls}) // texts always encode

	return carriedMark + base64.StdEncoding.EncodeToString(text)
}

// needed reports whether a source needs back more than its reasoning.
func (c carried) needed() bool { return c.Message != "" || len(c.Calls) > 0 }

// call adds the members of a call.
func (c *carried) call(id string, members modelmembers.Members) {
	text := members.Text()
	if text == "" {
		return
	}

	if c.Calls == nil {
		c.Calls = map[string]string{}
	}

	c.Calls[id] = text
}

// read adds an opaque value that a client sends for a model, and reports whether the gateway
// created it.
func (c *carried) read(value, model string) bool {
	coded, ours := strings.CutPrefix(value, carriedMark)
	if !ours {
		return false
	}

	var back carried

	text, err := base64.StdEncoding.DecodeString(coded)
	if err != nil || json.Unmarshal(text, &back) != nil || model != "" && back.Model != model {
		return true
	}

	if back.Field == "reasoning" {
		c.Field = back.Field
	}

	if gjson.Parse(back.Message).IsObject() {
		c.Message = back.Message
	}

	for id, members := range back.Calls {
		if gjson.Parse(members).IsObject() {
			if c.Calls == nil {
				c.Calls = map[string]string{}
			}

			c.Calls[id] = members
		}
	}

	return true
}

// restore adds the members to the message that they were sent with.
func (c carried) restore(message *chatMessage) {
	message.members = c.Message
	if c.Field == "reasoning" {
		message.Reasoning, message.OtherReasoning = "", message.Reasoning
	}

	for i, call := range message.Calls {
		message.Calls[i].members = c.Calls[call.ID]
	}
}

// MarshalJSON adds the members that the source sent with the message.
func (m chatMessage) MarshalJSON() ([]byte, error) {
	type wire chatMessage

	m.Content = modelmembers.Content(m.Content, m.members)

	return modelmembers.With(wire(m), m.members, modelmembers.MessageMembers)
}

// MarshalJSON adds the members that the source sent with the call.
func (c chatCall) MarshalJSON() ([]byte, error) {
	type wire chatCall

	c.Function.members = modelmembers.Member(c.members, "function")

	return modelmembers.With(wire(c), c.members, modelmembers.CallMembers)
}

// MarshalJSON adds the members that the source sent with the function of the call.
func (f chatFunction) MarshalJSON() ([]byte, error) {
	type wire chatFunction

	return modelmembers.With(wire(f), f.members, modelmembers.FunctionMembers)
}

// reasoningField returns the field in which a message or a piece of it has reasoning.
func reasoningField(said gjson.Result) string {
	for _, name := range []string{"reasoning_content", "reasoning"} {
		if said.Get(name).Type == gjson.String {
			return name
		}
	}

	return ""
}

// carriedBy returns the members to return with a whole message; ids are the ids that clients
// see.
func carriedBy(model string, said gjson.Result, ids []string) carried {
	members := modelmembers.Members{}
	members.AddMessage(said, true)

	c := carried{Model: model, Field: reasoningField(said), Message: members.Text()}

	for i, call := range said.Get("tool_calls").Array() {
		if i < len(ids) {
			own := modelmembers.Members{}
			own.AddCall(call, true)
			c.call(ids[i], own)
		}
	}

	return c
}

// maxCollected bounds, in bytes, the pieces of an answer from which members are collected.
const maxCollected = 16 << 20

// collector counts the pieces of an answer.
type collector struct{ collected int }

// keeps reports whether the members of a piece are collected.
func (c *collector) keeps(piece gjson.Result) bool {
	c.collected += len(piece.Raw)
	return c.collected <= maxCollected
}
