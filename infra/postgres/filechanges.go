package postgres

import (
	"context"

	"everloop/domain"
)

// FileChanged tells a session's subscribers of a change that a user, not the
// agent, made to a file.
func (j *Journal) FileChanged(ctx context.Context, sessionID string, change domain.FileChange) error {
	err := j.Commit(ctx, func(c *Change) error {
		return c.Emit(sessionID, "", domain.EventFileChanged, change)
	})
	return fault("tell of a changed file", err)
}
