package worker

import (
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"everloop/activities"
	"everloop/activities/contract"
	"everloop/workflows"
)

// RegisterReplays binds the playing of replays to its names.
func RegisterReplays(w worker.Registry, replays *activities.Replays) {
	w.RegisterWorkflowWithOptions(workflows.Replay, workflow.RegisterOptions{Name: contract.WorkflowReplay})
	contract.PlayReplay.Handle(w, replays.PlayReplay)
}
