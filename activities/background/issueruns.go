package background

import (
	"context"

	"everloop/activities/contract"
)

// IssueRuns carry out the steps of issue runs.
type IssueRuns struct {
	Board IssueBoard
}

// IssueBoard begins and ends runs. An error is retried.
type IssueBoard interface {
	Begin(ctx context.Context, runID string) (ended bool, err error)
	End(ctx context.Context, runID string) (ended bool, err error)
}

// BeginIssueRun sends the agent the issue, once.
func (r *IssueRuns) BeginIssueRun(ctx context.Context, in contract.IssueRunInput) (contract.IssueRunOut, error) {
	ended, err := r.Board.Begin(ctx, in.RunID)
	return contract.IssueRunOut{Ended: ended}, err
}

// EndIssueRun writes what a run came to whose chat has ended.
func (r *IssueRuns) EndIssueRun(ctx context.Context, in contract.IssueRunInput) (contract.IssueRunOut, error) {
	ended, err := r.Board.End(ctx, in.RunID)
	return contract.IssueRunOut{Ended: ended}, err
}
