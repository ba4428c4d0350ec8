// Package temporal is the client of the Temporal server, embedded or external: it dials,
// registers missing search attributes, and starts, signals and describes runs. It does not depend on
// what the workflows do.
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

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// firstAnswer is the maximum wait for the server's first response, unless the caller's context
// has a deadline: a busy machine may need more than the SDK's five seconds.
const firstAnswer = time.Minute

// Dial connects to the server. Workers and starters must share the client: only then can a run
// start eagerly in the requesting process.
//
// The options contain the address, the namespace and the credentials. Dial registers the search
// attributes that the namespace lacks.
func Dial(ctx context.Context, options client.Options, logger *slog.Logger) (client.Client, error) {
	options.Logger = log.NewStructuredLogger(slog.New(quiet{logger.Handler()}))
	// Payloads are small and the server is near: compression costs more than it saves.
	options.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	options.ConnectionOptions.GetSystemInfoTimeout = firstAnswer

	c, err := client.DialContext(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("reach Temporal at %s: %w", options.HostPort, err)
	}

	if err := registerAttributes(ctx, c, cmp.Or(options.Namespace, defaultNamespace)); err != nil {
		c.Close()
		return nil, err
	}

	return c, nil
}

// Runs starts, signals and describes the runs of sessions.
type Runs struct {
	Client client.Client
	Queue  string // the task queue of the workers; empty: durable.Queue
	// Namespace is the client's namespace; empty: everloop.
	Namespace string
	Desktop   string // the address of the desktop in the details of runs; empty: no links
	Archive   string // id of the archiving run; empty: durable.ArchiveWorkflowID
	// Subjects completes the search attributes of runs; nil: they contain only what the caller
	// knows.
	Subjects Subjects
	Stuck    StuckAfter // zero fields: five attempts, a minute
}

// StuckAfter contains the thresholds for a run whose workflow task fails or is not dispatched.
type StuckAfter struct {
	Attempts int32
	Age      time.Duration
}

// Subjects looks up what runs work for.
type Subjects interface {
	// Subject returns the session, the owner, the solution and the parent of the work of a kind, or
	// of a session for SubjectSession; empty: the work was deleted.
	Subject(ctx context.Context, kind, id string) (durable.Attributes, error)
}

// SubjectSession is the kind that Subjects looks up for runs of a session.
const SubjectSession = "session"

const defaultNamespace = "everloop"

// Wake makes the session's run read the database again: it signals an open run, or starts a new
// one. It tries first what s.Open suggests.
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
	attributes := durable.Attributes{
		SessionID: string(s.SessionID), OwnerID: s.OwnerID, SolutionID: s.SolutionID, Kind: "chat", ChatStatus: "running",
		ParentRun: s.ParentRun,
	}
	_, err := r.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: id, TaskQueue: cmp.Or(r.Queue, durable.Queue), EnableEagerStart: true,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            "Chats of a session",
		StaticDetails:                            r.Details(attributes),
		TypedSearchAttributes:                    attributes.Typed(),
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
		return nil // nothing to stop
	}

	return err
}

// Describe returns the state of one run from the mutable state, never from the eventually
// consistent visibility store.
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

// TerminateSession terminates all runs of a session: of its chats, its replay and import, and the
// operations on its history.
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
