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

// PromptDigest names the version of the system prompt.
func PromptDigest() string {
	sum := sha256.Sum256([]byte(systemPrompt))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// prompt builds what a model call is told: who it is, the turns of its loop up
// to the one that it fills, and the tools it may call. The order and wording
// are stable, so that model servers can reuse the prefix.
func (a *Activities) prompt(ctx context.Context, turn domain.OpenedTurn, model domain.Model, loopID string, set *tools.Toolset) (domain.Prompt, error) {
	turns, err := a.Turns.Transcript(ctx, turn.BranchID, loopID, turn.Sequence)
	if err != nil {
		return domain.Prompt{}, err
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
	p.Messages = append(p.Messages, text("system", system(turn)))
	for _, t := range turns {
		messages, err := a.tell(ctx, t)
		if err != nil {
			return domain.Prompt{}, err
		}
		p.Messages = append(p.Messages, messages...)
		if problem := misfit(turn.Chat, t); problem != "" {
			p.Messages = append(p.Messages, text("user", problem))
		}
	}
	return p, nil
}

func system(turn domain.OpenedTurn) string {
	parts := []string{systemPrompt}
	if turn.Chat.Mode == domain.ModePlanning {
		parts = append(parts, "You are in planning mode: look at what you need, ask what you must know, then hand in a structured plan with SubmitPlan. Nothing that acts is available.")
	}
	if turn.Chat.Headless {
		parts = append(parts, "This is a headless run: nobody answers questions. Decide yourself, and make your last message the complete result.")
	}
	if len(turn.Chat.OutputSchema) > 0 {
		parts = append(parts, "Your last message must be one JSON value, without any other text or code fences, that follows this JSON Schema:\n"+string(turn.Chat.OutputSchema))
	}
	return strings.Join(parts, "\n\n")
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
	said := ""
	for _, b := range t.Blocks {
		switch b.Type {
		case domain.BlockText:
			said += b.Content
		case domain.BlockPlan:
			said += "\n\nThe plan:\n" + b.Content
		}
	}
	if said == "" && len(t.Calls) == 0 {
		return nil, nil
	}
	message := text("assistant", said)
	results := make([]domain.PromptMessage, 0, len(t.Calls))
	for _, call := range t.Calls {
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
