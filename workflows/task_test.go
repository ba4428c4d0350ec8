package workflows_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
	"everloop/workflows"
)

func TestTask(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		work   error
		status domain.TaskStatus
		reason string // with which the task is lost; empty: it is not
	}{
		"ends by itself":      {nil, domain.TaskCompleted, ""},
		"worker says nothing": {temporal.NewTimeoutError(1, nil), domain.TaskLost, "its worker did not report its end in time"},
		"work cannot be taken": {
			durable.Final("task_not_found", "the task or its session no longer exists"), domain.TaskLost,
			"the task or its session no longer exists",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			env := newEnvironment()
			env.RegisterWorkflow(workflows.Task)

			runs, reason := 0, ""

			contract.RunTask.Handle(env, func(_ context.Context, in contract.RunTaskIn) (contract.RunTaskOut, error) {
				runs++

				require.Equal(t, "t1", in.TaskID)
				require.NotEmpty(t, in.RunID)

				return contract.RunTaskOut{Status: domain.TaskCompleted}, nil
			})
			contract.LoseTask.Handle(env, func(_ context.Context, in contract.LoseTaskIn) (contract.RunTaskOut, error) {
				reason = in.Reason
				return contract.RunTaskOut{Status: domain.TaskLost}, nil
			})

			if tc.work != nil {
				env.OnActivity(contract.RunTask.Name, mock.Anything, mock.Anything).Return(contract.RunTaskOut{}, tc.work)
			}

			env.ExecuteWorkflow(workflows.Task, contract.TaskInput{TaskID: "t1", SessionID: "s1"})
			require.NoError(t, env.GetWorkflowError())

			var status domain.TaskStatus
			require.NoError(t, env.GetWorkflowResult(&status))
			require.Equal(t, tc.status, status)
			require.Equal(t, tc.reason, reason)

			if tc.work == nil {
				require.Equal(t, 1, runs)
			}
		})
	}
}
