package activities

import (
	"context"
	"sync"

	"everloop/activities/contract"
	"everloop/domain"
)

// BeginChat lets a run take its session's next chat.
func (a *Activities) BeginChat(ctx context.Context, in contract.BeginChatIn) (contract.BeginChatOut, error) {
	return a.Chats.BeginChat(ctx, in)
}

// ParkChat ends a chat for clients while its questions are open.
func (a *Activities) ParkChat(ctx context.Context, in contract.ParkChatIn) (contract.ParkChatOut, error) {
	return a.Chats.ParkChat(ctx, in)
}

// CheckChat returns the state of a chat to its parked run.
func (a *Activities) CheckChat(ctx context.Context, in contract.CheckChatIn) (contract.ParkChatOut, error) {
	return a.Chats.CheckChat(ctx, in)
}

// FinishChat ends a chat. Turns that a dead worker left open keep the text that
// clients have seen of them.
func (a *Activities) FinishChat(ctx context.Context, in contract.FinishChatIn) (contract.FinishChatOut, error) {
	var restored map[domain.TurnID][]domain.Block

	if in.Reason != domain.FinishCompleted {
		var err error
		if restored, err = a.restoreTurns(ctx, in.ChatID); err != nil {
			return contract.FinishChatOut{}, err
		}
	}

	out, err := a.Chats.FinishChat(ctx, in, restored)
	if err == nil && !out.More {
		a.Metrics.ChatEnded(string(in.Reason))
	}

	return out, err
}

// restoreTurns is restoreAll for the open turns of a chat.
func (a *Activities) restoreTurns(ctx context.Context, chatID domain.ChatID) (map[domain.TurnID][]domain.Block, error) {
	open, err := a.Chats.OpenTurnsOfChat(ctx, chatID)
	if err != nil {
		return nil, err
	}

	return a.restoreAll(ctx, open), nil
}

// restoreAll returns the text of open turns as clients have it. All turns share one
// deadline, and the first that finds the event log unavailable ends the others: a log that
// cannot be read must not keep a chat from ending.
func (a *Activities) restoreAll(ctx context.Context, open []domain.OpenTurn) map[domain.TurnID][]domain.Block {
	ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
	defer cancel()

	texts := make([][]domain.Block, len(open))

	var all sync.WaitGroup
	for i, turn := range open {
		all.Go(func() {
			var err error
			if texts[i], err = a.restore(ctx, turn); err == nil {
				return
			}

			a.Logger.Warn("failed to restore the last second of a lost turn",
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
func (a *Activities) restore(ctx context.Context, open domain.OpenTurn) ([]domain.Block, error) {
	fold := domain.NewTurnFold(open.Turn)

	last, err := a.Log.Last(ctx, open.SessionID)
	if err == nil {
		err = a.Log.Read(ctx, open.SessionID, open.FlushedSeq, last, fold.Apply)
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
