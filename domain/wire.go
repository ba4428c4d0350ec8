package domain

import (
	"encoding/json"
	"strings"
)

// Fields of a chat-completions message in which model servers send a model's reasoning, and in
// which they expect it back.
const (
	ReasoningContent = "reasoning_content"
	Reasoning        = "reasoning"
)

// MaxServerMembers bounds, in bytes, the members that a model server sends with one turn and
// needs back. Larger ones are dropped: signatures cannot be shortened.
const MaxServerMembers = 256 << 10

// KeepableMembers reports whether members of a model server can be stored.
func KeepableMembers(text string) bool {
	if text == "" {
		return true
	}

	return len(text) <= MaxServerMembers && CleanText(text) == text && strings.HasPrefix(text, "{") && json.Valid([]byte(text))
}

// MaxServerCallID bounds the model server's id of a tool call, in bytes. Some gateways put the
// signature of the model's thinking into it.
const MaxServerCallID = 64 << 10

// KeepableCallID reports whether the model server's id of a tool call can be stored unchanged.
// An id that cannot counts as missing.
func KeepableCallID(id string) bool {
	return len(id) <= MaxServerCallID && CleanText(id) == id && strings.TrimSpace(id) != ""
}
