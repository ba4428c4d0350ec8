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
// then is a run started in the process that asked for it, without a detour.
//
// The options name the server and the namespace, and hold the credentials.
func Dial(ctx context.Context, options client.Options, logger *slog.Logger) (client.Client, error) {
	options.Logger = log.NewStructuredLogger(slog.New(quiet{logger.Handler()}))
	// Payloads are small and the server is near: packing them costs more than it saves.
	options.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	options.ConnectionOptions.GetSystemInfoTimeout = firstAnswer

	c, err := client.DialContext(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("reach Temporal at %s: %w", options.HostPort, err)
	}

	return c, nil
}

// Runs starts, wakes and looks at the runs of sessions.
type Runs struct {
	Client client.Client
	Queue  string // the task queue of the workers; empty: durable.Queue
	// Namespace is that of the client; empty: everloop.
	Namespace string
	Archive   string // the id of the run that archives; empty: durable.ArchiveWorkflowID
	// Owners knows whose the runs of DAGs, issues and scheduled tasks are; nil: operators do
	// not find them by their owner.
	Owners Owners
	Stuck  StuckAfter // zero fields: five attempts, a minute
}

// StuckAfter is when a run whose workflow task fails, or is not taken, is stuck.
type StuckAfter struct {
	Attempts int32
	Age      time.Duration
}

// Owners knows whose work is.
type Owners interface {
	// OwnerOfWork is the owner of the work that a run of a kind carries; empty: it is gone.
	OwnerOfWork(ctx context.Context, kind, id string) (string, error)
}

const defaultNamespace = "everloop"

// Wake lets the session's run look at the database again: an open run by a signal
// that carries nothing, else a new one. What the database suggests is tried first.
func (r Runs) Wake(ctx context.Context, s domain.SessionRun) error {
	id := durable.SessionWorkflowID(string(s.SessionID))

	for attempt := range 3 {
		if attempt > 0 || !s.Open {
			err := r.startSession(ctx, id, s)
			if _, open := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); !open {
				return err
			}
		}

		err := r.Client.SignalWorkflow(ctx, id, "", contract.Wake.Name, struct{}{})
		if _, gone := errors.AsType[*serviceerror.NotFound](err); !gone {
			return err
		}
	}

	return errors.New("the session's run opens and closes faster than it can be woken")
}

func (r Runs) startSession(ctx context.Context, id string, s domain.SessionRun) error {
	_, err := r.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: id, TaskQueue: cmp.Or(r.Queue, durable.Queue), EnableEagerStart: true,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            "Chats of a session",
		TypedSearchAttributes: temporal.NewSearchAttributes(
			durable.SessionID.ValueSet(string(s.SessionID)), durable.OwnerID.ValueSet(s.OwnerID), durable.SolutionID.ValueSet(s.SolutionID),
			durable.Kind.ValueSet("chat"), durable.ChatStatus.ValueSet("running")),
	}, contract.WorkflowChat, contract.ChatInput{SessionID: s.SessionID})

	return err
}

// Stop signals the session's run that a chat was stopped.
func (r Runs) Stop(ctx context.Context, sessionID domain.SessionID, chatID domain.ChatID) error {
	err := r.Client.SignalWorkflow(
		ctx,
		durable.SessionWorkflowID(string(sessionID)),
		"",
		contract.Stop.Name,
		contract.StopChat{ChatID: chatID},
	)
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return nil // there is nothing left to stop
	}

	return err
}

// Describe looks at one run; never at the eventually consistent list.
func (r Runs) Describe(ctx context.Context, workflowID, runID string) (domain.RunState, string, error) {
	look, err := r.look(ctx, workflowID, runID)
	return look.State, look.Cause, err
}

// Terminate closes a run that cannot continue.
func (r Runs) Terminate(ctx context.Context, workflowID, runID, reason string) error {
	err := r.Client.TerminateWorkflow(ctx, workflowID, runID, reason)
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return nil
	}

	return err
}

// TerminateSession closes whatever runs a session has: those of its chats, of its
// replay and import, and of the operations on its history.
func (r Runs) TerminateSession(ctx context.Context, sessionID domain.SessionID, operations []string, reason string) error {
	runs := []string{
		durable.ReplayWorkflowID(string(sessionID)),
		durable.ImportWorkflowID(string(sessionID)),
		durable.SessionWorkflowID(string(sessionID)),
	}
	for _, id := range operations {
		runs = append(runs, durable.HistoryWorkflowID(string(sessionID), id))
	}

	for _, id := range runs {
		if err := r.Terminate(ctx, id, "", reason); err != nil {
			return err
		}
	}

	return nil
}
