package systemtest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/worker"
)

// A sub-agent whose run cannot continue ends: its chat, whose run is open and healthy, goes
// on without it, and one in the background is lost.
func TestReconciler_CheckSubAgents_endsStuckOnes(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.impatient()
	s.worker.Stop()
	s.worker = sdkworker.New(s.client, s.queue, sdkworker.Options{})
	worker.Register(brokenWorkflow{s.worker, contract.WorkflowFork, func(workflow.Context, contract.ForkInput) (contract.ForkOut, error) {
		panic("broken by a deploy")
	}}, s.acts)
	s.runner.Register(s.worker)
	require.NoError(t, s.worker.Start())

	session := s.session()
	ack := s.send(session, script(obj{"steps": []obj{
		{"calls": []obj{backgroundAgent("stays", obj{"text": "never"}), agent("digs", obj{"text": "never"})}},
		{"text": "without it, then"},
	}}))

	require.Eventually(t, func() bool {
		idle, err := s.journal.IdleSubAgents(t.Context(), 0, "", 10)
		require.NoError(t, err)

		return len(idle) == 2 && !slices.ContainsFunc(idle, func(a domain.OpenSubAgent) bool {
			look, err := s.runs.LookAtSubAgent(t.Context(), a)
			return err != nil || look.State != domain.RunStuck
		})
	}, patience, 100*time.Millisecond, "their workflow tasks keep failing")
	require.NoError(t, s.reconciler.CheckRuns(t.Context()))
	require.Empty(t, s.findings(), "the run of the chat is open")

	require.Eventually(t, func() bool {
		require.NoError(t, s.reconciler.CheckSubAgents(t.Context()))
		require.NoError(t, s.tasks.Repair(t.Context()))

		return s.anyChatEnded(session)
	}, patience, 100*time.Millisecond)
	require.Equal(t, "completed", s.awaitEnd(session, ack.ChatID)["finish_reason"])
	s.awaitEnds(session, ack.ChatID, 1)
	require.Contains(t, s.findings(), "stuck_sub_agent")

	calls := ofLoop(s.messages(session), domain.RootLoop)[1].ToolCalls
	require.Equal(t, domain.CallError, calls[1].Status)
	require.Contains(t, calls[1].Result, "did not complete its task: its run was lost")

	require.Eventually(t, func() bool {
		require.NoError(t, s.reconciler.CheckSubAgents(t.Context()))
		require.NoError(t, s.tasks.Repair(t.Context()))

		tasks, err := s.tasks.List(t.Context(), session)
		require.NoError(t, err)

		return tasks[0].Status == domain.TaskLost
	}, patience, 100*time.Millisecond)
	s.checkEvents(session)

	idle, err := s.journal.IdleSubAgents(t.Context(), 0, "", 10)
	require.NoError(t, err)
	require.Empty(t, idle)
}
