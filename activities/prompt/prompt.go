// Package prompt turns the transcript of a loop into the request to a model, and knows how
// large that is: what the model reads of each turn, in which words and order. It reads no
// store and calls no model, and does not decide when a call is made or a history
// summarised.
package prompt

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"

	"everloop/domain"
)

//go:embed prompt.md
var systemPrompt string

// Digest names the version of the system prompt that an ordinary chat of a
// session in this mode has: with the instructions of its solution and its role.
func Digest(mode domain.Mode, profile domain.Profile) string {
	sum := sha256.Sum256([]byte(system(domain.ChatSettings{Mode: mode}, domain.LoopSettings{}, profile)))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Input is what a prompt is made of.
type Input struct {
	Model      domain.Model
	SessionID  domain.SessionID
	Chat       domain.ChatSettings
	Loop       domain.LoopSettings
	Profile    domain.Profile
	Tools      []domain.ToolSpec
	Transcript domain.Transcript // with the memories that the chat was given
	Pictures   map[string]string // of the transcript, by the name of their object
	// Refused are the images that the model server has refused before, by their names.
	Refused map[string]bool
	// ResultImages are loaded by LoadResultImages.
	ResultImages ResultImages
}

// Build builds the prompt of a model call: the instructions, the summary of what was
// compacted, the turns of its loop since, up to the one that it fills, and the tools that
// it may call. The order and wording are stable, so that model servers can reuse the
// prefix.
func Build(in Input) domain.Prompt {
	transcript := in.Transcript

	p := domain.Prompt{
		Model: in.Model.ID,
		Tools: in.Tools,
	}
	if in.Chat.SchemaTries > 0 {
		// Some servers call no tools while an answer is constrained, so the first
		// answer is left free.
		p.Schema = in.Chat.OutputSchema
	}

	p.Messages = append(p.Messages, Text("system", system(in.Chat, in.Loop, in.Profile)))
	if transcript.Summary != "" {
		p.Messages = append(p.Messages, Text("user", summarised(transcript.Summary)))
	}

	remembered, images := len(transcript.Recalled) == 0, in.imagePlan()

	thinking := ReasoningFrom(transcript.Turns, in.Model.ReasoningHistory)
	for i, t := range transcript.Turns {
		if !remembered && t.ChatID == in.Chat.ID {
			// Directly before what the user asked: what comes earlier in the prompt
			// is the same as in the chats before.
			p.Messages, remembered = append(p.Messages, Text("user", reminded(transcript.Recalled))), true
		}

		if in.Model.ReasoningHistory == domain.ReasoningNone {
			t.ServerMembers = "" // they may hold reasoning
		}

		p.Messages = append(p.Messages, turnMessages(t, in.Model.ID, i >= thinking, in.Pictures, images[i].message)...)
		p.Messages = append(p.Messages, in.resultImages(t, images[i].results)...)

		if problem := mismatchNote(in.Chat, t); problem != "" {
			p.Messages = append(p.Messages, Text("user", problem))
		}
	}

	if !remembered {
		p.Messages = append(p.Messages, Text("user", reminded(transcript.Recalled)))
	}

	p.Messages = join(p.Messages)

	return p
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

// summarised returns the message that stands for the compacted part of a conversation.
func summarised(summary string) string {
	return reminder(
		"The conversation before this point was summarised to make room. The summary is all that is left of it here; files and " +
			"background tasks are as they were.\n\n" + summary,
	)
}

// reminded returns the message with the memories of a chat.
func reminded(recalled []domain.RecalledMemory) string {
	var list strings.Builder
	list.WriteString("What is remembered from earlier sessions. It may be out of date: check what matters before you rely on it.\n")

	for _, m := range recalled {
		fmt.Fprintf(&list, "\n- (%s %d) %s", m.Type, m.ID, m.Content)
	}

	return reminder(list.String())
}

// turnMessages returns one turn as messages of a prompt to a model, with its
// reasoning when it thinks on. Every tool call is followed by its result,
// whatever became of it: model servers refuse a call without one.
func turnMessages(
	t domain.TranscriptTurn, model string, thinking bool, pictures map[string]string, images []omission,
) []domain.PromptMessage {
	switch t.Role {
	case domain.RoleUser:
		return []domain.PromptMessage{{Role: "user", Parts: withPictures(t.Parts, pictures, images)}}
	case domain.RoleSystem: // some chat templates refuse a system message that is not the first
		return []domain.PromptMessage{Text("user", reminder(Note(t.Blocks)))}
	case domain.RoleAssistant:
	}

	said := Spoken(t)
	if said == "" && len(t.Calls) == 0 {
		return nil
	}

	message := Text("assistant", said)
	if t.Model == model {
		message.ServerMembers = t.ServerMembers
	}

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
			asked.ServerID, asked.ServerMembers = call.ServerCallID, call.ServerMembers
		}

		message.Calls = append(message.Calls, asked)
		result := Text("tool", Result(call))
		result.ToolCallID = call.ID
		results = append(results, result)
	}

	return append([]domain.PromptMessage{message}, results...)
}

// Result returns what the model reads as the result of a call.
func Result(call domain.ToolCall) string {
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

// Note returns the text of a system turn.
func Note(blocks []domain.Block) string {
	var note strings.Builder
	for _, b := range blocks {
		note.WriteString(b.Content)
	}

	return note.String()
}

// reminder marks a text as coming from the service, not from the user.
func reminder(content string) string { return "<system-reminder>" + content + "</system-reminder>" }

// Text returns a message of one text.
func Text(role, content string) domain.PromptMessage {
	return domain.PromptMessage{Role: role, Parts: []domain.ContentPart{{Type: "text", Text: content}}}
}
