package history

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/history"
	"everloop/infra/postgres/conversation"
	"everloop/infra/postgres/pg"
)

// captureLease is how long a process has to capture what it took up, from its
// last heartbeat on.
const captureLease = 5 * time.Second

// takeCaptures takes checkpoints and returns what their capture needs to know. It
// is one statement that starts from the session's pending checkpoints, which a
// partial index holds. Each LATERAL has a limit: so no plan, however wrong its
// estimates, can join the checkpoints or the tool calls of other sessions.
const takeCaptures = `
	WITH free AS (
		SELECT k.id, k.lease_owner IS NOT NULL AS seen FROM checkpoints k
		WHERE  k.session_id = @session AND k.state = 'pending' AND (@all OR (` + conversation.CaptureDue + `))
		AND    (k.lease_until IS NULL OR k.lease_until < now() OR k.lease_owner = @owner) AND k.id <> ALL(@hand)
		FOR    UPDATE),
	taken AS (
		UPDATE checkpoints k SET lease_owner = @owner, lease_until = now() + @lease::interval, failure = NULL
		FROM   free WHERE k.id = free.id
		RETURNING k.id, k.branch_id, k.sequence, k.kind, free.seen)
	SELECT t.ids, s.sandbox_uid,
	       (SELECT count(*) FROM checkpoints k
	        WHERE  k.session_id = @session AND k.state = 'pending' AND (@all OR (` + conversation.CaptureDue + `))
	        AND    k.id <> ALL(t.ids) AND k.id <> ALL(@hand) AND k.failure IS NULL),
	       t.ids <> '{}' AND EXISTS (SELECT 1 FROM background_tasks b WHERE b.session_id = @session AND b.status = 'running'),
	       t.ids <> '{}' AND EXISTS (` + ranAfter + `),
	       CASE WHEN t.ids <> '{}' THEN coalesce((` + beforeCheckpoint + `), '') ELSE '' END
	FROM   sessions s, (SELECT coalesce(array_agg(id ORDER BY id), '{}') AS ids FROM taken) t
	WHERE  s.id = @session AND s.deleted_at IS NULL`

// ranAfter gives a row when a tool of a later turn than that of a taken checkpoint
// may have written: the files are no longer quite those of the checkpoint. A call
// that is running for the first time waits until the files before it have been
// seen (see Capturer.Settle), so it has written only when another process took the
// checkpoint before.
const ranAfter = `
	SELECT 1 FROM taken k
	CROSS  JOIN LATERAL (
		SELECT n.turn_id FROM checkpoints n
		WHERE  n.branch_id = k.branch_id AND n.sequence > k.sequence AND n.kind = 'tool_batch'
		ORDER  BY n.branch_id, n.sequence DESC LIMIT 1000) later
	CROSS  JOIN LATERAL (
		SELECT 1 FROM tool_calls c
		WHERE  c.entry_id = later.turn_id AND c.attempt > 0 AND (k.seen OR c.attempt > 1 OR c.phase <> 'running') LIMIT 1) ran`

// TakeCaptures gives a process the checkpoints of a session that are due, but
// for those that it has in hand already. With all, those are due too whose turns
// have tools left that never ran; the caller knows that nothing runs. The lease
// keeps them for the process; see KeepCaptures.
func (s *Store) TakeCaptures(
	ctx context.Context,
	sessionID domain.SessionID,
	owner string,
	inHand []string,
	all bool,
) (history.DueCaptures, error) {
	due := history.DueCaptures{SessionID: sessionID}

	if inHand == nil {
		inHand = []string{}
	}

	args := pgx.NamedArgs{"session": sessionID, "owner": owner, "hand": inHand, "all": all, "lease": captureLease}
	err := s.db.InTxAsync(ctx, func(batch *pgx.Batch) {
		batch.Queue(takeCaptures, args).QueryRow(func(row pgx.Row) error {
			err := row.Scan(&due.IDs, &due.SandboxUID, &due.Held, &due.Busy, &due.Late, &due.Previous)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil // deleted in the meantime
			}

			return err
		})
	})

	return due, pg.Fault("take up checkpoints", err)
}

// beforeCheckpoint is a scalar query for the snapshot that the taken checkpoints
// are compared with: for a listed one that of the listed one before it on its
// branch, else the last that was made.
const beforeCheckpoint = `
	SELECT coalesce(
		(SELECT before.snapshot_id
		 FROM   (SELECT k.branch_id, k.sequence FROM taken k WHERE k.kind <> 'tool_batch' ORDER BY k.id DESC LIMIT 1) own
		 CROSS  JOIN LATERAL (
			SELECT own.branch_id, own.sequence AS upto
			UNION  ALL
			SELECT l.branch_id, least(l.upto, own.sequence)
			    FROM branches b, jsonb_to_recordset(b.lineage) AS l (branch_id text, upto bigint)
			WHERE  b.id = own.branch_id) seen
		 CROSS  JOIN LATERAL (
			SELECT k.snapshot_id, k.sequence, k.id FROM checkpoints k
			WHERE  k.branch_id = seen.branch_id AND k.sequence <= seen.upto AND k.kind <> 'tool_batch' AND k.state = 'captured'
			ORDER  BY k.sequence DESC, k.id DESC LIMIT 1) before
		 ORDER  BY before.sequence DESC, before.id DESC LIMIT 1),
		(SELECT k.snapshot_id FROM checkpoints k
		 WHERE  k.session_id = @session AND k.state = 'captured' ORDER BY k.id DESC LIMIT 1))`

// KeepCaptures renews the lease of checkpoints that a process took. Its commit
// does not wait for the disk: after a power cut no worker holds a lease.
func (s *Store) KeepCaptures(ctx context.Context, owner string, ids []string) error {
	err := s.db.InTxAsync(ctx, func(batch *pgx.Batch) {
		batch.Queue(`
			UPDATE checkpoints SET lease_until = now() + $3::interval
			WHERE  id = ANY($2) AND lease_owner = $1 AND state = 'pending'`, owner, ids, captureLease)
	})

	return pg.Fault("keep checkpoints", err)
}

// recordCaptures records checkpoints and returns what their captures come after, as
// it was before: parts of one statement see the same state.
const recordCaptures = `
	WITH base AS (
		SELECT coalesce((
			SELECT k.snapshot_id FROM checkpoints k
			WHERE  k.session_id = @session AND k.state = 'captured' ORDER BY k.id DESC LIMIT 1), '') AS snapshot,
		ARRAY(
			SELECT c.arguments FROM checkpoints k JOIN tool_calls c ON c.entry_id = k.turn_id
			WHERE  k.id = ANY(@ids) AND k.kind = 'tool_batch' AND c.tool_name IN ('Write', 'Edit') AND c.status = 'done') AS calls),
	recorded AS (
		UPDATE checkpoints SET state = 'captured', snapshot_id = @snapshot, changed = @changed, added = @added, deleted = @deleted,
		       bytes = @bytes, complete = @complete, failure = NULL, lease_owner = NULL, lease_until = NULL, captured_at = now()
		WHERE  id = ANY(@ids) AND state = 'pending' AND lease_owner = @owner
		RETURNING 1)
	SELECT base.snapshot, base.calls FROM base WHERE EXISTS (SELECT 1 FROM recorded)`

// keptBeforeMove has a commit wait for the disk when it records the files that a move is
// about to replace. The move changes them next: were the record lost with PostgreSQL, they
// would be captured again, half replaced. What was recorded before is on the disk with it.
const keptBeforeMove = `
	SELECT set_config('synchronous_commit', 'on', true)
	WHERE  EXISTS (SELECT 1 FROM checkpoints WHERE id = ANY(@ids) AND kind = 'pre_rewind')`

// RecordCaptures writes what the checkpoints hold that a process took, and returns what
// they come after; nothing when none was recorded. Those that another process has taken
// since stay as they are: tools may have run since.
func (s *Store) RecordCaptures(
	ctx context.Context,
	owner string,
	due history.DueCaptures,
	snapshot history.Snapshot,
) (base history.CaptureBase, err error) {
	err = s.db.InTxAsync(ctx, func(batch *pgx.Batch) {
		batch.Queue(recordCaptures, pgx.NamedArgs{
			"session":  due.SessionID,
			"owner":    owner,
			"ids":      due.IDs,
			"snapshot": snapshot.ID,
			"changed":  snapshot.Changed,
			"added":    snapshot.Added,
			"deleted":  snapshot.Deleted,
			"bytes":    snapshot.Bytes,
			"complete": snapshot.Complete,
		}).QueryRow(func(row pgx.Row) error {
			err := row.Scan(&base.Snapshot, &base.Calls)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}

			return err
		})

		batch.Queue(keptBeforeMove, pgx.NamedArgs{"ids": due.IDs})

		if snapshot.Stored > 0 {
			batch.Queue(`
				INSERT INTO checkpoint_usage (session_id, owner_id, bytes)
				SELECT s.id, s.owner_id, $2 FROM sessions s WHERE s.id = $1
				ON CONFLICT (session_id) DO UPDATE SET bytes = checkpoint_usage.bytes + excluded.bytes`, due.SessionID, snapshot.Stored)
		}
	})

	return base, pg.Fault("record checkpoints", err)
}

// CheckpointBytes returns what the object store keeps of the checkpoints of a session, and
// of all sessions and published apps of its owner.
func (s *Store) CheckpointBytes(ctx context.Context, sessionID domain.SessionID) (session, owner int64, err error) {
	err = s.db.Pool.QueryRow(ctx, `
		SELECT coalesce(sum(u.bytes) FILTER (WHERE u.session_id = s.id), 0)::bigint,
		       (coalesce(sum(u.bytes), 0)
		        + (SELECT coalesce(sum(k.bytes), 0) FROM sessions o JOIN app_copies k ON k.owner_id = o.owner_id WHERE o.id = $1))::bigint
		FROM   sessions s JOIN checkpoint_usage u ON u.owner_id = s.owner_id WHERE s.id = $1`, sessionID).Scan(&session, &owner)

	return session, owner, pg.Fault("sum up checkpoints", err)
}

// FailCaptures gives up the files of checkpoints, with the reason. They stay
// points of the conversation.
func (s *Store) FailCaptures(ctx context.Context, owner string, ids []string, reason string) error {
	_, err := s.db.Pool.Exec(ctx, `
		UPDATE checkpoints SET state = 'failed', failure = left($2, 1000), lease_owner = NULL, lease_until = NULL
		WHERE  id = ANY($1) AND state = 'pending' AND lease_owner = $3`, ids, reason, owner)

	return pg.Fault("give up checkpoints", err)
}

// LeaveCaptures gives checkpoints back, for the try of another worker.
func (s *Store) LeaveCaptures(ctx context.Context, owner string, ids []string) error {
	_, err := s.db.Pool.Exec(ctx, `
		UPDATE checkpoints SET lease_owner = NULL, lease_until = NULL
		WHERE  id = ANY($2) AND lease_owner = $1 AND state = 'pending'`, owner, ids)

	return pg.Fault("leave checkpoints", err)
}

// DelayCaptures records why files of checkpoints are not stored yet. Others do not wait for
// them (they are not held), but take them up only once the lease has expired. The owner of
// the lease stays, by which a later look knows that tools may have run since. With false
// another process has taken them, or the session is deleted.
func (s *Store) DelayCaptures(ctx context.Context, owner string, ids []string, reason string) (held bool, err error) {
	tag, err := s.db.Pool.Exec(ctx, `
		UPDATE checkpoints k SET failure = left($3, 1000) FROM sessions s
		WHERE  k.id = ANY($2) AND k.lease_owner = $1 AND k.state = 'pending' AND s.id = k.session_id AND s.deleted_at IS NULL`,
		owner, ids, reason)

	return tag.RowsAffected() > 0, pg.Fault("delay checkpoints", err)
}

// forgottenBatch is how many sessions ForgottenCaptures returns at most.
const forgottenBatch = 50

// ForgottenCaptures returns sessions, in the order of their ids and after one, with
// checkpoints that were due for longer than age and that no process has in hand.
func (s *Store) ForgottenCaptures(ctx context.Context, age time.Duration, after string) ([]domain.SessionID, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT DISTINCT k.session_id FROM checkpoints k JOIN sessions s ON s.id = k.session_id
		WHERE  k.session_id > $2 AND k.created_at < now() - $1::interval AND (k.lease_until IS NULL OR k.lease_until < now())
		AND    s.deleted_at IS NULL AND `+conversation.CaptureDue+` ORDER BY k.session_id LIMIT $3`, age, after, forgottenBatch)
	sessions, err := pgx.CollectRows(rows, pgx.RowTo[domain.SessionID])

	return sessions, pg.Fault("look for checkpoints that were left", err)
}
