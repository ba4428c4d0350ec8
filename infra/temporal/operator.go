package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/operator"
	"everloop/internal/durable"
)

// ChatStopper stops the chat of a session with the rights of its owner (docs/rest.md), and
// reports whether one was running.
type ChatStopper interface {
	Stop(ctx context.Context, caller domain.Caller, sessionID domain.SessionID, andQueue bool) (stopped bool, err error)
}

// ForceFailer marks the running chat of a session, so that it fails when its run is closed
// instead of continuing in a new one.
type ForceFailer interface {
	ForceFailChat(ctx context.Context, sessionID domain.SessionID, reason string) error
}

// Operator lists, describes and ends runs for administrators.
type Operator struct {
	Client client.Client
	Chats  ChatStopper
	Marks  ForceFailer
}

// statuses contains the server's statuses by their API names.
var statuses = map[string]enumspb.WorkflowExecutionStatus{
	"running": enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, "completed": enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED,
	"failed": enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, "canceled": enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED,
	"terminated": enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, "continued_as_new": enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW,
	"timed_out": enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT,
}

// Runs lists runs, the newest first. next continues the list; empty: no more. The list is
// eventually consistent: a run can take a second to appear.
func (o Operator) Runs(ctx context.Context, q operator.RunQuery) (runs []operator.Run, next []byte, err error) {
	terms := []string{"WorkflowType != '" + databaseRun + "'"}

	for name, value := range map[string]string{
		durable.Kind.GetName(): q.Kind, durable.SessionID.GetName(): string(q.SessionID), durable.OwnerID.GetName(): q.OwnerID,
	} {
		if value != "" {
			terms = append(terms, name+" = '"+strings.ReplaceAll(value, "'", "''")+"'")
		}
	}

	if q.Status != "" {
		terms = append(terms, fmt.Sprintf("ExecutionStatus = '%s'", statuses[q.Status]))
	}

	if len(q.Page) > 0 && !json.Valid(q.Page) { // the server would retry for ten seconds to decode it
		return nil, nil, wrongPage()
	}

	list, err := o.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: int32(q.Limit), NextPageToken: q.Page, Query: strings.Join(terms, " AND "),
	})
	if _, invalid := errors.AsType[*serviceerror.InvalidArgument](err); invalid && len(q.Page) > 0 {
		return nil, nil, wrongPage()
	}

	if err != nil {
		return nil, nil, domain.Unavailablef("Temporal", err)
	}

	runs = make([]operator.Run, len(list.GetExecutions()))
	for i, info := range list.GetExecutions() {
		runs[i] = operatorRun(info)
	}

	return runs, list.GetNextPageToken(), nil
}

func wrongPage() error {
	return domain.Invalidf("query.page", "is not one that this list gave")
}

// operatorRun converts a run of the server's list.
func operatorRun(info *workflowpb.WorkflowExecutionInfo) operator.Run {
	attribute := func(name string) (value string) {
		_ = converter.GetDefaultDataConverter().FromPayload(info.GetSearchAttributes().GetIndexedFields()[name], &value)
		return value
	}
	_, build, _ := strings.Cut(attribute("TemporalWorkerDeploymentVersion"), ":")

	run := operator.Run{
		BuildID:    build,
		WorkflowID: info.GetExecution().GetWorkflowId(), RunID: info.GetExecution().GetRunId(), Type: info.GetType().GetName(),
		Kind: attribute(durable.Kind.GetName()), ChatStatus: attribute(durable.ChatStatus.GetName()),
		SessionID: domain.SessionID(attribute(durable.SessionID.GetName())), OwnerID: attribute(durable.OwnerID.GetName()),
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

// Cancel requests the cancellation of a run; run_not_found when none is open. A chat is stopped
// instead, because its run ignores a cancellation while it waits for an answer.
func (o Operator) Cancel(ctx context.Context, workflowID string) error {
	run, err := o.open(ctx, workflowID)
	if err != nil {
		return err
	}

	if run.Type == contract.WorkflowChat {
		if stopped, err := o.stopChat(ctx, run); stopped || err != nil {
			return err
		}
	}

	return closing(workflowID, o.Client.CancelWorkflow(ctx, workflowID, ""))
}

// ForceFail ends a run that cannot end by itself. Its chat is failed by the
// reconciler, as run_lost with the reason. A chat that waits for an answer needs no
// run, and is stopped instead.
func (o Operator) ForceFail(ctx context.Context, workflowID, reason string) error {
	run, err := o.open(ctx, workflowID)
	if err != nil {
		return err
	}

	if run.Type == contract.WorkflowChat && run.ChatStatus == "awaiting_answer" {
		// Terminate the waiting run first: it could consume the stop signal.
		err := closing(workflowID, o.Client.TerminateWorkflow(ctx, workflowID, run.RunID, reason))
		if err != nil && !domain.HasCode(err, codeRunNotFound) {
			return err
		}

		if stopped, err := o.stopChat(ctx, run); stopped || err != nil {
			return err
		}
	}

	if run.Type == contract.WorkflowChat {
		if err := o.Marks.ForceFailChat(ctx, run.SessionID, reason); err != nil {
			return err
		}
	}

	return closing(workflowID, o.Client.TerminateWorkflow(ctx, workflowID, "", reason))
}

// open describes an open run.
func (o Operator) open(ctx context.Context, workflowID string) (operator.Run, error) {
	seen, err := o.Client.DescribeWorkflowExecution(ctx, workflowID, "")
	if err != nil {
		return operator.Run{}, closing(workflowID, err)
	}

	run := operatorRun(seen.GetWorkflowExecutionInfo())
	if run.ClosedAt != nil || run.Type == databaseRun {
		return run, noRun(workflowID)
	}

	return run, nil
}

// stopChat stops the chat of a run, with the rights of its owner. It reports false for a deleted
// session.
func (o Operator) stopChat(ctx context.Context, run operator.Run) (bool, error) {
	stopped, err := o.Chats.Stop(ctx, domain.Caller{User: domain.User{ID: run.OwnerID}}, run.SessionID, false)
	if domain.HasCode(err, domain.CodeSessionNotFound) {
		return false, nil
	}

	return stopped, err
}

const codeRunNotFound = "run_not_found"

func noRun(workflowID string) error {
	return domain.Newf(domain.NotFound, codeRunNotFound, "no run with the id %s is open", workflowID)
}

func closing(workflowID string, err error) error {
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return noRun(workflowID)
	}

	if err != nil {
		return domain.Unavailablef("Temporal", err)
	}

	return nil
}
