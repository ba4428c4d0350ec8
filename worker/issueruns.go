package worker

import (
	"go.temporal.io/sdk/worker"

	"everloop/activities"
	"everloop/activities/contract"
)

// RegisterIssueRuns binds the steps of issue runs to their names.
func RegisterIssueRuns(w worker.ActivityRegistry, runs *activities.IssueRuns) {
	contract.BeginIssueRun.Handle(w, runs.BeginIssueRun)
	contract.EndIssueRun.Handle(w, runs.EndIssueRun)
}
