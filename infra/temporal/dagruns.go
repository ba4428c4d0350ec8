package temporal

import (
	"context"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// kindDAG is the kind of runs of DAGs, for operators.
const kindDAG = "dag"

// StartDAGRun starts the workflow that carries a run of a DAG.
func (r Runs) StartDAGRun(ctx context.Context, solutionID, runID string) error {
	return r.start(ctx, run{
		id: durable.DAGRunWorkflowID(solutionID, runID), kind: kindDAG, work: runID, title: "Run of a DAG",
		workflow: contract.WorkflowDAGRun, input: contract.DAGRunInput{RunID: runID},
	})
}

// ResumeDAGRun starts the workflow of a run if it is gone, and has it look at its nodes.
func (r Runs) ResumeDAGRun(ctx context.Context, solutionID, runID string) error {
	if err := r.StartDAGRun(ctx, solutionID, runID); err != nil {
		return err
	}

	_, err := r.NotifyWaiter(ctx, domain.ChatWaiter{WorkflowID: durable.DAGRunWorkflowID(solutionID, runID)})

	return err
}
