package systemtest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/background"
	"everloop/domain"
	domainboard "everloop/domain/board"
	"everloop/domain/prodagent"
	"everloop/infra/temporal"
	"everloop/internal/durable"
	"everloop/service/agents"
	"everloop/service/board"
	"everloop/worker"
)

// plainAgents make sessions that have nothing of their agent.
type plainAgents struct{ *stack }

func (a plainAgents) StartSession(ctx context.Context, ownerID string, in prodagent.Start) error {
	return a.journal.EnsureSession(ctx, ownerID, domain.NewSession{
		ID: in.SessionID, Class: in.Class, Intent: in.Intent, WorkspaceID: in.WorkspaceID,
	})
}

func TestIssueRun_writesWhatTheAgentSaid(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	runs := temporal.Runs{Client: s.client, Queue: s.queue}
	issues, err := board.New(board.Config{Store: s.db, Runs: runs, Chats: s.chats, Agents: plainAgents{s}, Logger: s.logger})
	require.NoError(t, err)
	worker.RegisterIssueRuns(s.worker, &background.IssueRuns{Board: issues})
	stalled := s.check(1, agentRuns(s, runs, issues))

	user, agent := s.caller.User.ID, domain.NewID()
	workspace, err := s.db.CreateWorkspace(
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
		found, _, err := s.db.IssueRuns(t.Context(), user, workspace.ID, issue.ID, 10, 0)
		require.NoError(t, err)
		require.Len(t, found, 1)
		run = found[0]

		return run.FinishedAt != nil
	}, patience, 50*time.Millisecond, "the run did not end")
	require.Equal(t, domainboard.IssueRunCompleted, run.Status)

	issue, err = s.db.Issue(t.Context(), user, workspace.ID, issue.ID)
	require.NoError(t, err)
	require.Equal(t, domainboard.IssueInReview, issue.Status)
	comments, _, err := s.db.Comments(t.Context(), user, workspace.ID, issue.ID, 10, 0)
	require.NoError(t, err)
	require.Len(t, comments, 1)
	require.Equal(t, "painted", comments[0].Content)
	s.replayRun("issue_run", durable.IssueRunWorkflowID(run.ID))
	s.requireClass(domain.ClassIssue, *run.SessionID)
}
