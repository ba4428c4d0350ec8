package systemtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	domainboard "everloop/domain/board"
	"everloop/domain/prodagent"
	"everloop/infra/solutions"
	"everloop/infra/temporal"
	"everloop/internal/durable"
	"everloop/service/agents"
	"everloop/service/board"
)

// newBoard returns the service of workspaces, with its activities on the stack's worker.
func (s *stack) newBoard(runs temporal.Runs) *board.Service {
	s.t.Helper()

	s.agents = s.newAgents(runs)
	issues := board.New(board.Deps{
		DB: s.db.DB, StartRun: runs.StartIssueRun, NotifyWaiter: runs.NotifyWaiter, Chats: s.chats, Logger: s.logger, Agents: s.agents,
	})
	issues.Register(s.worker)

	return issues
}

func (s *stack) newAgents(runs temporal.Runs) *agents.Service {
	s.t.Helper()

	catalog, err := solutions.Load("")
	require.NoError(s.t, err)

	return agents.New(agents.Deps{
		DB: s.db.DB, Solutions: catalog, Models: s.acts.Model.Models, StartTask: runs.StartTask, Logger: s.logger,
	})
}

func TestIssueRun_writesWhatTheAgentSaid(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	runs := temporal.Runs{Client: s.client, Queue: s.queue}
	issues := s.newBoard(runs)
	stalled := s.check(1, agentRuns(s, runs, issues))

	user, agent := s.caller.User.ID, domain.NewID()
	workspace, err := issues.CreateWorkspace(
		t.Context(),
		user,
		domainboard.NewWorkspace{Name: "Web", Settings: domainboard.DefaultWorkspaceSettings},
	)
	require.NoError(t, err)
	_, err = agents.NewStore(s.db.DB).CreateAgentInstance(t.Context(), prodagent.Instance{
		ID: agent, OwnerID: user, Name: "Builder", RuntimeID: prodagent.BuiltinRuntime,
		MaxConcurrentTasks: 1, Visibility: prodagent.VisibilityWorkspace,
	})
	require.NoError(t, err)

	title, text := "Paint the wall", script(obj{"steps": []obj{{"text": "painted"}}})
	issue, err := issues.CreateIssue(t.Context(), user, workspace.ID, domainboard.IssueFields{
		Title: &title, Description: &text, Assignee: &domainboard.AssigneeRef{Type: domainboard.ActorAgent, ID: agent},
	})
	require.NoError(t, err)

	var run domainboard.IssueRun

	require.Eventually(t, func() bool {
		require.NoError(t, stalled(t.Context()))
		found, _, err := issues.IssueRuns(t.Context(), user, workspace.ID, issue.ID, 10, 0)
		require.NoError(t, err)
		require.Len(t, found, 1)
		run = found[0]

		return run.FinishedAt != nil
	}, patience, 50*time.Millisecond, "the run did not end")
	require.Equal(t, domainboard.IssueRunCompleted, run.Status)

	issue, err = issues.Issue(t.Context(), user, workspace.ID, issue.ID)
	require.NoError(t, err)
	require.Equal(t, domainboard.IssueInReview, issue.Status)
	comments, _, err := issues.Comments(t.Context(), user, workspace.ID, issue.ID, 10, 0)
	require.NoError(t, err)
	require.Len(t, comments, 1)
	require.Equal(t, "painted", comments[0].Content)
	s.replayRun("issue_run", durable.IssueRunWorkflowID(run.ID))
	s.requireClass(domain.ClassIssue, *run.SessionID)
}
