package systemtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/dagrun"
	domainproduction "everloop/domain/production"
	"everloop/infra/temporal"
	"everloop/internal/durable"
	"everloop/service/agents"
	"everloop/service/dagruns"
	"everloop/service/production"
	"everloop/service/work"
)

// works is a stack with runs of DAGs.
type works struct {
	*stack
	graphs *production.Service
	runs   *dagruns.Service
	repair func()
}

func newWorks(t *testing.T) *works {
	t.Helper()
	s := &works{stack: newStack(t)}

	s.graphs = production.New(production.Deps{DB: s.db.DB, Agents: agents.NewStore(s.db.DB), NodeTools: bashOnly})
	s.serve()

	stalled := s.check(1, work.DAGRuns(s.runs))

	s.repair = func() { require.NoError(t, stalled(t.Context())) }

	return s
}

// restart replaces the worker, which loses what it does.
func (s *works) restart() {
	s.t.Helper()
	s.worker.Stop()
	s.startWorker()
	s.serve()
}

// serve creates the service of runs, and has the worker take its steps.
func (s *works) serve() {
	s.t.Helper()

	var err error

	engine := temporal.Runs{Client: s.client, Queue: s.queue, Subjects: work.NewStore(s.db.DB)}
	s.runs, err = dagruns.New(dagruns.Deps{
		DB: s.db.DB, Sessions: s.journal, Files: s.files, Runs: engine, Chats: s.chats, Production: s.graphs,
		Agents: noAgents{}, Events: s.log, Logger: s.logger, CodeTimeout: time.Minute,
	})
	require.NoError(s.t, err)
	s.runs.Register(s.worker)
}

// play publishes a DAG, runs it and waits for its end.
func (s *works) play(nodes, edges, inputs string) dagrun.RunRecord {
	s.t.Helper()
	return s.over(s.begin(nodes, edges, inputs))
}

// begin publishes a DAG and runs it.
func (s *works) begin(nodes, edges, inputs string) dagrun.RunRecord {
	s.t.Helper()
	return s.publish(`{"nodes":[{"id":"s","type":"start"},{"id":"z","type":"end"},`+nodes+`],"edges":[`+edges+`]}`, inputs)
}

// publish publishes a graph and runs it.
func (s *works) publish(graph, inputs string) dagrun.RunRecord {
	s.t.Helper()

	var g dag.Graph
	require.NoError(s.t, json.Unmarshal([]byte(graph), &g))

	user := s.caller.User
	solution, err := s.graphs.Create(s.t.Context(), domainproduction.NewSolution{OwnerID: user.ID, Name: "n"})
	require.NoError(s.t, err)
	_, err = s.graphs.PublishDAG(s.t.Context(), user, solution.ID, 1, &g, "")
	require.NoError(s.t, err)
	run, err := s.runs.Start(s.t.Context(), user, solution.ID, 0, json.RawMessage(inputs))
	require.NoError(s.t, err)

	return run
}

// over waits for the end of a run.
func (s *works) over(run dagrun.RunRecord) dagrun.RunRecord {
	s.t.Helper()

	var err error

	require.Eventually(s.t, func() bool {
		s.repair()
		run, err = s.runs.DAGRun(s.t.Context(), s.caller.User, run.ProdSolutionID, run.ID)
		require.NoError(s.t, err)

		return run.Status.Over()
	}, 3*patience, 50*time.Millisecond, "the run did not end") // a thousand workflows, with the race detector

	return run
}

// node returns a node of a run.
func (s *works) node(run dagrun.RunRecord, id string) dagrun.NodeRecord {
	s.t.Helper()

	nodes, err := s.runs.DAGRunNodes(s.t.Context(), run.ID, true)
	require.NoError(s.t, err)

	at := slices.IndexFunc(nodes, func(n dagrun.NodeRecord) bool { return n.NodeID == id })
	require.GreaterOrEqual(s.t, at, 0, "there is no node %s", id)

	return nodes[at]
}

func edge(id, source, target string) string {
	return fmt.Sprintf(`{"id":"%s","source":"%s","target":"%s"}`, id, source, target)
}

func TestDAGRun_agentToolAndPause(t *testing.T) {
	t.Parallel()
	s := newWorks(t)
	prompt, err := json.Marshal("go" + script(obj{"steps": []obj{{"text": "drafted"}}}))
	require.NoError(t, err)

	run := s.play(`{"id":"a","type":"agent","config":{"prompt":`+string(prompt)+`}},
		{"id":"w","type":"wait","config":{"wait_s":1}},
		{"id":"b","type":"tool","config":{"tool":"Bash","arguments":{"command":"echo {{nodes.a.output}}"}}}`,
		strings.Join([]string{edge("e1", "s", "a"), edge("e2", "a", "w"), edge("e3", "w", "b"), edge("e4", "b", "z")}, ","), `{}`)
	require.Equal(t, dagrun.Completed, run.Status, "%+v", run.Error)
	require.Contains(t, string(run.Outputs), "drafted")
	s.requireClass(domain.ClassDAG, *s.node(run, "a").SessionID)
	s.requireClass(domain.ClassDAG, *s.node(run, "b").SessionID)
	s.replayRun("dag_run", durable.DAGRunWorkflowID(run.ProdSolutionID, run.ID))
}

// A node whose work shows no activity for longer than heartbeat_s is stopped and failed.
func TestDAGRun_hungNode(t *testing.T) {
	t.Parallel()
	s := newWorks(t)

	run := s.play(`{"id":"a","type":"tool","heartbeat_s":1,"config":{"tool":"Bash","arguments":{"command":"sleep 100"}}}`,
		edge("e1", "s", "a")+","+edge("e2", "a", "z"), `{}`)
	require.Equal(t, dagrun.Failed, run.Status)
	require.Equal(t, dagrun.CodeHeartbeat, run.Error.Code, run.Error.Message)

	s.await(*s.node(run, "a").SessionID, domain.EventChatEnd, func(data map[string]any) bool {
		return data["finish_reason"] == "interrupted"
	})
}

// An output that is used again names what made it, and its session, however often the run
// is retried.
func TestDAGRun_retriedTwice(t *testing.T) {
	t.Parallel()
	s := newWorks(t)

	run := s.play(`{"id":"a","type":"tool","config":{"tool":"Bash","arguments":{"command":"date +%N"}}},
		{"id":"b","type":"tool","config":{"tool":"Bash","arguments":{"command":"exit 1"}}}`,
		edge("e1", "s", "a")+","+edge("e2", "a", "b")+","+edge("e3", "b", "z"), `{}`)
	first := s.node(run, "a")
	require.Equal(t, dagrun.Completed, first.Status)

	for range 2 {
		_, err := s.runs.Retry(t.Context(), s.caller.User, run.ProdSolutionID, run.ID, dagrun.Resumption{})
		require.NoError(t, err)

		run = s.over(run)
		require.Equal(t, dagrun.Failed, run.Status)

		again := s.node(run, "a")
		require.Equal(t, []any{dagrun.Reused, first.Outputs, first.RunNodeID, *first.SessionID},
			[]any{again.Status, again.Outputs, *again.ReusedFrom, *again.SessionID})
	}
}

// Two hundred nodes, and a map over a thousand items, which here are subflows that do
// nothing: what is held is the scheduler, its records and its workflows.
func TestDAGRun_large(t *testing.T) {
	t.Parallel()
	s := newWorks(t)
	nodes, edges := []string{}, []string{}
	before := "s"

	for i := range 198 {
		id := fmt.Sprintf("j%d", i)
		nodes = append(nodes, fmt.Sprintf(`{"id":"%s","type":"join"}`, id))
		edges = append(edges, edge("e"+id, before, id))
		before = id
	}

	run := s.play(strings.Join(nodes, ","), strings.Join(append(edges, edge("last", before, "z")), ","), `{"x":1}`)
	require.Equal(t, dagrun.Completed, run.Status, "%+v", run.Error)
	require.JSONEq(t, `{"x":1}`, string(run.Outputs))

	inner := run.ProdSolutionID
	_, err := s.graphs.PublishDAG(t.Context(), s.caller.User, inner, 2, &dag.Graph{
		Nodes: []dag.Node{{ID: "s", Type: dag.Start}, {ID: "z", Type: dag.End}}, Edges: []dag.Edge{{ID: "e", Source: "s", Target: "z"}},
	}, "")
	require.NoError(t, err)

	items := make([]int, 1000)
	for i := range items {
		items[i] = i
	}

	inputs, err := json.Marshal(map[string]any{"list": items})
	require.NoError(t, err)

	run = s.play(`{"id":"m","type":"map","concurrency":32,"config":{"prod_solution_id":"`+inner+`"},"inputs":{"items":"{{input.list}}"}}`,
		edge("e1", "s", "m")+","+edge("e2", "m", "z"), string(inputs))
	require.Equal(t, dagrun.Completed, run.Status, "%+v", run.Error)

	var outputs []struct{ Item int }
	require.NoError(t, json.Unmarshal(run.Outputs, &outputs))
	require.Len(t, outputs, 1000)
	require.Equal(t, 999, outputs[999].Item)
}

// asksAndWorks is a DAG of which one node asks a user and one runs a command without an end.
const asksAndWorks = `{"id":"h","type":"human","config":{"prompt":"Which?","options":["a","b"]}},
	{"id":"t","type":"tool","config":{"tool":"Bash","arguments":{"command":"sleep 1000"}}}`

// working waits until both nodes of asksAndWorks are at work, and returns their sessions.
func (s *works) working(run dagrun.RunRecord) (asks, works domain.SessionID) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		s.repair()

		human, tool := s.node(run, "h"), s.node(run, "t")
		if human.SessionID == nil || tool.SessionID == nil {
			return false
		}

		asks, works = *human.SessionID, *tool.SessionID

		return s.inbox() == 1 && s.status(works) == domain.SessionRunning
	}, patience, 50*time.Millisecond, "the nodes did not begin")

	return asks, works
}

func (s *works) inbox() (total int) {
	s.t.Helper()

	_, total, err := s.db.OpenQuestions(s.t.Context(), s.caller.User.ID, 0, 10)
	require.NoError(s.t, err)

	return total
}

// rests reports whether nothing of a session runs or waits.
func (s *works) rests(session domain.SessionID) bool {
	return !slices.Contains([]domain.SessionStatus{domain.SessionRunning, domain.SessionWaitingForInput}, s.status(session))
}

// An operator who cancels the workflow of a run in the Temporal UI ends the run and the chats
// of its nodes, which are its children.
func TestDAGRun_cancelledByOperator(t *testing.T) {
	t.Parallel()
	s := newWorks(t)
	run := s.begin(asksAndWorks, edge("e1", "s", "h")+","+edge("e2", "s", "t")+","+edge("e3", "h", "z")+","+edge("e4", "t", "z"), `{}`)
	asks, works := s.working(run)
	workflow := durable.DAGRunWorkflowID(run.ProdSolutionID, run.ID)

	for _, session := range []domain.SessionID{asks, works} {
		described, err := s.client.DescribeWorkflowExecution(t.Context(), durable.SessionWorkflowID(string(session)), "")
		require.NoError(t, err)
		require.Equal(t, workflow, described.GetWorkflowExecutionInfo().GetParentExecution().GetWorkflowId())
	}

	require.NoError(t, s.client.CancelWorkflow(t.Context(), workflow, ""))
	require.Equal(t, dagrun.Cancelled, s.over(run).Status)
	s.closed(asks, works)
}

// The workflow of a run that an operator terminated is not started again: the run fails with
// a reason, and the work of its nodes is stopped.
func TestDAGRun_terminated(t *testing.T) {
	t.Parallel()
	s := newWorks(t)
	run := s.begin(asksAndWorks, edge("e1", "s", "h")+","+edge("e2", "s", "t")+","+edge("e3", "h", "z")+","+edge("e4", "t", "z"), `{}`)
	asks, works := s.working(run)

	require.NoError(
		t,
		s.client.TerminateWorkflow(t.Context(), durable.DAGRunWorkflowID(run.ProdSolutionID, run.ID), "", "no longer needed"),
	)
	s.exec(`UPDATE dag_runs SET created_at = created_at - interval '1 minute'`) // for the repair

	run = s.over(run)
	require.Equal(t, dagrun.Failed, run.Status)
	require.Equal(t, &dagrun.NodeFailure{Code: domain.CodeRunLost, Message: "an operator terminated its workflow"}, run.Error)
	s.closed(asks, works)
}

// closed waits until nothing of sessions runs or waits.
func (s *works) closed(sessions ...domain.SessionID) {
	s.t.Helper()

	for _, session := range sessions {
		require.Eventually(s.t, func() bool {
			s.repair()
			return s.rests(session)
		}, patience, 50*time.Millisecond)
	}
}

// Nothing of the runs of a deleted production solution works on, asks or is listed.
func TestDAGRun_deletedSolution(t *testing.T) {
	t.Parallel()
	s := newWorks(t)
	user := s.caller.User

	inner := s.begin(asksAndWorks, edge("e1", "s", "h")+","+edge("e2", "s", "t")+","+edge("e3", "h", "z")+","+edge("e4", "t", "z"), `{}`)
	_, err := s.runs.Cancel(t.Context(), user, inner.ProdSolutionID, inner.ID)
	require.NoError(t, err)
	s.over(inner)

	// The open run is a subflow: of another solution, but deleted with the run that started it.
	run := s.begin(`{"id":"f","type":"subflow","config":{"prod_solution_id":"`+inner.ProdSolutionID+`"}}`,
		edge("e1", "s", "f")+","+edge("e2", "f", "z"), `{}`)

	child := dagrun.RunRecord{ProdSolutionID: inner.ProdSolutionID}

	require.Eventually(t, func() bool {
		s.repair()
		return s.db.Pool.QueryRow(t.Context(), `SELECT id FROM dag_runs WHERE parent_run = $1`, run.ID).Scan(&child.ID) == nil
	}, patience, 50*time.Millisecond, "the subflow did not begin")

	asks, works := s.working(child)

	require.NoError(t, s.runs.DeleteSolution(t.Context(), user, run.ProdSolutionID))
	require.Zero(t, s.inbox())

	_, err = s.graphs.ProdSolution(t.Context(), user, run.ProdSolutionID)
	require.True(t, domain.HasCode(err, "prod_solution_not_found"), err)

	for _, session := range []domain.SessionID{asks, works} {
		require.Eventually(t, func() bool { return s.rests(session) }, patience, 50*time.Millisecond)
	}

	for _, r := range []dagrun.RunRecord{run, child} {
		s.histories(durable.DAGRunWorkflowID(r.ProdSolutionID, r.ID)) // waits for the end of the workflow
	}

	require.True(t, domain.HasCode(s.runs.DeleteSolution(t.Context(), user, run.ProdSolutionID), "prod_solution_not_found"))
}

// A process that dies while it deletes a production solution leaves a solution that no run
// begins in, and the repair ends the runs that were open.
func TestDAGRun_deletionCutOff(t *testing.T) {
	t.Parallel()
	s := newWorks(t)
	user := s.caller.User
	run := s.begin(asksAndWorks, edge("e1", "s", "h")+","+edge("e2", "s", "t")+","+edge("e3", "h", "z")+","+edge("e4", "t", "z"), `{}`)
	asks, works := s.working(run)

	open, err := s.runs.CancelDAGRunsOf(t.Context(), user, run.ProdSolutionID)
	require.NoError(t, err)
	require.Equal(t, []dagrun.Ref{{RunID: run.ID, SolutionID: run.ProdSolutionID}}, open)

	deleted, err := s.graphs.DeleteProdSolution(t.Context(), user, run.ProdSolutionID)
	require.NoError(t, err)
	require.False(t, deleted, "before its run is over")

	_, err = s.runs.Start(t.Context(), user, run.ProdSolutionID, 0, json.RawMessage(`{}`))
	require.True(t, domain.HasCode(err, "prod_solution_archived"), err)

	s.exec(`UPDATE dag_runs SET created_at = created_at - interval '1 minute'`) // for the repair
	require.Equal(t, dagrun.Cancelled, s.over(run).Status)

	for _, session := range []domain.SessionID{asks, works} {
		require.Eventually(t, func() bool {
			s.repair()
			return s.rests(session)
		}, patience, 50*time.Millisecond)
	}

	require.NoError(t, s.runs.DeleteSolution(t.Context(), user, run.ProdSolutionID))
}
