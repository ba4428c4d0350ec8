package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// Task carries one background task: it has the work done once, and ensures
// that the task ends in the store even when the work cannot report.
func Task(ctx workflow.Context, in contract.TaskInput) (domain.TaskStatus, error) {
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("task %s of session %s", in.TaskID, in.SessionID))

	out, err := contract.RunTask.Run(ctx, contract.RunTaskIn{
		TaskID: in.TaskID, RunID: workflow.GetInfo(ctx).WorkflowExecution.RunID,
	}, "Background command")
	if err == nil {
		return out.Status, nil
	}
	// The task is ended also when the run was cancelled.
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()

	out, lost := contract.LoseTask.Run(ctx, contract.LoseTaskIn{TaskID: in.TaskID, Reason: lostReason(err)}, "")
	if lost != nil {
		return "", lost
	}

	return out.Status, nil
}

func lostReason(err error) string {
	switch durable.Code(err) {
	case durable.CodeTimeout:
		return "its worker did not report its end in time"
	case "":
		return "its run was ended"
	default:
		return durable.Message(err)
	}
}
