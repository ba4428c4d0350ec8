package domain_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestSlug(t *testing.T) {
	t.Parallel()

	for name, want := range map[string]string{"My Team": "my-team-7aaafb7", "Über Größe!": "ber-gr-e-7aaafb7", "": "7aaafb7", "日本": "7aaafb7"} {
		require.Equal(t, want, domain.Slug(name, "01a1ff63-67aaafb7"), name)
	}
}

func TestIssuePrefixOf(t *testing.T) {
	t.Parallel()

	for name, want := range map[string]string{"Website": "WEB", "7 days of X": "DAY", "a1": "A1", "日本": "ISS", "": "ISS"} {
		require.Equal(t, want, domain.IssuePrefixOf(name), name)
	}
}

func TestWorkspaceRole_Includes(t *testing.T) {
	t.Parallel()

	roles := []domain.WorkspaceRole{domain.WorkspaceViewer, domain.WorkspaceMember, domain.WorkspaceAdmin, domain.WorkspaceOwner}
	for i, has := range roles {
		for j, needed := range roles {
			require.Equal(t, i >= j, has.Includes(needed), "%s includes %s", has, needed)
		}
	}

	require.False(t, domain.WorkspaceRole("").Includes(domain.WorkspaceViewer))
}

func TestDifferences(t *testing.T) {
	t.Parallel()

	agent, id := domain.ActorAgent, "a1"
	before := domain.Issue{Title: "a", Status: domain.IssueTodo, Labels: []string{"x"}}
	require.Empty(t, domain.Differences(before, before))

	after := domain.Issue{Title: "b", Status: domain.IssueDone, AssigneeType: &agent, AssigneeID: &id, Labels: []string{"x", "y"}}
	require.Equal(t, []domain.Activity{
		{Action: domain.ActionTitleChanged, From: "a", To: "b"},
		{Action: domain.ActionStatusChanged, From: domain.IssueTodo, To: domain.IssueDone},
		{Action: domain.ActionAssigneeChanged, To: map[string]string{"type": "agent", "id": "a1"}},
		{Action: domain.ActionLabelChanged, From: []string{"x"}, To: []string{"x", "y"}},
	}, domain.Differences(before, after))
}

func TestIssueBrief_Message(t *testing.T) {
	t.Parallel()

	brief := domain.IssueBrief{
		Workspace:   "W",
		Identifier:  "W-1",
		Title:       "T",
		Description: "D",
		Note:        "N",
		Comments:    []domain.BriefComment{{Author: "Ann", Content: "C"}},
		Squad:       &domain.Squad{Name: "S", Instructions: "I"},
	}
	require.Contains(t, brief.Message(), "You work on issue W-1 of the workspace \"W\".\n\n# T\n\nD\n\nYou lead the squad \"S\".\n\nI\n\n"+
		"## Note of who handed it over\n\nN\n\n## Comments\n\nAnn: C\n\nEnd with a short report")

	again := domain.IssueBrief{Workspace: "W", Identifier: "W-1", Title: "T", Continues: true, Failure: "lost"}
	require.Equal(t, "Issue W-1 of the workspace \"W\" needs you again.\n\nThe attempt before failed: lost. See what it has done, and "+
		"go on from there.",
		again.Message())
}

func TestRunEnd_Retried(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		reason domain.FinishReason
		code   string
		want   bool
	}{
		"completed":    {domain.FinishCompleted, "", false},
		"stopped":      {domain.FinishInterrupted, "", false},
		"a fault":      {domain.FinishFailed, "model_unavailable", true},
		"a limit":      {domain.FinishMaxSteps, "", false},
		"a budget":     {domain.FinishBudgetExhausted, "", false},
		"not answered": {domain.FinishAwaitingAnswer, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, domain.EndOfRun(tc.reason, tc.code, "", false).Retried())
		})
	}
}
