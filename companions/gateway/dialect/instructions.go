package dialect

// addInstruction adds a system prompt. At the beginning it is joined with the previous one,
// because some chat templates accept a single one. Later it becomes a user's text, because they
// accept none there.
func addInstruction(messages []chatMessage, text string, atStart bool) []chatMessage {
	switch {
	case !atStart:
		return append(messages, chatMessage{Role: "user", Content: text, instruction: true})
	case len(messages) == 1:
		messages[0].Content = messages[0].Content.(string) + "\n\n" + text
		return messages
	}

	return append(messages, chatMessage{Role: "system", Content: text})
}

// joinInstructions moves instructions after the tool results that they separate from their
// calls, and joins them with the neighbouring messages of the user: some chat templates reject
// two messages of one role.
func joinInstructions(messages []chatMessage) []chatMessage {
	var out, held []chatMessage

	add := func(one chatMessage) {
		if len(out) > 0 {
			last := &out[len(out)-1]
			if last.Role == "user" && one.Role == "user" && (last.instruction || one.instruction) {
				last.Content, last.instruction = joinedContent(last.Content, one.Content), true
				return
			}
		}

		out = append(out, one)
	}

	for _, one := range messages {
		switch {
		case one.instruction:
			held = append(held, one)
			continue
		case one.Role != "tool":
			for _, instruction := range held {
				add(instruction)
			}

			held = nil
		}

		add(one)
	}

	for _, instruction := range held {
		add(instruction)
	}

	return out
}

func joinedContent(a, b any) any {
	if text, is := a.(string); is {
		if more, is := b.(string); is {
			return text + "\n\n" + more
		}
	}

	return append(partsOf(a), partsOf(b)...)
}

func partsOf(content any) []chatPart {
	if text, is := content.(string); is {
		return []chatPart{textPart(text)}
	}

	parts, _ := content.([]chatPart)

	return parts[:len(parts):len(parts)]
}
