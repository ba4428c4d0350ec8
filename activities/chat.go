package activities

import (
	"context"

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
		open, err := a.Chats.OpenTurnsOfChat(ctx, in.ChatID)
		if err != nil {
			return contract.FinishChatOut{}, err
		}

		restored = make(map[domain.TurnID][]domain.Block, len(open))
		for _, turn := range open {
			restored[turn.ID] = a.restore(ctx, turn)
		}
	}

	out, err := a.Chats.FinishChat(ctx, in, restored)
	if err == nil && !out.More {
		a.Metrics.ChatEnded(string(in.Reason))
	}

	return out, err
}

// restore gives the text of an open turn as clients have it: what was flushed
// plus what the event log holds beyond. A log that cannot be read must not keep
// a chat from ending: then the flushed text is what is kept.
func (a *Activities) restore(ctx context.Context, open domain.OpenTurn) []domain.Block {
	ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
	defer cancel()

	fold := domain.NewTurnFold(open.Turn)

	last, err := a.Log.Last(ctx, open.SessionID)
	if err == nil {
		err = a.Log.Read(ctx, open.SessionID, open.FlushedSeq, last, fold.Apply)
	}

	if err != nil {
		a.Logger.Warn(
			"the last second of a lost turn could not be restored", "session_id", open.SessionID, "turn_id", open.ID, "error", err,
		)
	}

	return said(fold.Turn().Blocks)
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
