// Package chat has the steps of a chat that call neither a model nor a tool: its end, the
// pause and the end of its sub-agents, and the transcription of its recordings. The steps
// that are one transaction are methods of infra/postgres/conversation.
package chat

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"everloop/activities/contract"
	"everloop/activities/tools"
	"everloop/domain"
	"everloop/infra/events"
	"everloop/infra/metrics"
	"everloop/infra/postgres/conversation"
	"everloop/infra/postgres/transcript"
)

// restoreTimeout bounds the look at the event log for all open turns of a chat: it must
// leave time for the end itself in a local step of 10 s.
const restoreTimeout = 5 * time.Second

// Steps are the steps of chats and of their sub-agents.
type Steps struct {
	Store       *conversation.Store
	Transcripts *transcript.Store
	Log         *events.Log
	Tools       *tools.Registry // shortens the results of sub-agents
	ForkLimits  domain.ForkLimits
	Metrics     *metrics.Worker
	Logger      *slog.Logger
}

// FinishChat ends a chat. Turns that a dead worker left open keep the text that
// clients have seen of them.
func (s *Steps) FinishChat(ctx context.Context, in contract.FinishChatIn) (contract.FinishChatOut, error) {
	var restored map[domain.TurnID][]domain.Block

	if in.Reason != domain.FinishCompleted {
		var err error
		if restored, err = s.restoreTurns(ctx, in.ChatID); err != nil {
			return contract.FinishChatOut{}, err
		}
	}

	out, err := s.Store.FinishChat(ctx, in, restored)
	if err == nil && !out.More {
		s.Metrics.ChatEnded(string(in.Reason))
	}

	return out, err
}

// restoreTurns is Restore for the open turns of a chat.
func (s *Steps) restoreTurns(ctx context.Context, chatID domain.ChatID) (map[domain.TurnID][]domain.Block, error) {
	open, err := s.Transcripts.OpenTurnsOfChat(ctx, chatID)
	if err != nil {
		return nil, err
	}

	return s.Restore(ctx, open), nil
}

// Restore returns the text of open turns as clients have it.
func (s *Steps) Restore(ctx context.Context, open []domain.OpenTurn) map[domain.TurnID][]domain.Block {
	return restoreAll(ctx, open, s.restore, s.Logger)
}

// restoreAll restores turns. All turns share one deadline, and the first that finds the event
// log unavailable ends the others: a log that cannot be read must not keep a chat from ending.
func restoreAll(
	ctx context.Context, open []domain.OpenTurn, restore func(context.Context, domain.OpenTurn) ([]domain.Block, error),
	logger *slog.Logger,
) map[domain.TurnID][]domain.Block {
	ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
	defer cancel()

	texts := make([][]domain.Block, len(open))

	var all sync.WaitGroup
	for i, turn := range open {
		all.Go(func() {
			var err error
			if texts[i], err = restore(ctx, turn); err == nil {
				return
			}

			logger.Warn("failed to restore the last second of a lost turn",
				"session_id", turn.SessionID, "turn_id", turn.ID, "error", err)

			if domain.AsError(err).Kind == domain.Unavailable {
				cancel()
			}
		})
	}

	all.Wait()

	restored := make(map[domain.TurnID][]domain.Block, len(open))
	for i, turn := range open {
		restored[turn.ID] = texts[i]
	}

	return restored
}

// restore returns the text of an open turn as clients have it: the flushed text and what
// the event log has behind it; after an error, what was read so far.
func (s *Steps) restore(ctx context.Context, open domain.OpenTurn) ([]domain.Block, error) {
	fold := domain.NewTurnFold(open.Turn)

	last, err := s.Log.Last(ctx, open.SessionID)
	if err == nil {
		err = s.Log.Read(ctx, open.SessionID, open.FlushedSeq, last, fold.Apply)
	}

	return said(fold.Turn().Blocks), err
}

// said leaves out the blocks that are derived from tool calls.
func said(blocks []domain.Block) []domain.Block {
	kept := make([]domain.Block, 0, len(blocks))
	for _, b := range blocks {
		if b.Type != domain.BlockToolUse && b.Type != domain.BlockToolResult {
			kept = append(kept, b)
		}
	}

	return kept
}
