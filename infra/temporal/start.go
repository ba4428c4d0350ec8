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

// run is a run to start, unless one with its id is open. A run that finds in the
// records that nothing is left to do closes at once.
type run struct {
	id, kind, title    string
	sessionID, ownerID string
	workflow           string
	input              any
}

func (r Runs) start(ctx context.Context, in run) error {
	_, err := r.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: in.id, TaskQueue: cmp.Or(r.Queue, durable.Queue), EnableEagerStart: true,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            in.title,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			durable.SessionID.ValueSet(in.sessionID), durable.OwnerID.ValueSet(in.ownerID), durable.Kind.ValueSet(in.kind)),
	}, in.workflow, in.input)
	if _, known := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); known {
		return nil
	}
	return err
}

// StartTask starts the run of a background command.
func (r Runs) StartTask(ctx context.Context, in contract.TaskInput) error {
	return r.start(ctx, run{
		id: durable.TaskWorkflowID(in.TaskID), kind: "task", title: in.Title,
		sessionID: in.SessionID, ownerID: in.OwnerID, workflow: contract.WorkflowTask, input: in,
	})
}

// StartAgent starts the run of a background sub-agent.
func (r Runs) StartAgent(ctx context.Context, in contract.AgentRun) error {
	return r.start(ctx, run{
		id: durable.TaskWorkflowID(in.TaskID), kind: "task", title: in.Title,
		sessionID: in.SessionID, ownerID: in.OwnerID, workflow: contract.WorkflowFork, input: in.ForkInput,
	})
}

// StartCompaction starts the run of a compaction that a client has asked for.
func (r Runs) StartCompaction(ctx context.Context, in domain.CompactionRun) error {
	return r.start(ctx, run{
		id: durable.CompactionWorkflowID(in.ID), kind: "compaction", title: "Summary of a session's history",
		sessionID: in.SessionID, ownerID: in.OwnerID, workflow: contract.WorkflowCompact,
		input: contract.CompactInput{SessionID: in.SessionID, CompactionID: in.ID},
	})
}

// StartReplay starts the run that plays a replay session.
func (r Runs) StartReplay(ctx context.Context, sessionID, ownerID, title string) error {
	return r.start(ctx, run{
		id: durable.ReplayWorkflowID(sessionID), kind: "replay", title: "Replay: " + title,
		sessionID: sessionID, ownerID: ownerID, workflow: contract.WorkflowReplay, input: contract.ReplayInput{SessionID: sessionID},
	})
}
