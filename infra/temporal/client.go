// Package temporal reaches the Temporal server, embedded or not: it dials,
// registers the namespace where that is missing, starts and wakes runs and looks
// at them. What the runs do is the workflows' business.
package temporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// firstAnswer bounds the server's first answer, unless the caller's context does: a
// busy machine may need more than the five seconds that the library gives it.
const firstAnswer = time.Minute

// Dial connects to the server. Workers and starts must share the client: only
// then is a run begun in the process that asked for it, without a detour.
func Dial(ctx context.Context, address, namespace string, logger *slog.Logger) (client.Client, error) {
	c, err := client.DialContext(ctx, client.Options{
		HostPort: address, Namespace: namespace,
		Logger: log.NewStructuredLogger(slog.New(quiet{logger.Handler()})),
		// Payloads are small and the server is near: packing them costs more
		// than it saves.
		ConnectionOptions: client.ConnectionOptions{GrpcCompression: &client.GrpcCompressionNone{}, GetSystemInfoTimeout: firstAnswer},
	})
	if err != nil {
		return nil, fmt.Errorf("reach Temporal at %s: %w", address, err)
	}
	return c, nil
}

// Runs starts, wakes and looks at the runs of sessions.
type Runs struct {
	Client client.Client
	Queue  string // the task queue of the workers; empty: durable.Queue
}

// Wake lets the session's run look at the records again: an open run by a signal
// that carries nothing, else a new one.
func (r Runs) Wake(ctx context.Context, s domain.SessionRun) error {
	id := durable.SessionWorkflowID(s.SessionID)
	queue := cmp.Or(r.Queue, durable.Queue)
	for range 3 {
		_, err := r.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: id, TaskQueue: queue, EnableEagerStart: true,
			WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
			WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
			WorkflowExecutionErrorWhenAlreadyStarted: true,
			StaticSummary:                            s.Title,
			TypedSearchAttributes: temporal.NewSearchAttributes(
				durable.SessionID.ValueSet(s.SessionID), durable.OwnerID.ValueSet(s.OwnerID), durable.SolutionID.ValueSet(s.SolutionID),
				durable.Kind.ValueSet("chat"), durable.ChatStatus.ValueSet("running")),
		}, contract.WorkflowChat, contract.ChatInput{SessionID: s.SessionID})
		if _, open := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); !open {
			return err
		}
		err = r.Client.SignalWorkflow(ctx, id, "", contract.Wake.Name, struct{}{})
		if _, gone := errors.AsType[*serviceerror.NotFound](err); !gone {
			return err
		}
	}
	return errors.New("the session's run opens and closes faster than it can be woken")
}

// Stop tells the session's run that a chat was stopped.
func (r Runs) Stop(ctx context.Context, sessionID, chatID string) error {
	err := r.Client.SignalWorkflow(ctx, durable.SessionWorkflowID(sessionID), "", contract.Stop.Name, contract.StopChat{ChatID: chatID})
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return nil // there is nothing left to stop
	}
	return err
}

// A run whose workflow task has failed this often does not mend itself.
const stuckAttempts = 10

// Describe looks at one run; never at the eventually consistent list.
func (r Runs) Describe(ctx context.Context, workflowID, runID string) (domain.RunState, string, error) {
	d, err := r.Client.DescribeWorkflowExecution(ctx, workflowID, runID)
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return domain.RunUnknown, "the run is not known to Temporal", nil
	}
	if err != nil {
		return domain.RunOpen, "", err
	}
	switch status := d.GetWorkflowExecutionInfo().GetStatus(); status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
	case enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW:
		if runID != "" { // its successor has the chat, or is about to take it
			return r.Describe(ctx, workflowID, "")
		}
	default:
		return domain.RunClosed, "the run was closed: " + status.String(), nil
	}
	task := d.GetPendingWorkflowTask()
	if task.GetAttempt() > stuckAttempts && time.Since(task.GetOriginalScheduledTime().AsTime()) > time.Minute {
		return domain.RunStuck, "the run's workflow task keeps failing", nil
	}
	return domain.RunOpen, "", nil
}

// Terminate closes a run that cannot go on.
func (r Runs) Terminate(ctx context.Context, workflowID, runID, reason string) error {
	err := r.Client.TerminateWorkflow(ctx, workflowID, runID, reason)
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return nil
	}
	return err
}

// TerminateSession closes whatever run a session has.
func (r Runs) TerminateSession(ctx context.Context, sessionID, reason string) error {
	if err := r.Terminate(ctx, durable.ReplayWorkflowID(sessionID), "", reason); err != nil {
		return err
	}
	return r.Terminate(ctx, durable.SessionWorkflowID(sessionID), "", reason)
}
