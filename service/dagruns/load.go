package dagruns

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

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
	nodeID                  string // the one node that it runs; empty: the whole graph
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
		SELECT r.id, r.solution_id, r.owner_id, coalesce(r.node_id, ''), r.version, r.status, r.cancel, r.inputs, r.depth, r.retries,
		       coalesce(r.parent_run, ''),
		       coalesce((SELECT p.solution_id FROM dag_runs p WHERE p.id = r.parent_run), '')
		FROM   dag_runs r WHERE r.id = $1`
	if lock {
		query += ` FOR NO KEY UPDATE`
	}

	err = tx.QueryRow(ctx, query, runID).Scan(&row.id, &row.solutionID, &row.ownerID, &row.nodeID, &row.version, &row.status, &row.cancel,
		&row.inputs, &row.depth, &row.try, &row.parent, &row.parentSolution)
	if errors.Is(err, pgx.ErrNoRows) {
		return row, NotFound(runID)
	}

	return row, err
}

// graphOfRun reads the graph of a run: of a run of one node, the part that this one needs.
func (s *Store) graphOfRun(ctx context.Context, tx pgx.Tx, run openRun) (dag.Graph, error) {
	graph, err := s.graphOf(ctx, tx, run.solutionID, run.version)
	if err == nil && run.nodeID != "" {
		graph, _ = graph.Part(run.nodeID)
	}

	return graph, err
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
			if graph, err = s.graphOfRun(ctx, tx, run); err != nil {
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

func raw(text *string) json.RawMessage {
	if text == nil {
		return nil
	}

	return json.RawMessage(*text)
}
