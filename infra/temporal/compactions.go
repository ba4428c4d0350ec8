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

// StartCompaction starts the run of a compaction that a client has asked for,
// unless one is open. A run of one that has ended finds that in the records and
// does nothing.
func (r Runs) StartCompaction(ctx context.Context, run domain.CompactionRun) error {
	_, err := r.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: durable.CompactionWorkflowID(run.ID), TaskQueue: cmp.Or(r.Queue, durable.Queue), EnableEagerStart: true,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            "Summary of a session's history",
		TypedSearchAttributes: temporal.NewSearchAttributes(
			durable.SessionID.ValueSet(run.SessionID), durable.OwnerID.ValueSet(run.OwnerID), durable.Kind.ValueSet("compaction")),
	}, contract.WorkflowCompact, contract.CompactInput{SessionID: run.SessionID, CompactionID: run.ID})
	if _, known := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); known {
		return nil
	}
	return err
}
