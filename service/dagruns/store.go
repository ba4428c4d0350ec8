package dagruns

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/dagrun"
	"everloop/domain/production"
	"everloop/domain/webhook"
	"everloop/infra/postgres/notify"
	"everloop/infra/postgres/pg"
)

// Store reads and writes runs of DAGs. Those of solutions that a caller cannot see do not
// exist.
type Store struct {
	db *pg.DB

	mu     sync.Mutex
	graphs map[string]dag.Graph // by solution and version
}

// NewStore returns the store on a database.
func NewStore(db *pg.DB) *Store { return &Store{db: db} }

// NotFound returns the error for a run that is missing or another user's.
func NotFound(id string) *domain.Error {
	return domain.Newf(domain.NotFound, dagrun.CodeRunNotFound, "run %s does not exist", id)
}

// CreateDAGRun stores a run with its nodes. A user who has MaxOpenRuns that are not over
// gets dag_run_limit; subflows do not count. A run that is there already stays.
func (s *Store) CreateDAGRun(ctx context.Context, in dagrun.New) error {
	err := s.db.InTx(ctx, func(tx pgx.Tx) error {
		if err := mayCreate(ctx, tx, in); err != nil {
			return err
		}

		tag, err := tx.Exec(ctx, `
			INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, inputs, parent_run, depth, node_id, started_by, waiter)
			VALUES ($1, $2, $3, $4, $5, $6, nullif($7, ''), $8, nullif($9, ''), nullif($10, ''), nullif($11, ''))
			ON CONFLICT (id) DO NOTHING`,
			in.ID, in.SolutionID, in.OwnerID, in.Version, in.Trigger, string(in.Inputs), in.ParentRun, in.Depth, in.NodeID, in.StartedBy,
			in.Waiter)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}

		if _, err := s.graphOf(ctx, tx, in.SolutionID, in.Version); err != nil {
			return err // its version was deleted in the meantime
		}

		if err := addNodes(ctx, tx, in.ID, in.Nodes); err != nil {
			return err
		}

		return pin(ctx, tx, in)
	})
	if pg.HasState(err, "23503") { // the parent run is gone
		return NotFound(in.ParentRun)
	}

	return pg.Fault("create a DAG run", err)
}

// mayCreate locks the owner of a run and checks that they may start one more. The statement
// that counts follows the lock: with the snapshot of the one that waits for it, parallel
// requests do not see each other's runs.
func mayCreate(ctx context.Context, tx pgx.Tx, in dagrun.New) error {
	var status production.SolutionStatus

	err := tx.QueryRow(ctx, `
		SELECT p.status FROM users u JOIN prod_solutions p ON p.id = $2 AND p.owner_id = u.id
		WHERE  u.id = $1 AND NOT u.closed FOR NO KEY UPDATE OF u`, in.OwnerID, in.SolutionID).Scan(&status)
	if errors.Is(err, pgx.ErrNoRows) {
		return production.NotFound(in.SolutionID)
	}

	if err == nil && status == production.SolutionArchived {
		err = domain.Newf(
			domain.Conflict,
			"prod_solution_archived",
			"the production solution is archived: change its status to draft first",
		)
	}

	if err != nil {
		return err
	}

	if in.ParentRun != "" {
		return parentWaits(ctx, tx, in)
	}

	var open int

	err = tx.QueryRow(ctx, `
		SELECT count(*) FROM dag_runs WHERE owner_id = $1 AND finished_at IS NULL AND parent_run IS NULL AND id <> $2`,
		in.OwnerID, in.ID).Scan(&open)
	if err == nil && open >= dagrun.MaxOpenRuns {
		err = domain.Newf(
			domain.Conflict,
			"dag_run_limit",
			"a user may have %d runs that are not over; cancel some first",
			dagrun.MaxOpenRuns,
		)
	}

	return err
}

// parentWaits refuses a subflow whose node was stopped before its run was created. The parent
// run is locked against the step that stops the node.
func parentWaits(ctx context.Context, tx pgx.Tx, in dagrun.New) error {
	if _, err := tx.Exec(ctx, `SELECT 1 FROM dag_runs WHERE id = $1 FOR KEY SHARE`, in.ParentRun); err != nil {
		return err
	}

	tag, err := tx.Exec(ctx, `
		SELECT 1 FROM dag_run_nodes WHERE run_id = $1 AND child_id = $2 AND status = 'running' AND NOT stop`, in.ParentRun, in.ID)
	if err == nil && tag.RowsAffected() == 0 {
		err = NotFound(in.ParentRun)
	}

	return err
}

func addNodes(ctx context.Context, tx pgx.Tx, runID string, nodes []string) error {
	ids := make([]string, len(nodes))
	for i := range nodes {
		ids[i] = domain.NewID()
	}

	_, err := tx.Exec(ctx, `
		INSERT INTO dag_run_nodes (id, run_id, solution_id, node_id)
		SELECT n.id, r.id, r.solution_id, n.node_id FROM dag_runs r, unnest($2::text[], $3::text[]) AS n (id, node_id) WHERE r.id = $1`,
		runID, ids, nodes)

	return err
}

// CancelDAGRun asks for the end of a run. With false it is over already.
func (s *Store) CancelDAGRun(ctx context.Context, runID string) (bool, error) {
	tag, err := s.db.Pool.Exec(ctx, `UPDATE dag_runs SET cancel = true WHERE id = $1 AND finished_at IS NULL`, runID)
	return err == nil && tag.RowsAffected() == 1, pg.Fault("cancel a DAG run", err)
}

// CancelDAGRunsOf asks for the end of all runs of a production solution, with the subflows
// in them, and archives it, so that no other starts. It returns those that are not over, and
// those that have yet to stop something, the outermost first.
func (s *Store) CancelDAGRunsOf(ctx context.Context, caller domain.User, solutionID string) (open []dagrun.Ref, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE prod_solutions SET status = 'archived' WHERE id = $1 AND owner_id = $2`, solutionID, caller.ID)
		if err != nil {
			return err
		}

		if tag.RowsAffected() == 0 {
			return cmp.Or(visible(ctx, tx, caller, solutionID), error(production.NotOwner()))
		}

		rows, _ := tx.Query(ctx, pg.UnfinishedRuns+`SELECT id, solution_id FROM unfinished ORDER BY depth, id`, solutionID)
		if open, err = pgx.CollectRows(rows, pgx.RowToStructByPos[dagrun.Ref]); err != nil || len(open) == 0 {
			return err
		}

		ids := make([]string, len(open))
		for i, run := range open {
			ids[i] = run.RunID
		}

		_, err = tx.Exec(ctx, `UPDATE dag_runs SET cancel = true WHERE id = ANY ($1) AND finished_at IS NULL`, ids)

		return err
	})

	return open, pg.Fault("cancel the DAG runs of a production solution", err)
}

// FailDAGRun ends a run as failed, whatever its nodes do, for an administrator. What they
// have started is yet to be stopped. With false it is over already.
func (s *Store) FailDAGRun(ctx context.Context, runID, code, message string) (open bool, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		open = false

		row, err := s.read(ctx, tx, runID, true)
		if domain.HasCode(err, dagrun.CodeRunNotFound) {
			return nil
		}

		if err != nil || row.status.Over() {
			return err
		}

		open = true

		var batch pgx.Batch
		batch.Queue(`
			UPDATE dag_run_nodes
			SET    stop = status = 'running' AND (session_id IS NOT NULL OR child_id IS NOT NULL), status = 'cancelled', phase = '',
			       due_at = NULL, deadline = NULL, finished_at = clock_timestamp()
			WHERE  run_id = $1 AND NOT superseded AND status IN ('pending', 'ready', 'running', 'waiting')`, runID)
		batch.Queue(`
			UPDATE dag_runs
			SET    status = 'failed', error_code = $2, error_message = $3, finished_at = clock_timestamp()
			WHERE  id = $1`, runID, code, message)

		if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
			return err
		}

		return notify.DAGRunEvent(ctx, tx, webhook.DAGRunFailed, runID)
	})

	return open, pg.Fault("fail a DAG run", err)
}

// RetryDAGRun has a run that failed start again. Its outputs can be used again.
func (s *Store) RetryDAGRun(ctx context.Context, runID string, retry dagrun.Retry) error {
	err := s.db.InTx(ctx, func(tx pgx.Tx) error {
		row, err := s.read(ctx, tx, runID, true)
		if err != nil {
			return err
		}

		if row.status != dagrun.Failed {
			return domain.Newf(domain.Conflict, "dag_run_not_failed", "the run is %s: only one that failed can be retried", row.status)
		}

		var kept int

		err = tx.QueryRow(ctx, `
			SELECT count(*) FROM dag_run_nodes
			WHERE  run_id = $1 AND NOT superseded AND item = -1 AND node_id = ANY ($2) AND status IN ('completed', 'reused')`,
			runID, retry.Kept).Scan(&kept)
		if err != nil {
			return err
		}

		if kept < len(retry.Kept) {
			return domain.Invalidf("body.keep_outputs_of", "names a node that has no output in this run")
		}

		return restart(ctx, tx, runID, retry)
	})

	return pg.Fault("retry a DAG run", err)
}

func restart(ctx context.Context, tx pgx.Tx, runID string, retry dagrun.Retry) error {
	barred := make([]string, 0, len(retry.Barred))
	for id := range retry.Barred {
		barred = append(barred, id)
	}

	var retries int

	err := tx.QueryRow(ctx, `
		UPDATE dag_runs
		SET    status = 'pending', version = $2, inputs = $3, outputs = NULL, error_code = NULL, error_message = NULL, cancel = false,
		       finished_at = NULL, output_bytes = 0, files = 0, file_bytes = 0, retries = retries + 1
		WHERE  id = $1 RETURNING retries`, runID, retry.Version, string(retry.Inputs)).Scan(&retries)
	if err != nil {
		return err
	}

	if retries > dagrun.MaxRetries {
		return domain.Newf(domain.Conflict, "dag_run_limit", "a run may be retried %d times", dagrun.MaxRetries)
	}

	var batch pgx.Batch
	// What has no output is of no use, and of two outputs of a node the newer one is.
	batch.Queue(`
		DELETE FROM dag_run_nodes n
		WHERE  run_id = $1 AND NOT stop AND (item >= 0 OR status NOT IN ('completed', 'reused') OR superseded AND EXISTS (
			SELECT 1 FROM dag_run_nodes m
			WHERE  m.run_id = $1 AND m.node_id = n.node_id AND m.item = -1 AND NOT m.superseded
			    AND m.status IN ('completed', 'reused')))`, runID)
	batch.Queue(`
		UPDATE dag_run_nodes SET superseded = true, kept = node_id = ANY ($2::text[]), barred = node_id = ANY ($3::text[])
		    WHERE run_id = $1 AND reuse_reason <> 'pinned'`,
		runID, append([]string{}, retry.Kept...), barred)

	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return err
	}

	return addNodes(ctx, tx, runID, retry.Nodes)
}

// StalledDAGRuns lists runs whose workflow must be started or cancelled again: they started
// some seconds ago and were not started, their end was requested, or they have ended and have
// yet to stop the work of their nodes.
func (s *Store) StalledDAGRuns(ctx context.Context, after string, limit int) ([]string, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		WITH due AS MATERIALIZED ( -- by the partial indexes: runs that are over are not read
			SELECT id FROM dag_runs WHERE finished_at IS NULL AND id > $1 AND (cancel OR status = 'pending')
			UNION
			SELECT r.id FROM dag_run_nodes n JOIN dag_runs r ON r.id = n.run_id
			WHERE  n.stop AND n.run_id > $1 AND r.finished_at > now() - interval '1 day')
		SELECT r.id FROM due JOIN dag_runs r ON r.id = due.id
		WHERE  r.created_at < now() - interval '10 seconds' ORDER BY r.id LIMIT $2`, after, limit)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])

	return ids, pg.Fault("list stalled DAG runs", err)
}

// CancelRequested reports whether the end of a run was requested that is not over.
func (s *Store) CancelRequested(ctx context.Context, runID string) (cancel bool, err error) {
	err = s.db.Pool.QueryRow(ctx, `SELECT coalesce(bool_or(cancel AND finished_at IS NULL), false) FROM dag_runs WHERE id = $1`, runID).
		Scan(&cancel)

	return cancel, pg.Fault("read a DAG run", err)
}

// PruneDAGRuns removes runs that have been over for 90 days, and of each solution all but
// the newest that have ended, at most limit of them. A run of many nodes takes its time, so
// that few should go in one transaction.
func (s *Store) PruneDAGRuns(ctx context.Context, limit int) (int64, error) {
	return s.db.Prune(ctx, "prune DAG runs", `
		DELETE FROM dag_runs WHERE id IN (
			(SELECT id FROM dag_runs WHERE finished_at < now() - interval '90 days' AND parent_run IS NULL ORDER BY finished_at LIMIT $2)
			UNION
			(SELECT d.id FROM prod_solutions p, LATERAL (
				SELECT id FROM dag_runs
				WHERE  solution_id = p.id AND finished_at IS NOT NULL AND parent_run IS NULL
				ORDER  BY id DESC OFFSET $1 LIMIT $2) d
			 LIMIT $2)
			LIMIT $2)`, dagrun.MaxKeptRuns, limit)
}
