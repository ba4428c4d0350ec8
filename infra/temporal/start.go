package temporal

import (
	"cmp"
	"context"
	"errors"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/domain/history"
	"everloop/domain/transfer"
	"everloop/internal/durable"
)

// run is a run to start, unless a run with its id is open. A run without work in the database
// closes immediately.
type run struct {
	id, kind  string
	title     string // for operators: must not contain text of users
	sessionID domain.SessionID
	ownerID   string
	work      string // id of the work to look up in Subjects; empty: the session
	workflow  string
	input     any

	found durable.Attributes // of the work
}

// looked returns the run with what Subjects knows of its work.
func (r Runs) looked(ctx context.Context, in run) (run, error) {
	kind, id := in.kind, in.work
	if id == "" {
		kind, id = SubjectSession, string(in.sessionID)
	}

	if id == "" || r.Subjects == nil {
		return in, nil
	}

	found, err := r.Subjects.Subject(ctx, kind, id)
	in.found = found

	return in, err
}

func (r Runs) start(ctx context.Context, in run) error {
	in, err := r.looked(ctx, in)
	if err != nil {
		return err
	}

	options := r.options(in)
	options.EnableEagerStart = true
	options.WorkflowIDConflictPolicy = enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL
	options.WorkflowExecutionErrorWhenAlreadyStarted = true

	_, err = r.Client.ExecuteWorkflow(ctx, options, in.workflow, in.input)
	if _, known := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); known {
		return nil
	}

	return err
}

func (r Runs) options(in run) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID: in.id, TaskQueue: cmp.Or(r.Queue, durable.Queue), StaticSummary: in.title, StaticDetails: r.Details(in.attributes()),
		TypedSearchAttributes: in.attributes().Typed(),
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
	}
}

func (in run) attributes() durable.Attributes {
	made := in.found
	made.Kind = in.kind
	made.SessionID = cmp.Or(string(in.sessionID), made.SessionID)
	made.OwnerID = cmp.Or(in.ownerID, made.OwnerID)

	return made
}

// StartTask starts the run of a background command.
func (r Runs) StartTask(ctx context.Context, in contract.TaskInput) error {
	return r.start(ctx, run{
		id: durable.TaskWorkflowID(in.TaskID), kind: "task", title: "Background command",
		sessionID: in.SessionID, ownerID: in.OwnerID, workflow: contract.WorkflowTask, input: in,
	})
}

// StartAgent starts the run of a background sub-agent.
func (r Runs) StartAgent(ctx context.Context, in contract.AgentRun) error {
	return r.start(ctx, run{
		id: durable.TaskWorkflowID(in.TaskID), kind: "task", title: "Background sub-agent",
		sessionID: in.SessionID, ownerID: in.OwnerID, workflow: contract.WorkflowFork, input: in.ForkInput,
	})
}

// StartCompaction starts the run of a compaction that a client has requested.
func (r Runs) StartCompaction(ctx context.Context, in domain.CompactionRun) error {
	return r.start(ctx, run{
		id: durable.CompactionWorkflowID(in.ID), kind: "compaction", title: "Summary of a session's history",
		sessionID: in.SessionID, ownerID: in.OwnerID, workflow: contract.WorkflowCompact,
		input: contract.CompactInput{SessionID: in.SessionID, CompactionID: in.ID},
	})
}

// StartReplay starts the run of a replay session, or signals the open one, which may be about to
// close after a pause.
func (r Runs) StartReplay(ctx context.Context, sessionID domain.SessionID, ownerID string) error {
	return r.startOrSignal(ctx, run{
		id: durable.ReplayWorkflowID(string(sessionID)), kind: "replay", title: "Replay",
		sessionID: sessionID, ownerID: ownerID, workflow: contract.WorkflowReplay, input: contract.ReplayInput{SessionID: sessionID},
	}, contract.Wake.Name, struct{}{})
}

// startOrSignal starts a workflow, or signals the open one. One that is about to close receives
// the signal before it does.
func (r Runs) startOrSignal(ctx context.Context, in run, signal string, value any) error {
	in, err := r.looked(ctx, in)
	if err != nil {
		return err
	}

	_, err = r.Client.SignalWithStartWorkflow(ctx, in.id, signal, value, r.options(in), in.workflow, in.input)

	return err
}

// StartDeletion starts the run that removes the data of a deleted session.
func (r Runs) StartDeletion(ctx context.Context, in domain.DeletedSession) error {
	return r.start(ctx, run{
		id: durable.DeletionWorkflowID(string(in.SessionID)), kind: "deletion", title: "Remove a deleted session",
		sessionID: in.SessionID, ownerID: in.OwnerID, workflow: contract.WorkflowDeleteSession,
		input: contract.DeleteSessionInput{SessionID: in.SessionID},
	})
}

// moveTitles contains the titles of history operations for operators.
var moveTitles = map[domain.HistoryOperationKind]string{
	domain.OperationRewind: "Rewind",
	domain.OperationSwitch: "Switch branch",
	domain.OperationWhatif: "What-if",
}

// StartMove starts the run of a rewind, a change of branch or a what-if.
func (r Runs) StartMove(ctx context.Context, op history.Operation) error {
	return r.start(ctx, run{
		id: durable.HistoryWorkflowID(string(op.SessionID), op.ID), kind: "history", title: moveTitles[op.Kind],
		sessionID: op.SessionID, ownerID: op.OwnerID, workflow: contract.WorkflowHistory,
		input: contract.HistoryInput{SessionID: op.SessionID, OperationID: op.ID, Kind: op.Kind},
	})
}

// StartImport starts the run that creates a session from an archive.
func (r Runs) StartImport(ctx context.Context, in transfer.Import) error {
	return r.start(ctx, run{
		id: durable.ImportWorkflowID(string(in.SessionID)), kind: "import", title: "Import a session",
		sessionID: in.SessionID, ownerID: in.OwnerID, workflow: contract.WorkflowImport,
		input: contract.ImportInput{SessionID: in.SessionID},
	})
}

// StartArchive starts the run that archives the events of finished chats.
func (r Runs) StartArchive(ctx context.Context) error {
	return r.start(ctx, run{
		id: cmp.Or(r.Archive, durable.ArchiveWorkflowID), kind: "archive", title: "Archive the events of chats",
		workflow: contract.WorkflowArchive, input: contract.ArchiveInput{},
	})
}
