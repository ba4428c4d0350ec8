package temporal_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/mocks"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"everloop/domain"
	"everloop/infra/temporal"
)

// queues answers for the task queue of the workers.
type queues struct {
	workflowservice.WorkflowServiceClient
	backlog int64
	rate    float32
	polled  time.Time
}

func (q queues) DescribeTaskQueue(context.Context, *workflowservice.DescribeTaskQueueRequest, ...grpc.CallOption) (
	*workflowservice.DescribeTaskQueueResponse, error,
) {
	return &workflowservice.DescribeTaskQueueResponse{
		Pollers: []*taskqueuepb.PollerInfo{{LastAccessTime: timestamppb.New(q.polled)}},
		Stats:   &taskqueuepb.TaskQueueStats{ApproximateBacklogCount: q.backlog, TasksDispatchRate: q.rate},
	}, nil
}

func TestRuns_LookAtSubAgent(t *testing.T) {
	t.Parallel()

	for id, agent := range map[string]domain.OpenSubAgent{
		"fork/c/l": {ChatID: "c", LoopID: "l", TaskID: "bg"},
		"task/bg":  {ChatID: "c", LoopID: "l", TaskID: "bg", Background: true},
	} {
		client := &mocks.Client{}
		client.On("DescribeWorkflowExecution", mock.Anything, id, "").Return(&workflowservice.DescribeWorkflowExecutionResponse{
			WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
				Status: enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, Execution: &commonpb.WorkflowExecution{RunId: "r"},
			},
		}, nil)
		client.On("TerminateWorkflow", mock.Anything, id, "r", "why").Return(nil)

		runs := temporal.Runs{Client: client}
		look, err := runs.LookAtSubAgent(t.Context(), agent)
		require.NoError(t, err)
		require.Equal(t, domain.RunClosed, look.State)
		require.NoError(t, runs.TerminateSubAgent(t.Context(), agent, "r", "why"))
		client.AssertExpectations(t)
	}
}

func TestRuns_LookAtSession(t *testing.T) {
	t.Parallel()

	now, old := timestamppb.Now(), timestamppb.New(time.Now().Add(-2*time.Minute))
	older := timestamppb.New(time.Now().Add(-6 * time.Minute))
	step := func(name string, attempt int32) []*workflowpb.PendingActivityInfo {
		return []*workflowpb.PendingActivityInfo{{ActivityType: &commonpb.ActivityType{Name: name}, Attempt: attempt}}
	}
	waiting := func(since *timestamppb.Timestamp) *workflowpb.PendingWorkflowTaskInfo {
		return &workflowpb.PendingWorkflowTaskInfo{
			State: enumspb.PENDING_WORKFLOW_TASK_STATE_SCHEDULED, ScheduledTime: since, OriginalScheduledTime: since, Attempt: 1,
		}
	}

	const running, failed = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED
	for name, tc := range map[string]struct {
		status     enumspb.WorkflowExecutionStatus
		task       *workflowpb.PendingWorkflowTaskInfo
		activities []*workflowpb.PendingActivityInfo
		queue      queues
		state      domain.RunState
		finishing  bool
	}{
		"works":  {status: running, activities: step("model.call", 7)},
		"failed": {status: failed, state: domain.RunClosed},
		"task fails": {status: running, task: &workflowpb.PendingWorkflowTaskInfo{
			Attempt:               7,
			OriginalScheduledTime: old,
		}, state: domain.RunStuck},
		"task fails since just now": {
			status: running,
			task:   &workflowpb.PendingWorkflowTaskInfo{Attempt: 7, OriginalScheduledTime: now},
		},
		"step fails":                    {status: running, activities: step("chat.park", 21), state: domain.RunStuck},
		"step fails, not often":         {status: running, activities: step("chat.park", 20)},
		"end fails":                     {status: running, activities: step("chat.finish", 30), state: domain.RunStuck, finishing: true},
		"tool fails often":              {status: running, activities: step("tool.run", 30)},
		"task never given to worker":    {status: running, task: waiting(old), queue: queues{polled: time.Now()}, state: domain.RunStuck},
		"task waits for a moment":       {status: running, task: waiting(now), queue: queues{polled: time.Now()}},
		"task waits behind others":      {status: running, task: waiting(old), queue: queues{polled: time.Now(), backlog: 5}},
		"task is late on a busy server": {status: running, task: waiting(old), queue: queues{polled: time.Now(), rate: 5}},
		"task lost on a busy server": {
			status: running, task: waiting(older), queue: queues{polled: time.Now(), rate: 5}, state: domain.RunStuck,
		},
		"no worker polls": {status: running, task: waiting(old), queue: queues{polled: old.AsTime()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			client := &mocks.Client{}
			client.On("DescribeWorkflowExecution", mock.Anything, "session/s", "").
				Return(&workflowservice.DescribeWorkflowExecutionResponse{
					WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
						Status:    tc.status,
						Execution: &commonpb.WorkflowExecution{RunId: "r"},
					},
					PendingWorkflowTask: tc.task, PendingActivities: tc.activities,
				}, nil)
			client.On("WorkflowService").Return(tc.queue)
			look, err := temporal.Runs{Client: client}.LookAtSession(t.Context(), "s")
			require.NoError(t, err)
			require.Equal(t, tc.state, look.State)
			require.Equal(t, tc.finishing, look.Finishing)
			require.Equal(t, "r", look.RunID)
			require.Equal(t, tc.state == domain.RunOpen, look.Cause == "")
		})
	}
}
