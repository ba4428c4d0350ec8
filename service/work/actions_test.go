package work

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/operator"
)

// possibleNow returns the actions that are possible with a run.
func possibleNow(run operator.Run) []operator.RunAction {
	describe(&run, run.Work)
	return run.Actions
}

func TestPossible_byKind(t *testing.T) {
	t.Parallel()

	all := []operator.RunAction{operator.RunCancel, operator.RunForceFail, operator.RunResume}
	for id, c := range map[string]struct {
		kind   string
		open   []operator.RunAction // with an open workflow
		lost   []operator.RunAction // without one
		ending []operator.RunAction // with an open workflow, and work that has ended
	}{
		"session/x": {
			operator.RunKindChat, all, all[2:], all[:2],
		},
		"fork/c/x": {
			operator.RunKindFork, all[:2], []operator.RunAction{operator.RunForceFail}, all[:2],
		},
		"task/x":         {operator.RunKindTask, all[:2], []operator.RunAction{operator.RunForceFail}, all[:2]},
		"compact/x":      {operator.RunKindCompaction, all, all, all[:2]},
		"replay/x":       {operator.RunKindReplay, all[2:], all[2:], nil},
		"history/s/x":    {operator.RunKindHistory, []operator.RunAction{operator.RunCancel, operator.RunResume}, all[2:], all[:1]},
		"import/x":       {operator.RunKindImport, []operator.RunAction{operator.RunCancel, operator.RunResume}, all[2:], all[:1]},
		"delete/x":       {operator.RunKindDeletion, all[2:], all[2:], nil},
		"archive":        {operator.RunKindArchive, all[2:], all[2:], all[2:]},
		"schedule-run/x": {operator.RunKindSchedule, all, all, all[:2]},
		"issue-run/x":    {operator.RunKindIssue, all, all, all[:2]},
		"dag/s/x":        {operator.RunKindDAG, all, all, all[:2]},

		"schedule-tick/x-2026": {operator.RunKindSchedule, nil, nil, nil},
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()

			run := operator.Run{WorkflowID: id, Kind: c.kind, Status: "running", Work: &operator.Job{Open: true, Status: "running"}}
			require.ElementsMatch(t, c.open, possibleNow(run), "open")

			run.Status = operator.RunLost
			require.ElementsMatch(t, c.lost, possibleNow(run), "lost")

			run.Status, run.Work.Open = "running", false
			require.ElementsMatch(t, c.ending, possibleNow(run), "ending")

			run.Status = "failed"
			require.Empty(t, possibleNow(run), "closed")

			run.Work.Open = true
			require.Empty(t, possibleNow(run), "the work continues in a newer run")
		})
	}
}

func TestPossible_waits(t *testing.T) {
	t.Parallel()

	chat := operator.Run{
		WorkflowID: "session/x", Kind: operator.RunKindChat, Status: "running", Work: &operator.Job{Open: true, Status: "parked"},
	}
	require.True(t, domain.HasCode(possible(chat, operator.RunResume), "run_waits_for_answer"))
	require.Equal(t, []operator.RunAction{operator.RunCancel, operator.RunForceFail}, possibleNow(chat))

	queued := operator.Run{
		WorkflowID: "issue-run/x", Kind: operator.RunKindIssue, Status: operator.RunLost, Work: &operator.Job{Open: true, Status: "queued"},
	}
	require.True(t, domain.HasCode(possible(queued, operator.RunForceFail), "run_action_impossible"))
	require.Equal(t, []operator.RunAction{operator.RunCancel}, possibleNow(queued))
}
