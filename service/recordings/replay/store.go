package replay

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/replay"
	"everloop/infra/postgres/conversation"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/sessions"
)

// Store keeps replays. A write of a player that was replaced, or whose replay was paused or
// handed over, fails with domain.ErrFenced.
type Store struct {
	db     *pg.DB
	outbox *pg.Outbox
}

// NewStore returns a new store that commits its events through an outbox.
func NewStore(db *pg.DB, outbox *pg.Outbox) *Store { return &Store{db, outbox} }

// CreateReplay makes a session that is to play a script. It is set up as its
// source is, but for what belongs to the source's owner alone.
func (s *Store) CreateReplay(ctx context.Context, in replay.NewReplay) error {
	err := s.db.InTx(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			INSERT INTO sessions (id, owner_id, intent, solution_id, biz_role_id, template_id, primary_skill_id, model, software_factory_id,
			                      mode, memory_enabled, env, disable_tools, setup, active_branch_id, intent_from_message)
			SELECT @id, @owner, intent, solution_id, biz_role_id, template_id, primary_skill_id, model, software_factory_id,
			       mode, memory_enabled AND owner_id = @owner, CASE WHEN owner_id = @owner THEN env ELSE '{}' END, disable_tools,
			       CASE WHEN owner_id = @owner THEN setup ELSE '{}' END, @branch, false
			FROM   sessions WHERE id = @source AND deleted_at IS NULL`,
			pgx.NamedArgs{"id": in.SessionID, "owner": in.OwnerID, "branch": in.BranchID, "source": in.Source.ID})
		if err != nil {
			return err
		}

		if tag.RowsAffected() == 0 {
			return domain.SessionNotFound(in.Source.ID)
		}

		if _, err := tx.Exec(ctx, `INSERT INTO branches (id, session_id) VALUES ($1, $2)`, in.BranchID, in.SessionID); err != nil {
			return err
		}

		_, err = tx.Exec(ctx, `
			INSERT INTO replays (session_id, source_session_id, speed, status, script, total, snapshot_id)
			VALUES ($1, $2, $3, 'playing', $4, $5, nullif($6, ''))`,
			in.SessionID, in.Source.ID, in.Speed, in.Script, in.Total, in.Snapshot)

		return err
	})

	return pg.Fault("make replay", err)
}

const claimColumns = `session_id, source_session_id, attempt, status, speed, position, total, script, coalesce(snapshot_id, ''), files_owed`

func scanClaim(row pgx.Row) (replay.Claim, error) {
	var c replay.Claim

	err := row.Scan(
		&c.SessionID,
		&c.SourceID,
		&c.Attempt,
		&c.Status,
		&c.Speed,
		&c.Position,
		&c.Total,
		&c.Script,
		&c.SnapshotID,
		&c.FilesOwed,
	)
	if errors.Is(err, pgx.ErrNoRows) {
		return c, errNoReplay()
	}

	return c, err
}

func errNoReplay() *domain.Error {
	return domain.Newf(domain.NotFound, "replay_not_found", "the session is not a replay session")
}

// ClaimReplay gives a replay to the one that plays it from now on.
func (s *Store) ClaimReplay(ctx context.Context, sessionID domain.SessionID) (replay.Claim, error) {
	claim, err := scanClaim(s.db.Pool.QueryRow(ctx, `
		UPDATE replays SET attempt = attempt + 1, alive_at = now() WHERE session_id = $1 RETURNING `+claimColumns, sessionID))

	return claim, pg.Fault("claim replay", err)
}

// Replay gives how a replay stands.
func (s *Store) Replay(ctx context.Context, sessionID domain.SessionID) (replay.Claim, error) {
	claim, err := scanClaim(s.db.Pool.QueryRow(ctx, `SELECT `+claimColumns+` FROM replays WHERE session_id = $1`, sessionID))
	return claim, pg.Fault("read replay", err)
}

// StaleReplays returns the replays that should be playing, or whose files
// should be copied, and of which nothing was heard for so long.
func (s *Store) StaleReplays(ctx context.Context, age time.Duration) ([]string, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT r.session_id FROM replays r JOIN sessions s ON s.id = r.session_id
		WHERE  (r.status = 'playing' OR r.files_owed) AND r.alive_at < now() - $1::interval AND s.deleted_at IS NULL`, age)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])

	return list, pg.Fault("look for stale replays", err)
}

// lockReplay takes the session's lock and then the replay's row.
func lockReplay(ctx context.Context, tx *pg.Tx, sessionID domain.SessionID, ownerID string) (sessions.Locked, replay.Claim, error) {
	session, err := sessions.Lock(ctx, tx, sessionID, ownerID)
	if err != nil {
		return session, replay.Claim{}, err
	}

	claim, err := scanClaim(tx.QueryRow(ctx, `SELECT `+claimColumns+` FROM replays WHERE session_id = $1 FOR UPDATE`, sessionID))

	return session, claim, err
}

// PlaySteps plays steps in one transaction: their entries, calls and states are
// the session's own, and their events follow the commit. A player that was
// replaced, or whose replay was paused or handed over, is fenced.
func (s *Store) PlaySteps(ctx context.Context, in replay.PlayedSteps) (replay.Claim, error) {
	var claim replay.Claim

	err := s.outbox.Update(ctx, func(tx *pg.Tx) error {
		session, found, err := lockReplay(ctx, tx, in.SessionID, "")
		if err != nil {
			return err
		}

		if claim = found; claim.Status != domain.ReplayPlaying || claim.Attempt != in.Attempt || claim.Position != in.From {
			return domain.ErrFenced
		}

		player := stepPlayer{Tx: tx, session: session, text: in.Text}
		for _, step := range in.Steps {
			if err := player.play(ctx, step); err != nil {
				return err
			}

			if step.Files != "" {
				claim.SnapshotID = step.Files
			}
		}

		if err := player.keepText(ctx); err != nil {
			return err
		}

		claim.Position += len(in.Steps)
		_, err = tx.Exec(ctx, `
			UPDATE replays SET position = $2, snapshot_id = nullif($3, ''), alive_at = now() WHERE session_id = $1`,
			in.SessionID, claim.Position, claim.SnapshotID)

		return err
	})

	return claim, pg.Fault("play replay", err)
}

// PauseReplay pauses a playback that cannot continue, as a stop would. Doing it
// again, or for a player that was replaced, changes nothing.
func (s *Store) PauseReplay(ctx context.Context, sessionID domain.SessionID, attempt int) error {
	err := s.outbox.Update(ctx, func(tx *pg.Tx) error {
		session, claim, err := lockReplay(ctx, tx, sessionID, "")
		if err != nil || claim.Status != domain.ReplayPlaying || claim.Attempt != attempt {
			return err
		}

		_, err = conversation.PausePlayback(ctx, tx, session)

		return err
	})

	return pg.Fault("pause replay", err)
}

// FinishReplay ends a playback that has come to its end. The files are owed.
func (s *Store) FinishReplay(ctx context.Context, sessionID domain.SessionID, attempt int) error {
	return s.outbox.Update(ctx, func(tx *pg.Tx) error {
		session, claim, err := lockReplay(ctx, tx, sessionID, "")
		if err != nil {
			return err
		}

		if claim.Status != domain.ReplayPlaying || claim.Attempt != attempt {
			return domain.ErrFenced
		}

		if err := conversation.ClosePlayback(ctx, tx, session); err != nil {
			return err
		}

		if _, err := tx.Exec(ctx, `
			UPDATE replays SET status = 'finished', files_owed = true, alive_at = now() WHERE session_id = $1`, sessionID); err != nil {
			return err
		}

		return sessions.EmitUpdated(ctx, tx, sessionID)
	})
}

// SetReplaySpeed changes how fast a replay is played.
func (s *Store) SetReplaySpeed(ctx context.Context, ownerID string, sessionID domain.SessionID, speed int) error {
	tag, err := s.db.Pool.Exec(ctx, `
		UPDATE replays r SET speed = $3 FROM sessions s
		WHERE  r.session_id = $2 AND s.id = r.session_id AND s.owner_id = $1 AND s.deleted_at IS NULL`, ownerID, sessionID, speed)
	if err == nil && tag.RowsAffected() == 0 {
		return errNoReplay()
	}

	return pg.Fault("change replay's speed", err)
}

// HandOverReplay ends the playback where it is: the open chat ends interrupted
// and the session is an ordinary one as soon as its files are copied, which is
// owed from here on. Doing it again changes nothing.
func (s *Store) HandOverReplay(ctx context.Context, ownerID string, sessionID domain.SessionID) error {
	return s.outbox.Update(ctx, func(tx *pg.Tx) error {
		session, claim, err := lockReplay(ctx, tx, sessionID, ownerID)
		if err != nil || claim.Status == domain.ReplayAutonomous {
			return err
		}

		if claim.Status == domain.ReplayPlaying {
			if err := conversation.ClosePlayback(ctx, tx, session); err != nil {
				return err
			}
		}

		owed := claim.FilesOwed || claim.Status != domain.ReplayFinished // a finished one has them
		if _, err := tx.Exec(ctx, `
			UPDATE replays SET status = 'autonomous', handed_over_at = now(), files_owed = $2, alive_at = now() WHERE session_id = $1`,
			sessionID, owed); err != nil {
			return err
		}

		return sessions.EmitUpdated(ctx, tx, sessionID)
	})
}

// ResumeReplay continues playing from a new script, which starts with what was
// played. It is refused when the replay has moved in the meantime, or when the session
// was used since it was handed over.
func (s *Store) ResumeReplay(ctx context.Context, ownerID string, was replay.Claim, script string, position, total int) error {
	return s.outbox.Update(ctx, func(tx *pg.Tx) error {
		_, claim, err := lockReplay(ctx, tx, was.SessionID, ownerID)
		if err != nil {
			return err
		}

		if claim.Status != was.Status || claim.Position != was.Position || claim.Script != was.Script || claim.FilesOwed {
			return domain.Newf(domain.Conflict, domain.CodeSessionBusy, "the replay has just changed; try again")
		}

		var used bool
		if err := tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT 1 FROM chats WHERE session_id = $1 AND trigger <> 'replay')
			    OR (SELECT s.active_branch_id <> b.id FROM sessions s, branches b
			        WHERE s.id = $1 AND b.session_id = $1 ORDER BY b.created_at, b.id LIMIT 1)`, was.SessionID).Scan(&used); err != nil {
			return err
		}

		if used {
			return domain.Newf(domain.Conflict, replay.CodeReplayOver, "the session was used since its replay was handed over")
		}

		if _, err := tx.Exec(ctx, `
			UPDATE replays SET status = 'playing', handed_over_at = NULL, script = $2, position = $3, total = $4, attempt = attempt + 1,
			       alive_at = now()
			WHERE  session_id = $1`, was.SessionID, script, position, total); err != nil {
			return err
		}

		return sessions.EmitUpdated(ctx, tx, was.SessionID)
	})
}

// ReplayFilesCopied ends what a hand-over owes: the snapshots of the checkpoints
// are the session's own from here on.
func (s *Store) ReplayFilesCopied(ctx context.Context, sessionID domain.SessionID) error {
	err := s.db.InTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `
			UPDATE checkpoints k SET snapshot_id = k.session_id || '.' || split_part(k.snapshot_id, '.', 2)
			FROM   replays r
			WHERE  k.session_id = $1 AND r.session_id = $1
			    AND split_part(k.snapshot_id, '.', 1) = r.source_session_id`, sessionID); err != nil {
			return err
		}

		_, err := tx.Exec(ctx, `UPDATE replays SET files_owed = false WHERE session_id = $1`, sessionID)

		return err
	})

	return pg.Fault("note the copied files", err)
}

// ReplayPair gives the replay session and its source, for the copy of the files.
// A source that is gone is found false.
func (s *Store) ReplayPair(ctx context.Context, sessionID domain.SessionID) (replay, source domain.Session, found bool, err error) {
	if replay, err = sessions.ByID(ctx, s.db.Pool, sessionID); err != nil {
		return replay, source, false, err
	}

	if replay.Replay == nil {
		return replay, source, false, errNoReplay()
	}

	source, err = sessions.ByID(ctx, s.db.Pool, replay.Replay.SourceSessionID)
	if domain.HasCode(err, domain.CodeSessionNotFound) {
		return replay, source, false, nil
	}

	return replay, source, err == nil, err
}
