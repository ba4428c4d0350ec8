package board_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/board"
)

func TestSlug(t *testing.T) {
	t.Parallel()

	for name, want := range map[string]string{
		"My Team": "my-team-7aaafb7", "Über Größe!": "ber-gr-e-7aaafb7", "": "7aaafb7", "日本": "7aaafb7",
	} {
		require.Equal(t, want, board.Slug(name, "01a1ff63-67aaafb7"), name)
	}
}

func TestIssuePrefixOf(t *testing.T) {
	t.Parallel()

	for name, want := range map[string]string{"Website": "WEB", "7 days of X": "DAY", "a1": "A1", "日本": "ISS", "": "ISS"} {
		require.Equal(t, want, board.IssuePrefixOf(name), name)
	}
}

func TestWorkspaceRole_Includes(t *testing.T) {
	t.Parallel()

	roles := []board.WorkspaceRole{board.WorkspaceViewer, board.WorkspaceMember, board.WorkspaceAdmin, board.WorkspaceOwner}
	for i, has := range roles {
		for j, needed := range roles {
			require.Equal(t, i >= j, has.Includes(needed), "%s includes %s", has, needed)
		}
	}

	require.False(t, board.WorkspaceRole("").Includes(board.WorkspaceViewer))
}

func TestDifferences(t *testing.T) {
	t.Parallel()

	agent, id := board.ActorAgent, "a1"
	before := board.Issue{Title: "a", Status: board.IssueTodo, Labels: []string{"x"}}
	require.Empty(t, board.Differences(before, before))

	after := board.Issue{Title: "b", Status: board.IssueDone, AssigneeType: &agent, AssigneeID: &id, Labels: []string{"x", "y"}}
	require.Equal(t, []board.Activity{
		{Action: board.ActionTitleChanged, From: "a", To: "b"},
		{Action: board.ActionStatusChanged, From: board.IssueTodo, To: board.IssueDone},
		{Action: board.ActionAssigneeChanged, To: map[string]string{"type": "agent", "id": "a1"}},
		{Action: board.ActionLabelChanged, From: []string{"x"}, To: []string{"x", "y"}},
	}, board.Differences(before, after))
}

func TestIssueBrief_Message(t *testing.T) {
	t.Parallel()

	brief := board.IssueBrief{
		Workspace:   "W",
		Identifier:  "W-1",
		Title:       "T",
		Description: "D",
		Note:        "N",
		Comments:    []board.BriefComment{{Author: "Ann", Content: "C"}},
		Squad:       &board.Squad{Name: "S", Instructions: "I"},
		Mates:       []board.SquadMate{{Name: "Ann", Type: board.ActorMember, Role: "tester"}, {Name: "Bot", Type: board.ActorAgent}},
	}
	require.Contains(t, brief.Message(), "You work on issue W-1 of the workspace \"W\".\n\n# T\n\nD\n\nYou lead the squad \"S\".\n\nI\n\n"+
		"In the squad are:\n- Ann (member): tester\n- Bot (agent)\n\n"+
		"## Note of who handed it over\n\nN\n\n## Comments\n\nAnn: C\n\nEnd with a short report")

	again := board.IssueBrief{Workspace: "W", Identifier: "W-1", Title: "T", Continues: true, Failure: "lost"}
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
