package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
)

// SessionRun gives what a run of the owner's session is started with; an empty
// owner means that the caller was authorised otherwise.
func (db *DB) SessionRun(ctx context.Context, ownerID, sessionID string) (domain.SessionRun, error) {
	run := domain.SessionRun{SessionID: sessionID}
	err := db.Pool.QueryRow(ctx, `
		SELECT owner_id, coalesce(solution_id, ''), left(intent, 100), model FROM sessions
		WHERE  id = $1 AND ($2 = '' OR owner_id = $2) AND deleted_at IS NULL`, sessionID, ownerID).
		Scan(&run.OwnerID, &run.SolutionID, &run.Title, &run.Model)
	if errors.Is(err, pgx.ErrNoRows) {
		return run, domain.SessionNotFound(sessionID)
	}
	return run, fault("read session", err)
}

// Asleep gives the sessions in which something waits for longer than age that a
// run should have taken up: a queued message while no chat runs, or a parked
// chat that was resolved. Their wake was lost.
func (db *DB) Asleep(ctx context.Context, age time.Duration) ([]string, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT DISTINCT i.session_id
		FROM   inbox i JOIN sessions s ON s.id = i.session_id
		WHERE  i.state = 'queued' AND i.kind = 'message' AND i.created_at < now() - $1::interval
		AND    s.active_chat_id IS NULL AND s.operation_id IS NULL AND s.deleted_at IS NULL
		AND    NOT EXISTS (SELECT 1 FROM chats c WHERE c.session_id = s.id AND c.state = 'parked')
		UNION
		SELECT c.session_id FROM chats c JOIN sessions s ON s.id = c.session_id
		WHERE  c.wake_pending AND s.deleted_at IS NULL`, age)
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// UnheardStops gives the running chats whose stop was requested.
func (db *DB) UnheardStops(ctx context.Context) ([]domain.OpenChat, error) {
	return db.openChats(ctx, `state = 'running' AND stop_requested AND trigger <> 'replay'`)
}

// RunningChats gives the chats that should have an open run, but for those of
// the last moments. Parked ones need none: their answer starts one. Replays see to
// theirs themselves.
func (db *DB) RunningChats(ctx context.Context, age time.Duration) ([]domain.OpenChat, error) {
	return db.openChats(ctx, `state = 'running' AND started_at < now() - $1::interval AND trigger <> 'replay'`, age)
}

func (db *DB) openChats(ctx context.Context, where string, args ...any) ([]domain.OpenChat, error) {
	rows, _ := db.Pool.Query(ctx, `
		SELECT id, session_id, state, coalesce(workflow_id, '') AS workflow_id, coalesce(run_id, '') AS run_id,
		       coalesce(started_at, created_at) AS started_at
		FROM   chats WHERE `+where+` ORDER BY id`, args...)
	return pgx.CollectRows(rows, pgx.RowToStructByName[domain.OpenChat])
}

// Load counts what is under way: chats by state, queued messages and events
// that are not published yet.
func (db *DB) Load(ctx context.Context) (chats map[string]int, queued, unpublished int, err error) {
	chats = map[string]int{"running": 0, "parked": 0}
	var batch pgx.Batch
	batch.Queue(`SELECT state, count(*) FROM chats WHERE state IN ('running', 'parked') GROUP BY state`).
		Query(func(rows pgx.Rows) error {
			var state string
			var n int
			_, err := pgx.ForEachRow(rows, []any{&state, &n}, func() error {
				chats[state] = n
				return nil
			})
			return err
		})
	batch.Queue(`SELECT (SELECT count(*) FROM inbox WHERE state = 'queued'), (SELECT count(*) FROM outbox)`).
		QueryRow(func(row pgx.Row) error { return row.Scan(&queued, &unpublished) })
	err = db.Pool.SendBatch(ctx, &batch).Close()
	return chats, queued, unpublished, fault("count what is under way", err)
}
