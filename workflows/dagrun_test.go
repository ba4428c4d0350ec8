package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/workflows"
)

func TestDAGRun(t *testing.T) {
	t.Parallel()

	node := func(id string) []contract.DAGNodeInput {
		return []contract.DAGNodeInput{{ID: id, NodeID: "n", Attempt: 1}}
	}
	for name, tc := range map[string]struct {
		steps   []contract.AdvanceDAGRunOut
		advance bool          // a node that was begun has the run advanced
		signal  time.Duration // of the end of a chat; 0: none
		begun   int
		stopped int
	}{
		"over at once": {steps: []contract.AdvanceDAGRunOut{{Ended: true}}},
		"waits for a chat for weeks": {
			steps: []contract.AdvanceDAGRunOut{{Begin: node("a")}, {Ended: true}}, signal: 21 * 24 * time.Hour, begun: 1,
		},
		"waits for a time":             {steps: []contract.AdvanceDAGRunOut{{WakeMS: 3600_000}, {Ended: true}}},
		"a rejected node is looked at": {steps: []contract.AdvanceDAGRunOut{{Begin: node("a")}, {Ended: true}}, advance: true, begun: 1},
		"a cancelled node is stopped":  {steps: []contract.AdvanceDAGRunOut{{Stop: node("a")}, {Ended: true}}, advance: true, stopped: 1},
		"an attempt begins once at all": {
			steps: []contract.AdvanceDAGRunOut{{Begin: node("a")}, {WakeMS: 1000}, {Ended: true}}, signal: time.Minute, begun: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			env := newEnvironment()
			looks, begun, stopped := 0, 0, 0

			contract.AdvanceDAGRun.Handle(env, func(_ context.Context, in contract.DAGRunInput) (contract.AdvanceDAGRunOut, error) {
				require.Equal(t, "r1", in.RunID)

				looks++

				return tc.steps[looks-1], nil
			})
			contract.BeginDAGNode.Handle(env, func(context.Context, contract.DAGNodeInput) (contract.DAGNodeOut, error) {
				begun++
				return contract.DAGNodeOut{Advance: tc.advance}, nil
			})
			contract.StopDAGNode.Handle(env, func(context.Context, contract.DAGNodeInput) (contract.DAGNodeOut, error) {
				stopped++
				return contract.DAGNodeOut{Advance: tc.advance}, nil
			})

			if tc.signal > 0 {
				env.RegisterDelayedCallback(func() {
					env.SignalWorkflow(contract.ChatEnded.Name, contract.EndedChat{ChatID: "c"})
				}, tc.signal)
			}

			env.ExecuteWorkflow(workflows.DAGRun, contract.DAGRunInput{RunID: "r1"})
			require.True(t, env.IsWorkflowCompleted())
			require.NoError(t, env.GetWorkflowError())
			require.Equal(t, []int{len(tc.steps), tc.begun, tc.stopped}, []int{looks, begun, stopped})
		})
	}
}
