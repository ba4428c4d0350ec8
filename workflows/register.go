package workflows

import (
	"go.temporal.io/sdk/workflow"

	"everloop/activities/contract"
)

// Registry is where runs are bound to their names: a worker, or what replays
// recorded histories.
type Registry interface {
	RegisterWorkflowWithOptions(w any, options workflow.RegisterOptions)
}

// Register binds every workflow to its name.
func Register(r Registry) {
	for name, run := range map[string]any{
		contract.WorkflowChat:    Chat,
		contract.WorkflowFork:    Fork,
		contract.WorkflowTask:    Task,
		contract.WorkflowCompact: Compact,
		contract.WorkflowReplay:  Replay,
	} {
		r.RegisterWorkflowWithOptions(run, workflow.RegisterOptions{Name: name})
	}
}
