package mock

import "strings"

// Between what agents join into one user message: the texts of several messages, and
// reminders of their own.
const (
	scriptClose   = "[[/script]]"
	reminderOpen  = "<system-reminder>"
	reminderClose = "</system-reminder>"
	paragraph     = "\n\n"
)

// separate splits user messages that an agent has joined: chat templates of some models
// refuse two in a row. Reminders and messages with a script are messages again.
func separate(messages []chatMessage) []chatMessage {
	out := make([]chatMessage, 0, len(messages))

	for _, m := range messages {
		if m.Role != "user" || m.Content == "" {
			out = append(out, m)
			continue
		}

		rest := string(m.Content)
		for rest != "" {
			part := m
			end := firstMessage(rest)
			part.Content = messageContent(rest[:end])
			out = append(out, part)
			rest = strings.TrimPrefix(rest[end:], paragraph)
		}
	}

	return out
}

// firstMessage is the length of the first message of a joined text.
func firstMessage(text string) int {
	if isReminder(text) {
		return reminderLength(text)
	}

	end := len(text)
	// What follows a script without one of its own, such as the outputs of other nodes,
	// belongs to its message.
	if i := strings.Index(text, scriptClose+paragraph); i >= 0 && strings.Contains(text[i:], scriptOpen) {
		end = i + len(scriptClose)
	}

	if i := strings.Index(text, paragraph+reminderOpen); i >= 0 {
		end = min(end, i)
	}

	return end
}

// reminderLength is the length of a reminder with the parts that follow it within its own
// message, such as the names of the pictures that it introduces.
func reminderLength(text string) int {
	_, rest, closed := strings.Cut(text, reminderClose)
	if !closed {
		return len(text)
	}

	if i := strings.Index(rest, paragraph); i >= 0 {
		return len(text) - len(rest) + i
	}

	return len(text)
}
