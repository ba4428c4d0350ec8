package temporal

import (
	"context"
	"errors"

	"go.temporal.io/api/serviceerror"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// kindDAG is the kind of runs of DAGs, for operators.
const kindDAG = "dag"

func dagRun(solutionID, runID string) run {
	return run{
		id: durable.DAGRunWorkflowID(solutionID, runID), kind: kindDAG, work: runID, title: "Run of a DAG",
		workflow: contract.WorkflowDAGRun, input: contract.DAGRunInput{RunID: runID},
	}
}

// StartDAGRun starts the workflow of a DAG run.
func (r Runs) StartDAGRun(ctx context.Context, solutionID, runID string) error {
	return r.start(ctx, dagRun(solutionID, runID))
}

// ResumeDAGRun starts the workflow of a DAG run that is resumed. A workflow that has not closed yet
// after the end of the run receives a signal, and continues in a new workflow.
func (r Runs) ResumeDAGRun(ctx context.Context, solutionID, runID string) error {
	return r.startOrSignal(ctx, dagRun(solutionID, runID), contract.ChatEnded.Name, contract.EndedChat{})
}

// CancelDAGRun requests the cancellation of the workflow of a run; false: it is not open.
// Temporal accepts the request for a closed workflow, too, so its state is read first.
func (r Runs) CancelDAGRun(ctx context.Context, solutionID, runID string) (open bool, err error) {
	id := durable.DAGRunWorkflowID(solutionID, runID)

	state, _, err := r.Describe(ctx, id, "")
	if err != nil || state == domain.RunClosed || state == domain.RunUnknown {
		return false, err
	}

	err = r.Client.CancelWorkflow(ctx, id, "")
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return false, nil
	}

	return true, err
}

// AwaitDAGRun waits until the workflow of a run has closed, however it did.
func (r Runs) AwaitDAGRun(ctx context.Context, solutionID, runID string) error {
	err := r.Client.GetWorkflow(ctx, durable.DAGRunWorkflowID(solutionID, runID), "").Get(ctx, nil)
	if ctx.Err() != nil {
		return err
	}

	return nil
}
