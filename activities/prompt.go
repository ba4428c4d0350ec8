package activities

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
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

// prompt builds what a model call is told: who it is, what the conversation came
// to before it was last summarised, the turns of its loop since, up to the one
// that it fills, and the tools that it may call. The order and wording are
// stable, so that model servers can reuse the prefix. The turns that are told are
// given too.
func (a *Activities) prompt(ctx context.Context, key domain.TurnKey, turn domain.OpenedTurn, model domain.Model, set *tools.Toolset) (domain.Prompt, []domain.TranscriptTurn, error) {
	told, err := a.Turns.Transcript(ctx, domain.TranscriptQuery{
		ChatID: key.ChatID, BranchID: turn.BranchID, LoopID: key.LoopID, Before: turn.Sequence,
	})
	if err != nil {
		return domain.Prompt{}, nil, err
	}
	if told.Recalled, err = a.recall(ctx, key, turn, told); err != nil {
		return domain.Prompt{}, nil, err
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
	if told.Summary != "" {
		p.Messages = append(p.Messages, text("user", summarised(told.Summary)))
	}
	remembered := len(told.Recalled) == 0
	for _, t := range told.Turns {
		if !remembered && t.ChatID == key.ChatID {
			// Directly before what the user asked: what comes earlier in the prompt
			// is the same as in the chats before.
			p.Messages, remembered = append(p.Messages, text("user", reminded(told.Recalled))), true
		}
		messages, err := a.tell(ctx, t)
		if err != nil {
			return domain.Prompt{}, nil, err
		}
		p.Messages = append(p.Messages, messages...)
		if problem := misfit(turn.Chat, t); problem != "" {
			p.Messages = append(p.Messages, text("user", problem))
		}
	}
	if !remembered {
		p.Messages = append(p.Messages, text("user", reminded(told.Recalled)))
	}
	return p, told.Turns, nil
}

func system(chat domain.ChatSettings, loop domain.LoopSettings, profile domain.Profile) string {
	parts := []string{systemPrompt}
	for _, more := range []string{profile.Instructions, loop.Prompt} {
		if more != "" {
			parts = append(parts, more)
		}
	}
	if chat.Mode == domain.ModePlanning {
		parts = append(parts, "You are in planning mode: look at what you need, ask what you must know, then hand in a structured plan with SubmitPlan. Nothing that acts is available.")
	}
	if chat.Headless {
		parts = append(parts, "This is a headless run: nobody answers questions. Decide yourself, and make your last message the complete result.")
	}
	if len(chat.OutputSchema) > 0 {
		parts = append(parts, "Your last message must be one JSON value, without any other text or code fences, that follows this JSON Schema:\n"+string(chat.OutputSchema))
	}
	return strings.Join(parts, "\n\n")
}

// summarised tells what stands for the archived part of a conversation.
func summarised(summary string) string {
	return reminder("The conversation before this point was summarised to make room. The summary is all that is left of it here; files and background tasks are as they were.\n\n" + summary)
}

// tell gives one turn as messages of a prompt. Every tool call is followed by
// its result, whatever became of it: model servers refuse a call without one.
func (a *Activities) tell(ctx context.Context, t domain.TranscriptTurn) ([]domain.PromptMessage, error) {
	switch t.Role {
	case domain.RoleUser:
		parts, err := a.withImages(ctx, t.Parts)
		return []domain.PromptMessage{{Role: "user", Parts: parts}}, err
	case domain.RoleSystem: // some chat templates refuse a system message that is not the first
		return []domain.PromptMessage{text("user", reminder(noteOf(t.Blocks)))}, nil
	}
	said := spoken(t)
	if said == "" && len(t.Calls) == 0 {
		return nil, nil
	}
	message := text("assistant", said)
	results := make([]domain.PromptMessage, 0, len(t.Calls))
	for _, call := range t.Calls {
		if call.AsksPermission() {
			continue // the service asked, the model did not
		}
		message.Calls = append(message.Calls, domain.RequestedCall{ID: call.ID, Name: call.ToolName, Arguments: validJSON(call.Arguments)})
		result := text("tool", told(call))
		result.ToolCallID = call.ID
		results = append(results, result)
	}
	return append([]domain.PromptMessage{message}, results...), nil
}

// told is what the model reads as the result of a call.
func told(call domain.ToolCall) string {
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

func (a *Activities) withImages(ctx context.Context, parts []domain.ContentPart) ([]domain.ContentPart, error) {
	out := make([]domain.ContentPart, len(parts))
	for i, p := range parts {
		out[i] = p
		if p.ImageURL == nil {
			continue
		}
		name, kept := strings.CutPrefix(p.ImageURL.URL, domain.ObjectScheme)
		if !kept {
			continue
		}
		url, err := a.Images.DataURL(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("load an image of the message: %w", err)
		}
		out[i].ImageURL = &domain.ImageURL{URL: url}
	}
	return out, nil
}

func noteOf(blocks []domain.Block) string {
	var note strings.Builder
	for _, b := range blocks {
		note.WriteString(b.Content)
	}
	return note.String()
}

// reminder marks what the service, not the user, tells the model.
func reminder(content string) string { return "<system-reminder>" + content + "</system-reminder>" }

func text(role, content string) domain.PromptMessage {
	return domain.PromptMessage{Role: role, Parts: []domain.ContentPart{{Type: "text", Text: content}}}
}
