package prompt

import (
	"cmp"
	"slices"

	"everloop/domain"
)

// join merges neighbouring messages of users, and of the assistant: chat templates of some
// models refuse two in a row. The text of the first stays at the beginning, so that a
// message that joins it later does not change the prefix of the prompt.
func join(messages []domain.PromptMessage) []domain.PromptMessage {
	joined := messages[:0:0]

	for _, m := range messages {
		last := len(joined) - 1
		if last < 0 || !joins(joined[last], m) {
			joined = append(joined, m)
			continue
		}

		before := &joined[last]
		before.Parts = joinParts(before.Parts, m.Parts)
		before.Calls = m.Calls
		before.ServerMembers = cmp.Or(m.ServerMembers, before.ServerMembers)

		if m.Reasoning != "" {
			before.Reasoning, before.ReasoningField = before.Reasoning+m.Reasoning, m.ReasoningField
		}
	}

	return joined
}

func joins(before, m domain.PromptMessage) bool {
	return before.Role == m.Role && (m.Role == "user" || m.Role == "assistant" && len(before.Calls) == 0)
}

// joinParts appends parts, with a text next to a text as one paragraph after the other.
func joinParts(before, parts []domain.ContentPart) []domain.ContentPart {
	before = slices.Clone(before)

	for _, p := range parts {
		last := len(before) - 1

		switch {
		case p.Type == "text" && p.Text == "":
		case p.Type == "text" && last >= 0 && before[last].Type == "text" && before[last].Text != "":
			before[last].Text += "\n\n" + p.Text
		default:
			before = append(before, p)
		}
	}

	return before
}
