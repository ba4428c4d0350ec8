package temporal

import (
	"context"
	"errors"
	"fmt"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"everloop/domain"
	"everloop/internal/durable"
)

// Operator lets administrators look at runs and end them.
type Operator struct{ Client client.Client }

// statuses are the engine's, by the names that clients use.
var statuses = map[string]enumspb.WorkflowExecutionStatus{
	"running": enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, "completed": enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED,
	"failed": enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, "canceled": enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED,
	"terminated": enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, "continued_as_new": enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW,
	"timed_out": enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT,
}

// Runs lists runs, the newest first. Next continues the list; empty: it is whole.
// The list is eventually consistent: a run may take a second to appear.
func (o Operator) Runs(ctx context.Context, q domain.OperatorRunQuery) (runs []domain.OperatorRun, next []byte, err error) {
	var terms []string
	for name, value := range map[string]string{
		durable.Kind.GetName(): q.Kind, durable.SessionID.GetName(): q.SessionID, durable.OwnerID.GetName(): q.OwnerID,
	} {
		if value != "" {
			terms = append(terms, name+" = '"+strings.ReplaceAll(value, "'", "''")+"'")
		}
	}
	if q.Status != "" {
		terms = append(terms, fmt.Sprintf("ExecutionStatus = '%s'", statuses[q.Status]))
	}
	list, err := o.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: int32(q.Limit), NextPageToken: q.Page, Query: strings.Join(terms, " AND "),
	})
	if _, invalid := errors.AsType[*serviceerror.InvalidArgument](err); invalid && len(q.Page) > 0 {
		return nil, nil, domain.Newf(domain.Invalid, domain.CodeInvalidRequest, "page is not one that this list gave")
	}
	if err != nil {
		return nil, nil, domain.Unavailablef("Temporal", err)
	}
	runs = make([]domain.OperatorRun, len(list.GetExecutions()))
	for i, info := range list.GetExecutions() {
		runs[i] = operatorRun(info)
	}
	return runs, list.GetNextPageToken(), nil
}

func operatorRun(info *workflowpb.WorkflowExecutionInfo) domain.OperatorRun {
	attribute := func(name string) string { return attributeOf(info, name) }
	run := domain.OperatorRun{
		WorkflowID: info.GetExecution().GetWorkflowId(), RunID: info.GetExecution().GetRunId(), Type: info.GetType().GetName(),
		Kind: attribute(durable.Kind.GetName()), ChatStatus: attribute(durable.ChatStatus.GetName()),
		SessionID: attribute(durable.SessionID.GetName()), OwnerID: attribute(durable.OwnerID.GetName()),
		StartedAt: info.GetStartTime().AsTime(), HistoryEvents: info.GetHistoryLength(), HistoryBytes: info.GetHistorySizeBytes(),
	}
	for name, status := range statuses {
		if status == info.GetStatus() {
			run.Status = name
		}
	}
	if info.GetCloseTime().IsValid() && info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		closed := info.GetCloseTime().AsTime()
		run.ClosedAt = &closed
	}
	return run
}

func attributeOf(info *workflowpb.WorkflowExecutionInfo, name string) (value string) {
	_ = converter.GetDefaultDataConverter().FromPayload(info.GetSearchAttributes().GetIndexedFields()[name], &value)
	return value
}

// Cancel asks a run to end in good order; run_not_found when none is open. A run
// that waits for an answer hears nothing else and is refused as run_waiting: its
// owner stops the chat.
func (o Operator) Cancel(ctx context.Context, workflowID string) error {
	seen, err := o.Client.DescribeWorkflowExecution(ctx, workflowID, "")
	if err != nil {
		return closing(workflowID, err)
	}
	if attributeOf(seen.GetWorkflowExecutionInfo(), durable.ChatStatus.GetName()) == "awaiting_answer" {
		return domain.Newf(domain.Conflict, "run_waiting", "the run waits for an answer, which a cancellation does not end; its chat can be stopped")
	}
	return closing(workflowID, o.Client.CancelWorkflow(ctx, workflowID, ""))
}

// ForceFail ends a run that cannot end by itself. What it carried is ended in the
// records by the worker's janitor, as lost with the reason.
func (o Operator) ForceFail(ctx context.Context, workflowID, reason string) error {
	return closing(workflowID, o.Client.TerminateWorkflow(ctx, workflowID, "", reason))
}

func closing(workflowID string, err error) error {
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return domain.Newf(domain.NotFound, "run_not_found", "no run with the id %s is open", workflowID)
	}
	if err != nil {
		return domain.Unavailablef("Temporal", err)
	}
	return nil
}
