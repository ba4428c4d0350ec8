package dagruns

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/jackc/pgx/v5"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/dagrun"
	"everloop/domain/webhook"
	"everloop/infra/postgres/notify"
	"everloop/infra/postgres/pg"
)

func failed(failure *dagrun.NodeFailure) dagrun.Outcome {
	return dagrun.Outcome{Status: dagrun.Failed, Failure: failure}
}

// ActivateNode implements contract.ActivateDAGNode.
func (s *Store) ActivateNode(ctx context.Context, in contract.ActivateDAGNodeIn) (out dagrun.Outcome, err error) {
	err = s.step(ctx, in.DAGTry, func(tx pgx.Tx, run openRun) (err error) {
		n := run.node(in.NodeID)

		var phase dagrun.Phase
		if out, phase, err = stored(ctx, tx, run.id, n.ID); err != nil || out.Status != dagrun.Pending {
			out = activated(n, out, phase)
			return err
		}

		before := make([]string, len(in.Before))
		for i, number := range in.Before {
			before[i] = run.graph.Nodes[number].ID
		}

		values := run.values(ctx, tx)

		request, failure := values.Request(n, before)
		if values.Err == nil && failure == nil {
			failure, values.Err = addFiles(ctx, tx, run, n, &request)
		}

		if values.Err != nil || failure != nil {
			out = failed(failure)
			return values.Err
		}

		out, err = s.activate(ctx, tx, run, n, request, in.Start)

		return err
	})

	return out, pg.Fault("activate a node of a DAG run", err)
}

// stored reads what earlier steps have written of a node. A step is taken again when the
// workflow task that had it fails, also after later steps of the task: it must return what it
// returned before, and must not undo them.
func stored(ctx context.Context, tx pgx.Tx, runID, nodeID string) (out dagrun.Outcome, phase dagrun.Phase, err error) {
	var code, message *string

	err = tx.QueryRow(ctx, `
		SELECT n.status, n.phase, n.error_code, n.error_message, (
		           SELECT count(*) FROM dag_run_nodes i
		           WHERE  i.run_id = n.run_id AND i.node_id = n.node_id AND i.item >= 0 AND NOT i.superseded)
		FROM   dag_run_nodes n WHERE n.run_id = $1 AND n.node_id = $2 AND n.item = -1 AND NOT n.superseded`, runID, nodeID).
		Scan(&out.Status, &phase, &code, &message, &out.Items)
	if out.Status == dagrun.Failed && code != nil && message != nil {
		out.Failure = &dagrun.NodeFailure{Code: *code, Message: *message}
	}

	return out, phase, err
}

// activated returns the outcome of the activation of a node that was activated before.
func activated(n dag.Node, out dagrun.Outcome, phase dagrun.Phase) dagrun.Outcome {
	if out.Status.Over() || n.Type.Repeats() && out.Status == dagrun.Running && phase == dagrun.PhaseWork {
		return out
	}

	return dagrun.Outcome{Status: dagrun.Ready}
}

func (s *Store) activate(
	ctx context.Context, tx pgx.Tx, run openRun, n dag.Node, request dagrun.Request, start bool,
) (dagrun.Outcome, error) {
	definition, inputs := dagrun.Digests(n, request)

	var (
		chosen *dagrun.Earlier
		reason string
	)

	if !dagrun.Immediate(n.Type) {
		earlier, err := earlierOutputs(ctx, tx, run, n)
		if err != nil {
			return dagrun.Outcome{}, err
		}

		chosen, reason = dagrun.Reuse(earlier, definition, inputs)
	}

	encoded, err := json.Marshal(request)
	if err != nil {
		return dagrun.Outcome{}, err
	}

	_, err = tx.Exec(ctx, `
		UPDATE dag_run_nodes
		SET    status = 'ready', phase = CASE WHEN $7 THEN 'work' ELSE 'approval' END, definition = $3, inputs_digest = $4, request = $5,
		       reuse_reason = $6
		WHERE  run_id = $1 AND node_id = $2 AND item = -1 AND NOT superseded`,
		run.id, n.ID, definition, inputs, string(encoded), reason, start || chosen != nil)
	if err != nil {
		return dagrun.Outcome{}, err
	}

	if chosen != nil {
		return reuse(ctx, tx, run, n, *chosen)
	}

	if start && (dagrun.Immediate(n.Type) || n.Type.Repeats()) {
		return s.startNode(ctx, tx, run, n, request)
	}

	return dagrun.Outcome{Status: dagrun.Ready}, nil
}

// earlierOutputs finds outputs that may be used again: of the run before it was retried,
// and, for a node that is idempotent by input, of other runs. Those with files are not used by
// other runs, because files are deleted with their run.
func earlierOutputs(ctx context.Context, tx pgx.Tx, run openRun, n dag.Node) ([]dagrun.Earlier, error) {
	rows, _ := tx.Query(ctx, `
		SELECT coalesce(reused_from, id), coalesce(session_id, ''), coalesce(child_id, ''), definition, inputs_digest, output, files,
		       kept, barred
		FROM   dag_run_nodes
		WHERE  run_id = $1 AND node_id = $2 AND superseded AND item = -1 AND status IN ('completed', 'reused')
		UNION  ALL
		(SELECT id, coalesce(session_id, ''), coalesce(child_id, ''), definition, inputs_digest, output, NULL, false, false
		 FROM   dag_run_nodes
		 WHERE  $4 AND files IS NULL AND solution_id = $3 AND node_id = $2 AND status = 'completed' AND item = -1 AND run_id <> $1
		 ORDER  BY id DESC LIMIT 20)`, run.id, n.ID, run.solutionID, n.Idempotency == "by_input" && run.nodeID == "")

	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e dagrun.Earlier, err error) {
		var output string

		err = row.Scan(&e.ID, &e.SessionID, &e.ChildID, &e.Definition, &e.Inputs, &output, &e.Files, &e.Kept, &e.Barred)
		e.Output = json.RawMessage(output)

		return e, err
	})
}

func reuse(ctx context.Context, tx pgx.Tx, run openRun, n dag.Node, e dagrun.Earlier) (dagrun.Outcome, error) {
	captured, err := decodeFiles(e.Files)
	if err != nil {
		return dagrun.Outcome{}, err
	}

	out, err := completeWith(ctx, tx, run, n.ID, dagrun.NoItem, e.Output, captured)
	if err != nil || out.Status != dagrun.Completed {
		return out, err
	}

	_, err = tx.Exec(ctx, `
		UPDATE dag_run_nodes
		SET    status = 'reused', reused_from = $3, session_id = nullif($4, ''), child_id = nullif($5, ''), files = $6
		WHERE  run_id = $1 AND node_id = $2 AND item = -1 AND NOT superseded`, run.id, n.ID, e.ID, e.SessionID, e.ChildID, e.Files)

	return dagrun.Outcome{Status: dagrun.Reused}, err
}

// completeWith is complete for a unit whose files were captured; nil: it has none.
func completeWith(
	ctx context.Context, tx pgx.Tx, run openRun, nodeID string, item int, output json.RawMessage, captured *dagrun.Captured,
) (dagrun.Outcome, error) {
	if captured != nil {
		if failure, err := countFiles(ctx, tx, run.id, *captured); err != nil || failure != nil {
			return failed(failure), err
		}
	}

	return complete(ctx, tx, run, nodeID, item, output)
}

// complete writes the output of a unit, unless those of the run together are too large.
func complete(ctx context.Context, tx pgx.Tx, run openRun, nodeID string, item int, output json.RawMessage) (dagrun.Outcome, error) {
	tag, err := tx.Exec(ctx, `
		UPDATE dag_runs SET output_bytes = output_bytes + $2 WHERE id = $1 AND output_bytes + $2 <= $3`,
		run.id, len(output), dagrun.MaxTotal)
	if err != nil {
		return dagrun.Outcome{}, err
	}

	if tag.RowsAffected() == 0 {
		return failed(dagrun.OutputTooLarge(len(output))), nil
	}

	_, err = tx.Exec(ctx, `
		UPDATE dag_run_nodes
		SET    status = 'completed', phase = '', output = $4, error_code = NULL, error_message = NULL, due_at = NULL, deadline = NULL,
		       finished_at = clock_timestamp(), started_at = coalesce(started_at, clock_timestamp())
		WHERE  run_id = $1 AND node_id = $2 AND item = $3 AND NOT superseded`, run.id, nodeID, item, string(output))

	return dagrun.Outcome{Status: dagrun.Completed}, err
}

// StartNode implements contract.StartDAGNode: it starts a node after its approval, or ends a pause.
func (s *Store) StartNode(ctx context.Context, in contract.DAGNode) (out dagrun.Outcome, err error) {
	err = s.step(ctx, in.DAGTry, func(tx pgx.Tx, run openRun) error {
		if out, _, err = stored(ctx, tx, run.id, in.NodeID); err != nil || out.Status.Over() {
			return err
		}

		request, err := requestOf(ctx, tx, run.id, in.NodeID)
		if err != nil {
			return err
		}

		out, err = s.startNode(ctx, tx, run, run.node(in.NodeID), request)

		return err
	})

	return out, pg.Fault("start a node of a DAG run", err)
}

// requestOf reads the resolved input of a node.
func requestOf(ctx context.Context, tx pgx.Tx, runID, nodeID string) (request dagrun.Request, err error) {
	var encoded string

	err = tx.QueryRow(ctx, `
		SELECT request FROM dag_run_nodes WHERE run_id = $1 AND node_id = $2 AND item = -1 AND NOT superseded`, runID, nodeID).
		Scan(&encoded)
	if err == nil {
		err = json.Unmarshal([]byte(encoded), &request)
	}

	return request, err
}

func (s *Store) startNode(ctx context.Context, tx pgx.Tx, run openRun, n dag.Node, request dagrun.Request) (dagrun.Outcome, error) {
	var output json.RawMessage

	switch n.Type {
	case dag.Map:
		return s.spread(ctx, tx, run, n, request)
	case dag.Loop:
		return s.iterate(ctx, tx, run, n, request, dagrun.Iteration{Number: 1})
	case dag.Start:
		output = json.RawMessage(run.inputs)
	case dag.Wait:
		output = json.RawMessage("null")
	default:
		output = request.Passed()
		if failure := dagrun.CheckOutput(n.OutputSchema, output); failure != nil {
			return failed(failure), nil
		}
	}

	return complete(ctx, tx, run, n.ID, dagrun.NoItem, output)
}

// spread creates the items of a map node.
func (s *Store) spread(ctx context.Context, tx pgx.Tx, run openRun, n dag.Node, of dagrun.Request) (dagrun.Outcome, error) {
	values := run.values(ctx, tx)

	requests, failure := values.Items(n, of)
	if values.Err != nil || failure != nil {
		return failed(failure), values.Err
	}

	return addItems(ctx, tx, run, n, 0, requests)
}

// addItems creates items of a map node or a loop, from a number on.
func addItems(
	ctx context.Context, tx pgx.Tx, run openRun, n dag.Node, from int, requests []dagrun.Request,
) (dagrun.Outcome, error) {
	ids, digests, encoded := make([]string, len(requests)), make([]string, len(requests)), make([]string, len(requests))

	for i, request := range requests {
		text, err := json.Marshal(request)
		if err != nil {
			return dagrun.Outcome{}, err
		}

		ids[i], encoded[i] = domain.NewID(), string(text)
		_, digests[i] = dagrun.Digests(n, request)
	}

	var batch pgx.Batch
	batch.Queue(`
		INSERT INTO dag_run_nodes (id, run_id, solution_id, node_id, item, status, phase, definition, inputs_digest, request)
		SELECT i.id, $1, $2, m.node_id, $7 + i.number - 1, 'ready', 'work', m.definition, i.digest, i.request
		FROM   dag_run_nodes m, unnest($4::text[], $5::text[], $6::text[]) WITH ORDINALITY AS i (id, digest, request, number)
		WHERE  m.run_id = $1 AND m.node_id = $3 AND m.item = -1 AND NOT m.superseded
		ON     CONFLICT DO NOTHING`, run.id, run.solutionID, n.ID, ids, digests, encoded, from)
	batch.Queue(`
		UPDATE dag_run_nodes SET status = 'running', phase = 'work', attempt = 1, started_at = coalesce(started_at, clock_timestamp())
		WHERE  run_id = $1 AND node_id = $2 AND item = -1 AND NOT superseded`, run.id, n.ID)

	return dagrun.Outcome{Status: dagrun.Running, Items: from + len(requests)}, tx.SendBatch(ctx, &batch).Close()
}

// FollowEdge implements contract.FollowDAGEdge.
func (s *Store) FollowEdge(ctx context.Context, in contract.DAGEdge) (out dagrun.Outcome, err error) {
	err = s.step(ctx, in.DAGTry, func(tx pgx.Tx, run openRun) error {
		values, edge := run.values(ctx, tx), run.graph.Edges[in.Edge]
		out.Holds, out.Failure = values.Follows(run.node(edge.Source), edge)

		return values.Err
	})

	return out, pg.Fault("evaluate an edge of a DAG run", err)
}

// GatherNode implements contract.GatherDAGNode.
func (s *Store) GatherNode(ctx context.Context, in contract.DAGNode) (out dagrun.Outcome, err error) {
	err = s.step(ctx, in.DAGTry, func(tx pgx.Tx, run openRun) error {
		n := run.node(in.NodeID)

		if out, _, err = stored(ctx, tx, run.id, n.ID); err != nil || out.Status.Over() {
			return err
		}

		if n.Type == dag.Loop {
			out, err = s.gatherLoop(ctx, tx, run, n, out.Items)
			return err
		}

		rows, _ := tx.Query(ctx, `
			SELECT coalesce(output, 'null') FROM dag_run_nodes
			WHERE  run_id = $1 AND node_id = $2 AND item >= 0 AND NOT superseded ORDER BY item`, run.id, n.ID)

		outputs, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}

		list := json.RawMessage("[" + strings.Join(outputs, ",") + "]")
		if failure := dagrun.CheckOutput(n.OutputSchema, list); failure != nil {
			out = failed(failure)
			return nil
		}

		out, err = complete(ctx, tx, run, n.ID, dagrun.NoItem, list)
		if err == nil && out.Status == dagrun.Completed && n.GivesFiles() {
			err = gatherFiles(ctx, tx, run.id, n)
		}

		return err
	})

	return out, pg.Fault("gather a map node of a DAG run", err)
}

// StoreRun implements contract.StoreDAGRun: it writes units that changed, and the end of the
// run.
func (s *Store) StoreRun(ctx context.Context, in contract.StoreDAGRunIn) (out struct{}, err error) {
	err = s.step(ctx, in.DAGTry, func(tx pgx.Tx, run openRun) error {
		var batch pgx.Batch
		for _, u := range in.Units {
			queueUnit(&batch, run.id, u)
		}

		if err := tx.SendBatch(ctx, &batch).Close(); err != nil || in.Status == "" {
			return err
		}

		return end(ctx, tx, run, in)
	})

	return out, pg.Fault("store a DAG run", err)
}

// queueUnit writes a unit. A row with a later attempt than the unit was claimed by a workflow task
// that failed: it keeps its claim, for the task that repeats it, and is stopped when the unit ends.
func queueUnit(batch *pgx.Batch, runID string, u dagrun.Unit) {
	code, message := failure(u.Failure)
	batch.Queue(`
		UPDATE dag_run_nodes n
		SET    status = @status, phase = @phase, session_id = CASE WHEN o.later THEN session_id ELSE nullif(@session, '') END,
		       chat_id = CASE WHEN o.later THEN chat_id ELSE nullif(@chat, '') END,
		       child_id = CASE WHEN o.later THEN child_id ELSE nullif(@child, '') END, begun = @begun, stop = o.later, due_at = @due,
		       deadline = @deadline,
		       error_code = coalesce(@code, error_code), error_message = coalesce(@message, error_message), finished_at = @finished,
		       started_at = coalesce(started_at, @finished)
		FROM   (SELECT id, status = 'running' AND phase = 'work' AND attempt > @attempt AS later FROM dag_run_nodes
		        WHERE run_id = @run AND node_id = @node AND item = @item AND NOT superseded
		        AND   status IN ('pending', 'ready', 'running', 'waiting')) o
		WHERE  n.id = o.id AND NOT (o.later AND @status IN ('ready', 'waiting'))`,
		pgx.NamedArgs{
			"run": runID, "node": u.NodeID, "item": u.Item, "attempt": u.Attempt, "status": u.Status, "phase": u.Phase,
			"session": u.SessionID, "chat": u.ChatID,
			"child": u.ChildID, "begun": u.Begun, "due": u.DueAt, "deadline": u.Deadline, "code": code, "message": message,
			"finished": u.FinishedAt,
		})
}

// end writes the end of a run, and its event.
func end(ctx context.Context, tx pgx.Tx, run openRun, in contract.StoreDAGRunIn) error {
	var outputs *string

	if in.Status == dagrun.Completed {
		completed, err := completedNodes(ctx, tx, run.id)
		if err != nil {
			return err
		}

		values := run.values(ctx, tx)

		outputs = text(values.Result(run.graph, run.nodeID, func(id string) bool { return completed[id] }))
		if values.Err != nil {
			return values.Err
		}
	}

	code, message := failure(in.Failure)

	_, err := tx.Exec(ctx, `
		UPDATE dag_runs SET status = $2, outputs = $3, error_code = $4, error_message = $5, finished_at = clock_timestamp() WHERE id = $1`,
		run.id, in.Status, outputs, code, message)
	if err != nil {
		return err
	}

	return notify.DAGRunEvent(ctx, tx, endEvents[in.Status], run.id)
}

func completedNodes(ctx context.Context, tx pgx.Tx, runID string) (map[string]bool, error) {
	rows, _ := tx.Query(ctx, `
		SELECT node_id FROM dag_run_nodes WHERE run_id = $1 AND item = -1 AND NOT superseded AND status = 'completed'`, runID)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])

	found := map[string]bool{}
	for _, id := range ids {
		found[id] = true
	}

	return found, err
}

// endEvents are the events of runs that have ended.
var endEvents = map[dagrun.Status]webhook.Event{
	dagrun.Completed: webhook.DAGRunCompleted,
	dagrun.Failed:    webhook.DAGRunFailed,
	dagrun.Cancelled: webhook.DAGRunCancelled,
}

// step takes a step of a run under its lock. A run that has ended, retried or deleted stays as
// it is.
func (s *Store) step(ctx context.Context, try contract.DAGTry, do func(tx pgx.Tx, run openRun) error) error {
	return s.db.InTx(ctx, func(tx pgx.Tx) error {
		run, err := s.read(ctx, tx, try.RunID, true)
		if err != nil {
			return err
		}

		if run.graph, err = s.graphOfRun(ctx, tx, run); err != nil {
			return err
		}

		if run.status.Over() || run.try != try.Try {
			return domain.Newf(domain.Conflict, dagrun.CodeRunOver, "the run is over: %s", run.status)
		}

		return do(tx, run)
	})
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
