// Package dagruns stores runs of DAGs. Each step of a run is one transaction under the
// lock of the run, in which domain/dagrun decides.
package dagruns

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/dagrun"
	"everloop/domain/production"
	"everloop/infra/postgres/pg"
)

// Store reads and writes runs of DAGs. Those of solutions that a caller cannot see do not
// exist.
type Store struct{ db *pg.DB }

// New returns the store on a database.
func New(db *pg.DB) *Store { return &Store{db} }

// NotFound is the error for a run that is missing or another user's.
func NotFound(id string) *domain.Error {
	return domain.Newf(domain.NotFound, "dag_run_not_found", "run %s does not exist", id)
}

// CreateDAGRun stores a run with its nodes. A user who has MaxOpenRuns that are not over
// gets dag_run_limit; subflows do not count. A run that is there already stays.
func (s *Store) CreateDAGRun(ctx context.Context, in dagrun.New) error {
	err := s.db.InTx(ctx, func(tx pgx.Tx) error {
		if err := mayCreate(ctx, tx, in); err != nil {
			return err
		}

		tag, err := tx.Exec(ctx, `
			INSERT INTO dag_runs (id, solution_id, owner_id, version, trigger, inputs, parent_run, depth)
			VALUES ($1, $2, $3, $4, $5, $6, nullif($7, ''), $8) ON CONFLICT (id) DO NOTHING`,
			in.ID, in.SolutionID, in.OwnerID, in.Version, in.Trigger, string(in.Inputs), in.ParentRun, in.Depth)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}

		if _, err := graphOf(ctx, tx, in.SolutionID, in.Version); err != nil {
			return err // its version was deleted meanwhile
		}

		return addNodes(ctx, tx, in.ID, in.Nodes)
	})
	if pg.HasState(err, "23503") { // the parent run is gone
		return NotFound(in.ParentRun)
	}

	return pg.Fault("create a DAG run", err)
}

// mayCreate locks the owner of a run and checks that they may begin one more. The statement
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

// ClaimDAGUnit reads what a unit needs to begin, or to be stopped. With false there is
// nothing to do any more.
func (s *Store) ClaimDAGUnit(ctx context.Context, unitID string, stop bool) (work dagrun.UnitWork, found bool, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		var (
			request *string
			version int
		)

		row := tx.QueryRow(ctx, `
			SELECT n.id, n.node_id, n.item, n.phase, n.attempt, coalesce(n.session_id, ''), coalesce(n.child_id, ''), n.request,
			       coalesce((SELECT k.solution_id FROM dag_runs k WHERE k.id = n.child_id), ''), r.id, r.solution_id, r.owner_id,
			           r.version, r.depth
			FROM   dag_run_nodes n JOIN dag_runs r ON r.id = n.run_id JOIN users o ON o.id = r.owner_id
			WHERE  n.id = $1 AND ($2 OR NOT o.closed) AND (
			       n.stop = $2 AND ($2 OR n.status = 'running' AND NOT n.begun AND n.rejected_code IS NULL))`, unitID, stop)
		u, r := &work.Unit, &work.Run

		err := row.Scan(&u.ID, &u.NodeID, &u.Item, &u.Phase, &u.Attempt, &u.SessionID, &u.ChildID, &request, &work.ChildSolution,
			&r.ID, &r.SolutionID, &r.OwnerID, &version, &r.Depth)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}

		if err != nil {
			return err
		}

		found, r.Version = true, version

		if stop {
			return cancelSends(ctx, tx, work.Unit)
		}

		if request != nil {
			u.Request = &dagrun.Request{}
			if err := json.Unmarshal([]byte(*request), u.Request); err != nil {
				return fmt.Errorf("read a request: %w", err)
			}
		}

		graph, err := graphOf(ctx, tx, r.SolutionID, version)
		if err != nil {
			return err
		}

		work.Node = nodeOf(graph, u.NodeID)

		return nil
	})

	return work, found, pg.Fault("claim a node of a DAG run", err)
}

// cancelSends refuses the messages of a unit's attempt that a worker may still send. Its
// session has no other ones.
func cancelSends(ctx context.Context, tx pgx.Tx, u dagrun.Unit) error {
	if u.SessionID == "" {
		return nil
	}

	for _, phase := range []dagrun.Phase{dagrun.PhaseApproval, dagrun.PhaseWork} {
		u.Phase = phase
		if _, _, err := pg.CancelSend(ctx, tx, u.SessionID, u.MessageID()); err != nil {
			return err
		}
	}

	return nil
}

func nodeOf(graph dag.Graph, id string) dag.Node {
	for _, n := range graph.Nodes {
		if n.ID == id {
			return n
		}
	}

	return dag.Node{}
}

// DAGUnitBegan records the chat, or the start of the subflow, of a unit's attempt, under
// the lock of its run. With false it was ended meanwhile, and what it began has to be
// stopped.
func (s *Store) DAGUnitBegan(ctx context.Context, unitID string, attempt int, chatID domain.ChatID) (goesOn bool, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			SELECT 1 FROM dag_runs WHERE id = (SELECT run_id FROM dag_run_nodes WHERE id = $1) FOR UPDATE`, unitID)
		if err != nil {
			return err
		}

		tag, err := tx.Exec(ctx, `
			UPDATE dag_run_nodes SET begun = true, chat_id = nullif($3, '')
			WHERE  id = $1 AND attempt = $2 AND status = 'running' AND NOT superseded`, unitID, attempt, chatID)
		goesOn = err == nil && tag.RowsAffected() == 1

		return err
	})

	return goesOn, pg.Fault("begin a node of a DAG run", err)
}

// RejectDAGUnit records that the message of a unit's attempt was rejected.
func (s *Store) RejectDAGUnit(ctx context.Context, unitID string, attempt int, code, message string) error {
	_, err := s.db.Pool.Exec(ctx, `
		UPDATE dag_run_nodes SET rejected_code = $3, rejected = $4 WHERE id = $1 AND attempt = $2 AND status = 'running' AND NOT begun`,
		unitID, attempt, code, message)

	return pg.Fault("reject a node of a DAG run", err)
}

// DAGUnitStopped records that what a unit had started is stopped.
func (s *Store) DAGUnitStopped(ctx context.Context, unitID string) error {
	_, err := s.db.Pool.Exec(ctx, `UPDATE dag_run_nodes SET stop = false WHERE id = $1`, unitID)
	return pg.Fault("stop a node of a DAG run", err)
}

// CancelDAGRun asks for the end of a run. With false it is over already.
func (s *Store) CancelDAGRun(ctx context.Context, runID string) (bool, error) {
	tag, err := s.db.Pool.Exec(ctx, `UPDATE dag_runs SET cancel = true WHERE id = $1 AND finished_at IS NULL`, runID)
	return err == nil && tag.RowsAffected() == 1, pg.Fault("cancel a DAG run", err)
}

// CancelDAGRunsOf asks for the end of all runs of a production solution, with the subflows
// in them, and archives it, so that no other begins. It returns those that are not over, and
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

// CountDAGAdvance counts a failed attempt to advance a run and returns how many there were
// since its last step.
func (s *Store) CountDAGAdvance(ctx context.Context, runID string) (failed int, err error) {
	err = s.db.Pool.QueryRow(ctx, `
		UPDATE dag_runs SET advances = advances + 1 WHERE id = $1 AND finished_at IS NULL RETURNING advances`, runID).Scan(&failed)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}

	return failed, pg.Fault("count the attempts of a DAG run", err)
}

// FailDAGRun ends a run as failed, whatever its nodes do, for an administrator. What they
// have started is yet to be stopped. With false it is over already.
func (s *Store) FailDAGRun(ctx context.Context, runID, code, message string) (open bool, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		open = false

		row, err := lockRun(ctx, tx, runID)
		if errors.Is(err, pgx.ErrNoRows) {
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
			SET    status = 'failed', error_code = $2, error_message = $3, wake_at = NULL, finished_at = clock_timestamp()
			WHERE  id = $1`, runID, code, message)

		if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
			return err
		}

		return notify(ctx, tx, runID, row.status, dagrun.Failed)
	})

	return open, pg.Fault("fail a DAG run", err)
}

// RetryDAGRun has a run that failed begin again. Its outputs can be used again.
func (s *Store) RetryDAGRun(ctx context.Context, runID string, retry dagrun.Retry) error {
	err := s.db.InTx(ctx, func(tx pgx.Tx) error {
		row, err := lockRun(ctx, tx, runID)
		if errors.Is(err, pgx.ErrNoRows) {
			return NotFound(runID)
		}

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
		       finished_at = NULL, wake_at = NULL, retries = retries + 1, advances = 0
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
		    WHERE run_id = $1`,
		runID, append([]string{}, retry.Kept...), barred)

	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return err
	}

	return addNodes(ctx, tx, runID, retry.Nodes)
}

// StalledDAGRuns lists runs that should have moved some seconds ago.
func (s *Store) StalledDAGRuns(ctx context.Context, after string, limit int) ([]dagrun.Ref, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		WITH due AS MATERIALIZED ( -- by the partial indexes: runs that are over are not read
			SELECT id FROM dag_runs WHERE finished_at IS NULL AND id > $1
			UNION
			SELECT r.id FROM dag_run_nodes n JOIN dag_runs r ON r.id = n.run_id
			WHERE  n.stop AND n.run_id > $1 AND r.finished_at > now() - interval '1 day')
		SELECT r.id, r.solution_id FROM due JOIN dag_runs r ON r.id = due.id
		WHERE  r.created_at < now() - interval '10 seconds'
		AND    (r.status = 'pending' OR r.cancel OR r.wake_at < now() - interval '10 seconds' OR EXISTS (
			SELECT 1 FROM dag_run_nodes n
			LEFT   JOIN chats c ON c.id = n.chat_id
			LEFT   JOIN dag_runs k ON k.id = n.child_id
			WHERE  n.run_id = r.id AND (n.stop OR NOT n.superseded AND (n.rejected_code IS NOT NULL AND n.status = 'running'
			OR     n.status = 'running' AND (n.session_id IS NOT NULL OR n.child_id IS NOT NULL) AND (
				NOT n.begun OR c.state = 'ended' AND c.ended_at < now() - interval '10 seconds'
				OR n.chat_id IS NOT NULL AND c.id IS NULL OR k.finished_at < now() - interval '10 seconds')))))
		ORDER  BY r.id LIMIT $2`, after, limit)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[dagrun.Ref])

	return found, pg.Fault("list stalled DAG runs", err)
}

// OpenDAGRuns lists runs that are not over and began some seconds ago.
func (s *Store) OpenDAGRuns(ctx context.Context, after string, limit int) ([]dagrun.Ref, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT id, solution_id FROM dag_runs
		WHERE  finished_at IS NULL AND id > $1 AND created_at < now() - interval '10 seconds' ORDER BY id LIMIT $2`, after, limit)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[dagrun.Ref])

	return found, pg.Fault("list open DAG runs", err)
}

// PruneDAGRuns removes runs that have been over for 90 days, and of each solution all but
// the newest that are over, at most limit of them. A run of many nodes takes its time, so
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
