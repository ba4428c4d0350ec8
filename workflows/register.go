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

// definition is a workflow and what becomes of its runs when a new build of the
// workers takes over (docs/decisions/0010-worker-versions.md).
type definition struct {
	run       any
	versioned workflow.VersioningBehavior
}

// Pinned runs end on the build that they started on. A chat that waits for input is
// moved to the current one (service/work), and whatever continues as new
// begins there.
const pinned = workflow.VersioningBehaviorPinned

// Runs that follow the current build replay there what they have done, at their next
// step: a change of their commands needs workflow.GetVersion.
const follows = workflow.VersioningBehaviorAutoUpgrade

// definitions are all workflows by their names.
var definitions = map[string]definition{
	contract.WorkflowChat:    {Chat, pinned},
	contract.WorkflowTask:    {Task, pinned}, // ends with its command, which runs in a worker of that build
	contract.WorkflowCompact: {Compact, pinned},
	contract.WorkflowArchive: {Archive, pinned},
	contract.WorkflowHistory: {History, pinned},
	contract.WorkflowImport:  {Import, pinned},

	// A scheduled run waits as long as its chat, for weeks if need be.
	contract.WorkflowScheduledRun: {ScheduledRun, follows},

	// A run of a DAG waits for people, for weeks if need be.
	contract.WorkflowDAGRun: {DAGRun, follows},
	// An issue run waits as long as its chats, for weeks if need be.
	contract.WorkflowIssueRun: {IssueRun, follows},

	// A delivery of a trigger takes as long as its target is not reachable.
	contract.WorkflowTrigger: {Trigger, follows},

	// A sub-agent waits with its chat, and nothing that can be searched says so.
	contract.WorkflowFork: {Fork, follows},
	// A replay may be paused, and lasts as long as what it plays.
	contract.WorkflowReplay: {Replay, follows},
	// A deletion is retried until it succeeded.
	contract.WorkflowDeleteSession: {DeleteSession, follows},
}

// Register binds every workflow to its name.
func Register(r Registry) {
	for name, w := range definitions {
		r.RegisterWorkflowWithOptions(w.run, workflow.RegisterOptions{Name: name, VersioningBehavior: w.versioned})
	}
}

// continueAsNew continues in a new run, with the current build also when this run is
// pinned to an older one.
func continueAsNew(ctx workflow.Context, name string, in any) error {
	return workflow.NewContinueAsNewErrorWithOptions(ctx, workflow.ContinueAsNewErrorOptions{
		InitialVersioningBehavior: workflow.ContinueAsNewVersioningBehaviorAutoUpgrade,
	}, name, in)
}
