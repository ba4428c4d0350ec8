package activities

import (
	"context"

	"everloop/activities/tools"
	"everloop/domain"
)

// Captures keeps the files of checkpoints. Model calls never wait for it; a tool
// that can write waits until the files before it have been seen.
type Captures interface {
	// Changed says that files may have changed and are to be captured. It returns
	// at once.
	Changed(sessionID domain.SessionID)
	// Settle returns when everything that is to be captured has been seen.
	Settle(ctx context.Context, sessionID domain.SessionID) error
}

// beforeWriting lets a tool that can write begin once the files of earlier turns
// have been seen. What cannot be captured keeps no tool from running; only a
// chat that was stopped meanwhile does.
func (a *Activities) beforeWriting(ctx context.Context, call domain.LedgerCall, tool tools.Tool) error {
	if !tool.Acts || !call.CaptureDue || a.Captures == nil {
		return nil
	}

	err := a.Captures.Settle(ctx, call.SessionID)
	if err != nil && ctx.Err() == nil {
		a.Logger.Warn("a tool runs before the files were captured", "session_id", call.SessionID, "chat_id", call.ChatID, "error", err)
		return nil
	}

	return err
}

// filesDue has files captured that a step has left or found.
func (a *Activities) filesDue(sessionID domain.SessionID, due bool) {
	if due && a.Captures != nil {
		a.Captures.Changed(sessionID)
	}
}
