package conversation

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// SessionRun gives what a run of the owner's session is started with; an empty
// owner means that the caller was authorised otherwise.
func (db *Base) SessionRun(ctx context.Context, ownerID string, sessionID domain.SessionID) (domain.SessionRun, error) {
	run := domain.SessionRun{SessionID: sessionID}

	err := db.Pool.QueryRow(ctx, `
		SELECT owner_id, coalesce(solution_id, ''), parent_run, model FROM sessions
		WHERE  id = $1 AND ($2 = '' OR owner_id = $2) AND deleted_at IS NULL`, sessionID, ownerID).
		Scan(&run.OwnerID, &run.SolutionID, &run.ParentRun, &run.Model)
	if errors.Is(err, pgx.ErrNoRows) {
		return run, domain.SessionNotFound(sessionID)
	}

	return run, pg.Fault("read session", err)
}

// wakeKept is how long an ended chat asks for its run to be woken: the next run of
// the session clears the flag, so an older one is of a session that has none.
const wakeKept = time.Hour

// StalledSessions returns sessions with work older than age that no run has taken: a
// queued message while no chat runs, or a waiting chat that was resolved. Their wake was
// lost. It returns at most limit of them, in the order of their ids and after the given
// one. It reads the messages that wait, of all sessions, and none that was taken.
func (db *Base) StalledSessions(ctx context.Context, age time.Duration, after string, limit int) ([]domain.SessionID, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT session_id FROM (
			(SELECT DISTINCT i.session_id
			 FROM   inbox i JOIN sessions s ON s.id = i.session_id
			 WHERE  i.session_id > $2 AND i.state = 'queued' AND i.kind = 'message' AND i.created_at < now() - $1::interval
			 AND    s.active_chat_id IS NULL AND s.operation_id IS NULL AND s.deleted_at IS NULL
			 AND    NOT EXISTS (SELECT 1 FROM chats c WHERE c.session_id = s.id AND c.state = 'parked')
			 ORDER  BY i.session_id LIMIT $3)
			UNION
			(SELECT DISTINCT c.session_id FROM chats c JOIN sessions s ON s.id = c.session_id
			 WHERE  c.session_id > $2 AND c.wake_pending AND s.deleted_at IS NULL
			 AND    (c.state IN ('running', 'parked') OR c.ended_at > now() - $4::interval)
			 ORDER  BY c.session_id LIMIT $3)
		) stalled ORDER BY session_id LIMIT $3`, age, after, limit, wakeKept)
	stalled, err := pgx.CollectRows(rows, pgx.RowTo[domain.SessionID])

	return stalled, pg.Fault("look for sessions to wake", err)
}

// UndeliveredStops returns the running chats whose stop was requested, at most limit of
// them, in the order of their ids and after the given one.
func (db *Base) UndeliveredStops(ctx context.Context, after string, limit int) ([]domain.OpenChat, error) {
	return db.openChats(ctx, `c.stop_requested`, after, limit)
}

// RunningChats returns the chats that should have an open run and have shown no sign
// of life for longer than age, at most limit of them, in the order of their ids and
// after the given one. Chats that wait for an answer need no run: their answer
// starts one. Replays start theirs themselves.
//
// A heartbeat is what a chat writes anyway: its newest turn started or ended, the
// lease of a running call was renewed, or the next try of its model call is due
// later.
func (db *Base) RunningChats(ctx context.Context, age time.Duration, after string, limit int) ([]domain.OpenChat, error) {
	return db.openChats(ctx, `
		c.started_at < now() - $3::interval AND (c.waiting_until IS NULL OR c.waiting_until < now() - $3::interval)
		AND coalesce((
			SELECT coalesce(e.ended_at, e.started_at) FROM entries e
			WHERE  e.chat_id = c.id AND e.loop_id = 'root' ORDER BY e.step DESC LIMIT 1), '-infinity') < now() - $3::interval
		AND NOT EXISTS (SELECT 1 FROM tool_calls t WHERE t.chat_id = c.id AND t.status = 'pending' AND t.lease_until > now())`,
		after, limit, age)
}

// openChats lists running chats of sessions that are not replays; parameters of the
// condition start at $3.
func (db *Base) openChats(ctx context.Context, where, after string, limit int, args ...any) ([]domain.OpenChat, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT c.id, c.session_id, c.state, coalesce(c.workflow_id, '') AS workflow_id, coalesce(c.run_id, '') AS run_id,
		       coalesce(c.started_at, c.created_at) AS started_at
		FROM   chats c
		WHERE  c.state = 'running' AND c.trigger <> 'replay' AND c.id > $1 AND `+where+`
		ORDER  BY c.id LIMIT $2`, append([]any{after, limit}, args...)...)
	chats, err := pgx.CollectRows(rows, pgx.RowToStructByName[domain.OpenChat])

	return chats, pg.Fault("look for running chats", err)
}

// Load counts what is under way: chats by state, queued messages and events
// that are not published yet.
func (db *Base) Load(ctx context.Context) (chats map[string]int, queued, unpublished int, err error) {
	chats = map[string]int{"running": 0, "parked": 0}

	var batch pgx.Batch
	batch.Queue(`SELECT state, count(*) FROM chats WHERE state IN ('running', 'parked') GROUP BY state`).
		Query(func(rows pgx.Rows) error {
			var (
				state string
				n     int
			)

			_, err := pgx.ForEachRow(rows, []any{&state, &n}, func() error {
				chats[state] = n
				return nil
			})

			return err
		})
	batch.Queue(`SELECT (SELECT count(*) FROM inbox WHERE state = 'queued'), (SELECT count(*) FROM outbox WHERE seq IS NULL)`).
		QueryRow(func(row pgx.Row) error { return row.Scan(&queued, &unpublished) })
	err = db.Pool.SendBatch(ctx, &batch).Close()

	return chats, queued, unpublished, pg.Fault("count what is under way", err)
}

// PruneInbox empties messages that were taken or cancelled: their content is in the
// conversation, or was dropped. Their rows stay with their session, so that the same
// client_message_id is known again. It empties at most limit of them in one transaction
// and returns how many it emptied.
func (db *Base) PruneInbox(ctx context.Context, limit int) (int64, error) {
	return db.Prune(ctx, "empty taken messages", `
		UPDATE inbox SET parts = '[]' WHERE id = ANY (ARRAY (
			SELECT id FROM inbox WHERE state <> 'queued' AND parts <> '[]' ORDER BY id LIMIT $1))`, limit)
}
