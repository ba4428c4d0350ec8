package activities

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"strings"

	"everloop/activities/tools"
	"everloop/domain"
)

//go:embed prompt.md
var systemPrompt string

// PromptDigest names the version of the system prompt that an ordinary chat of a
// session in this mode has: with the instructions of its solution and its role.
func PromptDigest(mode domain.Mode, profile domain.Profile) string {
	sum := sha256.Sum256([]byte(system(domain.ChatSettings{Mode: mode}, domain.LoopSettings{}, profile)))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// prompt builds the prompt of a model call: the instructions, the summary of what was
// compacted, the turns of its loop since, up to the one that it fills, and the tools that
// it may call. The order and wording are stable, so that model servers can reuse the
// prefix. It also returns the transcript that the prompt is made of.
func (a *Activities) prompt(
	ctx context.Context, key domain.TurnKey, turn domain.OpenedTurn, model domain.Model, set *tools.Toolset,
) (domain.Prompt, domain.Transcript, error) {
	transcript, err := a.loopTranscript(ctx, domain.TranscriptQuery{
		ChatID: key.ChatID, BranchID: turn.BranchID, LoopID: key.LoopID, Before: turn.Sequence,
	}, turn.Newest)
	if err != nil {
		return domain.Prompt{}, transcript, err
	}

	if due := a.untranscribed(transcript.Turns); len(due) > 0 {
		return domain.Prompt{}, transcript, &untranscribedError{due}
	}

	if transcript.Recalled, err = a.recall(ctx, key, turn, transcript); err != nil {
		return domain.Prompt{}, transcript, err
	}

	p := domain.Prompt{
		Model: model.ID,
		Tools: set.Offered(),
	}
	if turn.Chat.SchemaTries > 0 {
		// Some servers call no tools while an answer is constrained, so the first
		// answer is left free.
		p.Schema = turn.Chat.OutputSchema
	}

	p.Messages = append(p.Messages, text("system", system(turn.Chat, turn.Loop, a.Profiles.Profile(turn.Session))))
	if transcript.Summary != "" {
		p.Messages = append(p.Messages, text("user", summarised(transcript.Summary)))
	}

	pictures, err := a.pictures(ctx, transcript.Turns)
	if err != nil {
		return domain.Prompt{}, transcript, err
	}

	remembered := len(transcript.Recalled) == 0

	thinking := reasoningFrom(transcript.Turns, model.ReasoningHistory)
	for i, t := range transcript.Turns {
		if !remembered && t.ChatID == key.ChatID {
			// Directly before what the user asked: what comes earlier in the prompt
			// is the same as in the chats before.
			p.Messages, remembered = append(p.Messages, text("user", reminded(transcript.Recalled))), true
		}

		p.Messages = append(p.Messages, turnMessages(t, model.ID, i >= thinking, pictures)...)
		if problem := mismatchNote(turn.Chat, t); problem != "" {
			p.Messages = append(p.Messages, text("user", problem))
		}
	}

	if !remembered {
		p.Messages = append(p.Messages, text("user", reminded(transcript.Recalled)))
	}

	return p, transcript, nil
}

func system(chat domain.ChatSettings, loop domain.LoopSettings, profile domain.Profile) string {
	parts := []string{systemPrompt}

	for _, more := range []string{profile.Instructions, loop.Prompt} {
		if more != "" {
			parts = append(parts, more)
		}
	}

	if chat.Mode == domain.ModePlanning {
		parts = append(
			parts,
			"You are in planning mode: look at what you need, ask what you must know, then hand in a structured plan with SubmitPlan. "+
				"Nothing that acts is available.",
		)
	}

	if chat.Headless {
		parts = append(
			parts, "This is a headless run: no user answers questions. Decide yourself, and make your last message the complete result.",
		)
	}

	if len(chat.OutputSchema) > 0 {
		parts = append(
			parts,
			"Your last message must be one JSON value, without any other text or code fences, that follows this JSON Schema:\n"+
				string(chat.OutputSchema),
		)
	}

	return strings.Join(parts, "\n\n")
}

// summarised is the message that stands for the compacted part of a conversation.
func summarised(summary string) string {
	return reminder(
		"The conversation before this point was summarised to make room. The summary is all that is left of it here; files and " +
			"background tasks are as they were.\n\n" + summary,
	)
}

// turnMessages gives one turn as messages of a prompt to a model, with its
// reasoning when it thinks on. Every tool call is followed by its result,
// whatever became of it: model servers refuse a call without one.
func turnMessages(t domain.TranscriptTurn, model string, thinking bool, pictures map[string]string) []domain.PromptMessage {
	switch t.Role {
	case domain.RoleUser:
		return []domain.PromptMessage{{Role: "user", Parts: withPictures(t.Parts, pictures)}}
	case domain.RoleSystem: // some chat templates refuse a system message that is not the first
		return []domain.PromptMessage{text("user", reminder(noteOf(t.Blocks)))}
	case domain.RoleAssistant:
	}

	said := spoken(t)
	if said == "" && len(t.Calls) == 0 {
		return nil
	}

	message := text("assistant", said)
	if thinking {
		if message.Reasoning = reasoningOf(model, t); message.Reasoning != "" {
			message.ReasoningField = t.ReasoningField
		}
	}

	results := make([]domain.PromptMessage, 0, len(t.Calls))
	for _, call := range t.Calls {
		if call.AsksPermission() {
			continue // the service asked, the model did not
		}

		asked := domain.PromptCall{ID: call.ID, Name: call.ToolName, Arguments: validJSON(call.Arguments)}
		if t.Model == model { // another model's server gave ids in its own shape
			asked.ServerID = call.ServerCallID
		}

		message.Calls = append(message.Calls, asked)
		result := text("tool", resultText(call))
		result.ToolCallID = call.ID
		results = append(results, result)
	}

	return append([]domain.PromptMessage{message}, results...)
}

// resultText is what the model reads as the result of a call.
func resultText(call domain.ToolCall) string {
	switch {
	case call.Result != "":
		return call.Result
	case call.Status == domain.CallCancelled:
		return "Cancelled."
	case call.Status == domain.CallDone:
		return "(no output)"
	default:
		return "No result was recorded."
	}
}

func noteOf(blocks []domain.Block) string {
	var note strings.Builder
	for _, b := range blocks {
		note.WriteString(b.Content)
	}

	return note.String()
}

// reminder marks a text as coming from the service, not from the user.
func reminder(content string) string { return "<system-reminder>" + content + "</system-reminder>" }

func text(role, content string) domain.PromptMessage {
	return domain.PromptMessage{Role: role, Parts: []domain.ContentPart{{Type: "text", Text: content}}}
}
