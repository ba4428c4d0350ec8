package dagruns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/domain/dag"
	"everloop/domain/dagrun"
	"everloop/domain/production"
	"everloop/domain/webhook"
	webhooks "everloop/infra/postgres/notify"
	"everloop/infra/postgres/pg"
)

// AdvanceDAGRun takes all steps of a run that can be taken now, under the lock of the
// run, and says what has to be done. A run that is gone has ended.
func (s *Store) AdvanceDAGRun(ctx context.Context, runID string) (step dagrun.Step, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		step = dagrun.Step{Ended: true}

		row, err := lockRun(ctx, tx, runID)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}

		if err != nil {
			return err
		}

		step.Solution, step.Parent, step.ParentSolution = row.solutionID, row.parent, row.parentSolution
		if !row.status.Over() {
			if step.Watch, err = advance(ctx, tx, &row); err != nil {
				return err
			}
		}

		return todo(ctx, tx, row, &step)
	})

	return step, pg.Fault("advance a DAG run", err)
}

// lockedRun is a run under its lock.
type lockedRun struct {
	id, solutionID, parent, parentSolution string
	version                                int
	status                                 dagrun.Status
	cancel                                 bool
	inputs                                 string
	wakeAt                                 *time.Time
}

func lockRun(ctx context.Context, tx pgx.Tx, runID string) (row lockedRun, err error) {
	err = tx.QueryRow(ctx, `
		SELECT id, solution_id, coalesce(parent_run, ''), coalesce((SELECT p.solution_id FROM dag_runs p WHERE p.id = r.parent_run), ''),
		       version, status, cancel, inputs, wake_at
		FROM   dag_runs r WHERE id = $1 FOR UPDATE`, runID).
		Scan(&row.id, &row.solutionID, &row.parent, &row.parentSolution, &row.version, &row.status, &row.cancel, &row.inputs, &row.wakeAt)

	return row, err
}

// advance fills the state of a run, lets the scheduler decide and stores what changed. It
// gives the units of which activity is due.
func advance(ctx context.Context, tx pgx.Tx, row *lockedRun) ([]dagrun.Watch, error) {
	graph, err := graphOf(ctx, tx, row.solutionID, row.version)
	if err != nil {
		return nil, err
	}

	run := dagrun.Run{
		Graph: graph, Inputs: json.RawMessage(row.inputs), Cancel: row.cancel, Status: row.status,
		Nodes: map[string]*dagrun.Unit{}, Items: map[string][]*dagrun.Unit{},
		ItemOutputs: func(nodeID string) ([]json.RawMessage, error) { return itemOutputs(ctx, tx, row.id, nodeID) },
	}
	if err := tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&run.Now); err != nil {
		return nil, err
	}

	if err := readUnits(ctx, tx, row.id, &run); err != nil {
		return nil, err
	}

	if run.Ended, err = ended(ctx, tx, row.id); err != nil {
		return nil, err
	}

	if run.Before, err = earlier(ctx, tx, *row, graph); err != nil {
		return nil, err
	}

	if err := run.Advance(); err != nil {
		return nil, err
	}

	before := row.status

	row.status, row.wakeAt = run.Status, run.WakeAt
	if err := write(ctx, tx, row.id, run); err != nil {
		return nil, err
	}

	if err := notify(ctx, tx, row.id, before, run.Status); err != nil {
		return nil, err
	}

	return watched(ctx, tx, run)
}

// notify writes the events of what has become of a run: it has started, or is over.
func notify(ctx context.Context, tx pgx.Tx, runID string, before, now dagrun.Status) error {
	if before == dagrun.Pending && now != dagrun.Pending {
		if err := webhooks.DAGRunEvent(ctx, tx, webhook.DAGRunStarted, runID); err != nil {
			return err
		}
	}

	if event, over := endEvents[now]; over && before != now {
		return webhooks.DAGRunEvent(ctx, tx, event, runID)
	}

	return nil
}

// endEvents are the events of runs that are over.
var endEvents = map[dagrun.Status]webhook.Event{
	dagrun.Completed: webhook.DAGRunCompleted,
	dagrun.Failed:    webhook.DAGRunFailed,
	dagrun.Cancelled: webhook.DAGRunCancelled,
}

func graphOf(ctx context.Context, tx pgx.Tx, solutionID string, version int) (graph dag.Graph, err error) {
	var content string

	err = tx.QueryRow(ctx, `
		SELECT content FROM prod_document_versions WHERE solution_id = $1 AND kind = 'dag'
		    AND version = $2`, solutionID, version).Scan(&content)
	if errors.Is(err, pgx.ErrNoRows) {
		return graph, production.VersionNotFound(version)
	}

	if err == nil {
		err = json.Unmarshal([]byte(content), &graph)
	}

	return graph, err
}

var unitColumns = `
	id, node_id, item, status, phase, attempt, coalesce(session_id, ''), begun, coalesce(child_id, ''), stop, definition, inputs_digest,
	error_code, coalesce(error_message, ''), due_at, deadline, started_at, finished_at,
	coalesce(reused_from, ''), reuse_reason, ` + strings.Join(used, ", ")

func scanUnit(row pgx.Row, more ...any) (*dagrun.Unit, error) {
	var (
		u       dagrun.Unit
		code    *string
		message string
	)

	into := []any{
		&u.ID, &u.NodeID, &u.Item, &u.Status, &u.Phase, &u.Attempt, &u.SessionID, &u.Begun, &u.ChildID, &u.Stop, &u.Definition, &u.Inputs,
		&code, &message, &u.DueAt, &u.Deadline, &u.StartedAt, &u.FinishedAt,
		&u.ReusedFrom, &u.ReuseReason,
	}
	into = append(into, usedFields(&u.Usage)...)
	err := row.Scan(append(into, more...)...)

	if code != nil {
		u.Failure = &dagrun.NodeFailure{Code: *code, Message: message}
	}

	return &u, err
}

// readUnits reads the nodes of a run with their outputs, and the items of map nodes that
// work without.
func readUnits(ctx context.Context, tx pgx.Tx, runID string, run *dagrun.Run) error {
	rows, err := tx.Query(ctx, `
		SELECT `+unitColumns+`, CASE WHEN item = -1 THEN output END, CASE WHEN item = -1 AND phase = 'approval' THEN request END
		FROM   dag_run_nodes n
		WHERE  run_id = $1 AND NOT superseded
		AND    (item = -1 OR EXISTS (
			SELECT 1 FROM dag_run_nodes m
			WHERE  m.run_id = n.run_id AND m.node_id = n.node_id AND m.item = -1 AND NOT m.superseded AND m.status = 'running'))
		ORDER  BY item`, runID)
	if err != nil {
		return err
	}
	defer rows.Close()

	for rows.Next() {
		var output, request *string

		u, err := scanUnit(rows, &output, &request)
		if err != nil {
			return err
		}

		if u.Output = raw(output); request != nil {
			u.Request = &dagrun.Request{}
			if err := json.Unmarshal([]byte(*request), u.Request); err != nil {
				return fmt.Errorf("read the request of node %s: %w", u.NodeID, err)
			}
		}

		if u.Item == dagrun.NoItem {
			run.Nodes[u.NodeID] = u
		} else {
			run.Items[u.NodeID] = append(run.Items[u.NodeID], u)
		}
	}

	return rows.Err()
}

func raw(text *string) json.RawMessage {
	if text == nil {
		return nil
	}

	return json.RawMessage(*text)
}

func itemOutputs(ctx context.Context, tx pgx.Tx, runID, nodeID string) ([]json.RawMessage, error) {
	rows, _ := tx.Query(ctx, `
		SELECT output FROM dag_run_nodes WHERE run_id = $1 AND node_id = $2 AND item >= 0 AND NOT superseded ORDER BY item`, runID, nodeID)

	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (json.RawMessage, error) {
		var output *string

		err := row.Scan(&output)

		return raw(output), err
	})
}

// earlier finds outputs that may be used again: those of the run before it was retried,
// and, for nodes that are idempotent by input, those of other runs.
func earlier(ctx context.Context, tx pgx.Tx, row lockedRun, graph dag.Graph) (map[string][]dagrun.Earlier, error) {
	var byInput []string

	for _, n := range graph.Nodes {
		if n.Idempotency == "by_input" {
			byInput = append(byInput, n.ID)
		}
	}

	rows, err := tx.Query(ctx, `
		WITH pending AS (
			SELECT node_id FROM dag_run_nodes WHERE run_id = $1 AND NOT superseded AND item = -1 AND status = 'pending')
		SELECT coalesce(reused_from, id), node_id, coalesce(session_id, ''), coalesce(child_id, ''), definition, inputs_digest, output,
		       kept, barred FROM dag_run_nodes
		WHERE  run_id = $1 AND superseded AND item = -1 AND status IN ('completed', 'reused') AND node_id IN (SELECT node_id FROM pending)
		UNION  ALL
		SELECT o.id, o.node_id, coalesce(o.session_id, ''), coalesce(o.child_id, ''), o.definition, o.inputs_digest, o.output, false, false
		FROM   pending b
		CROSS  JOIN LATERAL (
			SELECT * FROM dag_run_nodes n
			WHERE  n.solution_id = $2 AND n.node_id = b.node_id AND n.status = 'completed' AND n.item = -1 AND n.run_id <> $1
			ORDER BY n.id DESC LIMIT 20) o
		WHERE  b.node_id = ANY ($3)`, row.id, row.solutionID, byInput)
	if err != nil {
		return nil, err
	}
	defer rows.Close()

	found := map[string][]dagrun.Earlier{}

	for rows.Next() {
		var (
			e      dagrun.Earlier
			output string
		)
		if err := rows.Scan(&e.ID, &e.NodeID, &e.SessionID, &e.ChildID, &e.Definition, &e.Inputs, &output, &e.Kept, &e.Barred); err != nil {
			return nil, err
		}

		e.Output = json.RawMessage(output)
		found[e.NodeID] = append(found[e.NodeID], e)
	}

	return found, rows.Err()
}

// write stores the units that changed, and the state of the run.
func write(ctx context.Context, tx pgx.Tx, runID string, run dagrun.Run) error {
	var batch pgx.Batch

	for _, n := range run.Graph.Nodes {
		for _, u := range append([]*dagrun.Unit{run.Nodes[n.ID]}, run.Items[n.ID]...) {
			if u.Changed {
				queueUnit(&batch, runID, u)
			}
		}
	}

	code, message := failure(run.Failure)
	batch.Queue(`
		UPDATE dag_runs
		SET    status = $2, outputs = $3, error_code = $4, error_message = $5, wake_at = $6, started_at = coalesce(started_at, $7),
		       finished_at = CASE WHEN $8 THEN $7 END, advances = 0
		WHERE  id = $1`, runID, run.Status, text(run.Outputs), code, message, run.WakeAt, run.Now, run.Status.Over())

	return tx.SendBatch(ctx, &batch).Close()
}

func queueUnit(batch *pgx.Batch, runID string, u *dagrun.Unit) {
	code, message := failure(u.Failure)

	var request *string

	if u.Request != nil {
		encoded, _ := json.Marshal(u.Request) // of strings and decoded JSON
		request = text(encoded)
	}

	args := pgx.NamedArgs{
		"id": u.ID, "run": runID, "node": u.NodeID, "item": u.Item, "status": u.Status, "phase": u.Phase, "attempt": u.Attempt,
		"session": u.SessionID, "begun": u.Begun, "child": u.ChildID, "stop": u.Stop,
		"definition": u.Definition, "inputs": u.Inputs, "request": request, "output": text(u.Output), "code": code, "message": message,
		"due": u.DueAt, "deadline": u.Deadline, "started": u.StartedAt, "finished": u.FinishedAt,
		"in": u.Usage.InputTokens, "out": u.Usage.OutputTokens, "cache_read": u.Usage.CacheReadTokens,
		"cache_write": u.Usage.CacheWriteTokens, "cost": u.Usage.Cost, "uncosted": u.Usage.UncostedTokens,
		"from": u.ReusedFrom, "reason": u.ReuseReason,
	}
	if u.New {
		batch.Queue(`
			INSERT INTO dag_run_nodes (id, run_id, solution_id, node_id, item, status, phase, attempt, session_id, child_id, definition,
			                           inputs_digest, request, started_at, deadline)
			SELECT @id, id, solution_id, @node, @item, @status, @phase, @attempt, nullif(@session, ''), nullif(@child, ''),
			    @definition, @inputs, @request, @started,
			       @deadline
			FROM   dag_runs WHERE id = @run`, args)

		return
	}

	batch.Queue(`
		UPDATE dag_run_nodes
		SET    status = @status, phase = @phase, attempt = @attempt, session_id = nullif(@session, ''), begun = @begun,
		    child_id = nullif(@child, ''), stop = @stop,
		       definition = @definition, inputs_digest = @inputs, request = coalesce(@request, request), output = coalesce(@output, output),
		       error_code = @code, error_message = @message, due_at = @due, deadline = @deadline, started_at = @started,
		           finished_at = @finished,
		       input_tokens = @in, output_tokens = @out, cache_read_tokens = @cache_read, cache_write_tokens = @cache_write,
		       cost_nano = @cost, uncosted_tokens = @uncosted, reused_from = nullif(@from, ''), reuse_reason = @reason,
		       chat_id = CASE WHEN @begun THEN chat_id END, rejected_code = NULL, rejected = NULL
		WHERE  id = @id`, args)
}

func text(raw json.RawMessage) *string {
	if raw == nil {
		return nil
	}

	t := string(raw)

	return &t
}

func failure(f *dagrun.NodeFailure) (code, message *string) {
	if f == nil {
		return nil, nil
	}

	return &f.Code, &f.Message
}

// todo lists what the run's workflow has to do.
func todo(ctx context.Context, tx pgx.Tx, row lockedRun, step *dagrun.Step) error {
	rows, err := tx.Query(ctx, `
		SELECT id, node_id, attempt, stop FROM dag_run_nodes
		WHERE  run_id = $1 AND (stop -- also of a try before the last retry
		    OR NOT superseded AND status = 'running' AND NOT begun AND (session_id IS NOT NULL OR child_id IS NOT NULL))
		ORDER  BY id LIMIT 80`, row.id) // as many as one answer to a workflow holds
	if err != nil {
		return err
	}
	defer rows.Close()

	for rows.Next() {
		var (
			h    dagrun.Handle
			stop bool
		)
		if err := rows.Scan(&h.ID, &h.NodeID, &h.Attempt, &stop); err != nil {
			return err
		}

		if stop {
			step.Stop = append(step.Stop, h)
		} else {
			step.Begin = append(step.Begin, h)
		}
	}

	step.Ended, step.WakeAt = row.status.Over() && len(step.Stop) == 0, row.wakeAt

	return rows.Err()
}
