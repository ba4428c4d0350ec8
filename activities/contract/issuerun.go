package contract

import (
	"everloop/domain"
	"everloop/internal/durable"
)

// WorkflowIssueRun is the name of the workflow type of issue runs, as operators see it.
const WorkflowIssueRun = "IssueRun"

// IssueRunInput names the issue run that a workflow carries.
type IssueRunInput struct {
	RunID string `json:"run_id"`
}

// Steps of issue runs. Each may run again: the database says what is left to do.
var (
	BeginIssueRun = durable.Activity[IssueRunInput, IssueRunOut]{Name: "issue.begin", Preset: durable.Store}
	StopIssueRun  = durable.Activity[IssueRunInput, struct{}]{Name: "issue.stop", Preset: durable.Store}
	EndIssueRun   = durable.Activity[IssueRunInput, IssueRunOut]{Name: "issue.end", Preset: durable.Store}
)

// IssueRunOut reports whether the run has ended, and in which session it works.
type IssueRunOut struct {
	Ended     bool             `json:"ended,omitempty"`
	SessionID domain.SessionID `json:"session,omitempty"` // of BeginIssueRun
}
