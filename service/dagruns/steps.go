package dagruns

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/dagrun"
	"everloop/domain/production"
	"everloop/domain/webhook"
	"everloop/infra/postgres/notify"
	"everloop/infra/postgres/pg"
	"everloop/internal/durable"
)

// maxPage bounds the bytes of a page of a run, below durable.MaxPayload.
const maxPage = 12 << 10

// openRun is a run whose step is taken.
type openRun struct {
	id, solutionID, ownerID string
	version                 int
	status                  dagrun.Status
	cancel                  bool
	inputs                  string
	parent, parentSolution  string
	depth, try              int
	graph                   dag.Graph
}

// read reads a run. With lock nothing else changes it in the transaction.
func (s *Store) read(ctx context.Context, tx pgx.Tx, runID string, lock bool) (row openRun, err error) {
	query := `
		SELECT r.id, r.solution_id, r.owner_id, r.version, r.status, r.cancel, r.inputs, r.depth, r.retries, coalesce(r.parent_run, ''),
		       coalesce((SELECT p.solution_id FROM dag_runs p WHERE p.id = r.parent_run), '')
		FROM   dag_runs r WHERE r.id = $1`
	if lock {
		query += ` FOR NO KEY UPDATE`
	}

	err = tx.QueryRow(ctx, query, runID).Scan(&row.id, &row.solutionID, &row.ownerID, &row.version, &row.status, &row.cancel, &row.inputs,
		&row.depth, &row.try, &row.parent, &row.parentSolution)
	if errors.Is(err, pgx.ErrNoRows) {
		return row, NotFound(runID)
	}

	return row, err
}

// graphOf reads a version of a graph. Versions do not change, so that they are cached.
func (s *Store) graphOf(ctx context.Context, tx pgx.Tx, solutionID string, version int) (graph dag.Graph, err error) {
	key := solutionID + "/" + strconv.Itoa(version)

	s.mu.Lock()
	graph, cached := s.graphs[key]
	s.mu.Unlock()

	if cached {
		return graph, nil
	}

	var content string

	err = tx.QueryRow(ctx, `
		SELECT content FROM prod_document_versions WHERE solution_id = $1 AND kind = 'dag' AND version = $2`,
		solutionID, version).Scan(&content)
	if errors.Is(err, pgx.ErrNoRows) {
		return graph, production.VersionNotFound(version)
	}

	if err == nil {
		err = json.Unmarshal([]byte(content), &graph)
	}

	if err != nil {
		return graph, err
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	if s.graphs == nil || len(s.graphs) >= maxGraphs {
		s.graphs = map[string]dag.Graph{}
	}

	s.graphs[key] = graph

	return graph, nil
}

// maxGraphs bounds the cached graphs.
const maxGraphs = 32

func (r openRun) node(id string) dag.Node {
	at := slices.IndexFunc(r.graph.Nodes, func(n dag.Node) bool { return n.ID == id })
	if at < 0 {
		return dag.Node{}
	}

	return r.graph.Nodes[at]
}

// values resolve references with the outputs of the run.
func (r openRun) values(ctx context.Context, tx pgx.Tx) *dagrun.Values {
	return &dagrun.Values{Inputs: json.RawMessage(r.inputs), Output: func(nodeID string) (json.RawMessage, error) {
		var output *string

		err := tx.QueryRow(ctx, `
			SELECT output FROM dag_run_nodes WHERE run_id = $1 AND node_id = $2 AND item = -1 AND NOT superseded`, r.id, nodeID).
			Scan(&output)

		return raw(output), err
	}}
}

// LoadRun implements contract.LoadDAGRun.
func (s *Store) LoadRun(ctx context.Context, in contract.LoadDAGRunIn) (out contract.LoadDAGRunOut, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		out = contract.LoadDAGRunOut{}

		run, err := s.read(ctx, tx, in.RunID, true)
		if domain.HasCode(err, dagrun.CodeRunNotFound) { // deleted with its solution
			out.Status = dagrun.Cancelled
			return nil
		}

		if err != nil {
			return err
		}

		if out.Status, out.Cancel, out.Try = run.status, run.cancel, run.try; run.status == dagrun.Pending {
			if err := started(ctx, tx, run.id); err != nil {
				return err
			}

			out.Status = dagrun.Running
		}

		if run.parent != "" {
			out.Parent = durable.DAGRunWorkflowID(run.parentSolution, run.parent)
		}

		units, err := loadUnits(ctx, tx, run)
		if err != nil {
			return err
		}

		var graph dag.Graph
		if !run.status.Over() {
			if graph, err = s.graphOf(ctx, tx, run.solutionID, run.version); err != nil {
				return err
			}

			graph = dagrun.Skeleton(graph)
		}

		out.Nodes, out.Edges, out.Units, out.Next = page(graph, units, in.From)

		return nil
	})

	return out, pg.Fault("load a DAG run", err)
}

func started(ctx context.Context, tx pgx.Tx, runID string) error {
	if _, err := tx.Exec(ctx, `
		UPDATE dag_runs SET status = 'running', started_at = coalesce(started_at, clock_timestamp()) WHERE id = $1`, runID); err != nil {
		return err
	}

	return notify.DAGRunEvent(ctx, tx, webhook.DAGRunStarted, runID)
}

// page cuts the parts of a run that follow the first ones, as many as fit.
func page(g dag.Graph, units []dagrun.Unit, from int) (nodes []dag.Node, edges []dag.Edge, some []dagrun.Unit, next int) {
	left := maxPage
	total := len(g.Nodes) + len(g.Edges) + len(units)

	for i := from; i < total; i++ {
		var part any

		switch {
		case i < len(g.Nodes):
			part = g.Nodes[i]
		case i < len(g.Nodes)+len(g.Edges):
			part = g.Edges[i-len(g.Nodes)]
		default:
			part = units[i-len(g.Nodes)-len(g.Edges)]
		}

		encoded, _ := json.Marshal(part) // of strings and numbers
		if left -= len(encoded) + 1; left < 0 && i > from {
			return nodes, edges, some, i
		}

		switch part := part.(type) {
		case dag.Node:
			nodes = append(nodes, part)
		case dag.Edge:
			edges = append(edges, part)
		case dagrun.Unit:
			some = append(some, part)
		}
	}

	return nodes, edges, some, 0
}

// loadUnits reads the nodes of a run, and the open items of its open map nodes. Of a run
// that is over it reads what must still be stopped.
func loadUnits(ctx context.Context, tx pgx.Tx, run openRun) ([]dagrun.Unit, error) {
	rows, _ := tx.Query(ctx, `
		SELECT n.id, n.node_id, n.item, n.status, n.phase, n.attempt, coalesce(n.session_id, ''), coalesce(n.chat_id, ''),
		       coalesce(n.child_id, ''), n.begun, n.stop, n.due_at, n.deadline
		FROM   dag_run_nodes n
		WHERE  n.run_id = $1 AND (n.stop OR NOT $2 AND NOT n.superseded AND (n.item = -1 OR n.status IN ('running', 'waiting') AND EXISTS (
		           SELECT 1 FROM dag_run_nodes m WHERE m.run_id = n.run_id AND m.node_id = n.node_id AND m.item = -1
		           AND NOT m.superseded AND m.status = 'running')))
		ORDER  BY n.item, n.id`, run.id, run.status.Over())

	units, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (u dagrun.Unit, err error) {
		err = row.Scan(&u.ID, &u.NodeID, &u.Item, &u.Status, &u.Phase, &u.Attempt, &u.SessionID, &u.ChatID, &u.ChildID, &u.Begun,
			&u.Stop, &u.DueAt, &u.Deadline)

		return u, err
	})
	if err != nil || run.status.Over() {
		return units, err
	}

	states, err := itemStates(ctx, tx, run.id)

	for i := range units {
		u := &units[i]
		if u.Item == dagrun.NoItem && u.Status == dagrun.Running {
			u.States = states[u.NodeID]
		}

		if u.Item == dagrun.NoItem && !u.Stop && (u.Status == dagrun.Pending || u.Status.Over()) {
			u.ID = "" // it is not needed, and has half of the bytes
		}
	}

	return units, err
}

// itemStates returns the states of the items of open map nodes, one letter an item.
func itemStates(ctx context.Context, tx pgx.Tx, runID string) (map[string]string, error) {
	rows, err := tx.Query(ctx, `
		SELECT n.node_id, n.status FROM dag_run_nodes n
		WHERE  n.run_id = $1 AND n.item >= 0 AND NOT n.superseded AND EXISTS (
			SELECT 1 FROM dag_run_nodes m WHERE m.run_id = n.run_id AND m.node_id = n.node_id AND m.item = -1
			AND NOT m.superseded AND m.status = 'running')
		ORDER  BY n.item`, runID)
	if err != nil {
		return nil, err
	}

	letters := map[string]*strings.Builder{}

	var (
		nodeID string
		status dagrun.Status
	)

	_, err = pgx.ForEachRow(rows, []any{&nodeID, &status}, func() error {
		if letters[nodeID] == nil {
			letters[nodeID] = &strings.Builder{}
		}

		letters[nodeID].WriteString(dagrun.StateOf(status))

		return nil
	})

	states := map[string]string{}
	for id, text := range letters {
		states[id] = text.String()
	}

	return states, err
}

func failed(failure *dagrun.NodeFailure) dagrun.Outcome {
	return dagrun.Outcome{Status: dagrun.Failed, Failure: failure}
}

// ActivateNode implements contract.ActivateDAGNode.
func (s *Store) ActivateNode(ctx context.Context, in contract.ActivateDAGNodeIn) (out dagrun.Outcome, err error) {
	err = s.step(ctx, in.DAGTry, func(tx pgx.Tx, run openRun) (err error) {
		n := run.node(in.NodeID)

		var status dagrun.Status
		if status, err = statusOf(ctx, tx, run.id, n.ID); err != nil || status.Over() {
			out = dagrun.Outcome{Status: status}
			return err
		}

		before := make([]string, len(in.Before))
		for i, number := range in.Before {
			before[i] = run.graph.Nodes[number].ID
		}

		values := run.values(ctx, tx)

		request, failure := values.Request(n, before)
		if values.Err != nil || failure != nil {
			out = failed(failure)
			return values.Err
		}

		out, err = s.activate(ctx, tx, run, n, request, in.Start)

		return err
	})

	return out, pg.Fault("activate a node of a DAG run", err)
}

func statusOf(ctx context.Context, tx pgx.Tx, runID, nodeID string) (status dagrun.Status, err error) {
	err = tx.QueryRow(ctx, `
		SELECT status FROM dag_run_nodes WHERE run_id = $1 AND node_id = $2 AND item = -1 AND NOT superseded`, runID, nodeID).Scan(&status)

	return status, err
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

	if start && (dagrun.Immediate(n.Type) || n.Type == dag.Map) {
		return s.startNode(ctx, tx, run, n, request)
	}

	return dagrun.Outcome{Status: dagrun.Ready}, nil
}

// earlierOutputs finds outputs that may be used again: of the run before it was retried,
// and, for a node that is idempotent by input, of other runs.
func earlierOutputs(ctx context.Context, tx pgx.Tx, run openRun, n dag.Node) ([]dagrun.Earlier, error) {
	rows, _ := tx.Query(ctx, `
		SELECT coalesce(reused_from, id), coalesce(session_id, ''), coalesce(child_id, ''), definition, inputs_digest, output, kept, barred
		FROM   dag_run_nodes
		WHERE  run_id = $1 AND node_id = $2 AND superseded AND item = -1 AND status IN ('completed', 'reused')
		UNION  ALL
		(SELECT id, coalesce(session_id, ''), coalesce(child_id, ''), definition, inputs_digest, output, false, false
		 FROM   dag_run_nodes
		 WHERE  $4 AND solution_id = $3 AND node_id = $2 AND status = 'completed' AND item = -1 AND run_id <> $1
		 ORDER  BY id DESC LIMIT 20)`, run.id, n.ID, run.solutionID, n.Idempotency == "by_input")

	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e dagrun.Earlier, err error) {
		var output string

		err = row.Scan(&e.ID, &e.SessionID, &e.ChildID, &e.Definition, &e.Inputs, &output, &e.Kept, &e.Barred)
		e.Output = json.RawMessage(output)

		return e, err
	})
}

func reuse(ctx context.Context, tx pgx.Tx, run openRun, n dag.Node, e dagrun.Earlier) (dagrun.Outcome, error) {
	out, err := complete(ctx, tx, run, n.ID, dagrun.NoItem, e.Output)
	if err != nil || out.Status != dagrun.Completed {
		return out, err
	}

	_, err = tx.Exec(ctx, `
		UPDATE dag_run_nodes SET status = 'reused', reused_from = $3, session_id = nullif($4, ''), child_id = nullif($5, '')
		WHERE  run_id = $1 AND node_id = $2 AND item = -1 AND NOT superseded`, run.id, n.ID, e.ID, e.SessionID, e.ChildID)

	return dagrun.Outcome{Status: dagrun.Reused}, err
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
		var (
			status  dagrun.Status
			encoded string
			request dagrun.Request
		)

		err := tx.QueryRow(ctx, `
			SELECT status, request FROM dag_run_nodes WHERE run_id = $1 AND node_id = $2 AND item = -1 AND NOT superseded`,
			run.id, in.NodeID).Scan(&status, &encoded)
		if err != nil || status.Over() {
			out = dagrun.Outcome{Status: status}
			return err
		}

		if err := json.Unmarshal([]byte(encoded), &request); err != nil {
			return err
		}

		out, err = s.startNode(ctx, tx, run, run.node(in.NodeID), request)

		return err
	})

	return out, pg.Fault("start a node of a DAG run", err)
}

func (s *Store) startNode(ctx context.Context, tx pgx.Tx, run openRun, n dag.Node, request dagrun.Request) (dagrun.Outcome, error) {
	var output json.RawMessage

	switch n.Type {
	case dag.Map:
		return s.spread(ctx, tx, run, n, request)
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
		SELECT i.id, $1, $2, m.node_id, i.number - 1, 'ready', 'work', m.definition, i.digest, i.request
		FROM   dag_run_nodes m, unnest($4::text[], $5::text[], $6::text[]) WITH ORDINALITY AS i (id, digest, request, number)
		WHERE  m.run_id = $1 AND m.node_id = $3 AND m.item = -1 AND NOT m.superseded
		ON     CONFLICT DO NOTHING`, run.id, run.solutionID, n.ID, ids, digests, encoded)
	batch.Queue(`
		UPDATE dag_run_nodes SET status = 'running', phase = 'work', attempt = 1, started_at = clock_timestamp()
		WHERE  run_id = $1 AND node_id = $2 AND item = -1 AND NOT superseded`, run.id, n.ID)

	return dagrun.Outcome{Status: dagrun.Running, Items: len(requests)}, tx.SendBatch(ctx, &batch).Close()
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

		status, err := statusOf(ctx, tx, run.id, n.ID)
		if err != nil || status.Over() {
			out = dagrun.Outcome{Status: status}
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

		return err
	})

	return out, pg.Fault("gather a map node of a DAG run", err)
}

// TakeNode implements contract.TakeDAGNode. A second call returns what the first one wrote.
func (s *Store) TakeNode(ctx context.Context, in contract.DAGAttempt) (out dagrun.Outcome, err error) {
	err = s.step(ctx, in.DAGTry, func(tx pgx.Tx, run openRun) error {
		unit, err := s.unitOf(ctx, tx, in)
		if err != nil || unit.Status != dagrun.Running {
			out = dagrun.Outcome{Status: unit.Status, Failure: unit.Failure}
			return err
		}

		result, ended, err := resultOf(ctx, tx, unit)
		if err != nil || !ended {
			out = dagrun.Outcome{Status: dagrun.Running}
			return err
		}

		if err := addUsage(ctx, tx, unit.ID, result.Usage); err != nil {
			return err
		}

		if in.Phase == dagrun.PhaseApproval && result.Failure == nil {
			out = approval(result.Text)
			return nil
		}

		output, failure := dagrun.OutputOf(run.node(in.NodeID), in.Item, result)
		if failure != nil {
			out = failed(failure)
			return nil
		}

		out, err = complete(ctx, tx, run, in.NodeID, in.Item, output)

		return err
	})

	return out, pg.Fault("take the result of a node of a DAG run", err)
}

func approval(answer string) dagrun.Outcome {
	if answer == dagrun.Approve {
		return dagrun.Outcome{Status: dagrun.Completed, Approved: true}
	}

	return dagrun.Outcome{Status: dagrun.Completed, Failure: &dagrun.NodeFailure{
		Code: dagrun.CodeNotApproved, Message: "the node was not approved: " + shorten(answer),
	}}
}

// addUsage adds what an attempt has used, once: its mark as started goes with it.
func addUsage(ctx context.Context, tx pgx.Tx, unitID string, used domain.Usage) error {
	_, err := tx.Exec(ctx, `
		UPDATE dag_run_nodes
		SET    begun = false, input_tokens = input_tokens + $2, output_tokens = output_tokens + $3,
		       cache_read_tokens = cache_read_tokens + $4, cache_write_tokens = cache_write_tokens + $5, cost_nano = cost_nano + $6,
		       uncosted_tokens = uncosted_tokens + $7
		WHERE  id = $1 AND begun`, unitID, used.InputTokens, used.OutputTokens, used.CacheReadTokens, used.CacheWriteTokens, used.Cost,
		used.UncostedTokens)

	return err
}

// unitOf reads an attempt of a unit. Its status is Cancelled when another attempt has
// followed.
func (s *Store) unitOf(ctx context.Context, tx pgx.Tx, in contract.DAGAttempt) (u dagrun.Unit, err error) {
	var (
		code    *string
		message string
	)

	err = tx.QueryRow(ctx, `
		SELECT id, node_id, item, CASE WHEN status = 'running' AND (attempt, phase) <> ($4, $5) THEN 'cancelled' ELSE status END,
		       phase, attempt, coalesce(session_id, ''), coalesce(chat_id, ''), coalesce(child_id, ''), begun, error_code,
		       coalesce(error_message, '')
		FROM   dag_run_nodes WHERE run_id = $1 AND node_id = $2 AND item = $3 AND NOT superseded`,
		in.RunID, in.NodeID, in.Item, in.Attempt, in.Phase).
		Scan(&u.ID, &u.NodeID, &u.Item, &u.Status, &u.Phase, &u.Attempt, &u.SessionID, &u.ChatID, &u.ChildID, &u.Begun, &code, &message)
	if code != nil {
		u.Failure = &dagrun.NodeFailure{Code: *code, Message: message}
	}

	return u, err
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

func queueUnit(batch *pgx.Batch, runID string, u dagrun.Unit) {
	code, message := failure(u.Failure)
	batch.Queue(`
		UPDATE dag_run_nodes
		SET    status = @status, phase = @phase, session_id = nullif(@session, ''), chat_id = nullif(@chat, ''),
		       child_id = nullif(@child, ''), begun = @begun, stop = false, due_at = @due, deadline = @deadline,
		       error_code = coalesce(@code, error_code), error_message = coalesce(@message, error_message), finished_at = @finished,
		       started_at = coalesce(started_at, @finished)
		WHERE  run_id = @run AND node_id = @node AND item = @item AND NOT superseded
		AND    status IN ('pending', 'ready', 'running', 'waiting')`,
		pgx.NamedArgs{
			"run": runID, "node": u.NodeID, "item": u.Item, "status": u.Status, "phase": u.Phase, "session": u.SessionID, "chat": u.ChatID,
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

		outputs = text(values.Result(run.graph, func(id string) bool { return completed[id] }))
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

		if run.graph, err = s.graphOf(ctx, tx, run.solutionID, run.version); err != nil {
			return err
		}

		if run.status.Over() || run.try != try.Try {
			return domain.Newf(domain.Conflict, dagrun.CodeRunOver, "the run is over: %s", run.status)
		}

		return do(tx, run)
	})
}

// WatchedUnit reads the work of an attempt, and whether its chat waits for something outside
// of it. The event log says nothing of a chat whose events are not published yet, as after
// an outage of the log.
func (s *Store) WatchedUnit(ctx context.Context, in contract.DAGAttempt) (work dagrun.Work, err error) {
	err = s.step(ctx, in.DAGTry, func(tx pgx.Tx, run openRun) error {
		if work.Unit, err = s.unitOf(ctx, tx, in); err != nil {
			return err
		}

		work.Node = run.node(in.NodeID)

		var works bool

		err := tx.QueryRow(ctx, `
			SELECT coalesce(c.state = 'running' AND c.waiting_reason = ANY ($2), false)
			       AND NOT EXISTS (SELECT FROM outbox o WHERE o.session_id = n.session_id AND o.seq IS NULL)
			FROM   dag_run_nodes n LEFT JOIN chats c ON c.id = n.chat_id WHERE n.id = $1`, work.Unit.ID, working).Scan(&works)
		work.Idle = !works

		return err
	})

	return work, pg.Fault("watch a node of a DAG run", err)
}

// working are the waiting reasons of a chat that works: events are expected of it.
var working = []domain.WaitingReason{domain.WaitingNone, domain.WaitingModel, domain.WaitingTool, domain.WaitingChild}

// SetDue writes when the next activity of a unit is due.
func (s *Store) SetDue(ctx context.Context, unitID string, attempt int, due time.Time) error {
	_, err := s.db.Pool.Exec(ctx, `
		UPDATE dag_run_nodes SET due_at = $3 WHERE id = $1 AND attempt = $2 AND status = 'running' AND NOT superseded`,
		unitID, attempt, due)

	return pg.Fault("watch a node of a DAG run", err)
}

// Claim assigns an attempt of a unit its session, or the run of its subflow, once. The row of
// a unit whose pause has ended still says waiting: the attempt's number fences earlier ones.
func (s *Store) Claim(ctx context.Context, in contract.DAGAttempt) (work dagrun.Work, err error) {
	err = s.step(ctx, in.DAGTry, func(tx pgx.Tx, run openRun) error {
		n := run.node(in.NodeID)
		work = dagrun.Work{Node: n, Run: dagrun.WorkRun{
			ID: run.id, SolutionID: run.solutionID, OwnerID: run.ownerID, Version: run.version, Depth: run.depth,
		}}
		subflow := in.Phase == dagrun.PhaseWork && dagrun.Subflow(n)

		var (
			request *string
			closed  bool
		)

		u := &work.Unit

		err := tx.QueryRow(ctx, `
			UPDATE dag_run_nodes n
			SET    status = 'running', phase = @phase, attempt = @attempt, due_at = @due, deadline = @deadline,
			       started_at = coalesce(started_at, clock_timestamp()), begun = begun AND o.same,
			       chat_id = CASE WHEN o.same THEN chat_id END,
			       session_id = CASE WHEN o.same THEN session_id WHEN @subflow THEN NULL ELSE @id END,
			       child_id = CASE WHEN o.same THEN child_id WHEN @subflow THEN @id END
			FROM   (SELECT id, status = 'running' AND phase = @phase AND attempt = @attempt AS same FROM dag_run_nodes
			        WHERE run_id = @run AND node_id = @node AND item = @item AND NOT superseded FOR UPDATE) o
			WHERE  n.id = o.id AND (o.same OR n.status = 'ready' OR n.status = 'running' AND n.phase = 'approval' AND @phase = 'work'
			       OR n.status = 'waiting' AND n.attempt < @attempt)
			RETURNING n.id, n.node_id, n.item, n.phase, n.attempt, coalesce(n.session_id, ''), coalesce(n.child_id, ''), n.request,
			       (SELECT u.closed FROM users u WHERE u.id = @owner)`,
			pgx.NamedArgs{
				"run": run.id, "node": n.ID, "item": in.Item, "phase": in.Phase, "attempt": in.Attempt, "due": in.Due,
				"deadline": in.Deadline, "subflow": subflow, "id": domain.NewID(), "owner": run.ownerID,
			}).Scan(&u.ID, &u.NodeID, &u.Item, &u.Phase, &u.Attempt, &u.SessionID, &u.ChildID, &request, &closed)
		if errors.Is(err, pgx.ErrNoRows) {
			return domain.Newf(domain.Conflict, dagrun.CodeNodeOver, "the node is over")
		}

		if err == nil && closed {
			return domain.Newf(domain.Forbidden, domain.CodeAccountClosed, "the account of the owner is closed")
		}

		if err == nil && request != nil {
			work.Request = &dagrun.Request{}
			err = json.Unmarshal([]byte(*request), work.Request)
		}

		return err
	})

	return work, pg.Fault("claim a node of a DAG run", err)
}

// Began records the chat, or the start of the subflow, of an attempt.
func (s *Store) Began(ctx context.Context, unitID string, attempt int, chatID domain.ChatID) error {
	_, err := s.db.Pool.Exec(ctx, `
		UPDATE dag_run_nodes SET begun = true, chat_id = nullif($3, '')
		WHERE  id = $1 AND attempt = $2 AND status = 'running' AND NOT superseded`, unitID, attempt, chatID)

	return pg.Fault("begin a node of a DAG run", err)
}

// Stopping reads a unit whose work must be stopped, and refuses the messages of its attempt
// that a worker may still send. Its session has no other ones.
func (s *Store) Stopping(ctx context.Context, unitID string) (work dagrun.Work, found bool, err error) {
	err = s.db.InTx(ctx, func(tx pgx.Tx) error {
		u, r := &work.Unit, &work.Run

		err := tx.QueryRow(ctx, `
			SELECT n.id, n.attempt, coalesce(n.session_id, ''), coalesce(n.child_id, ''),
			       coalesce((SELECT k.solution_id FROM dag_runs k WHERE k.id = n.child_id), ''), r.id, r.solution_id, r.owner_id
			FROM   dag_run_nodes n JOIN dag_runs r ON r.id = n.run_id WHERE n.id = $1`, unitID).
			Scan(&u.ID, &u.Attempt, &u.SessionID, &u.ChildID, &work.ChildSolution, &r.ID, &r.SolutionID, &r.OwnerID)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}

		found = err == nil
		if err != nil || u.SessionID == "" {
			return err
		}

		for _, phase := range []dagrun.Phase{dagrun.PhaseApproval, dagrun.PhaseWork} {
			if _, _, err := pg.CancelSend(ctx, tx, u.SessionID, dagrun.MessageID(u.ID, u.Attempt, phase)); err != nil {
				return err
			}
		}

		return nil
	})

	return work, found, pg.Fault("stop a node of a DAG run", err)
}

// Stopped records that the work of a unit is stopped.
func (s *Store) Stopped(ctx context.Context, unitID string) error {
	_, err := s.db.Pool.Exec(ctx, `UPDATE dag_run_nodes SET stop = false WHERE id = $1`, unitID)
	return pg.Fault("stop a node of a DAG run", err)
}

func raw(text *string) json.RawMessage {
	if text == nil {
		return nil
	}

	return json.RawMessage(*text)
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
