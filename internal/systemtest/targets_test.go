package systemtest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	domainboard "everloop/domain/board"
	"everloop/domain/dag"
	"everloop/domain/dagrun"
	"everloop/domain/prodagent"
	domainproduction "everloop/domain/production"
	"everloop/domain/schedule"
	"everloop/domain/target"
	"everloop/internal/durable"
	"everloop/service/agents"
)

// publish creates a production solution with a published DAG.
func (s *timetable) publish(nodes string, edges ...string) (solutionID string) {
	s.t.Helper()

	list := ""
	for i, e := range edges {
		if i > 0 {
			list += ","
		}

		list += e
	}

	var g dag.Graph
	require.NoError(
		s.t,
		json.Unmarshal([]byte(`{"nodes":[{"id":"s","type":"start"},{"id":"z","type":"end"},`+nodes+`],"edges":[`+list+`]}`), &g),
	)

	solution, err := s.graphs.Create(s.t.Context(), domainproduction.NewSolution{OwnerID: s.caller.User.ID, Name: "n"})
	require.NoError(s.t, err)
	_, err = s.graphs.PublishDAG(s.t.Context(), s.caller.User, solution.ID, 1, &g, "")
	require.NoError(s.t, err)

	return solution.ID
}

// targeting creates a task with a target.
func (s *timetable) targeting(of target.Target, change func(*schedule.TaskSpec)) schedule.Task {
	s.t.Helper()

	return s.create(func(spec *schedule.TaskSpec) {
		spec.Retarget(of)

		if change != nil {
			change(spec)
		}
	})
}

// begun waits until the newest run of a task has started its target.
func (s *timetable) begun(taskID string) (run schedule.Run) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		if runs := s.records(taskID); len(runs) > 0 {
			run = runs[0]
		}

		return run.Started != nil || run.Error != nil
	}, patience, 50*time.Millisecond, "nothing was started")
	require.Empty(s.t, why(run))

	return run
}

func (s *timetable) count(sql string, args ...any) (n int) {
	s.t.Helper()
	require.NoError(s.t, s.journal.Pool.QueryRow(s.t.Context(), sql, args...).Scan(&n))

	return n
}

// newTeam creates a workspace with an agent that works in it.
func (s *timetable) newTeam() (workspaceID, agentID string) {
	s.t.Helper()

	workspace, err := s.issues.CreateWorkspace(s.t.Context(), s.caller.User.ID,
		domainboard.NewWorkspace{Name: "Web", Settings: domainboard.DefaultWorkspaceSettings})
	require.NoError(s.t, err)

	agentID = domain.NewID()
	_, err = agents.NewStore(s.db.DB).CreateAgentInstance(s.t.Context(), prodagent.Instance{
		ID: agentID, OwnerID: s.caller.User.ID, Name: "Builder", RuntimeID: prodagent.BuiltinRuntime,
		MaxConcurrentTasks: 1, Visibility: prodagent.VisibilityWorkspace,
	})
	require.NoError(s.t, err)

	return workspace.ID, agentID
}

const heldScript = `{"id":"a","type":"tool","config":{"tool":"Bash","arguments":{"command":"sleep 100"}}}`

func TestScheduledTask_startsADAG(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	solution := s.publish(`{"id":"a","type":"tool","config":{"tool":"Bash","arguments":{"command":"echo {{input.at}} {{input.product}}"}}}`,
		edge("e1", "s", "a"), edge("e2", "a", "z"))
	task := s.targeting(target.Target{
		Kind: target.DAG, SolutionID: solution, Inputs: map[string]any{"at": "{{tick.time}}", "product": "{{input.product}}", "n": 1.5},
	}, func(spec *schedule.TaskSpec) { spec.Inputs = map[string]string{"product": "Atlas"} })

	s.runNow(task.ID)
	run := s.record(task.ID)
	require.Empty(t, why(run))
	require.Nil(t, run.SessionID)

	started, err := s.works.runs.DAGRun(t.Context(), s.caller.User, solution, run.Started.RunID)
	require.NoError(t, err)
	require.Equal(t, []any{dagrun.TriggerSchedule, "task/" + task.ID}, []any{started.Trigger, *started.StartedBy})

	at := run.ScheduledFor.UTC().Format(time.RFC3339)
	require.JSONEq(t, `{"at":"`+at+`","product":"Atlas","n":1.5}`, string(started.Inputs))
	require.Contains(t, string(started.Outputs), at+" Atlas")
}

// A worker that dies after a start and before its record: the next attempt starts nothing.
func TestScheduledTask_startsItsTargetOnce(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	workspace, _ := s.newTeam()

	for name, of := range map[string]target.Target{
		"dag":   {Kind: target.DAG, SolutionID: s.publish(heldScript, edge("e1", "s", "a"), edge("e2", "a", "z"))},
		"issue": {Kind: target.Issue, WorkspaceID: workspace},
	} {
		task := s.targeting(of, nil)
		s.runNow(task.ID)
		run := s.begun(task.ID)

		if of.Kind == target.Issue { // its run ends at once, and its end is written
			s.record(task.ID)
		}

		var execution string
		require.NoError(t, s.journal.Pool.QueryRow(t.Context(), `
			UPDATE scheduled_runs SET started = NULL, state = 'running', status = 'running', finished_at = NULL WHERE id = $1
			RETURNING execution`, run.ID).Scan(&execution))
		_, _, err := s.tasks.Begin(t.Context(), schedule.RunStart{RunID: run.ID, Execution: execution, StartedAt: time.Now()})
		require.NoError(t, err)
		require.Equal(t, run.Started, s.begun(task.ID).Started, name)
		require.Equal(t, 1, s.count(`
			SELECT (SELECT count(*) FROM dag_runs WHERE started_by = $1) + (SELECT count(*) FROM issues WHERE started_by = $1)`,
			"task/"+task.ID), name)
	}
}

// The end of a workflow by an operator, or for the next run, cancels what it has started.
func TestScheduledTask_cancelsItsTarget(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	workspace, agent := s.newTeam()

	for name, of := range map[string]target.Target{
		"dag": {Kind: target.DAG, SolutionID: s.publish(heldScript, edge("e1", "s", "a"), edge("e2", "a", "z"))},
		"issue": {
			Kind: target.Issue, WorkspaceID: workspace, AssigneeID: agent,
			Description: script(obj{"steps": []obj{{"text": "late", "hold": true}}}),
		},
	} {
		task := s.targeting(of, nil)
		s.runNow(task.ID)
		run := s.begun(task.ID)
		require.NoError(t, s.client.CancelWorkflow(t.Context(), durable.ScheduledRunWorkflowID(run.ID), ""))

		ended := s.record(task.ID)
		require.Equal(t, []any{domain.RunFailed, "cancelled"}, []any{ended.Status, *ended.ErrorCode}, name)
		require.Zero(t, s.count(`
			SELECT (SELECT count(*) FROM dag_runs WHERE started_by = $1 AND status <> 'cancelled') +
			       (SELECT count(*) FROM issue_runs r JOIN issues i ON i.id = r.issue_id
			        WHERE i.started_by = $1 AND r.status <> 'cancelled')`, "task/"+task.ID), name)
	}
}

func TestScheduledTask_createsAnIssue(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	workspace, agent := s.newTeam()
	says := script(obj{"steps": []obj{{"text": "painted"}}})
	task := s.targeting(target.Target{
		Kind: target.Issue, WorkspaceID: workspace, AssigneeType: domainboard.ActorAgent, AssigneeID: agent,
		Title: "Paint {{input.what}}", Description: "{{task.title}} at {{tick.time}}" + says,
		Priority: domainboard.PriorityHigh, Labels: []string{"night"},
	}, func(spec *schedule.TaskSpec) { spec.Inputs = map[string]string{"what": "the wall"} })

	s.runNow(task.ID)
	run := s.record(task.ID)
	require.Empty(t, why(run))
	require.Positive(t, run.Usage.OutputTokens)

	issue, err := s.issues.Issue(t.Context(), s.caller.User.ID, workspace, run.Started.IssueID)
	require.NoError(t, err)
	require.Equal(t, []any{"Paint the wall", domainboard.PriorityHigh, []string{"night"}, domainboard.IssueInReview, "task/" + task.ID},
		[]any{issue.Title, issue.Priority, issue.Labels, issue.Status, *issue.StartedBy})
	require.Contains(t, issue.Description, "t at "+run.ScheduledFor.UTC().Format(time.RFC3339))
}

// Rights are checked at each tick, and their loss pauses the task like any failure.
func TestScheduledTask_ownerLostTheRight(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	workspace, _ := s.newTeam()
	solution := s.publish(heldScript, edge("e1", "s", "a"), edge("e2", "a", "z"))
	agent, err := s.agents.Create(t.Context(), prodagent.Agent{Summary: prodagent.Summary{
		Name:       "Reviewer",
		AgentID:    "reviewer",
		SolutionID: "software_factory",
		OwnerID:    s.caller.User.ID,
		BizRoleID:  "reviewer",
		Skills:     []string{},
	}, SkillsData: map[string]any{}, PreviewURLs: []domain.PreviewURL{}})
	require.NoError(t, err)

	for name, c := range map[string]struct {
		of   target.Target
		lose func()
		code string
	}{
		"agent": {
			target.Target{Kind: target.Agent, AgentID: "reviewer"},
			func() { require.NoError(t, s.agents.Delete(t.Context(), s.caller.User.ID, agent.RecordID)) }, "prod_agent_not_found",
		},
		"dag": {
			target.Target{Kind: target.DAG, SolutionID: solution},
			func() { require.NoError(t, s.works.runs.DeleteSolution(t.Context(), s.caller.User, solution)) }, "prod_solution_not_found",
		},
		"issue": {
			target.Target{Kind: target.Issue, WorkspaceID: workspace},
			func() { s.exec(`UPDATE prod_workspace_members SET role = 'viewer' WHERE workspace_id = $1`, workspace) },
			"workspace_role_required",
		},
	} {
		task := s.targeting(c.of, func(spec *schedule.TaskSpec) { spec.PauseAfter = 1 })
		c.lose()
		s.runNow(task.ID)
		run := s.record(task.ID)
		require.Equal(t, []any{schedule.TickBlocked, c.code}, []any{run.Outcome, *run.ErrorCode}, name)
		require.Nil(t, run.Started, name)
		require.False(t, s.shown(task.ID, func(task schedule.Task) bool { return !task.Enabled }).Enabled)

		_, err := s.tasks.Create(t.Context(), s.caller.User.ID, task.TaskSpec)
		require.True(t, domain.HasCode(err, c.code), "%s: %v", name, err)
	}
}

func TestScheduledTask_startsAnAgent(t *testing.T) {
	t.Parallel()
	s := newTimetable(t)
	_, err := s.agents.Create(t.Context(), prodagent.Agent{Summary: prodagent.Summary{
		Name:       "Reviewer",
		AgentID:    "reviewer",
		SolutionID: "software_factory",
		OwnerID:    s.caller.User.ID,
		BizRoleID:  "reviewer",
		Skills:     []string{},
	}, SkillsData: map[string]any{}, PreviewURLs: []domain.PreviewURL{}, Instructions: "Review."})
	require.NoError(t, err)

	task := s.targeting(target.Target{
		Kind: target.Agent, AgentID: "reviewer", Prompt: "{{input.what}}" + script(obj{"steps": []obj{{"text": "done"}}}),
		Inputs: map[string]any{"what": "Look"},
	}, nil)
	require.Equal(t, []any{target.Agent, "reviewer"}, []any{task.Target.Kind, *task.AgentID})
	s.runNow(task.ID)
	run := s.record(task.ID)
	require.Equal(t, []any{domain.RunCompleted, *run.SessionID}, []any{run.Status, run.Started.SessionID})
	require.Contains(t, s.messages(*run.SessionID)[0].Blocks[0].Content, "Look")
}

// why returns the error of a run; empty: there is none.
func why(run schedule.Run) string {
	if run.Error == nil {
		return ""
	}

	return *run.ErrorCode + ": " + *run.Error
}
