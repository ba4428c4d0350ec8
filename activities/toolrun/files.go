package toolrun

import (
	"context"

	"everloop/activities/tools"
	"everloop/domain"
)

// Captures takes the files of checkpoints. Model calls never wait for it; a tool that can
// write waits until the files before it have been read. It is an interface because
// service/history, which implements it, lies above the activities.
type Captures interface {
	// Changed reports that files can have changed and must be captured. It returns immediately.
	Changed(sessionID domain.SessionID)
	// Settle returns when everything that must be captured has been read.
	Settle(ctx context.Context, sessionID domain.SessionID) error
}

// beforeWriting lets a tool that can write start once the files of earlier turns
// have been seen. What cannot be captured keeps no tool from running; only a
// chat that was stopped in the meantime does.
func (r *Runner) beforeWriting(ctx context.Context, call domain.LedgerCall, tool tools.Tool) error {
	if !tool.Acts || !call.CaptureDue || r.Captures == nil {
		return nil
	}

	err := r.Captures.Settle(ctx, call.SessionID)
	if err != nil && ctx.Err() == nil {
		r.Logger.Warn("a tool runs before the files were captured", "session_id", call.SessionID, "chat_id", call.ChatID, "error", err)
		return nil
	}

	return err
}

// filesDue has files captured that a step has left or found.
func (r *Runner) filesDue(sessionID domain.SessionID, due bool) {
	if due && r.Captures != nil {
		r.Captures.Changed(sessionID)
	}
}
