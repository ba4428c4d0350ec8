package access

import (
	"context"
	"log/slog"

	"everloop/domain"
	"everloop/infra/postgres/sessions"
)

// FileEvents emit events for changes of files.
type FileEvents struct {
	Store  *sessions.Store
	Logger *slog.Logger
}

// EmitFileChange publishes a change of a file. The files are changed already, so that a
// fault here is none of the caller's.
func (a *FileEvents) EmitFileChange(ctx context.Context, sessionID domain.SessionID, changes ...domain.FileChange) {
	for _, change := range changes {
		if err := a.Store.FileChanged(ctx, sessionID, change); err != nil {
			a.Logger.Warn("failed to publish the change of a file", "session_id", sessionID, "error", err)
			return
		}
	}
}
