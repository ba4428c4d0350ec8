package prompt

import (
	"strings"

	"everloop/domain"
)

// ReasoningFrom returns the index of the first turn whose reasoning is sent back to
// the model: by default that of the first turn after the last user message, so
// that a model continues thinking where it called a tool.
func ReasoningFrom(turns []domain.TranscriptTurn, history domain.ReasoningHistory) int {
	switch history {
	case domain.ReasoningAll:
		return 0
	case domain.ReasoningNone:
		return len(turns)
	case domain.ReasoningToolLoop:
	}

	for i := len(turns) - 1; i >= 0; i-- {
		if turns[i].Role == domain.RoleUser {
			return i + 1
		}
	}

	return 0
}

// reasoningOf returns what the model thought in a turn, as its server can take it
// back; empty when another model thought it, or the server does not send it.
func reasoningOf(model string, t domain.TranscriptTurn) string {
	if t.Model != model || t.ReasoningField == "" {
		return ""
	}

	var thought strings.Builder

	for _, b := range t.Blocks {
		if b.Type == domain.BlockThinking {
			thought.WriteString(b.Content)
		}
	}

	return thought.String()
}
