package sessions

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/prodagent"
	"everloop/infra/postgres/pg"
)

// workersGone reports that there were workers, and that none has reported for 20
// seconds: a worker reports every five.
const workersGone = `coalesce((SELECT max(w.seen_at) FROM workers w) < now() - interval '20 seconds', false)`

// ReportWorker records that a worker takes work, and deletes workers that have not reported
// for a day. The first worker that announces a provider and a name creates their runtime. A
// worker without a provider belongs to the built-in runtime.
func (db *Base) ReportWorker(ctx context.Context, in prodagent.WorkerReport) error {
	if in.Provider == "" {
		in.Provider, in.Name, in.Mode = prodagent.BuiltinRuntime, prodagent.BuiltinRuntime, prodagent.RuntimeBuiltin
	}

	_, err := db.Pool.Exec(ctx, `
		WITH forgotten AS (DELETE FROM workers WHERE seen_at < now() - interval '1 day' AND id <> @id),
		runtime AS (
			INSERT INTO agent_runtimes AS r (id, provider, name, mode, version, device, last_seen_at)
			VALUES (@runtime, @provider, @name, @mode, @version, @device, now())
			ON CONFLICT (provider, name) DO UPDATE
			SET mode = excluded.mode, version = excluded.version, device = excluded.device, last_seen_at = now()
			RETURNING r.id)
		INSERT INTO workers (id, runtime_id, slots, used) SELECT @id, id, @slots, @used FROM runtime
		ON CONFLICT (id) DO UPDATE
		SET seen_at = now(), runtime_id = excluded.runtime_id, slots = excluded.slots, used = excluded.used, draining_at = NULL`,
		pgx.NamedArgs{
			"id": in.ID, "runtime": domain.NewID(), "provider": in.Provider, "name": in.Name, "mode": in.Mode, "version": in.Version,
			"device": in.Device, "slots": in.Slots, "used": in.Used,
		})

	return pg.Fault("report a worker", err)
}

// ReportWorkerStopped records that a worker takes no more work, and ends what it has
// started. Its row stays, as it may be the last one.
func (db *Base) ReportWorkerStopped(ctx context.Context, id string) error {
	_, err := db.Pool.Exec(ctx, `UPDATE workers SET seen_at = 'epoch', draining_at = now() WHERE id = $1`, id)
	return pg.Fault("report a stopped worker", err)
}

// waitingPage bounds how many sessions one transaction reports: it locks them all.
const waitingPage = 100

// ReportWaiting publishes session:updated for sessions whose waiting reason becomes
// worker_missing, or is it no longer. Nothing that happens in a session brings this change.
func (s *Store) ReportWaiting(ctx context.Context) error {
	for after := ""; ; {
		rows, _ := s.Pool.Query(ctx, `
			SELECT s.id FROM sessions s
			WHERE  s.id > $1 AND s.deleted_at IS NULL AND s.id IN (
				SELECT session_id FROM chats WHERE state = 'running' AND `+workersGone+`
				UNION SELECT i.session_id FROM inbox i JOIN sessions q ON q.id = i.session_id AND q.active_chat_id IS NULL
				      WHERE i.state = 'queued' AND (i.created_at < now() - interval '5 seconds' OR `+workersGone+`)
				UNION SELECT id FROM sessions WHERE waiting_reported = 'worker_missing')
			AND    (`+ComputedWaiting+` = 'worker_missing') <> (coalesce(s.waiting_reported, 'none') = 'worker_missing')
			ORDER  BY s.id LIMIT $2`, after, waitingPage)

		changed, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return pg.Fault("look for sessions without a worker", err)
		}

		if _, err := s.reportWaiting(ctx, changed); err != nil { // the next look finds those that were locked
			return err
		}

		if len(changed) < waitingPage {
			return nil
		}

		after = changed[waitingPage-1]
	}
}

// ReportChanged publishes session:updated for the sessions that this process has changed and
// whose waiting reason was not reported with the change: a chat that goes from its model to
// tools and back. Reasons that came and went between two calls are not reported.
func (s *Store) ReportChanged(ctx context.Context) error {
	ids := s.ChangedSessions()

	for len(ids) > 0 {
		page := ids[:min(len(ids), waitingPage)]

		left, err := s.reportWaiting(ctx, page)
		if err != nil {
			s.KeepChanged(ids)
			return err
		}

		s.KeepChanged(left)

		ids = ids[len(page):]
	}

	return nil
}

// reportWaiting publishes session:updated for the sessions whose waiting reason differs from
// the last one reported. It skips locked sessions and returns them in left.
func (s *Store) reportWaiting(ctx context.Context, ids []string) (left []string, err error) {
	rows, _ := s.Pool.Query(ctx, `
		SELECT s.id FROM sessions s
		WHERE  s.id = ANY ($1) AND s.deleted_at IS NULL AND `+ComputedWaiting+` <> coalesce(s.waiting_reported, 'none')`, ids)

	left, err = pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(left) == 0 {
		return nil, pg.Fault("look at what sessions wait for", err)
	}

	var locked []string

	err = s.Update(ctx, func(tx *pg.Tx) error {
		rows, _ := tx.Query(ctx, `
			SELECT id FROM sessions WHERE id = ANY ($1) AND deleted_at IS NULL ORDER BY id FOR NO KEY UPDATE SKIP LOCKED`, left)

		var err error
		if locked, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return err
		}

		return emitWaiting(ctx, tx, locked)
	})
	if err != nil {
		return nil, pg.Fault("report what sessions wait for", err)
	}

	return slices.DeleteFunc(left, func(id string) bool { return slices.Contains(locked, id) }), nil
}

// emitWaiting emits session:updated for those of the locked sessions whose waiting reason is
// not the one that was reported last.
func emitWaiting(ctx context.Context, tx *pg.Tx, ids []string) error {
	rows, _ := tx.Query(ctx, `
		UPDATE sessions s SET waiting_reported = nullif(now.reason, 'none')
		FROM   (SELECT s.id, `+ComputedWaiting+` AS reason, `+computedQueue+` AS queued FROM sessions s WHERE s.id = ANY ($1)) now
		WHERE  s.id = now.id AND s.id = ANY ($1) AND now.reason <> coalesce(s.waiting_reported, 'none')
		RETURNING s.id, s.status, now.reason, s.intent, s.model, now.queued`, ids)

	var (
		id domain.SessionID
		u  domain.SessionUpdated
	)

	_, err := pgx.ForEachRow(rows, []any{&id, &u.Status, &u.WaitingReason, &u.Intent, &u.Model, &u.QueueLength}, func() error {
		return tx.Emit(id, "", domain.EventSessionUpdated, u)
	})

	return err
}
