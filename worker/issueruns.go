package worker

import (
	"go.temporal.io/sdk/worker"

	"everloop/activities/background"
	"everloop/activities/contract"
)

// RegisterIssueRuns binds the steps of issue runs to their names.
func RegisterIssueRuns(w worker.ActivityRegistry, runs *background.IssueRuns) {
	contract.BeginIssueRun.Handle(w, runs.BeginIssueRun)
	contract.EndIssueRun.Handle(w, runs.EndIssueRun)
}
