package workflows

import (
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
	"everloop/domain/history"
	"everloop/internal/durable"
)

// History carries out one rewind, change of branch or what-if. The claim and the
// result are in the database. A run that is cancelled leaves the session as it was.
func History(ctx workflow.Context, in contract.HistoryInput) (history.State, error) {
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("%s of session %s\n\noperation %s", in.Kind, in.SessionID, in.OperationID))

	out, err := contract.MoveHistory.Run(ctx, contract.MoveHistoryIn{OperationID: in.OperationID}, string(in.Kind))
	if err == nil {
		return out.State, nil
	}

	if durable.Code(err) == contract.CodeOperationGone {
		return history.StateFailed, nil
	}

	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()

	reason := "its run was cancelled"
	if !temporal.IsCanceledError(err) {
		reason = lostReason(err)
	}

	out, err = contract.AbortHistory.Run(
		ctx, contract.AbortHistoryIn{OperationID: in.OperationID, Reason: reason}, "Leave the session as it was",
	)
	if durable.Code(err) == contract.CodeOperationGone {
		return history.StateFailed, nil
	}

	return out.State, err
}
