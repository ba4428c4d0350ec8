package sessions

import (
	"context"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/infra/postgres/pg"
)

// workersGone says that there were workers, and that none has reported for 20
// seconds: a worker reports every five.
const workersGone = `coalesce((SELECT max(w.seen_at) FROM workers w) < now() - interval '20 seconds', false)`

// ReportWorkerStopped records that a worker takes no more work, and ends what it has
// begun. Its row stays, as it may be the last one.
func (db *Base) ReportWorkerStopped(ctx context.Context, id string) error {
	_, err := db.Pool.Exec(ctx, `UPDATE workers SET seen_at = 'epoch', draining_at = now() WHERE id = $1`, id)
	return pg.Fault("report a stopped worker", err)
}

// announced are the reasons that come with a change of the session, which says
// clients of them itself: its chat begins or ends, asks, or waits for its model.
var announced = map[string]bool{
	string(domain.WaitingNone): true, string(domain.WaitingQuestion): true, string(domain.WaitingPermission): true,
	string(domain.WaitingBudget): true, string(domain.WaitingModelDown): true, string(domain.WaitingRateLimit): true,
}

// waitingPage bounds how many sessions one look reports.
const waitingPage = 500

// ReportWaiting publishes session:updated for the sessions whose waiting reason has
// changed since the last look without a change of the session itself: a chat that
// goes from its model to tools and back, the last worker that goes and the first that
// comes back. Reasons that came and went between two looks are not seen.
func (s *Store) ReportWaiting(ctx context.Context) error {
	rows, _ := s.Pool.Query(ctx, `
		SELECT s.id FROM sessions s
		WHERE  s.deleted_at IS NULL AND s.id IN (
			SELECT session_id FROM chats WHERE state IN ('running', 'parked')
			UNION SELECT session_id FROM inbox WHERE state = 'queued'
			UNION SELECT id FROM sessions WHERE waiting_reported IS NOT NULL)
		AND    `+ComputedWaiting+` <> coalesce(s.waiting_reported, 'none')
		LIMIT  $1`, waitingPage)

	changed, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return pg.Fault("look at what sessions wait for", err)
	}

	for _, id := range changed {
		err := s.Update(ctx, func(tx *pg.Tx) error { return reportWaiting(ctx, tx, domain.SessionID(id)) })
		if err != nil && !domain.HasCode(err, domain.CodeSessionNotFound) {
			return pg.Fault("report what a session waits for", err)
		}
	}

	return nil
}

func reportWaiting(ctx context.Context, tx *pg.Tx, sessionID domain.SessionID) error {
	if _, err := Lock(ctx, tx, sessionID, ""); err != nil {
		return err
	}

	var before, now string

	err := tx.QueryRow(ctx, `
		WITH seen AS (SELECT s.id, coalesce(s.waiting_reported, 'none') AS before,
		    `+ComputedWaiting+` AS now FROM sessions s WHERE s.id = $1)
		UPDATE sessions s SET waiting_reported = nullif(seen.now, 'none') FROM seen WHERE s.id = seen.id
		RETURNING seen.before, seen.now`, sessionID).Scan(&before, &now)
	if err != nil || before == now || announced[now] {
		return err
	}

	begun := announced[before] && (now == string(domain.WaitingModel) || now == string(domain.WaitingQueued))
	if begun {
		return nil // the message, the chat or its next try was published
	}

	return EmitUpdated(ctx, tx, sessionID)
}
