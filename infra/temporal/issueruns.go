package temporal

import (
	"context"

	"everloop/activities/contract"
	"everloop/domain"
	"everloop/internal/durable"
)

// kindIssue is the kind of issue runs, for operators.
const kindIssue = "issue"

// StartIssueRun starts the workflow of an agent's work on an issue.
func (r Runs) StartIssueRun(ctx context.Context, runID string) error {
	return r.start(ctx, run{
		id: durable.IssueRunWorkflowID(runID), kind: kindIssue, work: runID, title: "Run of an agent on an issue",
		workflow: contract.WorkflowIssueRun, input: contract.IssueRunInput{RunID: runID},
	})
}

// ResumeIssueRun starts the workflow of an issue run if it is not open, and otherwise signals it
// to check its chat.
func (r Runs) ResumeIssueRun(ctx context.Context, runID string) error {
	if err := r.StartIssueRun(ctx, runID); err != nil {
		return err
	}

	_, err := r.NotifyWaiter(ctx, domain.ChatWaiter{WorkflowID: durable.IssueRunWorkflowID(runID)})

	return err
}
