package systemtest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/dag"
	"everloop/domain/history"
	"everloop/domain/production"
	"everloop/domain/transfer"
	"everloop/internal/durable"
	"everloop/internal/testkit"
	"everloop/service/chat"
	"everloop/workflows"
)

// workflowTypes records the types of workflows that workers know.
type workflowTypes map[string]bool

func (w workflowTypes) RegisterWorkflowWithOptions(_ any, options workflow.RegisterOptions) {
	w[options.Name] = true
}

// listed returns the workflows of a query. The list is eventually consistent.
func (s *stack) listed(query string) []*workflowpb.WorkflowExecutionInfo {
	s.t.Helper()

	list, err := s.client.ListWorkflow(s.t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: 1000})
	require.NoError(s.t, err)

	return list.GetExecutions()
}

// attributesOf returns the search attributes of a workflow; absent ones are not in it.
func attributesOf(t *testing.T, info *workflowpb.WorkflowExecutionInfo) map[string]string {
	t.Helper()

	found := map[string]string{}

	for name, payload := range info.GetSearchAttributes().GetIndexedFields() {
		var value any

		require.NoError(t, converter.GetDefaultDataConverter().FromPayload(payload, &value))

		if text, is := value.(string); is {
			found[name] = text
		}
	}

	return found
}

// nested publishes a DAG with an agent, and one that runs it as a subflow, and runs that.
func (s *works) nested() (outer, inner string) {
	s.t.Helper()

	prompt, err := json.Marshal("go" + script(obj{"steps": []obj{{"text": "drafted"}}}))
	require.NoError(s.t, err)

	publish := func(node string) string {
		var g dag.Graph
		require.NoError(s.t, json.Unmarshal([]byte(`{"nodes":[{"id":"s","type":"start"},{"id":"z","type":"end"},`+node+`],"edges":[`+
			strings.Join([]string{edge("e1", "s", "a"), edge("e2", "a", "z")}, ",")+`]}`), &g))
		solution, err := s.graphs.Create(s.t.Context(), production.NewSolution{OwnerID: s.caller.User.ID, Name: domain.NewID()})
		require.NoError(s.t, err)
		_, err = s.graphs.PublishDAG(s.t.Context(), s.caller.User, solution.ID, 1, &g, "")
		require.NoError(s.t, err)

		return solution.ID
	}
	inside := publish(`{"id":"a","type":"agent","config":{"prompt":` + string(prompt) + `}}`)
	outside := publish(`{"id":"a","type":"subflow","config":{"prod_solution_id":"` + inside + `"}}`)

	run, err := s.runs.Start(s.t.Context(), s.caller.User, outside, 0, json.RawMessage(`{}`))
	require.NoError(s.t, err)
	run = s.over(run)
	require.Equal(s.t, "completed", string(run.Status), "%+v", run.Error)

	nodes, err := s.runs.DAGRunNodes(s.t.Context(), run.ID, false)
	require.NoError(s.t, err)

	for _, n := range nodes {
		if n.ChildRunID != nil {
			inner = durable.DAGRunWorkflowID(inside, *n.ChildRunID)
		}
	}

	return durable.DAGRunWorkflowID(outside, run.ID), inner
}

// Operators find every workflow by all search attributes, and the chats of what works unattended
// by the run that they belong to.
func TestWorkflows_searchAttributes(t *testing.T) {
	t.Parallel()
	s := newOperated(t)

	user := s.session()
	end := s.send(user, script(obj{"steps": []obj{
		{"calls": []obj{agent("look", obj{"text": "seen"})}}, {"text": "done"},
	}}))
	s.awaitEnd(user, end.ChatID)

	scheduled, issue := s.schedule("by-schedule"), s.issue("by-issue")
	outer, inner := s.nested()

	// The other workflows wait in a queue without workers.
	queue := testkit.Prefix(t)
	runs := s.engine
	runs.Queue, runs.Archive = queue, "archive/"+queue
	task, owner := domain.NewID(), s.caller.User.ID
	require.NoError(t, runs.StartTask(t.Context(), contract.TaskInput{TaskID: task, SessionID: user, OwnerID: owner}))
	require.NoError(t, runs.StartCompaction(t.Context(), domain.CompactionRun{ID: domain.NewID(), SessionID: user, OwnerID: owner}))
	require.NoError(t, runs.StartReplay(t.Context(), user, owner))
	require.NoError(t, runs.StartMove(t.Context(), history.Operation{ID: domain.NewID(), SessionID: user, OwnerID: owner}))
	require.NoError(t, runs.StartImport(t.Context(), transfer.Import{SessionID: user, OwnerID: owner}))
	require.NoError(t, runs.StartDeletion(t.Context(), domain.DeletedSession{SessionID: user, OwnerID: owner}))
	require.NoError(t, runs.StartArchive(t.Context()))

	s.exec(`
		WITH made AS (
			INSERT INTO triggers (id, owner_id, name, kind, source_kind, source_id, filter, target, enabled, rate_limit)
			VALUES ('trigger', $1, 't', 'run_ended', 'task', 'x', '', '{}', true, 1) RETURNING id)
		INSERT INTO trigger_deliveries (id, work_id, trigger_id, key, counted, event, headers, body_bytes)
		SELECT 'delivery', 'w', id, 'k', true, 'e', '{}', 0 FROM made`, owner)
	require.NoError(t, runs.StartTrigger(t.Context(), "trigger", "delivery"))

	missing := workflowTypes{}
	workflows.Register(missing)

	var found []*workflowpb.WorkflowExecutionInfo

	require.Eventually(t, func() bool {
		found = s.listed("TaskQueue IN ('" + s.queue + "', '" + queue + "')")
		for _, info := range found {
			delete(missing, info.GetType().GetName())
		}

		return len(missing) == 0
	}, patience, 50*time.Millisecond, "not every type of workflow was started: %v", missing)

	for _, info := range found {
		id := info.GetExecution().GetWorkflowId()
		has := attributesOf(t, info)

		for _, key := range durable.AttributeKeys {
			require.Contains(t, has, key.GetName(), id)
		}

		require.NotEmpty(t, has["Kind"], id)

		if has["Kind"] != "archive" {
			require.Equal(t, owner, has["OwnerId"], id)
		}

		if !slices.Contains([]string{"archive", "dag", "trigger"}, has["Kind"]) {
			require.NotEmpty(t, has["SessionId"], id)
		}

		if has["Kind"] == "chat" || has["Kind"] == "fork" {
			require.NotEmpty(t, has["ChatStatus"], id)
		}
	}

	chatsOf := func(parent string) (chats []string) {
		require.Eventually(t, func() bool {
			chats = nil
			for _, info := range s.listed("ParentRun = '" + parent + "' AND Kind = 'chat'") {
				chats = append(chats, info.GetExecution().GetWorkflowId())
			}

			return len(chats) > 0
		}, patience, 50*time.Millisecond, "no chat of %s", parent)

		return chats
	}
	parentOf := func(workflowID string) string {
		info, err := s.client.DescribeWorkflowExecution(t.Context(), workflowID, "")
		require.NoError(t, err)

		return attributesOf(t, info.GetWorkflowExecutionInfo())["ParentRun"]
	}

	taskID, _, _ := strings.Cut(strings.TrimPrefix(parentOf(scheduled.workflow), "task/"), "/")
	require.Contains(t, scheduled.workflow, taskID)
	require.Equal(t, []string{durable.SessionWorkflowID(string(scheduled.session))}, chatsOf("task/"+taskID))
	require.Regexp(t, `^issue/.+`, parentOf(issue.workflow))
	require.Equal(t, []string{durable.SessionWorkflowID(string(issue.session))}, chatsOf(parentOf(issue.workflow)))
	require.Equal(t, []string{"", outer}, []string{parentOf(outer), parentOf(inner)})
	require.Len(t, chatsOf(inner), 1)
}

// Operators read what a workflow is for and what it waits for, and follow links to the desktop.
// No text of a message or title is in it.
func TestWorkflows_details(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.runs.Desktop = "https://everloop.example"
	s.configure(func(c *chat.Config) { c.Runs = s.runs })

	read := func(session domain.SessionID) (static, now string) {
		id := durable.SessionWorkflowID(string(session))
		described, err := s.client.DescribeWorkflow(t.Context(), id, "")
		require.NoError(t, err)
		static, err = described.GetStaticDetails()
		require.NoError(t, err)
		queried, err := s.client.QueryWorkflow(t.Context(), id, "", "__temporal_workflow_metadata")
		require.NoError(t, err)

		var metadata sdkpb.WorkflowMetadata
		require.NoError(t, queried.Get(&metadata))

		return static, metadata.GetCurrentDetails()
	}

	asks, retries := s.session(), s.session()
	ack := s.send(asks, "hunter2"+script(obj{"steps": []obj{{"calls": []obj{ask()}}}}))
	require.Equal(t, "awaiting_answer", s.awaitEnd(asks, ack.ChatID)["finish_reason"])

	static, now := read(asks)
	require.Contains(t, static, "["+string(asks)+"](https://everloop.example/s/"+string(asks)+")")
	require.Contains(t, static, s.caller.User.ID)
	require.Contains(t, now, "chat "+string(ack.ChatID))
	require.Contains(t, now, "waits for an answer of its user")
	require.NotContains(t, static+now, "hunter2")

	s.send(retries, waitsForModel())
	s.await(retries, domain.EventTurnPatch, func(data map[string]any) bool { return data["patch_type"] == "retry" })
	require.Eventually(t, func() bool {
		_, now := read(retries)
		return strings.Contains(now, "waits for the model until "+time.Now().UTC().Format("2006-"))
	}, patience, 50*time.Millisecond)
	require.NoError(t, s.client.CancelWorkflow(t.Context(), durable.SessionWorkflowID(string(retries)), ""))
}
