package temporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/types/known/durationpb"

	"everloop/domain"
	"everloop/internal/durable"
)

const (
	// databaseRun is the workflow type of the run that records the database of the namespace. No
	// worker implements it: the run waits for its start delay, on its own task queue.
	databaseRun   = "Database"
	databaseDelay = 100 * 365 * 24 * time.Hour
	// generationMemo is the field of its memo.
	generationMemo = "generation"
)

// Database records in the namespace to which database its runs belong. It needs only the
// permission to start workflows; writing namespace data needs more.
type Database struct {
	Client    client.Client
	Namespace string
	ID        string // of the run; empty: durable.DatabaseWorkflowID
	Logger    *slog.Logger
}

// Claim compares the generation of the database with the namespace's. A namespace without a
// generation or without open runs adopts the generation of the database. Open runs of another
// database are an error: their chats are missing from this one, or differ.
func (d Database) Claim(ctx context.Context, generation string) error {
	noted, err := d.noted(ctx)
	if err == nil && noted == "" {
		if err = d.note(ctx, generation, enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL); err == nil {
			return nil
		}

		if _, raced := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); raced {
			noted, err = d.noted(ctx) // another process was faster
		}
	}

	if err != nil {
		return fmt.Errorf("compare the database with Temporal's namespace %s: %w", d.Namespace, err)
	}

	if noted == generation {
		return nil
	}

	open, err := CountOpen(ctx, d.Client, d.Namespace)
	if err != nil {
		return err
	}

	if open > 0 {
		return fmt.Errorf("Temporal's namespace %s has %d open runs that belong to another database, or to this one before it was "+
			"restored or rolled back: set DATABASE_URL to their database, or TEMPORAL_NAMESPACE to another namespace; to go on with "+
			"this database, stop all processes of Everloop, end the runs by temporal workflow terminate --namespace %s "+
			"--query 'ExecutionStatus = \"Running\"' --reason restored, and start again: chats that are open in the database go on",
			d.Namespace, open, d.Namespace)
	}

	d.Logger.Warn("Temporal's namespace belonged to another database and has no open runs; it belongs to this one now",
		"namespace", d.Namespace)

	return d.note(ctx, generation, enumspb.WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING)
}

// noted returns the recorded generation of the database; empty: none.
func (d Database) noted(ctx context.Context) (generation string, err error) {
	run, err := d.Client.DescribeWorkflowExecution(ctx, d.id(), "")
	if _, absent := errors.AsType[*serviceerror.NotFound](err); absent {
		return "", nil
	}

	info := run.GetWorkflowExecutionInfo()
	if err != nil || info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return "", err
	}

	err = converter.GetDefaultDataConverter().FromPayload(info.GetMemo().GetFields()[generationMemo], &generation)

	return generation, err
}

// note starts the run. Its memo is not encoded by a codec of the client, because every process
// must be able to read it.
func (d Database) note(ctx context.Context, generation string, conflict enumspb.WorkflowIdConflictPolicy) error {
	memo, err := converter.GetDefaultDataConverter().ToPayload(generation)
	if err != nil {
		return err
	}

	_, err = d.Client.WorkflowService().StartWorkflowExecution(ctx, &workflowservice.StartWorkflowExecutionRequest{
		Namespace: d.Namespace, WorkflowId: d.id(), RequestId: domain.NewID(), Identity: "everloop",
		WorkflowType:             &commonpb.WorkflowType{Name: databaseRun},
		TaskQueue:                &taskqueuepb.TaskQueue{Name: "everloop-database", Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
		WorkflowIdReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIdConflictPolicy: conflict,
		WorkflowStartDelay:       durationpb.New(databaseDelay),
		SearchAttributes:         durable.Attributes{Kind: "database"}.Encode(),
		Memo:                     &commonpb.Memo{Fields: map[string]*commonpb.Payload{generationMemo: memo}},
	})

	return err
}

func (d Database) id() string { return cmp.Or(d.ID, durable.DatabaseWorkflowID) }
