package dagruns

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"everloop/domain"
	"everloop/domain/dagrun"
	"everloop/domain/production"
	"everloop/infra/postgres/pg"
)

// recordColumns give a dagrun.RunRecord of the row r.
var recordColumns = `
	r.id, r.solution_id, (SELECT p.name FROM prod_solutions p WHERE p.id = r.solution_id), r.version, r.node_id, r.trigger, r.status,
	r.inputs, r.outputs, r.error_code, coalesce(r.error_message, ''), r.parent_run, r.started_by, r.retries,
	r.created_at, r.started_at, r.finished_at,
	` + usedByRun() + `,
	CASE WHEN r.finished_at IS NULL THEN ARRAY (
		SELECT DISTINCT ` + pg.ReasonOfUnit + pg.OpenUnitsOf("r.id") + `) END`

func scanRecord(row pgx.CollectableRow) (dagrun.RunRecord, error) {
	var (
		r             dagrun.RunRecord
		inputs        string
		outputs, code *string
		message       string
		reasons       []string
	)

	into := []any{
		&r.ID,
		&r.ProdSolutionID,
		&r.SolutionName,
		&r.Version,
		&r.NodeID,
		&r.Trigger,
		&r.Status,
		&inputs,
		&outputs,
		&code,
		&message,
		&r.ParentRunID,
		&r.StartedBy,
		&r.Retries,
		&r.CreatedAt,
		&r.StartedAt,
		&r.FinishedAt,
	}
	err := row.Scan(append(append(into, usedFields(&r.Usage)...), &reasons)...)
	r.Usage = r.Usage.Shown()

	r.Inputs, r.Outputs, r.WaitingReason = raw(&inputs), raw(outputs), "none"
	if code != nil {
		r.Error = &dagrun.NodeFailure{Code: *code, Message: message}
	}

	if r.Status == dagrun.Running {
		r.Status, r.WaitingReason = waits(reasons)
	}

	return r, err
}

// waits reports whether a run waits, by the reasons of its open units: it does when none of
// them moves.
func waits(reasons []string) (dagrun.Status, string) {
	waits := map[string]bool{}
	for _, reason := range reasons {
		waits[reason] = true
	}

	switch {
	case len(reasons) == 0 || waits["none"]:
		return dagrun.Running, "none"
	case waits["question"], waits["approval"]:
		return dagrun.Waiting, "question"
	case waits["permission"]:
		return dagrun.Waiting, "permission"
	case waits["timer"]:
		return dagrun.Waiting, "timer"
	default:
		return dagrun.Waiting, "queued"
	}
}

// DAGRuns lists the runs of a solution, newest first, without subflows: a page, and how
// many there are.
func (s *Store) DAGRuns(
	ctx context.Context,
	caller domain.User,
	solutionID string,
	limit, offset int,
) (page []dagrun.RunRecord, total int, err error) {
	if err := visible(ctx, s.db.Pool, caller, solutionID); err != nil {
		return nil, 0, pg.Fault("read production solution", err)
	}

	var batch pgx.Batch
	batch.Queue(`
		SELECT `+recordColumns+` FROM dag_runs r
		WHERE  r.solution_id = $1 AND r.parent_run IS NULL ORDER BY r.id DESC LIMIT $2 OFFSET $3`, solutionID, limit, offset).
		Query(func(rows pgx.Rows) (err error) {
			page, err = pgx.CollectRows(rows, scanRecord)
			return err
		})
	batch.Queue(`SELECT count(*) FROM dag_runs WHERE solution_id = $1 AND parent_run IS NULL`, solutionID).
		QueryRow(func(row pgx.Row) error { return row.Scan(&total) })

	return page, total, pg.Fault("list DAG runs", s.db.Pool.SendBatch(ctx, &batch).Close())
}

func visible(ctx context.Context, q pg.Queryer, caller domain.User, solutionID string) error {
	rows, _ := q.Query(ctx, `SELECT true FROM prod_solutions WHERE id = $1 AND (owner_id = $2 OR $3)`,
		solutionID, caller.ID, caller.Administrator)

	_, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
	if errors.Is(err, pgx.ErrNoRows) {
		return production.NotFound(solutionID)
	}

	return err
}

// DAGRun reads a run of a solution.
func (s *Store) DAGRun(ctx context.Context, caller domain.User, solutionID, runID string) (dagrun.RunRecord, error) {
	if err := visible(ctx, s.db.Pool, caller, solutionID); err != nil {
		return dagrun.RunRecord{}, pg.Fault("read production solution", err)
	}

	rows, _ := s.db.Pool.Query(ctx, `SELECT `+recordColumns+` FROM dag_runs r WHERE r.solution_id = $1 AND r.id = $2`, solutionID, runID)

	found, err := pgx.CollectExactlyOneRow(rows, scanRecord)
	if errors.Is(err, pgx.ErrNoRows) {
		return found, NotFound(runID)
	}

	return found, pg.Fault("read a DAG run", err)
}

var nodeColumns = `
	n.node_id, n.id, n.item, n.attempt, n.status, ` + pg.ReasonOfUnit + `, n.session_id, n.child_id, n.inputs_digest,
	CASE WHEN $2 THEN n.output END, CASE WHEN $2 THEN n.files END, n.error_code, coalesce(n.error_message, ''), n.started_at, n.finished_at,
	n.reused_from, n.reuse_reason, ` + usedOf("n") + `,
	CASE WHEN n.child_id IS NOT NULL AND n.status = 'running' THEN ARRAY (
		SELECT DISTINCT ` + pg.ReasonOfUnit + pg.OpenUnitsOf("n.child_id") + `) END`

// nodeRow is a row of nodeColumns.
type nodeRow struct {
	dagrun.NodeRecord
	item         int
	output, code *string
	files        *string // what was captured, encoded; nil: nothing was, or it was not asked for
	message      string
	subflow      []string // why the units of its subflow do not move
}

func (n *nodeRow) fields() []any {
	into := append([]any{
		&n.NodeID, &n.RunNodeID, &n.item, &n.Attempt, &n.Status, &n.Reason, &n.SessionID, &n.ChildRunID, &n.InputsDigest,
		&n.output, &n.files, &n.code, &n.message, &n.StartedAt, &n.FinishedAt, &n.ReusedFrom, &n.ReuseReason,
	}, usedFields(&n.Usage)...)

	return append(into, &n.subflow)
}

func (n *nodeRow) record() dagrun.NodeRecord {
	n.Outputs, n.Usage = raw(n.output), n.Usage.Shown()
	if n.code != nil {
		n.Error = &dagrun.NodeFailure{Code: *n.code, Message: n.message}
	}

	if captured, err := decodeFiles(n.files); err == nil && captured != nil {
		n.Files = captured.List()
	}

	if n.item != dagrun.NoItem {
		n.Item = &n.item
	}

	switch {
	case n.Status != dagrun.Running:
	case n.Reason != "none":
		n.Status = dagrun.Waiting
	default:
		n.Status, n.Reason = waits(n.subflow)
	}

	return n.NodeRecord
}

// DAGRunNodes reads the nodes of a run that the caller was found to see, in the order of
// their rows, with their outputs if asked for.
func (s *Store) DAGRunNodes(ctx context.Context, runID string, outputs bool) ([]dagrun.NodeRecord, error) {
	rows, _ := s.db.Pool.Query(ctx, `
		SELECT `+nodeColumns+`, i.total, i.running, i.completed, i.failed
		FROM   dag_run_nodes n
		LEFT   JOIN chats c ON c.id = n.chat_id
		LEFT   JOIN (
			SELECT node_id, count(*) AS total, count(*) FILTER (WHERE status IN ('running', 'waiting')) AS running,
			       count(*) FILTER (WHERE status = 'completed') AS completed, count(*) FILTER (WHERE status = 'failed') AS failed
			FROM   dag_run_nodes WHERE run_id = $1 AND item >= 0 AND NOT superseded GROUP BY node_id) i ON i.node_id = n.node_id
		WHERE  n.run_id = $1 AND n.item = -1 AND NOT n.superseded ORDER BY n.id`, runID, outputs)
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (dagrun.NodeRecord, error) {
		var (
			n                                 nodeRow
			total, running, completed, failed *int
		)

		err := row.Scan(append(n.fields(), &total, &running, &completed, &failed)...)
		if total != nil {
			n.Items = &dagrun.ItemCounts{Total: *total, Running: *running, Completed: *completed, Failed: *failed}
		}

		return n.record(), err
	})

	return found, pg.Fault("read the nodes of a DAG run", err)
}

// DAGRunItems reads a page of the items of a map node, in their order, and how many there are.
func (s *Store) DAGRunItems(ctx context.Context, runID, nodeID string, limit, offset int) (page []dagrun.NodeRecord, total int, err error) {
	var batch pgx.Batch
	batch.Queue(`
		SELECT `+nodeColumns+` FROM dag_run_nodes n LEFT JOIN chats c ON c.id = n.chat_id
		WHERE  n.run_id = $1 AND n.node_id = $3 AND n.item >= 0 AND NOT n.superseded ORDER BY n.item LIMIT $4 OFFSET $5`,
		runID, true, nodeID, limit, offset).
		Query(func(rows pgx.Rows) (err error) {
			page, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (dagrun.NodeRecord, error) {
				var n nodeRow

				err := row.Scan(n.fields()...)

				return n.record(), err
			})

			return err
		})
	batch.Queue(`SELECT count(*) FROM dag_run_nodes WHERE run_id = $1 AND node_id = $2 AND item >= 0 AND NOT superseded`, runID, nodeID).
		QueryRow(func(row pgx.Row) error { return row.Scan(&total) })

	return page, total, pg.Fault("list the items of a map node", s.db.Pool.SendBatch(ctx, &batch).Close())
}
