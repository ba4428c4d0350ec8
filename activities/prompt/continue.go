package prompt

import "everloop/domain"

// Texts that ask the model to continue with an answer.
const (
	goOn = "Your answer reached the limit of its length. Continue exactly where it stops; do not repeat anything."
	// startOver follows an answer that had reached the limit before it had any text.
	startOver = "Your answer reached the limit of its length before it had any text. Think less, and answer."
)

// Continue returns a prompt that asks for the rest of an answer.
func Continue(p domain.Prompt, answer domain.Reply) domain.Prompt {
	more := []domain.PromptMessage{Text("user", reminder(startOver))}
	if answer.Text != "" {
		more = []domain.PromptMessage{Text("assistant", answer.Text), Text("user", reminder(goOn))}
	}

	messages := make([]domain.PromptMessage, 0, len(p.Messages)+len(more))
	p.Messages = join(append(append(messages, p.Messages...), more...))

	return p
}
