package prompt

import (
	"encoding/json"
	"fmt"
	"strings"

	"everloop/domain"
	"everloop/domain/schema"
)

// AnswerProblem describes how a chat's last answer fails its schema; empty when it does
// not, or when there is none.
func AnswerProblem(chat domain.ChatSettings, answer []domain.Block) string {
	if len(chat.OutputSchema) == 0 {
		return ""
	}

	outputSchema, err := schema.Compile(chat.OutputSchema)
	if err != nil {
		return "the schema cannot be used: " + err.Error()
	}

	text, err := schema.JSONAnswer(textOf(answer))
	if err != nil {
		return "the answer is not one JSON value: " + err.Error()
	}

	value, err := schema.ParseJSON(string(text))
	if err != nil {
		return "the answer is not one JSON value: " + err.Error()
	}

	if err := outputSchema.Validate(value); err != nil {
		return fmt.Sprintf("%.2000s", err) // of an answer that is wrong everywhere, the beginning
	}

	return ""
}

// mismatchNote returns the note that follows an answer of this chat which did not follow its
// schema. It is derived from the answer, so it is the same in every later prompt.
func mismatchNote(chat domain.ChatSettings, t domain.TranscriptTurn) string {
	if t.ChatID != chat.ID || t.Role != domain.RoleAssistant || len(t.Calls) > 0 || t.Status != domain.TurnCompleted {
		return ""
	}

	problem := AnswerProblem(chat, t.Blocks)
	if problem == "" {
		return ""
	}

	return reminder(fmt.Sprintf(
		"Your answer does not follow the required JSON Schema: %s\nAnswer again with one JSON value that does.", problem,
	))
}

func textOf(blocks []domain.Block) string {
	var all strings.Builder

	for _, b := range blocks {
		if b.Type == domain.BlockText {
			all.WriteString(b.Content)
		}
	}

	return all.String()
}

// validJSON returns arguments in a form that can be sent to model servers again: some
// reject a call whose arguments do not parse.
func validJSON(arguments string) string {
	if json.Valid([]byte(arguments)) {
		return arguments
	}

	quoted, err := json.Marshal(map[string]string{"malformed_arguments": arguments})
	if err != nil {
		return "{}"
	}

	return string(quoted)
}
