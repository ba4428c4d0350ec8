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
	"everloop/internal/durable"
)

// StartTask starts the run of a background task unless one is open. A run of a
// task that has ended, or that another run has begun, finds that in the records
// and does nothing.
func (r Runs) StartTask(ctx context.Context, in contract.TaskInput) error {
	_, err := r.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: durable.TaskWorkflowID(in.TaskID), TaskQueue: cmp.Or(r.Queue, durable.Queue), EnableEagerStart: true,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            in.Title,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			durable.SessionID.ValueSet(in.SessionID), durable.OwnerID.ValueSet(in.OwnerID), durable.Kind.ValueSet("task")),
	}, contract.WorkflowTask, in)
	if _, known := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); known {
		return nil
	}
	return err
}
