// Package operator reads what the work of workflow runs waits for, and which open work no
// run carries. It counts lost runs, and ends compactions, which have no other operation that
// ends them.
package operator

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain/operator"
	"everloop/infra/postgres/pg"
)

// Store reads the work of runs.
type Store struct{ db *pg.DB }

// New returns the store on a database.
func New(db *pg.DB) *Store { return &Store{db} }

// Jobs reads the work of runs by kind and id. Work that is gone is missing.
func (s *Store) Jobs(ctx context.Context, ids map[string][]string) ([]operator.Job, error) {
	var (
		batch pgx.Batch
		found []operator.Job
	)

	for kind, of := range ids {
		sql, known := jobs[kind]
		if !known {
			continue
		}

		batch.Queue(sql, of).Query(func(rows pgx.Rows) error {
			page, err := pgx.CollectRows(rows, scanJob)
			found = append(found, page...)

			return err
		})
	}

	if batch.Len() == 0 {
		return nil, nil
	}

	err := s.db.Pool.SendBatch(ctx, &batch).Close()

	return found, pg.Fault("read the work of runs", err)
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

// OpenWork lists work of a kind that is not over and should have a workflow for some
// time, in the order of ids and after the given one.
func (s *Store) OpenWork(ctx context.Context, kind, after string, limit int) ([]operator.Job, error) {
	sql, known := open[kind]
	if !known {
		return nil, nil
	}

	rows, _ := s.db.Pool.Query(ctx, sql, after, limit)

	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(ids) == 0 {
		return nil, pg.Fault("list open work", err)
	}

	return s.Jobs(ctx, map[string][]string{kind: ids})
}

// owners read the owner of the work $1, for the kinds whose workflows are not started with it.
var owners = map[string]string{
	"schedule": `SELECT t.owner_id FROM scheduled_runs r JOIN scheduled_tasks t ON t.id = r.task_id WHERE r.id = $1`,
	"issue":    `SELECT ` + issueRunOwner + ` FROM issue_runs r LEFT JOIN agent_instances a ON a.id = r.agent_id WHERE r.id = $1`,
	"dag":      `SELECT owner_id FROM dag_runs WHERE id = $1`,
}

// OwnerOfWork is the owner of the work that a run of a kind carries; empty: it is gone, or
// the kind has none here.
func (s *Store) OwnerOfWork(ctx context.Context, kind, id string) (owner string, err error) {
	sql, known := owners[kind]
	if !known {
		return "", nil
	}

	err = s.db.Pool.QueryRow(ctx, sql, id).Scan(&owner)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}

	return owner, pg.Fault("read the owner of a run", err)
}

// CountWorkRestart counts that a run of a workflow was lost, once for each run, and says how
// often that was. The count starts over an hour after the last loss. One process calls it
// at a time.
func (s *Store) CountWorkRestart(ctx context.Context, workflowID, runID string) (count int, counted bool, err error) {
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

// PruneWorkRestarts forgets counts of workflows that were last lost a day ago, at most limit.
func (s *Store) PruneWorkRestarts(ctx context.Context, limit int) (int64, error) {
	return s.db.Prune(ctx, "forget lost workflows", `
		DELETE FROM work_restarts WHERE workflow_id IN (
			SELECT workflow_id FROM work_restarts WHERE restarted_at < now() - interval '1 day' ORDER BY restarted_at LIMIT $1)`, limit)
}

// EndCompaction fails a compaction that a client has asked for. With false it is over.
func (s *Store) EndCompaction(ctx context.Context, id, reason string) (bool, error) {
	tag, err := s.db.Pool.Exec(ctx, `
		UPDATE compactions SET state = 'failed', ended_at = now(),
		       result = jsonb_build_object('compaction_id', id, 'status', 'failed', 'reason', $2::text)
		WHERE  id = $1 AND state = 'running' AND chat_id IS NULL`, id, reason)

	return err == nil && tag.RowsAffected() == 1, pg.Fault("end a compaction", err)
}
