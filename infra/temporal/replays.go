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

// StartReplay starts the run that plays a replay session unless one is open. A
// run that finds in the records that nothing is to be played closes at once.
func (r Runs) StartReplay(ctx context.Context, sessionID, ownerID, title string) error {
	_, err := r.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: durable.ReplayWorkflowID(sessionID), TaskQueue: cmp.Or(r.Queue, durable.Queue), EnableEagerStart: true,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            "Replay: " + title,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			durable.SessionID.ValueSet(sessionID), durable.OwnerID.ValueSet(ownerID), durable.Kind.ValueSet("replay")),
	}, contract.WorkflowReplay, contract.ReplayInput{SessionID: sessionID})
	if _, known := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); known {
		return nil
	}
	return err
}
