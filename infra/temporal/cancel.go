package temporal

import (
	"context"
	"errors"

	"go.temporal.io/api/serviceerror"

	"everloop/domain"
	"everloop/internal/durable"
)

// CancelTask requests the cancellation of a background task's run.
func (r Runs) CancelTask(ctx context.Context, taskID string) error {
	err := r.Client.CancelWorkflow(ctx, durable.TaskWorkflowID(taskID), "")
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return nil
	}

	return err
}

// DescribeTask returns the state of a background task's run, with a cause.
func (r Runs) DescribeTask(ctx context.Context, taskID string) (domain.RunState, string, error) {
	return r.Describe(ctx, durable.TaskWorkflowID(taskID), "")
}
