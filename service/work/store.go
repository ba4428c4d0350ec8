package work

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/operator"
	"everloop/infra/postgres/pg"
	"everloop/internal/durable"
)

// Store reads the work of runs, and counts the runs that were lost.
type Store struct{ db *pg.DB }

// NewStore returns the store on a database.
func NewStore(db *pg.DB) *Store { return &Store{db} }

// Jobs reads the work of runs by kind and id. Deleted work is missing.
func (s *Store) Jobs(ctx context.Context, ids map[string][]string) ([]operator.Job, error) {
	var (
		batch pgx.Batch
		all   []operator.Job
	)

	for kind, of := range ids {
		sql, known := jobs[kind]
		if !known {
			continue
		}

		batch.Queue(sql, of).Query(func(rows pgx.Rows) error {
			page, err := pgx.CollectRows(rows, scanJob)
			all = append(all, page...)

			return err
		})
	}

	if batch.Len() == 0 {
		return nil, nil
	}

	err := s.db.Pool.SendBatch(ctx, &batch).Close()

	return all, pg.Fault("read the work of runs", err)
}

func scanJob(row pgx.CollectableRow) (j operator.Job, err error) {
	w := &j.Waiting

	err = row.Scan(&j.WorkflowID, &j.Open, &j.Status, &j.PartOf, &j.CreatedAt, &j.SessionID, &j.OwnerID, &j.Detail,
		&w.Reason, &w.On, &w.ID, &w.Since, &w.Until)
	if !j.Open || w.Reason == "none" {
		j.Waiting = operator.RunWait{Reason: "none"}
	}

	return j, err
}

// items reads work of a kind by its ids, in their order. Deleted work is missing.
func (s *Store) items(ctx context.Context, kind string, ids []string) ([]Item, error) {
	jobs, err := s.Jobs(ctx, map[string][]string{kind: ids})
	if err != nil {
		return nil, err
	}

	byID := make(map[string]operator.Job, len(jobs))
	for _, job := range jobs {
		_, id := durable.KindOfWorkflow(job.WorkflowID)
		byID[id] = job
	}

	items := make([]Item, 0, len(ids))

	for _, id := range ids {
		if job, exists := byID[id]; exists {
			items = append(items, Item{ID: id, Job: job})
		}
	}

	return items, nil
}

// OpenIDs lists the ids of open work of a kind that should have had a workflow for ten
// seconds, in their order and after one.
func (s *Store) OpenIDs(ctx context.Context, kind, after string, limit int) ([]string, error) {
	sql, known := open[kind]
	if !known {
		return nil, nil
	}

	rows, _ := s.db.Pool.Query(ctx, sql, after, limit)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])

	return ids, pg.Fault("list open work", err)
}

// Subject implements temporal.Subjects.
func (s *Store) Subject(ctx context.Context, kind, id string) (found durable.Attributes, err error) {
	sql, known := subjects[kind]
	if !known {
		return found, nil
	}

	err = s.db.Pool.QueryRow(ctx, sql, id).Scan(&found.SessionID, &found.OwnerID, &found.SolutionID, &found.ParentRun)
	if errors.Is(err, pgx.ErrNoRows) {
		return durable.Attributes{}, nil
	}

	return found, pg.Fault("read what a run works for", err)
}

// CountRestart counts that a run of a workflow was lost, once for each run, and returns how
// often that was. The count starts again an hour after the last loss. One process calls it
// at a time.
func (s *Store) CountRestart(ctx context.Context, workflowID, runID string) (count int, counted bool, err error) {
	err = s.db.Pool.QueryRow(ctx, `
		WITH was AS (SELECT run_id FROM work_restarts WHERE workflow_id = $1)
		INSERT INTO work_restarts AS w (workflow_id, run_id) VALUES ($1, $2)
		ON CONFLICT (workflow_id) DO UPDATE
		SET    run_id = $2,
		       restarts = CASE WHEN w.run_id = $2 THEN w.restarts
		                       WHEN w.restarted_at < now() - interval '1 hour' THEN 1 ELSE w.restarts + 1 END,
		       restarted_at = CASE WHEN w.run_id = $2 THEN w.restarted_at ELSE now() END
		RETURNING w.restarts, coalesce((SELECT was.run_id <> $2 FROM was), true)`, workflowID, runID).Scan(&count, &counted)

	return count, counted, pg.Fault("count a lost workflow", err)
}

// PruneRestarts deletes the counts of workflows that were last lost a day ago, at most limit.
func (s *Store) PruneRestarts(ctx context.Context, limit int) (int64, error) {
	return s.db.Prune(ctx, "delete counts of lost workflows", `
		DELETE FROM work_restarts WHERE workflow_id IN (
			SELECT workflow_id FROM work_restarts WHERE restarted_at < now() - interval '1 day' ORDER BY restarted_at LIMIT $1)`, limit)
}

// endCompaction fails a compaction that a client has requested, unless it has ended.
func (s *Store) endCompaction(ctx context.Context, id, reason string) error {
	_, err := s.db.Pool.Exec(ctx, `
		UPDATE compactions SET state = 'failed', ended_at = now(),
		       result = jsonb_build_object('compaction_id', id, 'status', 'failed', 'reason', $2::text)
		WHERE  id = $1 AND state = 'running' AND chat_id IS NULL`, id, reason)

	return pg.Fault("end a compaction", err)
}

// ClosedSessions returns the sessions of closed accounts that have a running chat without a
// requested stop, a chat that waits for input, or queued messages: at most limit of them, in
// the order of their ids and after the given one.
func (s *Store) ClosedSessions(ctx context.Context, after string, limit int) ([]domain.ClosedSession, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT s.id, s.owner_id
		FROM   (SELECT session_id FROM inbox WHERE state = 'queued'
		        UNION
		        SELECT session_id FROM chats WHERE trigger <> 'replay'
		        AND    (state = 'parked' OR state = 'running' AND NOT stop_requested)) w
		JOIN   sessions s ON s.id = w.session_id AND s.deleted_at IS NULL
		JOIN   users u ON u.id = s.owner_id AND u.closed
		WHERE  s.id > $1
		ORDER  BY s.id LIMIT $2`, after, limit)
	closed, err := pgx.CollectRows(rows, pgx.RowToStructByName[domain.ClosedSession])

	return closed, pg.Fault("list sessions of closed accounts", err)
}
