package modelcall

import (
	"context"
	"errors"
	"strings"

	"everloop/domain"
)

// Recall returns what the agent of a user should know for a question.
type Recall func(ctx context.Context, ownerID, question string) ([]domain.RecalledMemory, error)

// recall returns the memories of a chat: looked up once, before its first model call, by
// the user's message, and stored with the chat for all later calls. Sub-agents have none:
// their prompt says what they need. A chat runs also when the lookup fails.
func (c *Caller) recall(
	ctx context.Context, key domain.TurnKey, turn domain.OpenedTurn, transcript domain.Transcript,
) ([]domain.RecalledMemory, error) {
	switch {
	case key.LoopID != domain.RootLoop:
		return nil, nil
	case transcript.Recalled != nil || c.Prompts.Recall == nil || !turn.Session.MemoryEnabled || key.Step != 1:
		return transcript.Recalled, nil
	}

	recalled, err := c.Prompts.Recall(ctx, turn.Session.OwnerID, asked(key.ChatID, transcript.Turns))
	if err != nil {
		c.Logger.Warn("failed to look up memories", "session_id", key.SessionID, "chat_id", key.ChatID, "error", err)
		return nil, nil
	}

	if recalled == nil {
		recalled = []domain.RecalledMemory{}
	}

	if err := c.Transcripts.RememberRecall(ctx, key.ChatID, turn, recalled); err != nil && !errors.Is(err, domain.ErrFenced) {
		return nil, err
	}

	return recalled, nil
}

// asked returns what the user said in a chat.
func asked(chatID domain.ChatID, turns []domain.TranscriptTurn) string {
	var said []string

	for _, t := range turns {
		if t.ChatID != chatID || t.Role != domain.RoleUser {
			continue
		}

		for _, p := range t.Parts {
			if p.Text != "" {
				said = append(said, p.Text)
			}
		}
	}

	return strings.Join(said, "\n")
}
