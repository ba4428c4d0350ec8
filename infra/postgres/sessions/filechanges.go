package sessions

import (
	"context"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// FilesChanged publishes several changes of a session's files.
func (s *Store) FilesChanged(ctx context.Context, sessionID domain.SessionID, changes []domain.FileChange) error {
	if len(changes) == 0 {
		return nil
	}

	err := s.Update(ctx, func(tx *pg.Tx) error {
		for _, change := range changes {
			if err := tx.Emit(sessionID, "", domain.EventFileChanged, change); err != nil {
				return err
			}
		}

		return nil
	})

	return pg.Fault("publish changed files", err)
}

// FileChanged publishes a change of a session's file that a user, not the
// agent, made to a file.
func (s *Store) FileChanged(ctx context.Context, sessionID domain.SessionID, change domain.FileChange) error {
	err := s.Update(ctx, func(tx *pg.Tx) error {
		return tx.Emit(sessionID, "", domain.EventFileChanged, change)
	})

	return pg.Fault("publish a changed file", err)
}
