package temporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// Thresholds for a stuck run: its workflow task has failed this often and for this long (the
// server doubles the delay between attempts, so ten attempts would take half an hour), or was not
// dispatched for this long although workers poll and the backlog is empty, or an activity that
// only writes to the database has failed this often. The delay of such an activity grows to ten
// seconds, so that many failures take some minutes.
//
// While workers receive other tasks, the server may be overloaded and not have added the task to
// the backlog yet: then the task has several times as long.
const (
	stuckTaskAttempts = 5
	stuckTaskAge      = time.Minute
	lateTaskAges      = 5
	stuckStepAttempts = 20
)

// steps are the activities that are one transaction and are retried without limit.
var steps = []string{
	contract.BeginChat.Name, contract.ParkChat.Name, contract.CheckChat.Name, contract.FinishChat.Name,
	contract.TryTool.Name, contract.PauseFork.Name, contract.EndFork.Name, contract.FailCompaction.Name, contract.LoseTask.Name,
	contract.EndIssueRun.Name, contract.EndScheduledRun.Name,
}

// LookAtSession describes the session's newest run.
func (r Runs) LookAtSession(ctx context.Context, sessionID domain.SessionID) (domain.RunLook, error) {
	return r.look(ctx, durable.SessionWorkflowID(string(sessionID)), "")
}

// LookAtWork describes the newest run of a workflow.
func (r Runs) LookAtWork(ctx context.Context, workflowID string) (domain.RunLook, error) {
	return r.look(ctx, workflowID, "")
}

// TerminateRun closes one run of a session that cannot continue.
func (r Runs) TerminateRun(ctx context.Context, sessionID domain.SessionID, runID, reason string) error {
	return r.Terminate(ctx, durable.SessionWorkflowID(string(sessionID)), runID, reason)
}

// LookAtSubAgent describes the newest run of a sub-agent.
func (r Runs) LookAtSubAgent(ctx context.Context, agent domain.OpenSubAgent) (domain.RunLook, error) {
	return r.look(ctx, subAgentWorkflowID(agent), "")
}

// TerminateSubAgent closes one run of a sub-agent that cannot continue.
func (r Runs) TerminateSubAgent(ctx context.Context, agent domain.OpenSubAgent, runID, reason string) error {
	return r.Terminate(ctx, subAgentWorkflowID(agent), runID, reason)
}

func subAgentWorkflowID(agent domain.OpenSubAgent) string {
	if agent.Background {
		return durable.TaskWorkflowID(agent.TaskID)
	}

	return durable.ForkWorkflowID(string(agent.ChatID), agent.LoopID)
}

func (r Runs) look(ctx context.Context, workflowID, runID string) (domain.RunLook, error) {
	d, err := r.Client.DescribeWorkflowExecution(ctx, workflowID, runID)
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return domain.RunLook{State: domain.RunUnknown, RunID: runID, Cause: "the run is not known to Temporal"}, nil
	}

	if err != nil {
		return domain.RunLook{RunID: runID}, err
	}

	look := domain.RunLook{RunID: d.GetWorkflowExecutionInfo().GetExecution().GetRunId()}
	switch status := d.GetWorkflowExecutionInfo().GetStatus(); status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return r.lookAtOpen(ctx, look, d)
	case enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW:
		if runID != "" { // the successor has the chat, or will have it soon
			return r.look(ctx, workflowID, "")
		}
	default:
		look.State, look.Cause = domain.RunClosed, "the run was closed: "+status.String()
		look.Terminated = status == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	}

	return look, nil
}

// lookAtOpen decides whether an open run can continue.
func (r Runs) lookAtOpen(
	ctx context.Context,
	look domain.RunLook,
	d *workflowservice.DescribeWorkflowExecutionResponse,
) (domain.RunLook, error) {
	task, age := d.GetPendingWorkflowTask(), cmp.Or(r.Stuck.Age, stuckTaskAge)
	if task.GetAttempt() > cmp.Or(r.Stuck.Attempts, stuckTaskAttempts) && time.Since(task.GetOriginalScheduledTime().AsTime()) > age {
		look.State, look.Cause = domain.RunStuck, "the run's workflow task keeps failing"
		return look, nil
	}

	for _, activity := range d.GetPendingActivities() {
		if name := activity.GetActivityType().
			GetName(); (slices.Contains(steps, name) || slices.Contains(contract.DAGRunSteps, name)) &&
			activity.GetAttempt() > stuckStepAttempts {
			look.State, look.Finishing = domain.RunStuck, name == contract.FinishChat.Name
			look.Cause = fmt.Sprintf("the step %s has failed %d times", name, activity.GetAttempt()-1)

			return look, nil
		}
	}

	waited := time.Since(task.GetScheduledTime().AsTime())
	if task.GetState() != enumspb.PENDING_WORKFLOW_TASK_STATE_SCHEDULED || waited < age {
		return look, nil
	}

	lost, err := r.lostTask(ctx, waited, age)
	if err == nil && lost {
		look.State, look.Cause = domain.RunStuck, "the run's workflow task was never given to a worker"
	}

	return look, err
}

// lostTask reports whether the server lost a workflow task that has waited so long: workers poll,
// and the backlog is empty.
func (r Runs) lostTask(ctx context.Context, waited, age time.Duration) (bool, error) {
	queue, err := r.Client.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace: cmp.Or(r.Namespace, defaultNamespace), TaskQueue: &taskqueuepb.TaskQueue{Name: cmp.Or(r.Queue, durable.Queue)},
		TaskQueueType: enumspb.TASK_QUEUE_TYPE_WORKFLOW, ReportStats: true,
	})
	if err != nil {
		return false, err
	}

	polled := slices.ContainsFunc(queue.GetPollers(), func(p *taskqueuepb.PollerInfo) bool {
		return time.Since(p.GetLastAccessTime().AsTime()) < stuckTaskAge
	})

	late := queue.GetStats().GetTasksDispatchRate() > 0 && waited < lateTaskAges*age

	return polled && !late && queue.GetStats().GetApproximateBacklogCount() == 0, nil
}

// CountOpen counts the open runs of a namespace except Temporal's own; a missing namespace has
// none.
func CountOpen(ctx context.Context, c client.Client, namespace string) (int64, error) {
	counted, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: namespace, Query: "ExecutionStatus = 'Running' AND WorkflowType != '" + databaseRun + "' AND " +
			"WorkflowType NOT STARTS_WITH 'temporal-sys-'",
	})
	if _, missing := errors.AsType[*serviceerror.NamespaceNotFound](err); missing {
		return 0, nil
	}

	if err != nil {
		return 0, fmt.Errorf("count open runs in Temporal: %w", err)
	}

	return counted.GetCount(), nil
}
