package temporal

import (
	"cmp"
	"context"
	"errors"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// StartAgent starts the run of a background sub-agent unless one is open. A run
// of one that has ended finds that in the records and does nothing.
func (r Runs) StartAgent(ctx context.Context, run contract.AgentRun) error {
	_, err := r.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: durable.TaskWorkflowID(run.TaskID), TaskQueue: cmp.Or(r.Queue, durable.Queue), EnableEagerStart: true,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            run.Title,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			durable.SessionID.ValueSet(run.SessionID), durable.OwnerID.ValueSet(run.OwnerID), durable.Kind.ValueSet("task")),
	}, contract.WorkflowFork, run.ForkInput)
	if _, known := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); known {
		return nil
	}
	return err
}

// CancelTask asks the run of a background task to end in good order.
func (r Runs) CancelTask(ctx context.Context, taskID string) error {
	err := r.Client.CancelWorkflow(ctx, durable.TaskWorkflowID(taskID), "")
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return nil
	}
	return err
}

// DescribeTask looks at the run of a background task.
func (r Runs) DescribeTask(ctx context.Context, taskID string) (domain.RunState, string, error) {
	return r.Describe(ctx, durable.TaskWorkflowID(taskID), "")
}
